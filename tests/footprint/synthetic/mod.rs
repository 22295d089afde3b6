//! An API server that has many running Frameworks and nothing else. It makes each object when it is requested
//! and holds none of them, so that a hundred thousand Pods cost it nothing.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod server;

mod framework;
mod pod;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

pub use pod::Phase;

/// When everything in it happened.
pub const AT: &str = "2026-01-01T00:00:00Z";

/// Frameworks of one TaskRole, with all their ConfigMaps and Pods.
#[derive(Clone, Debug)]
pub struct SyntheticCluster {
    frameworks: usize,
    tasks: usize,
    /// The objects of one Framework in the order of their names, each with a hole for its number.
    templates: Arc<[Vec<String>; 3]>,
}

/// The kinds that are listed, in the order of [`SyntheticCluster::templates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Frameworks,
    ConfigMaps,
    Pods,
}

/// Stands in templates for the number of the Framework, in eight digits.
const HOLE: &str = "@NUMBER@";

impl SyntheticCluster {
    /// So many Frameworks of so many Tasks, whose Pods are that far.
    pub fn new(frameworks: usize, tasks: usize, phase: Phase) -> Self {
        let mut pods: Vec<Value> = (0..tasks).map(|task| pod::template(task, phase)).collect();
        pods.sort_by_key(|pod| pod["metadata"]["name"].to_string());
        let text = |objects: Vec<Value>| objects.iter().map(Value::to_string).collect();
        let templates =
            [text(vec![framework::template(tasks)]), text(vec![framework::config_map()]), text(pods)];
        SyntheticCluster { frameworks, tasks, templates: Arc::new(templates) }
    }

    /// How many Pods there are.
    pub fn pods(&self) -> usize {
        self.frameworks * self.tasks
    }

    /// How many Frameworks there are.
    pub fn frameworks(&self) -> usize {
        self.frameworks
    }

    /// The page of a LIST that a query asks for.
    fn page(&self, kind: Kind, query: &BTreeMap<&str, &str>) -> String {
        let templates = &self.templates[kind as usize];
        let number = |name| query.get(name).and_then(|text| text.parse().ok());
        let (from, limit) = (number("continue").unwrap_or(0), number("limit").unwrap_or(usize::MAX));
        let all = templates.len() * self.frameworks;
        let until = all.min(from.saturating_add(limit));
        let token = if until < all { until.to_string() } else { String::new() };
        let mut page =
            format!(r#"{{"metadata":{{"resourceVersion":"900000","continue":"{token}"}},"items":["#);
        for place in from..until {
            let (number, template) = (place / templates.len(), &templates[place % templates.len()]);
            page.push_str(if place > from { "," } else { "" });
            page.push_str(&template.replace(HOLE, &format!("{number:08}")));
        }
        page.push_str("]}");
        page
    }

    /// A client in this process that may list; watches are silent.
    pub fn client(&self) -> kube::Client {
        let synthetic = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let synthetic = synthetic.clone();
            async move {
                let (kind, query) = asked(request.uri()).ok_or("not served")?;
                if query.contains_key("watch") {
                    return std::future::pending().await;
                }
                Ok::<_, BoxError>(Response::new(Body::from(synthetic.page(kind, &query).into_bytes())))
            }
        });
        kube::Client::new(service, "default")
    }
}

/// The first Pod of the first Framework.
pub fn first_pod(phase: Phase) -> Value {
    let text = pod::template(0, phase).to_string().replace(HOLE, "00000000");
    serde_json::from_str(&text).expect("a template is JSON")
}

/// Which objects a LIST or a watch asks for.
fn asked(uri: &http::Uri) -> Option<(Kind, BTreeMap<&str, &str>)> {
    let kind = match uri.path().rsplit('/').next()? {
        "frameworks" => Kind::Frameworks,
        "configmaps" => Kind::ConfigMaps,
        "pods" => Kind::Pods,
        _ => return None,
    };
    let query = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    Some((kind, query.collect()))
}

/// The UID of an object of a Framework: its kind and its number there.
fn uid(kind: u16, number: usize) -> String {
    format!("{HOLE}-{kind:04x}-4000-8000-{number:012x}")
}

fn name() -> String {
    format!("job{HOLE}")
}
