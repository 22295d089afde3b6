//! Pods as queueing sees them: the quota that each uses, and for which job.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde::Deserializer;

use framework_api::name::variable;
use framework_api::queue::{ConsumerKind, QUEUE_NAME_LABEL};
use framework_message::Key;
use framework_queue::ResourceRequests;
use framework_queueing::{ConsumerKey, PodUse};

use super::resource::{Read, Resource, Wire};
use super::typed::{self, identity};

/// The labels that name a Pod's Job and its UID, beside the labels of the controller.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const JOB_UID: &str = "batch.kubernetes.io/controller-uid";
/// The label that names a Pod's JobSet.
const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
/// The UID of that JobSet; the first versions of JobSet do not set it.
const JOB_SET_UID: &str = "jobset.sigs.k8s.io/jobset-uid";

impl Wire for PodUse {
    const RESOURCE: Resource = Resource::new("", "v1", "Pod", "pods").selected_by(QUEUE_NAME_LABEL);

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        typed::read(deserializer, |pod| pod_of(&pod))
    }
}

fn pod_of(pod: &Pod) -> PodUse {
    let (key, resource_version) = identity(&pod.metadata);
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    let requests = pod.spec.as_ref().and_then(|spec| ResourceRequests::pod(spec).ok()).unwrap_or_default();
    let labels = pod.labels();
    let of = |name: Option<&String>, uid: Option<&String>, kind| {
        let key = Key::new(&key.namespace, name?);
        Some((ConsumerKey::new(kind, key), Arc::from(uid?.as_str())))
    };
    let framework = of(
        labels.get(variable::FRAMEWORK_NAME),
        pod.annotations().get(variable::FRAMEWORK_UID),
        ConsumerKind::Framework,
    );
    // A Pod of a Job of a JobSet says both.
    let uid = String::new();
    let set = of(labels.get(JOB_SET_NAME), labels.get(JOB_SET_UID).or(Some(&uid)), ConsumerKind::JobSet);
    let job = || of(labels.get(JOB_NAME), labels.get(JOB_UID), ConsumerKind::Job);
    let consumer = framework.or(set).or_else(job);
    PodUse { key, resource_version, consumer, requests, ended, lapses: lapses(&pod.metadata) }
}

/// When quotas cease to count a Pod that is being deleted. `deletionTimestamp` is the end of its grace period
/// already, and the API server's quota evaluator waits for as long once more (`QuotaV1Pod`).
fn lapses(metadata: &ObjectMeta) -> Option<Timestamp> {
    let grace = metadata.deletion_grace_period_seconds?;
    metadata.deletion_timestamp.as_ref()?.0.checked_add(SignedDuration::from_secs(grace)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::decode;

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
