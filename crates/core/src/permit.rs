//! Which acts a status permits: "persist, then act" as one function.
//!
//! The core plans only acts that the persisted status permits. When an act is sent, the persisted status
//! and the one being written must both permit it (rule A1).

use framework_api::status::{TaskRoleStatus, TaskStatus};
use framework_api::{ExecutionType, Framework, FrameworkStatus, State, name};

use crate::observed::Instance;
use crate::plan::Action;
use crate::pod_map::PodName;

/// Whether `status` permits `action`.
pub fn permits(status: &FrameworkStatus, framework: &Framework, action: &Action) -> bool {
    let attempt = &status.attempt_status;
    match action {
        Action::CreateConfigMap { instance } => {
            status.state == State::AttemptCreationPending
                && attempt.completion_status.is_none()
                && *instance == Instance::FrameworkAttempt { attempt_id: attempt.id }
                && framework.spec.execution_type == ExecutionType::Start
                && framework.metadata.deletion_timestamp.is_none()
        }
        Action::CreatePod { task_role, task_index, instance, .. } => {
            matches!(status.state, State::AttemptPreparing | State::AttemptRunning)
                && attempt.completion_status.is_none()
                && !is_deleted_in_foreground(framework)
                && status.task(task_role, *task_index).is_some_and(|task| awaits_pod(status, task, instance))
        }
        Action::DeletePod { name, force: true, .. } if !may_be_forced(status, name) => false,
        Action::DeletePod { name, uid, .. } => {
            task_of_pod(status, name)
                .filter(|task| task.attempt_status.pod_uid.as_deref() == Some(uid))
                .is_none_or(
                    // A Pod that no Task records is an orphan of a lost write.
                    |task| task.attempt_status.completion_status.is_some(),
                )
        }
        Action::DeleteConfigMap { uid } => {
            attempt.config_map_uid.as_ref() != Some(uid) || attempt.completion_status.is_some()
        }
        Action::DeleteFramework => status.state == State::Completed,
        Action::ConfirmConfigMap { .. } | Action::ConfirmPod { .. } => true,
    }
}

/// Whether an act deletes an object that `status` does not record. A status that is persisted later may
/// record it.
pub fn deletes_unrecorded(status: &FrameworkStatus, action: &Action) -> bool {
    match action {
        Action::DeletePod { name, uid, .. } => {
            task_of_pod(status, name).is_none_or(|task| task.attempt_status.pod_uid.as_deref() != Some(uid))
        }
        Action::DeleteConfigMap { uid } => status.attempt_status.config_map_uid.as_ref() != Some(uid),
        _ => false,
    }
}

/// Every create that `status` permits.
pub fn creates(status: &FrameworkStatus, framework: &Framework) -> Vec<Action> {
    let instance = Instance::FrameworkAttempt { attempt_id: status.attempt_status.id };
    let config_map = Action::CreateConfigMap { instance };
    let pods = status.task_roles().iter().flat_map(|role| {
        role.task_statuses.iter().filter_map(|task| {
            Some(Action::CreatePod {
                name: task.attempt_status.pod_name.clone(),
                task_role: role.name.clone(),
                task_index: task.index,
                instance: task_instance(status, task)?,
            })
        })
    });
    pods.chain([config_map]).filter(|action| permits(status, framework, action)).collect()
}

/// Whether a Pod may be force-deleted.
fn may_be_forced(status: &FrameworkStatus, pod_name: &str) -> bool {
    role_of_pod(status, pod_name).is_some_and(|role| role.pod_graceful_deletion_timeout_sec.is_some())
}

/// Whether the garbage collector deletes the Pods, then the ConfigMap, then the Framework. A Pod created now
/// could outlive all of them, because the API server accepts it even if its owner is gone.
pub(crate) fn is_deleted_in_foreground(framework: &Framework) -> bool {
    let metadata = &framework.metadata;
    let mut finalizers = metadata.finalizers.iter().flatten();
    metadata.deletion_timestamp.is_some()
        && finalizers.any(|finalizer| finalizer == name::FOREGROUND_DELETION)
}

fn awaits_pod(status: &FrameworkStatus, task: &TaskStatus, instance: &Instance) -> bool {
    task.state == State::AttemptCreationPending
        && !task.deletion_pending
        && task.attempt_status.completion_status.is_none()
        && is_instance(status, task, instance)
}

/// The instance of a Task's current attempt, once its Framework's ConfigMap is recorded.
pub fn task_instance(status: &FrameworkStatus, task: &TaskStatus) -> Option<Instance> {
    Some(Instance::TaskAttempt {
        config_map_uid: status.attempt_status.config_map_uid.clone()?,
        task_uid: task.instance_uid.clone(),
        attempt_id: task.attempt_status.id,
    })
}

/// Whether this is the [`task_instance`].
pub fn is_instance(status: &FrameworkStatus, task: &TaskStatus, instance: &Instance) -> bool {
    let Instance::TaskAttempt { config_map_uid, task_uid, attempt_id } = instance else { return false };
    *attempt_id == task.attempt_status.id
        && *task_uid == task.instance_uid
        && status.attempt_status.config_map_uid.as_ref() == Some(config_map_uid)
}

/// The stem of the names of this TaskRole's Pods; `None` if it has no Tasks.
pub(crate) fn stem_of(role: &TaskRoleStatus) -> Option<&str> {
    role.task_statuses.first().map(|task| PodName::new(&task.attempt_status.pod_name).stem)
}

/// The Task whose Pod would have this name.
pub fn task_of_pod<'a>(status: &'a FrameworkStatus, pod_name: &str) -> Option<&'a TaskStatus> {
    task_of(status, PodName::new(pod_name))
}

/// As [`task_of_pod`], for a name that was taken apart.
pub fn task_of<'a>(
    status: &'a FrameworkStatus,
    PodName { stem, index }: PodName<'_>,
) -> Option<&'a TaskStatus> {
    let position = usize::try_from(index?).ok()?;
    let role = status.task_roles().iter().find(|role| stem_of(role) == Some(stem))?;
    role.task_statuses.get(position).map(|task| &**task)
}

/// The TaskRole whose Pod would have this name.
pub fn role_of_pod<'a>(status: &'a FrameworkStatus, pod_name: &str) -> Option<&'a TaskRoleStatus> {
    let (name, _) = split(pod_name)?;
    status.task_roles().iter().find(|role| role.name == name)
}

/// TaskRole and index in the name of a Pod.
fn split(pod_name: &str) -> Option<(&str, &str)> {
    let (rest, index) = pod_name.rsplit_once('-')?;
    let (_, role) = rest.rsplit_once('-')?;
    Some((role, index))
}
