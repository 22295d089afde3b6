//! Which member gets which slot: consistent hashing with bounded load.
//!
//! Each member stands at many points of a hash ring. A slot goes to the first member on its walk over the
//! ring that has room. No member gets more than 1.05 of an equal share, nor less than 0.95 of it, rounded.
//! Slots stay where they are within these bounds. So a change moves little besides the slots that must move:
//! those of a member that left, or the share of one that joined.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use framework_message::Slot;
use hashring::HashRing;

use crate::incarnation::Incarnation;

/// The points of a member on the ring.
const POINTS: u16 = 64;
/// The steps of a slot's walk, for each member, before any member with room takes it.
const STEPS: usize = 8;

/// A point on the ring. It is derived from the name of the member, not from its life.
#[derive(Clone, Debug)]
struct Point<'a> {
    member: &'a Incarnation,
    number: u16,
}

impl Hash for Point<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.member.lease(), self.number).hash(state);
    }
}

/// The largest number of slots of one member.
pub fn most(slots: usize, members: usize) -> usize {
    slots.saturating_mul(105).div_ceil(members.saturating_mul(100).max(1))
}

/// The smallest number of slots of one member once slots were moved.
pub fn least(slots: usize, members: usize) -> usize {
    slots.saturating_mul(95).checked_div(members.saturating_mul(100)).unwrap_or(0)
}

/// The owner of each slot, given its present owner. Without members there is none.
pub fn assign(
    slots: &BTreeMap<Slot, Option<Incarnation>>,
    members: &BTreeSet<Incarnation>,
) -> BTreeMap<Slot, Incarnation> {
    if members.is_empty() {
        return BTreeMap::new();
    }
    if let Some(owners) = balanced(slots, members) {
        return owners;
    }
    let mut work = Assignment::new(slots, members);
    let free = work.keep(slots);
    work.place(free);
    work.fill();
    work.owners.into_iter().map(|(slot, owner)| (slot, owner.clone())).collect()
}

/// The present owners, if they are members and none has too much or too little.
fn balanced(
    slots: &BTreeMap<Slot, Option<Incarnation>>,
    members: &BTreeSet<Incarnation>,
) -> Option<BTreeMap<Slot, Incarnation>> {
    let mut load: BTreeMap<_, usize> = members.iter().map(|member| (member, 0)).collect();
    for owner in slots.values() {
        *load.get_mut(owner.as_ref()?)? += 1;
    }
    let bounds = least(slots.len(), members.len())..=most(slots.len(), members.len());
    let owners = || slots.iter().filter_map(|(slot, owner)| Some((*slot, owner.clone()?))).collect();
    load.values().all(|load| bounds.contains(load)).then(owners)
}

/// An assignment while it is made.
struct Assignment<'a> {
    ring: HashRing<Point<'a>>,
    owners: BTreeMap<Slot, &'a Incarnation>,
    load: BTreeMap<&'a Incarnation, usize>,
    most: usize,
    least: usize,
}

impl<'a> Assignment<'a> {
    fn new(slots: &BTreeMap<Slot, Option<Incarnation>>, members: &'a BTreeSet<Incarnation>) -> Self {
        let mut ring = HashRing::new();
        let points = |member| (0..POINTS).map(move |number| Point { member, number });
        ring.batch_add(members.iter().flat_map(points).collect());
        Assignment {
            ring,
            owners: BTreeMap::new(),
            load: members.iter().map(|member| (member, 0)).collect(),
            most: most(slots.len(), members.len()),
            least: least(slots.len(), members.len()),
        }
    }

    /// Leaves slots with their owners as far as these may have them. Returns the other slots.
    fn keep(&mut self, slots: &BTreeMap<Slot, Option<Incarnation>>) -> Vec<Slot> {
        let mut free = Vec::new();
        let mut owned: BTreeMap<&'a Incarnation, Vec<(bool, Slot)>> = BTreeMap::new();
        for (slot, owner) in slots {
            let live = owner.as_ref().and_then(|owner| self.load.get_key_value(owner));
            match live.map(|(member, _)| *member) {
                None => free.push(*slot),
                Some(member) => {
                    owned.entry(member).or_default().push((self.home(*slot) == Some(member), *slot));
                }
            }
        }
        for (member, mut slots) in owned {
            // The slots that the ring gives to others go first.
            slots.sort_unstable_by_key(|(home, slot)| (!home, *slot));
            let over = slots.split_off(slots.len().min(self.most));
            slots.into_iter().for_each(|(_, slot)| self.give(slot, member));
            free.extend(over.into_iter().map(|(_, slot)| slot));
        }
        free.sort_unstable();
        free
    }

    /// Gives free slots away. Members without slots take the places of those that left; then members below
    /// the smallest share come first, once the rest is needed for that.
    fn place(&mut self, free: Vec<Slot>) {
        let empty = |(member, load): (&&'a Incarnation, &usize)| (*load == 0).then_some(*member);
        let newcomers: BTreeSet<_> = self.load.iter().filter_map(empty).collect();
        let joins = newcomers.len() < self.load.len();
        for (done, slot) in free.iter().enumerate() {
            let lacking: usize = self.load.values().map(|load| self.least.saturating_sub(*load)).sum();
            let bound = if free.len() - done <= lacking { self.least } else { self.most };
            let first = joins.then(|| self.walk(*slot, self.most, |member| newcomers.contains(member)));
            let member = first.flatten().or_else(|| self.walk(*slot, bound, |_| true));
            if let Some(member) = member.or_else(|| self.emptiest()) {
                self.give(*slot, member);
            }
        }
    }

    /// Moves slots from the fullest members to those below the smallest share.
    fn fill(&mut self) {
        while let Some((poor, _)) = self.load.iter().find(|(_, load)| **load < self.least) {
            let poor = *poor;
            let Some(rich) = self.load.iter().max_by_key(|(_, load)| **load).map(|(member, _)| *member)
            else {
                return;
            };
            let owned = self.owners.iter().filter(|(_, owner)| **owner == rich).map(|(slot, _)| *slot);
            let Some(slot) = owned.max_by_key(|slot| self.home(*slot) == Some(poor)) else { return };
            self.give(slot, poor);
        }
    }

    fn give(&mut self, slot: Slot, to: &'a Incarnation) {
        if let Some(from) = self.owners.insert(slot, to) {
            self.load.entry(from).and_modify(|load| *load = load.saturating_sub(1));
        }
        *self.load.entry(to).or_default() += 1;
    }

    /// The member whose point follows the slot on the ring.
    fn home(&self, slot: Slot) -> Option<&'a Incarnation> {
        self.ring.get(&(slot.0, 0_usize)).map(|point| point.member)
    }

    /// The first of these members on the slot's walk that has fewer slots than `bound`.
    fn walk(
        &self,
        slot: Slot,
        bound: usize,
        among: impl Fn(&Incarnation) -> bool,
    ) -> Option<&'a Incarnation> {
        let room = |member: &Incarnation| self.load.get(member).is_some_and(|load| *load < bound);
        if !self.load.keys().any(|member| among(member) && room(member)) {
            return None;
        }
        let mut walk =
            (0..self.load.len().saturating_mul(STEPS)).filter_map(|step| self.ring.get(&(slot.0, step)));
        let found = walk.find(|point| among(point.member) && room(point.member)).map(|point| point.member);
        found.or_else(|| self.load.keys().find(|member| among(member) && room(member)).copied())
    }

    fn emptiest(&self) -> Option<&'a Incarnation> {
        self.load.iter().min_by_key(|(_, load)| **load).map(|(member, _)| *member)
    }
}
