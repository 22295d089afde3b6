//! Rules of the core, switched off one by one: each interleaving goes well with its rule and wrong without.
//!
//! Rules A1, A2, A3 and A7 are the shell's; the tests of its engine do the same for them.

use framework_api::State;
use framework_core::observed::PodPhase;
use framework_core::permit::permits;
use framework_core::{Action, Defect};

use crate::world::{Builder, World, framework, pod};

/// A world in which these rules are off, after its Framework has begun to run.
fn running(job: Builder, off: &[Defect]) -> World {
    let mut world = job.world();
    world.policy.defects = off.iter().copied().collect();
    world.settle().run();
    world
}

/// A late Pod of a write that was lost turns up after its Framework has completed (A4).
fn a_late_pod_runs_on(off: &[Defect]) -> bool {
    let mut world = running(framework().role("a", 1), off);
    world.exit("a", 0, 0).settle();
    world.cluster.objects.pods.insert("job-a-0", pod("late", "old-map", PodPhase::Running).into());
    world.settle();
    !world.cluster.objects.pods.is_empty()
}

/// Somebody deletes the ConfigMap in the background: its Pods are still there (A5).
fn the_attempt_completes_before_its_pods(off: &[Defect]) -> bool {
    let mut world = running(framework().role("a", 2), off);
    let map = world.cluster.objects.config_map.take().expect("the attempt has one");
    world.cluster.objects.gone.insert(map.uid);
    world.step();
    world.state() >= State::AttemptCompleted
}

/// Somebody takes the label off a running Pod: the watch shows it as deleted (A6).
fn a_running_pod_counts_as_gone(off: &[Defect]) -> bool {
    let mut world = running(framework().role("a", 1), off);
    world.cluster.objects.pods.clear();
    world.plan().persist.is_some()
}

/// The local clock is an hour ahead of the API server's while a Pod terminates (A8).
fn a_fast_clock_forces_a_deletion(off: &[Defect]) -> bool {
    let mut world = running(framework().role("a", 1).graceful(600), off);
    world.terminate("a", 0, 30).settle();
    let server = Some(world.cluster.now);
    let mut moment = world.pass(3600).moment();
    moment.server = server;
    let plan = framework_core::sync(&world.observed(), moment, &world.policy);
    plan.act.iter().any(|act| matches!(act, Action::DeletePod { force: true, .. }))
}

/// A Pod has ended, and no status says so yet: it is deleted, and a crash loses how it ended.
fn a_pod_is_deleted_before_its_end_is_persisted(off: &[Defect]) -> bool {
    let mut world = running(framework().role("a", 2).policy(-1, -1), off);
    world.exit("a", 0, 7);
    let plan = world.plan();
    plan.act.iter().any(|act| !permits(world.status(), &world.cluster.framework, act))
}

/// The Pod of a Task is deleted by others, and the Task is retried: the end of its first attempt is never
/// persisted, nor exposed.
fn a_retry_hides_the_completed_attempt(off: &[Defect]) -> bool {
    let mut world = running(framework().role("a", 1).task_retry(false, -1), off);
    world.vanish("a", 0).settle();
    assert_eq!(world.task("a", 0).attempt_status.id, 1, "it is retried");
    !world.history.iter().any(|status| {
        let task = status.task("a", 0).expect("the Task");
        task.attempt_status.id == 0 && task.attempt_status.completion_status.is_some()
    })
}

#[test]
fn each_rule_of_the_core_closes_its_interleaving() {
    type Interleaving = fn(&[Defect]) -> bool;
    let interleavings: [(Defect, Interleaving); 6] = [
        (Defect::KeepOrphans, a_late_pod_runs_on),
        (Defect::TrustConfigMap, the_attempt_completes_before_its_pods),
        (Defect::TrustDisappearance, a_running_pod_counts_as_gone),
        (Defect::TrustLocalClock, a_fast_clock_forces_a_deletion),
        (Defect::DeleteBeforePersist, a_pod_is_deleted_before_its_end_is_persisted),
        (Defect::RetryBeforePersist, a_retry_hides_the_completed_attempt),
    ];
    for (defect, goes_wrong) in interleavings {
        assert!(!goes_wrong(&[]), "{defect:?}: the rule does not close it");
        assert!(goes_wrong(&[defect]), "{defect:?}: the check does not notice its absence");
    }
}
