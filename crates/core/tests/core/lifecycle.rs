//! Whole lives of Frameworks: run, retry, stop, lose an object, and how many writes that takes.

use framework_api::State;
use framework_api::code::Code;
use framework_api::status::TaskAttemptCompletionStatus;
use framework_core::Action;
use framework_core::observed::PodPhase;

use crate::world::{World, framework};

#[test]
fn without_a_limit_of_creates_an_attempt_takes_six_status_writes() {
    for tasks in [1, 20, 300] {
        let mut world = framework().role("a", tasks).world();
        world.policy.expectations_limit = usize::MAX;
        world.settle().run();
        for index in 0..tasks {
            world.exit("a", index as i32, 0);
        }
        world.settle();
        world.assert_completed(Code::Succeeded);
        assert!(world.writes <= 6, "{} status writes for {tasks} Tasks", world.writes);
        assert_eq!(world.acts.len(), 2 * tasks + 2, "a POST and a DELETE each, and the ConfigMap's");
        assert_eq!(world.reports, ["Succeeded"]);
    }
}

#[test]
fn states_are_persisted_before_the_actions_they_permit() {
    let mut world = framework().role("a", 1).world();
    let mut seen = Vec::new();
    world.settle().run().exit("a", 0, 0).settle();
    for status in &world.history {
        seen.push((status.state, status.task("a", 0).unwrap().state));
    }
    use State::*;
    assert_eq!(seen[0], (AttemptPreparing, AttemptCreationPending), "the spec permits the ConfigMap");
    for needed in [
        (AttemptPreparing, AttemptCreationPending),
        (AttemptRunning, AttemptRunning),
        (AttemptRunning, AttemptDeletionPending),
        (AttemptDeletionPending, Completed),
        (Completed, Completed),
    ] {
        assert!(seen.contains(&needed), "{needed:?} was never persisted: {seen:?}");
    }
}

#[test]
fn only_a_retry_of_the_framework_stops_at_attempt_completed() {
    let mut world = framework().role("a", 1).task_retry(false, 1).retry(false, 1).world();
    world.settle();
    for _ in 0..4 {
        world.run().exit("a", 0, 1).settle();
    }
    assert_eq!((world.state(), world.code()), (State::Completed, Some(1)));
    let ended = |status: &framework_api::FrameworkStatus| {
        let task = status.task("a", 0).unwrap();
        let (attempt, task_attempt) = (status.attempt_status.id, task.attempt_status.id);
        (task.state == State::AttemptCompleted || status.state == State::AttemptCompleted).then_some((
            attempt,
            task_attempt,
            status.state,
            task.state,
        ))
    };
    use State::{AttemptCompleted, Completed};
    assert_eq!(
        world.history.iter().filter_map(ended).collect::<Vec<_>>(),
        [(0, 1, AttemptCompleted, Completed)]
    );
    let (last, task) = (world.status(), world.task("a", 0));
    assert_eq!(last.completion_time, last.attempt_status.completion_time);
    assert!(task.completion_time.is_some() && task.completion_time == task.attempt_status.completion_time);
}

#[test]
fn a_task_is_retried_as_its_policy_says() {
    let mut world = framework().role("a", 2).task_retry(true, 1).world();
    world.settle().run().exit("a", 0, 200).settle();
    let retried = world.task("a", 0).retry_policy_status;
    assert_eq!((retried.total_retried_count, retried.accountable_retried_count), (1, 0));
    world.run().exit("a", 0, 1).settle().run();
    let retried = world.task("a", 0).retry_policy_status;
    assert_eq!((retried.total_retried_count, retried.accountable_retried_count), (2, 1));
    assert_eq!(world.task("a", 0).attempt_status.id, 2);
    world.exit("a", 0, 1).settle();
    assert_eq!((world.state(), world.code()), (State::Completed, Some(1)));
    assert_eq!(world.task_code("a", 1), Some(Code::FrameworkAttemptCompletion.number()));
}

#[test]
fn a_retry_is_decided_only_after_the_outcome_is_persisted() {
    type End = fn(&mut World);
    let ends: [(End, State); 2] = [
        (|world| _ = world.exit("a", 0, 1), State::AttemptDeletionPending),
        // The Pod is gone before the controller has seen its end.
        (|world| _ = world.vanish("a", 0), State::AttemptCompleted),
    ];
    for (end, state) in ends {
        let mut world = framework().role("a", 1).task_retry(false, -1).policy(1, -1).world();
        world.settle().run();
        let writes = world.writes;
        end(&mut world);
        world.settle();
        assert_eq!(world.task("a", 0).attempt_status.id, 1);
        let tasks = world.history.iter().map(|status| status.task("a", 0).unwrap());
        let ended = tasks.filter(|task| task.attempt_status.completion_status.is_some());
        assert_eq!(ended.map(|task| task.state).collect::<Vec<_>>(), [state], "one write each");
        assert_eq!(world.writes - writes, 3, "its outcome; gone, and another is to come; that is there");
    }
}

#[test]
fn a_framework_is_retried_with_fresh_tasks_and_another_config_map() {
    let mut world = framework().role("a", 1).retry(false, 1).world();
    world.settle().run();
    let first = world.status().attempt_status.config_map_uid.clone();
    let task = world.task("a", 0).instance_uid.clone();
    world.exit("a", 0, 1).settle().run();
    let attempt = &world.status().attempt_status;
    assert_eq!((attempt.id, world.state()), (1, State::AttemptRunning));
    assert_ne!(attempt.config_map_uid, first);
    assert_ne!(world.task("a", 0).instance_uid, task);
    world.exit("a", 0, 1).settle();
    assert_eq!((world.state(), world.code()), (State::Completed, Some(1)));
    assert_eq!(world.reports, ["Retrying", "Failed"]);
}

#[test]
fn a_transient_conflict_waits_before_the_next_attempt() {
    let mut world = framework().role("a", 1).retry(true, 0).world();
    world.settle().run().exit("a", 0, 201).settle();
    let delay = world.status().retry_policy_status.retry_delay_sec.expect("a delay is persisted");
    assert!((60..=900).contains(&delay), "{delay}");
    let due = world.status().attempt_status.completion_time.unwrap().plus_seconds(delay);
    assert_eq!(world.plan().wake, Some(due.timestamp()));
    world.pass(delay - 1).settle();
    assert_eq!(world.status().attempt_status.id, 0, "too early");
    world.pass(1).settle();
    assert_eq!(world.status().attempt_status.id, 1);
    assert_eq!(world.status().retry_policy_status.accountable_retried_count, 0);
}

#[test]
fn stop_cuts_the_retry_delay_short() {
    let mut world = framework().role("a", 1).retry(true, 0).world();
    world.settle().run().exit("a", 0, 201).settle().stop().settle();
    world.assert_completed(Code::StopFrameworkRequested);
    assert_eq!(world.status().attempt_status.id, 1);
}

#[test]
fn a_framework_that_waits_to_be_started_creates_nothing() {
    let mut world = framework().execution("Create").role("a", 4).world();
    world.settle();
    assert_eq!((world.state(), world.acts.len()), (State::AttemptCreationPending, 0));
    world.edit(|spec| spec.execution_type = framework_api::ExecutionType::Start).settle().run();
    assert_eq!(world.state(), State::AttemptRunning);
}

/// The original accepts that a running Framework is set back to Create, and ignores it.
#[test]
fn create_holds_back_only_an_attempt_that_is_yet_to_begin() {
    let mut world = framework().role("a", 1).task_retry(false, 1).retry(false, 1).world();
    world.settle().run();
    world.edit(|spec| spec.execution_type = framework_api::ExecutionType::Create);
    world.exit("a", 0, 1).settle().run();
    assert_eq!((world.task("a", 0).attempt_status.id, world.task("a", 0).state), (1, State::AttemptRunning));
    world.exit("a", 0, 1).settle();
    assert_eq!((world.status().attempt_status.id, world.state()), (1, State::AttemptCreationPending));
}

#[test]
fn stop_ends_a_framework_in_two_writes() {
    let mut world = framework().role("a", 30).retry(false, -2).world();
    world.settle().run();
    let before = world.writes;
    world.stop().settle();
    world.assert_completed(Code::StopFrameworkRequested);
    assert_eq!(world.writes - before, 2);
    assert_eq!(world.status().attempt_status.completion_status.as_ref().unwrap().trigger, None);
    assert_eq!(world.task_code("a", 3), Some(Code::FrameworkAttemptCompletion.number()));
}

#[test]
fn stop_before_start_needs_no_object() {
    let mut world = framework().execution("Create").role("a", 2).world();
    world.settle().stop().settle();
    world.assert_completed(Code::StopFrameworkRequested);
    assert_eq!(world.acts, []);
}

#[test]
fn a_result_that_is_persisted_stays_though_the_user_stops() {
    let mut world = framework().role("a", 1).retry(false, -2).world();
    world.settle().run().exit("a", 0, 0);
    while world.code().is_none() {
        assert!(world.step());
    }
    world.stop().settle();
    world.assert_completed(Code::StopFrameworkRequested);
    let ends = world
        .history
        .iter()
        .filter(|s| s.attempt_status.id == 0 && s.attempt_status.completion_status.is_some());
    assert!(ends.into_iter().all(|s| s.attempt_status.completion_status.as_ref().unwrap().code == 0));
}

#[test]
fn a_pod_deleted_by_others_ends_its_attempt() {
    let mut world = framework().role("a", 1).policy(-1, -1).world();
    world.settle().run().terminate("a", 0, 30).settle();
    assert_eq!(world.task("a", 0).state, State::AttemptDeleting);
    assert_eq!(world.task_code("a", 0), Some(Code::PodExternalDeleted.number()));
    world.vanish("a", 0).settle();
    world.assert_completed(Code::Succeeded);
}

#[test]
fn an_exit_that_was_seen_stays_though_others_delete_the_pod() {
    let deletions: [fn(&mut World); 2] = [
        |world| _ = world.vanish("a", 0),
        |world| {
            world.terminate("a", 0, 30);
            world.cluster.objects.pods.get_mut("job-a-0").unwrap().ended_first = true;
        },
    ];
    for delete in deletions {
        for loses_map in [false, true] {
            let mut world = framework().role("a", 2).policy(-1, -1).world();
            world.settle().run().exit("a", 0, 7);
            delete(&mut world);
            if loses_map {
                world.cluster.objects.config_map = None;
            }
            let next = world.plan().persist.unwrap();
            assert_eq!(next.attempt_status.completion_status, None);
            let end = next.task("a", 0).unwrap().attempt_status.completion_status.clone().unwrap();
            assert_eq!((end.code, end.pod.unwrap().containers[0].code), (7, 7));
        }
    }
}

/// The Pod has started since the last write, too.
#[test]
fn a_run_that_no_status_shows_is_recorded_with_its_end() {
    type End = fn(&mut World);
    let ends: [(End, State); 6] = [
        (|world| _ = world.exit("a", 0, 0), State::AttemptRunning),
        (|world| _ = world.exit("a", 0, 0).vanish("a", 0), State::AttemptRunning),
        (|world| _ = world.vanish("a", 0), State::AttemptRunning),
        (|world| _ = world.terminate("a", 0, 30), State::AttemptRunning),
        (|world| _ = world.stop(), State::AttemptDeletionPending),
        (|world| _ = world.vanish("a", 0).stop(), State::AttemptDeletionPending),
    ];
    for (end, state) in ends {
        let mut world = framework().role("a", 2).policy(-1, -1).world();
        world.settle();
        let ran = world.cluster.now;
        world.cluster.run_pod("job-a-0");
        world.cluster.objects.pods.get_mut("job-a-0").unwrap().ran_at = Some(ran);
        end(&mut world);
        world.pass(1).step();
        let (status, task) = (world.status(), world.task("a", 0));
        assert_eq!([status.run_time, status.attempt_status.run_time], [Some(ran); 2]);
        assert_eq!([task.run_time, task.attempt_status.run_time], [Some(ran); 2]);
        assert!(task.attempt_status.completion_status.is_some());
        assert_eq!(status.state, state);
        world.settle();
    }
}

#[test]
fn a_task_whose_pod_is_pending_again_is_prepared_again() {
    let mut world = framework().role("a", 1).world();
    world.settle().run();
    let ran = world.task("a", 0).run_time;
    for (phase, state) in [
        (PodPhase::Unknown, State::AttemptRunning),
        (PodPhase::Pending, State::AttemptPreparing),
        (PodPhase::Unknown, State::AttemptPreparing),
        (PodPhase::Running, State::AttemptRunning),
    ] {
        world.cluster.objects.pods.get_mut("job-a-0").unwrap().phase = phase;
        world.pass(10).settle();
        let task = world.task("a", 0);
        assert_eq!((task.state, world.state()), (state, State::AttemptRunning));
        assert_eq!([task.run_time, task.attempt_status.run_time], [ran; 2], "the first run");
    }
}

#[test]
fn an_exit_that_follows_a_deletion_by_others_is_no_end_of_its_own() {
    let ends: [fn(&mut World); 2] = [|_| {}, |world| _ = world.vanish("a", 0)];
    for end in ends {
        let mut world = framework().role("a", 1).policy(-1, -1).world();
        world.settle().run().terminate("a", 0, 30).exit("a", 0, 0);
        end(&mut world);
        world.step();
        assert_eq!(world.task_code("a", 0), Some(Code::PodExternalDeleted.number()));
        assert_eq!(world.task("a", 0).attempt_status.completion_status.as_ref().unwrap().pod, None);
    }
}

#[test]
fn a_pod_that_vanished_is_confirmed_gone_first() {
    let mut world = framework().role("a", 1).task_retry(true, 0).world();
    world.settle().run();
    let uid = world.cluster.objects.pods.remove("job-a-0").unwrap().facts.uid;
    let confirm = Action::ConfirmPod { name: "job-a-0".to_owned(), uid: uid.clone() };
    assert_eq!(world.plan().act, [confirm]);
    assert_eq!(world.plan().persist, None, "nothing is decided before it is confirmed");
    world.settle().run();
    assert_eq!(world.task("a", 0).attempt_status.id, 1);
}

/// The original stores the end of a Task that awaits its Pod, and may stop once it has deleted that Pod.
#[test]
fn a_pod_that_the_original_deleted_before_it_appeared_is_confirmed_gone() {
    let mut world = framework().role("a", 1).world();
    world.settle().run().stop().step();
    let uid = world.cluster.objects.pods.remove("job-a-0").unwrap().facts.uid;
    let status = world.cluster.status.as_mut().unwrap();
    status.observed_generation = None;
    let roles = status.attempt_status.task_role_statuses.as_mut().unwrap();
    let task = roles[0].task_statuses[0].to_mut();
    task.state = State::AttemptCreationRequested;
    let end = TaskAttemptCompletionStatus::predefined(Code::FrameworkAttemptCompletion, String::new());
    task.attempt_status.completion_status = Some(Box::new(end));
    let confirm = Action::ConfirmPod { name: "job-a-0".to_owned(), uid };
    assert_eq!(world.plan().act, [confirm]);
    world.settle();
    world.assert_completed(Code::StopFrameworkRequested);
}

#[test]
fn a_config_map_deleted_by_others_ends_the_attempt_once_its_pods_are_gone() {
    let mut world = framework().role("a", 2).world();
    world.settle().run();
    let map = world.cluster.objects.config_map.take().unwrap();
    world.cluster.objects.gone.insert(map.uid);
    world.step();
    assert_eq!(world.code(), Some(Code::ConfigMapExternalDeleted.number()));
    assert_eq!(world.state(), State::AttemptDeleting, "its Pods are still there");
    world.settle();
    world.assert_completed(Code::ConfigMapExternalDeleted);
}

#[test]
fn addresses_follow_the_pod_while_it_runs() {
    let mut world = framework().role("a", 1).world();
    world.settle();
    assert_eq!(world.task("a", 0).attempt_status.pod_ip.as_deref(), Some(""), "seen without one");
    world.run();
    world.cluster.objects.pods.get_mut("job-a-0").unwrap().pod_ip = "10.9.9.9".to_owned();
    world.settle();
    assert_eq!(world.task("a", 0).attempt_status.pod_ip.as_deref(), Some("10.9.9.9"));
}

#[test]
fn a_stuck_pod_is_forced_only_after_its_timeout_on_the_servers_clock() {
    let mut world = framework().role("a", 1).graceful(60).world();
    world.settle().run().terminate("a", 0, 30).settle();
    let before = world.acts.len();
    world.pass(60).settle();
    assert_eq!(world.acts.len(), before, "60 s have not surely passed");
    world.cluster.now = world.cluster.now.plus_seconds(1);
    let mut moment = world.moment();
    moment.server = Some(world.cluster.now.plus_seconds(-5));
    let plan = framework_core::sync(&world.observed(), moment, &world.policy);
    assert!(plan.act.is_empty() && plan.proof_due.is_some(), "the server's clock decides: {:?}", plan.act);
    world.settle();
    assert!(matches!(world.acts.last(), Some(Action::DeleteConfigMap { .. })));
    assert!(world.acts.iter().any(|act| matches!(act, Action::DeletePod { force: true, .. })));
}

#[test]
fn without_a_timeout_a_stuck_pod_is_waited_for() {
    let mut world = framework().role("a", 1).world();
    world.settle().run().terminate("a", 0, 30).settle().pass(1_000_000).settle();
    assert_eq!(world.task("a", 0).state, State::AttemptDeleting);
    assert!(!world.acts.iter().any(|act| matches!(act, Action::DeletePod { .. })));
}

#[test]
fn a_completed_framework_is_deleted_after_its_retention() {
    let mut world = framework().role("a", 1).world();
    world.settle().run().exit("a", 0, 0).settle().pass(2_591_999).settle();
    assert!(!world.acts.contains(&Action::DeleteFramework));
    world.pass(1).settle();
    assert_eq!(world.acts.last(), Some(&Action::DeleteFramework));
}

#[test]
fn conditions_and_counts_show_the_outcome() {
    let mut world = framework().role("a", 2).world();
    world.settle().run();
    assert_eq!(world.status().tasks.as_deref(), Some("2/2"));
    let condition = |world: &crate::world::World, kind: &str| {
        world
            .status()
            .conditions
            .iter()
            .find(|c| c.type_ == kind)
            .map(|c| (c.status.clone(), c.reason.clone()))
    };
    assert_eq!(condition(&world, "Running"), Some(("True".to_owned(), "AttemptRunning".to_owned())));
    world.exit("a", 1, 137).settle();
    assert_eq!(condition(&world, "Running"), Some(("False".to_owned(), "Completed".to_owned())));
    assert_eq!(condition(&world, "Failed"), Some(("True".to_owned(), "ContainerSigKillReceived".to_owned())));
    assert_eq!(condition(&world, "Complete"), None);
    let counts = world.status().task_counts.unwrap();
    assert_eq!((counts.total, counts.failed, counts.running), (2, 2, 0));
}

/// Behind a barrier all Pods stay Pending until each of them has an IP.
#[test]
fn tasks_with_an_ip_are_counted_although_nothing_runs() {
    let mut world = framework().role("a", 2).world();
    world.settle();
    world.cluster.objects.pods.get_mut("job-a-0").unwrap().pod_ip = "10.9.9.9".to_owned();
    world.settle();
    let counts = world.status().task_counts.unwrap();
    assert_eq!((counts.total, counts.pending, counts.addressed), (2, 2, Some(1)));
}
