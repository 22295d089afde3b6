//! Slots come and go: grants, holds, and losses.

use std::time::Duration;

use framework_api::Framework;
use framework_api::name::SLOT_LABEL;
use framework_core::{Defect, Policy, permit, queue};
use framework_message::{Key, Now, Slot, Slots};

use super::Engine;
use crate::cache::Entry;
use crate::event::Effect;
use crate::framework_state::FrameworkState;
use crate::object::FrameworkObject;

/// The slot of a Framework: that of its UID, also if its label names another one.
pub(super) fn slot_of(object: &FrameworkObject, policy: &Policy) -> Slot {
    let label = || labelled(&object.content.as_ref().ok()?.0);
    let trusted = policy.defects.has(Defect::TrustLabel).then(label).flatten();
    trusted.unwrap_or_else(|| Slot::of(&object.uid))
}

/// The slot that the label of a Framework names, by which watches select it.
pub(super) fn label_of(state: &FrameworkState) -> Option<Slot> {
    labelled(&state.persisted.as_ref()?.framework)
}

fn labelled(framework: &Framework) -> Option<Slot> {
    framework.metadata.labels.as_ref()?.get(SLOT_LABEL)?.parse().ok().map(Slot)
}

impl Engine {
    /// Slots were granted. The cached objects of them may be older than the grant.
    pub(super) fn granted(&mut self, slots: Slots, grant: u64) {
        self.grants.grant(slots, grant);
        if self.policy.defects.has(Defect::TrustOldList) {
            return self.report_listed();
        }
        self.cache.unsync(slots);
    }

    /// The slots of which every kind was listed since their grant are reported.
    pub(super) fn report_listed(&mut self) {
        let listed = self.grants.newly_listed(self.cache.synced());
        if !listed.is_empty() {
            self.effects.push(Effect::Listed(listed));
        }
    }

    /// All Frameworks of these slots are evaluated: earlier changes were not acted on.
    pub(super) fn begin_slots(&mut self, now: Now, slots: Slots) {
        self.grants.begin(slots);
        self.mark_slots(now, slots);
    }

    /// Acts may be sent again for slots that were drained.
    pub(super) fn drain_called_off(&mut self, now: Now, slots: Slots) {
        self.drain.end(slots);
        self.mark_slots(now, slots);
    }

    /// When the next status write of unknown outcome for a slot that is drained and not settled can land no
    /// more. Nothing else may happen then.
    pub(super) fn drain_settles_at(&self) -> Option<Duration> {
        if self.drain.is_settled() {
            return None;
        }
        let states = self.cache.iter().filter_map(|(_, entry)| entry.state.as_ref());
        let drained = states.filter(|state| self.drain.contains(state.slot));
        let ends =
            drained.filter_map(|state| state.outgoing.write.lands_until(self.settings.request_lifetime));
        ends.filter(|end| self.now.steady < *end).min()
    }

    fn mark_slots(&mut self, now: Now, slots: Slots) {
        for key in self.cache.keys() {
            let state = self.state(&key).filter(|state| slots.contains(state.slot));
            if let Some(state) = state {
                state.schedule.mark_dirty(now.steady);
                self.schedule(now, &key);
            }
        }
    }

    /// Another replica owns these slots, or may own them: the state of their Frameworks is dropped. The
    /// Frameworks are not gone, so nothing is written into the history. Objects whose own label names one of
    /// the slots leave the other entries: neither an event nor a LIST will show their end.
    pub(super) fn lost(&mut self, slots: Slots) {
        let now = self.now;
        self.grants.lose(slots);
        self.drain.end(slots);
        if self.policy.defects.has(Defect::TrustOldList) {
            return;
        }
        self.cache.unsync(slots);
        for key in self.cache.keys() {
            let Some(entry) = self.cache.get_mut(&key) else { continue };
            match &entry.state {
                Some(state) if slots.contains(state.slot) => {
                    self.cache.forget(&key);
                    self.consumers.forget(&key);
                    self.ready.set(&key, None);
                    continue;
                }
                Some(_) => {}
                None => entry.known.left_in = entry.known.left_in.filter(|slot| !slots.contains(*slot)),
            }
            if entry.known.lose(slots) {
                self.mark_dirty(now, &key, true);
            }
            self.doubt_of_others(now, &key);
        }
        // If a slot comes back, their replies are not about the states that are made then.
        let cache = &self.cache;
        self.sending.in_flight.forget(|key| cache.get(key).is_none());
    }

    /// Whether an object has the label of a slot that is not granted. A watch that is to select less still
    /// shows such objects.
    pub(super) fn is_of_others(&self, label: Option<Slot>) -> bool {
        label.is_some_and(|slot| !self.grants.contains(slot))
    }

    /// An earlier owner may have sent every create that the status permits, and a write that records their
    /// objects. All of these may still land. Each create counts as sent and not answered until the hold ends
    /// (rule B1).
    pub(super) fn inherit(&mut self, now: Now, key: &Key) {
        if self.policy.defects.has(Defect::ForgetHold) {
            return;
        }
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return };
        let Some(until) = self.grants.inherited_until(state.slot, now.steady) else { return };
        let Some(persisted) = &state.persisted else { return };
        let Some(status) = &persisted.status else { return };
        state.outgoing.write.inherit(until);
        if until <= now.steady {
            return;
        }
        if self.policy.queueing && queue::is_unreleased(&persisted.framework, status) {
            // Its unit says whether it may begin. A second create of its first ConfigMap has the same name,
            // and is refused.
            return;
        }
        for action in permit::creates(status, &persisted.framework) {
            state.outgoing.inherit(&action, until, &mut known.objects);
        }
    }
}
