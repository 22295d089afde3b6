//! Units that others overtake: the condition, and the capacity that is kept for them.

use framework_message::{Ownership, Slots};

use super::declared::{named, show};
use super::*;
use crate::active_slots::ActiveSlots;

/// A world with room for 3, where a has 2, and b waits for all of it.
fn one_that_waits() -> World {
    let mut world = World::new(1, 3);
    world.submit("a", 2);
    world.settle();
    world.submit("b", 3);
    world.settle();
    world
}

#[test]
fn capacity_stays_reserved_for_an_overtaken_unit_after_a_restart() {
    let mut world = one_that_waits();
    let overtaken = |world: &World| world.server.units[&key("framework-b")].status.overtaken;
    assert_eq!(overtaken(&world), None);
    world.submit("c", 1);
    assert!(world.settle().contains(&"framework-c Dequeued Admitted".to_owned()));
    world.pass(29);
    assert!(world.settle().is_empty());
    assert_eq!(overtaken(&world), None, "not yet");
    world.pass(1);
    assert_eq!(world.settle(), ["framework-b Enqueued InsufficientQuota"]);
    assert_eq!(overtaken(&world), Some(Overtaken { since: Time::floor(at(0)), reserved: false }));
    world.pass(31);
    world.settle();
    assert_eq!(overtaken(&world), Some(Overtaken { since: Time::floor(at(0)), reserved: true }));
    world.finish("c");
    world.submit("d", 1);
    let requests = ["remove finalizer of framework-c", "create d", "framework-d Enqueued CapacityReserved"];
    assert_eq!(world.settle(), requests);
    world.restart();
    world.settle();
    world.pass(LIFETIME.as_secs());
    let requests = world.settle();
    assert_eq!(requests, ["list after None", "list after Some(\"framework-c\")"]);
    world.finish("a");
    assert!(world.settle().contains(&"framework-b Dequeued Admitted".to_owned()));
    assert_eq!(world.server.units[&key("framework-d")].status.phase, Some(Phase::Enqueued));
}

/// Where queues take turns, the first unit of a queue is overtaken until its turn comes.
#[test]
fn being_overtaken_for_a_moment_costs_no_write() {
    let mut world = one_that_waits();
    world.submit("c", 1);
    // Released behind it.
    assert_eq!(world.settle(), ["create c", "framework-c Enqueued Waiting", "framework-c Dequeued Admitted"]);
    world.finish("a");
    world.finish("c");
    let requests = world.settle();
    let of_b: Vec<_> = requests.iter().filter(|request| request.contains("framework-b")).collect();
    assert_eq!(of_b, ["framework-b Dequeued Admitted"]);
    world.pass(60);
    assert!(world.settle().is_empty());
}

/// The time is kept although it is not stored yet, and although the unit is written meanwhile.
#[test]
fn the_overtaken_time_outlasts_a_change_of_the_unit() {
    let mut world = one_that_waits();
    world.submit("c", 1);
    world.settle();
    world.pass(15);
    world.server.set_priority(&key("framework-b"), 5);
    assert!(world.settle().is_empty());
    // Another one passes it.
    world.finish("c");
    world.submit("d", 1);
    world.settle();
    world.pass(15);
    world.settle();
    let stored = world.server.units[&key("framework-b")].status.overtaken;
    assert_eq!(stored, Some(Overtaken { since: Time::floor(at(0)), reserved: false }));
}

/// How long b was overtaken in [`one_overtaken`].
fn place() -> Overtaken {
    Overtaken { since: Time::floor(at(0)), reserved: true }
}

/// A world where c overtook b, for which capacity is reserved by now.
fn one_overtaken() -> World {
    let mut world = one_that_waits();
    world.submit("c", 1);
    world.settle();
    world.pass(61);
    world.settle();
    assert_eq!(world.server.units[&key("framework-b")].status.overtaken, Some(place()));
    world
}

/// The unit of b is gone, and is not made again yet.
fn take_away(world: &mut World) {
    let unit = world.server.units[&key("framework-b")].clone();
    world.controller.step(QueueEvent::Unit(Change::Deleted(Arc::new(unit))));
}

#[test]
fn a_unit_that_is_made_again_keeps_its_place() {
    let mut world = one_overtaken();
    let overtaken = |world: &World| world.server.units[&key("framework-b")].status.overtaken;
    let before = Arc::clone(&world.server.units[&key("framework-b")].uid);
    world.submit("b", 2);
    world.settle();
    assert_ne!(world.server.units[&key("framework-b")].uid, before, "its request has changed");
    assert_eq!(overtaken(&world), Some(place()));
}

#[test]
fn a_unit_that_is_made_again_keeps_its_place_within_its_second() {
    let mut world = World::new(1, 3);
    // The UIDs of units rise with it as texts do.
    world.server.version = 100;
    world.submit("a", 3);
    world.settle();
    world.submit("b", 3);
    world.submit("c", 3);
    world.settle();
    world.submit("b", 2);
    world.settle();
    world.finish("a");
    assert!(world.settle().contains(&"framework-b Dequeued Admitted".to_owned()));
}

#[test]
fn a_unit_takes_no_place_that_another_owner_has_left() {
    let mut world = World::new(1, 3);
    world.submit("a", 2);
    world.settle();
    world.controller.left_places.insert(key("framework-b"), ("another".into(), place()));
    world.submit("b", 3);
    world.settle();
    assert_eq!(world.controller.unit_states[&key("framework-b")].overtaken, None);
}

#[test]
fn a_released_unit_leaves_no_place() {
    let mut world = one_overtaken();
    world.finish("a");
    world.finish("c");
    assert!(world.settle().contains(&"framework-b Dequeued Admitted".to_owned()));
    take_away(&mut world);
    assert!(world.controller.left_places.is_empty());
}

#[test]
fn a_namespace_keeps_at_most_a_hundred_left_places() {
    for before in [0, 100] {
        let mut world = one_overtaken();
        for (space, places) in [(SPACE, before), ("zz", 100)] {
            let keys = (0..places).map(|number| Key::new(space, &format!("a{number}")));
            world.controller.left_places.extend(keys.map(|unit| (unit, ("uid".into(), place()))));
        }
        take_away(&mut world);
        let left = world.controller.left_places.keys();
        let here = left.clone().filter(|key| *key.namespace == *SPACE).count();
        assert_eq!((here, left.len() - here), (100.min(before + 1), 100));
    }
}

#[test]
fn left_places_are_forgotten_with_their_slot() {
    let mut world = one_overtaken();
    take_away(&mut world);
    assert_eq!(world.controller.left_places.len(), 1);
    world.controller.lost(Slots::ALL);
    assert!(world.controller.left_places.is_empty());
}

#[test]
fn left_places_are_forgotten_with_their_namespace_unless_their_job_waits() {
    let mut world = one_overtaken();
    take_away(&mut world);
    show(&mut world, Change::Applied(named("train", 1, Stage::Waiting)));
    show(&mut world, Change::Synced);
    let elsewhere = Key::new("ns-2", "unit");
    for (unit, job) in [(key("sweep-train"), "uid-train"), (elsewhere.clone(), "uid")] {
        world.controller.left_places.insert(unit, (job.into(), place()));
    }
    world.turn();
    let left = |world: &World| world.controller.left_places.keys().cloned().collect::<Vec<_>>();
    assert_eq!(left(&world), [key("framework-b"), key("sweep-train"), elsewhere.clone()]);
    let objects = &world.controller.objects;
    let units = objects.units.iter().cloned().map(|unit| QueueEvent::Unit(Change::Deleted(unit)));
    let queues = objects.queues.iter().cloned().map(|queue| QueueEvent::Queue(Change::Deleted(queue)));
    let quotas = objects.quotas.iter().cloned().map(|quota| QueueEvent::Quota(Change::Deleted(quota)));
    let gone: Vec<_> = units.chain(queues).chain(quotas).collect();
    gone.into_iter().for_each(|event| world.controller.step(event));
    world.turn();
    assert_eq!(left(&world), [key("sweep-train"), elsewhere.clone()]);
    show(&mut world, Change::Deleted(named("train", 2, Stage::Waiting)));
    assert_eq!(left(&world), [elsewhere]);
}

/// The owner of the namespace decides who was overtaken; a replica that takes over goes on from there.
#[test]
fn a_replica_without_the_slot_follows_what_is_stored() {
    let mut world = one_that_waits();
    let active_slots = ActiveSlots::of(Ownership::default()).without_slots();
    world.controller = QueueController::new(settings(), 2).with_active_slots(active_slots);
    world.listed();
    for overtaken in [Some(place()), None] {
        let mut unit = world.server.units[&key("framework-b")].clone();
        unit.status.overtaken = overtaken;
        unit.resource_version = world.server.stamp();
        world.controller.step(QueueEvent::Unit(Change::Applied(Arc::new(unit))));
        assert_eq!(world.controller.unit_states[&key("framework-b")].overtaken, overtaken);
    }
}

#[test]
fn a_position_names_the_amount_missing_now() {
    let mut world = World::new(1, 10);
    for (name, asks) in [("a", 8), ("b", 6), ("c", 1)] {
        world.submit(name, asks);
        world.settle();
    }
    let position = world.controller.queue_position(&key("framework-b")).expect("it waits");
    let stored = &world.server.units[&key("framework-b")].status.message;
    assert!(stored.contains("requests 6 of cpu, 4 too many"), "{stored}");
    assert!(position.message.contains("requests 6 of cpu, 5 too many"), "{}", position.message);
    assert_eq!(position.reason.as_deref(), Some("InsufficientQuota"));
    let released = world.controller.queue_position(&key("framework-a")).expect("it is there");
    assert_eq!((released.place, released.reason.as_deref()), (None, Some("Admitted")), "as it is stored");
}
