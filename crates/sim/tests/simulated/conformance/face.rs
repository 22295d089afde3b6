//! The comparable part of an answer: the fields that a controller acts on, and none that differs between two
//! servers.

use serde_json::{Map, Value, json};

/// Puts an answer into one line.
pub fn answer(code: u16, body: &Value) -> String {
    let face = match body["kind"].as_str() {
        Some("Status") => status(body),
        Some(kind) if kind.ends_with("List") => list(body),
        kind => object(body, kind.unwrap_or("")),
    };
    format!("{code} {face}")
}

fn status(body: &Value) -> Value {
    let details = &body["details"];
    let causes = details["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut fields: Vec<&Value> = causes.iter().map(|cause| &cause["field"]).collect();
    // Some kinds are checked twice.
    fields.dedup();
    // Of an invalid custom object the real server names now the kind, now the resource.
    let kind = if body["code"] == 422 { &Value::Null } else { &details["kind"] };
    json!({
        "status": body["status"], "reason": body["reason"], "code": body["code"], "name": details["name"],
        "group": details["group"], "kind": kind, "fields": fields, "uid": details["uid"].is_string(),
    })
}

fn list(body: &Value) -> Value {
    let items = body["items"].as_array().map_or(&[][..], Vec::as_slice);
    // The namespace of a real cluster may hold more than the walk's own.
    let own = |item: &&Value| item["metadata"]["name"].as_str().is_some_and(|name| name.starts_with('x'));
    let kind = body["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or("");
    let items: Vec<Value> = items.iter().filter(own).map(|item| object(item, kind)).collect();
    json!({ "kind": body["kind"], "apiVersion": body["apiVersion"], "items": items })
}

/// The comparable part of an object of a kind.
pub fn object(body: &Value, kind: &str) -> Value {
    let metadata = &body["metadata"];
    let mut face = Map::new();
    for field in ["kind", "apiVersion", "data"] {
        face.insert(field.to_owned(), body[field].clone());
    }
    for field in ["name", "labels", "finalizers", "generation", "deletionGracePeriodSeconds"] {
        face.insert(field.to_owned(), metadata[field].clone());
    }
    let owners = metadata["ownerReferences"].as_array().map_or(0, Vec::len);
    face.insert("owners".to_owned(), json!(owners));
    face.insert("deleting".to_owned(), json!(metadata["deletionTimestamp"].is_string()));
    face.insert("identified".to_owned(), json!(metadata["uid"].is_string()));
    match kind {
        // A real Pod is full of defaults; a test of a controller depends on these.
        "Pod" => {
            face.insert("phase".to_owned(), body["status"]["phase"].clone());
            for field in ["restartPolicy", "terminationGracePeriodSeconds", "nodeName"] {
                face.insert(field.to_owned(), body["spec"][field].clone());
            }
        }
        "Event" => {
            for field in ["type", "reason", "action", "note", "reportingController"] {
                face.insert(field.to_owned(), body[field].clone());
            }
            face.insert("count".to_owned(), body["series"]["count"].clone());
        }
        _ => {
            face.insert("spec".to_owned(), body["spec"].clone());
            face.insert("status".to_owned(), body["status"].clone());
        }
    }
    face.retain(|_, value| !value.is_null());
    Value::Object(face)
}
