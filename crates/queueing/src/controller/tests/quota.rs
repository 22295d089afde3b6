//! Quotas and Pods that the watches show at different times.

use super::*;

#[test]
fn a_quota_that_was_just_made_has_room_as_soon_as_it_is_counted() {
    let mut world = World::new(1, 10);
    let amount = |cpu| [("cpu".to_owned(), Amount::units(cpu))].into();
    for (version, used, counted) in [(2, 10, false), (3, 0, true)] {
        assert!(world.settle().is_empty(), "nothing is known of it yet");
        let limits = Some(QuotaFacts { hard: amount(10), used: amount(used), ..Default::default() });
        let quota = QuotaObject { key: key("quota"), resource_version: version, limits, counted };
        world.controller.step(QueueEvent::Quota(Change::Applied(quota)));
        if !counted {
            world.submit("a", 6);
            world.settle();
        }
    }
    assert_eq!(world.settle(), ["framework-a Dequeued Admitted"], "at once");
}

/// The quota of 10 counts that much as used.
pub(super) fn uses(world: &mut World, used: i64) {
    let amount = |cpu| [("cpu".to_owned(), Amount::units(cpu))].into();
    let limits = Some(QuotaFacts { hard: amount(10), used: amount(used), ..Default::default() });
    let resource_version = world.server.stamp();
    let quota = QuotaObject { key: key("quota"), resource_version, limits, counted: true };
    world.controller.step(QueueEvent::Quota(Change::Applied(quota)));
}

/// The releases of three jobs that ask for 3 each were refused for now, and decided again.
#[test]
fn a_release_that_waits_to_be_sent_is_decided_anew_if_others_use_its_room() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 0);
    for name in ["a", "b", "c"] {
        world.submit(name, 3);
        let [(ticket, _)] = world.settle_except(&format!("framework-{name} Dequeued Admitted"))[..] else {
            panic!("{name} has room")
        };
        let refusal = world.server.refuse(429);
        world.reply(ticket, refusal);
    }
    assert!(world.settle().is_empty(), "they wait out their pauses");
    uses(&mut world, 3);
    assert_eq!(world.settle(), [""; 0]);
    world.pass(60);
    let mut requests = world.settle();
    requests.sort();
    let expected = [
        "framework-a Dequeued Admitted",
        "framework-b Dequeued Admitted",
        "framework-c Enqueued InsufficientQuota",
    ];
    assert_eq!(requests, expected, "the last one waits");
    uses(&mut world, 0);
    world.settle();
    world.pass(1);
    assert_eq!(world.settle(), ["framework-c Dequeued Admitted"]);
}

#[test]
fn a_release_that_was_sent_stands_though_others_use_its_room() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 0);
    world.submit("a", 6);
    let [(ticket, request)] = &world.settle_except("framework-a Dequeued Admitted")[..] else { panic!() };
    uses(&mut world, 10);
    assert!(world.settle().is_empty(), "it may be stored");
    let reply = world.server.take(request);
    world.reply(*ticket, reply);
    assert!(world.settle().is_empty());
    assert_eq!(world.server.releases.len(), 1);
}

#[test]
fn a_release_that_never_left_may_be_taken_back() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 0);
    world.submit("a", 6);
    let [(ticket, _)] = world.settle_except("framework-a Dequeued Admitted")[..] else { panic!() };
    uses(&mut world, 10);
    world.reply(ticket, Reply::NotSent("too late".to_owned()));
    assert_eq!(world.settle(), [""; 0], "it waits out its pause");
    world.pass(60);
    assert_eq!(world.settle(), ["framework-a Enqueued ExceedsQuota"], "others use all of it");
}

/// A Pod of a job.
fn pod_of(job: &str, asks: u64) -> PodUse {
    PodUse {
        key: key(&format!("{job}-0")),
        resource_version: 2,
        controller: Some(format!("map-{job}").into()),
        consumer: None,
        requests: cpu(asks),
        ended: false,
        lapses: None,
        slot: None,
    }
}

#[test]
fn watches_that_lag_behind_each_other_make_no_room() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 4);
    world.submit("a", 6);
    world.settle();
    world.submit("b", 3);
    world.settle();
    world.show_attempt("a");
    world.controller.step(QueueEvent::Pod(Change::Applied(pod_of("a", 6))));
    assert!(world.settle().is_empty(), "the quota has not counted it yet");
    uses(&mut world, 10);
    world.pass(10);
    assert!(world.settle().is_empty());
    uses(&mut world, 7);
    assert!(world.settle().is_empty(), "not before it has stood");
    assert_eq!(
        world.controller.next_wake(world.now(), world.now().wall),
        Some(world.now().steady + Duration::from_secs(1))
    );
    world.pass(1);
    assert_eq!(world.settle(), ["framework-b Dequeued Admitted"]);
}

#[test]
fn a_pod_that_goes_while_pods_are_not_watched_makes_no_room() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 1);
    world.submit("a", 6);
    world.settle();
    world.show_attempt("a");
    world.controller.step(QueueEvent::Pod(Change::Applied(pod_of("a", 6))));
    uses(&mut world, 7);
    world.submit("b", 4);
    world.settle();
    world.controller.step(QueueEvent::PodsAreWatched(false));
    uses(&mut world, 1);
    let passed = |world: &mut World| {
        world.settle();
        world.pass(10);
        world.settle()
    };
    assert_eq!(passed(&mut world), [""; 0], "the Pod of a, which may come again, seems to be there");
    world.controller.step(QueueEvent::PodsAreWatched(true));
    world.controller.step(QueueEvent::Pod(Change::Deleted(PodUse { resource_version: 9, ..pod_of("a", 6) })));
    assert_eq!(passed(&mut world), [""; 0], "others use 1");
    uses(&mut world, 0);
    assert_eq!(passed(&mut world), ["framework-b Dequeued Admitted"]);
}

#[test]
fn a_pod_that_is_shown_while_quotas_are_not_watched_makes_no_room() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 6);
    world.submit("a", 4);
    world.settle();
    world.submit("b", 4);
    world.settle();
    world.controller.step(QueueEvent::QuotasAreWatched(false));
    world.show_attempt("a");
    world.controller.step(QueueEvent::Pod(Change::Applied(pod_of("a", 4))));
    let passed = |world: &mut World| {
        world.settle();
        world.pass(10);
        world.settle()
    };
    assert_eq!(passed(&mut world), [""; 0], "others use 6, and the quota is yet to show the Pod of a");
    world.controller.step(QueueEvent::QuotasAreWatched(true));
    uses(&mut world, 10);
    assert_eq!(passed(&mut world), [""; 0], "others use 6");
    uses(&mut world, 4);
    assert_eq!(passed(&mut world), ["framework-b Dequeued Admitted"]);
}

/// The quota counts a Pod before it is there. A unit that does not fit for that reason is not blocked by
/// others.
#[test]
fn a_pod_that_its_quota_counts_first_is_not_attributed_to_others() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 0);
    for name in ["a", "b"] {
        world.submit(name, 10);
    }
    world.settle();
    uses(&mut world, 10);
    world.submit("c", 10);
    assert_eq!(world.settle(), ["create c", "framework-c Enqueued InsufficientQuota"]);
    let message = |world: &World| world.server.units[&key("framework-c")].status.message.clone();
    assert!(!message(&world).contains("others"), "{}", message(&world));
    world.pass(60);
    assert!(world.settle().is_empty(), "however long the Pod is not shown");
    world.show_attempt("a");
    world.controller.step(QueueEvent::Pod(Change::Applied(pod_of("a", 10))));
    assert!(world.settle().is_empty());
    // No job that the controller knows uses that much.
    uses(&mut world, 12);
    assert!(world.settle().is_empty());
    world.pass(5);
    let requests = world.settle();
    assert!(requests.contains(&"framework-c Enqueued ExceedsQuota".to_owned()), "{requests:?}");
    assert!(message(&world).ends_with("others use 2"), "{}", message(&world));
}

#[test]
fn a_stuck_pod_makes_no_room_when_its_quota_stops_counting_it() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 2);
    world.submit("a", 6);
    world.settle();
    world.show_attempt("a");
    let mut pod = pod_of("a", 6);
    world.controller.step(QueueEvent::Pod(Change::Applied(pod.clone())));
    uses(&mut world, 8);
    world.submit("b", 3);
    world.settle();
    (pod.resource_version, pod.lapses) = (3, Some(at(world.second + 60)));
    world.controller.step(QueueEvent::Pod(Change::Applied(pod.clone())));
    world.pass(40);
    assert!(world.settle().is_empty());
    let wake = Duration::from_secs(20) + Duration::from_millis(1);
    assert_eq!(world.controller.next_wake(world.now(), world.now().wall), Some(world.now().steady + wake));
    world.pass(21);
    world.settle();
    uses(&mut world, 2);
    world.settle();
    world.pass(10);
    world.settle();
    let phase = world.server.units[&key("framework-b")].status.phase;
    assert_eq!(phase, Some(Phase::Enqueued), "others use 2 as before, and it may still run");
    pod.resource_version = 4;
    world.controller.step(QueueEvent::Pod(Change::Deleted(pod)));
    world.finish("a");
    assert!(world.settle().contains(&"framework-b Dequeued Admitted".to_owned()));
}

/// A job reserves 6 of 10 and runs nothing now. Pods that copy its labels, as a user can, use 3.
#[test]
fn a_pod_that_copies_the_labels_of_another_hides_no_use_and_adds_none() {
    // Labels are not even read. Its controller is unknown, or a ConfigMap of another namespace, or none.
    for controller in [Some("nothing"), None] {
        let mut world = World::new(1, 10);
        world.server.version = 1;
        uses(&mut world, 0);
        world.submit("a", 6);
        world.settle();
        world.show_attempt("a");
        let controller = controller.map(Arc::from);
        let copy = PodUse { key: key("copy"), controller, ..pod_of("a", 3) };
        world.controller.step(QueueEvent::Pod(Change::Applied(copy)));
        uses(&mut world, 3);
        world.submit("b", 2);
        assert_eq!(world.settle(), ["create b", "framework-b Enqueued InsufficientQuota"], "one is left");
        // The Pods of the job itself are within its reservation, so they add nothing.
        world.controller.step(QueueEvent::Pod(Change::Applied(pod_of("a", 6))));
        uses(&mut world, 9);
        world.submit("c", 1);
        world.settle();
        world.pass(10);
        world.settle();
        assert!(world.admitted.contains_key(&key("c")), "the rest is free");
        assert!(!world.admitted.contains_key(&key("b")));
    }
}

#[test]
fn pods_beyond_the_reservation_of_their_job_count_as_others_use() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 0);
    world.submit("a", 4);
    world.settle();
    world.show_attempt("a");
    for name in ["a-0", "forged"] {
        let pod = PodUse { key: key(name), ..pod_of("a", 4) };
        world.controller.step(QueueEvent::Pod(Change::Applied(pod)));
    }
    uses(&mut world, 8);
    world.submit("b", 3);
    assert_eq!(world.settle(), ["create b", "framework-b Enqueued InsufficientQuota"]);
}

#[test]
fn a_pod_whose_config_map_is_not_seen_yet_counts_as_others_use() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 0);
    world.submit("a", 6);
    world.settle();
    world.controller.step(QueueEvent::Pod(Change::Applied(pod_of("a", 6))));
    uses(&mut world, 6);
    world.submit("b", 4);
    assert_eq!(world.settle(), ["create b", "framework-b Enqueued InsufficientQuota"]);
    world.show_attempt("a");
    world.settle();
    world.pass(1);
    assert_eq!(world.settle(), ["framework-b Dequeued Admitted"]);
}

/// Its job may reserve the same amount meanwhile: doubt delays a release rather than exceeds the quota.
#[test]
fn a_pod_that_outlives_its_config_map_counts_as_others_use() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 0);
    world.submit("a", 5);
    world.settle();
    let map = world.show_attempt("a");
    let pod = pod_of("a", 5);
    world.controller.step(QueueEvent::Pod(Change::Applied(pod.clone())));
    uses(&mut world, 5);
    world.settle();
    world.controller.step(QueueEvent::Attempt(Change::Deleted(map)));
    world.submit("b", 5);
    assert_eq!(world.settle(), ["create b", "framework-b Enqueued InsufficientQuota"]);
    world.controller.step(QueueEvent::Pod(Change::Deleted(pod)));
    uses(&mut world, 0);
    world.settle();
    world.pass(1);
    assert_eq!(world.settle(), ["framework-b Dequeued Admitted"], "the other half is free");
}

#[test]
fn an_edit_that_moves_thousands_of_pods_is_counted_over_several_turns() {
    let mut world = World::new(1, 10);
    for number in 0..2500 {
        let pod = PodUse {
            key: key(&format!("a-{number}")),
            resource_version: 1,
            controller: Some("map-a".into()),
            consumer: None,
            requests: cpu(1),
            ended: false,
            lapses: None,
            slot: None,
        };
        world.controller.step(QueueEvent::Pod(Change::Applied(pod)));
    }
    world.turn();
    world.show_attempt("a");
    let job = Key::new("ns", "uid-a");
    let counted = |world: &World| world.controller.usage.of(&job).map(|usage| usage.to_string());
    let turns: Vec<_> = (0..3)
        .map(|_| {
            world.turn();
            let wake = world.controller.next_wake(world.now(), world.now().wall);
            (world.controller.stale.pods.len(), wake == Some(world.now().steady))
        })
        .collect();
    assert_eq!(turns, [(1500, true), (500, true), (0, false)]);
    assert_eq!(counted(&world).as_deref(), Some("cpu: 2500"));
}

#[test]
fn a_unit_keeps_its_finalizer_until_all_pods_of_its_job_are_counted() {
    let mut world = World::new(1, 10);
    let uncounted = Key::new("ns", "of-another-job");
    world.submit("a", 1);
    world.settle();
    world.controller.stale.pods.insert(uncounted);
    let unit = UnitObject {
        deleting: true,
        owner: None,
        consumer: ConsumerKey { kind: JobKind::Itself, key: key("x") },
        ..world.server.units[&key("framework-a")].clone()
    };
    assert!(!world.controller.may_remove_finalizer(&unit, &ResourceRequests::default()));
    world.controller.recount_pods(1);
    assert!(world.controller.may_remove_finalizer(&unit, &ResourceRequests::default()));
}

#[test]
fn a_namespace_whose_last_object_went_is_forgotten() {
    let mut world = World::new(1, 10);
    let quota = |change: fn(QuotaObject) -> Change<QuotaObject>| {
        let key = Key::new("brief", "quota");
        QueueEvent::Quota(change(QuotaObject { key, resource_version: 7, limits: None, counted: true }))
    };
    world.controller.step(quota(Change::Applied));
    world.turn();
    assert!(world.controller.namespaces.get("brief").is_some());
    world.controller.step(quota(Change::Deleted));
    world.turn();
    assert!(world.controller.namespaces.get("brief").is_none());
}
