//! The rescale beside the FrameworkAttemptCompletionPolicy: the rescale comes first, and then the policy is
//! evaluated at once on the Tasks that stay.

use framework_api::code::Code;
use framework_api::status::TaskStatus;
use framework_api::{Framework, FrameworkStatus, State, TaskRole};

use super::{Step, code, steps, tasks};
use crate::cluster::history::History;

/// Whether the attempt neither ends nor has ended.
fn is_open(status: &FrameworkStatus) -> bool {
    let over = matches!(status.state, State::AttemptCompleted | State::Completed);
    status.attempt_status.completion_status.is_none() && !over
}

/// Whether the status has every Task of the spec, and every other Task is stored as removed.
fn is_in_line(framework: &Framework, status: &FrameworkStatus) -> bool {
    let number = |role: &str| framework.spec.task_role(role).map_or(0, TaskRole::task_count);
    let all_there = framework.spec.task_roles.iter().all(|role| {
        let known = status.task_roles().iter().find(|known| known.name == role.name);
        known.is_some_and(|known| known.task_statuses.len() >= role.task_count())
    });
    let is_wanted =
        |role: &str, task: &TaskStatus| usize::try_from(task.index).is_ok_and(|index| index < number(role));
    all_there && tasks(status).all(|(role, task)| task.deletion_pending || is_wanted(role, task))
}

/// A status that is behind its spec is replaced by one that is not, and by that write nothing ends. So long
/// as the rescale is not stored, the policy is not evaluated.
pub fn a_rescale_is_stored_before_all_else(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    for step in steps(history) {
        let Some((old, new)) = step.write() else { continue };
        if !is_open(old) || is_in_line(step.old, old) {
            continue;
        }
        if !is_in_line(step.old, new) {
            breaches.push(format!("{}: the write before was not the rescale", step.place()));
        }
        if let Some(end) = &new.attempt_status.completion_status {
            breaches.push(format!("{}: ended as {} before the rescale was stored", step.place(), end.code));
        }
    }
    breaches
}

/// The Tasks of a TaskRole that the policies count: those that stay and were Completed, without those that
/// end only because the attempt does.
fn completed<'a>(status: &'a FrameworkStatus, role: &'a str) -> impl Iterator<Item = &'a TaskStatus> {
    let of_attempt = Some(Code::FrameworkAttemptCompletion.number());
    let ended = move |task: &&TaskStatus| {
        !task.deletion_pending && task.state == State::Completed && code(task) != of_attempt
    };
    tasks(status).filter(move |(name, _)| *name == role).map(|(_, task)| task).filter(ended)
}

fn failed(task: &&TaskStatus) -> bool {
    task.attempt_status.completion_status.as_ref().is_some_and(|end| end.r#type.is_failed())
}

/// Whether a status meets a policy of its spec, or all Tasks of the spec are completed.
fn is_met(framework: &Framework, status: &FrameworkStatus) -> bool {
    let roles = &framework.spec.task_roles;
    let reached = |count: usize, minimum: i32| usize::try_from(minimum).is_ok_and(|least| count >= least);
    let by_role = roles.iter().any(|role| {
        let policy = role.framework_attempt_completion_policy;
        let all = completed(status, &role.name).count();
        let failures = completed(status, &role.name).filter(failed).count();
        policy.min_failed_task_count >= 1 && reached(failures, policy.min_failed_task_count)
            || policy.min_succeeded_task_count >= 1
                && reached(all - failures, policy.min_succeeded_task_count)
    });
    let done: usize = roles.iter().map(|role| completed(status, &role.name).count()).sum();
    by_role || done > 0 && done >= framework.spec.task_number()
}

/// An attempt that its Tasks end is ended by Tasks that stay, and by as many of them as the spec says.
pub fn a_removed_task_never_counts(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    for step in steps(history) {
        let Some((old, new)) = step.write() else { continue };
        let Some(end) = new.attempt_status.completion_status.as_ref().filter(|_| is_open(old)) else {
            continue;
        };
        let Some(trigger) = &end.trigger else { continue };
        let (role, index) = (&trigger.task_role_name, trigger.task_index);
        let stays = |status: &FrameworkStatus| status.task(role, index).is_some_and(|t| !t.deletion_pending);
        if !stays(old) || !stays(new) {
            breaches.push(format!("{}: Task {role}-{index} is removed, and ended the attempt", step.place()));
        }
        if !is_met(step.old, new) {
            breaches.push(format!("{}: ended as {} although no policy is met", step.place(), end.code));
        }
    }
    breaches
}

/// A stored status that meets a policy of the spec beside it is followed by the attempt's end, whether a Task
/// completed, the spec shrank or a minimum was lowered.
pub fn a_policy_that_is_met_ends_the_attempt_at_once(history: &History) -> Vec<String> {
    let waits = |framework: &Framework, status: &FrameworkStatus| {
        matches!(status.state, State::AttemptPreparing | State::AttemptRunning)
            && is_open(status)
            && is_in_line(framework, status)
            && is_met(framework, status)
    };
    let late = |step: &Step<'_>| {
        let write = step.write();
        write.is_some_and(|(old, new)| waits(step.old, old) && new.attempt_status.completion_status.is_none())
    };
    steps(history)
        .iter()
        .filter(|step| late(step))
        .map(|step| format!("{}: the write before met a policy", step.place()))
        .collect()
}
