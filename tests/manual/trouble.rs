//! Frameworks whose Pods cannot be created say why, in status and Events, and others go on.

use std::time::{Duration, Instant};

use framework_api::{Framework, State};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use serde_json::json;

use crate::cluster::{self, apply, block_on, code, completed, kubectl, manifest, namespace, wait};

/// The condition `Running` of a Framework: its reason and message.
fn held_up(framework: &Framework) -> Option<(String, String)> {
    let conditions = &framework.status.as_ref()?.conditions;
    let running = conditions.iter().find(|condition| condition.type_ == "Running")?;
    (running.status == "False").then(|| (running.reason.clone(), running.message.clone()))
}

/// Waits for an Event about a Framework with this reason, and returns its note.
fn event(namespace: &str, name: &str, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(cluster::client(), namespace);
    let matches = |event: &Event| {
        event.reason.as_deref() == Some(reason)
            && event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref()) == Some(name)
    };
    let deadline = Instant::now() + cluster::PATIENCE;
    loop {
        let seen = block_on(events.list(&Default::default())).expect("a list").items;
        if let Some(found) = seen.iter().find(|event| matches(event)) {
            return found.note.clone().unwrap_or_default();
        }
        assert!(Instant::now() < deadline, "no Event {reason} about {name}: {seen:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A namespace that enforces the restricted standard from its creation, ready for Pods. Admission knows of a
/// label that is added later only after a moment.
fn restricted_namespace(name: &str) -> String {
    cluster::with_controller();
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let metadata = json!({"name": name, "labels": labels});
    apply(name, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}).to_string());
    kubectl(&["wait", "--for=create", "serviceaccount/default", "--timeout=120s", "--namespace", name]);
    name.to_owned()
}

/// Others go on: a plain Framework in the same namespace runs to its end.
fn others_go_on(namespace: &str) {
    manifest("other").role("a", 1, &[("exit-code", "0")]).create(namespace);
    assert_eq!(code(&completed(namespace, "other")).0, 0);
}

#[test]
fn a_quota_delays_and_says_so() {
    let ns = namespace("trouble-quota");
    kubectl(&["create", "quota", "small", "--hard=pods=2", "--namespace", &ns]);
    // Until the quota controller has taken it in, the API server may let all three Pods pass.
    let taken_in = "--for=jsonpath={.status.hard.pods}=2";
    kubectl(&["wait", "quota/small", taken_in, "--timeout=60s", "--namespace", &ns]);
    manifest("big").role("a", 3, &[]).create(&ns);
    let waiting = wait(&ns, "big", "held up by the quota", |framework| {
        held_up(framework).is_some_and(|(reason, _)| reason == "PodCreationTransientError")
            || framework.status.as_ref().is_some_and(|status| status.tasks.as_deref() == Some("2/3"))
    });
    assert_ne!(cluster::state(&waiting), Some(State::Completed));
    kubectl(&[
        "patch",
        "quota",
        "small",
        "--namespace",
        &ns,
        "--type=merge",
        "-p",
        r#"{"spec":{"hard":{"pods":"9"}}}"#,
    ]);
    cluster::running(&ns, "big", 3);
    others_go_on(&ns);
    cluster::execute(&ns, "big", "Stop");
    completed(&ns, "big");
}

#[test]
fn a_full_quota_names_itself_in_the_condition() {
    let ns = namespace("trouble-noquota");
    kubectl(&["create", "quota", "none", "--hard=pods=0", "--namespace", &ns]);
    // Until the quota controller has taken it in, the API server may let a Pod pass.
    let taken_in = "--for=jsonpath={.status.hard.pods}=0";
    kubectl(&["wait", "quota/none", taken_in, "--timeout=60s", "--namespace", &ns]);
    manifest("stuck").role("a", 1, &[]).create(&ns);
    let stuck = wait(&ns, "stuck", "held up by the quota", |framework| {
        held_up(framework).is_some_and(|(reason, _)| reason == "PodCreationTransientError")
    });
    let (_, message) = held_up(&stuck).expect("a condition");
    assert!(message.contains("exceeded quota"), "{message}");
    cluster::execute(&ns, "stuck", "Stop");
    assert_eq!(code(&completed(&ns, "stuck")).0, -210);
}

#[test]
fn a_forbidden_pod_ends_its_task_with_the_servers_words() {
    let ns = restricted_namespace("trouble-forbidden");
    manifest("forbidden").role("a", 1, &[]).create(&ns);
    let framework = completed(&ns, "forbidden");
    assert_eq!(code(&framework), (-310, "PodCreationUnknownError".to_owned()));
    let end = framework.status.expect("a status").attempt_status.completion_status.expect("it ended");
    assert!(end.diagnostics.contains("violates PodSecurity"), "{}", end.diagnostics);
    assert!(event(&ns, "forbidden", "Failed").contains("violates PodSecurity"));
}

#[test]
fn an_invalid_pod_ends_its_task_and_its_field_is_named() {
    let ns = namespace("trouble-invalid");
    manifest("invalid")
        .role("a", 1, &[])
        .last_role(|role| role["task"]["pod"]["spec"]["containers"][0]["image"] = json!(""))
        .create(&ns);
    let framework = completed(&ns, "invalid");
    assert_eq!(code(&framework), (-200, "PodCreationPermanentError".to_owned()));
    let end = framework.status.expect("a status").attempt_status.completion_status.expect("it ended");
    assert!(end.diagnostics.contains("spec.containers[0].image"), "{}", end.diagnostics);
    others_go_on(&ns);
}

#[test]
fn a_template_that_does_not_decode_is_named_at_once() {
    let ns = namespace("trouble-template");
    manifest("strange")
        .role("a", 1, &[])
        .last_role(|role| role["task"]["pod"]["spec"]["containers"][0]["command"] = json!("not a list"))
        .create(&ns);
    let note = event(&ns, "strange", "InvalidPodTemplate");
    assert!(note.contains("spec.taskRoles[0].task.pod.spec.containers[0].command"), "{note}");
    let framework = completed(&ns, "strange");
    assert!([-310, -200].contains(&code(&framework).0), "{:?}", code(&framework));
    others_go_on(&ns);
}

#[test]
fn an_unknown_field_of_a_template_is_named_and_ignored() {
    let ns = namespace("trouble-unknown");
    manifest("misspelled")
        .role("a", 1, &[("exit-code", "0")])
        .last_role(|role| role["task"]["pod"]["spec"]["ActiveDeadlineSeconds"] = json!(5))
        .create(&ns);
    let note = event(&ns, "misspelled", "UnknownFieldIgnored");
    let field = "unknown field spec.taskRoles[0].task.pod.spec.ActiveDeadlineSeconds is ignored";
    assert!(note.starts_with(field), "{note}");
    assert_eq!(code(&completed(&ns, "misspelled")).0, 0);
}

#[test]
fn a_name_taken_by_somebody_else_is_waited_for_and_never_deleted() {
    let ns = namespace("trouble-name");
    apply(
        &ns,
        "apiVersion: v1
kind: Pod
metadata: {name: squatted-a-0}
spec:
  containers: [{name: main, image: busybox}]
",
    );
    manifest("squatted").role("a", 1, &[("exit-code", "0")]).create(&ns);
    let waiting = wait(&ns, "squatted", "held up by the name", |framework| {
        held_up(framework).is_some_and(|(reason, _)| reason == "NameConflict")
    });
    let (_, message) = held_up(&waiting).expect("a condition");
    assert!(message.contains("squatted-a-0"), "{message}");
    others_go_on(&ns);
    assert!(
        block_on(cluster::pods(&ns).get_opt("squatted-a-0")).expect("an answer").is_some(),
        "it is not ours"
    );
    cluster::delete_pod(&ns, "squatted-a-0");
    assert_eq!(code(&completed(&ns, "squatted")).0, 0);
}

#[test]
fn columns_and_wait_show_what_people_want_to_know() {
    let ns = namespace("people");
    manifest("job").role("a", 2, &[("exit-code", "0")]).create(&ns);
    kubectl(&["wait", "--for=condition=Complete", "fw/job", "--namespace", &ns, "--timeout=60s"]);
    let table = kubectl(&["get", "fw", "--namespace", &ns]);
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["NAME", "STATE", "ATTEMPT", "TASKS", "REASON", "RESULT", "AGE"]);
    assert_eq!(words[1][..4], ["job", "Completed", "0", "2/2"]);
    assert!(kubectl(&["get", "all", "--namespace", &ns]).contains("framework"));
}
