//! Changes of the map of which no reply shows whether they were applied, until a later map shows it.
//!
//! For Events and metrics only: the member itself goes by the map as it sees it.

use std::collections::VecDeque;

use framework_message::Slot;
use framework_shard::map::{Entry, SlotMap};
use framework_shard::moves::{Move, moves};
use framework_shard::{Seen, Version};

/// Changes that are remembered; beyond that the oldest one is forgotten. A member writes one at a time, and
/// its right to do so ends soon after the API server is silent, so more are not to be expected.
const REMEMBERED: usize = 8;

/// A write of the map, as far as it moves slots.
pub struct Change {
    /// The version that it replaces; `None`: it creates the map.
    base: Option<Version>,
    /// The slots that get another owner, with their new entries.
    moved: Vec<(Slot, Entry)>,
    /// The same, for people.
    pub moves: Vec<Move>,
}

impl Change {
    /// The change from one map to the next one.
    pub fn new(base: Option<Version>, before: Option<&SlotMap>, after: &SlotMap) -> Self {
        let owner = |slot: &Slot| before.and_then(|before| before.slots.get(slot)?.owner.as_ref());
        let moved = after.slots.iter().filter(|&(slot, entry)| owner(slot) != entry.owner.as_ref());
        let moved = moved.map(|(slot, entry)| (*slot, entry.clone())).collect();
        Change { base, moved, moves: moves(before, after) }
    }

    /// Whether this map is newer than the one that the change replaces. From then on it is never applied.
    fn is_decided(&self, seen: Version) -> bool {
        self.base < Some(seen)
    }

    /// Whether a map has what the change wrote, but for slots that have moved on since. Epochs follow the
    /// clock of their writer, so only another try of the same moves can look alike.
    fn is_in(&self, map: &SlotMap) -> bool {
        let is_written = |(slot, entry): &(Slot, Entry)| {
            map.slots.get(slot).is_some_and(|now| now.owner == entry.owner && now.epoch == entry.epoch)
        };
        let has_moved_on =
            |(slot, entry): &(Slot, Entry)| map.slots.get(slot).is_some_and(|now| now.epoch > entry.epoch);
        self.moved.iter().any(&is_written)
            && self.moved.iter().all(|one| is_written(one) || has_moved_on(one))
    }
}

/// The changes of unknown outcome, the oldest first.
#[derive(Default)]
pub struct Unconfirmed(VecDeque<Change>);

impl Unconfirmed {
    /// Another change has no reply.
    pub fn add(&mut self, change: Change) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(change);
    }

    /// A change was applied. Others of the same version, or an older one, were not, or are reported already.
    pub fn applied(&mut self, applied: &Change) {
        self.0.retain(|change| change.base > applied.base);
    }

    /// The moves that this map shows to be applied. Only one of several changes of one version can be: the
    /// last one stands for those that look like it. The decided changes are forgotten.
    pub fn shown_by(&mut self, seen: &Seen<SlotMap>) -> Option<Vec<Move>> {
        let map = seen.value.as_ref()?;
        let mut decided = self.0.iter().rev().filter(|change| change.is_decided(seen.version));
        let moves = decided.find(|change| change.is_in(map)).map(|change| change.moves.clone());
        self.0.retain(|change| !change.is_decided(seen.version));
        moves
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use framework_shard::Incarnation;

    use super::*;

    fn life(name: &str) -> Incarnation {
        Incarnation::new(name, "x")
    }

    /// A map in which `a` owns the slots 0 to 3, and one in which it handed the first two over to `b`.
    fn maps() -> (SlotMap, SlotMap) {
        let mut before = SlotMap::without_owners((0..4).map(Slot), Duration::from_secs(10), true);
        (0..4).for_each(|slot| before.seize(Slot(slot), life("a"), 100));
        [0, 1].into_iter().for_each(|slot| before.propose(Slot(slot), Some(life("b"))));
        let mut after = before.clone();
        [0, 1].into_iter().for_each(|slot| after.hand_over(Slot(slot), &life("a"), false, 200));
        (before, after)
    }

    fn unconfirmed() -> Unconfirmed {
        let (before, after) = maps();
        let mut unconfirmed = Unconfirmed::default();
        unconfirmed.add(Change::new(Some(Version(5)), Some(&before), &after));
        unconfirmed
    }

    /// The moves that a map of that version shows.
    fn shown(unconfirmed: &mut Unconfirmed, version: u64, map: &SlotMap) -> Vec<String> {
        let seen = Seen { version: Version(version), value: Some(map.clone()) };
        unconfirmed.shown_by(&seen).iter().flatten().map(Move::to_string).collect()
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn a_change_without_a_reply_is_shown_by_a_later_map() {
        let ((before, after), mut unconfirmed) = (maps(), unconfirmed());
        assert_eq!(shown(&mut unconfirmed, 5, &before), NOTHING, "it may still be applied");
        assert_eq!(unconfirmed.shown_by(&Seen { version: Version(6), value: None }), None);
        assert_eq!(shown(&mut unconfirmed, 6, &after), ["2 slots of a went to b"]);
        assert_eq!(shown(&mut unconfirmed, 6, &after), NOTHING, "once");
    }

    #[test]
    fn a_change_is_found_though_some_of_its_slots_have_moved_on() {
        let ((_, mut after), mut unconfirmed) = (maps(), unconfirmed());
        after.seize(Slot(0), life("c"), 300);
        assert_eq!(shown(&mut unconfirmed, 9, &after), ["2 slots of a went to b"]);
    }

    #[test]
    fn a_change_that_lost_to_another_one_is_never_shown() {
        let ((mut other, after), mut unconfirmed) = (maps(), unconfirmed());
        other.propose(Slot(3), Some(life("b")));
        assert_eq!(shown(&mut unconfirmed, 6, &other), NOTHING);
        assert_eq!(shown(&mut unconfirmed, 7, &after), NOTHING, "it was of another writer");
    }

    #[test]
    fn a_change_that_was_tried_twice_is_shown_once() {
        let ((before, after), mut unconfirmed) = (maps(), unconfirmed());
        unconfirmed.add(Change::new(Some(Version(5)), Some(&before), &after));
        assert_eq!(shown(&mut unconfirmed, 6, &after), ["2 slots of a went to b"]);
        let again = || Change::new(Some(Version(6)), Some(&before), &after);
        unconfirmed.add(again());
        unconfirmed.applied(&again());
        assert_eq!(shown(&mut unconfirmed, 7, &after), NOTHING, "the second try had a reply");
        unconfirmed.add(again());
        unconfirmed.applied(&Change::new(Some(Version(5)), Some(&before), &after));
        assert_eq!(shown(&mut unconfirmed, 7, &after), ["2 slots of a went to b"], "of a later version");
    }

    #[test]
    fn changes_without_end_take_bounded_memory() {
        let (before, after) = maps();
        let mut unconfirmed = Unconfirmed::default();
        (0..100).for_each(|_| unconfirmed.add(Change::new(None, Some(&before), &after)));
        assert_eq!(unconfirmed.0.len(), REMEMBERED);
    }
}
