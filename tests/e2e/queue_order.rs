//! The order of units on the real API server, by PriorityClass, policy and Queue. The tests also cover the
//! position that a waiting unit reports, and the capacity of a Job and a JobSet until their last Pods are
//! gone.

use framework_api::queue::{Phase, QUEUE_NAME_LABEL};
use framework_testcluster::running::Running;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::lease::Alone;
use crate::cluster::{apply, block_on, client, installed, kubectl, pods, running, until};
use crate::program;
use crate::queue::{
    QUEUEING, complete_job_set, controller, furnish, gang, job_sets, quota, serve_job_sets, stands, unit,
    waits_while_held,
};
use crate::startup::read;

/// A unit that names no job and requests all of the room.
fn reservation(name: &str, queue: &str, more: &Value) -> String {
    let mut unit = json!({
        "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": {"name": name},
        "spec": {"queue": queue, "resource": {"pods": 2}},
    });
    let more = more.as_object().expect("fields of a spec");
    more.iter().for_each(|(field, value)| unit["spec"][field] = value.clone());
    unit.to_string()
}

/// Creates such a unit.
fn reserve(namespace: &str, name: &str, queue: &str, more: &Value) {
    apply(namespace, &reservation(name, queue, more));
}

/// The policy of QueueUnits only warns, as in a cluster without it, until this value goes.
struct Lenient;

impl Lenient {
    fn begin() -> Lenient {
        Lenient::set("Warn").expect("it is patched");
        Lenient
    }

    fn set(action: &str) -> Result<(), String> {
        let binding = "validatingadmissionpolicybinding/frameworkcontroller-queue-unit";
        let patch = json!({"spec": {"validationActions": [action]}}).to_string();
        let output = installed().kubectl(&["patch", binding, "--type=merge", "--patch", &patch]);
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() { Ok(()) } else { Err(output.stderr) }
    }
}

impl Drop for Lenient {
    fn drop(&mut self) {
        // Panics are for tests; no other test of this program needs the policy.
        if let Err(error) = Lenient::set("Deny") {
            eprintln!("the policy stays lenient: {error}");
        }
    }
}

/// Ends a reservation, and waits until the next one in the order has the room.
fn passes(namespace: &str, from: &str, to: &str) {
    kubectl(&["delete", "queueunit", from, "--namespace", namespace]);
    stands(namespace, to, Phase::Dequeued, "Admitted");
}

/// The reasons of the Events about a unit, with their texts.
fn events(namespace: &str, unit: &str) -> Vec<(String, String)> {
    let events: Api<Event> = Api::namespaced(client(), namespace);
    let all = block_on(events.list(&ListParams::default())).expect("a list").items;
    let of_it =
        |event: &Event| event.regarding.as_ref().is_some_and(|about| about.name.as_deref() == Some(unit));
    let all = all.into_iter().filter(of_it);
    all.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect()
}

#[test]
fn a_priority_class_decides_the_order_and_each_step_has_its_event() {
    let _controller = controller();
    let ns = "priority-classes";
    furnish(ns, 2);
    reserve(ns, "holder", "q", &json!({}));
    stands(ns, "holder", Phase::Dequeued, "Admitted");
    reserve(ns, "older", "q", &json!({}));
    stands(ns, "older", Phase::Enqueued, "InsufficientQuota");
    reserve(ns, "newer", "q", &json!({"priorityClassName": "queue-order"}));
    stands(ns, "newer", Phase::Enqueued, "PriorityClassNotFound");
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "queue-order"},
        "value": 1000,
    });
    apply(ns, &class.to_string());
    stands(ns, "newer", Phase::Enqueued, "InsufficientQuota");
    passes(ns, "holder", "newer");
    stands(ns, "older", Phase::Enqueued, "InsufficientQuota");
    let of = |unit: &str, reason: &str| {
        until(&format!("an Event {reason} of {unit}"), || {
            events(ns, unit).into_iter().find(|event| event.0 == reason).map(|event| event.1)
        })
    };
    assert_eq!(of("newer", "PriorityClassNotFound"), "there is no PriorityClass queue-order");
    let missing = of("older", "InsufficientQuota");
    assert!(missing.contains("pods") && missing.contains('2'), "{missing}");
    of("newer", "Admitted");
}

#[test]
fn a_unit_for_a_job_of_another_namespace_waits_until_it_is_deleted() {
    let _controller = controller();
    let ns = "foreign-consumers";
    furnish(ns, 2);
    let _lenient = Lenient::begin();
    let consumer = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "job", "namespace": "default"});
    let foreign = reservation("foreign", "q", &json!({"consumerRef": consumer}));
    until("the policy lets it pass", || {
        let create = ["create", "--namespace", ns, "-f", "-"];
        let output = installed().kubectl_as("admin", &create, &foreign).expect("kubectl runs");
        output.status.success().then_some(())
    });
    let found = stands(ns, "foreign", Phase::Enqueued, "ConsumerNotAllowed");
    let message = &found.status.expect("a status").conditions[0].message;
    assert_eq!(message, "its job is in the namespace default");
    // It holds no room, and nobody waits behind it.
    reserve(ns, "own", "q", &json!({}));
    stands(ns, "own", Phase::Dequeued, "Admitted");
    kubectl(&["delete", "queueunit", "foreign", "--namespace", ns]);
}

/// The answer about a unit, whose only reader is an administrator.
fn position(program: &mut Running, namespace: &str, unit: &str) -> Value {
    let reply = read(program, &format!("/queueunits/{namespace}/{unit}"), installed().kubeconfig_path());
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    let body = reply.split_once("\r\n\r\n").expect("a body").1;
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {reply}"))
}

#[test]
fn a_waiting_unit_reports_its_position_and_the_amount_missing_now() {
    let _alone = Alone::wait();
    let ns = "positions";
    furnish(ns, 3);
    let mut program = program::start(installed().kubeconfig_path(), QUEUEING);
    reserve(ns, "holder", "q", &json!({}));
    stands(ns, "holder", Phase::Dequeued, "Admitted");
    reserve(ns, "older", "q", &json!({"priority": 1}));
    reserve(ns, "newer", "q", &json!({}));
    stands(ns, "newer", Phase::Enqueued, "InsufficientQuota");
    let stored = stands(ns, "older", Phase::Enqueued, "InsufficientQuota");
    let stored = &stored.status.expect("a status").conditions[0].message;
    let words = "requests 2 of pods, 1 too many: quota \"room\" allows 3";
    assert!(stored.contains(words), "{stored}");
    let newer = position(&mut program, ns, "newer");
    assert_eq!((&newer["place"], &newer["before"]), (&json!(1), &json!(1)), "{newer}");
    assert_eq!(newer["directlyBefore"], "older");
    quota(ns, &[("pods", "2")]);
    let now = until("it reports the lower quota", || {
        let older = position(&mut program, ns, "older");
        let says = older["message"].as_str().is_some_and(|message| message.contains("2 too many"));
        says.then_some(older)
    });
    assert_eq!((&now["place"], &now["before"]), (&json!(0), &json!(0)), "{now}");
    let words = "requests 2 of pods, 2 too many: quota \"room\" allows 2";
    assert!(now["message"].as_str().is_some_and(|message| message.contains(words)), "{now}");
    program.terminate();
    assert_eq!(program.end().0, Some(0));
}

#[test]
fn a_patched_priority_outlives_the_unit_of_a_framework_that_waits() {
    let _controller = controller();
    let ns = "remade-units";
    furnish(ns, 2);
    reserve(ns, "holder", "q", &json!({}));
    stands(ns, "holder", Phase::Dequeued, "Admitted");
    gang(ns, "waits", 2);
    let first = stands(ns, "framework-waits", Phase::Enqueued, "InsufficientQuota");
    let patch = r#"{"spec": {"priority": 7}}"#;
    kubectl(&["patch", "queueunit", "framework-waits", "--namespace", ns, "--type=merge", "--patch", patch]);
    kubectl(&["delete", "queueunit", "framework-waits", "--namespace", ns]);
    let again = until("another unit takes its place", || {
        unit(ns, "framework-waits").filter(|unit| unit.metadata.uid != first.metadata.uid)
    });
    assert_eq!(again.spec.priority, Some(7));
}

#[test]
fn a_fifo_queue_goes_by_time_and_a_queue_of_higher_priority_goes_first() {
    let _controller = controller();
    let ns = "queue-orders";
    furnish(ns, 2);
    for (name, spec) in [("fifo", json!({"queuePolicy": "FIFO"})), ("urgent", json!({"priority": 5}))] {
        let queue = json!({
            "apiVersion": "queue.k8s.io/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec,
        });
        apply(ns, &queue.to_string());
    }
    reserve(ns, "holder", "fifo", &json!({}));
    stands(ns, "holder", Phase::Dequeued, "Admitted");
    reserve(ns, "early", "fifo", &json!({"priority": 0}));
    let early = stands(ns, "early", Phase::Enqueued, "InsufficientQuota");
    let created = early.creation_timestamp().expect("it is stored").0;
    // The time of creation counts in whole seconds.
    until("the next second", || (Timestamp::now().as_second() > created.as_second()).then_some(()));
    reserve(ns, "late", "fifo", &json!({"priority": 9}));
    reserve(ns, "last", "urgent", &json!({}));
    stands(ns, "late", Phase::Enqueued, "InsufficientQuota");
    stands(ns, "last", Phase::Enqueued, "InsufficientQuota");
    passes(ns, "holder", "last");
    passes(ns, "last", "early");
    passes(ns, "early", "late");
}

/// Waits until a Pod with that label runs, and has the label of the queue.
fn runs(namespace: &str, selector: &str) -> Pod {
    let selected = ListParams::default().labels(&format!("{selector},{QUEUE_NAME_LABEL}=q"));
    until(&format!("a Pod of {selector} runs"), || {
        let found = block_on(pods(namespace).list(&selected)).expect("a list").items;
        let is_running =
            |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
        found.into_iter().find(is_running)
    })
}

fn unit_is_gone(namespace: &str, name: &str) {
    until("its unit is gone", || unit(namespace, name).is_none().then_some(()));
}

#[test]
fn a_deleted_job_returns_its_capacity_with_its_last_pod() {
    let _controller = controller();
    let ns = "last-pod-of-a-job";
    furnish(ns, 2);
    let template = json!({
        // Its Pod stays until the test lets it go.
        "metadata": {"finalizers": ["example.com/hold"]},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]},
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "job", "labels": {QUEUE_NAME_LABEL: "q"}},
        "spec": {"suspend": true, "parallelism": 1, "template": template},
    });
    apply(ns, &job.to_string());
    let pod = runs(ns, "job-name=job").name_any();
    let jobs: Api<Job> = Api::namespaced(client(), ns);
    block_on(jobs.delete("job", &DeleteParams::background())).expect("it is there");
    until("the Pod is being deleted", || {
        block_on(pods(ns).get(&pod)).expect("it is held").metadata.deletion_timestamp.map(|_| ())
    });
    gang(ns, "next", 2);
    waits_while_held(ns, "next", 1);
    let unit = stands(ns, "job-job", Phase::Dequeued, "Admitted");
    assert!(!unit.finalizers().is_empty(), "it holds the capacity of the Pod");
    let lets_go = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    block_on(pods(ns).patch(&pod, &PatchParams::default(), &lets_go)).expect("it is there");
    running(ns, "next", 2);
    unit_is_gone(ns, "job-job");
}

#[test]
fn a_finished_job_set_returns_its_capacity_with_its_last_pod() {
    let _controller = controller();
    let ns = "last-pod-of-a-set";
    furnish(ns, 2);
    serve_job_sets();
    let template = json!({"spec": {"parallelism": 2, "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}],
    }}}});
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "set", "labels": {QUEUE_NAME_LABEL: "q"}},
        "spec": {"suspend": true, "replicatedJobs": [{"name": "worker", "template": template}]},
    });
    let set = serde_json::from_value(set).expect("an object");
    let sets = job_sets(ns);
    until("JobSets are served", || block_on(sets.create(&PostParams::default(), &set)).ok());
    stands(ns, "jobset-set", Phase::Dequeued, "Admitted");
    let resumed = until("the JobSet goes on", || {
        let set = block_on(sets.get("set")).expect("it is there");
        (set.data["spec"]["suspend"] == false).then_some(set)
    });
    // As its controller does, with one Pod less: from the template that was patched.
    let mut job = resumed.data["spec"]["replicatedJobs"][0]["template"].clone();
    job["spec"]["parallelism"] = json!(1);
    job["apiVersion"] = json!("batch/v1");
    job["kind"] = json!("Job");
    job["metadata"] = json!({
        "name": "set-worker-0", "labels": {"jobset.sigs.k8s.io/jobset-name": "set"},
        "ownerReferences": [{
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set",
            "uid": resumed.metadata.uid, "controller": true,
        }],
    });
    apply(ns, &job.to_string());
    runs(ns, "job-name=set-worker-0");
    complete_job_set(ns, "set");
    // One of two returns at once, the other one with the Pod.
    gang(ns, "small", 1);
    running(ns, "small", 1);
    gang(ns, "next", 1);
    waits_while_held(ns, "next", 2);
    let jobs: Api<Job> = Api::namespaced(client(), ns);
    block_on(jobs.delete("set-worker-0", &DeleteParams::background())).expect("it is there");
    running(ns, "next", 1);
    assert!(unit(ns, "jobset-set").is_some(), "it stays as long as its JobSet");
    block_on(sets.delete("set", &DeleteParams::default())).expect("it is there");
    unit_is_gone(ns, "jobset-set");
}
