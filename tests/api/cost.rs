//! The API server's cost of the requests of a life: the bytes that it allocates, by its own counter.
//!
//! The control plane is one of its own. All of it that may use the API server meanwhile is stopped, apart
//! from the store.

use framework_loadtest::namespace::Namespace;
use framework_loadtest::process::Watched;
use framework_loadtest::request_cost;
use framework_loadtest::status_cost::cost;
use framework_testcluster::{Cluster, Component, KUBERNETES_VERSION, Options};

/// The page that has the figures.
const PAGE: &str = include_str!("../../docs/performance.md");
/// The part by which a measurement may differ from its figure.
const TOLERANCE: f64 = 0.1;
/// The same for all other requests of a life. Their figures were taken beside a scheduler and nodes, which
/// watch.
const OTHERS_TOLERANCE: f64 = 0.2;
/// The lives of a round whose other requests are measured.
const LIVES: usize = 60;
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
fn requests_allocate_what_was_measured_for_this_kubernetes() {
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
    let (measured, others) = runtime.block_on(async {
        let namespace = Namespace { client: cluster.client(), name: "default".into() };
        let served = namespace.client.apiserver_version().await.unwrap().git_version;
        if served != KUBERNETES_VERSION {
            println!("not measured: the API server is {served}, and the figures are of {}", version());
            return Default::default();
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
        let mut others = Vec::new();
        for round in 0..ROUNDS {
            let lives = round * LIVES..(round + 1) * LIVES;
            others.push(request_cost::measure(&namespace, &server, lives).await.unwrap());
        }
        (measured, others)
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
    // The API server allocates for itself meanwhile, so a single kind varies by a third in so few requests.
    let mut lives: Vec<f64> =
        others.iter().map(|costs| costs.iter().map(|cost| cost.allocated).sum()).collect();
    lives.sort_unstable_by(f64::total_cmp);
    let first = others.first().into_iter().flatten();
    let figure: f64 = first.map(|cost| other(cost.request)).sum();
    println!("the other requests of a life: {}; the figure is {}", kib(&lives), kib(&[figure]));
    assert!(
        lives.is_empty() || (lives[ROUNDS / 2] / figure - 1.0).abs() <= OTHERS_TOLERANCE,
        "the other requests of a life allocate {}, and docs/performance.md says {}: `cargo xtask bench \
         --request-cost` measures each",
        kib(&lives),
        kib(&[figure])
    );
}

/// The figure of another request: a row of the page.
fn other(request: &str) -> f64 {
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| {request} | "))).unwrap();
    row.split(" | ").nth(1).unwrap().strip_suffix(" KiB").unwrap().parse::<f64>().unwrap() * 1024.0
}

fn kib(bytes: &[f64]) -> String {
    bytes.iter().map(|bytes| format!("{:.0} KiB", bytes / 1024.0)).collect::<Vec<_>>().join(", ")
}
