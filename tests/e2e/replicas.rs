//! Several replicas share the Frameworks: one that ends, by a signal or a crash, is replaced by the others.

use std::time::{Duration, Instant};

use framework_api::name;
use framework_sim::check::queue::{self as promises, Blind};
use serde_json::{Value, json};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::recording::Recording;
use crate::cluster::replicas::Replicas;
use crate::cluster::{self, apply, client, completed, kubectl, log_of, manifest};
use crate::lifetime::metrics;
use crate::queue::{QUEUEING, furnish};

const FRAMEWORKS: usize = 24;

fn name(index: usize) -> String {
    format!("job{index:02}")
}

/// The answer of a replica at `/debug/shards`.
fn shards(name: &str) -> Value {
    let reply = metrics::read(name, "/debug/shards");
    let body = reply.split_once("\r\n\r\n").map(|(_, body)| body).expect("a body");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {reply}"))
}

/// Frameworks of three Tasks, some of which fail once.
fn create(namespace: &str) {
    for index in 0..FRAMEWORKS {
        let fate = [("run-duration", "15s"), ("exit-code", "200"), ("only-task-attempt", "0")];
        let fate = if index % 3 == 0 { &fate[..] } else { &fate[..1] };
        manifest(&name(index)).role("worker", 3, fate).task_retry(true, 0).create(namespace);
    }
}

/// Runs the Frameworks to their ends, with a disturbance once the last of them runs. On a busy machine the
/// first may have ended by then.
fn run(namespace: &str, disturb: impl FnOnce() -> Duration) -> Duration {
    let recording = Recording::start(namespace);
    create(namespace);
    for index in 0..FRAMEWORKS {
        cluster::wait(namespace, &name(index), "running, or over", |framework| {
            let counts = framework.status.as_ref().and_then(|status| status.task_counts);
            counts.is_some_and(|counts| counts.total == 3 && counts.pending == 0)
        });
    }
    let took = disturb();
    for index in 0..FRAMEWORKS {
        completed(namespace, &name(index));
    }
    recording.end().assert_promises_are_kept();
    took
}

/// Waits until an Event of the leader's Lease says so.
fn await_event(reason: &str, words: &str) {
    cluster::until(words, || {
        let described =
            kubectl(&["describe", "lease", "frameworkcontroller-leader", "--namespace", "default"]);
        (described.contains(reason) && described.contains(words)).then_some(())
    });
}

/// The sum of the series of a metric, over its labels.
fn sum_of(metrics: &str, name: &str) -> f64 {
    let of_name = |line: &&str| line.split(['{', ' ']).next() == Some(&format!("frameworkcontroller_{name}"));
    let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
    metrics.lines().filter(of_name).filter_map(value).sum()
}

#[test]
fn replicas_that_come_and_go_lose_nothing_and_run_nothing_twice() {
    let _alone = Alone::wait();
    let mut replicas = Replicas::none();
    replicas.start("a", "");
    replicas.await_shares();
    let ns = namespace("replicas");
    // One replica alone gives Frameworks no label; with the second one they get it, while they run.
    let took = run(&ns, || {
        replicas.start("b", "");
        replicas.await_shares()
    });
    println!("a second replica had its share after {took:?}");
    let [a, b] = cluster::until("both have the same view of leader and map", || {
        let [a, b] = ["a", "b"].map(shards);
        let is_same = (&b["leader"], &b["map"]["version"]) == (&a["leader"], &a["map"]["version"]);
        is_same.then_some([a, b])
    });
    assert_eq!(a["leader"].as_str(), a["incarnation"].as_str().filter(|_| a["isLeader"] == true), "{a:#}");
    assert_eq!(held(&a) + held(&b), 256, "{a:#}\n{b:#}");
    let metrics = metrics::scrape("b");
    for line in ["leader_info{member=\"frameworkcontroller-member-a\"} 1", "lease_writes_total{lease=\"own\""]
    {
        assert!(metrics.contains(&format!("frameworkcontroller_{line}")), "{line} is not in\n{metrics}");
    }
    let metrics = metrics::scrape("a");
    for name in
        ["slots", "slot_epoch", "slots_moved_total", "slot_changes_total", "handover_duration_seconds_count"]
    {
        assert!(sum_of(&metrics, name) > 0.0, "{name} is not in\n{metrics}");
    }
    assert!(metrics.contains("frameworkcontroller_leader 1"), "{metrics}");
    let ns = namespace("replicas-crash");
    let took = run(&ns, || {
        replicas.kill("a");
        replicas.forget("a");
        replicas.await_shares()
    });
    println!("a replica that was killed had lost its slots after {took:?}");
    let [a, b, c] = ["a", "b", "c"].map(|host| format!("frameworkcontroller-member-{host}"));
    await_event("SlotsMoved", &format!("slots of {a} went to {b}, which waits for requests"));
    for leader in [&a, &b] {
        await_event("LeaderElection", &format!("{leader} became leader"));
    }
    replicas.start("c", "");
    replicas.await_shares();
    // The same replica, the same Lease and the same reason, a moment later.
    await_event("SlotsMoved", &format!("slots of {b} went to {c}"));
    let ns = namespace("replicas-stop");
    let took = run(&ns, || {
        let begun = Instant::now();
        let status = replicas.stop("c");
        assert!(status.success(), "{status}\n{}", log_of("c"));
        let took = begun.elapsed();
        let lease = ["get", "lease", "frameworkcontroller-member-c", "--namespace", "default"];
        let holder = kubectl(&[&lease[..], &["-o", "jsonpath={.spec.holderIdentity}"]].concat());
        assert_eq!(holder, "", "its Lease is empty before it exits");
        replicas.await_shares();
        took
    });
    println!("a replica that was stopped had handed over after {took:?}");
}

#[test]
fn leases_without_their_labels_are_taken_over_all_the_same() {
    let _alone = Alone::wait();
    let mut replicas = Replicas::none();
    replicas.start("a", "");
    replicas.await_shares();
    replicas.start("b", "");
    replicas.await_shares();
    let ns = namespace("replicas-unlabelled");
    run(&ns, || {
        replicas.kill("a");
        replicas.forget("a");
        for lease in ["frameworkcontroller-leader", "frameworkcontroller-member-a"] {
            let label = "frameworkcontroller.microsoft.com/lease-";
            kubectl(&["label", "lease", lease, label, "--namespace", "default"]);
        }
        replicas.start("c", "");
        replicas.await_shares()
    });
}

/// A time that the API server stores, and that the types of most clients cannot hold.
const FAR: &str = "9999-12-31T23:59:59Z";

#[test]
fn times_that_no_type_can_hold_keep_no_framework_and_no_replica_out() {
    let _alone = Alone::wait();
    let ns = namespace("replicas-odd");
    manifest("odd").role("worker", 1, &[]).create(&ns);
    let managed = json!([{
        "manager": "m", "operation": "Update", "apiVersion": name::API_VERSION, "fieldsType": "FieldsV1",
        "time": FAR, "fieldsV1": {"f:spec": {}},
    }]);
    let patch = json!({"metadata": {"managedFields": managed}}).to_string();
    kubectl(&["patch", "fw", "odd", "--namespace", &ns, "--type=merge", "--patch", &patch]);
    let stored = kubectl(&["get", "fw", "odd", "--namespace", &ns, "-o", "yaml", "--show-managed-fields"]);
    assert!(stored.contains(FAR), "{stored}");
    let labels = json!({"frameworkcontroller.microsoft.com/lease": "true"});
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "frameworkcontroller-member-odd", "labels": labels},
        "spec": {"renewTime": "9999-12-31T23:59:59.999999Z"},
    });
    apply("default", &lease.to_string());
    let mut replicas = Replicas::none();
    replicas.start("a", "");
    replicas.start("b", "");
    replicas.await_shares();
    manifest("good").role("worker", 1, &[("exit-code", "0")]).create(&ns);
    completed(&ns, "good");
    // Both replicas are new, so that their slots wait for no label.
    for framework in ["odd", "good"] {
        cluster::until(&format!("{framework} has the label of its slot"), || {
            let labels =
                kubectl(&["get", "fw", framework, "--namespace", &ns, "-o", "jsonpath={.metadata.labels}"]);
            labels.contains(name::SLOT_LABEL).then_some(())
        });
    }
    // The types of the test cannot hold it either.
    kubectl(&["wait", "--for=condition=Running", "fw/odd", "--namespace", &ns, "--timeout=60s"]);
}

/// How many slots a replica acts for, by its own view.
fn held(view: &Value) -> u64 {
    let rows = view["slots"].as_array().expect("rows").iter();
    rows.filter(|row| row["phase"] == "Held").filter_map(|row| row["count"].as_u64()).sum()
}

#[test]
fn two_replicas_of_one_name_take_turns_and_run_nothing_twice() {
    let _alone = Alone::wait();
    let mut replicas = Replicas::none();
    replicas.start("twin", "");
    replicas.await_shares();
    let first = shards("twin")["incarnation"].clone();
    let ns = namespace("replicas-twins");
    let took = run(&ns, || {
        replicas.start_on("other-twin", "twin", "");
        let second = cluster::until("the second one sees whose Lease it is", || {
            let view = shards("other-twin");
            let holders = view["leases"].as_array()?.iter().map(|lease| &lease["holder"]);
            holders.into_iter().any(|holder| *holder == first).then_some(view)
        });
        assert_eq!((held(&second), held(&shards("twin"))), (0, 256), "the second one waits: {second:#}");
        let ready = metrics::probe("other-twin", "/readyz");
        assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("not listed yet: frameworks"), "{ready}");
        assert!(metrics::probe("other-twin", "/livez").starts_with("HTTP/1.1 200"));
        let begun = Instant::now();
        replicas.freeze("twin");
        cluster::until("the second one takes over", || (held(&shards("other-twin")) == 256).then_some(()));
        let took = begun.elapsed();
        cluster::until("a replica that has its share is ready", || {
            metrics::probe("other-twin", "/readyz").starts_with("HTTP/1.1 200").then_some(())
        });
        replicas.thaw("twin");
        cluster::until("the first one begins another life", || {
            (shards("twin")["incarnation"] != first).then_some(())
        });
        took
    });
    println!("a replica took over from a frozen one of its name after {took:?}");
    let [first, second] = ["twin", "other-twin"].map(shards);
    assert_eq!((held(&first), held(&second)), (0, 256), "now the first one waits: {first:#}");
}

/// Namespaces with a queue each: with so many, every replica schedules some of them.
const SPACES: [&str; 6] = ["shared-a", "shared-b", "shared-c", "shared-d", "shared-e", "shared-f"];
/// Frameworks in each queue, of three Pods each, and the Pods that may run there at a time.
const GANGS: usize = 4;
const ROOM: u32 = 6;

#[test]
fn replicas_that_share_queues_release_no_more_than_there_is() {
    let _alone = Alone::wait();
    SPACES.iter().for_each(|space| furnish(space, ROOM));
    let recordings = SPACES.map(|space| Recording::start_with_queues(client(), space));
    let mut replicas = Replicas::none();
    replicas.start("a", QUEUEING);
    replicas.start("b", QUEUEING);
    replicas.await_shares();
    for (space, index) in SPACES.iter().flat_map(|space| (0..GANGS).map(move |index| (space, index))) {
        let gang = manifest(&name(index)).role("worker", 3, &[("run-duration", "4s")]);
        gang.queue("q").create(space);
    }
    completed(SPACES[0], &name(0));
    // One ends in the middle, another one comes, and the last of the first two is killed.
    assert!(replicas.stop("b").success(), "{}", log_of("b"));
    replicas.start("c", QUEUEING);
    replicas.await_shares();
    replicas.kill("a");
    replicas.forget("a");
    for space in SPACES {
        for index in 0..GANGS {
            completed(space, &name(index));
        }
    }
    for (space, recording) in SPACES.iter().zip(recordings) {
        let history = recording.end().recorded;
        let counts = promises::count(&history);
        println!("{space}: {} changes, {} releases", history.changes.len(), counts.releases);
        assert_eq!(counts.releases, GANGS, "in {space}");
        assert_eq!(promises::check(&history, Blind::default()), Ok(()), "in {space}");
        assert_eq!(promises::at_quiescence(&history), Ok(()), "in {space}");
    }
}
