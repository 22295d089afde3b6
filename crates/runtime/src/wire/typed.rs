//! The parts that the objects of queueing have in common: the few fields that are used, and no others.
//!
//! A field that is not read cannot hurt: the API server stores values that Kubernetes' own types, as they
//! are decoded here, do not take.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use framework_api::pod_template::MAX_CONTAINERS;
use framework_message::{Key, Slot};
use framework_queueing::{Finalizers, JobNotes};

use super::meta::{Owner, beginning};
use super::time::time;

/// The fields of `metadata` that queueing reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: Option<String>,
    #[serde(deserialize_with = "time")]
    pub creation_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    pub deletion_timestamp: Option<Timestamp>,
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "finalizers")]
    pub finalizers: Finalizers,
    #[serde(rename = "ownerReferences", deserialize_with = "controller")]
    controller: Option<Owner>,
    labels: Option<QueueLabels>,
    annotations: Option<Annotations>,
}

/// The labels that are read; the others are not kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct QueueLabels {
    #[serde(rename = "frameworkcontroller.microsoft.com/queue-name")]
    queue_name: Option<String>,
    #[serde(rename = "frameworkcontroller.microsoft.com/queue-consumer")]
    consumer: Option<String>,
    #[serde(rename = "frameworkcontroller.microsoft.com/namespace-slot")]
    namespace_slot: Option<String>,
}

/// The annotations that are read; the others are not kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "frameworkcontroller.microsoft.com/enqueued")]
    enqueued: Option<String>,
    #[serde(rename = "frameworkcontroller.microsoft.com/held")]
    held: Option<String>,
    #[serde(rename = "frameworkcontroller.microsoft.com/bound-to")]
    bound_to: Option<String>,
    #[serde(rename = "frameworkcontroller.microsoft.com/resumed-by")]
    resumed_by: Option<String>,
}

impl Metadata {
    /// The name, and the resourceVersion as the number that it is.
    pub fn identity(&self) -> (Key, u128) {
        let version = self.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
        (Key::new(&self.namespace, &self.name), version)
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> Arc<str> {
        self.uid.as_str().into()
    }

    /// `metadata.creationTimestamp`.
    pub fn created(&self) -> Timestamp {
        self.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// The label that names a queue.
    pub fn queue_name(&self) -> Option<Arc<str>> {
        given(self.labels.as_ref()?.queue_name.as_ref())
    }

    /// The label that names the job of a Pod.
    pub fn consumer(&self) -> Option<Arc<str>> {
        given(self.labels.as_ref()?.consumer.as_ref())
    }

    /// The slot of the namespace, as its label names it; `None`: there is no label, or one that the
    /// controller would not write. No selector of slots matches that one.
    pub fn namespace_slot(&self) -> Option<Slot> {
        let text = self.labels.as_ref()?.namespace_slot.as_deref()?;
        text.parse().map(Slot).ok().filter(|slot| slot.to_string() == text)
    }

    /// Since when the job of a unit waits, as its creator wrote it.
    pub fn enqueued(&self) -> Option<&str> {
        self.annotations.as_ref()?.enqueued.as_deref()
    }

    /// The part of a unit that is still needed, as its Framework's side wrote it.
    pub fn held(&self) -> Option<&str> {
        self.annotations.as_ref()?.held.as_deref()
    }

    /// UID of the Framework that a unit turned out to be for. The note of another unit, of which this one is
    /// a copy, says nothing.
    pub fn bound_to(&self) -> Option<Arc<str>> {
        let text = self.annotations.as_ref()?.bound_to.as_deref()?;
        let framework = text.strip_prefix(self.uid.as_str())?.strip_prefix('/')?;
        (!framework.is_empty()).then(|| beginning(framework).into())
    }

    /// The unit that let a job begin.
    pub fn job_notes(&self) -> JobNotes {
        let annotations = self.annotations.as_ref();
        let resumed_by = annotations.and_then(|annotations| annotations.resumed_by.as_deref());
        JobNotes {
            has_annotations: annotations.is_some(),
            resumed_by: resumed_by.map(beginning).map(Arc::from),
        }
    }

    /// UID of the object that it is part of. The Jobs of a CronJob are jobs of their own.
    pub fn part_of(&self) -> Option<Arc<str>> {
        self.controller().filter(|owner| owner.kind != "CronJob").map(|owner| owner.uid.as_str().into())
    }

    /// The owner that controls the object.
    pub fn controller(&self) -> Option<&Owner> {
        self.controller.as_ref()
    }
}

fn finalizers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Finalizers, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(deserializer)?.into_iter().flatten().collect())
}

/// Of all owners, the one that controls the object.
fn controller<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Owner>, D::Error> {
    let owners = Option::<Vec<Owner>>::deserialize(deserializer)?;
    Ok(owners.into_iter().flatten().find(Owner::is_controller))
}

/// The fields of a condition that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionWire {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
    #[serde(deserialize_with = "time")]
    pub last_transition_time: Option<Timestamp>,
}

impl ConditionWire {
    /// Whether it is true.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// The fields of a Pod's spec that state its requests.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpecWire {
    pub priority_class_name: Option<String>,
    #[serde(deserialize_with = "containers")]
    containers: Option<Vec<ContainerWire>>,
    #[serde(deserialize_with = "containers")]
    init_containers: Option<Vec<ContainerWire>>,
    overhead: Option<BTreeMap<String, Quantity>>,
    resources: Option<ResourcesWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerWire {
    restart_policy: Option<String>,
    resources: Option<ResourcesWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ResourcesWire {
    requests: Option<BTreeMap<String, Quantity>>,
    limits: Option<BTreeMap<String, Quantity>>,
}

/// Reads a list of containers. Of more than a Framework's template may have, the requests are not known: each
/// takes a thousand times its JSON once it is a container of Kubernetes' own type.
fn containers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ContainerWire>>, D::Error> {
    let list = Option::<Vec<ContainerWire>>::deserialize(deserializer)?;
    match &list {
        Some(list) if list.len() > MAX_CONTAINERS => {
            Err(D::Error::custom(format!("more than {MAX_CONTAINERS} containers")))
        }
        _ => Ok(list),
    }
}

impl PodSpecWire {
    /// A spec that asks for the same.
    pub fn asks(self) -> PodSpec {
        let containers = |wire: Vec<ContainerWire>| wire.into_iter().map(ContainerWire::asks).collect();
        PodSpec {
            containers: self.containers.map(containers).unwrap_or_default(),
            init_containers: self.init_containers.map(containers),
            overhead: self.overhead,
            resources: self.resources.map(ResourcesWire::asks),
            ..PodSpec::default()
        }
    }
}

impl ContainerWire {
    fn asks(self) -> Container {
        Container {
            restart_policy: self.restart_policy,
            resources: self.resources.map(ResourcesWire::asks),
            ..Container::default()
        }
    }
}

impl ResourcesWire {
    fn asks(self) -> ResourceRequirements {
        ResourceRequirements { requests: self.requests, limits: self.limits, claims: None }
    }
}

/// A name that is given and not empty. Of a text that is too long for a name, the beginning.
pub fn given(text: Option<&String>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(|text| beginning(text).into())
}
