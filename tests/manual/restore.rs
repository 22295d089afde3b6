//! docs/operations.md on backups: the life of a Framework that is restored from a manifest.

use framework_api::State;
use serde_json::Value;

use crate::cluster::{
    apply, assert_nothing_is_left, code, completed, kubectl, manifest, namespace, state, wait,
};

/// The saved manifest of a Framework that is deleted then.
fn saved_and_deleted(namespace: &str, name: &str) -> Value {
    let of = ["fw", name, "--namespace", namespace];
    let saved = kubectl(&[&["get"][..], &of, &["--output=json"]].concat());
    kubectl(&[&["delete"][..], &of, &["--cascade=foreground", "--timeout=60s"]].concat());
    serde_json::from_str(&saved).expect("JSON")
}

#[test]
fn a_framework_restored_without_its_status_runs_again() {
    let ns = namespace("restored");
    let first = manifest("job").role("a", 1, &[("exit-code", "0")]).create(&ns);
    completed(&ns, "job");
    let mut saved = saved_and_deleted(&ns, "job");
    assert_eq!(saved["status"]["state"], "Completed");
    apply(&ns, &saved.to_string());
    let again = completed(&ns, "job");
    assert_ne!(again.metadata.uid, first.metadata.uid);
    assert_eq!(code(&again), (0, "Succeeded".to_owned()));
    let status = again.status.expect("a status");
    assert!(status.task("a", 0).expect("the Task").attempt_status.pod_uid.is_some(), "it got a Pod");

    saved_and_deleted(&ns, "job");
    saved["spec"]["executionType"] = "Create".into();
    apply(&ns, &saved.to_string());
    wait(&ns, "job", "held", |framework| state(framework) == Some(State::AttemptCreationPending));
    assert_nothing_is_left(&ns, "job");
}
