//! The duties of the leader: it gives slots without an owner away, and proposes moves between owners.
//!
//! The leader is needed for progress only. Everything it writes is a compare-and-swap, and it seizes only
//! from lives that it proved gone itself, so two leaders do no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use framework_message::Slot;

use crate::incarnation::Incarnation;
use crate::map::{Entry, SlotMap};
use crate::peers::Peers;
use crate::policy::Policy;
use crate::ring;

/// How long each owner has been asked to hand a slot over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Awaited(BTreeMap<Slot, (Entry, Duration)>);

impl Awaited {
    /// Takes in a version of the map.
    pub fn see(&mut self, map: &SlotMap, at: Duration) {
        self.0.retain(|slot, (entry, _)| map.slots.get(slot) == Some(entry));
        for (slot, entry) in map.slots.iter().filter(|(_, entry)| entry.next.is_some()) {
            self.0.entry(*slot).or_insert_with(|| (entry.clone(), at));
        }
    }

    /// Starts to time all owners again, after a time in which none of them may have been able to hand over.
    pub fn time_again(&mut self, at: Duration) {
        self.0.values_mut().for_each(|(_, since)| *since = at);
    }

    /// The owners that have kept another member waiting for longer than a drain can take.
    pub fn overdue(&self, at: Duration, patience: Duration) -> BTreeSet<Incarnation> {
        let overdue = self.0.values().filter(|(_, since)| at.saturating_sub(*since) > patience);
        overdue.filter_map(|(entry, _)| entry.owner.clone()).collect()
    }
}

/// Changes the map as the members that are ready and the lives that are gone require.
/// `moves`: whether slots may move between owners that live.
pub fn plan(map: &mut SlotMap, peers: &Peers, at: Duration, policy: &Policy, wall: u64, moves: bool) {
    let slowest = map.duration.max(policy.duration);
    let ready = peers.ready(at, slowest, policy);
    let owns = |member: &Incarnation| map.slots.values().any(|entry| entry.owner.as_ref() == Some(member));
    let settled = ready.iter().filter(|(member, seen)| **seen >= policy.settle || owns(member));
    let mut members: BTreeSet<_> = settled.map(|(member, _)| member.clone()).collect();
    if members.is_empty() {
        members = ready.keys().cloned().collect();
    }
    let targets = ring::assign(&planned(map, &members), &members);
    for (slot, target) in targets {
        let Some(entry) = map.slots.get(&slot) else { continue };
        match &entry.owner {
            None => map.seize(slot, target, wall),
            Some(owner) if peers.is_gone(owner) => map.seize(slot, target, wall),
            Some(owner) if moves && ready.contains_key(owner) => map.propose(slot, Some(target)),
            // Its owner leaves, and hands over itself, or it is silent, and no hand-over can be asked of it.
            Some(_) => {}
        }
    }
    map.duration = peers.slowest(map, at, policy);
}

/// Whether [`plan`] would change nothing, as almost always. Found without a copy of the map.
pub fn is_settled(map: &SlotMap, peers: &Peers, at: Duration, policy: &Policy) -> bool {
    let ready = peers.ready(at, map.duration.max(policy.duration), policy);
    let seen_for_long = ready.iter().filter(|(_, seen)| **seen >= policy.settle);
    let mut load: BTreeMap<_, usize> = seen_for_long.map(|(member, _)| (member, 0)).collect();
    for entry in map.slots.values() {
        let owner = entry.owner.as_ref().filter(|owner| entry.next.is_none() && !peers.is_gone(owner));
        let Some(slots) = owner.and_then(|owner| load.get_mut(owner)) else { return false };
        *slots += 1;
    }
    let (slots, members) = (map.slots.len(), load.len());
    let share = ring::least(slots, members)..=ring::most(slots, members);
    members == ready.len()
        && load.values().all(|slots| share.contains(slots))
        && peers.slowest(map, at, policy) == map.duration
}

/// The owners that a member which leaves hands its slots over to.
pub fn successors(
    map: &SlotMap,
    me: &Incarnation,
    peers: &Peers,
    at: Duration,
    policy: &Policy,
) -> BTreeMap<Slot, Incarnation> {
    let ready = peers.ready(at, map.duration.max(policy.duration), policy);
    let members = ready.into_keys().filter(|member| member != me).collect();
    ring::assign(&planned(map, &members), &members)
}

/// Where each slot is to be: with the member that it was proposed to, else with its owner.
fn planned(map: &SlotMap, members: &BTreeSet<Incarnation>) -> BTreeMap<Slot, Option<Incarnation>> {
    let next = |entry: &Entry| entry.next.clone().filter(|next| members.contains(next));
    map.slots.iter().map(|(slot, entry)| (*slot, next(entry).or_else(|| entry.owner.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incarnation::Gone;
    use crate::lease::LeaseRecord;
    use crate::version::{Seen, Version};

    const SECOND: Duration = Duration::from_secs(1);

    /// A map whose owners are drawn among the first members. `even`: after the leader's plan, with some moves
    /// by chance.
    fn drawn(
        random: &mut fastrand::Rng,
        members: &[Incarnation],
        even: bool,
        plan: impl Fn(&mut SlotMap),
    ) -> SlotMap {
        let mut map = SlotMap::without_owners(Slot::all(), SECOND * 10, false);
        if even {
            plan(&mut map);
        }
        let moved = if even { random.usize(0..12) } else { 256 };
        for _ in 0..moved {
            let slot = Slot(random.u8(..));
            map.seize(slot, members[random.usize(0..members.len())].clone(), 1);
        }
        map
    }

    #[test]
    fn a_settled_map_is_one_that_the_plan_leaves_as_it_is() {
        let policy = Policy::new(SECOND * 10, SECOND * 2, SECOND * 3, SECOND * 28).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        let mut settled = [0, 0];
        for round in 0..600 {
            let members: Vec<_> =
                (0..1 + round % 5).map(|one| Incarnation::new(&format!("m{one}"), "x")).collect();
            let mut peers = Peers::default();
            for member in &members {
                let holder = Some(member.clone());
                let record = LeaseRecord { holder, duration: policy.duration, ..LeaseRecord::default() };
                peers.see(member.lease(), Seen { version: Version(1), value: Some(record) }, Duration::ZERO);
            }
            if members.len() > 1 && random.u8(..) < 20 {
                peers.prove(Gone(members[0].clone()));
            }
            let change = |map: &mut SlotMap| plan(map, &peers, SECOND * 9, &policy, 1, true);
            let map = drawn(&mut random, &members, round % 4 > 0, change);
            let mut planned = map.clone();
            change(&mut planned);
            let is_settled = is_settled(&map, &peers, SECOND * 9, &policy);
            assert!(!is_settled || planned == map, "round {round}: it is changed");
            settled[usize::from(is_settled)] += 1;
        }
        assert!(settled.iter().all(|rounds| *rounds > 100), "{settled:?}");
    }

    #[test]
    fn an_owner_that_keeps_others_waiting_is_overdue_until_it_hands_over() {
        let life = |name| Incarnation::new(name, "x");
        let mut map = SlotMap::without_owners([Slot(3)], Duration::from_secs(10), false);
        map.seize(Slot(3), life("a"), 1);
        map.propose(Slot(3), Some(life("b")));
        let mut awaited = Awaited::default();
        awaited.see(&map, Duration::ZERO);
        let late = |awaited: &Awaited, at| {
            awaited.overdue(Duration::from_secs(at), Duration::from_secs(66)).into_iter().collect::<Vec<_>>()
        };
        assert_eq!([66, 67, 68].map(|at| late(&awaited, at)), [vec![], vec![life("a")], vec![life("a")]]);
        awaited.time_again(Duration::from_secs(68));
        assert_eq!([69, 134, 135].map(|at| late(&awaited, at)), [vec![], vec![], vec![life("a")]]);
        map.hand_over(Slot(3), &life("a"), true, 2);
        awaited.see(&map, Duration::from_secs(69));
        assert!(late(&awaited, 200).is_empty());
    }
}
