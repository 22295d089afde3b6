//! Units whose status the API server refuses for good, for example by a webhook.

use super::*;

const A: &str = "framework-a";
const RELEASE: &str = "framework-a Dequeued Admitted";
const NOTE: &str = "the API server refuses its status: ";

/// Refuses the release of the unit of `a` each time that it is tried now. Returns how often that was.
fn refuse_release(world: &mut World, code: u16) -> usize {
    for tries in 0..20 {
        let [(ticket, _)] = world.settle_except(RELEASE)[..] else { return tries };
        let refusal = world.server.refuse(code);
        world.reply(ticket, refusal);
    }
    20
}

/// A world with the job `a`, whose release is refused.
fn refused(code: u16) -> World {
    let mut world = World::new(1, 10);
    world.submit("a", 6);
    assert!((1..=2).contains(&refuse_release(&mut world, code)), "{code}");
    world
}

#[test]
fn a_unit_whose_release_is_refused_for_good_lets_others_pass() {
    for code in [403, 409, 422] {
        let mut world = refused(code);
        world.submit("b", 6);
        world.settle();
        assert!(world.admitted.contains_key(&key("b")), "{code}");
        world.pass(60);
        world.settle();
        assert!(!world.admitted.contains_key(&key("a")), "{code}: there is no room now");
        world.finish("b");
        world.settle();
        assert!(world.admitted.contains_key(&key("a")), "{code}: it is tried again");
    }
}

#[test]
fn a_refused_release_is_tried_ever_more_rarely_and_said_once() {
    for code in [403, 409] {
        let mut world = refused(code);
        let mut tries = 0;
        for _ in 0..60 {
            world.pass(1);
            tries += refuse_release(&mut world, code);
        }
        assert!((4..=9).contains(&tries), "{code}: {tries}");
        assert_eq!(world.said, [format!("{A}: {NOTE}")], "{code}");
    }
}

#[test]
fn a_framework_says_that_the_status_of_its_unit_is_refused() {
    let mut world = refused(403);
    assert_eq!(world.server.units[&key(A)].status.message, NOTE);
    world.restart_frameworks();
    let now = world.now();
    let says = |outcome: &Outcome| match outcome {
        Outcome::Admit { admission: Admission::Waiting { message, .. }, .. } => message == NOTE,
        _ => false,
    };
    assert!(world.frameworks.turn(now).iter().any(says));
}

#[test]
fn a_unit_that_may_not_enter_its_queue_lets_others_pass() {
    let mut world = World::new(1, 10);
    world.submit("a", 6);
    let entry = "framework-a Enqueued Waiting";
    let [(ticket, _)] = world.settle_except(entry)[..] else { panic!() };
    let refusal = world.server.refuse(403);
    world.reply(ticket, refusal);
    world.submit("b", 6);
    assert_eq!(world.settle_except(entry).len(), 1, "now it gives the reason");
    assert!(world.admitted.contains_key(&key("b")));
}

#[test]
fn no_capacity_stays_reserved_for_a_unit_whose_release_is_refused() {
    let mut world = World::new(1, 10);
    world.submit("a", 6);
    let [(ticket, _)] = world.settle_except(RELEASE)[..] else { panic!() };
    let overtaken = Overtaken { since: Time::floor(at(0)), reserved: true };
    world.controller.unit_states.get_mut(&key(A)).unwrap().overtaken = Some(overtaken);
    let refusal = world.server.refuse(403);
    world.reply(ticket, refusal);
    world.settle();
    let status = &world.server.units[&key(A)].status;
    assert_eq!((status.message.as_str(), status.overtaken), (NOTE, None));
}

/// The room of ten would pass through all of them, with two requests for each.
#[test]
fn where_each_release_is_refused_only_some_units_are_tried_in_turn() {
    let mut world = World::new(1, 10);
    for number in 0..150 {
        world.submit(&format!("a{number}"), 1);
    }
    for _ in 0..60 {
        world.turn();
        for transit in std::mem::take(&mut world.transit) {
            match transit {
                Transit::There(ticket, QueueRequest::PutStatus { status, .. }, _)
                    if status.phase == Some(Phase::Dequeued) =>
                {
                    let refusal = world.server.refuse(403);
                    world.reply(ticket, refusal);
                }
                transit => world.arrive(transit),
            }
        }
        world.show();
    }
    assert_eq!(world.controller.namespaces.get(SPACE).unwrap().refused.len(), 100);
}
