//! Jobs that change, and units that are deleted, while they are released, or before they have begun.

use super::*;

/// Users resize waiting jobs and delete units at any time; controllers die.
#[test]
fn no_job_runs_with_more_than_was_released_for_it() {
    let (mut resized, mut again) = (0, 0);
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
        again += world.server.releases.len() - jobs.len();
    }
    assert!(resized > 1_000 && again > 100, "{resized} {again}");
}

#[test]
fn a_job_that_grows_during_its_release_gets_a_new_unit() {
    let mut world = World::new(1, 10);
    world.submit("a", 3);
    let [(ticket, release)] = &world.settle_except("framework-a Dequeued Admitted")[..] else { panic!() };
    world.pass(LIFETIME.as_secs());
    // The release lands first.
    world.answer(*ticket, release);
    world.resize(&key("a"), 9);
    world.submit("b", 2);
    let requests = world.settle();
    assert!(requests.contains(&"framework-a Enqueued InsufficientQuota".to_owned()), "{requests:?}");
    let of_a = |request: &&String| request.ends_with("framework-a") || *request == "create a";
    let again = ["delete framework-a", "remove finalizer of framework-a", "create a"];
    assert_eq!(requests.iter().filter(of_a).collect::<Vec<_>>(), again);
    assert!(!world.admitted.contains_key(&key("a")));
    world.finish("b");
    assert!(world.settle().contains(&"framework-a Dequeued Admitted".to_owned()));
    assert_eq!(world.admitted.get(&key("a")), Some(&2));
}

#[test]
fn a_release_of_a_unit_that_was_withdrawn_is_refused() {
    let mut world = World::new(1, 10);
    world.submit("a", 3);
    let [(ticket, release)] = &world.settle_except("framework-a Dequeued Admitted")[..] else { panic!() };
    world.resize(&key("a"), 9);
    world.settle();
    world.answer(*ticket, release);
    assert_eq!(world.server.refused, 1);
    assert!(world.settle().is_empty());
    let given = world.server.units[&key("framework-a")].requests.clone();
    assert_eq!((given, world.admitted.get(&key("a"))), (Ok(cpu(9)), Some(&2)));
}

/// The side of the Frameworks sees the release of an older unit, and compares.
#[test]
fn a_stale_release_begins_nothing_that_asks_for_more() {
    let mut world = World::new(1, 10);
    world.submit("a", 3);
    let [(ticket, release)] = &world.settle_except("framework-a Dequeued Admitted")[..] else { panic!() };
    world.answer(*ticket, release);
    let news = std::mem::take(&mut world.server.framework_news);
    world.resize(&key("a"), 9);
    world.settle_except("delete framework-a");
    world.server.framework_news = news;
    world.show();
    world.turn();
    assert!(!world.admitted.contains_key(&key("a")));
}

#[test]
fn a_waiting_unit_that_is_made_again_keeps_a_patched_priority() {
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
fn a_job_that_shrinks_after_its_release_begins_with_what_is_left() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    world.settle();
    world.resize(&key("a"), 3);
    assert!(world.settle().is_empty());
    assert_eq!(world.admitted.get(&key("a")), Some(&2));
    world.submit("b", 7);
    assert!(
        world.settle().contains(&"framework-b Enqueued InsufficientQuota".to_owned()),
        "it may grow again"
    );
    world.advance(&key("a"));
    assert_eq!(world.settle(), ["framework-a keeps cpu: 3", "framework-b Dequeued Admitted"]);
    world.restart();
    assert!(world.settle().is_empty(), "the unit says so");
}

#[test]
fn a_unit_deleted_by_a_user_keeps_its_quota_and_lets_its_job_begin() {
    for restarts in [false, true] {
        let mut world = World::new(1, 10);
        world.submit("a", 8);
        world.settle();
        world.pass(LIFETIME.as_secs());
        world.delete(&key("framework-a"));
        if restarts {
            world.restart();
        }
        world.submit("b", 8);
        world.settle();
        assert_eq!(world.admitted.is_empty(), restarts, "a predecessor may have let the unit go");
        world.pass(LIFETIME.as_secs());
        world.settle();
        assert_eq!(world.admitted.keys().collect::<Vec<_>>(), [&key("a")]);
        world.advance(&key("a"));
        assert_eq!(world.settle(), [""; 0], "it runs");
        world.finish("a");
        let requests = world.settle();
        assert_eq!(requests, ["remove finalizer of framework-a", "framework-b Dequeued Admitted"]);
    }
}

/// The user deletes the unit before the side of the Frameworks has seen its release, and changes the spec.
#[test]
fn an_outgrown_unit_is_replaced_once_nothing_can_have_begun_by_it() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    world.settle();
    world.delete(&key("framework-a"));
    world.resize(&key("a"), 9);
    world.restart_frameworks();
    world.submit("b", 8);
    let requests = world.settle();
    assert!(!requests.contains(&"remove finalizer of framework-a".to_owned()), "{requests:?}");
    assert!(world.admitted.is_empty(), "one has outgrown its unit, and the other finds no room");
    world.pass(LIFETIME.as_secs());
    let requests = world.settle();
    assert_eq!(requests[0], "remove finalizer of framework-a");
    assert!(requests.contains(&"create a".to_owned()), "{requests:?}");
    assert_eq!(world.admitted.len(), 1);
}

#[test]
fn the_unit_of_a_deleted_job_returns_its_quota_with_the_last_pod() {
    for restarts in [false, true] {
        let mut world = World::new(1, 10);
        world.submit("a", 8);
        world.settle();
        world.advance(&key("a"));
        world.submit("b", 8);
        world.settle();
        world.server.jobs.remove(&key("a"));
        world.strays.insert(key("a"), true);
        world.report(&key("a"));
        if restarts {
            world.restart_frameworks();
        }
        world.delete(&key("framework-a"));
        assert_eq!(world.settle(), [""; 0]);
        world.strays.insert(key("a"), false);
        world.report(&key("a"));
        if restarts {
            // The new program did not see it go, and asks.
            world.pass(LIFETIME.as_secs());
        }
        let mut requests = world.settle();
        let reads = requests.extract_if(.., |one| one.starts_with("GetFramework")).count();
        assert_eq!(reads, usize::from(restarts));
        assert_eq!(requests, ["remove finalizer of framework-a", "framework-b Dequeued Admitted"]);
    }
}

#[test]
fn the_unit_of_a_job_deleted_while_it_waits_goes_and_is_not_released() {
    for restarts in [false, true] {
        let mut world = World::new(1, 10);
        world.submit("a", 10);
        world.settle();
        world.submit("b", 8);
        world.settle();
        world.server.jobs.remove(&key("b"));
        if restarts {
            world.restart();
        }
        world.report(&key("b"));
        world.delete(&key("framework-b"));
        assert_eq!(world.settle(), ["remove finalizer of framework-b"]);
        assert!(!world.server.units.contains_key(&key("framework-b")));
    }
}

/// Each side dies between any two steps of the other.
#[test]
fn either_side_may_restart_at_any_step_of_a_release() {
    for step in 0..12 {
        for side in [World::restart_queues, World::restart_frameworks, World::restart] {
            let mut world = World::new(step, 10);
            world.submit("a", 8);
            world.submit("b", 8);
            for _ in 0..step {
                world.turn();
                if let Some(transit) = world.transit.pop() {
                    world.arrive(transit);
                }
                let _ = world.show_frameworks() || world.show_queues();
            }
            side(&mut world);
            for _ in 0..3 {
                world.settle();
                world.pass(LIFETIME.as_secs());
            }
            assert_eq!((world.server.releases.len(), world.admitted.len()), (1, 1), "step {step}");
        }
    }
}

#[test]
fn a_unit_without_our_finalizer_reserves_nothing_and_begins_no_job() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    let [(ticket, release)] = &world.settle_except("framework-a Dequeued Admitted")[..] else { panic!() };
    world.answer(*ticket, release);
    world.server.units.get_mut(&key("framework-a")).unwrap().finalizers = Finalizers::default();
    world.server.changed(&key("framework-a"));
    // Both changes are seen as one.
    world.server.framework_news.pop_front();
    assert_eq!(world.settle()[..2], ["delete framework-a", "create a"]);
    assert_eq!(world.admitted.len(), 1, "by its new unit");
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
    let reply = world.server.take(&request);
    world.reply(ticket, reply);
    // The watch is slow, and meanwhile much else happens.
    let news = std::mem::take(&mut world.server.framework_news);
    for _ in 0..3 {
        world.report(&key("a"));
        assert!(world.settle().is_empty());
    }
    world.server.framework_news = news;
    assert_eq!(world.settle(), ["remove finalizer of framework-a"]);
}

#[test]
fn a_finalizer_that_a_webhook_puts_back_is_removed_again() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    world.settle();
    world.finish("a");
    world.submit("b", 8);
    let removal = "remove finalizer of framework-a";
    for _ in 0..3 {
        let [(ticket, _)] = world.settle_except(removal)[..] else { panic!("it is tried") };
        world.reply(ticket, Reply::Done);
        world.pass(LIFETIME.as_secs() - 1);
        assert_eq!(world.settle(), [""; 0], "the watch may be slow");
        world.pass(1);
    }
    assert_eq!(world.settle(), [removal, "framework-b Dequeued Admitted"]);
}

/// The watch shows nothing of the removal yet, and the Framework comes to fit its unit again.
#[test]
fn nothing_begins_by_a_unit_let_go_though_a_later_try_fails() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    world.settle();
    world.pass(LIFETIME.as_secs());
    world.delete(&key("framework-a"));
    world.resize(&key("a"), 9);
    let removal = "remove finalizer of framework-a";
    let [(ticket, _)] = world.settle_except(removal)[..] else { panic!("nothing has begun by it") };
    world.reply(ticket, Reply::Done);
    world.pass(LIFETIME.as_secs());
    let [(ticket, _)] = world.settle_except(removal)[..] else { panic!("it is tried again") };
    let refusal = world.server.refuse(409);
    world.reply(ticket, refusal);
    world.resize(&key("a"), 8);
    world.settle_except(removal);
    assert!(world.admitted.is_empty(), "the first try may have been stored");
}

#[test]
fn quota_returns_later_if_a_job_went_before_its_pods_were_seen() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    world.settle();
    world.advance(&key("a"));
    world.server.jobs.remove(&key("a"));
    world.frameworks.framework(key("a"), None, false, true);
    world.delete(&key("framework-a"));
    assert_eq!(world.settle(), [""; 0]);
    world.pass(LIFETIME.as_secs() - 1);
    assert_eq!(world.settle(), [""; 0]);
    world.pass(1);
    assert_eq!(world.settle(), ["remove finalizer of framework-a"]);
}

/// A tenant may patch a Queue a hundred times a second, and each policy ranks all waiting units anew.
#[test]
fn a_queue_that_changes_often_costs_its_units_one_evaluation_in_a_turn() {
    let mut world = World::new(1, 2);
    for name in ["a", "b", "c"] {
        world.submit(name, 2);
        world.settle();
    }
    world.server.set_priority(&key("framework-c"), 5);
    world.show();
    world.settle();
    let place = |world: &World| world.controller.queue_position(&key("framework-b")).unwrap().place;
    let change = |world: &mut World, policy, class: Option<&str>| {
        let resource_version = 1000 + world.server.stamp();
        let class = class.map(Arc::from);
        let (key, uid) = (key("q"), "q".into());
        let queue = QueueObject { key, uid, resource_version, counts: None, policy, priority: None, class };
        world.controller.step(QueueEvent::Queue(Change::Applied(queue)));
    };
    assert_eq!(place(&world), Some(1));
    for _ in 0..100 {
        change(&mut world, QueuePolicy::Fifo, Some("missing"));
        change(&mut world, QueuePolicy::Priority, None);
        change(&mut world, QueuePolicy::Fifo, None);
    }
    let stale = &world.controller.stale;
    assert_eq!((place(&world), stale.units.len(), stale.queue_facts.len()), (Some(1), 0, 1), "not yet");
    world.settle();
    assert_eq!(place(&world), Some(0), "the last policy");
    change(&mut world, QueuePolicy::Fifo, Some("missing"));
    world.settle();
    let reason = |world: &World| world.server.units[&key("framework-b")].status.reason.unwrap();
    assert_eq!(reason(&world), Reason::PriorityClassNotFound);
    // The Queue is gone and is made again between two turns.
    let gone = world.controller.objects.queues.get(&key("q")).unwrap().clone();
    world.controller.step(QueueEvent::Queue(Change::Deleted(gone)));
    change(&mut world, QueuePolicy::Priority, None);
    world.settle();
    assert_eq!((reason(&world), place(&world)), (Reason::InsufficientQuota, Some(1)));
}
