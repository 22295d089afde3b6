//! Units that others overtake: the condition, and the capacity that is kept for them.

use super::*;

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

#[test]
fn a_unit_that_is_made_again_keeps_its_place() {
    let mut world = one_that_waits();
    world.submit("c", 1);
    world.settle();
    world.pass(61);
    world.settle();
    let overtaken = |world: &World| world.server.units[&key("framework-b")].status.overtaken;
    let place = Some(Overtaken { since: Time::floor(at(0)), reserved: true });
    assert_eq!(overtaken(&world), place);
    let before = Arc::clone(&world.server.units[&key("framework-b")].uid);
    world.submit("b", 2);
    world.settle();
    assert_ne!(world.server.units[&key("framework-b")].uid, before, "its request has changed");
    assert_eq!(overtaken(&world), place);
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
