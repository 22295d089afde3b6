//! A strict check of a pod template: whether Kubernetes reads it as it is written.
//!
//! Templates are stored as they are written. A mistake shows only when a Pod is refused or, worse, when the
//! API server drops an unknown field. [`check`] finds both in advance, to warn with the field's path. It
//! checks the form only, never whether a Pod would be valid, and it decides nothing: the API server does.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

/// The first field of a template that is not read as it is written.
///
/// A path is one in the template, such as `spec.containers[0].image`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// The field has the wrong type: the API server refuses the Pod.
    Undecodable {
        /// Path of the field.
        path: String,
        /// The problem of the field.
        message: String,
    },
    /// There is no such field: the API server creates the Pod without it.
    Unknown {
        /// Path of the field.
        path: String,
    },
}

impl TemplateError {
    /// The error in a sentence, for a template that stands at `template` in the object.
    pub fn describe(&self, template: &str) -> String {
        match self {
            TemplateError::Undecodable { path, message } => format!("{template}.{path}: {message}"),
            TemplateError::Unknown { path } => format!(
                "unknown field {template}.{path} is ignored, unless the cluster is newer than Kubernetes 1.34"
            ),
        }
    }
}

/// Decodes a pod template strictly: types, and no unknown fields.
pub fn check(template: &Value) -> Result<(), TemplateError> {
    let decoded: PodTemplateSpec = serde_path_to_error::deserialize(template).map_err(|error| {
        TemplateError::Undecodable { path: error.path().to_string(), message: error.inner().to_string() }
    })?;
    // `known` lacks the fields that decoding dropped. A template that decodes can be written again.
    let known = serde_json::to_value(decoded).unwrap_or_default();
    match first_unknown(template, &known, "") {
        None => Ok(()),
        Some(path) => Err(TemplateError::Unknown { path }),
    }
}

/// Path of the first written field that is unknown. A field that is null counts as unset.
fn first_unknown(written: &Value, known: &Value, path: &str) -> Option<String> {
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            written.iter().filter(|(_, value)| !value.is_null()).find_map(|(name, value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match known.get(name) {
                    None => Some(path),
                    Some(known) => first_unknown(value, known, &path),
                }
            })
        }
        (Value::Array(written), Value::Array(known)) => {
            written.iter().zip(known).enumerate().find_map(|(index, (written, known))| {
                first_unknown(written, known, &format!("{path}[{index}]"))
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Path of the field with the wrong type.
    fn undecodable(template: &Value) -> Option<String> {
        match check(template) {
            Err(TemplateError::Undecodable { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// Path of the field that is wrong in a template with this container and these other fields of its spec.
    fn wrong(container: Value, mut spec: Value) -> Option<String> {
        spec["containers"] = json!([{ "name": "main", "image": "busybox" }, container]);
        let template =
            json!({ "metadata": { "creationTimestamp": null, "labels": { "a": "b" } }, "spec": spec });
        match check(&template) {
            Ok(()) => None,
            Err(TemplateError::Undecodable { path, .. } | TemplateError::Unknown { path }) => Some(path),
        }
    }

    #[test]
    fn a_valid_template_passes() {
        let container = json!({
            "name": "main", "image": "busybox", "command": ["sh", "-c", "exit 0"], "args": null,
            "env": [{ "name": "A", "value": "{{FC_TASK_INDEX}}" },
                    { "name": "B", "valueFrom": { "resourceFieldRef": { "resource": "x", "divisor": 1 } } }],
            "ports": [{ "containerPort": 80 }],
            "livenessProbe": { "httpGet": { "path": "/", "port": "http" }, "periodSeconds": 5 },
            "resources": { "limits": { "cpu": 1, "memory": "1Gi" }, "requests": { "cpu": 0.5 } },
        });
        let spec = json!({
            "restartPolicy": "Never", "nodeSelector": { "limits": "x" }, "hostNetwork": false, "priority": 1,
            "tolerations": [{ "key": "a", "operator": "Exists", "tolerationSeconds": 5 }],
            "volumes": [{ "name": "v", "emptyDir": { "sizeLimit": 1000 } }, { "name": "w", "emptyDir": {} }],
        });
        assert_eq!(wrong(container, spec), None);
        assert_eq!(check(&json!({})), Ok(()));
    }

    #[test]
    fn a_field_of_the_wrong_type_is_named() {
        let named = |container| wrong(container, json!({})).unwrap();
        assert_eq!(named(json!({ "name": 1 })), "spec.containers[1].name");
        assert_eq!(named(json!("main")), "spec.containers[1]");
        assert_eq!(named(json!({ "env": [{ "name": "A", "value": 1 }] })), "spec.containers[1].env[0].value");
        assert_eq!(
            named(json!({ "ports": [{ "containerPort": "x" }] })),
            "spec.containers[1].ports[0].containerPort"
        );
        assert_eq!(named(json!({ "command": "sh" })), "spec.containers[1].command");
        assert_eq!(
            named(json!({ "resources": { "limits": { "cpu": [] } } })),
            "spec.containers[1].resources.limits.cpu"
        );
        assert_eq!(wrong(json!({}), json!({ "hostNetwork": "yes" })).unwrap(), "spec.hostNetwork");
        let template = json!({ "metadata": { "labels": { "a": 1 } } });
        assert_eq!(undecodable(&template).unwrap(), "metadata.labels.a");
        let sentence = check(&template).unwrap_err().describe("pod");
        assert!(
            sentence.starts_with("pod.metadata.labels.a: ") && sentence.contains("integer `1`"),
            "{sentence}"
        );
    }

    #[test]
    fn a_field_that_kubernetes_would_drop_is_named() {
        assert_eq!(wrong(json!({ "imagee": "x" }), json!({})).unwrap(), "spec.containers[1].imagee");
        assert_eq!(
            wrong(json!({ "env": [{ "Name": "x" }] }), json!({})).unwrap(),
            "spec.containers[1].env[0].Name"
        );
        assert_eq!(wrong(json!({}), json!({ "restartpolicy": "Never" })).unwrap(), "spec.restartpolicy");
        let error = check(&json!({ "spec": { "ActiveDeadlineSeconds": 5, "containers": [] } })).unwrap_err();
        assert_eq!(error, TemplateError::Unknown { path: "spec.ActiveDeadlineSeconds".to_owned() });
        assert_eq!(
            error.describe("pod"),
            "unknown field pod.spec.ActiveDeadlineSeconds is ignored, unless the cluster is newer than \
             Kubernetes 1.34"
        );
        assert_eq!(wrong(json!({ "imagee": null }), json!({})), None, "null is not there");
    }
}
