//! What is said of units that wait: the reason, when it is another than the one that is known.
//!
//! One release must not cost a message to everybody who waits. Between the two reasons that come and go with
//! every release, `InsufficientQuota` and `CapacityReserved`, only the first of the units of a queue that ask
//! the same is told of a change. Everything else, and the first reason of all, is said to each.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_api::queue::Reason;

use super::index::{Head, Index, QueueId};
use super::{Namespace, Queue, Unit};
use crate::ask::Tally;
use crate::limits::{Bounds, Limits};
use crate::order::Place;
use crate::shape::{ShapeId, Shapes};
use crate::{Decision, Refusal, Standing, Verdict};

/// Where one in so many units is to be looked at, going over all of them in order is quicker than looking
/// each up.
const MANY: usize = 8;

impl Namespace {
    pub(super) fn tell_reasons(&mut self, decisions: &mut Vec<Decision>) {
        if self.untold.is_empty() {
            return;
        }
        let aside = self.set_aside();
        let mut teller = Teller {
            queues: &self.queues,
            shapes: &self.shapes,
            index: &self.index,
            limits: &self.limits,
            held: &self.held,
            aside,
            by_shape: BTreeMap::new(),
            reserved: None,
            insufficient: None,
            exceeded: None,
        };
        decisions.reserve(self.untold.len());
        let mut tell = |uid: Arc<str>, unit: &mut Unit| {
            let Some(reason) = teller.news(&uid, unit) else { return };
            let refusal = teller.refusal(unit, reason);
            if let Standing::Waiting { reason: known, .. } = &mut unit.facts.standing {
                *known = Some(reason);
                decisions.push(Decision { uid, verdict: Verdict::Wait(refusal) });
            }
        };
        let untold = std::mem::take(&mut self.untold);
        if untold.len() < self.units.len() / MANY {
            for uid in untold {
                if let Some(unit) = self.units.get_mut(&uid) {
                    tell(uid, unit);
                }
            }
            return;
        }
        let mut untold = untold.into_iter().peekable();
        for (known, unit) in &mut self.units {
            while untold.next_if(|uid| uid < known).is_some() {}
            if let Some(uid) = untold.next_if_eq(known) {
                tell(uid, unit);
            }
        }
    }

    /// What is set aside for overdue units.
    fn set_aside(&self) -> Tally {
        let mut aside = Tally::default();
        for overdue in &self.overdue {
            let unit = self.units.get(&overdue.uid).filter(|unit| self.shapes.can_fit(unit.shape));
            if let Some(unit) = unit {
                aside.add(&unit.facts.ask);
            }
        }
        aside
    }
}

/// What the reasons of one round are made of. Units that ask the same are refused with the same numbers, and
/// all of them by the same bounds.
struct Teller<'a> {
    queues: &'a BTreeMap<QueueId, Queue>,
    shapes: &'a Shapes,
    index: &'a Index,
    limits: &'a Limits,
    held: &'a Tally,
    aside: Tally,
    by_shape: BTreeMap<ShapeId, Refusal>,
    reserved: Option<Bounds>,
    insufficient: Option<Bounds>,
    exceeded: Option<Bounds>,
}

impl Teller<'_> {
    /// Why a unit waits.
    fn reason(&self, unit: &Unit) -> Option<Reason> {
        if unit.shape == ShapeId::NONE {
            return Some(Reason::QueueNotFound);
        }
        let shape = self.shapes.get(unit.shape)?;
        if shape.exceeds { Some(Reason::ExceedsQuota) } else { shape.reason }
    }

    /// The reason that is to be said of a unit, if any is.
    fn news(&self, uid: &Arc<str>, unit: &Unit) -> Option<Reason> {
        let Standing::Waiting { reason: known, .. } = unit.facts.standing else { return None };
        let reason = self.reason(unit)?;
        let passes = |reason| matches!(reason, Reason::InsufficientQuota | Reason::CapacityReserved);
        let differs = known != Some(reason);
        let is_small = passes(reason) && known.is_some_and(passes);
        (differs && (!is_small || self.is_head(uid, unit))).then_some(reason)
    }

    fn is_head(&self, uid: &Arc<str>, unit: &Unit) -> bool {
        let head = Head { queue: unit.queue, shape: unit.shape };
        let facts = self.queues.get(&unit.queue).and_then(|queue| queue.facts);
        facts.is_some_and(|facts| self.index.contends(head, &Place::new(facts.policy, uid, &unit.facts)))
    }

    fn refusal(&mut self, unit: &Unit, reason: Reason) -> Refusal {
        if reason == Reason::QueueNotFound {
            return Refusal::QueueNotFound { queue: Arc::clone(&unit.facts.queue) };
        }
        let is_shared = self.shapes.is_shared(unit.shape);
        if let Some(refusal) = self.by_shape.get(&unit.shape).filter(|_| is_shared) {
            return refusal.clone();
        }
        let (ask, nothing) = (&unit.facts.ask, Tally::default());
        let refusal = match reason {
            Reason::CapacityReserved => {
                let bounds = || self.limits.bounds(self.held, &self.aside);
                Refusal::CapacityReserved(self.reserved.get_or_insert_with(bounds).lacks(ask))
            }
            Reason::InsufficientQuota => {
                let bounds = || self.limits.bounds(self.held, &nothing);
                Refusal::InsufficientQuota(self.insufficient.get_or_insert_with(bounds).lacks(ask))
            }
            _ => {
                let bounds = || self.limits.bounds(&nothing, &nothing);
                Refusal::ExceedsQuota(self.exceeded.get_or_insert_with(bounds).lacks(ask))
            }
        };
        if is_shared {
            self.by_shape.insert(unit.shape, refusal.clone());
        }
        refusal
    }
}
