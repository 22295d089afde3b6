//! How the API server says no: a `Status` of kind Failure, shaped as the real server shapes it.

use serde_json::{Value, json};

use crate::kind::Kind;

/// A request that the server refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, empty when the server has none.
    pub reason: &'static str,
    /// Sentence for humans.
    pub message: String,
    /// The object it is about, causes, and how long to wait.
    pub details: Option<Value>,
    /// Seconds for the `Retry-After` header.
    pub retry_after: Option<u32>,
    /// Whether the answer is plain text, as that of the server's outer filters is.
    pub plain: bool,
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: String, details: Option<Value>) -> Self {
        Self { code, reason, message, details, retry_after: None, plain: false }
    }

    fn about(kind: &Kind, name: &str) -> Value {
        let mut details = json!({ "kind": kind.plural });
        if !name.is_empty() {
            details["name"] = json!(name);
        }
        if !kind.group.is_empty() {
            details["group"] = json!(kind.group);
        }
        details
    }

    /// As validation and storage name an object: by its kind, and Events by the core group.
    fn about_stored(kind: &Kind, name: &str) -> Value {
        let mut details = Self::about(kind, name);
        details["kind"] = json!(kind.kind);
        if kind.kind == "Event"
            && let Value::Object(details) = &mut details
        {
            details.remove("group");
        }
        details
    }

    /// The object is not there.
    #[must_use]
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.resource());
        Self::new(404, "NotFound", message, Some(Self::about(kind, name)))
    }

    /// The path names nothing that the server knows.
    #[must_use]
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self::new(404, "NotFound", message, Some(json!({})))
    }

    /// The name is taken.
    #[must_use]
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.resource());
        Self::new(409, "AlreadyExists", message, Some(Self::about(kind, name)))
    }

    /// A precondition does not hold.
    #[must_use]
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource());
        Self::new(409, "Conflict", message, Some(Self::about(kind, name)))
    }

    /// A precondition of a deletion does not hold: the real server then names the kind for the resource.
    #[must_use]
    pub fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(kind));
        let details = Self::about_stored(kind, name);
        Self::new(409, "Conflict", message, Some(details))
    }

    /// The resourceVersion of the request is not the stored one.
    #[must_use]
    pub fn stale(kind: &Kind, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// The object fails validation at one field.
    #[must_use]
    pub fn invalid(kind: &Kind, name: &str, cause: &str, field: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is invalid: {field}: {why}", qualified(kind));
        let mut details = Self::about_stored(kind, name);
        details["causes"] = json!([{ "reason": cause, "message": why, "field": field }]);
        Self::new(422, "Invalid", message, Some(details))
    }

    /// The request is well formed but cannot be carried out.
    #[must_use]
    pub fn unprocessable(message: &str) -> Self {
        Self::new(422, "Invalid", message.to_owned(), Some(json!({})))
    }

    /// Admission refused the object.
    #[must_use]
    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.resource());
        Self::new(403, "Forbidden", message, Some(Self::about(kind, name)))
    }

    /// The request makes no sense.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into(), None)
    }

    /// The verb is not one of that resource.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource".to_owned();
        Self::new(405, "MethodNotAllowed", message, Some(json!({})))
    }

    /// The body is larger than the server takes.
    #[must_use]
    pub fn too_large_entity() -> Self {
        let message = "Request entity too large: limit is 3145728".to_owned();
        Self::new(413, "RequestEntityTooLarge", message, Some(json!({})))
    }

    /// The content type of a patch is not understood.
    #[must_use]
    pub fn unsupported_media_type() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types include: \
                       application/json-patch+json, application/merge-patch+json";
        Self::new(415, "UnsupportedMediaType", message.to_owned(), Some(json!({})))
    }

    /// The resourceVersion is older than the history kept.
    #[must_use]
    pub fn expired(asked: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {asked} ({oldest})");
        Self::new(410, "Expired", message, None)
    }

    /// The continue token is older than the history kept.
    #[must_use]
    pub fn expired_token() -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You \
                       must start a new list without the continue parameter.";
        Self::new(410, "Expired", message.to_owned(), None)
    }

    /// The resourceVersion has not been reached yet.
    #[must_use]
    pub fn too_large(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let causes =
            json!([{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }]);
        let details = json!({ "causes": causes, "retryAfterSeconds": 1 });
        let refusal = Self::new(504, "Timeout", message, Some(details));
        Self { retry_after: Some(1), ..refusal }
    }

    /// The server sheds load. The real one answers in plain text from its priority filter, as JSON elsewhere.
    #[must_use]
    pub fn too_many_requests(seconds: u32, plain: bool) -> Self {
        let message = if plain {
            "Too many requests, please try again later."
        } else {
            "the server has received too many requests and has asked us to try again later"
        };
        let details = json!({ "retryAfterSeconds": seconds });
        let refusal = Self::new(429, "TooManyRequests", message.to_owned(), Some(details));
        Self { retry_after: Some(seconds), plain, ..refusal }
    }

    /// Something broke inside the server.
    #[must_use]
    pub fn internal(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        let details = json!({ "causes": [{ "message": why }] });
        Self::new(500, "InternalError", message, Some(details))
    }

    /// An error that the server has no name for.
    #[must_use]
    pub fn nameless(message: &str) -> Self {
        Self::new(500, "", message.to_owned(), None)
    }

    /// The server is not ready to answer.
    #[must_use]
    pub fn unavailable() -> Self {
        let message = "the server is currently unable to handle the request".to_owned();
        Self::new(503, "ServiceUnavailable", message, None)
    }

    /// The request took longer than the server allows.
    #[must_use]
    pub fn timeout() -> Self {
        let message = "Timeout: request did not complete within requested timeout".to_owned();
        Self::new(504, "Timeout", message, Some(json!({})))
    }

    /// The body that goes over the wire.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

fn qualified(kind: &Kind) -> String {
    if kind.group.is_empty() || kind.kind == "Event" {
        kind.kind.clone()
    } else {
        format!("{}.{}", kind.kind, kind.group)
    }
}
