//! PUT and PATCH, on the object and on its status: the part that they may change, and their preconditions.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::creation::{check_type, drop_empty};
use crate::event;
use crate::history::Verb;
use crate::kind::{Kind, KindId};
use crate::object::{Meta, Object, metadata_mut, put};
use crate::patch::Patch;
use crate::refusal::Refusal;
use crate::schema::{fill_defaults, prune};
use crate::store::{Caller, Key, Store};
use crate::unit;

/// Metadata that only the server writes.
const SYSTEM: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
];

/// Fields of a Pod's spec that may change after its creation.
const POD_MUTABLE: &[&str] = &[
    "containers",
    "initContainers",
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
];

/// The part of an object that a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status, where the kind has a status subresource.
    Main,
    /// The status alone.
    Status,
}

impl Store {
    /// Replaces an object, or its status.
    ///
    /// # Errors
    /// When it is absent, was changed since the resourceVersion given, has another UID, or is invalid.
    pub fn update(
        &mut self,
        caller: &Caller,
        kind: KindId,
        key: &Key,
        part: Part,
        mut body: Value,
    ) -> Result<Arc<Object>, Refusal> {
        let rules = Arc::clone(self.registry.get(kind));
        if rules.upsert && part == Part::Main && self.get(kind, key).is_none() {
            if !body.uid().is_empty() {
                return Err(Refusal::conflict(&rules, &key.name, "Precondition failed: it is not there"));
            }
            metadata_mut(&mut body).remove("resourceVersion");
            return self.create(caller, kind, &key.namespace, body);
        }
        if body.name() != key.name {
            let (name, wanted) = (body.name(), &key.name);
            let why =
                format!("the name of the object ({name}) does not match the name on the URL ({wanted})");
            return Err(Refusal::bad_request(why));
        }
        let verb = if part == Part::Main { Verb::Update } else { Verb::UpdateStatus };
        self.replace(caller, kind, key, (part, verb), body)
    }

    /// Patches an object, or its status.
    ///
    /// # Errors
    /// As [`Store::update`], and when the patch does not apply.
    pub fn patch(
        &mut self,
        caller: &Caller,
        kind: KindId,
        key: &Key,
        part: Part,
        patch: &Patch,
    ) -> Result<Arc<Object>, Refusal> {
        let mut body = Value::clone(&*self.expect(kind, key)?);
        patch.apply(&mut body)?;
        let verb = if part == Part::Main { Verb::Patch } else { Verb::PatchStatus };
        self.replace(caller, kind, key, (part, verb), body)
    }

    fn replace(
        &mut self,
        caller: &Caller,
        kind: KindId,
        key: &Key,
        (part, verb): (Part, Verb),
        mut body: Value,
    ) -> Result<Arc<Object>, Refusal> {
        let old = self.expect(kind, key)?;
        let rules = Arc::clone(self.registry.get(kind));
        check_type(&rules, &mut body)?;
        check_preconditions(&rules, &old, &body, matches!(verb, Verb::Patch | Verb::PatchStatus))?;
        let mut cause = caller.cause(verb);
        let given = |field: &str| Some(body.meta(field).to_owned()).filter(|text| !text.is_empty());
        (cause.version, cause.uid) = (given("resourceVersion"), given("uid"));

        let mut new = match part {
            Part::Main => main_part(&old, body),
            Part::Status => status_part(&old, body),
        };
        if let Some(schema) = &rules.schema {
            prune(&mut new, schema);
            fill_defaults(&mut new, schema);
        }
        if part == Part::Main {
            check_change(&rules, &old, &new)?;
        }
        unit::check(&rules, &old, &new)?;
        event::check_update(&rules, &old, &new)?;
        metadata_mut(&mut new).insert("resourceVersion".to_owned(), json!(old.meta("resourceVersion")));
        if new == **old {
            return Ok(old);
        }
        if rules.generation && spec_differs(&rules, &old, &new) {
            let next = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            metadata_mut(&mut new).insert("generation".to_owned(), json!(next));
        }
        if new.deleting() && !new.has_finalizers() && new["metadata"]["deletionGracePeriodSeconds"] == 0 {
            self.remove(caller, kind, &old, cause);
            return Ok(Arc::new(Object::new(new)));
        }
        Ok(self.commit(caller, kind, Some(old), new, cause))
    }
}

fn check_preconditions(rules: &Kind, old: &Value, body: &Value, patched: bool) -> Result<(), Refusal> {
    let version = body.meta("resourceVersion");
    let other_uid = !body.uid().is_empty() && body.uid() != old.uid();
    if other_uid && !patched {
        let (given, stored) = (body.uid(), old.uid());
        let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {stored}");
        return Err(Refusal::conflict(rules, old.name(), &why));
    }
    if version.is_empty() && !rules.unconditional {
        let why = "Invalid value: 0: must be specified for an update";
        let field = "metadata.resourceVersion";
        return Err(Refusal::invalid(rules, old.name(), "FieldValueInvalid", field, why));
    }
    if !version.is_empty() && version != old.meta("resourceVersion") {
        return Err(Refusal::stale(rules, old.name()));
    }
    if other_uid {
        // The UID of a patch is no precondition: the patched object is invalid.
        let why = format!("Invalid value: {:?}: field is immutable", body.uid());
        return Err(Refusal::invalid(rules, old.name(), "FieldValueInvalid", "metadata.uid", &why));
    }
    Ok(())
}

fn main_part(old: &Value, mut body: Value) -> Value {
    let metadata = metadata_mut(&mut body);
    for field in SYSTEM {
        put(metadata, field, old["metadata"].get(*field).cloned());
    }
    put(metadata, "namespace", old["metadata"].get("namespace").cloned());
    metadata.remove("managedFields");
    metadata.remove("selfLink");
    drop_empty(metadata);
    if let Value::Object(map) = &mut body {
        put(map, "status", old.get("status").cloned());
    }
    body
}

fn status_part(old: &Value, mut body: Value) -> Value {
    let status = body.get_mut("status").map(Value::take);
    let Value::Object(old) = old else { return Value::Null };
    let mut new: serde_json::Map<_, _> = old
        .iter()
        .filter(|(field, _)| *field != "status")
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    put(&mut new, "status", status);
    Value::Object(new)
}

fn spec_differs(rules: &Kind, old: &Value, new: &Value) -> bool {
    if !rules.custom {
        return old.get("spec") != new.get("spec");
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return false };
    let counted = |field: &&String| !matches!(field.as_str(), "metadata" | "status");
    let fields = |map: &'_ serde_json::Map<String, Value>| map.keys().filter(counted).count();
    fields(old) != fields(new) || old.keys().filter(counted).any(|field| old.get(field) != new.get(field))
}

fn check_change(rules: &Kind, old: &Value, new: &Value) -> Result<(), Refusal> {
    let added = |finalizer: &&Value| finalizer.as_str().is_some_and(|name| !old.has_finalizer(name));
    let finalizers = new["metadata"]["finalizers"].as_array();
    if old.deleting() && finalizers.is_some_and(|all| all.iter().any(|one| added(&one))) {
        let why = "Forbidden: no new finalizers can be added if the object is being deleted";
        return Err(Refusal::invalid(rules, old.name(), "FieldValueForbidden", "metadata.finalizers", why));
    }
    if !rules.graceful {
        return Ok(());
    }
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if let Value::Object(map) = &mut spec {
            map.retain(|field, _| !POD_MUTABLE.contains(&field.as_str()));
        }
        spec
    };
    if fixed(&old["spec"]) != fixed(&new["spec"]) {
        let why = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, \
                   `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only \
                   additions to existing tolerations), `spec.terminationGracePeriodSeconds`";
        return Err(Refusal::invalid(rules, old.name(), "FieldValueForbidden", "spec", why));
    }
    Ok(())
}
