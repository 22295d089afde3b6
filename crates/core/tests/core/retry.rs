//! The retry table, row by row, and the delays after a conflict and after short runs.

use framework_api::code::{Attribute, CompletionType};
use framework_api::status::RetryPolicyStatus;
use framework_api::{RetryPolicy, State};
use framework_core::retry::{Backoff, Decision, decide, random_delay};
use serde_json::json;

use crate::world::{World, created, framework, policy};

const TABLE: &str = include_str!("../../data/retry_decisions.csv");

fn completion_type(text: &str) -> CompletionType {
    let mut words = text.split(' ');
    let attributes = |word| match word {
        "Transient" => Attribute::Transient,
        "Conflict" => Attribute::Conflict,
        "Permanent" => Attribute::Permanent,
        other => panic!("no attribute {other}"),
    };
    match words.next() {
        Some("Succeeded") => CompletionType::succeeded(),
        Some("Failed") => CompletionType::failed(&words.map(attributes).collect::<Vec<_>>()),
        other => panic!("no type {other:?}"),
    }
}

#[test]
fn every_row_of_the_retry_table_holds() {
    let rows: Vec<&str> = TABLE.lines().skip(1).collect();
    assert_eq!(rows.len(), 26, "a row was dropped");
    for row in rows {
        let cells: Vec<&str> = row.split(',').collect();
        let [what, fancy, max, retried, code, kind, decision] = cells[..] else { panic!("{row}") };
        let policy =
            RetryPolicy { fancy_retry_policy: fancy.parse().unwrap(), max_retry_count: max.parse().unwrap() };
        let status = RetryPolicyStatus {
            total_retried_count: 20,
            accountable_retried_count: retried.parse().unwrap(),
            ..RetryPolicyStatus::default()
        };
        let expected = match decision {
            "stop" => Decision::Stop,
            "retry accountable" => Decision::Retry { accountable: true, conflict: false },
            "retry free" => Decision::Retry { accountable: false, conflict: false },
            "retry free later" => Decision::Retry { accountable: false, conflict: true },
            other => panic!("no decision {other}"),
        };
        assert_eq!(decide(policy, status, code.parse().unwrap(), &completion_type(kind)), expected, "{what}");
    }
}

#[test]
fn a_random_delay_stays_in_its_bounds_and_reaches_them() {
    let delays: Vec<i64> = (0..2000).map(|seed| random_delay(60, 70, seed)).collect();
    assert_eq!((delays.iter().min(), delays.iter().max()), (Some(&60), Some(&70)));
    assert_eq!(random_delay(60, 60, 99), 60);
}

/// Counts after this many retries, all of short runs since the attempt `from`.
fn counts(retried: i32, from: Option<i32>) -> RetryPolicyStatus {
    RetryPolicyStatus { total_retried_count: retried, short_runs_from: from, ..RetryPolicyStatus::default() }
}

#[test]
fn the_sixth_short_run_delays_the_retry_and_each_further_doubles_it() {
    let (backoff, at) = (policy().retry_backoff, created());
    let delays: Vec<i64> =
        (0..17).map(|retried| backoff.delay(counts(retried, None), Some(at), at.plus_seconds(9))).collect();
    assert_eq!(delays, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    assert_eq!(backoff.delay(counts(i32::MAX, None), None, at), 300, "it never ran");
    assert_eq!(backoff.delay(counts(9, None), Some(at), at.plus_seconds(10)), 0, "this one ran long enough");
    assert_eq!(backoff.delay(counts(9, Some(5)), Some(at), at), 0, "the fifth since a longer run");
    assert_eq!(backoff.delay(counts(10, Some(5)), Some(at), at), 1, "the sixth since a longer run");
    for off in [Backoff { short_run_sec: 0, ..backoff }, Backoff { max_delay_sec: 0, ..backoff }] {
        assert_eq!(off.delay(counts(99, None), None, at), 0, "{off:?}");
        let retried = off.retried(counts(99, None), true, Some(at), at.plus_seconds(99));
        assert_eq!(retried.short_runs_from, None, "switched off, nothing is kept: {off:?}");
    }
}

/// The only Task of a service runs this long and fails.
fn run_for(world: &mut World, seconds: i64) {
    world.run().pass(seconds).exit("a", 0, 1).settle();
}

#[test]
fn a_task_that_fails_at_once_again_is_retried_later_and_later() {
    let mut world = framework().role("a", 1).task_retry(false, -2).world();
    world.settle();
    let mut undelayed_writes = 0;
    for attempt in 1..=5 {
        let writes = world.writes;
        run_for(&mut world, 1);
        undelayed_writes = world.writes - writes;
        assert_eq!(world.task("a", 0).attempt_status.id, attempt, "the first five are not delayed");
    }
    let undelayed = serde_json::to_value(world.task("a", 0).retry_policy_status).unwrap();
    let expected = json!({"totalRetriedCount": 5, "accountableRetriedCount": 5, "retryDelaySec": null});
    assert_eq!(undelayed, expected, "nothing shows before");
    for (attempt, delay) in [(5, 1), (6, 2), (7, 4)] {
        let writes = world.writes;
        run_for(&mut world, 1);
        let task = world.task("a", 0);
        assert_eq!((task.state, task.attempt_status.id), (State::AttemptCompleted, attempt));
        assert_eq!(task.retry_policy_status.retry_delay_sec, Some(delay));
        let due = task.attempt_status.completion_time.unwrap().plus_seconds(delay);
        assert_eq!(world.plan().wake, Some(due.timestamp()));
        world.pass(delay - 1).settle();
        assert_eq!(world.task("a", 0).attempt_status.id, attempt, "too early");
        world.pass(1).settle();
        assert_eq!(world.task("a", 0).attempt_status.id, attempt + 1);
        assert_eq!(world.task("a", 0).retry_policy_status.retry_delay_sec, None);
        assert_eq!(world.writes - writes, undelayed_writes + 1, "it is stored with the completed attempt");
    }
}

#[test]
fn a_longer_run_ends_a_row_of_short_ones() {
    let mut world = framework().role("a", 1).task_retry(false, -2).world();
    world.settle();
    (0..4).for_each(|_| run_for(&mut world, 1));
    run_for(&mut world, 10);
    (0..5).for_each(|_| run_for(&mut world, 1));
    assert_eq!(world.task("a", 0).attempt_status.id, 10, "no attempt waited");
    run_for(&mut world, 1);
    assert_eq!(world.task("a", 0).retry_policy_status.retry_delay_sec, Some(1));
}

#[test]
fn a_retry_that_was_decided_is_not_withdrawn_by_another_policy() {
    let mut world = framework().role("a", 1).task_retry(false, -2).world();
    world.settle();
    (0..6).for_each(|_| run_for(&mut world, 1));
    assert_eq!(world.task("a", 0).retry_policy_status.retry_delay_sec, Some(1));
    world.edit(|spec| spec.task_roles[0].task.retry_policy.max_retry_count = 0).settle();
    assert_eq!(world.task("a", 0).state, State::AttemptCompleted);
    world.pass(1).settle();
    assert_eq!(world.task("a", 0).attempt_status.id, 6);
    assert_eq!(
        world.task("a", 0).retry_policy_status.accountable_retried_count,
        6,
        "it counts as the others"
    );
    run_for(&mut world, 1);
    assert_eq!(world.task("a", 0).state, State::Completed, "the next one is decided by it");
}

/// Another client has written these numbers into the status.
#[test]
fn a_count_of_retries_at_its_limit_stays_there() {
    let most = RetryPolicyStatus { accountable_retried_count: i32::MAX, ..counts(i32::MAX, None) };
    let mut world = framework().role("a", 1).task_retry(false, -2).world();
    world.settle();
    let status = world.cluster.status.as_mut().unwrap();
    let task = &mut status.attempt_status.task_role_statuses.as_mut().unwrap()[0].task_statuses[0];
    task.to_mut().retry_policy_status = most;
    task.to_mut().attempt_status.id = i32::MAX;
    run_for(&mut world, 1);
    assert_eq!(world.task("a", 0).retry_policy_status.retry_delay_sec, Some(300));
    world.pass(300).settle();
    let task = world.task("a", 0);
    assert_eq!(task.state, State::AttemptPreparing, "it is retried");
    assert_eq!((task.retry_policy_status, task.attempt_status.id), (most, i32::MAX));
}

#[test]
fn a_row_of_short_runs_is_reported_at_each_step_and_not_for_ever() {
    let mut world = framework().role("a", 1).task_retry(false, -2).world();
    world.settle();
    for _ in 0..40 {
        run_for(&mut world, 1);
        world.pass(300).settle();
    }
    let count = world.reports.iter().filter(|reason| *reason == "TaskRetryDelayed").count();
    assert_eq!(count, 10, "1 s to 256 s, and 300 s once");
}

#[test]
fn stop_and_a_scale_down_cut_the_delay_of_a_task_short() {
    for scale in [false, true] {
        let mut world = framework().role("a", 2).task_retry(false, -2).world();
        world.settle();
        for _ in 0..6 {
            world.run().exit("a", 1, 1).settle();
        }
        assert_eq!(world.task("a", 1).retry_policy_status.retry_delay_sec, Some(1));
        if scale {
            world.edit(|spec| spec.task_roles[0].task_number = 1).settle();
            assert_eq!(world.status().all_tasks().count(), 1);
        } else {
            world.stop().settle();
            assert_eq!(world.state(), State::Completed);
            assert_eq!(world.task("a", 1).retry_policy_status.retry_delay_sec, None);
        }
    }
}

#[test]
fn a_framework_that_fails_at_once_again_is_retried_later_and_later() {
    let mut world = framework().role("a", 1).retry(false, -1).world();
    world.settle();
    (0..5).for_each(|_| run_for(&mut world, 1));
    assert_eq!(world.status().attempt_status.id, 5, "the first five are not delayed");
    for delay in [1, 2, 4] {
        run_for(&mut world, 1);
        assert_eq!(world.status().retry_policy_status.retry_delay_sec, Some(delay));
        world.pass(delay).settle();
    }
    assert_eq!(world.status().attempt_status.id, 8);
    assert_eq!(world.reports.iter().filter(|reason| *reason == "RetryDelayed").count(), 3);
    run_for(&mut world, 10);
    assert_eq!(world.status().attempt_status.id, 9, "a longer run is retried at once");
    assert_eq!(world.status().retry_policy_status.short_runs_from, Some(9));
}

#[test]
fn retries_by_the_original_are_no_short_runs() {
    let mut world = framework().role("a", 1).retry(false, -1).world();
    world.settle();
    let status = world.cluster.status.as_mut().unwrap();
    status.retry_policy_status.total_retried_count = 50;
    status.observed_generation = None;
    run_for(&mut world, 1);
    assert_eq!(world.status().retry_policy_status.retry_delay_sec, None);
    assert_eq!(world.status().retry_policy_status.short_runs_from, Some(50));
    assert_eq!(world.status().retry_policy_status.total_retried_count, 51);
}

/// A Task that was retried 50 times fails at once after a take-over, with back-off of `max_delay_sec`.
fn taken_over(short_runs_from: Option<i32>, max_delay_sec: i64) -> World {
    let mut world = framework().role("a", 1).task_retry(false, -2).world();
    world.settle();
    world.policy.retry_backoff.max_delay_sec = max_delay_sec;
    let status = world.cluster.status.as_mut().unwrap();
    status.observed_generation = None;
    let task = &mut status.attempt_status.task_role_statuses.as_mut().unwrap()[0].task_statuses[0];
    task.to_mut().retry_policy_status = counts(50, short_runs_from);
    run_for(&mut world, 1);
    world
}

#[test]
fn only_runs_that_the_original_did_not_count_are_forgotten() {
    let on = policy().retry_backoff.max_delay_sec;
    let retries = |world: &World| world.task("a", 0).retry_policy_status;
    let delays = |world: &World| (retries(world).retry_delay_sec, retries(world).short_runs_from);
    let uncounted = taken_over(None, on);
    assert_eq!(delays(&uncounted), (None, Some(50)));
    assert_eq!(uncounted.status().retry_policy_status.short_runs_from, None, "it was never retried");
    assert_eq!(delays(&taken_over(Some(48), on)), (None, Some(48)), "the third since a longer run");
    assert_eq!(delays(&taken_over(None, 0)), (None, None), "delays are switched off");
}
