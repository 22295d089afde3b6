//! The checkers of the simulation, applied to a real API server: its watches give the objects, and its audit
//! log gives the author of each change.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_sim::{Cause, History, Object, Verb, check};
use framework_testcluster::audit::Record;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::history::{self, What};

/// A record without its bodies, but for the preconditions in them.
pub fn slim(mut record: Record) -> Record {
    let keep = |body: &Value| {
        let fields = ["name", "uid", "resourceVersion"];
        let metadata: Value =
            fields.map(|field| (field, body["metadata"][field].clone())).into_iter().collect();
        json!({
            "metadata": metadata,
            "preconditions": body["preconditions"],
            "gracePeriodSeconds": body["gracePeriodSeconds"],
            "propagationPolicy": body["propagationPolicy"],
        })
    };
    record.request_object = record.request_object.as_ref().map(keep);
    record.response_object = record.response_object.as_ref().map(keep);
    record
}

/// The findings of the checkers in the changes of a namespace, object by object in order.
pub fn violations(changes: &[history::Change], requests: &[Record]) -> Vec<String> {
    let history = History { changes: seen(changes, requests), exchanges: Vec::new() };
    let found = check::ALWAYS.iter().filter_map(|(name, check)| Some((name, check(&history).err()?)));
    found.map(|(name, violation)| format!("{name}: {violation}")).collect()
}

fn seen(changes: &[history::Change], requests: &[Record]) -> Vec<Arc<framework_sim::Change>> {
    let causes = causes(requests);
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    let mut all: Vec<Option<framework_sim::Change>> = Vec::new();
    for change in changes {
        let (plural, object) = value(&change.object);
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let object = Arc::new(Object::new(object));
        let before = last.insert(uid, all.len());
        let mut old = before.and_then(|at| all.get(at)?.as_ref()?.new.clone());
        let (time, cause) = causes.get(&(plural, change.version)).cloned().unwrap_or_else(unknown);
        let is_gone = change.what == What::Gone;
        if let Some(at) = before.filter(|_| is_gone && cause.verb == Verb::Delete)
            && let Some(marking) = all[at].take_if(|earlier| is_first_half(earlier))
        {
            old = marking.old;
        }
        let old = old.or_else(|| is_gone.then(|| Arc::clone(&object)));
        let new = (!is_gone).then_some(object);
        all.push(Some(framework_sim::Change::seen(change.version, plural, time, cause, old, new)));
    }
    all.into_iter().flatten().map(Arc::new).collect()
}

/// Whether a change is the first half of a deletion at once. The API server stores the grace period of 0 and
/// then removes the object; its answer names only the version of the second.
fn is_first_half(change: &framework_sim::Change) -> bool {
    let grace = |object: &Option<Arc<Object>>| {
        object.as_ref().and_then(|object| object["metadata"]["deletionGracePeriodSeconds"].as_i64())
    };
    change.cause.verb == Verb::Other && grace(&change.new) == Some(0) && grace(&change.old) != Some(0)
}

fn value(object: &history::Object) -> (&'static str, Value) {
    let (plural, value) = match object {
        history::Object::Framework(framework) => ("frameworks", serde_json::to_value(framework)),
        history::Object::ConfigMap(config_map) => ("configmaps", serde_json::to_value(config_map)),
        history::Object::Pod(pod) => ("pods", serde_json::to_value(pod)),
    };
    (plural, value.expect("an object is plain data"))
}

/// A change that no request in the log led to: changes by nodes and by the garbage collector are not
/// distinguished.
fn unknown() -> (Timestamp, Cause) {
    let cause = Cause {
        actor: "cluster".into(),
        call: 0,
        verb: Verb::Other,
        uid: None,
        version: None,
        grace: None,
        propagation: None,
    };
    (Timestamp::UNIX_EPOCH, cause)
}

/// The author of each version, by kind and version.
fn causes(requests: &[Record]) -> BTreeMap<(&'static str, u64), (Timestamp, Cause)> {
    const PLURALS: [&str; 3] = ["frameworks", "configmaps", "pods"];
    let mut causes = BTreeMap::new();
    for (number, request) in requests.iter().enumerate().filter(|(_, request)| request.code < 300) {
        let plural = PLURALS.into_iter().find(|plural| *plural == request.resource);
        let version = request.resource_version().and_then(|version| version.parse().ok());
        let (Some(plural), Some(version), Some(verb)) = (plural, version, verb(request)) else { continue };
        let ours = request.user_agent.starts_with("frameworkcontroller/");
        let text = |pointer: &str| {
            let body = request.request_object.as_ref()?;
            body.pointer(pointer)?.as_str().map(str::to_owned)
        };
        let grace = request.request_object.as_ref().and_then(|body| body["gracePeriodSeconds"].as_i64());
        let cause = Cause {
            actor: if ours { "controller".into() } else { "user".into() },
            call: if ours { number as u64 + 1 } else { 0 },
            verb,
            uid: text("/preconditions/uid"),
            version: text("/metadata/resourceVersion"),
            grace,
            propagation: text("/propagationPolicy"),
        };
        // A request that changed nothing answers with the version that another one made.
        causes.entry((plural, version)).or_insert((request.completed, cause));
    }
    causes
}

fn verb(request: &Record) -> Option<Verb> {
    let of_status = request.subresource == "status";
    match (request.verb.as_str(), of_status) {
        ("create", _) => Some(Verb::Create),
        ("update", true) => Some(Verb::UpdateStatus),
        ("update", false) => Some(Verb::Update),
        ("patch", true) => Some(Verb::PatchStatus),
        ("patch", false) => Some(Verb::Patch),
        ("delete", _) => Some(Verb::Delete),
        _ => None,
    }
}
