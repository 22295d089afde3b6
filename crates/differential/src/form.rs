//! The created form of a Pod: the values that two runs have in common.

use std::collections::BTreeMap;

use framework_api::name::SLOT_LABEL;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::facts::Facts;

/// The created form of each Pod of a Framework, by its name and attempt.
pub(crate) type Forms = BTreeMap<String, Facts>;

/// The metadata that the controller sets.
const METADATA: [&str; 5] = ["name", "annotations", "labels", "finalizers", "ownerReferences"];
/// The prefix of the volume to which the admission of Pods gives a random name.
const RANDOM_NAME: &str = "kube-api-access-";

/// The Pod's name with its attempt, and each value in it by its path.
pub(crate) fn of(pod: &Pod) -> (String, Facts) {
    let object = serde_json::to_value(pod).unwrap_or_default();
    let metadata = &object["metadata"];
    let note = |name: &str| metadata["annotations"][name].as_str().unwrap_or_default();
    let attempt = (note("FC_FRAMEWORK_ATTEMPT_ID"), note("FC_TASK_ATTEMPT_ID"));
    let name = metadata["name"].as_str().unwrap_or_default();
    let mut facts = Facts::new();
    for field in METADATA {
        flatten(&format!("metadata.{field}"), &metadata[field], &mut facts);
    }
    if let Some(slot) = facts.get_mut(&format!("metadata.labels.{SLOT_LABEL}")) {
        "of its UID".clone_into(slot);
    }
    flatten("spec", &object["spec"], &mut facts);
    (format!("Pod {name} attempt {}.{}", attempt.0, attempt.1), facts)
}

fn flatten(path: &str, value: &Value, facts: &mut Facts) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(&format!("{path}.{name}"), value, facts);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), value, facts);
            }
        }
        Value::String(text) => drop(facts.insert(path.to_owned(), plain(text))),
        other => drop(facts.insert(path.to_owned(), other.to_string())),
    }
}

/// A text with `UID` for each UID in it.
fn plain(text: &str) -> String {
    if text.starts_with(RANDOM_NAME) {
        return RANDOM_NAME.to_owned();
    }
    let mut plain = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let uid = rest.get(..36).is_some_and(is_uid);
        let length = if uid { 36 } else { first.len_utf8() };
        plain.push_str(if uid { "UID" } else { &rest[..length] });
        rest = &rest[length..];
    }
    plain
}

fn is_uid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.bytes().enumerate().all(|(position, byte)| {
        if dashes.contains(&position) { byte == b'-' } else { byte.is_ascii_hexdigit() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn uids_are_no_part_of_the_form_and_all_else_is() {
        let uid = "0f0e0d0c-1111-4222-8333-444455556666";
        let pod = json!({
            "metadata": {
                "name": "a-b-0", "uid": uid, "resourceVersion": "7",
                "annotations": {
                    "FC_FRAMEWORK_ATTEMPT_ID": "1", "FC_TASK_ATTEMPT_ID": "2", "X": format!("1_{uid}\u{e9}"),
                },
                "labels": {SLOT_LABEL: "216"},
            },
            "spec": {"containers": [{"name": "main"}], "volumes": [{"name": "kube-api-access-x7f2p"}]},
        });
        let (name, facts) = of(&serde_json::from_value(pod).unwrap());
        assert_eq!(name, "Pod a-b-0 attempt 1.2");
        assert_eq!(facts["metadata.annotations.X"], "1_UID\u{e9}");
        assert_eq!(facts[&format!("metadata.labels.{SLOT_LABEL}")], "of its UID");
        assert_eq!(facts["spec.containers[0].name"], "main");
        assert_eq!(facts["spec.volumes[0].name"], "kube-api-access-");
        assert!(!facts.contains_key("metadata.uid") && !facts.contains_key("metadata.resourceVersion"));
    }
}
