//! Units of Jobs and JobSets on the real API server. Users make some of them for jobs without a label. The
//! controller of one is killed before it has resumed the job.

use framework_api::queue::{Phase, QUEUE_NAME_LABEL, RESUMED_BY_ANNOTATION};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::lease::Alone;
use crate::cluster::{apply, block_on, client, installed, kubectl, running, until};
use crate::job_kinds::event;
use crate::queue::{
    QUEUEING, complete_job_set, controller, furnish, gang, job_sets, queued, serve_job_sets, stands, unit,
};

fn pod() -> Value {
    json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]})
}

/// A suspended Job that runs two Pods at a time.
fn job(labels: &Value) -> String {
    let spec = json!({"suspend": true, "parallelism": 2, "completions": 2, "template": {"spec": pod()}});
    let metadata = json!({"name": "train", "labels": labels});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}).to_string()
}

/// Creates a unit `by-hand` that requests two Pods for the job `train`.
fn by_hand(namespace: &str, api_version: &str, kind: &str) {
    let unit = json!({
        "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": {"name": "by-hand"},
        "spec": {
            "consumerRef": {"apiVersion": api_version, "kind": kind, "name": "train"},
            "queue": "q", "resource": {"pods": 2},
        },
    });
    apply(namespace, &unit.to_string());
}

fn is_suspended(jobs: &Api<Job>) -> bool {
    let job = block_on(jobs.get("train")).expect("it is there");
    job.spec.and_then(|spec| spec.suspend) == Some(true)
}

#[test]
fn a_unit_by_hand_follows_a_job_without_the_label_until_that_is_gone() {
    let _controller = controller();
    let ns = "job-by-hand";
    furnish(ns, 3);
    by_hand(ns, "batch/v1", "Job");
    stands(ns, "by-hand", Phase::Enqueued, "ConsumerNotFound");
    apply(ns, &job(&json!({})));
    stands(ns, "by-hand", Phase::Dequeued, "Admitted");
    gang(ns, "next", 2);
    queued(ns, "next", "True", "InsufficientQuota");
    let jobs: Api<Job> = Api::namespaced(client(), ns);
    assert!(is_suspended(&jobs), "its creator starts it");
    assert!(unit(ns, "job-train").is_none(), "it has no label");
    block_on(jobs.delete("train", &DeleteParams::foreground())).expect("it is there");
    running(ns, "next", 2);
}

#[test]
fn a_unit_by_hand_follows_a_job_set_without_the_label_to_its_end() {
    let _controller = controller();
    let ns = "job-set-by-hand";
    furnish(ns, 3);
    serve_job_sets();
    let template = json!({"spec": {"parallelism": 2, "template": {"spec": pod()}}});
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"},
        "spec": {"suspend": true, "replicatedJobs": [{"name": "worker", "template": template}]},
    });
    let set: DynamicObject = serde_json::from_value(set).expect("an object");
    let sets = job_sets(ns);
    until("JobSets are served", || block_on(sets.create(&PostParams::default(), &set)).ok());
    by_hand(ns, "jobset.x-k8s.io/v1alpha2", "JobSet");
    stands(ns, "by-hand", Phase::Dequeued, "Admitted");
    gang(ns, "next", 2);
    queued(ns, "next", "True", "InsufficientQuota");
    assert_eq!(block_on(sets.get("train")).expect("it is there").data["spec"]["suspend"], true);
    complete_job_set(ns, "train");
    running(ns, "next", 2);
}

/// Refuses the controller's changes of Jobs in a namespace, once that is in force.
fn refuse_changes_of_jobs(namespace: &str) {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["batch"], "apiVersions": ["v1"],
                "operations": ["UPDATE"], "resources": ["jobs"],
            }]},
            "validations": [{"expression": "request.userInfo.username != 'controller'"}],
        },
    });
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {
            "policyName": namespace, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": selector},
        },
    });
    apply(namespace, &policy.to_string());
    apply(namespace, &binding.to_string());
    until("the policy is in force", || (!may_change_jobs(namespace)).then_some(()));
}

/// Whether the controller may change the Job `train`.
fn may_change_jobs(namespace: &str) -> bool {
    let change = Patch::Merge(json!({"metadata": {"annotations": {"tried": "true"}}}));
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    block_on(async {
        let client = installed().client_for("controller").expect("a client");
        let jobs: Api<Job> = Api::namespaced(client, namespace);
        jobs.patch("train", &dry_run, &change).await.is_ok()
    })
}

#[test]
fn a_killed_controller_has_released_a_job_that_the_next_resumes_once() {
    let alone = Alone::wait();
    let ns = "killed-between";
    furnish(ns, 2);
    apply(ns, &job(&json!({QUEUE_NAME_LABEL: "q"})));
    refuse_changes_of_jobs(ns);
    let first = alone.start("killedbetween", QUEUEING);
    let released = stands(ns, "job-train", Phase::Dequeued, "Admitted");
    let jobs: Api<Job> = Api::namespaced(client(), ns);
    // With SIGKILL.
    drop(first);
    assert!(is_suspended(&jobs), "it was released, and is not resumed");
    kubectl(&["delete", "validatingadmissionpolicybinding", ns]);
    until("the policy is gone", || may_change_jobs(ns).then_some(()));
    let _second = alone.start("killedbetweenagain", QUEUEING);
    until("the Job goes on", || (!is_suspended(&jobs)).then_some(()));
    let resumed = block_on(jobs.get("train")).expect("it is there");
    assert_eq!(resumed.annotations().get(RESUMED_BY_ANNOTATION), released.metadata.uid.as_ref());
    assert_eq!(resumed.metadata.generation, Some(2), "by one patch");
    // Only once: a user suspends it, and it stays so.
    let suspends = Patch::Merge(json!({"spec": {"suspend": true}}));
    block_on(jobs.patch("train", &PatchParams::default(), &suspends)).expect("it is accepted");
    event(ns, "train", "StaysSuspended");
    let suspended = block_on(jobs.get("train")).expect("it is there");
    assert_eq!((is_suspended(&jobs), suspended.metadata.generation), (true, Some(3)));
    assert_eq!(unit(ns, "job-train").and_then(|unit| unit.uid()), released.uid(), "it keeps its unit");
}
