//! The rules of Events of `events.k8s.io`: required fields, and fields that never change.
//!
//! The server's messages use the field names of the core group.

use serde_json::Value;

use crate::kind::Kind;
use crate::object::Meta;
use crate::refusal::Refusal;

/// The required texts, in the order in which the server names them.
const REQUIRED: [&str; 4] = ["reportingController", "reportingInstance", "action", "reason"];

/// The fields that never change, by their names in this group and in the server's messages.
const FIXED: [(&str, &str); 8] = [
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
    ("type", "type"),
];

fn is_event(rules: &Kind) -> bool {
    rules.group == "events.k8s.io" && rules.kind == "Event"
}

/// Refuses an Event that lacks a field. Accepts every other kind.
pub(crate) fn check_creation(rules: &Kind, event: &Value) -> Result<(), Refusal> {
    if !is_event(rules) {
        return Ok(());
    }
    let refused =
        |cause, field: &str, why: &str| Err(Refusal::invalid(rules, event.name(), cause, field, why));
    let regarding = event["regarding"]["namespace"].as_str().unwrap_or("");
    if regarding.is_empty() && event.namespace() != "default" {
        let why = format!("Invalid value: {regarding:?}: does not match event.namespace");
        return refused("FieldValueInvalid", "involvedObject.namespace", &why);
    }
    let empty = |field: &&&str| event[**field].as_str().is_none_or(str::is_empty);
    if empty(&&"eventTime") {
        return refused("FieldValueRequired", "eventTime", "Required value");
    }
    if let Some(field) = REQUIRED.iter().find(empty) {
        return refused("FieldValueRequired", field, "Required value");
    }
    if !matches!(event["type"].as_str(), Some("Normal" | "Warning")) {
        return refused("FieldValueInvalid", "type", "has invalid value");
    }
    Ok(())
}

/// Refuses a change of a field that never changes. Accepts every change of another kind.
pub(crate) fn check_update(rules: &Kind, old: &Value, new: &Value) -> Result<(), Refusal> {
    let changed = FIXED.iter().find(|(field, _)| old.get(field) != new.get(field));
    match changed.filter(|_| is_event(rules)) {
        None => Ok(()),
        Some((_, name)) => {
            Err(Refusal::invalid(rules, old.name(), "FieldValueInvalid", name, "field is immutable"))
        }
    }
}
