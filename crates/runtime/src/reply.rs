//! What a response, or the lack of one, means: the one place that tells "had no effect" from "may have".
//!
//! When in doubt, a write may have had its effect: a wrong [`Reply::Refused`] could run a Task twice, a
//! wrong [`Reply::Unknown`] only costs time.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use framework_api::Time;
use framework_core::Action;
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use hyper_util::client::legacy;
use serde::Deserialize;

use crate::event::{ConfigMapObject, FrameworkObject, Key, PodObject, Rejection, Reply, Request};
use crate::queue::{self, Page, UnitObject};
use crate::wire::{self, Wire};

/// The `Date` of a response.
pub fn server_time(headers: &HeaderMap) -> Option<Time> {
    let text = headers.get(DATE)?.to_str().ok()?;
    let parser = jiff::fmt::rfc2822::DateTimeParser::new();
    parser.parse_timestamp(text).ok().map(Time::floor)
}

/// What a complete response to `request` means.
pub fn of_response(request: &Request, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Reply {
    if status.is_success() {
        return success(request, body).unwrap_or_else(|error| {
            // It had its effect, and what it was is unknown: a later GET or the watch will tell.
            Reply::Unknown(format!("the response to a request that succeeded cannot be read: {error}"))
        });
    }
    let error = Failure::read(status, body);
    if is_write(request) && error.may_have_had_effect(status) {
        return Reply::Unknown(format!("{} {}: {}", status.as_u16(), error.reason, error.message));
    }
    Reply::Refused(Rejection {
        code: status.as_u16(),
        reason: error.reason,
        message: error.message,
        retry_after: retry_after(headers),
    })
}

/// What it means that no complete response came.
pub fn of_failure(error: &kube::Error) -> Reply {
    let text = explain(error);
    if never_left(error) { Reply::NotSent(text) } else { Reply::Unknown(text) }
}

fn success(request: &Request, body: &[u8]) -> Result<Reply, String> {
    let text = |error: serde_json::Error| error.to_string();
    match request {
        Request::PutStatus { framework, status, .. } => {
            wire::acknowledged(framework, status, body).map(Reply::Framework)
        }
        Request::PatchConditions { .. } | Request::AskTime => Ok(Reply::Done),
        Request::GetFramework { .. } => {
            let object = wire::decode::<FrameworkObject>(body).map_err(text)?;
            object.map(Reply::Framework).ok_or_else(|| "no Framework".to_owned())
        }
        Request::Queue(request) => unit(request, body).map_err(text),
        Request::GetHolder { key, action: Action::CreatePod { .. } } => pod(key, body).map_err(text),
        Request::GetHolder { .. } => match wire::decode::<ConfigMapObject>(body).map_err(text)? {
            Some(map) if map.facts.framework_uid.is_some() => Ok(Reply::ConfigMap(map)),
            _ => foreign(body, ConfigMapObject::KIND).map_err(text),
        },
        Request::RestoreLabel { framework, pod: Some(_), .. } => pod(&key_of(framework), body).map_err(text),
        Request::RestoreLabel { pod: None, .. } => config_map(body).map_err(text),
        Request::Act { framework, action, .. } => match action {
            Action::CreatePod { .. } | Action::ConfirmPod { .. } => {
                pod(&key_of(framework), body).map_err(text)
            }
            Action::CreateConfigMap { .. } | Action::ConfirmConfigMap { .. } => {
                config_map(body).map_err(text)
            }
            // A Pod that goes on terminating is shown as it stands; one that is gone at once is not.
            Action::DeletePod { .. } => Ok(match wire::decode::<PodObject>(body) {
                Ok(Some(pod)) if pod.facts.deletion.is_some() => Reply::Pod(pod),
                _ => Reply::Done,
            }),
            // A ConfigMap that a finalizer holds back is shown; for one that is gone there is a Status.
            Action::DeleteConfigMap { .. } => Ok(match wire::decode::<ConfigMapObject>(body) {
                Ok(Some(map)) if map.facts.deleting => Reply::ConfigMap(map),
                _ => Reply::Done,
            }),
            Action::DeleteFramework => Ok(Reply::Done),
        },
    }
}

fn key_of(framework: &framework_api::Framework) -> Key {
    let metadata = &framework.metadata;
    Key::new(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

fn pod(key: &Key, body: &[u8]) -> Result<Reply, serde_json::Error> {
    match wire::decode::<PodObject>(body)? {
        Some(pod) if pod.key == *key => Ok(Reply::Pod(pod)),
        _ => foreign(body, PodObject::KIND),
    }
}

fn config_map(body: &[u8]) -> Result<Reply, serde_json::Error> {
    match wire::decode::<ConfigMapObject>(body)? {
        Some(map) => Ok(Reply::ConfigMap(map)),
        None => foreign(body, ConfigMapObject::KIND),
    }
}

/// The unit as it stands; of its end, of a Job and of a Queue, that it was done. A unit whose last finalizer
/// went is shown at the version that it had before, so it says nothing that the watch does not say better.
fn unit(request: &queue::Request, body: &[u8]) -> Result<Reply, serde_json::Error> {
    if let queue::Request::DeleteUnit { .. }
    | queue::Request::LetGo { .. }
    | queue::Request::ResumeJob { .. }
    | queue::Request::ResumeJobSet { .. }
    | queue::Request::PatchQueue { .. } = request
    {
        return Ok(Reply::Done);
    }
    if let queue::Request::ListUnits { .. } = request {
        return wire::page::<UnitObject>(body).map(|(units, after)| Reply::Units(Page { units, after }));
    }
    Ok(wire::decode::<UnitObject>(body)?.map_or(Reply::Done, |unit| Reply::Unit(Box::new(unit))))
}

fn foreign(body: &[u8], kind: &str) -> Result<Reply, serde_json::Error> {
    wire::describe_holder(body, kind).map(Reply::Foreign)
}

fn is_write(request: &Request) -> bool {
    match request {
        Request::PutStatus { .. } | Request::PatchConditions { .. } | Request::RestoreLabel { .. } => true,
        Request::GetFramework { .. } | Request::GetHolder { .. } | Request::AskTime => false,
        Request::Queue(request) => request.is_write(),
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

/// The Status that the API server answers with, or what stands for it.
struct Failure {
    reason: String,
    message: String,
    /// Whether it is a Status of an API server, not the words of something in between.
    is_status: bool,
}

impl Failure {
    fn read(status: StatusCode, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Status {
            kind: String,
            #[serde(default)]
            reason: Option<String>,
            #[serde(default)]
            message: Option<String>,
        }
        let words = || status.canonical_reason().unwrap_or("unknown").to_owned();
        match serde_json::from_slice::<Status>(body) {
            Ok(read) if read.kind == "Status" => Failure {
                reason: read.reason.unwrap_or_else(|| words().replace(' ', "")),
                message: read.message.unwrap_or_else(words),
                is_status: true,
            },
            _ => {
                let text = String::from_utf8_lossy(&body[..body.len().min(300)]).trim().to_owned();
                let message = if text.is_empty() { words() } else { text };
                Failure { reason: words().replace(' ', ""), message, is_status: false }
            }
        }
    }

    /// Whether a write that was answered so may have had its effect, or may yet have it.
    fn may_have_had_effect(&self, status: StatusCode) -> bool {
        match status.as_u16() {
            // An admission webhook runs before anything is stored.
            500 => !self.message.contains("failed calling webhook"),
            // The API server says so before it does anything; a proxy may say so at any time.
            503 => !self.is_status,
            // It gave up waiting: for etcd, or for an upstream.
            code => status.is_server_error() || code == 408,
        }
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Whether it is certain that no byte of the request reached the API server.
fn never_left(error: &kube::Error) -> bool {
    if matches!(error, kube::Error::Auth(_)) {
        return true;
    }
    chain(error).any(|cause| {
        let refused = |io: &io::Error| io.kind() == io::ErrorKind::ConnectionRefused;
        cause.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
            || cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled)
            || cause.downcast_ref::<io::Error>().is_some_and(refused)
    })
}

fn chain(error: &kube::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

/// The error with its causes, each said once.
fn explain(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests;
