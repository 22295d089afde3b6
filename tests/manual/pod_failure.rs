//! The manual's sections Pod Failure Classification and CompletionStatus: every row of the default
//! podFailureSpec, and each way an attempt gets its completion status, on the real API server.

use framework_api::Framework;
use framework_api::code::{Attribute, CompletionType};
use framework_api::status::TaskAttemptCompletionStatus;
use kube::api::DeleteParams;

use crate::cluster::{self, block_on, code, completed, manifest, namespace, running};

/// Rows of (code, phrase, type), the attributes separated by spaces.
const DEFAULT_RULES: &str = include_str!("../../crates/api/data/default_pod_failure_spec.csv");

/// The annotations that make a Pod end so that the rule with this code matches.
fn provoke(code: i32) -> Vec<(&'static str, String)> {
    let pod = |reason: &str| vec![("pod-reason", reason.to_owned())];
    let container = |reason: &str, code: &str, message: &str| {
        vec![("exit-code", code.to_owned()), ("reason", reason.to_owned()), ("message", message.to_owned())]
    };
    match code {
        -1000 => pod("Evicted"),
        -1001 => pod("NodeLost"),
        -1002 => pod("OutOfcpu"),
        -1003 => pod("Preempting"),
        -1004 => pod("DeadlineExceeded"),
        -1005 => pod("Forbidden"),
        -1006 => pod("InvalidNodeInfo"),
        -1007 => pod("NodeShutdown"),
        -1008 => pod("DeletionByPodGC"),
        -1200 => container("OOMKilled", "137", ""),
        -1201 => container("ContainerCannotRun", "125", ""),
        -1202 => container("ContainerCannotRun", "126", ""),
        -1203 => container("ContainerCannotRun", "128", "exec: no such file"),
        -1204 => container("ContainerCannotRun", "128", "something else"),
        -1210 => container("ContainerStatusUnknown", "137", "the container could not be located"),
        -1211 => container("StartError", "128", "exec /x: permission denied"),
        -1212 => container("StartError", "128", "exec: x: executable file not found in $PATH"),
        -1213 => container("StartError", "128", "something else"),
        code => vec![("exit-code", code.to_string())],
    }
}

/// Completion status of a Task.
fn end_of(framework: &Framework, role: &str, index: i32) -> TaskAttemptCompletionStatus {
    let task = framework.status.as_ref().and_then(|status| status.task(role, index)).expect("the Task");
    *task.attempt_status.completion_status.clone().expect("it ended")
}

fn failed(attributes: &str) -> CompletionType {
    let attribute = |word| match word {
        "Transient" => Attribute::Transient,
        "Conflict" => Attribute::Conflict,
        "Permanent" => Attribute::Permanent,
        other => panic!("no attribute {other}"),
    };
    CompletionType::failed(&attributes.split_whitespace().map(attribute).collect::<Vec<_>>())
}

#[test]
fn every_default_rule_classifies_the_pod_that_it_is_made_for() {
    let ns = namespace("classification");
    let mut rows: Vec<(i32, &str, &str)> = Vec::new();
    for line in DEFAULT_RULES.lines().skip(1) {
        let cells: Vec<&str> = line.splitn(4, ',').collect();
        rows.push((cells[0].parse().expect("a code"), cells[1], cells[2]));
    }
    rows.extend([
        (200, "ContainerTransientFailed", "Transient"),
        (201, "ContainerTransientConflictFailed", "Transient Conflict"),
        (210, "ContainerPermanentFailed", "Permanent"),
        (77, "ContainerUnrecognizedFailed", ""),
    ]);
    let name = |code: i32| format!("c{}", code.unsigned_abs()) + if code < 0 { "n" } else { "" };
    for (code, ..) in &rows {
        let annotations = provoke(*code);
        let annotations: Vec<(&str, &str)> = annotations.iter().map(|(k, v)| (*k, v.as_str())).collect();
        manifest(&name(*code)).role("a", 1, &annotations).create(&ns);
    }
    for (expected, phrase, attributes) in rows {
        let framework = completed(&ns, &name(expected));
        assert_eq!(code(&framework), (expected, phrase.to_owned()));
        let end = end_of(&framework, "a", 0);
        assert_eq!(end.r#type, failed(attributes), "{phrase}");
        assert!(end.pod.is_some(), "what the Pod said is kept");
        let how = if expected == 77 { "PodPattern unmatched: {" } else { "PodPattern matched: {" };
        assert!(end.diagnostics.starts_with(&format!("Pod failed: {how}")), "{}", end.diagnostics);
    }
}

#[test]
fn a_pod_that_failed_without_a_failed_container_has_its_own_code() {
    let ns = namespace("no-failed-container");
    let annotations = [("pod-reason", "SomethingNew"), ("pod-message", "the node says so")];
    manifest("odd").role("a", 1, &annotations).create(&ns);
    let framework = completed(&ns, "odd");
    assert_eq!(code(&framework), (-300, "PodFailedWithoutFailedContainer".to_owned()));
    let pod = end_of(&framework, "a", 0).pod.expect("what the Pod said");
    assert_eq!((pod.reason.as_str(), pod.message.as_str()), ("SomethingNew", "the node says so"));
}

#[test]
fn a_completion_status_has_the_messages_of_the_containers() {
    let ns = namespace("said");
    let annotations = [("exit-code", "3"), ("reason", "Error"), ("message", "out of data")];
    manifest("said").role("a", 1, &annotations).create(&ns);
    let framework = completed(&ns, "said");
    let end = end_of(&framework, "a", 0);
    let containers = end.pod.expect("what the Pod said").containers;
    assert_eq!((containers[0].name.as_str(), containers[0].code), ("main", 3));
    assert_eq!((containers[0].reason.as_str(), containers[0].message.as_str()), ("Error", "out of data"));
    let whole = framework.status.expect("a status").attempt_status.completion_status.expect("it ended");
    assert_eq!((whole.code, whole.diagnostics), (3, end.diagnostics), "the Framework takes that of its Task");
    assert_eq!(whole.trigger.expect("a trigger").task_role_name, "a");
}

#[test]
fn a_pod_deleted_by_others_is_a_transient_failure() {
    let ns = namespace("external-pod");
    manifest("lost").role("a", 2, &[]).task_retry(true, 0).create(&ns);
    running(&ns, "lost", 2);
    cluster::delete_pod(&ns, "lost-a-1");
    let again = cluster::wait(&ns, "lost", "running its second attempt of a-1", |framework| {
        let task = framework.status.as_ref().and_then(|status| status.task("a", 1)).expect("the Task");
        task.attempt_status.id == 1 && task.state == framework_api::State::AttemptRunning
    });
    let task = again.status.as_ref().and_then(|status| status.task("a", 1)).expect("the Task").clone();
    assert_eq!(task.retry_policy_status.accountable_retried_count, 0);
    cluster::execute(&ns, "lost", "Stop");
    completed(&ns, "lost");
}

#[test]
fn a_pod_deleted_by_others_is_named_in_the_completion_status() {
    let ns = namespace("external-pod-final");
    manifest("lost").role("a", 1, &[]).create(&ns);
    running(&ns, "lost", 1);
    cluster::delete_pod(&ns, "lost-a-0");
    assert_eq!(code(&completed(&ns, "lost")), (-101, "PodExternalDeleted".to_owned()));
}

#[test]
fn a_config_map_deleted_by_others_ends_the_attempt_and_all_its_pods() {
    let ns = namespace("external-map");
    for (name, params) in
        [("background", DeleteParams::background()), ("foreground", DeleteParams::foreground())]
    {
        // Pods that were gone before the controller hears of the ConfigMap would decide the end.
        manifest(name).role("a", 2, &[("stop-delay", "500ms")]).create(&ns);
        running(&ns, name, 2);
        block_on(cluster::config_maps(&ns).delete(&format!("{name}-attempt"), &params)).expect("it is there");
        let framework = completed(&ns, name);
        assert_eq!(code(&framework), (-100, "ConfigMapExternalDeleted".to_owned()));
        let end = framework.status.expect("a status").attempt_status.completion_status.expect("it ended");
        assert_eq!(end.trigger, None);
        cluster::assert_nothing_is_left(&ns, name);
    }
}
