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

/// A world with the job `a`, whose release is refused until others may pass it.
fn refused(code: u16) -> World {
    let mut world = World::new(1, 10);
    world.submit("a", 6);
    for _ in 0..8 {
        assert!(refuse_release(&mut world, code) <= 2, "{code}");
        world.pass(1);
    }
    world
}

/// Refuses the one request with this summary, and lets time pass.
fn refuse(world: &mut World, held: &str, seconds: u64) {
    let [(ticket, _)] = world.settle_except(held)[..] else { panic!("{held}") };
    let refusal = world.server.refuse(403);
    world.reply(ticket, refusal);
    world.pass(seconds);
}

/// For a moment after it has started, an API server refuses all requests that need a role.
#[test]
fn a_release_that_is_refused_for_a_moment_costs_no_unit_its_turn() {
    let mut world = World::new(1, 10);
    world.submit("a", 6);
    refuse(&mut world, RELEASE, 0);
    world.submit("b", 6);
    world.settle();
    assert!(!world.admitted.contains_key(&key("b")));
    world.pass(1);
    world.settle();
    assert!(world.admitted.contains_key(&key("a")));
    assert_eq!(world.said, [""; 0]);
}

#[test]
fn a_release_that_is_accepted_and_not_stored_lets_others_pass() {
    let mut world = World::new(1, 10);
    world.submit("a", 6);
    let mut tries = 0;
    for _ in 0..70 {
        for (ticket, _) in world.settle_except(RELEASE) {
            tries += 1;
            // A webhook has undone the change: the version is the one of before.
            let before = world.server.units[&key(A)].clone();
            world.reply(ticket, Reply::Object(Object::Unit(Box::new(before))));
        }
        world.pass(1);
    }
    assert!((5..=8).contains(&tries), "{tries}");
    assert_eq!(world.said, [format!("{A}: {NOTE}it is accepted, and nothing of it is stored")]);
    world.submit("b", 6);
    world.settle_except(RELEASE);
    assert!(world.admitted.contains_key(&key("b")));
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
        assert!((3..=5).contains(&tries), "{code}: {tries}");
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
    for seconds in [1, 2, 4, 0] {
        refuse(&mut world, entry, seconds);
    }
    world.submit("b", 6);
    assert_eq!(world.settle_except(entry).len(), 1, "now it gives the reason");
    assert!(world.admitted.contains_key(&key("b")));
}

#[test]
fn no_capacity_stays_reserved_for_a_unit_whose_release_is_refused() {
    let mut world = World::new(1, 10);
    world.submit("a", 6);
    refuse(&mut world, RELEASE, 1);
    let overtaken = Some(Overtaken { since: Time::floor(at(0)), reserved: true });
    world.controller.unit_states.get_mut(&key(A)).unwrap().overtaken = overtaken;
    refuse(&mut world, RELEASE, 2);
    refuse(&mut world, RELEASE, 4);
    assert_eq!(world.controller.unit_states[&key(A)].overtaken, overtaken, "the refusal may pass");
    refuse(&mut world, RELEASE, 0);
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
                Transit::There(ticket, QueueRequest::PutStatus { unit, status, .. }, _)
                    if status.phase == Some(Phase::Dequeued) =>
                {
                    let state = world.controller.unit_states.get_mut(&unit).unwrap();
                    // It was refused before.
                    (0..3).for_each(|_| _ = state.writes.refusals.another(true));
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
