//! What a watched object says of its job: no more of it is decoded than is noted.

use kube::core::{Object, ObjectMeta};
use serde::{Deserialize, Serialize};

/// A Framework as far as it matters here: its spec is not looked at.
pub type Framework = Object<Nothing, FrameworkStatus>;
/// A Job likewise.
pub type BatchJob = Object<Nothing, JobStatus>;

/// Whatever it is, it is passed over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Nothing {}

/// The status of a Framework, but for its Tasks.
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
    /// How it ended.
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
    /// Pods that run or wait.
    pub active: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Pods that have succeeded.
    pub succeeded: i32,
    /// How it ended, among others.
    pub conditions: Vec<Condition>,
}

/// A condition of a Job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Such as `Complete`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` if it holds.
    pub status: String,
    /// Such as `DeadlineExceeded`.
    pub reason: String,
}

/// A QueueUnit likewise.
pub type Unit = Object<Nothing, UnitStatus>;

/// The status of a QueueUnit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitStatus {
    /// `Enqueued` or `Dequeued`.
    pub phase: String,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Stored by the API server.
    Stored,
    /// A controller has taken it up: it has a status.
    Accepted,
    /// Its attempt is being prepared: its Pods are created.
    Preparing,
    /// At least one Task runs.
    Running,
    /// It runs no more, and how it ended is stored.
    Ended,
    /// It is over, and nothing is left to be done.
    Completed,
    /// Its deletion is accepted.
    Deleted,
}

/// A watched object, reduced to what is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Which job.
    pub name: String,
    /// Where it is.
    pub phase: Phase,
    /// What became of it, once it is known.
    pub outcome: Option<&'static str>,
    /// `metadata.resourceVersion`, which orders the changes of all objects; 0: it is no number.
    pub version: u64,
}

/// The completion code of a deadline.
const DEADLINE: i32 = -240;

impl Observation {
    /// Of a Framework.
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
        Some(Observation {
            name: object.metadata.name.clone()?,
            phase,
            outcome,
            version: version(&object.metadata),
        })
    }

    /// Of a QueueUnit: Enqueued is taken up, Dequeued runs.
    pub fn unit(object: &Unit) -> Option<Observation> {
        let (phase, outcome) = match object.status.as_ref().map_or("", |status| status.phase.as_str()) {
            "Dequeued" => (Phase::Running, Some("Succeeded")),
            "Enqueued" => (Phase::Accepted, None),
            _ => (Phase::Stored, None),
        };
        Some(Observation {
            name: object.metadata.name.clone()?,
            phase,
            outcome,
            version: version(&object.metadata),
        })
    }

    /// Of a Job.
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
        Some(Observation {
            name: object.metadata.name.clone()?,
            phase,
            outcome,
            version: version(&object.metadata),
        })
    }
}

fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}
