//! Requests as they go over the wire: which verb on which URL with which body.
//!
//! Every write carries what keeps it from hitting anything else than it means: the resourceVersion for a
//! status, a UID precondition for a delete, UID and resourceVersion for a label. Every URL carries
//! `timeout=`, after which the API server gives the request up.

use framework_api::{Framework, FrameworkStatus, name};
use framework_core::{Action, act};
use http::Method;
use serde::Serialize;
use serde_json::json;

use crate::client::SERVER_TIMEOUT;
use crate::event::Request;
use crate::queue;

/// A request, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub uri: String,
    /// `Content-Type` of the body.
    pub content_type: &'static str,
    /// JSON; empty for a GET.
    pub body: Vec<u8>,
    /// As RBAC calls it.
    pub verb: &'static str,
    /// As RBAC calls it, with a slash before the subresource.
    pub resource: &'static str,
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// Why a request cannot be rendered: its object is no longer what the request was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The status knows no such instance any more.
    #[error("the status no longer knows the instance")]
    UnknownInstance,
    /// The Framework has no UID, so it was never read from an API server.
    #[error("the Framework has no UID")]
    NoUid,
}

/// Renders a request.
pub fn render(request: &Request) -> Result<Call, Error> {
    match request {
        Request::PutStatus { framework, resource_version, status, .. } => {
            put_status(framework, *resource_version, status)
        }
        Request::PatchConditions { framework, resource_version, conditions } => {
            let patch = json!({
                "metadata": {"uid": uid_of(framework)?, "resourceVersion": resource_version.to_string()},
                "status": {"conditions": conditions},
            });
            let target = Target::status(framework);
            Ok(target.call(Method::PATCH, "patch", MERGE_PATCH, patch.to_string().into_bytes()))
        }
        Request::Act { framework, status, action } => act_on(framework, status, action),
        // Any response has a Date; this one costs the API server nothing, and everyone may ask for it.
        Request::AskTime => Ok(Target { path: "/version".to_owned(), resource: "version" }.get()),
        Request::GetFramework { key } => Ok(Target::framework(&key.namespace, &key.name).get()),
        Request::Queue(request) => Ok(queue::render(request)),
        Request::GetHolder { key, action } => Ok(match action {
            Action::CreatePod { name, .. } => Target::pod(&key.namespace, name).get(),
            _ => Target::config_map(&key.namespace, &key.name).get(),
        }),
        Request::RestoreLabel { framework, pod, uid, resource_version } => {
            let (namespace, own) = names(framework);
            let target = match pod {
                Some(pod) => Target::pod(namespace, pod),
                None => Target::config_map(namespace, own),
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

/// Renders the write of a status in the form in which it is to be stored.
pub fn put_status(
    framework: &Framework,
    resource_version: u128,
    status: &FrameworkStatus,
) -> Result<Call, Error> {
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
    // The API server takes spec and metadata from the stored object, whatever a status write says of them.
    let body = Body { api_version: name::API_VERSION, kind: name::KIND, metadata, status };
    Ok(Target::status(framework).call(Method::PUT, "update", JSON, to_vec(&body)))
}

fn act_on(framework: &Framework, status: &FrameworkStatus, action: &Action) -> Result<Call, Error> {
    let (namespace, own) = names(framework);
    let target = match action {
        Action::CreateConfigMap { .. } => Target::config_maps(namespace),
        Action::CreatePod { .. } => Target::pods(namespace),
        Action::DeleteConfigMap { .. } | Action::ConfirmConfigMap { .. } => {
            Target::config_map(namespace, own)
        }
        Action::DeletePod { name, .. } | Action::ConfirmPod { name, .. } => Target::pod(namespace, name),
        Action::DeleteFramework => Target::framework(namespace, own),
    };
    Ok(match action {
        Action::CreateConfigMap { .. } | Action::CreatePod { .. } => {
            let body = act::body(framework, status, action).ok_or(Error::UnknownInstance)?;
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

fn uid_of(framework: &Framework) -> Result<&str, Error> {
    framework.metadata.uid.as_deref().ok_or(Error::NoUid)
}

/// JSON of plain data: maps with string keys, so that serialising cannot fail.
fn to_vec(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

/// What a request is about.
pub(crate) struct Target {
    pub path: String,
    pub resource: &'static str,
}

impl Target {
    fn framework(namespace: &str, own: &str) -> Self {
        let path = format!("/apis/{}/namespaces/{namespace}/frameworks/{own}", name::API_VERSION);
        Target { path, resource: "frameworks" }
    }

    fn status(framework: &Framework) -> Self {
        let (namespace, own) = names(framework);
        let mut target = Target::framework(namespace, own);
        target.resource = "frameworks/status";
        target.path.push_str("/status");
        target
    }

    fn config_maps(namespace: &str) -> Self {
        Target { path: format!("/api/v1/namespaces/{namespace}/configmaps"), resource: "configmaps" }
    }

    fn config_map(namespace: &str, framework: &str) -> Self {
        let mut target = Target::config_maps(namespace);
        target.path.push('/');
        target.path.push_str(&name::config_map_name(framework));
        target
    }

    fn pods(namespace: &str) -> Self {
        Target { path: format!("/api/v1/namespaces/{namespace}/pods"), resource: "pods" }
    }

    fn pod(namespace: &str, pod: &str) -> Self {
        let mut target = Target::pods(namespace);
        target.path.push('/');
        target.path.push_str(pod);
        target
    }

    pub fn get(self) -> Call {
        self.call(Method::GET, "get", JSON, Vec::new())
    }

    /// A consistent LIST of one page.
    pub fn list(self, page: u32, after: Option<&str>) -> Call {
        let mut call = self.call(Method::GET, "list", JSON, Vec::new());
        call.uri.push_str(&format!("&limit={page}"));
        if let Some(after) = after {
            call.uri.push_str(&format!("&continue={after}"));
        }
        call
    }

    pub fn delete(self, uid: &str, propagation: Option<&str>, force: bool) -> Call {
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid},
        });
        if let Some(policy) = propagation {
            options["propagationPolicy"] = policy.into();
        }
        if force {
            options["gracePeriodSeconds"] = 0.into();
        }
        self.call(Method::DELETE, "delete", JSON, options.to_string().into_bytes())
    }

    pub fn call(self, method: Method, verb: &'static str, content_type: &'static str, body: Vec<u8>) -> Call {
        let uri = format!("{}?timeout={}s", self.path, SERVER_TIMEOUT.as_secs());
        Call { method, uri, content_type, body, verb, resource: self.resource }
    }
}

#[cfg(test)]
mod tests;
