//! The request that lets a job of a declared kind begin.

use serde_json::{Value, json};

use framework_api::job_kind::{JobKindRow, Pointer, Suspend};
use framework_queueing::{Resumption, TemplateMetadata};

use super::job_set::{guard, label, operation, resumed_by};

/// The JSON patch that lets a job begin, and gives its Pods the label of the queue. It has the guards of that
/// for a JobSet.
pub fn resume(row: &JobKindRow, with: &Resumption, templates: &[(String, TemplateMetadata)]) -> Value {
    let mut operations = guard(&with.uid, with.resource_version);
    operations.push(match &row.suspend {
        Suspend::Pointer(pointer) => operation("replace", &pointer.to_string(), json!(false)),
        Suspend::Annotation(name) => {
            let place = Pointer::of_fields(["metadata", "annotations", name]);
            operation("replace", &place.to_string(), json!("false"))
        }
    });
    operations.push(resumed_by(with));
    let labels = templates.iter().map(|(template, metadata)| label(template, *metadata, &with.queue));
    operations.extend(labels);
    Value::Array(operations)
}
