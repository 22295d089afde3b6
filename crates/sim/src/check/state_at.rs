//! The objects in the cluster at a resourceVersion, read as the contract means them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::history::{Change, Verb};
use crate::object::{Meta, Object};
use crate::store::Key;

/// The states of Frameworks and Tasks, in their order.
pub(crate) const STATES: &[&str] = &[
    "AttemptCreationPending",
    "AttemptCreationRequested",
    "AttemptPreparing",
    "AttemptRunning",
    "AttemptDeletionPending",
    "AttemptDeletionRequested",
    "AttemptDeleting",
    "AttemptCompleted",
    "Completed",
];

/// The living objects that the promises are about.
#[derive(Debug, Default)]
pub(crate) struct StateAt {
    pub frameworks: BTreeMap<Key, Arc<Object>>,
    pub maps: BTreeMap<Key, Arc<Object>>,
    pub pods: BTreeMap<Key, Arc<Object>>,
    /// The change that created each object, by UID.
    pub creations: BTreeMap<String, Arc<Change>>,
    /// UID and request of the last deletion that marked its object.
    pub marked: Option<(String, u64)>,
}

impl StateAt {
    /// Takes a change in.
    pub(crate) fn apply(&mut self, change: &Arc<Change>) {
        if change.cause.verb == Verb::Delete && !change.removes() {
            self.marked = Some((change.uid.clone(), change.cause.call));
        }
        let objects = match &*change.plural {
            "frameworks" => &mut self.frameworks,
            "configmaps" => &mut self.maps,
            "pods" => &mut self.pods,
            _ => return,
        };
        let key = Key::new(&change.namespace, &change.name);
        match &change.new {
            Some(new) => objects.insert(key, Arc::clone(new)),
            None => objects.remove(&key),
        };
        if change.creates() {
            self.creations.insert(change.uid.clone(), Arc::clone(change));
        }
    }

    /// Whether this is the removal that follows the marking of the same request: a DELETE of a Pod that goes
    /// at once is two changes.
    pub(crate) fn second_half(&self, change: &Change) -> bool {
        let marked = |(uid, call): &(String, u64)| *uid == change.uid && *call == change.cause.call;
        change.removes() && self.marked.as_ref().is_some_and(marked)
    }

    /// The living Framework with that name and UID.
    pub(crate) fn framework(&self, namespace: &str, name: &str, uid: &str) -> Option<&Arc<Object>> {
        self.frameworks.get(&Key::new(namespace, name)).filter(|framework| framework.uid() == uid)
    }
}

/// Whether a change is the controller's.
pub(crate) fn by_controller(change: &Change) -> bool {
    let actor = &change.cause.actor;
    change.cause.call > 0 && !actor.starts_with("user") && !actor.ends_with("-member")
}

/// The name of the Framework whose attempt the controller reference of a Pod names.
pub(crate) fn framework_of_pod(pod: &Value) -> Option<&str> {
    let owner = pod.controller().filter(|owner| owner["kind"] == "ConfigMap")?;
    owner["name"].as_str()?.strip_suffix("-attempt")
}

/// The name of the Framework that the controller reference of a ConfigMap names, if the names fit.
pub(crate) fn framework_of_map(map: &Value) -> Option<&str> {
    let owner = map.controller().filter(|owner| owner["kind"] == "Framework")?;
    let name = owner["name"].as_str()?;
    (map.name().strip_suffix("-attempt") == Some(name)).then_some(name)
}

/// Which Task, and which of its attempts, a Pod stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PodIdentity<'a> {
    pub framework: &'a str,
    pub framework_uid: &'a str,
    pub framework_attempt: i64,
    pub role: &'a str,
    pub index: i64,
    pub task_uid: &'a str,
    pub task_attempt: i64,
    pub map_uid: &'a str,
}

impl<'a> PodIdentity<'a> {
    /// Reads a Pod, `None` when it is not one of the controller's.
    pub(crate) fn of(pod: &'a Value) -> Option<Result<Self, String>> {
        let framework = framework_of_pod(pod)?;
        let text = |key: &str| pod.annotation(key).ok_or_else(|| format!("annotation {key} is missing"));
        let number = |key: &str| text(key)?.parse().map_err(|_| format!("annotation {key} is not a number"));
        let map_uid = pod.controller().and_then(|owner| owner["uid"].as_str()).unwrap_or("");
        let read = || {
            Ok(Self {
                framework,
                framework_uid: text("FC_FRAMEWORK_UID")?,
                framework_attempt: number("FC_FRAMEWORK_ATTEMPT_ID")?,
                role: text("FC_TASKROLE_NAME")?,
                index: number("FC_TASK_INDEX")?,
                task_uid: text("FC_TASK_UID")?,
                task_attempt: number("FC_TASK_ATTEMPT_ID")?,
                map_uid,
            })
        };
        Some(read())
    }
}

/// The status of a Framework, or of a Task: both have a state, retries and an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status<'a>(pub &'a Value);

impl<'a> Status<'a> {
    /// The persisted status of a Framework, `None` while there is none.
    pub(crate) fn of(framework: &'a Object) -> Option<Self> {
        framework.opened().get("status").filter(|status| status.is_object()).map(Self)
    }

    pub(crate) fn state(self) -> &'a str {
        self.0["state"].as_str().unwrap_or("")
    }

    /// Place of the state in the order of states.
    pub(crate) fn rank(self) -> Option<usize> {
        STATES.iter().position(|state| *state == self.state())
    }

    pub(crate) fn is(self, state: &str) -> bool {
        self.state() == state
    }

    /// Whether its attempt is over.
    pub(crate) fn attempt_is_over(self) -> bool {
        self.is("AttemptCompleted") || self.is("Completed")
    }

    pub(crate) fn attempt(self) -> &'a Value {
        &self.0["attemptStatus"]
    }

    pub(crate) fn attempt_id(self) -> i64 {
        self.attempt()["id"].as_i64().unwrap_or(-1)
    }

    pub(crate) fn completion(self) -> &'a Value {
        &self.attempt()["completionStatus"]
    }

    /// The UID of the object that stands for the attempt, empty while unset.
    pub(crate) fn object_uid(self) -> &'a str {
        let attempt = self.attempt();
        attempt["configMapUID"].as_str().or(attempt["podUID"].as_str()).unwrap_or("")
    }

    pub(crate) fn uid(self) -> &'a str {
        self.0["instanceUID"].as_str().unwrap_or("")
    }

    pub(crate) fn deletion_pending(self) -> bool {
        self.0["deletionPending"] == true
    }

    /// Whether it is stored compressed.
    pub(crate) fn packed(self) -> bool {
        self.attempt()["taskRoleStatusesCompressed"].is_string()
    }

    /// Whether its Tasks are compressed and cannot be decompressed.
    pub(crate) fn compressed(self) -> bool {
        self.attempt()["taskRoleStatuses"].is_null()
            && self.attempt()["taskRoleStatusesCompressed"].is_string()
    }

    pub(crate) fn roles(self) -> &'a [Value] {
        self.attempt()["taskRoleStatuses"].as_array().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn role(self, name: &str) -> Option<&'a Value> {
        self.roles().iter().find(|role| role["name"] == name)
    }

    /// Every Task with the name of its TaskRole.
    pub(crate) fn tasks(self) -> impl Iterator<Item = (&'a str, Status<'a>)> {
        self.roles().iter().flat_map(|role| {
            let name = role["name"].as_str().unwrap_or("");
            role["taskStatuses"].as_array().into_iter().flatten().map(move |task| (name, Status(task)))
        })
    }

    pub(crate) fn task(self, role: &str, index: i64) -> Option<Status<'a>> {
        let tasks = self.role(role)?["taskStatuses"].as_array()?;
        // Tasks are stored by their index; the search is for a status that breaks even that.
        let there = usize::try_from(index).ok().and_then(|place| tasks.get(place));
        let there = there.filter(|task| task["index"] == index);
        there.or_else(|| tasks.iter().find(|task| task["index"] == index)).map(Status)
    }
}
