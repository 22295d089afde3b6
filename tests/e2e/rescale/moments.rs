//! Rescales at every moment of a Framework: before its start, with no Tasks, while Tasks of the last
//! scale-down still end, between two attempts, and when it is too late.

use framework_api::State;
use serde_json::json;

use super::{end, instances, job, name_is, replace, role, runs, task};
use crate::cluster::{delete_pod, execute, manifest};

#[test]
fn a_framework_may_be_rescaled_before_it_starts() {
    let job = job("rescale-create", "job");
    let waiting = manifest("job").role("a", 3, &[]).role("b", 2, &[]);
    let text = waiting.text().replace("\"Start\"", "\"Create\"");
    job.done(&["create", "-f", "-"], &text);
    let tasks = |status: &framework_api::FrameworkStatus| {
        status
            .task_roles()
            .iter()
            .map(|role| (role.name.clone(), role.task_statuses.len()))
            .collect::<Vec<_>>()
    };
    let first = job.wait("waiting", |status| tasks(status) == [("a".to_owned(), 3), ("b".to_owned(), 2)]);
    job.patch(json!([replace(0, "taskNumber", 1), { "op": "remove", "path": "/spec/taskRoles/1" }]));
    job.wait("rid of what was removed", |status| tasks(status) == [("a".to_owned(), 1)]);
    job.scale(0, "a", 2);
    let last = job.wait("up again", |status| tasks(status) == [("a".to_owned(), 2)]);
    assert_eq!(last.state, State::AttemptCreationPending);
    assert_eq!(task(&last, "a", 0).instance_uid, task(&first, "a", 0).instance_uid);
    assert_ne!(task(&last, "a", 1).instance_uid, task(&first, "a", 1).instance_uid);

    execute(&job.namespace, "job", "Start");
    job.running(2);
    let history = job.end();
    assert_eq!(history.pods.len(), 2, "no Pod was created before the start, or of what was removed");
}

#[test]
fn a_framework_may_be_scaled_to_nothing_and_back() {
    let job = job("rescale-zero", "job");
    let job = job.start(&manifest("job").role("a", 2, &[]), 2);
    let before = job.running(2);
    job.scale(0, "a", 0);
    let empty = job.running(0);
    assert_eq!(empty.state, State::AttemptRunning, "with no Task there is nothing that could complete it");
    assert_eq!(empty.tasks.as_deref(), Some("0/0"));
    job.scale(0, "a", 2);
    let back = job.running(2);
    assert_eq!(role(&back, "a").instance_uid, role(&before, "a").instance_uid, "the TaskRole was never away");
    assert!(instances(&back, "a").iter().all(|instance| !instances(&before, "a").contains(instance)));

    // With nothing but Tasks that succeed, it completes.
    job.patch(json!([replace(0, "taskNumber", 0)]));
    job.running(0);
    let short = manifest("x").role("b", 2, &[("exit-code", "0")]).object().spec.task_roles.remove(0);
    job.patch(json!([{ "op": "add", "path": "/spec/taskRoles/-", "value": short }]));
    assert_eq!(job.completed(), 0);
    job.judge();
}

#[test]
fn a_task_role_that_comes_back_is_made_of_new_instances() {
    let job = job("rescale-again", "job");
    let job = job.start(&manifest("job").role("keeper", 1, &[]).role("a", 2, &[]), 3);
    let first = job.running(3);
    let spec = job.get().spec.task_roles[1].clone();
    let remove = json!([name_is(1, "a"), { "op": "remove", "path": "/spec/taskRoles/1" }]);
    let add = json!([{ "op": "add", "path": "/spec/taskRoles/-", "value": spec }]);

    // It is back while one of its old Tasks still ends: the old one ends, then a new one takes its place.
    job.hang("job-a-1", true);
    job.patch(remove.clone());
    job.wait("down to a Task that hangs", |status| {
        let task = status.task("a", 1);
        task.is_some_and(|task| task.deletion_pending && task.state == State::AttemptDeleting)
            && status.task("a", 0).is_some_and(|task| task.state == State::Completed)
    });
    job.patch(add.clone());
    let both = job.wait("half back", |status| status.task("a", 0).is_some_and(runs));
    assert_eq!(task(&both, "a", 1).instance_uid, task(&first, "a", 1).instance_uid);
    assert_eq!(end(task(&both, "a", 1)), Some((-230, "DeleteTaskRequested")));
    job.hang("job-a-1", false);
    let second = job.running(3);
    assert!(instances(&second, "a").iter().all(|instance| !instances(&first, "a").contains(instance)));
    assert_eq!(role(&second, "a").instance_uid, role(&first, "a").instance_uid);

    // It is back after all of it was gone: another TaskRole of the same name.
    job.patch(remove);
    job.wait("without a", |status| status.task_roles().len() == 1);
    job.patch(add);
    let third = job.running(3);
    assert_ne!(role(&third, "a").instance_uid, role(&first, "a").instance_uid);
    assert_eq!(instances(&third, "keeper"), instances(&first, "keeper"));
    job.end();
}

#[test]
fn an_attempt_that_ends_is_not_rescaled() {
    let job = job("rescale-late", "job");
    let job = job.start(&manifest("job").role("a", 2, &[]), 2);
    job.hang("job-a-1", true);
    execute(&job.namespace, "job", "Stop");
    job.wait("ending", |status| status.attempt_status.completion_status.is_some());
    job.scale(0, "a", 4);
    let generation = job.get().metadata.generation;
    job.hang("job-a-1", false);
    assert_eq!(job.completed(), -210);
    let last = job.wait("aware of the spec", |status| status.observed_generation == generation);
    assert_eq!(role(&last, "a").task_statuses.len(), 2);
    job.scale(0, "a", 1);
    let generation = job.get().metadata.generation;
    let last = job.wait("aware of the spec", |status| status.observed_generation == generation);
    assert_eq!(role(&last, "a").task_statuses.len(), 2, "what is completed stays as it was");
    job.judge();
}

#[test]
fn the_next_attempt_has_the_scale_that_is_wanted_by_then() {
    let in_time = (0..4).any(|number| next_attempt_has_the_scale(&format!("rescale-delay{number}")));
    assert!(in_time, "no Framework was rescaled before its next attempt");
}

/// Rescales a Framework that waits for its retry, and asserts that the next attempt has the scale. Returns
/// whether it was rescaled in time: on a busy machine its next attempt may begin before.
fn next_attempt_has_the_scale(namespace: &str) -> bool {
    let job = job(namespace, "job");
    let fails = [("exit-code", "201"), ("run-duration", "1s")];
    manifest("job").role("a", 1, &fails).retry(true, 0).create(&job.namespace);
    let delayed =
        job.wait("waiting for its retry", |status| status.retry_policy_status.retry_delay_sec.is_some());
    assert_eq!((delayed.state, delayed.attempt_status.id), (State::AttemptCompleted, 0));
    job.scale(0, "a", 3);
    let generation = job.get().metadata.generation;
    job.wait("retried, and aware of the spec", |status| {
        status.attempt_status.id >= 1 && status.observed_generation == generation
    });
    let history = job.end();
    let mut of_first = history.statuses().filter(|(_, _, status)| status.attempt_status.id == 0);
    assert!(of_first.all(|(_, _, status)| role(status, "a").task_statuses.len() == 1));
    let next = history.statuses().find(|(_, _, status)| status.attempt_status.id == 1);
    let (retried, _, next) = next.expect("it was retried");
    let scaled = history.frameworks.iter().find(|(_, seen)| seen.spec.task_roles[0].task_number == 3);
    if scaled.expect("it was rescaled").0 > retried {
        return false;
    }
    assert_eq!(role(next, "a").task_statuses.len(), 3);
    assert!(instances(next, "a").iter().all(|(task, _)| *task != instances(&delayed, "a")[0].0));
    true
}

#[test]
fn a_scale_down_ends_a_task_that_would_be_retried() {
    let job = job("rescale-retried", "job");
    let job = job.start(&manifest("job").role("a", 2, &[]).task_retry(false, -2), 2);
    job.hang("job-a-1", true);
    delete_pod(&job.namespace, "job-a-1");
    job.wait("losing a Pod", |status| {
        status.task("a", 1).is_some_and(|task| end(task) == Some((-101, "PodExternalDeleted")))
    });
    job.scale(0, "a", 1);
    job.wait("scaled down", |status| status.task("a", 1).is_some_and(|task| task.deletion_pending));
    job.hang("job-a-1", false);
    job.running(1);
    execute(&job.namespace, "job", "Stop");
    job.completed();
    let history = job.judge();
    assert_eq!(history.pods.len(), 2, "the removed Task was not tried again");
}
