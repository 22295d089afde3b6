//! Brings the Tasks of the status in line with the spec: adds, marks for removal, removes, replaces.
//!
//! Changes are persisted before any act depends on them, and before the completion policy is evaluated.

use framework_api::name;
use framework_api::status::{RetryPolicyStatus, TaskAttemptStatus, TaskRoleStatus, TaskStatus};
use framework_api::{FrameworkStatus, State, TaskRole, Time};

use crate::growth::Adding;
use crate::instance_uid::InstanceUids;
use crate::observed::{Moment, Observed, Policy};
use crate::task;

/// Makes the TaskRole statuses of a new attempt.
pub(crate) fn task_roles(
    framework: &str,
    roles: &[TaskRole],
    adding: Adding<'_>,
    instances: &mut InstanceUids,
    at: Time,
) -> Vec<TaskRoleStatus> {
    distinct(roles).map(|role| new_role(framework, role, adding, instances, at)).collect()
}

/// The TaskRoles that have Tasks. The schema of the original accepted several of one name: all but the first
/// are ignored, because a name identifies the Tasks and their Pods.
pub(crate) fn distinct(roles: &[TaskRole]) -> impl Iterator<Item = &TaskRole> {
    let is_first = move |(position, role): &(usize, &TaskRole)| {
        roles.iter().take(*position).all(|before| before.name != role.name)
    };
    roles.iter().enumerate().filter(is_first).map(|(_, role)| role)
}

fn new_role(
    framework: &str,
    role: &TaskRole,
    adding: Adding<'_>,
    instances: &mut InstanceUids,
    at: Time,
) -> TaskRoleStatus {
    let mut status = TaskRoleStatus {
        name: role.name.clone(),
        instance_uid: instances.make(),
        pod_graceful_deletion_timeout_sec: effective_timeout(role),
        task_statuses: Vec::with_capacity(role.task_count()),
    };
    grow(framework, &mut status, role.task_count(), adding, instances, at);
    status
}

/// A negative timeout, which an older schema accepted, means none.
fn effective_timeout(role: &TaskRole) -> Option<i64> {
    role.task.pod_graceful_deletion_timeout_sec.filter(|seconds| *seconds >= 0)
}

fn grow(
    framework: &str,
    role: &mut TaskRoleStatus,
    to: usize,
    adding: Adding<'_>,
    instances: &mut InstanceUids,
    at: Time,
) {
    for index in role.task_statuses.len()..to {
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        let task = new_task(framework, &role.name, index, adding, instances, at);
        role.task_statuses.push(task.into());
    }
}

fn new_task(
    framework: &str,
    role: &str,
    index: i32,
    adding: Adding<'_>,
    instances: &mut InstanceUids,
    at: Time,
) -> TaskStatus {
    TaskStatus {
        index,
        instance_uid: instances.make(),
        start_time: at,
        run_time: None,
        completion_time: None,
        state: State::AttemptCreationPending,
        transition_time: at,
        deletion_pending: false,
        queue_unit_generation: adding.tag(role, index),
        retry_policy_status: RetryPolicyStatus::default(),
        attempt_status: TaskAttemptStatus::new(0, name::pod_name(framework, role, index), at),
    }
}

/// Applies the difference between spec and status to `next`, which starts as the persisted status. Returns
/// whether anything changed. While `is_too_large`, nothing is added.
pub(crate) fn rescale(
    next: &mut FrameworkStatus,
    o: &Observed<'_>,
    m: &Moment,
    policy: &Policy,
    is_too_large: bool,
) -> bool {
    let adding = Adding::to(next, o, policy);
    let framework = o.framework.metadata.name.as_deref().unwrap_or_default();
    let mut instances = InstanceUids::new(m.seed);
    let at = m.time();
    let Some(roles) = next.attempt_status.task_role_statuses.as_mut() else { return false };
    let mut changed = false;
    for role in roles.iter_mut() {
        let wanted = o.framework.spec.task_role(&role.name);
        let most = if is_too_large { role.task_statuses.len() } else { usize::MAX };
        let number = wanted.map_or(0, TaskRole::task_count).min(most);
        changed |= remove(role, number);
        changed |= replace(framework, role, number, adding, &mut instances, at);
        changed |= mark(role, number, o, at);
        if wanted.is_some() {
            changed |= role.task_statuses.len() < number;
            grow(framework, role, number, adding, &mut instances, at);
        }
    }
    let spec = &o.framework.spec;
    let before = roles.len();
    roles.retain(|role| !role.task_statuses.is_empty() || spec.task_role(&role.name).is_some());
    changed |= roles.len() != before;
    for role in spec.task_roles.iter().filter(|_| !is_too_large) {
        if !roles.iter().any(|status| status.name == role.name) {
            roles.push(new_role(framework, role, adding, &mut instances, at));
            changed = true;
        }
    }
    changed
}

/// Copies the deletion timeouts of the spec in every state, so that a user can free a Framework whose Pods
/// hang. The timeout of a TaskRole that is no longer in the spec stays. Returns whether anything changed:
/// it is persisted before a Pod is deleted by it.
pub(crate) fn follow_timeouts(next: &mut FrameworkStatus, o: &Observed<'_>) -> bool {
    let mut changed = false;
    for role in next.attempt_status.task_role_statuses.iter_mut().flatten() {
        let Some(wanted) = o.framework.spec.task_role(&role.name) else { continue };
        let timeout = effective_timeout(wanted);
        changed |= role.pod_graceful_deletion_timeout_sec != timeout;
        role.pod_graceful_deletion_timeout_sec = timeout;
    }
    changed
}

/// Drops Tasks beyond the spec from the tail, once they are Completed.
fn remove(role: &mut TaskRoleStatus, number: usize) -> bool {
    let before = role.task_statuses.len();
    while role.task_statuses.len() > number && role.task_statuses.last().is_some_and(|task| is_removed(task))
    {
        role.task_statuses.pop();
    }
    role.task_statuses.len() != before
}

fn is_removed(task: &TaskStatus) -> bool {
    task.deletion_pending && task.state == State::Completed
}

/// A removed Task whose index the spec wants again becomes a new instance.
fn replace(
    framework: &str,
    role: &mut TaskRoleStatus,
    number: usize,
    adding: Adding<'_>,
    instances: &mut InstanceUids,
    at: Time,
) -> bool {
    let mut changed = false;
    let TaskRoleStatus { name, task_statuses, .. } = role;
    for task in task_statuses.iter_mut().take(number).filter(|task| is_removed(task)) {
        *task = new_task(framework, name, task.index, adding, instances, at).into();
        changed = true;
    }
    changed
}

/// Marks Tasks beyond the spec for removal.
fn mark(role: &mut TaskRoleStatus, number: usize, o: &Observed<'_>, at: Time) -> bool {
    let mut changed = false;
    for task in role.task_statuses.iter_mut().skip(number).filter(|task| !task.deletion_pending) {
        task.to_mut().deletion_pending = true;
        task::end(task, o, at, task::removed);
        changed = true;
    }
    changed
}
