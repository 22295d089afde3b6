//! A strict check of a pod template: whether Kubernetes reads it as it is written.
//!
//! Templates are stored as they are written. A mistake shows only when a Pod is refused or, worse, when the
//! API server drops an unknown field. [`check`] finds both in advance, to warn with the field's path. It
//! checks the form only, never whether a Pod would be valid, and it decides nothing: the API server does.

use framework_api::pod_template::{Excess, PodTemplate};
use k8s_openapi::api::core::v1::{Container, EphemeralContainer, PodTemplateSpec, Volume};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The first field of a template that is not read as it is written.
///
/// A path is one in the template, such as `spec.containers[0].image`; it is empty for the template itself.
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
            TemplateError::Undecodable { path, message } if path.is_empty() => {
                format!("{template}: {message}")
            }
            TemplateError::Undecodable { path, message } => format!("{template}.{path}: {message}"),
            TemplateError::Unknown { path } => format!(
                "unknown field {template}.{path} is ignored, unless the cluster is newer than Kubernetes 1.34"
            ),
        }
    }
}

/// Decodes a pod template strictly: types, and no unknown fields. One that exceeds a limit is not decoded.
pub fn check(template: &PodTemplate) -> Result<(), TemplateError> {
    let beyond =
        |excess: Excess| TemplateError::Undecodable { path: String::new(), message: excess.to_string() };
    let mut template = template.read().map_err(beyond)?;
    // A struct of these takes kilobytes, however little is written of it. So there is one at a time.
    first([
        check_each::<Volume>(&mut template, "volumes"),
        check_each::<Container>(&mut template, "initContainers"),
        check_each::<Container>(&mut template, "containers"),
        check_each::<EphemeralContainer>(&mut template, "ephemeralContainers"),
        check_as::<PodTemplateSpec>(&template, ""),
    ])
}

/// Checks the elements of a list of the spec, and takes them out of it.
fn check_each<T: DeserializeOwned + Serialize>(
    template: &mut Value,
    list: &str,
) -> Result<(), TemplateError> {
    let elements = template.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
    let elements = elements.map(std::mem::take).unwrap_or_default();
    let check = |(index, element)| check_as::<T>(&element, &format!("spec.{list}[{index}]"));
    first(elements.into_iter().enumerate().map(check))
}

/// The first field with the wrong type; if there is none, the first unknown one.
fn first(results: impl IntoIterator<Item = Result<(), TemplateError>>) -> Result<(), TemplateError> {
    let mut first = Ok(());
    for result in results {
        match result {
            Err(TemplateError::Undecodable { .. }) => return result,
            Err(TemplateError::Unknown { .. }) if first.is_ok() => first = result,
            _ => {}
        }
    }
    first
}

/// Checks a part of the template that begins at this path.
fn check_as<T: DeserializeOwned + Serialize>(part: &Value, path: &str) -> Result<(), TemplateError> {
    let decoded: T = serde_path_to_error::deserialize(part).map_err(|error| {
        let path = match error.path().to_string() {
            inner if inner == "." => path.to_owned(),
            inner if path.is_empty() => inner,
            inner => format!("{path}.{inner}"),
        };
        TemplateError::Undecodable { path, message: error.inner().to_string() }
    })?;
    // `known` lacks the fields that decoding dropped. A template that decodes can be written again.
    let known = serde_json::to_value(decoded).unwrap_or_default();
    match first_unknown(part, &known, path) {
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

    fn check(template: &Value) -> Result<(), TemplateError> {
        super::check(&template.clone().into())
    }

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

    #[test]
    fn a_template_beyond_a_limit_is_not_decoded() {
        let template = json!({ "spec": { "volumes": vec![json!({}); 100_000] } });
        let error = check(&template).unwrap_err();
        let sentence = error.describe("pod");
        assert!(sentence.starts_with("pod: the template has more than 5000 objects"), "{sentence}");
    }
}
