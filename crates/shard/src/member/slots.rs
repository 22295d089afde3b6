//! The slots of a member: from the grant, over listing and drain, to the hand-over.

use std::time::Duration;

use framework_message::{Slot, Slots};

use super::Member;
use crate::event::Effect;
use crate::holding::{Holding, Phase};
use crate::map::SlotMap;
use crate::policy::hold;

impl Member {
    /// Another version of the map: slots were granted, asked for, or lost.
    pub(super) fn follow(&mut self, at: Duration, effects: &mut Vec<Effect>) {
        let map = self.map.get().cloned();
        let version = self.map.version();
        let owners = map.iter().flat_map(|map| map.slots.values()).filter_map(|entry| entry.owner.as_ref());
        self.peers.expect(owners, at);
        map.iter().for_each(|map| self.awaited.see(map, at));
        let [mut lost, mut granted, mut unsettled] = [Slots::NONE; 3];
        for slot in self.slots.clone() {
            let entry = map.as_ref().and_then(|map| map.slots.get(&slot));
            let entry = entry.filter(|entry| entry.owner.as_ref() == Some(&self.me));
            let Some(entry) = entry else {
                if self.holdings.get(slot).is_some() {
                    lost.insert(slot);
                    self.holdings.remove(slot);
                    self.map.holds.forget(slot);
                }
                continue;
            };
            match self.holdings.get(slot).filter(|holding| holding.epoch == entry.epoch) {
                None => {
                    self.holdings.set(slot, Holding { epoch: entry.epoch, phase: Phase::Listing });
                    granted.insert(slot);
                    if entry.unsettled {
                        unsettled.insert(slot);
                    }
                }
                Some(Holding { phase: Phase::Released { base, unsettled: late }, .. }) if version > base => {
                    if entry.next.is_some() || self.stopping {
                        self.enter(slot, Phase::Released { base: version, unsettled: late });
                        continue;
                    }
                    // The shell dropped its objects with the release: it is listed again.
                    self.enter(slot, Phase::Listing);
                    granted.insert(slot);
                    if late || self.map.holds.lasts(slot, at) {
                        unsettled.insert(slot);
                    }
                }
                Some(_) => {}
            }
        }
        if !lost.is_empty() {
            effects.push(Effect::Disown(lost));
        }
        if !granted.is_empty() {
            let until = at.saturating_add(hold());
            unsettled.iter().for_each(|slot| self.map.holds.begin(slot, until));
            effects.extend([
                Effect::Disown(granted),
                Effect::Hold { slots: unsettled, until },
                Effect::List(granted),
            ]);
        }
    }

    /// These slots can be acted for.
    pub(super) fn listed(&mut self, slots: Slots) {
        for slot in slots.iter() {
            if self.holdings.get(slot).is_some_and(|holding| holding.phase == Phase::Listing) {
                self.enter(slot, Phase::Held);
                self.owned_until = None;
            }
        }
    }

    /// A slot comes to another phase.
    pub(super) fn enter(&mut self, slot: Slot, phase: Phase) {
        if let Some(holding) = self.holdings.get(slot) {
            self.holdings.set(slot, Holding { phase, ..holding });
        }
    }

    /// Whether a slot is to be handed over: it was proposed to another member, or this one leaves.
    fn wanted(&self, slot: Slot) -> bool {
        let proposed = |map: &SlotMap| map.slots.get(&slot).is_some_and(|entry| entry.next.is_some());
        self.stopping || self.map.get().is_some_and(proposed)
    }

    /// These slots are acted for no more, if another member is to have them.
    pub(super) fn release(&mut self, slots: Slots, late: bool, effects: &mut Vec<Effect>) {
        let base = self.map.version();
        let mut released = Slots::NONE;
        for slot in slots.iter() {
            let draining = self.holdings.get(slot).map(|holding| holding.phase);
            if matches!(draining, Some(Phase::Draining { .. } | Phase::Listing)) && self.wanted(slot) {
                self.enter(slot, Phase::Released { base, unsettled: late });
                released.insert(slot);
            }
        }
        if !released.is_empty() {
            effects.push(Effect::Disown(released));
        }
    }

    /// Begins and ends drains: a slot that is not wanted any more is kept, and a drain takes no longer than a
    /// request can live.
    pub(super) fn release_overdue(&mut self, at: Duration, effects: &mut Vec<Effect>) {
        let [mut begins, mut never_acted, mut resumed] = [Slots::NONE; 3];
        for (slot, Holding { phase, .. }) in self.holdings.iter() {
            match (phase, self.wanted(slot)) {
                (Phase::Held, true) => begins.insert(slot),
                (Phase::Draining { .. }, false) => resumed.insert(slot),
                (Phase::Listing, true) => never_acted.insert(slot),
                _ => {}
            }
        }
        begins.iter().for_each(|slot| self.enter(slot, Phase::Draining { since: at }));
        resumed.iter().for_each(|slot| self.enter(slot, Phase::Held));
        if !begins.is_empty() {
            effects.push(Effect::Drain { slots: begins, since: at });
        }
        self.resume(resumed, effects);
        self.release(never_acted, false, effects);
        if let Some(since) = at.checked_sub(self.policy.request_lifetime) {
            self.release(self.holdings.drained_since(Slots::ALL, since), true, effects);
        }
    }

    /// Slots are kept after all. [`Self::prove`] says until when.
    fn resume(&mut self, slots: Slots, effects: &mut Vec<Effect>) {
        if !slots.is_empty() {
            self.owned_until = None;
            effects.push(Effect::Resume(slots));
        }
    }
}
