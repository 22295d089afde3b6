//! Responses to the requests of the engine.

use framework_core::Action;
use framework_engine::object::{ConfigMapObject, FrameworkObject, Object, PodObject, Reply};
use framework_engine::request::Request;
use framework_message::Key;

use crate::wire::{self, Wire};

/// The longest path of a field that is reported.
pub const LONGEST_FIELD: usize = 256;

/// Reads the body of a successful response.
pub fn success(request: &Request, body: &[u8]) -> Result<Reply, String> {
    let text = |error: serde_json::Error| error.to_string();
    match request {
        Request::PutStatus { framework, status, .. } => {
            wire::acknowledged(framework, status, body).map(framework_reply)
        }
        Request::PatchConditions { .. } | Request::AskTime => Ok(Reply::Done),
        Request::GetFramework { .. } => {
            let object = wire::decode::<FrameworkObject>(body).map_err(text)?;
            object.map(framework_reply).ok_or_else(|| "no Framework".to_owned())
        }
        Request::GetHolder { key, action: Action::CreatePod { .. } } => pod(key, body).map_err(text),
        Request::GetHolder { .. } => match wire::decode::<ConfigMapObject>(body).map_err(text)? {
            Some(map) if map.facts.framework_uid.is_some() => Ok(Reply::Object(Object::ConfigMap(map))),
            _ => foreign(body, ConfigMapObject::RESOURCE.kind).map_err(text),
        },
        Request::RestoreLabel { framework, pod: Some(_), .. } => pod(&Key::of(framework), body).map_err(text),
        Request::RestoreLabel { pod: None, .. } => config_map(body).map_err(text),
        Request::Act { framework, action, .. } => match action {
            Action::CreatePod { .. } | Action::ConfirmPod { .. } => {
                pod(&Key::of(framework), body).map_err(text)
            }
            Action::CreateConfigMap { .. } | Action::ConfirmConfigMap { .. } => {
                config_map(body).map_err(text)
            }
            // A Pod that goes on terminating is shown as it stands; one that is gone at once is not.
            Action::DeletePod { .. } => Ok(match wire::decode::<PodObject>(body) {
                Ok(Some(pod)) if pod.facts.deletion.is_some() => Reply::Object(Object::Pod(pod)),
                _ => Reply::Done,
            }),
            // A ConfigMap that a finalizer holds back is shown; for one that is gone there is a Status.
            Action::DeleteConfigMap { .. } => Ok(match wire::decode::<ConfigMapObject>(body) {
                Ok(Some(map)) if map.facts.deleting => Reply::Object(Object::ConfigMap(map)),
                _ => Reply::Done,
            }),
            Action::DeleteFramework => Ok(Reply::Done),
        },
    }
}

/// The first field that the API server does not know is reported with the Pod that it has created without it.
/// The API server warns of all such fields unless a request says otherwise; no request asks for it.
pub fn warned(request: &Request, reply: Reply, warning: &str) -> Reply {
    match (request, reply) {
        (Request::Act { action: Action::CreatePod { .. }, .. }, Reply::Object(Object::Pod(pod))) => {
            match unknown_field(warning) {
                Some(field) => Reply::Object(Object::PodWithout(pod, field)),
                None => Reply::Object(Object::Pod(pod)),
            }
        }
        (_, reply) => reply,
    }
}

/// The field of a warning such as `299 - "unknown field \"spec.imagee\""`.
fn unknown_field(warning: &str) -> Option<String> {
    let (_, rest) = warning.split_once("\"unknown field \\\"")?;
    let (field, _) = rest.split_once("\\\"")?;
    let is_good = !field.is_empty() && field.len() <= LONGEST_FIELD;
    is_good.then(|| field.to_owned())
}

fn pod(key: &Key, body: &[u8]) -> Result<Reply, serde_json::Error> {
    match wire::decode::<PodObject>(body)? {
        Some(pod) if pod.key == *key => Ok(Reply::Object(Object::Pod(pod))),
        _ => foreign(body, PodObject::RESOURCE.kind),
    }
}

fn config_map(body: &[u8]) -> Result<Reply, serde_json::Error> {
    match wire::decode::<ConfigMapObject>(body)? {
        Some(map) => Ok(Reply::Object(Object::ConfigMap(map))),
        None => foreign(body, ConfigMapObject::RESOURCE.kind),
    }
}

fn framework_reply(object: FrameworkObject) -> Reply {
    Reply::Object(Object::Framework(object))
}

fn foreign(body: &[u8], kind: &str) -> Result<Reply, serde_json::Error> {
    wire::describe_holder(body, kind).map(Reply::Foreign)
}

/// Whether the request changes anything.
pub fn is_write(request: &Request) -> bool {
    match request {
        Request::PutStatus { .. } | Request::PatchConditions { .. } | Request::RestoreLabel { .. } => true,
        Request::GetFramework { .. } | Request::GetHolder { .. } | Request::AskTime => false,
        Request::Act { action, .. } => match action {
            Action::CreateConfigMap { .. }
            | Action::CreatePod { .. }
            | Action::DeleteConfigMap { .. }
            | Action::DeletePod { .. }
            | Action::DeleteFramework => true,
            Action::ConfirmConfigMap { .. } | Action::ConfirmPod { .. } => false,
        },
    }
}
