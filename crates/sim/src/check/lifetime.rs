//! No lifetime is cut short: the API server's clock must have shown that the time has come. This holds for a
//! Framework that its deadline ends, and for one that is deleted because it has expired.
//!
//! The proof is a reply that the same controller got before it acted, and after the moment from which the
//! time is counted was stored. The server's clock may be set back between the two, and no controller can know
//! of that; a reply from before that moment proves nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::check::state_at::{StateAt, Status, by_controller};
use crate::check::status::EXCEEDED;
use crate::check::violation::Violation;
use crate::history::{Change, History, Verb};
use crate::object::{Meta, Object};

const KEPT: &str = "a Framework is deleted only after its expiry";
const ACTIVE: &str = "a Framework is ended by its deadline only after it, and then for good";

/// Checks it, for Frameworks that are kept for `retained` seconds unless they say less.
///
/// # Errors
/// When a Framework was deleted or ended too early, or went on after its deadline had ended it.
pub fn check(history: &History, retained: i64) -> Result<(), Violation> {
    let mut state = StateAt::default();
    // When the end of each Framework was stored.
    let mut ends = std::collections::BTreeMap::new();
    for change in &history.changes {
        if change.is("frameworks") {
            if by_controller(change) && change.cause.verb == Verb::Delete {
                let end = ends.get(&change.uid).copied();
                deleted(history, change, end, retained).map_err(|what| Violation::new(KEPT, change, what))?;
            }
            let creation = state.creations.get(&change.uid).map(|creation| creation.at);
            ended(history, change, creation).map_err(|what| Violation::new(ACTIVE, change, what))?;
            if change.new.as_ref().and_then(|new| Status::of(new)).is_some_and(|new| new.is("Completed")) {
                ends.entry(change.uid.clone()).or_insert(change.at);
            }
        }
        state.apply(change);
    }
    Ok(())
}

fn deleted(history: &History, change: &Change, end: Option<Duration>, retained: i64) -> Result<(), String> {
    let Some(framework) = change.old.as_ref().filter(|old| !old.deleting()) else { return Ok(()) };
    let (Some(end), Some(status)) = (end, Status::of(framework)) else {
        return Err("it had not completed".to_owned());
    };
    if change.cause.propagation.as_deref() != Some("Foreground") {
        return Err(format!("it was deleted with propagation {:?}", change.cause.propagation));
    }
    let ttl = framework["spec"]["ttlSecondsAfterFinished"].as_i64().unwrap_or(i64::MAX);
    let completed = time(&status.0["completionTime"]).ok_or("its completionTime is not a time")?;
    let due = completed + SignedDuration::from_secs(ttl.min(retained));
    proved(history, change, end, due)
}

fn ended(history: &History, change: &Change, creation: Option<Duration>) -> Result<(), String> {
    let status = |object: &Option<std::sync::Arc<Object>>| {
        let status = object.as_ref().and_then(|object| Status::of(object))?;
        Some((status.attempt_id(), status.completion()["code"].as_i64()))
    };
    let Some((attempt, code)) = status(&change.new) else { return Ok(()) };
    let old = status(&change.old);
    if let Some((before, Some(EXCEEDED))) = old
        && attempt != before
    {
        return Err(format!("attempt {attempt} follows one that the deadline ended"));
    }
    if code != Some(EXCEEDED) || old == Some((attempt, code)) {
        return Ok(());
    }
    let seconds = change.object()["spec"]["activeDeadlineSeconds"].as_i64().ok_or("it has no deadline")?;
    let created: Timestamp =
        change.object().meta("creationTimestamp").parse().map_err(|_| "it was never created")?;
    let due = created + SignedDuration::from_secs(seconds);
    proved(history, change, creation.unwrap_or_default(), due)
}

/// Whether a reply that came from `since` on, and before this change was asked for, said that it was `due`.
fn proved(history: &History, change: &Change, since: Duration, due: Timestamp) -> Result<(), String> {
    let Some(request) = history.exchange_of(change) else { return Ok(()) };
    let before = usize::try_from(request.call).unwrap_or(usize::MAX).min(history.exchanges.len() + 1);
    let replies = history.exchanges.iter().take(before - 1).rev().filter(|one| {
        one.who == request.who && one.answered.is_some_and(|at| (since..=request.at).contains(&at))
    });
    let times = replies.filter_map(|one| one.clock);
    if times.clone().any(|shown| shown >= due) {
        return Ok(());
    }
    let shown = times.max();
    Err(format!("{due} has not come: the latest reported time of the server is {shown:?}"))
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::history_builder::{HistoryBuilder, completion};

    const RETAINED: i64 = 1000;

    /// Completed at once, and kept for 10 s.
    fn completed() -> HistoryBuilder {
        let mut builder = HistoryBuilder::running();
        builder.limit(Some(10), None);
        builder.edit(|status| {
            status["state"] = json!("Completed");
            status["completionTime"] = json!("2026-01-01T00:00:00Z");
        });
        builder
    }

    fn exceeded() -> Value {
        completion(EXCEEDED)
    }

    fn said(builder: &HistoryBuilder, retained: i64) -> String {
        check(&builder.history(), retained).unwrap_err().what
    }

    #[test]
    fn deleting_once_the_servers_clock_has_shown_the_expiry_is_right() {
        for (ttl, retained) in [(10, RETAINED), (RETAINED, 10)] {
            let mut builder = completed();
            builder.limit(Some(ttl), None);
            builder.wait(10);
            builder.ask_time();
            builder.delete_foreground("f");
            assert_eq!(check(&builder.history(), retained), Ok(()));
        }
    }

    #[test]
    fn deleting_early_or_with_no_proof_is_wrong() {
        let mut early = completed();
        early.wait(9);
        early.ask_time();
        early.delete_foreground("f");
        assert!(said(&early, RETAINED).contains("has not come"));

        let mut unproved = completed();
        unproved.wait(10);
        unproved.controller("controller-2");
        unproved.delete_foreground("f");
        assert!(said(&unproved, RETAINED).contains("None"));

        let mut running = HistoryBuilder::running();
        running.limit(Some(0), None);
        running.ask_time();
        running.delete_foreground("f");
        assert!(said(&running, RETAINED).contains("had not completed"));

        let mut background = completed();
        background.wait(10);
        background.ask_time();
        background.delete("frameworks", "f", None);
        assert!(said(&background, RETAINED).contains("propagation"));
    }

    #[test]
    fn the_deadline_ends_after_it_and_for_good() {
        let mut builder = HistoryBuilder::running();
        builder.limit(None, Some(10));
        builder.wait(10);
        builder.ask_time();
        builder.edit(|status| status["attemptStatus"]["completionStatus"] = exceeded());
        builder.edit(|status| status["state"] = json!("Completed"));
        assert_eq!(check(&builder.history(), RETAINED), Ok(()));
        builder.edit(|status| status["attemptStatus"] = json!({ "id": 1 }));
        assert!(said(&builder, RETAINED).contains("follows"));
    }

    #[test]
    fn a_deadline_that_ends_early_or_is_none_is_wrong() {
        for (deadline, words) in [(Some(10), "has not come"), (None, "no deadline")] {
            let mut builder = HistoryBuilder::running();
            builder.limit(None, deadline);
            builder.wait(9);
            builder.ask_time();
            builder.edit(|status| status["attemptStatus"]["completionStatus"] = exceeded());
            assert!(said(&builder, RETAINED).contains(words));
        }
    }
}
