//! Released Frameworks that grow: which Tasks wait, for which unit, and until when.

use framework_api::State;
use framework_api::code::Code;
use framework_core::growth::{UnitDemand, unit_demands};
use framework_core::queue::{Stage, stage_now};

use crate::world::{Builder, World, framework};

/// A Framework that came through the queue `gpu`, and runs.
fn released(builder: Builder) -> World {
    let mut world = builder.world();
    world.policy.queueing = true;
    world.name_queue(Some("gpu")).settle().admit().settle().run();
    assert_eq!(world.state(), State::AttemptRunning);
    world.reports.clear();
    world
}

fn scale(world: &mut World, to: i32) -> &mut World {
    world.edit(|spec| spec.task_roles[0].task_number = to).settle()
}

/// The stored fields of the Tasks of the first TaskRole.
fn tags(world: &World) -> Vec<Option<i64>> {
    world.status().task_roles()[0].tasks().map(|task| task.queue_unit_generation).collect()
}

/// Which unit asks for how many Tasks of the first TaskRole.
fn asks(world: &World) -> Vec<(Option<i64>, u64)> {
    let demands = unit_demands(&world.observed(), &world.policy);
    let wanted = demands.iter().filter(|demand| demand.generation.is_none() || demand.since.is_some());
    wanted.map(|UnitDemand { generation, tasks, .. }| (*generation, tasks[0])).collect()
}

/// Which unit is still needed for how many Tasks of the first TaskRole.
fn held(world: &World) -> Vec<(Option<i64>, u64)> {
    let demands = unit_demands(&world.observed(), &world.policy);
    demands.iter().map(|UnitDemand { generation, held, .. }| (*generation, held[0])).collect()
}

fn pods(world: &World) -> Vec<String> {
    world.cluster.objects.pods.keys().collect()
}

#[test]
fn new_tasks_of_a_released_framework_wait_for_their_own_release() {
    let mut world = released(framework().role("a", 2));
    assert_eq!(asks(&world), [(None, 2)]);
    world.pass(60);
    scale(&mut world, 4).run();
    assert_eq!(tags(&world), [None, None, Some(2), Some(2)]);
    assert_eq!(asks(&world), [(None, 2), (Some(2), 2)]);
    assert_eq!(unit_demands(&world.observed(), &world.policy)[1].since, Some(world.cluster.now));
    assert_eq!(pods(&world), ["job-a-0", "job-a-1"], "those that ran run on");
    assert_eq!(world.task("a", 3).state, State::AttemptCreationPending);
    assert_eq!(world.reports, ["GrowthQueued"], "reported once");
    let writes = world.writes;
    world.pass(3600).settle();
    assert_eq!(world.writes, writes, "and waiting costs nothing");
    world.growths = vec![2];
    world.settle().run();
    assert_eq!(pods(&world).len(), 4);
    (0..4).for_each(|index| _ = world.exit("a", index, 0));
    world.settle();
    world.assert_completed(Code::Succeeded);
}

#[test]
fn the_event_names_the_queue_and_the_unit() {
    let mut world = released(framework().role("a", 1));
    let plan = world.edit(|spec| spec.task_roles[0].task_number = 2).plan();
    assert_eq!(plan.act, [], "nothing happens before the Tasks are stored");
    let note = "the new Tasks wait in queue gpu until the QueueUnit framework-job-2 is released";
    assert_eq!((plan.report[0].reason, plan.report[0].note.as_str()), ("GrowthQueued", note));
}

#[test]
fn growths_wait_apart_and_a_new_role_is_one_too() {
    let mut world = released(framework().role("a", 1));
    scale(&mut world, 2);
    scale(&mut world, 4);
    let mut role = world.cluster.framework.spec.task_roles[0].clone();
    (role.name, role.task_number) = ("b".to_owned(), 1);
    world.edit(|spec| spec.task_roles.push(role)).settle();
    assert_eq!(tags(&world), [None, Some(2), Some(3), Some(3)]);
    assert_eq!(world.task("b", 0).queue_unit_generation, Some(4));
    let counts = unit_demands(&world.observed(), &world.policy);
    let counts: Vec<_> = counts.iter().map(|demand| (demand.generation, demand.tasks.clone())).collect();
    assert_eq!(
        counts,
        [(None, vec![1, 0]), (Some(2), vec![1, 0]), (Some(3), vec![2, 0]), (Some(4), vec![0, 1])]
    );
    world.growths = vec![3];
    world.settle();
    assert_eq!(pods(&world), ["job-a-0", "job-a-2", "job-a-3"], "the younger one may go first");
    world.growths = vec![2, 3, 4];
    world.settle();
    assert_eq!(pods(&world).len(), 5);
}

#[test]
fn a_shrink_takes_waiting_tasks_and_the_next_growth_asks_again() {
    let mut world = released(framework().role("a", 3));
    scale(&mut world, 4);
    scale(&mut world, 2);
    assert_eq!(tags(&world), [None, None]);
    assert_eq!(asks(&world), [(None, 2)], "the first unit has given back its third Task");
    world.growths = vec![2];
    scale(&mut world, 4);
    assert_eq!(asks(&world), [(None, 2), (Some(4), 2)], "what was released before is no more");
    assert_eq!(pods(&world), ["job-a-0", "job-a-1"]);
}

#[test]
fn a_framework_that_shrank_to_nothing_asks_for_every_new_task() {
    let mut world = released(framework().role("a", 1).policy(1, 1));
    scale(&mut world, 0);
    assert_eq!(tags(&world), []);
    scale(&mut world, 2);
    assert_eq!(asks(&world), [(None, 0), (Some(3), 2)]);
    assert!(pods(&world).is_empty(), "they wait");
}

#[test]
fn a_task_that_replaces_a_removed_one_belongs_to_the_new_growth() {
    let mut world = released(framework().role("a", 3));
    world.hangs = true;
    scale(&mut world, 1);
    assert_eq!((asks(&world), pods(&world).len()), (vec![(None, 1)], 3), "they end slowly");
    scale(&mut world, 3);
    assert_eq!(asks(&world), [(None, 1)], "nothing new is stored yet");
    world.vanish("a", 2);
    world.settle();
    assert_eq!(tags(&world), [None, None, Some(3)]);
    assert_eq!(asks(&world), [(None, 1), (Some(3), 2)], "one growth, though it comes in pieces");
    world.vanish("a", 1);
    world.growths = vec![3];
    world.settle();
    assert_eq!(asks(&world), [(None, 1), (Some(3), 2)]);
    assert_eq!(world.reports, ["GrowthQueued"], "reported once");
    assert_eq!(pods(&world).len(), 3);
}

#[test]
fn a_retry_of_a_task_or_of_the_framework_asks_for_nothing_again() {
    let mut world = released(framework().role("a", 1).task_retry(false, 1).retry(false, 5));
    scale(&mut world, 2);
    world.growths = vec![2];
    world.settle().run().exit("a", 1, 1).settle();
    assert_eq!((world.task("a", 1).attempt_status.id, pods(&world).len()), (1, 2));
    // It grows while the attempt ends: the Task that the last attempt lacked is another growth.
    world.run().exit("a", 1, 1);
    while world.status().attempt_status.id == 0 {
        if world.code().is_some() {
            world.cluster.framework.spec.task_roles[0].task_number = 3;
            world.cluster.framework.metadata.generation = Some(3);
        }
        world.step();
    }
    world.settle();
    assert_eq!(tags(&world), [None, Some(2), Some(3)]);
    assert_eq!(pods(&world), ["job-a-0", "job-a-1"]);
    assert_eq!(world.reports.iter().filter(|reason| *reason == "GrowthQueued").count(), 2);
}

/// A Framework that waits, with two Tasks in the second generation of its spec.
fn waiting() -> World {
    let mut world = framework().role("a", 1).world();
    world.policy.queueing = true;
    world.name_queue(Some("gpu")).settle();
    scale(&mut world, 2);
    assert_eq!((tags(&world), asks(&world)), (vec![None, None], vec![(None, 2)]), "it waits as a whole");
    world
}

#[test]
fn one_that_grows_before_it_begins_waits_for_a_release_of_all_of_it() {
    let mut world = waiting();
    world.admit();
    scale(&mut world, 3).run();
    assert_eq!((tags(&world), pods(&world).len()), (vec![None; 3], 0), "less was released");
    assert_eq!(asks(&world), [(None, 3)]);
    assert_eq!(stage_now(&world.observed(), &world.policy), Stage::Waiting);
    world.admit().settle().run();
    assert_eq!((tags(&world), pods(&world).len()), (vec![None; 3], 3));
}

#[test]
fn one_that_grows_while_its_config_map_is_on_its_way_asks_for_the_rest() {
    let mut world = waiting();
    world.admit().step();
    assert!(
        world.cluster.objects.config_map_create.is_some()
            && world.status().attempt_status.config_map_uid.is_none()
    );
    world.edit(|spec| spec.task_roles[0].task_number = 3);
    assert_eq!(asks(&world), [(None, 2)], "the stored Tasks, also if the spec has changed");
    assert_eq!(stage_now(&world.observed(), &world.policy), Stage::Started);
    world.settle().run();
    assert_eq!((tags(&world), pods(&world).len()), (vec![None, None, Some(3)], 2));
    assert_eq!(asks(&world), [(None, 2), (Some(3), 1)]);
    assert_eq!(world.condition("Queued"), Some(("False", "Admitted", "released from queue gpu")));
}

#[test]
fn one_begins_only_once_all_is_stored_that_was_released() {
    let mut world = waiting();
    world.edit(|spec| spec.task_roles[0].task_number = 3).admit();
    assert_eq!(world.plan().act, [], "its third Task would be taken for a growth");
    world.settle().run();
    assert_eq!((tags(&world), pods(&world).len()), (vec![None; 3], 3));
}

#[test]
fn stop_and_completion_take_no_notice_of_waiting_tasks() {
    let mut stopped = released(framework().role("a", 1));
    scale(&mut stopped, 3).stop().settle();
    stopped.assert_completed(Code::StopFrameworkRequested);
    let mut ended = released(framework().role("a", 1).policy(1, 1));
    scale(&mut ended, 3).exit("a", 0, 0).settle();
    ended.assert_completed(Code::Succeeded);
    assert!(ended.cluster.objects.pods.is_empty());
}

#[test]
fn growth_waits_only_after_a_queue_and_with_queueing_on() {
    let grown = |queueing: bool, label: Option<&str>| {
        let mut world = framework().role("a", 1).world();
        world.policy.queueing = queueing;
        world.name_queue(label).settle().run();
        scale(&mut world, 3);
        (tags(&world), pods(&world).len())
    };
    for (queueing, label) in [(false, Some("gpu")), (true, None)] {
        assert_eq!(grown(queueing, label), (vec![None; 3], 3));
    }
    let mut switched = released(framework().role("a", 1));
    scale(&mut switched, 2);
    switched.policy.queueing = false;
    switched.settle();
    assert_eq!(pods(&switched).len(), 2, "what waited waits no more");
    let status = serde_json::to_value(switched.status()).unwrap();
    let tasks = &status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"];
    assert_eq!(tasks[1]["queueUnitGeneration"], 2);
    assert!(tasks[0].get("queueUnitGeneration").is_none());
}

#[test]
fn a_unit_is_held_until_the_removed_tasks_are_gone() {
    let mut world = released(framework().role("a", 3));
    world.run();
    world.edit(|spec| spec.task_roles[0].task_number = 1).step();
    assert_eq!((asks(&world), held(&world)), (vec![(None, 1)], vec![(None, 3)]));
    world.settle();
    assert_eq!((asks(&world), held(&world)), (vec![(None, 1)], vec![(None, 1)]));
}

#[test]
fn each_of_many_generations_in_mixed_order_asks_for_its_own_tasks() {
    const GENERATIONS: i64 = 5_000;
    let mut world = released(framework().role("a", 1).role("b", 1));
    // Neighbours are of generations far apart, and those of `b` are two of each.
    let mixed = |index: i64| 2 + index * 1_237 % GENERATIONS;
    let start = world.cluster.now;
    let attempt = &mut world.cluster.status.as_mut().unwrap().attempt_status;
    for (role, of_each) in attempt.task_role_statuses.iter_mut().flatten().zip([1, 2]) {
        let first = role.task_statuses[0].clone();
        role.task_statuses.extend((0..of_each * GENERATIONS).map(|index| {
            let mut task = first.clone();
            let generation = mixed(index);
            task.to_mut().queue_unit_generation = Some(generation);
            task.to_mut().start_time = start.plus_seconds(generation + index);
            task
        }));
    }
    let demands = unit_demands(&world.observed(), &world.policy);
    assert_eq!((demands[0].generation, &*demands[0].tasks), (None, &[1, 1][..]));
    let generations: Vec<_> = demands[1..].iter().filter_map(|demand| demand.generation).collect();
    assert_eq!(generations, (2..2 + GENERATIONS).collect::<Vec<_>>());
    for index in 0..GENERATIONS {
        let demand = &demands[usize::try_from(mixed(index)).unwrap() - 1];
        assert_eq!((&*demand.tasks, &*demand.held), (&[1, 2][..], &[1, 2][..]));
        assert_eq!(demand.since, Some(start.plus_seconds(mixed(index) + index)), "its first Task");
    }
}
