//! The few fields of watched objects that the load test reads; the rest is not decoded.

use framework_api::State;
use kube::core::{Object, ObjectMeta};
use serde::{Deserialize, Serialize};

/// A Framework without its spec and without its Task statuses.
pub type Framework = Object<Nothing, FrameworkStatus>;
/// A Job without its spec.
pub type BatchJob = Object<Nothing, JobStatus>;

/// Ignores the field.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Nothing {}

/// The status of a Framework without its Tasks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrameworkStatus {
    /// The state.
    pub state: String,
    /// The attempt.
    pub attempt_status: AttemptStatus,
}

/// The attempt of a Framework.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptStatus {
    /// How the attempt ended, if it has.
    pub completion_status: Option<CompletionStatus>,
}

/// How an attempt ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompletionStatus {
    /// The completion code.
    pub code: i32,
}

/// The status of a Job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Pods that are pending or running.
    pub active: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Pods that have succeeded.
    pub succeeded: i32,
    /// The conditions, among them `Complete` and `Failed`.
    pub conditions: Vec<Condition>,
}

/// A condition of a Job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// The type, such as `Complete`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` if it holds.
    pub status: String,
    /// The reason, such as `DeadlineExceeded`.
    pub reason: String,
}

/// A QueueUnit without its spec.
pub type Unit = Object<Nothing, UnitStatus>;

/// The status of a QueueUnit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitStatus {
    /// `Enqueued` or `Dequeued`.
    pub phase: String,
}

/// The phase of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Stored by the API server.
    Stored,
    /// A controller has accepted it: it has a status.
    Accepted,
    /// Its attempt is being prepared: its Pods are created.
    Preparing,
    /// At least one Task runs.
    Running,
    /// It no longer runs, and its outcome is stored.
    Ended,
    /// It is over, and no action is left.
    Completed,
    /// Its deletion is accepted.
    Deleted,
}

/// The facts about a job in a watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The name of the job.
    pub name: String,
    /// Its phase.
    pub phase: Phase,
    /// The state of a Framework that has a status.
    pub state: Option<State>,
    /// Its outcome, once it is known.
    pub outcome: Option<&'static str>,
    /// `metadata.resourceVersion`, which orders the changes of all objects; 0 if it is not a number.
    pub version: u64,
}

/// The completion code of an exceeded deadline.
const DEADLINE: i32 = -240;

impl Observation {
    /// Reads a Framework.
    pub fn framework(object: &Framework) -> Option<Observation> {
        let status = object.status.as_ref();
        let completion = status.and_then(|status| status.attempt_status.completion_status.as_ref());
        let phase = match status.map(|status| status.state.as_str()) {
            _ if object.metadata.deletion_timestamp.is_some() => Phase::Deleted,
            Some("AttemptCreationPending" | "AttemptCreationRequested") => Phase::Accepted,
            Some("AttemptPreparing") => Phase::Preparing,
            Some("AttemptRunning") => Phase::Running,
            Some(
                "AttemptDeletionPending"
                | "AttemptDeletionRequested"
                | "AttemptDeleting"
                | "AttemptCompleted",
            ) => Phase::Ended,
            Some("Completed") => Phase::Completed,
            _ => Phase::Stored,
        };
        let outcome = completion.map(|completion| match completion.code {
            0 => "Succeeded",
            DEADLINE => "DeadlineExceeded",
            _ => "Failed",
        });
        let state = status.and_then(|status| serde_json::from_value(status.state.as_str().into()).ok());
        Some(Observation { state, ..Observation::of(&object.metadata, phase, outcome)? })
    }

    /// Reads a QueueUnit: Enqueued is `Accepted`, Dequeued is `Running`.
    pub fn unit(object: &Unit) -> Option<Observation> {
        let (phase, outcome) = match object.status.as_ref().map_or("", |status| status.phase.as_str()) {
            "Dequeued" => (Phase::Running, Some("Succeeded")),
            "Enqueued" => (Phase::Accepted, None),
            _ => (Phase::Stored, None),
        };
        Observation::of(&object.metadata, phase, outcome)
    }

    /// Reads a Job.
    pub fn batch_job(object: &BatchJob) -> Option<Observation> {
        let nothing = JobStatus::default();
        let status = object.status.as_ref().unwrap_or(&nothing);
        let holds = |kind: &str| {
            status.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
        };
        let outcome = match (holds("Complete"), holds("Failed")) {
            (Some(_), _) => Some("Succeeded"),
            (None, Some(failed)) if failed.reason == "DeadlineExceeded" => Some("DeadlineExceeded"),
            (None, Some(_)) => Some("Failed"),
            (None, None) => None,
        };
        let phase = match outcome {
            _ if object.metadata.deletion_timestamp.is_some() => Phase::Deleted,
            Some(_) => Phase::Completed,
            None if status.ready > 0 || status.succeeded > 0 => Phase::Running,
            None if status.active > 0 => Phase::Preparing,
            None => Phase::Stored,
        };
        Observation::of(&object.metadata, phase, outcome)
    }

    fn of(metadata: &ObjectMeta, phase: Phase, outcome: Option<&'static str>) -> Option<Observation> {
        let version = metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
        Some(Observation { name: metadata.name.clone()?, phase, state: None, outcome, version })
    }
}
