//! Pods that hang in Terminating: waited for, or forced once the time-out that is persisted has passed.

use framework_api::State;
use framework_api::code::Code;
use framework_core::permit::permits;
use framework_core::{Action, Moment, sync};

use crate::world::{Builder, World, framework};

/// A Framework that runs, and whose Pods hang once they are deleted.
fn hanging(job: Builder) -> World {
    let mut world = job.world();
    world.settle().run();
    world.hangs = true;
    world
}

/// The user changes the time-out of the first TaskRole.
fn set(world: &mut World, seconds: Option<i64>) -> &mut World {
    world.edit(|spec| spec.task_roles[0].task.pod_graceful_deletion_timeout_sec = seconds)
}

/// Names of the Pods that were forced.
fn forced(world: &World) -> Vec<&str> {
    let name =
        |act| if let &Action::DeletePod { ref name, force: true, .. } = act { Some(&**name) } else { None };
    world.acts.iter().filter_map(name).collect()
}

#[test]
fn a_retry_follows_once_the_stuck_pod_is_forced() {
    let mut world = hanging(framework().role("a", 1).task_retry(false, 1).graceful(60));
    world.exit("a", 0, 1).settle();
    assert_eq!(world.task("a", 0).state, State::AttemptDeleting);
    world.pass(60).settle();
    assert_eq!((forced(&world).len(), world.task("a", 0).attempt_status.id), (0, 0), "a second too early");
    world.pass(1).settle();
    assert_eq!(forced(&world), ["job-a-0"]);
    assert_eq!(world.task("a", 0).attempt_status.id, 1);
}

#[test]
fn a_time_out_of_0_forces_at_the_first_proof_and_none_forces_never() {
    for (timeout, expected) in [(Some(0), vec!["job-a-0"]), (None, vec![])] {
        let mut world = hanging(framework().role("a", 1));
        set(&mut world, timeout).settle();
        world.stop().settle();
        assert_eq!(forced(&world), [""; 0], "its deletion began in this second");
        world.pass(1).settle();
        assert_eq!(forced(&world), expected);
        world.pass(1_000_000).settle();
        assert_eq!(forced(&world), expected);
    }
}

#[test]
fn a_deletion_begins_with_its_grace_period_not_after_it() {
    let mut world = hanging(framework().role("a", 1).graceful(60));
    world.terminate("a", 0, 500).settle().pass(61).settle();
    assert_eq!(forced(&world), ["job-a-0"]);
}

#[test]
fn a_task_that_is_removed_and_hangs_is_forced() {
    let mut world = hanging(framework().role("a", 2).graceful(5));
    world.edit(|spec| spec.task_roles[0].task_number = 1).settle().pass(6).settle();
    assert_eq!(forced(&world), ["job-a-1"]);
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 1);
}

#[test]
fn the_time_out_outlives_its_task_role() {
    let mut world = hanging(framework().role("b", 1).role("a", 1).graceful(5));
    world.edit(|spec| drop(spec.task_roles.pop())).settle();
    assert_eq!(world.status().task_roles()[1].pod_graceful_deletion_timeout_sec, Some(5));
    world.pass(6).settle();
    assert_eq!(forced(&world), ["job-a-0"]);
    assert_eq!(world.status().task_roles().len(), 1, "nothing is left of it");
}

#[test]
fn a_time_out_that_is_set_while_a_pod_hangs_is_persisted_before_it_acts() {
    let mut world = hanging(framework().role("a", 1).task_retry(false, -2));
    world.terminate("a", 0, 30).settle().pass(1000).settle();
    assert_eq!(forced(&world), [""; 0]);
    let plan = set(&mut world, Some(5)).plan();
    assert_eq!(plan.act, []);
    assert_eq!(plan.persist.unwrap().task_roles()[0].pod_graceful_deletion_timeout_sec, Some(5));
    world.settle();
    assert_eq!(forced(&world), ["job-a-0"], "its deletion began long ago");
    assert_eq!(world.task("a", 0).attempt_status.id, 1);
}

#[test]
fn a_time_out_that_is_taken_away_forces_nothing_any_more() {
    let mut world = hanging(framework().role("a", 1).graceful(5));
    world.terminate("a", 0, 30).settle();
    world.pass(10);
    let force = world.plan().act;
    assert!(matches!(force[..], [Action::DeletePod { force: true, .. }]), "{force:?}");
    let next = set(&mut world, None).plan().persist.expect("it is persisted");
    assert!(!permits(&next, &world.cluster.framework, &force[0]), "what was planned before is taken back");
    world.settle().pass(1000).settle();
    assert_eq!(forced(&world), [""; 0]);
}

#[test]
fn a_pod_that_was_forced_and_stays_needs_no_more_dates() {
    let mut world = hanging(framework().role("a", 1).graceful(60));
    world.stop().settle().pass(61);
    let proof_due = |world: &World| {
        let moment = Moment { server: None, ..world.moment() };
        sync(&world.observed(), moment, &world.policy).proof_due
    };
    assert_eq!(proof_due(&world), Some(world.cluster.now));
    let uid = world.cluster.objects.pods.get("job-a-0").unwrap().uid.clone();
    world.cluster.objects.forced_deletes.insert(uid);
    assert_eq!(proof_due(&world), None, "finalizers hold it");
}

#[test]
fn a_time_out_is_followed_until_the_framework_is_completed() {
    let mut world = hanging(framework().role("a", 2));
    world.stop().settle().pass(1000).settle();
    assert_eq!(
        (world.state(), forced(&world).len()),
        (State::AttemptDeletionPending, 0),
        "they are waited for"
    );
    set(&mut world, Some(5)).settle();
    assert_eq!(forced(&world), ["job-a-0", "job-a-1"]);
    world.assert_completed(Code::StopFrameworkRequested);
    set(&mut world, Some(7)).settle();
    assert_eq!(world.status().task_roles()[0].pod_graceful_deletion_timeout_sec, Some(5), "it is history");
}
