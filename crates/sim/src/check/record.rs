//! The controller deletes an object only if a persisted status recorded the object with its completion, or if
//! the controller never learned that the creation succeeded.
//!
//! A replica that gave a slot up knows no more than another one, also if it takes the slot again.
//!
//! One more case is the contract's: an object that did not show up in the cache for at least a minute may be
//! deleted while its attempt is still AttemptCreationRequested. A Framework is deleted only once completed.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::check::offers::Offers;
use crate::check::state_at::{PodIdentity, StateAt, Status, by_controller, framework_of_map};
use crate::check::violation::Violation;
use crate::history::{Change, History, Verb};
use crate::object::Meta;
use crate::store::Key;

const PROMISE: &str = "an object is deleted only after its completion was recorded";

/// The shortest time-out of the cache that the configuration allows.
const CACHE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a request without answer must at least have hung before its object may be called an orphan.
const PATIENCE: Duration = Duration::from_secs(1);

/// The state, the recorded completions and the offers, up to a change.
#[derive(Debug, Default)]
struct Past {
    state: StateAt,
    /// The UIDs of the objects whose completion some version of a Framework recorded.
    over: BTreeSet<String>,
    offers: Offers,
}

/// Checks it.
///
/// # Errors
/// When something was deleted before its time.
pub fn check(history: &History) -> Result<(), Violation> {
    let mut past = Past::default();
    for change in &history.changes {
        let begins = change.cause.verb == Verb::Delete
            && change.old.as_ref().is_some_and(|old| !old.deleting())
            && by_controller(change);
        if begins {
            let recorded = match &*change.plural {
                "pods" => pod(history, &past, change),
                "configmaps" => config_map(history, &past, change),
                "frameworks" => framework(change),
                _ => Ok(()),
            };
            recorded.map_err(|what| Violation::new(PROMISE, change, what))?;
        }
        past.state.apply(change);
        past.offers.apply(change);
        if change.is("frameworks") {
            past.over.extend(completed_by(change));
        }
    }
    Ok(())
}

/// The UIDs of the objects whose completion a version of a Framework records.
fn completed_by(change: &Change) -> Vec<String> {
    let Some(status) = change.new.as_ref().and_then(|framework| Status::of(framework)) else {
        return Vec::new();
    };
    let all = status.tasks().map(|(_, task)| task).chain([status]);
    let over = all.filter(|status| !status.completion().is_null() && !status.object_uid().is_empty());
    over.map(|status| status.object_uid().to_owned()).collect()
}

fn pod(history: &History, past: &Past, change: &Change) -> Result<(), String> {
    let Some(identity) = PodIdentity::of(change.object()) else { return Ok(()) };
    let identity = identity?;
    let framework = past.state.framework(&change.namespace, identity.framework, identity.framework_uid);
    let Some(status) = framework.and_then(|framework| Status::of(framework)) else { return Ok(()) };
    if status.compressed() {
        return Err("the status is compressed and cannot be checked".to_owned());
    }
    let Some((role, task)) = status.tasks().find(|(_, task)| task.object_uid() == change.uid) else {
        return if past.over.contains(&change.uid) {
            Ok(())
        } else {
            orphan(history, past, identity.framework_uid, change)
        };
    };
    let role = status.role(role).ok_or("its TaskRole is not in the status")?;
    if role.get("podGracefulDeletionTimeoutSec").is_none() {
        return Err("its TaskRole's effective podGracefulDeletionTimeoutSec is not in the status".to_owned());
    }
    completed(&past.state, change, task)
}

fn config_map(history: &History, past: &Past, change: &Change) -> Result<(), String> {
    let Some(name) = framework_of_map(change.object()) else { return Ok(()) };
    let Some(framework) = past.state.frameworks.get(&Key::new(&change.namespace, name)) else {
        return Ok(());
    };
    let Some(status) = Status::of(framework) else { return Ok(()) };
    if status.object_uid() != change.uid {
        return if past.over.contains(&change.uid) {
            Ok(())
        } else {
            orphan(history, past, framework.uid(), change)
        };
    }
    completed(&past.state, change, status)
}

fn framework(change: &Change) -> Result<(), String> {
    let object = change.new.as_ref().or(change.old.as_ref());
    match object.and_then(|object| Status::of(object)) {
        Some(status) if status.is("Completed") => Ok(()),
        _ => Err("a Framework was deleted that was not completed".to_owned()),
    }
}

fn completed(state: &StateAt, change: &Change, status: Status<'_>) -> Result<(), String> {
    if !status.completion().is_null() {
        return Ok(());
    }
    let age = state
        .creations
        .get(&change.uid)
        .map_or(Duration::ZERO, |creation| change.at.saturating_sub(creation.at));
    if status.is("AttemptCreationRequested") && age >= CACHE_TIMEOUT {
        return Ok(());
    }
    Err(format!("it is recorded in {} with no completion status", status.state()))
}

/// Decides whether the client that deletes may never have learned of the creation.
fn orphan(history: &History, past: &Past, framework: &str, change: &Change) -> Result<(), String> {
    let Some(creation) = past.state.creations.get(&change.uid) else { return Ok(()) };
    let Some(create) = history.exchange_of(creation) else { return Ok(()) };
    if create.who != change.cause.actor || past.offers.given_up(framework, creation.at, change.at) {
        return Ok(());
    }
    let is_accepted = create.code.is_some_and(|code| (200..300).contains(&code));
    if is_accepted && let Some(at) = create.answered {
        let when = if at <= change.at { "had been" } else { "was still to be" };
        return Err(format!("it is not recorded, but its creation {when} confirmed"));
    }
    let settled = create.settled.is_some_and(|at| at <= change.at);
    if settled || change.at.saturating_sub(create.at) >= PATIENCE {
        return Ok(());
    }
    Err("it is not recorded, and its creation was still under way".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::history_builder::HistoryBuilder;
    use serde_json::{Value, json};

    #[test]
    fn deleting_after_the_completion_is_recorded_is_right() {
        let mut builder = HistoryBuilder::running();
        builder.complete_task(0);
        builder.delete("pods", "f-r-0", None);
        assert_eq!(check(&builder.history()), Ok(()));
    }

    #[test]
    fn deleting_before_the_completion_is_recorded_is_wrong() {
        let mut builder = HistoryBuilder::running();
        builder.delete("pods", "f-r-0", None);
        assert!(check(&builder.history()).unwrap_err().what.contains("no completion status"));

        let mut builder = HistoryBuilder::running();
        builder.delete("configmaps", "f-attempt", None);
        assert!(check(&builder.history()).unwrap_err().what.contains("no completion status"));

        let mut builder = HistoryBuilder::running();
        builder.delete("frameworks", "f", None);
        assert!(check(&builder.history()).unwrap_err().what.contains("not completed"));
    }

    #[test]
    fn a_pod_completed_in_an_earlier_status_may_be_deleted_later() {
        let mut builder = HistoryBuilder::running();
        builder.complete_task(0);
        builder.end_task_attempt(0);
        builder.retry_task(0);
        builder.delete("pods", "f-r-0", None);
        assert_eq!(check(&builder.history()), Ok(()));
    }

    #[test]
    fn an_unrecorded_pod_is_deleted_only_if_its_creation_was_lost() {
        let delete = |prepare: &dyn Fn(&mut HistoryBuilder)| {
            let mut builder = HistoryBuilder::started();
            builder.create_pod(0, 0);
            prepare(&mut builder);
            builder.delete("pods", "f-r-0", None);
            check(&builder.history())
        };
        assert!(delete(&|_| {}).unwrap_err().what.contains("had been confirmed"));
        assert!(delete(&|builder| builder.last_reply_hangs()).unwrap_err().what.contains("under way"));
        assert_eq!(delete(&|builder| builder.last_reply_is_lost()), Ok(()));
        assert_eq!(delete(&|builder| builder.controller("controller-2")), Ok(()));
    }

    #[test]
    fn an_unrecorded_pod_is_deleted_if_its_owner_gave_up_the_slot_meanwhile() {
        let delete = |before: u64, offered: u64, withdrawn: bool| {
            let mut builder = HistoryBuilder::started();
            builder.offer_slot(Some("b/controller-2"));
            builder.wait(before);
            if withdrawn {
                builder.offer_slot(None);
                builder.wait(1);
            }
            builder.create_pod(0, 0);
            builder.wait(offered);
            builder.delete("pods", "f-r-0", None);
            check(&builder.history())
        };
        assert_eq!(delete(0, 16, false), Ok(()));
        assert!(delete(0, 15, false).unwrap_err().what.contains("had been confirmed"));
        assert!(delete(16, 16, true).unwrap_err().what.contains("had been confirmed"));
    }

    #[test]
    fn a_pod_that_never_showed_up_may_be_deleted_after_a_minute() {
        let mut builder = HistoryBuilder::running();
        builder.edit_task(0, |task| task["state"] = json!("AttemptCreationRequested"));
        let mut late = builder.clone();
        builder.wait(30);
        builder.delete("pods", "f-r-0", None);
        assert!(check(&builder.history()).is_err());
        late.wait(60);
        late.delete("pods", "f-r-0", None);
        assert_eq!(check(&late.history()), Ok(()));
    }

    #[test]
    fn the_effective_time_out_is_recorded_first() {
        let mut builder = HistoryBuilder::running();
        builder.complete_task(0);
        builder.edit(|status| {
            let role = &mut status["attemptStatus"]["taskRoleStatuses"][0];
            let Value::Object(role) = role else { panic!("not a map") };
            role.remove("podGracefulDeletionTimeoutSec");
        });
        builder.delete("pods", "f-r-0", None);
        assert!(check(&builder.history()).unwrap_err().what.contains("podGracefulDeletionTimeoutSec"));
    }
}
