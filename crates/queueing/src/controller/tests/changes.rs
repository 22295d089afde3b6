//! Jobs that change, and units that are deleted, while they are released, or before they have begun.

use super::*;

/// Users resize waiting jobs and delete units at any time; controllers die.
#[test]
fn no_job_runs_with_more_than_was_released_for_it() {
    let (mut resized, mut anew) = (0, 0);
    for seed in 0..1_000 {
        let mut world = World::new(seed, 10);
        let jobs: Vec<Key> = (0..world.rng.usize(3..9)).map(|number| key(&format!("job{number}"))).collect();
        for job in &jobs {
            let asks = world.rng.u64(1..8);
            world.submit(&job.name, asks);
        }
        let mut steps = 0;
        while world.finished() < jobs.len() {
            world.random_step();
            steps += 1;
            assert!(steps < 200_000, "seed {seed} does not come to an end: {:#?}", world.server);
            // In the end all is left alone.
            if steps > 5_000 || world.rng.u32(0..8) > 0 {
                continue;
            }
            let job = jobs[world.rng.usize(0..jobs.len())].clone();
            if world.rng.u32(0..6) == 0 {
                world.delete(&key(&format!("framework-{}", job.name)));
            } else if world.server.jobs[&job].0 == Stage::Waiting {
                let asks = world.rng.u64(1..8);
                world.resize(&job, asks);
                resized += 1;
            }
        }
        anew += world.server.releases.len() - jobs.len();
    }
    assert!(resized > 1_000 && anew > 100, "{resized} {anew}");
}

#[test]
fn a_job_that_grows_during_its_release_gets_a_new_unit() {
    let mut world = World::new(1, 10);
    world.submit("a", 3);
    let [(ticket, release)] = &world.settle_except("framework-a Dequeued Admitted")[..] else { panic!() };
    world.pass(10);
    world.resize(&key("a"), 9);
    world.submit("b", 2);
    assert_eq!(world.settle(), ["create b", "framework-b Enqueued Waiting", "framework-b Dequeued Admitted"]);
    world.answer(*ticket, release);
    let requests = world.settle();
    let anew = [
        "delete framework-a",
        "remove finalizer of framework-a",
        "create a",
        "framework-a Enqueued InsufficientQuota",
    ];
    assert_eq!(requests, anew);
    assert!(!world.admitted.contains_key(&key("a")));
    world.finish("b");
    assert!(world.settle().contains(&"framework-a Dequeued Admitted".to_owned()));
    assert_eq!(world.admitted.get(&key("a")), Some(&2));
}

#[test]
fn a_waiting_unit_that_is_made_anew_keeps_a_patched_priority() {
    let mut world = World::new(1, 10);
    world.submit("first", 10);
    world.settle();
    world.submit("a", 3);
    world.settle();
    let unit = key("framework-a");
    world.server.set_priority(&unit, 7);
    world.settle();
    world.resize(&key("a"), 4);
    assert!(world.settle().contains(&"create a".to_owned()));
    assert_eq!(world.server.units[&unit].priority, Some(7));
    world.delete(&unit);
    assert!(world.settle().contains(&"create a".to_owned()));
    assert_eq!(world.server.units[&unit].priority, Some(7), "it was deleted by a user");
}

#[test]
fn a_job_that_shrinks_during_its_release_begins_with_what_is_left() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    let [(ticket, release)] = &world.settle_except("framework-a Dequeued Admitted")[..] else { panic!() };
    world.resize(&key("a"), 3);
    world.answer(*ticket, release);
    assert!(world.settle().is_empty());
    assert_eq!(world.admitted.get(&key("a")), Some(&2));
    world.submit("b", 7);
    assert!(
        world.settle().contains(&"framework-b Enqueued InsufficientQuota".to_owned()),
        "it may grow again"
    );
    world.advance(&key("a"));
    assert_eq!(world.settle(), ["framework-b Dequeued Admitted"], "the rest is free");
}

/// An admitted job may have begun: then its unit keeps its quota.
#[test]
fn a_unit_deleted_by_a_user_is_replaced_only_before_its_job_has_begun() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    world.settle();
    world.delete(&key("framework-a"));
    world.submit("b", 8);
    assert_eq!(world.settle(), ["create b", "framework-b Enqueued InsufficientQuota"]);
    assert_eq!(world.admitted.get(&key("a")), Some(&1));
    // The admission was for an older generation.
    world.resize(&key("a"), 7);
    let requests = world.settle();
    assert_eq!(requests[0], "remove finalizer of framework-a");
    assert!(requests.contains(&"create a".to_owned()), "{requests:?}");
    assert!(world.admitted.contains_key(&key("b")), "its quota is free");
    world.finish("b");
    world.settle();
    assert_eq!(world.admitted.get(&key("a")), Some(&2));
}

#[test]
fn a_unit_that_a_predecessor_released_is_not_replaced_before_recovery() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    world.settle();
    world.delete(&key("framework-a"));
    world.restart();
    assert!(world.settle().is_empty());
    assert!(world.admitted.is_empty(), "and its unit lets no job begin any more");
    world.pass(LIFETIME.as_secs() - 1);
    assert!(world.settle().is_empty());
    world.pass(1);
    let requests = world.settle();
    assert!(requests.contains(&"remove finalizer of framework-a".to_owned()), "{requests:?}");
    assert_eq!(world.admitted.get(&key("a")), Some(&1));
}

#[test]
fn an_unwanted_unit_is_deleted_once() {
    let mut world = World::new(1, 2);
    world.submit("a", 3);
    world.settle();
    world.finish("a");
    world.turn();
    let Some(Transit::There(ticket, request, _)) = world.transit.pop() else { panic!() };
    assert_eq!(summary(&request), "delete framework-a");
    let now = world.now();
    let reply = world.server.take(&request);
    world.controller.replied(now, now.wall, ticket, reply);
    // The watch is slow, and meanwhile much else happens.
    let news = std::mem::take(&mut world.server.news);
    for _ in 0..3 {
        world.tell(&key("a"));
        world.controller.offer(Work::Unit(key("framework-a")));
        assert!(world.settle().is_empty());
    }
    world.server.news = news;
    assert_eq!(world.settle(), ["remove finalizer of framework-a"]);
}
