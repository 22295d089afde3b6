//! A request as the server reads it: its verb and target, from path, query and body.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::history::Verb;
use crate::kind::Registry;
use crate::object::Meta;
use crate::refusal::Refusal;
use crate::route::Route;

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
    /// The body as JSON, parsed when the name in it is first needed.
    pub json: OnceLock<Result<Value, String>>,
    pub route: Route,
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

    /// The verb of the request.
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

    /// The plural and the name that it is about, for rules and for the history. The plural is the path when
    /// the path names no object; the name of a POST stands in its body.
    pub(crate) fn subject(&self, registry: &Registry) -> (String, String) {
        let Route::Resource { kind, name, .. } = &self.route else {
            return (self.path.clone(), String::new());
        };
        let name = match name {
            Some(name) => name.clone(),
            None if self.method == Method::POST => self.posted_name(),
            None => String::new(),
        };
        (registry.get(*kind).plural.clone(), name)
    }
}
