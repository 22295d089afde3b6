//! The history that the controller writes to standard error, on the real API server. Every kind is extracted
//! from the log as a pipeline does it, and compared with the stored objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use framework_api::State;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::cluster::history::{History, Object, What};
use crate::cluster::lease::{Alone, namespace};
use crate::cluster::recording::Recording;
use crate::cluster::snapshots::{Snapshot, assert_replaced_are_logged, assert_whole, logged};
use crate::cluster::{self, block_on, log_of, manifest, merge, running, wait};

/// How long a line may take.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);
const CONTROLLER: &str = "history";

/// Waits until the log of a namespace is as asked, and gives its snapshots.
fn await_logged(namespace: &str, what: &str, is: impl Fn(&[Snapshot]) -> bool) -> Vec<Snapshot> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let log = log_of(CONTROLLER);
        let logged = logged(&log, namespace);
        if is(&logged) {
            return logged;
        }
        assert!(Instant::now() < deadline, "not logged: {what}\n{log}");
        std::thread::sleep(PAUSE);
    }
}

fn count(logged: &[Snapshot], trigger: &str, name: &str) -> usize {
    logged.iter().filter(|snapshot| snapshot.trigger == trigger && snapshot.meta("name") == name).count()
}

/// Waits until an object of that name was logged by that trigger.
fn await_one(namespace: &str, trigger: &str, name: &str) -> Snapshot {
    let what = format!("{trigger} of {name}");
    let logged = await_logged(namespace, &what, |logged| count(logged, trigger, name) > 0);
    let mut of_it = logged.into_iter().filter(|one| one.trigger == trigger && one.meta("name") == name);
    of_it.next().expect("it was there")
}

fn delete_framework(namespace: &str, name: &str, how: PropagationPolicy) {
    let parameters = DeleteParams { propagation_policy: Some(how), ..DeleteParams::default() };
    block_on(cluster::frameworks(namespace).delete(name, &parameters)).expect("it is there");
}

/// Task a-0 fails transiently once in each attempt. [`fail_flaky`] fails b-0, so that the whole is retried
/// once.
pub fn flaky() -> cluster::Manifest {
    let flaky = [("exit-code", "200"), ("only-task-attempt", "0")];
    let hopeless = [("exit-code", "1"), ("run-duration", "forever")];
    manifest("flaky").retry(false, 1).role("a", 1, &flaky).task_retry(true, 0).role("b", 1, &hopeless)
}

/// Fails b-0 in both attempts of [`flaky`], once a-0 was retried: on a busy machine that may take any time.
pub fn fail_flaky(namespace: &str) {
    let ends = format!("{}/run-duration=100ms", cluster::TEST);
    for attempt in 0..2 {
        wait(namespace, "flaky", "at the end of a-0", |framework| {
            let Some(mut status) = framework.status.clone() else { return false };
            status.decompress().expect("the controller writes what can be read");
            let is = |role: &str, state: State| status.task(role, 0).is_some_and(|task| task.state == state);
            status.attempt_status.id == attempt && is("a", State::Completed) && is("b", State::AttemptRunning)
        });
        cluster::kubectl(&["annotate", "--overwrite", "pod", "flaky-b-0", "--namespace", namespace, &ends]);
    }
}

#[test]
fn retries_removals_and_retention_are_logged_as_they_were_stored() {
    tells_two_lives("history-retries", "", false);
}

#[test]
fn compressed_frameworks_are_logged_like_others() {
    let config = "largeFrameworkCompression: true\nlargeFrameworkCompressionThresholdBytes: 0\n";
    tells_two_lives("history-compressed", config, true);
}

/// Checks the snapshots that a controller with this configuration logs of two Frameworks: one is retried, one
/// is scaled down, and both end by retention.
fn tells_two_lives(namespace: &str, config: &str, compressed: bool) {
    let ns = cluster::lease::namespace(namespace);
    let alone = Alone::wait();
    let _controller = alone.start(CONTROLLER, &format!("{config}frameworkCompletedRetainSec: 1"));
    let recording = Recording::start(&ns);
    flaky().create(&ns);
    manifest("scaled").role("w", 3, &[]).create(&ns);
    fail_flaky(&ns);
    let stored = running(&ns, "scaled", 3).status.expect("a status").attempt_status;
    assert_eq!(stored.task_role_statuses_compressed.is_some(), compressed);
    assert_eq!(stored.task_role_statuses.is_none(), compressed);
    merge(&ns, "scaled", json!({"taskRoles": [scaled_role(1)]}));
    let removed =
        |logged: &[Snapshot]| logged.iter().filter(|one| one.trigger == "OnTaskDeletion").count() >= 2;
    await_logged(&ns, "two removed Tasks", removed);
    await_one(&ns, "OnFrameworkDeletion", "flaky");
    recording.wait("flaky is deleted", |changes| {
        let gone =
            |object: &Object| matches!(object, Object::Framework(one) if name_of(&one.metadata) == "flaky");
        changes.iter().any(|change| change.what == What::Gone && gone(&change.object))
    });
    cluster::execute(&ns, "scaled", "Stop");
    await_one(&ns, "OnFrameworkDeletion", "scaled");
    let history = recording.end();
    let logged = await_logged(&ns, "every Pod that is gone", |logged| {
        let pods = logged.iter().filter(|one| one.trigger == "OnPodDeletion").count();
        pods >= history.pods.iter().filter(|life| life.gone.is_some()).count()
    });
    assert_replaced_are_logged(&history, &logged);
    assert_eq!(counts(&logged), EXPECTED);
    for snapshot in logged.iter().filter(|one| one.object["kind"] == "Framework") {
        let framework = assert_whole(snapshot);
        let status = framework.status.expect("a status");
        let tasks: usize = status.task_roles().iter().map(|role| role.task_statuses.len()).sum();
        assert_eq!(tasks, if snapshot.meta("name") == "flaky" { 2 } else { 1 });
    }
    assert_pods_are_logged(&history, &logged);
    let task = logged.iter().find(|one| one.trigger == "OnTaskDeletion").expect("a removed Task");
    assert_task(&history, task);
    let retried = logged.iter().find(|one| one.trigger == "OnTaskRetry").expect("a retried Task");
    assert!(retried.object["metadata"].get("deletionTimestamp").is_none(), "it lives on");
    assert_eq!(retried.object["status"]["attemptStatus"]["completionStatus"]["code"], 200);
}

/// All that is logged of the two, and how often: flaky-a-0 is retried once in each attempt.
const EXPECTED: [(&str, &str, usize); 11] = [
    ("OnFrameworkDeletion", "flaky", 1),
    ("OnFrameworkDeletion", "scaled", 1),
    ("OnFrameworkRetry", "flaky", 1),
    ("OnPodDeletion", "flaky-a-0", 4),
    ("OnPodDeletion", "flaky-b-0", 2),
    ("OnPodDeletion", "scaled-w-0", 1),
    ("OnPodDeletion", "scaled-w-1", 1),
    ("OnPodDeletion", "scaled-w-2", 1),
    ("OnTaskDeletion", "scaled-w-1", 1),
    ("OnTaskDeletion", "scaled-w-2", 1),
    ("OnTaskRetry", "flaky-a-0", 2),
];

/// How often each object was logged by each trigger; a fact that was logged twice counts once.
fn counts(logged: &[Snapshot]) -> Vec<(&str, &str, usize)> {
    let (mut counts, mut facts) = (BTreeMap::new(), BTreeSet::new());
    for snapshot in logged.iter().filter(|snapshot| facts.insert(snapshot.fact())) {
        *counts.entry((snapshot.trigger.as_str(), snapshot.meta("name"))).or_insert(0) += 1;
    }
    counts.into_iter().map(|((trigger, name), count)| (trigger, name, count)).collect()
}

fn scaled_role(number: u32) -> Value {
    let pod =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}});
    json!({"name": "w", "taskNumber": number, "task": {"pod": pod}})
}

fn name_of(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// The contract on a Task's metadata.
fn assert_task(history: &History, task: &Snapshot) {
    let (_, framework) = history
        .frameworks
        .iter()
        .find(|(version, _)| version.to_string() == task.meta("resourceVersion"))
        .expect("the version of its Framework");
    let status = framework.status.as_ref().expect("a status");
    let role = &status.task_roles()[0];
    let index = task.object["status"]["index"].to_string();
    let own = &framework.metadata;
    let map = status.attempt_status.config_map_uid.as_deref().expect("a ConfigMap");
    let labels = json!({"FC_FRAMEWORK_NAME": "scaled", "FC_TASKROLE_NAME": "w", "FC_TASK_INDEX": index});
    let annotations = json!({
        "FC_FRAMEWORK_NAMESPACE": own.namespace, "FC_FRAMEWORK_NAME": "scaled", "FC_TASKROLE_NAME": "w",
        "FC_TASK_INDEX": index, "FC_CONFIGMAP_NAME": "scaled-attempt", "FC_FRAMEWORK_UID": own.uid,
        "FC_FRAMEWORK_ATTEMPT_ID": "0", "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": format!("0_{map}"),
        "FC_CONFIGMAP_UID": map, "FC_TASKROLE_UID": role.instance_uid,
    });
    assert_eq!(task.object["apiVersion"], "frameworkcontroller.microsoft.com/v1");
    assert_eq!((&task.object["kind"], task.meta("name")), (&json!("Task"), &*format!("scaled-w-{index}")));
    assert_eq!(task.object["metadata"]["generation"], json!(own.generation));
    assert_eq!(task.object["metadata"]["creationTimestamp"], task.object["status"]["startTime"]);
    assert_eq!(task.object["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(!task.meta("deletionTimestamp").is_empty());
    assert_eq!(
        (&task.object["metadata"]["labels"], &task.object["metadata"]["annotations"]),
        (&labels, &annotations)
    );
    assert_eq!(task.object["spec"], json!(framework.spec.task_roles[0].task));
}

/// Asserts that every Pod that is gone was logged whole.
fn assert_pods_are_logged(history: &History, logged: &[Snapshot]) {
    let gone: Vec<_> = history.pods.iter().filter(|pod| pod.gone.is_some()).collect();
    assert!(!gone.is_empty());
    for life in gone {
        let of_it = |one: &&Snapshot| one.trigger == "OnPodDeletion" && one.meta("uid") == life.uid;
        let snapshot = logged.iter().find(of_it).unwrap_or_else(|| panic!("not logged: {life:?}"));
        assert!(!snapshot.is_incomplete(), "{}", snapshot.sentence);
        let pod: Pod = serde_json::from_value(snapshot.object.clone()).expect("a Pod");
        assert_eq!(name_of(&pod.metadata), life.name);
        let spec = pod.spec.expect("its spec");
        assert!(spec.containers[0].env.iter().flatten().any(|variable| variable.name == "FC_POD_UID"));
        assert!(pod.metadata.managed_fields.is_some(), "it is the whole Pod");
    }
}

#[test]
fn every_kind_of_deletion_logs_the_framework_and_its_pods() {
    let ns = namespace("history-deletions");
    let alone = Alone::wait();
    let _controller = alone.start(CONTROLLER, "");
    let ways = [
        ("foreground", PropagationPolicy::Foreground),
        ("background", PropagationPolicy::Background),
        ("orphan", PropagationPolicy::Orphan),
    ];
    for (name, _) in &ways {
        manifest(name).role("w", 2, &[]).create(&ns);
    }
    for (name, how) in ways {
        running(&ns, name, 2);
        delete_framework(&ns, name, how);
        let framework = assert_whole(&await_one(&ns, "OnFrameworkDeletion", name));
        let ended = cluster::state(&framework) == Some(State::Completed);
        // Its objects are deleted before it. No promise says whether the status that says so is stored before
        // the garbage collector removes the Framework.
        assert!(!ended || name == "foreground", "{name}: its objects go after it");
    }
    for pod in ["foreground-w-0", "foreground-w-1", "background-w-0", "background-w-1"] {
        assert!(!await_one(&ns, "OnPodDeletion", pod).is_incomplete());
    }
    // The Pods of an orphaned Framework run on, first under their ConfigMap, then alone.
    cluster::delete_pod(&ns, "orphan-w-0");
    await_one(&ns, "OnPodDeletion", "orphan-w-0");
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    block_on(cluster::config_maps(&ns).delete("orphan-attempt", &orphan)).expect("it is there");
    let deadline = Instant::now() + PATIENCE;
    let owned = || {
        let pod = block_on(cluster::pods(&ns).get("orphan-w-1")).expect("it runs on");
        pod.metadata.owner_references.is_some_and(|owners| !owners.is_empty())
    };
    while owned() {
        assert!(Instant::now() < deadline, "the Pod keeps its owner");
        std::thread::sleep(PAUSE);
    }
    cluster::delete_pod(&ns, "orphan-w-1");
    let logged = await_logged(&ns, "the last Pod", |logged| count(logged, "OnPodDeletion", "orphan-w-1") > 0);
    assert_eq!(count(&logged, "OnPodDeletion", "orphan-w-1"), 1, "it was not logged when it lost its owner");
    assert_eq!(logged.iter().filter(|one| one.trigger == "OnTaskDeletion").count(), 0, "no Task was removed");
}

#[test]
fn a_pod_that_loses_its_label_is_not_logged_and_one_that_ends_is() {
    let ns = namespace("history-label");
    let alone = Alone::wait();
    let _controller = alone.start(CONTROLLER, "");
    manifest("job").role("w", 1, &[]).create(&ns);
    running(&ns, "job", 1);
    cluster::kubectl(&[
        "label",
        "pod",
        "job-w-0",
        "--namespace",
        &ns,
        "frameworkcontroller.microsoft.com/slot-",
    ]);
    let deadline = Instant::now() + PATIENCE;
    let labelled = || {
        let pod = block_on(cluster::pods(&ns).get("job-w-0")).expect("it runs on");
        pod.metadata.labels.is_some_and(|labels| labels.contains_key(framework_api::name::SLOT_LABEL))
    };
    while !labelled() {
        assert!(Instant::now() < deadline, "nobody puts the label back");
        std::thread::sleep(PAUSE);
    }
    cluster::execute(&ns, "job", "Stop");
    let logged = await_logged(&ns, "the Pod", |logged| count(logged, "OnPodDeletion", "job-w-0") > 0);
    let [pod] = &logged[..] else { panic!("{logged:#?}") };
    assert!(!pod.is_incomplete() && !pod.meta("deletionTimestamp").is_empty(), "{}", pod.sentence);
}

#[test]
fn snapshots_that_are_switched_off_are_not_logged() {
    let ns = namespace("history-off");
    let alone = Alone::wait();
    let _controller = alone.start(
        CONTROLLER,
        "frameworkCompletedRetainSec: 1\nlogObjectSnapshot:\n  framework: {onFrameworkRetry: false, \
         onFrameworkDeletion: false}\n  task: {onTaskRetry: false, onTaskDeletion: false}\n  pod: \
         {onPodDeletion: false}",
    );
    let recording = Recording::start(&ns);
    flaky().create(&ns);
    manifest("scaled").role("w", 2, &[]).create(&ns);
    fail_flaky(&ns);
    running(&ns, "scaled", 2);
    merge(&ns, "scaled", json!({"taskRoles": [scaled_role(1)]}));
    wait(&ns, "scaled", "scaled down", |framework| {
        framework.status.as_ref().is_some_and(|status| status.task_roles()[0].task_statuses.len() == 1)
    });
    cluster::execute(&ns, "scaled", "Stop");
    recording.wait("both are deleted", |changes| {
        let gone = |change: &&cluster::history::Change| {
            change.what == What::Gone && matches!(change.object, Object::Framework(_))
        };
        changes.iter().filter(gone).count() == 2
    });
    let history = recording.end();
    assert!(history.pods.len() > 4, "there was much to report");
    assert!(logged(&log_of(CONTROLLER), &ns).is_empty());
}
