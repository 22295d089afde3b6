//! The history snapshots in a controller's log: their kinds and objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The marker by which pipelines extract an object.
const MARKER: &str = ": ObjectSnapshot: ";

/// Of each Framework, by its name, the snapshots that were logged of it.
pub(crate) type Log = BTreeMap<String, BTreeSet<String>>;

/// Of each Framework the snapshots that were logged of it, each named once however often it was logged.
///
/// Objects of the same name are distinguished by their attempts. If one was removed and added again, they are
/// numbered, because UIDs differ from run to run.
pub(crate) fn read(log: &str) -> Log {
    let mut found: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for line in log.lines() {
        let Some((kind, object)) = split(line) else { continue };
        let Some((framework, name)) = describe(kind, &object) else { continue };
        let uid = text(&object["metadata"]["uid"]);
        found.entry(framework).or_default().entry(name).or_default().insert(uid);
    }
    let numbered = |(name, uids): (String, BTreeSet<String>)| {
        (0..uids.len())
            .map(move |number| if number == 0 { name.clone() } else { format!("{name} #{number}") })
    };
    found
        .into_iter()
        .map(|(framework, names)| (framework, names.into_iter().flat_map(numbered).collect()))
        .collect()
}

/// The kind of a line's snapshot, and the object.
fn split(line: &str) -> Option<(&str, Value)> {
    let (before, object) = line.split_once(MARKER)?;
    let (_, kind) = before.rsplit_once(": ")?;
    Some((kind, serde_json::from_str(object).ok()?))
}

/// The Framework of an object, and a description of the object.
fn describe(kind: &str, object: &Value) -> Option<(String, String)> {
    let (name, notes) = (text(&object["metadata"]["name"]), &object["metadata"]["annotations"]);
    let of = |note: &str| text(&notes[note]);
    Some(match kind {
        "OnFrameworkRetry" | "OnFrameworkDeletion" => {
            (name, format!("{kind} of attempt {}", text(&object["status"]["attemptStatus"]["id"])))
        }
        "OnTaskRetry" | "OnTaskDeletion" => {
            let attempt = text(&object["status"]["attemptStatus"]["id"]);
            let whole = of("FC_FRAMEWORK_ATTEMPT_ID");
            (of("FC_FRAMEWORK_NAME"), format!("{kind} of {name} attempt {whole}.{attempt}"))
        }
        "OnPodDeletion" => {
            let (whole, attempt) = (of("FC_FRAMEWORK_ATTEMPT_ID"), of("FC_TASK_ATTEMPT_ID"));
            (of("FC_FRAMEWORK_NAME"), format!("{kind} of {name} attempt {whole}.{attempt}"))
        }
        _ => return None,
    })
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(kind: &str, object: Value) -> String {
        format!("I1 [default/a]: enqueued: {kind}: ObjectSnapshot: {object}")
    }

    fn pod(uid: &str, attempt: &str) -> String {
        let mut notes = json!({"FC_FRAMEWORK_NAME": "a", "FC_FRAMEWORK_ATTEMPT_ID": "1"});
        notes["FC_TASK_ATTEMPT_ID"] = attempt.into();
        line("OnPodDeletion", json!({"metadata": {"name": "a-b-0", "uid": uid, "annotations": notes}}))
    }

    #[test]
    fn each_snapshot_counts_once_and_each_object_by_itself() {
        let attempt = |id| json!({"attemptStatus": {"id": id}});
        let retry = line("OnFrameworkRetry", json!({"metadata": {"name": "a"}, "status": attempt(2)}));
        let notes = json!({"FC_FRAMEWORK_NAME": "a", "FC_FRAMEWORK_ATTEMPT_ID": "2"});
        let task = json!({"metadata": {"name": "a-b-0", "annotations": notes}, "status": attempt(3)});
        let task = line("OnTaskRetry", task);
        let log = [
            "noise",
            &retry,
            &pod("1", "0"),
            &pod("1", "0"),
            &pod("2", "0"),
            &pod("3", "1"),
            &task,
            "x: OnPodDeletion: ObjectSnapshot: {",
        ]
        .join("\n");
        let found = read(&log);
        let expected = [
            "OnFrameworkRetry of attempt 2",
            "OnPodDeletion of a-b-0 attempt 1.0",
            "OnPodDeletion of a-b-0 attempt 1.0 #1",
            "OnPodDeletion of a-b-0 attempt 1.1",
            "OnTaskRetry of a-b-0 attempt 2.3",
        ];
        assert_eq!(found["a"].iter().map(String::as_str).collect::<Vec<_>>(), expected);
        assert_eq!(found.len(), 1);
    }
}
