//! A request on its way: what it asks, by path, query and body, and where its answer goes.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::Method;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::fault::Plan;
use crate::history::Verb;
use crate::http::Body;
use crate::kind::{KindId, Registry};
use crate::object::Meta;
use crate::refusal::Refusal;
use crate::store::Key;

/// What a client gets: a response, or the connection breaks.
pub(crate) type Answer = Result<http::Response<Body>, std::io::Error>;

/// A request as the server reads it.
#[derive(Debug)]
pub(crate) struct Call {
    /// Number, counted over all clients from 1.
    pub number: u64,
    pub who: Arc<str>,
    pub method: Method,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub content_type: String,
    pub body: Bytes,
    /// The body as JSON, once somebody has asked for the name in it.
    pub json: OnceLock<Result<Value, String>>,
    pub route: Route,
}

/// A request, what is going to happen to it, and the way back.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub call: Call,
    pub plan: Plan,
    pub reply: oneshot::Sender<Answer>,
}

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/version`.
    Version,
    /// `/livez`, `/readyz`, `/healthz`.
    Health,
    /// A collection, or one object, or its status.
    Resource { kind: KindId, namespace: Option<String>, name: Option<String>, status: bool },
    /// Nothing.
    Unknown,
}

impl Call {
    /// A parameter of the query, `None` when absent or empty.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Whether a parameter of the query says yes.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.param(name), Some("true" | "1"))
    }

    fn parse(&self) -> Result<Value, String> {
        serde_json::from_slice(&self.body).map_err(|error| error.to_string())
    }

    /// The body as JSON. Nothing is kept for this: most bodies are read once.
    pub(crate) fn read_json(&self) -> Result<Value, Refusal> {
        let parsed = self.json.get().map_or_else(|| self.parse(), Result::clone);
        parsed.map_err(|why| Refusal::bad_request(format!("the body is not JSON: {why}")))
    }

    /// The name in the body of a POST, empty when there is none.
    pub(crate) fn posted_name(&self) -> String {
        self.json.get_or_init(|| self.parse()).as_ref().map(|body| body.name().to_owned()).unwrap_or_default()
    }

    /// What the request asks for.
    pub(crate) fn verb(&self) -> Verb {
        let Route::Resource { name, status, .. } = &self.route else { return Verb::Other };
        match (&self.method, name, status) {
            (&Method::GET, None, _) if self.flag("watch") => Verb::Watch,
            (&Method::GET, None, _) => Verb::List,
            (&Method::GET, Some(_), _) => Verb::Get,
            (&Method::POST, None, _) => Verb::Create,
            (&Method::PUT, Some(_), false) => Verb::Update,
            (&Method::PUT, Some(_), true) => Verb::UpdateStatus,
            (&Method::PATCH, Some(_), false) => Verb::Patch,
            (&Method::PATCH, Some(_), true) => Verb::PatchStatus,
            (&Method::DELETE, Some(_), false) => Verb::Delete,
            _ => Verb::Other,
        }
    }
}

impl Route {
    /// Reads a path.
    pub(crate) fn read(registry: &Registry, path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["version"] => return Self::Version,
            ["livez" | "readyz" | "healthz", ..] => return Self::Health,
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Self::Unknown,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (plural, name, status) = match rest {
            [plural] => (plural, None, false),
            [plural, name] => (plural, Some(*name), false),
            [plural, name, "status"] => (plural, Some(*name), true),
            _ => return Self::Unknown,
        };
        let Some(kind) = registry.find(group, version, plural) else { return Self::Unknown };
        let rules = registry.get(kind);
        if (status && !rules.status) || (name.is_some() && rules.namespaced != namespace.is_some()) {
            return Self::Unknown;
        }
        let own = |text: Option<&str>| text.map(decode);
        Self::Resource { kind, namespace: own(namespace), name: own(name), status }
    }

    /// The object that the path names.
    pub(crate) fn key(&self) -> Result<(KindId, Key, bool), Refusal> {
        match self {
            Self::Resource { kind, namespace, name: Some(name), status } => {
                Ok((*kind, Key::new(namespace.as_deref().unwrap_or(""), name), *status))
            }
            _ => Err(Refusal::no_such_path()),
        }
    }
}

/// Reads a query string.
pub(crate) fn read_query(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(k, v)| (decode(k), decode(v)))
        .collect()
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        let hex = bytes.get(index + 1..index + 3).and_then(|two| std::str::from_utf8(two).ok());
        match (byte, hex.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(decoded)) => {
                out.push(decoded);
                index += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            (other, _) => out.push(*other),
        }
        index += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_collections_objects_and_their_status() {
        let registry = Registry::new();
        let read = |path| Route::read(&registry, path);
        let pods = registry.find("", "v1", "pods").unwrap();
        let some = |text: &str| Some(text.to_owned());
        let resource = |namespace, name, status| Route::Resource { kind: pods, namespace, name, status };
        assert_eq!(read("/api/v1/pods"), resource(None, None, false));
        assert_eq!(read("/api/v1/namespaces/a/pods"), resource(some("a"), None, false));
        assert_eq!(read("/api/v1/namespaces/a/pods/x"), resource(some("a"), some("x"), false));
        assert_eq!(read("/api/v1/namespaces/a/pods/x/status"), resource(some("a"), some("x"), true));
        assert_eq!(read("/api/v1/namespaces/a/configmaps/x/status"), Route::Unknown);
        assert_eq!(read("/api/v1/pods/x"), Route::Unknown);
        assert_eq!(read("/version"), Route::Version);
        assert!(matches!(read("/api/v1/namespaces/a"), Route::Resource { name: Some(_), .. }));
    }

    #[test]
    fn queries_are_decoded() {
        let query = read_query("labelSelector=slot+in+%281%2C2%29&watch=true&limit=");
        let wanted = [("labelSelector", "slot in (1,2)"), ("watch", "true"), ("limit", "")];
        let wanted: Vec<_> = wanted.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(query, wanted);
    }
}
