//! PATCH bodies: JSON merge patch (RFC 7396) and JSON patch (RFC 6902).

use serde_json::{Map, Value};

use crate::refusal::Refusal;

/// A patch and how to read it.
#[derive(Debug, Clone)]
pub enum Patch {
    /// JSON merge patch. Strategic merge patches are read as this: equal for everything but lists.
    Merge(Value),
    /// JSON patch.
    Json(Value),
}

impl Patch {
    /// Applies the patch.
    ///
    /// # Errors
    /// When an operation is malformed, its path is missing, or a test fails.
    pub fn apply(&self, target: &mut Value) -> Result<(), Refusal> {
        match self {
            Self::Merge(patch) => {
                merge(target, patch);
                Ok(())
            }
            Self::Json(operations) => {
                let operations = operations.as_array().ok_or_else(|| Refusal::bad_request("not a list"))?;
                operations.iter().try_for_each(|operation| step(target, operation))
            }
        }
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (field, value) in patch {
        if value.is_null() {
            target.remove(field);
        } else {
            merge(target.entry(field).or_insert(Value::Null), value);
        }
    }
}

fn step(target: &mut Value, operation: &Value) -> Result<(), Refusal> {
    let path = operation["path"].as_str().ok_or_else(|| Refusal::bad_request("operation without path"))?;
    let failed = || Refusal::unprocessable("the server rejected our request due to an error in our request");
    let value = &operation["value"];
    match operation["op"].as_str() {
        Some("test") => {
            let found = target.pointer(path).unwrap_or(&Value::Null);
            if found == value { Ok(()) } else { Err(failed()) }
        }
        Some("replace") => {
            *target.pointer_mut(path).ok_or_else(failed)? = value.clone();
            Ok(())
        }
        Some("add") => add(target, path, value).ok_or_else(failed),
        Some("remove") => remove(target, path).ok_or_else(failed),
        _ => Err(Refusal::bad_request("operation is none of add, remove, replace, test")),
    }
}

fn add(target: &mut Value, path: &str, value: &Value) -> Option<()> {
    if path.is_empty() {
        *target = value.clone();
        return Some(());
    }
    let (parent, last) = parent(target, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(last, value.clone());
        }
        Value::Array(list) => {
            let index = if last == "-" { list.len() } else { last.parse().ok()? };
            if index > list.len() {
                return None;
            }
            list.insert(index, value.clone());
        }
        _ => return None,
    }
    Some(())
}

fn remove(target: &mut Value, path: &str) -> Option<()> {
    let (parent, last) = parent(target, path)?;
    match parent {
        Value::Object(map) => map.remove(&last).map(drop),
        Value::Array(list) => {
            let index: usize = last.parse().ok()?;
            (index < list.len()).then(|| drop(list.remove(index)))
        }
        _ => None,
    }
}

fn parent<'a>(target: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (head, last) = path.rsplit_once('/')?;
    Some((target.pointer_mut(head)?, last.replace("~1", "/").replace("~0", "~")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merge_removes_what_is_null_and_replaces_lists() {
        let mut target = json!({ "a": { "b": 1, "c": 2 }, "l": [1, 2] });
        Patch::Merge(json!({ "a": { "b": null, "d": 3 }, "l": [9] })).apply(&mut target).unwrap();
        assert_eq!(target, json!({ "a": { "c": 2, "d": 3 }, "l": [9] }));
    }

    #[test]
    fn json_patch_does_each_operation_and_stops_at_a_failed_test() {
        let mut target = json!({ "a": { "x/y": 1 }, "l": [1, 2] });
        let patch = json!([
            { "op": "test", "path": "/a/x~1y", "value": 1 },
            { "op": "replace", "path": "/a/x~1y", "value": 2 },
            { "op": "add", "path": "/l/-", "value": 3 },
            { "op": "remove", "path": "/l/0" },
        ]);
        Patch::Json(patch).apply(&mut target).unwrap();
        assert_eq!(target, json!({ "a": { "x/y": 2 }, "l": [2, 3] }));
        let failing = json!([{ "op": "test", "path": "/l", "value": [] }]);
        assert_eq!(Patch::Json(failing).apply(&mut target).unwrap_err().code, 422);
    }
}
