//! The history that controllers log: each logged object was persisted, and each fact is logged before it is
//! replaced. Whether a deletion is logged depends on what the controller had seen: see [`check`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::check::slot::SLOT_LABEL;
use crate::history::{Change, History, Verb};
use crate::object::{Meta, Object};

/// One logged snapshot of an object.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The last resourceVersion when it was logged; `None`: not known, and the order of logging is not
    /// checked.
    pub rv: Option<u64>,
    /// The text of the line before its trigger.
    pub sentence: String,
    /// `OnTaskRetry` and the like.
    pub trigger: String,
    /// The object.
    pub object: Value,
}

/// The key of a fact that is logged once: a trigger, a UID and, of retries, an attempt.
pub type Fact = (String, String, Option<i64>);

impl Snapshot {
    /// A field of the metadata; empty if there is none.
    #[must_use]
    pub fn meta(&self, field: &str) -> &str {
        self.object.meta(field)
    }

    /// Whether the line says that the object is not known whole.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.sentence.contains("incomplete")
    }

    /// The fact that it logs.
    #[must_use]
    pub fn fact(&self) -> Fact {
        let attempt = attempt_of(&self.object["status"]).filter(|_| self.trigger.ends_with("Retry"));
        (self.trigger.clone(), self.object.uid().to_owned(), attempt)
    }
}

/// Checks all snapshots: those that [`of_replaced`] checks, and that the last controller logged the deletions
/// of the objects that it had seen.
///
/// # Errors
/// When a snapshot is wrong or is missing.
pub fn check(history: &History, logged: &[Snapshot]) -> Result<(), String> {
    of_replaced(history, logged)?;
    let facts: BTreeSet<Fact> = logged.iter().map(Snapshot::fact).collect();
    match deleted(history).into_iter().find(|fact| !facts.contains(fact)) {
        Some(missed) => Err(format!("{missed:?} was not logged")),
        None => Ok(()),
    }
}

/// Checks that each logged fact was persisted, and that each fact was logged before it was replaced.
///
/// # Errors
/// When a snapshot is wrong or is missing.
pub fn of_replaced(history: &History, logged: &[Snapshot]) -> Result<(), String> {
    let mut first: BTreeMap<Fact, Option<u64>> = BTreeMap::new();
    let ends: Ends<'_> = history.of("pods").filter(|end| end.removes()).map(|end| (&*end.uid, end)).collect();
    for snapshot in logged {
        truthful(history, &ends, snapshot)
            .map_err(|what| format!("{} of {}: {what}", snapshot.trigger, snapshot.object["metadata"]))?;
        first.entry(snapshot.fact()).or_insert(snapshot.rv);
    }
    let was_logged = |fact: &Fact, by: u64| first.get(fact).is_some_and(|rv| rv.is_none_or(|rv| rv < by));
    for change in history.of("frameworks") {
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && let Some(missed) = replaced(old, new).iter().find(|fact| !was_logged(fact, change.rv))
        {
            return Err(format!("rv {}: {missed:?} was not logged before it was replaced", change.rv));
        }
    }
    Ok(())
}

fn attempt_of(status: &Value) -> Option<i64> {
    status["attemptStatus"]["id"].as_i64()
}

/// The removal of each Pod, by UID.
type Ends<'h> = BTreeMap<&'h str, &'h Arc<Change>>;

/// Whether the logged object was persisted, or is gone, as the line says.
fn truthful(history: &History, ends: &Ends<'_>, snapshot: &Snapshot) -> Result<(), String> {
    let object = &snapshot.object;
    let by_then = |version: u64| snapshot.rv.is_none_or(|rv| version <= rv);
    if object["kind"] == "Pod" {
        return match ends.get(object.uid()) {
            _ if snapshot.trigger != "OnPodDeletion" => Err("the trigger is unknown".to_owned()),
            // One that disappeared while no controller looked may have lost its label.
            _ if snapshot.is_incomplete() => Ok(()),
            Some(end) if !by_then(end.rv) => Err("it was logged before it was gone".to_owned()),
            Some(end) if object["status"] != end.object()["status"] => {
                Err(format!("it was {}", end.object()["status"]))
            }
            Some(_) => Ok(()),
            None => Err("it is not gone".to_owned()),
        };
    }
    let rv: u64 = object.meta("resourceVersion").parse().map_err(|_| "no resourceVersion".to_owned())?;
    let at = history.changes.partition_point(|change| change.rv < rv);
    let version = history.changes.get(at).filter(|change| change.rv == rv && by_then(rv));
    let version = version.filter(|change| change.is("frameworks"));
    let version = version.and_then(|change| change.new.clone().or(change.old.clone()));
    let version = version.ok_or("no such version was persisted by then")?;
    let status = &read_status(&version);
    let persisted = match object["kind"].as_str() {
        Some("Framework") => status,
        _ => task(status, object.uid()).ok_or("the version has no such Task")?,
    };
    let persisted =
        if snapshot.trigger == "OnTaskRetry" { &ended_as(persisted, &object["status"]) } else { persisted };
    if *persisted != object["status"] {
        return Err(format!("logged {}, persisted {persisted}", object["status"]));
    }
    let state = object["status"]["state"].as_str().unwrap_or_default();
    let expected = match &*snapshot.trigger {
        "OnTaskRetry" | "OnFrameworkRetry" => "AttemptCompleted",
        "OnTaskDeletion" => "Completed",
        "OnFrameworkDeletion" => state,
        _ => return Err("the trigger is unknown".to_owned()),
    };
    if state == expected { Ok(()) } else { Err(format!("it is in {state}")) }
}

/// The status of a Task that is retried, with the end of its attempt as it was logged. Its outcome was
/// persisted before.
fn ended_as(persisted: &Value, logged: &Value) -> Value {
    let mut ended = persisted.clone();
    let is_decided = !persisted["attemptStatus"]["completionStatus"].is_null();
    if is_decided && persisted["state"] != "AttemptCompleted" {
        for field in ["/state", "/transitionTime", "/attemptStatus/completionTime"] {
            if let (Some(ended), Some(logged)) = (ended.pointer_mut(field), logged.pointer(field)) {
                *ended = logged.clone();
            }
        }
    }
    ended
}

/// The status as readers see it: the history has a compressed status uncompressed.
fn read_status(object: &Object) -> Value {
    let mut status = object.opened()["status"].clone();
    if let Some(attempt) = status.pointer_mut("/attemptStatus").and_then(Value::as_object_mut) {
        attempt.remove("taskRoleStatusesCompressed");
    }
    status
}

fn tasks(status: &Value) -> impl Iterator<Item = &Value> {
    let roles = status["attemptStatus"]["taskRoleStatuses"].as_array().into_iter().flatten();
    roles.flat_map(|role| role["taskStatuses"].as_array().into_iter().flatten())
}

fn task<'a>(status: &'a Value, uid: &str) -> Option<&'a Value> {
    tasks(status).find(|task| task["instanceUID"] == uid)
}

/// The facts that one version of a Framework has and the next one lacks.
fn replaced(old: &Object, new: &Object) -> Vec<Fact> {
    let (old_status, new_status) = (&old.opened()["status"], &new.opened()["status"]);
    if old_status.is_null() {
        return Vec::new();
    }
    if attempt_of(old_status) != attempt_of(new_status) {
        return vec![("OnFrameworkRetry".to_owned(), old.uid().to_owned(), attempt_of(old_status))];
    }
    let fact = |task: &Value| {
        let uid = task["instanceUID"].as_str().unwrap_or_default();
        match self::task(new_status, uid) {
            None => Some(("OnTaskDeletion".to_owned(), uid.to_owned(), None)),
            Some(after) if attempt_of(after) != attempt_of(task) => {
                Some(("OnTaskRetry".to_owned(), uid.to_owned(), attempt_of(task)))
            }
            Some(_) => None,
        }
    };
    tasks(old_status).filter_map(fact).collect()
}

/// The deletions of objects that the last controller had seen: it lived on, so that it must have learnt of
/// them.
fn deleted(history: &History) -> Vec<Fact> {
    let controllers = history.exchanges.iter().filter(|one| one.who.starts_with("controller-"));
    let Some(last) = controllers.map(|one| Arc::clone(&one.who)).next_back() else { return Vec::new() };
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut facts = Vec::new();
    for change in &history.changes {
        let by_last = change.cause.actor == last;
        if by_last && change.is("frameworks") && change.cause.verb == Verb::UpdateStatus {
            seen.insert(change.uid.clone());
            // A Task reaches these states only once its Pod was in the cache.
            let shown = |task: &&Value| {
                let state = task["state"].as_str().unwrap_or_default();
                ["AttemptPreparing", "AttemptRunning"].contains(&state)
            };
            let status = change.new.as_ref().map_or(&Value::Null, |object| &object.opened()["status"]);
            let pods = tasks(status).filter(shown);
            let uids = pods.filter_map(|task| task["attemptStatus"]["podUID"].as_str());
            seen.extend(uids.map(str::to_owned));
        }
        if change.new.is_some() {
            continue;
        }
        // An object that lost its label, or its owner, is not looked at any more.
        let object = change.object();
        let watched = !object["metadata"]["labels"][SLOT_LABEL].is_null() && object.controller().is_some();
        if change.is("frameworks") && seen.contains(&change.uid) {
            facts.push(("OnFrameworkDeletion".to_owned(), change.uid.clone(), None));
        } else if change.is("pods") && watched && (by_last || seen.contains(&change.uid)) {
            facts.push(("OnPodDeletion".to_owned(), change.uid.clone(), None));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::history_builder::HistoryBuilder;
    use serde_json::json;

    /// The attempt of the Task has ended, and is logged as it was persisted.
    fn ended() -> (HistoryBuilder, Snapshot) {
        let mut builder = HistoryBuilder::running();
        builder.complete_task(0);
        builder.end_task_attempt(0);
        let history = builder.history();
        let last = history.changes.last().unwrap();
        let status = tasks(&last.object()["status"]).next().unwrap();
        let metadata = json!({ "uid": "task-0", "resourceVersion": last.rv.to_string() });
        let snapshot = Snapshot {
            rv: Some(last.rv),
            sentence: "The Task is retried".into(),
            trigger: "OnTaskRetry".into(),
            object: json!({ "kind": "Task", "metadata": metadata, "status": status }),
        };
        (builder, snapshot)
    }

    #[test]
    fn a_fact_is_logged_before_it_is_replaced() {
        let (mut builder, snapshot) = ended();
        builder.retry_task(0);
        let history = builder.history();
        let judged = |rv: Option<u64>| of_replaced(&history, &[Snapshot { rv, ..snapshot.clone() }]);
        let (ended, retried) = (snapshot.rv.unwrap(), history.changes.last().unwrap().rv);
        assert_eq!([judged(Some(ended)), judged(None)], [Ok(()), Ok(())]);
        assert!(judged(Some(retried)).unwrap_err().contains("not logged before"));
        assert!(judged(Some(ended - 1)).unwrap_err().contains("persisted by then"));
        assert!(of_replaced(&history, &[]).unwrap_err().contains("not logged before"));
    }

    #[test]
    fn a_snapshot_shows_the_persisted_object_in_the_state_of_its_trigger() {
        let (builder, snapshot) = ended();
        let judged = |edit: &dyn Fn(&mut Snapshot)| {
            let mut snapshot = snapshot.clone();
            edit(&mut snapshot);
            of_replaced(&builder.history(), &[snapshot])
        };
        assert_eq!(judged(&|_| {}), Ok(()));
        let other = judged(&|one| one.object["status"]["state"] = json!("Completed"));
        assert!(other.unwrap_err().contains("persisted"));
        assert!(judged(&|one| one.trigger = "OnTaskDeletion".into()).unwrap_err().contains("it is in"));
        assert!(judged(&|one| one.trigger = "OnTask".into()).unwrap_err().contains("unknown"));
        let unknown = judged(&|one| one.object["metadata"]["uid"] = json!("task-9"));
        assert!(unknown.unwrap_err().contains("no such Task"));
    }

    #[test]
    fn the_deletion_of_a_pod_that_the_controller_saw_is_logged() {
        let (mut builder, snapshot) = ended();
        let uid = builder.uid("pods", "f-r-0");
        builder.delete("pods", "f-r-0", None);
        builder.kubelet_removes("f-r-0");
        let history = builder.history();
        let pod = |rv: u64, status: Value| Snapshot {
            rv: Some(rv),
            sentence: "The Pod is gone".into(),
            trigger: "OnPodDeletion".into(),
            object: json!({ "kind": "Pod", "metadata": { "uid": uid }, "status": status }),
        };
        let judged = |pod: Snapshot| check(&history, &[snapshot.clone(), pod]);
        let last = history.changes.last().unwrap();
        let (gone, status) = (last.rv, last.object()["status"].clone());
        assert_eq!(judged(pod(gone, status.clone())), Ok(()));
        assert!(judged(pod(gone - 1, status)).unwrap_err().contains("before it was gone"));
        assert!(judged(pod(gone, json!({ "phase": "Failed" }))).unwrap_err().contains("it was"));
        assert!(check(&history, std::slice::from_ref(&snapshot)).unwrap_err().contains("was not logged"));
    }
}
