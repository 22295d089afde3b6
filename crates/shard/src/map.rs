//! The map of slots: who owns each, under which epoch, and who is to have it next.
//!
//! One object holds it, and every change is a compare-and-swap on that object. There are four: the leader
//! *proposes*, the owner *hands over* or *leaves*, and a slot whose owner is proved gone is *seized*.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::Slot;

use crate::incarnation::Incarnation;

/// The entry of one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The life that may act for the slot; `None`: nobody.
    pub owner: Option<Incarnation>,
    /// Rises with each change of owner.
    pub epoch: u64,
    /// The life that the owner is asked to hand it over to.
    pub next: Option<Incarnation>,
    /// Requests of an earlier owner may still land: the owner begins with a hold.
    pub unsettled: bool,
}

/// The map of all slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlotMap {
    /// The longest duration of a Lease by which any member acts.
    pub duration: Duration,
    /// The entry of each slot.
    pub slots: BTreeMap<Slot, Entry>,
}

impl SlotMap {
    /// The map after none was there. The owners under a deleted map are not known, so no slot is settled,
    /// unless this is the first map of all.
    pub fn without_owners(slots: impl IntoIterator<Item = Slot>, duration: Duration, is_first: bool) -> Self {
        let entry = Entry { unsettled: !is_first, ..Entry::default() };
        SlotMap { duration, slots: slots.into_iter().map(|slot| (slot, entry.clone())).collect() }
    }

    /// The same map, whose next epochs are above this one.
    #[must_use]
    pub fn above(mut self, epoch: u64) -> Self {
        self.slots.values_mut().for_each(|entry| entry.epoch = entry.epoch.max(epoch));
        self
    }

    /// The leader proposes that the owner of a slot hands it over; `None`: that it keeps it.
    pub fn propose(&mut self, slot: Slot, next: Option<Incarnation>) {
        if let Some(entry) = self.slots.get_mut(&slot) {
            entry.next = next.filter(|next| entry.owner.as_ref() != Some(next));
        }
    }

    /// The owner hands a slot over to the life that was proposed. Without a proposal nothing changes.
    pub fn hand_over(&mut self, slot: Slot, from: &Incarnation, unsettled: bool, wall: u64) {
        if let Some(entry) = self.owned_entry(slot, from)
            && let Some(next) = entry.next.take()
        {
            entry.change(Some(next), unsettled, wall);
        }
    }

    /// The owner leaves: a slot goes to the member that the ring names, or to nobody.
    pub fn leave(
        &mut self,
        slot: Slot,
        from: &Incarnation,
        to: Option<Incarnation>,
        unsettled: bool,
        wall: u64,
    ) {
        if let Some(entry) = self.owned_entry(slot, from) {
            entry.change(to, unsettled, wall);
        }
    }

    /// A slot without an owner, or with one that is proved gone, gets a new owner. Requests of the old
    /// one may still land.
    pub fn seize(&mut self, slot: Slot, to: Incarnation, wall: u64) {
        if let Some(entry) = self.slots.get_mut(&slot) {
            let unsettled = entry.unsettled || entry.owner.is_some();
            entry.change(Some(to), unsettled, wall);
        }
    }

    /// No slot is handed over to this life any more.
    pub fn withdraw(&mut self, next: &Incarnation) {
        for entry in self.slots.values_mut().filter(|entry| entry.next.as_ref() == Some(next)) {
            entry.next = None;
        }
    }

    /// Whether a slot belongs to this life, or is to be handed over to it.
    pub fn names(&self, one: &Incarnation) -> bool {
        self.slots.values().any(|entry| [&entry.owner, &entry.next].contains(&&Some(one.clone())))
    }

    fn owned_entry(&mut self, slot: Slot, owner: &Incarnation) -> Option<&mut Entry> {
        self.slots.get_mut(&slot).filter(|entry| entry.owner.as_ref() == Some(owner))
    }
}

impl Entry {
    /// Epochs rise strictly, and are at the wall clock at least. As far as clocks agree, they are also above
    /// those of a deleted map that this program has not seen.
    fn change(&mut self, owner: Option<Incarnation>, unsettled: bool, wall: u64) {
        let epoch = self.epoch.saturating_add(1).max(wall);
        *self = Entry { owner, epoch, next: None, unsettled };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot(3);

    fn one(name: &str) -> Incarnation {
        Incarnation::new(name, "x")
    }

    fn map(owner: &str) -> SlotMap {
        let mut map = SlotMap::without_owners([SLOT], Duration::from_secs(10), false);
        map.seize(SLOT, one(owner), 100);
        map
    }

    #[test]
    fn only_the_owner_hands_over_and_only_as_proposed() {
        let mut map = map("a");
        let before = map.clone();
        map.hand_over(SLOT, &one("a"), false, 0);
        assert_eq!(map, before, "nothing was proposed");
        map.propose(SLOT, Some(one("b")));
        map.hand_over(SLOT, &one("c"), false, 0);
        assert_eq!(map.slots[&SLOT].owner, Some(one("a")), "not the owner");
        map.hand_over(SLOT, &one("a"), false, 0);
        let expected = Entry { owner: Some(one("b")), epoch: 101, next: None, unsettled: false };
        assert_eq!(map.slots[&SLOT], expected);
    }

    #[test]
    fn epochs_rise_with_the_wall_clock_and_strictly_without_it() {
        let mut map = map("a");
        map.seize(SLOT, one("b"), 500);
        assert_eq!(map.slots[&SLOT].epoch, 500);
        map.leave(SLOT, &one("b"), None, false, 3);
        assert_eq!(map.slots[&SLOT].epoch, 501, "the wall clock was set back");
    }

    #[test]
    fn a_map_that_is_made_again_goes_on_above_an_epoch_that_was_seen() {
        let made = |wall| {
            let mut map = SlotMap::without_owners([SLOT], Duration::from_secs(10), false).above(500);
            map.seize(SLOT, one("a"), wall);
            map.slots[&SLOT].epoch
        };
        assert_eq!([3, 500, 700].map(made), [501, 501, 700]);
    }

    #[test]
    fn a_seizure_leaves_a_slot_unsettled_unless_nobody_owned_it() {
        let mut map = map("a");
        map.leave(SLOT, &one("a"), None, false, 0);
        map.seize(SLOT, one("b"), 0);
        assert!(!map.slots[&SLOT].unsettled, "it was left clean");
        map.seize(SLOT, one("c"), 0);
        assert!(map.slots[&SLOT].unsettled);
    }

    #[test]
    fn a_proposal_is_withdrawn_from_a_member_that_leaves() {
        let mut map = map("a");
        map.propose(SLOT, Some(one("b")));
        assert!(map.names(&one("b")));
        map.withdraw(&one("b"));
        assert!(!map.names(&one("b")) && map.names(&one("a")));
    }
}
