//! Each promise finds its breach in a made-up history, and nothing in a good one.

use std::sync::Arc;

use serde_json::{Value, json};

use super::ALL;
use crate::history::{History, Verb};
use crate::recorded::{self, Event};

const TIME: &str = "2026-01-01T00:00:00Z";

/// The kind of an event of a watch.
#[derive(Clone, Copy, PartialEq)]
enum EventKind {
    Created,
    Changed,
    Gone,
}

/// A Framework of two Tasks that is scaled down to one and up again, and then fails.
#[derive(Clone)]
struct RescaleBuilder(Vec<(u64, EventKind, Value)>);

/// A Task, with the code by which it has ended unless that is 0.
fn task(index: i32, uid: &str, state: &str, removed: bool, code: i32) -> Value {
    let end = json!({
        "code": code, "phrase": "p", "type": { "name": "Failed", "attributes": [] }, "diagnostics": "",
    });
    let pod = (state != "AttemptCreationPending").then(|| format!("pod-{uid}"));
    json!({
        "index": index, "instanceUID": uid, "startTime": TIME, "state": state, "transitionTime": TIME,
        "deletionPending": removed,
        "retryPolicyStatus": { "totalRetriedCount": 0, "accountableRetriedCount": 0 },
        "attemptStatus": {
            "id": 0, "startTime": TIME, "podName": format!("f-a-{index}"), "podUID": pod,
            "completionStatus": if code == 0 { Value::Null } else { end },
        },
    })
}

/// A Framework that wants so many Tasks and has these.
fn framework(wanted: u32, tasks: &[Value]) -> Value {
    let stay = tasks.iter().filter(|task| task["deletionPending"] == false).count();
    let roles = json!([{ "name": "a", "instanceUID": "role", "taskStatuses": tasks }]);
    json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
        "metadata": { "name": "f", "uid": "f" },
        "spec": { "taskRoles": [{
            "name": "a", "taskNumber": wanted, "task": { "pod": {} },
            "frameworkAttemptCompletionPolicy": { "minFailedTaskCount": 2, "minSucceededTaskCount": -1 },
        }] },
        "status": {
            "startTime": TIME, "state": "AttemptRunning", "transitionTime": TIME,
            "retryPolicyStatus": { "totalRetriedCount": 0, "accountableRetriedCount": 0 },
            "attemptStatus": {
                "id": 0, "startTime": TIME, "configMapName": "f-attempt", "configMapUID": "c",
                "taskRoleStatuses": roles,
            },
            "taskCounts": { "total": stay, "pending": 0, "running": 0, "succeeded": 0, "failed": 0 },
        },
    })
}

fn pod(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("f-a-{uid}"), "uid": format!("pod-{uid}"),
                      "annotations": { "FC_TASK_UID": uid } },
    })
}

/// Ends the attempt by Task 1.
fn ended(mut framework: Value) -> Value {
    let status = &mut framework["status"];
    status["state"] = json!("AttemptDeletionPending");
    status["attemptStatus"]["completionStatus"] = json!({
        "code": 1, "phrase": "p", "type": { "name": "Failed", "attributes": [] }, "diagnostics": "",
        "trigger": { "message": "", "taskRoleName": "a", "taskIndex": 1 },
    });
    framework
}

impl RescaleBuilder {
    fn good() -> RescaleBuilder {
        let runs = |index, uid| task(index, uid, "AttemptRunning", false, 0);
        let failed = |index, uid| task(index, uid, "Completed", false, 1);
        let removed = |state| task(1, "t1", state, true, -230);
        let mut builder = RescaleBuilder(vec![
            (8, EventKind::Created, pod("t0")),
            (9, EventKind::Created, pod("t1")),
            (10, EventKind::Created, framework(2, &[runs(0, "t0"), runs(1, "t1")])),
            (11, EventKind::Changed, framework(1, &[runs(0, "t0"), runs(1, "t1")])),
            (12, EventKind::Changed, framework(1, &[runs(0, "t0"), removed("AttemptDeletionPending")])),
            (13, EventKind::Gone, pod("t1")),
            (14, EventKind::Changed, framework(1, &[runs(0, "t0"), removed("Completed")])),
            (15, EventKind::Changed, framework(1, &[runs(0, "t0")])),
            (16, EventKind::Changed, framework(2, &[runs(0, "t0")])),
        ]);
        let pending = task(1, "t2", "AttemptCreationPending", false, 0);
        builder.then(EventKind::Changed, framework(2, &[runs(0, "t0"), pending]));
        builder.then(EventKind::Created, pod("t2"));
        builder.then(EventKind::Changed, framework(2, &[runs(0, "t0"), runs(1, "t2")]));
        builder.then(EventKind::Changed, ended(framework(2, &[failed(0, "t0"), failed(1, "t2")])));
        builder
    }

    /// Adds the next change.
    fn then(&mut self, kind: EventKind, object: Value) {
        let version = self.0.last().map_or(0, |(version, ..)| version + 1);
        self.0.push((version, kind, object));
    }

    /// The Pod that goes at 13 goes at 11, before its Task is stored as removed.
    fn delete_early(&mut self) {
        for change in self.0.iter_mut().filter(|(version, ..)| *version == 13) {
            change.0 = 11;
        }
    }

    /// The broken promises if the history goes until a version, and then on like this.
    fn broken_by(mut self, until: u64, next: &[Value]) -> Vec<String> {
        self.0.retain(|(version, ..)| *version <= until);
        for object in next {
            self.then(EventKind::Changed, object.clone());
        }
        self.broken()
    }

    fn broken(self) -> Vec<String> {
        breaches(&self.history())
    }

    /// The history as a watch shows it. No request is known.
    fn history(self) -> History {
        let events = self.0.into_iter().map(|(version, kind, mut object)| {
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            let plural = if object["kind"] == "Pod" { "pods" } else { "frameworks" };
            Event { plural, object, gone: kind == EventKind::Gone }
        });
        recorded::history(events.collect(), &[])
    }
}

/// The breaches of all promises.
fn breaches(history: &History) -> Vec<String> {
    ALL.iter().filter_map(|(_, check)| check(history).err()).map(|broken| broken.to_string()).collect()
}

/// Asserts that this and nothing else is found.
fn assert_found(found: &[String], words: &str) {
    assert!(!found.is_empty() && found.iter().all(|breach| breach.contains(words)), "{words}: {found:#?}");
}

fn runs(index: i32, uid: &str) -> Value {
    task(index, uid, "AttemptRunning", false, 0)
}

#[test]
fn a_good_history_has_no_breach() {
    assert_eq!(RescaleBuilder::good().broken(), [""; 0]);
}

#[test]
fn something_stored_before_the_rescale_is_found() {
    let other = task(0, "t0", "AttemptDeletionPending", false, 1);
    let found = RescaleBuilder::good().broken_by(11, &[framework(1, &[other, runs(1, "t1")])]);
    assert_found(&found, "the rescale was due, and this write is not it");
    let removed = task(1, "t1", "AttemptDeletionPending", true, -230);
    let mut at_once = framework(1, &[task(0, "t0", "Completed", false, 1), removed]);
    at_once["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"]["minFailedTaskCount"] = json!(1);
    let mut asked = framework(1, &[runs(0, "t0"), runs(1, "t1")]);
    asked["spec"] = at_once["spec"].clone();
    let mut ended = ended(at_once);
    ended["status"]["attemptStatus"]["completionStatus"]["trigger"]["taskIndex"] = json!(0);
    assert_found(&RescaleBuilder::good().broken_by(11, &[asked, ended]), "before the rescale was stored");
}

#[test]
fn a_removed_task_that_is_used_again_is_found() {
    let found = RescaleBuilder::good().broken_by(12, &[framework(2, &[runs(0, "t0"), runs(1, "t1")])]);
    assert_found(&found, "removed at 12, is used again");
    let mut builder = RescaleBuilder::good();
    builder.0.retain(|(version, ..)| *version <= 15);
    builder.then(EventKind::Created, pod("t1"));
    assert_found(
        &builder.broken(),
        "at resourceVersion 16, pods//f-a-t1: it is created for a Task removed at 12",
    );
}

#[test]
fn a_pod_that_goes_too_early_is_found() {
    let mut builder = RescaleBuilder::good();
    builder.delete_early();
    assert_found(
        &builder.broken(),
        "resourceVersion 12, frameworks//f: Task a-1 is removed, and its Pod goes at 11",
    );
    let stopped = task(1, "t1", "AttemptDeletionPending", false, -230);
    let found = RescaleBuilder::good().broken_by(10, &[framework(2, &[runs(0, "t0"), stopped])]);
    assert_found(&found, "is stopped but not removed");
}

#[test]
fn only_others_delete_a_pod_before_its_task_is_stored_as_removed() {
    let early = |actor: &str, call: u64| {
        let mut builder = RescaleBuilder::good();
        builder.delete_early();
        let mut history = builder.history();
        let mut changes = history.changes.iter_mut();
        let gone = changes.find(|change| change.is("pods") && change.removes()).unwrap();
        let cause = &mut Arc::get_mut(gone).unwrap().cause;
        cause.actor = actor.into();
        cause.call = call;
        cause.verb = Verb::Delete;
        breaches(&history)
    };
    assert_eq!(early("user", 0), [""; 0]);
    assert_found(&early("controller-1", 1), "its Pod goes at 11");
}

#[test]
fn a_removed_task_that_counts_is_found() {
    let removed = task(1, "t1", "Completed", true, -230);
    let found = RescaleBuilder::good().broken_by(14, &[ended(framework(1, &[runs(0, "t0"), removed]))]);
    assert_found(&found, "a removed Task never counts");
    let one = task(1, "t2", "Completed", false, 1);
    let found = RescaleBuilder::good().broken_by(19, &[ended(framework(2, &[runs(0, "t0"), one]))]);
    assert_found(&found, "although no policy is met");
}

#[test]
fn a_policy_that_is_met_and_forgotten_is_found() {
    let failed = [task(0, "t0", "Completed", false, 1), task(1, "t2", "Completed", false, 1)];
    let mut later = framework(2, &failed);
    later["status"]["runTime"] = json!(TIME);
    let found = RescaleBuilder::good().broken_by(19, &[framework(2, &failed), later]);
    assert_found(&found, "the write before met a policy");
}

#[test]
fn a_policy_that_is_not_written_is_met_by_one_failure() {
    let mut met = framework(2, &[task(0, "t0", "Completed", false, 1), runs(1, "t2")]);
    met["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] = Value::Null;
    let mut later = met.clone();
    later["status"]["runTime"] = json!(TIME);
    let found = RescaleBuilder::good().broken_by(19, &[met, later]);
    assert_found(&found, "the write before met a policy");
}

#[test]
fn a_task_that_leaves_or_begins_out_of_order_is_found() {
    let found = RescaleBuilder::good().broken_by(13, &[framework(1, &[runs(0, "t0")])]);
    assert_found(&found, "leaves in AttemptDeletionPending");
    let found = RescaleBuilder::good().broken_by(16, &[framework(2, &[runs(0, "t0"), runs(1, "t2")])]);
    assert_found(&found, "begins as");
}

#[test]
fn an_instance_of_two_tasks_is_found() {
    let twin = task(1, "t0", "AttemptCreationPending", false, 0);
    let found = RescaleBuilder::good().broken_by(16, &[framework(2, &[runs(0, "t0"), twin])]);
    assert!(found.iter().any(|breach| breach.contains("t0 is f/0/a-0, and now f/0/a-1")), "{found:#?}");
    let mut other = framework(1, &[runs(0, "t0")]);
    other["status"]["attemptStatus"]["taskRoleStatuses"][0]["instanceUID"] = json!("other");
    assert_found(&RescaleBuilder::good().broken_by(15, &[other]), "TaskRole a is another at once");
}

#[test]
fn a_count_of_removed_tasks_is_found() {
    let mut counted = framework(1, &[runs(0, "t0"), task(1, "t1", "AttemptDeletionPending", true, -230)]);
    counted["status"]["taskCounts"]["total"] = json!(2);
    assert_found(&RescaleBuilder::good().broken_by(11, &[counted]), "1 Tasks stay and 2 are counted");
}
