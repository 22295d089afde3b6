//! The API server's cost of one Framework, by its audit log, beside the least that its life takes.
//!
//! An attempt of n Tasks takes POST and DELETE of each Pod and of the ConfigMap. It also takes nine status
//! writes if each state is stored by itself: 2n + 11 requests. The first of them announces the ConfigMap, and
//! only a queue needs it. Retries, ends before the end and rescales each have a floor of their own; the table
//! says why.
//!
//! A life without a retry passes AttemptCompleted, so that its efficiency is above 1 on a machine that has
//! nothing else to do. One that comes through a queue takes four more requests: its unit is made, put into
//! the queue and released, and loses its finalizer once the Framework is deleted.

use std::collections::BTreeMap;

use framework_api::State;
use framework_api::queue::{QUEUE_NAME_LABEL, QueueUnit};
use framework_testcluster::audit::{Mark, Record};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, PostParams};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{
    Manifest, TEST, apply, block_on, client, completed, execute, frameworks, installed, kubectl, manifest,
    running, state, task_number, until, wait,
};
use crate::life_requests::{Measured, assert_as_written};

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
    /// The purpose of the writes.
    why: &'static str,
    manifest: fn(Manifest) -> Manifest,
    /// Whether it comes through a queue.
    queued: bool,
    /// The user's action meanwhile.
    action: fn(&str, &str),
}

/// The requests of coming through a queue: POST of the unit, Enqueued, Dequeued, and the finalizer.
const QUEUEING: usize = 4;
/// Events of a Framework that succeeds: that it was released from its queue, and that it succeeded.
const EVENTS: usize = 2;

const LIVES: [Life; 8] = [
    Life {
        name: "one Task",
        pods: 1,
        writes: 8,
        why: "as undisturbed",
        manifest: |job| job.role("a", 1, &SHORT),
        queued: false,
        action: |_, _| {},
    },
    Life {
        name: "undisturbed",
        pods: 20,
        writes: 8,
        why: "ConfigMap; Pods; running; ended; Pods gone; attempt ends; attempt over; completed",
        manifest: |job| job.role("a", TASKS, &SHORT),
        queued: false,
        action: |_, _| {},
    },
    Life {
        name: "queued",
        pods: 20,
        writes: 9,
        why: "pending; as undisturbed; and of its unit: made; Enqueued; Dequeued; let go",
        manifest: |job| job.role("a", TASKS, &SHORT),
        queued: true,
        action: |_, _| {},
    },
    Life {
        name: "retry",
        pods: 21,
        writes: 11,
        why: "as undisturbed; and for the retry: ended; Pod gone and pending again; running again",
        manifest: |job| {
            let once = [
                ("exit-code", "1"),
                ("run-duration", "2s"),
                ("only-task-index", "0"),
                ("only-task-attempt", "0"),
            ];
            job.role("a", TASKS, &once).task_retry(false, 1)
        },
        queued: false,
        action: |_, _| {},
    },
    Life {
        name: "stop",
        pods: 20,
        writes: 6,
        why: "ConfigMap; Pods; running; stopped; attempt completed; completed",
        manifest: |job| job.role("a", TASKS, &[("run-duration", "forever")]),
        queued: false,
        action: |ns, name| {
            running(ns, name, 20);
            execute(ns, name, "Stop");
        },
    },
    Life {
        name: "early completion",
        pods: 20,
        writes: 8,
        why: "ConfigMap; Pods; running; one ended; Pod gone; attempt ends; attempt over; completed",
        manifest: |job| {
            let first = [("exit-code", "1"), ("run-duration", "forever")];
            job.role("a", 1, &first).role("b", TASKS - 1, &[("run-duration", "forever")])
        },
        queued: false,
        action: |ns, name| {
            running(ns, name, 20);
            end(ns, &["job-a-0"]);
        },
    },
    Life {
        name: "rescale 10 to 20 to 5",
        pods: 20,
        writes: 13,
        why: "as undisturbed; pending, Pods, running of the added; deletion pending and gone of the removed",
        manifest: |job| job.role("a", 10, &[("exit-code", "0"), ("run-duration", "forever")]),
        queued: false,
        action: |ns, name| {
            running(ns, name, 10);
            task_number(ns, name, 20);
            running(ns, name, 20);
            task_number(ns, name, 5);
            wait(ns, name, "scaled down", |framework| {
                framework.status.as_ref().is_some_and(|status| status.all_tasks().count() == 5)
            });
            end(ns, &["job-a-0", "job-a-1", "job-a-2", "job-a-3", "job-a-4"]);
        },
    },
    Life {
        name: EXPIRES,
        pods: 1,
        writes: 8,
        why: "as undisturbed; and the Framework is deleted",
        manifest: |job| job.role("a", 1, &SHORT).field("ttlSecondsAfterFinished", 1),
        queued: false,
        action: |_, _| {},
    },
];
/// The life of a Framework that the controller deletes in the end.
const EXPIRES: &str = "one Task, deleted after its TTL";

/// Lets Pods that run forever end.
fn end(namespace: &str, pods: &[&str]) {
    let soon = format!("{TEST}/run-duration=100ms");
    let annotate = ["annotate", "--overwrite", "--namespace", namespace, "pods"];
    kubectl(&[&annotate[..], pods, &[soon.as_str()]].concat());
}

/// The controller's requests that concern the objects of one namespace, Events aside.
fn requests(records: &[Record], namespace: &str) -> Vec<Record> {
    let ours = |record: &&Record| {
        record.namespace == namespace
            && record.user_agent.starts_with("frameworkcontroller/")
            && ["frameworks", "configmaps", "pods", "queueunits"].contains(&record.resource.as_str())
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

/// Creates the Framework `job`, in the namespace's queue with room for it if it is to wait in one.
fn create(life: &Life, namespace: &str) {
    let mut job = (life.manifest)(manifest("job")).object();
    if life.queued {
        apply(namespace, "{apiVersion: queue.k8s.io/v1alpha1, kind: Queue, metadata: {name: q}}");
        let quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: room}, spec: {hard: {pods: 20}}}";
        apply(namespace, quota);
        kubectl(
            &[
                &["wait", "resourcequota/room", "--namespace", namespace][..],
                &["--for=jsonpath={.status.used.pods}=0", "--timeout=60s"],
            ]
            .concat(),
        );
        job.metadata.labels = Some([(QUEUE_NAME_LABEL.to_owned(), "q".to_owned())].into());
    }
    block_on(frameworks(namespace).create(&PostParams::default(), &job)).expect("it is accepted");
}

/// Deletes the Framework `job`, and waits until its unit is gone, too.
fn delete_with_unit(namespace: &str) {
    kubectl(&["delete", "framework", "job", "--namespace", namespace, "--timeout=60s"]);
    let units: Api<QueueUnit> = Api::namespaced(client(), namespace);
    until("the unit is gone", || {
        let unit = block_on(units.get_opt("framework-job")).expect("units are served");
        unit.is_none().then_some(())
    });
}

/// Waits for the record of a request that ended a life: the log has it a moment after its effect.
fn until_logged(mark: Mark, namespace: &str, verb: &str, resource: &str) {
    let is_it = |record: &Record| {
        (record.namespace.as_str(), record.verb.as_str(), record.resource.as_str())
            == (namespace, verb, resource)
    };
    until(&format!("the log has the {verb} of {resource}"), || {
        let records = installed().audit().since(mark).expect("the log is there");
        records.iter().any(is_it).then_some(())
    });
}

/// All requests of a life that has ended, once the log has its last ones: the controller's deletions.
fn logged(mark: Mark, namespace: &str, life: &Life) -> Vec<Record> {
    until("the log has all deletions of the life", || {
        let records = installed().audit().since(mark).expect("the log is there");
        let counts = counts(&requests(&records, namespace));
        let has = |what: &str, least: usize| counts.get(what).copied().unwrap_or(0) >= least;
        let deleted = has("delete pods", life.pods) && has("delete configmaps", 1);
        (deleted && has("delete frameworks", usize::from(life.name == EXPIRES))).then_some(records)
    })
}

/// The reasons of the Events in a namespace that the controller wrote, once it said that `job` succeeded.
fn events(namespace: &str) -> Vec<String> {
    let api: Api<Event> = Api::namespaced(client(), namespace);
    until("its success is reported", || {
        let events = block_on(api.list(&ListParams::default())).expect("a list").items;
        let ours = events.into_iter().filter(|event| {
            event.reporting_controller.as_deref().is_some_and(|name| name.contains("frameworkcontroller"))
        });
        let reasons: Vec<String> = ours.filter_map(|event| event.reason).collect();
        reasons.iter().any(|reason| reason == "Succeeded").then_some(reasons)
    })
}

#[test]
fn every_kind_of_life_takes_little_more_than_its_floor() {
    let alone = Alone::wait();
    let cluster = installed();
    let start = cluster.audit().mark().expect("the log is there");
    let _controller = alone.start("floor", "queueing: true");
    // Its start asks for the time, and no life does before its end.
    until("the controller knows the time", || {
        let records = cluster.audit().since(start).expect("the log is there");
        records.iter().any(|record| record.request_uri.starts_with("/version")).then_some(())
    });
    println!(
        "| life of 20 Tasks | floor | its writes | requests | status writes | efficiency | what is written |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut lives = Vec::new();
    for (number, life) in LIVES.iter().enumerate() {
        let ns = namespace(&format!("floor-{number}"));
        let mark = cluster.audit().mark().expect("the log is there");
        create(life, &ns);
        (life.action)(&ns, "job");
        if life.name == EXPIRES {
            let frameworks = frameworks(&ns);
            let is_gone = || block_on(frameworks.get_opt("job")).expect("a reply").is_none();
            until("it is deleted", || is_gone().then_some(()));
            until_logged(mark, &ns, "patch", "frameworks");
        } else {
            completed(&ns, "job");
            wait(&ns, "job", "at rest", |framework| state(framework) == Some(State::Completed));
        }
        if life.queued {
            let events = events(&ns);
            println!("Events: {events:?}");
            assert!(events.len() <= EVENTS, "{events:?}");
            delete_with_unit(&ns);
            until_logged(mark, &ns, "delete", "queueunits");
            until_logged(mark, &ns, "patch", "queueunits");
        }
        let records = logged(mark, &ns, life);
        lives.push(Measured::of(life.name, &records, &ns));
        let requests = requests(&records, &ns);
        let counts = counts(&requests);
        let count = |what: &str| counts.get(what).copied().unwrap_or(0);
        let more = if life.queued { QUEUEING } else { 0 } + usize::from(life.name == EXPIRES);
        let (floor, writes) = (2 * life.pods + 2 + life.writes + more, count("update frameworks/status"));
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
        let of_units = ["create queueunits", "update queueunits/status", "patch queueunits"].map(count);
        assert_eq!(of_units, if life.queued { [1, 2, 1] } else { [0, 0, 0] }, "{counts:?}");
        assert_eq!(
            requests.len(),
            2 * life.pods + 2 + writes + more,
            "nothing else is asked for: {counts:?}"
        );
        let refused: Vec<_> = requests.iter().filter(|record| record.code >= 400).collect();
        assert!(refused.is_empty(), "{}: an undisturbed run has no refused request: {refused:?}", life.name);
        // A busy machine starts and ends Pods one after another; a write for each of them would be too many.
        assert!(efficiency >= 0.7, "{}: {writes} status writes: {counts:?}", life.name);
    }
    assert_as_written(&lives);
}
