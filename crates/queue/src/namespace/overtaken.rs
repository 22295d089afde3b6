//! Units that were overtaken, and those that have been for too long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::order::Overdue;

/// The waiting units of a namespace that were overtaken.
#[derive(Debug)]
pub(super) struct Overtaken {
    reserve_after: Duration,
    /// Not yet for too long, the first to become overdue first.
    recently: BTreeSet<Overdue>,
    /// For too long.
    overdue: BTreeSet<Overdue>,
    /// The overdue units for which no decision has reserved capacity yet.
    unreserved: BTreeSet<Arc<str>>,
}

impl Overtaken {
    /// No unit was overtaken yet. A unit is overdue `reserve_after` it was overtaken.
    pub fn new(reserve_after: Duration) -> Self {
        let (recently, overdue) = (BTreeSet::new(), BTreeSet::new());
        Self { reserve_after, recently, overdue, unreserved: BTreeSet::new() }
    }

    /// Adds a unit that was overtaken.
    pub fn insert(&mut self, unit: Overdue) {
        self.recently.insert(unit);
    }

    /// Forgets a unit that no longer waits.
    pub fn remove(&mut self, unit: &Overdue) {
        self.recently.remove(unit);
        self.overdue.remove(unit);
        self.unreserved.remove(&unit.uid);
    }

    /// When the next unit becomes overdue.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.recently.first().map(|first| self.due(first))
    }

    /// Moves the next unit that has become overdue by now. Returns its UID.
    pub fn next_overdue(&mut self, now: Timestamp) -> Option<Arc<str>> {
        let first = self.recently.first().filter(|first| self.due(first) <= now)?.clone();
        self.recently.remove(&first);
        let uid = Arc::clone(&first.uid);
        self.overdue.insert(first);
        Some(uid)
    }

    /// The overdue units, in their order.
    pub fn overdue(&self) -> &BTreeSet<Overdue> {
        &self.overdue
    }

    /// Notes that no decision has reserved capacity for an overdue unit.
    pub fn await_reservation(&mut self, uid: Arc<str>) {
        self.unreserved.insert(uid);
    }

    /// The overdue units for which no decision has reserved capacity.
    pub fn unreserved(&self) -> Vec<Arc<str>> {
        self.unreserved.iter().cloned().collect()
    }

    /// Notes that a decision has reserved capacity for a unit.
    pub fn mark_reserved(&mut self, uid: &Arc<str>) {
        self.unreserved.remove(uid);
    }

    fn due(&self, unit: &Overdue) -> Timestamp {
        unit.since.checked_add(self.reserve_after).unwrap_or(Timestamp::MAX)
    }
}
