//! One of the two servers, and the walk's knowledge of its objects.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::face;
use super::walk::{Ask, Given, KINDS, Step, bad_body, body, fill_namespace, name, patch};
use super::wire::{self, JSON, MERGE};

const NO_UID: &str = "00000000-0000-4000-8000-000000000000";

/// A server as the walk sees it.
pub struct Side {
    client: kube::Client,
    namespace: String,
    seen: BTreeMap<(usize, String), Value>,
}

impl Side {
    pub fn new(client: kube::Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), seen: BTreeMap::new() }
    }

    /// Path of a collection of the walk's namespace.
    pub fn collection(&self, plural: &str) -> String {
        let kind = KINDS.iter().find(|kind| kind.plural == plural).unwrap();
        format!("{}/namespaces/{}/{plural}", kind.base, self.namespace)
    }

    /// Sends a request.
    pub async fn send(&mut self, method: &str, path: &str, form: &str, body: Option<&Value>) -> (u16, Value) {
        let mut body = body.cloned();
        if let Some(body) = &mut body {
            fill_namespace(body, &self.namespace);
        }
        wire::send(&self.client, method, path, form, body.as_ref()).await
    }

    /// Creates an object that must be accepted.
    pub async fn post(&mut self, path: &str, body: Value) -> Value {
        let (code, object) = self.send("POST", path, JSON, Some(&body)).await;
        assert_eq!(code, 201, "{object}");
        object
    }

    /// The version at which each kind stands.
    pub async fn versions(&mut self) -> Vec<String> {
        let mut versions = Vec::new();
        for kind in KINDS {
            let (code, list) = self.send("GET", &self.collection(kind.plural), JSON, None).await;
            if code == 200 {
                versions.push(list["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
            }
        }
        versions
    }

    /// The names in a collection, those of the walk only.
    pub async fn names(&mut self, path: &str) -> Vec<String> {
        let (_, list) = self.send("GET", path, JSON, None).await;
        let items = list["items"].as_array().unwrap();
        let names = items.iter().filter_map(|item| item["metadata"]["name"].as_str());
        names.filter(|name| name.starts_with('x')).map(str::to_owned).collect()
    }

    /// Waits until the objects do not change for a second.
    pub async fn until_idle(&mut self) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        let mut before = Vec::new();
        loop {
            let mut now = Vec::new();
            for plural in ["configmaps", "pods"] {
                now.extend(self.names(&self.collection(plural)).await);
            }
            if now == before {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "it never becomes idle");
            before = now;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Takes one step of the walk.
    pub async fn take(&mut self, step: &Step) -> String {
        let (kind, own) = (step.kind, name(step.name));
        let collection = self.collection(KINDS[kind].plural);
        let path = format!("{collection}/{own}");
        let (code, answer) = match step.ask {
            Ask::Create { slot, finalizer, placed } => {
                self.send("POST", &collection, JSON, Some(&body(kind, &own, slot, finalizer, placed))).await
            }
            Ask::CreateBadly(how) => {
                self.send("POST", &collection, JSON, Some(&bad_body(kind, &own, how))).await
            }
            Ask::Get => self.send("GET", &path, JSON, None).await,
            Ask::List { selector } => {
                let path = format!("{collection}?labelSelector={}", encode(selector));
                self.send("GET", &path, JSON, None).await
            }
            Ask::Put { part, version, uid, edit } => {
                let (_, found) = self.send("GET", &path, JSON, None).await;
                let blank = || body(kind, &own, 1, false, false);
                let mut object = if found["kind"] == "Status" { blank() } else { found };
                json_patch::merge(&mut object, &patch(kind, edit));
                self.guard(&mut object, (kind, &own), version, uid);
                self.send("PUT", &format!("{path}{part}"), JSON, Some(&object)).await
            }
            Ask::Merge { part, version, uid, edit } => {
                let mut patch = patch(kind, edit);
                self.guard(&mut patch, (kind, &own), version, uid);
                self.send("PATCH", &format!("{path}{part}"), MERGE, Some(&patch)).await
            }
            Ask::Json { slot, tested } => {
                let mut patch = vec![
                    json!({ "op": "add", "path": "/metadata/labels", "value": { "slot": slot.to_string() } }),
                ];
                if tested {
                    patch.insert(0, json!({ "op": "test", "path": "/metadata/labels/slot", "value": "1" }));
                }
                self.send("PATCH", &path, "application/json-patch+json", Some(&json!(patch))).await
            }
            Ask::Delete { version, uid, grace, policy } => {
                let mut guard = json!({ "metadata": {} });
                self.guard(&mut guard, (kind, &own), version, uid);
                let mut options = json!({ "apiVersion": "v1", "kind": "DeleteOptions",
                    "preconditions": guard["metadata"] });
                options["gracePeriodSeconds"] = json!(grace);
                options["propagationPolicy"] = json!(policy);
                self.send("DELETE", &path, JSON, Some(&options)).await
            }
        };
        let changed = self.learn(kind, &own, &answer);
        format!("{} changed {changed}", face::answer(code, &answer))
    }

    /// Remembers an object; whether it is of another version than the one before.
    fn learn(&mut self, kind: usize, name: &str, answer: &Value) -> bool {
        if !answer["metadata"]["uid"].is_string() {
            return false;
        }
        let old = self.seen.insert((kind, name.to_owned()), answer.clone());
        old.is_some_and(|old| old["metadata"]["resourceVersion"] != answer["metadata"]["resourceVersion"])
    }

    fn guard(&self, object: &mut Value, (kind, name): (usize, &str), version: Given, uid: Given) {
        let seen = self.seen.get(&(kind, name.to_owned()));
        for (field, given, wrong) in [("resourceVersion", version, "1"), ("uid", uid, NO_UID)] {
            let value = match given {
                Given::None => Value::Null,
                Given::Right => seen.map_or(json!(wrong), |seen| seen["metadata"][field].clone()),
                Given::Wrong => json!(wrong),
            };
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            let metadata = object["metadata"].as_object_mut().unwrap();
            if value.is_null() {
                metadata.remove(field);
            } else {
                metadata.insert(field.to_owned(), value);
            }
        }
    }

    /// The events since a version, up to a last object that is made to end them.
    pub async fn events(&mut self, kind: usize, start: &str, selector: &str) -> Vec<String> {
        let collection = self.collection(KINDS[kind].plural);
        let last = format!("y{}", if selector.is_empty() { "all" } else { "some" });
        self.post(&collection, body(kind, &last, 1, false, false)).await;
        let selector = encode(selector);
        let path = format!(
            "{collection}?watch=true&resourceVersion={start}&timeoutSeconds=30&labelSelector={selector}"
        );
        let is_last = |event: &Value| event["object"]["metadata"]["name"] == last.as_str();
        let (mut events, mut version) = (Vec::new(), 0);
        for event in wire::watch(&self.client, &path, is_last).await {
            let object = &event["object"];
            let name = object["metadata"]["name"].as_str().unwrap_or("");
            if name.starts_with('x') {
                let next: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                assert!(next > version, "an event is older than the one before: {event}");
                version = next;
                events.push(format!(
                    "{} {}",
                    event["type"].as_str().unwrap(),
                    face::object(object, object["kind"].as_str().unwrap_or(""))
                ));
            }
        }
        events
    }
}

fn encode(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escaped).collect()
}
