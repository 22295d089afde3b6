//! A stored object: a JSON value that never changes, with its serialized form made at most once.

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value};

/// Finalizer that makes a deletion wait for the dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer that makes a deletion release the dependents.
pub const ORPHAN: &str = "orphan";

/// One version of one object. Dereferences to its JSON value.
pub struct Object {
    value: Value,
    json: OnceLock<Bytes>,
    opened: OnceLock<Option<Value>>,
}

impl Object {
    /// Wraps a value.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self { value, json: OnceLock::new(), opened: OnceLock::new() }
    }

    /// The serialized form.
    #[must_use]
    pub fn json(&self) -> Bytes {
        // No value fails to serialize. Its `Display` would check each piece of the text once more.
        self.json.get_or_init(|| serde_json::to_vec(&self.value).unwrap_or_default().into()).clone()
    }

    /// The value; if its TaskRole statuses are compressed, they stand in their place beside the compressed
    /// text. A text that cannot be read stays alone.
    #[must_use]
    pub fn opened(&self) -> &Value {
        self.opened.get_or_init(|| open(&self.value)).as_ref().unwrap_or(&self.value)
    }
}

fn open(value: &Value) -> Option<Value> {
    let attempt = &value["status"]["attemptStatus"];
    let text =
        attempt["taskRoleStatusesCompressed"].as_str().filter(|_| attempt["taskRoleStatuses"].is_null())?;
    let roles = serde_json::from_slice(&framework_api::codec::decode(text).ok()?).ok()?;
    let mut value = value.clone();
    value["status"]["attemptStatus"]["taskRoleStatuses"] = roles;
    Some(value)
}

impl Deref for Object {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value)
    }
}

/// Shorthand for the metadata that every part of the cluster reads.
pub trait Meta {
    /// A string of metadata, empty when absent.
    fn meta(&self, field: &str) -> &str;
    /// Name of the object.
    fn name(&self) -> &str {
        self.meta("name")
    }
    /// Namespace of the object, empty when it has none.
    fn namespace(&self) -> &str {
        self.meta("namespace")
    }
    /// UID of the object.
    fn uid(&self) -> &str {
        self.meta("uid")
    }
    /// Version of the object.
    fn version(&self) -> u64 {
        self.meta("resourceVersion").parse().unwrap_or(0)
    }
    /// Whether its deletion has begun.
    fn deleting(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }
    /// Whether it carries that finalizer.
    fn has_finalizer(&self, finalizer: &str) -> bool;
    /// Whether it carries any finalizer.
    fn has_finalizers(&self) -> bool;
    /// An annotation.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// Its owner references.
    fn owners(&self) -> &[Value];
    /// The owner reference that says `controller: true`.
    fn controller(&self) -> Option<&Value> {
        self.owners().iter().find(|owner| owner["controller"] == true)
    }
}

impl Meta for Value {
    fn meta(&self, field: &str) -> &str {
        self["metadata"][field].as_str().unwrap_or("")
    }

    fn has_finalizer(&self, finalizer: &str) -> bool {
        self["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| one == finalizer))
    }

    fn has_finalizers(&self) -> bool {
        self["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self["metadata"]["annotations"][key].as_str()
    }

    fn owners(&self) -> &[Value] {
        self["metadata"]["ownerReferences"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// The metadata of an object as a map, put there if it is missing.
pub(crate) fn metadata_mut(value: &mut Value) -> &mut Map<String, Value> {
    entry_mut(value, "metadata")
}

/// A field of an object as a map, put there if it is missing or of another type.
pub(crate) fn entry_mut<'a>(value: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { unreachable!("made an object above") };
    let slot = map.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    let Value::Object(entry) = slot else { unreachable!("made an object above") };
    entry
}

/// Sets or, with `None`, removes a field.
pub(crate) fn put(map: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            map.insert(field.to_owned(), value);
        }
        None => {
            map.remove(field);
        }
    }
}

/// Whether a Pod has ended by itself.
pub(crate) fn ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}
