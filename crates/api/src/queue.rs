//! Queueing as users write and read it: the resources `QueueUnit` and `Queue`.
//!
//! A `QueueUnit` holds the requests of one job and says whether the job may run. A `Queue` is an order in
//! which units are served. `QueueUnit` has the form of the proposal "Queue Unit" of the project kube-queue,
//! so that objects written for it are understood here. `crate::schema` has the bounds, and the fields that
//! may change in each phase. The group `queue.k8s.io` is protected, hence the annotation of both definitions.

pub(crate) mod limits;
pub(crate) mod reason;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::limits::{MAX_CONDITIONS, MAX_QUANTITY, MAX_QUEUE_NAME, MAX_RESOURCE_NAME, MAX_RESOURCES};
pub use self::reason::{DEQUEUED, OVERTAKEN, Reason};

/// API group of `QueueUnit` and `Queue`.
pub const GROUP: &str = "queue.k8s.io";
/// `apiVersion` of `QueueUnit` and `Queue`.
pub const API_VERSION: &str = "queue.k8s.io/v1alpha1";
/// `kind` of `QueueUnit`.
pub const UNIT_KIND: &str = "QueueUnit";
/// `kind` of `Queue`.
pub const QUEUE_KIND: &str = "Queue";

/// Label of a job: the queue in which it waits. The Pods and units of that job carry it too.
pub const QUEUE_NAME_LABEL: &str = "frameworkcontroller.microsoft.com/queue-name";
/// Label of the Pods of a resumed job: its UID, for operators that put objects of their own between both.
pub const CONSUMER_LABEL: &str = "frameworkcontroller.microsoft.com/queue-consumer";
/// Finalizer of a unit: the unit is deleted only after the last Pod of its job is gone.
pub const FINALIZER: &str = "frameworkcontroller.microsoft.com/queue-unit";
/// Label that names the slot of the namespace, whose owner schedules its units. The controller gives it to
/// the QueueUnits that it creates, and to the ConfigMap and the Pods of a Framework that came through a
/// queue.
pub const NAMESPACE_SLOT_LABEL: &str = "frameworkcontroller.microsoft.com/namespace-slot";
/// Annotation of a QueueUnit: since when its job, or the growth of its Framework, waits.
pub const ENQUEUED_ANNOTATION: &str = "frameworkcontroller.microsoft.com/enqueued";
/// Annotation of a released QueueUnit: the part of `spec.resource` that its Framework still needs, as JSON.
pub const HELD_ANNOTATION: &str = "frameworkcontroller.microsoft.com/held";
/// Annotation of a released QueueUnit that a user made for a Framework without its UID. It is the UID of the
/// unit, a slash, and the UID of the Framework that the unit is for. A copy of the unit has another UID, so
/// there it says nothing.
pub const BOUND_TO_ANNOTATION: &str = "frameworkcontroller.microsoft.com/bound-to";

/// Annotation of a resumed job: the UID of the QueueUnit that let it begin. If
/// the job is suspended again, it stays so.
pub const RESUMED_BY_ANNOTATION: &str = "frameworkcontroller.microsoft.com/resumed-by";

/// The queue of a unit that names none. It must exist, like any other queue.
pub const DEFAULT_QUEUE: &str = "default";

/// The requests of one job, and the queue in which it waits. Only `priority` may change, and only until the
/// unit is released.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "queue.k8s.io",
    version = "v1alpha1",
    kind = "QueueUnit",
    plural = "queueunits",
    shortname = "qu",
    category = "all",
    namespaced,
    derive = "PartialEq",
    doc = "A QueueUnit requests the resources of one job. Once its phase is Dequeued, the job may run.",
    annotation("api-approved.kubernetes.io", "unapproved, not an API of the Kubernetes project"),
    status = "QueueUnitStatus",
    validation = crate::schema::queue::forward_only(),
    validation = crate::schema::queue::priority_while_it_waits(),
    printcolumn(name = "Queue", type_ = "string", json_path = ".spec.queue"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Dequeued\")].reason"
    ),
    printcolumn(
        name = "Class",
        type_ = "string",
        json_path = ".spec.priorityClassName",
        description = "priorityClassName, which counts while there is no priority",
        priority = 1
    ),
    printcolumn(name = "Consumer", type_ = "string", json_path = ".spec.consumerRef.name", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::queue::fixed_but_priority)]
pub struct QueueUnitSpec {
    /// The job that waits for this unit: an object in the unit's own namespace. If unset, the unit stands
    /// for itself: it keeps its quota from its release until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<ConsumerRef>,
    /// The `Queue` of the same namespace in which it waits: 1 to 63 characters. If unset, `default`.
    #[serde(default = "default_queue")]
    #[schemars(length(max = MAX_QUEUE_NAME), transform = crate::schema::queue::queue_name)]
    pub queue: String,
    /// In a queue whose policy is `Priority`, units with a higher priority are released first. It takes
    /// precedence over `priorityClassName`; without both it is 0. It may change while the unit waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority: Option<i32>,
    /// The PriorityClass whose value is the priority while `priority` is unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), transform = crate::schema::queue::class_name)]
    pub priority_class_name: Option<String>,
    /// The requests of the whole job: up to 30 quantities, by resource. A resource is counted against the
    /// keys `{resource}` and `requests.{resource}` of the namespace's ResourceQuotas; `pods` counts Pods.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::queue::resource_list")]
    pub resource: BTreeMap<String, Quantity>,
}

fn default_queue() -> String {
    DEFAULT_QUEUE.to_owned()
}

/// The job that waits for a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerRef {
    /// Its `apiVersion`, such as `batch/v1`.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// Its `kind`, such as `Job`.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253), transform = crate::schema::queue::job_name)]
    pub name: String,
    /// Its namespace. If set, it must be the unit's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Its UID. If unset, the first object of that name after the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub uid: Option<String>,
}

/// The observed state of a unit. Only the controller writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::queue::one_owner)]
pub struct QueueUnitStatus {
    /// Whether the unit waits or is released. It is unset until the controller has seen the unit, and only
    /// goes forward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Why the unit waits, for people: the missing, reserved and limited amounts. It is rewritten when the
    /// reason changes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32_768))]
    pub message: String,
    /// `Dequeued` says whether the unit is released, or the reason why not. `Overtaken` says since when
    /// other units pass it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_CONDITIONS), transform = crate::schema::queue::conditions)]
    pub conditions: Vec<Condition>,
}

/// The phase of a unit. The phases `ScheduleSucced` and `ScheduleFailed` of the proposal are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// The unit waits in its queue.
    Enqueued,
    /// The unit is released for good: its job may run, and its requests are reserved.
    Dequeued,
}

/// The order in which the units that name this queue are served.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "queue.k8s.io",
    version = "v1alpha1",
    kind = "Queue",
    plural = "queues",
    category = "all",
    namespaced,
    derive = "PartialEq",
    doc = "A Queue is an order in which the QueueUnits of its namespace that name it are served.",
    annotation("api-approved.kubernetes.io", "unapproved, not an API of the Kubernetes project"),
    status = "QueueStatus",
    validation = crate::schema::queue::short_name(),
    printcolumn(name = "Policy", type_ = "string", json_path = ".spec.queuePolicy"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(name = "Waiting", type_ = "integer", json_path = ".status.waiting"),
    printcolumn(name = "Released", type_ = "integer", json_path = ".status.released"),
    printcolumn(
        name = "Class",
        type_ = "string",
        json_path = ".spec.priorityClassName",
        description = "priorityClassName, which counts while there is no priority",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct QueueSpec {
    /// The order of its units.
    #[serde(default)]
    pub queue_policy: QueuePolicy,
    /// Queues of a namespace with a higher priority are served first. It takes precedence over
    /// `priorityClassName`; without both it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority: Option<i32>,
    /// The PriorityClass whose value is the priority while `priority` is unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), transform = crate::schema::queue::class_name)]
    pub priority_class_name: Option<String>,
}

/// The order of the units of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum QueuePolicy {
    /// The oldest unit first.
    #[serde(rename = "FIFO")]
    Fifo,
    /// The unit with the highest priority first; of equal ones, the oldest.
    #[default]
    Priority,
}

/// The counts of a queue when the controller last wrote them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::queue::one_owner)]
pub struct QueueStatus {
    /// Waiting units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub waiting: Option<i32>,
    /// Released units that still hold quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub released: Option<i32>,
}

/// Name of the unit that requests the growth of a released job: the name of its first unit, and the
/// `metadata.generation` of the job that grew.
pub fn growth_unit_name(unit: &str, generation: i64) -> String {
    format!("{unit}-{generation}")
}

impl QueueUnitStatus {
    /// The condition of that type.
    pub fn condition(&self, r#type: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == r#type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::Resource;
    use serde_json::json;

    #[test]
    fn the_names_are_those_of_the_definitions() {
        assert_eq!([QueueUnit::api_version(&()), QueueUnit::kind(&())], [API_VERSION, UNIT_KIND]);
        assert_eq!([Queue::api_version(&()), Queue::kind(&())], [API_VERSION, QUEUE_KIND]);
        assert_eq!([QueueUnit::group(&()), Queue::group(&())], [GROUP, GROUP]);
    }

    #[test]
    fn a_unit_of_the_proposal_is_read_with_whole_numbers_and_quantities() {
        let consumer = json!({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job1"});
        let spec: QueueUnitSpec = serde_json::from_value(json!({
            "consumerRef": consumer, "priority": 100, "resource": {"cpu": 40, "memory": "1Gi"},
        }))
        .unwrap();
        assert_eq!(spec.queue, DEFAULT_QUEUE);
        assert_eq!(spec.resource["cpu"], Quantity("40".to_owned()));
        let written = serde_json::to_value(&spec).unwrap();
        assert_eq!(written["consumerRef"], consumer, "what is unset is left out");
        assert_eq!(written.get("priorityClassName"), None);
    }

    #[test]
    fn an_unset_status_is_an_empty_object() {
        assert_eq!(serde_json::to_value(QueueUnitStatus::default()).unwrap(), json!({}));
        let released: QueueUnitStatus = serde_json::from_value(json!({"phase": "Dequeued"})).unwrap();
        assert_eq!(released.phase, Some(Phase::Dequeued));
    }

    #[test]
    fn the_unit_of_a_growth_is_named_by_its_generation() {
        assert_eq!(growth_unit_name("framework-a", 7), "framework-a-7");
    }
}
