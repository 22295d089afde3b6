//! Pods that hang in Terminating, as those of a dead node do, on the real API server. They are forced only by
//! the time-out that the status has, each by its UID; then the Tasks that wait for them go on.

use std::pin::pin;
use std::time::{Duration, Instant};

use framework_api::{Framework, State};
use framework_testcluster::audit::{Mark, Record};
use futures::TryStreamExt;
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use crate::cluster::recording::Recording;
use crate::cluster::{
    self, Manifest, block_on, code, completed, delete_pod, manifest, merge, namespace, running, wait,
};

/// A Framework whose Pods run until they are deleted, and then hang. It has one TaskRole, `a`.
fn stuck(name: &str, tasks: u32, timeout: Option<i64>) -> Manifest {
    let hang = [("run-duration", "forever"), ("hang-terminating", "true")];
    manifest(name).role("a", tasks, &hang).last_role(|role| {
        role["task"]["podGracefulDeletionTimeoutSec"] = json!(timeout);
    })
}

fn mark() -> Mark {
    cluster::installed().audit().mark().expect("the log is there")
}

/// The controller's deletes with a grace period of 0 in a namespace, once there are so many: others see a
/// delete before its record is there.
fn forced(namespace: &str, since: Mark, times: usize) -> Vec<Record> {
    let is_one = |request: &Record| {
        let grace = request.request_object.as_ref().and_then(|body| body.get("gracePeriodSeconds"));
        request.namespace == namespace
            && request.user_agent.starts_with("frameworkcontroller/")
            && (request.verb.as_str(), request.resource.as_str()) == ("delete", "pods")
            && grace == Some(&json!(0))
    };
    cluster::until("the forced deletes are recorded", || {
        let mut requests = cluster::installed().audit().since(since).expect("the log is there");
        requests.retain(is_one);
        (requests.len() >= times).then_some(requests)
    })
}

/// The version of the Pods of a namespace now, from which [`terminating`] follows them.
fn version(namespace: &str) -> String {
    let pods = block_on(cluster::pods(namespace).list(&ListParams::default())).expect("a list");
    pods.metadata.resource_version.expect("a list has a version")
}

/// Waits until a Pod is being deleted, and sees it if the Pod is gone since: its UID, and when its deletion
/// began. The version is one from before its deletion.
fn terminating(namespace: &str, name: &str, version: &str) -> (String, jiff::Timestamp) {
    let seconds = cluster::PATIENCE.as_secs() as u32;
    let only = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(seconds);
    let meta = block_on(async {
        let mut events = pin!(cluster::pods(namespace).watch(&only, version).await.expect("a watch"));
        loop {
            match events.try_next().await.expect("an event") {
                Some(WatchEvent::Modified(pod)) if pod.metadata.deletion_timestamp.is_some() => {
                    return pod.metadata;
                }
                Some(WatchEvent::Error(error)) => panic!("{name} cannot be followed: {error:?}"),
                Some(_) => {}
                None => panic!("{name} is not deleted in time"),
            }
        }
    });
    let grace = Duration::from_secs(meta.deletion_grace_period_seconds.expect("a grace period") as u64);
    (meta.uid.expect("a UID"), meta.deletion_timestamp.expect("it is being deleted").0 - grace)
}

/// Asserts that a Pod was forced once, by its UID, and not before so many seconds of its deletion had passed.
fn assert_forced(requests: &[Record], (uid, began): &(String, jiff::Timestamp), timeout: u64) {
    let uid_of = |request: &&Record| {
        request.request_object.as_ref().and_then(|body| body.pointer("/preconditions/uid")).cloned()
    };
    let of_this: Vec<&Record> =
        requests.iter().filter(|request| uid_of(request) == Some(Value::from(uid.as_str()))).collect();
    let [request] = of_this[..] else { panic!("{} forced deletes of {uid}: {requests:#?}", of_this.len()) };
    assert_eq!(request.code, 200);
    assert!(request.received >= *began + Duration::from_secs(timeout), "too early: {request:#?}");
}

fn state_of(framework: &Framework, index: i32) -> Option<State> {
    Some(framework.status.as_ref()?.task("a", index)?.state)
}

#[test]
fn a_task_is_retried_once_its_stuck_pod_is_forced() {
    let ns = namespace("force-retry");
    let since = mark();
    stuck("job", 2, Some(2)).task_retry(true, 0).create(&ns);
    running(&ns, "job", 2);
    let before = version(&ns);
    delete_pod(&ns, "job-a-1");
    let pod = terminating(&ns, "job-a-1", &before);
    let retried = wait(&ns, "job", "running its second attempt of a-1", |framework| {
        let task = framework.status.as_ref().and_then(|status| status.task("a", 1));
        task.is_some_and(|task| task.attempt_status.id == 1 && task.state == State::AttemptRunning)
    });
    assert_eq!(state_of(&retried, 0), Some(State::AttemptRunning));
    assert_forced(&forced(&ns, since, 1), &pod, 2);
    cluster::execute(&ns, "job", "Stop");
    assert_eq!(code(&completed(&ns, "job")).0, -210);
    cluster::assert_nothing_is_left(&ns, "job");
    assert_eq!(forced(&ns, since, 3).len(), 3, "each Pod once");
}

#[test]
fn a_scale_down_ends_although_its_pod_hangs() {
    let ns = namespace("force-scale");
    let recording = Recording::start(&ns);
    let since = mark();
    stuck("job", 2, Some(1)).create(&ns);
    running(&ns, "job", 2);
    let before = version(&ns);
    cluster::kubectl(&[
        "patch",
        "framework",
        "job",
        "--namespace",
        &ns,
        "--type=json",
        "-p",
        r#"[{"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 1}]"#,
    ]);
    let pod = terminating(&ns, "job-a-1", &before);
    wait(&ns, "job", "without a-1", |framework| {
        framework.status.as_ref().is_some_and(|status| status.task("a", 1).is_none())
    });
    let requests = forced(&ns, since, 1);
    assert_forced(&requests, &pod, 1);
    assert_eq!(requests.len(), 1, "the other one runs on");
    cluster::execute(&ns, "job", "Stop");
    completed(&ns, "job");
    recording.end().assert_promises_are_kept();
}

#[test]
fn the_time_out_of_a_removed_task_role_holds_for_its_stuck_pod() {
    let ns = namespace("force-role");
    let since = mark();
    let others = json!({
        "name": "b", "taskNumber": 1,
        "task": {"pod": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}},
    });
    stuck("job", 1, Some(2)).role("b", 1, &[("run-duration", "forever")]).create(&ns);
    running(&ns, "job", 2);
    let before = version(&ns);
    merge(&ns, "job", json!({ "taskRoles": [others] }));
    let pod = terminating(&ns, "job-a-0", &before);
    let removed = wait(&ns, "job", "without TaskRole a", |framework| {
        framework.status.as_ref().is_some_and(|status| status.task_roles().len() == 1)
    });
    assert_eq!(cluster::state(&removed), Some(State::AttemptRunning));
    assert_forced(&forced(&ns, since, 1), &pod, 2);
    cluster::execute(&ns, "job", "Stop");
    completed(&ns, "job");
}

#[test]
fn without_a_time_out_nothing_is_forced_until_there_is_one() {
    let ns = namespace("force-never");
    let since = mark();
    stuck("patient", 1, None).create(&ns);
    stuck("neighbour", 1, Some(1)).create(&ns);
    running(&ns, "patient", 1);
    running(&ns, "neighbour", 1);
    let before = version(&ns);
    cluster::execute(&ns, "patient", "Stop");
    let pod = terminating(&ns, "patient-a-0", &before);
    // Its neighbour hangs later, and is forced.
    cluster::execute(&ns, "neighbour", "Stop");
    completed(&ns, "neighbour");
    let requests = forced(&ns, since, 1);
    assert!(requests.iter().all(|request| request.name == "neighbour-a-0"), "{requests:#?}");
    assert_eq!(requests.len(), 1);
    // Its attempt is ending already; a time-out helps all the same, once it stands in the status.
    cluster::kubectl(&[
        "patch",
        "framework",
        "patient",
        "--namespace",
        &ns,
        "--type=json",
        "-p",
        r#"[{"op": "add", "path": "/spec/taskRoles/0/task/podGracefulDeletionTimeoutSec", "value": 1}]"#,
    ]);
    let freed = completed(&ns, "patient");
    let role = &freed.status.as_ref().expect("a status").task_roles()[0];
    assert_eq!(role.pod_graceful_deletion_timeout_sec, Some(1));
    assert_forced(&forced(&ns, since, 2), &pod, 1);
}

#[test]
fn a_framework_deleted_in_the_foreground_goes_although_its_pods_hang() {
    let ns = namespace("force-foreground");
    let since = mark();
    stuck("job", 2, Some(2)).create(&ns);
    running(&ns, "job", 2);
    let frameworks = cluster::frameworks(&ns);
    let before = version(&ns);
    let deleted = block_on(frameworks.delete("job", &DeleteParams::foreground())).expect("it is there");
    let pods = ["job-a-0", "job-a-1"].map(|pod| terminating(&ns, pod, &before));
    let uid = deleted.left().and_then(|framework| framework.metadata.uid).expect("it goes after its Pods");
    let gone = kube::runtime::wait::await_condition(
        cluster::frameworks(&ns),
        "job",
        kube::runtime::wait::conditions::is_deleted(&uid),
    );
    let gone = block_on(async { tokio::time::timeout(Duration::from_secs(120), gone).await });
    gone.unwrap_or_else(|_| panic!("it stays:\n{}", cluster::log_of("controller"))).expect("a watch");
    let requests = forced(&ns, since, 2);
    pods.iter().for_each(|pod| assert_forced(&requests, pod, 2));
    cluster::assert_nothing_is_left(&ns, "job");
}

#[test]
fn an_attempt_ends_although_its_config_map_is_deleted_while_its_pods_hang() {
    let ns = namespace("force-map");
    let since = mark();
    stuck("job", 2, Some(2)).create(&ns);
    running(&ns, "job", 2);
    let config_maps = cluster::config_maps(&ns);
    let before = version(&ns);
    block_on(config_maps.delete("job-attempt", &DeleteParams::foreground())).expect("it is there");
    let pods = ["job-a-0", "job-a-1"].map(|pod| terminating(&ns, pod, &before));
    assert_eq!(code(&completed(&ns, "job")), (-100, "ConfigMapExternalDeleted".to_owned()));
    let requests = forced(&ns, since, 2);
    pods.iter().for_each(|pod| assert_forced(&requests, pod, 2));
    cluster::assert_nothing_is_left(&ns, "job");
}

/// Waits until the Event that names the holder of a Pod is there.
fn held(namespace: &str) -> String {
    let deadline = Instant::now() + cluster::PATIENCE;
    loop {
        let of = "--field-selector=reason=PodHeld";
        let events = cluster::kubectl(&["get", "events", "--namespace", namespace, of, "--no-headers"]);
        if !events.is_empty() {
            return events;
        }
        assert!(Instant::now() < deadline, "no Event:\n{}", cluster::log_of("controller"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_forced_pod_that_a_finalizer_holds_is_not_taken_for_gone() {
    let ns = namespace("force-held");
    let since = mark();
    stuck("job", 1, Some(1)).task_retry(true, 0).create(&ns);
    running(&ns, "job", 1);
    let finalizers = |value: &str| {
        let patch = format!(r#"{{"metadata": {{"finalizers": {value}}}}}"#);
        cluster::kubectl(&["patch", "pod", "job-a-0", "--namespace", &ns, "--type=merge", "-p", &patch]);
    };
    finalizers(r#"["test.example.com/held"]"#);
    let before = version(&ns);
    delete_pod(&ns, "job-a-0");
    let pod = terminating(&ns, "job-a-0", &before);
    let words = "job-a-0 was deleted by force and waits for its finalizers: test.example.com/held";
    assert!(held(&ns).contains(words));
    // The controller has done all it would do before it serves another Framework to its end.
    manifest("other").role("a", 1, &[("exit-code", "0")]).create(&ns);
    completed(&ns, "other");
    let seen = block_on(cluster::frameworks(&ns).get("job")).expect("it is there");
    assert_eq!(state_of(&seen, 0), Some(State::AttemptDeleting));
    assert_forced(&forced(&ns, since, 1), &pod, 1);

    finalizers("null");
    wait(&ns, "job", "running its second attempt", |framework| {
        let task = framework.status.as_ref().and_then(|status| status.task("a", 0));
        task.is_some_and(|task| task.attempt_status.id == 1 && task.state == State::AttemptRunning)
    });
    assert_eq!(forced(&ns, since, 1).len(), 1);
    cluster::execute(&ns, "job", "Stop");
    completed(&ns, "job");
    cluster::assert_nothing_is_left(&ns, "job");
}
