//! The request that lets a JobSet begin.

use serde_json::{Value, json};

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_queueing::TemplateMetadata;

/// The JSON patch that lets a JobSet begin, and gives its Pods the label. It replaces UID and resourceVersion
/// by the same values, which guards it: if the stored values are others, the API server answers with a
/// conflict. A merge patch would have to repeat all of `replicatedJobs`.
pub fn resume(uid: &str, resource_version: u128, queue: &str, templates: &[TemplateMetadata]) -> Value {
    let operation = |op: &str, path: &str, value: Value| json!({"op": op, "path": path, "value": value});
    let mut operations = vec![
        operation("replace", "/metadata/uid", uid.into()),
        operation("replace", "/metadata/resourceVersion", resource_version.to_string().into()),
        operation("replace", "/spec/suspend", false.into()),
    ];
    let labels = json!({QUEUE_NAME_LABEL: queue});
    for (position, template) in templates.iter().enumerate() {
        let metadata = format!("/spec/replicatedJobs/{position}/template/spec/template/metadata");
        operations.push(match template {
            TemplateMetadata::Missing => operation("add", &metadata, json!({"labels": labels})),
            TemplateMetadata::WithoutLabels => {
                operation("add", &format!("{metadata}/labels"), labels.clone())
            }
            TemplateMetadata::WithLabels => {
                let label = QUEUE_NAME_LABEL.replace('/', "~1");
                operation("add", &format!("{metadata}/labels/{label}"), queue.into())
            }
        });
    }
    Value::Array(operations)
}
