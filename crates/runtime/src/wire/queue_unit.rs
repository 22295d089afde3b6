//! QueueUnits.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;
use serde_json::value::RawValue;

use framework_api::Time;
use framework_api::queue::{self, DEQUEUED, OVERTAKEN, Phase, QueueUnitSpec, Reason};
use framework_message::Key;
use framework_queue::ResourceRequests;
use framework_queueing::{ConsumerKey, JobKind, Overtaken, UnitNotes, UnitObject, UnitStatus};

use super::resource::{Read, Resource, Wire};
use super::typed::{ConditionWire, Metadata, given};

#[derive(Deserialize)]
struct UnitWire {
    metadata: Metadata,
    spec: QueueUnitSpec,
    #[serde(default)]
    status: Option<UnitStatusWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UnitStatusWire {
    phase: Option<Phase>,
    message: Option<String>,
    conditions: Option<Vec<ConditionWire>>,
}

impl Wire for UnitObject {
    const RESOURCE: Resource = Resource::new(queue::GROUP, "v1alpha1", queue::UNIT_KIND, "queueunits");

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let unit: UnitWire = serde_json::from_str(json.get())?;
        Ok(Read::of(unit.metadata.resource_version.clone(), unit_of(unit)))
    }
}

fn unit_of(unit: UnitWire) -> UnitObject {
    let metadata = unit.metadata;
    let (key, resource_version) = metadata.identity();
    let spec = unit.spec;
    let consumer_uid = spec.consumer_ref.as_ref().and_then(|reference| given(reference.uid.as_ref()));
    let consumer = spec.consumer_ref.map_or_else(
        || ConsumerKey { kind: JobKind::Itself, key: key.clone() },
        |reference| {
            let namespace = given(reference.namespace.as_ref());
            let namespace = namespace.unwrap_or_else(|| Arc::clone(&key.namespace));
            ConsumerKey { kind: JobKind::of(&reference), key: Key::new(&namespace, &reference.name) }
        },
    );
    let controller = metadata.controller().map(|owner| owner.uid.as_str().into());
    // We note on each unit that we make since when its job waits.
    let orphaned = metadata.enqueued().is_some() && controller.is_none() && consumer_uid.is_some();
    UnitObject {
        uid: metadata.uid(),
        resource_version,
        created: metadata.created(),
        deleting: metadata.deletion_timestamp.is_some(),
        owner: controller.or_else(|| consumer_uid.clone().filter(|_| orphaned)),
        notes: UnitNotes {
            enqueued: metadata.enqueued().and_then(|text| text.parse().ok()),
            held: metadata.held().and_then(held),
            bound_to: metadata.bound_to(),
            orphaned,
        },
        finalizers: metadata.finalizers,
        consumer,
        consumer_uid,
        queue: spec.queue.as_str().into(),
        priority: spec.priority,
        class: given(spec.priority_class_name.as_ref()),
        requests: ResourceRequests::from_list(&spec.resource).map_err(|error| error.to_string().into()),
        status: unit.status.map(standing).unwrap_or_default(),
        key,
    }
}

/// The part of a unit that its Framework still needs. An unreadable value counts as none.
fn held(text: &str) -> Option<ResourceRequests> {
    let list: BTreeMap<String, Quantity> = serde_json::from_str(text).ok()?;
    ResourceRequests::from_list(&list).ok()
}

fn standing(status: UnitStatusWire) -> UnitStatus {
    let conditions = status.conditions.unwrap_or_default();
    let is = |kind: &'static str| move |condition: &&ConditionWire| condition.type_ == kind;
    let reason = |condition: &ConditionWire| Reason::parse(condition.reason.as_deref().unwrap_or_default());
    let dequeued = conditions.iter().find(is(DEQUEUED));
    let overtaken = conditions.iter().find(is(OVERTAKEN)).filter(|condition| condition.is_true());
    let since = |condition: &ConditionWire| condition.last_transition_time.map(Time::floor);
    UnitStatus {
        phase: status.phase,
        reason: dequeued.and_then(reason),
        since: dequeued.and_then(since),
        overtaken: overtaken.and_then(|condition| {
            let reserved = reason(condition) == Some(Reason::CapacityReserved);
            Some(Overtaken { since: since(condition)?, reserved })
        }),
        message: status.message.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::decode;

    #[test]
    fn a_unit_without_a_job_stands_for_itself() {
        let unit = |spec: Value| -> UnitObject {
            let metadata = json!({"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7"});
            let unit = json!({
                "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": metadata,
                "spec": spec,
            });
            decode(unit.to_string().as_bytes()).unwrap().unwrap()
        };
        let bare = unit(json!({"resource": {"pods": 2}}));
        assert_eq!(bare.consumer, ConsumerKey { kind: JobKind::Itself, key: Key::new("team", "a") });
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "b", "uid": "j"});
        let of_a_job = unit(json!({"consumerRef": job}));
        assert!(of_a_job.consumer.kind.is_job());
        assert_eq!(of_a_job.consumer.key, Key::new("team", "b"));
        assert_eq!(of_a_job.consumer_uid.as_deref(), Some("j"));
    }

    #[test]
    fn a_unit_of_ours_without_an_owner_reference_still_names_its_owner() {
        let unit = |annotations: Value, owners: Value| -> (Option<String>, bool) {
            let unit = json!({
                "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit",
                "metadata": {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7",
                    "annotations": annotations, "ownerReferences": owners, "finalizers": [queue::FINALIZER]},
                "spec": {"consumerRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "b", "uid": "j"}},
            });
            let unit: UnitObject = decode(unit.to_string().as_bytes()).unwrap().unwrap();
            (unit.owner.as_deref().map(str::to_owned), unit.notes.orphaned)
        };
        let owner =
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "b", "uid": "j", "controller": true}]);
        let ours = json!({queue::ENQUEUED_ANNOTATION: "2026-01-01T00:00:00Z"});
        assert_eq!(unit(ours.clone(), owner), (Some("j".to_owned()), false));
        assert_eq!(unit(ours, json!([])), (Some("j".to_owned()), true), "its job left it behind");
        assert_eq!(unit(json!({}), json!([])), (None, false), "a user made it");
    }

    #[test]
    fn a_copy_of_a_unit_is_not_bound_to_the_framework_of_the_first_one() {
        let bound_to = |text: &str| -> Option<String> {
            let unit = json!({
                "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit",
                "metadata": {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7",
                    "annotations": {queue::BOUND_TO_ANNOTATION: text}},
                "spec": {"resource": {"pods": 2}},
            });
            let unit: UnitObject = decode(unit.to_string().as_bytes()).unwrap().unwrap();
            unit.notes.bound_to.map(|framework| framework.to_string())
        };
        assert_eq!(bound_to("u/f"), Some("f".to_owned()));
        for another in ["first/f", "u2/f", "u/", "u", ""] {
            assert_eq!(bound_to(another), None, "{another}");
        }
    }
}
