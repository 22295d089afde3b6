//! The order in which units are served. In each type the least comes first, and an earlier field decides
//! before a later one: this file is the policy.

use std::cmp::Reverse;
use std::sync::Arc;

use framework_api::queue::QueuePolicy;
use jiff::Timestamp;

use crate::facts::{QueueFacts, UnitFacts};

/// The rank of a unit among all units of a namespace: overdue units come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Units that were overtaken for too long.
    Overdue(Overdue),
    /// All others: the rank of the queue decides before the rank within it.
    InLine(QueueRank, UnitRank),
}

/// The rank among overdue units: the unit that was overtaken first comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Overdue {
    /// Since when it has been overtaken.
    pub since: Timestamp,
    /// When its consumer was created.
    pub enqueued: Timestamp,
    /// Its UID.
    pub uid: Arc<str>,
}

/// The rank among queues.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueRank {
    /// The queue's own priority: the higher one first.
    pub priority: Reverse<i32>,
    /// The usage of its released units: the smaller share first.
    pub share: DominantShare,
    /// When the consumer of its first unit that could ever fit was created: the oldest first.
    pub oldest: Timestamp,
    /// Its name.
    pub name: Arc<str>,
}

/// The rank among the units of a queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitRank {
    /// The unit's priority, the higher one first; the same for all where the policy is FIFO.
    pub priority: Reverse<i32>,
    /// When its consumer was created.
    pub enqueued: Timestamp,
    /// Its UID.
    pub uid: Arc<str>,
}

/// The dominant share of a queue, in parts per billion: over all limited resources, the largest share of
/// the limit that the queue uses. Zero if nothing is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DominantShare(pub u64);

impl UnitRank {
    /// The rank before all others.
    pub(crate) fn first() -> Self {
        Self { priority: Reverse(i32::MAX), enqueued: Timestamp::MIN, uid: Arc::default() }
    }

    /// The rank of a unit in a queue with this policy.
    pub fn new(policy: QueuePolicy, uid: &Arc<str>, unit: &UnitFacts) -> Self {
        let priority = match policy {
            QueuePolicy::Priority => unit.priority,
            QueuePolicy::Fifo => 0,
        };
        Self { priority: Reverse(priority), enqueued: unit.enqueued, uid: Arc::clone(uid) }
    }
}

impl QueueRank {
    /// The rank of a queue with these facts.
    pub fn new(facts: QueueFacts, share: DominantShare, oldest: Timestamp, name: &Arc<str>) -> Self {
        Self { priority: Reverse(facts.priority), share, oldest, name: Arc::clone(name) }
    }
}
