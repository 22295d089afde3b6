//! The parts of the schemas of `QueueUnit` and `Queue` that no derive can know.
//!
//! Only a unit's priority may change, and only until the unit is released; its phase only goes forward. A
//! rule of the whole object can enforce both: it sees the stored status when the spec is written, and the
//! stored spec when the status is written. No rule of a definition sees `metadata.namespace`, so
//! `deploy/base/queue_unit_policy.yaml` checks that a consumer is in the unit's own namespace.

use kube::core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::{add, keyed_by};
use crate::queue::limits::{MAX_QUANTITY, MAX_QUEUE_NAME, MAX_RESOURCE_NAME, MAX_RESOURCES};
use crate::queue::reason::{DEQUEUED, OVERTAKEN, Reason};

/// A unit's phase goes from unset to Enqueued to Dequeued, by one step at a time.
pub(crate) fn forward_only() -> Rule {
    let step = |unit: &str| {
        format!(
            "(!has({unit}.status) || !has({unit}.status.phase) ? 0 \
             : ({unit}.status.phase == 'Enqueued' ? 1 : 2))"
        )
    };
    Rule::new(format!("{} - {} in [0, 1]", step("self"), step("oldSelf")))
        .message("phase may change from unset to Enqueued, and from Enqueued to Dequeued, never back")
        .reason(kube::core::Reason::FieldValueForbidden)
        .field_path(".status.phase")
}

/// The priority of a released unit never changes.
pub(crate) fn priority_while_it_waits() -> Rule {
    let released = "has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Dequeued'";
    let same = unchanged("self.spec.priority", "oldSelf.spec.priority");
    Rule::new(format!("!({released}) || ({same})"))
        .message("priority may change only while the unit waits; it is released (status.phase is Dequeued)")
        .reason(kube::core::Reason::FieldValueForbidden)
        .field_path(".spec.priority")
}

/// The name of a Queue must fit in a label.
pub(crate) fn short_name() -> Rule {
    Rule::new(format!("self.metadata.name.size() <= {MAX_QUEUE_NAME}"))
        .message("the name of a Queue has at most 63 characters, so that it fits in a label")
}

/// All of a unit's spec but the priority is fixed. These are rules of the spec, as only they see that an
/// optional field was added or removed.
pub(crate) fn fixed_but_priority(schema: &mut Schema) {
    let again = "delete the unit and create it again";
    for (field, optional, way_out) in [
        ("consumerRef", true, "another job has a unit of its own"),
        ("queue", false, again),
        ("resource", false, again),
        ("priorityClassName", true, "set priority, which goes before it"),
    ] {
        let (now, old) = (format!("self.{field}"), format!("oldSelf.{field}"));
        let same = if optional { unchanged(&now, &old) } else { format!("{now} == {old}") };
        let rule = Rule::new(same)
            .message(&*format!(
                "{field} is fixed when the unit is created, only priority may change; {way_out}"
            ))
            .reason(kube::core::Reason::FieldValueForbidden)
            .field_path(format!(".{field}"));
        add(schema, rule);
    }
}

/// An optional field is as it was. Not `self.?x == oldSelf.?x`: Kubernetes 1.30 cannot bound the cost of
/// comparing two optionals.
fn unchanged(now: &str, old: &str) -> String {
    format!("has({now}) == has({old}) && (!has({now}) || {now} == {old})")
}

/// The name of a job must be one that an object may have: the controller puts it into paths. One that an
/// older schema stored may stay, as it cannot be changed.
pub(crate) fn job_name(schema: &mut Schema) {
    let label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
    let rule = Rule::new(format!("oldSelf.hasValue() || self.matches('^{label}([.]{label})*$')"))
        .message("name is a DNS subdomain: lower-case letters and digits, and between them dashes and dots")
        .optional_old_self(true);
    add(schema, rule);
}

/// The name of a queue must be a valid object name.
pub(crate) fn queue_name(schema: &mut Schema) {
    object_name(schema, "queue is the name of a Queue", "for the Queue named default");
}

/// The name of a PriorityClass must be a valid object name.
pub(crate) fn class_name(schema: &mut Schema) {
    object_name(schema, "priorityClassName is the name of a PriorityClass", "for none");
}

fn object_name(schema: &mut Schema, what: &str, without: &str) {
    let rule = Rule::new("self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')").message(&*format!(
        "{what}: lower-case letters and digits, and between them dashes and dots; leave it out {without}"
    ));
    add(schema, rule);
}

/// Quantities by resource; whole numbers are quantities, too. A rule explains a refusal, because the
/// message of a `pattern` is the pattern. Kubernetes 1.30 must allow its cost for [`MAX_RESOURCES`]. It
/// estimates a value that may be a number or a text as large as a request, so each use of the value is
/// expensive. `type(self) == int` is a use, `type(self) in [int]` is not.
pub(crate) fn resource_list(_: &mut SchemaGenerator) -> Schema {
    let quantity = Rule::new("type(self) in [int] ? self >= 0 : isQuantity(self) && !self.startsWith('-')")
        .message(
            "give a quantity that is not negative: a whole number, or text such as '500m', '0.5' or '4Gi'",
        );
    let names = Rule::new(format!("self.all(name, 0 < name.size() && name.size() <= {MAX_RESOURCE_NAME})"))
        .message("the name of a resource, such as cpu or nvidia.com/gpu, has 1 to 317 characters");
    let mut value = json_schema!({ "x-kubernetes-int-or-string": true, "maxLength": MAX_QUANTITY });
    add(&mut value, quantity);
    let mut list = json_schema!({
        "type": "object",
        "maxProperties": MAX_RESOURCES,
        "additionalProperties": value,
    });
    add(&mut list, names);
    list
}

/// A status is owned as a whole: one controller writes all of it. To track the owner of each field, the API
/// server would compare every field in every write, and store a tree of names as large as the status.
pub(crate) fn one_owner(schema: &mut Schema) {
    schema.insert("x-kubernetes-map-type".into(), "atomic".into());
}

/// Conditions are a map keyed by type, and the reasons of the controller's are a closed set.
pub(crate) fn conditions(schema: &mut Schema) {
    keyed_by(schema, "type");
    let reasons = Reason::ALL.map(|reason| format!("'{reason}'")).join(", ");
    let ours = format!("condition.type in ['{DEQUEUED}', '{OVERTAKEN}']");
    let rule = Rule::new(format!("self.all(condition, !({ours}) || condition.reason in [{reasons}])"))
        .message(&*format!("the reason of {DEQUEUED} and {OVERTAKEN} is one of a closed set: {reasons}"));
    add(schema, rule);
}
