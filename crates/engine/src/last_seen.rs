//! The last known state of a Pod, and its form in the history.

use framework_api::name::{self, variable};
use framework_core::classify::{ContainerEnd, TerminatedPod};
use framework_core::observed::{PodFacts, PodPhase};
use framework_message::Key;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The last known state of a Pod.
#[derive(Clone, Debug)]
pub struct LastSeen {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// Its last known state.
    pub state: LastState,
}

/// The known facts about a Pod that is gone.
#[derive(Clone, Debug)]
pub enum LastState {
    /// The whole Pod, as the watch sent it when the Pod was deleted.
    Whole(Box<RawValue>),
    /// The whole Pod, as the watch sent it when it ceased to show the Pod. The Pod lived on for a while.
    Earlier(Box<RawValue>),
    /// The facts that the cache held: no event showed its deletion.
    Facts {
        /// The facts.
        facts: Box<PodFacts>,
        /// `metadata.resourceVersion`.
        resource_version: u128,
    },
}

impl LastSeen {
    /// The Pod as JSON; its Framework has this name.
    pub fn json(&self, key: &Key) -> String {
        match &self.state {
            LastState::Whole(json) | LastState::Earlier(json) => with_kind(json.get()),
            LastState::Facts { facts, resource_version } => {
                self.rest(key, facts, *resource_version).to_string()
            }
        }
    }

    /// The Pod with the known facts, and no others.
    fn rest(&self, key: &Key, facts: &PodFacts, resource_version: u128) -> Value {
        let config_map = name::config_map_name(&key.name);
        let mut metadata = json!({
            "name": self.name,
            "namespace": &*key.namespace,
            "uid": self.uid,
            "resourceVersion": resource_version.to_string(),
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": config_map, "uid": facts.config_map_uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        });
        // The name of the TaskRole stands between the name of the Framework and an index.
        if let Some((role, index)) = self.name.rsplit_once('-')
            && let Some((_, role)) = role.rsplit_once('-')
        {
            metadata["labels"] = json!({
                variable::FRAMEWORK_NAME: &*key.name,
                variable::TASKROLE_NAME: role,
                variable::TASK_INDEX: index,
            });
        }
        if let Some(deletion) = facts.deletion {
            metadata["deletionTimestamp"] = json!(deletion.at);
            metadata["deletionGracePeriodSeconds"] = json!(deletion.grace_sec);
        }
        let mut status = json!({
            "phase": phase(facts.phase), "podIP": facts.pod_ip, "hostIP": facts.host_ip,
        });
        if let Some(end) = &facts.end {
            let TerminatedPod { reason, message, containers, .. } = &**end;
            status["reason"] = json!(reason);
            status["message"] = json!(message);
            status["containerStatuses"] = containers.iter().map(container).collect();
        }
        let spec = json!({ "nodeName": facts.node_name });
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status,
        })
    }
}

fn phase(phase: PodPhase) -> &'static str {
    match phase {
        PodPhase::Pending => "Pending",
        PodPhase::Running => "Running",
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
        PodPhase::Unknown => "Unknown",
    }
}

fn container(container: &ContainerEnd) -> Value {
    let state = container.terminated.as_ref().map(|end| {
        json!({"terminated": {
            "reason": end.reason, "message": end.message, "signal": end.signal,
            "exitCode": end.exit_code, "finishedAt": end.finished_at,
        }})
    });
    json!({"name": container.name, "state": state})
}

/// A Pod's JSON with apiVersion and kind, which objects in lists lack.
fn with_kind(json: &str) -> String {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct TypeMeta {
        api_version: String,
        kind: String,
    }
    // The API server begins an object of a watch so, and it need not be read.
    if json.starts_with(r#"{"kind":"Pod","apiVersion":"v1","#) {
        return json.to_owned();
    }
    let TypeMeta { api_version, kind } = serde_json::from_str(json).unwrap_or_default();
    let missing = [("apiVersion", "v1", api_version), ("kind", "Pod", kind)];
    let missing = missing.iter().filter(|(.., found)| found.is_empty());
    let fields: String = missing.map(|(field, value, _)| format!("\"{field}\":\"{value}\",")).collect();
    match json.strip_prefix('{') {
        Some(rest) if !fields.is_empty() => format!("{{{fields}{rest}"),
        _ => json.to_owned(),
    }
}
