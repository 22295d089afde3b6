//! The first ConfigMap, which the spec alone permits (rule A11), and the interleavings that it must survive.

use framework_api::{ExecutionType, State};
use framework_core::observed::{ConfigMapFacts, Create, Instance, Outcome, PodPhase, Refusal};
use framework_core::{Action, first_attempt};

use crate::world::{World, framework};

const FIRST: Instance = Instance::FrameworkAttempt { attempt_id: 0 };

fn create() -> Action {
    Action::CreateConfigMap { instance: FIRST }
}

/// A Framework of one Task whose ConfigMap was created, and that has no status yet.
fn begun() -> World {
    let mut world = framework().role("a", 1).world();
    assert!(world.step());
    assert_eq!((world.writes, &world.acts[..]), (0, &[create()][..]), "no write announces it");
    world
}

fn map(uid: &str, framework_uid: Option<String>, deleting: bool) -> Option<ConfigMapFacts> {
    Some(ConfigMapFacts { uid: uid.to_owned(), framework_uid, deleting })
}

#[test]
fn an_attempt_whose_pods_run_at_once_takes_five_status_writes() {
    for tasks in [1, 20] {
        let mut world = framework().role("a", tasks).world();
        while world.step() {
            world.cluster.objects.pods.values_mut().for_each(|pod| pod.phase = PodPhase::Running);
        }
        assert_eq!(world.state(), State::AttemptRunning);
        for index in 0..tasks {
            world.exit("a", index as i32, 0);
        }
        world.settle();
        assert_eq!((world.state(), world.writes), (State::Completed, 5));
    }
}

#[test]
fn after_a_crash_the_first_config_map_is_taken_over() {
    let mut world = begun();
    let uid = world.cluster.objects.config_map.as_ref().unwrap().uid.clone();
    world.cluster.objects.config_map_create = None;
    world.settle();
    assert_eq!(world.status().attempt_status.config_map_uid, Some(uid));
    assert_eq!(world.history[0].state, State::AttemptPreparing, "the first status records it");
    assert_eq!(world.acts.iter().filter(|act| **act == create()).count(), 1);
    assert!(!world.acts.iter().any(|act| matches!(act, Action::DeleteConfigMap { .. })));
}

#[test]
fn a_stop_or_an_older_controller_deletes_a_lost_first_config_map() {
    let mut stopped = begun();
    stopped.cluster.objects.config_map_create = None;
    stopped.stop();
    assert_eq!(stopped.settle().state(), State::Completed);
    assert!(stopped.cluster.objects.config_map.is_none(), "nothing is left over");

    // An older controller stores AttemptCreationPending first, and finds a create that no status records.
    let mut announced = framework().role("a", 1).world();
    announced.cluster.objects.config_map = map("foreign", None, false);
    assert!(announced.step());
    assert_eq!(announced.state(), State::AttemptCreationPending);
    announced.cluster.objects.config_map =
        map("late", announced.cluster.framework.metadata.uid.clone(), false);
    assert_eq!(announced.plan().act, [Action::DeleteConfigMap { uid: "late".to_owned() }]);
}

#[test]
fn a_framework_without_its_status_that_is_stopped_ends_after_its_pods() {
    let mut world = framework().role("a", 1).world();
    world.settle().run();
    world.hangs = true;
    world.cluster.status = None;
    world.stop();
    world.settle();
    assert!(!world.cluster.objects.pods.is_empty(), "it has its grace period");
    assert_ne!(world.state(), State::Completed);
    world.vanish("a", 0);
    assert_eq!(world.settle().state(), State::Completed);
}

#[test]
fn the_first_config_map_that_lands_after_a_whole_life_is_deleted() {
    let mut world = framework().role("a", 1).world();
    world.settle().run().exit("a", 0, 0).settle();
    assert_eq!(world.state(), State::Completed);
    world.cluster.objects.config_map = map("late", world.cluster.framework.metadata.uid.clone(), false);
    assert_eq!(world.plan().act, [Action::DeleteConfigMap { uid: "late".to_owned() }]);
}

#[test]
fn a_stop_a_deletion_or_a_queue_withdraws_the_first_config_map() {
    let world = framework().role("a", 1).world();
    let permitted =
        |world: &World| first_attempt::permits(&world.cluster.framework, &create(), &world.policy);
    assert!(permitted(&world));
    for execution in [ExecutionType::Stop, ExecutionType::Create] {
        let mut held = framework().role("a", 1).world();
        held.edit(|spec| spec.execution_type = execution);
        assert!(!permitted(&held));
        assert!(held.step() && held.acts.is_empty() && held.writes == 1);
    }
    let mut queued = framework().role("a", 1).world();
    queued.policy.queueing = true;
    queued.name_queue(Some("q"));
    assert!(!permitted(&queued));
    assert!(queued.step() && queued.acts.is_empty() && queued.writes == 1);

    let mut deleted = framework().role("a", 1).world();
    deleted.cluster.framework.metadata.deletion_timestamp =
        world.cluster.framework.metadata.creation_timestamp.clone();
    assert!(!permitted(&deleted));
    assert!(!deleted.step());
    deleted.edit(|spec| spec.execution_type = ExecutionType::Stop);
    deleted.settle();
    assert_eq!((deleted.state(), deleted.acts.len()), (State::Completed, 0), "it never began");
    let mut late = framework().role("a", 1).deadline(100).world();
    late.cluster.framework.metadata.deletion_timestamp =
        world.cluster.framework.metadata.creation_timestamp.clone();
    late.pass(250).settle();
    assert_eq!((late.state(), late.acts.len()), (State::Completed, 0), "it never began, and is late");

    let second = Action::CreateConfigMap { instance: Instance::FrameworkAttempt { attempt_id: 1 } };
    assert!(!first_attempt::permits(&world.cluster.framework, &second, &world.policy));
    let delete = Action::DeleteConfigMap { uid: "any".to_owned() };
    assert!(!first_attempt::permits(&world.cluster.framework, &delete, &world.policy));
}

#[test]
fn a_first_config_map_that_cannot_be_created_is_stored_as_pending() {
    let retry_at = framework().world().cluster.now.plus_seconds(30).timestamp();
    let message = "quota".into();
    let refused = Outcome::Refused { refusal: Refusal::Transient, message, retry_at };
    let mut world = framework().role("a", 1).world();
    world.cluster.objects.config_map_create = Some(Create { instance: FIRST, outcome: Outcome::InFlight });
    assert!(!world.step(), "the reply is awaited");
    world.cluster.objects.config_map_create = Some(Create { instance: FIRST, outcome: refused });
    assert!(world.step());
    assert_eq!((world.state(), world.writes), (State::AttemptCreationPending, 1));
    for holder in
        [map("foreign", None, false), map("old", world.cluster.framework.metadata.uid.clone(), true)]
    {
        let mut world = framework().role("a", 1).world();
        world.cluster.objects.config_map = holder;
        assert!(world.step());
        assert_eq!((world.state(), world.acts.len()), (State::AttemptCreationPending, 0));
    }
}
