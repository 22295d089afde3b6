//! Random histories: exclusivity for any order, loss, repetition and unknown outcome, and progress after
//! them.

#![allow(clippy::disallowed_macros, reason = "it says what it has counted")]

mod epochs;
mod explore;
mod faults;
mod network;
mod replica;
mod rules;
mod store;
mod world;

use std::time::Duration;

use framework_shard::Policy;
use framework_shard::defect::{Defect, Defects};
use world::World;

/// The longest Lease of replicas with different ones.
const LONGEST: Duration = Duration::from_secs(20);

fn policy(defects: Defects) -> Policy {
    let secs = Duration::from_secs;
    Policy { defects, ..Policy::new(secs(10), secs(2), secs(3), secs(28)).unwrap() }
}

/// That of a replica whose Lease lasts this many seconds.
fn lease_of(seconds: u64) -> Policy {
    let secs = Duration::from_secs;
    Policy::new(secs(seconds), secs(1), secs(1), secs(28)).unwrap()
}

/// A life of up to five replicas with 14 disturbances, then time to settle.
fn history(seed: u64, defects: Defects) -> Result<World, String> {
    lead(World::new(seed, policy(defects), 4))
}

fn lead(mut world: World) -> Result<World, String> {
    for name in ["a", "b", "c"] {
        world.join(name, &format!("pod of {name}"));
    }
    world.run(45_000)?;
    for change in 0..14 {
        if world.faults.mixed {
            let seconds = 5 << world.dice(3);
            world.policy = lease_of(seconds);
        }
        disturb(&mut world, change);
        if world.faults.deletes_maps && world.dice(3) == 0 {
            world.delete_map();
            // Usually long enough for another one.
            world.run(world.time + 40_000)?;
        }
        let pause = i64::from(world.dice(30)) * 1000;
        world.run(world.time + pause)?;
    }
    world.calm_down();
    world.run(world.time + 240_000)?;
    world.is_settled().map(|()| world)
}

fn disturb(world: &mut World, change: u64) {
    let Some(one) = world.pick() else {
        world.join("z", &format!("pod {change}"));
        return;
    };
    let name = world.replicas[&one].me.lease().to_owned();
    match world.dice(14) {
        0 | 1 => {
            world.join(&format!("n{change}"), &format!("pod {change}"));
        }
        2 if world.replicas.len() > 1 => world.crash(one),
        3 => {
            world.crash(one);
            world.join(&name, &format!("pod of {name}"));
        }
        4 | 5 if world.replicas.len() > 1 => world.stop(one),
        6 => {
            let long = i64::from(world.dice(30)) * 1000;
            world.freeze(one, long);
        }
        7 if world.faults.foreign_clients => {
            let pod = (world.dice(2) == 0).then_some("pod of a stranger");
            world.take_by_hand(&name, pod);
        }
        7 => world.empty_by_hand(&name),
        8 => world.delete_lease(&name),
        9 | 10 => world.set_clock(one),
        11 if world.dice(3) == 0 => world.delete_map(),
        11 if world.faults.mixed => world.set_duration_by_hand(&name, Duration::from_secs(1)),
        12 => {
            let long = i64::from(world.dice(80)) * 1000;
            world.cut(one, 0, long);
        }
        13 => {
            // It is cut off while it claims its Lease.
            let joined = world.join(&format!("n{change}"), &format!("pod {change}"));
            let (delay, long) = (i64::from(world.dice(80)) * 10, i64::from(world.dice(80)) * 1000);
            world.cut(joined, delay, long);
        }
        _ => {}
    }
}

#[test]
fn a_slot_has_one_owner_in_every_history_and_all_have_one_at_the_end() {
    let mut writes = 0;
    for seed in 0..150 {
        match history(seed, Defects::NONE) {
            Ok(world) => writes += world.counts.puts,
            Err(claim) => panic!("seed {seed}: {claim}"),
        }
    }
    assert!(writes > 1200, "{writes} writes of the map: hardly anything happened");
}

#[test]
fn a_slot_has_one_owner_though_strangers_write_leases() {
    for seed in 0..100 {
        let mut world = World::new(seed, policy(Defects::NONE), 4);
        world.faults.foreign_clients = true;
        if let Err(claim) = lead(world) {
            panic!("seed {seed}: {claim}");
        }
    }
}

/// Each has the precondition of the first one, which the API server has met. The second answer is heard.
#[test]
fn a_slot_has_one_owner_though_a_proxy_sends_writes_twice() {
    let mut repeated = 0;
    for seed in 0..100 {
        let mut world = World::new(seed, policy(Defects::NONE), 4);
        world.faults.repeats = true;
        match lead(world) {
            Ok(world) => repeated += world.counts.repeated,
            Err(claim) => panic!("seed {seed}: {claim}"),
        }
    }
    assert!(repeated > 1000, "{repeated} writes were sent twice");
}

#[test]
fn no_member_goes_back_to_a_lower_epoch_though_maps_are_deleted() {
    let mut behind = 0;
    for seed in 0..60 {
        let mut world = World::new(seed, policy(Defects::NONE), 4);
        world.faults.deletes_maps = true;
        match lead(world) {
            Ok(world) => behind += world.epochs.behind,
            Err(claim) => panic!("seed {seed}: {claim}"),
        }
    }
    println!("{behind} maps were made by a replica whose wall clock was behind");
    assert!(behind > 20, "{behind} maps went on from an epoch that was seen");
}

#[test]
fn replicas_with_leases_of_different_durations_are_as_safe() {
    let mut falls = 0;
    for seed in 0..150 {
        let mut world = World::new(seed, lease_of(20), 4);
        world.faults.mixed = true;
        match lead(world) {
            Ok(world) => falls += u64::from(world.store.map.is_some_and(|(_, map)| map.duration < LONGEST)),
            Err(claim) => panic!("seed {seed}: {claim}"),
        }
    }
    assert!(falls > 20, "in {falls} histories the duration fell");
}

/// The seed at which a missing rule shows, the first from this one on.
fn found(defect: Defect, from: u64) -> u64 {
    let unsafe_claim = |claim: String| claim.contains("act for") || claim.contains("creates for");
    let shows = |seed: &u64| history(*seed, defect.into()).is_err_and(unsafe_claim);
    (from..from + 300).find(shows).unwrap_or_else(|| panic!("{defect:?} was not found"))
}

#[test]
fn each_missing_rule_is_found() {
    use Defect::{
        ClaimAgain, ForgetHold, TakeBack, TakeOverAtOnce, TrustEmptyLease, TrustOldView, WallClock,
    };
    for defect in [ForgetHold, TakeOverAtOnce, TakeBack, WallClock, TrustEmptyLease, TrustOldView] {
        println!("{defect:?}: after {} seeds", found(defect, 0) + 1);
    }
    // A rare one: the histories before would take most of the time of all tests of the protocol.
    println!("{ClaimAgain:?}: at seed {}", found(ClaimAgain, 100));
}
