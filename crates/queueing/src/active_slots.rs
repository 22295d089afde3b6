//! The slots for which one side of the queues acts.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::{MayAct, Now, Ownership, Right, Slot, Slots};

/// The slots for which one side of the queues acts. Ownership alone is not enough: the objects of a slot must
/// have been listed since its grant, and the slot must not be in the course of being handed over.
#[derive(Clone, Debug)]
pub struct ActiveSlots {
    ownership: Ownership,
    active: Slots,
    /// When it began to act for each slot, on the monotonic clock.
    begun: BTreeMap<Slot, Duration>,
    /// By slot, until when requests of an earlier owner may land, on the monotonic clock.
    held_until: BTreeMap<Slot, Duration>,
    /// It has every slot from the start, and learns of no grants.
    is_alone: bool,
}

/// A controller that runs alone has every slot from the start.
impl Default for ActiveSlots {
    fn default() -> Self {
        ActiveSlots {
            ownership: Ownership::default(),
            active: Slots::ALL,
            begun: BTreeMap::new(),
            held_until: BTreeMap::new(),
            is_alone: true,
        }
    }
}

impl ActiveSlots {
    /// The slots that `ownership` says are owned, all of which it has from the start.
    pub fn of(ownership: Ownership) -> Self {
        ActiveSlots { ownership, ..ActiveSlots::default() }
    }

    /// The same, before the first grant.
    #[must_use]
    pub fn without_slots(self) -> Self {
        ActiveSlots { active: Slots::NONE, is_alone: false, ..self }
    }

    /// Whether it learns of no grants: requests of a predecessor may land after its start.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Requests of an earlier owner of these slots may land until then.
    pub fn hold(&mut self, slots: Slots, until: Duration) {
        self.held_until.extend(slots.iter().map(|slot| (slot, until)));
    }

    /// It acts for these slots from now on.
    pub fn begin(&mut self, now: Now, slots: Slots) {
        self.active = self.active.or(slots);
        self.begun.extend(slots.iter().map(|slot| (slot, now.steady)));
    }

    /// When it began to act for a slot; `None`: at its start.
    pub fn begun(&self, slot: Slot) -> Option<Duration> {
        self.begun.get(&slot).copied()
    }

    /// It sends nothing new for these slots.
    pub fn drain(&mut self, slots: Slots) {
        self.active = self.active.without(slots);
    }

    /// These slots are not owned any more.
    pub fn lose(&mut self, slots: Slots) {
        self.drain(slots);
        self.held_until.retain(|slot, _| !slots.contains(*slot));
        self.begun.retain(|slot, _| !slots.contains(*slot));
    }

    /// Whether it acts for a slot.
    pub fn may_act(&self, slot: Slot, now: Now) -> MayAct {
        if self.active.contains(slot) { self.ownership.may_act(slot, now) } else { MayAct::No }
    }

    /// Whether it acted for a slot, and may do so again without another grant.
    pub fn is_paused(&self, slot: Slot, now: Now) -> bool {
        self.may_act(slot, now) == MayAct::Paused
    }

    /// The right to send a request for a slot, as it is now; `None`: it never ends.
    pub fn right(&self, slot: Slot) -> Option<Right> {
        self.ownership.right(slot)
    }

    /// Until when requests of an earlier owner of a slot may land.
    pub fn held_until(&self, slot: Slot) -> Option<Duration> {
        self.held_until.get(&slot).copied()
    }

    /// Whether a slot is acted for, but for doubts about its ownership.
    pub fn contains(&self, slot: Slot) -> bool {
        self.active.contains(slot)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const NOW: Now = Now { steady: Duration::ZERO, boot: Duration::ZERO, wall: Timestamp::UNIX_EPOCH };

    fn slots(slots: &[u8]) -> Slots {
        slots.iter().copied().map(Slot).collect()
    }

    #[test]
    fn an_owned_slot_is_acted_for_between_its_begin_and_its_drain() {
        let mut active_slots = ActiveSlots::default().without_slots();
        let mut answers = vec![active_slots.may_act(Slot(1), NOW)];
        active_slots.begin(NOW, slots(&[1, 2]));
        answers.push(active_slots.may_act(Slot(1), NOW));
        active_slots.drain(slots(&[1]));
        answers.extend([active_slots.may_act(Slot(1), NOW), active_slots.may_act(Slot(2), NOW)]);
        assert_eq!(answers, [MayAct::No, MayAct::Yes, MayAct::No, MayAct::Yes]);
    }

    #[test]
    fn a_hold_outlives_a_drain_that_is_called_off_and_ends_with_the_slot() {
        let until = Duration::from_secs(1);
        let mut active_slots = ActiveSlots::default().without_slots();
        active_slots.hold(slots(&[1]), until);
        active_slots.begin(NOW, slots(&[1]));
        active_slots.drain(slots(&[1]));
        active_slots.begin(NOW, slots(&[1]));
        assert_eq!(active_slots.held_until(Slot(1)), Some(until));
        active_slots.lose(slots(&[1]));
        assert_eq!((active_slots.held_until(Slot(1)), active_slots.contains(Slot(1))), (None, false));
    }
}
