//! Decodes what queueing needs. An object that cannot be decoded is left out, and hurts no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_api::Time;
use framework_api::name::variable;
use framework_api::queue::{
    self, ConsumerKind, DEQUEUED, OVERTAKEN, QUEUE_NAME_LABEL, Queue, QueueUnit, Reason,
};
use framework_queue::{Amount, QuotaFacts, ResourceRequests};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, ResourceQuotaStatus};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::ResourceExt;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use framework_message::{Change, Key};
use framework_queueing::{
    ClassObject, ConsumerKey, JobKind, JobObject, JobSetObject, Overtaken, PodUse, QueueCounts, QueueEvent,
    QueueObject, QuotaObject, UnitObject, UnitStatus,
};

use super::job_set::{self, job_set_of};
use crate::compression::Compressor;
use crate::event::Event;
use crate::watch::Kind;
use crate::wire::{Read, Wire};

/// What says of which job a Pod is, beside the labels of the controller.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const JOB_UID: &str = "batch.kubernetes.io/controller-uid";

/// Reads an object of type `T`, and of it what is wanted.
fn read<'de, T: DeserializeOwned, O, D: Deserializer<'de>>(
    deserializer: D,
    take: impl FnOnce(T) -> Option<O>,
) -> Result<Read<O>, D::Error> {
    #[derive(Deserialize)]
    struct Versioned {
        metadata: ObjectMeta,
    }
    let json = <&RawValue>::deserialize(deserializer)?;
    let Versioned { metadata } = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
    let object = serde_json::from_str(json.get()).ok().and_then(take);
    Ok(Read { resource_version: metadata.resource_version, object, unowned: None })
}

/// The name, and the resourceVersion as the number that it is.
pub(super) fn identity(metadata: &ObjectMeta) -> (Key, u128) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let version = metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
    (Key::new(&text(&metadata.namespace), &text(&metadata.name)), version)
}

pub(super) fn uid(metadata: &ObjectMeta) -> Arc<str> {
    metadata.uid.as_deref().unwrap_or_default().into()
}

pub(super) fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// A name that is given and not empty.
pub(super) fn given(text: Option<&String>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(|text| text.as_str().into())
}

macro_rules! kind {
    (
        $object:ty, $event:ident, $group:expr, $version:literal, $kind:literal, $plural:literal,
        $selector:expr, $take:expr
    ) => {
        impl Wire for $object {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
            const SELECTOR: Option<&'static str> = $selector;
            const PAGE: u32 = 500;

            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
                read(deserializer, $take)
            }
        }

        impl Kind for $object {
            type Text = Self;

            fn event(change: Change<Self>) -> Event {
                Event::Queue(QueueEvent::$event(change))
            }

            fn open(text: Self, _: &Compressor) -> Self {
                text
            }
        }
    };
}

kind!(UnitObject, Unit, queue::GROUP, "v1alpha1", "QueueUnit", "queueunits", None, |unit| Some(unit_of(
    unit
)));
kind!(QueueObject, Queue, queue::GROUP, "v1alpha1", "Queue", "queues", None, |queue| Some(queue_of(queue)));
kind!(QuotaObject, Quota, "", "v1", "ResourceQuota", "resourcequotas", None, |quota| Some(quota_of(quota)));
kind!(
    ClassObject,
    Class,
    "scheduling.k8s.io",
    "v1",
    "PriorityClass",
    "priorityclasses",
    None,
    |class: PriorityClass| {
        let (key, resource_version) = identity(&class.metadata);
        Some(ClassObject { key, resource_version, value: class.value })
    }
);
kind!(PodUse, Pod, "", "v1", "Pod", "pods", Some(QUEUE_NAME_LABEL), |pod| Some(pod_of(&pod)));
kind!(JobObject, Job, "batch", "v1", "Job", "jobs", Some(QUEUE_NAME_LABEL), |job| Some(job_of(&job)));

kind!(
    JobSetObject,
    JobSet,
    "jobset.x-k8s.io",
    "v1alpha2",
    "JobSet",
    "jobsets",
    Some(QUEUE_NAME_LABEL),
    |set| Some(job_set_of(set))
);

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

fn queue_of(queue: Queue) -> QueueObject {
    let (key, resource_version) = identity(&queue.metadata);
    let count = |count: Option<i32>| count.and_then(|count| usize::try_from(count).ok());
    let counts = queue.status.and_then(|status| {
        Some(QueueCounts { waiting: count(status.waiting)?, released: count(status.released)? })
    });
    QueueObject {
        uid: uid(&queue.metadata),
        counts,
        key,
        resource_version,
        policy: queue.spec.queue_policy,
        priority: queue.spec.priority,
        class: given(queue.spec.priority_class_name.as_ref()),
    }
}

/// What the quota controller has taken in is what the API server enforces: `status`, not `spec`.
fn quota_of(quota: ResourceQuota) -> QuotaObject {
    let (key, resource_version) = identity(&quota.metadata);
    let spec = quota.spec.unwrap_or_default();
    let scoped =
        spec.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty()) || spec.scope_selector.is_some();
    let status = quota.status.unwrap_or_default();
    let counted = status.hard.is_some();
    let limits = (!scoped).then(|| match status {
        ResourceQuotaStatus { hard: Some(hard), used } => QuotaFacts {
            hard: amounts(&hard),
            used: amounts(&used.unwrap_or_default()),
            ..Default::default()
        },
        // A quota that was just made: until what is used is counted, all of it may be.
        ResourceQuotaStatus { hard: None, .. } => {
            let hard = amounts(&spec.hard.unwrap_or_default());
            QuotaFacts { used: hard.clone(), hard, ..Default::default() }
        }
    });
    QuotaObject { key, resource_version, limits, counted }
}

/// The API server stores no quantity that cannot be read.
fn amounts(list: &BTreeMap<String, Quantity>) -> BTreeMap<String, Amount> {
    let read = |(key, quantity): (&String, &Quantity)| Some((key.clone(), Amount::of(quantity).ok()?));
    list.iter().filter_map(read).collect()
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
    let set = of(labels.get(job_set::NAME), labels.get(job_set::UID).or(Some(&uid)), ConsumerKind::JobSet);
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

/// How many Pods a Job runs at a time.
pub(super) fn at_a_time(job: &JobSpec) -> u64 {
    let parallelism = job.parallelism.unwrap_or(1);
    let pods = job.completions.map_or(parallelism, |completions| completions.min(parallelism));
    u64::try_from(pods).unwrap_or(0)
}

fn job_of(job: &Job) -> JobObject {
    let (key, resource_version) = identity(&job.metadata);
    let spec = job.spec.clone().unwrap_or_default();
    let pods = at_a_time(&spec);
    let pod = spec.template.spec.unwrap_or_default();
    let ends = |condition: &k8s_openapi::api::batch::v1::JobCondition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    };
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref());
    JobObject {
        uid: uid(&job.metadata),
        resource_version,
        created: created(&job.metadata),
        queue: given(job.labels().get(QUEUE_NAME_LABEL)),
        suspended: spec.suspend == Some(true),
        finished: conditions.unwrap_or_default().iter().any(ends),
        deleting: job.metadata.deletion_timestamp.is_some(),
        class: given(pod.priority_class_name.as_ref()),
        requests: ResourceRequests::pod(&pod)
            .map(|requests| requests.times(pods))
            .map_err(|error| error.to_string().into()),
        key,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::decode;

    fn job(spec: Value, status: Value) -> JobObject {
        let labels = json!({QUEUE_NAME_LABEL: "q"});
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": "train", "namespace": "team", "uid": "u", "resourceVersion": "7", "labels": labels,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": spec, "status": status,
        });
        decode(job.to_string().as_bytes()).unwrap().unwrap()
    }

    fn spec(parallelism: Value, completions: Value) -> Value {
        let resources = json!({"requests": {"cpu": "500m"}});
        let containers = json!([{"name": "main", "image": "busybox", "resources": resources}]);
        json!({
            "suspend": true, "parallelism": parallelism, "completions": completions,
            "template": {"spec": {"priorityClassName": "high", "containers": containers}},
        })
    }

    fn asks(job: &JobObject) -> String {
        job.requests.as_ref().unwrap().to_string()
    }

    #[test]
    fn a_job_asks_for_the_pods_that_it_runs_at_a_time() {
        let found = job(spec(json!(4), json!(10)), json!({}));
        assert_eq!(found.key, Key::new("team", "train"));
        assert_eq!((&*found.uid, found.resource_version), ("u", 7));
        assert_eq!((found.queue.as_deref(), found.class.as_deref()), (Some("q"), Some("high")));
        assert!(found.suspended && !found.finished && !found.deleting);
        assert_eq!(asks(&found), "cpu: 2, pods: 4");
        for (parallelism, completions, pods) in [
            (json!(4), json!(3), "cpu: 1500m, pods: 3"),
            (json!(4), Value::Null, "cpu: 2, pods: 4"),
            (Value::Null, json!(4), "cpu: 500m, pods: 1"),
            (json!(0), Value::Null, "nothing"),
        ] {
            let found = job(spec(parallelism.clone(), completions.clone()), json!({}));
            assert_eq!(asks(&found), pods, "{parallelism} {completions}");
        }
    }

    #[test]
    fn a_job_is_finished_by_a_condition_that_is_true_and_waits_only_while_it_is_suspended() {
        let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        for (status, finished) in [
            (condition("Complete", "True"), true),
            (condition("Failed", "True"), true),
            (condition("Failed", "False"), false),
            (condition("Suspended", "True"), false),
            (condition("FailureTarget", "True"), false),
        ] {
            assert_eq!(job(spec(json!(1), json!(1)), status.clone()).finished, finished, "{status}");
        }
        let mut running = spec(json!(1), json!(1));
        running["suspend"] = json!(false);
        assert!(!job(running, json!({})).suspended);
    }

    #[test]
    fn a_job_whose_template_cannot_be_read_says_why() {
        let mut bad = spec(json!(1), json!(1));
        bad["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("a lot");
        let reason = job(bad, json!({})).requests.unwrap_err();
        assert!(reason.contains("cpu"), "{reason}");
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
