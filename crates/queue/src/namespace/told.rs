//! What is said of units that wait: the reason, when it is another than the one that is known.
//!
//! One release must not cost a message to everybody who waits. Between the two reasons that come and go with
//! every release, `InsufficientQuota` and `CapacityReserved`, only the first of the units of a queue that ask
//! the same is told of a change. Everything else, and the first reason of all, is said to each.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_api::queue::Reason;

use super::index::Head;
use super::{Namespace, Unit};
use crate::ask::Tally;
use crate::limits::Bounds;
use crate::shape::ShapeId;
use crate::{Decision, Refusal, Standing, Verdict};

impl Namespace {
    pub(super) fn tell_reasons(&mut self, decisions: &mut Vec<Decision>) {
        let mut refusals = Refusals::default();
        for uid in std::mem::take(&mut self.untold) {
            let Some(unit) = self.units.get(&uid) else { continue };
            let Some(reason) = self.news(&uid, unit) else { continue };
            let refusal = self.refusal(unit, reason, &mut refusals);
            let Some(unit) = self.units.get_mut(&uid) else { continue };
            if let Standing::Waiting { reason: known, .. } = &mut unit.facts.standing {
                *known = Some(reason);
                decisions.push(Decision { uid, verdict: Verdict::Wait(refusal) });
            }
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
        self.place(uid).is_some_and(|(_, place)| self.index.contends(head, &place))
    }

    fn refusal(&self, unit: &Unit, reason: Reason, made: &mut Refusals) -> Refusal {
        if reason == Reason::QueueNotFound {
            return Refusal::QueueNotFound { queue: Arc::clone(&unit.facts.queue) };
        }
        let is_shared = self.shapes.is_shared(unit.shape);
        if let Some(refusal) = made.by_shape.get(&unit.shape).filter(|_| is_shared) {
            return refusal.clone();
        }
        let (ask, nothing) = (&unit.facts.ask, Tally::default());
        let refusal = match reason {
            Reason::CapacityReserved => {
                let bounds = || self.limits.bounds(&self.held, &self.set_aside());
                Refusal::CapacityReserved(made.reserved.get_or_insert_with(bounds).lacks(ask))
            }
            Reason::InsufficientQuota => {
                let bounds = || self.limits.bounds(&self.held, &nothing);
                Refusal::InsufficientQuota(made.insufficient.get_or_insert_with(bounds).lacks(ask))
            }
            _ => {
                let bounds = || self.limits.bounds(&nothing, &nothing);
                Refusal::ExceedsQuota(made.exceeded.get_or_insert_with(bounds).lacks(ask))
            }
        };
        if is_shared {
            made.by_shape.insert(unit.shape, refusal.clone());
        }
        refusal
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

/// Refusals of one round: units that ask the same are refused with the same numbers, and all of them by the
/// same bounds.
#[derive(Debug, Default)]
struct Refusals {
    by_shape: BTreeMap<ShapeId, Refusal>,
    reserved: Option<Bounds>,
    insufficient: Option<Bounds>,
    exceeded: Option<Bounds>,
}
