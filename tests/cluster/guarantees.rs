//! The manual's ConsistencyGuarantees 1 to 4, as questions to a [`History`]. Each answers with the breaches
//! that it finds.
//!
//! They hold for every history in which users delete no Pods by force, delete Frameworks only in the
//! foreground, and change no owners. They also check that the controller deletes no Pod by force, because the
//! API server would show one instance at a time even so.

use std::collections::BTreeMap;

use framework_api::{FrameworkStatus, State};

use super::history::{History, Life};
use super::late_config_map;

/// Finds breaches of one guarantee.
type Guarantee = fn(&History) -> Vec<String>;

/// All of them.
pub const GUARANTEES: [(&str, Guarantee); 5] = [
    ("ConsistencyGuarantee1", one_instance_of_a_task),
    ("ConsistencyGuarantee1: no Pod is deleted by force", nothing_is_deleted_by_force),
    ("ConsistencyGuarantee2", no_instance_of_a_task_at_rest),
    ("ConsistencyGuarantee3", one_instance_of_a_framework),
    ("ConsistencyGuarantee4", no_instance_of_a_framework_at_rest),
];

/// The breaches of all guarantees.
pub fn breaches(history: &History) -> Vec<String> {
    let all = GUARANTEES.iter().flat_map(|(name, breaches)| {
        breaches(history).into_iter().map(move |breach| format!("{name}: {breach}"))
    });
    all.collect()
}

/// Asserts that all guarantees were kept.
pub fn assert_kept(history: &History) {
    let broken = breaches(history);
    assert!(broken.is_empty(), "{} breaches:\n{}", broken.len(), broken.join("\n"));
}

/// When an instance no longer runs. A ConfigMap is one for as long as it exists, a Pod until it has ended.
fn end(life: &Life) -> u64 {
    life.ended.into_iter().chain(life.gone).min().unwrap_or(u64::MAX)
}

fn task_of(pod: &Life) -> (&str, &str, &str) {
    let of = |name| pod.annotation(name);
    (of("FC_FRAMEWORK_NAME"), of("FC_TASKROLE_NAME"), of("FC_TASK_INDEX"))
}

fn one_instance_of_a_task(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut last: BTreeMap<_, &Life> = BTreeMap::new();
    for pod in &history.pods {
        if let Some(earlier) = last.insert(task_of(pod), pod)
            && end(earlier) >= pod.created
        {
            breaches.push(format!("{} {} runs beside {}", pod.name, pod.uid, earlier.uid));
        }
    }
    breaches
}

fn nothing_is_deleted_by_force(history: &History) -> Vec<String> {
    let allowed = history.statuses().any(|(_, _, status)| {
        status.task_roles().iter().any(|role| role.pod_graceful_deletion_timeout_sec.is_some())
    });
    let forced = history.own_requests().filter(|request| {
        let grace = |body: &serde_json::Value| body.pointer("/gracePeriodSeconds") == Some(&0.into());
        request.verb.starts_with("delete")
            && request.resource == "pods"
            && request.request_object.as_ref().is_some_and(grace)
    });
    forced.filter(|_| !allowed).map(|request| format!("{} at {}", request.name, request.received)).collect()
}

/// The stored statuses of a Framework while an object of it lived, and whether the Framework was gone before.
fn seen_by<'a>(history: &'a History, life: &Life) -> (Vec<(u64, &'a FrameworkStatus)>, bool) {
    let uid = life.annotation("FC_FRAMEWORK_UID");
    let (from, to) = (life.created, end(life));
    let written = history.statuses().filter(|(_, of, _)| *of == uid);
    let during = written.filter(|(at, ..)| (from..to).contains(at)).map(|(at, _, status)| (at, status));
    let outlived = history.ends.iter().any(|(gone, of)| of == uid && *gone < to);
    (during.collect(), outlived)
}

/// While a Pod runs, its Framework exists and its Task is in that attempt, which is not completed.
fn no_instance_of_a_task_at_rest(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    for pod in &history.pods {
        let of = |name| pod.annotation(name);
        let (seen, outlived) = seen_by(history, pod);
        if outlived {
            breaches.push(format!("{} {} outlives its Framework", pod.name, pod.uid));
        }
        let at_rest = |status: &FrameworkStatus| {
            let task = status.task(of("FC_TASKROLE_NAME"), of("FC_TASK_INDEX").parse().unwrap_or(-1));
            !task.is_some_and(|task| {
                status.attempt_status.config_map_uid.as_deref() == Some(of("FC_CONFIGMAP_UID"))
                    && task.instance_uid == of("FC_TASK_UID")
                    && task.attempt_status.id.to_string() == of("FC_TASK_ATTEMPT_ID")
                    && task.state < State::AttemptCompleted
            })
        };
        if let Some((version, _)) = seen.into_iter().find(|(_, status)| at_rest(status)) {
            breaches.push(format!("{} {} runs at {version}, when its Task does not", pod.name, pod.uid));
        }
    }
    breaches
}

/// When an instance of a Framework, its ConfigMap with its Pods, is over.
fn end_of_instance(history: &History, config_map: &Life) -> u64 {
    let pods = history.pods.iter().filter(|pod| pod.annotation("FC_CONFIGMAP_UID") == config_map.uid);
    pods.map(end).chain([end(config_map)]).max().unwrap_or(u64::MAX)
}

fn one_instance_of_a_framework(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut last: BTreeMap<&str, &Life> = BTreeMap::new();
    for config_map in &history.config_maps {
        if let Some(earlier) = last.insert(config_map.annotation("FC_FRAMEWORK_NAME"), config_map)
            && end_of_instance(history, earlier) >= config_map.created
        {
            breaches.push(format!("{} {} runs beside {}", config_map.name, config_map.uid, earlier.uid));
        }
    }
    breaches
}

/// While a ConfigMap or a Pod of an attempt is there, the Framework is, and in that attempt. An empty
/// ConfigMap that arrived during the deletion is the garbage collector's, see [`late_config_map`].
fn no_instance_of_a_framework_at_rest(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    for life in history.config_maps.iter().chain(&history.pods) {
        let (seen, outlived) = seen_by(history, life);
        if outlived && !late_config_map::is_collected(history, life) {
            breaches.push(format!("{} {} outlives its Framework", life.name, life.uid));
        }
        let at_rest = |status: &FrameworkStatus| {
            status.attempt_status.id.to_string() != life.annotation("FC_FRAMEWORK_ATTEMPT_ID")
                || status.state >= State::AttemptCompleted
        };
        if let Some((version, _)) = seen.into_iter().find(|(_, status)| at_rest(status)) {
            breaches.push(format!("{} {} runs at {version}, when its attempt is over", life.name, life.uid));
        }
    }
    breaches
}
