//! The parts of the schema of `Framework` that no derive can know: the CEL rules, and the fields whose
//! content the schema leaves open.
//!
//! A stored object of an older schema may break a rule. Each such rule compares with the old object, so
//! that status writes and unrelated edits still pass. No rule needs a webhook.

pub(crate) mod queue;

use std::ops::RangeInclusive;

use kube::core::{Reason, Rule, validate};
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::seconds;

/// The most Tasks that a Framework may have, over all TaskRoles.
pub const MAX_TASKS: usize = 10_000;
/// The most TaskRoles that a Framework may have.
pub const MAX_TASK_ROLES: usize = 100;

/// The rule for the Framework's own name: the names of its ConfigMap and Pods begin with it.
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
    let way_out = "counted from the Framework's completion (0 deletes it at once); leave it out for the \
                   controller's frameworkCompletedRetainSec";
    bounded(schema, seconds::TTL_AFTER_FINISHED, way_out);
}

/// A rule instead of `minimum` and `maximum`, because its message can name the alternative. A value that an
/// older schema stored may stay, as it cannot be changed.
fn bounded(schema: &mut Schema, bounds: RangeInclusive<i64>, way_out: &str) {
    let (least, most) = (bounds.start(), bounds.end());
    let rule = Rule::new(format!("({least} <= self && self <= {most}) || oldSelf.hasValue()"))
        .message(&*format!("give {least} to {most} seconds, {way_out}"))
        .optional_old_self(true);
    add(schema, rule);
}

/// Two fields of the spec never change, set or unset. Only a rule of the object that has them sees that one
/// was added or removed. To such a rule, null is the same as unset.
pub(crate) fn fixed_at_creation(schema: &mut Schema) {
    let fixed = "is fixed when the Framework is created: it cannot be added, changed or removed later";
    for (field, way_out) in [
        ("activeDeadlineSeconds", "to end the Framework now, set executionType to Stop"),
        ("ttlSecondsAfterFinished", "to be rid of the Framework, delete it"),
    ] {
        // Not `self.?x == oldSelf.?x`: Kubernetes 1.30 cannot bound the cost of comparing two optionals.
        let (now, old) = (format!("self.{field}"), format!("oldSelf.{field}"));
        let same = format!("has({now}) == has({old}) && (!has({now}) || {now} == {old})");
        let rule = Rule::new(same)
            .message(&*format!("{field} {fixed}; {way_out}; for another value, recreate it"))
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

pub(crate) fn keyed_by(schema: &mut Schema, key: &str) {
    schema.insert("x-kubernetes-list-type".into(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".into(), vec![key].into());
}

pub(crate) fn add(schema: &mut Schema, rule: Rule) {
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
