//! The controller against an API server of few words: one queue, one quota, users who change priorities at
//! any time, replies that are lost, watches that lag. What the server holds is judged after each write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use framework_api::Time;
use framework_api::queue::{FINALIZER, Phase, QueuePolicy, Reason};
use framework_core::Defects;
use framework_core::observed::Admission;
use framework_core::queue::Stage;
use framework_queue::{Amount, QuotaFacts, ResourceRequests};

use super::*;
use crate::consumer::Growth;
use crate::counts::{Gauges, QueueCounts};
use crate::object::{Object, Overtaken, PodUse, QueueObject, QuotaObject, Reply, UnitObject, UnitStatus};
use crate::outgoing::Work;
use crate::request::Request;
use framework_message::{Rejection, Ticket};

mod changes;
mod growth;
mod world;

use world::{Transit, World, summary};

const SPACE: &str = "ns";
const LIFETIME: Duration = Duration::from_secs(28);

fn settings() -> Settings {
    Settings { reserve_after: Duration::from_secs(60), request_lifetime: LIFETIME, defects: Defects::NONE }
}

fn key(name: &str) -> Key {
    Key::new(SPACE, name)
}

fn cpu(amount: u64) -> ResourceRequests {
    [("cpu", Amount::units(amount.try_into().unwrap()))].into_iter().collect()
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap()
}

#[test]
fn each_unit_is_released_once_and_only_where_it_fits_under_races() {
    let (mut patches, mut releases, mut refused) = (0, 0, 0);
    for seed in 0..700 {
        let mut world = World::new(seed, 10);
        let jobs = world.rng.usize(5..25);
        for number in 0..jobs {
            let asks = world.rng.u64(1..8);
            world.submit(&format!("job{number}"), asks);
        }
        let mut steps = 0;
        while world.finished() < jobs {
            world.happen();
            steps += 1;
            assert!(steps < 1_000_000, "seed {seed} does not come to an end: {:#?}", world.server);
        }
        assert_eq!(world.server.releases.values().sum::<usize>(), jobs, "seed {seed}");
        patches += world.server.patches;
        releases += jobs;
        refused += world.server.refused;
    }
    println!("{patches} changes of priorities, {releases} releases, {refused} requests refused");
    assert!(patches >= 100_000, "{patches}");
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn a_released_unit_costs_three_requests_and_a_waiting_one_two() {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    world.submit("b", 2);
    world.submit("c", 2);
    let mut requests = world.calm();
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
    let gauges = Gauges { waiting: [("InsufficientQuota", 2)].into(), released: 1 };
    assert_eq!(*world.controller.gauges(), gauges);
}

/// The reasons that are on their way to units.
fn on_their_way(world: &World) -> Vec<Reason> {
    let reason = |transit: &Transit| match transit {
        Transit::There(_, Request::PutStatus { status, .. }, _) => status.reason,
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
    while let Some(change) = world.server.news.pop_front() {
        world.controller.step(QueueEvent::Unit(change));
    }
    world.turn();
    let reasons = on_their_way(&world);
    assert_eq!(reasons[0], Reason::Waiting, "the one that is to be released, whoever came before it");
    assert!(reasons[1..].iter().all(|reason| *reason == Reason::InsufficientQuota), "{reasons:?}");
    let others = reasons.len() - 1;
    assert!((1..=50).contains(&others), "{others} of 99 are told at a time");
    let first = world.transit.remove(0);
    world.arrive(first);
    world.turn();
    assert_eq!(on_their_way(&world).len(), others + 1);
    assert_eq!(on_their_way(&world).last(), Some(&Reason::Admitted), "while the others are on their way");
    let one = world.transit.remove(0);
    world.arrive(one);
    world.turn();
    assert_eq!(on_their_way(&world).len(), others + 1, "for each that was told another one is");
}

/// A world where a waits, and its controller died with the request that releases it on its way.
fn orphaned() -> World {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    let releases = |transit: &Transit| {
        matches!(transit, Transit::There(_, Request::PutStatus { status, .. }, _)
            if status.phase == Some(Phase::Dequeued))
    };
    loop {
        world.turn();
        if world.transit.iter().any(releases) {
            break;
        }
        for transit in std::mem::take(&mut world.transit) {
            world.arrive(transit);
        }
        while let Some(change) = world.server.news.pop_front() {
            world.controller.step(QueueEvent::Unit(change));
        }
    }
    world.pass(100);
    world
}

#[test]
fn after_a_start_nothing_is_released_while_older_requests_may_land() {
    let mut world = orphaned();
    world.restart();
    world.transit.clear();
    assert!(world.calm().is_empty());
    world.pass(LIFETIME.as_secs() - 1);
    assert!(world.calm().is_empty());
    assert_eq!(
        world.controller.next_wake(world.now(), world.now().wall),
        Some(world.now().steady + Duration::from_secs(1))
    );
    world.pass(1);
    assert_eq!(world.calm(), ["list after None", "framework-a Dequeued Admitted"]);
}

#[test]
fn the_last_release_of_a_predecessor_is_read_before_any_other_release() {
    let mut world = orphaned();
    let Some(Transit::There(_, late, _)) = world.transit.pop() else { panic!() };
    world.restart();
    for name in ["b", "c", "d"] {
        world.submit(name, 1);
    }
    world.calm();
    // It lands, and the watch does not show it.
    assert!(matches!(world.server.take(&late), Reply::Object(Object::Unit(_))));
    world.server.news.clear();
    world.pass(LIFETIME.as_secs());
    let requests = world.calm();
    assert_eq!(requests[..2], ["list after None", "list after Some(\"framework-c\")"]);
    assert_eq!(world.server.releases.len(), 1, "{requests:?}");
}

#[test]
fn a_lost_page_is_requested_again_and_shows_no_deleted_unit() {
    let mut world = orphaned();
    world.restart();
    world.turn();
    world.pass(LIFETIME.as_secs());
    world.transit.clear();
    world.turn();
    let Some(Transit::There(ticket, request, _)) = world.transit.pop() else { panic!() };
    let now = world.now();
    let Reply::Object(Object::Page(page)) = world.server.take(&request) else { panic!() };
    world.controller.replied(now, now.wall, ticket, Reply::Unknown(String::new()));
    assert!(world.calm().is_empty(), "not at once");
    world.pass(1);
    world.turn();
    let Some(Transit::There(ticket, ..)) = world.transit.pop() else { panic!() };
    // While the page is on its way, its unit goes.
    let mut gone = page.units[0].clone();
    gone.resource_version += 1;
    world.server.units.clear();
    world.controller.step(QueueEvent::Unit(Change::Deleted(gone)));
    world.controller.framework(key("a"), None);
    world.controller.replied(now, now.wall, ticket, Reply::Object(Object::Page(page)));
    assert!(world.calm().is_empty());
    assert_eq!(world.controller.queue_position(&key("framework-a")), None);
    assert_eq!(*world.controller.gauges(), Gauges::default());
}

#[test]
fn the_status_of_a_queue_is_written_when_it_changes_and_not_too_often() {
    let mut world = World::new(1, 2);
    world.calm();
    assert_eq!(world.counts(), Some((0, 0)));
    let times = written_in_a_hundred_seconds(&mut world);
    assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + 5), "{times:?}");
    assert!(times.len() > 15, "{times:?}");
    world.pass(10);
    world.calm();
    let gauges = world.controller.gauges();
    assert_eq!(world.counts(), Some((gauges.waiting.values().sum(), gauges.released)));
    let written = world.server.queue_writes.len();
    // Nothing has changed, and a controller that starts anew finds what is stored.
    world.pass(10);
    world.restart();
    world.calm();
    assert_eq!(world.server.queue_writes.len(), written);
}

#[test]
fn of_many_queues_each_is_written_less_often() {
    let mut world = World::new(1, 2);
    for number in 1..200 {
        let queue = QueueObject {
            key: key(&format!("q{number}")),
            uid: format!("q{number}").into(),
            resource_version: 1,
            counts: Some(QueueCounts { waiting: 0, released: 0 }),
            policy: QueuePolicy::Priority,
            priority: None,
            class: None,
        };
        world.controller.step(QueueEvent::Queue(Change::Applied(queue)));
    }
    world.calm();
    let times = written_in_a_hundred_seconds(&mut world);
    assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + 20), "{times:?}");
    assert!(times.len() > 3, "{times:?}");
}

/// When the status of the Queue was written, while a unit came each second and every other one ended.
fn written_in_a_hundred_seconds(world: &mut World) -> Vec<u64> {
    for second in 1..=100 {
        let name = format!("job{second:03}");
        world.submit(&name, 2);
        world.calm();
        world.pass(1);
        if second % 2 == 0 {
            world.finish(&name);
        }
        world.calm();
    }
    world.server.queue_writes.iter().map(|(at, _)| *at).collect()
}

#[test]
fn an_unwanted_unit_is_deleted_once() {
    let mut world = World::new(1, 2);
    world.submit("a", 3);
    world.calm();
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
        assert!(world.calm().is_empty());
    }
    world.server.news = news;
    assert_eq!(world.calm(), ["remove finalizer of framework-a"]);
}

#[test]
fn a_quota_that_was_just_made_has_room_as_soon_as_it_is_counted() {
    let mut world = World::new(1, 10);
    let amount = |cpu| [("cpu".to_owned(), Amount::units(cpu))].into();
    for (version, used, counted) in [(2, 10, false), (3, 0, true)] {
        assert!(world.calm().is_empty(), "nothing is known of it yet");
        let limits = Some(QuotaFacts { hard: amount(10), used: amount(used), ..Default::default() });
        let quota = QuotaObject { key: key("quota"), resource_version: version, limits, counted };
        world.controller.step(QueueEvent::Quota(Change::Applied(quota)));
        if !counted {
            world.submit("a", 6);
            world.calm();
        }
    }
    assert_eq!(world.calm(), ["framework-a Dequeued Admitted"], "at once");
}

/// The quota of 10 counts that much as used.
fn uses(world: &mut World, used: i64) {
    let amount = |cpu| [("cpu".to_owned(), Amount::units(cpu))].into();
    let limits = Some(QuotaFacts { hard: amount(10), used: amount(used), ..Default::default() });
    let resource_version = world.server.stamp();
    let quota = QuotaObject { key: key("quota"), resource_version, limits, counted: true };
    world.controller.step(QueueEvent::Quota(Change::Applied(quota)));
}

/// A Pod of a job.
fn pod_of(job: &str, asks: u64) -> PodUse {
    let consumer = ConsumerKey::new(ConsumerKind::Framework, key(job));
    PodUse {
        key: key(&format!("{job}-0")),
        resource_version: 2,
        consumer: Some((consumer, format!("uid-{job}").into())),
        requests: cpu(asks),
        ended: false,
        lapses: None,
    }
}

#[test]
fn watches_that_lag_behind_each_other_make_no_room() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 4);
    world.submit("a", 6);
    world.calm();
    world.submit("b", 3);
    world.calm();
    world.controller.step(QueueEvent::Pod(Change::Applied(pod_of("a", 6))));
    assert!(world.calm().is_empty(), "the quota has not counted it yet");
    uses(&mut world, 10);
    world.pass(10);
    assert!(world.calm().is_empty());
    uses(&mut world, 7);
    assert!(world.calm().is_empty(), "not before it has stood");
    assert_eq!(
        world.controller.next_wake(world.now(), world.now().wall),
        Some(world.now().steady + Duration::from_secs(1))
    );
    world.pass(1);
    assert_eq!(world.calm(), ["framework-b Dequeued Admitted"]);
}

/// The quota counts a Pod before it is there. What that leaves no room for would fit as well as before.
#[test]
fn a_pod_that_its_quota_counts_first_is_not_attributed_to_others() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 0);
    for name in ["a", "b"] {
        world.submit(name, 10);
    }
    world.calm();
    uses(&mut world, 10);
    world.submit("c", 10);
    assert_eq!(world.calm(), ["create c", "framework-c Enqueued InsufficientQuota"]);
    let message = |world: &World| world.server.units[&key("framework-c")].status.message.clone();
    assert!(!message(&world).contains("others"), "{}", message(&world));
    world.pass(60);
    assert!(world.calm().is_empty(), "however long the Pod is not shown");
    world.controller.step(QueueEvent::Pod(Change::Applied(pod_of("a", 10))));
    assert!(world.calm().is_empty());
    // That much is nobody's of whom the controller knows.
    uses(&mut world, 12);
    assert!(world.calm().is_empty());
    world.pass(5);
    let requests = world.calm();
    assert!(requests.contains(&"framework-c Enqueued ExceedsQuota".to_owned()), "{requests:?}");
    assert!(message(&world).ends_with("others use 2"), "{}", message(&world));
}

#[test]
fn a_stuck_pod_makes_no_room_when_its_quota_stops_counting_it() {
    let mut world = World::new(1, 10);
    world.server.version = 1;
    uses(&mut world, 2);
    world.submit("a", 6);
    world.calm();
    let mut pod = pod_of("a", 6);
    world.controller.step(QueueEvent::Pod(Change::Applied(pod.clone())));
    uses(&mut world, 8);
    world.submit("b", 3);
    world.calm();
    (pod.resource_version, pod.lapses) = (3, Some(at(world.second + 60)));
    world.controller.step(QueueEvent::Pod(Change::Applied(pod.clone())));
    world.pass(40);
    assert!(world.calm().is_empty());
    let wake = Duration::from_secs(20) + Duration::from_millis(1);
    assert_eq!(world.controller.next_wake(world.now(), world.now().wall), Some(world.now().steady + wake));
    world.pass(21);
    world.calm();
    uses(&mut world, 2);
    world.calm();
    world.pass(10);
    world.calm();
    let phase = world.server.units[&key("framework-b")].status.phase;
    assert_eq!(phase, Some(Phase::Enqueued), "others use 2 as before, and it may still run");
    pod.resource_version = 4;
    world.controller.step(QueueEvent::Pod(Change::Deleted(pod)));
    world.finish("a");
    assert!(world.calm().contains(&"framework-b Dequeued Admitted".to_owned()));
}

#[test]
fn a_release_without_a_reply_counts_though_a_later_try_of_it_is_refused() {
    let mut world = World::new(1, 2);
    world.submit("a", 2);
    world.submit("b", 2);
    let [(ticket, late)] = &world.calm_but("framework-a Dequeued Admitted")[..] else { panic!() };
    // It is on its way for long, and nobody knows.
    let now = world.now();
    world.controller.replied(now, now.wall, *ticket, Reply::Unknown(String::new()));
    world.pass(1);
    let [(ticket, _)] = world.calm_but("framework-a Dequeued Admitted")[..] else { panic!() };
    // By now another would go first.
    world.server.prioritise(&key("framework-b"), 5);
    assert!(world.calm().is_empty());
    let (now, refusal) = (world.now(), world.server.refuse(403));
    world.controller.replied(now, now.wall, ticket, refusal);
    assert!(world.calm().is_empty(), "there is room for one, and perhaps one has it");
    assert!(matches!(world.server.take(late), Reply::Object(Object::Unit(_))));
    world.pass(10);
    world.calm();
    assert_eq!(world.server.releases.len(), 1);
}

/// A world with room for 3, where a has 2, and b waits for all of it.
fn one_that_waits() -> World {
    let mut world = World::new(1, 3);
    world.submit("a", 2);
    world.calm();
    world.submit("b", 3);
    world.calm();
    world
}

#[test]
fn capacity_stays_reserved_for_an_overtaken_unit_after_a_restart() {
    let mut world = one_that_waits();
    let overtaken = |world: &World| world.server.units[&key("framework-b")].status.overtaken;
    assert_eq!(overtaken(&world), None);
    world.submit("c", 1);
    assert!(world.calm().contains(&"framework-c Dequeued Admitted".to_owned()));
    world.pass(29);
    assert!(world.calm().is_empty());
    assert_eq!(overtaken(&world), None, "not yet");
    world.pass(1);
    assert_eq!(world.calm(), ["framework-b Enqueued InsufficientQuota"]);
    assert_eq!(overtaken(&world), Some(Overtaken { since: Time::floor(at(0)), reserved: false }));
    world.pass(31);
    world.calm();
    assert_eq!(overtaken(&world), Some(Overtaken { since: Time::floor(at(0)), reserved: true }));
    world.finish("c");
    world.submit("d", 1);
    assert_eq!(world.calm(), ["create d", "framework-d Enqueued CapacityReserved"]);
    world.restart();
    world.calm();
    world.pass(LIFETIME.as_secs());
    let requests = world.calm();
    assert_eq!(requests, ["list after None", "list after Some(\"framework-c\")"]);
    world.finish("a");
    assert!(world.calm().contains(&"framework-b Dequeued Admitted".to_owned()));
    assert_eq!(world.server.units[&key("framework-d")].status.phase, Some(Phase::Enqueued));
}

/// Where queues take turns, who comes first in one is overtaken until its turn comes.
#[test]
fn being_overtaken_for_a_moment_costs_no_write() {
    let mut world = one_that_waits();
    world.submit("c", 1);
    // Released behind it.
    assert_eq!(world.calm(), ["create c", "framework-c Enqueued Waiting", "framework-c Dequeued Admitted"]);
    world.finish("a");
    world.finish("c");
    let requests = world.calm();
    let of_b: Vec<_> = requests.iter().filter(|request| request.contains("framework-b")).collect();
    assert_eq!(of_b, ["framework-b Dequeued Admitted"]);
    world.pass(60);
    assert!(world.calm().is_empty());
}

/// Its place in time is kept although it is not stored yet, and whatever else is written of it meanwhile.
#[test]
fn the_overtaken_time_outlasts_a_change_of_the_unit() {
    let mut world = one_that_waits();
    world.submit("c", 1);
    world.calm();
    world.pass(15);
    world.server.prioritise(&key("framework-b"), 5);
    assert!(world.calm().is_empty());
    // Another one passes it.
    world.finish("c");
    world.submit("d", 1);
    world.calm();
    world.pass(15);
    world.calm();
    let stored = world.server.units[&key("framework-b")].status.overtaken;
    assert_eq!(stored, Some(Overtaken { since: Time::floor(at(0)), reserved: false }));
}
