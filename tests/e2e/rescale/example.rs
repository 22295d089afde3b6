//! The Basic Example of the manual, step by step.

use framework_api::State;
use framework_api::status::TaskStatus;
use serde_json::{Value, json};

use super::{Job, end, instances, job, name_is, replace, runs, task};
use crate::cluster::delete_pod;

/// The manual's Framework. Its containers sleep, which on the test's nodes needs no annotation.
const MANIFEST: &str = r#"
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata:
  name: rescalebasic
spec:
  executionType: Start
  retryPolicy: {fancyRetryPolicy: false, maxRetryCount: 0}
  taskRoles:
  - name: a
    taskNumber: 4
    frameworkAttemptCompletionPolicy: {minFailedTaskCount: 4, minSucceededTaskCount: 1}
    task:
      retryPolicy: {fancyRetryPolicy: false, maxRetryCount: 0}
      podGracefulDeletionTimeoutSec: 600
      pod:
        spec:
          restartPolicy: Never
          containers:
          - name: ubuntu
            image: ubuntu:trusty
            command: ["sh", "-c", "printenv && sleep infinity"]
"#;

const DELETED_BY_OTHERS: Option<(i32, &str)> = Some((-101, "PodExternalDeleted"));
const SCALED_DOWN: Option<(i32, &str)> = Some((-230, "DeleteTaskRequested"));

/// The manual's patch to a number of Tasks, with the policy that goes with it.
fn to(number: u32) -> Value {
    let policy = "frameworkAttemptCompletionPolicy/minFailedTaskCount";
    json!([name_is(0, "a"), replace(0, "taskNumber", number), replace(0, policy, number)])
}

fn is_failed(task: &TaskStatus) -> bool {
    task.state == State::Completed && end(task) == DELETED_BY_OTHERS
}

/// Deletes the Pods of Tasks and waits until they are Completed (Failed).
fn fail(job: &Job, indices: &[i32]) {
    for index in indices {
        delete_pod(&job.namespace, &format!("rescalebasic-a-{index}"));
    }
    let status = job
        .wait("failed", |status| indices.iter().all(|index| status.task("a", *index).is_some_and(is_failed)));
    for index in indices {
        let task = task(&status, "a", *index);
        let end = task.attempt_status.completion_status.as_ref().expect("it has ended");
        assert!(end.r#type.is_failed() && !task.deletion_pending, "{task:?}");
        assert_eq!(end.diagnostics.lines().count(), 1, "a sentence: {}", end.diagnostics);
    }
    assert_eq!(status.state, State::AttemptRunning);
}

/// Redoes step 3, with Task 2 completed and Task 3 running on in its deletion. Gives the instances of all.
fn down_while_the_last_hangs(job: &Job) -> Vec<String> {
    job.hang("rescalebasic-a-3", true);
    job.patch(to(2));
    let status = job.wait("down to two and two DeletionPending", |status| {
        let deleting = |task: &TaskStatus| task.deletion_pending && task.state == State::AttemptDeleting;
        status.task("a", 3).is_some_and(deleting)
    });
    let (second, third) = (task(&status, "a", 2), task(&status, "a", 3));
    assert!(second.deletion_pending && is_failed(second), "it waits for its place at the tail: {second:?}");
    assert_eq!(end(third), SCALED_DOWN);
    let diagnostics = &third.attempt_status.completion_status.as_ref().expect("an end").diagnostics;
    assert!(diagnostics.contains("removed from the spec"), "{diagnostics}");
    assert_eq!(status.task_counts.map(|counts| (counts.total, counts.running)), Some((2, 2)));
    assert_eq!(status.state, State::AttemptRunning);
    instances(&status, "a").into_iter().map(|(uid, _)| uid).collect()
}

/// Step 1 to 4: a Task that failed and is scaled away does not complete the Framework by the policy of the
/// same patch.
fn first_four_steps(job: &Job) -> Vec<(String, Option<String>)> {
    job.done(&["create", "-f", "-"], MANIFEST);
    let first = job.running(4);
    assert_eq!(first.state, State::AttemptRunning);
    for task in &first.task_roles()[0].task_statuses {
        let attempt = &task.attempt_status;
        let pod = attempt.pod_uid.as_deref().expect("a Pod");
        assert_eq!(attempt.instance_uid.as_deref(), Some(format!("0_{pod}").as_str()));
        assert_eq!(attempt.pod_name, format!("rescalebasic-a-{}", task.index));
    }
    fail(job, &[2, 3]);
    job.patch(to(2));
    let status =
        job.wait("without the failed Tasks", |status| status.task_roles()[0].task_statuses.len() == 2);
    assert_eq!((status.state, &status.transition_time), (State::AttemptRunning, &first.transition_time));
    assert_eq!(instances(&status, "a"), instances(&first, "a")[..2], "the others are not touched");
    instances(&first, "a")
}

#[test]
fn the_basic_example_goes_as_the_manual_says() {
    let job = job("rescale-basic", "rescalebasic");
    let first = first_four_steps(&job);

    // 5: the new Tasks are other instances than those that had their indices.
    job.patch(to(4));
    let again = job.running(4);
    for index in [2, 3] {
        assert_ne!(task(&again, "a", index).instance_uid, first[index as usize].0);
        assert_eq!(task(&again, "a", index).attempt_status.id, 0);
    }
    // 6, 7: scaled up before the scale-down is finished.
    fail(&job, &[2]);
    let old = down_while_the_last_hangs(&job);
    job.patch(to(3));
    // 8
    let status = job.wait("with Task 2 replaced", |status| status.task("a", 2).is_some_and(runs));
    assert_ne!(task(&status, "a", 2).instance_uid, old[2]);
    let third = task(&status, "a", 3);
    assert!(third.deletion_pending && third.instance_uid == old[3], "it is not used again: {third:?}");
    assert_eq!((status.state, end(third)), (State::AttemptRunning, SCALED_DOWN));
    job.hang("rescalebasic-a-3", false);
    job.running(3);
    // 9, 10, 11
    job.patch(to(4));
    job.running(4);
    fail(&job, &[2]);
    let old = down_while_the_last_hangs(&job);
    job.patch(to(5));
    // 12: Task 2 is replaced and Task 4 added at once, Task 3 when its Pod is gone.
    let status = job.wait("with Task 2 replaced and Task 4 added", |status| {
        [2, 4].iter().all(|index| status.task("a", *index).is_some_and(runs))
    });
    assert_ne!(task(&status, "a", 2).instance_uid, old[2]);
    assert!(task(&status, "a", 3).deletion_pending && task(&status, "a", 3).instance_uid == old[3]);
    job.hang("rescalebasic-a-3", false);
    let last = job.running(5);
    assert_ne!(task(&last, "a", 3).instance_uid, old[3]);
    assert_eq!(instances(&last, "a")[..2], first[..2], "Tasks 0 and 1 were never touched");
    assert_eq!((last.state, &last.transition_time), (State::AttemptRunning, &again.transition_time));
    assert_eq!(last.attempt_status.id, 0);
    completes_by_the_new_tasks(job);
}

/// Beyond the manual: the policy that came with the last scale counts the Tasks that are there now.
fn completes_by_the_new_tasks(job: Job) {
    fail(&job, &[0, 2, 3, 4]);
    delete_pod(&job.namespace, "rescalebasic-a-1");
    assert_eq!(job.completed(), -101);
    let end = job.get().status.and_then(|status| status.attempt_status.completion_status);
    let trigger = end.and_then(|end| end.trigger).expect("a Task has ended it");
    assert!(trigger.message.contains("5 Tasks of TaskRole a failed"), "{}", trigger.message);
    let history = job.judge();
    let roles = history.statuses().flat_map(|(_, _, status)| status.task_roles());
    let tasks = roles.flat_map(|role| role.tasks());
    let seen = tasks.filter(|task| task.deletion_pending && is_failed(task)).count();
    assert!(seen >= 4, "each completed Task was stored as DeletionPending before it went: {seen}");
}
