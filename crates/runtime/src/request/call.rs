//! A request as HTTP carries it.

use framework_api::pod_template::Excess;
use http::Method;
use serde_json::json;

use crate::client::SERVER_TIMEOUT;

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

/// The reason why a request is not sent: its object has changed since it was decided, or no Pod is made of
/// its template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The instance is no longer in the status.
    #[error("the status no longer knows the instance")]
    UnknownInstance,
    /// The Framework has no UID, so it was never read from an API server.
    #[error("the Framework has no UID")]
    NoUid,
    /// Its template exceeds a limit: this counts as the refusal of an invalid Pod.
    #[error("{0}")]
    Invalid(#[from] Excess),
}

/// The object or collection that a request is about.
pub(crate) struct Target {
    /// The URL path.
    pub path: String,
    /// As RBAC calls it.
    pub resource: &'static str,
}

impl Target {
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
