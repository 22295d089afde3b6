//! Pods as queueing sees them: the quota that each uses, and for which job.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use framework_api::name::variable;
use framework_api::queue::{ConsumerKind, QUEUE_NAME_LABEL};
use framework_message::Key;
use framework_queue::ResourceRequests;
use framework_queueing::{ConsumerKey, PodUse};

use super::resource::{Read, Resource, Wire};
use super::typed::{Metadata, PodSpecWire};

/// The labels that name a Pod's Job and its UID, beside the labels of the controller.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const JOB_UID: &str = "batch.kubernetes.io/controller-uid";
/// The label that names a Pod's JobSet.
const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
/// The UID of that JobSet; the first versions of JobSet do not set it.
const JOB_SET_UID: &str = "jobset.sigs.k8s.io/jobset-uid";

#[derive(Deserialize)]
struct PodWire {
    metadata: Metadata,
    #[serde(default)]
    spec: Option<PodSpecWire>,
    #[serde(default)]
    status: Option<StatusWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusWire {
    phase: Option<String>,
}

impl Wire for PodUse {
    const RESOURCE: Resource = Resource::new("", "v1", "Pod", "pods").selected_by(QUEUE_NAME_LABEL);

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let pod: PodWire = serde_json::from_str(json.get())?;
        Ok(Read::of(pod.metadata.resource_version.clone(), pod_of(pod)))
    }
}

fn pod_of(pod: PodWire) -> PodUse {
    let PodWire { metadata, spec, status } = pod;
    let (key, resource_version) = metadata.identity();
    let phase = status.as_ref().and_then(|status| status.phase.as_deref());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    let requests = spec.and_then(|spec| ResourceRequests::pod(&spec.asks()).ok()).unwrap_or_default();
    let of = |name: Option<&String>, uid: Option<&String>, kind| {
        let key = Key::new(&key.namespace, name?);
        Some((ConsumerKey::new(kind, key), Arc::from(uid?.as_str())))
    };
    let label = |name| metadata.label(name);
    let framework = of(label(variable::FRAMEWORK_NAME), metadata.framework_uid(), ConsumerKind::Framework);
    // A Pod of a Job of a JobSet says both.
    let uid = String::new();
    let set = of(label(JOB_SET_NAME), label(JOB_SET_UID).or(Some(&uid)), ConsumerKind::JobSet);
    let job = || of(label(JOB_NAME), label(JOB_UID), ConsumerKind::Job);
    let consumer = framework.or(set).or_else(job);
    PodUse { key, resource_version, consumer, requests, ended, lapses: lapses(&metadata) }
}

/// When quotas cease to count a Pod that is being deleted. `deletionTimestamp` is the end of its grace period
/// already, and the API server's quota evaluator waits for as long once more (`QuotaV1Pod`).
fn lapses(metadata: &Metadata) -> Option<Timestamp> {
    let grace = metadata.deletion_grace_period_seconds?;
    metadata.deletion_timestamp?.checked_add(SignedDuration::from_secs(grace)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::decode;

    #[test]
    fn a_pod_of_a_framework_names_it_by_label_and_annotation() {
        let pod = json!({"metadata": {
            "name": "job-worker-0", "namespace": "team",
            "labels": {variable::FRAMEWORK_NAME: "job"}, "annotations": {variable::FRAMEWORK_UID: "f"},
        }});
        let (consumer, uid) =
            decode::<PodUse>(pod.to_string().as_bytes()).unwrap().unwrap().consumer.unwrap();
        assert_eq!(consumer, ConsumerKey::new(ConsumerKind::Framework, Key::new("team", "job")));
        assert_eq!(&*uid, "f");
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
