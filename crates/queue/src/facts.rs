//! What a namespace is told: facts as they stand now, each replacing what was said before.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_api::queue::{QueuePolicy, Reason};
use jiff::Timestamp;

use crate::amount::Amount;
use crate::requests::ResourceRequests;

/// What is known of a Queue. A unit whose queue is not known waits with `QueueNotFound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFacts {
    /// In which order its units are served.
    pub policy: QueuePolicy,
    /// The queue's own priority, resolved. Higher is served first.
    pub priority: i32,
}

/// What is known of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFacts {
    /// The name of its queue.
    pub queue: Arc<str>,
    /// Its priority, resolved. Higher is served first, where the queue asks for priorities.
    pub priority: i32,
    /// When its consumer was created, or grew: its place, whatever happened to the unit since.
    pub enqueued: Timestamp,
    /// What the whole job asks for, or what it has grown by.
    pub requests: ResourceRequests,
    /// Whether it is a growth of a job that has begun, and holds what it has while this waits.
    pub grows: bool,
    /// Whether it waits or was released.
    pub phase: UnitPhase,
}

/// Whether a unit waits or was released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitPhase {
    /// It waits: phase `Enqueued`.
    Waiting {
        /// When somebody behind it was first released although it waited: since when its condition
        /// `Overtaken` is true.
        overtaken: Option<Timestamp>,
        /// Whether that condition says already that capacity is reserved for it.
        reserved: bool,
        /// The reason that its condition `Dequeued` gives.
        reason: Option<Reason>,
    },
    /// It was released: phase `Dequeued`, and its consumer has not given back everything. A unit that holds
    /// nothing any more is not told at all.
    Released {
        /// What is reserved for it now: the smaller, resource by resource, of what the unit asks and what its
        /// job asks now.
        usage: ResourceRequests,
    },
}

impl UnitPhase {
    /// Of a unit that nothing is known of but that it waits.
    pub const NEW: Self = Self::Waiting { overtaken: None, reserved: false, reason: None };
}

/// What is known of a ResourceQuota without scopes. One with scopes is not told: it does not limit every Pod.
///
/// Both maps are by the quota's own keys (`cpu`, `requests.cpu`, `pods` …).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaFacts {
    /// The limits.
    pub hard: BTreeMap<String, Amount>,
    /// What all Pods of the namespace use, ours too. A key that is missing counts as unused: before the quota
    /// controller has counted, tell what is in `hard`.
    pub used: BTreeMap<String, Amount>,
    /// How much of `used` may turn out to be our own, although nothing shows it yet. It leaves no room, but
    /// of no unit it is said because of it that it never fits. A key that is missing counts as none.
    pub unattributed: BTreeMap<String, Amount>,
}
