//! A check of a pod template: whether each field that is known has its type.
//!
//! Templates are stored as they are written. A field of the wrong type shows only when a Pod is refused.
//! [`check`] finds it in advance, to warn with the field's path. It checks the form only, never whether a Pod
//! would be valid, and it decides nothing: the API server does. It says nothing of unknown fields, because
//! only the API server knows the fields of its version: its response to the create of a Pod names them.

use framework_api::pod_template::{Excess, PodTemplate};
use k8s_openapi::api::core::v1::{Container, EphemeralContainer, PodTemplateSpec, Volume};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The first field of a template that has the wrong type: the API server refuses the Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Path of the field in the template, such as `spec.containers[0].image`; empty for the template itself.
    pub path: String,
    /// The problem of the field.
    pub message: String,
}

impl TemplateError {
    /// The error in a sentence, for a template that stands at `template` in the object.
    pub fn describe(&self, template: &str) -> String {
        let TemplateError { path, message } = self;
        if path.is_empty() {
            format!("{template}: {message}")
        } else {
            format!("{template}.{path}: {message}")
        }
    }
}

/// Decodes a pod template. One that exceeds a limit is not decoded.
pub fn check(template: &PodTemplate) -> Result<(), TemplateError> {
    let beyond = |excess: Excess| TemplateError { path: String::new(), message: excess.to_string() };
    let mut template = template.read().map_err(beyond)?;
    // A struct of these takes kilobytes, however little is written of it. So there is one at a time.
    check_each::<Volume>(&mut template, "volumes")?;
    check_each::<Container>(&mut template, "initContainers")?;
    check_each::<Container>(&mut template, "containers")?;
    check_each::<EphemeralContainer>(&mut template, "ephemeralContainers")?;
    check_as::<PodTemplateSpec>(&template, "")
}

/// Checks the elements of a list of the spec, and takes them out of it.
fn check_each<T: DeserializeOwned>(template: &mut Value, list: &str) -> Result<(), TemplateError> {
    let elements = template.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
    let elements = elements.map(std::mem::take).unwrap_or_default();
    let check = |(index, element)| check_as::<T>(&element, &format!("spec.{list}[{index}]"));
    elements.into_iter().enumerate().try_for_each(check)
}

/// Checks a part of the template that begins at this path.
fn check_as<T: DeserializeOwned>(part: &Value, path: &str) -> Result<(), TemplateError> {
    let decoded: Result<T, _> = serde_path_to_error::deserialize(part);
    decoded.map(drop).map_err(|error| {
        let path = match error.path().to_string() {
            inner if inner == "." => path.to_owned(),
            inner if path.is_empty() => inner,
            inner => format!("{path}.{inner}"),
        };
        TemplateError { path, message: error.inner().to_string() }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(template: &Value) -> Result<(), TemplateError> {
        super::check(&template.clone().into())
    }

    /// Path of the field that is wrong in a template with this container and these other fields of its spec.
    fn wrong(container: Value, mut spec: Value) -> Option<String> {
        spec["containers"] = json!([{ "name": "main", "image": "busybox" }, container]);
        let template =
            json!({ "metadata": { "creationTimestamp": null, "labels": { "a": "b" } }, "spec": spec });
        check(&template).err().map(|error| error.path)
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
        let sentence = check(&template).unwrap_err().describe("pod");
        assert!(
            sentence.starts_with("pod.metadata.labels.a: ") && sentence.contains("integer `1`"),
            "{sentence}"
        );
    }

    #[test]
    fn a_field_that_is_not_known_is_left_to_the_api_server() {
        assert_eq!(wrong(json!({ "imagee": "x", "env": [{ "Name": "x" }] }), json!({ "new": 1 })), None);
    }

    #[test]
    fn a_template_beyond_a_limit_is_not_decoded() {
        let template = json!({ "spec": { "volumes": vec![json!({}); 100_000] } });
        let error = check(&template).unwrap_err();
        let sentence = error.describe("pod");
        assert!(sentence.starts_with("pod: the template has more than 5000 objects"), "{sentence}");
    }
}
