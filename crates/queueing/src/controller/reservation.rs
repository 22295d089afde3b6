//! The quota that a released unit reserves.

use framework_api::queue::Phase;
use framework_core::Defect;
use framework_core::queue::Stage;
use framework_queue::ResourceRequests;
use jiff::Timestamp;

use super::QueueController;
use crate::object::UnitObject;
use crate::usage::less;

impl QueueController {
    /// The quota that a unit reserves if it is released, or may be. For a Framework that is the part of its
    /// request that was not returned, as long as the unit carries our finalizer. One that a user made needs
    /// no finalizer. For another job it is the present request, at most as much as was released, and the part
    /// of the rest that its Pods still use.
    pub(super) fn reservation(&self, unit: &UnitObject) -> ResourceRequests {
        if self.waits(unit) {
            return ResourceRequests::default();
        }
        if unit.consumer.is_framework() {
            let is_held = unit.is_by_hand() || unit.finalizers.has_ours();
            return if is_held { unit.reserved() } else { ResourceRequests::default() };
        }
        let given = unit.requests.clone().unwrap_or_default();
        let base = given.min(&self.asks_now(unit));
        let used = match self.settings.defects.has(Defect::ReturnAtEnd) {
            true => ResourceRequests::default(),
            false => self.job_of(unit).and_then(|job| self.usage.of(&job)).cloned().unwrap_or_default(),
        };
        base.plus(&less(&given, &base).min(&less(&used, &base)))
    }

    /// Whether a unit waits: it is not released, and no release of it may have been stored.
    pub(super) fn waits(&self, unit: &UnitObject) -> bool {
        let state = self.unit_states.get(&unit.key);
        unit.status.phase != Some(Phase::Dequeued)
            && state.is_none_or(|state| state.writes.releasing.is_none())
    }

    /// The present requests of the job of a unit.
    pub(super) fn asks_now(&self, unit: &UnitObject) -> ResourceRequests {
        let given = || unit.requests.clone().unwrap_or_default();
        if !self.objects.sees(&unit.consumer.kind) {
            return given();
        }
        let job = self.objects.job_of_unit(unit);
        match job.filter(|job| job.stage != Stage::Finished) {
            None => ResourceRequests::default(),
            // It may come to ask for as much again, until it has begun with less.
            Some(job) if job.stage == Stage::Waiting => given(),
            Some(job) => job.requests.clone().unwrap_or_else(|_| given()),
        }
    }

    /// Since when a unit waits: since its job was created, or grew. So a unit that is made again keeps its
    /// place.
    pub(super) fn enqueued(&self, unit: &UnitObject) -> Timestamp {
        if unit.is_of_framework() {
            return unit.notes.enqueued.map_or(unit.created, |since| since.min(unit.created));
        }
        self.objects.consumers.get(&unit.consumer).map_or(unit.created, |job| job.created)
    }

    /// Whether a unit asks for the growth of a Framework that was released.
    pub(super) fn grows(&self, unit: &UnitObject) -> bool {
        let first = unit.consumer.unit().and_then(|first| self.objects.units.get(&first));
        let was_released =
            |first: &UnitObject| first.status.phase == Some(Phase::Dequeued) && first.owner == unit.owner;
        unit.is_of_framework()
            && unit.consumer.generation_of(&unit.key).is_some()
            && first.is_some_and(|first| was_released(first))
    }

    /// Whether the finalizer of a unit that is being deleted may be removed here. A Framework's unit is
    /// finalised by the owner of the Framework's slot, and one whose job is of a kind that is not served
    /// reserves nothing once it is deleted.
    pub(super) fn may_remove_finalizer(&self, unit: &UnitObject, usage: &ResourceRequests) -> bool {
        if !unit.deleting || unit.is_of_framework() || self.recounts(&unit.key.namespace) {
            return false;
        }
        let kind = &unit.consumer.kind;
        let is_served = self.objects.sees(kind) || self.objects.undetermined.contains(kind);
        usage.is_empty() || !is_served || self.is_void(unit)
    }
}
