//! The checkers of the simulated cluster, applied to a real API server: its watches give the objects, and its
//! audit log gives the author and the time of each change.

use framework_sim::check::{self, Checker, seizure};
use framework_sim::recorded::{self, Event};
use framework_testcluster::audit::Record;
use serde_json::{Value, json};

use super::history::{Change, Object, What};

/// A record without its bodies, but for the parts that the checkers read.
pub fn slim(mut record: Record) -> Record {
    let keep = |body: &Value| {
        let fields = ["name", "uid", "resourceVersion"];
        let metadata: Value =
            fields.map(|field| (field, body["metadata"][field].clone())).into_iter().collect();
        json!({
            "metadata": metadata,
            "details": { "uid": body["details"]["uid"] },
            "preconditions": body["preconditions"],
            "gracePeriodSeconds": body["gracePeriodSeconds"],
            "propagationPolicy": body["propagationPolicy"],
        })
    };
    record.request_object = record.request_object.as_ref().map(keep);
    record.response_object = record.response_object.as_ref().map(keep);
    record
}

/// The changes and requests of a namespace, in the form of the checkers.
pub fn recorded(changes: &[Change], requests: &[Record]) -> framework_sim::History {
    recorded::history(changes.iter().map(event).collect(), requests)
}

fn event(change: &Change) -> Event {
    let (plural, object) = match &change.object {
        Object::Framework(framework) => ("frameworks", serde_json::to_value(framework)),
        Object::ConfigMap(config_map) => ("configmaps", serde_json::to_value(config_map)),
        Object::Pod(pod) => ("pods", serde_json::to_value(pod)),
        Object::Other(plural, object) => (*plural, serde_json::to_value(object)),
    };
    Event { plural, object: object.expect("an object is plain data"), gone: change.what == What::Gone }
}

/// The breaches of the promises that hold for every behaviour of users.
pub fn broken_promises(history: &framework_sim::History) -> Vec<String> {
    broken(check::ALWAYS, history)
}

/// The breaches of the manual's ConsistencyGuarantees 1 to 4. They hold if users delete no Pods by force,
/// delete Frameworks only in the foreground, and change no owners.
pub fn broken_guarantees(history: &framework_sim::History) -> Vec<String> {
    broken(&check::guarantees::ALL, history)
}

/// The breaches of the promises of a rescale.
pub fn broken_rescales(history: &framework_sim::History) -> Vec<String> {
    broken(&check::rescale::ALL, history)
}

/// Counts the slots that changed hands, by a recording of the map and of Leases. An error reports a seizure
/// from an owner that still held its Lease.
pub fn seizures(changes: &[Change], requests: &[Record]) -> Result<seizure::SeizureCounts, String> {
    seizure::check(&recorded(changes, requests)).map_err(|broken| broken.to_string())
}

fn broken(checkers: &[(&str, Checker)], history: &framework_sim::History) -> Vec<String> {
    let found = checkers.iter().filter_map(|(name, check)| Some((name, check(history).err()?)));
    found.map(|(name, violation)| format!("{name}: {violation}")).collect()
}
