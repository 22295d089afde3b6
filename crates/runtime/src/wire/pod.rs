//! Pods of TaskAttempts.

use serde::Deserialize;
use serde_json::value::RawValue;

use framework_api::{Time, name};
use framework_core::classify::{ContainerEnd, ContainerTerminated, TerminalPhase, TerminatedPod};
use framework_core::observed::{PodFacts, PodPhase};
use framework_engine::object::{PodObject, UnownedPod};
use framework_message::Key;

use super::meta::{Meta, Owner};
use super::resource::{Read, Resource, Wire};
use super::time::whole_seconds;

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct PodWire {
    metadata: Meta,
    spec: Option<SpecWire>,
    status: Option<StatusWire>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    node_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "hostIP")]
    host_ip: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    init_container_statuses: Option<Vec<ContainerStatusWire>>,
    container_statuses: Option<Vec<ContainerStatusWire>>,
}

/// The additional fields that are read of a Pod that failed without a reason.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DisruptedWire {
    status: ConditionsWire,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConditionsWire {
    conditions: Vec<PodConditionWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodConditionWire {
    r#type: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerStatusWire {
    name: String,
    state: Option<StateWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StateWire {
    terminated: Option<TerminatedWire>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TerminatedWire {
    reason: Option<String>,
    message: Option<String>,
    signal: Option<i32>,
    exit_code: Option<i32>,
    #[serde(deserialize_with = "whole_seconds")]
    finished_at: Option<Time>,
}

impl Wire for PodObject {
    const RESOURCE: Resource = Resource::new("", "v1", "Pod", "pods").selected_by(name::SLOT_LABEL);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let mut pod: PodWire = serde_json::from_str(json.get())?;
        if let Some(status) = &mut pod.status {
            status.explain(json);
        }
        let resource_version = pod.metadata.resource_version.clone();
        let slot = pod.metadata.labelled_slot();
        let deletion = pod.metadata.deletion();
        let unowned = unowned(&pod.metadata);
        let Some(mut object) = pod.object() else {
            let is_gone = deletion.is_some_and(|deletion| deletion.grace_sec == 0);
            let last = is_gone.then(|| json.to_owned());
            let unowned = unowned.map(|unowned| UnownedPod { last, ..unowned });
            return Ok(Read { resource_version, slot, object: None, unowned });
        };
        object.last = deletion.map(|_| json.to_owned());
        Ok(Read { resource_version, slot, object: Some(object), unowned: None })
    }

    fn forget_last(&mut self) {
        self.last = None;
    }
}

impl PodWire {
    /// The Pod, if it has the name of one of a Framework, whose ConfigMap controls it. The policy on the
    /// reach of the controller's account lets it delete no others.
    fn object(self) -> Option<PodObject> {
        let is_config_map = |owner: &&Owner| owner.kind == "ConfigMap" && owner.api_version == "v1";
        let owner = self.metadata.controller().filter(is_config_map)?;
        let framework = name::framework_of_config_map(&owner.name)?;
        self.metadata.name.strip_prefix(framework)?.strip_prefix('-')?;
        let status = self.status.unwrap_or_default();
        let phase = phase(status.phase.as_deref());
        let facts = PodFacts {
            deletion: self.metadata.deletion(),
            node_name: self.spec.and_then(|spec| spec.node_name).unwrap_or_default(),
            pod_ip: status.pod_ip.clone().unwrap_or_default(),
            host_ip: status.host_ip.clone().unwrap_or_default(),
            end: end(phase, &self.metadata.name, status),
            ..PodFacts::new(&self.metadata.uid, &owner.uid, phase)
        };
        Some(PodObject {
            key: Key::new(&self.metadata.namespace, framework),
            resource_version: self.metadata.version(),
            label: self.metadata.labelled_slot(),
            name: self.metadata.name,
            facts,
            last: None,
        })
    }
}

/// A Pod that is not ours may have been: its name says of which Framework.
fn unowned(metadata: &Meta) -> Option<UnownedPod> {
    let (framework, _) = metadata.name.split_once('-')?;
    let key = Key::new(&metadata.namespace, framework);
    Some(UnownedPod {
        key,
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.version(),
        last: None,
    })
}

fn phase(text: Option<&str>) -> PodPhase {
    match text {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        // A Pod that was just created may have no phase yet.
        Some("Pending" | "") | None => PodPhase::Pending,
        Some(_) => PodPhase::Unknown,
    }
}

impl StatusWire {
    /// Kubernetes gives the reason of a Pod whose Node was deleted in a condition only. The conditions of no
    /// other Pod are read.
    fn explain(&mut self, json: &RawValue) {
        let is_empty = |text: &Option<String>| text.as_ref().is_none_or(String::is_empty);
        if self.phase.as_deref() != Some("Failed") || !is_empty(&self.reason) {
            return;
        }
        let read: DisruptedWire = serde_json::from_str(json.get()).unwrap_or_default();
        let disrupted = |condition: &PodConditionWire| {
            condition.r#type == "DisruptionTarget" && condition.status == "True"
        };
        if let Some(condition) = read.status.conditions.into_iter().find(disrupted) {
            self.reason = condition.reason;
            if is_empty(&self.message) {
                self.message = condition.message;
            }
        }
    }
}

fn end(phase: PodPhase, pod_name: &str, status: StatusWire) -> Option<Box<TerminatedPod>> {
    let phase = match phase {
        PodPhase::Succeeded => TerminalPhase::Succeeded,
        PodPhase::Failed => TerminalPhase::Failed,
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => return None,
    };
    let containers = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
    let mut containers: Vec<ContainerEnd> = containers.map(container_end).collect();
    // It is kept for long, and grew by doubling.
    containers.shrink_to_fit();
    Some(Box::new(TerminatedPod {
        phase,
        pod_name: pod_name.to_owned(),
        reason: status.reason.unwrap_or_default(),
        message: status.message.unwrap_or_default(),
        containers,
    }))
}

fn container_end(container: ContainerStatusWire) -> ContainerEnd {
    let terminated = container.state.and_then(|state| state.terminated);
    ContainerEnd {
        name: container.name,
        terminated: terminated.map(|end| ContainerTerminated {
            reason: end.reason.unwrap_or_default(),
            message: end.message.unwrap_or_default(),
            signal: end.signal.unwrap_or_default(),
            exit_code: end.exit_code.unwrap_or_default(),
            finished_at: end.finished_at,
        }),
    }
}

#[cfg(test)]
mod tests {
    use framework_message::Slot;
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::decode;

    /// A Pod as the API server sends it, cut to the parts that matter and some that do not.
    fn pod(status: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "job-worker-0", "namespace": "ns", "uid": "p",
                "resourceVersion": "340282366920938463463",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"FC_FRAMEWORK_NAME": "job", name::SLOT_LABEL: "17"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "other", "uid": "n"},
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "job-attempt", "uid": "c",
                     "controller": true, "blockOwnerDeletion": true},
                ],
                "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
            },
            "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "x"}]},
            "status": status,
        })
    }

    fn read(pod: &Value) -> Option<PodObject> {
        decode(&serde_json::to_vec(pod).unwrap()).unwrap()
    }

    #[test]
    fn a_running_pod_is_read_without_its_containers() {
        let running = pod(json!({
            "phase": "Running", "podIP": "10.0.0.7", "hostIP": "192.168.0.1",
            "containerStatuses": [
                {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
            ],
        }));
        let pod = read(&running).unwrap();
        assert_eq!(pod.key, Key::new("ns", "job"));
        assert_eq!((pod.name.as_str(), pod.label), ("job-worker-0", Some(Slot(17))));
        assert_eq!(pod.resource_version, 340_282_366_920_938_463_463);
        let expected = PodFacts {
            node_name: "node-1".into(),
            pod_ip: "10.0.0.7".into(),
            host_ip: "192.168.0.1".into(),
            ..PodFacts::new("p", "c", PodPhase::Running)
        };
        assert_eq!(pod.facts, expected);
    }

    #[test]
    fn how_a_failed_pod_ended_is_read_init_containers_first() {
        let failed = pod(json!({
            "phase": "Failed", "reason": "Evicted", "message": "low on memory",
            "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [
                {"name": "main", "state": {"terminated": {
                    "exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "gone",
                    "startedAt": null, "finishedAt": "2026-01-01T00:00:09Z",
                }}},
                {"name": "side", "state": {"waiting": {"reason": "PodInitializing"}}},
            ],
        }));
        let end = read(&failed).unwrap().facts.end.unwrap();
        assert_eq!((end.reason.as_str(), end.message.as_str()), ("Evicted", "low on memory"));
        assert_eq!(end.pod_name, "job-worker-0");
        let names: Vec<_> =
            end.containers.iter().map(|c| (c.name.as_str(), c.terminated.is_some())).collect();
        assert_eq!(names, [("init", true), ("main", true), ("side", false)]);
        let main = end.containers[1].terminated.as_ref().unwrap();
        assert_eq!((main.exit_code, main.signal, main.reason.as_str()), (137, 9, "OOMKilled"));
        assert_eq!(main.finished_at.unwrap().to_string(), "2026-01-01T00:00:09Z");
    }

    #[test]
    fn a_pod_of_a_deleted_node_has_the_reason_of_its_condition() {
        let node = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                          "message": "PodGC: node no longer exists"});
        let ready = json!({"type": "Ready", "status": "False", "reason": "PodFailed"});
        let ended = |status: Value| {
            let end = read(&pod(status)).unwrap().facts.end.unwrap();
            (end.reason, end.message)
        };
        let text = |reason: &str, message: &str| (reason.to_owned(), message.to_owned());
        let status = json!({"phase": "Failed", "conditions": [ready, node]});
        assert_eq!(ended(status), text("DeletionByPodGC", "PodGC: node no longer exists"));
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "conditions": [node]});
        assert_eq!(ended(evicted), text("Evicted", ""), "the kubelet's own reason is more exact");
        assert_eq!(ended(json!({"phase": "Failed", "conditions": [ready]})), text("", ""));
        assert_eq!(ended(json!({"phase": "Failed", "conditions": "no list"})), text("", ""));
        assert_eq!(ended(json!({"phase": "Succeeded", "conditions": [node]})), text("", ""));
    }

    #[test]
    fn a_deletion_is_read_with_its_grace_period() {
        let mut deleting = pod(json!({"phase": "Running"}));
        deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
        deleting["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        let deletion = read(&deleting).unwrap().facts.deletion.unwrap();
        assert_eq!(deletion.started().to_string(), "2026-01-01T00:00:00Z");
    }

    #[test]
    fn a_pod_of_somebody_else_is_left_out() {
        for (field, value) in [("kind", "ReplicaSet"), ("name", "my-job-attempt"), ("name", "job")] {
            let mut other = pod(json!({"phase": "Running"}));
            other["metadata"]["ownerReferences"][1][field] = value.into();
            assert!(read(&other).is_none(), "{field} = {value}");
        }
        // Those that the policy on the reach of the controller's account does not let it delete.
        let mut stranger = pod(json!({"phase": "Running"}));
        stranger["metadata"]["name"] = "stranger".into();
        assert!(read(&stranger).is_none());
        let mut forged = pod(json!({"phase": "Running"}));
        forged["metadata"]["ownerReferences"][1]["apiVersion"] = "x/v1".into();
        assert!(read(&forged).is_none());
        let mut orphan = pod(json!({"phase": "Running"}));
        orphan["metadata"]["ownerReferences"] = Value::Null;
        assert!(read(&orphan).is_none());
    }

    #[test]
    fn nulls_and_unknown_words_do_not_break_decoding() {
        let mut odd =
            pod(json!({"phase": "Hibernating", "podIP": null, "containerStatuses": null, "new": [1]}));
        odd["metadata"]["labels"] = Value::Null;
        odd["spec"] = Value::Null;
        let pod = read(&odd).unwrap();
        assert_eq!((pod.facts.phase, pod.label), (PodPhase::Unknown, None));
        assert_eq!(read(&super::tests::pod(Value::Null)).unwrap().facts.phase, PodPhase::Pending);
    }

    fn deleting(grace: i64) -> Value {
        let mut pod = pod(json!({"phase": "Running"}));
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        pod
    }

    #[test]
    fn only_a_pod_that_is_being_deleted_is_kept_whole() {
        assert!(read(&pod(json!({"phase": "Running"}))).unwrap().last.is_none());
        for grace in [0, 30] {
            let deleting = deleting(grace);
            let mut object = read(&deleting).unwrap();
            let last: Value = serde_json::from_str(object.last.as_ref().unwrap().get()).unwrap();
            assert_eq!(last, deleting);
            object.forget_last();
            assert!(object.last.is_none());
        }
    }

    #[test]
    fn a_pod_that_no_config_map_controls_is_kept_whole_if_it_is_gone() {
        let unowned = |pod: &Value| {
            let read = serde_json::from_str::<crate::wire::Watched<PodObject>>(&pod.to_string()).unwrap();
            assert!(read.object.is_none());
            read.unowned.unwrap().last.is_some()
        };
        let mut orphan = deleting(0);
        orphan["metadata"]["ownerReferences"] = Value::Null;
        assert!(unowned(&orphan));
        orphan["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        assert!(!unowned(&orphan), "it may have lost its label");
    }
}
