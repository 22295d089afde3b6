//! Queues: the released units never exceed a quota together with the use of other workloads. A unit is
//! released once, and then nothing of it changes. A Framework that waits has nothing in the cluster, and at
//! rest no unit waits that fits.
//!
//! A release is decided from the state that the watches show. A change of others, or a quota that a user
//! lowers, shows a little later. [`Blind`] makes an allowance for that; it is zero where no user makes such
//! changes.

mod accounts;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use self::accounts::{AccountChange, Accounts, phase};
use crate::check::state_at::{by_controller, framework_of_map};
use crate::check::violation::Violation;
use crate::history::{Change, History};
use crate::object::{Meta, Object};

const QUOTA: &str = "what is released fits into every quota";
const ONCE: &str = "a unit is released once, and for good";
const FIRST: &str = "a Framework in a queue has nothing before its unit is released";
const WAITS: &str = "at rest no unit waits that fits";

/// The label that names the queue of a Framework.
const LABEL: &str = "frameworkcontroller.microsoft.com/queue-name";

/// For so long the controller may not know of a change of others, or of a quota, when it releases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Blind(pub Duration);

/// Counts of queue events in a history, so that a test can require enough of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Units that were released.
    pub releases: usize,
    /// Changes of the priority of a unit that waited.
    pub priorities: usize,
    /// Of these, those after which the controller's next write to the unit was refused: they raced with it.
    pub races: usize,
}

/// Checks the promises that hold at every moment.
///
/// # Errors
/// When a promise was broken.
pub fn check(history: &History, blind: Blind) -> Result<(), Violation> {
    let mut accounts = Accounts::default();
    let mut begun = Beginnings::default();
    for change in &history.changes {
        once(change)?;
        begun.take(change, &accounts)?;
        let Some(AccountChange { before, after, release }) = accounts.take(change) else { continue };
        for (at, resource) in ["pods", "cpu"].into_iter().enumerate() {
            let is_more = after.sum()[at] > before.sum()[at];
            if !is_more || after.limit[at].is_none_or(|limit| after.sum()[at] <= limit) {
                continue;
            }
            // A change by others is no breach. A release is one, unless the controller could not see the
            // change yet.
            let (limit, others) = accounts.seen(change, at, blind.0);
            let sum = after.held[at] + others;
            if release && sum > limit {
                let what = format!(
                    "{resource}: {} are held and {others} used by others, of {limit}",
                    after.held[at]
                );
                return Err(Violation::new(QUOTA, change, what));
            }
        }
    }
    Ok(())
}

/// Checks that nothing waits that fits, once nothing changes any more.
///
/// # Errors
/// When something does.
pub fn at_quiescence(history: &History) -> Result<(), Violation> {
    let mut accounts = Accounts::default();
    for change in &history.changes {
        accounts.take(change);
    }
    let Some((unit, why)) = accounts.waits_in_vain() else { return Ok(()) };
    let last = history.of("queueunits").filter(|change| change.uid == unit).last();
    last.map_or(Ok(()), |change| Err(Violation::new(WAITS, change, why)))
}

/// Counts the queue events of a history.
#[must_use]
pub fn count(history: &History) -> QueueCounts {
    let mut counts = QueueCounts::default();
    for change in history.of("queueunits") {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        counts.releases += usize::from(phase(old) != "Dequeued" && phase(new) == "Dequeued");
        counts.priorities += usize::from(old["spec"]["priority"] != new["spec"]["priority"]);
    }
    let refused = |exchange: &&crate::history::Exchange| {
        &*exchange.plural == "queueunits" && exchange.code == Some(409) && !exchange.who.starts_with("user")
    };
    counts.races = history.exchanges.iter().filter(refused).count();
    counts
}

fn once(change: &Change) -> Result<(), Violation> {
    let (true, Some(old), Some(new)) = (change.is("queueunits"), &change.old, &change.new) else {
        return Ok(());
    };
    let fail = |what: &str| Err(Violation::new(ONCE, change, what.to_owned()));
    let forward = match (phase(old), phase(new)) {
        (from, to) if from == to => true,
        ("", "Enqueued") | ("Enqueued", "Dequeued") => true,
        _ => false,
    };
    if !forward {
        return fail("its phase went another way");
    }
    if phase(old) != "Dequeued" {
        return Ok(());
    }
    if old["spec"] != new["spec"] {
        return fail("its spec changed after its release");
    }
    if old["status"] != new["status"] {
        return fail("it is released again: its status was written after its release");
    }
    Ok(())
}

/// Which Frameworks always named a queue, and so may begin only when they are released.
#[derive(Debug, Default)]
struct Beginnings {
    /// UIDs of Frameworks that did not always do so.
    free: BTreeSet<String>,
}

impl Beginnings {
    fn take(&mut self, change: &Arc<Change>, accounts: &Accounts) -> Result<(), Violation> {
        if change.is("frameworks") {
            let label =
                |object: &Arc<Object>| object["metadata"]["labels"][LABEL].as_str().unwrap_or("").is_empty();
            if change.new.as_ref().is_some_and(label) {
                self.free.insert(change.uid.clone());
            }
        }
        if !change.is("configmaps") || !change.creates() || !by_controller(change) {
            return Ok(());
        }
        let Some(name) = framework_of_map(change.object()) else { return Ok(()) };
        let uid = change.object().controller().and_then(|owner| owner["uid"].as_str()).unwrap_or("");
        if self.free.contains(uid) || accounts.was_released(uid) {
            return Ok(());
        }
        let what = format!("the ConfigMap of {name} is created before its unit is released");
        Err(Violation::new(FIRST, change, what))
    }
}

#[cfg(test)]
mod tests;
