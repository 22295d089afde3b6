//! The slots that one member has: each from the grant, over its listing, to the hand-over.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::{Slot, Slots};

use crate::version::Version;

/// How far a slot has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It was granted, and its objects are being listed.
    Listing,
    /// It is acted for.
    Held,
    /// Nothing new begins; the requests in flight settle.
    Draining {
        /// When that began.
        since: Duration,
    },
    /// It is acted for no more. It is listed again if a version of the map above `base` names the owner, and
    /// no next owner. Until then a hand-over of unknown outcome may still be applied.
    Released {
        /// The version that the hand-over replaces.
        base: Version,
        /// Whether requests may still be on the way.
        unsettled: bool,
    },
}

/// A slot that a member owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    /// The epoch of the grant.
    pub epoch: u64,
    /// How far it has come.
    pub phase: Phase,
}

/// All slots of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holdings(BTreeMap<Slot, Holding>);

impl Holdings {
    /// The holding of a slot, if there is one.
    pub fn get(&self, slot: Slot) -> Option<Holding> {
        self.0.get(&slot).copied()
    }

    /// Each slot that is owned.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, Holding)> {
        self.0.iter().map(|(slot, holding)| (*slot, *holding))
    }

    /// A slot has come that far.
    pub fn set(&mut self, slot: Slot, holding: Holding) {
        self.0.insert(slot, holding);
    }

    /// A slot is not owned any more.
    pub fn remove(&mut self, slot: Slot) {
        self.0.remove(&slot);
    }

    /// Whether no slot is owned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The slots that are acted for, those that are being drained too.
    pub fn acting(&self) -> Slots {
        let acting = |holding: &Holding| matches!(holding.phase, Phase::Held | Phase::Draining { .. });
        self.0.iter().filter(|(_, holding)| acting(holding)).map(|(slot, _)| *slot).collect()
    }

    /// The slots that are given up, and whether requests for them may still be on the way.
    pub fn released(&self) -> impl Iterator<Item = (Slot, bool)> {
        self.0.iter().filter_map(|(slot, holding)| match holding.phase {
            Phase::Released { unsettled, .. } => Some((*slot, unsettled)),
            _ => None,
        })
    }

    /// Of these slots, those whose present drain began at `since` or before.
    pub fn drained_since(&self, slots: Slots, since: Duration) -> Slots {
        let began =
            |holding: &Holding| matches!(holding.phase, Phase::Draining { since: begun } if begun <= since);
        let drained = self.0.iter().filter(|(slot, holding)| slots.contains(**slot) && began(holding));
        drained.map(|(slot, _)| *slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_earlier_drain_does_not_count() {
        let mut holdings = Holdings::default();
        let second = Duration::from_secs;
        holdings.set(Slot(0), Holding { epoch: 1, phase: Phase::Draining { since: second(5) } });
        holdings.set(Slot(1), Holding { epoch: 1, phase: Phase::Held });
        let drained = |since| holdings.drained_since(Slots::ALL, second(since)).iter().count();
        assert_eq!([4, 5, 6].map(drained), [0, 1, 1]);
        assert_eq!(holdings.drained_since(Slots::NONE, second(6)), Slots::NONE);
    }
}
