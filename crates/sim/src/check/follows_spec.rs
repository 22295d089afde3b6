//! A status follows the spec, and it is the spec of the very version that the status replaces.
//!
//! A Task is to be removed only if that spec has no place for it, and is new only where it has one. The
//! Framework and its Tasks get the codes for stopped or deleted only if that spec stops or deletes them.

use crate::check::state_at::{Status, by_controller};
use crate::check::violation::Violation;
use crate::history::{Change, History, Verb};
use crate::object::Object;

const PROMISE: &str = "a status follows the spec of its version";

/// `StopFrameworkRequested`.
const STOPPED: i64 = -210;

/// Checks it.
///
/// # Errors
/// When a status did something that the spec does not ask for.
pub fn check(history: &History) -> Result<(), Violation> {
    for change in history.of("frameworks").filter(|change| by_controller(change)) {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        if change.cause.verb == Verb::UpdateStatus {
            follows(change, old, new).map_err(|what| Violation::new(PROMISE, change, what))?;
        }
    }
    Ok(())
}

fn follows(change: &Change, old: &Object, new: &Object) -> Result<(), String> {
    let Some(status) = Status::of(new) else { return Ok(()) };
    let before = Status::of(old);
    let spec = &change.object()["spec"];
    let number = |role: &str| {
        let roles = spec["taskRoles"].as_array().map_or(&[][..], Vec::as_slice);
        let role = roles.iter().find(|wanted| wanted["name"] == role);
        role.and_then(|role| role["taskNumber"].as_i64()).unwrap_or(0)
    };
    for (role, task) in status.tasks() {
        let index = task.0["index"].as_i64().unwrap_or(-1);
        let known = before.and_then(|before| before.tasks().map(|(_, old)| old).find(|old| same(*old, task)));
        let (wanted, is_new) = (index < number(role), known.is_none());
        if task.deletion_pending() && wanted && !known.is_some_and(Status::deletion_pending) {
            return Err(format!("Task {role}/{index} is to be removed, the spec wants {}", number(role)));
        }
        if is_new && !wanted {
            return Err(format!("Task {role}/{index} is new, the spec wants {}", number(role)));
        }
    }
    let stopped = |status: Status<'_>| status.completion()["code"] == STOPPED;
    if stopped(status) && !before.is_some_and(stopped) && spec["executionType"] != "Stop" {
        return Err("it is stopped, which the spec does not ask for".to_owned());
    }
    Ok(())
}

fn same(one: Status<'_>, other: Status<'_>) -> bool {
    one.uid() == other.uid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::history_builder::{HistoryBuilder, completion};
    use serde_json::json;

    fn said(tasks: u32, change: impl FnOnce(&mut HistoryBuilder)) -> Result<(), String> {
        let mut builder = HistoryBuilder::running();
        builder.set_task_number(tasks);
        change(&mut builder);
        check(&builder.history()).map_err(|violation| violation.what)
    }

    #[test]
    fn removing_a_task_that_the_spec_drops_is_right() {
        let removed =
            |builder: &mut HistoryBuilder| builder.edit_task(0, |task| task["deletionPending"] = json!(true));
        assert_eq!(said(0, removed), Ok(()));
        assert!(said(1, removed).unwrap_err().contains("to be removed, the spec wants 1"));
    }

    #[test]
    fn a_task_that_the_spec_does_not_have_is_wrong() {
        let another = |builder: &mut HistoryBuilder| {
            builder.edit_task(0, |task| task["instanceUID"] = json!("another"));
        };
        assert_eq!(said(1, another), Ok(()));
        assert!(said(0, another).unwrap_err().contains("is new, the spec wants 0"));
    }

    #[test]
    fn a_stop_that_the_spec_does_not_ask_for_is_wrong() {
        let stop = |builder: &mut HistoryBuilder| {
            builder.edit(|status| status["attemptStatus"]["completionStatus"] = completion(STOPPED));
        };
        assert!(said(1, stop).unwrap_err().contains("does not ask for"));
    }
}
