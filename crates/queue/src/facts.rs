//! The facts that a namespace takes. Each replaces the one before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_api::queue::{QueuePolicy, Reason};
use jiff::Timestamp;

use crate::amount::Amount;
use crate::requests::ResourceRequests;

/// The facts about a Queue. A unit whose queue is not known waits with `QueueNotFound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFacts {
    /// The order in which its units are served.
    pub policy: QueuePolicy,
    /// The queue's own priority, resolved. Higher is served first.
    pub priority: i32,
}

/// The facts about a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFacts {
    /// The name of its queue.
    pub queue: Arc<str>,
    /// Its priority, resolved. Higher is served first, where the queue asks for priorities.
    pub priority: i32,
    /// When its consumer was created, or grew. It decides the unit's rank, even if the unit was created
    /// again since.
    pub enqueued: Timestamp,
    /// The requests of the whole job, or of its growth.
    pub requests: ResourceRequests,
    /// Whether it is the growth of a job that runs and keeps its quota while this unit waits.
    pub grows: bool,
    /// Whether it waits or was released.
    pub phase: UnitPhase,
}

/// Whether a unit waits or was released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitPhase {
    /// It waits: phase `Enqueued`.
    Waiting {
        /// When a unit behind it was first released: the time from which its condition `Overtaken` is true.
        overtaken: Option<Timestamp>,
        /// Whether that condition already shows that capacity is reserved for it.
        reserved: bool,
        /// The reason that its condition `Dequeued` gives.
        reason: Option<Reason>,
    },
    /// It was released: phase `Dequeued`, and its consumer still has quota. Of a released unit without
    /// usage, the namespace has no facts.
    Released {
        /// The quota that is reserved for it now: of each resource the smaller of the unit's request and
        /// its job's current request.
        usage: ResourceRequests,
    },
}

impl UnitPhase {
    /// A unit that waits and has no condition yet.
    pub const NEW: Self = Self::Waiting { overtaken: None, reserved: false, reason: None };
}

/// The facts about a ResourceQuota without scopes. One with scopes is left out: it does not limit every
/// Pod.
///
/// Both maps are by the quota's own keys (`cpu`, `requests.cpu`, `pods` …).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaFacts {
    /// The limits.
    pub hard: BTreeMap<String, Amount>,
    /// The usage of all Pods of the namespace, ours included. A missing key counts as unused: before the
    /// quota controller has counted, give the amounts of `hard`.
    pub used: BTreeMap<String, Amount>,
    /// How much of `used` may turn out to be our own usage, although no Pod shows it yet. It is not
    /// available, but no unit counts as too large because of it. A missing key counts as zero.
    pub unattributed: BTreeMap<String, Amount>,
}
