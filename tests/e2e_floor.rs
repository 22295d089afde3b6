//! What one Framework costs the API server, by its audit log, beside the least that its life takes.
//!
//! An attempt of n Tasks takes POST and DELETE of each Pod and of the ConfigMap, and nine status writes: 2n +
//! 11 requests. Retries, ends before the end and rescales each have a floor of their own; the table says why.

mod stand;

use std::collections::BTreeMap;

use framework_api::State;
use framework_testcluster::audit::Record;
use stand::{Manifest, completed, execute, manifest, namespace, running, stand, state, task_number, wait};

const TASKS: u32 = 20;
/// Two seconds apart, so that starting and ending do not mix.
const SHORT: [(&str, &str); 2] = [("exit-code", "0"), ("run-duration", "2s")];

/// A life, and the least that it takes.
struct Life {
    name: &'static str,
    /// Pods that are created, and deleted.
    pods: usize,
    /// Status writes.
    writes: usize,
    /// What the writes are for.
    why: &'static str,
    manifest: fn(Manifest) -> Manifest,
    /// What a user does meanwhile.
    wish: fn(&str, &str),
}

const LIVES: [Life; 5] = [
    Life {
        name: "undisturbed",
        pods: 20,
        writes: 9,
        why: "pending; ConfigMap; Pods; running; ended; Pods gone; attempt ends; attempt over; completed",
        manifest: |job| job.role("a", TASKS, &SHORT),
        wish: |_, _| {},
    },
    Life {
        name: "retry",
        pods: 21,
        writes: 13,
        why: "as undisturbed; and for the retry: ended; Pod gone; pending again; running again",
        manifest: |job| {
            let once = [
                ("exit-code", "1"),
                ("run-duration", "2s"),
                ("only-task-index", "0"),
                ("only-task-attempt", "0"),
            ];
            job.role("a", TASKS, &once).task_retry(false, 1)
        },
        wish: |_, _| {},
    },
    Life {
        name: "stop",
        pods: 20,
        writes: 7,
        why: "pending; ConfigMap; Pods; running; stopped; attempt completed; completed",
        manifest: |job| job.role("a", TASKS, &[("run-duration", "forever")]),
        wish: |ns, name| {
            running(ns, name, 20);
            execute(ns, name, "Stop");
        },
    },
    Life {
        name: "early completion",
        pods: 20,
        writes: 9,
        why: "pending; ConfigMap; Pods; running; one ended; Pod gone; attempt ends; attempt over; completed",
        manifest: |job| {
            let first = [("exit-code", "1"), ("run-duration", "2s"), ("only-task-index", "0")];
            job.role("a", 1, &first).role("b", TASKS - 1, &[("run-duration", "forever")])
        },
        wish: |_, _| {},
    },
    Life {
        name: "rescale 10 to 20 to 5",
        pods: 20,
        writes: 14,
        why: "as undisturbed; pending, Pods, running of the added; deletion pending and gone of the removed",
        manifest: |job| job.role("a", 10, &[("exit-code", "0"), ("run-duration", "20s")]),
        wish: |ns, name| {
            running(ns, name, 10);
            task_number(ns, name, 20);
            running(ns, name, 20);
            task_number(ns, name, 5);
        },
    },
];

/// The controller's requests that concern the objects of one namespace, Events aside.
fn requests(records: &[Record], namespace: &str) -> Vec<Record> {
    let ours = |record: &&Record| {
        record.namespace == namespace
            && record.user_agent.starts_with("frameworkcontroller/")
            && ["frameworks", "configmaps", "pods"].contains(&record.resource.as_str())
    };
    records.iter().filter(ours).cloned().collect()
}

/// How often each kind of request was sent, such as `update frameworks/status`.
fn counts(requests: &[Record]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for record in requests {
        let slash = if record.subresource.is_empty() { "" } else { "/" };
        let what = format!("{} {}{slash}{}", record.verb, record.resource, record.subresource);
        *counts.entry(what).or_default() += 1;
    }
    counts
}

#[test]
fn every_kind_of_life_takes_little_more_than_its_floor() {
    let cluster = stand();
    println!(
        "| life of 20 Tasks | floor | its writes | requests | status writes | efficiency | what is written |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (number, life) in LIVES.iter().enumerate() {
        let ns = namespace(&format!("floor{number}"));
        let mark = cluster.audit().mark().expect("the log is there");
        (life.manifest)(manifest("job")).create(&ns);
        (life.wish)(&ns, "job");
        completed(&ns, "job");
        wait(&ns, "job", "at rest", |framework| state(framework) == Some(State::Completed));
        let records = cluster.audit().since(mark).expect("the log is there");
        let requests = requests(&records, &ns);
        let counts = counts(&requests);
        let count = |what: &str| counts.get(what).copied().unwrap_or(0);
        let (floor, writes) = (2 * life.pods + 2 + life.writes, count("update frameworks/status"));
        let efficiency = floor as f64 / requests.len() as f64;
        println!(
            "| {} | {floor} | {} | {} | {writes} | {efficiency:.2} | {} |",
            life.name,
            life.writes,
            requests.len(),
            life.why
        );

        assert_eq!((count("create pods"), count("delete pods")), (life.pods, life.pods), "{}", life.name);
        assert_eq!((count("create configmaps"), count("delete configmaps")), (1, 1), "{}", life.name);
        assert_eq!(requests.len(), 2 * life.pods + 2 + writes, "nothing else is asked for: {counts:?}");
        let refused: Vec<_> = requests.iter().filter(|record| record.code >= 400).collect();
        assert!(refused.is_empty(), "{}: an undisturbed run has no refused request: {refused:?}", life.name);
        // A busy machine starts and ends Pods one after another; a write for each of them would be too many.
        assert!(efficiency >= 0.7, "{}: {writes} status writes: {counts:?}", life.name);
    }
}
