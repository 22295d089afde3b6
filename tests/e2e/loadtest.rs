//! The load test on a real API server, in small: its counts equal the requests that were sent, and the states
//! that it waits for come.

use std::time::{Duration, Instant};

use framework_loadtest::kills::Kills;
use framework_loadtest::metrics::Metrics;
use framework_loadtest::namespace::Namespace;
use framework_loadtest::process::Watched;
use framework_loadtest::report::{Latency, Level, Run};
use framework_loadtest::run::{Setup, run};
use framework_loadtest::scenario::Scenario;
use framework_loadtest::system::System;
use framework_testcluster::{Component, audit_log};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{self, apply, block_on, installed, log_of, pods};
use crate::lifetime::metrics::probe;

/// Some of everything that a scenario can say.
const ALL: &str = "
description: Some of everything.
groups:
- {name: burst, jobs: 5, taskRoles: [{name: a, taskNumber: 20}]}
- {name: steady, jobs: 6, perSecond: 3, taskRoles: [{name: a, taskNumber: 2, runSeconds: 1}]}
- name: flaky
  jobs: 2
  pods: 8
  taskRoles: [{name: a, taskNumber: 4, exitCode: 1, retries: 1, minFailedTaskCount: -1}]
- {name: failing, jobs: 1, outcome: Failed, taskRoles: [{name: a, taskNumber: 2, exitCode: 3}]}
- name: rescaled
  jobs: 2
  taskRoles: [{name: a, taskNumber: 2, runSeconds: 8}]
  rescale: [{afterSeconds: 3, taskNumber: 4}, {afterSeconds: 5, taskNumber: 1}]
- name: late
  jobs: 3
  deadlineAtSeconds: 8
  outcome: DeadlineExceeded
  taskRoles: [{name: a, taskNumber: 1, runSeconds: 3600}]
- name: expiring
  jobs: 4
  expireAtSeconds: 8
  ttlSecondsAfterFinished: 3600
  outcome: Deleted
  taskRoles: [{name: a, taskNumber: 1}]
levels: {reads: 0, unreconciled: 0}
";

/// A scenario that both others can run, too.
const PLAIN: &str = "
description: What every system can do.
groups:
- {name: plain, jobs: 3, taskRoles: [{name: a, taskNumber: 5}]}
levels: {refused: 0}
";

/// The scenario of queue-cohorts.yaml, in small: two cohorts, and as much work as takes them seven seconds.
const QUEUES: &str = "
description: Units of three sizes that wait for each other.
queue: {namespaces: 2, queues: 3, quota: {cpu: 60}}
groups:
- {name: small, jobs: 210, perSecond: 60, unit: {resource: {cpu: 1}, priority: 50, runSeconds: 0.2}}
- {name: medium, jobs: 60, perSecond: 12, unit: {resource: {cpu: 5}, priority: 100, runSeconds: 0.5}}
- {name: large, jobs: 30, perSecond: 10, unit: {resource: {cpu: 20}, priority: 200, runSeconds: 1}}
timeoutSeconds: 60
levels: {releasesPerSecond: 5, overAdmitted: 0, requestsPerUnit: 3, reads: 0, unreconciled: 0}
";

/// The setup of a run in a namespace of that name. `controller` is the log of the one that serves metrics.
fn setup(system: System, name: &str, text: &str, controller: Option<&str>) -> Setup {
    let cluster = installed();
    let agent = match system {
        System::Floor => framework_loadtest::system::FLOOR_AGENT,
        System::Framework | System::Job | System::Queue => "loadtest",
    };
    // A client of its own, with the user agent of the program: requests are counted by user agent.
    let kubeconfig = framework_access::Directions {
        kubeconfig_file: Some(cluster.kubeconfig_path().to_owned()),
        ..Default::default()
    };
    let config = block_on(framework_access::find(&kubeconfig)).expect("the kubeconfig is good");
    let client = block_on(async { framework_access::client::connect(config, &format!("{agent}/1")) });
    Setup {
        scenario: Scenario::parse(text).expect("a scenario"),
        system,
        name: system.name().into(),
        profile: "test".into(),
        namespace: Namespace { client: client.expect("a client"), name: name.into() },
        audit_log: Some(audit_log(cluster.dir())),
        metrics: controller.map(metrics),
        processes: vec![Watched {
            name: "kube-apiserver".into(),
            pid: cluster.pid(Component::Apiserver).expect("it runs"),
        }],
        kills: None,
        promises: [System::Framework, System::Queue].contains(&system),
        remove_leftovers: false,
        cleanup: true,
    }
}

/// The metrics of the controller that logs under that name, once it says where they are.
fn metrics(name: &str) -> Metrics {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let log = log_of(name);
        let line = log.lines().find(|line| line.contains("serving metrics"));
        if let Some(rest) = line.and_then(|line| line.split("address=").nth(1)) {
            let address = rest.split_whitespace().next().unwrap_or_default();
            let url = format!("http://{address}").parse().expect("a URL");
            return block_on(async { Metrics::of(&[url], None) }).expect("a client");
        }
        assert!(Instant::now() < deadline, "the controller serves no metrics\n{log}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a controller has listed all its kinds: its LISTs are no requests of a run.
fn await_ready(controller: &str) {
    cluster::until("the controller has listed all its kinds", || {
        probe(controller, "/readyz").starts_with("HTTP/1.1 200").then_some(())
    });
}

fn level<'a>(run: &'a Run, name: &str) -> &'a Level {
    run.levels
        .iter()
        .find(|level| level.name == name)
        .unwrap_or_else(|| panic!("no level {name}: {:?}", run.levels))
}

#[test]
fn a_run_counts_the_requests_and_every_job_ends_as_planned() {
    let alone = Alone::wait();
    let _controller = alone.start("counted", "");
    await_ready("counted");
    let all = setup(System::Framework, "loadtest", ALL, Some("counted"));
    let done = block_on(run(&all, std::future::pending())).expect("it runs");
    for level in &done.levels {
        println!("{} {}: {:?}", level.name, level.bound, level.measured);
    }
    assert_eq!(done.given_up, None);
    for name in ["jobs Succeeded", "jobs Failed", "jobs DeadlineExceeded", "jobs Deleted", "unreconciled"] {
        assert!(level(&done, name).met, "{:?}", level(&done, name));
    }
    // A rescale may meet a write of the status, which is refused then, and the Framework is read.
    assert!(done.requests.reads <= done.requests.refused, "{:?}", done.requests.rows);
    assert_eq!(done.totals.jobs, 23);
    let late: Vec<&str> = done.latencies.iter().map(|latency| latency.transition.as_str()).collect();
    for transition in [
        "creation → completed",
        "deadline → exceeded",
        "expiry → deletion",
        "Pod stored → taken up",
        "Pod taken up → last report",
    ] {
        assert!(late.contains(&transition), "{transition} is not among {late:?}");
    }
    let completed = done.latencies.iter().filter(|latency| latency.transition == "creation → completed");
    assert_eq!(completed.map(|latency| latency.count).sum::<usize>(), 23);
    // By the API server's clock, which is this machine's: nothing is acted on early.
    let acted =
        |latency: &&Latency| ["deadline → exceeded", "expiry → deletion"].contains(&&*latency.transition);
    assert!(done.latencies.iter().filter(acted).all(|latency| latency.p50 >= 0.0));
    assert!(done.used.processes[0].cpu_seconds > 0.0 && done.bytes.status_writes > Some(10_000));
    for plot in ["jobs", "latency", "requests", "processors", "memory"] {
        assert!(done.series.iter().any(|series| series.plot == plot), "nothing to plot of {plot}");
    }
    // Removed with its namespace; a next run finds nothing left over.
    assert_eq!(block_on(all.namespace.left(None)).expect("they are listed"), 0);
}

#[test]
fn units_are_released_within_the_quota_with_two_writes_each() {
    let alone = Alone::wait();
    let _controller = alone.start("queues", "queueing: true");
    await_ready("queues");
    let setup = setup(System::Queue, "loadtest-queue", QUEUES, Some("queues"));
    let done = block_on(run(&setup, std::future::pending())).expect("it runs");
    println!("{:?} {:?} {:?}", done.queue, done.requests, done.latencies);
    assert_eq!(done.given_up, None);
    for level in &done.levels {
        assert!(level.met, "{level:?}: {:?}", done.requests.rows);
    }
    let queue = done.queue.expect("units were released");
    assert_eq!((queue.releases, queue.over_admitted), (300, Some(0)));
    let dequeued = |latency: &&Latency| latency.transition == "Enqueued → Dequeued";
    let waited = done.latencies.iter().filter(dequeued).map(|latency| latency.max);
    assert!(waited.fold(0.0, f64::max) > 0.5, "the quota was never full, so nothing is known of it");
    assert_eq!(block_on(setup.namespace.queues_left()).expect("they are listed"), 0);
}

#[test]
fn a_job_and_the_floor_client_do_the_same_work() {
    // No controller: it would do the same work beside the floor client.
    let _alone = Alone::wait();
    let floor = setup(System::Floor, "loadtest-floor", PLAIN, None);
    let done = block_on(run(&floor, std::future::pending())).expect("it runs");
    assert_eq!(done.requests.own, 3 * (2 * 5 + 11), "{:?}", done.requests.rows);
    assert_eq!((done.requests.write_efficiency, done.requests.refused), (Some(1.0), 0));
    assert!(level(&done, "jobs Succeeded").met, "{:?}", done.totals);

    let batch = setup(System::Job, "loadtest-job", PLAIN, None);
    let done = block_on(run(&batch, std::future::pending())).expect("it runs");
    assert!(level(&done, "jobs Succeeded").met, "{:?}", done.totals);
    assert_eq!(done.totals.pods, 15);
    assert!(done.requests.own >= 15, "{:?}", done.requests.rows);
}

#[test]
fn the_oldest_replica_is_killed_at_its_turn_and_the_last_one_never() {
    let alone = Alone::wait();
    let _controller = alone.start("killed", "");
    let ns = namespace("loadtest-replicas");
    let text = PLAIN.replace("taskNumber: 5", "taskNumber: 1, runSeconds: 6");
    let mut setup = setup(System::Framework, "loadtest-kills", &text, None);
    setup.kills = Some(Kills { pods: pods(&ns), every: Duration::from_secs(1) });
    let few = block_on(run(&setup, std::future::pending())).expect_err("nobody takes over");
    assert!(few.to_string().contains("replicaKills: 0 Pods"), "{few:#}");
    // The Pods of two replicas, which no node runs, and of something else.
    for (name, app) in [("another", "another"), ("a", "frameworkcontroller"), ("b", "frameworkcontroller")] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": app}},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "schedulingGates": [{"name": "example.com/not-scheduled"}],
            },
        });
        apply(&ns, &pod.to_string());
    }
    let done = block_on(run(&setup, std::future::pending())).expect("it runs");
    assert!(level(&done, "jobs Succeeded").met, "{:?}", done.totals);
    let killed: Vec<&str> = done.totals.kills.iter().map(|kill| kill.replica.as_str()).collect();
    assert_eq!(killed, ["a"]);
    assert!(done.totals.kills[0].at_seconds >= 1.0, "{:?}", done.totals.kills);
    let left = block_on(pods(&ns).list(&ListParams::default())).expect("they are listed");
    assert_eq!(left.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["another", "b"]);
}

#[test]
fn an_interrupted_run_reports_its_results_and_leaves_nothing() {
    let alone = Alone::wait();
    let _controller = alone.start("interrupted", "");
    let text = PLAIN.replace("taskNumber: 5", "taskNumber: 1, runSeconds: 3600");
    let setup = setup(System::Framework, "loadtest-interrupted", &text, Some("interrupted"));
    // Once all run, which they go on to do for an hour.
    let soon = async {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        let pods = cluster::pods("loadtest-interrupted");
        while pods.list(&ListParams::default()).await.map_or(0, |list| list.items.len()) < 3 {
            assert!(tokio::time::Instant::now() < deadline, "no Pods");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let done = block_on(run(&setup, soon)).expect("it reports");
    assert_eq!(done.given_up.as_deref(), Some("interrupted"));
    assert_eq!(done.totals.outcomes.get("Unfinished"), Some(&3));
    assert!(!level(&done, "jobs Succeeded").met);
    assert_eq!(block_on(setup.namespace.left(None)).expect("they are listed"), 0);
}
