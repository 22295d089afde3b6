//! The rules of order, admission and reasons, one claim each.

use std::sync::Arc;

use framework_api::queue::{QueuePolicy, Reason};
use framework_queue::{UnitFacts, UnitPhase, UnitUpdate, WaitReason};

use crate::world::{World, at, quota, requests, unit, with_priority};

const NONE: [String; 0] = [];

#[test]
fn without_a_quota_every_unit_is_released() {
    let mut world = World::new("");
    world.set_unit("u1", unit("a", 1, "cpu 1000"));
    world.set_unit("u2", unit("b", 2, "gpu 1000"));
    assert_eq!(world.round(0), ["u1 goes", "u2 goes"]);
    assert_eq!(world.round(1), NONE, "once");
}

#[test]
fn a_resource_that_no_quota_names_is_not_limited() {
    let mut world = World::new("cpu 1");
    world.set_unit("u1", unit("a", 1, "cpu 1 gpu 1000"));
    world.set_unit("u2", unit("a", 2, "gpu 1000"));
    assert_eq!(world.round(0), ["u1 goes", "u2 goes"]);
}

#[test]
fn a_priority_goes_before_the_time_in_a_queue_that_asks_for_it() {
    let units = |world: &mut World| {
        [("u1", 0, 1), ("u2", 5, 3), ("u3", 5, 2)].map(|(uid, priority, came)| {
            world.set_unit(uid, with_priority(priority, unit("a", came, "cpu 1")));
        })
    };
    let mut world = World::new("cpu 10");
    units(&mut world);
    assert_eq!(world.released(0), ["u3", "u2", "u1"]);
    let mut world = World::new("cpu 10");
    world.queue("a", QueuePolicy::Fifo, 0);
    units(&mut world);
    assert_eq!(world.released(0), ["u1", "u3", "u2"]);
}

#[test]
fn units_of_the_same_time_go_by_uid() {
    let mut world = World::new("cpu 10");
    for uid in ["c", "a", "b"] {
        world.set_unit(uid, unit("a", 1, "cpu 1"));
    }
    assert_eq!(world.released(0), ["a", "b", "c"]);
}

#[test]
fn a_queue_of_a_higher_priority_goes_first() {
    let mut world = World::new("cpu 10");
    world.queue("b", QueuePolicy::Priority, 7);
    world.set_unit("u1", with_priority(100, unit("a", 1, "cpu 1")));
    world.set_unit("u2", unit("b", 2, "cpu 1"));
    world.set_unit("u3", unit("b", 3, "cpu 1"));
    assert_eq!(world.released(0), ["u2", "u3", "u1"], "also when it holds more");
}

#[test]
fn of_equal_queues_the_one_with_less_usage_goes_first() {
    let mut world = World::new("cpu 10 memory 100");
    for (uid, queue, came, requests) in [
        ("a1", "a", 1, "cpu 2 memory 1"),
        ("a2", "a", 2, "cpu 2 memory 1"),
        ("b1", "b", 3, "cpu 1 memory 15"),
        ("b2", "b", 4, "cpu 1 memory 15"),
        ("b3", "b", 5, "cpu 1 memory 15"),
    ] {
        world.set_unit(uid, unit(queue, came, requests));
    }
    // Shares: a has 0, 0.2, 0.4 by its cpu; b has 0, 0.15, 0.3 by its memory.
    assert_eq!(world.released(0), ["a1", "b1", "b2", "a2", "b3"]);
}

#[test]
fn queues_with_equal_usage_go_by_oldest_unit_and_then_by_name() {
    let mut world = World::new("");
    world.set_unit("u1", unit("b", 1, "cpu 1"));
    world.set_unit("u2", unit("a", 2, "cpu 1"));
    world.set_unit("u3", unit("b", 2, "cpu 1"));
    assert_eq!(world.released(0), ["u1", "u2", "u3"]);
}

#[test]
fn the_oldest_unit_of_a_queue_is_the_first_in_its_own_order() {
    let mut world = World::new("");
    world.set_unit("u1", unit("b", 1, "cpu 1"));
    world.set_unit("u2", with_priority(1, unit("b", 9, "cpu 1")));
    world.set_unit("u3", unit("a", 5, "cpu 1"));
    assert_eq!(world.released(0), ["u3", "u2", "u1"]);
}

#[test]
fn a_smaller_unit_goes_past_one_that_does_not_fit() {
    let mut world = World::new("cpu 10");
    world.set_unit("u1", unit("a", 1, "cpu 6"));
    world.set_unit("u2", unit("a", 2, "cpu 6"));
    world.set_unit("u3", unit("a", 3, "cpu 4"));
    assert_eq!(
        world.round(0),
        ["u1 goes", "u3 goes", "u2 waits: InsufficientQuota", "u2 is overtaken at 1000"]
    );
    world.end("u1");
    assert_eq!(world.released(1), ["u2"]);
}

#[test]
fn capacity_that_becomes_free_is_set_aside_for_an_overdue_unit() {
    let mut world = World::new("cpu 10");
    world.set_unit("s1", unit("a", 1, "cpu 5"));
    world.set_unit("s2", unit("a", 2, "cpu 5"));
    world.set_unit("big", unit("a", 3, "cpu 10"));
    world.set_unit("s3", unit("a", 4, "cpu 5"));
    assert_eq!(world.released(0), ["s1", "s2"]);
    world.end("s1");
    assert_eq!(world.round(1), ["s3 goes", "big is overtaken at 1001"]);
    assert_eq!(world.namespace.next_wake(), Some(at(1301)));
    assert_eq!(world.round(299), NONE, "not yet for too long");
    world.set_unit("s4", unit("b", 5, "cpu 5"));
    world.end("s2");
    assert_eq!(world.round(1), ["s4 waits: CapacityReserved", "big has capacity reserved"]);
    assert_eq!(world.namespace.next_wake(), None);
    world.end("s3");
    assert_eq!(world.round(100), ["big goes", "s4 waits: InsufficientQuota"]);
}

#[test]
fn only_the_requests_of_the_overdue_unit_are_set_aside() {
    let mut world = World::new("cpu 10 gpu 8");
    let overdue = UnitPhase::Waiting { overtaken: Some(at(0)), reserved: true, reason: None };
    let mut big = unit("a", 1, "cpu 10");
    big.phase = overdue;
    world.set_unit("big", big);
    let usage = UnitPhase::Released { usage: requests("cpu 1") };
    let mut small = unit("a", 0, "cpu 1");
    small.phase = usage;
    world.set_unit("s1", small);
    world.set_unit("s2", unit("a", 2, "cpu 1 gpu 1"));
    world.set_unit("s3", unit("a", 3, "gpu 8"));
    assert_eq!(world.round(0), ["s3 goes", "big waits: InsufficientQuota", "s2 waits: InsufficientQuota"]);
}

/// It holds its part until it gets the rest: an overdue unit would wait for it, and it for that unit.
#[test]
fn a_growing_job_may_use_capacity_that_is_set_aside() {
    let mut world = World::new("cpu 10");
    let overdue = UnitPhase::Waiting { overtaken: Some(at(0)), reserved: true, reason: None };
    world.set_unit("runs", unit("a", 0, "cpu 5"));
    assert_eq!(world.released(0), ["runs"]);
    world.set_unit("big", UnitFacts { phase: overdue, ..unit("a", 0, "cpu 8") });
    world.set_unit("new", unit("b", 1, "cpu 2"));
    for (uid, seconds) in [("more", 900), ("less", 800), ("last", 950)] {
        world.set_unit(uid, UnitFacts { grows: true, ..unit("b", seconds, "cpu 2") });
    }
    assert_eq!(
        world.released(0),
        ["less", "more"],
        "the older one first, and what is asked for again not at all"
    );
}

#[test]
fn several_overdue_units_are_served_one_after_another() {
    let mut world = World::new("cpu 10");
    for (uid, since, requests) in [("u1", 20, "cpu 8"), ("u2", 10, "cpu 6"), ("u3", 30, "cpu 4")] {
        let mut facts = unit("a", 1, requests);
        facts.phase = UnitPhase::Waiting { overtaken: Some(at(since)), reserved: true, reason: None };
        world.set_unit(uid, facts);
    }
    world.set_unit("u4", unit("a", 2, "cpu 1"));
    assert_eq!(world.released(0), ["u2"], "the other four are kept for u1");
    world.end("u2");
    assert_eq!(world.released(1), ["u1"], "two are left, kept for u3");
    world.end("u1");
    assert_eq!(world.released(1), ["u3", "u4"]);
}

#[test]
fn a_unit_that_can_never_fit_reserves_nothing_and_is_not_overtaken() {
    let mut world = World::new("cpu 10");
    world.set_unit("huge", unit("a", 1, "cpu 11"));
    world.set_unit("u1", unit("a", 2, "cpu 6"));
    world.set_unit("u2", unit("a", 3, "cpu 6"));
    world.set_unit("u3", unit("a", 4, "cpu 1"));
    assert_eq!(
        world.round(0),
        [
            "u1 goes",
            "u3 goes",
            "huge waits: ExceedsQuota",
            "u2 waits: InsufficientQuota",
            "u2 is overtaken at 1000"
        ]
    );
    world.end("u1");
    assert_eq!(world.released(10_000), ["u2"], "huge is not overdue");
}

#[test]
fn an_overdue_unit_that_can_no_longer_fit_has_nothing_set_aside() {
    let mut world = World::new("cpu 10");
    let mut big = unit("a", 1, "cpu 10");
    big.phase = UnitPhase::Waiting { overtaken: Some(at(0)), reserved: true, reason: None };
    world.set_unit("big", big);
    let mut small = unit("a", 0, "cpu 1");
    small.phase = UnitPhase::Released { usage: requests("cpu 1") };
    world.set_unit("s1", small);
    world.set_unit("s2", unit("a", 2, "cpu 1"));
    assert_eq!(world.round(0), ["big waits: InsufficientQuota", "s2 waits: CapacityReserved"]);
    world.namespace.set_quota("team", Some(quota("cpu 9", "")));
    assert_eq!(world.round(1), ["s2 goes", "big waits: ExceedsQuota"]);
    world.namespace.set_quota("team", Some(quota("cpu 10", "")));
    world.end("s1");
    world.set_unit("s3", unit("a", 3, "cpu 1"));
    assert_eq!(world.round(1), ["big waits: InsufficientQuota", "s3 waits: CapacityReserved"]);
}

#[test]
fn usage_of_others_is_not_available() {
    let mut world = World::new("");
    world.namespace.set_quota("team", Some(quota("cpu 10", "cpu 7")));
    world.namespace.set_own_usage(requests("cpu 3"));
    let mut ours = unit("a", 0, "cpu 5");
    ours.phase = UnitPhase::Released { usage: requests("cpu 5") };
    world.set_unit("u1", ours);
    world.set_unit("u2", unit("a", 1, "cpu 2"));
    world.set_unit("u3", unit("a", 2, "cpu 1"));
    // 10 - (7 - 3) - 5 = 1.
    assert_eq!(world.released(0), ["u3"]);
}

#[test]
fn every_quota_must_have_room() {
    let mut world = World::new("cpu 10 pods 9");
    world.namespace.set_quota("other", Some(quota("requests.cpu 3", "")));
    world.set_unit("u1", unit("a", 1, "cpu 4 pods 1"));
    world.set_unit("u2", unit("a", 2, "cpu 3 pods 1"));
    assert_eq!(world.round(0), ["u2 goes", "u1 waits: ExceedsQuota"]);
    world.namespace.set_quota("other", None);
    assert_eq!(world.round(0), ["u1 goes"]);
}

#[test]
fn a_job_that_shrinks_gives_back_its_unused_quota() {
    let mut world = World::new("cpu 10");
    let mut running = unit("a", 0, "cpu 10");
    running.phase = UnitPhase::Released { usage: requests("cpu 10") };
    world.set_unit("u1", running.clone());
    world.set_unit("u2", unit("a", 1, "cpu 4"));
    assert_eq!(world.released(0), [""; 0]);
    running.phase = UnitPhase::Released { usage: requests("cpu 6") };
    world.set_unit("u1", running);
    assert_eq!(world.released(1), ["u2"]);
}

#[test]
fn a_release_counts_until_the_facts_change() {
    let mut world = World::new("cpu 10");
    world.set_unit("u1", unit("a", 1, "cpu 10"));
    world.set_unit("u2", unit("a", 2, "cpu 10"));
    assert_eq!(world.released(0), ["u1"]);
    assert_eq!(world.released(1), [""; 0]);
    assert_eq!(world.namespace.unit("u1").unwrap().phase, UnitPhase::Released { usage: requests("cpu 10") });
    world.set_unit("u1", unit("a", 1, "cpu 10"));
    assert_eq!(world.released(1), ["u1"], "it was not released after all");
}

#[test]
fn a_unit_waits_for_its_queue_and_loses_no_place() {
    let mut world = World::new("cpu 1");
    world.set_unit("u1", unit("new", 1, "cpu 1"));
    let decisions = world.namespace.round(at(0));
    let queue: Arc<str> = "new".into();
    assert_eq!(decisions[0].update, UnitUpdate::Wait(WaitReason::QueueNotFound { queue }));
    assert_eq!(world.round(1), NONE, "said once");
    assert_eq!(world.namespace.position("u1"), None);
    world.set_unit("u2", unit("a", 2, "cpu 1"));
    world.queue("new", QueuePolicy::Fifo, 0);
    assert_eq!(world.round(1), ["u1 goes", "u2 waits: InsufficientQuota"]);
    world.end("u1");
    world.namespace.set_queue("a", None);
    assert_eq!(world.round(1), ["u2 waits: QueueNotFound"]);
}

#[test]
fn a_change_of_priority_changes_the_place() {
    let mut world = World::new("cpu 1");
    for uid in ["u0", "u1", "u2"] {
        world.set_unit(uid, unit("a", 1, "cpu 1"));
    }
    assert_eq!(world.released(0), ["u0"]);
    let mut facts = world.namespace.unit("u2").unwrap().clone();
    facts.priority = 1;
    world.set_unit("u2", facts);
    assert_eq!(world.position("u1"), (1, 1, Some("u2".into())));
    world.end("u0");
    assert_eq!(world.released(1), ["u2"]);
}

#[test]
fn the_numbers_of_a_refusal_are_those_of_the_limit() {
    let mut world = World::new("");
    world.namespace.set_quota("team", Some(quota("cpu 10", "cpu 1")));
    world.set_unit("u1", unit("a", 1, "cpu 4"));
    world.set_unit("u2", unit("a", 2, "cpu 7"));
    let decisions = world.namespace.round(at(0));
    let UnitUpdate::Wait(refusal) = &decisions[1].update else { panic!("{decisions:?}") };
    assert_eq!(refusal.reason(), Reason::InsufficientQuota);
    assert_eq!(
        refusal.to_string(),
        "no room: requests 7 of cpu, 2 too many: quota \"team\" allows 10, released units hold 4, \
         others use 1"
    );
}

#[test]
fn a_known_reason_is_not_repeated_even_after_a_restart() {
    let mut world = World::new("cpu 1");
    world.set_unit("u1", unit("a", 1, "cpu 1"));
    world.set_unit("u2", unit("a", 2, "cpu 1"));
    assert_eq!(world.round(0).len(), 2);
    let mut other = World::new("cpu 1");
    for uid in ["u1", "u2"] {
        other.set_unit(uid, world.namespace.unit(uid).unwrap().clone());
    }
    assert_eq!(other.round(1), NONE);
}

#[test]
fn a_passing_reason_is_reported_to_the_first_unit_of_a_shape() {
    let mut world = World::new("cpu 10");
    let mut big = unit("b", 1, "cpu 10");
    big.phase = UnitPhase::Waiting { overtaken: Some(at(0)), reserved: true, reason: None };
    world.set_unit("run", unit("a", 0, "cpu 10"));
    for uid in ["u1", "u2", "u3"] {
        world.set_unit(uid, unit("a", 2, "cpu 1"));
    }
    assert_eq!(world.round(0).len(), 4, "the first reason is said to each");
    world.set_unit("big", big);
    let mut run = world.namespace.unit("run").unwrap().clone();
    run.phase = UnitPhase::Released { usage: requests("cpu 5") };
    world.set_unit("run", run);
    assert_eq!(world.round(1), ["big waits: InsufficientQuota", "u1 waits: CapacityReserved"]);
    let mut other = World::new("cpu 10");
    for uid in ["run", "big", "u1", "u2", "u3"] {
        other.set_unit(uid, world.namespace.unit(uid).unwrap().clone());
    }
    assert_eq!(other.round(1), NONE, "nor does one who starts again say it to the others");
    world.end("u1");
    assert_eq!(world.round(1), ["u2 waits: CapacityReserved"], "now it is the first");
    world.namespace.set_quota("team", Some(quota("cpu 0", "")));
    assert_eq!(
        world.round(1),
        ["big waits: ExceedsQuota", "u2 waits: ExceedsQuota", "u3 waits: ExceedsQuota"],
        "what will not pass by itself is said to each"
    );
}

#[test]
fn time_does_not_go_back() {
    let mut world = World::new("cpu 1");
    let mut big = unit("a", 1, "cpu 1");
    big.phase = UnitPhase::Waiting { overtaken: Some(at(1000)), reserved: false, reason: None };
    world.set_unit("run", unit("a", 0, "cpu 1"));
    world.set_unit("big", big);
    world.round(0);
    assert_eq!(world.round(300), ["big has capacity reserved"]);
    assert_eq!(world.round(-300), NONE);
    assert_eq!(world.namespace.next_wake(), None);
    world.end("run");
    world.end("big");
    world.set_unit("u1", with_priority(1, unit("b", 1, "cpu 1")));
    world.set_unit("u2", unit("a", 0, "cpu 1"));
    world.queue("b", QueuePolicy::Priority, 1);
    assert_eq!(
        world.round(0),
        ["u1 goes", "u2 waits: InsufficientQuota", "u2 is overtaken at 1300"],
        "the latest moment that was passed"
    );
}

#[test]
fn a_position_counts_the_queue_and_all_that_are_served_before() {
    let mut world = World::new("cpu 10");
    world.set_unit("run", unit("c", 0, "cpu 10"));
    world.queue("c", QueuePolicy::Fifo, 0);
    world.released(0);
    for (uid, queue, came) in [("a1", "a", 1), ("a2", "a", 2), ("b1", "b", 3), ("b2", "b", 4)] {
        world.set_unit(uid, unit(queue, came, "cpu 1"));
    }
    world.set_unit("huge", unit("a", 0, "cpu 11"));
    world.round(1);
    assert_eq!(world.position("a1"), (1, 0, None), "huge is before it, and nobody waits for huge");
    assert_eq!(world.position("b1"), (0, 1, Some("a1".into())), "the queues take turns");
    assert_eq!(world.position("a2"), (2, 2, Some("b1".into())));
    assert_eq!(world.position("b2"), (1, 3, Some("a2".into())));
    assert_eq!(world.position("huge"), (0, 0, None));
    assert_eq!(world.namespace.position("run"), None, "it does not wait");
}

#[test]
fn a_reason_on_request_has_the_numbers_of_now() {
    let mut world = World::new("cpu 10");
    world.set_unit("run", unit("a", 0, "cpu 8"));
    world.set_unit("next", unit("a", 1, "cpu 6"));
    assert_eq!(world.round(0), ["run goes", "next waits: InsufficientQuota"]);
    let says = |world: &World, uid: &str| world.namespace.wait_reason(uid).map(|reason| reason.to_string());
    let allows = "quota \"team\" allows 10, released units hold";
    let expected = format!("no room: requests 6 of cpu, 4 too many: {allows} 8");
    assert_eq!(says(&world, "next"), Some(expected));
    let mut facts = world.namespace.unit("run").unwrap().clone();
    facts.phase = UnitPhase::Released { usage: requests("cpu 5") };
    world.set_unit("run", facts);
    assert_eq!(world.round(1), NONE, "the reason is the same, so it is not reported again");
    let expected = format!("no room: requests 6 of cpu, 1 too many: {allows} 5");
    assert_eq!(says(&world, "next"), Some(expected));
    assert_eq!(says(&world, "run"), None, "it does not wait");
    assert_eq!(says(&world, "other"), None, "there is none");
}

#[test]
fn a_released_unit_is_over_a_limit_if_more_is_used_of_what_it_requests() {
    let mut world = World::new("cpu 10 gpu 4");
    world.set_unit("u1", unit("a", 1, "cpu 6 gpu 0"));
    world.set_unit("u2", unit("a", 2, "gpu 2"));
    world.set_unit("u3", unit("a", 3, "cpu 9"));
    assert_eq!(world.released(0), ["u1", "u2"]);
    assert!(!world.namespace.exceeds_limits());
    assert!(!world.namespace.is_over_limit("u1"));
    world.namespace.set_quota("team", Some(quota("cpu 10 gpu 4", "cpu 4 gpu 3")));
    assert!(world.namespace.exceeds_limits());
    assert!(world.namespace.is_over_limit("u2"));
    assert!(!world.namespace.is_over_limit("u1"), "10 of 10 are used, and of gpu it requests nothing");
    assert!(!world.namespace.is_over_limit("u3"), "it waits");
    world.set_unit("u2", unit("a", 2, "gpu 2"));
    assert!(!world.namespace.exceeds_limits());
    assert_eq!(world.round(0), ["u2 waits: ExceedsQuota", "u3 waits: ExceedsQuota"]);
}
