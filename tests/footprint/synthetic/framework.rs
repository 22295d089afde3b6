//! A Framework whose Tasks all run, and the ConfigMap of its attempt.

use framework_api::name;
use serde_json::{Value, json};

use super::{AT, pod, uid};

/// The Framework with its status.
pub fn template(tasks: usize) -> Value {
    let no_retries = json!({"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null});
    let statuses: Vec<Value> = (0..tasks).map(|index| task(index, &no_retries)).collect();
    let command = ["sh", "-c", "exec python -m train --data /data --epochs 90 --rank $(FC_TASK_INDEX)"];
    let container = json!({
        "name": "main", "image": "registry.example/training:2026.1", "command": command,
        "resources": {"limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
    });
    json!({
        "apiVersion": name::API_VERSION, "kind": name::KIND,
        "metadata": {
            "name": super::name(), "namespace": "default", "uid": uid(0, 0), "generation": 1,
            "resourceVersion": "800000", "creationTimestamp": AT,
        },
        "spec": {
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": true, "maxRetryCount": 3},
            "taskRoles": [{
                "name": "worker", "taskNumber": tasks,
                "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": -1},
                "task": {"pod": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
            }],
        },
        "status": {
            "startTime": AT, "runTime": AT, "completionTime": null, "state": "AttemptRunning",
            "transitionTime": AT, "retryPolicyStatus": no_retries,
            "attemptStatus": {
                "id": 0, "startTime": AT, "runTime": AT, "completionTime": null,
                "instanceUID": format!("0_{}", uid(1, 0)),
                "configMapName": name::config_map_name(&super::name()), "configMapUID": uid(1, 0),
                "completionStatus": null,
                "taskRoleStatuses": [{
                    "name": "worker", "instanceUID": uid(4, 0), "podGracefulDeletionTimeoutSec": null,
                    "taskStatuses": statuses,
                }],
            },
        },
    })
}

fn task(index: usize, no_retries: &Value) -> Value {
    let pod::Placement { node, ip, host_ip } = pod::placement(index);
    json!({
        "index": index, "instanceUID": uid(3, index), "startTime": AT, "runTime": AT, "completionTime": null,
        "state": "AttemptRunning", "transitionTime": AT, "deletionPending": false,
        "retryPolicyStatus": no_retries,
        "attemptStatus": {
            "id": 0, "startTime": AT, "runTime": AT, "completionTime": null,
            "instanceUID": format!("0_{}", uid(2, index)),
            "podName": pod::name(index), "podUID": uid(2, index),
            "podNodeName": node, "podIP": ip, "podHostIP": host_ip, "completionStatus": null,
        },
    })
}

/// The ConfigMap of its attempt.
pub fn config_map() -> Value {
    json!({
        "metadata": {
            "name": name::config_map_name(&super::name()), "namespace": "default", "uid": uid(1, 0),
            "resourceVersion": "800001", "creationTimestamp": AT,
            "labels": {name::SLOT_LABEL: "17", "FC_FRAMEWORK_NAME": super::name()},
            "ownerReferences": [{
                "apiVersion": name::API_VERSION, "kind": name::KIND, "name": super::name(), "uid": uid(0, 0),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
    })
}
