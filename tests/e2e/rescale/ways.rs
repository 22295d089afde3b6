//! Every way to rescale: JSON patch, JSON merge patch, `kubectl apply` by the client and by the server.

use serde_json::{Value, json};

use super::{Job, instances, job, name_is, replace, role};
use crate::cluster::manifest;

/// A TaskRole whose Tasks run until they are deleted and whose ends complete nothing.
fn sleeper(name: &str, tasks: u32) -> Value {
    json!({
        "name": name, "taskNumber": tasks,
        "frameworkAttemptCompletionPolicy": { "minFailedTaskCount": -1, "minSucceededTaskCount": -1 },
        "task": { "pod": { "spec": { "containers": [{ "name": "main", "image": "busybox" }] } } },
    })
}

/// The manifest of `job` with these TaskRoles.
fn with(roles: &[Value]) -> String {
    json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
        "metadata": { "name": "job" }, "spec": { "taskRoles": roles },
    })
    .to_string()
}

fn started(namespace: &str) -> Job {
    job(namespace, "job").start(&manifest("job").role("a", 2, &[]).role("b", 1, &[]), 3)
}

#[test]
fn json_patches_add_and_delete_tasks_and_task_roles() {
    let job = started("rescale-json");
    let before = job.running(3);

    job.patch(json!([{ "op": "add", "path": "/spec/taskRoles/-", "value": sleeper("c", 2) }]));
    job.running(5);
    job.scale(0, "a", 3);
    job.running(6);
    job.scale(0, "a", 1);
    job.running(4);
    let remove = json!([name_is(1, "b"), { "op": "remove", "path": "/spec/taskRoles/1" }]);
    job.patch(remove.clone());
    let after = job.running(3);

    let names: Vec<&str> = after.task_roles().iter().map(|role| role.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
    assert_eq!(instances(&after, "a"), instances(&before, "a")[..1]);
    // Where b was there is c now: the `test` operation keeps the patch from deleting that one.
    let generation = job.get().metadata.generation;
    let refused = job.try_patch("json", &remove).expect_err("the name does not match");
    assert!(refused.contains("the server rejected our request") || refused.contains("test"), "{refused}");
    let refused = job.try_patch("json", &json!([name_is(7, "a"), replace(7, "taskNumber", 9)]));
    assert!(refused.is_err());
    assert_eq!(job.get().metadata.generation, generation);
    job.end();
}

#[test]
fn a_merge_patch_replaces_the_task_roles_as_a_whole() {
    let job = started("rescale-merge");
    let before = job.running(3);
    let roles = [sleeper("c", 1), sleeper("a", 4)];
    job.try_patch("merge", &json!({ "spec": { "taskRoles": roles } })).expect("it is accepted");
    let after = job.running(5);
    assert!(after.task_roles().iter().all(|role| role.name != "b"));
    assert_eq!(instances(&after, "a")[..2], instances(&before, "a"), "Tasks that stay are not touched");
    assert_eq!(instances(&after, "c").len(), 1);
    job.end();
}

#[test]
fn kubectl_apply_makes_the_task_roles_those_of_the_file() {
    let job = job("rescale-apply", "job");
    let apply = |roles: &[Value]| job.done(&["apply", "-f", "-"], &with(roles));
    apply(&[sleeper("a", 2), sleeper("b", 1)]);
    let before = job.running(3);
    apply(&[sleeper("a", 3), sleeper("c", 1)]);
    let after = job.running(4);
    assert!(after.task_roles().iter().all(|role| role.name != "b"));
    assert_eq!(instances(&after, "a")[..2], instances(&before, "a"));
    let generation = job.get().metadata.generation;
    apply(&[sleeper("a", 3), sleeper("c", 1)]);
    assert_eq!(job.get().metadata.generation, generation, "the same file changes nothing");
    job.end();
}

#[test]
fn two_field_managers_own_a_task_role_each() {
    let job = job("rescale-server-side", "job");
    let apply = |manager: &str, roles: &[Value]| {
        let manager = format!("--field-manager={manager}");
        let output = job.kubectl(&["apply", "--server-side", &manager, "-f", "-"], &with(roles));
        if output.status.success() { Ok(()) } else { Err(output.stderr) }
    };
    apply("trainer", &[sleeper("worker", 2)]).expect("it is created");
    job.running(2);
    apply("storage", &[sleeper("server", 1)]).expect("the other TaskRole is not named");
    let both = job.running(3);

    apply("trainer", &[sleeper("worker", 1)]).expect("it is its own");
    let fewer = job.running(2);
    assert_eq!(instances(&fewer, "server"), instances(&both, "server"));
    assert_eq!(instances(&fewer, "worker"), instances(&both, "worker")[..1]);
    let refused = apply("trainer", &[sleeper("worker", 1), sleeper("server", 5)]);
    assert!(refused.expect_err("it is the other's").contains("conflict with \"storage\""));

    apply("storage", &[]).expect("what one alone owns goes with its claim");
    let alone = job.running(1);
    assert_eq!(alone.task_roles().len(), 1);
    assert_eq!(role(&alone, "worker").instance_uid, role(&both, "worker").instance_uid);
    job.end();
}

#[test]
fn the_order_of_task_roles_says_nothing() {
    let job = started("rescale-order");
    let before = job.running(3);
    let moved =
        json!([name_is(0, "a"), { "op": "move", "from": "/spec/taskRoles/0", "path": "/spec/taskRoles/1" }]);
    job.patch(moved);
    let generation = job.get().metadata.generation;
    let after = job.wait("aware of the new order", |status| status.observed_generation == generation);
    assert_eq!(after.task_roles(), before.task_roles());
    let history = job.end();
    assert_eq!(history.pods.len(), 3);
}
