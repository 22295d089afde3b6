//! History snapshots: the state that a status write replaces, to be logged before it is gone.
//!
//! Guarantees: a snapshot shows the persisted status that the decision was made from, never the next one.
//! The write that replaces the attempt of a Task may also complete it: then the snapshot adds the time of its
//! end. Every object that a write replaces has a snapshot, unless the policy switches it off.

use std::borrow::Cow;

use framework_api::config::LogObjectSnapshot;
use framework_api::name::{self, variable};
use framework_api::status::{TaskRoleStatus, TaskStatus};
use framework_api::{Framework, FrameworkSpec, FrameworkStatus, State, TaskSpec, Time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as meta, ObjectMeta};
use serde::Serialize;

/// A snapshot of a persisted object, and its trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// The attempt of the Framework is followed by another.
    FrameworkRetry,
    /// The attempt of a Task is followed by another.
    TaskRetry {
        /// Name of the TaskRole.
        task_role: String,
        /// Index of the Task.
        task_index: i32,
        /// The time of the decision.
        at: Time,
    },
    /// A scale-down removes the Task, or a scale-up after it replaces it.
    TaskDeletion {
        /// Name of the TaskRole.
        task_role: String,
        /// Index of the Task.
        task_index: i32,
        /// The time of the decision.
        at: Time,
    },
}

/// The trigger of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// A Framework is retried.
    OnFrameworkRetry,
    /// A Framework is deleted.
    OnFrameworkDeletion,
    /// A Task is retried.
    OnTaskRetry,
    /// A Task is removed.
    OnTaskDeletion,
    /// A Pod is deleted.
    OnPodDeletion,
}

impl Trigger {
    /// All of them.
    pub const ALL: [Trigger; 5] = [
        Trigger::OnFrameworkRetry,
        Trigger::OnFrameworkDeletion,
        Trigger::OnTaskRetry,
        Trigger::OnTaskDeletion,
        Trigger::OnPodDeletion,
    ];

    /// Its name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Trigger::OnFrameworkRetry => "OnFrameworkRetry",
            Trigger::OnFrameworkDeletion => "OnFrameworkDeletion",
            Trigger::OnTaskRetry => "OnTaskRetry",
            Trigger::OnTaskDeletion => "OnTaskDeletion",
            Trigger::OnPodDeletion => "OnPodDeletion",
        }
    }

    /// Whether the config file leaves it on.
    pub const fn is_on(self, switches: &LogObjectSnapshot) -> bool {
        match self {
            Trigger::OnFrameworkRetry => switches.framework.on_framework_retry,
            Trigger::OnFrameworkDeletion => switches.framework.on_framework_deletion,
            Trigger::OnTaskRetry => switches.task.on_task_retry,
            Trigger::OnTaskDeletion => switches.task.on_task_deletion,
            Trigger::OnPodDeletion => switches.pod.on_pod_deletion,
        }
    }
}

impl Snapshot {
    /// The trigger of the snapshot.
    pub const fn trigger(&self) -> Trigger {
        match self {
            Snapshot::FrameworkRetry => Trigger::OnFrameworkRetry,
            Snapshot::TaskRetry { .. } => Trigger::OnTaskRetry,
            Snapshot::TaskDeletion { .. } => Trigger::OnTaskDeletion,
        }
    }
}

/// The snapshots to write before `next` replaces `status`, the persisted one.
///
/// A new attempt of the Framework replaces all its Tasks: they are part of its own snapshot.
pub(crate) fn replaced(
    status: &FrameworkStatus,
    next: &FrameworkStatus,
    at: Time,
    switches: &LogObjectSnapshot,
) -> Vec<Snapshot> {
    let mut snapshots = if status.attempt_status.id == next.attempt_status.id {
        status.task_roles().iter().flat_map(|role| replaced_tasks(role, next, at)).collect()
    } else {
        vec![Snapshot::FrameworkRetry]
    };
    snapshots.retain(|snapshot| snapshot.trigger().is_on(switches));
    snapshots
}

fn replaced_tasks(role: &TaskRoleStatus, next: &FrameworkStatus, at: Time) -> impl Iterator<Item = Snapshot> {
    let after = next.task_roles().iter().find(|after| after.name == role.name);
    let after = after.map_or(&[][..], |after| &after.task_statuses);
    role.task_statuses.iter().enumerate().filter_map(move |(position, task)| {
        let (task_role, task_index) = (&role.name, task.index);
        let after = after.get(position);
        if after.is_some_and(|after| after.is_same(task)) {
            return None;
        }
        match after.filter(|after| after.instance_uid == task.instance_uid) {
            None => Some(Snapshot::TaskDeletion { task_role: task_role.clone(), task_index, at }),
            Some(after) if after.attempt_status.id != task.attempt_status.id => {
                Some(Snapshot::TaskRetry { task_role: task_role.clone(), task_index, at })
            }
            Some(_) => None,
        }
    })
}

/// A Framework with its decompressed status, as one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameworkView<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: &'a ObjectMeta,
    spec: &'a FrameworkSpec,
    status: Option<&'a FrameworkStatus>,
}

impl<'a> FrameworkView<'a> {
    /// The Framework with this status.
    pub fn new(framework: &'a Framework, status: Option<&'a FrameworkStatus>) -> Self {
        FrameworkView {
            api_version: name::API_VERSION,
            kind: name::KIND,
            metadata: &framework.metadata,
            spec: &framework.spec,
            status,
        }
    }
}

/// A Task as if it were an object of its own.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: ObjectMeta,
    /// `None` if the spec lacks the TaskRole.
    spec: Option<&'a TaskSpec>,
    status: Cow<'a, TaskStatus>,
}

/// `kind` of a [`TaskView`].
const TASK: &str = "Task";

impl<'a> TaskView<'a> {
    /// The Task of this index, being deleted since `deleted_at`; `None` if the status lacks it.
    pub fn new(
        framework: &'a Framework,
        status: &'a FrameworkStatus,
        task_role: &str,
        task_index: i32,
        deleted_at: Option<Time>,
    ) -> Option<Self> {
        let role = status.task_roles().iter().find(|role| role.name == task_role)?;
        let task = status.task(task_role, task_index)?;
        let own = &framework.metadata;
        let labels = [
            (variable::FRAMEWORK_NAME, own.name.clone()),
            (variable::TASKROLE_NAME, Some(role.name.clone())),
            (variable::TASK_INDEX, Some(task.index.to_string())),
        ];
        let attempt = &status.attempt_status;
        let annotations = [
            (variable::FRAMEWORK_NAMESPACE, own.namespace.clone()),
            (variable::CONFIGMAP_NAME, Some(attempt.config_map_name.clone())),
            (variable::FRAMEWORK_UID, own.uid.clone()),
            (variable::FRAMEWORK_ATTEMPT_ID, Some(attempt.id.to_string())),
            // A Task may be removed before its Framework's attempt was created.
            (variable::FRAMEWORK_ATTEMPT_INSTANCE_UID, attempt.instance_uid.clone()),
            (variable::CONFIGMAP_UID, attempt.config_map_uid.clone()),
            (variable::TASKROLE_UID, Some(role.instance_uid.clone())),
        ];
        let known = |(name, value): (&str, Option<String>)| Some((name.to_owned(), value?));
        let annotations = annotations.into_iter().chain(labels.clone()).filter_map(known).collect();
        let metadata = ObjectMeta {
            name: Some(task.attempt_status.pod_name.clone()),
            namespace: own.namespace.clone(),
            uid: Some(task.instance_uid.clone()),
            resource_version: own.resource_version.clone(),
            generation: own.generation,
            creation_timestamp: Some(meta::Time(task.start_time.timestamp())),
            deletion_timestamp: deleted_at.map(|at| meta::Time(at.timestamp())),
            deletion_grace_period_seconds: deleted_at.map(|_| 0),
            annotations: Some(annotations),
            labels: Some(labels.into_iter().filter_map(known).collect()),
            ..ObjectMeta::default()
        };
        let spec = framework.spec.task_role(task_role).map(|role| &role.task);
        let status = Cow::Borrowed(task);
        Some(TaskView { api_version: name::API_VERSION, kind: TASK, metadata, spec, status })
    }

    /// The Task with its attempt completed by then.
    pub fn completed(mut self, at: Time) -> Self {
        if self.status.state != State::AttemptCompleted {
            let task = self.status.to_mut();
            task.state = State::AttemptCompleted;
            task.transition_time = at;
            task.attempt_status.completion_time = Some(at);
        }
        self
    }
}
