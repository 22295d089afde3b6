//! One watch event of a Pod, as JSON and as protobuf, and what reads both into the same object. Tests and
//! benches compare the cost.
//!
//! The JSON is read by the controller's own reader. It is about as long as an event that
//! `cargo xtask bench --watch-cost` received, and so is the protobuf.

#![allow(dead_code, reason = "each program uses a part of it")]

mod encoder;
mod protobuf;

use bytes::Bytes;
use framework_engine::object::PodObject;
use framework_runtime::wire::Watched;
use k8s_openapi::api::core::v1::Pod;
use kube::api::WatchEvent;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::synthetic::{AT, Phase, first_pod};

/// The stage of a Pod's life that an event shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It runs.
    Running,
    /// Its container has ended.
    Succeeded,
    /// It is gone. The controller keeps its last state as JSON.
    Deleted,
}

impl Stage {
    pub const ALL: [Stage; 3] = [Stage::Running, Stage::Succeeded, Stage::Deleted];
}

/// An event in both encodings.
pub struct PodEvent {
    /// A line of the watch, without its end.
    json: String,
    /// A frame of the watch, without its length.
    protobuf: Bytes,
    /// The Pod with all its fields.
    whole: Pod,
}

impl PodEvent {
    pub fn new(stage: Stage) -> Self {
        let kind = if stage == Stage::Deleted { "DELETED" } else { "MODIFIED" };
        let pod = pod(stage);
        PodEvent {
            json: format!(r#"{{"type":"{kind}","object":{pod}}}"#),
            protobuf: encoder::frame(kind, &pod),
            whole: serde_json::from_value(pod).expect("it is a Pod"),
        }
    }

    /// The bytes as JSON and as protobuf, with the end of the line and with the length of the frame.
    pub fn lengths(&self) -> (usize, usize) {
        (self.json.len() + 1, 4 + self.protobuf.len())
    }

    /// Reads the JSON as the controller does.
    #[inline(never)]
    pub fn read_json(&self) -> PodObject {
        let event: WatchEvent<Watched<PodObject>> = serde_json::from_str(&self.json).expect("it is an event");
        let (WatchEvent::Modified(watched) | WatchEvent::Deleted(watched)) = event else {
            panic!("{event:?}");
        };
        watched.object.expect("it is ours")
    }

    /// Reads the same fields of the protobuf. It is the best case: the last state of a deleted Pod is left
    /// out, see [`PodEvent::last_state`].
    #[inline(never)]
    pub fn read_protobuf(&self) -> PodObject {
        protobuf::read(self.protobuf.clone()).expect("it is ours")
    }

    /// Makes the last state of a deleted Pod, which the controller keeps as JSON. A reader of protobuf would
    /// also decode every field of the Pod before it, so that this is less than what it would need.
    #[inline(never)]
    pub fn last_state(&self) -> Box<RawValue> {
        to_raw_value(&self.whole).expect("a Pod is JSON")
    }
}

/// A Pod with the fields that Kubernetes adds: defaults, the volume of its account, and `managedFields`.
fn pod(stage: Stage) -> Value {
    let mut pod = first_pod(if stage == Stage::Running { Phase::Running } else { Phase::Succeeded });
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    let metadata = &mut pod["metadata"];
    metadata["managedFields"] = Value::Null;
    if stage == Stage::Deleted {
        metadata["deletionTimestamp"] = AT.into();
        metadata["deletionGracePeriodSeconds"] = 0.into();
    }
    let spec = &mut pod["spec"];
    spec["dnsPolicy"] = "ClusterFirst".into();
    spec["enableServiceLinks"] = true.into();
    spec["preemptionPolicy"] = "PreemptLowerPriority".into();
    spec["priority"] = 0.into();
    spec["securityContext"] = json!({});
    let of_namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"fieldRef": of_namespace, "path": "namespace"}]}},
    ]);
    spec["volumes"] = json!([{"name": "token", "projected": {"defaultMode": 420, "sources": sources}}]);
    let by = |manager: &str, fields: Value| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "time": AT,
            "fieldsType": "FieldsV1", "fieldsV1": owned(&fields),
        })
    };
    pod["metadata"]["managedFields"] = json!([
        by("frameworkcontroller", json!({"metadata": pod["metadata"], "spec": pod["spec"]})),
        by("kubelet", json!({"status": pod["status"]})),
    ]);
    pod
}

/// The fields of a value, as `managedFields` names them.
fn owned(value: &Value) -> Value {
    let item = |item: &Value| {
        let (key, name) =
            ["name", "type", "ip", "key"].iter().find_map(|key| Some((*key, item.get(key)?)))?;
        Some((format!("k:{}", json!({(key): name})), owned(item)))
    };
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (format!("f:{key}"), owned(value))).collect()
        }
        Value::Array(items) => items.iter().filter_map(item).collect(),
        _ => json!({}),
    }
}
