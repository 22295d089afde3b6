//! TTL and deadline of TrainJobs on the real API server. The tests play Trainer and the JobSet controller.
//!
//! `cargo xtask soak wave --scenario train-jobs` ends many at a time with an optimised controller, and prints
//! how late. `FRAMEWORK_WAVE_TRAIN_JOBS` sets how many, `FRAMEWORK_WAVE_QPS` the controller's request rate.

mod wave;

use std::sync::Once;

use framework_api::Time;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use serde_json::{Value, json};

use crate::cluster::lease::{Alone, Shared, namespace};
use crate::cluster::{apply, block_on, client, installed, kubectl, pods, until};
use crate::job_kinds::own_rows;
use crate::lifetime::metrics;
use crate::wave::number;
use framework_testcluster::Component;

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

/// The page for users, whose row is used here.
const PAGE: &str = include_str!("../../docs/manual/ttl-and-deadline.md");

/// The row of the page, by which we also enforce the field of the spec.
fn ours() -> &'static str {
    own_rows(PAGE)[0]
}

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

/// Creates a TrainJob with these annotations and fields, and its JobSet with a Job whose Pod runs for ever.
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

/// Plays Trainer and the JobSet controller, which begin a job. The Pod is created by the controller of Jobs.
fn operate(namespace: &str, job: &DynamicObject) {
    let name = job.name_any();
    let set = create(
        namespace,
        JOB_SET,
        json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": JOB_SET,
            "metadata": {"name": name, "ownerReferences": owner(job)}, "spec": {},
        }),
    );
    let containers = json!([{"name": "main", "image": "busybox"}]);
    let node: Job = serde_json::from_value(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": node(&name), "ownerReferences": owner(&set)},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }))
    .expect("a Job");
    block_on(nodes(namespace).create(&PostParams::default(), &node)).expect("it is accepted");
}

/// The name that the JobSet controller gives the first Job of a JobSet.
fn node(set: &str) -> String {
    format!("{set}-node-0")
}

fn nodes(namespace: &str) -> Api<Job> {
    Api::namespaced(client(), namespace)
}

/// The number of the Pods of a JobSet, those that still terminate included.
fn pods_of(namespace: &str, set: &str) -> usize {
    let of_node = ListParams::default().labels(&format!("job-name={}", node(set)));
    block_on(pods(namespace).list(&of_node)).expect("a list").items.len()
}

/// Plays the JobSet controller once more. In v0.10.1, it deletes the active Jobs of a JobSet whose condition
/// `Failed` or `Completed` is true, also if another client wrote that. It deletes them in the foreground, so
/// that their Pods end. It creates no others. The Jobs of these tests are active as long as they are there.
fn clean_up(namespace: &str) {
    let sets = block_on(objects(namespace, JOB_SET).list(&ListParams::default())).expect("a list").items;
    for set in sets {
        let conditions = set.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_end = |one: &Value| one["type"] == "Failed" || one["type"] == "Completed";
        if !conditions.iter().any(|one| is_end(one) && one["status"] == "True") {
            continue;
        }
        match block_on(nodes(namespace).delete(&node(&set.name_any()), &DeleteParams::foreground())) {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("its Job: {error}"),
        }
    }
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

/// How many seconds after its deadline a TrainJob failed, once it has: the deadline is so many seconds after
/// its creation.
fn lateness(namespace: &str, name: &str, seconds: i64) -> i64 {
    let condition = until("it failed", || failed(namespace, TRAIN_JOB, name));
    let at = condition["lastTransitionTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let job = get(namespace, TRAIN_JOB, name).expect("it is kept");
    let created = job.metadata.creation_timestamp.expect("it was created").0;
    at.expect("a time").as_second() - created.as_second() - seconds
}

fn gone(namespace: &str, name: &str) {
    until("TrainJob, JobSet, Job and Pod are gone", || {
        let has_node = block_on(nodes(namespace).get_opt(&node(name))).expect("an answer").is_some();
        let left = get(namespace, TRAIN_JOB, name).is_some() || get(namespace, JOB_SET, name).is_some();
        (!left && !has_node && pods_of(namespace, name) == 0).then_some(())
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
    Shared::controller("train-jobs", ours())
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
    let _controller = controller();
    let ns = &namespace("train-deadline");
    // The controller may start with this test. Once it has acted, it has found and listed both kinds.
    train(ns, "before", json!({DEADLINE: "1"}), json!({}));
    until("a controller acts on both kinds", || failed(ns, JOB_SET, "before"));
    train(ns, "overdue", json!({}), json!({"activeDeadlineSeconds": 3}));
    train(ns, "annotated", json!({DEADLINE: "2", TTL: "3600"}), json!({}));
    train(ns, "in-time", json!({}), json!({"activeDeadlineSeconds": 3600}));
    train(ns, "both", json!({}), json!({"activeDeadlineSeconds": 2, "ttlSecondsAfterFinished": 1}));
    let done = train(ns, "done", json!({}), json!({"activeDeadlineSeconds": 3600}));
    ends(ns, TRAIN_JOB, "done", "Complete");
    for name in ["overdue", "annotated", "in-time"] {
        until("its Pod is there", || (pods_of(ns, name) == 1).then_some(()));
    }
    for name in ["overdue", "annotated"] {
        let of_set = until("its JobSet failed", || failed(ns, JOB_SET, name));
        let of_job = until("it failed", || failed(ns, TRAIN_JOB, name));
        assert_eq!(of_set, of_job);
        until("its Pod is gone", || {
            clean_up(ns);
            (pods_of(ns, name) == 0).then_some(())
        });
        assert_eq!(failed(ns, TRAIN_JOB, name), Some(of_job), "it stays so");
    }
    assert_eq!(pods_of(ns, "in-time"), 1, "others run on");
    // On a busy machine one may be late: then another one is tried.
    let in_time = ["overdue", "second", "third", "fourth"].into_iter().any(|name| {
        if name != "overdue" {
            train(ns, name, json!({}), json!({"activeDeadlineSeconds": 3}));
        }
        let late = lateness(ns, name, 3);
        println!("{name}: {late} s late");
        assert!(late >= 0, "{name} is early: {late} s");
        late <= 5
    });
    assert!(in_time, "each is more than 5 s late");
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
    install();
    let alone = Alone::wait();
    // A controller counts the TrainJobs of all namespaces. Those of other tests would count, too.
    kubectl(&["delete", "trainjobs", "--all", "--all-namespaces", "--timeout=60s"]);
    let ns = &namespace("train-proposed");
    let _controller = alone.start("train-proposed", ours());
    apply(ns, PROPOSED);
    // Deadlines within one hour and within four, and TrainJobs that a TTL will delete.
    let counted = |expected: [u64; 3]| {
        until(&format!("the counts are {expected:?}"), || {
            let text = metrics::scrape("train-proposed");
            let within = |seconds: u32| {
                let bucket = format!("trainjob_active_deadline_remaining_seconds_bucket{{le=\"{seconds}\"}}");
                metrics::value(&text, &bucket)
            };
            let pending = metrics::value(&text, "trainjob_ttl_pending_deletions");
            ([within(3600), within(14_400), pending] == expected).then_some(())
        });
    };
    counted([0, 1, 0]);
    let job = get(ns, TRAIN_JOB, "my-training").expect("it is kept");
    assert_eq!(job.data["spec"]["activeDeadlineSeconds"], 7200);
    ends(ns, TRAIN_JOB, "my-training", "Complete");
    counted([0, 0, 1]);
    let kept = get(ns, TRAIN_JOB, "my-training").expect("it is kept");
    assert_eq!(kept.metadata.deletion_timestamp, None);
}

#[test]
fn ends_that_come_while_no_controller_runs_happen_when_one_does() {
    install();
    let alone = Alone::wait();
    let ns = &namespace("train-restart");
    let mut controller = alone.start("train-restart", ours());
    train(ns, "ends", json!({TTL: "4"}), json!({}));
    train(ns, "runs", json!({DEADLINE: "4"}), json!({}));
    ends(ns, TRAIN_JOB, "ends", "Complete");
    controller.replace("train-restarted", ours());
    gone(ns, "ends");
    until("it failed", || failed(ns, TRAIN_JOB, "runs"));
    assert!(failed(ns, JOB_SET, "runs").is_some());
}

#[test]
fn many_with_both_ends_in_one_second_end_once_and_never_early() {
    let asked = number("TRAIN_JOBS");
    let many = asked.unwrap_or(100);
    install();
    let alone = Alone::wait();
    let ns = &namespace("train-many");
    let pace = asked.map_or_else(String::new, |_| crate::wave::config());
    let _controller = alone.start("train-many", &format!("{}\n{pace}", ours()));
    let mark = installed().audit().mark().expect("the log is there");
    wave::create_all(ns, many);
    let value = |series: &str| {
        usize::try_from(metrics::value(&metrics::scrape("train-many"), series)).expect("a number")
    };
    let deleted = || value("trainjob_ttl_deletions_total");
    wave::until_done("the replies to all deletions are counted", many, deleted);
    wave::until_done("all are gone", many, || many.saturating_sub(wave::left(ns)));
    assert_eq!((value("trainjob_deadline_exceeded_total"), deleted()), (many, many));
    let seconds = wave::check(mark, ns, many);
    assert_eq!(value("trainjob_ttl_deletion_latency_seconds_count"), many);
    let time = r#"frameworkcontroller_api_requests_total{code="200",resource="version",verb="get"}"#;
    let (asked, allowed) = (value(time), crate::wave::questions(seconds));
    println!("{asked} requests for the time, of {allowed} for {seconds} seconds");
    assert!(asked <= allowed, "{asked} requests for the time");
}
