//! One rule after another, in worlds where only one thing goes wrong.

use std::time::Duration;

use framework_message::{Slot, Slots};
use framework_shard::defect::Defects;
use framework_shard::event::Event;
use framework_shard::lease::{LeaseRecord, UNKNOWN};
use framework_shard::map::Entry;
use framework_shard::member::LEADER_LEASE;
use framework_shard::{Incarnation, LONGEST_LEASE, Seen, Version};

use crate::world::{Item, World};
use crate::{lease_of, policy};

const SLOT: Slot = Slot(0);

/// A world without faults in which these replicas have settled.
fn settled(names: &[&str]) -> World {
    let mut world = World::new(7, policy(Defects::NONE), 4);
    world.faults.calm = true;
    for name in names {
        world.join(name, &format!("pod of {name}"));
    }
    run(&mut world, 60);
    world.is_settled().unwrap();
    world
}

fn run(world: &mut World, seconds: i64) {
    world.run(world.time + seconds * 1000).unwrap();
}

/// The only replica is cut off for this time.
fn cut(world: &mut World, seconds: i64) {
    let one = world.pick().unwrap();
    world.cut(one, 0, seconds * 1000);
}

/// Runs until this is true. Returns the seconds that passed.
fn until(world: &mut World, limit: i64, is: impl Fn(&World) -> bool) -> i64 {
    let begun = world.time;
    while !is(world) {
        assert!(world.time - begun < limit * 1000, "not within {limit} s");
        world.run(world.time + 100).unwrap();
    }
    (world.time - begun) / 1000
}

fn entry(world: &World) -> &Entry {
    &world.store.map.as_ref().unwrap().1.slots[&SLOT]
}

fn owner(world: &World) -> Incarnation {
    entry(world).owner.clone().unwrap()
}

fn number(world: &World, one: &Incarnation) -> u64 {
    *world.replicas.iter().find(|(_, replica)| replica.me == *one).unwrap().0
}

#[test]
fn a_lone_replica_writes_the_map_before_it_acts() {
    let mut world = World::new(7, policy(Defects::NONE), 4);
    world.faults.calm = true;
    world.join("a", "pod");
    let waited = until(&mut world, 60, |world| !world.acting(SLOT).is_empty());
    assert_eq!(world.acting(SLOT), [&owner(&world)]);
    assert!(waited < 3 && !entry(&world).unsettled, "nobody acted before the first map: {waited} s");
}

#[test]
fn a_map_that_others_may_have_seen_is_not_made_again_at_once() {
    let mut world = settled(&["a"]);
    world.delete_map();
    world.delete_lease("frameworkcontroller-leader");
    world.join("b", "pod of b");
    let waited = until(&mut world, 60, |world| world.store.map.is_some());
    assert!(waited >= 21 && entry(&world).unsettled, "{waited} s");
}

/// The leader before it may have made a map that was deleted before this one saw it.
#[test]
fn a_new_leader_counts_the_absence_of_the_map_from_its_own_read() {
    let mut world = settled(&["a", "b"]);
    world.delete_map();
    run(&mut world, 20);
    let holder = |world: &World| world.store.leases[LEADER_LEASE].1.holder.clone();
    let first = holder(&world);
    world.stop(number(&world, first.as_ref().unwrap()));
    until(&mut world, 10, |world| holder(world).is_some_and(|next| Some(next) != first));
    assert!(world.store.map.is_none());
    let waited = until(&mut world, 60, |world| world.store.map.is_some());
    assert!(waited >= 21 && entry(&world).unsettled, "{waited} s");
}

/// Two hours behind that of each replica which has written the map.
const BEHIND: i64 = -7_200_000;

#[test]
fn a_map_that_is_made_again_goes_on_above_the_epochs_of_the_last_one() {
    let mut world = settled(&["a", "b"]);
    let before = entry(&world).epoch;
    world.delete_map();
    world.replicas.values_mut().for_each(|one| one.clocks.off = BEHIND);
    until(&mut world, 60, |world| world.store.map.is_some());
    assert!(entry(&world).epoch > before, "{} follows {before}", entry(&world).epoch);
}

#[test]
fn the_next_life_of_a_program_remembers_the_epochs_of_a_deleted_map() {
    let mut world = settled(&["a", "b"]);
    let before = entry(&world).epoch;
    let lives: Vec<_> = world.replicas.values().map(|one| one.me.clone()).collect();
    world.delete_map();
    run(&mut world, 2);
    ["a", "b"].into_iter().for_each(|name| world.delete_lease(name));
    until(&mut world, 10, |world| world.replicas.values().all(|one| !lives.contains(&one.me)));
    world.replicas.values_mut().for_each(|one| one.clocks.off = BEHIND);
    until(&mut world, 120, |world| world.store.map.is_some());
    assert!(entry(&world).epoch > before, "{} follows {before}", entry(&world).epoch);
}

#[test]
fn a_program_that_has_seen_no_map_makes_one_by_its_wall_clock() {
    let mut world = settled(&["a"]);
    let before = entry(&world).epoch;
    let first = world.pick().unwrap();
    world.crash(first);
    world.delete_map();
    let joined = world.join("b", "pod of b");
    world.replicas.entry(joined).and_modify(|one| one.clocks.off = BEHIND);
    until(&mut world, 120, |world| world.store.map.is_some());
    let now = world.replicas[&joined].clocks.now(world.time).wall.as_millisecond();
    let ago = u64::try_from(now).unwrap() - entry(&world).epoch;
    assert!(entry(&world).epoch < before && ago < 5000, "{} follows {before}", entry(&world).epoch);
}

#[test]
fn a_granted_slot_is_acted_for_once_it_was_listed() {
    let mut world = World::new(7, policy(Defects::NONE), 4);
    world.faults.calm = true;
    world.join("a", "pod");
    world.faults.lists_hang = true;
    run(&mut world, 60);
    assert!(world.counts.lists == 1 && entry(&world).owner.is_some());
    assert!(world.acting(SLOT).is_empty());
}

#[test]
fn a_member_that_hears_nothing_stops_by_its_own_deadline() {
    let mut world = settled(&["a"]);
    cut(&mut world, 100);
    // Its clock may be slow by a tenth, and the last renewal may be up to an interval old.
    assert!((5..9).contains(&until(&mut world, 10, |world| world.acting(SLOT).is_empty())));
}

/// Its watch of the map stands still, and so do its reads. The Lease is renewed all the same.
#[test]
fn a_member_that_hears_nothing_of_the_map_stops_though_it_renews() {
    let mut world = settled(&["a"]);
    let before = world.store.leases["a"].1.renewals;
    world.faults.map_is_silent = true;
    // The last read that was answered may have been sent a duration ago.
    let waited = until(&mut world, 30, |world| world.acting(SLOT).is_empty());
    assert!((5..18).contains(&waited), "{waited} s");
    run(&mut world, 20);
    assert!(world.acting(SLOT).is_empty());
    assert!(world.store.leases["a"].1.renewals > before + 8);
    world.faults.map_is_silent = false;
    until(&mut world, 6, |world| !world.acting(SLOT).is_empty());
}

#[test]
fn the_slots_of_a_member_that_is_cut_off_are_seized_when_it_has_stopped() {
    let mut world = settled(&["a", "b"]);
    let (old, begun) = (owner(&world), world.time);
    world.cut(number(&world, &old), 0, 300_000);
    until(&mut world, 10, |world| !world.acting(SLOT).contains(&&old));
    assert_eq!(owner(&world), old);
    until(&mut world, 20, |world| owner(world) != old);
    // After 1.2 durations from a renewal that may be an interval old, by a clock that is off by a tenth.
    let waited = (world.time - begun) / 1000;
    assert!((8..18).contains(&waited), "{waited} s");
}

/// The others have timed its own Lease and the leader's, both at once.
#[test]
fn the_slots_of_a_leader_that_dies_are_seized_after_one_expiry() {
    let mut world = settled(&["a", "b", "c"]);
    let leader = world.store.leases["frameworkcontroller-leader"].1.holder.clone().unwrap();
    let is_owner = |entry: &Entry| entry.owner.as_ref() == Some(&leader);
    let owns = |world: &World| world.store.map.as_ref().unwrap().1.slots.values().any(is_owner);
    assert!(owns(&world), "it has slots itself");
    let begun = world.time;
    world.crash(number(&world, &leader));
    until(&mut world, 20, |world| !owns(world));
    // As for any member: two expiries, one after the other, would be 24 s.
    let waited = (world.time - begun) / 1000;
    assert!((8..18).contains(&waited), "{waited} s");
}

#[test]
fn a_lapse_that_ends_loses_nothing() {
    let mut world = settled(&["a"]);
    let (before, lists) = (entry(&world).clone(), world.counts.lists);
    cut(&mut world, 3600);
    run(&mut world, 3599);
    assert!(world.acting(SLOT).is_empty());
    run(&mut world, 10);
    assert_eq!((world.acting(SLOT).len(), entry(&world), world.counts.lists), (1, &before, lists));
}

#[test]
fn a_wall_clock_that_jumps_ahead_pauses_until_a_renewal_succeeds() {
    let mut world = settled(&["a"]);
    let one = world.pick().unwrap();
    world.replicas.get_mut(&one).unwrap().clocks.off += 2500;
    until(&mut world, 1, |world| world.acting(SLOT).is_empty());
    until(&mut world, 3, |world| !world.acting(SLOT).is_empty());
}

#[test]
fn a_wall_clock_that_jumps_pauses_also_in_the_step_of_a_listing() {
    let mut world = settled(&["a", "b"]);
    let leaves = owner(&world);
    let stays = *world.replicas.iter().find(|(_, one)| one.me != leaves).unwrap().0;
    let me = world.replicas[&stays].me.clone();
    let held: Vec<Slot> = (0..4).map(Slot).filter(|slot| world.acting(*slot) == [&me]).collect();
    world.faults.lists_hang = true;
    world.stop(number(&world, &leaves));
    until(&mut world, 40, |world| owner(world) == me);
    run(&mut world, 1);
    world.replicas.get_mut(&stays).unwrap().clocks.off += 2500;
    world.later(stays, 0, Item::Tell(Event::Listed(Slots::ALL)));
    world.run(world.time + 1).unwrap();
    assert!(
        !held.is_empty() && held.iter().all(|slot| world.acting(*slot).is_empty()),
        "no renewal was sent since"
    );
    run(&mut world, 3);
    assert_eq!(world.acting(SLOT), [&me]);
}

#[test]
fn a_hand_over_of_unknown_outcome_is_not_taken_back() {
    let mut world = settled(&["a"]);
    world.join("b", "pod of b");
    world.join("c", "pod of c");
    let asked =
        |world: &World| world.store.map.as_ref().unwrap().1.slots.values().any(|one| one.next.is_some());
    until(&mut world, 20, asked);
    let moving: Vec<_> = world.store.map.as_ref().unwrap().1.slots.clone().into_iter().collect();
    let moving: Vec<_> = moving.into_iter().filter(|(_, one)| one.next.is_some()).collect();
    world.faults.puts_are_lost = true;
    run(&mut world, 120);
    assert!(moving.iter().all(|(slot, _)| world.acting(*slot).is_empty()), "given up, and not taken back");
    world.faults.puts_are_lost = false;
    run(&mut world, 20);
    world.is_settled().unwrap();
    for (slot, asked) in moving {
        assert_eq!(world.store.map.as_ref().unwrap().1.slots[&slot].owner, asked.next);
    }
}

/// The shell dropped its state of the slot, when the slot was released.
#[test]
fn a_slot_that_is_kept_after_its_release_is_listed_again() {
    let mut world = settled(&["a"]);
    let a = owner(&world);
    world.join("b", "pod of b");
    let moving = |world: &World| -> Vec<Slot> {
        let map = &world.store.map.as_ref().unwrap().1;
        map.slots.iter().filter(|(_, one)| one.next.is_some()).map(|(slot, _)| *slot).collect()
    };
    until(&mut world, 20, |world| !moving(world).is_empty());
    let released = moving(&world);
    world.faults.puts_are_lost = true;
    until(&mut world, 20, |world| released.iter().all(|slot| world.acting(*slot).is_empty()));
    let (lists, (version, mut map)) = (world.counts.lists, world.store.map.clone().unwrap());
    released.iter().for_each(|slot| map.propose(*slot, None));
    world.store.put_map(Some(version), map).unwrap();
    world.calm_down();
    until(&mut world, 20, |world| released.iter().all(|slot| world.acting(*slot) == [&a]));
    assert!(world.counts.lists > lists);
}

#[test]
fn a_drain_that_does_not_end_is_handed_over_unsettled() {
    let mut world = settled(&["a", "b"]);
    let old = owner(&world);
    world.faults.drains_hang = true;
    world.stop(number(&world, &old));
    assert!(until(&mut world, 40, |world| owner(world) != old) >= 25);
    assert!(entry(&world).unsettled);
}

/// That drain was called off, and requests were sent since.
#[test]
fn the_late_end_of_an_earlier_drain_hands_nothing_over() {
    let mut world = settled(&["a", "b"]);
    let old = owner(&world);
    world.faults.drains_hang = true;
    world.stop(number(&world, &old));
    run(&mut world, 1);
    let earlier = Event::Drained { slots: Slots::ALL, since: Duration::ZERO };
    world.later(number(&world, &old), 0, Item::Tell(earlier));
    run(&mut world, 3);
    assert_eq!((world.acting(SLOT), owner(&world)), (vec![&old], old.clone()));
}

#[test]
fn a_hold_that_was_not_over_is_inherited() {
    let mut world = settled(&["a", "b", "c"]);
    let first = owner(&world);
    world.crash(number(&world, &first));
    until(&mut world, 30, |world| owner(world) != first);
    let second = owner(&world);
    world.stop(number(&world, &second));
    until(&mut world, 5, |world| owner(world) != second);
    assert!(entry(&world).unsettled);
    let third = owner(&world);
    let creates = |world: &World| world.replicas.values().any(|one| one.may_create(SLOT, world.time));
    assert!(until(&mut world, 50, creates) >= 19, "{third} holds again");
}

#[test]
fn a_restarted_container_takes_its_slots_at_once_and_holds() {
    let mut world = settled(&["a", "b"]);
    let old = owner(&world);
    world.crash(number(&world, &old));
    world.join(old.lease(), &format!("pod of {}", old.lease()));
    until(&mut world, 4, |world| world.acting(SLOT).len() == 1 && owner(world) != old);
    assert_eq!(owner(&world).lease(), old.lease());
    assert!(!world.replicas.values().any(|one| one.may_create(SLOT, world.time)), "it holds");
}

#[test]
fn a_second_replica_of_the_same_name_waits() {
    let mut world = settled(&["a"]);
    let first = owner(&world);
    world.join("a", "another pod");
    run(&mut world, 100);
    assert_eq!((owner(&world), world.acting(SLOT).len()), (first, 1));
}

#[test]
fn a_live_holder_whose_lease_is_emptied_or_deleted_begins_another_life() {
    for empty in [true, false] {
        let mut world = settled(&["a", "b"]);
        let old = owner(&world);
        match empty {
            true => world.empty_by_hand(old.lease()),
            false => world.delete_lease(old.lease()),
        }
        until(&mut world, 10, |world| world.replicas.values().all(|one| one.me != old));
        until(&mut world, 30, |world| owner(world) != old);
        assert!(entry(&world).unsettled);
        run(&mut world, 60);
        world.is_settled().unwrap();
    }
}

/// The API server that its watches ask is behind.
#[test]
fn watches_that_show_old_versions_end_no_life_and_take_no_slot() {
    let mut world = settled(&["a"]);
    let (me, lists) = (owner(&world), world.counts.lists);
    let one = number(&world, &me);
    for name in ["a", LEADER_LEASE] {
        let seen = Seen { version: Version(1), value: None };
        world.later(one, 0, Item::Tell(Event::LeaseSeen { name: name.to_owned(), seen }));
    }
    world.later(one, 0, Item::Tell(Event::MapSeen(Seen { version: Version(1), value: None })));
    world.run(world.time + 1).unwrap();
    assert_eq!((world.acting(SLOT), world.counts.lists), (vec![&me], lists));
}

/// It does not renew the Lease, and acts for no slot.
#[test]
fn a_stranger_keeps_a_lease_no_longer_than_a_replica_though_it_says_so() {
    for name in [LEADER_LEASE, "b"] {
        let mut world = settled(&["a", "b"]);
        let (version, record) = world.store.leases[name].clone();
        let (holder, transitions) = (Some(Incarnation::new(name, UNKNOWN)), record.next_transition());
        let (pod, duration) = ("pod of a stranger".to_owned(), LONGEST_LEASE);
        let taken = LeaseRecord { holder: holder.clone(), transitions, pod, duration, ..record };
        world.store.write_lease(name, Some(version), taken);
        world.show_lease(name);
        let waited = until(&mut world, 40, |world| world.store.leases[name].1.holder != holder);
        assert!(waited >= 10, "{name}: {waited} s");
        run(&mut world, 60);
        world.is_settled().unwrap();
    }
}

#[test]
fn the_slots_of_a_life_whose_lease_a_stranger_takes_are_seized() {
    for pod in [None, Some("pod of a stranger")] {
        let mut world = settled(&["a", "b"]);
        let (old, begun) = (owner(&world), world.time);
        world.take_by_hand(old.lease(), pod);
        until(&mut world, 4, |world| world.replicas.values().all(|one| one.me != old));
        until(&mut world, 30, |world| owner(world) != old);
        let waited = (world.time - begun) / 1000;
        assert!(waited >= 10 && entry(&world).unsettled, "{waited} s");
        run(&mut world, 60);
        world.is_settled().unwrap();
    }
}

#[test]
fn a_proposal_stands_when_the_leader_dies_before_the_hand_over() {
    let mut world = settled(&["a", "b"]);
    world.faults.drains_hang = true;
    world.join("c", "pod of c");
    let asked = |world: &World| -> Vec<(Slot, Option<Incarnation>)> {
        let map = &world.store.map.as_ref().unwrap().1;
        map.slots
            .iter()
            .map(|(slot, one)| (*slot, one.next.clone()))
            .filter(|(_, next)| next.is_some())
            .collect()
    };
    until(&mut world, 20, |world| !asked(world).is_empty());
    let proposed = asked(&world);
    let holder = |world: &World| world.store.leases["frameworkcontroller-leader"].1.holder.clone().unwrap();
    let leader = holder(&world);
    let owner_of = |world: &World, slot| world.store.map.as_ref().unwrap().1.slots[&slot].owner.clone();
    assert!(proposed.iter().all(|(slot, _)| owner_of(&world, *slot) != Some(leader.clone())));
    world.crash(number(&world, &leader));
    until(&mut world, 20, |world| holder(world) != leader);
    run(&mut world, 5);
    assert_eq!(asked(&world), proposed, "another leader lets it stand");
    // The drain hangs: the slot is released after the life of a request.
    run(&mut world, 120);
    world.is_settled().unwrap();
    assert!(proposed.into_iter().all(|(slot, next)| owner_of(&world, slot) == next));
}

/// Its drain does not end, and the write does not arrive by which it would hand the slot over unsettled.
#[test]
fn the_lease_of_a_member_that_keeps_another_one_waiting_is_emptied() {
    let mut world = settled(&["a", "b"]);
    world.faults.drains_hang = true;
    world.join("c", "pod of c");
    let asked = |world: &World| {
        let map = &world.store.map.as_ref().unwrap().1;
        let asked = map.slots.iter().find(|(_, one)| one.next.is_some());
        asked.map(|(slot, one)| (*slot, one.clone()))
    };
    until(&mut world, 20, |world| asked(world).is_some());
    let (begun, (slot, Entry { owner, next, .. })) = (world.time, asked(&world).unwrap());
    let (old, next) = (owner.unwrap(), next.unwrap());
    let leader = world.store.leases["frameworkcontroller-leader"].1.holder.clone().unwrap();
    assert_ne!(old, leader);
    world.faults.stuck = Some(number(&world, &old));
    let record = |world: &World| world.store.leases[old.lease()].1.clone();
    let renewals = record(&world).renewals;
    run(&mut world, 55);
    assert!(record(&world).renewals > renewals + 15, "its Lease is renewed");
    assert!(world.acting(slot).is_empty(), "it gave the slot up");
    // A renewal may arrive just before the Lease is emptied. The next try follows after a quarter of a
    // renewal interval.
    until(&mut world, 60, |world| record(world).holder.as_ref() != Some(&old));
    let fast = world.replicas[&number(&world, &leader)].clocks.fast;
    let waited = (world.time - begun) * (1000 + fast) / 1000;
    assert!((65_800..72_000).contains(&waited), "2 M + D are 66 s, and it was emptied after {waited} ms");
    assert!(world.acting(slot).is_empty(), "that alone frees nothing");
    let freed = until(&mut world, 60, |world| world.acting(slot) == [&next]);
    assert!(freed >= 10, "it may have acted until then: {freed} s");
    run(&mut world, 60);
    world.is_settled().unwrap();
}

#[test]
fn an_api_server_that_counts_back_ends_the_life_of_a_member() {
    let mut world = settled(&["a"]);
    let old = owner(&world);
    world.store.rewind();
    until(&mut world, 5, |world| world.replicas.values().all(|one| one.me != old));
}

#[test]
fn the_lease_of_a_replica_that_is_long_dead_is_deleted() {
    let mut world = settled(&["a", "b"]);
    let dead = owner(&world);
    world.crash(number(&world, &dead));
    run(&mut world, 300);
    let (_, lease) = &world.store.leases[dead.lease()];
    assert_eq!(lease.holder, None, "it is emptied first, and stays while its name may come back");
    let waited = until(&mut world, 900, |world| !world.store.leases.contains_key(dead.lease()));
    assert!(waited > 200, "after sixty durations of ten seconds: {waited} s");
    world.is_settled().unwrap();
}

#[test]
fn a_copy_of_a_lease_proves_nobody_gone() {
    let mut world = settled(&["a", "b"]);
    let (before, life) = (world.store.map.clone(), owner(&world));
    let (_, record) = world.store.leases[life.lease()].clone();
    world.store.write_lease("copy", None, record);
    world.show_lease("copy");
    run(&mut world, 40);
    assert_eq!((&world.store.map, world.acting(SLOT)), (&before, vec![&life]), "and it gets no slots");
}

#[test]
fn slots_of_the_dead_get_an_owner_while_the_leader_drains() {
    let mut world = settled(&["a", "b", "c"]);
    let (_, leads) = world.store.leases["frameworkcontroller-leader"].clone();
    let leader = leads.holder.unwrap();
    world.faults.drains_hang = true;
    world.stop(number(&world, &leader));
    run(&mut world, 1);
    let dead = world.replicas.values().map(|one| one.me.clone()).find(|one| *one != leader).unwrap();
    world.crash(number(&world, &dead));
    let is_owner = |entry: &Entry| entry.owner.as_ref() == Some(&dead);
    let freed = |world: &World| !world.store.map.as_ref().unwrap().1.slots.values().any(is_owner);
    assert!(until(&mut world, 40, freed) < 20);
}

#[test]
fn a_replica_that_is_stopped_while_it_joins_gets_no_slots() {
    let both = settled(&["a", "b"]);
    for delay in (0..1000).step_by(20) {
        let mut world = both.clone();
        let joined = world.join("c", "pod of c");
        let life = world.replicas[&joined].me.clone();
        world.run(world.time + delay).unwrap();
        world.stop(joined);
        for _ in 0..300 {
            world.run(world.time + 100).unwrap();
            assert!(!world.store.map.as_ref().unwrap().1.names(&life), "stopped after {delay} ms");
        }
        assert!(!world.replicas.contains_key(&joined), "it has ended");
    }
}

#[test]
fn a_replica_whose_claim_got_no_answer_ends_when_it_is_stopped() {
    let both = settled(&["a", "b"]);
    for delay in (0..1000).step_by(50) {
        let mut world = both.clone();
        let joined = world.join("c", "pod of c");
        world.run(world.time + delay).unwrap();
        world.cut(joined, 0, 4000);
        world.run(world.time + 1000).unwrap();
        world.stop(joined);
        until(&mut world, 40, |world| !world.replicas.contains_key(&joined));
    }
}

/// A proxy sends the claim of its Lease twice, and passes on the second answer.
#[test]
fn a_claim_that_was_applied_and_refused_is_not_made_again() {
    let mut world = settled(&["a"]);
    let joined = world.join("b", "pod of b");
    let life = world.replicas[&joined].me.clone();
    world.faults.conflicts = Some(joined);
    until(&mut world, 5, |world| world.store.leases.contains_key("b"));
    world.faults.conflicts = None;
    run(&mut world, 60);
    world.is_settled().unwrap();
    let (_, lease) = &world.store.leases["b"];
    assert_eq!((&lease.holder, lease.transitions), (&Some(life.clone()), 1), "a read shows that it holds it");
    let slots = world.store.map.as_ref().unwrap().1.slots.values();
    let mine: Vec<_> = slots.filter(|entry| entry.owner.as_ref() == Some(&life)).collect();
    assert!(!mine.is_empty() && mine.iter().all(|entry| !entry.unsettled), "{mine:?}: handed over");
}

fn duration(world: &World) -> u64 {
    world.store.map.as_ref().unwrap().1.duration.as_secs()
}

/// A world in which one replica with a Lease of 60 s is replaced by two with a Lease of 10 s.
fn after_long_leases() -> World {
    let mut world = World::new(7, lease_of(60), 4);
    world.faults.calm = true;
    let long = world.join("long", "its pod");
    run(&mut world, 60);
    world.policy = policy(Defects::NONE);
    world.join("a", "pod of a");
    world.join("b", "pod of b");
    run(&mut world, 60);
    world.stop(long);
    until(&mut world, 40, |world| world.replicas.len() == 2);
    assert_eq!(duration(&world), 60);
    world
}

#[test]
fn a_take_over_is_short_again_once_no_replica_has_a_long_lease() {
    let mut world = after_long_leases();
    until(&mut world, 90, |world| duration(world) == 10);
    world.is_settled().unwrap();
    let dead = owner(&world);
    world.crash(number(&world, &dead));
    assert!(until(&mut world, 20, |world| owner(world) != dead) >= 9);
}

/// An owner whose Lease lasts for as long may be cut off, and its Lease may be deleted with the map.
#[test]
fn a_deleted_map_is_made_again_after_the_time_of_its_own_duration() {
    let mut world = after_long_leases();
    assert!(world.store.leases.values().all(|(_, lease)| lease.duration_of_member().as_secs() < 60));
    world.delete_map();
    let waited = until(&mut world, 200, |world| world.store.map.is_some());
    assert!(waited >= 130 && duration(&world) == 10, "{waited} s");
}

#[test]
fn an_edit_that_lengthens_a_lease_counts_until_it_was_seen_short_for_long() {
    let mut world = settled(&["a", "b"]);
    let edited = owner(&world);
    world.set_duration_by_hand(edited.lease(), Duration::from_secs(60));
    until(&mut world, 5, |world| duration(world) == 60);
    run(&mut world, 5);
    assert_eq!(world.store.leases[edited.lease()].1.duration.as_secs(), 10, "its holder writes its own");
    assert!(until(&mut world, 100, |world| duration(world) == 10) >= 55);
}

#[test]
fn an_edit_that_shortens_the_lease_of_a_silent_owner_frees_nothing() {
    let mut world = after_long_leases();
    world.policy = lease_of(60);
    let long = world.join("long", "its next pod");
    let life = world.replicas[&long].me.clone();
    until(&mut world, 90, |world| world.store.map.as_ref().unwrap().1.names(&life));
    run(&mut world, 100);
    let slot = |world: &World| {
        let map = &world.store.map.as_ref().unwrap().1;
        map.slots.iter().find(|(_, entry)| entry.owner.as_ref() == Some(&life)).map(|(slot, _)| *slot)
    };
    let begun = slot(&world).expect("it owns one");
    world.cut(long, 0, 300_000);
    run(&mut world, 1);
    world.set_duration_by_hand(life.lease(), Duration::from_secs(1));
    assert!(until(&mut world, 120, |world| slot(world).is_none()) >= 60, "{begun}");
}
