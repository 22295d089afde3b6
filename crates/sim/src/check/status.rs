//! The status only moves forward: states follow the machine, ids and counts never fall, and decisions stay.
//! Every write carries the resourceVersion of the status that it replaces.
//!
//! One write may pass several states, except where the state in between has to be persisted. A new attempt of
//! a Framework needs AttemptCompleted in the status that it replaces. One of a Task needs the completion
//! status. Completed may follow any state, and only where the retry policy of that very version asks for no
//! other attempt.

use serde_json::Value;

use crate::check::state_at::{Status, by_controller};
use crate::check::violation::Violation;
use crate::history::{Change, History, Verb};

const PROMISE: &str = "a status only moves forward";

/// Fields of a Framework, a Task or an attempt that never change once they are set.
const SET_ONCE: &[&str] = &["startTime", "runTime", "completionTime"];
const SET_ONCE_IN_ATTEMPT: &[&str] =
    &["startTime", "runTime", "completionTime", "instanceUID", "configMapUID", "podUID", "completionStatus"];

/// The code of a Framework that its deadline ended.
pub(crate) const EXCEEDED: i64 = -240;

/// Codes after which nothing is retried: stopped, its Framework's attempt ended, removed, past its deadline.
const FINAL: &[i64] = &[-210, -220, -230, EXCEEDED];

/// By so much the clocks of controller and server may differ without being corrected, whole seconds included.
const CLOCKS: jiff::SignedDuration = jiff::SignedDuration::from_secs(3);

/// Checks it.
///
/// # Errors
/// When a status went backwards, skipped a state that must be persisted, or was written without its version.
pub fn check(history: &History) -> Result<(), Violation> {
    for change in history.of("frameworks") {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        if old.get("status") == new.get("status") {
            continue;
        }
        let wrong = |what| Violation::new(PROMISE, change, what);
        let written = matches!(change.cause.verb, Verb::UpdateStatus | Verb::PatchStatus);
        if written && by_controller(change) && change.cause.version.is_none() {
            return Err(wrong("it was written without the resourceVersion it replaces".to_owned()));
        }
        let new = Status::of(new).ok_or_else(|| wrong("it was taken away".to_owned()))?;
        framework(change, Status::of(old), new).map_err(wrong)?;
    }
    Ok(())
}

fn framework(change: &Change, old: Option<Status<'_>>, new: Status<'_>) -> Result<(), String> {
    consistent(new)?;
    let Some(old) = old else { return begins(new) };
    let stopped = change.object()["spec"]["executionType"] == "Stop";
    moves(old, new, change, (false, stopped))?;
    let spec = &change.object()["spec"];
    if completes(old, new) {
        is_final(new, &spec["retryPolicy"])?;
    }
    if old.packed() && !new.packed() && old.attempt_id() == new.attempt_id() {
        return Err("it is not compressed any more, in the same attempt".to_owned());
    }
    if new.compressed() || old.compressed() {
        return Ok(());
    }
    let fresh = old.attempt_id() != new.attempt_id();
    let ending = !new.completion().is_null();
    for (role, task) in new.tasks() {
        let named = |what: String| format!("Task {role}/{}: {what}", task.0["index"]);
        consistent(task).map_err(named)?;
        let before = old.tasks().find(|(name, old)| *name == role && old.uid() == task.uid());
        match before {
            Some(_) if fresh => return Err(named("it outlived its FrameworkAttempt".to_owned())),
            Some((_, old)) => {
                let cut_short = stopped || task.deletion_pending();
                moves(old, task, change, (ending, cut_short)).map_err(named)?;
                if completes(old, task) && !ending && !task.deletion_pending() {
                    is_final(task, task_policy(spec, role)).map_err(named)?;
                }
            }
            None => first(task, ending).map_err(named)?,
        }
    }
    if fresh {
        return Ok(());
    }
    for (role, task) in old.tasks() {
        let kept = new.tasks().any(|(name, new)| name == role && new.uid() == task.uid());
        let removable = task.is("Completed") && task.deletion_pending();
        if !kept && !removable {
            let (index, state) = (&task.0["index"], task.state());
            return Err(format!("Task {role}/{index} was removed in {state}"));
        }
    }
    Ok(())
}

/// The first status of a Framework announces the ConfigMap, or records it. No Pod can run yet.
fn begins(new: Status<'_>) -> Result<(), String> {
    if new.object_uid().is_empty() || new.is("AttemptRunning") { first(new, false) } else { Ok(()) }
}

/// The state in which a Task, or the next attempt of a Framework or a Task, may begin.
fn first(new: Status<'_>, ending: bool) -> Result<(), String> {
    // A stop or a scale-down may end an attempt that never began, in the same write.
    let ended = new.is("AttemptCompleted") || (ending && new.is("Completed"));
    if new.is("AttemptCreationPending") || ended {
        return Ok(());
    }
    Err(format!("it begins in {}", new.state()))
}

/// Decides whether one status may follow another; `ending` says that the Framework's attempt ends,
/// `cut_short` that nothing waits any more.
fn moves(
    old: Status<'_>,
    new: Status<'_>,
    change: &Change,
    (ending, cut_short): (bool, bool),
) -> Result<(), String> {
    let retries =
        |status: Status<'_>, field: &str| status.0["retryPolicyStatus"][field].as_i64().unwrap_or(0);
    for field in ["totalRetriedCount", "accountableRetriedCount"] {
        let (was, is) = (retries(old, field), retries(new, field));
        if is < was {
            return Err(format!("{field} fell from {was} to {is}"));
        }
    }
    kept(old.0, new.0, SET_ONCE)?;
    if old.deletion_pending() && !new.deletion_pending() {
        return Err("deletionPending was taken back".to_owned());
    }
    let (was, is) = (old.attempt_id(), new.attempt_id());
    match is - was {
        0 => same_attempt(old, new),
        1 => next_attempt(old, new, change, (ending, cut_short)),
        _ => Err(format!("the attempt went from {was} to {is}")),
    }
}

fn same_attempt(old: Status<'_>, new: Status<'_>) -> Result<(), String> {
    kept(old.attempt(), new.attempt(), SET_ONCE_IN_ATTEMPT)?;
    let (was, is) = (old.state(), new.state());
    // The Pod of a Task may become Pending again.
    let pends = is_task(old) && old.is("AttemptRunning") && new.is("AttemptPreparing");
    if new.rank() < old.rank() && !pends {
        return Err(format!("it went back from {was} to {is}"));
    }
    Ok(())
}

fn is_task(status: Status<'_>) -> bool {
    status.0.get("index").is_some()
}

/// Whether this write completes it, with no other attempt.
fn completes(old: Status<'_>, new: Status<'_>) -> bool {
    new.is("Completed") && !old.is("Completed") && old.attempt_id() == new.attempt_id()
}

fn task_policy<'a>(spec: &'a Value, role: &str) -> &'a Value {
    let roles = spec["taskRoles"].as_array().map_or(&[][..], Vec::as_slice);
    roles
        .iter()
        .find(|wanted| wanted["name"] == role)
        .map_or(&Value::Null, |role| &role["task"]["retryPolicy"])
}

/// Whether no other attempt follows, by its retry policy.
fn is_final(status: Status<'_>, policy: &Value) -> Result<(), String> {
    let end = status.completion();
    let failed = end["type"]["name"] == "Failed";
    let has = |attribute: &str| {
        end["type"]["attributes"].as_array().is_some_and(|all| all.iter().any(|one| one == attribute))
    };
    let fancy = policy["fancyRetryPolicy"] == true && failed;
    let most = policy["maxRetryCount"].as_i64().unwrap_or(0);
    let counted = status.0["retryPolicyStatus"]["accountableRetriedCount"].as_i64().unwrap_or(0);
    let retried = if FINAL.contains(&end["code"].as_i64().unwrap_or(0)) || fancy && has("Permanent") {
        false
    } else {
        fancy && has("Transient") || most == -2 || failed && (most == -1 || counted < most)
    };
    if retried {
        return Err(format!("it is Completed after {end}, retried {counted} times of {most}"));
    }
    Ok(())
}

fn next_attempt(
    old: Status<'_>,
    new: Status<'_>,
    change: &Change,
    (ending, cut_short): (bool, bool),
) -> Result<(), String> {
    let is_stored = if is_task(old) { !old.completion().is_null() } else { old.is("AttemptCompleted") };
    if !is_stored {
        return Err(format!("it was retried from {}", old.state()));
    }
    first(new, ending)?;
    let delay = old.0["retryPolicyStatus"]["retryDelaySec"].as_i64().unwrap_or(0);
    // A deadline ends a retry delay, too.
    let cut_short = cut_short || new.completion()["code"] == EXCEEDED;
    let end = old.attempt()["completionTime"].as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok());
    if let Some(end) = end
        && !cut_short
        && delay > 0
        && change.time + CLOCKS < end + jiff::SignedDuration::from_secs(delay)
    {
        return Err(format!("it was retried less than {delay} s after {end}, at {}", change.time));
    }
    Ok(())
}

/// The rules that hold within one status.
fn consistent(status: Status<'_>) -> Result<(), String> {
    let state = status.state();
    let Some(rank) = status.rank() else { return Err(format!("{state:?} is not a state")) };
    let retried = status.0["retryPolicyStatus"]["totalRetriedCount"].as_i64().unwrap_or(-1);
    if status.attempt_id() != retried {
        return Err(format!("the attempt is {}, retried {retried} times", status.attempt_id()));
    }
    let decided = !status.completion().is_null();
    if decided != (rank >= 4) {
        let has = if decided { "a" } else { "no" };
        return Err(format!("it is in {state} with {has} completion status"));
    }
    let ended = !status.attempt()["completionTime"].is_null();
    if ended != status.attempt_is_over() {
        return Err(format!(
            "it is in {state} with the attempt's completionTime {}",
            status.attempt()["completionTime"]
        ));
    }
    if status.0["completionTime"].is_null() == status.is("Completed") {
        return Err(format!("it is in {state} with completionTime {}", status.0["completionTime"]));
    }
    let created = !status.object_uid().is_empty();
    if created && rank == 0 || !created && (1..=3).contains(&rank) {
        return Err(format!("it is in {state} with the object's UID {:?}", status.object_uid()));
    }
    if rank == 3 && (status.0["runTime"].is_null() || status.attempt()["runTime"].is_null()) {
        return Err("it is in AttemptRunning with no runTime".to_owned());
    }
    Ok(())
}

fn kept(old: &Value, new: &Value, fields: &[&str]) -> Result<(), String> {
    let changed = |field: &&&str| !old[**field].is_null() && old[**field] != new[**field];
    match fields.iter().find(changed) {
        Some(field) => Err(format!("{field} changed from {} to {}", old[*field], new[*field])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::history_builder::{HistoryBuilder, completion};
    use serde_json::json;

    #[test]
    fn a_whole_life_is_right() {
        let mut builder = HistoryBuilder::running();
        builder.kubelet_ends("f-r-0", 1);
        builder.complete_task(0);
        builder.delete("pods", "f-r-0", None);
        builder.end_task_attempt(0);
        builder.retry_task(0);
        assert_eq!(check(&builder.history()), Ok(()));
    }

    fn said(prepare: impl FnOnce(&mut HistoryBuilder), change: impl FnOnce(&mut Value)) -> String {
        let mut builder = HistoryBuilder::running();
        prepare(&mut builder);
        builder.edit_task(0, change);
        check(&builder.history()).unwrap_err().what
    }

    #[test]
    fn going_back_is_wrong() {
        let nothing = |_: &mut HistoryBuilder| {};
        assert!(
            said(nothing, |task| task["state"] = json!("AttemptCreationRequested")).contains("went back")
        );
        let runs = |task: &mut Value| task["attemptStatus"]["podUID"] = json!("other");
        assert!(said(nothing, runs).contains("podUID changed"));
        let other = |task: &mut Value| task["attemptStatus"]["completionStatus"]["code"] = json!(9);
        assert!(said(|builder| builder.complete_task(0), other).contains("completionStatus changed"));
        let fewer = |task: &mut Value| task["retryPolicyStatus"]["accountableRetriedCount"] = json!(-1);
        assert!(said(nothing, fewer).contains("fell"));
        let kept =
            |builder: &mut HistoryBuilder| builder.edit_task(0, |task| task["deletionPending"] = json!(true));
        assert!(said(kept, |task| task["deletionPending"] = json!(false)).contains("taken back"));
    }

    #[test]
    fn only_a_task_is_prepared_again() {
        let mut builder = HistoryBuilder::running();
        builder.edit_task(0, |task| task["state"] = json!("AttemptPreparing"));
        assert_eq!(check(&builder.history()), Ok(()));
        builder.edit(|status| status["state"] = json!("AttemptPreparing"));
        assert!(check(&builder.history()).unwrap_err().what.contains("went back"));
    }

    #[test]
    fn skipping_a_state_that_must_be_persisted_is_wrong() {
        let completed = |task: &mut Value| {
            task["state"] = json!("Completed");
            task["completionTime"] = json!("2026-01-01T00:01:00Z");
            task["attemptStatus"]["completionTime"] = json!("2026-01-01T00:01:00Z");
            task["attemptStatus"]["completionStatus"] = completion(1);
        };
        let policy = |max| move |builder: &mut HistoryBuilder| builder.retry_tasks(max);
        assert!(said(policy(-1), completed).contains("it is Completed after"));
        assert!(said(policy(1), completed).contains("retried 0 times of 1"));
        let mut once = HistoryBuilder::running();
        once.edit_task(0, completed);
        assert_eq!(check(&once.history()), Ok(()));
        let undecided = |task: &mut Value| task["state"] = json!("AttemptDeletionPending");
        assert!(said(|_| {}, undecided).contains("no completion status"));

        let mut builder = HistoryBuilder::running();
        let mut decided = builder.clone();
        builder.retry_task(0);
        assert!(check(&builder.history()).unwrap_err().what.contains("retried from AttemptRunning"));
        decided.complete_task(0);
        decided.retry_task(0);
        assert_eq!(check(&decided.history()), Ok(()));
    }

    #[test]
    fn retrying_before_the_delay_has_passed_is_wrong() {
        let mut builder = HistoryBuilder::running();
        builder.complete_task(0);
        builder.end_task_attempt(0);
        builder.edit_task(0, |task| task["retryPolicyStatus"]["retryDelaySec"] = json!(60));
        let mut patient = builder.clone();
        builder.wait(30);
        builder.retry_task(0);
        assert!(check(&builder.history()).unwrap_err().what.contains("less than 60 s"));
        patient.wait(60);
        patient.retry_task(0);
        assert_eq!(check(&patient.history()), Ok(()));
    }

    #[test]
    fn removing_a_task_that_lives_or_writing_blindly_is_wrong() {
        let mut builder = HistoryBuilder::running();
        builder.edit(|status| status["attemptStatus"]["taskRoleStatuses"] = json!([]));
        assert!(check(&builder.history()).unwrap_err().what.contains("was removed in AttemptRunning"));

        let mut builder = HistoryBuilder::running();
        builder.edit_blindly(|status| status["observedGeneration"] = json!(9));
        assert!(check(&builder.history()).unwrap_err().what.contains("without the resourceVersion"));
    }
}
