//! The slots that are drained: no new act is sent for them, and their unrecorded outcomes are written once
//! more.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::{Slot, Slots};

/// Which slots are drained, and since when.
#[derive(Debug, Default)]
pub struct Drain {
    since: BTreeMap<Slot, Duration>,
    announced: Slots,
}

impl Drain {
    /// Drains these slots from now on. Returns the slots that were not drained before.
    pub fn begin(&mut self, slots: Slots, now: Duration) -> Slots {
        let new: Slots = slots.iter().filter(|slot| !self.since.contains_key(slot)).collect();
        self.since.extend(new.iter().map(|slot| (slot, now)));
        new
    }

    /// Whether a slot is drained.
    pub fn contains(&self, slot: Slot) -> bool {
        self.since.contains_key(&slot)
    }

    /// Whether no slot is drained.
    pub fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    /// The drained slots that need no more waiting: those that are settled, and those that have been drained
    /// for `limit`.
    pub fn done(&self, unsettled: Slots, limit: Duration, now: Duration) -> Slots {
        let is_done =
            |(slot, since): &(&Slot, &Duration)| !unsettled.contains(**slot) || now >= **since + limit;
        self.since.iter().filter(is_done).map(|(slot, _)| *slot).collect()
    }

    /// When the next slot will have been drained for `limit`.
    pub fn next(&self, limit: Duration, now: Duration) -> Option<Duration> {
        self.since.values().map(|since| *since + limit).filter(|at| *at > now).min()
    }

    /// The slots among these that were not announced before.
    pub fn announce(&mut self, done: Slots) -> Slots {
        let news = done.without(self.announced);
        self.announced = self.announced.or(done);
        news
    }

    /// These slots are not drained any more.
    pub fn end(&mut self, slots: Slots) {
        self.since.retain(|slot, _| !slots.contains(*slot));
        self.announced = self.announced.without(slots);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_done_when_it_is_settled_or_has_waited_long_enough() {
        let second = Duration::from_secs(1);
        let slots = |slots: &[u8]| slots.iter().copied().map(Slot).collect::<Slots>();
        let mut drain = Drain::default();
        assert_eq!(drain.begin(slots(&[1]), second), slots(&[1]));
        assert_eq!(drain.begin(slots(&[1, 2]), second * 2), slots(&[2]), "the first goes on");
        assert!(drain.contains(Slot(1)) && !drain.contains(Slot(3)));
        assert_eq!(drain.done(slots(&[1, 3]), second * 10, second * 5), slots(&[2]));
        assert_eq!(drain.next(second * 10, second * 5), Some(second * 11));
        assert_eq!(drain.done(slots(&[1, 2]), second * 10, second * 11), slots(&[1]));
        assert_eq!(drain.next(second * 10, second * 12), None);
        assert_eq!(drain.announce(slots(&[1])), slots(&[1]));
        assert_eq!(drain.announce(slots(&[1, 2])), slots(&[2]), "each once");
        drain.end(slots(&[1]));
        assert!(!drain.contains(Slot(1)) && drain.contains(Slot(2)));
        assert_eq!(drain.announce(slots(&[1, 2])), slots(&[1]));
    }
}
