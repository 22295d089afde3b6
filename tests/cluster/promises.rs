//! The controller's promises under any disturbance, as questions to a [`History`]. Each answers with the
//! breaches that it finds.
//!
//! The promises hold for every history in which users do not create the controller's own objects; statuses
//! must not be compressed.

use std::collections::BTreeMap;

use framework_api::status::TaskStatus;
use framework_api::{FrameworkStatus, State};
use framework_testcluster::audit::Record;

use super::history::{History, Life};

/// Finds breaches of one promise.
type Promise = fn(&History) -> Vec<String>;

/// All of them.
pub const PROMISES: [(&str, Promise); 9] = [
    ("one instance at a time", one_instance_at_a_time),
    ("Pods are licensed", pods_are_licensed),
    ("ConfigMaps are licensed", config_maps_are_licensed),
    ("what is completed rests", what_is_completed_rests),
    ("completions never change", completions_never_change),
    ("counts never fall", counts_never_fall),
    ("status writes name what they replace", status_writes_name_what_they_replace),
    ("deletes name a UID", deletes_name_a_uid),
    ("an end is recorded before a Pod is deleted", an_end_is_recorded_before_a_pod_is_deleted),
];

/// Each Task of each status, with the name of its TaskRole.
fn tasks(status: &FrameworkStatus) -> impl Iterator<Item = (&str, &TaskStatus)> {
    let roles = status.task_roles().iter();
    roles.flat_map(|role| role.tasks().map(|task| (role.name.as_str(), task)))
}

/// The lives of two objects of one name do not overlap.
fn one_instance_at_a_time(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    for lives in [&history.config_maps, &history.pods] {
        let mut last: BTreeMap<&str, &Life> = BTreeMap::new();
        for life in lives {
            if let Some(earlier) = last.insert(&life.name, life)
                && earlier.gone.is_none_or(|gone| gone >= life.created)
            {
                breaches.push(format!("{} {} lives beside {}", life.name, life.uid, earlier.uid));
            }
        }
    }
    breaches
}

/// When a Pod is created, the stored status says that this attempt of this Task is about to be.
fn pods_are_licensed(history: &History) -> Vec<String> {
    let unlicensed = |life: &&Life| {
        let status = history.status_before(life.annotation("FC_FRAMEWORK_NAME"), life.created);
        let index = life.annotation("FC_TASK_INDEX").parse().unwrap_or(-1);
        let task = status.and_then(|status| status.task(life.annotation("FC_TASKROLE_NAME"), index));
        !task.zip(status).is_some_and(|(task, status)| {
            task.state == State::AttemptCreationPending
                && !task.deletion_pending
                && task.instance_uid == life.annotation("FC_TASK_UID")
                && task.attempt_status.id.to_string() == life.annotation("FC_TASK_ATTEMPT_ID")
                && status.attempt_status.config_map_uid.as_deref()
                    == Some(life.annotation("FC_CONFIGMAP_UID"))
        })
    };
    let found = history.pods.iter().filter(unlicensed);
    found.map(|life| format!("{} {} created at {}", life.name, life.uid, life.created)).collect()
}

/// When a ConfigMap is created, the stored status says that this attempt of the Framework is about to be.
fn config_maps_are_licensed(history: &History) -> Vec<String> {
    let unlicensed = |life: &&Life| {
        let status = history.status_before(life.annotation("FC_FRAMEWORK_NAME"), life.created);
        !status.is_some_and(|status| {
            status.state == State::AttemptCreationPending
                && status.attempt_status.id.to_string() == life.annotation("FC_FRAMEWORK_ATTEMPT_ID")
        })
    };
    let found = history.config_maps.iter().filter(unlicensed);
    found.map(|life| format!("{} {} created at {}", life.name, life.uid, life.created)).collect()
}

/// Once an attempt of a Task is stored as completed, no Pod of it runs or is created.
fn what_is_completed_rests(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    for life in &history.pods {
        let of = |name| life.annotation(name);
        let completed = history.statuses().find(|(_, _, status)| {
            let same = status.attempt_status.config_map_uid.as_deref() == Some(of("FC_CONFIGMAP_UID"));
            let task = status.task(of("FC_TASKROLE_NAME"), of("FC_TASK_INDEX").parse().unwrap_or(-1));
            same && task.is_some_and(|task| {
                task.state >= State::AttemptCompleted
                    && task.instance_uid == of("FC_TASK_UID")
                    && task.attempt_status.id.to_string() == of("FC_TASK_ATTEMPT_ID")
            })
        });
        if let Some((version, ..)) = completed {
            let rests = [life.ended, life.gone].into_iter().flatten().any(|end| end < version);
            if life.created > version || !rests {
                breaches.push(format!("{} {} is not at rest at {version}: {life:?}", life.name, life.uid));
            }
        }
    }
    breaches
}

/// How an attempt ended, of a Framework or of a Task, stays as it was stored first.
fn completions_never_change(history: &History) -> Vec<String> {
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    let mut breaches = Vec::new();
    let mut see = |attempt: String, end: Option<String>| match (stored.get(&attempt), end) {
        (None, None) => {}
        (Some(first), Some(end)) if *first == end => {}
        (None, Some(end)) => {
            stored.insert(attempt, end);
        }
        (Some(first), end) => breaches.push(format!("{attempt} ended as {first}, then as {end:?}")),
    };
    for (_, uid, status) in history.statuses() {
        let attempt = &status.attempt_status;
        see(format!("{uid}/{}", attempt.id), attempt.completion_status.as_ref().map(json));
        for (role, task) in tasks(status) {
            let name = format!("{role}-{} {}", task.index, task.instance_uid);
            let end = task.attempt_status.completion_status.as_ref().map(json);
            see(format!("{uid}/{}/{name}/{}", attempt.id, task.attempt_status.id), end);
        }
    }
    breaches
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("a status can be written")
}

/// Retry counts and the ids of attempts only rise.
fn counts_never_fall(history: &History) -> Vec<String> {
    let mut highest: BTreeMap<String, [i32; 3]> = BTreeMap::new();
    let mut breaches = Vec::new();
    let mut see = |of: String, counts: [i32; 3]| {
        let before = highest.entry(of.clone()).or_insert(counts);
        if before.iter().zip(counts).any(|(before, now)| *before > now) {
            breaches.push(format!("{of}: {before:?}, then {counts:?}"));
        }
        *before = counts;
    };
    for (_, uid, status) in history.statuses() {
        let (retried, id) = (status.retry_policy_status, status.attempt_status.id);
        see(uid.to_owned(), [id, retried.total_retried_count, retried.accountable_retried_count]);
        for (role, task) in tasks(status) {
            let (retried, id) = (task.retry_policy_status, task.attempt_status.id);
            let counts = [id, retried.total_retried_count, retried.accountable_retried_count];
            see(format!("{uid}/{role}-{} {}", task.index, task.instance_uid), counts);
        }
    }
    breaches
}

/// Each status write says which version it was computed from.
fn status_writes_name_what_they_replace(history: &History) -> Vec<String> {
    let writes = history.own_requests().filter(|request| request.subresource == "status");
    let blind = writes.filter(|request| text(request, "/metadata/resourceVersion").is_none());
    blind.map(|request| format!("{} {} at {}", request.verb, request.name, request.received)).collect()
}

/// Each delete of a Pod or a ConfigMap says by UID which one is meant, and it is one of the controller's own.
fn deletes_name_a_uid(history: &History) -> Vec<String> {
    let known = |uid: &str| {
        let mut lives = history.config_maps.iter().chain(&history.pods);
        lives.any(|life| life.uid == uid && !life.annotation("FC_FRAMEWORK_UID").is_empty())
    };
    let deletes = history.own_requests().filter(|request| request.verb.starts_with("delete"));
    let blind = deletes.filter(|request| {
        ["pods", "configmaps"].contains(&request.resource.as_str())
            && !text(request, "/preconditions/uid").is_some_and(known)
    });
    blind.map(|request| format!("{} {} at {}", request.verb, request.name, request.received)).collect()
}

/// A Pod that is deleted was either never recorded, or its end was stored before.
fn an_end_is_recorded_before_a_pod_is_deleted(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    for life in &history.pods {
        let Some(deleted) = life.deleted else { continue };
        let before = history.statuses().filter(|(version, ..)| *version < deleted);
        let records = before.flat_map(|(_, _, status)| tasks(status)).map(|(_, task)| &task.attempt_status);
        let of_this: Vec<_> = records.filter(|record| record.pod_uid.as_ref() == Some(&life.uid)).collect();
        let is_ours = !history.is_deleted_by_others(life);
        if is_ours && !of_this.is_empty() && of_this.iter().all(|record| record.completion_status.is_none()) {
            breaches.push(format!("{} {} deleted at {deleted}", life.name, life.uid));
        }
    }
    breaches
}

/// A text in the body of a request.
fn text<'a>(request: &'a Record, pointer: &str) -> Option<&'a str> {
    request.request_object.as_ref()?.pointer(pointer)?.as_str()
}
