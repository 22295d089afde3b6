//! The budget is kept, and shared fairly.

use std::time::Duration;

use framework_api::State;

use super::cluster::{Cluster, generous, policy};
use crate::engine::EngineSettings;
use crate::object::Reply;
use framework_message::Rejection;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_large_framework_does_not_hold_up_the_small_ones() {
    let settings = EngineSettings { qps: 100.0, burst: 10, ..generous() };
    let mut cluster = Cluster::with(policy(), settings);
    cluster.create_framework("big", 2000);
    cluster.deliver();
    cluster.live(SECOND * 2);
    assert!(cluster.count("create big-w") > 50, "it is at it: {}", cluster.count("create big-w"));
    let begun = cluster.count("create big-w");
    for index in 0..20 {
        cluster.create_framework(&format!("small{index}"), 1);
    }
    cluster.deliver();
    // Each small one needs some four requests; half of the budget is theirs at least.
    cluster.live(SECOND * 3);
    let small = cluster.pods.keys().filter(|name| name.starts_with("small")).count();
    assert_eq!(small, 20);
    assert!(cluster.count("create big-w") > begun + 50, "and the large one goes on");
}

#[test]
fn a_large_framework_goes_on_while_others_borrow_all_that_they_get() {
    let settings = EngineSettings { qps: 100.0, burst: 100, ..generous() };
    let mut cluster = Cluster::with(policy(), settings);
    cluster.create_framework("big", 2000);
    cluster.deliver();
    cluster.live(SECOND * 2);
    let begun = cluster.count("create big-w");
    cluster.engine.contend(true);
    for turn in 0..10_000 {
        let now = cluster.now();
        // One of them goes first in each second turn.
        if turn % 2 == 0 && cluster.engine.lend(now) {
            cluster.engine.repaid(now, &Reply::Done);
        }
        cluster.live(Duration::from_millis(1));
    }
    let created = cluster.count("create big-w") - begun;
    assert!(created > 250, "half of a thousand, or nearly: {created}");
}

/// How long the slowest of 40 small ones, four a second, waits for its Pod.
fn slowest(large: usize) -> Duration {
    let settings = EngineSettings { qps: 100.0, burst: 100, ..generous() };
    let mut cluster = Cluster::with(policy(), settings);
    for index in 0..large {
        cluster.create_framework(&format!("big{index}"), 1000);
    }
    cluster.deliver();
    cluster.live(SECOND * 5);
    let mut slowest = Duration::ZERO;
    for index in 0..40 {
        let (begin, name) = (cluster.now, format!("small{index}"));
        cluster.create_framework(&name, 1);
        cluster.deliver();
        let wait = |cluster: &Cluster| cluster.now - begin;
        while !cluster.pods.contains_key(&format!("{name}-w-0")) && wait(&cluster) < SECOND * 5 {
            cluster.live(Duration::from_millis(1));
        }
        slowest = slowest.max(wait(&cluster));
        cluster.live(Duration::from_millis(250).saturating_sub(wait(&cluster)));
    }
    if large > 0 {
        let created = cluster.count("create big");
        assert!((900..1000 * large).contains(&created), "they are at it all the time: {created}");
    }
    slowest
}

#[test]
fn small_ones_hardly_wait_for_the_budget_of_large_ones() {
    let (alone, beside) = (slowest(0), slowest(4));
    assert!(beside <= alone + Duration::from_millis(10), "{alone:?} alone, {beside:?} beside");
}

/// How long a Pod runs in [`slowest_life`].
const RUN: Duration = Duration::from_millis(200);

/// How long the slowest of 20 Frameworks of one Task, one a second, takes to its end, beside the Frameworks
/// of another tenant that `disturb` makes and changes.
fn slowest_life(disturb: impl Fn(&mut Cluster, usize)) -> Duration {
    let settings = EngineSettings { qps: 80.0, burst: 120, max_in_flight: 200, ..generous() };
    let mut cluster = Cluster::with(policy(), settings);
    let (mut slowest, mut steps) = (Duration::ZERO, 0);
    let mut live = |cluster: &mut Cluster| {
        disturb(cluster, steps);
        steps += 1;
        cluster.deliver();
        cluster.live(Duration::from_millis(10));
    };
    (0..300).for_each(|_| live(&mut cluster));
    for index in 0..20 {
        let name = format!("tenant2-{index}");
        let (begin, pod) = (cluster.now, format!("{name}-w-0"));
        cluster.create_framework(&name, 1);
        let mut created = None;
        while cluster.frameworks[&name].content.as_ref().unwrap().1.is_none()
            || cluster.state(&name) != State::Completed
        {
            assert!(cluster.now - begin < SECOND * 60, "{name}: {:?}", cluster.waiting());
            if cluster.pods.contains_key(&pod) {
                let since = *created.get_or_insert(cluster.now);
                if cluster.now - since >= RUN && cluster.pods[&pod].facts.end.is_none() {
                    cluster.exit(&pod, 0);
                }
            }
            live(&mut cluster);
        }
        slowest = slowest.max(cluster.now - begin);
        (0..100).for_each(|_| live(&mut cluster));
    }
    slowest
}

#[test]
fn thousands_of_frameworks_of_one_tenant_hardly_delay_that_of_another() {
    let alone = slowest_life(|_, _| ());
    let beside = slowest_life(|cluster, step| {
        if step == 0 {
            (0..5000).for_each(|index| cluster.create_framework(&format!("job{index}"), 1));
        }
    });
    assert!(beside <= alone * 2, "{alone:?} alone, {beside:?} beside");
}

#[test]
fn forty_frameworks_patched_all_the_time_hardly_delay_another_tenant() {
    let alone = slowest_life(|_, _| ());
    let beside = slowest_life(|cluster, step| {
        for index in 0..40 {
            let name = format!("job{index}");
            match step {
                0 => cluster.create_framework(&name, 2),
                // Three times a second each.
                _ if step % 33 == index % 33 => cluster.scale(&name, 1 + (step / 33 % 2) as i32),
                _ => {}
            }
        }
    });
    assert!(beside <= alone * 2, "{alone:?} alone, {beside:?} beside");
}

/// The API server answers the creates of one tenant slowly, for example because of a webhook for its Pods.
#[test]
fn a_tenant_that_is_answered_slowly_lets_another_one_pass() {
    let settings = EngineSettings { min_in_flight: 8, max_in_flight: 8, ..generous() };
    let mut cluster = Cluster::with(policy(), settings);
    let serve_others = |cluster: &mut Cluster| {
        for _ in 0..20 {
            cluster.pass(Duration::from_millis(50));
            let quick = cluster.waiting().into_iter().filter(|words| !words.starts_with("create slow"));
            quick.collect::<Vec<_>>().iter().for_each(|words| cluster.serve(words));
            cluster.deliver();
        }
    };
    for index in 0..20 {
        cluster.create_framework(&format!("slow{index}"), 20);
    }
    cluster.deliver();
    serve_others(&mut cluster);
    assert_eq!(cluster.open.len(), 8, "all that may be in flight: {:?}", cluster.waiting());
    cluster.create_framework("tenant2-0", 1);
    cluster.deliver();
    let mut answers = 0;
    while !cluster.pods.contains_key("tenant2-0-w-0") {
        serve_others(&mut cluster);
        cluster.serve("create slow");
        answers += 1;
    }
    // One for each request that it sends after a pause.
    assert!(answers <= 4, "after {answers} of the slow answers");
}

#[test]
fn no_more_is_sent_than_the_budget_allows() {
    let settings = EngineSettings { qps: 50.0, burst: 20, ..generous() };
    let mut cluster = Cluster::with(policy(), settings);
    cluster.now = SECOND * 10;
    cluster.create_framework("job", 1000);
    cluster.deliver();
    for second in 1..=10_usize {
        cluster.live(SECOND);
        let allowed = 20 + 50 * second;
        assert!(cluster.log.len() <= allowed, "{} of {allowed}", cluster.log.len());
        assert!(cluster.log.len() >= allowed - 35, "{} of {allowed}", cluster.log.len());
    }
}

#[test]
fn a_quick_api_server_gets_more_requests_at_a_time_and_a_slow_one_fewer() {
    let settings = EngineSettings { min_in_flight: 16, max_in_flight: 100, ..generous() };
    let mut cluster = Cluster::with(policy(), settings);
    cluster.creating("job", 1500);
    let creates =
        |cluster: &Cluster| cluster.waiting().iter().filter(|words| words.contains("create")).count();
    assert_eq!(creates(&cluster), 16, "the first turn of a Framework may use all");
    let answer = |cluster: &mut Cluster, rounds: usize, latency: Duration| {
        for _ in 0..rounds {
            cluster.pass(latency);
            cluster.serve_all();
            cluster.deliver();
            cluster.turn();
        }
    };
    answer(&mut cluster, 120, Duration::from_millis(20));
    let limit = cluster.engine.gauges().in_flight_limit;
    assert!((32..=100).contains(&limit), "{limit}");
    answer(&mut cluster, 40, SECOND);
    assert_eq!(cluster.engine.gauges().in_flight_limit, 16);
    assert_eq!(creates(&cluster), 8, "later ones half");
}

#[test]
fn writes_and_deletes_go_before_creates() {
    let settings = EngineSettings { max_in_flight: 1, ..generous() };
    let mut cluster = Cluster::with(policy(), settings);
    cluster.running("old", 2);
    cluster.create_framework("new", 3);
    cluster.deliver();
    while cluster.waiting() != ["create new-w-0"] {
        cluster.serve_all();
        cluster.deliver();
        cluster.pass(Duration::from_millis(10));
    }
    cluster.stop("old");
    cluster.deliver();
    cluster.log.clear();
    // One at a time: the requests that may be sent are sent in order.
    for _ in 0..6 {
        cluster.turn();
        cluster.serve_all();
        cluster.deliver();
    }
    let expected = ["put old AttemptDeletionPending", "delete old-w-0", "delete old-w-1"];
    assert_eq!(cluster.log[..3], expected, "{:?}", cluster.log);
}

#[test]
fn repeated_overload_pauses_everything() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("a", 4);
    let overloaded = || Rejection {
        code: 429,
        reason: String::new(),
        message: "slow down".into(),
        retry_after: Some(SECOND * 5),
    };
    for index in 0..3 {
        cluster.answer(&format!("create a-w-{index}"), Reply::Refused(overloaded()));
    }
    cluster.create_framework("b", 1);
    cluster.deliver();
    cluster.pass(Duration::from_millis(4900));
    assert_eq!(cluster.count("create map b"), 0);
    cluster.pass(Duration::from_millis(200));
    assert_eq!(cluster.count("create map b"), 1);
}
