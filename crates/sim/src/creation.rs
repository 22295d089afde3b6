//! POST: the fields that the API server fills in and ignores, and the objects that it refuses.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::clock::wire_time;
use crate::event;
use crate::history::Verb;
use crate::kind::{Kind, KindId};
use crate::object::{Meta, Object, entry_mut, metadata_mut};
use crate::refusal::Refusal;
use crate::schema::{fill_defaults, prune};
use crate::store::{Caller, Key, Store};

/// Letters of generated names.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Store {
    /// Creates an object.
    ///
    /// # Errors
    /// As the real server refuses: a name that is taken, missing or malformed, a Pod that cannot be valid.
    pub fn create(
        &mut self,
        caller: &Caller,
        kind: KindId,
        namespace: &str,
        mut body: Value,
    ) -> Result<Arc<Object>, Refusal> {
        let rules = Arc::clone(self.registry.get(kind));
        self.complete_metadata(&rules, namespace, &mut body)?;
        let key = Key::new(body.namespace(), body.name());
        // Where there is a status it is its subresource's; where there is none the field is unknown.
        body.as_object_mut().map(|map| map.remove("status"));
        if let Some(schema) = &rules.schema {
            prune(&mut body, schema);
            fill_defaults(&mut body, schema);
        }
        if rules.graceful {
            complete_pod(&mut body);
            validate_pod(&rules, &body)?;
        }
        event::check_creation(&rules, &body)?;
        if self.get(kind, &key).is_some() {
            return Err(Refusal::already_exists(&rules, &key.name));
        }
        let uid = self.new_uid();
        let metadata = metadata_mut(&mut body);
        metadata.insert("uid".to_owned(), uid);
        metadata.insert("creationTimestamp".to_owned(), json!(wire_time(caller.time)));
        if rules.generation {
            metadata.insert("generation".to_owned(), json!(1));
        }
        Ok(self.commit(caller, kind, None, body, caller.cause(Verb::Create)))
    }

    fn complete_metadata(&mut self, rules: &Kind, namespace: &str, body: &mut Value) -> Result<(), Refusal> {
        check_type(rules, body)?;
        let mut name = body.name().to_owned();
        if name.is_empty() && !body.meta("generateName").is_empty() {
            let suffix = (0..5).map(|_| char::from(SUFFIX[self.uids.usize(..SUFFIX.len())]));
            name = body.meta("generateName").chars().chain(suffix).collect();
        }
        if !body.meta("resourceVersion").is_empty() {
            return Err(Refusal::nameless("resourceVersion should not be set on objects to be created"));
        }
        if rules.namespaced && !body.namespace().is_empty() && body.namespace() != namespace {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        check_name(rules, &name)?;
        let map = entry_mut(body, "metadata");
        let wanted = if rules.namespaced { Some(json!(namespace)) } else { None };
        crate::object::put(map, "namespace", wanted);
        map.insert("name".to_owned(), json!(name));
        for field in
            ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "generation"]
        {
            map.remove(field);
        }
        drop_empty(map);
        Ok(())
    }
}

/// Refuses a body of another type than the path says; puts the type in where it is missing.
pub(crate) fn check_type(rules: &Kind, body: &mut Value) -> Result<(), Refusal> {
    let Value::Object(map) = body else {
        return Err(Refusal::bad_request("the body is not an object"));
    };
    let wanted = [("apiVersion", rules.api_version()), ("kind", rules.kind.clone())];
    for (field, wanted) in wanted {
        match map.get(field).and_then(Value::as_str) {
            Some(given) if given != wanted && rules.custom && field == "kind" => {
                let (kind, given) = (given.to_owned(), Kind { kind: given.to_owned(), ..Kind::clone(rules) });
                let name = map.get("metadata").and_then(|meta| meta["name"].as_str()).unwrap_or("");
                let why = format!("Invalid value: {kind:?}: must be {wanted}");
                return Err(Refusal::invalid(&given, name, "FieldValueInvalid", "kind", &why));
            }
            Some(given) if given != wanted => {
                return Err(Refusal::bad_request(format!("{field} is {given:?}, the path is of {wanted:?}")));
            }
            Some(_) => {}
            None => {
                map.insert(field.to_owned(), json!(wanted));
            }
        }
    }
    Ok(())
}

/// Maps and lists of metadata that are empty are not kept.
pub(crate) fn drop_empty(metadata: &mut Map<String, Value>) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = match metadata.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if empty {
            metadata.remove(field);
        }
    }
}

fn check_name(rules: &Kind, name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        let why = "name or generateName is required";
        return Err(Refusal::invalid(rules, name, "FieldValueRequired", "metadata.name", why));
    }
    let inner = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let good = name.len() <= 253
        && name.chars().all(|letter| inner(letter) || letter == '-' || letter == '.')
        && name.starts_with(inner)
        && name.ends_with(inner);
    if good {
        return Ok(());
    }
    let why = format!("Invalid value: {name:?}: a lowercase RFC 1123 subdomain is required");
    Err(Refusal::invalid(rules, name, "FieldValueInvalid", "metadata.name", &why))
}

/// Fills in the fields that the server sets in every new Pod, as far as a controller can notice.
fn complete_pod(pod: &mut Value) {
    let spec = entry_mut(pod, "spec");
    let defaults = [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
    ];
    for (field, value) in defaults {
        spec.entry(field).or_insert(value);
    }
    pod["status"] = json!({ "phase": "Pending", "qosClass": "BestEffort" });
}

fn validate_pod(rules: &Kind, pod: &Value) -> Result<(), Refusal> {
    let invalid = |cause, field: &str, why: &str| Refusal::invalid(rules, pod.name(), cause, field, why);
    let containers = pod["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    if containers.is_empty() {
        return Err(invalid("FieldValueRequired", "spec.containers", "Required value"));
    }
    for (index, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                let field = format!("spec.containers[{index}].{field}");
                return Err(invalid("FieldValueRequired", &field, "Required value"));
            }
        }
    }
    let policy = &pod["spec"]["restartPolicy"];
    if !["Always", "OnFailure", "Never"].iter().any(|known| policy == known) {
        let why =
            format!("Unsupported value: {policy}: supported values: \"Always\", \"OnFailure\", \"Never\"");
        return Err(invalid("FieldValueNotSupported", "spec.restartPolicy", &why));
    }
    Ok(())
}
