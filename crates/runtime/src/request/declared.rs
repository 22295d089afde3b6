//! The request that lets a job of a declared kind begin.

use serde_json::{Value, json};

use framework_api::job_kind::{JobKindRow, Pointer, Suspend};
use framework_queueing::TemplateMetadata;

use super::job_set::{guard, label, operation};

/// The JSON patch that lets a job begin, and gives its Pods the label of the queue. It has the guards of that
/// for a JobSet.
pub fn resume(
    row: &JobKindRow,
    uid: &str,
    resource_version: u128,
    queue: &str,
    templates: &[(String, TemplateMetadata)],
) -> Value {
    let mut operations = guard(uid, resource_version);
    operations.push(match &row.suspend {
        Suspend::Pointer(pointer) => operation("replace", &pointer.to_string(), json!(false)),
        Suspend::Annotation(name) => {
            let place = Pointer::of_fields(["metadata", "annotations", name]);
            operation("replace", &place.to_string(), json!("false"))
        }
    });
    let labels = templates.iter().map(|(template, metadata)| label(template, *metadata, queue));
    operations.extend(labels);
    Value::Array(operations)
}
