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
    let says = |effect: &QueueEffect| match effect {
        QueueEffect::Admit { admission: Admission::Waiting { message, .. }, .. } => message == NOTE,
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

/// Refuses the release of the unit of `a` each time that it is tried within these seconds.
fn refuse_release_for(world: &mut World, seconds: u64) {
    for _ in 0..seconds {
        assert!(refuse_release(world, 403) <= 2);
        world.pass(1);
    }
}

#[test]
fn a_lost_release_holds_its_room_until_a_read_shows_it_was_not_stored() {
    let mut world = World::new(1, 10);
    world.submit("a", 6);
    let [(ticket, _)] = world.settle_except(RELEASE)[..] else { panic!("it is sent once") };
    world.reply(ticket, Reply::Unknown(String::new()));
    world.submit("b", 6);
    refuse_release_for(&mut world, LIFETIME.as_secs());
    assert!(!world.admitted.contains_key(&key("b")), "it may land yet");
    refuse_release_for(&mut world, 60);
    assert!(world.admitted.contains_key(&key("b")));
    assert_eq!(world.said, [format!("{A}: {NOTE}")]);
}

/// The watch does not show it, and a read from before comes back late.
#[test]
fn a_lost_release_that_was_stored_keeps_its_room() {
    let mut world = World::new(1, 10);
    world.submit("a", 6);
    let [(ticket, late)] = &world.settle_except(RELEASE)[..] else { panic!("it is sent once") };
    world.reply(*ticket, Reply::Unknown(String::new()));
    world.submit("b", 6);
    world.pass(1);
    let read = summary(&QueueRequest::GetUnit { unit: key(A) });
    let [(ticket, request)] = &world.settle_except(&read)[..] else { panic!("it is read once") };
    let before = world.server.take(request);
    assert!(matches!(world.server.take(late), Reply::Object(Object::Unit(_))));
    world.server.news.clear();
    world.pass(LIFETIME.as_secs());
    world.reply(*ticket, before);
    refuse_release_for(&mut world, 60);
    assert!(world.admitted.contains_key(&key("a")) && !world.admitted.contains_key(&key("b")));
}

fn is_release(status: &UnitStatus) -> bool {
    status.phase == Some(Phase::Dequeued)
}

/// Lets the requests arrive that are on their way, but refuses such a status of `a0`, `a1` and so on.
fn arrive_refused(world: &mut World, is_refused: fn(&UnitStatus) -> bool) {
    world.turn();
    for transit in std::mem::take(&mut world.transit) {
        match transit {
            Transit::There(ticket, QueueRequest::PutStatus { unit, status, .. }, _)
                if is_refused(&status) && unit.name.starts_with(A) =>
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

/// A world with 150 jobs that request one each of ten, and whose releases are refused.
fn crowded() -> World {
    let mut world = World::new(1, 10);
    (0..150).for_each(|number| world.submit(&format!("a{number}"), 1));
    world
}

/// The room of ten would pass through all of them, with two requests for each.
#[test]
fn where_each_release_is_refused_only_some_units_are_tried_in_turn() {
    let mut world = crowded();
    (0..60).for_each(|_| arrive_refused(&mut world, is_release));
    assert_eq!(world.controller.stale.refused.count(), 100);
}

#[test]
fn a_unit_behind_any_number_of_refused_ones_is_released() {
    let mut world = crowded();
    world.submit("b", 10);
    let mut seconds = 0;
    while !world.admitted.contains_key(&key("b")) {
        (0..20).for_each(|_| arrive_refused(&mut world, is_release));
        world.pass(1);
        seconds += 1;
        assert!(seconds < 1_200, "{} are passed over", world.controller.stale.refused.count());
    }
    let in_a_minute = world.now().steady + Duration::from_secs(60);
    let tried = world.controller.stale.refused.due(in_a_minute).count();
    assert!((50..140).contains(&tried), "{tried} of 150");
}

/// Refuses such a status of all units that it is tried for in these seconds. Returns how often that was.
fn refuse_all_for(world: &mut World, seconds: u64, is_refused: fn(&UnitStatus) -> bool) -> usize {
    let before = world.server.refused;
    for _ in 0..seconds {
        (0..2).for_each(|_| arrive_refused(world, is_refused));
        world.pass(1);
    }
    world.server.refused - before
}

/// A world with room for 300 jobs, of whose units such a status is refused for half an hour.
fn long_refused(is_refused: fn(&UnitStatus) -> bool) -> World {
    let mut world = World::new(1, 1_000);
    (0..300).for_each(|number| world.submit(&format!("a{number}"), 1));
    refuse_all_for(&mut world, 1_800, is_refused);
    assert_eq!(world.controller.stale.refused.count(), 300);
    world
}

/// Otherwise each would wait for its own next try, for up to three minutes.
#[test]
fn the_first_release_after_long_refusals_brings_all_others() {
    let mut world = long_refused(is_release);
    while world.admitted.is_empty() {
        world.settle();
        world.pass(1);
        assert!(world.second < 2_000, "none is tried");
    }
    assert_eq!(world.admitted.len(), 300);
}

/// Two for each try: one for the release, or the entry, and one for the reason.
#[test]
fn units_passed_over_cost_few_requests_where_each_status_is_refused() {
    let mut world = long_refused(|_| true);
    let refused = refuse_all_for(&mut world, 180, |_| true);
    assert!((300..750).contains(&refused), "{refused} in three minutes");
    for _ in 0..150 {
        world.settle();
        world.pass(1);
    }
    assert_eq!(world.admitted.len(), 300, "they are not refused any more");
}

#[test]
fn a_long_message_of_a_refusal_is_cut_in_the_reason() {
    let mut world = World::new(1, 10);
    world.submit("a", 6);
    let message = "\u{e4}".repeat(10_000);
    for _ in 0..10 {
        for (ticket, _) in world.settle_except(RELEASE) {
            let (reason, message) = (String::new(), message.clone());
            world.reply(ticket, Reply::Refused(Rejection { code: 403, reason, message, retry_after: None }));
        }
        world.pass(1);
    }
    let stored = &world.server.units[&key(A)].status.message;
    assert!(stored.starts_with(NOTE) && (400..600).contains(&stored.len()), "{stored}");
}
