//! The queues, units and quotas of one namespace.
//!
//! Its state follows from the facts: a new namespace with the same facts, and with the decisions made
//! since, decides the same.

mod index;
mod overtaken;
pub(crate) mod position;
mod queues;
mod reason;
mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::QueuePolicy;
use jiff::Timestamp;

use self::index::{Index, Member};
use self::overtaken::Overtaken;
use self::queues::{QueueId, Queues};
use crate::amount::Amount;
use crate::facts::{QueueFacts, QuotaFacts, UnitFacts, UnitPhase};
use crate::limits::Limits;
use crate::order::{Overdue, UnitRank};
use crate::requests::{ResourceRequests, Tally};
use crate::shape::{ShapeId, Shapes};

/// The queues, units and quotas of one namespace, indexed so that the cost of a round depends on the changes.
#[derive(Debug)]
pub struct Namespace {
    /// The latest moment of a round: the time of a round never goes back.
    now: Timestamp,
    fit_checks: u64,
    limits: Limits,
    /// The usage of released units.
    usage: Tally,
    queues: Queues,
    units: BTreeMap<Arc<str>, Unit>,
    shapes: Shapes,
    index: Index,
    overtaken: Overtaken,
    /// Growths that wait in queues that are there, the oldest first.
    growing: BTreeSet<(Timestamp, Arc<str>)>,
    /// Units whose reason the next round compares with the known one.
    unreported: BTreeSet<Arc<str>>,
    /// Queues whose turn or first unit may have changed.
    stale: BTreeSet<QueueId>,
}

#[derive(Debug)]
struct Unit {
    queue: QueueId,
    /// Set while the unit waits in a queue that exists.
    shape: ShapeId,
    facts: UnitFacts,
}

impl Unit {
    fn waits(&self) -> bool {
        matches!(self.facts.phase, UnitPhase::Waiting { .. })
    }

    fn overtaken(&self) -> Option<Timestamp> {
        match self.facts.phase {
            UnitPhase::Waiting { overtaken, .. } => overtaken,
            UnitPhase::Released { .. } => None,
        }
    }

    fn overdue(&self, uid: &Arc<str>) -> Option<Overdue> {
        let (since, enqueued) = (self.overtaken()?, self.facts.enqueued);
        Some(Overdue { since, enqueued, uid: Arc::clone(uid) })
    }
}

impl Namespace {
    /// A namespace without facts. A unit is overdue `reserve_after` it was overtaken.
    pub fn new(reserve_after: Duration) -> Self {
        Self {
            now: Timestamp::MIN,
            fit_checks: 0,
            limits: Limits::default(),
            usage: Tally::default(),
            queues: Queues::default(),
            units: BTreeMap::new(),
            shapes: Shapes::default(),
            index: Index::default(),
            overtaken: Overtaken::new(reserve_after),
            growing: BTreeSet::new(),
            unreported: BTreeSet::new(),
            stale: BTreeSet::new(),
        }
    }

    /// Sets the facts about a queue; `None` if there is no queue of that name.
    pub fn set_queue(&mut self, name: &str, facts: Option<QueueFacts>) {
        let before = self.queues.named(name).and_then(|queue| queue.facts);
        if before == facts {
            return;
        }
        let id = self.queues.id(&Arc::from(name));
        // The policy determines the ranks of units, and units without a queue have none.
        let moves = before.map(|facts| facts.policy) != facts.map(|facts| facts.policy);
        let members = if moves { self.index.units_of(id) } else { Vec::new() };
        for uid in &members {
            self.dequeue(uid);
        }
        if let Some(queue) = self.queues.get_mut(id) {
            queue.facts = facts;
        }
        for uid in &members {
            self.enqueue(uid);
        }
        self.stale.insert(id);
        self.forget_if_empty(id);
    }

    /// Sets the facts about a unit; `None` if it is gone or has no usage any more. `uid` is any text that
    /// only this unit has: the order of these texts breaks ties.
    ///
    /// The facts replace earlier facts and decisions: a unit whose release is being written must be given
    /// as released. One whose release is not written yet may be given as waiting again.
    pub fn set_unit(&mut self, uid: impl AsRef<str> + Into<Arc<str>>, facts: Option<UnitFacts>) {
        let known = self.units.get_key_value(uid.as_ref());
        if known.map(|(_, unit)| &unit.facts) == facts.as_ref() {
            return;
        }
        let uid = known.map_or_else(|| uid.into(), |(uid, _)| Arc::clone(uid));
        self.remove(&uid);
        if let Some(facts) = facts {
            self.insert(uid, facts);
        }
    }

    /// Sets the facts about a quota without scopes; `None` if it is gone.
    pub fn set_quota(&mut self, name: &str, facts: Option<QuotaFacts>) {
        self.limits.set_quota(name, facts);
    }

    /// Sets the total usage of the Pods of released units: this part of `used` is not the usage of others.
    pub fn set_own_usage(&mut self, own: ResourceRequests) {
        self.limits.set_own_usage(own);
    }

    /// The usage of a resource by released units.
    pub fn usage(&self, resource: &str) -> Amount {
        self.usage.get(resource)
    }

    /// Whether released units and others use more than a limit allows.
    pub fn exceeds_limits(&mut self) -> bool {
        self.recount();
        self.limits.free().is_exceeded_by(&self.usage)
    }

    /// Whether a released unit requests something of which more is used than a limit allows.
    pub fn is_over_limit(&mut self, uid: &str) -> bool {
        self.recount();
        let Some(unit) = self.units.get(uid).filter(|unit| !unit.waits()) else { return false };
        let mut requested = unit.facts.requests.iter().filter(|(_, amount)| *amount > Amount::ZERO);
        requested.any(|(resource, _)| self.usage.get(resource) > self.limits.free().get(resource))
    }

    /// When a round may decide something although no fact has changed: a unit becomes overdue.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.overtaken.next_due()
    }

    /// The facts about a unit, with the decisions since.
    pub fn unit(&self, uid: &str) -> Option<&UnitFacts> {
        self.units.get(uid).map(|unit| &unit.facts)
    }

    /// The number of units that wait.
    pub fn waiting(&self) -> usize {
        self.index.waiting()
    }

    /// How often requests were compared with the available amounts: the cost of the rounds, on any machine.
    pub fn fit_checks(&self) -> u64 {
        self.fit_checks
    }

    /// Forgets a queue that does not exist and that no unit names.
    fn forget_if_empty(&mut self, id: QueueId) {
        if self.queues.remove_if_empty(id) {
            self.index.forget(id);
            self.stale.remove(&id);
        }
    }

    fn insert(&mut self, uid: Arc<str>, mut facts: UnitFacts) {
        let queue = self.queues.id(&facts.queue);
        if let Some(known) = self.queues.get_mut(queue) {
            known.units = known.units.saturating_add(1);
            // All units share one copy of the name.
            facts.queue = Arc::clone(&known.name);
        }
        if let UnitPhase::Released { usage } = &facts.phase {
            self.add_usage(queue, usage);
        }
        let unit = Unit { queue, shape: ShapeId::NONE, facts };
        let waits = unit.waits();
        self.units.insert(Arc::clone(&uid), unit);
        if waits {
            self.enqueue(&uid);
        }
    }

    fn remove(&mut self, uid: &Arc<str>) {
        self.dequeue(uid);
        let Some(unit) = self.units.remove(uid) else { return };
        if let UnitPhase::Released { usage } = &unit.facts.phase {
            self.usage.subtract(usage);
            if let Some(queue) = self.queues.get_mut(unit.queue) {
                queue.usage.subtract(usage);
            }
            self.stale.insert(unit.queue);
        }
        if let Some(queue) = self.queues.get_mut(unit.queue) {
            queue.units = queue.units.saturating_sub(1);
        }
        self.forget_if_empty(unit.queue);
    }

    /// Counts the usage of a released unit.
    fn add_usage(&mut self, queue: QueueId, usage: &ResourceRequests) {
        self.usage.add(usage);
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.usage.add(usage);
        }
        self.stale.insert(queue);
    }

    /// Adds a waiting unit to its queue.
    fn enqueue(&mut self, uid: &Arc<str>) {
        let Some(unit) = self.units.get_mut(uid).filter(|unit| unit.waits()) else { return };
        let Some(queue) = self.queues.get(unit.queue) else { return };
        self.unreported.insert(Arc::clone(uid));
        if let Some(overdue) = unit.overdue(uid) {
            self.overtaken.insert(overdue);
        }
        let policy = queue.facts.map(|facts| facts.policy);
        if policy.is_some() {
            if unit.facts.grows {
                self.growing.insert((unit.facts.enqueued, Arc::clone(uid)));
            }
            unit.shape = self.shapes.add(&unit.facts.requests, self.limits.capacity());
            if let Some(shape) = self.shapes.get(unit.shape) {
                // All units of a shape share one copy of the requests.
                unit.facts.requests = shape.requests.clone();
            }
        }
        let (queue, shape) = (unit.queue, unit.shape);
        let rank = UnitRank::new(policy.unwrap_or(QueuePolicy::Fifo), uid, &unit.facts);
        let contender = self.index.insert(Member { queue, shape, rank }, self.shapes.can_fit(shape));
        self.unreported.extend(contender);
        self.stale.insert(queue);
    }

    /// Removes a waiting unit from its queue.
    fn dequeue(&mut self, uid: &Arc<str>) {
        let Some(unit) = self.units.get_mut(uid).filter(|unit| unit.waits()) else { return };
        self.unreported.remove(uid);
        self.growing.remove(&(unit.facts.enqueued, Arc::clone(uid)));
        if let Some(overdue) = unit.overdue(uid) {
            self.overtaken.remove(&overdue);
        }
        let Some(queue) = self.queues.get(unit.queue) else { return };
        let policy = queue.facts.map_or(QueuePolicy::Fifo, |facts| facts.policy);
        let (queue, shape) = (unit.queue, std::mem::take(&mut unit.shape));
        let rank = UnitRank::new(policy, uid, &unit.facts);
        let contender = self.index.remove(&Member { queue, shape, rank }, self.shapes.can_fit(shape));
        self.shapes.remove(shape);
        self.unreported.extend(contender);
        self.stale.insert(queue);
    }
}
