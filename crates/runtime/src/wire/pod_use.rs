//! Pods as queueing sees them: the quota that each uses, and the object that controls it.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_queue::ResourceRequests;
use framework_queueing::PodUse;

use super::resource::{Read, Resource, Wire};
use super::typed::{Metadata, PodSpecWire};

#[derive(Deserialize)]
struct PodUseWire {
    metadata: Metadata,
    #[serde(default)]
    spec: Option<PodSpecWire>,
    #[serde(default)]
    status: Option<PodUseStatusWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodUseStatusWire {
    phase: Option<String>,
}

impl Wire for PodUse {
    const RESOURCE: Resource =
        Resource::new("", "v1", "Pod", "pods").selected_by(QUEUE_NAME_LABEL).divided_by_namespace();

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let pod: PodUseWire = serde_json::from_str(json.get())?;
        let (resource_version, slot) = (pod.metadata.resource_version.clone(), pod.metadata.namespace_slot());
        Ok(Read { slot, ..Read::of(resource_version, pod_of(pod)) })
    }
}

fn pod_of(pod: PodUseWire) -> PodUse {
    let PodUseWire { metadata, spec, status } = pod;
    let (key, resource_version) = metadata.identity();
    let phase = status.as_ref().and_then(|status| status.phase.as_deref());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    let requests = spec.and_then(|spec| ResourceRequests::pod(&spec.asks()).ok()).unwrap_or_default();
    let controller = metadata.controller().map(|owner| owner.uid.as_str().into());
    let (consumer, slot) = (metadata.consumer(), metadata.namespace_slot());
    PodUse { key, resource_version, controller, consumer, requests, ended, lapses: lapses(&metadata), slot }
}

/// When quotas cease to count a Pod that is being deleted. `deletionTimestamp` is the end of its grace period
/// already, and the API server's quota evaluator waits for as long once more (`QuotaV1Pod`).
fn lapses(metadata: &Metadata) -> Option<Timestamp> {
    let grace = metadata.deletion_grace_period_seconds?;
    metadata.deletion_timestamp?.checked_add(SignedDuration::from_secs(grace)).ok()
}

#[cfg(test)]
mod tests {
    use framework_api::name::variable;
    use framework_api::queue::{CONSUMER_LABEL, NAMESPACE_SLOT_LABEL};
    use framework_message::Slot;
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::decode;

    #[test]
    fn a_pod_names_its_job_by_its_controller_and_not_by_labels() {
        let controller = |owners: Value| {
            let pod = json!({"metadata": {
                "name": "job-worker-0", "namespace": "team", "ownerReferences": owners,
                "labels": {variable::FRAMEWORK_NAME: "job"}, "annotations": {variable::FRAMEWORK_UID: "f"},
            }});
            let pod = decode::<PodUse>(pod.to_string().as_bytes()).unwrap().unwrap();
            pod.controller.as_deref().map(str::to_owned)
        };
        let owner = |controller: bool| {
            json!([{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "job-attempt", "uid": "map",
                "controller": controller,
            }])
        };
        assert_eq!(controller(owner(true)).as_deref(), Some("map"));
        assert_eq!([controller(owner(false)), controller(json!([]))], [None, None]);
    }

    #[test]
    fn a_pod_is_of_the_slot_that_its_label_names_as_we_write_it() {
        let slot = |label: Value| {
            let pod = json!({"metadata": {"name": "a", "labels": {NAMESPACE_SLOT_LABEL: label}}});
            let pod = PodUse::read(&serde_json::value::to_raw_value(&pod).unwrap()).unwrap();
            assert_eq!(pod.slot, pod.object.unwrap().slot);
            pod.slot
        };
        assert_eq!([slot(json!("0")), slot(json!("255"))], [Some(Slot(0)), Some(Slot(255))]);
        let none = [Value::Null, json!(""), json!("07"), json!("+7"), json!("256"), json!("mine")];
        assert!(none.into_iter().all(|label| slot(label).is_none()), "no selector of slots matches it");
    }

    #[test]
    fn of_texts_and_labels_without_a_bound_little_is_kept() {
        let long = "x".repeat(1_000_000);
        let labels = json!({CONSUMER_LABEL: "job", "other": long, QUEUE_NAME_LABEL: "q"});
        let owner = json!({"apiVersion": "v1", "kind": long, "name": long, "uid": long, "controller": true});
        let pod = json!({"metadata": {"name": "a", "labels": labels, "ownerReferences": [owner]}});
        let pod = decode::<PodUse>(pod.to_string().as_bytes()).unwrap().unwrap();
        assert_eq!((pod.consumer.as_deref(), pod.controller.unwrap().len()), (Some("job"), 253));
    }

    #[test]
    fn a_pod_with_more_containers_than_a_template_may_have_is_left_out() {
        let of = |containers: usize| {
            let spec = json!({"containers": vec![json!({}); containers]});
            let pod = json!({"metadata": {"name": "a"}, "spec": spec}).to_string();
            decode::<PodUse>(pod.as_bytes()).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(of(1_000), Ok(()));
        assert!(of(1_001).unwrap_err().starts_with("more than 1000 containers"), "{:?}", of(1_001));
    }

    #[test]
    fn a_pod_is_counted_until_it_has_had_its_grace_period_twice() {
        let lapses = |metadata: Value| {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
            decode::<PodUse>(pod.to_string().as_bytes()).unwrap().unwrap().lapses.map(|at| at.to_string())
        };
        assert_eq!(lapses(json!({"name": "a", "namespace": "team"})), None);
        let deleting = json!({
            "name": "a", "namespace": "team", "deletionTimestamp": "2026-01-01T00:00:30Z",
            "deletionGracePeriodSeconds": 30,
        });
        assert_eq!(lapses(deleting).as_deref(), Some("2026-01-01T00:01:00Z"));
    }
}
