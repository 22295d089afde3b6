//! PATCH bodies: JSON merge patch (RFC 7396) and JSON patch (RFC 6902), applied by the `json-patch` crate.

use serde_json::Value;

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
                json_patch::merge(target, patch);
                Ok(())
            }
            Self::Json(operations) => {
                let operations: json_patch::Patch = serde_json::from_value(operations.clone())
                    .map_err(|error| Refusal::bad_request(error.to_string()))?;
                let message = "the server rejected our request due to an error in our request";
                json_patch::patch(target, &operations).map_err(|_| Refusal::unprocessable(message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_malformed_json_patch_is_refused_and_a_failed_one_changes_nothing() {
        let mut target = json!({ "a": 1 });
        let mut refused = |patch: Value| Patch::Json(patch).apply(&mut target).unwrap_err().code;
        assert_eq!(refused(json!({ "op": "add" })), 400);
        assert_eq!(refused(json!([{ "op": "put", "path": "/a", "value": 2 }])), 400);
        let replaced = json!({ "op": "replace", "path": "/a", "value": 2 });
        assert_eq!(refused(json!([replaced, { "op": "test", "path": "/a", "value": 1 }])), 422);
        assert_eq!(refused(json!([replaced, { "op": "remove", "path": "/b" }])), 422);
        assert_eq!(target, json!({ "a": 1 }));
    }
}
