//! The snapshots of history that a controller logged: extracted from its log by the regular expression that
//! pipelines use, and compared with the API server's objects.

use std::collections::BTreeSet;

use framework_api::status::{TaskRoleStatus, TaskStatus};
use framework_api::{Framework, FrameworkStatus, State};
use regex::Regex;
use serde_json::{Value, json};

use super::history::History;

/// One snapshot.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The text of the line before its markers.
    pub sentence: String,
    /// `OnTaskRetry` and the like.
    pub trigger: String,
    /// The object.
    pub object: Value,
}

impl Snapshot {
    /// A field of the metadata; empty if there is none.
    pub fn meta(&self, field: &str) -> &str {
        self.object["metadata"][field].as_str().unwrap_or_default()
    }

    /// Whether the line says that the object is not known whole.
    pub fn is_incomplete(&self) -> bool {
        self.sentence.contains("incomplete")
    }

    /// The key of the fact: trigger, UID and attempt, which only retries have.
    pub fn fact(&self) -> (String, String, Option<i64>) {
        let attempt = self.object["status"]["attemptStatus"]["id"].as_i64();
        let attempt = attempt.filter(|_| self.trigger.ends_with("Retry"));
        (self.trigger.clone(), self.meta("uid").to_owned(), attempt)
    }
}

/// All snapshots of a namespace in a log, in order.
pub fn logged(log: &str, namespace: &str) -> Vec<Snapshot> {
    let pipeline = Regex::new(": ObjectSnapshot: (.+)").expect("the contract's");
    let trigger = Regex::new("^(.*): (On[A-Za-z]+)$").expect("a regular expression");
    let snapshots = pipeline.captures_iter(log).filter_map(|captured| {
        let (whole, json) = (captured.get(0).expect("a match"), &captured[1]);
        let object: Value = match serde_json::from_str(json) {
            Ok(object) => object,
            // A controller that is killed while it writes leaves a part of a line, and the next one goes on.
            // The first one did not do the action that the line announced.
            Err(_) if json.contains(" INFO starting version=") => return None,
            Err(error) => panic!("{error}: {json}"),
        };
        let head = log[..whole.start()].rsplit('\n').next().expect("a line");
        let parts = trigger.captures(head).unwrap_or_else(|| panic!("no trigger: {head}"));
        let (sentence, trigger) = (parts[1].to_owned(), parts[2].to_owned());
        assert!(object["apiVersion"].is_string() && object["kind"].is_string(), "{object}");
        Some(Snapshot { sentence, trigger, object })
    });
    snapshots.filter(|snapshot| snapshot.meta("namespace") == namespace).collect()
}

/// Asserts that every object that a status write replaced was logged, and that all that was logged was
/// persisted.
pub fn assert_replaced_are_logged(history: &History, logged: &[Snapshot]) {
    let facts: BTreeSet<_> = logged.iter().map(Snapshot::fact).collect();
    let mut uids: Vec<&str> = history.statuses().map(|(_, uid, _)| uid).collect();
    uids.sort_unstable();
    uids.dedup();
    for uid in uids {
        let statuses: Vec<_> =
            history.statuses().filter(|(_, of, _)| *of == uid).map(|(_, _, status)| status).collect();
        for pair in statuses.windows(2) {
            for fact in replaced(uid, pair[0], pair[1]) {
                assert!(facts.contains(&fact), "{fact:?} was replaced and not logged: {facts:#?}");
            }
        }
    }
    for snapshot in logged.iter().filter(|snapshot| snapshot.object["kind"] != "Pod") {
        assert_persisted(history, snapshot);
    }
}

fn tasks(status: &FrameworkStatus) -> impl Iterator<Item = &TaskStatus> {
    status.task_roles().iter().flat_map(TaskRoleStatus::tasks)
}

fn replaced(uid: &str, old: &FrameworkStatus, new: &FrameworkStatus) -> Vec<(String, String, Option<i64>)> {
    let (before, after) = (old.attempt_status.id, new.attempt_status.id);
    if before != after {
        return vec![("OnFrameworkRetry".to_owned(), uid.to_owned(), Some(before.into()))];
    }
    let fact = |task: &TaskStatus| {
        let after = tasks(new).find(|after| after.instance_uid == task.instance_uid);
        let attempt = task.attempt_status.id;
        match after {
            None => Some(("OnTaskDeletion".to_owned(), task.instance_uid.clone(), None)),
            Some(after) if after.attempt_status.id != attempt => {
                Some(("OnTaskRetry".to_owned(), task.instance_uid.clone(), Some(attempt.into())))
            }
            Some(_) => None,
        }
    };
    tasks(old).filter_map(fact).collect()
}

/// Asserts that the API server had the object so, in the version that it names.
fn assert_persisted(history: &History, snapshot: &Snapshot) {
    let version: u64 = snapshot.meta("resourceVersion").parse().expect("a version");
    let owner = match snapshot.object["kind"].as_str() {
        Some("Framework") => snapshot.meta("name"),
        _ => snapshot.object["metadata"]["labels"]["FC_FRAMEWORK_NAME"].as_str().expect("a label"),
    };
    // The version in which a Framework was deleted has the status of the one before.
    let status = history.status_before(owner, version + 1).expect("it had a status by then");
    let mut persisted = match snapshot.object["kind"].as_str() {
        Some("Framework") => json!(status),
        _ => json!(tasks(status).find(|task| task.instance_uid == snapshot.meta("uid"))),
    };
    if snapshot.trigger == "OnTaskRetry" && !persisted["attemptStatus"]["completionStatus"].is_null() {
        // The write that replaces an attempt may complete it, too.
        for field in ["/state", "/transitionTime", "/attemptStatus/completionTime"] {
            let told = snapshot.object["status"].pointer(field).expect("a field").clone();
            *persisted.pointer_mut(field).expect("a field") = told;
        }
    }
    assert_eq!(snapshot.object["status"], persisted, "{}", snapshot.sentence);
    let state: State = serde_json::from_value(snapshot.object["status"]["state"].clone()).expect("a state");
    match snapshot.trigger.as_str() {
        "OnTaskRetry" | "OnFrameworkRetry" => assert_eq!(state, State::AttemptCompleted),
        "OnTaskDeletion" => assert_eq!(state, State::Completed),
        _ => {}
    }
}

/// Asserts that a Framework is shown whole: its own fields, all of its Tasks, nothing compressed.
pub fn assert_whole(snapshot: &Snapshot) -> Framework {
    assert!(!snapshot.is_incomplete(), "{}", snapshot.sentence);
    let attempt = &snapshot.object["status"]["attemptStatus"];
    assert!(attempt["taskRoleStatuses"].is_array(), "{attempt}");
    assert!(attempt.get("taskRoleStatusesCompressed").is_none(), "{attempt}");
    serde_json::from_value(snapshot.object.clone()).expect("a Framework")
}
