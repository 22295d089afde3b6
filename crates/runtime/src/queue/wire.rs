//! Decodes what queueing needs. An object that cannot be decoded is left out, and hurts no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_api::Time;
use framework_api::name::variable;
use framework_api::queue::{
    self, ConsumerKind, DEQUEUED, OVERTAKEN, QUEUE_NAME_LABEL, Queue, QueueUnit, Reason,
};
use framework_queue::{Amount, Ask, QuotaFacts};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, ResourceQuotaStatus};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::ResourceExt;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::consumer::{ConsumerKey, JobKind};
use super::object::{
    ClassObject, JobObject, News, Overtaken, PodUse, QueueObject, QuotaObject, UnitObject, UnitStanding,
};
use crate::event::{Change, Event, Key};
use crate::pack::Packer;
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
    Ok(Read { resource_version: metadata.resource_version, object, stranger: None })
}

/// The name, and the resourceVersion as the number that it is.
fn identity(metadata: &ObjectMeta) -> (Key, u128) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let version = metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
    (Key::new(&text(&metadata.namespace), &text(&metadata.name)), version)
}

fn uid(metadata: &ObjectMeta) -> Arc<str> {
    metadata.uid.as_deref().unwrap_or_default().into()
}

fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// A name that is given and not empty.
fn given(text: Option<&String>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(|text| text.as_str().into())
}

macro_rules! kind {
    (
        $object:ty, $news:ident, $group:expr, $version:literal, $kind:literal, $plural:literal,
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
                Event::Queue(News::$news(change))
            }

            fn open(text: Self, _: &Packer) -> Self {
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

fn unit_of(unit: QueueUnit) -> UnitObject {
    let metadata = unit.metadata;
    let (key, resource_version) = identity(&metadata);
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let spec = unit.spec;
    let reference = spec.consumer_ref;
    let namespace = given(reference.namespace.as_ref()).unwrap_or_else(|| Arc::clone(&key.namespace));
    let consumer = ConsumerKey { kind: JobKind::of(&reference), key: Key::new(&namespace, &reference.name) };
    UnitObject {
        uid: uid(&metadata),
        resource_version,
        created: created(&metadata),
        deleting: metadata.deletion_timestamp.is_some(),
        owner: owner.map(|owner| owner.uid.as_str().into()),
        finalizers: metadata.finalizers.unwrap_or_default(),
        consumer,
        consumer_uid: given(reference.uid.as_ref()),
        queue: spec.queue.as_str().into(),
        priority: spec.priority,
        class: given(spec.priority_class_name.as_ref()),
        ask: Ask::from_list(&spec.resource).map_err(|error| error.to_string().into()),
        standing: unit.status.map(standing).unwrap_or_default(),
        key,
    }
}

fn standing(status: queue::QueueUnitStatus) -> UnitStanding {
    let is = |kind: &'static str| move |condition: &&Condition| condition.type_ == kind;
    let dequeued = status.conditions.iter().find(is(DEQUEUED));
    let overtaken =
        status.conditions.iter().find(is(OVERTAKEN)).filter(|condition| condition.status == "True");
    let since = |condition: &Condition| Time::floor(condition.last_transition_time.0);
    UnitStanding {
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
    QueueObject {
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
    let limits = (!scoped).then(|| match quota.status.unwrap_or_default() {
        ResourceQuotaStatus { hard: Some(hard), used } => {
            QuotaFacts { hard: amounts(&hard), used: amounts(&used.unwrap_or_default()) }
        }
        // A quota that was just made: until what is used is counted, all of it may be.
        ResourceQuotaStatus { hard: None, .. } => {
            let hard = amounts(&spec.hard.unwrap_or_default());
            QuotaFacts { used: hard.clone(), hard }
        }
    });
    QuotaObject { key, resource_version, limits }
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
    let ask = pod.spec.as_ref().and_then(|spec| Ask::pod(spec).ok()).unwrap_or_default();
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
    let consumer = framework.or_else(|| of(labels.get(JOB_NAME), labels.get(JOB_UID), ConsumerKind::Job));
    PodUse { key, resource_version, consumer, ask, ended }
}

fn job_of(job: &Job) -> JobObject {
    let (key, resource_version) = identity(&job.metadata);
    let spec = job.spec.clone().unwrap_or_default();
    let pod = spec.template.spec.unwrap_or_default();
    let ends = |condition: &k8s_openapi::api::batch::v1::JobCondition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    };
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref());
    let parallelism = spec.parallelism.unwrap_or(1).max(0);
    let pods = spec.completions.map_or(parallelism, |completions| completions.min(parallelism)).max(0);
    JobObject {
        uid: uid(&job.metadata),
        resource_version,
        created: created(&job.metadata),
        queue: given(job.labels().get(QUEUE_NAME_LABEL)),
        suspended: spec.suspend == Some(true),
        finished: conditions.unwrap_or_default().iter().any(ends),
        deleting: job.metadata.deletion_timestamp.is_some(),
        class: given(pod.priority_class_name.as_ref()),
        ask: Ask::pod(&pod)
            .map(|ask| ask.times(u64::try_from(pods).unwrap_or(0)))
            .map_err(|error| error.to_string().into()),
        key,
    }
}
