//! The bodies of the floor client's requests, as large as those of a controller.

use anyhow::Result;
use framework_api::codec::{self, Effort};
use framework_api::config::CompressionCodec;
use framework_api::name::{API_VERSION, KIND, config_map_name, pod_name};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::job::Job;

/// A created Pod.
pub(super) struct CreatedPod {
    pub(super) name: String,
    pub(super) uid: String,
}

/// The progress of the Tasks in a status.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Pending,
    Preparing,
    Running,
    Ended,
    Over,
}

/// The name of the Pod of a Task.
pub(super) fn pod_of(framework: &str, task_role: &str, index: usize) -> String {
    pod_name(framework, task_role, i32::try_from(index).unwrap_or(i32::MAX))
}

/// The ConfigMap of a Framework.
pub fn config_map(job: &Job<'_>, framework_uid: &str) -> Value {
    let name = job.name();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": config_map_name(&name), "labels": job.labels(), "finalizers": ["foregroundDeletion"],
            "ownerReferences": [owner(API_VERSION, KIND, &name, framework_uid)],
        },
    })
}

/// The Pod of a Task.
pub fn pod(job: &Job<'_>, task_role: &str, index: usize, config_map_uid: &str) -> Value {
    let framework = job.name();
    let role = job.group.task_roles.iter().find(|one| one.name == task_role);
    let mut pod = role.map(|role| job.pod(role)).unwrap_or_default();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = pod_of(&framework, task_role, index).into();
    pod["metadata"]["ownerReferences"] =
        json!([owner("v1", "ConfigMap", &config_map_name(&framework), config_map_uid)]);
    dress(&mut pod, &framework, task_role, index);
    pod
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Adds the annotations that a controller adds to each Pod, and the same as environment variables.
fn dress(pod: &mut Value, framework: &str, task_role: &str, index: usize) {
    const UID: &str = "00000000-0000-8000-8000-000000000000";
    let facts = [
        ("FC_FRAMEWORK_NAMESPACE", "loadtest".to_owned()),
        ("FC_FRAMEWORK_NAME", framework.to_owned()),
        ("FC_TASKROLE_NAME", task_role.to_owned()),
        ("FC_TASK_INDEX", index.to_string()),
        ("FC_CONFIGMAP_NAME", config_map_name(framework)),
        ("FC_POD_NAME", pod_of(framework, task_role, index)),
        ("FC_FRAMEWORK_UID", UID.into()),
        ("FC_FRAMEWORK_ATTEMPT_ID", "0".into()),
        ("FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", format!("0_{UID}")),
        ("FC_CONFIGMAP_UID", UID.into()),
        ("FC_TASKROLE_UID", UID.into()),
        ("FC_TASK_UID", UID.into()),
        ("FC_TASK_ATTEMPT_ID", "0".into()),
    ];
    for (name, value) in &facts {
        pod["metadata"]["annotations"][*name] = value.clone().into();
    }
    let variables: Vec<Value> =
        facts.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    pod["spec"]["containers"][0]["env"] = variables.into();
}

/// A status as large as one that a controller writes.
pub(super) fn status(job: &Job<'_>, state: &str, progress: Progress, created: &[CreatedPod]) -> Value {
    let now = whole_second();
    let completion = json!({
        "code": 0, "phrase": "Succeeded", "type": { "name": "Succeeded", "attributes": [] },
        "diagnostics": "Pod succeeded", "pod": null,
    });
    let task = |pod: Option<&CreatedPod>, index: usize, task_role: &str| {
        let is_over = matches!(progress, Progress::Ended | Progress::Over);
        let state = match progress {
            Progress::Pending => "AttemptCreationPending",
            Progress::Preparing => "AttemptPreparing",
            Progress::Running => "AttemptRunning",
            Progress::Ended => "AttemptDeletionPending",
            Progress::Over => "Completed",
        };
        json!({
            "index": index, "instanceUID": "00000000-0000-8000-8000-000000000000", "startTime": now,
            "runTime": null, "completionTime": is_over.then_some(&now), "state": state, "transitionTime": now,
            "deletionPending": false,
            "retryPolicyStatus": {
                "totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null,
            },
            "attemptStatus": {
                "id": 0, "startTime": now, "runTime": null, "completionTime": is_over.then_some(&now),
                "instanceUID": pod.map(|pod| format!("0_{}", pod.uid)),
                "podName": pod_of(&job.name(), task_role, index), "podUID": pod.map(|pod| &pod.uid),
                "podNodeName": job.node, "podIP": "10.64.0.1", "podHostIP": "10.0.0.1",
                "completionStatus": is_over.then_some(&completion),
            },
        })
    };
    // Pods are in the order of the Tasks.
    let mut created = created.iter();
    let roles = job.group.task_roles.iter().map(|role| {
        let tasks = (0..role.task_number).map(|index| task(created.next(), index, &role.name));
        json!({
            "name": role.name, "instanceUID": "00000000-0000-8000-8000-000000000000",
            "podGracefulDeletionTimeoutSec": null, "taskStatuses": tasks.collect::<Vec<_>>(),
        })
    });
    let ended = matches!(state, "AttemptDeletionPending" | "AttemptCompleted" | "Completed");
    json!({
        "startTime": now, "runTime": null, "completionTime": (state == "Completed").then_some(&now),
        "state": state, "transitionTime": now,
        "retryPolicyStatus": { "totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null },
        "attemptStatus": {
            "id": 0, "startTime": now, "runTime": null, "completionTime": null,
            "instanceUID": "0_00000000-0000-8000-8000-000000000000",
            "configMapName": config_map_name(&job.name()),
            "configMapUID": "00000000-0000-8000-8000-000000000000",
            "completionStatus": ended.then_some(&completion),
            "taskRoleStatuses": roles.collect::<Vec<_>>(),
        },
    })
}

/// Compresses the Task statuses if they have at least `threshold` bytes.
pub fn compress(status: &mut Value, threshold: usize) -> Result<()> {
    let attempt = &mut status["attemptStatus"];
    let roles = serde_json::to_vec(&attempt["taskRoleStatuses"])?;
    if roles.len() >= threshold {
        let text = codec::encode(&roles, CompressionCodec::Zstd, Effort::Fast)?;
        attempt["taskRoleStatuses"] = Value::Null;
        attempt["taskRoleStatusesCompressed"] = text.into();
    }
    Ok(())
}

fn whole_second() -> String {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default().to_string()
}
