//! FrameworkAttemptCompletionPolicy: which rule triggers, by which Task, and ties.

use framework_api::code::Code;
use framework_api::status::FrameworkAttemptCompletionStatus;
use framework_api::{FrameworkStatus, State};
use framework_core::completion::evaluate;

use crate::world::{Builder, framework};

/// Ends Tasks `(role, index, exit code, second)` of a Framework and evaluates the policy.
fn evaluated(builder: Builder, ends: &[(&str, i32, i32, i64)]) -> Option<FrameworkAttemptCompletionStatus> {
    let mut world = builder.world();
    world.settle();
    let start = world.cluster.now;
    let mut status: FrameworkStatus = world.status().clone();
    for (role, index, code, second) in ends {
        world.exit(role, *index, *code);
        let pod =
            world.cluster.objects.pods.get(&format!("job-{role}-{index}")).unwrap().end.clone().unwrap();
        let roles = status.attempt_status.task_role_statuses.as_mut().unwrap();
        let role = roles.iter_mut().find(|r| r.name == *role).unwrap();
        let task = role.task_statuses[*index as usize].to_mut();
        task.state = State::Completed;
        task.completion_time = Some(start.plus_seconds(*second));
        task.attempt_status.completion_status = Some(world.policy.classifier.classify(&pod).into());
    }
    evaluate(&world.cluster.framework.spec, status.task_roles())
}

/// Code and triggering Task.
fn outcome(end: Option<FrameworkAttemptCompletionStatus>) -> Option<(i32, String)> {
    end.map(|end| {
        let trigger = end.trigger.unwrap();
        (end.code, format!("{}-{}", trigger.task_role_name, trigger.task_index))
    })
}

fn met(code: i32, task: &str) -> Option<(i32, String)> {
    Some((code, task.to_owned()))
}

#[test]
fn by_default_any_failed_task_fails_the_attempt() {
    let job = || framework().role("a", 2).role("b", 2);
    assert_eq!(outcome(evaluated(job(), &[("b", 1, 7, 0)])), met(7, "b-1"));
    assert_eq!(outcome(evaluated(job(), &[("b", 1, 0, 0)])), None);
}

#[test]
fn by_default_the_attempt_succeeds_only_when_all_tasks_succeeded() {
    let job = || framework().role("a", 1).role("b", 1);
    assert_eq!(outcome(evaluated(job(), &[("a", 0, 0, 0)])), None);
    let end = evaluated(job(), &[("a", 0, 0, 5), ("b", 0, 0, 3)]).unwrap();
    assert_eq!(end.phrase, "Succeeded");
    assert!(end.trigger.as_ref().unwrap().message.contains("2 of 2"), "{end:?}");
    assert_eq!(outcome(Some(end)), met(0, "a-0"));
}

/// The schema of the original accepts two, and that of today refuses them.
#[test]
fn of_two_task_roles_of_one_name_only_the_first_counts() {
    let mut world = framework().role("a", 1).policy(-1, -1).role("a", 2).policy(1, -1).world();
    world.settle().run();
    assert_eq!(world.status().all_tasks().count(), 1);
    world.exit("a", 0, 1).settle();
    world.assert_completed(Code::Succeeded);
}

#[test]
fn without_a_minimum_the_attempt_succeeds_though_every_task_failed() {
    let job = || framework().role("a", 2).policy(-1, -1);
    assert_eq!(outcome(evaluated(job(), &[("a", 0, 1, 0)])), None);
    assert_eq!(outcome(evaluated(job(), &[("a", 0, 1, 0), ("a", 1, 9, 1)])), met(0, "a-1"));
}

#[test]
fn a_minimum_above_the_number_of_tasks_is_never_reached() {
    for (failed, succeeded) in [(3, -1), (-1, 3), (3, 3)] {
        for [first, second] in [[1, 1], [0, 0], [0, 1]] {
            let ends = [("a", 0, first, 0), ("a", 1, second, 1)];
            let end = evaluated(framework().role("a", 2).policy(failed, succeeded), &ends).unwrap();
            assert_eq!((end.code, end.phrase.as_str()), (0, Code::Succeeded.phrase()), "{ends:?}");
        }
    }
}

#[test]
fn map_reduce_accepts_a_few_failed_tasks() {
    let job = || framework().role("map", 4).policy(2, -1).role("reduce", 1).policy(1, -1);
    assert_eq!(outcome(evaluated(job(), &[("map", 0, 1, 0)])), None);
    let all = [("map", 0, 1, 0), ("map", 1, 0, 1), ("map", 2, 0, 1), ("map", 3, 0, 1), ("reduce", 0, 0, 2)];
    assert_eq!(outcome(evaluated(job(), &all)), met(0, "reduce-0"));
    assert_eq!(outcome(evaluated(job(), &[("map", 3, 5, 9), ("map", 0, 1, 2)])), met(5, "map-3"));
}

#[test]
fn a_master_alone_decides() {
    let job = || framework().role("master", 1).policy(1, 1).role("worker", 2).policy(-1, -1);
    assert_eq!(outcome(evaluated(job(), &[("worker", 0, 1, 0)])), None);
    assert_eq!(outcome(evaluated(job(), &[("worker", 0, 1, 0), ("master", 0, 0, 1)])), met(0, "master-0"));
    assert_eq!(outcome(evaluated(job(), &[("master", 0, 3, 1)])), met(3, "master-0"));
}

#[test]
fn all_workers_together_decide_while_servers_run_on() {
    let job = || framework().role("ps", 2).policy(1, -1).role("worker", 2).policy(1, 2);
    assert_eq!(outcome(evaluated(job(), &[("worker", 0, 0, 0)])), None);
    assert_eq!(outcome(evaluated(job(), &[("worker", 0, 0, 4), ("worker", 1, 0, 2)])), met(0, "worker-0"));
}

#[test]
fn any_worker_decides_an_elastic_job() {
    let job = || framework().role("worker", 3).policy(3, 1);
    assert_eq!(outcome(evaluated(job(), &[("worker", 0, 1, 0), ("worker", 1, 1, 0)])), None);
    assert_eq!(outcome(evaluated(job(), &[("worker", 0, 1, 0), ("worker", 2, 0, 9)])), met(0, "worker-2"));
}

#[test]
fn the_trigger_is_the_task_whose_completion_reaches_the_minimum() {
    let job = framework().role("a", 4).policy(2, -1);
    let ends = [("a", 0, 1, 30), ("a", 1, 2, 10), ("a", 2, 3, 20), ("a", 3, 0, 0)];
    let end = evaluated(job, &ends).unwrap();
    let message = &end.trigger.as_ref().unwrap().message;
    for fact in ["3 Tasks", "TaskRole a", "minFailedTaskCount is 2"] {
        assert!(message.contains(fact), "{fact} is missing in: {message}");
    }
    assert_eq!(outcome(Some(end)), met(3, "a-2"));
}

#[test]
fn among_roles_the_earliest_trigger_wins() {
    let job = || framework().role("a", 1).role("b", 1);
    assert_eq!(outcome(evaluated(job(), &[("a", 0, 1, 9), ("b", 0, 2, 4)])), met(2, "b-0"));
}

/// One TaskRole: the k-th completion by (completion time, index).
#[test]
fn within_a_role_a_tie_goes_to_the_lower_index() {
    let second = || framework().role("a", 3).policy(2, -1);
    assert_eq!(outcome(evaluated(second(), &[("a", 2, 3, 0), ("a", 0, 1, 0)])), met(3, "a-2"));
    assert_eq!(
        outcome(evaluated(second(), &[("a", 2, 3, 0), ("a", 1, 2, 0), ("a", 0, 1, 0)])),
        met(2, "a-1")
    );
    assert_eq!(
        outcome(evaluated(second(), &[("a", 0, 1, 5), ("a", 1, 2, 0)])),
        met(1, "a-0"),
        "the later one"
    );
}

/// Between rules: the earliest completion, then the order of the spec, then failure before success.
#[test]
fn between_roles_a_tie_goes_to_the_first_role_at_any_index() {
    let two = || framework().role("a", 2).role("b", 2);
    assert_eq!(outcome(evaluated(two(), &[("a", 1, 1, 0), ("b", 0, 2, 0)])), met(1, "a-1"));
    assert_eq!(outcome(evaluated(two(), &[("b", 0, 2, 0), ("a", 0, 1, 0)])), met(1, "a-0"));
    assert_eq!(
        outcome(evaluated(two(), &[("b", 0, 2, 0), ("a", 0, 1, 1)])),
        met(2, "b-0"),
        "the earlier one"
    );
    let both = || framework().role("a", 2).policy(1, 1);
    assert_eq!(outcome(evaluated(both(), &[("a", 0, 0, 0), ("a", 1, 9, 0)])), met(9, "a-1"));
    assert_eq!(outcome(evaluated(both(), &[("a", 0, 0, 0), ("a", 1, 9, 1)])), met(0, "a-0"));
    let roles = || framework().role("a", 1).policy(-1, 1).role("b", 1);
    assert_eq!(outcome(evaluated(roles(), &[("b", 0, 9, 0), ("a", 0, 0, 0)])), met(0, "a-0"));
}

/// All completed: the greatest (completion time, index) of a role, and a later role only if it is later.
#[test]
fn the_last_task_to_complete_has_the_highest_index_on_a_tie() {
    let job = || framework().role("a", 2).policy(-1, -1).role("b", 2).policy(-1, -1);
    let ends =
        |at: [i64; 4]| [("a", 0, 0, at[0]), ("a", 1, 0, at[1]), ("b", 0, 0, at[2]), ("b", 1, 0, at[3])];
    assert_eq!(outcome(evaluated(job(), &ends([1, 1, 1, 1]))), met(0, "a-1"));
    assert_eq!(outcome(evaluated(job(), &ends([2, 1, 2, 2]))), met(0, "a-0"));
    assert_eq!(outcome(evaluated(job(), &ends([1, 1, 2, 2]))), met(0, "b-1"));
    assert_eq!(outcome(evaluated(job(), &ends([1, 1, 2, 1]))), met(0, "b-0"));
}

#[test]
fn a_failed_or_succeeded_result_is_that_of_the_task_without_its_pod() {
    let end = evaluated(framework().role("a", 1), &[("a", 0, 210, 0)]).unwrap();
    assert_eq!((end.code, end.phrase.as_str()), (210, Code::ContainerPermanentFailed.phrase()));
    assert!(end.diagnostics.starts_with("Pod failed: "), "{}", end.diagnostics);
}

#[test]
fn tasks_being_removed_do_not_count_and_no_task_completes_nothing() {
    assert_eq!(outcome(evaluated(framework().role("a", 0), &[])), None);
    let mut world = framework().role("a", 2).world();
    world.settle().run().exit("a", 1, 1).edit(|spec| spec.task_roles[0].task_number = 1).settle();
    assert_ne!(world.state(), State::Completed, "the removed Task's failure must not count");
}
