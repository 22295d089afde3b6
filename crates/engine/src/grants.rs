//! The slots that this replica was granted, and how far each of them has come.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::{Slot, SlotSelection, Slots};

/// A slot that was granted.
#[derive(Clone, Copy, Debug, Default)]
struct Grant {
    /// The number of the grant.
    number: u64,
    /// All kinds were listed since the grant, and that was reported.
    listed: bool,
    /// Its Frameworks are evaluated.
    begun: bool,
}

/// The slots that this replica was granted.
#[derive(Debug)]
pub struct Grants {
    slots: BTreeMap<Slot, Grant>,
    /// Until when creates of an earlier owner may land, on the monotonic clock.
    holds: BTreeMap<Slot, Duration>,
}

/// Every slot was granted from the start, to a controller that runs alone.
impl Default for Grants {
    fn default() -> Self {
        let grant = Grant { number: 0, listed: true, begun: true };
        Grants { slots: Slot::all().map(|slot| (slot, grant)).collect(), holds: BTreeMap::new() }
    }
}

impl Grants {
    /// No slot was granted yet.
    pub fn none() -> Self {
        Grants { slots: BTreeMap::new(), holds: BTreeMap::new() }
    }

    /// Slots are granted. Nothing is decided for them before they are listed and begun.
    pub fn grant(&mut self, slots: Slots, number: u64) {
        let grant = Grant { number, listed: false, begun: false };
        self.slots.extend(slots.iter().map(|slot| (slot, grant)));
    }

    /// Creates of an earlier owner of these slots may land until this moment.
    pub fn hold(&mut self, slots: Slots, until: Duration) {
        self.holds.extend(slots.iter().map(|slot| (slot, until)));
    }

    /// The Frameworks of these slots are evaluated from now on.
    pub fn begin(&mut self, slots: Slots) {
        for slot in slots.iter() {
            if let Some(grant) = self.slots.get_mut(&slot) {
                grant.begun = true;
            }
        }
    }

    /// Slots are lost.
    pub fn lose(&mut self, slots: Slots) {
        self.slots.retain(|slot, _| !slots.contains(*slot));
        self.holds.retain(|slot, _| !slots.contains(*slot));
    }

    /// Whether a slot is granted.
    pub fn contains(&self, slot: Slot) -> bool {
        self.slots.contains_key(&slot)
    }

    /// Whether the Frameworks of a slot are evaluated.
    pub fn has_begun(&self, slot: Slot) -> bool {
        self.slots.get(&slot).is_some_and(|grant| grant.begun)
    }

    /// The end of the hold of a slot, if it lasts.
    pub fn held_until(&self, slot: Slot, now: Duration) -> Option<Duration> {
        self.holds.get(&slot).copied().filter(|until| now < *until)
    }

    /// The end of the hold of a slot, if a listed object may be older than that end: it lasts, or it ended
    /// before the slot was begun.
    pub fn inherited_until(&self, slot: Slot, now: Duration) -> Option<Duration> {
        self.holds.get(&slot).copied().filter(|until| now < *until || !self.has_begun(slot))
    }

    /// The granted slots that a LIST of this selection shows as they were after the grant.
    pub fn covered(&self, selection: SlotSelection) -> Slots {
        let is_covered = |(slot, grant): &(&Slot, &Grant)| {
            selection.list.contains(**slot) && grant.number <= selection.grant
        };
        self.slots.iter().filter(is_covered).map(|(slot, _)| *slot).collect()
    }

    /// Of the slots of which every kind is listed, those that were not reported before.
    pub fn newly_listed(&mut self, synced: Slots) -> Slots {
        let news = |(slot, grant): (&Slot, &mut Grant)| {
            let is_news = synced.contains(*slot) && !std::mem::replace(&mut grant.listed, true);
            is_news.then_some(*slot)
        };
        self.slots.iter_mut().filter(|(slot, _)| synced.contains(**slot)).filter_map(news).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(slots: &[u8]) -> Slots {
        slots.iter().copied().map(Slot).collect()
    }

    #[test]
    fn a_list_that_began_before_a_grant_does_not_cover_it() {
        let mut grants = Grants::none();
        grants.grant(slots(&[1]), 1);
        grants.grant(slots(&[2]), 2);
        assert_eq!(grants.covered(SlotSelection::whole(1, slots(&[1, 2]))), slots(&[1]));
        assert_eq!(grants.covered(SlotSelection::whole(2, slots(&[2, 3]))), slots(&[2]));
        grants.lose(slots(&[2]));
        grants.grant(slots(&[2]), 3);
        assert_eq!(grants.covered(SlotSelection::whole(2, slots(&[1, 2]))), slots(&[1]));
    }

    #[test]
    fn a_slot_is_reported_as_listed_once_for_each_grant() {
        let mut grants = Grants::none();
        grants.grant(slots(&[1, 2]), 1);
        assert_eq!(grants.newly_listed(slots(&[1])), slots(&[1]));
        assert_eq!(grants.newly_listed(slots(&[1, 2, 3])), slots(&[2]));
        grants.grant(slots(&[1]), 2);
        assert_eq!(grants.newly_listed(Slots::ALL), slots(&[1]));
        assert_eq!(Grants::default().newly_listed(Slots::ALL), Slots::NONE);
    }

    #[test]
    fn a_hold_ends_with_its_time_or_with_the_slot() {
        let second = Duration::from_secs(1);
        let mut grants = Grants::none();
        grants.hold(slots(&[1, 2]), second);
        grants.grant(slots(&[1, 2]), 1);
        assert_eq!(grants.held_until(Slot(1), Duration::ZERO), Some(second));
        assert_eq!(grants.held_until(Slot(1), second), None);
        grants.lose(slots(&[2]));
        assert_eq!(grants.held_until(Slot(2), Duration::ZERO), None);
    }
}
