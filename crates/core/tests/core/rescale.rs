//! Rescale: Tasks are added, marked, removed and replaced, and each step is persisted before it is acted on.

use framework_api::State;
use framework_api::code::Code;
use framework_api::status::TaskAttemptCompletionStatus;

use crate::world::{World, framework};

fn scaled(world: &mut World, to: i32) -> &mut World {
    world.edit(|spec| spec.task_roles[0].task_number = to)
}

#[test]
fn a_scale_up_appends_tasks_and_persists_them_before_acting() {
    let mut world = framework().role("a", 2).world();
    world.settle().run();
    let plan = scaled(&mut world, 4).plan();
    assert_eq!(plan.act, []);
    assert_eq!(plan.persist.unwrap().task("a", 3).unwrap().state, State::AttemptCreationPending);
    world.settle().run();
    assert_eq!(world.task("a", 3).state, State::AttemptRunning);
}

#[test]
fn a_scale_down_marks_from_the_tail_then_removes() {
    let mut world = framework().role("a", 3).world();
    world.settle().run();
    let plan = scaled(&mut world, 1).plan();
    let next = plan.persist.unwrap();
    assert_eq!(plan.act, []);
    for index in [1, 2] {
        let task = next.task("a", index).unwrap();
        assert!(task.deletion_pending);
        assert_eq!(
            task.attempt_status.completion_status.as_ref().unwrap().code,
            Code::DeleteTaskRequested.number()
        );
    }
    world.settle();
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 1);
    assert_eq!(world.state(), State::AttemptRunning);
}

#[test]
fn a_removed_task_is_never_used_again() {
    let mut world = framework().role("a", 2).world();
    world.settle().run();
    let old = world.task("a", 1).instance_uid.clone();
    scaled(&mut world, 1).step();
    scaled(&mut world, 2).settle().run();
    assert_ne!(world.task("a", 1).instance_uid, old);
    assert_eq!(world.task("a", 1).state, State::AttemptRunning);
}

#[test]
fn a_removed_role_goes_when_its_last_task_is_gone() {
    let mut world = framework().role("a", 1).role("b", 2).world();
    world.settle().run();
    world
        .edit(|spec| {
            spec.task_roles.pop();
        })
        .settle();
    assert_eq!(world.status().task_roles().len(), 1);
    world.exit("a", 0, 0).settle();
    world.assert_completed(Code::Succeeded);
}

#[test]
fn a_completing_attempt_is_not_rescaled() {
    let mut world = framework().role("a", 1).world();
    world.settle().run().exit("a", 0, 0);
    while world.code().is_none() {
        world.step();
    }
    scaled(&mut world, 5).settle();
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 1);
    world.assert_completed(Code::Succeeded);
}

#[test]
fn a_framework_that_waits_for_its_start_is_rescaled_to_the_end() {
    let mut world = framework().role("a", 3).role("b", 2).execution("Create").world();
    let old = world.settle().task("a", 2).instance_uid.clone();
    world.edit(|spec| {
        spec.task_roles[0].task_number = 1;
        spec.task_roles.pop();
    });
    world.settle();
    assert_eq!(world.status().task_roles().len(), 1);
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 1);
    scaled(&mut world, 3).settle();
    assert_ne!(world.task("a", 2).instance_uid, old);
    assert!(!world.task("a", 2).deletion_pending);
    assert_eq!(world.acts, []);
    world.edit(|spec| spec.execution_type = framework_api::ExecutionType::Start).settle().run();
    assert_eq!(world.cluster.objects.pods.len(), 3);
}

/// A Framework whose second Task the original removed before the start. It ends the attempt, and leaves the
/// state. `retried`: it had just stored another attempt, which it ends later.
fn removed_by_the_original(retried: bool) -> World {
    let mut world = framework().role("a", 2).execution("Create").world();
    let status = world.settle().cluster.status.as_mut().unwrap();
    status.observed_generation = None;
    let roles = status.attempt_status.task_role_statuses.as_mut().unwrap();
    let task = roles[0].task_statuses[1].to_mut();
    task.deletion_pending = true;
    let end = TaskAttemptCompletionStatus::predefined(Code::DeleteTaskRequested, String::new());
    task.attempt_status.completion_status = (!retried).then(|| Box::new(end));
    world
}

#[test]
fn a_task_that_the_original_removed_before_the_start_is_replaced() {
    for (retried, starts_first) in [(false, false), (false, true), (true, true)] {
        let mut world = removed_by_the_original(retried);
        let old = world.task("a", 1).instance_uid.clone();
        if !starts_first {
            world.settle();
        }
        world.edit(|spec| spec.execution_type = framework_api::ExecutionType::Start).settle().run();
        assert_ne!(world.task("a", 1).instance_uid, old);
        world.exit("a", 0, 0).exit("a", 1, 0).settle();
        world.assert_completed(Code::Succeeded);
    }
}

#[test]
fn a_task_that_the_original_removed_before_the_start_ends_with_it_by_stop() {
    let mut world = removed_by_the_original(false);
    world.stop().settle();
    world.assert_completed(Code::StopFrameworkRequested);
    let tasks = &world.status().task_roles()[0].task_statuses;
    assert!(tasks.iter().all(|task| task.state == State::Completed), "{tasks:?}");
}

#[test]
fn a_removed_task_that_was_completed_keeps_its_completion() {
    let mut world = framework().role("a", 3).policy(3, -1).world();
    world.settle().run().exit("a", 1, 5).exit("a", 2, 6).settle();
    world.edit(|spec| {
        spec.task_roles[0].task_number = 1;
        spec.task_roles[0].framework_attempt_completion_policy.min_failed_task_count = 1;
    });
    world.step();
    assert_eq!((world.task_code("a", 1), world.task_code("a", 2)), (Some(5), Some(6)));
    assert!(world.task("a", 1).deletion_pending && world.task("a", 2).deletion_pending);
    world.settle();
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 1);
    assert_eq!(
        (world.state(), world.code()),
        (State::AttemptRunning, None),
        "failures of removed Tasks count"
    );
}

#[test]
fn the_remaining_tasks_complete_the_attempt_after_a_shrink() {
    let mut fewer_tasks = framework().role("a", 2).world();
    fewer_tasks.settle().run().exit("a", 0, 0).settle();
    assert_eq!(fewer_tasks.state(), State::AttemptRunning);
    scaled(&mut fewer_tasks, 1).settle().assert_completed(Code::Succeeded);

    let mut lower = framework().role("a", 3).policy(3, -1).world();
    lower.settle().run().exit("a", 2, 7).settle();
    lower.edit(|spec| spec.task_roles[0].framework_attempt_completion_policy.min_failed_task_count = 1);
    lower.settle();
    assert_eq!((lower.state(), lower.code()), (State::Completed, Some(7)));
}

#[test]
fn a_role_added_before_the_last_end_is_seen_keeps_the_framework_alive() {
    let mut world = framework().role("a", 1).world();
    world.settle().run().exit("a", 0, 0);
    world.edit(|spec| {
        let mut another = spec.task_roles[0].clone();
        another.name = "b".to_owned();
        spec.task_roles.push(another);
    });
    world.settle().run();
    assert_eq!((world.state(), world.code()), (State::AttemptRunning, None));
    world.exit("b", 0, 0).settle().assert_completed(Code::Succeeded);
}

#[test]
fn a_role_that_is_back_before_its_old_tasks_have_ended_gets_new_ones() {
    let mut world = framework().role("keeper", 1).role("a", 2).world();
    world.settle().run();
    let (role, old) = (world.status().task_roles()[1].instance_uid.clone(), world.task("a", 0).clone());
    let removed = world.cluster.framework.spec.task_roles[1].clone();
    world.edit(|spec| spec.task_roles.truncate(1)).step();
    assert!(world.task("a", 0).deletion_pending);
    world.edit(|spec| spec.task_roles.push(removed.clone())).step();
    assert_eq!(world.task("a", 0).instance_uid, old.instance_uid, "its Pod still runs");
    world.settle().run();
    assert_ne!(world.task("a", 0).instance_uid, old.instance_uid);
    assert_eq!(world.status().task_roles()[1].instance_uid, role, "it never left the status");

    world.edit(|spec| spec.task_roles.truncate(1)).settle();
    world.edit(|spec| spec.task_roles.push(removed)).settle().run();
    assert_ne!(world.status().task_roles()[1].instance_uid, role);
}

#[test]
fn an_order_of_roles_says_nothing() {
    let mut world = framework().role("a", 1).role("b", 2).world();
    world.settle().run();
    let before = world.status().task_roles().to_vec();
    world.edit(|spec| spec.task_roles.reverse()).settle();
    assert_eq!(world.status().task_roles(), before);
    assert_eq!(world.state(), State::AttemptRunning);
}

#[test]
fn the_next_attempt_has_the_tasks_that_the_spec_wants_by_then() {
    let mut world = framework().role("a", 1).retry(true, 0).world();
    world.settle().run().exit("a", 0, 201).settle();
    assert!(world.status().retry_policy_status.retry_delay_sec.is_some());
    scaled(&mut world, 3).settle();
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 1, "the attempt is over");
    world.pass(901).settle().run();
    assert_eq!(world.status().attempt_status.id, 1);
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 3);
}
