//! Encodes a Pod as Kubernetes does for a watch: a `WatchEvent` with an object that begins with `k8s\0`.
//!
//! The fields that the controller reads have their own numbers. Any other field has a number that is not
//! taken, and content of its real form, so that it is as long to skip.

use std::slice;

use bytes::Bytes;
use jiff::Timestamp;
use prost::encoding;
use serde_json::{Map, Value};

use super::protobuf::MAGIC;

type Fields = Map<String, Value>;

/// The numbers of the fields that are read, by message (`generated.proto` of k8s.io/api/core/v1 and of
/// k8s.io/apimachinery/pkg/apis/meta/v1).
const READ: [(&str, &[(&str, u32)]); 8] = [
    ("pod", &[("metadata", 1), ("spec", 2), ("status", 3)]),
    (
        "metadata",
        &[
            ("name", 1),
            ("namespace", 3),
            ("uid", 5),
            ("resourceVersion", 6),
            ("deletionTimestamp", 9),
            ("deletionGracePeriodSeconds", 10),
            ("labels", 11),
            ("ownerReferences", 13),
        ],
    ),
    ("ownerReferences", &[("kind", 1), ("name", 3), ("uid", 4), ("apiVersion", 5), ("controller", 6)]),
    ("spec", &[("nodeName", 10)]),
    (
        "status",
        &[("phase", 1), ("message", 3), ("reason", 4), ("hostIP", 5), ("podIP", 6), ("containerStatuses", 8)],
    ),
    ("containerStatuses", &[("name", 1), ("state", 2)]),
    ("state", &[("terminated", 3)]),
    ("terminated", &[("exitCode", 1), ("signal", 2), ("reason", 3), ("message", 4), ("finishedAt", 6)]),
];
/// The numbers of the other fields of such a message begin here.
const UNREAD: u32 = 50;

/// Texts that Kubernetes writes even if they are empty. It leaves them out of JSON.
const EMPTY: [(&str, &[&str]); 3] = [
    ("metadata", &["generateName", "selfLink"]),
    ("spec", &["hostname", "priorityClassName", "serviceAccount", "subdomain"]),
    ("status", &["message", "nominatedNodeName", "reason", "resize"]),
];

/// A frame of a watch, without its length.
pub(super) fn frame(kind: &str, pod: &Value) -> Bytes {
    let mut pod = pod.clone();
    for (part, fields) in EMPTY {
        for field in fields {
            pod[part][field] = "".into();
        }
    }
    let mut pod = pod.as_object().expect("a Pod is an object").clone();
    let type_meta = ["apiVersion", "kind"].map(|field| pod.remove(field).expect("it has a type"));
    // `contentEncoding` and `contentType` are empty.
    let unknown = joined([numbered(&type_meta), message("pod", &pod), Vec::new(), Vec::new()]);
    let raw_extension = joined([[MAGIC, &unknown].concat()]);
    joined([kind.as_bytes().to_vec(), raw_extension]).into()
}

/// A message of these contents, with numbers from 1 on.
fn joined<const N: usize>(contents: [Vec<u8>; N]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, content) in (1..).zip(&contents) {
        encoding::bytes::encode(number, content, &mut out);
    }
    out
}

/// A message of these values, with numbers from 1 on.
fn numbered(values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, value) in (1..).zip(values) {
        push(&mut out, number, "", value);
    }
    out
}

/// The message that the field of this name holds.
fn message(name: &str, fields: &Fields) -> Vec<u8> {
    let read = READ.iter().find(|(message, _)| *message == name).map(|(_, numbers)| *numbers);
    let first = if read.is_some() { UNREAD } else { 1 };
    let mut out = Vec::new();
    for (unread, (field, value)) in (first..).zip(fields) {
        let known = read.unwrap_or_default().iter().find(|(known, _)| known == field);
        let number = known.map_or(unread, |(_, number)| *number);
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => slice::from_ref(value),
        };
        for value in values {
            push(&mut out, number, field, value);
        }
    }
    out
}

/// Appends a field.
fn push(out: &mut Vec<u8>, number: u32, field: &str, value: &Value) {
    let content = match value {
        Value::Null | Value::Array(_) => return,
        Value::Bool(flag) => return encoding::bool::encode(number, flag, out),
        Value::Number(whole) => {
            return encoding::int64::encode(number, &whole.as_i64().expect("it is whole"), out);
        }
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(time) => numbered(&[time.as_second().into(), 0.into()]),
            Err(_) => text.clone().into_bytes(),
        },
        Value::Object(fields) => match field {
            "fieldsV1" => numbered(&[value.to_string().into()]),
            "annotations" | "labels" | "limits" => {
                for (key, value) in fields {
                    let entry = numbered(&[key.as_str().into(), value.clone()]);
                    encoding::bytes::encode(number, &entry, out);
                }
                return;
            }
            name => message(name, fields),
        },
    };
    encoding::bytes::encode(number, &content, out);
}
