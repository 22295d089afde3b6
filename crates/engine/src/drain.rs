//! The slots that are drained: no new act is sent for them, and their unrecorded outcomes are written once
//! more.

use std::time::Duration;

use framework_message::{Slot, Slots};

/// Which slots are drained, and which of them are settled.
///
/// The time that a drain may take is not bounded here. The replica that gives a slot up late has to say so to
/// the next one, see `framework_shard::member`.
#[derive(Debug, Default)]
pub struct Drain {
    slots: Slots,
    announced: Slots,
    /// When, on the monotonic clock, another slot may be settled though nothing happens.
    pub settles_at: Option<Duration>,
}

impl Drain {
    /// Drains these slots from now on. Returns the slots that were not drained before.
    pub fn begin(&mut self, slots: Slots) -> Slots {
        let new = slots.without(self.slots);
        self.slots = self.slots.or(slots);
        new
    }

    /// Whether a slot is drained.
    pub fn contains(&self, slot: Slot) -> bool {
        self.slots.contains(slot)
    }

    /// Whether no slot is drained.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether every drained slot was announced as settled.
    pub fn is_settled(&self) -> bool {
        self.slots.without(self.announced).is_empty()
    }

    /// The drained slots that are settled.
    pub fn done(&self, unsettled: Slots) -> Slots {
        self.slots.without(unsettled)
    }

    /// The slots among these that were not announced before.
    pub fn announce(&mut self, done: Slots) -> Slots {
        let news = done.without(self.announced);
        self.announced = self.announced.or(done);
        news
    }

    /// These slots are not drained any more.
    pub fn end(&mut self, slots: Slots) {
        self.slots = self.slots.without(slots);
        self.announced = self.announced.without(slots);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_done_when_it_is_settled_and_announced_once() {
        let slots = |slots: &[u8]| slots.iter().copied().map(Slot).collect::<Slots>();
        let mut drain = Drain::default();
        assert_eq!(drain.begin(slots(&[1])), slots(&[1]));
        assert_eq!(drain.begin(slots(&[1, 2])), slots(&[2]), "the first goes on");
        assert!(drain.contains(Slot(1)) && !drain.contains(Slot(3)));
        assert_eq!(drain.done(slots(&[1, 3])), slots(&[2]));
        assert_eq!(drain.announce(slots(&[1])), slots(&[1]));
        assert_eq!(drain.announce(slots(&[1, 2])), slots(&[2]), "each once");
        drain.end(slots(&[1]));
        assert!(!drain.contains(Slot(1)) && drain.contains(Slot(2)));
        assert_eq!(drain.announce(slots(&[1, 2])), slots(&[1]));
    }
}
