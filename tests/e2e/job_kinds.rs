//! Kinds of jobs without code of their own, on the real API server: each waits by the row that declares it.

use std::fs;
use std::sync::Once;

use framework_api::queue::{CONSUMER_LABEL, Phase, QUEUE_NAME_LABEL, QueueUnit};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::lease::Shared;
use crate::cluster::{self, block_on, client, completed, kubectl, pods, running, until};
use crate::job_crds::Served;
use crate::job_rows::{self, MPI_JOB};
use crate::queue::{
    QUEUEING, furnish, gang, job_sets, queued, serve_job_sets, stands, unit, waits_while_held,
};

/// The page for users, whose rows are used here.
const PAGE: &str = include_str!("../../docs/manual/queue-kinds.md");

/// The key of the rows in the config file.
const KEY: &str = "queueJobKinds:\n";

/// The blocks of a page with rows for the config file, each with the key.
pub fn own_rows(page: &str) -> Vec<&str> {
    let blocks = page.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.filter(|block| block.starts_with(KEY)).collect()
}

/// The folders of the shipped components: one for each kind.
fn components() -> Vec<String> {
    let found = fs::read_dir(FOLDER).expect("it is there");
    let names = found.map(|entry| entry.expect("it is readable").file_name().into_string().expect("a name"));
    names.filter(|name| !name.ends_with(".yaml")).collect()
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/job-kinds");

/// Rights on all kinds, from the shipped components, and on the kind of the page.
fn permit() {
    static PERMITTED: Once = Once::new();
    PERMITTED.call_once(|| {
        serve_job_sets();
        TRAIN_JOB.install();
        TUNING.install();
        job_rows::install();
        let components = components();
        assert!(components.len() > 8, "{components:?}");
        for kind in &components {
            kubectl(&["apply", "--server-side", "-f", &format!("{FOLDER}/{kind}/cluster_role.yaml")]);
        }
        let verbs = ["get", "list", "watch", "patch"];
        let rules = json!([{
            "apiGroups": ["example.com"], "resources": ["sweeps", "tunings"], "verbs": verbs,
        }]);
        let role = serde_json::from_value(json!({"metadata": {"name": "sweeps"}, "rules": rules}));
        let roles: Api<ClusterRole> = Api::all(client());
        let role = role.expect("a ClusterRole");
        block_on(roles.create(&PostParams::default(), &role)).expect("it is accepted");
        let kinds = components.iter().map(|kind| format!("frameworkcontroller-job-kinds-{kind}"));
        for role in kinds.chain(["sweeps".to_owned()]) {
            let (name, role) = (format!("test-{role}"), format!("--clusterrole={role}"));
            kubectl(&["create", "clusterrolebinding", &name, &role, "--user=controller"]);
        }
    });
}

/// A controller with the rows of the page.
pub fn controller() -> Shared {
    controller_of("job-kinds")
}

/// The same under a name of its own, so that it starts with the test: a controller looks for kinds ever more
/// seldom, and after minutes a test would wait too long for a CRD that it installs.
fn controller_of(name: &'static str) -> Shared {
    permit();
    let rows: String = own_rows(PAGE).iter().filter_map(|block| block.strip_prefix(KEY)).collect();
    let config: &'static str = Box::leak(format!("{QUEUEING}\n{KEY}{rows}").into());
    Shared::controller(name, config)
}

/// A kind that is there before the controller: it looks for others ever more seldom.
const TRAIN_JOB: Served = Served::new("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs");

/// A kind that waits by an annotation, and whose CRD is removed while others wait.
const TUNING: Served = Served::new("example.com", "v1", "Tuning", "tunings");

/// The annotation of kube-queue.
const SUSPEND: &str = "scheduling.x-k8s.io/suspend";

pub fn template(cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    json!({"spec": {"containers": [{"name": "main", "image": "busybox", "resources": resources}]}})
}

pub fn spec(jobs: &Api<DynamicObject>, name: &str) -> Value {
    block_on(jobs.get(name)).expect("it is there").data["spec"].clone()
}

/// The resources that a unit requests.
pub fn requests(unit: &QueueUnit) -> Vec<String> {
    unit.spec.resource.iter().map(|(name, amount)| format!("{name}: {}", amount.0)).collect()
}

/// Waits for an Event about a job with that reason, and returns its text and how often it was emitted.
pub fn event(namespace: &str, job: &str, reason: &str) -> (String, i32) {
    let events: Api<Event> = Api::namespaced(client(), namespace);
    until(&format!("an Event {reason} of {job}"), || {
        let found = block_on(events.list(&ListParams::default())).expect("Events are served").items;
        let of_it = |event: &Event| {
            let about = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
            about == Some(job) && event.reason.as_deref() == Some(reason)
        };
        let mut found: Vec<_> = found.into_iter().filter(of_it).collect();
        assert!(found.len() <= 1, "{found:?}");
        let event = found.pop()?;
        Some((event.note.unwrap_or_default(), event.series.map_or(1, |series| series.count)))
    })
}

/// The reference of an object that a job controls.
fn owner(job: &DynamicObject) -> Value {
    let types = job.types.clone().expect("it has a kind");
    json!({
        "apiVersion": types.api_version, "kind": types.kind, "name": job.metadata.name,
        "uid": job.metadata.uid, "controller": true,
    })
}

/// Creates a Pod as an operator does: from the stored template, controlled by the job.
pub fn operate(namespace: &str, pod: &str, job: &DynamicObject, template: &Value) {
    let owner = owner(job);
    let labels = &template["metadata"]["labels"];
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": pod, "labels": labels, "ownerReferences": [owner]}, "spec": template["spec"],
    });
    let object: Pod = serde_json::from_value(object).expect("a Pod");
    block_on(pods(namespace).create(&PostParams::default(), &object)).expect("it is accepted");
}

#[test]
fn a_pytorch_job_waits_for_quota_and_returns_it_with_its_last_pod() {
    let _controller = controller_of("job-kinds-pytorch");
    let ns = "pytorch";
    furnish(ns, 5);
    // Without the CRD nothing is delayed.
    gang(ns, "first", 2);
    running(ns, "first", 2);
    let kind = Served::new("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs");
    kind.install();
    let jobs = kind.jobs(ns);
    kind.create(ns, "malformed", &json!({"runPolicy": {"suspend": true}, "pytorchReplicaSpecs": "none"}));
    let replicas = json!({
        "Master": {"template": template("1")}, "Worker": {"replicas": 3, "template": template("500m")},
    });
    let waits = json!({"runPolicy": {"suspend": true}, "pytorchReplicaSpecs": replicas});
    let job = kind.create(ns, "train", &waits);
    let waiting = stands(ns, "pytorchjob-train", Phase::Enqueued, "InsufficientQuota");
    assert_eq!(requests(&waiting), ["cpu: 2500m", "pods: 4"]);
    assert_eq!(spec(&jobs, "train")["runPolicy"]["suspend"], true);
    assert!(unit(ns, "pytorchjob-malformed").is_none(), "it has no request that is known");
    let (says, times) = event(ns, "malformed", "RequestUnknown");
    assert!(says.contains("/spec/pytorchReplicaSpecs: invalid type: string \"none\", expected"), "{says}");
    assert_eq!(times, 1);

    cluster::execute(ns, "first", "Stop");
    completed(ns, "first");
    until("it goes on", || (spec(&jobs, "train")["runPolicy"]["suspend"] == false).then_some(()));
    stands(ns, "pytorchjob-train", Phase::Dequeued, "Admitted");
    let released = spec(&jobs, "train")["pytorchReplicaSpecs"].clone();
    for role in ["Master", "Worker"] {
        let labels = &released[role]["template"]["metadata"]["labels"];
        assert_eq!(labels[QUEUE_NAME_LABEL], "q", "its Pods will carry the label: {released}");
        assert_eq!(labels[CONSUMER_LABEL].as_str(), job.metadata.uid.as_deref(), "{released}");
    }
    operate(ns, "train-master-0", &job, &released["Master"]["template"]);
    let suspends = Patch::Merge(json!({"spec": {"runPolicy": {"suspend": true}}}));
    block_on(jobs.patch("train", &PatchParams::default(), &suspends)).expect("it may be suspended again");
    let (says, times) = event(ns, "train", "StaysSuspended");
    assert!(says.contains("until it is resumed by hand"), "{says}");
    assert_eq!(times, 1);
    assert_eq!(spec(&jobs, "train")["runPolicy"]["suspend"], true);
    let ends = Patch::Merge(json!({"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}));
    gang(ns, "second", 2);
    queued(ns, "second", "True", "InsufficientQuota");
    block_on(jobs.patch_status("train", &PatchParams::default(), &ends)).expect("a status");
    // Its Pod still uses one of five.
    running(ns, "second", 2);
    gang(ns, "third", 3);
    waits_while_held(ns, "third", 3);
    block_on(pods(ns).delete("train-master-0", &DeleteParams::default())).expect("it is there");
    running(ns, "third", 3);

    block_on(jobs.delete("train", &DeleteParams::default())).expect("it is there");
    until("its unit is gone", || unit(ns, "pytorchjob-train").is_none().then_some(()));
}

#[test]
fn a_kind_whose_crd_is_removed_returns_its_capacity_and_may_come_again() {
    let _controller = controller();
    let ns = "removed-kind";
    furnish(ns, 2);
    let (spec, waits) = (json!({"parallel": 2, "pod": template("1")}), json!({SUSPEND: "true"}));
    let suspend = |name: &str| {
        let job = block_on(TUNING.jobs(ns).get(name)).expect("it is there");
        job.metadata.annotations.and_then(|mut annotations| annotations.remove(SUSPEND))
    };
    TUNING.create_annotated(ns, "train", &spec, &waits);
    stands(ns, "tuning-train", Phase::Dequeued, "Admitted");
    until("it goes on", || (suspend("train").as_deref() == Some("false")).then_some(()));
    gang(ns, "next", 2);
    queued(ns, "next", "True", "InsufficientQuota");
    kubectl(&["delete", "crd", "tunings.example.com"]);
    running(ns, "next", 2);
    TUNING.install();
    TUNING.create_annotated(ns, "again", &spec, &waits);
    stands(ns, "tuning-again", Phase::Enqueued, "InsufficientQuota");
    assert_eq!(suspend("again").as_deref(), Some("true"), "it stays suspended");
}

#[test]
fn the_pod_of_an_mpi_launcher_counts_once_by_the_owner_of_its_job() {
    let _controller = controller();
    let ns = "mpi";
    furnish(ns, 3);
    let worker = json!({"replicas": 1, "template": template("1")});
    let replicas = json!({"Launcher": {"template": template("1")}, "Worker": worker});
    let waits = json!({"runPolicy": {"suspend": true}, "mpiReplicaSpecs": replicas});
    let job = MPI_JOB.create(ns, "mpi", &waits);
    stands(ns, "mpijob-mpi", Phase::Dequeued, "Admitted");
    let jobs = MPI_JOB.jobs(ns);
    until("it goes on", || (spec(&jobs, "mpi")["runPolicy"]["suspend"] == false).then_some(()));
    // As its operator does, with the Pod template of the resumed job.
    let mut launcher = spec(&jobs, "mpi")["mpiReplicaSpecs"]["Launcher"]["template"].clone();
    launcher["spec"]["restartPolicy"] = json!("Never");
    let launcher = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "mpi-launcher", "labels": {"app": "mpi"}, "ownerReferences": [owner(&job)]},
        "spec": {"template": launcher},
    });
    cluster::apply(ns, &launcher.to_string());
    let of_launcher = ListParams::default().labels("job-name=mpi-launcher");
    until("the launcher runs", || {
        let found = block_on(pods(ns).list(&of_launcher)).expect("a list").items;
        found
            .into_iter()
            .find(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running"))
    });
    // Two of three are reserved, and the launcher is one of the two.
    gang(ns, "next", 1);
    running(ns, "next", 1);
}

/// Creates the suspended JobSet of a TrainJob with three Pods, as Trainer does from the runtime of the job.
fn make_job_set(namespace: &str, job: &DynamicObject) {
    let mut pod = template("500m");
    pod["spec"]["restartPolicy"] = json!("Never");
    let part = json!({"spec": {"parallelism": 3, "template": pod}});
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": job.metadata.name, "ownerReferences": [owner(job)]},
        "spec": {"suspend": true, "replicatedJobs": [{"name": "node", "template": part}]},
    });
    cluster::apply(namespace, &set.to_string());
}

/// Creates the Job of a JobSet with two Pods, one less than it may have, as the JobSet controller does.
fn run_job_set(namespace: &str, set: &DynamicObject) {
    let mut job = set.data["spec"]["replicatedJobs"][0]["template"].clone();
    job["spec"]["parallelism"] = json!(2);
    job["apiVersion"] = json!("batch/v1");
    job["kind"] = json!("Job");
    // A Job without labels would get those of its template, and wait in the queue itself.
    let labels = json!({"jobset.sigs.k8s.io/jobset-name": "train"});
    job["metadata"] = json!({"name": "train-node-0", "labels": labels, "ownerReferences": [owner(set)]});
    cluster::apply(namespace, &job.to_string());
    let of_job = ListParams::default().labels("job-name=train-node-0");
    until("its Pods run", || {
        let found = block_on(pods(namespace).list(&of_job)).expect("a list").items;
        let is_running =
            |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        (found.iter().filter(is_running).count() == 2).then_some(())
    });
}

#[test]
fn a_train_job_waits_for_quota_and_returns_it_with_its_last_pod() {
    let _controller = controller();
    let ns = "trainjob";
    furnish(ns, 5);
    gang(ns, "first", 3);
    running(ns, "first", 3);
    let jobs = TRAIN_JOB.jobs(ns);
    let job = TRAIN_JOB.create(ns, "train", &json!({"suspend": true, "runtimeRef": {"name": "torch"}}));
    make_job_set(ns, &job);
    let waiting = stands(ns, "trainjob-train", Phase::Enqueued, "InsufficientQuota");
    assert_eq!(requests(&waiting), ["cpu: 1500m", "pods: 3"]);
    assert_eq!(spec(&jobs, "train")["suspend"], true);

    cluster::execute(ns, "first", "Stop");
    completed(ns, "first");
    until("it goes on", || (spec(&jobs, "train")["suspend"] == false).then_some(()));
    stands(ns, "trainjob-train", Phase::Dequeued, "Admitted");
    let set = block_on(job_sets(ns).get("train")).expect("it is there");
    let labels = &set.data["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels[QUEUE_NAME_LABEL], "q", "{set:?}");
    assert_eq!(labels[CONSUMER_LABEL].as_str(), job.metadata.uid.as_deref(), "{set:?}");
    assert_eq!(set.data["spec"]["suspend"], true, "Trainer resumes it");
    run_job_set(ns, &set);
    // Three of five are reserved, and its two Pods are of the three.
    gang(ns, "beside", 2);
    running(ns, "beside", 2);

    let ended = json!([{
        "type": "Complete", "status": "True", "reason": "JobsCompleted", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    TRAIN_JOB.set_status(ns, "train", &json!({"conditions": ended}));
    // One of three returns at once, the others with the Pods.
    gang(ns, "small", 1);
    running(ns, "small", 1);
    gang(ns, "next", 2);
    waits_while_held(ns, "next", 5);
    kubectl(&["delete", "job", "train-node-0", "--namespace", ns]);
    running(ns, "next", 2);
    block_on(jobs.delete("train", &DeleteParams::default())).expect("it is there");
    until("its unit is gone", || unit(ns, "trainjob-train").is_none().then_some(()));
}

#[test]
fn a_kind_nobody_has_heard_of_waits_by_ten_lines_of_config() {
    let _controller = controller_of("job-kinds-sweep");
    assert!(own_rows(PAGE)[0].lines().count() <= 11, "ten lines and the key");
    let ns = "sweeps";
    furnish(ns, 7);
    let kind = Served::new("example.com", "v1", "Sweep", "sweeps");
    kind.install();
    let trials = json!([
        {"parallel": 2, "pod": template("1")}, {"parallel": 4, "total": 3, "pod": template("2")},
    ]);
    let first = kind.create(ns, "first", &json!({"paused": true, "trials": trials}));
    let jobs = kind.jobs(ns);
    let found = stands(ns, "sweep-first", Phase::Dequeued, "Admitted");
    assert_eq!(requests(&found), ["cpu: 8", "pods: 5"]);
    until("it goes on", || (spec(&jobs, "first")["paused"] == false).then_some(()));

    // A unit by hand, for a job without the label, follows that job.
    let unlabelled = json!({
        "apiVersion": "example.com/v1", "kind": "Sweep", "metadata": {"name": "second"},
        "spec": {"paused": true, "trials": [{"parallel": 3, "pod": template("1")}]},
    });
    cluster::apply(ns, &unlabelled.to_string());
    let by_hand = json!({
        "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": {"name": "by-hand"},
        "spec": {
            "consumerRef": {"apiVersion": "example.com/v1", "kind": "Sweep", "name": "second"},
            "queue": "q", "resource": {"cpu": 3, "pods": 3},
        },
    });
    cluster::apply(ns, &by_hand.to_string());
    stands(ns, "by-hand", Phase::Enqueued, "InsufficientQuota");
    let ends = |name: &str| {
        let status = Patch::Merge(json!({"status": {"phase": "Done"}}));
        block_on(jobs.patch_status(name, &PatchParams::default(), &status)).expect("a status");
    };
    assert!(first.metadata.uid.is_some());
    ends("first");
    stands(ns, "by-hand", Phase::Dequeued, "Admitted");
    assert_eq!(spec(&jobs, "second")["paused"], true, "its creator starts it");
    gang(ns, "third", 6);
    queued(ns, "third", "True", "InsufficientQuota");
    block_on(jobs.delete("second", &DeleteParams::default())).expect("it is there");
    running(ns, "third", 6);
}
