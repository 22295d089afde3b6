//! The answers to Frameworks that wait, and to growths.

use std::sync::Arc;

use framework_api::queue::{Phase, Reason};
use framework_core::observed::Admission;
use framework_core::summary::Obstacle;
use framework_message::{Key, Now};

use super::FrameworkUnits;
use crate::consumer::{Consumer, ConsumerKey};
use crate::effect::QueueEffect;
use crate::object::UnitObject;

impl FrameworkUnits {
    /// Reports whether a Framework may begin, and which of its growths, if that has changed.
    pub(super) fn admit(&mut self, now: Now, key: &Key) {
        let Some(framework) = self.frameworks.get(key).and_then(|reported| reported.framework.as_ref())
        else {
            return;
        };
        let uid = Arc::clone(&framework.uid);
        let job = ConsumerKey::of_framework(key.clone());
        let unit = job.unit().and_then(|name| self.units.get(&name));
        let state = self.unit_requests.entry(key.clone()).or_default();
        if let Some(unit) = unit.filter(|unit| unit.owner.as_ref() == Some(&uid)) {
            state.set_priority(&uid, unit.priority);
        }
        let admission = match unit {
            _ if !framework.wants_unit() => None,
            Some(unit) => self.answer(now, unit, framework),
            None if state.is_name_taken => job.unit().map(|unit| name_conflict(&unit)),
            None if let Err(error) = &framework.requests => {
                Some(without_unit(&format!("because its request is not known: {error}")))
            }
            None if let Some(refusal) = state.refusal(&uid) => {
                Some(without_unit(&format!("because the API server refuses it: {refusal}")))
            }
            None => state.was_released(&uid).then(|| remade("is gone")),
        };
        let growths = self.growths(key, framework);
        let state = self.unit_requests.entry(key.clone()).or_default();
        if let Some(admission) = admission
            && state.admit(&uid, &admission)
        {
            self.effects.push(QueueEffect::Admit { key: key.clone(), uid: Arc::clone(&uid), admission });
        }
        if state.admit_growths(&uid, &growths) {
            self.effects.push(QueueEffect::AdmitGrowths { key: key.clone(), uid, growths });
        }
    }

    /// Whether its first unit lets a Framework begin; `None`: that is not decided yet.
    fn answer(&self, now: Now, unit: &UnitObject, framework: &Consumer) -> Option<Admission> {
        if unit.owner.as_ref() != Some(&framework.uid) {
            return Some(name_conflict(&unit.key));
        }
        if self.lets_begin(now, unit, framework) {
            return Some(Admission::Released { generation: framework.generation });
        }
        if unit.status.phase == Some(Phase::Dequeued) {
            return Some(remade("was released for less, or is being deleted"));
        }
        // It is released next, or a reason follows, unless a message says that its status is refused.
        let (reason, message) = (unit.status.reason?, &unit.status.message);
        let says_why = reason != Reason::Waiting || !message.is_empty();
        says_why.then(|| Admission::Waiting { reason: reason.to_string(), message: message.clone() })
    }

    /// The growths of a Framework that may begin: their generations, sorted.
    fn growths(&self, key: &Key, framework: &Consumer) -> Vec<i64> {
        let units = self.units.of(key).filter_map(|unit| self.units.get(unit));
        let is_released = |unit: &&Arc<UnitObject>| {
            unit.owner.as_ref() == Some(&framework.uid)
                && unit.status.phase == Some(Phase::Dequeued)
                && unit.finalizers.has_ours()
        };
        let generation = |unit: &Arc<UnitObject>| unit.consumer.generation_of(&unit.key);
        let mut growths: Vec<i64> = units.filter(is_released).filter_map(generation).collect();
        growths.retain(|generation| framework.growths.contains_key(generation));
        growths.sort_unstable();
        growths
    }
}

/// The admission of a Framework whose unit does not let it begin, and is made again.
fn remade(why: &str) -> Admission {
    let message = format!("its QueueUnit {why}: it is made again");
    Admission::Waiting { reason: Reason::Waiting.to_string(), message }
}

/// The admission of a Framework that gets no unit.
fn without_unit(why: &str) -> Admission {
    let message = format!("it has no QueueUnit, {why}");
    Admission::Waiting { reason: Reason::Waiting.to_string(), message }
}

/// The admission of a Framework whose unit cannot be created yet.
fn name_conflict(unit: &Key) -> Admission {
    let message = format!("the name {} is taken by a QueueUnit of another job", unit.name);
    Admission::Waiting { reason: Obstacle::NameConflict.as_str().to_owned(), message }
}
