//! The take-over from the original, in the middle of running Frameworks: no Pod is killed, and each Framework
//! ends as it would have.
//!
//! The original is not started here. A controller of ours stands in for it, and leaves the objects as the
//! original does. They have no label of a slot, only the contract's fields in the status, and a large status
//! in gzip.

use std::collections::BTreeMap;

use framework_api::codec::{Effort, encode};
use framework_api::config::CompressionCodec;
use framework_api::name::SLOT_LABEL;
use framework_api::{Framework, State};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{
    self, block_on, code, completed, execute, frameworks, kubectl, manifest, pods, running, state, wait,
};

/// The delay of a Framework's retry: longer than the take-over takes to begin.
const DELAYED: &str = "frameworkMinRetryDelaySecForTransientConflictFailed: 8\n\
                       frameworkMaxRetryDelaySecForTransientConflictFailed: 8";

/// Status fields that only our controller writes.
const OURS: [&str; 4] = ["conditions", "observedGeneration", "taskCounts", "tasks"];

/// The UIDs of the Pods that nobody has deleted, by name.
fn living(namespace: &str) -> BTreeMap<String, String> {
    let all = block_on(pods(namespace).list(&ListParams::default())).expect("a list").items;
    let living = all.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    living.filter_map(|pod| pod.metadata.name.zip(pod.metadata.uid)).collect()
}

fn patch_status(namespace: &str, name: &str, status: &Value) {
    let patch = json!({ "status": status }).to_string();
    let subject = ["patch", "framework", name, "--namespace", namespace];
    kubectl(&[&subject[..], &["--subresource=status", "--type=merge", "-p", &patch]].concat());
}

/// Leaves the objects of a namespace as the original writes them.
fn as_the_original_leaves_them(namespace: &str) {
    for kind in ["pods", "configmaps"] {
        let label = format!("{SLOT_LABEL}-");
        kubectl(&["label", kind, "--namespace", namespace, "--selector=FC_FRAMEWORK_NAME", &label]);
    }
    let absent: Value = OURS.iter().map(|field| ((*field).to_owned(), Value::Null)).collect();
    for framework in block_on(frameworks(namespace).list(&ListParams::default())).expect("a list").items {
        patch_status(namespace, framework.metadata.name.as_deref().expect("a name"), &absent);
    }
}

/// Compresses the status of a Framework with gzip.
fn compress(namespace: &str, name: &str) {
    let framework = block_on(frameworks(namespace).get(name)).expect("it is there");
    let status = framework.status.expect("a status");
    let text = serde_json::to_vec(&status.attempt_status.task_role_statuses).expect("JSON");
    let text = encode(&text, CompressionCodec::Gzip, Effort::Fast).expect("it is encoded");
    let attempt = json!({ "taskRoleStatuses": null, "taskRoleStatusesCompressed": text });
    patch_status(namespace, name, &json!({ "attemptStatus": attempt }));
}

fn retried(framework: &Framework) -> i32 {
    framework.status.as_ref().map_or(0, |status| status.retry_policy_status.total_retried_count)
}

/// Starts the Frameworks, each of which is in the middle of something when this returns.
fn begin(namespace: &str) {
    manifest("endless").role("w", 3, &[]).create(namespace);
    manifest("zipped").role("w", 3, &[]).create(namespace);
    manifest("held").field("executionType", "Create").role("w", 1, &[("exit-code", "0")]).create(namespace);
    manifest("ending").role("w", 1, &[("run-duration", "forever"), ("exit-code", "0")]).create(namespace);
    let conflict = [("exit-code", "201")];
    manifest("retrying").retry(true, 0).role("w", 1, &conflict).create(namespace);
    manifest("shrinking").role("w", 4, &[("stop-delay", "10s")]).create(namespace);
    for (name, tasks) in [("endless", 3), ("zipped", 3), ("ending", 1), ("shrinking", 4)] {
        running(namespace, name, tasks);
    }
    wait(namespace, "retrying", "delayed", |framework| {
        let status = framework.status.as_ref();
        status.is_some_and(|status| status.retry_policy_status.retry_delay_sec == Some(8))
    });
    cluster::task_number(namespace, "shrinking", 2);
    wait(namespace, "shrinking", "shrinking", |framework| {
        let tasks = framework.status.iter().flat_map(|status| status.all_tasks());
        tasks.filter(|task| task.state == State::AttemptDeleting).count() == 2
    });
}

#[test]
fn running_frameworks_of_the_original_go_on_and_no_pod_is_killed() {
    let alone = Alone::wait();
    let ns = namespace("take-over");
    let original = alone.start("original", DELAYED);
    begin(&ns);
    drop(original);
    as_the_original_leaves_them(&ns);
    compress(&ns, "zipped");
    let before = living(&ns);

    let _ours = alone.start("controller", DELAYED);
    for (name, tasks) in [("endless", 3), ("zipped", 3), ("shrinking", 2)] {
        running(&ns, name, tasks);
    }
    let ends = format!("{}/run-duration=100ms", cluster::TEST);
    kubectl(&["annotate", "pod", "ending-w-0", "--namespace", &ns, "--overwrite", &ends]);
    assert_eq!(code(&completed(&ns, "ending")).0, 0);
    wait(&ns, "retrying", "retried", |framework| retried(framework) > 0);
    wait(&ns, "shrinking", "shrunk", |framework| {
        framework.status.as_ref().is_some_and(|status| status.all_tasks().count() == 2)
    });
    let after = living(&ns);
    for (name, uid) in &before {
        if ["endless", "zipped", "shrinking"].iter().any(|of| name.starts_with(of)) {
            assert_eq!(after.get(name), Some(uid), "{name} was killed");
        }
    }
    // The one that is retried is between two attempts, or in one.
    let others = before.keys().filter(|name| !name.starts_with("retrying"));
    assert_eq!(others.count(), 3 + 3 + 2 + 1, "those that run: {before:?}");

    let held = block_on(frameworks(&ns).get("held")).expect("it is there");
    assert_ne!(state(&held), Some(State::Completed));
    execute(&ns, "held", "Start");
    assert_eq!(code(&completed(&ns, "held")).0, 0);
    for name in ["endless", "zipped", "retrying", "shrinking"] {
        execute(&ns, name, "Stop");
        assert_eq!(code(&completed(&ns, name)).0, -210, "{name}");
        cluster::assert_nothing_is_left(&ns, name);
    }
}
