//! The changes of QueueUnits that the API server refuses, by the rules of their definition. Only the priority
//! changes, and only until the unit is released; the phase goes forward by one step at a time.
//!
//! The rules themselves are expressions that only the real server evaluates; this module repeats them in
//! Rust. The conformance test holds the two together.

use serde_json::Value;

use crate::kind::Kind;
use crate::object::Meta;
use crate::refusal::Refusal;

const PHASES: [&str; 3] = ["", "Enqueued", "Dequeued"];

/// Refuses a change that the definition does not allow. Of other kinds everything is allowed.
pub(crate) fn check(rules: &Kind, old: &Value, new: &Value) -> Result<(), Refusal> {
    if rules.group != "queue.k8s.io" || rules.kind != "QueueUnit" {
        return Ok(());
    }
    let refused = |field: &str, why: &str| {
        let why = format!("Forbidden: {why}");
        Err(Refusal::invalid(rules, old.name(), "FieldValueForbidden", field, &why))
    };
    for field in ["consumerRef", "queue", "resource", "priorityClassName"] {
        if old["spec"].get(field) != new["spec"].get(field) {
            return refused(&format!("spec.{field}"), "it is fixed when the unit is created");
        }
    }
    let step = |unit: &Value| {
        let phase = unit["status"]["phase"].as_str().unwrap_or("");
        PHASES.iter().position(|known| *known == phase)
    };
    match (step(old), step(new)) {
        (Some(from), Some(to)) if to == from || to == from + 1 => {}
        _ => return refused("status.phase", "phase goes forward by one step"),
    }
    let released = step(old) == Some(PHASES.len() - 1);
    if released && old["spec"].get("priority") != new["spec"].get("priority") {
        return refused("spec.priority", "priority may change only while the unit waits");
    }
    Ok(())
}
