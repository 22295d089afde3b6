//! A Pod of realistic size, with the fields that the controller, the scheduler and the kubelet write.

use std::collections::BTreeMap;

use framework_api::name as api;
use serde_json::{Value, json};

use super::{AT, HOLE, uid};

/// How far the Pods are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Running,
    Succeeded,
}

/// Where a Pod runs.
pub struct Placement {
    pub node: String,
    pub ip: String,
    pub host_ip: String,
}

pub fn placement(task: usize) -> Placement {
    Placement {
        node: format!("gpu-node-{task:04}.cluster.example"),
        ip: format!("10.244.117.{task}"),
        host_ip: format!("192.168.100.{task}"),
    }
}

pub fn name(task: usize) -> String {
    format!("job{HOLE}-worker-{task}")
}

pub fn template(task: usize, phase: Phase) -> Value {
    let Placement { node, ip, host_ip } = placement(task);
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": api::config_map_name(&super::name()),
        "uid": uid(1, 0), "controller": true, "blockOwnerDeletion": true,
    });
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];
    json!({
        "metadata": {
            "name": name(task), "namespace": "default", "uid": uid(2, task),
            "resourceVersion": "812345", "creationTimestamp": AT,
            "labels": {
                api::SLOT_LABEL: "17", "FC_FRAMEWORK_NAME": super::name(), "FC_TASKROLE_NAME": "worker",
                "FC_TASK_INDEX": task.to_string(),
            },
            "annotations": {
                "FC_FRAMEWORK_UID": uid(0, 0), "FC_CONFIGMAP_UID": uid(1, 0), "FC_TASK_UID": uid(3, task),
                "FC_TASK_ATTEMPT_ID": "0", "FC_FRAMEWORK_ATTEMPT_ID": "0",
            },
            "ownerReferences": [owner],
            "managedFields": [
                managed("frameworkcontroller", &["annotations", "labels", "ownerReferences", "containers"]),
                managed("kubelet", &["conditions", "containerStatuses", "hostIP", "phase", "podIP"]),
            ],
        },
        "spec": {
            "containers": [container()],
            "nodeName": node, "restartPolicy": "Never", "schedulerName": "default-scheduler",
            "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
            ],
        },
        "status": {
            "phase": format!("{phase:?}"), "podIP": ip, "hostIP": host_ip,
            "podIPs": [{"ip": ip}], "startTime": AT, "qosClass": "Guaranteed",
            "conditions": conditions.map(|kind| {
                json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": AT})
            }),
            "containerStatuses": [{
                "name": "main", "ready": true, "restartCount": 0, "state": state(phase), "lastState": {},
                "image": "registry.example/training:2026.1",
            }],
        },
    })
}

fn state(phase: Phase) -> Value {
    match phase {
        Phase::Running => json!({"running": {"startedAt": AT}}),
        Phase::Succeeded => json!({"terminated": {
            "exitCode": 0, "reason": "Completed", "startedAt": AT, "finishedAt": AT,
            "containerID": "containerd://5d0c1b7a2f3e4d5c6b7a8f9e0d1c2b3a4f5e6d7c8b9a0f1e2d3c4b5a6f7e8d9c",
        }}),
    }
}

fn container() -> Value {
    let variables = ["FRAMEWORK_NAME", "TASKROLE_NAME", "TASK_INDEX", "CONFIGMAP_UID", "TASK_UID", "POD_UID"];
    let variables = variables.map(|name| {
        let path = format!("metadata.annotations['FC_{name}']");
        json!({"name": format!("FC_{name}"), "valueFrom": {"fieldRef": {"fieldPath": path}}})
    });
    json!({
        "name": "main", "image": "registry.example/training:2026.1", "env": variables,
        "resources": {"limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "token", "readOnly": true, "mountPath": "/run/account"}],
        "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
    })
}

fn managed(manager: &str, fields: &[&str]) -> Value {
    let of = |field: &&str| (format!("f:{field}"), json!({".": {}, "f:name": {}, "f:type": {}}));
    let fields: BTreeMap<String, Value> = fields.iter().map(of).collect();
    json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": AT, "fieldsV1": fields})
}
