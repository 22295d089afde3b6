//! The reasons of waiting units: a reason is reported when it differs from the known one.
//!
//! One release must not cost a message to every waiting unit. `InsufficientQuota` and `CapacityReserved`
//! come and go with every release: a change between them is reported only to the first unit of each shape
//! in a queue. Every other reason, and the first one, is reported to each unit.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_api::queue::Reason;

use super::index::{Head, Index};
use super::queues::Queues;
use super::{Namespace, Unit};
use crate::decision::{Decision, UnitUpdate, WaitReason};
use crate::facts::UnitPhase;
use crate::limits::{Bounds, Limits};
use crate::order::UnitRank;
use crate::requests::Tally;
use crate::shape::{ShapeId, Shapes};

/// If at least one unit in this many is concerned, walking over all of them in order is faster than looking
/// each up.
const MANY: usize = 8;

impl Namespace {
    pub(super) fn report_reasons(&mut self, decisions: &mut Vec<Decision>) {
        if self.unreported.is_empty() {
            return;
        }
        let set_aside = self.set_aside();
        let (queues, shapes, index) = (&self.queues, &self.shapes, &self.index);
        let mut reasons = Reasons::new(queues, shapes, index, &self.limits, &self.usage, set_aside);
        decisions.reserve(self.unreported.len());
        let mut report = |uid: Arc<str>, unit: &mut Unit| {
            let Some(reason) = reasons.news(&uid, unit) else { return };
            let refusal = reasons.refusal(unit, reason);
            if let UnitPhase::Waiting { reason: known, .. } = &mut unit.facts.phase {
                *known = Some(reason);
                decisions.push(Decision { uid, update: UnitUpdate::Wait(refusal) });
            }
        };
        let unreported = std::mem::take(&mut self.unreported);
        if unreported.len() < self.units.len() / MANY {
            for uid in unreported {
                if let Some(unit) = self.units.get_mut(&uid) {
                    report(uid, unit);
                }
            }
            return;
        }
        let mut unreported = unreported.into_iter().peekable();
        for (known, unit) in &mut self.units {
            while unreported.next_if(|uid| uid < known).is_some() {}
            if let Some(uid) = unreported.next_if_eq(known) {
                report(uid, unit);
            }
        }
    }

    /// Why a waiting unit waits, with the numbers of now: a report has those of the moment when the reason
    /// last changed. `None` if the unit does not wait, or no round has looked at it yet.
    pub fn wait_reason(&self, uid: &str) -> Option<WaitReason> {
        let unit = self.units.get(uid)?;
        if !matches!(unit.facts.phase, UnitPhase::Waiting { .. }) {
            return None;
        }
        let (queues, shapes, index) = (&self.queues, &self.shapes, &self.index);
        let set_aside = self.set_aside();
        let mut reasons = Reasons::new(queues, shapes, index, &self.limits, &self.usage, set_aside);
        let reason = reasons.reason(unit)?;
        Some(reasons.refusal(unit, reason))
    }

    /// The amounts set aside for overdue units.
    fn set_aside(&self) -> Tally {
        let mut set_aside = Tally::default();
        for overdue in self.overtaken.overdue() {
            let unit = self.units.get(&overdue.uid).filter(|unit| self.shapes.can_fit(unit.shape));
            if let Some(unit) = unit {
                set_aside.add(&unit.facts.requests);
            }
        }
        set_aside
    }
}

/// The state from which the reasons of one round are made. Units of one shape get the same numbers, and all
/// units are compared with the same bounds.
struct Reasons<'a> {
    queues: &'a Queues,
    shapes: &'a Shapes,
    index: &'a Index,
    limits: &'a Limits,
    usage: &'a Tally,
    set_aside: Tally,
    by_shape: BTreeMap<ShapeId, WaitReason>,
    reserved: Option<Bounds>,
    insufficient: Option<Bounds>,
    exceeded: Option<Bounds>,
}

impl<'a> Reasons<'a> {
    fn new(
        queues: &'a Queues,
        shapes: &'a Shapes,
        index: &'a Index,
        limits: &'a Limits,
        usage: &'a Tally,
        set_aside: Tally,
    ) -> Self {
        let by_shape = BTreeMap::new();
        let (reserved, insufficient, exceeded) = (None, None, None);
        Reasons {
            queues,
            shapes,
            index,
            limits,
            usage,
            set_aside,
            by_shape,
            reserved,
            insufficient,
            exceeded,
        }
    }

    /// Why a unit waits.
    fn reason(&self, unit: &Unit) -> Option<Reason> {
        if unit.shape == ShapeId::NONE {
            return Some(Reason::QueueNotFound);
        }
        let shape = self.shapes.get(unit.shape)?;
        if shape.exceeds { Some(Reason::ExceedsQuota) } else { shape.reason }
    }

    /// The reason to report for a unit, if it changed.
    fn news(&self, uid: &Arc<str>, unit: &Unit) -> Option<Reason> {
        let UnitPhase::Waiting { reason: known, .. } = unit.facts.phase else { return None };
        let reason = self.reason(unit)?;
        let passes = |reason| matches!(reason, Reason::InsufficientQuota | Reason::CapacityReserved);
        let differs = known != Some(reason);
        let is_small = passes(reason) && known.is_some_and(passes);
        (differs && (!is_small || self.is_head(uid, unit))).then_some(reason)
    }

    fn is_head(&self, uid: &Arc<str>, unit: &Unit) -> bool {
        let head = Head { queue: unit.queue, shape: unit.shape };
        let facts = self.queues.get(unit.queue).and_then(|queue| queue.facts);
        facts.is_some_and(|facts| self.index.contends(head, &UnitRank::new(facts.policy, uid, &unit.facts)))
    }

    fn refusal(&mut self, unit: &Unit, reason: Reason) -> WaitReason {
        if reason == Reason::QueueNotFound {
            return WaitReason::QueueNotFound { queue: Arc::clone(&unit.facts.queue) };
        }
        let is_shared = self.shapes.is_shared(unit.shape);
        if let Some(refusal) = self.by_shape.get(&unit.shape).filter(|_| is_shared) {
            return refusal.clone();
        }
        let (requests, nothing) = (&unit.facts.requests, Tally::default());
        let refusal = match reason {
            Reason::CapacityReserved => {
                let bounds = || self.limits.bounds(self.usage, &self.set_aside);
                WaitReason::CapacityReserved(self.reserved.get_or_insert_with(bounds).shortages(requests))
            }
            Reason::InsufficientQuota => {
                let bounds = || self.limits.bounds(self.usage, &nothing);
                WaitReason::InsufficientQuota(
                    self.insufficient.get_or_insert_with(bounds).shortages(requests),
                )
            }
            _ => {
                let bounds = || self.limits.bounds(&nothing, &nothing);
                WaitReason::ExceedsQuota(self.exceeded.get_or_insert_with(bounds).shortages(requests))
            }
        };
        if is_shared {
            self.by_shape.insert(unit.shape, refusal.clone());
        }
        refusal
    }
}
