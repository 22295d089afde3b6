//! The history that controllers logged, and whether it is right. Every logged object was persisted, and every
//! object that was replaced or deleted while a controller looked was logged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use framework_api::name::SLOT_LABEL;
use framework_engine::history::{Line, MARKER};
use framework_runtime::journal::{Full, Journal, Receipt};
use framework_sim::{Change, History, Meta, Object, SimCluster, Verb};
use jiff::Timestamp;
use serde_json::Value;

/// The lines of all controllers of a cluster.
#[derive(Clone, Debug, Default)]
pub struct LogLines(Arc<Mutex<Vec<LogLine>>>);

/// One line.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// The last resourceVersion when it was logged.
    pub rv: u64,
    /// `OnTaskRetry` and the like.
    pub trigger: String,
    /// Whether it says that it is incomplete.
    pub incomplete: bool,
    /// The logged object.
    pub object: Value,
}

impl LogLines {
    /// The journal for a controller of this cluster.
    pub fn journal(&self, cluster: &SimCluster) -> Arc<dyn Journal> {
        Arc::new(Diary { cluster: cluster.clone(), logged: self.clone() })
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<LogLine> {
        self.0.lock().expect("nobody panicked").clone()
    }
}

#[derive(Debug)]
struct Diary {
    cluster: SimCluster,
    logged: LogLines,
}

impl Journal for Diary {
    fn append(&self, lines: Vec<Line>, at: Timestamp) -> Result<Receipt, Full> {
        let rv = self.cluster.version();
        let logged = lines.iter().map(|line| read(rv, &line.render(at)));
        self.logged.0.lock().expect("nobody panicked").extend(logged);
        Ok(Receipt::Written)
    }
}

/// Takes a line apart as a pipeline does.
fn read(rv: u64, line: &[u8]) -> LogLine {
    let line = std::str::from_utf8(line).expect("UTF-8").strip_suffix('\n').expect("it ends");
    assert!(!line.contains('\n'), "one line: {line}");
    let (head, json) = line.split_once(MARKER).expect("the marker");
    let (sentence, trigger) = head.rsplit_once(": ").expect("a trigger");
    let object = serde_json::from_str(json).expect("JSON");
    LogLine { rv, trigger: trigger.to_owned(), incomplete: sentence.contains("incomplete"), object }
}

/// The key of a fact that is logged once: a trigger, a UID and, of retries, an attempt.
pub type Fact = (&'static str, String, Option<i64>);

/// Checks all lines. An error describes the fault.
pub fn judge(history: &History, logged: &[LogLine]) -> Result<(), String> {
    let logged = persisted(history, logged)?;
    match deleted(history).iter().find(|fact| !logged.contains_key(fact)) {
        Some(missed) => Err(format!("{missed:?} was not logged")),
        None => Ok(()),
    }
}

/// Checks that each logged fact was persisted, and that it was logged before it was replaced. Returns the
/// logged facts.
pub fn persisted(history: &History, logged: &[LogLine]) -> Result<BTreeMap<Fact, u64>, String> {
    for line in logged {
        truthful(history, line)
            .map_err(|what| format!("{} of {}: {what}", line.trigger, line.object["metadata"]))?;
    }
    let mut first: BTreeMap<Fact, u64> = BTreeMap::new();
    for line in logged {
        first.entry(fact(line)).or_insert(line.rv);
    }
    let was_logged = |fact: &Fact, by: u64| first.get(fact).is_some_and(|rv| *rv < by);
    for change in history.of("frameworks") {
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && let Some(missed) = replaced(old, new).iter().find(|fact| !was_logged(fact, change.rv))
        {
            return Err(format!("rv {}: {missed:?} was not logged before it was replaced", change.rv));
        }
    }
    Ok(first)
}

fn fact(line: &LogLine) -> Fact {
    const NAMES: [&str; 5] =
        ["OnFrameworkRetry", "OnFrameworkDeletion", "OnTaskRetry", "OnTaskDeletion", "OnPodDeletion"];
    let trigger = NAMES.into_iter().find(|name| *name == line.trigger).expect("a known trigger");
    let attempt = trigger.ends_with("Retry").then(|| attempt_of(&line.object["status"])).flatten();
    (trigger, line.object.uid().to_owned(), attempt)
}

fn attempt_of(status: &Value) -> Option<i64> {
    status["attemptStatus"]["id"].as_i64()
}

/// Whether the logged object was persisted, or is gone, as the line says.
fn truthful(history: &History, line: &LogLine) -> Result<(), String> {
    let LogLine { object, trigger, incomplete, .. } = line;
    if object["kind"] == "Pod" {
        let ends = |change: &&Arc<Change>| change.uid == object.uid() && change.new.is_none();
        return match history.of("pods").find(ends) {
            // One that disappeared while no controller looked may have lost its label.
            _ if *incomplete => Ok(()),
            Some(end) if end.rv > line.rv => Err("it was logged before it was gone".to_owned()),
            Some(end) if object["status"] != end.object()["status"] => {
                Err(format!("it was {}", end.object()["status"]))
            }
            Some(_) => Ok(()),
            None => Err("it is not gone".to_owned()),
        };
    }
    let rv: u64 = object.meta("resourceVersion").parse().map_err(|_| "no resourceVersion".to_owned())?;
    let version = history.of("frameworks").find(|change| change.rv == rv && rv <= line.rv);
    let version = version.and_then(|change| change.new.clone().or(change.old.clone()));
    let version = version.ok_or("no such version was persisted by then")?;
    let status = &read_status(&version);
    let persisted = match object["kind"].as_str() {
        Some("Framework") => status,
        _ => task(status, object.uid()).ok_or("the version has no such Task")?,
    };
    let persisted =
        if trigger == "OnTaskRetry" { &ended_as(persisted, &object["status"]) } else { persisted };
    if *persisted != object["status"] {
        return Err(format!("logged {}, persisted {persisted}", object["status"]));
    }
    let state = object["status"]["state"].as_str().unwrap_or_default();
    let expected = match trigger.as_str() {
        "OnTaskRetry" | "OnFrameworkRetry" => "AttemptCompleted",
        "OnTaskDeletion" => "Completed",
        _ => state,
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

/// The facts that one version of a Framework has and the next one has not any more.
fn replaced(old: &Object, new: &Object) -> Vec<Fact> {
    let (old_status, new_status) = (&old.opened()["status"], &new.opened()["status"]);
    if old_status.is_null() {
        return Vec::new();
    }
    if attempt_of(old_status) != attempt_of(new_status) {
        return vec![("OnFrameworkRetry", old.uid().to_owned(), attempt_of(old_status))];
    }
    let fact = |task: &Value| {
        let uid = task["instanceUID"].as_str().unwrap_or_default();
        match self::task(new_status, uid) {
            None => Some(("OnTaskDeletion", uid.to_owned(), None)),
            Some(after) if attempt_of(after) != attempt_of(task) => {
                Some(("OnTaskRetry", uid.to_owned(), attempt_of(task)))
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
            // A Task is so only once its Pod was in the cache.
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
            facts.push(("OnFrameworkDeletion", change.uid.clone(), None));
        } else if change.is("pods") && watched && (by_last || seen.contains(&change.uid)) {
            facts.push(("OnPodDeletion", change.uid.clone(), None));
        }
    }
    facts
}
