//! The units that users made for Frameworks, with or without the label of a queue.
//!
//! A user deletes such a unit; its share is returned here, once, when its Framework has ended. The owner of
//! the slot of the Framework's UID writes that. A unit that names no UID is for the first Framework of its
//! name that is seen after the release. That is written into the unit, so that each later owner knows it.
//!
//! A user may make ten thousand units for one Framework. A change of one of them, or of a Framework that runs
//! on, concerns none of the others.

use std::sync::Arc;

use framework_api::queue::Phase;
use framework_core::queue::Stage;
use framework_message::{Key, Now, Slot, Slots};
use framework_queue::ResourceRequests;

use super::FrameworkUnits;
use super::verdict::Verdict;
use crate::object::UnitObject;
use crate::outgoing::Work;

impl FrameworkUnits {
    /// The Frameworks for which units of users have come or gone since the last call, and whether any names
    /// them now. The engine is to report those, also if they are in no queue.
    pub fn take_named(&mut self) -> Vec<(Key, bool)> {
        self.units.take_renamed()
    }

    /// UID of the Framework that a unit is for, as far as that is known.
    pub(super) fn framework_of(&self, unit: &UnitObject) -> Option<Arc<str>> {
        let reported = || Some(&self.frameworks.get(&unit.consumer.key)?.framework.as_ref()?.uid);
        unit.framework_uid().or_else(reported).cloned()
    }

    /// As [`FrameworkUnits::verdict`], for a unit that a user made.
    pub(super) fn by_hand(&self, now: Now, unit: &UnitObject) -> Verdict {
        if unit.status.phase != Some(Phase::Dequeued) || !unit.holds_by_hand() {
            return Verdict::Keep;
        }
        let nothing = || Verdict::Return(ResourceRequests::default());
        let reported = self.frameworks.get(&unit.consumer.key);
        let framework = reported.and_then(|reported| reported.framework.as_ref());
        let uid = unit.framework_uid();
        match framework.filter(|framework| uid.is_none_or(|uid| *uid == framework.uid)) {
            // One that is being deleted may be there since before the unit was made for the next one.
            Some(framework) if uid.is_none() && framework.deleting => Verdict::Keep,
            Some(framework) if framework.stage == Stage::Finished && !self.has_strays(unit) => nothing(),
            Some(framework) if uid.is_none() => Verdict::Bind(Arc::clone(&framework.uid)),
            Some(_) => Verdict::Keep,
            None if uid.is_none() => Verdict::Keep,
            None => self.before_return(now, unit).unwrap_or_else(nothing),
        }
    }

    /// Looks again at the units that users made for this Framework.
    pub(super) fn look_by_hand(&mut self, framework: &Key) {
        for unit in self.units.by_hand(framework) {
            self.outgoing.offer(Work::Unit(unit.clone()), false);
        }
    }

    /// The same, for all Frameworks of these slots.
    pub(super) fn look_by_hand_in(&mut self, slots: Slots) {
        let units = &self.units;
        let is_of = |unit: &&Key| {
            let uid = units.get(unit).and_then(|unit| unit.framework_uid());
            uid.is_none_or(|uid| slots.contains(Slot::of(uid)))
        };
        for unit in units.all_by_hand().filter(is_of) {
            self.outgoing.offer(Work::Unit(unit.clone()), false);
        }
    }
}

impl UnitObject {
    /// Whether a user made it for a Framework: no object controls it.
    pub fn is_by_hand(&self) -> bool {
        self.owner.is_none() && self.consumer.is_framework()
    }

    /// Whether, made so, it holds a share, or may come to: it was not returned.
    pub fn holds_by_hand(&self) -> bool {
        self.is_by_hand() && !self.deleting && !self.reserved().is_empty()
    }

    /// UID of the Framework that it is for, if it names one, or is bound to one.
    pub fn framework_uid(&self) -> Option<&Arc<str>> {
        let named = self.owner.as_ref().or(self.consumer_uid.as_ref());
        named.or(self.notes.bound_to.as_ref()).filter(|_| self.consumer.is_framework())
    }
}
