//! Jobs of any kind that wait in a queue, or came through one.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_api::Framework;
use framework_api::PodTemplate;
use framework_api::job_kind::{self, JobKindRow};
use framework_api::name::{API_VERSION, GROUP, KIND};
use framework_api::queue::{ConsumerRef, growth_unit_name};
use framework_core::growth::UnitDemand;
use framework_core::queue::Stage;
use framework_queue::ResourceRequests;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;

use framework_message::Key;

/// The kinds whose jobs control their Pods, or control Jobs and JobSets that do: all of these are watched.
/// The executors of a SparkApplication are no exception: they get no label.
const CONTROL_THEIR_PODS: [(&str, &str); 11] = [
    ("batch", "Job"),
    ("jobset.x-k8s.io", "JobSet"),
    ("kubeflow.org", "TFJob"),
    ("kubeflow.org", "PyTorchJob"),
    ("kubeflow.org", "XGBoostJob"),
    ("kubeflow.org", "PaddleJob"),
    ("kubeflow.org", "JAXJob"),
    ("kubeflow.org", "MPIJob"),
    ("sparkoperator.k8s.io", "SparkApplication"),
    ("argoproj.io", "Workflow"),
    ("trainer.kubeflow.org", "TrainJob"),
];

/// The kind of a job as the objects that name it write it.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedKind {
    /// A Framework.
    Framework,
    /// The kind of a row.
    Declared(Arc<JobKindRow>),
}

impl NamedKind {
    /// Its `apiVersion`.
    pub fn api_version(&self) -> &str {
        match self {
            NamedKind::Framework => API_VERSION,
            NamedKind::Declared(row) => &row.api_version,
        }
    }

    /// Its `kind`.
    pub fn kind(&self) -> &str {
        match self {
            NamedKind::Framework => KIND,
            NamedKind::Declared(row) => &row.kind,
        }
    }
}

/// The kind of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// A Framework.
    Framework,
    /// Any other kind: its group and its kind. The controller creates units for those that have a row. The
    /// creator of other units also deletes them.
    Other {
        /// Of any version.
        group: Arc<str>,
        /// Its `kind`.
        kind: Arc<str>,
    },
    /// No kind: the unit names no job and stands for itself. Its creator deletes it.
    Itself,
}

impl JobKind {
    /// The kind that an object reference names.
    pub fn of(reference: &ConsumerRef) -> Self {
        match JobKind::other(&reference.api_version, &reference.kind) {
            kind if kind.is(GROUP, KIND) => JobKind::Framework,
            kind => kind,
        }
    }

    /// The kind of a row.
    pub fn declared(row: &JobKindRow) -> Self {
        JobKind::other(&row.api_version, &row.kind)
    }

    /// Whether it is `Job` of `batch`, which every API server has.
    pub fn is_job(&self) -> bool {
        self.is("batch", "Job")
    }

    /// Whether it is `JobSet` of `jobset.x-k8s.io`.
    pub fn is_job_set(&self) -> bool {
        self.is("jobset.x-k8s.io", "JobSet")
    }

    /// Whether the owners of each Pod lead to its job. The label that names the job proves nothing then.
    pub fn controls_its_pods(&self) -> bool {
        CONTROL_THEIR_PODS.iter().any(|(group, kind)| self.is(group, kind))
    }

    fn is(&self, of_group: &str, of_kind: &str) -> bool {
        matches!(self, JobKind::Other { group, kind } if **group == *of_group && **kind == *of_kind)
    }

    fn other(api_version: &str, kind: &str) -> Self {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        JobKind::Other { group: group.into(), kind: kind.into() }
    }
}

/// Names a job. The order is by namespace first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerKey {
    /// Its name.
    pub key: Key,
    /// Its kind.
    pub kind: JobKind,
}

impl ConsumerKey {
    /// Not above any job of the namespace.
    pub fn least_of(namespace: &str) -> Self {
        ConsumerKey { key: Key::new(namespace, ""), kind: JobKind::Framework }
    }

    /// A Framework.
    pub fn of_framework(key: Key) -> Self {
        ConsumerKey { kind: JobKind::Framework, key }
    }

    /// Whether it is a Framework.
    pub fn is_framework(&self) -> bool {
        self.kind == JobKind::Framework
    }

    /// The unit that the controller makes for it, if it makes units for that kind.
    pub fn unit(&self) -> Option<Key> {
        let kind = match &self.kind {
            JobKind::Framework => KIND,
            JobKind::Other { kind, .. } => kind,
            JobKind::Itself => return None,
        };
        Some(Key::new(&self.key.namespace, &job_kind::unit_name(kind, &self.key.name)))
    }

    /// The unit that the controller creates for a growth.
    pub fn growth_unit(&self, generation: i64) -> Option<Key> {
        let first = self.unit()?;
        Some(Key::new(&first.namespace, &growth_unit_name(&first.name, generation)))
    }

    /// The generation of the growth that a unit belongs to; `None` if it is not the unit of a growth.
    pub fn generation_of(&self, unit: &Key) -> Option<i64> {
        let first = self.unit().filter(|_| self.is_framework())?;
        let generation = unit.name.strip_prefix(&*first.name)?.strip_prefix('-')?.parse().ok()?;
        self.growth_unit(generation).filter(|named| named == unit).map(|_| generation)
    }
}

/// The Tasks that one generation of the spec adds to a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// Since when it waits.
    pub since: Timestamp,
    /// The requests of these Pods, or the reason why they are not known.
    pub requests: Result<ResourceRequests, Arc<str>>,
}

/// A job that waits in a queue, or came through one.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumer {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, for kinds that the controller itself patches.
    pub resource_version: u128,
    /// `metadata.generation`, for kinds whose admission names a generation; else 0.
    pub generation: i64,
    /// `metadata.creationTimestamp`: since when it waits.
    pub created: Timestamp,
    /// UID of the unit that let it begin, for kinds that the controller itself patches.
    pub resumed_by: Option<Arc<str>>,
    /// In which queue, by its label.
    pub queue: Option<Arc<str>>,
    /// `priorityClassName` of its Pods.
    pub class: Option<Arc<str>>,
    /// The requests of all its Pods (of the first ones if it has grown), or the reason why they are not
    /// known.
    pub requests: Result<ResourceRequests, Arc<str>>,
    /// Its growths since it was released, by generation.
    pub growths: BTreeMap<i64, Growth>,
    /// The resources for which each of its units is still needed, once it has begun, with Tasks that are
    /// being removed. The key is the generation of a growth; the first unit has none. `None`: that is not
    /// known.
    pub held: BTreeMap<Option<i64>, Option<ResourceRequests>>,
    /// Its stage. A waiting job has not begun, unless its present generation was admitted.
    pub stage: Stage,
    /// Whether it is being deleted: no unit is created for it any more.
    pub deleting: bool,
}

impl Consumer {
    /// A Framework that waits in a queue, or came through one.
    pub fn framework(
        framework: &Framework,
        queue: Option<&str>,
        stage: Stage,
        demands: &[UnitDemand],
    ) -> Self {
        let metadata = &framework.metadata;
        let created = metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let roles: Vec<_> = framework.spec.task_roles.iter().map(|role| asked(&role.task.pod)).collect();
        let class = roles.iter().flatten().find_map(|(_, class)| class.clone());
        let sum = |tasks: &[u64]| -> Result<ResourceRequests, Arc<str>> {
            let mut sum = ResourceRequests::default();
            for (position, role) in roles.iter().enumerate() {
                let (one, _) = role
                    .as_ref()
                    .map_err(|error| Arc::from(format!("spec.taskRoles[{position}].task.pod: {error}")))?;
                let tasks = tasks.get(position).copied().unwrap_or(0);
                let limited = sum.plus(&one.times(tasks)).limited();
                sum = limited.map_err(|error| Arc::from(error.to_string()))?;
            }
            Ok(sum)
        };
        let requests = |demand: Option<&UnitDemand>| sum(demand.map_or(&[], |demand| &demand.tasks));
        let held =
            |demand: &UnitDemand| (demand.generation, sum(&demand.held).ok().filter(|_| !demand.lingers));
        let growth = |demand: &UnitDemand| {
            let since = demand.since?.timestamp();
            Some((demand.generation?, Growth { since, requests: requests(Some(demand)) }))
        };
        Consumer {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            resource_version: 0,
            generation: metadata.generation.unwrap_or_default(),
            created,
            resumed_by: None,
            queue: queue.map(Arc::from),
            class,
            requests: requests(demands.iter().find(|demand| demand.generation.is_none())),
            growths: demands.iter().filter_map(growth).collect(),
            held: demands.iter().map(held).collect(),
            stage,
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Whether the other one differs by nothing but the resourceVersion.
    pub fn differs_by_version(&self, other: &Consumer) -> bool {
        *self == Consumer { resource_version: self.resource_version, ..other.clone() }
    }

    /// Whether a job waits for a unit of its own.
    pub fn wants_unit(&self) -> bool {
        self.stage == Stage::Waiting && self.queue.is_some() && !self.deleting
    }

    /// Whether a job is being deleted before it has begun, so that it never will. It may hang in its deletion
    /// by a finalizer of another owner.
    pub fn ends_unbegun(&self) -> bool {
        self.stage == Stage::Waiting && self.deleting
    }

    /// Whether a job is suspended, and may be resumed.
    pub fn waits_to_begin(&self) -> bool {
        self.stage == Stage::Waiting && !self.deleting
    }

    /// Whether the release of this unit let it begin already.
    pub fn was_resumed_by(&self, unit: &str) -> bool {
        self.resumed_by.as_deref() == Some(unit)
    }
}

/// The requests of one Pod of this template, and the PriorityClass that it names.
///
/// Only the fields that say so are decoded, because the struct of a volume takes kilobytes.
fn asked(template: &PodTemplate) -> Result<(ResourceRequests, Option<Arc<str>>), String> {
    #[derive(Deserialize)]
    struct Template {
        #[serde(default)]
        spec: Option<Spec>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        containers: Option<Vec<Container>>,
        init_containers: Option<Vec<Container>>,
        resources: Option<ResourceRequirements>,
        overhead: Option<BTreeMap<String, Quantity>>,
        priority_class_name: Option<String>,
    }
    let spec = template.decode::<Template>()?.spec.unwrap_or_default();
    let class = spec.priority_class_name.filter(|name| !name.is_empty()).map(Arc::from);
    let pod = PodSpec {
        containers: spec.containers.unwrap_or_default(),
        init_containers: spec.init_containers,
        resources: spec.resources,
        overhead: spec.overhead,
        ..PodSpec::default()
    };
    let requests = ResourceRequests::pod(&pod).map_err(|error| error.to_string())?;
    Ok((requests, class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_built_in_kinds_only_ray_jobs_need_the_label_of_their_pods() {
        let rows = job_kind::built_in();
        let need = |row: &&JobKindRow| !JobKind::declared(row).controls_its_pods();
        let kinds: Vec<&str> = rows.iter().filter(need).map(|row| row.kind.as_str()).collect();
        assert_eq!(kinds, ["RayJob"]);
    }
}
