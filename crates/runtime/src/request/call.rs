//! A request as HTTP carries it.

use framework_api::pod_template::Excess;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
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
    /// JSON; empty for a GET alone, since an empty body asks no fence.
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
pub enum CallError {
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

/// The characters that are escaped in a segment of a path: all that have a meaning in a URL. A user writes
/// the names that some requests are about, so any character may come.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The object or collection that a request is about.
pub(crate) struct Target {
    /// The URL path, escaped.
    path: String,
    /// As RBAC calls it.
    resource: &'static str,
}

impl Target {
    /// A path that no user writes.
    pub fn at(path: &str, resource: &'static str) -> Self {
        Target { path: path.to_owned(), resource }
    }

    /// The objects of a kind in a namespace; below the path of an API version.
    pub fn objects(self, namespace: &str, plural: &str) -> Self {
        self.segment("namespaces").segment(namespace).segment(plural)
    }

    /// One more segment of the path, such as the name of an object.
    pub fn segment(mut self, text: &str) -> Self {
        self.path.push('/');
        self.path.extend(utf8_percent_encode(text, ESCAPED));
        self
    }

    /// The status of an object.
    pub fn status(self, resource: &'static str) -> Self {
        Target { resource, ..self.segment("status") }
    }

    pub fn get(self) -> Call {
        self.call(Method::GET, "get", JSON, Vec::new())
    }

    /// A consistent LIST of one page.
    pub fn list(self, page: u32, after: Option<&str>) -> Call {
        let mut call = self.call(Method::GET, "list", JSON, Vec::new());
        call.uri.push_str(&format!("&limit={page}"));
        if let Some(after) = after {
            call.uri.push_str("&continue=");
            call.uri.extend(utf8_percent_encode(after, ESCAPED));
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
        debug_assert!(method == Method::GET || !body.is_empty(), "a write that asks no fence");
        let uri = format!("{}?timeout={}s", self.path, SERVER_TIMEOUT.as_secs());
        Call { method, uri, content_type, body, verb, resource: self.resource }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_of_a_name_has_a_meaning_in_a_url() {
        let uri = |name| Target::at("/apis/g/v1", "jobs").objects("team", "jobs").segment(name).get().uri;
        let path = "/apis/g/v1/namespaces/team/jobs/";
        for (name, escaped) in [
            ("a-0.b", "a-0.b"),
            ("?watch=1#", "%3Fwatch%3D1%23"),
            ("a/status", "a%2Fstatus"),
            ("%2F", "%252F"),
            ("a b&ü", "a%20b%26%C3%BC"),
        ] {
            assert_eq!(uri(name), format!("{path}{escaped}?timeout=10s"));
        }
        let page = Target::at("/apis/g/v1", "jobs").objects("?", "jobs").list(5, Some("a&b"));
        assert_eq!(page.uri, "/apis/g/v1/namespaces/%3F/jobs?timeout=10s&limit=5&continue=a%26b");
    }
}
