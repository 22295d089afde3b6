//! SafetyGuarantee1 at work: the completion policy and the scale change as one, and the current spec is the
//! measure for the Tasks that stay.

use framework_api::State;
use serde_json::json;

use super::{Job, end, job, name_is, replace};
use crate::cluster::{Manifest, manifest};

const FAILED: &str = "frameworkAttemptCompletionPolicy/minFailedTaskCount";
const SUCCEEDED: &str = "frameworkAttemptCompletionPolicy/minSucceededTaskCount";

/// Starts it and waits until so many Tasks are completed.
fn with_completed(namespace: &str, manifest: &Manifest, completed: i32) -> Job {
    let job = job(namespace, "job");
    manifest.create(namespace);
    job.wait("partly completed", |status| {
        status.task_counts.is_some_and(|counts| counts.failed + counts.succeeded == completed)
            && status.task_counts.is_some_and(|counts| counts.running + completed == counts.total)
    });
    job
}

/// A TaskRole whose one Task fails, beside another whose Tasks run on.
fn one_fails() -> Manifest {
    let ends = [("run-duration", "1s"), ("exit-code", "7")];
    manifest("job").role("a", 1, &ends).policy(2, -1).role("rest", 2, &[]).policy(-1, -1)
}

#[test]
fn a_lower_minimum_completes_a_framework_that_has_reached_it() {
    let job = with_completed("rescale-lower", &one_fails(), 1);
    job.patch(json!([name_is(0, "a"), replace(0, FAILED, 1)]));
    assert_eq!(job.completed(), 7);
    job.judge();
}

#[test]
fn fewer_tasks_complete_the_framework_once_all_that_stay_are_completed() {
    let ends = [("run-duration", "1s"), ("exit-code", "0")];
    let both = manifest("job").role("short", 1, &ends).role("long", 2, &[]);
    let job = with_completed("rescale-fewer", &both, 1);
    job.patch(json!([name_is(1, "long"), replace(1, "taskNumber", 0)]));
    assert_eq!(job.completed(), 0);
    let status = job.get().status.expect("a status");
    let trigger = status.attempt_status.completion_status.and_then(|end| end.trigger).expect("a trigger");
    assert_eq!((trigger.task_role_name.as_str(), trigger.task_index), ("short", 0));
    job.judge();
}

#[test]
fn a_removed_role_takes_its_policy_along() {
    let job = with_completed("rescale-role", &one_fails(), 1);
    // The failed Task's role goes, and with it the failure; the policy that arrives is another role's.
    job.patch(json!([
        name_is(0, "a"), name_is(1, "rest"),
        replace(1, FAILED, 1), { "op": "remove", "path": "/spec/taskRoles/0" },
    ]));
    job.running(2);
    job.end();
}

#[test]
fn a_scale_down_and_a_policy_in_one_patch_never_meet_halfway() {
    // Task 1 and 2 have failed; both go by the patch that lowers the minimum to one failure. Task 3 hangs, so
    // that they stay in the status for a while, Completed and deletionPending.
    let job = job("rescale-halfway", "job");
    let job = job.start(&manifest("job").role("a", 4, &[]).policy(3, 2), 4);
    job.hang("job-a-3", true);
    for index in [1, 2] {
        crate::cluster::delete_pod(&job.namespace, &format!("job-a-{index}"));
    }
    job.wait("failed twice", |status| status.task_counts.is_some_and(|counts| counts.failed == 2));
    job.patch(json!([
        name_is(0, "a"),
        replace(0, "taskNumber", 1),
        replace(0, FAILED, 1),
        replace(0, SUCCEEDED, 1),
    ]));
    let waiting = job.wait("waiting for the Task that hangs", |status| {
        status.task("a", 3).is_some_and(|task| task.state == State::AttemptDeleting)
    });
    for index in [1, 2] {
        let task = super::task(&waiting, "a", index);
        assert!(task.deletion_pending && task.state == State::Completed, "{task:?}");
    }
    job.hang("job-a-3", false);
    let status = job.running(1);
    assert!(status.attempt_status.completion_status.is_none());
    crate::cluster::delete_pod(&job.namespace, "job-a-0");
    assert_eq!(job.completed(), -101);
    let last = job.get().status.expect("a status");
    assert_eq!(end(super::task(&last, "a", 0)), Some((-101, "PodExternalDeleted")));
    let trigger = last.attempt_status.completion_status.and_then(|end| end.trigger).expect("a trigger");
    assert_eq!(trigger.task_index, 0, "those that went did not count: {}", trigger.message);
    job.judge();
}
