//! The rescale beside the FrameworkAttemptCompletionPolicy: the rescale comes first, and then the policy is
//! evaluated at once on the Tasks that stay.

use serde_json::Value;

use super::write::{Spec, Write, writes};
use crate::check::state_at::Status;
use crate::check::violation::Violation;
use crate::history::History;

pub(super) const FIRST: &str = "a rescale is stored before all else";
pub(super) const NEVER_COUNTS: &str = "a removed Task never counts";
pub(super) const MET: &str = "a policy that is met ends the attempt at once";

/// The code of a Task that ends because its attempt does: `FrameworkAttemptCompletion`.
const WITH_ATTEMPT: i64 = -220;

/// Whether the attempt neither ends nor has ended.
fn is_open(status: Status<'_>) -> bool {
    status.completion().is_null() && !status.attempt_is_over()
}

/// Whether the status has every Task of the spec, and every other Task is stored as removed.
fn is_in_line(spec: Spec<'_>, status: Status<'_>) -> bool {
    let tasks = |role: &Value| role["taskStatuses"].as_array().map_or(0, Vec::len);
    let is_wanted = |role: &str, task: Status<'_>| {
        let index = task.0["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        index.is_some_and(|index| index < spec.tasks_of(role))
    };
    let mut roles = spec.roles();
    roles.all(|role| status.role(role.name()).is_some_and(|known| tasks(known) >= role.tasks()))
        && status.tasks().all(|(role, task)| task.deletion_pending() || is_wanted(role, task))
}

/// A status that is behind its spec is replaced by one that is not, and by that write nothing ends. So long
/// as the rescale is not stored, the policy is not evaluated.
///
/// # Errors
/// When something else was stored before, or with it.
pub(super) fn rescale_is_stored_first(history: &History) -> Result<(), Violation> {
    for Write { change, spec, old, new } in writes(history) {
        if !is_open(old) || is_in_line(spec, old) {
            continue;
        }
        let wrong = |what: String| Err(Violation::new(FIRST, change, what));
        if !is_in_line(spec, new) {
            return wrong("the rescale was due, and this write is not it".to_owned());
        }
        if !new.completion().is_null() {
            let code = &new.completion()["code"];
            return wrong(format!("it ends as {code} before the rescale was stored"));
        }
    }
    Ok(())
}

/// The Tasks of a TaskRole that the policies count: those that stay and were Completed, without those that
/// end only because the attempt does.
fn completed<'a>(status: Status<'a>, role: &'a str) -> impl Iterator<Item = Status<'a>> {
    let of_role = status.tasks().filter(move |(name, _)| *name == role).map(|(_, task)| task);
    of_role.filter(|task| {
        !task.deletion_pending() && task.is("Completed") && task.completion()["code"] != WITH_ATTEMPT
    })
}

fn failed(task: &Status<'_>) -> bool {
    task.completion()["type"]["name"] == "Failed"
}

/// Whether a status meets a policy of its spec, or all Tasks of the spec are completed.
fn is_met(spec: Spec<'_>, status: Status<'_>) -> bool {
    let reached = |count: usize, minimum: i64| {
        minimum >= 1 && usize::try_from(minimum).is_ok_and(|minimum| count >= minimum)
    };
    let by_role = spec.roles().any(|role| {
        let all = completed(status, role.name()).count();
        let failures = completed(status, role.name()).filter(failed).count();
        let (least_failed, least_succeeded) = role.minima();
        reached(failures, least_failed) || reached(all - failures, least_succeeded)
    });
    let done: usize = spec.roles().map(|role| completed(status, role.name()).count()).sum();
    let wanted: usize = spec.roles().map(|role| role.tasks()).sum();
    by_role || done > 0 && done >= wanted
}

/// An attempt that its Tasks end is ended by Tasks that stay, and by as many of them as the spec says.
///
/// # Errors
/// When a removed Task ended it, or too few Tasks did.
pub(super) fn removed_tasks_never_count(history: &History) -> Result<(), Violation> {
    for Write { change, spec, old, new } in writes(history) {
        let (end, trigger) = (new.completion(), &new.completion()["trigger"]);
        if !is_open(old) || trigger.is_null() {
            continue;
        }
        let wrong = |what: String| Err(Violation::new(NEVER_COUNTS, change, what));
        let role = trigger["taskRoleName"].as_str().unwrap_or("");
        let index = trigger["taskIndex"].as_i64().unwrap_or(-1);
        let stays =
            |status: Status<'_>| status.task(role, index).is_some_and(|task| !task.deletion_pending());
        if !stays(old) || !stays(new) {
            return wrong(format!("Task {role}-{index} is removed, and ended the attempt"));
        }
        if !is_met(spec, new) {
            return wrong(format!("it ended as {} although no policy is met", end["code"]));
        }
    }
    Ok(())
}

/// A stored status that meets a policy of the spec beside it is followed by the attempt's end, whether a Task
/// completed, the spec shrank or a minimum was lowered.
///
/// # Errors
/// When another write followed.
pub(super) fn policy_that_is_met_ends_the_attempt(history: &History) -> Result<(), Violation> {
    let waits = |spec: Spec<'_>, status: Status<'_>| {
        (status.is("AttemptPreparing") || status.is("AttemptRunning"))
            && is_open(status)
            && is_in_line(spec, status)
            && is_met(spec, status)
    };
    for Write { change, spec, old, new } in writes(history) {
        if waits(spec, old) && new.completion().is_null() {
            return Err(Violation::new(MET, change, "the write before met a policy".to_owned()));
        }
    }
    Ok(())
}
