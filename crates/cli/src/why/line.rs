//! The positions of the units of a Framework in their queues, and the requests that fit into no quota now.
//!
//! The order is that of the controller's own scheduler. It is computed from the units, Queues and quotas as
//! they are stored: a position may differ for a moment from that of the controller. A Job's unit is ranked by
//! its own creation instead of its Job's. Once released, it counts until it is gone: its Job is not read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_api::name::{GROUP, KIND};
use framework_api::queue::{
    ENQUEUED_ANNOTATION, FINALIZER, HELD_ANNOTATION, OVERTAKEN, Phase, Queue, QueueUnit, Reason,
};
use framework_queue::requests::resource_of;
use framework_queue::{Amount, Namespace, QueueFacts, QuotaFacts, ResourceRequests, UnitFacts, UnitPhase};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::Api;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::find::Found;
use crate::queue::{self, UnitView};

/// Long enough that no unit becomes overdue here: only the controller reserves.
const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// A unit, and where it stands.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The unit.
    #[serde(flatten)]
    pub unit: UnitView,
    /// How many units of its queue stand before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
    /// How many units of all queues would be released before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directly_before: Option<String>,
    /// The requests that do not fit into a quota now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl Standing {
    /// A unit of which nothing more is known.
    pub fn of(unit: UnitView) -> Standing {
        Standing { unit, ..Standing::default() }
    }

    /// The lines for people.
    pub fn lines(&self) -> Vec<String> {
        let UnitView { name, queue, reason, message, .. } = &self.unit;
        let phase = self.unit.phase_or_new();
        if !self.unit.waits() {
            return vec![format!("QueueUnit {name} in {queue:?}: {phase}")];
        }
        let mut lines = vec![format!("QueueUnit {name} in {queue:?}: {phase}, {reason}: {message}")];
        if let Some((place, before)) = self.place.zip(self.before) {
            let last = self.directly_before.as_ref().map(|last| format!(", the last of them {last}"));
            let last = last.unwrap_or_default();
            lines.push(format!("{place} before it in its queue, {before} in all queues{last}"));
        }
        lines
    }
}

/// The objects by which units are ordered.
#[derive(Default)]
struct Stored {
    units: Vec<QueueUnit>,
    queues: Vec<Queue>,
    quotas: Vec<ResourceQuota>,
    /// Values of PriorityClasses.
    classes: BTreeMap<String, i32>,
}

/// The standings of a Framework's units. Facts that could not be found out are added to `unknown`.
pub async fn standings(
    cluster: &Cluster,
    found: &Found,
    now: Timestamp,
    unknown: &mut Vec<String>,
) -> Result<Vec<Standing>, Error> {
    if !queue::may_have_units(found) {
        return Ok(Vec::new());
    }
    let units = known(queue::all(cluster).await, unknown)?;
    let own = queue::select(found, &units);
    if !own.iter().any(UnitView::waits) {
        return Ok(own.into_iter().map(Standing::of).collect());
    }
    let stored = Stored {
        queues: known(cluster.list(&cluster.api(), None, "Queues").await, unknown)?,
        quotas: known(cluster.list(&cluster.api(), None, "ResourceQuotas").await, unknown)?,
        classes: classes(cluster, &units, unknown).await?,
        units,
    };
    Ok(place(own, &stored, now))
}

/// The listed objects. A user who may not list them, or whose cluster does not have them, gets an answer
/// without them.
pub fn known<K>(listed: Result<Vec<K>, Error>, unknown: &mut Vec<String>) -> Result<Vec<K>, Error> {
    match listed {
        Err(error) if is_refused(&error) => {
            unknown.push(error.to_string());
            Ok(Vec::new())
        }
        listed => listed,
    }
}

/// Whether an answer came that would be the same a minute later.
fn is_refused(error: &Error) -> bool {
    let Error::Request { source, .. } = error else { return false };
    match &**source {
        kube::Error::Api(status) => matches!(status.code, 403 | 404),
        source => matches!(source, kube::Error::SerdeError(_)),
    }
}

/// The values of PriorityClasses, if a unit needs one.
async fn classes(
    cluster: &Cluster,
    units: &[QueueUnit],
    unknown: &mut Vec<String>,
) -> Result<BTreeMap<String, i32>, Error> {
    if !units.iter().any(|unit| unit.spec.priority.is_none() && unit.spec.priority_class_name.is_some()) {
        return Ok(BTreeMap::new());
    }
    let api: Api<PriorityClass> = Api::all(cluster.client.clone());
    let listed = known(cluster.list(&api, None, "PriorityClasses").await, unknown)?;
    Ok(listed.into_iter().filter_map(|class| Some((class.metadata.name?, class.value))).collect())
}

fn place(own: Vec<UnitView>, stored: &Stored, now: Timestamp) -> Vec<Standing> {
    let namespace = namespace(stored, now);
    let unit_of = |uid: &str| stored.units.iter().find(|unit| unit.metadata.uid.as_deref() == Some(uid));
    let name_of = |scheduled: &Arc<str>| unit_of(scheduled.rsplit_once('/')?.1)?.metadata.name.clone();
    let position = |unit: &UnitView| namespace.position(&name_in_schedule(unit_of(&unit.uid)?));
    let standing = |unit: UnitView| {
        let position = position(&unit).filter(|_| unit.waits());
        Standing {
            place: position.as_ref().map(|position| position.place),
            before: position.as_ref().map(|position| position.before),
            directly_before: position.and_then(|position| name_of(&position.directly_before?)),
            missing: missing(&unit, stored),
            unit,
        }
    };
    own.into_iter().map(standing).collect()
}

/// The scheduler with these facts. It decides nothing here: it only reports positions.
fn namespace(stored: &Stored, now: Timestamp) -> Namespace {
    let mut namespace = Namespace::new(NEVER);
    for quota in &stored.quotas {
        let hard = amounts(limits(quota).map(|(hard, _)| hard));
        let facts = QuotaFacts { hard, ..QuotaFacts::default() };
        namespace.set_quota(quota.metadata.name.as_deref().unwrap_or_default(), Some(facts));
    }
    // Limits are counted in a round. There is nothing to decide about yet.
    namespace.round(now);
    for queue in &stored.queues {
        let priority = priority(queue.spec.priority, queue.spec.priority_class_name.as_ref(), stored);
        let facts = QueueFacts { policy: queue.spec.queue_policy, priority };
        namespace.set_queue(queue.metadata.name.as_deref().unwrap_or_default(), Some(facts));
    }
    for unit in &stored.units {
        namespace.set_unit(name_in_schedule(unit), facts(unit, stored));
    }
    namespace
}

/// The name of a unit in the schedule, which breaks ties: by the UID of its job, then by its own.
fn name_in_schedule(unit: &QueueUnit) -> String {
    let uid = unit.metadata.uid.as_deref().unwrap_or_default();
    let mut owners = unit.metadata.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str());
    let consumer = unit.spec.consumer_ref.as_ref().and_then(|reference| reference.uid.as_deref());
    format!("{}/{uid}", controller.or(consumer).filter(|job| !job.is_empty()).unwrap_or(uid))
}

/// The facts about a unit; `None` if no unit waits for it.
fn facts(unit: &QueueUnit, stored: &Stored) -> Option<UnitFacts> {
    let status = unit.status.clone().unwrap_or_default();
    let requests = ResourceRequests::from_list(&unit.spec.resource).ok()?;
    let annotation = |name: &str| unit.metadata.annotations.as_ref()?.get(name).map(String::as_str);
    let phase = if status.phase == Some(Phase::Dequeued) {
        let usage = if names_framework(unit) {
            // Of a unit that the controller made, the finalizer is the reservation.
            let is_final = unit.metadata.finalizers.iter().flatten().any(|name| *name == FINALIZER);
            if is_of_framework(unit) && !is_final {
                return None;
            }
            let held: Option<BTreeMap<String, Quantity>> =
                annotation(HELD_ANNOTATION).and_then(|text| serde_json::from_str(text).ok());
            let held = held.and_then(|list| ResourceRequests::from_list(&list).ok());
            held.map_or_else(|| requests.clone(), |held| requests.min(&held))
        } else {
            requests.clone()
        };
        UnitPhase::Released { usage }
    } else {
        let condition = status.condition(framework_api::queue::DEQUEUED);
        let reason = condition.and_then(|condition| Reason::parse(&condition.reason));
        let is_passed_over = matches!(
            reason,
            Some(Reason::PriorityClassNotFound | Reason::ConsumerNotFound | Reason::ConsumerNotAllowed)
        );
        if is_passed_over || unit.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let overtaken = status.condition(OVERTAKEN).filter(|condition| condition.status == "True");
        UnitPhase::Waiting {
            overtaken: overtaken.map(|condition| condition.last_transition_time.0),
            reserved: overtaken.is_some_and(|one| one.reason == Reason::CapacityReserved.as_str()),
            reason,
        }
    };
    let created = unit.metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |at| at.0);
    let enqueued: Option<Timestamp> = annotation(ENQUEUED_ANNOTATION).and_then(|text| text.parse().ok());
    Some(UnitFacts {
        queue: unit.spec.queue.as_str().into(),
        priority: priority(unit.spec.priority, unit.spec.priority_class_name.as_ref(), stored),
        enqueued: enqueued.map_or(created, |since| since.min(created)),
        requests,
        grows: false,
        phase,
    })
}

/// Whether its job is a Framework: its share, or a part of it, may have been returned.
fn names_framework(unit: &QueueUnit) -> bool {
    let Some(consumer) = &unit.spec.consumer_ref else { return false };
    let group = consumer.api_version.split_once('/').map(|(group, _)| group);
    group == Some(GROUP) && consumer.kind == KIND
}

/// Whether the controller made it for a Framework.
fn is_of_framework(unit: &QueueUnit) -> bool {
    let metadata = &unit.metadata;
    let is_controlled =
        metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    // `kubectl delete --cascade=orphan` takes the owner reference away.
    let has_note = metadata.annotations.iter().flatten().any(|(name, _)| name == ENQUEUED_ANNOTATION);
    let uid = unit.spec.consumer_ref.as_ref().and_then(|consumer| consumer.uid.as_ref());
    names_framework(unit) && (is_controlled || has_note && uid.is_some_and(|uid| !uid.is_empty()))
}

fn priority(given: Option<i32>, class: Option<&String>, stored: &Stored) -> i32 {
    given.or_else(|| stored.classes.get(class?).copied()).unwrap_or_default()
}

/// The enforced limits of a quota, and their use; `None` of one with scopes, which limits not every Pod.
fn limits(quota: &ResourceQuota) -> Option<(&List, &List)> {
    let spec = quota.spec.as_ref()?;
    let expressions = spec.scope_selector.as_ref().and_then(|selector| selector.match_expressions.as_ref());
    let is_scoped = spec.scopes.as_ref().is_some_and(|all| !all.is_empty())
        || expressions.is_some_and(|all| !all.is_empty());
    let status = quota.status.as_ref().filter(|_| !is_scoped)?;
    status.hard.as_ref().zip(status.used.as_ref())
}

type List = BTreeMap<String, Quantity>;

fn amounts(list: Option<&List>) -> BTreeMap<String, Amount> {
    let read = |(key, quantity): (&String, &Quantity)| Some((key.clone(), Amount::of(quantity).ok()?));
    list.into_iter().flatten().filter_map(read).collect()
}

/// The requests of a waiting unit that do not fit into a quota beside its current use.
fn missing(unit: &UnitView, stored: &Stored) -> Vec<String> {
    let list = unit.requests.iter().map(|(key, amount)| (key.clone(), Quantity(amount.clone()))).collect();
    let Ok(requests) = ResourceRequests::from_list(&list) else { return Vec::new() };
    let mut lines = Vec::new();
    for quota in stored.quotas.iter().filter(|_| unit.waits()) {
        let name = quota.metadata.name.as_deref().unwrap_or_default();
        let Some((hard, used)) = limits(quota) else { continue };
        let used = amounts(Some(used));
        for (key, limit) in amounts(Some(hard)) {
            let asked = requests.get(resource_of(&key));
            let used = used.get(&key).copied().unwrap_or(Amount::ZERO);
            if asked == Amount::ZERO || used.plus(asked) <= limit {
                continue;
            }
            let lacking = used.plus(asked).minus(limit);
            lines.push(format!(
                "{key}: requests {asked}, {lacking} too many: quota {name:?} allows {limit}, \
                 {used} are used now"
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn unit(name: &str, minute: u32, priority: i32, status: Value) -> QueueUnit {
        let created = format!("2026-01-02T03:{minute:02}:00Z");
        let metadata = json!({"name": name, "uid": name, "creationTimestamp": created,
            "finalizers": ["frameworkcontroller.microsoft.com/queue-unit"]});
        let spec = json!({"queue": "q", "priority": priority, "resource": {"pods": "3"}});
        let unit = json!({"apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": metadata,
            "spec": spec, "status": status});
        serde_json::from_value(unit).unwrap()
    }

    fn stored() -> Stored {
        let waits = || json!({"phase": "Enqueued"});
        let quota = json!({"metadata": {"name": "room"}, "spec": {},
            "status": {"hard": {"pods": "4"}, "used": {"pods": "3"}}});
        let queue = json!({"apiVersion": "queue.k8s.io/v1alpha1", "kind": "Queue", "metadata": {"name": "q"},
            "spec": {}});
        Stored {
            units: vec![
                unit("runs", 0, 0, json!({"phase": "Dequeued"})),
                unit("old", 1, 0, waits()),
                unit("young", 2, 0, waits()),
                unit("urgent", 3, 5, waits()),
            ],
            queues: vec![serde_json::from_value(queue).unwrap()],
            quotas: vec![serde_json::from_value(quota).unwrap()],
            classes: BTreeMap::new(),
        }
    }

    fn view(name: &str) -> UnitView {
        UnitView {
            name: name.into(),
            uid: name.into(),
            phase: Some("Enqueued".into()),
            requests: [("pods".to_owned(), "3".to_owned())].into(),
            ..UnitView::default()
        }
    }

    #[test]
    fn the_order_is_that_of_the_queue_and_released_units_are_not_in_it() {
        let placed = place(["urgent", "old", "young"].map(view).into(), &stored(), Timestamp::UNIX_EPOCH);
        let seen: Vec<_> =
            placed.iter().map(|one| (one.place, one.before, one.directly_before.as_deref())).collect();
        let expected =
            [(Some(0), Some(0), None), (Some(1), Some(1), Some("urgent")), (Some(2), Some(2), Some("old"))];
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_missing_amount_is_that_beyond_the_room_of_the_quota() {
        let expected = "pods: requests 3, 2 too many: quota \"room\" allows 4, 3 are used now";
        assert_eq!(missing(&view("old"), &stored()), [expected]);
        let mut roomy = stored();
        let quota = json!({"metadata": {"name": "room"}, "spec": {},
            "status": {"hard": {"requests.cpu": "1"}, "used": {"requests.cpu": "1"}}});
        roomy.quotas = vec![serde_json::from_value(quota).unwrap()];
        assert_eq!(missing(&view("old"), &roomy), [""; 0], "it asks for no CPU");
    }

    #[test]
    fn a_quota_counts_unless_it_has_a_scope() {
        let lines = |spec: Value| {
            let mut stored = stored();
            stored.quotas[0].spec = serde_json::from_value(spec).unwrap();
            missing(&view("old"), &stored).len()
        };
        let expression = json!({"scopeName": "Terminating", "operator": "Exists"});
        assert_eq!(lines(json!({"scopes": [], "scopeSelector": {}})), 1);
        assert_eq!(lines(json!({"scopeSelector": {"matchExpressions": []}})), 1);
        assert_eq!(lines(json!({"scopeSelector": {"matchExpressions": [expression]}})), 0);
        assert_eq!(lines(json!({"scopes": ["Terminating"]})), 0);
    }

    #[test]
    fn a_released_unit_holds_what_the_controller_counts_of_it() {
        // The queue of the younger unit goes first if the released unit holds some of the other one.
        let is_counted = |metadata: Value, spec: Value| {
            let mut stored = stored();
            let mut released = json!(stored.units[0]);
            released["metadata"] = metadata;
            released["spec"]["consumerRef"] = spec;
            stored.units[0] = serde_json::from_value(released).unwrap();
            stored.units.pop();
            stored.units[2].spec.queue = "idle".into();
            let mut idle = json!(stored.queues[0]);
            idle["metadata"]["name"] = "idle".into();
            stored.queues.push(serde_json::from_value(idle).unwrap());
            let placed = place(vec![view("old")], &stored, Timestamp::UNIX_EPOCH);
            placed[0].before == Some(1)
        };
        let framework = json!({"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "name": "a", "uid": "f"});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "j"});
        for consumer in [Value::Null, job, framework.clone()] {
            assert!(is_counted(json!({"name": "runs", "uid": "runs"}), consumer), "made by hand");
        }
        let owner =
            json!({"apiVersion": "v1", "kind": "Framework", "name": "a", "uid": "f", "controller": true});
        let ours = |finalizer: &str, annotations: Value| {
            let metadata = json!({"name": "runs", "uid": "runs", "finalizers": [finalizer],
                "annotations": annotations, "ownerReferences": [owner.clone()]});
            is_counted(metadata, framework.clone())
        };
        assert!(ours(FINALIZER, json!({})));
        assert!(!ours(FINALIZER, json!({HELD_ANNOTATION: "{}"})), "its Pods are gone");
        assert!(!ours("foreign/finalizer", json!({})), "its job has ended");
        let returned = json!({"name": "runs", "uid": "runs", "annotations": {HELD_ANNOTATION: "{}"}});
        assert!(!is_counted(returned, framework.clone()), "made by hand, and returned");
        let left = json!({"name": "runs", "uid": "runs", "annotations": {ENQUEUED_ANNOTATION: "x"}});
        assert!(!is_counted(left, framework.clone()), "its Framework left it behind");
    }
}
