//! A Pod is deleted with a grace period of 0 only when its Task's time-out stands in the status and has
//! passed, by the server's clock, since its deletion started. And a name never has two Pods at once.
//!
//! The server's clock may be set back between its answer and the delete that follows from it. The check
//! therefore uses the latest time that the clock has shown since the deletion started.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::check::state_at::{PodIdentity, StateAt, Status, by_controller};
use crate::check::violation::Violation;
use crate::history::{Change, History, Verb};
use crate::object::Meta;
use crate::store::Key;

const PROMISE: &str = "a Pod is force-deleted only after its persisted time-out";

/// Checks it.
///
/// # Errors
/// When a Pod was forced before its time-out, or two Pods of one name lived at once.
pub fn check(history: &History) -> Result<(), Violation> {
    let mut state = StateAt::default();
    let mut latest: BTreeMap<String, Timestamp> = BTreeMap::new();
    for change in &history.changes {
        latest.values_mut().for_each(|shown| *shown = (*shown).max(change.time));
        if change.is("pods") {
            let wrong = |what| Violation::new(PROMISE, change, what);
            let living = state.pods.get(&Key::new(&change.namespace, &change.name));
            if change.creates() && living.is_some() {
                return Err(wrong("another Pod of that name is still there".to_owned()));
            }
            if by_controller(change) && change.cause.verb == Verb::Delete && change.cause.grace == Some(0) {
                let shown = latest.get(&change.uid).copied().unwrap_or(change.time);
                permitted(&state, change, shown).map_err(wrong)?;
            }
            match &change.new {
                Some(pod) if pod.deleting() => _ = latest.entry(change.uid.clone()).or_insert(change.time),
                Some(_) => {}
                None => _ = latest.remove(&change.uid),
            }
        }
        state.apply(change);
    }
    Ok(())
}

fn permitted(state: &StateAt, change: &Change, shown: Timestamp) -> Result<(), String> {
    let Some(pod) = change.old.as_ref().filter(|_| !state.second_half(change)) else { return Ok(()) };
    let Some(identity) = PodIdentity::of(pod) else { return Err("it is not the controller's".to_owned()) };
    let identity = identity?;
    if !pod.deleting() {
        return Err("its deletion had not started".to_owned());
    }
    let framework = state.framework(&change.namespace, identity.framework, identity.framework_uid);
    let Some(status) = framework.and_then(|framework| Status::of(framework)) else {
        return Err("no status says so: its Framework is gone or has none".to_owned());
    };
    let role = status.role(identity.role).ok_or("its TaskRole is not in the status")?;
    let Some(timeout) = role["podGracefulDeletionTimeoutSec"].as_i64() else {
        return Err("its TaskRole has no podGracefulDeletionTimeoutSec in the status".to_owned());
    };
    let started = deletion_start(pod).ok_or("its deletionTimestamp is not a time")?;
    let due = started + SignedDuration::from_secs(timeout);
    if shown < due {
        return Err(format!("it is {shown} on the server's clock, the time-out passes at {due}"));
    }
    Ok(())
}

fn deletion_start(pod: &Value) -> Option<Timestamp> {
    let at: Timestamp = pod.meta("deletionTimestamp").parse().ok()?;
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    Some(at - SignedDuration::from_secs(grace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::history_builder::HistoryBuilder;

    fn terminating() -> HistoryBuilder {
        let mut builder = HistoryBuilder::running();
        builder.complete_task(0);
        builder.delete("pods", "f-r-0", None);
        builder
    }

    #[test]
    fn forcing_after_the_time_out_is_right() {
        let mut builder = terminating();
        builder.wait(5);
        builder.delete("pods", "f-r-0", Some(0));
        assert_eq!(check(&builder.history()), Ok(()));
    }

    #[test]
    fn forcing_too_early_or_with_no_time_out_is_wrong() {
        let mut builder = terminating();
        builder.wait(4);
        builder.delete("pods", "f-r-0", Some(0));
        assert!(check(&builder.history()).unwrap_err().what.contains("passes at"));

        let mut builder = HistoryBuilder::running();
        builder.edit(|status| {
            status["attemptStatus"]["taskRoleStatuses"][0]["podGracefulDeletionTimeoutSec"] = Value::Null;
        });
        builder.delete("pods", "f-r-0", None);
        builder.wait(500);
        builder.delete("pods", "f-r-0", Some(0));
        assert!(check(&builder.history()).unwrap_err().what.contains("no podGracefulDeletionTimeoutSec"));
    }

    #[test]
    fn forcing_a_pod_that_is_not_terminating_is_wrong() {
        let mut builder = HistoryBuilder::running();
        builder.delete("pods", "f-r-0", Some(0));
        assert!(check(&builder.history()).unwrap_err().what.contains("had not started"));
    }
}
