//! Every delete of the controller carries a UID precondition and hits an object of a Framework. Nothing else
//! is deleted, and no ConfigMap, Pod or Framework is changed beyond its slot label.

use serde_json::Value;

use crate::check::slot::SLOT_LABEL;
use crate::check::state_at::{by_controller, framework_of_map, framework_of_pod};
use crate::check::violation::Violation;
use crate::history::{Change, History, Verb};
use crate::object::{Meta, metadata_mut};

const PROMISE: &str = "the controller touches only what is its own, and deletes by UID";

/// Checks it.
///
/// # Errors
/// When a delete had no UID, or a foreign object was touched.
pub fn check(history: &History) -> Result<(), Violation> {
    for change in history.changes.iter().filter(|change| by_controller(change)) {
        let wrong = |what: &str| Err(Violation::new(PROMISE, change, what.to_owned()));
        match change.cause.verb {
            Verb::Delete if !ours(change) => return wrong("a foreign object was deleted"),
            Verb::Delete if guarded(change) && change.cause.uid.is_none() => {
                return wrong("it was deleted without a UID precondition");
            }
            Verb::Update | Verb::Patch if guarded(change) && beyond_the_label(change) => {
                return wrong("it was changed beyond its slot label");
            }
            Verb::UpdateStatus | Verb::PatchStatus if change.is("pods") => {
                return wrong("the status of a Pod is its node's to write");
            }
            _ => {}
        }
    }
    Ok(())
}

fn guarded(change: &Change) -> bool {
    ["frameworks", "configmaps", "pods"].iter().any(|plural| change.is(plural))
}

fn ours(change: &Change) -> bool {
    match &*change.plural {
        "configmaps" => framework_of_map(change.object()).is_some(),
        "pods" => framework_of_pod(change.object()).is_some(),
        // Its own Leases and Events, and a Framework whose time has come.
        _ => true,
    }
}

fn beyond_the_label(change: &Change) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
    let rest = |object: &Value| {
        let mut rest = object.clone();
        let metadata = metadata_mut(&mut rest);
        metadata.remove("resourceVersion");
        if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
            labels.remove(SLOT_LABEL);
        }
        if metadata.get("labels").is_some_and(|labels| *labels == serde_json::json!({})) {
            metadata.remove("labels");
        }
        rest
    };
    old.version() != new.version() && rest(old) != rest(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::history_builder::HistoryBuilder;
    use serde_json::json;

    #[test]
    fn deleting_its_own_by_uid_and_labelling_is_right() {
        let mut builder = HistoryBuilder::running();
        builder.patch("pods", "f-r-0", json!({ "metadata": { "labels": { SLOT_LABEL: "9" } } }));
        builder.delete("pods", "f-r-0", None);
        assert_eq!(check(&builder.history()), Ok(()));
    }

    #[test]
    fn deleting_without_uid_or_a_foreign_object_is_wrong() {
        let mut builder = HistoryBuilder::running();
        builder.delete_unguarded("pods", "f-r-0");
        assert!(check(&builder.history()).unwrap_err().what.contains("without a UID"));

        let mut builder = HistoryBuilder::running();
        builder.foreign_pod("f-r-1");
        builder.delete("pods", "f-r-1", None);
        assert!(check(&builder.history()).unwrap_err().what.contains("foreign"));
    }

    #[test]
    fn changing_a_pod_is_wrong() {
        let mut builder = HistoryBuilder::running();
        builder.patch("pods", "f-r-0", json!({ "metadata": { "labels": { "mine": "1" } } }));
        assert!(check(&builder.history()).unwrap_err().what.contains("beyond"));
    }
}
