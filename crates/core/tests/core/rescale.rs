//! Rescale: what is added, marked, removed and replaced, and that it is persisted first.

use framework_api::State;
use framework_api::code::Code;

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
