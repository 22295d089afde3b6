//! The history of a real cluster, from the events of watches and from the audit log, for the same checkers.
//!
//! The watches say which objects were written, because the log may show a request as failed that lost its
//! sender and was carried out. The log says which client wrote the object, and when.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_audit::Record;
use jiff::Timestamp;
use serde_json::Value;

use crate::history::{Cause, Change, History, Verb};
use crate::object::{Meta, Object};

/// The user agent of the controller begins so.
const CONTROLLER: &str = "frameworkcontroller/";

/// One event of a watch.
#[derive(Debug, Clone)]
pub struct Event {
    /// Plural of the kind.
    pub plural: &'static str,
    /// The object; one that is gone, as it was last, with the version of its deletion.
    pub object: Value,
    /// Whether the object is gone.
    pub gone: bool,
}

/// The history of a cluster that showed these events and logged these requests, both of one namespace.
///
/// A change that no logged request made has the actor `cluster`. An object's removal has the time of the last
/// request that names its UID; any other change without a request has the time of the change before it.
#[must_use]
pub fn history(mut events: Vec<Event>, requests: &[Record]) -> History {
    events.sort_by_key(|event| event.object.version());
    let (causes, ends) = (causes(requests), ends(requests));
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    let mut changes: Vec<Option<Change>> = Vec::new();
    let mut now = Timestamp::UNIX_EPOCH;
    for Event { plural, object, gone } in events {
        let (version, uid) = (object.version(), object.uid().to_owned());
        let object = Arc::new(Object::new(object));
        let before = last.insert(uid.clone(), changes.len());
        let mut old = before.and_then(|at| changes.get(at)?.as_ref()?.new.clone());
        let (time, cause) = causes.get(&(plural.to_owned(), version)).cloned().unwrap_or_else(|| {
            let end = ends.get(&uid).copied().filter(|_| gone);
            (end.unwrap_or(now), of_the_cluster())
        });
        if let Some(at) = before.filter(|_| gone && cause.verb == Verb::Delete)
            && let Some(marking) = changes[at].take_if(|earlier| is_first_half(earlier))
        {
            old = marking.old;
        }
        let old = old.or_else(|| gone.then(|| Arc::clone(&object)));
        let new = (!gone).then_some(object);
        now = now.max(time);
        changes.push(Some(Change::seen(version, plural, time, cause, old, new)));
    }
    History { changes: changes.into_iter().flatten().map(Arc::new).collect(), exchanges: Vec::new() }
}

/// Whether a change is the first half of a deletion at once. The API server stores the grace period of 0 and
/// then removes the object; its answer names only the version of the second.
fn is_first_half(change: &Change) -> bool {
    let grace = |object: &Option<Arc<Object>>| {
        object.as_ref().and_then(|object| object["metadata"]["deletionGracePeriodSeconds"].as_i64())
    };
    change.cause.verb == Verb::Other && grace(&change.new) == Some(0) && grace(&change.old) != Some(0)
}

/// The cause of a change that no request in the log led to.
fn of_the_cluster() -> Cause {
    let (actor, verb) = ("cluster".into(), Verb::Other);
    Cause { actor, call: 0, verb, uid: None, version: None, grace: None, propagation: None }
}

/// The cause and the time of each version, by plural and version.
fn causes(requests: &[Record]) -> BTreeMap<(String, u64), (Timestamp, Cause)> {
    let mut causes = BTreeMap::new();
    for (number, request) in requests.iter().enumerate().filter(|(_, request)| request.code < 300) {
        let version = request.resource_version().and_then(|version| version.parse().ok());
        let (Some(version), Some(verb)) = (version, verb(request)) else { continue };
        let ours = request.user_agent.starts_with(CONTROLLER).then(|| run(&request.user_agent));
        let body = |pointer: &str| request.request_object.as_ref()?.pointer(pointer);
        let text = |pointer: &str| body(pointer)?.as_str().map(str::to_owned);
        let cause = Cause {
            actor: ours.unwrap_or("user").into(),
            call: if ours.is_some() { number as u64 + 1 } else { 0 },
            verb,
            uid: text("/preconditions/uid"),
            version: text("/metadata/resourceVersion"),
            grace: body("/gracePeriodSeconds").and_then(Value::as_i64),
            propagation: text("/propagationPolicy"),
        };
        // A request that changed nothing answers with the version that another one made.
        causes.entry((request.resource.clone(), version)).or_insert((request.completed, cause));
    }
    causes
}

/// The run of the program that its user agent names: `frameworkcontroller/VERSION (incarnation RUN)`.
fn run(agent: &str) -> &str {
    let named = agent.split_once("(incarnation ").and_then(|(_, rest)| rest.split_once(')'));
    named.map_or("controller", |(run, _)| run)
}

/// The time of the last request that named each UID.
fn ends(requests: &[Record]) -> BTreeMap<String, Timestamp> {
    let mut ends = BTreeMap::new();
    for request in requests.iter().filter(|request| request.code < 300) {
        let answer = ["/metadata/uid", "/details/uid"].map(|pointer| (&request.response_object, pointer));
        let named = answer.into_iter().chain([(&request.request_object, "/preconditions/uid")]);
        let uids = named.filter_map(|(body, pointer)| body.as_ref()?.pointer(pointer)?.as_str());
        for uid in uids {
            let end = ends.entry(uid.to_owned()).or_insert(request.completed);
            *end = (*end).max(request.completed);
        }
    }
    ends
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

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    fn event(version: u64, gone: bool, more: Value) -> Event {
        let mut object =
            json!({ "metadata": { "name": "p", "uid": "u", "resourceVersion": version.to_string() } });
        json_patch::merge(&mut object, &more);
        Event { plural: "pods", object, gone }
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn request(verb: &str, agent: &str, version: u64, at: i64) -> Record {
        Record {
            verb: verb.into(),
            resource: "pods".into(),
            subresource: String::new(),
            namespace: "ns".into(),
            name: "p".into(),
            code: 200,
            user: String::new(),
            user_agent: agent.into(),
            request_uri: String::new(),
            received: second(at),
            completed: second(at),
            request_object: Some(json!({ "preconditions": { "uid": "u" }, "gracePeriodSeconds": 0 })),
            response_object: Some(
                json!({ "metadata": { "uid": "u", "resourceVersion": version.to_string() } }),
            ),
        }
    }

    #[test]
    fn each_change_has_the_actor_the_verb_and_the_time_of_its_request() {
        let grace = json!({ "metadata": { "deletionGracePeriodSeconds": 0 } });
        let events = vec![
            event(5, false, json!({ "status": { "phase": "Running" } })),
            event(3, false, json!({})),
            event(7, false, grace.clone()),
            event(8, true, grace),
        ];
        let agent = "frameworkcontroller/1 (incarnation 1f0c77e2)";
        let requests = [request("create", agent, 3, 1), request("delete", "kubectl", 8, 9)];
        let history = history(events, &requests);
        let changes: Vec<_> = history
            .changes
            .iter()
            .map(|change| (change.rv, &*change.cause.actor, change.cause.verb, change.time))
            .collect();
        let expected = [
            (3, "1f0c77e2", Verb::Create, second(1)),
            (5, "cluster", Verb::Other, second(1)),
            (8, "user", Verb::Delete, second(9)),
        ];
        assert_eq!(changes, expected, "the two halves of the deletion are one change");
        let old = history.changes[2].old.as_ref().unwrap();
        assert_eq!(old["status"]["phase"], "Running");
        assert!(history.changes[0].creates() && history.changes[2].removes());
    }

    #[test]
    fn a_removal_without_a_logged_version_has_the_time_of_the_last_request() {
        let events = vec![event(3, false, json!({})), event(9, true, json!({}))];
        let requests = [request("create", "frameworkcontroller/1", 3, 1), request("patch", "gc", 8, 4)];
        let history = history(events, &requests);
        assert_eq!((history.changes[1].time, &*history.changes[1].cause.actor), (second(4), "cluster"));
    }
}
