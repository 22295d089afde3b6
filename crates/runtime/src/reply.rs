//! The meaning of a response, or of the lack of one: only here "had no effect" and "may have had one" are
//! distinguished.
//!
//! When in doubt, a write may have had its effect: a wrong [`Reply::Refused`] could run a Task twice, a
//! wrong [`Reply::Unknown`] only costs time.

use std::io;

use http::header::{DATE, WARNING};
use http::{HeaderMap, StatusCode};
use hyper_util::client::legacy;
use kube::client::AuthError;
use serde::Deserialize;

use framework_access::client::words;
use framework_access::fenced_body::FenceClosed;
use framework_api::Time;
use framework_message::{Rejection, Reply};

use crate::exchange::Exchange;
use crate::fencing_token;
use crate::pace::{self, retry_after};
use crate::request::call::CallError;

pub mod engine;
pub mod queueing;

/// The bytes of a page of a LIST that are read.
const MOST_BYTES_OF_PAGE: usize = pace::MOST_BYTES;
/// The same of an object. etcd takes objects of 1.5 MiB, which as JSON may be twice as long.
const MOST_BYTES_OF_OBJECT: usize = 4 << 20;
/// The same of a refusal. The API server lists each cause twice, and a Pod may have 100,000.
const MOST_BYTES_OF_FAILURE: usize = 64 << 10;
/// The bytes of a message that are kept, as many as of a container's: one may be kept for each Task.
const MOST_OF_MESSAGE: usize = 4096;

/// The bytes of a response to a request with this verb that are read.
pub fn most_bytes(verb: &str, status: StatusCode) -> usize {
    match verb {
        _ if !status.is_success() => MOST_BYTES_OF_FAILURE,
        "list" => MOST_BYTES_OF_PAGE,
        _ => MOST_BYTES_OF_OBJECT,
    }
}

/// The reason why a request had no effect whose right to leave ended before a connection took it.
pub const FENCED: &str = "the right to act for its slot ended before it left";

/// The `Date` of a response.
pub fn server_time(headers: &HeaderMap) -> Option<Time> {
    let text = headers.get(DATE)?.to_str().ok()?;
    let parser = jiff::fmt::rfc2822::DateTimeParser::new();
    parser.parse_timestamp(text).ok().map(Time::floor)
}

/// The meaning of a complete response to `request`.
pub fn of_response<R: Exchange>(
    request: &R,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Reply<R::Object> {
    if status.is_success() {
        let reply = request.success(body).unwrap_or_else(|error| {
            // It had its effect, which a later GET or the watch will show.
            Reply::Unknown(format!("the response to a request that succeeded cannot be read: {error}"))
        });
        let warnings = headers.get_all(WARNING).iter().filter_map(|warning| warning.to_str().ok());
        return warnings.fold(reply, |reply, warning| request.warned(reply, warning));
    }
    let error = Failure::read(status, body);
    let is_open = request.is_write() && error.may_have_had_effect(status);
    if is_open || error.proves_nothing(status) {
        return Reply::Unknown(format!("{} ({})", error.message, status.as_u16()));
    }
    if fencing_token::is_over(&error.message) {
        return Reply::NotSent(fencing_token::OVER.to_owned());
    }
    Reply::Refused(error.rejection(status, headers))
}

/// The refusal in a response without success. The request may have had an effect all the same.
pub fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Rejection {
    Failure::read(status, body).rejection(status, headers)
}

/// The meaning of a request that cannot be rendered. A Pod whose template exceeds a limit is refused here as
/// the API server refuses an invalid one.
pub fn of_unrendered<T>(error: &CallError) -> Reply<T> {
    let CallError::Invalid(excess) = error else { return Reply::NotSent(error.to_string()) };
    Reply::Refused(Rejection {
        code: StatusCode::UNPROCESSABLE_ENTITY.as_u16(),
        reason: "Invalid".to_owned(),
        message: excess.to_string(),
        retry_after: None,
    })
}

/// The meaning of the lack of a complete response.
pub fn of_failure<T>(error: &kube::Error) -> Reply<T> {
    // Its head may have left. The API server waits for the whole body, and does nothing without it.
    if chain(error).any(|cause| cause.is::<FenceClosed>()) {
        return Reply::NotSent(FENCED.to_owned());
    }
    let text = words(error);
    if never_left(error) { Reply::NotSent(text) } else { Reply::Unknown(text) }
}

/// The first bytes of a Status, as the API server writes it.
const STATUS: &[u8] = b"{\"kind\":\"Status\"";

/// The Status that the API server answers with, or a substitute for it.
struct Failure {
    reason: String,
    message: String,
    /// Whether it is a Status of an API server, not the text of a proxy.
    is_status: bool,
}

impl Failure {
    fn read(status: StatusCode, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            kind: String,
            api_version: String,
            #[serde(default)]
            reason: Option<String>,
            #[serde(default)]
            message: Option<String>,
        }
        let words = || status.canonical_reason().unwrap_or("unknown").to_owned();
        match serde_json::from_slice::<Status>(body) {
            Ok(read) if read.kind == "Status" && read.api_version == "v1" => Failure {
                // Only an answer without a Status has no reason.
                reason: read.reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| UNKNOWN.to_owned()),
                message: truncate(read.message.unwrap_or_else(words)),
                is_status: true,
            },
            Err(_) if body.len() >= MOST_BYTES_OF_FAILURE && body.starts_with(STATUS) => {
                // It was not read to its end. The reason comes after the message: the code stands for it.
                let text = String::from_utf8_lossy(&body[..2 * MOST_OF_MESSAGE]);
                let message =
                    text.split_once("\"message\":\"").map_or(&*text, |(_, message)| message).to_owned();
                let reason = Some(reason_of(status)).filter(|reason| !reason.is_empty()).unwrap_or(UNKNOWN);
                Failure { reason: reason.to_owned(), message: truncate(message), is_status: true }
            }
            _ => {
                let text = String::from_utf8_lossy(&body[..body.len().min(300)]).trim().to_owned();
                let message = if text.is_empty() { words() } else { text };
                Failure { reason: reason_of(status).to_owned(), message, is_status: false }
            }
        }
    }

    fn rejection(self, status: StatusCode, headers: &HeaderMap) -> Rejection {
        // A webhook chooses the code of its denial, and can tell neither of the object nor of the API server.
        let is_beyond_it = tells_of_state(status) || status.is_server_error();
        let code = if self.is_denial() && is_beyond_it { StatusCode::FORBIDDEN } else { status };
        let Failure { reason, message, .. } = self;
        Rejection { code: code.as_u16(), reason, message, retry_after: retry_after(headers) }
    }

    /// Whether an answer about the state of an object does not come from an API server. A proxy that has lost
    /// its upstreams knows nothing of the object; neither does an API server that does not serve its kind.
    fn proves_nothing(&self, status: StatusCode) -> bool {
        !self.is_status && tells_of_state(status)
    }

    /// Whether an admission webhook denied the request. Only the API server begins a message so.
    fn is_denial(&self) -> bool {
        self.is_status && self.message.starts_with("admission webhook ")
    }

    /// Whether admission refused the request, which is before anything is stored.
    fn is_of_admission(&self) -> bool {
        let is_failure = self.message.contains("failed calling webhook") || self.message == QUOTA_TIMED_OUT;
        self.is_denial() || self.is_status && is_failure
    }

    /// Whether a write that was answered so may have had its effect, or may yet have it.
    fn may_have_had_effect(&self, status: StatusCode) -> bool {
        match status.as_u16() {
            _ if self.is_of_admission() => false,
            // The API server says so before it does anything; a proxy may say so at any time.
            503 => !self.is_status,
            // It gave up waiting: for etcd, or for an upstream.
            code => status.is_server_error() || code == 408,
        }
    }
}

/// Whether an answer with this code tells of the state of an object.
fn tells_of_state(status: StatusCode) -> bool {
    matches!(status.as_u16(), 404 | 409 | 410)
}

/// The message of a create for which the API server found no time to count the use of quotas.
const QUOTA_TIMED_OUT: &str = "Internal error occurred: resource quota evaluation timed out";

/// The reason of a Status that has none.
const UNKNOWN: &str = "Unknown";

/// The reason that client-go derives from a code, where the answer gives none and a create may end by it.
fn reason_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "BadRequest",
        403 => "Forbidden",
        422 => "Invalid",
        _ => "",
    }
}

/// The beginning of a message, with a mark where something is missing.
fn truncate(mut message: String) -> String {
    if message.len() > MOST_OF_MESSAGE {
        message.truncate(message.floor_char_boundary(MOST_OF_MESSAGE));
        message.push_str(" [cut]");
    }
    message
}

/// Whether it is certain that no byte of the request reached the API server.
fn never_left(error: &kube::Error) -> bool {
    chain(error).any(|cause| {
        let refused = |io: &io::Error| io.kind() == io::ErrorKind::ConnectionRefused;
        // A plugin of the kubeconfig failed.
        cause.is::<AuthError>()
            || cause.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
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

#[cfg(test)]
mod tests;
