//! The objects that changed since the last turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework_message::{Dues, Key};
use framework_queue::ResourceRequests;

use crate::consumer::ConsumerKey;

/// The objects that the next turn evaluates again.
#[derive(Debug, Default)]
pub struct Stale {
    /// Units whose facts may have changed.
    pub units: BTreeSet<Key>,
    /// Jobs that have changed, or whose units have.
    pub jobs: BTreeSet<ConsumerKey>,
    /// Namespaces that need a round.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Pods that may belong to another job than before. They count for the earlier one until then.
    pub pods: BTreeSet<Key>,
    /// Jobs, by namespace and UID, whose Pods may use something else than in the last turn, and their use in
    /// that.
    pub usage: BTreeMap<Key, Option<ResourceRequests>>,
    /// Queues whose facts may have changed. If the Queue was known in the last turn: whether it named a
    /// PriorityClass that did not exist.
    pub queue_facts: BTreeMap<Key, Option<bool>>,
    /// Queues whose status may differ from the counts.
    pub queues: BTreeSet<Key>,
    /// Units whose status was refused for good: when, on the monotonic clock, they are considered again.
    pub refused: Dues<Key, Duration>,
}
