//! Admission of valid requests: quota, the policy of epochs, and refusals that a Pod asks for itself.
//!
//! A Pod whose annotation `sim/create-error` names a class of creation error is refused with it each time:
//! `quota`, `forbidden`, `invalid`, `bad-request`, `unrecognized`, `too-large`, `internal`.

use serde_json::Value;

use crate::call::Call;
use crate::kind::{Kind, KindId};
use crate::object::Meta;
use crate::refusal::Refusal;
use crate::world::World;

/// Annotation of a Pod that is to be refused.
pub const CREATE_ERROR: &str = "sim/create-error";
/// The ConfigMap by which replicas share the slots.
const MAP: &str = "frameworkcontroller-slots";

/// Decides whether an object may be created.
pub(crate) fn admit(world: &World, kind: KindId, namespace: &str, body: &Value) -> Result<(), Refusal> {
    let rules = world.store.registry.get(kind);
    if !rules.graceful {
        return Ok(());
    }
    if let Some(class) = body.annotation(CREATE_ERROR) {
        return Err(refusal(rules, body.name(), class));
    }
    let Some(limit) = world.faults.quota_of(namespace) else { return Ok(()) };
    let unfinished = |pod: &Value| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let pods = world.store.all(kind);
    let used = pods.filter(|pod| pod.namespace() == namespace && unfinished(pod)).count();
    if used < limit { Ok(()) } else { Err(quota_refusal(rules, body.name(), used, limit)) }
}

/// Refuses a create whose slot was granted again, as the policy of `deploy/epoch` does.
pub(crate) fn admit_epoch(world: &World, call: &Call, kind: KindId, name: &str) -> Result<(), Refusal> {
    let rules = world.store.registry.get(kind);
    if !world.has_epoch_policy || !["configmaps", "pods"].contains(&&*rules.plural) {
        return Ok(());
    }
    let grant = call.param("fieldManager").and_then(|manager| {
        let (slot, epoch) = manager.strip_prefix("frameworkcontroller-slot-")?.split_once("-epoch-")?;
        Some((slot, epoch.parse::<u64>().ok()?))
    });
    let Some((slot, epoch)) = grant else { return Ok(()) };
    let granted = world.store.registry.find("", "v1", "configmaps").and_then(|kind| {
        let map = world.store.all(kind).find(|map| map.name() == MAP)?;
        let row: Value = serde_json::from_str(map["data"][slot].as_str()?).ok()?;
        row["epoch"].as_u64()
    });
    match granted.filter(|granted| *granted > epoch) {
        None => Ok(()),
        Some(granted) => {
            let policy = "frameworkcontroller-epoch";
            let why = format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: slot {slot} was \
                 granted again under epoch {granted}, and this request is of epoch {epoch}"
            );
            Err(Refusal::forbidden(rules, name, &why))
        }
    }
}

/// The refusal of a namespace that is full.
pub(crate) fn quota_refusal(kind: &Kind, name: &str, used: usize, limit: usize) -> Refusal {
    let why = format!("exceeded quota: sim, requested: pods=1, used: pods={used}, limited: pods={limit}");
    Refusal::forbidden(kind, name, &why)
}

fn refusal(kind: &Kind, name: &str, class: &str) -> Refusal {
    match class {
        "quota" => quota_refusal(kind, name, 0, 0),
        "forbidden" => Refusal::forbidden(kind, name, "violates PodSecurity \"restricted:latest\""),
        "bad-request" => {
            Refusal::bad_request("Pod in version \"v1\" cannot be handled as a Pod: strict decoding")
        }
        "unrecognized" => Refusal::bad_request("the object provided is unrecognized (must be of type Pod)"),
        "too-large" => Refusal::too_large_entity(),
        "internal" => Refusal::internal("failed calling webhook \"sim\""),
        _ => {
            let why = "Invalid value: -1: must be greater than or equal to 0";
            let field = "spec.containers[0].resources.limits[cpu]";
            Refusal::invalid(kind, name, "FieldValueInvalid", field, why)
        }
    }
}
