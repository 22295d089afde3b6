//! The requests that let a job begin.

use std::sync::Arc;

use serde_json::{Value, json};

use framework_api::job_kind::{JobKindRow, Pointer, Suspend, escaped};
use framework_api::queue::{CONSUMER_LABEL, QUEUE_NAME_LABEL, RESUMED_BY_ANNOTATION};
use framework_queueing::{PodLabels, Resumption, TemplateMetadata};

/// The JSON patch that lets a job begin, and gives its Pods the labels of the queue and of the job. A merge
/// patch would have to repeat all of a list that templates are in.
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
    let labels = PodLabels { queue: Arc::clone(&with.queue), job: Arc::clone(&with.uid) };
    operations.extend(label_all(templates, &labels));
    Value::Array(operations)
}

/// The JSON patch that gives the Pods of a JobSet the labels of the queue and of the job that controls it.
pub fn label_templates(
    uid: &str,
    resource_version: u128,
    labels: &PodLabels,
    templates: &[(String, TemplateMetadata)],
) -> Value {
    let mut operations = guard(uid, resource_version);
    operations.extend(label_all(templates, labels));
    Value::Array(operations)
}

/// Notes the unit that lets a job begin.
fn resumed_by(with: &Resumption) -> Value {
    if with.has_annotations {
        let place = Pointer::of_fields(["metadata", "annotations", RESUMED_BY_ANNOTATION]);
        return operation("add", &place.to_string(), (*with.unit).into());
    }
    operation("add", "/metadata/annotations", json!({RESUMED_BY_ANNOTATION: &*with.unit}))
}

/// Replaces UID and resourceVersion by the same values, which guards a patch: if the stored values are
/// others, the API server answers with a conflict.
pub fn guard(uid: &str, resource_version: u128) -> Vec<Value> {
    vec![
        operation("replace", "/metadata/uid", uid.into()),
        operation("replace", "/metadata/resourceVersion", resource_version.to_string().into()),
    ]
}

fn label_all(templates: &[(String, TemplateMetadata)], labels: &PodLabels) -> impl Iterator<Item = Value> {
    templates.iter().flat_map(|(template, metadata)| label(template, *metadata, labels))
}

/// Gives the Pod template at a place the labels of the queue and of the job.
fn label(template: &str, metadata: TemplateMetadata, labels: &PodLabels) -> Vec<Value> {
    let labels = [(QUEUE_NAME_LABEL, &*labels.queue), (CONSUMER_LABEL, &*labels.job)];
    let all: Value = labels.iter().map(|(label, value)| ((*label).to_owned(), Value::from(*value))).collect();
    let place = format!("{template}/metadata");
    match metadata {
        TemplateMetadata::Missing => vec![operation("add", &place, json!({"labels": all}))],
        TemplateMetadata::WithoutLabels => vec![operation("add", &format!("{place}/labels"), all)],
        TemplateMetadata::WithLabels => {
            let one = |(label, value): (&str, &str)| {
                operation("add", &format!("{place}/labels/{}", escaped(label)), value.into())
            };
            labels.map(one).into()
        }
    }
}

/// One operation of a JSON patch.
pub fn operation(op: &str, path: &str, value: Value) -> Value {
    json!({"op": op, "path": path, "value": value})
}
