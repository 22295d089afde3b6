//! Namespaces with queues and quotas.

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::Api;
use serde_json::{Value, json};

use super::lease::namespace;
use super::{apply, block_on, client, until};

/// The line of the config file by which a controller serves queues.
pub const QUEUEING: &str = "queueing: true";

/// A namespace with a queue and room for so many Pods.
pub fn furnish(name: &str, room: u32) {
    let namespace = namespace(name);
    queue(&namespace, "q");
    quota(&namespace, &[("pods", &room.to_string())]);
}

/// A queue that orders by priority, which is the default.
pub fn queue(namespace: &str, name: &str) {
    apply(
        namespace,
        &format!(
            "{{apiVersion: queue.k8s.io/v1alpha1, kind: Queue, metadata: {{name: {name}}}, spec: {{}}}}"
        ),
    );
}

/// A quota, once the quota controller has taken it in.
pub fn quota(namespace: &str, hard: &[(&str, &str)]) {
    let hard: serde_json::Map<String, Value> =
        hard.iter().map(|(key, limit)| ((*key).into(), json!(limit))).collect();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "room"}, "spec": {"hard": hard},
    });
    apply(namespace, &quota.to_string());
    let api: Api<ResourceQuota> = Api::namespaced(client(), namespace);
    until("the quota is in force", || {
        let quota = block_on(api.get("room")).expect("it is there");
        let hard = quota.status.and_then(|status| status.hard).unwrap_or_default();
        (hard == quota.spec.and_then(|spec| spec.hard).unwrap_or_default()).then_some(())
    });
}
