//! The objects that represent attempts: the Pod of a TaskAttempt and the ConfigMap of a FrameworkAttempt.
//!
//! Both are rendered when they are sent, from the Framework's spec and its persisted status, so that a queue
//! of creates holds no bodies. An invalid template is passed on, and the API server refuses it with its own
//! message. Only a template that exceeds a limit is not rendered.

mod placeholder;
pub mod template;
#[cfg(test)]
mod tests;

use framework_api::name::{self, variable};
use framework_api::pod_template::Excess;
use framework_api::queue::{NAMESPACE_SLOT_LABEL, QUEUE_NAME_LABEL};
use framework_api::status::{TaskRoleStatus, TaskStatus};
use framework_api::{Framework, FrameworkStatus};
use serde_json::{Map, Value, json};

use crate::queue;
use placeholder::Placeholders;

/// The identity of a FrameworkAttempt, as its ConfigMap has it.
#[derive(Clone, Copy, Debug)]
pub struct AttemptContext<'a> {
    /// Namespace of the Framework.
    pub framework_namespace: &'a str,
    /// Name of the Framework.
    pub framework_name: &'a str,
    /// UID of the Framework.
    pub framework_uid: &'a str,
    /// Id of the FrameworkAttempt.
    pub attempt_id: i32,
    /// Name of its ConfigMap.
    pub config_map_name: &'a str,
    /// The queue that released the Framework, if any.
    pub queue: Option<&'a str>,
}

/// The identity of a TaskAttempt, as its Pod has it.
#[derive(Clone, Copy, Debug)]
pub struct PodContext<'a> {
    /// The FrameworkAttempt.
    pub attempt: AttemptContext<'a>,
    /// Instance UID of the FrameworkAttempt.
    pub attempt_instance_uid: &'a str,
    /// UID of its ConfigMap.
    pub config_map_uid: &'a str,
    /// Name of the TaskRole.
    pub task_role_name: &'a str,
    /// Instance UID of the TaskRole.
    pub task_role_uid: &'a str,
    /// Index of the Task.
    pub task_index: i32,
    /// Instance UID of the Task.
    pub task_uid: &'a str,
    /// Id of the TaskAttempt.
    pub task_attempt_id: i32,
    /// Name of the Pod.
    pub pod_name: &'a str,
}

impl<'a> AttemptContext<'a> {
    fn of(framework: &'a Framework, status: &'a FrameworkStatus) -> Self {
        let metadata = &framework.metadata;
        AttemptContext {
            framework_namespace: metadata.namespace.as_deref().unwrap_or_default(),
            framework_name: metadata.name.as_deref().unwrap_or_default(),
            framework_uid: metadata.uid.as_deref().unwrap_or_default(),
            attempt_id: status.attempt_status.id,
            config_map_name: &status.attempt_status.config_map_name,
            queue: queue::mark(framework, status),
        }
    }
}

impl<'a> PodContext<'a> {
    /// `None` before the UID of the ConfigMap, which owns the Pod, is recorded.
    fn of(
        framework: &'a Framework,
        status: &'a FrameworkStatus,
        role: &'a TaskRoleStatus,
        task: &'a TaskStatus,
    ) -> Option<Self> {
        Some(PodContext {
            attempt: AttemptContext::of(framework, status),
            attempt_instance_uid: status.attempt_status.instance_uid.as_deref()?,
            config_map_uid: status.attempt_status.config_map_uid.as_deref()?,
            task_role_name: &role.name,
            task_role_uid: &role.instance_uid,
            task_index: task.index,
            task_uid: &task.instance_uid,
            task_attempt_id: task.attempt_status.id,
            pod_name: &task.attempt_status.pod_name,
        })
    }
}

/// The ConfigMap of the current FrameworkAttempt.
pub fn config_map_of(framework: &Framework, status: &FrameworkStatus) -> Value {
    render_config_map(&AttemptContext::of(framework, status))
}

/// The Pod of the current attempt of a Task. `None` if the spec or the status lacks the Task, or if there
/// is no ConfigMap to own it.
pub fn pod_of(
    framework: &Framework,
    status: &FrameworkStatus,
    role: &str,
    index: i32,
) -> Option<Result<Value, Excess>> {
    let spec = framework.spec.task_role(role)?;
    let task = status.task(role, index)?;
    let role = status.task_roles().iter().find(|known| known.name == role)?;
    let context = PodContext::of(framework, status, role, task)?;
    Some(spec.task.pod.read().map(|template| render_pod(template, &context)))
}

/// The ConfigMap that represents a FrameworkAttempt, ready to be posted.
pub fn render_config_map(attempt: &AttemptContext<'_>) -> Value {
    let framework = owner(name::API_VERSION, name::KIND, attempt.framework_name, attempt.framework_uid);
    let mut labels = json!({
        variable::FRAMEWORK_NAME: attempt.framework_name,
        name::SLOT_LABEL: name::slot(attempt.framework_uid).to_string(),
    });
    if let Value::Object(labels) = &mut labels {
        labels.extend(queue_labels(attempt));
    }
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": attempt.config_map_name,
            "namespace": attempt.framework_namespace,
            "finalizers": [name::FOREGROUND_DELETION],
            "ownerReferences": [framework],
            "annotations": {
                variable::FRAMEWORK_NAMESPACE: attempt.framework_namespace,
                variable::FRAMEWORK_NAME: attempt.framework_name,
                variable::CONFIGMAP_NAME: attempt.config_map_name,
                variable::FRAMEWORK_UID: attempt.framework_uid,
                variable::FRAMEWORK_ATTEMPT_ID: attempt.attempt_id.to_string(),
            },
            "labels": labels,
        },
    })
}

/// The Pod that represents a TaskAttempt, ready to be posted. It is the template with its placeholders
/// replaced, and with the identity of the attempt in its metadata and in the environment of its containers.
pub fn render_pod(mut pod: Value, context: &PodContext<'_>) -> Value {
    let variables = variables(context);
    Placeholders::new(&variables).replace(&mut pod);
    let Value::Object(fields) = &mut pod else { return pod };
    fields.insert("apiVersion".to_owned(), "v1".into());
    fields.insert("kind".to_owned(), "Pod".into());
    if let Some(metadata) = object(fields, "metadata") {
        identify(metadata, context, &variables);
    }
    if let Some(Value::Object(spec)) = fields.get_mut("spec") {
        let env = environment(context, &variables);
        for kind in ["initContainers", "containers"] {
            let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
            containers.into_iter().flatten().filter_map(Value::as_object_mut).for_each(|container| {
                equip(container, &env);
            });
        }
    }
    pod
}

/// The variables that a Pod gets as annotations and environment, with their values.
fn variables(context: &PodContext<'_>) -> [(&'static str, String); 13] {
    let attempt = &context.attempt;
    [
        (variable::FRAMEWORK_NAMESPACE, attempt.framework_namespace.to_owned()),
        (variable::FRAMEWORK_NAME, attempt.framework_name.to_owned()),
        (variable::TASKROLE_NAME, context.task_role_name.to_owned()),
        (variable::TASK_INDEX, context.task_index.to_string()),
        (variable::CONFIGMAP_NAME, attempt.config_map_name.to_owned()),
        (variable::POD_NAME, context.pod_name.to_owned()),
        (variable::FRAMEWORK_UID, attempt.framework_uid.to_owned()),
        (variable::FRAMEWORK_ATTEMPT_ID, attempt.attempt_id.to_string()),
        (variable::FRAMEWORK_ATTEMPT_INSTANCE_UID, context.attempt_instance_uid.to_owned()),
        (variable::CONFIGMAP_UID, context.config_map_uid.to_owned()),
        (variable::TASKROLE_UID, context.task_role_uid.to_owned()),
        (variable::TASK_UID, context.task_uid.to_owned()),
        (variable::TASK_ATTEMPT_ID, context.task_attempt_id.to_string()),
    ]
}

/// Sets the identity of a Pod in its metadata, over the values of the template.
fn identify(metadata: &mut Map<String, Value>, context: &PodContext<'_>, variables: &[(&str, String)]) {
    metadata.insert("name".to_owned(), context.pod_name.into());
    metadata.insert("namespace".to_owned(), context.attempt.framework_namespace.into());
    let config_map = owner("v1", "ConfigMap", context.attempt.config_map_name, context.config_map_uid);
    match metadata.entry("ownerReferences").or_insert(Value::Null) {
        Value::Array(owners) => owners.push(config_map),
        unset @ Value::Null => *unset = Value::Array(vec![config_map]),
        _ => {}
    }
    if let Some(annotations) = object(metadata, "annotations") {
        annotations.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())));
    }
    if let Some(labels) = object(metadata, "labels") {
        let slot = name::slot(context.attempt.framework_uid).to_string();
        labels.insert(variable::FRAMEWORK_NAME.to_owned(), context.attempt.framework_name.into());
        labels.insert(variable::TASKROLE_NAME.to_owned(), context.task_role_name.into());
        labels.insert(variable::TASK_INDEX.to_owned(), context.task_index.to_string().into());
        labels.insert(name::SLOT_LABEL.to_owned(), slot.into());
        labels.extend(queue_labels(&context.attempt));
    }
}

/// The labels of the objects of a Framework that came through a queue: the queue, and the slot of the
/// namespace. The replica that decides there watches them by that slot.
fn queue_labels(attempt: &AttemptContext<'_>) -> Vec<(String, Value)> {
    let Some(queue) = attempt.queue else { return Vec::new() };
    let slot = name::slot(attempt.framework_namespace).to_string();
    vec![(QUEUE_NAME_LABEL.to_owned(), queue.into()), (NAMESPACE_SLOT_LABEL.to_owned(), slot.into())]
}

/// The environment of every container. The kubelet composes the instance UID from the variable before it:
/// the Pod's UID is not known before the Pod exists.
fn environment(context: &PodContext<'_>, variables: &[(&str, String)]) -> Vec<Value> {
    let mut env: Vec<Value> =
        variables.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let pod_uid = variable::POD_UID;
    let instance_uid = name::attempt_instance_uid(context.task_attempt_id, &format!("$({pod_uid})"));
    env.push(json!({ "name": pod_uid, "valueFrom": { "fieldRef": { "fieldPath": "metadata.uid" } } }));
    env.push(json!({ "name": variable::TASK_ATTEMPT_INSTANCE_UID, "value": instance_uid }));
    env
}

/// Puts our variables before the user's own, so that these can refer to ours and override them. A container
/// without a termination message falls back to the end of its log.
fn equip(container: &mut Map<String, Value>, ours: &[Value]) {
    match container.entry("env").or_insert(Value::Null) {
        Value::Array(env) => drop(env.splice(0..0, ours.iter().cloned())),
        unset @ Value::Null => *unset = Value::Array(ours.to_vec()),
        _ => {}
    }
    let policy = container.entry("terminationMessagePolicy").or_insert(Value::Null);
    if policy.is_null() || policy.as_str() == Some("") {
        *policy = "FallbackToLogsOnError".into();
    }
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The object in that field, added if it is unset; `None` if the field has another type.
fn object<'v>(fields: &'v mut Map<String, Value>, field: &str) -> Option<&'v mut Map<String, Value>> {
    let value = fields.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}
