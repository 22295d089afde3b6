//! QueueUnits.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Deserializer;

use framework_api::Time;
use framework_api::queue::{self, DEQUEUED, OVERTAKEN, QueueUnit, Reason};
use framework_message::Key;
use framework_queue::ResourceRequests;
use framework_queueing::{ConsumerKey, JobKind, Overtaken, UnitObject, UnitStatus};

use super::resource::{Read, Resource, Wire};
use super::typed::{self, created, given, identity, uid};

impl Wire for UnitObject {
    const RESOURCE: Resource = Resource::new(queue::GROUP, "v1alpha1", queue::UNIT_KIND, "queueunits");

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        typed::read(deserializer, unit_of)
    }
}

fn unit_of(unit: QueueUnit) -> UnitObject {
    let metadata = unit.metadata;
    let (key, resource_version) = identity(&metadata);
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
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
    UnitObject {
        uid: uid(&metadata),
        resource_version,
        created: created(&metadata),
        deleting: metadata.deletion_timestamp.is_some(),
        owner: owner.map(|owner| owner.uid.as_str().into()),
        finalizers: metadata.finalizers.unwrap_or_default(),
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

fn standing(status: queue::QueueUnitStatus) -> UnitStatus {
    let is = |kind: &'static str| move |condition: &&Condition| condition.type_ == kind;
    let dequeued = status.conditions.iter().find(is(DEQUEUED));
    let overtaken =
        status.conditions.iter().find(is(OVERTAKEN)).filter(|condition| condition.status == "True");
    let since = |condition: &Condition| Time::floor(condition.last_transition_time.0);
    UnitStatus {
        phase: status.phase,
        reason: dequeued.and_then(|condition| Reason::parse(&condition.reason)),
        since: dequeued.map(since),
        overtaken: overtaken.map(|condition| Overtaken {
            since: since(condition),
            reserved: condition.reason == Reason::CapacityReserved.as_str(),
        }),
        message: status.message,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use framework_api::queue::ConsumerKind;

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
        assert_eq!(of_a_job.consumer, ConsumerKey::new(ConsumerKind::Job, Key::new("team", "b")));
        assert_eq!(of_a_job.consumer_uid.as_deref(), Some("j"));
    }
}
