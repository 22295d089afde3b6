//! The CustomResourceDefinition of `Framework`: the schema that the API server enforces. Those of queueing
//! are in [`queue`].
//!
//! Most of it is derived from the types in [`crate::framework`] and [`crate::status`]; here stand the
//! parts that no derive can know: the CEL rules, and the places whose content the schema leaves open.
//! Every rule that a stored object of an older schema may break compares with the old object, so that
//! such an object still takes status writes and unrelated edits. No rule needs a webhook.

pub mod queue;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::core::{Reason, Rule};
use kube::{CustomResourceExt, core::validate};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Number, Value};

use crate::framework::Framework;
use crate::seconds;

/// The most Tasks that a Framework may have, over all TaskRoles.
pub const MAX_TASKS: usize = 10_000;
/// The most TaskRoles that a Framework may have.
pub const MAX_TASK_ROLES: usize = 100;
/// Name of the CustomResourceDefinition.
pub const NAME: &str = "frameworks.frameworkcontroller.microsoft.com";

const HEADER: &str = "# Generated from crates/api by `UPDATE=1 cargo test --test repo drift`; do not edit.\n";

/// The CustomResourceDefinition.
///
/// To what is derived it adds a schema of `metadata.name`: without one the API server lets no rule
/// name that field, and a refusal would blame `<nil>`.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = Framework::crd();
    name_the_name(&mut definition);
    definition
}

/// Lets the rules of whole objects, which are about their names here, say so.
fn name_the_name(definition: &mut CustomResourceDefinition) {
    for version in &mut definition.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        let name = JSONSchemaProps { type_: Some("string".into()), ..Default::default() };
        let metadata = JSONSchemaProps {
            type_: Some("object".into()),
            properties: Some(BTreeMap::from([("name".to_owned(), name)])),
            ..Default::default()
        };
        root.properties.get_or_insert_default().insert("metadata".to_owned(), metadata);
        for rule in root.x_kubernetes_validations.iter_mut().flatten() {
            rule.field_path = Some(".metadata.name".to_owned());
        }
    }
}

/// The CustomResourceDefinition as a YAML manifest: what `kubectl apply` installs.
pub fn manifest() -> String {
    yaml(&definition())
}

fn yaml(definition: &CustomResourceDefinition) -> String {
    let mut tree = serde_json::to_value(definition).expect("a definition is plain data");
    whole_numbers(&mut tree);
    let yaml = serde_saphyr::to_string(&tree).expect("plain data has a YAML form");
    format!("{HEADER}{yaml}")
}

/// Writes `-2.0` as `-2`: bounds are floats in the definition's type, whatever they bound.
fn whole_numbers(tree: &mut Value) {
    match tree {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0) {
                *number = Number::from(float as i64);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The rule for the Framework's own name, which the names of its ConfigMap and Pods begin with.
pub(crate) fn name_rule() -> Rule {
    Rule::new("self.metadata.name.matches('^[a-z0-9]{1,63}$')")
        .message("the name of a Framework is 1 to 63 lower-case letters and digits, and nothing else")
}

/// executionType goes forward only.
pub(crate) fn forward_only(schema: &mut Schema) {
    let rule = Rule::new("self == oldSelf || oldSelf == 'Create' || self == 'Stop'")
        .message("executionType may change from Create to Start or Stop, and from Start to Stop, never back")
        .reason(Reason::FieldValueForbidden);
    add(schema, rule);
}

/// A count that means nothing when it is 0; one stored by an older schema may stay.
pub(crate) fn never_zero(schema: &mut Schema) {
    let rule = Rule::new("self != 0 || oldSelf.orValue(1) == 0")
        .message("0 is not allowed: give -1 to switch the policy off, or a count of at least 1")
        .optional_old_self(true);
    add(schema, rule);
}

/// `activeDeadlineSeconds` has bounds.
pub(crate) fn active_deadline(schema: &mut Schema) {
    let way_out =
        "counted from the Framework's creation (3153600000 are 100 years); leave it out for no limit";
    bounded(schema, seconds::ACTIVE_DEADLINE, way_out);
}

/// `ttlSecondsAfterFinished` has bounds.
pub(crate) fn ttl_after_finished(schema: &mut Schema) {
    let way_out = "counted from the Framework's completion (0 deletes it at once); leave it out to keep it";
    bounded(schema, seconds::TTL_AFTER_FINISHED, way_out);
}

/// A rule rather than `minimum` and `maximum`, because it can say what to do instead. A value that an older
/// schema stored may stay, as it cannot be changed.
fn bounded(schema: &mut Schema, bounds: RangeInclusive<i64>, way_out: &str) {
    let (least, most) = (bounds.start(), bounds.end());
    let rule = Rule::new(format!("({least} <= self && self <= {most}) || oldSelf.hasValue()"))
        .message(&*format!("give {least} to {most} seconds, {way_out}"))
        .optional_old_self(true);
    add(schema, rule);
}

/// Two fields of the spec stay as they are, set or not. Only a rule of the object that they are in sees that
/// one was added or removed; to it, null is as good as left out.
pub(crate) fn fixed_at_creation(schema: &mut Schema) {
    let fixed = "is fixed when the Framework is created: it cannot be added, changed or removed later";
    for (field, way_out) in [
        ("activeDeadlineSeconds", "to end the Framework now, set executionType to Stop"),
        ("ttlSecondsAfterFinished", "to be rid of the Framework, delete it"),
    ] {
        // Not `self.?x == oldSelf.?x`: Kubernetes 1.30 cannot bound what comparing two optionals costs.
        let (now, old) = (format!("self.{field}"), format!("oldSelf.{field}"));
        let same = format!("has({now}) == has({old}) && (!has({now}) || {now} == {old})");
        let rule = Rule::new(same)
            .message(&*format!("{field} {fixed}; {way_out}; for another value, delete it and create it anew"))
            .reason(Reason::FieldValueForbidden)
            .field_path(format!(".{field}"));
        add(schema, rule);
    }
}

/// TaskRoles are a map keyed by name, of a limited number of Tasks.
pub(crate) fn task_role_map(schema: &mut Schema) {
    keyed_by(schema, "name");
    let limit = "taskRoles may have at most 10000 Tasks in all: lower the sum of their taskNumber";
    let total = |list: &str| format!("{list}.map(role, role.taskNumber).sum()");
    // Two rules, as the API server cannot bound the cost of a sum over an optional list.
    let on_create = format!("oldSelf.hasValue() || {} <= {MAX_TASKS}", total("self"));
    add(schema, Rule::new(on_create).message(limit).optional_old_self(true));
    let on_update =
        format!("{now} <= {MAX_TASKS} || {now} <= {old}", now = total("self"), old = total("oldSelf"));
    add(schema, Rule::new(on_update).message(limit));
}

/// Conditions are a map keyed by type.
pub(crate) fn condition_map(schema: &mut Schema) {
    keyed_by(schema, "type");
}

fn keyed_by(schema: &mut Schema, key: &str) {
    schema.insert("x-kubernetes-list-type".into(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".into(), vec![key].into());
}

fn add(schema: &mut Schema, rule: Rule) {
    validate(schema, rule).expect("a rule is plain data");
}

/// An object whose fields the schema does not describe.
pub(crate) fn opaque_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A list whose elements the schema does not describe.
pub(crate) fn opaque_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "x-kubernetes-list-type": "atomic",
    })
}
