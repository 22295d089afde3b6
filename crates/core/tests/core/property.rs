//! Properties that hold in every life: random users, Pods and outcomes.

use std::collections::BTreeSet;

use framework_api::{ExecutionType, FrameworkStatus, State};
use framework_core::batch::{is_worth_all_cores, sync_all};
use framework_core::observed::Admission;
use framework_core::snapshot::Snapshot;
use framework_core::{Action, Plan, deferrable, first_attempt, permit, queue, sync};
use proptest::prelude::*;

use crate::world::{World, framework};

#[derive(Clone, Debug)]
enum Happening {
    Run,
    Exit {
        role: usize,
        index: i32,
        code: i32,
    },
    Terminate {
        role: usize,
        index: i32,
    },
    Vanish {
        role: usize,
        index: i32,
    },
    Lose {
        role: usize,
        index: i32,
    },
    LoseConfigMap,
    Scale {
        role: usize,
        to: i32,
    },
    Pass(i64),
    Stop,
    /// A user names a queue, or takes the label away.
    Label(Option<&'static str>),
    /// Its queue says why it has to wait.
    Refuse(&'static str),
    /// Its queue lets it go.
    Admit,
    /// Its queue lets all go that it has grown by.
    AdmitGrowths,
    /// The controller is started again: the queue has to repeat its answers.
    Forget,
}

const ROLES: [&str; 2] = ["a", "b"];

fn happening() -> impl Strategy<Value = Happening> {
    let code = prop::sample::select(vec![0, 0, 1, 137, 200, 201, 210]);
    prop_oneof![
        4 => Just(Happening::Run),
        6 => (0..2usize, 0..4, code).prop_map(|(role, index, code)| Happening::Exit { role, index, code }),
        1 => (0..2usize, 0..4).prop_map(|(role, index)| Happening::Terminate { role, index }),
        1 => (0..2usize, 0..4).prop_map(|(role, index)| Happening::Vanish { role, index }),
        1 => (0..2usize, 0..4).prop_map(|(role, index)| Happening::Lose { role, index }),
        1 => Just(Happening::LoseConfigMap),
        2 => (0..2usize, 0..5).prop_map(|(role, to)| Happening::Scale { role, to }),
        2 => (0..1000i64).prop_map(Happening::Pass),
        1 => Just(Happening::Stop),
        1 => queue_name().prop_map(Happening::Label),
        2 => prop::sample::select(vec!["InsufficientQuota", "Waiting"]).prop_map(Happening::Refuse),
        2 => Just(Happening::Admit),
        2 => Just(Happening::AdmitGrowths),
        1 => Just(Happening::Forget),
    ]
}

fn queue_name() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![None, Some("gpu"), Some("cpu")])
}

fn minimum() -> impl Strategy<Value = i32> {
    prop::sample::select(vec![-1, 1, 2])
}

fn happen(world: &mut World, what: &Happening) {
    let there = |world: &World, role: usize, index: i32| {
        world
            .cluster
            .objects
            .pods
            .get(&format!("job-{}-{index}", ROLES[role]))
            .is_some_and(|pod| pod.end.is_none())
    };
    match *what {
        Happening::Run => {
            for pod in world.cluster.objects.pods.values_mut() {
                if pod.phase == framework_core::observed::PodPhase::Pending {
                    pod.phase = framework_core::observed::PodPhase::Running;
                }
            }
        }
        Happening::Exit { role, index, code } if there(world, role, index) => {
            world.exit(ROLES[role], index, code);
        }
        Happening::Terminate { role, index } if there(world, role, index) => {
            world.terminate(ROLES[role], index, 30);
        }
        Happening::Vanish { role, index } if there(world, role, index) => {
            world.vanish(ROLES[role], index);
        }
        Happening::Lose { role, index } => {
            world.cluster.objects.pods.remove(&format!("job-{}-{index}", ROLES[role]));
        }
        Happening::LoseConfigMap => world.cluster.objects.config_map = None,
        Happening::Scale { role, to } => {
            world.edit(|spec| spec.task_roles[role].task_number = to);
        }
        Happening::Pass(seconds) => {
            world.pass(seconds);
        }
        Happening::Stop => {
            world.stop();
        }
        Happening::Label(queue) => {
            world.name_queue(queue);
        }
        // A queue does not hold back again the Tasks that it released.
        Happening::Refuse(reason) if !is_released(world) => {
            world.refuse(reason, &format!("since {}", world.cluster.now));
        }
        Happening::Admit => {
            world.admit();
        }
        Happening::AdmitGrowths => {
            world.admit_growths();
        }
        Happening::Forget => (world.admission, world.growths) = (None, Vec::new()),
        _ => {}
    }
}

/// Whether a queue holds the Framework back, as a reader of all reports would say.
fn is_held_back(world: &World) -> bool {
    let labels = world.cluster.framework.metadata.labels.iter().flatten();
    let names_queue =
        labels.filter(|(label, _)| *label == framework_api::queue::QUEUE_NAME_LABEL).count() > 0;
    let begun = world.cluster.status.as_ref().is_some_and(|status| {
        let admitted = status.conditions.iter().any(|c| c.type_ == "Queued" && c.reason == "Admitted");
        admitted || status.attempt_status.id > 0 || status.attempt_status.config_map_uid.is_some()
    });
    world.policy.queueing && names_queue && !begun && !is_released(world)
}

/// Whether its queue released it with the spec that it has.
fn is_released(world: &World) -> bool {
    let generation = world.cluster.framework.metadata.generation.unwrap();
    world.admission == Some(Admission::Released { generation })
}

/// A Task whose unit is not released gets no Pod.
fn assert_growths_wait(world: &World, plan: &Plan) {
    for action in &plan.act {
        let Action::CreatePod { task_role, task_index, .. } = action else { continue };
        let tag = world.task(task_role, *task_index).queue_unit_generation;
        let is_free = !world.policy.queueing || tag.is_none_or(|tag| world.growths.contains(&tag));
        assert!(is_free, "{task_role}-{task_index} of {tag:?}: {:?}", world.growths);
    }
}

/// Once a Framework has come through its queue, its first unit asks for no more than before.
fn assert_first_unit_shrinks(old: &FrameworkStatus, new: &FrameworkStatus) {
    let asks = |status: &FrameworkStatus| {
        let tasks = status.task_roles().iter().flat_map(|role| role.tasks());
        tasks.filter(|task| !task.deletion_pending && task.queue_unit_generation.is_none()).count()
    };
    let begun = |status: &FrameworkStatus| {
        let admitted = status.conditions.iter().any(|c| c.type_ == "Queued" && c.reason == "Admitted");
        admitted && queue::stage(Some(status)) != queue::Stage::Finished
    };
    assert!(!begun(old) || asks(new) <= asks(old), "{} after {}", asks(new), asks(old));
}

/// A Framework that a queue holds back is not begun, and that costs no write while the reason stays.
fn assert_waits(world: &World, plan: &Plan) {
    if !is_held_back(world) {
        return;
    }
    let created = world.cluster.objects.config_map_create.is_some();
    let begins = plan.act.iter().any(|action| matches!(action, Action::CreateConfigMap { .. }));
    assert!(created || !begins, "{:?}", plan.act);
}

/// The queue's decision stays, and is reported once.
fn assert_admitted_once(world: &World) {
    let queues: Vec<_> = world
        .history
        .iter()
        .map(|status| queue::is_queued(&world.cluster.framework, Some(status)))
        .zip(&world.history)
        .filter(|(_, status)| status.attempt_status.config_map_uid.is_some())
        .map(|(queue, _)| queue)
        .collect();
    assert!(queues.windows(2).all(|pair| pair[0] == pair[1]), "{queues:?}");
    let waits = |status: &FrameworkStatus| {
        status.conditions.iter().any(|condition| condition.type_ == "Queued" && condition.status == "True")
    };
    let past = |status: &FrameworkStatus| status.state != State::AttemptCreationPending;
    assert!(!world.history.iter().any(|status| past(status) && waits(status)), "who has begun does not wait");
    let admitted = world.reports.iter().filter(|reason| *reason == "Admitted").count();
    assert!(admitted <= 1 && queues.iter().flatten().next().is_none_or(|_| admitted == 1), "{admitted}");
}

/// Checks the parts that may never change from one persisted status to the next.
fn assert_monotone(old: &FrameworkStatus, new: &FrameworkStatus) {
    assert!(new.retry_policy_status.total_retried_count >= old.retry_policy_status.total_retried_count);
    assert_eq!(new.attempt_status.id, new.retry_policy_status.total_retried_count);
    let queued = |status: &FrameworkStatus| status.conditions.iter().find(|c| c.type_ == "Queued").cloned();
    if let (Some(before), Some(after)) = (queued(old), queued(new)) {
        assert!(before.reason != "Admitted" || before == after, "a release is never taken back");
        assert!(before.reason != after.reason || before.message == after.message, "its reason is the same");
    }
    if new.attempt_status.id != old.attempt_status.id {
        assert_eq!(old.state, State::AttemptCompleted, "a retry is decided from AttemptCompleted, persisted");
        return;
    }
    assert!(new.state >= old.state, "{:?} after {:?}", new.state, old.state);
    if old.attempt_status.completion_status.is_some() {
        assert_eq!(new.attempt_status.completion_status, old.attempt_status.completion_status);
    }
    for role in new.task_roles() {
        for task in &role.task_statuses {
            let Some(before) = old.task(&role.name, task.index) else { continue };
            if before.instance_uid != task.instance_uid {
                assert!(before.deletion_pending && before.state == State::Completed, "replaced too early");
            } else if before.attempt_status.id != task.attempt_status.id {
                assert!(before.attempt_status.completion_status.is_some(), "its end was persisted");
            } else {
                assert!(task.state >= before.state, "{:?} after {:?}", task.state, before.state);
                assert!(before.deletion_pending <= task.deletion_pending);
                assert_eq!(before.queue_unit_generation, task.queue_unit_generation);
                let end = &before.attempt_status.completion_status;
                assert!(end.is_none() || *end == task.attempt_status.completion_status, "it never changes");
            }
        }
    }
}

/// Lists in words the attempts of one persisted status that the next one lacks.
fn lost(old: &FrameworkStatus, new: &FrameworkStatus) -> BTreeSet<String> {
    if old.attempt_status.id != new.attempt_status.id {
        return ["the attempt".to_owned()].into();
    }
    let attempts = |status: &FrameworkStatus| -> BTreeSet<(String, i32)> {
        let tasks = status.task_roles().iter().flat_map(|role| &role.task_statuses);
        tasks.map(|task| (task.instance_uid.clone(), task.attempt_status.id)).collect()
    };
    attempts(old).difference(&attempts(new)).map(|(uid, attempt)| format!("{uid} {attempt}")).collect()
}

/// Every part of a persisted status that the next one lacks was reported, and only in a final state.
fn assert_reported(world: &World) {
    let reported = |at: usize| -> BTreeSet<String> {
        let status = &world.history[at];
        let here = world.snapshots.iter().filter(|(of, _)| *of == at).map(|(_, snapshot)| snapshot);
        here.map(|snapshot| match snapshot {
            Snapshot::FrameworkRetry => {
                assert_eq!(status.state, State::AttemptCompleted);
                "the attempt".to_owned()
            }
            Snapshot::TaskRetry { task_role, task_index, .. } => {
                let task = status.task(task_role, *task_index).expect("it is persisted");
                assert!(task.attempt_status.completion_status.is_some());
                format!("{} {}", task.instance_uid, task.attempt_status.id)
            }
            Snapshot::TaskDeletion { task_role, task_index, .. } => {
                let task = status.task(task_role, *task_index).expect("it is persisted");
                assert!(task.deletion_pending && task.state == State::Completed);
                format!("{} {}", task.instance_uid, task.attempt_status.id)
            }
        })
        .collect()
    };
    for (at, pair) in world.history.windows(2).enumerate() {
        assert_eq!(reported(at), lost(&pair[0], &pair[1]));
    }
}

/// An event of a Pod that can wait: the plan does nothing about that Pod, and moves its Task to no state that
/// an act waits for.
fn assert_deferrable(world: &World, plan: &Plan) {
    let about = |action: &Action, pod: &str| match action {
        Action::CreatePod { name, .. } | Action::DeletePod { name, .. } | Action::ConfirmPod { name, .. } => {
            name == pod
        }
        _ => false,
    };
    let observed = world.observed();
    for name in world.cluster.objects.pods.keys().filter(|name| deferrable::is_deferrable(&observed, name)) {
        let name = &name;
        assert!(!plan.act.iter().any(|action| about(action, name)), "{name}: {:?}", plan.act);
        let Some(next) = &plan.persist else { continue };
        let task = permit::task_of_pod(next, name).expect("what is deferrable has a Task");
        let waited_for = matches!(
            task.state,
            State::AttemptCreationPending
                | State::AttemptDeletionPending
                | State::AttemptCompleted
                | State::Completed
        );
        let moves = task.state != permit::task_of_pod(world.status(), name).unwrap().state;
        // An event that ends the attempt, or the Task, is reported as another fact.
        let ends = next.attempt_status.completion_status.is_some() || task.deletion_pending;
        assert!(ends || !moves || !waited_for, "{name}: {:?}", task.state);
    }
}

#[test]
fn a_batch_is_the_map_of_its_members_on_one_core_and_on_all() {
    let mut worlds: Vec<World> = (0..40).map(|tasks| framework().role("a", 1 + 4 * tasks).world()).collect();
    worlds.iter_mut().for_each(|world| _ = world.settle().run().exit("a", 0, 0));
    let batch: Vec<_> = worlds.iter().map(|world| (world.observed(), world.moment())).collect();
    let plans: Vec<_> = worlds.iter().map(|world| Ok(world.plan())).collect();
    assert!(is_worth_all_cores(&batch) && !is_worth_all_cores(&batch[..4]));
    assert!(!is_worth_all_cores(&batch[39..]), "one alone cannot be divided");
    assert!(plans.iter().flatten().all(|plan| plan.persist.is_some()));
    assert_eq!(sync_all(&batch, &worlds[0].policy), plans);
    assert_eq!(sync_all(&batch[..4], &worlds[0].policy), plans[..4]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_life_keeps_the_rules(
        (a, b) in (1..4usize, 0..4usize),
        policies in prop::array::uniform2((minimum(), minimum())),
        retries in prop::array::uniform3((any::<bool>(), -2..3i32)),
        (queueing, label) in (any::<bool>(), queue_name()),
        happenings in prop::collection::vec((happening(), 0..4usize), 0..40),
    ) {
        let mut world = framework()
            .role("a", a).policy(policies[0].0, policies[0].1)
            .task_retry(retries[0].0, retries[0].1).graceful(60)
            .role("b", b).policy(policies[1].0, policies[1].1)
            .task_retry(retries[1].0, retries[1].1)
            .retry(retries[2].0, retries[2].1)
            .world();
        world.policy.queueing = queueing;
        world.name_queue(label);
        for (what, steps) in &happenings {
            happen(&mut world, what);
            let plan = world.plan();
            assert_waits(&world, &plan);
            assert_growths_wait(&world, &plan);
            prop_assert_eq!(&plan, &world.plan(), "sync is a function");
            assert_deferrable(&world, &plan);
            let twice = [(world.observed(), world.moment()), (world.observed(), world.moment())];
            let batch = sync_all(&twice, &world.policy);
            let is_map = batch.iter().all(|other| other.as_ref() == Ok(&plan));
            prop_assert!(is_map, "a batch is the map of its members");
            for action in &plan.act {
                let permitted = match &world.cluster.status {
                    Some(status) => permit::permits(status, &world.cluster.framework, action),
                    None => first_attempt::permits(&world.cluster.framework, action, &world.policy),
                };
                prop_assert!(permitted, "not permitted: {:?}", action);
            }
            for _ in 0..*steps {
                world.step();
            }
        }
        world.settle();
        prop_assert!(sync(&world.observed(), world.moment(), &world.policy).persist.is_none());
        for pair in world.history.windows(2) {
            assert_monotone(&pair[0], &pair[1]);
            if queueing {
                assert_first_unit_shrinks(&pair[0], &pair[1]);
            }
        }
        assert_reported(&world);
        let starts = world.cluster.framework.spec.execution_type == ExecutionType::Start;
        let pending = world.state() == State::AttemptCreationPending;
        prop_assert_eq!(starts && is_held_back(&world), starts && pending);
        world.admit().settle();
        prop_assert!(!starts || world.state() != State::AttemptCreationPending, "it goes on once released");
        assert_admitted_once(&world);
        // World::act has checked that no act was done twice: a Pod's name was free at its create, and each
        // deleted object was there.
        world.stop().settle();
        for pod in world.cluster.objects.pods.values_mut().filter(|pod| pod.deletion.is_some()) {
            pod.deletion = None;
            pod.phase = framework_core::observed::PodPhase::Running;
        }
        world.settle();
        let objects = &world.cluster.objects;
        prop_assert_eq!(world.state(), State::Completed, "a stopped Framework ends: {:?}", objects);
        prop_assert!(world.cluster.objects.pods.is_empty(), "nothing is left over");
    }
}
