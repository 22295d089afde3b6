//! Who is served first. In each type the least comes first, and an earlier field decides before a later one:
//! this file is the policy.

use std::cmp::Reverse;
use std::sync::Arc;

use framework_api::queue::QueuePolicy;
use jiff::Timestamp;

use crate::facts::{QueueFacts, UnitFacts};

/// Whose turn it is: overdue units before all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Units that were overtaken for too long.
    Overdue(Overdue),
    /// All others: the queue decides before the place in it.
    InLine(QueueRank, UnitRank),
}

/// Among overdue units: who was overtaken first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Overdue {
    /// Since when it has been overtaken.
    pub since: Timestamp,
    /// When its consumer was created.
    pub enqueued: Timestamp,
    /// Its UID.
    pub uid: Arc<str>,
}

/// Among queues.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueRank {
    /// The queue's own priority: the higher one first.
    pub priority: Reverse<i32>,
    /// What its released units hold: the smaller share first.
    pub share: Share,
    /// When the consumer of its first unit that could ever fit was created: the oldest first.
    pub oldest: Timestamp,
    /// Its name.
    pub name: Arc<str>,
}

/// Among the units of a queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitRank {
    /// The unit's priority, the higher one first; the same for all where the policy is FIFO.
    pub priority: Reverse<i32>,
    /// When its consumer was created.
    pub enqueued: Timestamp,
    /// Its UID.
    pub uid: Arc<str>,
}

/// The dominant share of what queues hold, in parts per billion of the limit: the largest, over all resources
/// that a quota limits, of what is held of it. Nothing where nothing is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u64);

impl UnitRank {
    /// Before all others.
    pub(crate) fn first() -> Self {
        Self { priority: Reverse(i32::MAX), enqueued: Timestamp::MIN, uid: Arc::default() }
    }

    /// Of a unit in a queue with this policy.
    pub fn new(policy: QueuePolicy, uid: &Arc<str>, unit: &UnitFacts) -> Self {
        let priority = match policy {
            QueuePolicy::Priority => unit.priority,
            QueuePolicy::Fifo => 0,
        };
        Self { priority: Reverse(priority), enqueued: unit.enqueued, uid: Arc::clone(uid) }
    }
}

impl QueueRank {
    /// Of a queue with these facts.
    pub fn new(facts: QueueFacts, share: Share, oldest: Timestamp, name: &Arc<str>) -> Self {
        Self { priority: Reverse(facts.priority), share, oldest, name: Arc::clone(name) }
    }
}
