//! `activeDeadlineSeconds` and `ttlSecondsAfterFinished`: when they hit, their effects, and which came first.

use framework_api::code::Code;
use framework_api::{ExecutionType, State, Time};
use framework_core::{Action, EventReason, Moment, lifetime};

use crate::world::{World, created, framework};

fn failed(world: &World) -> (String, String) {
    let conditions = &world.status().conditions;
    let failed = conditions.iter().find(|condition| condition.type_ == "Failed");
    let failed = failed.unwrap_or_else(|| panic!("not failed: {conditions:?}"));
    assert_eq!(failed.status, "True");
    (failed.reason.clone(), failed.message.clone())
}

/// The deadline ended the Framework, everything is gone, and both names of that are reported.
fn assert_exceeded(world: &World) {
    world.assert_completed(Code::ActiveDeadlineExceeded);
    let end = world.status().attempt_status.completion_status.clone().unwrap();
    assert_eq!((end.code, end.phrase.as_str()), (-240, "ActiveDeadlineExceeded"));
    assert_eq!(serde_json::to_value(&end.r#type).unwrap()["name"], "Failed");
    let (reason, message) = failed(world);
    assert_eq!(reason, "DeadlineExceeded");
    for word in ["ActiveDeadlineExceeded", "DeadlineExceeded"] {
        assert!(end.diagnostics.contains(word) && message.contains(word), "{message}");
    }
    assert_eq!(world.reports.iter().filter(|reason| *reason == "DeadlineExceeded").count(), 1);
}

/// The clocks of the controller and of the API server apart.
fn moment(world: &World, local: i64, server: Option<i64>) -> Moment {
    let now = created().plus_seconds(local).timestamp();
    Moment { now, server: server.map(|seconds| created().plus_seconds(seconds)), ..world.moment() }
}

fn plan(world: &World, local: i64, server: Option<i64>) -> framework_core::Plan {
    framework_core::sync(&world.observed(), moment(world, local, server), &world.policy)
}

#[test]
fn a_running_framework_ends_at_its_deadline_and_not_before() {
    let mut world = framework().role("a", 2).deadline(100).task_retry(false, 5).retry(true, 5).world();
    world.settle().run().pass(99).settle();
    assert_eq!(world.state(), State::AttemptRunning);
    world.pass(1).settle();
    assert_exceeded(&world);
    assert_eq!(world.status().retry_policy_status.total_retried_count, 0, "never retried");
    assert_eq!(world.task_code("a", 0), Some(Code::FrameworkAttemptCompletion.number()));
}

#[test]
fn the_deadline_counts_from_the_creation_not_from_the_first_sight() {
    let mut world = framework().role("a", 1).deadline(100).world();
    world.pass(250).settle();
    assert_exceeded(&world);
    assert!(!world.acts.iter().any(|act| matches!(act, Action::CreatePod { .. })), "{:?}", world.acts);
}

#[test]
fn a_framework_that_is_held_runs_out_of_time_all_the_same() {
    let mut world = framework().role("a", 1).deadline(100).execution("Create").world();
    world.settle().pass(100).settle();
    assert_exceeded(&world);
    assert_eq!(world.acts, [], "nothing was ever created");
}

#[test]
fn a_retry_delay_is_cut_short_by_the_deadline_and_nothing_is_started() {
    let mut world = framework().role("a", 1).retry(true, 5).deadline(20).world();
    world.settle().run().exit("a", 0, 201).settle();
    assert!(world.status().retry_policy_status.retry_delay_sec.is_some(), "it waits");
    let creates = world.acts.iter().filter(|act| matches!(act, Action::CreateConfigMap { .. })).count();
    world.pass(20).settle();
    assert_exceeded(&world);
    let after = world.acts.iter().filter(|act| matches!(act, Action::CreateConfigMap { .. })).count();
    assert_eq!(creates, after);
}

#[test]
fn a_retry_that_would_begin_after_the_deadline_does_not() {
    let mut world = framework().role("a", 1).retry(false, -2).deadline(20).world();
    world.settle().run().pass(20).exit("a", 0, 0);
    world.settle();
    assert_exceeded(&world);
    let creates = world.acts.iter().filter(|act| matches!(act, Action::CreatePod { .. })).count();
    assert_eq!(creates, 1);
}

#[test]
fn an_attempt_that_ended_before_the_deadline_keeps_its_result() {
    let mut world = framework().role("a", 1).deadline(20).world();
    world.settle().run().pass(19).exit("a", 0, 0).settle().pass(100).settle();
    world.assert_completed(Code::Succeeded);
}

#[test]
fn a_stop_that_came_first_stays_a_stop() {
    let mut world = framework().role("a", 1).deadline(20).world();
    world.hangs = true;
    world.settle().run().pass(19).stop().settle().pass(100);
    world.settle().vanish("a", 0).settle();
    world.assert_completed(Code::StopFrameworkRequested);
}

#[test]
fn a_deadline_that_came_first_wins_over_a_later_stop() {
    let mut world = framework().role("a", 1).deadline(20).world();
    world.hangs = true;
    world.settle().run().pass(20).settle().stop().settle();
    world.edit(|spec| spec.task_roles[0].task_number = 5).settle();
    world.vanish("a", 0).settle();
    assert_exceeded(&world);
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 1, "no rescale after the end");
}

#[test]
fn the_last_task_that_completes_with_the_deadline_completes_the_framework() {
    let mut world = framework().role("a", 1).deadline(20).world();
    world.settle().run().exit("a", 0, 0);
    while world.task("a", 0).state != State::AttemptDeletionPending {
        assert!(world.step());
    }
    world.pass(20).vanish("a", 0).settle();
    world.assert_completed(Code::Succeeded);
}

#[test]
fn a_rescale_does_not_put_the_deadline_off() {
    let mut world = framework().role("a", 1).deadline(20).world();
    world.settle().run().pass(20).edit(|spec| spec.task_roles[0].task_number = 3);
    world.step();
    assert_eq!(world.code(), Some(Code::ActiveDeadlineExceeded.number()));
    world.settle();
    assert_exceeded(&world);
}

#[test]
fn pods_that_hang_are_forced_after_a_deadline_too() {
    let mut world = framework().role("a", 1).graceful(60).deadline(20).world();
    world.hangs = true;
    world.settle().run().pass(20).settle();
    assert_eq!((world.state(), world.code()), (State::AttemptDeletionPending, Some(-240)));
    world.pass(61).settle();
    assert_exceeded(&world);
    assert!(world.acts.iter().any(|act| matches!(act, Action::DeletePod { force: true, .. })));
}

#[test]
fn a_controller_clock_that_is_wrong_ends_nothing_early_and_nothing_late() {
    let mut world = framework().role("a", 1).deadline(100).world();
    world.settle().run();
    let due = created().plus_seconds(100);
    let early = plan(&world, 3700, Some(99));
    assert!(early.persist.is_none() && early.proof_due == Some(due), "an hour ahead: asks, and ends nothing");
    assert_eq!(plan(&world, 3700, None).proof_due, Some(due));
    let late = plan(&world, -3500, Some(100));
    let end = late.persist.unwrap().attempt_status.completion_status.unwrap();
    assert_eq!(end.code, -240, "an hour behind");
    let waits = plan(&world, 40, Some(40));
    assert_eq!((waits.wake, waits.proof_due), (None, Some(due)));
}

#[test]
fn a_deadline_that_is_known_to_have_passed_stays_passed() {
    let mut world = framework().role("a", 1).deadline(100).world();
    world.settle().run();
    world.server_date = Some(created().plus_seconds(100));
    let plan = plan(&world, 101, None);
    assert!(plan.persist.is_some_and(|next| next.attempt_status.completion_status.is_some()));
    assert_eq!(plan.proof_due, None, "nobody is asked again");
}

#[test]
fn no_retry_is_begun_while_the_deadline_may_have_passed() {
    let mut world = framework().role("a", 1).retry(false, -2).deadline(100).world();
    world.settle().run().exit("a", 0, 1);
    while world.state() != State::AttemptCompleted {
        world.step();
    }
    let unsure = plan(&world, 100, Some(99));
    assert!(unsure.persist.is_none() && unsure.proof_due.is_some(), "{unsure:?}");
    assert!(plan(&world, 100, Some(100)).persist.is_some());
    assert!(plan(&world, 99, Some(99)).persist.is_some(), "a retry");
}

#[test]
fn no_first_attempt_is_begun_while_the_deadline_may_have_passed() {
    let mut world = framework().role("a", 1).deadline(100).world();
    let first = plan(&world, 100, Some(99));
    world.cluster.status = first.persist.map(|next| *next);
    let unsure = plan(&world, 100, Some(99));
    assert!(unsure.act.is_empty() && unsure.proof_due.is_some(), "{unsure:?}");
    assert!(!plan(&world, 99, Some(99)).act.is_empty(), "its ConfigMap");
}

fn completed(mut world: World) -> (World, Time) {
    world.settle().run().exit("a", 0, 0).settle();
    let at = world.status().completion_time.unwrap();
    (world, at)
}

fn is_deleted(world: &World) -> bool {
    world.acts.contains(&Action::DeleteFramework)
}

#[test]
fn a_finished_framework_is_deleted_after_its_ttl_and_not_before() {
    let (mut world, _) = completed(framework().role("a", 1).ttl(100).world());
    world.pass(99).settle();
    assert!(!is_deleted(&world));
    world.pass(1).settle();
    assert!(is_deleted(&world));
}

#[test]
fn a_ttl_of_zero_deletes_at_once() {
    let (world, _) = completed(framework().role("a", 1).ttl(0).world());
    assert!(is_deleted(&world));
    assert_eq!(world.state(), State::Completed, "the end is persisted first");
}

#[test]
fn without_a_ttl_only_the_retention_ends_it() {
    let (mut world, _) = completed(framework().role("a", 1).world());
    world.pass(2_591_999).settle();
    assert!(!is_deleted(&world));
}

#[test]
fn the_earlier_of_ttl_and_retention_wins() {
    for (ttl, retain, due, by_ttl) in [(100, 50, 50, false), (50, 100, 50, true), (70, 70, 70, true)] {
        let mut world = framework().role("a", 1).ttl(ttl).world();
        world.policy.framework_completed_retain_sec = retain;
        let (world, at) = completed(world);
        let expiry = lifetime::expiry(&world.cluster.framework, world.status(), &world.policy).unwrap();
        assert_eq!((expiry.due, expiry.by_ttl), (at.plus_seconds(due), by_ttl), "{ttl} {retain}");
    }
}

#[test]
fn a_framework_that_ran_out_of_time_is_deleted_by_its_ttl_too() {
    let mut world = framework().role("a", 1).deadline(20).ttl(10).world();
    world.settle().run().pass(20).settle();
    assert_exceeded(&world);
    world.pass(9).settle();
    assert!(!is_deleted(&world));
    world.pass(1).settle();
    assert!(is_deleted(&world));
}

#[test]
fn a_clock_that_is_wrong_deletes_nothing_early() {
    let (world, _) = completed(framework().role("a", 1).ttl(100).world());
    for (local, server) in [(3700, Some(99)), (3700, None), (100, Some(99))] {
        let plan = plan(&world, local, server);
        assert!(plan.act.is_empty() && plan.proof_due.is_some(), "{local} {server:?}: {plan:?}");
    }
    assert_eq!(plan(&world, -3500, Some(100)).act, [Action::DeleteFramework]);
}

#[test]
fn a_framework_that_is_being_deleted_is_not_deleted_again() {
    let (mut world, _) = completed(framework().role("a", 1).ttl(0).world());
    let deletes = |world: &World| world.acts.iter().filter(|act| **act == Action::DeleteFramework).count();
    world.pass(1000).settle();
    assert_eq!(deletes(&world), 1);
}

#[test]
fn a_short_ttl_is_warned_of_once() {
    for (ttl, warned) in [(0, 1), (59, 1), (60, 0)] {
        let mut world = framework().role("a", 1).ttl(ttl).world();
        world.settle().run();
        let short = EventReason::ShortTTLSecondsAfterFinished.as_str();
        let warnings = world.reports.iter().filter(|reason| *reason == short).count();
        assert_eq!(warnings, warned, "{ttl}");
    }
}

#[test]
fn the_longest_times_do_not_overflow() {
    let mut world = framework().role("a", 1).ttl(i32::MAX).deadline(i64::MAX).world();
    world.policy.framework_completed_retain_sec = i64::MAX;
    let (world, at) = completed(world);
    world.assert_completed(Code::Succeeded);
    let expiry = lifetime::expiry(&world.cluster.framework, world.status(), &world.policy).unwrap();
    assert_eq!(expiry.due, at.plus_seconds(i64::from(i32::MAX)));
    assert!(!is_deleted(&world));
}

#[test]
fn a_held_framework_that_is_started_late_has_the_remaining_time() {
    let mut world = framework().role("a", 1).deadline(100).execution("Create").world();
    world.settle().pass(90).edit(|spec| spec.execution_type = ExecutionType::Start).settle();
    world.run().pass(10).settle();
    assert_exceeded(&world);
}

#[test]
fn nothing_is_written_of_a_completed_framework_that_is_leaving() {
    let mut world = framework().role("a", 1).world();
    world.settle().run().exit("a", 0, 0).settle();
    assert_eq!(world.state(), State::Completed);
    // As a deletion does.
    world.cluster.framework.metadata.generation = Some(2);
    assert!(world.plan().persist.is_some(), "the summary names the generation");
    world.cluster.framework.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created().timestamp()));
    assert_eq!(world.plan().persist, None);
}
