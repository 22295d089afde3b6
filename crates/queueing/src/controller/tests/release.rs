//! Releases: their order, their guard, and their cost in requests.

use super::*;

#[test]
fn each_unit_is_released_once_and_only_where_it_fits_under_races() {
    let (mut patches, mut refused) = (0, 0);
    for seed in 0..700 {
        let mut world = World::new(seed, 10);
        let jobs = world.rng.usize(5..25);
        for number in 0..jobs {
            let asks = world.rng.u64(1..8);
            world.submit(&format!("job{number}"), asks);
        }
        let mut steps = 0;
        while world.finished() < jobs {
            world.random_step();
            steps += 1;
            assert!(steps < 1_000_000, "seed {seed} does not come to an end: {:#?}", world.server);
        }
        assert_eq!(world.server.releases.values().sum::<usize>(), jobs, "seed {seed}");
        patches += world.server.patches;
        refused += world.server.refused;
    }
    assert!(patches >= 100_000, "{patches}");
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn a_released_unit_costs_three_requests_and_a_waiting_one_two() {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    world.submit("b", 2);
    world.submit("c", 2);
    let mut requests = world.settle();
    requests.sort();
    assert_eq!(
        requests,
        [
            "create a",
            "create b",
            "create c",
            "framework-a Dequeued Admitted",
            "framework-a Enqueued Waiting",
            "framework-b Enqueued InsufficientQuota",
            "framework-c Enqueued InsufficientQuota",
        ]
    );
    assert_eq!(world.server.refused, 0);
    let waiting = [((key("q"), "InsufficientQuota"), 2)].into();
    let gauges = Gauges { waiting, released: 1, ..Gauges::default() };
    assert_eq!(world.controller.gauges(), gauges);
}

/// The reasons that are on their way to units.
fn on_their_way(world: &World) -> Vec<Reason> {
    let reason = |transit: &Transit| match transit {
        Transit::There(_, QueueRequest::PutStatus { status, .. }, _) => status.reason,
        _ => None,
    };
    world.transit.iter().filter_map(reason).collect()
}

#[test]
fn a_release_goes_before_the_updates_of_waiting_units() {
    let mut world = World::new(1, 1);
    for number in 0..100 {
        world.submit(&format!("job{number}"), 1);
    }
    world.turn();
    for creation in std::mem::take(&mut world.transit) {
        world.arrive(creation);
    }
    world.show();
    world.turn();
    let reasons = on_their_way(&world);
    assert_eq!(reasons[0], Reason::Waiting, "the release goes first");
    assert!(reasons[1..].iter().all(|reason| *reason == Reason::InsufficientQuota), "{reasons:?}");
    let others = reasons.len() - 1;
    assert!((1..=50).contains(&others), "{others} of 99 are updated at a time");
    let first = world.transit.remove(0);
    world.arrive(first);
    world.turn();
    assert_eq!(on_their_way(&world).len(), others + 1);
    assert_eq!(on_their_way(&world).last(), Some(&Reason::Admitted), "while the others are on their way");
    let one = world.transit.remove(0);
    world.arrive(one);
    world.turn();
    assert_eq!(on_their_way(&world).len(), others + 1, "one reply makes room for one more update");
}

#[test]
fn a_release_without_a_reply_counts_though_a_later_try_of_it_is_refused() {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    world.submit("b", 2);
    let [(ticket, late)] = &world.settle_except("framework-a Dequeued Admitted")[..] else { panic!() };
    // It stays on its way for long.
    world.reply(*ticket, Reply::Unknown(String::new()));
    world.pass(1);
    let [(ticket, _)] = world.settle_except("framework-a Dequeued Admitted")[..] else { panic!() };
    // By now another would go first.
    world.server.set_priority(&key("framework-b"), 5);
    assert!(world.settle().is_empty());
    let refusal = world.server.refuse(403);
    world.reply(ticket, refusal);
    assert!(world.settle().is_empty(), "there is room for one, and perhaps one has it");
    assert!(matches!(world.server.take(late), Reply::Object(Object::Unit(_))));
    world.pass(10);
    world.settle();
    assert_eq!(world.server.releases.len(), 1);
}
