//! TTL and deadline of TrainJobs on the real API server. The tests play Trainer and the JobSet controller.

use std::sync::Once;

use framework_api::Time;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use crate::cluster::lease::{Alone, Shared, namespace};
use crate::cluster::{apply, block_on, client, installed, kubectl, pods, until};
use crate::lifetime::metrics;
use framework_testcluster::Component;

/// A row by which we also enforce the field of the spec.
const OURS: &str = "
queueJobKinds:
- apiVersion: trainer.kubeflow.org/v1alpha1
  kind: TrainJob
  plural: trainjobs
  suspend: {pointer: /spec/suspend}
  ask: frameworkcontroller.microsoft.com/queue-resource
  finished: {conditions: [Complete, Failed]}
  deadline: ours
";

/// The TrainJob of the proposal that both fields come from, word for word.
const PROPOSED: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: my-training
spec:
  ttlSecondsAfterFinished: 3600    # Delete 1 hour after completion
  activeDeadlineSeconds: 7200      # Max 2 hours runtime
  runtimeRef:
    name: torch-distributed
  trainer:
    numNodes: 2
";

/// The page for users, which has the same row.
const PAGE: &str = include_str!("../../docs/manual/ttl-and-deadline.md");

const JOB_SET: &str = "JobSet";
const TRAIN_JOB: &str = "TrainJob";

/// A CRD with these fields in its spec, which keeps all others.
fn definition(group: &str, version: &str, kind: &str, plural: &str, fields: &Value) -> Value {
    let spec = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": fields,
    });
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": spec, "status": status},
                }},
            }],
        },
    })
}

/// Both CRDs, and the rights of the shipped component.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let cluster = installed();
        let seconds = json!({
            "ttlSecondsAfterFinished": {"type": "integer", "format": "int32", "minimum": 0},
            "activeDeadlineSeconds": {"type": "integer", "format": "int64", "minimum": 1},
        });
        let train_jobs =
            definition("trainer.kubeflow.org", "v1alpha1", TRAIN_JOB, "trainjobs", &seconds).to_string();
        let job_sets = definition("jobset.x-k8s.io", "v1alpha2", JOB_SET, "jobsets", &json!({})).to_string();
        for (name, definition) in
            [("trainjobs.trainer.kubeflow.org", train_jobs), ("jobsets.jobset.x-k8s.io", job_sets)]
        {
            apply("default", &definition);
            kubectl(&["wait", "--for=condition=Established", "crd", name]);
        }
        let role = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/train-jobs/cluster_role.yaml");
        kubectl(&["apply", "--server-side", "-f", role]);
        let role = "--clusterrole=frameworkcontroller-train-jobs";
        kubectl(&["create", "clusterrolebinding", "test-train-jobs", role, "--user=controller"]);
        // As for Frameworks, the garbage collector has to discover the kinds.
        let restarted = cluster.stop(Component::ControllerManager);
        restarted.and_then(|()| cluster.launch(Component::ControllerManager)).expect("it starts");
    });
}

fn objects(namespace: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) =
        if kind == JOB_SET { ("jobset.x-k8s.io", "v1alpha2") } else { ("trainer.kubeflow.org", "v1alpha1") };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client(), namespace, &resource)
}

fn create(namespace: &str, kind: &str, object: Value) -> DynamicObject {
    let object = serde_json::from_value(object).expect("an object");
    let api = objects(namespace, kind);
    until("the kind is served", || block_on(api.create(&PostParams::default(), &object)).ok())
}

/// Creates a TrainJob with these annotations and fields, and its JobSet with one Pod that runs for ever.
fn train(namespace: &str, name: &str, annotations: Value, spec: Value) -> DynamicObject {
    let job = create(
        namespace,
        TRAIN_JOB,
        json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": TRAIN_JOB,
            "metadata": {"name": name, "annotations": annotations}, "spec": spec,
        }),
    );
    operate(namespace, &job);
    job
}

fn owner(of: &DynamicObject) -> Value {
    let types = of.types.clone().expect("it has a kind");
    json!([{
        "apiVersion": types.api_version, "kind": types.kind, "name": of.metadata.name,
        "uid": of.metadata.uid, "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Plays Trainer and the JobSet controller, which begin a job.
fn operate(namespace: &str, job: &DynamicObject) {
    let name = job.metadata.name.clone().expect("a name");
    let set = create(
        namespace,
        JOB_SET,
        json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": JOB_SET,
            "metadata": {"name": name, "ownerReferences": owner(job)}, "spec": {},
        }),
    );
    let pod: Pod = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{name}-node-0"), "ownerReferences": owner(&set)},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }))
    .expect("a Pod");
    block_on(pods(namespace).create(&PostParams::default(), &pod)).expect("it is accepted");
}

/// Gives an object a condition that is true, as its operator does.
fn ends(namespace: &str, kind: &str, name: &str, condition: &str) {
    let now = Time::floor(Timestamp::now()).to_string();
    let condition = json!({
        "type": condition, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": now,
    });
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    let api = objects(namespace, kind);
    block_on(api.patch_status(name, &PatchParams::default(), &patch)).expect("a status");
}

fn get(namespace: &str, kind: &str, name: &str) -> Option<DynamicObject> {
    block_on(objects(namespace, kind).get_opt(name)).expect("an answer")
}

/// The condition of an object that it failed by a deadline.
fn failed(namespace: &str, kind: &str, name: &str) -> Option<Value> {
    let object = get(namespace, kind, name)?;
    let conditions = object.data["status"]["conditions"].as_array()?.clone();
    conditions.into_iter().find(|one| one["type"] == "Failed" && one["reason"] == "DeadlineExceeded")
}

fn gone(namespace: &str, name: &str) {
    until("TrainJob, JobSet and Pod are gone", || {
        let has_pod = block_on(pods(namespace).get_opt(&format!("{name}-node-0"))).expect("an answer");
        let left = get(namespace, TRAIN_JOB, name).is_some() || get(namespace, JOB_SET, name).is_some();
        (!left && has_pod.is_none()).then_some(())
    });
}

fn event(namespace: &str, name: &str, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(client(), namespace);
    until("the Event is there", || {
        let all = block_on(events.list(&ListParams::default())).expect("a list");
        let found = all.items.into_iter().find(|event| {
            event.involved_object.name.as_deref() == Some(name) && event.reason.as_deref() == Some(reason)
        });
        found.and_then(|event| event.message)
    })
}

fn controller() -> Shared {
    install();
    Shared::controller("train-jobs", OURS)
}

const TTL: &str = "frameworkcontroller.microsoft.com/ttlSecondsAfterFinished";
const DEADLINE: &str = "frameworkcontroller.microsoft.com/activeDeadlineSeconds";

#[test]
fn a_finished_train_job_is_deleted_after_its_ttl_with_all_it_owns() {
    let _controller = controller();
    let ns = &namespace("train-ttl");
    train(ns, "unset", json!({}), json!({}));
    train(ns, "later", json!({}), json!({"ttlSecondsAfterFinished": 3600}));
    train(ns, "running", json!({}), json!({"ttlSecondsAfterFinished": 0}));
    train(ns, "field", json!({}), json!({"ttlSecondsAfterFinished": 2}));
    train(ns, "annotated", json!({TTL: "0"}), json!({}));
    train(ns, "failed", json!({TTL: "1"}), json!({}));
    for name in ["unset", "later", "field", "annotated"] {
        ends(ns, TRAIN_JOB, name, "Complete");
    }
    ends(ns, TRAIN_JOB, "failed", "Failed");
    for name in ["field", "annotated", "failed"] {
        gone(ns, name);
    }
    let note = event(ns, "annotated", "ShortTTLSecondsAfterFinished");
    assert!(note.contains("ttlSecondsAfterFinished is 0"), "{note}");
    for name in ["unset", "later", "running"] {
        let kept = get(ns, TRAIN_JOB, name).expect(name);
        assert_eq!(kept.metadata.deletion_timestamp, None, "{name}");
    }
    until("metrics count what happened", || {
        let text = metrics::scrape("train-jobs");
        // Other tests share the controller.
        let pending = metrics::value(&text, "trainjob_ttl_pending_deletions") >= 1;
        (pending && metrics::value(&text, "trainjob_ttl_deletions_total") >= 3).then_some(())
    });
}

#[test]
fn a_train_job_past_its_deadline_fails_with_its_job_set_and_stays_so() {
    assert!(PAGE.contains(OURS.trim_start()), "the page for users has this row");
    let _controller = controller();
    let ns = &namespace("train-deadline");
    let first = train(ns, "overdue", json!({}), json!({"activeDeadlineSeconds": 3}));
    train(ns, "annotated", json!({DEADLINE: "2", TTL: "3600"}), json!({}));
    train(ns, "in-time", json!({}), json!({"activeDeadlineSeconds": 3600}));
    train(ns, "both", json!({}), json!({"activeDeadlineSeconds": 2, "ttlSecondsAfterFinished": 1}));
    let done = train(ns, "done", json!({}), json!({"activeDeadlineSeconds": 3600}));
    ends(ns, TRAIN_JOB, "done", "Complete");
    for name in ["overdue", "annotated"] {
        let of_set = until("its JobSet failed", || failed(ns, JOB_SET, name));
        let of_job = until("it failed", || failed(ns, TRAIN_JOB, name));
        assert_eq!(of_set, of_job);
    }
    let at: Timestamp = failed(ns, TRAIN_JOB, "overdue").expect("it failed")["lastTransitionTime"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a time");
    let created = first.metadata.creation_timestamp.expect("it was created").0;
    let late = at.as_second() - created.as_second() - 3;
    assert!((0..=5).contains(&late), "{late} s late");
    assert!(event(ns, "overdue", "DeadlineExceeded").contains("activeDeadlineSeconds"));
    gone(ns, "both");
    // An operator that forgets the condition of the job gets it back from the JobSet.
    let nothing = Patch::Merge(json!({"status": {"conditions": []}}));
    let api = objects(ns, TRAIN_JOB);
    block_on(api.patch_status("overdue", &PatchParams::default(), &nothing)).expect("a status");
    until("it failed again", || failed(ns, TRAIN_JOB, "overdue"));
    assert_eq!(failed(ns, TRAIN_JOB, "in-time"), None);
    let kept = get(ns, TRAIN_JOB, "done").expect("it is kept");
    assert_eq!((kept.metadata.uid, failed(ns, TRAIN_JOB, "done")), (done.metadata.uid, None));
}

#[test]
fn a_job_set_that_comes_after_the_deadline_fails_too() {
    let _controller = controller();
    let ns = &namespace("train-late");
    let object = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": TRAIN_JOB, "metadata": {"name": "held"},
        "spec": {"suspend": true, "activeDeadlineSeconds": 1},
    });
    let job = create(ns, TRAIN_JOB, object);
    until("it failed, though it was held", || failed(ns, TRAIN_JOB, "held"));
    operate(ns, &job);
    until("its JobSet failed", || failed(ns, JOB_SET, "held"));
}

#[test]
fn the_proposed_train_job_waits_for_both_ends() {
    let _controller = controller();
    let ns = &namespace("train-proposed");
    apply(ns, PROPOSED);
    until("both ends are awaited", || {
        let text = metrics::scrape("train-jobs");
        let within = "trainjob_active_deadline_remaining_seconds_bucket{le=\"14400\"}";
        (metrics::value(&text, within) > 0).then_some(())
    });
    let job = get(ns, TRAIN_JOB, "my-training").expect("it is kept");
    assert_eq!(job.data["spec"]["activeDeadlineSeconds"], 7200);
    ends(ns, TRAIN_JOB, "my-training", "Complete");
    until("its deletion is awaited", || {
        (metrics::value(&metrics::scrape("train-jobs"), "trainjob_ttl_pending_deletions") > 0).then_some(())
    });
}

#[test]
fn ends_that_come_while_no_controller_runs_happen_when_one_does() {
    install();
    let alone = Alone::wait();
    let ns = &namespace("train-restart");
    let mut controller = alone.start("train-restart", OURS);
    train(ns, "ends", json!({TTL: "4"}), json!({}));
    train(ns, "runs", json!({DEADLINE: "4"}), json!({}));
    ends(ns, TRAIN_JOB, "ends", "Complete");
    controller.replace("train-restarted", OURS);
    gone(ns, "ends");
    until("it failed", || failed(ns, TRAIN_JOB, "runs"));
    assert!(failed(ns, JOB_SET, "runs").is_some());
}

#[test]
fn a_hundred_with_both_ends_in_one_second_end_once_and_soon() {
    const MANY: u64 = 100;
    install();
    let alone = Alone::wait();
    let ns = &namespace("train-many");
    let _controller = alone.start("train-many", OURS);
    let job = |number| {
        json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": TRAIN_JOB,
            "metadata": {"name": format!("job-{number}")},
            "spec": {"activeDeadlineSeconds": 8, "ttlSecondsAfterFinished": 2},
        })
    };
    let items: Vec<_> = (0..MANY).map(job).collect();
    apply(ns, &json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    until("all are gone", || {
        let left = block_on(objects(ns, TRAIN_JOB).list(&ListParams::default())).expect("a list");
        left.items.is_empty().then_some(())
    });
    let text = until("the replies to all deletions are counted", || {
        let text = metrics::scrape("train-many");
        (metrics::value(&text, "trainjob_ttl_deletions_total") >= MANY).then_some(text)
    });
    let value = |series: &str| metrics::value(&text, series);
    assert_eq!(value("trainjob_deadline_exceeded_total"), MANY);
    assert_eq!(value("trainjob_ttl_deletions_total"), MANY);
    assert_eq!(value("trainjob_ttl_deletion_latency_seconds_bucket{le=\"5\"}"), MANY);
    let asked = r#"frameworkcontroller_api_requests_total{code="200",resource="version",verb="get"}"#;
    assert!(value(asked) < 40, "{} requests for the time", value(asked));
}
