//! Requests of the engine as they go over the wire.

use http::Method;
use serde::Serialize;
use serde_json::json;

use framework_api::{Framework, FrameworkStatus, name};
use framework_core::{Action, act};
use framework_engine::request::Request;
use framework_message::Slot;

use super::call::{Call, CallError, JSON, MERGE_PATCH, Target};

/// Renders a request of the engine. It fails if the Framework has no UID, if the status no longer has the
/// instance of a create, or if a pod template exceeds a limit.
pub fn render(request: &Request) -> Result<Call, CallError> {
    match request {
        Request::PutStatus { framework, resource_version, status, .. } => {
            put_status(framework, *resource_version, status)
        }
        Request::PatchConditions { framework, resource_version, conditions } => {
            let patch = json!({
                "metadata": {"uid": uid_of(framework)?, "resourceVersion": resource_version.to_string()},
                "status": {"conditions": conditions},
            });
            let target = status_of(framework);
            Ok(target.call(Method::PATCH, "patch", MERGE_PATCH, patch.to_string().into_bytes()))
        }
        Request::Act { framework, status, action } => act_on(framework, status, action),
        // Any response has a Date; this one costs the API server nothing, and every account may read it.
        Request::AskTime => Ok(Target::at("/version", "version").get()),
        Request::GetFramework { key } => Ok(framework_at(&key.namespace, &key.name).get()),
        Request::GetHolder { key, action } => Ok(match action {
            Action::CreatePod { name, .. } => pod_at(&key.namespace, name).get(),
            _ => config_map(&key.namespace, &key.name).get(),
        }),
        Request::RestoreLabel { framework, pod, uid, resource_version } => {
            let (namespace, own) = names(framework);
            let target = match pod {
                Some(name) => pod_at(namespace, name),
                None => config_map(namespace, own),
            };
            let slot = name::slot(uid_of(framework)?).to_string();
            let patch = json!({"metadata": {
                "uid": uid,
                "resourceVersion": resource_version.to_string(),
                "labels": {name::SLOT_LABEL: slot},
            }});
            Ok(target.call(Method::PATCH, "patch", MERGE_PATCH, patch.to_string().into_bytes()))
        }
    }
}

/// The slot of the Framework that a request creates an object for.
pub fn creates_for(request: &Request) -> Option<Slot> {
    match request {
        Request::Act {
            framework, action: Action::CreateConfigMap { .. } | Action::CreatePod { .. }, ..
        } => framework.metadata.uid.as_deref().map(Slot::of),
        _ => None,
    }
}

/// About how many bytes the body of a request takes.
pub fn body_bytes(request: &Request) -> usize {
    const LEAST: usize = 4096;
    /// A larger status is compressed.
    const STATUS: usize = 1 << 20;
    const TASK: usize = 1024;
    match request {
        Request::PutStatus { status, .. } => LEAST + (status.all_tasks().count() * TASK).min(STATUS),
        Request::Act { framework, action: Action::CreatePod { task_role, .. }, .. } => {
            framework.spec.task_role(task_role).map_or(LEAST, |role| role.task.pod.rendered_bytes())
        }
        _ => LEAST,
    }
}

/// Renders the write of a status in the form in which it is to be stored.
pub fn put_status(
    framework: &Framework,
    resource_version: u128,
    status: &FrameworkStatus,
) -> Result<Call, CallError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Body<'a> {
        api_version: &'a str,
        kind: &'a str,
        metadata: Metadata<'a>,
        status: &'a FrameworkStatus,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        name: &'a str,
        namespace: &'a str,
        uid: &'a str,
        resource_version: String,
    }
    let (namespace, name) = names(framework);
    let metadata =
        Metadata { name, namespace, uid: uid_of(framework)?, resource_version: resource_version.to_string() };
    // A status write carries no spec: the API server keeps spec and metadata of the stored object.
    let body = Body { api_version: name::API_VERSION, kind: name::KIND, metadata, status };
    Ok(status_of(framework).call(Method::PUT, "update", JSON, to_vec(&body)))
}

fn act_on(framework: &Framework, status: &FrameworkStatus, action: &Action) -> Result<Call, CallError> {
    let (namespace, own) = names(framework);
    let target = match action {
        Action::CreateConfigMap { .. } => config_maps(namespace),
        Action::CreatePod { .. } => pods(namespace),
        Action::DeleteConfigMap { .. } | Action::ConfirmConfigMap { .. } => config_map(namespace, own),
        Action::DeletePod { name, .. } | Action::ConfirmPod { name, .. } => pod_at(namespace, name),
        Action::DeleteFramework => framework_at(namespace, own),
    };
    Ok(match action {
        Action::CreateConfigMap { .. } | Action::CreatePod { .. } => {
            let body = act::body(framework, status, action).ok_or(CallError::UnknownInstance)??;
            target.call(Method::POST, "create", JSON, to_vec(&body))
        }
        // Its Pods are gone by now, so nothing is left to the garbage collector.
        Action::DeleteConfigMap { uid } => target.delete(uid, Some("Background"), false),
        Action::DeletePod { uid, force, .. } => target.delete(uid, None, *force),
        Action::DeleteFramework => target.delete(uid_of(framework)?, Some("Foreground"), false),
        Action::ConfirmConfigMap { .. } | Action::ConfirmPod { .. } => target.get(),
    })
}

fn names(framework: &Framework) -> (&str, &str) {
    let metadata = &framework.metadata;
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

fn uid_of(framework: &Framework) -> Result<&str, CallError> {
    framework.metadata.uid.as_deref().ok_or(CallError::NoUid)
}

/// JSON of plain data: maps with string keys, so that serialising cannot fail.
fn to_vec(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

pub(super) fn framework_at(namespace: &str, own: &str) -> Target {
    Target::at(&format!("/apis/{}", name::API_VERSION), "frameworks")
        .objects(namespace, "frameworks")
        .segment(own)
}

fn status_of(framework: &Framework) -> Target {
    let (namespace, own) = names(framework);
    framework_at(namespace, own).status("frameworks/status")
}

fn config_maps(namespace: &str) -> Target {
    Target::at("/api/v1", "configmaps").objects(namespace, "configmaps")
}

fn config_map(namespace: &str, framework: &str) -> Target {
    config_maps(namespace).segment(&name::config_map_name(framework))
}

fn pods(namespace: &str) -> Target {
    Target::at("/api/v1", "pods").objects(namespace, "pods")
}

fn pod_at(namespace: &str, pod: &str) -> Target {
    pods(namespace).segment(pod)
}

#[cfg(test)]
pub(crate) mod tests;
