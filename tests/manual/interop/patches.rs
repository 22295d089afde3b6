//! The patches of the manual.

use serde_json::{Value, json};

pub fn start() -> Value {
    json!([{ "op": "replace", "path": "/spec/executionType", "value": "Start" }])
}

pub fn stop() -> Value {
    json!([{ "op": "replace", "path": "/spec/executionType", "value": "Stop" }])
}

pub fn add_role(role: &Value) -> Value {
    json!([{ "op": "add", "path": "/spec/taskRoles/-", "value": role }])
}

pub fn delete_role(index: usize, name: &str) -> Value {
    json!([
        { "op": "test", "path": format!("/spec/taskRoles/{index}/name"), "value": name },
        { "op": "remove", "path": format!("/spec/taskRoles/{index}") },
    ])
}

pub fn task_number(index: usize, name: &str, number: u32) -> Value {
    json!([
        { "op": "test", "path": format!("/spec/taskRoles/{index}/name"), "value": name },
        { "op": "replace", "path": format!("/spec/taskRoles/{index}/taskNumber"), "value": number },
    ])
}

pub fn task_number_and_policy(index: usize, name: &str, number: u32, succeeded: i32, failed: i32) -> Value {
    let policy = format!("/spec/taskRoles/{index}/frameworkAttemptCompletionPolicy");
    let mut operations = task_number(index, name, number);
    let list = operations.as_array_mut().expect("a list");
    list.push(
        json!({ "op": "replace", "path": format!("{policy}/minSucceededTaskCount"), "value": succeeded }),
    );
    list.push(json!({ "op": "replace", "path": format!("{policy}/minFailedTaskCount"), "value": failed }));
    operations
}
