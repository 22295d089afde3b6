//! The grants of slots to this replica, as the controller is told of them.

use std::collections::BTreeMap;

use framework_message::{Slot, Slots};

/// The grants, each with a number.
#[derive(Debug, Default)]
pub struct Grants {
    /// The number of the latest grant.
    number: u64,
    /// The last grant of each slot.
    of: BTreeMap<Slot, u64>,
    /// The slots that are acted for.
    begun: Slots,
}

impl Grants {
    /// Slots are granted. Returns the number of the grant.
    pub fn grant(&mut self, slots: Slots) -> u64 {
        self.number += 1;
        self.of.extend(slots.iter().map(|slot| (slot, self.number)));
        self.number
    }

    /// Those of the slots that were not granted again after the grant with this number.
    pub fn until(&self, number: u64, slots: Slots) -> Slots {
        slots.iter().filter(|slot| self.of.get(slot).is_some_and(|grant| *grant <= number)).collect()
    }

    /// These slots are acted for. Returns those that were not before.
    pub fn begin(&mut self, slots: Slots) -> Slots {
        let begins = slots.without(self.begun);
        self.begun = self.begun.or(slots);
        begins
    }

    /// These slots are not acted for any more. Returns those that were.
    pub fn end(&mut self, slots: Slots) -> Slots {
        let ended = slots.and(self.begun);
        self.begun = self.begun.without(slots);
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(slots: &[u8]) -> Slots {
        slots.iter().copied().map(Slot).collect()
    }

    #[test]
    fn a_slot_that_is_granted_again_was_not_listed_for_the_grant_before() {
        let mut grants = Grants::default();
        let first = grants.grant(slots(&[1, 2]));
        let second = grants.grant(slots(&[3]));
        assert_eq!(grants.until(second, slots(&[1, 2, 3])), slots(&[1, 2, 3]), "a later grant hides no slot");
        assert_eq!(grants.until(first, slots(&[1, 3, 4])), slots(&[1]));
        let third = grants.grant(slots(&[2]));
        assert_eq!(grants.until(second, slots(&[1, 2, 3])), slots(&[1, 3]));
        assert_eq!(grants.until(third, slots(&[2])), slots(&[2]));
    }

    #[test]
    fn a_slot_begins_once_until_it_ends() {
        let mut grants = Grants::default();
        assert_eq!(grants.begin(slots(&[1, 2])), slots(&[1, 2]));
        assert_eq!(grants.begin(slots(&[2, 3])), slots(&[3]));
        assert_eq!(grants.end(slots(&[2, 4])), slots(&[2]));
        assert_eq!(grants.begin(slots(&[2])), slots(&[2]));
    }
}
