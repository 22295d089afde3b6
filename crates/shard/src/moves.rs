//! The moves of slots between two versions of the map, for people.

use std::collections::BTreeMap;
use std::fmt;

use crate::incarnation::Incarnation;
use crate::map::SlotMap;

/// Slots that went from one owner to another in one change of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The owner before; `None`: nobody.
    pub from: Option<Incarnation>,
    /// The owner after; `None`: nobody.
    pub to: Option<Incarnation>,
    /// Whether requests of the owner before may still land, as after a seizure: the new owner holds.
    pub unsettled: bool,
    /// How many slots.
    pub slots: usize,
}

/// The moves of a change, in the order of the owners. A change that only proposes has none.
pub fn moves(before: Option<&SlotMap>, after: &SlotMap) -> Vec<Move> {
    let mut moves = BTreeMap::new();
    for (slot, entry) in &after.slots {
        let from = before.and_then(|before| before.slots.get(slot)?.owner.clone());
        if from != entry.owner {
            let key = (from, entry.owner.clone(), entry.unsettled);
            *moves.entry(key).or_insert(0) += 1;
        }
    }
    let named = |((from, to, unsettled), slots)| Move { from, to, unsettled, slots };
    moves.into_iter().map(named).collect()
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |of: &Option<Incarnation>| of.as_ref().map_or("nobody", Incarnation::lease).to_owned();
        let slots = if self.slots == 1 { "slot" } else { "slots" };
        write!(f, "{} {slots} of {} went to {}", self.slots, name(&self.from), name(&self.to))?;
        let holds = if self.unsettled { ", which waits for requests of the owner before" } else { "" };
        f.write_str(holds)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use framework_message::Slot;

    use super::*;

    #[test]
    fn slots_are_counted_by_owners_and_proposals_move_nothing() {
        let [a, b] = ["a", "b"].map(|name| Incarnation::new(name, "x"));
        let slots: Vec<Slot> = (0..3).map(Slot).collect();
        let empty = SlotMap::without_owners(slots.clone(), Duration::from_secs(10), true);
        let mut first = empty.clone();
        slots.iter().for_each(|slot| first.seize(*slot, a.clone(), 1));
        let said = |before: &SlotMap, after: &SlotMap| -> Vec<String> {
            moves(Some(before), after).iter().map(Move::to_string).collect()
        };
        assert_eq!(said(&empty, &first), ["3 slots of nobody went to a"]);
        let mut proposed = first.clone();
        proposed.propose(slots[0], Some(b.clone()));
        assert!(moves(Some(&first), &proposed).is_empty());
        let mut after = proposed.clone();
        after.hand_over(slots[0], &a, false, 2);
        after.seize(slots[1], b, 2);
        let expected =
            ["1 slot of a went to b", "1 slot of a went to b, which waits for requests of the owner before"];
        assert_eq!(said(&proposed, &after), expected);
    }
}
