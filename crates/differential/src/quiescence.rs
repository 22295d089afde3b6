//! When a Framework is quiescent: it does not change until a user, a Pod or the time does something.
//!
//! This makes two runs comparable: each step is done only when all effects of the one before are visible. No
//! other file of this crate knows rules of the controller.

use std::collections::HashSet;

use framework_api::status::{TaskRoleStatus, TaskStatus};
use framework_api::{ExecutionType, Framework, FrameworkSpec, FrameworkStatus, State, TaskRole};

use crate::plan::{HELD, is_marked};

/// Whether to wait for Tasks that are being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    /// They have to be gone.
    Gone,
    /// They may still be there.
    Pending,
}

/// Whether a Framework is quiescent. `ended` has the UIDs of the objects that were ended or deleted.
pub(crate) fn is_quiescent(framework: &Framework, ended: &HashSet<String>, removed: Removed) -> bool {
    let (spec, Some(status)) = (&framework.spec, &framework.status) else { return false };
    // Only our own status names the generation of its spec.
    let observed = status.observed_generation;
    if observed.is_some() && observed != framework.metadata.generation {
        return false;
    }
    match status.state {
        State::Completed => true,
        State::AttemptCreationPending => {
            // The original keeps Tasks that are removed before the start until then.
            let removed = if observed.is_some() { removed } else { Removed::Pending };
            spec.execution_type == ExecutionType::Create && is_scaled(spec, status, removed)
        }
        State::AttemptPreparing | State::AttemptRunning => {
            spec.execution_type == ExecutionType::Start
                && status.attempt_status.completion_status.is_none()
                && !status.attempt_status.config_map_uid.as_ref().is_some_and(|uid| ended.contains(uid))
                && is_scaled(spec, status, removed)
                && !is_decided(spec, status)
                && all_settled(spec, status, ended, removed)
        }
        _ => false,
    }
}

/// Whether a Framework waits for the delay of a retry to pass.
pub(crate) fn is_delayed(framework: &Framework) -> bool {
    framework.status.as_ref().is_some_and(|status| {
        status.state == State::AttemptCompleted && status.retry_policy_status.retry_delay_sec.is_some()
    })
}

fn is_scaled(spec: &FrameworkSpec, status: &FrameworkStatus, removed: Removed) -> bool {
    let lenient = removed == Removed::Pending;
    let known = |role: &TaskRoleStatus| spec.task_role(&role.name).is_some() || lenient;
    let scaled = |role: &TaskRole| {
        status.task_roles().iter().find(|status| status.name == role.name).is_some_and(|status| {
            let (there, wanted) = (status.task_statuses.len(), role.task_count());
            let surplus = status.task_statuses.iter().skip(wanted).all(|task| task.deletion_pending);
            let right = there == wanted || (lenient && there > wanted && surplus);
            right && status.pod_graceful_deletion_timeout_sec == role.task.pod_graceful_deletion_timeout_sec
        })
    };
    let marked = |role: &TaskRoleStatus| {
        spec.task_role(&role.name).is_some() || role.task_statuses.iter().all(|task| task.deletion_pending)
    };
    let roles = status.task_roles();
    roles.iter().all(known) && roles.iter().all(marked) && spec.task_roles.iter().all(scaled)
}

/// Whether the Tasks that are Completed complete the attempt.
fn is_decided(spec: &FrameworkSpec, status: &FrameworkStatus) -> bool {
    let mut all = 0;
    let reached = |minimum: i32, count: usize| {
        usize::try_from(minimum).is_ok_and(|minimum| minimum > 0 && count >= minimum)
    };
    for role in &spec.task_roles {
        let Some(tasks) = status.task_roles().iter().find(|status| status.name == role.name) else {
            continue;
        };
        let completed = tasks.tasks().filter(|task| !task.deletion_pending && task.state == State::Completed);
        let (failed, succeeded): (Vec<&TaskStatus>, Vec<&TaskStatus>) = completed.partition(|task| {
            task.attempt_status.completion_status.as_ref().is_some_and(|end| end.r#type.is_failed())
        });
        let policy = role.framework_attempt_completion_policy;
        if reached(policy.min_failed_task_count, failed.len())
            || reached(policy.min_succeeded_task_count, succeeded.len())
        {
            return true;
        }
        all += failed.len() + succeeded.len();
    }
    spec.task_number() > 0 && all >= spec.task_number()
}

fn all_settled(
    spec: &FrameworkSpec,
    status: &FrameworkStatus,
    ended: &HashSet<String>,
    removed: Removed,
) -> bool {
    let mut tasks = status.task_roles().iter().flat_map(|role| {
        let held = spec.task_role(&role.name).is_some_and(|role| is_marked(role, HELD));
        role.task_statuses.iter().map(move |task| (&**task, held))
    });
    let settled = |(task, held): (&TaskStatus, bool)| {
        if task.deletion_pending {
            return removed == Removed::Pending;
        }
        task.state == State::Completed
            || (lives(task, ended) && (held || task.state == State::AttemptRunning))
    };
    let runs = tasks.clone().any(|(task, _)| !task.deletion_pending && task.state == State::AttemptRunning);
    tasks.all(settled) && (status.state == State::AttemptRunning || !runs)
}

/// Whether a Task has a Pod that was neither ended nor deleted.
pub(crate) fn lives(task: &TaskStatus, ended: &HashSet<String>) -> bool {
    matches!(task.state, State::AttemptPreparing | State::AttemptRunning)
        && task.attempt_status.pod_uid.as_ref().is_some_and(|uid| !ended.contains(uid))
}
