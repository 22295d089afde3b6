//! Queues on the real API server: which jobs may begin, which wait and why, and when capacity returns.

use framework_api::queue::{
    CONSUMER_LABEL, FINALIZER, Phase, QUEUE_NAME_LABEL, Queue, QueueStatus, QueueUnit,
};
use framework_api::{Framework, State};
use framework_sim::check::queue::{self as check, Blind};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::json;

use crate::cluster::lease::{Alone, Shared, namespace};
pub use crate::cluster::queues::{QUEUEING, furnish, queue, quota};
use crate::cluster::recording::Recording;
use crate::cluster::{self, apply, block_on, client, completed, kubectl, pods, running, state, until, wait};
use crate::job_crds::Served;
use crate::queue_history::{gone, released};

/// A controller that serves queues, also those of other tests.
pub fn controller() -> Shared {
    Shared::controller("queue", QUEUEING)
}

/// Waits until the quota counts so many Pods.
fn quota_counts(namespace: &str, pods: &str) {
    let quotas: Api<ResourceQuota> = Api::namespaced(client(), namespace);
    until(&format!("the quota counts {pods} Pods"), || {
        let used = block_on(quotas.get("room")).expect("it is there").status?.used?;
        (used.get("pods")?.0 == pods).then_some(())
    });
}

/// A Framework in a queue whose Tasks run until they are stopped.
pub fn gang(namespace: &str, name: &str, tasks: u32) -> Framework {
    cluster::manifest(name).role("a", tasks, &[]).queue("q").create(namespace)
}

fn units(namespace: &str) -> Api<QueueUnit> {
    Api::namespaced(client(), namespace)
}

pub fn unit(namespace: &str, name: &str) -> Option<QueueUnit> {
    block_on(units(namespace).get_opt(name)).expect("units are served")
}

/// Waits until a unit is in that phase, with that reason.
pub fn stands(namespace: &str, name: &str, phase: Phase, reason: &str) -> QueueUnit {
    until(&format!("{name} is {phase:?} for {reason}"), || {
        let unit = unit(namespace, name)?;
        let status = unit.status.clone()?;
        let said = status.condition("Dequeued").map(|condition| condition.reason.clone());
        (status.phase == Some(phase) && said.as_deref() == Some(reason)).then_some(unit)
    })
}

/// Waits until a Framework waits for Pods, of which the released units hold so many, in use or not.
pub fn waits_while_held(namespace: &str, framework: &str, held: u32) {
    let unit = format!("framework-{framework}");
    until(&format!("{unit} waits while {held} Pods are held"), || {
        let status = stands(namespace, &unit, Phase::Enqueued, "InsufficientQuota").status?;
        status.message.contains(&format!("released units hold {held}")).then_some(())
    });
}

/// Waits until a Queue says that so many of its units wait, and so many hold something.
fn filled(namespace: &str, name: &str, waiting: i32, released: i32) {
    let queues: Api<Queue> = Api::namespaced(client(), namespace);
    until(&format!("{waiting} wait in {name} and {released} are released"), || {
        let status = block_on(queues.get(name)).expect("it is there").status?;
        (status == QueueStatus { waiting: Some(waiting), released: Some(released) }).then_some(())
    });
}

/// Waits until a Framework says so of its queue.
pub fn queued(namespace: &str, name: &str, status: &str, reason: &str) -> Framework {
    wait(namespace, name, &format!("Queued={status} for {reason}"), |framework| {
        let conditions = framework.status.iter().flat_map(|status| &status.conditions);
        let mut queued = conditions.filter(|condition| condition.type_ == "Queued");
        queued.any(|condition| condition.status == status && condition.reason == reason)
    })
}

fn count_pods(namespace: &str, framework: &str) -> usize {
    let selected = ListParams::default().labels(&format!("FC_FRAMEWORK_NAME={framework}"));
    block_on(pods(namespace).list(&selected)).expect("a list").items.len()
}

#[test]
fn the_second_of_two_gangs_runs_when_the_first_has_ended() {
    let _controller = controller();
    furnish("twogangs", 4);
    let ns = "twogangs";
    gang(ns, "first", 3);
    running(ns, "first", 3);
    gang(ns, "second", 3);
    let waiting = queued(ns, "second", "True", "InsufficientQuota");
    assert_eq!(state(&waiting), Some(State::AttemptCreationPending));
    let unit = stands(ns, "framework-second", Phase::Enqueued, "InsufficientQuota");
    let message = unit.status.expect("it has one").message;
    assert!(message.contains("pods") && message.contains('3') && message.contains('4'), "{message}");
    assert_eq!(count_pods(ns, "second"), 0);
    stands(ns, "framework-first", Phase::Dequeued, "Admitted");
    filled(ns, "q", 1, 1);
    cluster::execute(ns, "first", "Stop");
    completed(ns, "first");
    running(ns, "second", 3);
    queued(ns, "second", "False", "Admitted");
    let mut labelled =
        block_on(pods(ns).list(&ListParams::default().labels(QUEUE_NAME_LABEL))).expect("a list");
    labelled.items.retain(|pod| pod.name_any().starts_with("second"));
    assert_eq!(labelled.items.len(), 3, "its Pods carry the label");
    filled(ns, "q", 0, 1);
    cluster::execute(ns, "second", "Stop");
    filled(ns, "q", 0, 0);
}

#[test]
fn stop_delete_and_rescale_work_while_it_waits() {
    let _controller = controller();
    furnish("whilewaiting", 2);
    let ns = "whilewaiting";
    for name in ["stopped", "deleted", "rescaled"] {
        gang(ns, name, 3);
        queued(ns, name, "True", "ExceedsQuota");
    }
    cluster::execute(ns, "stopped", "Stop");
    assert_eq!(cluster::code(&completed(ns, "stopped")).0, -210);
    until("the unit of a stopped Framework is gone", || {
        unit(ns, "framework-stopped").is_none().then_some(())
    });

    kubectl(&["delete", "framework", "deleted", "--namespace", ns, "--timeout=60s"]);
    until("the unit of a deleted Framework is gone", || {
        unit(ns, "framework-deleted").is_none().then_some(())
    });

    let before = unit(ns, "framework-rescaled").expect("it is there").uid();
    cluster::task_number(ns, "rescaled", 2);
    running(ns, "rescaled", 2);
    let after = stands(ns, "framework-rescaled", Phase::Dequeued, "Admitted");
    assert_ne!(after.uid(), before, "it is created again");
    assert_eq!(after.spec.resource["pods"].0, "2");
}

#[test]
fn a_unit_waits_for_its_queue_and_an_unlabelled_framework_does_not_wait() {
    let _controller = controller();
    let ns = &namespace("latequeue");
    gang(ns, "early", 1);
    queued(ns, "early", "True", "QueueNotFound");
    cluster::manifest("free").role("a", 1, &[]).create(ns);
    running(ns, "free", 1);
    assert!(unit(ns, "framework-free").is_none());
    queue(ns, "q");
    running(ns, "early", 1);
    // The label is read no more: the Framework runs on without it.
    kubectl(&["label", "framework", "early", "--namespace", ns, &format!("{QUEUE_NAME_LABEL}-")]);
    gang(ns, "leaves", 1);
    running(ns, "leaves", 1);
}

#[test]
fn without_the_label_a_framework_that_waited_starts_and_its_unit_goes() {
    let _controller = controller();
    furnish("leaver", 4);
    let ns = "leaver";
    gang(ns, "first", 3);
    running(ns, "first", 3);
    gang(ns, "leaver", 1);
    running(ns, "leaver", 1);
    gang(ns, "second", 1);
    queued(ns, "second", "True", "InsufficientQuota");
    cluster::execute(ns, "leaver", "Stop");
    completed(ns, "leaver");
    running(ns, "second", 1);
    gang(ns, "third", 2);
    queued(ns, "third", "True", "InsufficientQuota");
    kubectl(&["label", "framework", "third", "--namespace", ns, &format!("{QUEUE_NAME_LABEL}-")]);
    queued(ns, "third", "False", "NotQueued");
    until("its unit is gone", || unit(ns, "framework-third").is_none().then_some(()));
}

#[test]
fn capacity_returns_when_the_last_pod_is_gone_and_not_before() {
    let _controller = controller();
    furnish("lastpod", 2);
    let ns = "lastpod";
    let recording = Recording::start_with_queues(client(), ns);
    // One of its Pods hangs for a while once it is deleted.
    cluster::manifest("first").role("a", 2, &[("hang-terminating", "true")]).queue("q").create(ns);
    running(ns, "first", 2);
    gang(ns, "second", 2);
    queued(ns, "second", "True", "InsufficientQuota");
    kubectl(&["delete", "framework", "first", "--namespace", ns, "--wait=false"]);
    until("the unit is being deleted", || {
        unit(ns, "framework-first")?.metadata.deletion_timestamp.map(|_| ())
    });
    let held = unit(ns, "framework-first").expect("it is held");
    assert_eq!(held.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    kubectl(&["delete", "pods", "--namespace", ns, "--all", "--grace-period=0", "--force"]);
    running(ns, "second", 2);
    until("the unit is gone", || unit(ns, "framework-first").is_none().then_some(()));
    let history = recording.end().recorded;
    let last_pod = ["first-a-0", "first-a-1"].map(|pod| gone(&history, "pods", pod)).into_iter().max();
    assert!(last_pod < Some(released(&history, "framework-second")), "released beside a Pod of the first");
    assert_eq!(check::check(&history, Blind::default()), Ok(()));
}

#[test]
fn a_pod_with_forged_labels_uses_nobodys_share_and_frees_none() {
    let _controller = controller();
    furnish("forged", 4);
    let ns = "forged";
    gang(ns, "first", 2);
    running(ns, "first", 2);
    let metadata = block_on(pods(ns).get("first-a-0")).expect("it runs").metadata;
    assert_eq!(metadata.labels.iter().flatten().filter(|(key, _)| *key == QUEUE_NAME_LABEL).count(), 1);
    let forged = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "forged", "labels": metadata.labels, "annotations": metadata.annotations},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    });
    let recording = Recording::start_with_queues(client(), ns);
    block_on(pods(ns).create(&PostParams::default(), &serde_json::from_value(forged).expect("a Pod")))
        .expect("it is accepted");
    quota_counts(ns, "3");
    // Of four, two are released and one is used: one is left.
    gang(ns, "second", 2);
    queued(ns, "second", "True", "InsufficientQuota");
    gang(ns, "third", 1);
    running(ns, "third", 1);
    cluster::execute(ns, "first", "Stop");
    running(ns, "second", 2);
    assert!(block_on(pods(ns).get("forged")).is_ok(), "it holds nothing of the first");
    let history = recording.end().recorded;
    let last_pod = ["first-a-0", "first-a-1"].map(|pod| gone(&history, "pods", pod)).into_iter().max();
    assert!(last_pod < Some(released(&history, "framework-second")), "released into the use of the forged");
}

#[test]
fn a_suspended_job_with_the_label_waits_like_a_framework() {
    let _controller = controller();
    furnish("jobs", 2);
    let ns = "jobs";
    gang(ns, "first", 2);
    running(ns, "first", 2);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "job", "labels": {QUEUE_NAME_LABEL: "q"}},
        "spec": {"suspend": true, "parallelism": 2, "completions": 2, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{
                "name": "main", "image": "busybox", "resources": {"requests": {"cpu": "750m"}},
            }],
        }}},
    });
    apply(ns, &job.to_string());
    let waiting = stands(ns, "job-job", Phase::Enqueued, "InsufficientQuota").spec.resource;
    let requests: Vec<_> = waiting.iter().map(|(name, amount)| format!("{name}: {}", amount.0)).collect();
    assert_eq!(requests, ["cpu: 1500m", "pods: 2"]);
    let jobs: Api<Job> = Api::namespaced(client(), ns);
    let uid = block_on(jobs.get("job")).expect("it is there").uid().expect("it is stored");
    let suspended = || block_on(jobs.get("job")).expect("it is there").spec.and_then(|spec| spec.suspend);
    assert_eq!(suspended(), Some(true));
    cluster::execute(ns, "first", "Stop");
    until("the Job goes on", || (suspended() == Some(false)).then_some(()));
    stands(ns, "job-job", Phase::Dequeued, "Admitted");
    let labels = format!("{QUEUE_NAME_LABEL}=q,{CONSUMER_LABEL}={uid}");
    let labelled = ListParams::default().labels(&labels);
    let of_it = until("its Pods are there and carry the labels", || {
        let found = block_on(pods(ns).list(&labelled)).expect("a list").items;
        (found.len() == 2).then_some(found)
    });
    quota_counts(ns, "2");
    let ends = |pod: &str| {
        let soon = format!("{}/run-duration=100ms", cluster::TEST);
        kubectl(&["annotate", "pod", pod, "--namespace", ns, &soon]);
    };
    ends(&of_it[0].name_any());
    quota_counts(ns, "1");
    // It has not finished, and may start another Pod.
    gang(ns, "second", 1);
    waits_while_held(ns, "second", 2);
    ends(&of_it[1].name_any());
    running(ns, "second", 1);
}

const JOB_SET: Served = Served::new("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets");

/// Several tests install the CRD of JobSets.
pub fn serve_job_sets() {
    JOB_SET.install();
}

pub fn job_sets(namespace: &str) -> Api<DynamicObject> {
    JOB_SET.jobs(namespace)
}

/// Ends a JobSet, as its controller does.
pub fn complete_job_set(namespace: &str, name: &str) {
    let condition = json!({
        "type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    JOB_SET.set_status(namespace, name, &json!({"conditions": [condition]}));
}

#[test]
fn a_suspended_job_set_waits_too_once_job_sets_are_served() {
    let _controller = controller();
    furnish("jobsets", 7);
    let ns = "jobsets";
    gang(ns, "first", 1);
    running(ns, "first", 1);
    serve_job_sets();
    let sets = job_sets(ns);
    let template = |parallelism: u32| {
        let pod = json!({"containers": [{"name": "main", "image": "busybox"}]});
        json!({"spec": {"parallelism": parallelism, "completions": 2, "template": {"spec": pod}}})
    };
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "set", "labels": {QUEUE_NAME_LABEL: "q"}},
        "spec": {"suspend": true, "replicatedJobs": [
            {"name": "driver", "replicas": 1, "template": template(1)},
            {"name": "worker", "replicas": 3, "template": template(4)},
        ]},
    });
    let set: DynamicObject = serde_json::from_value(set).expect("an object");
    until("JobSets are served", || block_on(sets.create(&PostParams::default(), &set)).ok());
    let waiting = stands(ns, "jobset-set", Phase::Enqueued, "InsufficientQuota");
    assert_eq!(waiting.spec.resource["pods"].0, "7", "one driver, and three times two workers");
    let spec = || block_on(sets.get("set")).expect("it is there").data["spec"].clone();
    assert_eq!(spec()["suspend"], true);

    cluster::execute(ns, "first", "Stop");
    completed(ns, "first");
    until("the JobSet goes on", || (spec()["suspend"] == false).then_some(()));
    stands(ns, "jobset-set", Phase::Dequeued, "Admitted");
    let uid = block_on(sets.get("set")).expect("it is there").uid();
    for role in spec()["replicatedJobs"].as_array().expect("they are still there") {
        let labels = &role["template"]["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels[QUEUE_NAME_LABEL], "q", "its Pods will carry the label: {role}");
        assert_eq!(labels[CONSUMER_LABEL].as_str(), uid.as_deref(), "{role}");
    }
    gang(ns, "second", 1);
    queued(ns, "second", "True", "InsufficientQuota");
    complete_job_set(ns, "set");
    running(ns, "second", 1);
}

#[test]
fn a_unit_of_a_user_is_released_and_one_of_a_priority_goes_first() {
    let _controller = controller();
    furnish("handmade", 2);
    let ns = "handmade";
    let make = |name: &str, priority: i32| {
        let unit = json!({
            "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": {"name": name},
            "spec": {
                "consumerRef": {"apiVersion": "example.com/v1", "kind": "Train", "name": name},
                "queue": "q", "priority": priority, "resource": {"pods": 2},
            },
        });
        apply(ns, &unit.to_string());
    };
    make("holder", 0);
    stands(ns, "holder", Phase::Dequeued, "Admitted");
    make("low", 1);
    make("high", 2);
    stands(ns, "low", Phase::Enqueued, "InsufficientQuota");
    stands(ns, "high", Phase::Enqueued, "InsufficientQuota");
    // While it waits its priority may change, and counts.
    make("low", 3);
    kubectl(&["delete", "queueunit", "holder", "--namespace", ns]);
    stands(ns, "low", Phase::Dequeued, "Admitted");
    stands(ns, "high", Phase::Enqueued, "InsufficientQuota");
}

#[test]
fn a_unit_without_a_job_is_released_and_keeps_room_until_it_is_deleted() {
    let _controller = controller();
    furnish("itself", 2);
    let ns = "itself";
    let reservation = json!({
        "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": {"name": "reservation"},
        "spec": {"queue": "q", "resource": {"pods": 1}},
    });
    apply(ns, &reservation.to_string());
    stands(ns, "reservation", Phase::Dequeued, "Admitted");
    gang(ns, "second", 2);
    queued(ns, "second", "True", "InsufficientQuota");
    kubectl(&["delete", "queueunit", "reservation", "--namespace", ns]);
    running(ns, "second", 2);
}

#[test]
fn a_killed_controller_forgets_nothing_and_releases_nothing_twice() {
    let alone = Alone::wait();
    let controller = alone.start("killed", QUEUEING);
    furnish("killed", 2);
    let ns = "killed";
    let recording = Recording::start_with_queues(client(), ns);
    gang(ns, "first", 2);
    running(ns, "first", 2);
    gang(ns, "second", 2);
    queued(ns, "second", "True", "InsufficientQuota");
    drop(controller);
    cluster::execute(ns, "first", "Stop");
    let _again = alone.start("killedagain", QUEUEING);
    completed(ns, "first");
    // Requests of the first controller may land for a while: until then nothing is released.
    running(ns, "second", 2);
    stands(ns, "framework-second", Phase::Dequeued, "Admitted");
    let history = recording.end().recorded;
    assert!(released(&history, "framework-first") < released(&history, "framework-second"));
    assert_eq!(check::count(&history).releases, 2);
    assert_eq!(
        check::check(&history, Blind::default()),
        Ok(()),
        "once released, a unit is not written again"
    );
}

/// UIDs of the Pods of a Framework, by name.
fn uids(namespace: &str, framework: &str) -> Vec<(String, Option<String>)> {
    let selected = ListParams::default().labels(&format!("FC_FRAMEWORK_NAME={framework}"));
    let found = block_on(pods(namespace).list(&selected)).expect("a list").items;
    found.iter().map(|pod| (pod.name_any(), pod.uid())).collect()
}

#[test]
fn growth_waits_for_quota_while_the_running_tasks_go_on() {
    let _controller = controller();
    furnish("grows", 3);
    let ns = "grows";
    gang(ns, "elastic", 2);
    running(ns, "elastic", 2);
    let before = uids(ns, "elastic");
    cluster::task_number(ns, "elastic", 4);
    let asked = stands(ns, "framework-elastic-2", Phase::Enqueued, "InsufficientQuota").spec;
    assert_eq!((asked.resource["pods"].0.as_str(), asked.queue.as_str()), ("2", "q"));
    let grown = wait(ns, "elastic", "has four Tasks", |framework| {
        framework
            .status
            .as_ref()
            .and_then(|status| status.task_counts)
            .is_some_and(|counts| counts.total == 4)
    });
    let status = grown.status.expect("it has one");
    let task = status.task("a", 3).expect("it is stored");
    assert_eq!((task.state, task.queue_unit_generation), (State::AttemptCreationPending, Some(2)));
    assert_eq!(uids(ns, "elastic"), before);
    let event = until("an Event says why", || {
        let selector = "--field-selector=reason=GrowthQueued";
        let notes =
            kubectl(&["get", "events", "--namespace", ns, selector, "-o=jsonpath={.items[*].message}"]);
        (!notes.is_empty()).then_some(notes)
    });
    assert!(event.contains("framework-elastic-2"), "{event}");

    quota(ns, &[("pods", "4")]);
    running(ns, "elastic", 4);
    stands(ns, "framework-elastic-2", Phase::Dequeued, "Admitted");
    assert!(before.iter().all(|pod| uids(ns, "elastic").contains(pod)), "the first two run on");

    gang(ns, "next", 2);
    queued(ns, "next", "True", "InsufficientQuota");
    cluster::task_number(ns, "elastic", 2);
    running(ns, "next", 2);
    until("the unit of what is gone again is gone", || {
        unit(ns, "framework-elastic-2").is_none().then_some(())
    });
    cluster::task_number(ns, "elastic", 3);
    stands(ns, "framework-elastic-4", Phase::Enqueued, "InsufficientQuota");
    cluster::execute(ns, "next", "Stop");
    running(ns, "elastic", 3);
}

#[test]
fn a_growth_outlives_the_controller_and_a_retry_asks_for_nothing_again() {
    let alone = Alone::wait();
    let controller = alone.start("growskilled", QUEUEING);
    furnish("growskilled", 3);
    let ns = "growskilled";
    gang(ns, "other", 1);
    cluster::manifest("elastic").role("a", 1, &[]).task_retry(false, -2).queue("q").create(ns);
    running(ns, "elastic", 1);
    running(ns, "other", 1);
    cluster::task_number(ns, "elastic", 3);
    let unit = stands(ns, "framework-elastic-2", Phase::Enqueued, "InsufficientQuota");
    drop(controller);
    cluster::execute(ns, "other", "Stop");
    let _again = alone.start("growskilledagain", QUEUEING);
    running(ns, "elastic", 3);
    let released = stands(ns, "framework-elastic-2", Phase::Dequeued, "Admitted");
    assert_eq!(released.uid(), unit.uid());
    let before = uids(ns, "elastic");
    kubectl(&["delete", "pod", "elastic-a-2", "--namespace", ns]);
    until("another Pod takes its place", || {
        let now = uids(ns, "elastic");
        (now.len() == 3 && now != before).then_some(())
    });
    running(ns, "elastic", 3);
    let units = block_on(units(ns).list(&ListParams::default().labels(QUEUE_NAME_LABEL))).expect("a list");
    let mut names: Vec<String> = units.items.iter().map(ResourceExt::name_any).collect();
    names.retain(|name| name.starts_with("framework-elastic"));
    assert_eq!(names, ["framework-elastic", "framework-elastic-2"]);
}
