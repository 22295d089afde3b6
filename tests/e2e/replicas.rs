//! Several replicas share the Frameworks: one that ends, by a signal or a crash, is replaced by the others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use serde_json::Value;

use crate::cluster::history::Recording;
use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{
    self, PATIENCE, block_on, client, completed, installed, kubectl, log_of, manifest, program,
};

const SHARING: &str = "sharding: true\nleaseDurationSec: 5\nleaseRenewIntervalSec: 1";
const FRAMEWORKS: usize = 24;

/// The rights of the replicas in the namespace of their kubeconfig.
fn grant_rights() {
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/base/role.yaml");
    kubectl(&["apply", "--server-side", "--namespace", "default", "-f", deploy]);
    let bind =
        "create rolebinding test-controller --role frameworkcontroller --user controller --namespace default";
    let bind: Vec<&str> = bind.split(' ').collect();
    if let Err(error) = installed().kubectl(&bind) {
        panic!("{error}");
    }
}

/// Removes Leases and map of an earlier test: its replicas have ended.
fn clear() {
    kubectl(&[
        "delete",
        "leases",
        "--namespace",
        "default",
        "--selector",
        "frameworkcontroller.microsoft.com/lease",
    ]);
    kubectl(&[
        "delete",
        "configmap",
        "frameworkcontroller-slots",
        "--namespace",
        "default",
        "--ignore-not-found",
    ]);
}

/// Starts a replica on a host of that name.
fn replica(name: &'static str) -> u32 {
    let named = [format!("HOSTNAME={name}"), format!("POD_UID=pod-of-{name}")];
    let first = [&named[..], &[program().display().to_string()]].concat();
    cluster::start_program_with(name, Path::new("/usr/bin/env"), &first, SHARING)
}

/// How many slots each replica owns, by the map.
fn shares() -> BTreeMap<String, usize> {
    let maps: Api<ConfigMap> = Api::namespaced(client(), "default");
    let map = block_on(maps.get_opt("frameworkcontroller-slots")).expect("the API server answers");
    let mut shares = BTreeMap::new();
    for row in map.and_then(|map| map.data).unwrap_or_default().values() {
        let row: Value = serde_json::from_str(row).expect("a row is JSON");
        if let Some(owner) = row["owner"].as_str() {
            let host = owner.split('/').next().unwrap_or_default();
            *shares.entry(host.trim_start_matches("frameworkcontroller-member-").to_owned()).or_default() +=
                1;
        }
    }
    shares
}

/// Waits until exactly these replicas have shares.
fn await_shares(of: &[&str]) -> Duration {
    let begun = Instant::now();
    let deadline = begun + PATIENCE;
    let wanted: BTreeSet<&str> = of.iter().copied().collect();
    loop {
        let shares = shares();
        let total: usize = shares.values().sum();
        if total == 256 && shares.keys().map(String::as_str).collect::<BTreeSet<_>>() == wanted {
            let even = 256 / of.len();
            assert!(shares.values().all(|share| share.abs_diff(even) <= even / 10), "{shares:?}");
            return begun.elapsed();
        }
        let logs: Vec<String> = of.iter().map(|name| log_of(name)).collect();
        assert!(Instant::now() < deadline, "{shares:?} are not of {of:?}\n{}", logs.join("\n---\n"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn name(index: usize) -> String {
    format!("job{index:02}")
}

/// Frameworks of three Tasks that run for some seconds, some of which fail once.
fn create(namespace: &str) {
    for index in 0..FRAMEWORKS {
        let fate = [("run-duration", "6s"), ("exit-code", "200"), ("only-task-attempt", "0")];
        let fate = if index % 3 == 0 { &fate[..] } else { &fate[..1] };
        manifest(&name(index)).role("worker", 3, fate).task_retry(true, 0).create(namespace);
    }
}

/// Runs the Frameworks to their ends, with a disturbance once they run.
fn run(namespace: &str, disturb: impl FnOnce()) {
    let recording = Recording::start(namespace);
    create(namespace);
    for index in 0..FRAMEWORKS {
        cluster::running(namespace, &name(index), 3);
    }
    disturb();
    for index in 0..FRAMEWORKS {
        completed(namespace, &name(index));
    }
    recording.end().assert_promises_are_kept();
}

#[test]
fn replicas_that_come_and_go_lose_nothing_and_run_nothing_twice() {
    let _alone = Alone::wait();
    grant_rights();
    let a = replica("a");
    await_shares(&["a"]);
    let ns = namespace("replicas");
    // One replica alone gives Frameworks no label; with the second one they get it, while they run.
    run(&ns, || {
        replica("b");
        let waited = await_shares(&["a", "b"]);
        println!("a second replica had its share after {waited:?}");
    });
    let ns = namespace("replicas-crash");
    run(&ns, || {
        installed().kill_hosted(a).expect("it runs");
        let waited = await_shares(&["b"]);
        println!("a replica that was killed had lost its slots after {waited:?}");
    });
    let c = replica("c");
    await_shares(&["b", "c"]);
    let ns = namespace("replicas-stop");
    run(&ns, || {
        let stopped = Instant::now();
        let status = installed().terminate_hosted(c, Duration::from_secs(45)).expect("it ends");
        assert!(status.success(), "{status}\n{}", log_of("c"));
        println!("a replica that was stopped had handed over after {:?}", stopped.elapsed());
        await_shares(&["b"]);
    });
    clear();
}
