//! The slots that a replica was granted, and which of them each kind of objects is yet to list.

use std::collections::BTreeMap;

use framework_message::{Slot, SlotSelection, Slots};

use super::listing::{ATTEMPTS_IN_QUEUES, KINDS};

/// The slots that this replica may act on, and those of them that each kind has yet to list.
#[derive(Debug)]
pub struct Granted {
    /// The number of the latest grant.
    number: u64,
    /// The slots, each with the number of its grant.
    slots: BTreeMap<Slot, u64>,
    /// Those that it acts for: they were listed.
    begun: Slots,
    /// The slots that each kind has not listed since their grant, in the order of the LISTs.
    unlisted: [Slots; KINDS],
}

impl Granted {
    /// Another grant, with a number that is higher than those before.
    pub fn grant(&mut self, slots: Slots, number: u64) {
        self.number = number;
        self.slots.extend(slots.iter().map(|slot| (slot, number)));
        self.unlisted = self.unlisted.map(|unlisted| unlisted.or(slots));
    }

    /// These slots are acted for from now on.
    pub fn begin(&mut self, slots: Slots) {
        self.begun = self.begun.or(slots);
    }

    /// These slots are not to be acted on any more.
    pub fn lose(&mut self, slots: Slots) {
        self.begun = self.begun.without(slots);
        self.slots.retain(|slot, _| !slots.contains(*slot));
        self.unlisted = self.unlisted.map(|unlisted| unlisted.without(slots));
    }

    /// The number of the latest grant.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// All of the slots.
    pub fn slots(&self) -> Slots {
        self.slots.keys().copied().collect()
    }

    /// The slots whose grant has this number, or a lower one.
    pub fn until(&self, number: u64) -> Slots {
        self.slots.iter().filter(|(_, grant)| **grant <= number).map(|(slot, _)| *slot).collect()
    }

    /// Those that it acts for.
    pub fn begun(&self) -> Slots {
        self.begun
    }

    /// The selection of the first kind.
    pub fn wanted(&self) -> SlotSelection {
        SlotSelection { grant: self.number, slots: self.slots(), list: self.unlisted[0] }
    }

    /// The selection of the first kind of queueing.
    pub fn wanted_in_queues(&self) -> SlotSelection {
        SlotSelection { list: self.unlisted[ATTEMPTS_IN_QUEUES], ..self.wanted() }
    }

    /// The slots that a kind of queueing has yet to list.
    pub fn unlisted_in_queues(&self) -> Slots {
        self.unlisted[ATTEMPTS_IN_QUEUES..].iter().fold(Slots::NONE, |all, unlisted| all.or(*unlisted))
    }

    /// A LIST of the kind at this place is complete. Returns the selection of the kind after it.
    pub fn listed(&mut self, place: usize, shown: SlotSelection) -> Option<SlotSelection> {
        let is_shown = |slot: &Slot| self.slots.get(slot).is_some_and(|grant| *grant <= shown.grant);
        let listed = shown.list.iter().filter(is_shown).collect();
        self.unlisted[place] = self.unlisted[place].without(listed);
        let next = Some(place + 1).filter(|next| *next != ATTEMPTS_IN_QUEUES)?;
        let unlisted = self.unlisted.get(next)?;
        Some(SlotSelection { list: unlisted.and(shown.slots), ..shown })
    }
}

impl Default for Granted {
    fn default() -> Self {
        Granted { number: 0, slots: BTreeMap::new(), begun: Slots::NONE, unlisted: [Slots::NONE; KINDS] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(slots: &[u8]) -> Slots {
        slots.iter().copied().map(Slot).collect()
    }

    #[test]
    fn each_kind_lists_the_slots_granted_since_it_was_listed() {
        let mut granted = Granted::default();
        granted.grant(of(&[1, 2]), 1);
        let first = granted.wanted();
        assert_eq!(first, SlotSelection::whole(1, of(&[1, 2])));
        assert_eq!(granted.listed(0, first), Some(first));
        assert_eq!(granted.listed(1, first), Some(first));
        assert_eq!(granted.listed(2, first), None, "there is no other kind");
        granted.grant(of(&[3]), 2);
        granted.lose(of(&[1]));
        let second = SlotSelection { grant: 2, slots: of(&[2, 3]), list: of(&[3]) };
        assert_eq!(granted.wanted(), second);
        assert_eq!(granted.listed(0, second), Some(second));
        assert_eq!(granted.wanted().list, Slots::NONE);
    }

    #[test]
    fn a_slot_is_acted_for_from_its_begin_until_it_is_lost() {
        let mut granted = Granted::default();
        granted.grant(of(&[1, 2, 3]), 1);
        assert_eq!(granted.begun(), Slots::NONE);
        granted.begin(of(&[1, 2]));
        granted.lose(of(&[2, 3]));
        granted.grant(of(&[2]), 2);
        assert_eq!((granted.begun(), granted.slots()), (of(&[1]), of(&[1, 2])));
    }

    #[test]
    fn a_slot_that_is_granted_again_while_it_is_listed_is_listed_again() {
        let mut granted = Granted::default();
        granted.grant(of(&[1, 2]), 1);
        let first = granted.wanted();
        granted.lose(of(&[2]));
        granted.grant(of(&[2]), 2);
        // The LIST began before the second grant.
        assert_eq!(granted.listed(0, first), Some(first));
        assert_eq!(granted.wanted(), SlotSelection { grant: 2, slots: of(&[1, 2]), list: of(&[2]) });
    }

    #[test]
    fn the_kinds_of_queueing_are_listed_beside_those_of_the_engine() {
        let mut granted = Granted::default();
        // The first LIST shows the objects that name no slot.
        let none = SlotSelection { list: Slots::ALL, ..SlotSelection::whole(0, Slots::NONE) };
        assert_eq!(granted.listed(3, none), Some(SlotSelection::whole(0, Slots::NONE)));
        granted.grant(of(&[1, 2]), 1);
        assert_eq!(granted.listed(3, none), Some(SlotSelection::whole(0, Slots::NONE)), "it began before");
        let first = granted.wanted_in_queues();
        assert_eq!((first, granted.unlisted_in_queues()), (granted.wanted(), of(&[1, 2])));
        assert_eq!(granted.listed(3, first), Some(first));
        assert_eq!(granted.unlisted_in_queues(), of(&[1, 2]), "the Pods are not listed");
        granted.lose(of(&[1]));
        assert_eq!(granted.listed(4, SlotSelection { list: Slots::ALL, ..first }), None);
        assert_eq!((granted.unlisted_in_queues(), granted.wanted().list), (Slots::NONE, of(&[2])));
    }

    #[test]
    fn a_kind_selects_no_slot_that_the_kind_before_has_not_listed() {
        let mut granted = Granted::default();
        granted.grant(of(&[1]), 1);
        let first = granted.wanted();
        granted.grant(of(&[2]), 2);
        assert_eq!(granted.listed(0, first), Some(SlotSelection::whole(1, of(&[1]))));
        let second = granted.wanted();
        assert_eq!(second, SlotSelection { grant: 2, slots: of(&[1, 2]), list: of(&[2]) });
        // The second kind has not listed the first slot meanwhile.
        assert_eq!(granted.listed(0, second), Some(SlotSelection::whole(2, of(&[1, 2]))));
    }
}
