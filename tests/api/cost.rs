//! The API server's cost of a status write: the bytes that it allocates, by its own counter.
//!
//! The control plane is one of its own. All of it that may use the API server meanwhile is stopped, apart
//! from the store.

use framework_loadtest::namespace::Namespace;
use framework_loadtest::process::Watched;
use framework_loadtest::status_cost::cost;
use framework_testcluster::{Cluster, Component, KUBERNETES_VERSION, Options};

/// The page that has the figures.
const PAGE: &str = include_str!("../../docs/performance.md");
/// The part by which a measurement may differ from its figure.
const TOLERANCE: f64 = 0.1;
/// Writes of a round, and rounds: the one in the middle counts.
const WRITES: usize = 150;
const ROUNDS: usize = 3;

/// The figure of a raw status of so many Tasks: a row of the page.
fn figure(tasks: usize) -> f64 {
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| {tasks} | raw | "))).unwrap();
    row.split_once(" KiB").unwrap().0.replace(',', "").parse::<f64>().unwrap() * 1024.0
}

/// The version of Kubernetes that the figures belong to.
fn version() -> &'static str {
    let (_, after) = PAGE.split_once("The figures belong to").unwrap();
    after.split_whitespace().nth(1).unwrap().trim_end_matches('.')
}

#[test]
fn a_status_write_allocates_what_was_measured_for_this_kubernetes() {
    let cluster =
        Cluster::start(Options { nodes: 0, audit_bodies: false, kubectl: false, ..Options::default() });
    let cluster = cluster.unwrap();
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/crds");
    cluster.install(crds.as_ref()).unwrap();
    for component in [Component::ControllerManager, Component::Scheduler, Component::Kwok] {
        cluster.stop(component).unwrap();
    }
    let server = Watched { name: "the API server".into(), pid: cluster.pid(Component::Apiserver).unwrap() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let measured = runtime.block_on(async {
        let namespace = Namespace { client: cluster.client(), name: "default".into() };
        let served = namespace.client.apiserver_version().await.unwrap().git_version;
        if served != KUBERNETES_VERSION {
            println!("not measured: the API server is {served}, and the figures are of {}", version());
            return Vec::new();
        }
        namespace.served().await.unwrap();
        let mut measured = Vec::new();
        for tasks in [1, 20] {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                rounds.push(cost(&namespace, &server, tasks, false, WRITES).await.unwrap().allocated);
            }
            rounds.sort_unstable_by(f64::total_cmp);
            measured.push((tasks, rounds));
        }
        measured
    });
    assert_eq!(version(), KUBERNETES_VERSION, "measure again for the other version");
    for (tasks, rounds) in &measured {
        println!("{tasks} Tasks: {}; the figure is {}", kib(rounds), kib(&[figure(*tasks)]));
    }
    for (tasks, rounds) in &measured {
        let figure = figure(*tasks);
        assert!(
            (rounds[ROUNDS / 2] / figure - 1.0).abs() <= TOLERANCE,
            "a status write of {tasks} Tasks allocates {}, and docs/performance.md says {}: `cargo xtask bench \
             --crd-cost` shows the cost of each part of the schema",
            kib(rounds),
            kib(&[figure])
        );
    }
}

fn kib(bytes: &[f64]) -> String {
    bytes.iter().map(|bytes| format!("{:.0} KiB", bytes / 1024.0)).collect::<Vec<_>>().join(", ")
}
