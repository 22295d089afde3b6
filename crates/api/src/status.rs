//! The status of a `Framework`: the decisions that the controller has persisted.
//!
//! Which unset fields are written as `null`, and which are left out, is part of the contract.
//! The types are these alone: the CRD's schema has the first level only, because the API server pays for the
//! rest with each write.

mod completion;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::{self, DecodeError};
use crate::shared::Shared;
use crate::time::Time;

pub use self::completion::{
    CompletionTrigger, ContainerCompletionStatus, FrameworkAttemptCompletionStatus, PodCompletionStatus,
    TaskAttemptCompletionStatus,
};

/// The state of a Framework, and, with the same names, of a Task.
///
/// For a Framework the ground truth is `configMapUID` and the ConfigMap; for a Task, `podUID` and the Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum State {
    /// The attempt's object is about to be created.
    AttemptCreationPending,
    /// The object was created (its UID is recorded) and is not yet seen in the cache.
    AttemptCreationRequested,
    /// The object exists; nothing runs yet (a Task: its Pod is Pending).
    AttemptPreparing,
    /// A Task's Pod is Running; a Framework has such a Task.
    AttemptRunning,
    /// The completion status is decided; the object is about to be deleted.
    AttemptDeletionPending,
    /// The deletion was accepted and is not yet seen in the cache.
    AttemptDeletionRequested,
    /// The object is being deleted.
    AttemptDeleting,
    /// The object is gone; whether to retry is to be decided.
    AttemptCompleted,
    /// No further attempt follows.
    Completed,
}

/// The status of a Framework.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FrameworkStatus {
    /// When the first status of the Framework was made.
    pub start_time: Time,
    /// When a Task first ran.
    #[serde(default)]
    pub run_time: Option<Time>,
    /// When the Framework completed.
    #[serde(default)]
    pub completion_time: Option<Time>,
    /// The state of the current attempt.
    pub state: State,
    /// When `state` last changed.
    pub transition_time: Time,
    /// How often the Framework was retried.
    pub retry_policy_status: RetryPolicyStatus,
    /// The current, or last, attempt.
    pub attempt_status: FrameworkAttemptStatus,
    /// The `metadata.generation` that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Summaries for people and `kubectl wait`: `Running`, `Queued`, `Complete`, `Failed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::condition_map)]
    pub conditions: Vec<Condition>,
    /// Tasks by state, without those that a scale-down removes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_counts: Option<TaskCounts>,
    /// `{succeeded + running}/{total}`-style summary for the `Tasks` column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<String>,
}

/// How often a Framework or a Task was retried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicyStatus {
    /// All retries; equals the id of the current attempt.
    pub total_retried_count: i32,
    /// The retries that count against `maxRetryCount`.
    pub accountable_retried_count: i32,
    /// Seconds from the completion of the attempt to its retry; set once the retry is decided.
    #[serde(default)]
    pub retry_delay_sec: Option<i64>,
    /// Id of the attempt from which short runs in a row are counted. Left out while every earlier attempt was
    /// a short run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_runs_from: Option<i32>,
}

/// Tasks of a Framework by state, without those that a scale-down removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskCounts {
    /// All Tasks.
    pub total: i32,
    /// Neither running nor completed.
    pub pending: i32,
    /// In AttemptRunning.
    pub running: i32,
    /// Completed and succeeded.
    pub succeeded: i32,
    /// Completed and failed.
    pub failed: i32,
    /// Tasks whose Pod has an IP, in any state. Unset in a status that an older controller wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addressed: Option<i32>,
}

/// One run of a Framework, represented by a ConfigMap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FrameworkAttemptStatus {
    /// Counts from 0; equals `totalRetriedCount`.
    pub id: i32,
    /// When this attempt was decided.
    pub start_time: Time,
    /// When a Task of it first ran.
    #[serde(default)]
    pub run_time: Option<Time>,
    /// When its ConfigMap and all its Pods were gone.
    #[serde(default)]
    pub completion_time: Option<Time>,
    /// `{id}_{configMapUID}`.
    #[serde(default, rename = "instanceUID")]
    pub instance_uid: Option<String>,
    /// Name of the ConfigMap that represents this attempt.
    pub config_map_name: String,
    /// UID of that ConfigMap, once created.
    #[serde(default, rename = "configMapUID")]
    pub config_map_uid: Option<String>,
    /// How it ended; never changes once set.
    // Boxed: of most that are kept it is unset.
    #[serde(default)]
    pub completion_status: Option<Box<FrameworkAttemptCompletionStatus>>,
    /// One entry a TaskRole; null when compressed.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::opaque_list")]
    pub task_role_statuses: Option<Vec<TaskRoleStatus>>,
    /// Base64 of the compressed JSON of `taskRoleStatuses`; left out when not compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_role_statuses_compressed: Option<String>,
}

/// The status of a TaskRole in the current FrameworkAttempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskRoleStatus {
    /// Name of the TaskRole.
    pub name: String,
    /// Made by the controller; it changes when the TaskRole is removed and added again.
    #[serde(rename = "instanceUID")]
    pub instance_uid: String,
    /// The effective value, stored here so that it outlives the TaskRole in the spec.
    #[serde(default)]
    pub pod_graceful_deletion_timeout_sec: Option<i64>,
    /// By index, without gaps.
    #[schemars(with = "Vec<TaskStatus>")]
    pub task_statuses: Vec<Shared<TaskStatus>>,
}

/// The status of a Task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// Position in its TaskRole, from 0.
    pub index: i32,
    /// Made by the controller; it changes when a scale-down and a scale-up replace the Task.
    #[serde(rename = "instanceUID")]
    pub instance_uid: String,
    /// When the Task was added.
    pub start_time: Time,
    /// When it first ran.
    #[serde(default)]
    pub run_time: Option<Time>,
    /// When it completed.
    #[serde(default)]
    pub completion_time: Option<Time>,
    /// The state of its current attempt.
    pub state: State,
    /// When `state` last changed.
    pub transition_time: Time,
    /// Whether a scale-down is removing it.
    #[serde(default)]
    pub deletion_pending: bool,
    /// For a Task that a released Framework grew by: the `metadata.generation` in the name of the QueueUnit
    /// that requests it. Left out for any other Task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_unit_generation: Option<i64>,
    /// How often it was retried.
    pub retry_policy_status: RetryPolicyStatus,
    /// The current, or last, attempt.
    pub attempt_status: TaskAttemptStatus,
}

/// One run of a Task, represented by a Pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskAttemptStatus {
    /// Counts from 0; equals the Task's `totalRetriedCount`.
    pub id: i32,
    /// When this attempt was decided.
    pub start_time: Time,
    /// When its Pod first ran.
    #[serde(default)]
    pub run_time: Option<Time>,
    /// When its Pod was gone.
    #[serde(default)]
    pub completion_time: Option<Time>,
    /// `{id}_{podUID}`.
    #[serde(default, rename = "instanceUID")]
    pub instance_uid: Option<String>,
    /// Name of the Pod that represents this attempt.
    pub pod_name: String,
    /// UID of that Pod, once created.
    #[serde(default, rename = "podUID")]
    pub pod_uid: Option<String>,
    /// Node of the Pod; empty once the Pod was seen without one.
    #[serde(default)]
    pub pod_node_name: Option<String>,
    /// Address of the Pod; empty once the Pod was seen without one.
    #[serde(default, rename = "podIP")]
    pub pod_ip: Option<String>,
    /// Address of the Pod's node; empty once the Pod was seen without one.
    #[serde(default, rename = "podHostIP")]
    pub pod_host_ip: Option<String>,
    /// How it ended; never changes once set.
    // Boxed: of most that are kept it is unset.
    #[serde(default)]
    pub completion_status: Option<Box<TaskAttemptCompletionStatus>>,
}

impl TaskAttemptStatus {
    /// An attempt that is about to be created.
    pub fn new(id: i32, pod_name: String, start_time: Time) -> Self {
        TaskAttemptStatus {
            id,
            start_time,
            run_time: None,
            completion_time: None,
            instance_uid: None,
            pod_name,
            pod_uid: None,
            pod_node_name: None,
            pod_ip: None,
            pod_host_ip: None,
            completion_status: None,
        }
    }
}

impl FrameworkAttemptStatus {
    /// Fills `taskRoleStatuses` from its compressed form, which is removed. Returns whether it did: a raw
    /// field that is not null takes precedence. An error changes nothing.
    pub fn decompress(&mut self) -> Result<bool, DecodeError> {
        let mut was_compressed = false;
        if let (None, Some(text)) = (&self.task_role_statuses, &self.task_role_statuses_compressed) {
            let json = codec::decode(text)?;
            let statuses =
                serde_json::from_slice(&json).map_err(|error| DecodeError::Json(error.to_string()))?;
            self.task_role_statuses = statuses;
            was_compressed = true;
        }
        self.task_role_statuses_compressed = None;
        Ok(was_compressed)
    }
}

impl TaskRoleStatus {
    /// Its Tasks, by index.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskStatus> {
        self.task_statuses.iter().map(|task| &**task)
    }
}

impl FrameworkStatus {
    /// Makes the TaskRole statuses readable: see [`FrameworkAttemptStatus::decompress`].
    pub fn decompress(&mut self) -> Result<bool, DecodeError> {
        self.attempt_status.decompress()
    }

    /// This status as it is stored: its TaskRole statuses in this compressed form, or none at all.
    pub fn stored(&self, compressed: Option<String>) -> FrameworkStatus {
        let attempt = &self.attempt_status;
        FrameworkStatus {
            start_time: self.start_time,
            run_time: self.run_time,
            completion_time: self.completion_time,
            state: self.state,
            transition_time: self.transition_time,
            retry_policy_status: self.retry_policy_status,
            attempt_status: FrameworkAttemptStatus {
                id: attempt.id,
                start_time: attempt.start_time,
                run_time: attempt.run_time,
                completion_time: attempt.completion_time,
                instance_uid: attempt.instance_uid.clone(),
                config_map_name: attempt.config_map_name.clone(),
                config_map_uid: attempt.config_map_uid.clone(),
                completion_status: attempt.completion_status.clone(),
                task_role_statuses: None,
                task_role_statuses_compressed: compressed,
            },
            observed_generation: self.observed_generation,
            conditions: self.conditions.clone(),
            task_counts: self.task_counts,
            tasks: self.tasks.clone(),
        }
    }

    /// The TaskRole statuses of the current attempt; empty while they are compressed.
    pub fn task_roles(&self) -> &[TaskRoleStatus] {
        self.attempt_status.task_role_statuses.as_deref().unwrap_or_default()
    }

    /// The Tasks of all TaskRoles.
    pub fn all_tasks(&self) -> impl Iterator<Item = &TaskStatus> {
        self.task_roles().iter().flat_map(TaskRoleStatus::tasks)
    }

    /// The status of one Task.
    pub fn task(&self, role: &str, index: i32) -> Option<&TaskStatus> {
        let role = self.task_roles().iter().find(|r| r.name == role)?;
        role.task_statuses
            .get(usize::try_from(index).ok()?)
            .map(|task| &**task)
            .filter(|task| task.index == index)
    }
}
