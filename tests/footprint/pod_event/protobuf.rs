//! Reads the fields of a Pod that the controller needs from protobuf, as `crates/runtime/src/wire/pod.rs`
//! reads them from JSON. Labels are not copied; every other text is kept as the JSON reader keeps it.
//!
//! Conditions and annotations are absent. The JSON reader takes them in a second pass, for a Pod that failed
//! without a reason, and for a deleted one that is not controlled any more.

use bytes::Bytes;
use framework_api::{Time, name};
use framework_core::classify::{ContainerEnd, ContainerTerminated, TerminalPhase, TerminatedPod};
use framework_core::observed::{Deletion, PodFacts, PodPhase};
use framework_engine::object::PodObject;
use framework_message::{Key, Slot};
use jiff::Timestamp;
use prost::Message;

/// The first bytes of an object (Kubernetes API concepts, "Protobuf encoding").
pub(super) const MAGIC: &[u8] = b"k8s\0";

#[derive(Clone, PartialEq, Message)]
struct WatchEvent {
    #[prost(bytes = "bytes", tag = "1")]
    kind: Bytes,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

#[derive(Clone, PartialEq, Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Pod {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    spec: Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    status: Option<PodStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "9")]
    deletion_timestamp: Option<Seconds>,
    #[prost(int64, tag = "10")]
    deletion_grace_period_seconds: i64,
    #[prost(message, repeated, tag = "11")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "13")]
    owner_references: Vec<OwnerReference>,
}

/// An entry of a map.
#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct OwnerReference {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    uid: String,
    #[prost(string, tag = "5")]
    api_version: String,
    #[prost(bool, tag = "6")]
    controller: bool,
}

/// A `Time`.
#[derive(Clone, PartialEq, Message)]
struct Seconds {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PodSpec {
    #[prost(string, tag = "10")]
    node_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct PodStatus {
    #[prost(string, tag = "1")]
    phase: String,
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(string, tag = "5")]
    host_ip: String,
    #[prost(string, tag = "6")]
    pod_ip: String,
    #[prost(message, repeated, tag = "8")]
    container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerStatus {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    state: Option<ContainerState>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerState {
    #[prost(message, optional, tag = "3")]
    terminated: Option<Terminated>,
}

#[derive(Clone, PartialEq, Message)]
struct Terminated {
    #[prost(int32, tag = "1")]
    exit_code: i32,
    #[prost(int32, tag = "2")]
    signal: i32,
    #[prost(string, tag = "3")]
    reason: String,
    #[prost(string, tag = "4")]
    message: String,
    #[prost(message, optional, tag = "6")]
    finished_at: Option<Seconds>,
}

/// Reads a frame of a watch; `None` if its Pod is not one of ours.
pub(super) fn read(frame: Bytes) -> Option<PodObject> {
    let event = WatchEvent::decode(frame).expect("it is an event");
    assert!(matches!(&*event.kind, b"MODIFIED" | b"DELETED"), "{:?}", event.kind);
    let object = event.object?.raw;
    assert!(object.starts_with(MAGIC), "it is no object");
    let unknown = Unknown::decode(object.slice(MAGIC.len()..)).expect("it is an object");
    Pod::decode(unknown.raw).expect("it is a Pod").object()
}

impl Pod {
    fn object(self) -> Option<PodObject> {
        let metadata = self.metadata?;
        let is_config_map = |owner: &&OwnerReference| owner.kind == "ConfigMap" && owner.api_version == "v1";
        let controller = metadata.owner_references.iter().find(|owner| owner.controller);
        let owner = controller.filter(is_config_map)?;
        let framework = name::framework_of_config_map(&owner.name)?;
        metadata.name.strip_prefix(framework)?.strip_prefix('-')?;
        let mut status = self.status.unwrap_or_default();
        let phase = status.phase();
        let facts = PodFacts {
            deletion: metadata.deletion(),
            node_name: self.spec.unwrap_or_default().node_name,
            pod_ip: std::mem::take(&mut status.pod_ip),
            host_ip: std::mem::take(&mut status.host_ip),
            end: status.end(phase, &metadata.name),
            ..PodFacts::new(&metadata.uid, &owner.uid, phase)
        };
        Some(PodObject {
            key: Key::new(&metadata.namespace, framework),
            resource_version: metadata.resource_version.parse().unwrap_or(0),
            label: metadata.slot(),
            name: metadata.name,
            facts,
            last: None,
        })
    }
}

impl ObjectMeta {
    fn slot(&self) -> Option<Slot> {
        let label = self.labels.iter().find(|label| *label.key == *name::SLOT_LABEL.as_bytes())?;
        let text = std::str::from_utf8(&label.value).ok()?;
        text.parse().map(Slot).ok().filter(|slot| slot.to_string() == text)
    }

    fn deletion(&self) -> Option<Deletion> {
        let at = self.deletion_timestamp.as_ref()?.time();
        Some(Deletion { at, grace_sec: self.deletion_grace_period_seconds })
    }
}

impl Seconds {
    fn time(&self) -> Time {
        Time::floor(Timestamp::from_second(self.seconds).unwrap_or(Timestamp::MAX))
    }
}

impl PodStatus {
    fn phase(&self) -> PodPhase {
        match self.phase.as_str() {
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            "Pending" | "" => PodPhase::Pending,
            _ => PodPhase::Unknown,
        }
    }

    fn end(self, phase: PodPhase, pod_name: &str) -> Option<Box<TerminatedPod>> {
        let phase = match phase {
            PodPhase::Succeeded => TerminalPhase::Succeeded,
            PodPhase::Failed => TerminalPhase::Failed,
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => return None,
        };
        let containers = self.init_container_statuses.into_iter().chain(self.container_statuses);
        let mut containers: Vec<ContainerEnd> = containers.map(ContainerStatus::end).collect();
        containers.shrink_to_fit();
        let pod_name = pod_name.to_owned();
        Some(Box::new(TerminatedPod {
            phase,
            pod_name,
            reason: self.reason,
            message: self.message,
            containers,
        }))
    }
}

impl ContainerStatus {
    fn end(self) -> ContainerEnd {
        let terminated = self.state.and_then(|state| state.terminated);
        ContainerEnd {
            name: self.name,
            terminated: terminated.map(|end| ContainerTerminated {
                reason: end.reason,
                message: end.message,
                signal: end.signal,
                exit_code: end.exit_code,
                finished_at: end.finished_at.map(|at| at.time()),
            }),
        }
    }
}
