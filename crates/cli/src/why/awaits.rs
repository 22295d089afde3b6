//! The next things that a Framework awaits, by its state and by its Pods.

use std::collections::BTreeMap;

use framework_api::status::TaskStatus;
use framework_api::{ExecutionType, FrameworkStatus, State, Time};
use framework_core::queue::QUEUED;
use framework_core::{retry, summary};
use jiff::Timestamp;

use crate::duration::seconds;
use crate::find::Found;
use crate::pod::PodView;
use crate::rule::{NAMES, tasks};

/// The things that a Framework awaits; empty once nothing more happens to it.
pub fn of(found: &Found, pods: &[PodView], now: Timestamp) -> Vec<String> {
    let mut awaited = Vec::new();
    if found.metadata().deletion_timestamp.is_some() {
        awaited.push("its deletion: its Pods end first".to_owned());
    }
    let Some(status) = &found.framework.status else {
        awaited.push("the controller, which has not written a status yet".to_owned());
        return awaited;
    };
    let is_stopped = found.framework.spec.execution_type == ExecutionType::Stop;
    if is_stopped && status.state != State::Completed {
        awaited.push("the end of its Pods: executionType is Stop".to_owned());
    }
    match status.state {
        State::AttemptCreationPending => awaited.extend(start(found, status)),
        State::AttemptCreationRequested => awaited.push("its ConfigMap, which was just created".to_owned()),
        State::AttemptPreparing | State::AttemptRunning => {
            awaited.extend(obstacle(status));
            awaited.extend(of_tasks(status, pods, now));
        }
        State::AttemptDeletionPending | State::AttemptDeletionRequested | State::AttemptDeleting => {
            awaited.push(format!("the deletion of attempt {}: its Pods end first", status.attempt_status.id));
            awaited.extend(obstacles(status, pods));
        }
        State::AttemptCompleted => {
            let attempt = &status.attempt_status;
            let due = retry::due(attempt.completion_time, status.transition_time, status.retry_policy_status);
            awaited.push(format!("attempt {} {}", attempt.id.saturating_add(1), when(due, now)));
        }
        State::Completed => {}
    }
    awaited
}

/// The next things that an attempt awaits before it begins.
fn start(found: &Found, status: &FrameworkStatus) -> Option<String> {
    if found.framework.spec.execution_type == ExecutionType::Create {
        return Some("its start: executionType is Create".to_owned());
    }
    let queued = status.conditions.iter().find(|one| one.type_ == QUEUED && one.status == "True");
    if let Some(condition) = queued {
        let (queue, reason) = (found.queue(), &condition.reason);
        return Some(format!("its release from the queue {queue:?}: {reason}: {}", condition.message));
    }
    obstacle(status).or_else(|| Some("its ConfigMap, which is about to be created".to_owned()))
}

/// The obstacle that the condition `Running` names: its reason, where that is not the state.
fn obstacle(status: &FrameworkStatus) -> Option<String> {
    let running = status.conditions.iter().find(|condition| condition.type_ == summary::RUNNING)?;
    let is_obstacle = running.status == "False" && running.reason != format!("{:?}", status.state);
    is_obstacle.then(|| format!("{}: {}", running.reason, running.message))
}

/// The next things that the Tasks of a running attempt await, each kind on one line.
fn of_tasks(status: &FrameworkStatus, pods: &[PodView], now: Timestamp) -> Vec<String> {
    let mut groups: BTreeMap<(u8, &'static str), Vec<String>> = BTreeMap::new();
    let mut retries: Vec<String> = Vec::new();
    // Nothing more happens to a completed Task in this attempt of the Framework.
    for (name, task) in named(status).filter(|(_, task)| task.state != State::Completed) {
        let group = match task.state {
            _ if task.deletion_pending => (4, "to end: a scale-down removes them"),
            State::AttemptCreationPending if task.queue_unit_generation.is_some() => {
                (0, "to get a Pod, for which a queue may have to make room")
            }
            State::AttemptCreationPending => (1, "to get a Pod"),
            State::AttemptCreationRequested | State::AttemptPreparing => (2, "to start"),
            State::AttemptRunning => (3, "to end"),
            State::AttemptCompleted => {
                let attempt = &task.attempt_status;
                let due = retry::due(attempt.completion_time, task.transition_time, task.retry_policy_status);
                let next = attempt.id.saturating_add(1);
                retries.push(format!("attempt {next} of Task {name} {}", when(due, now)));
                continue;
            }
            _ => (5, "whose Pod ends"),
        };
        groups.entry(group).or_default().push(name);
    }
    let of_group = |((_, what), names): ((u8, &str), Vec<String>)| format!("{} {what}", tasks(&names));
    let grouped = groups.into_iter().map(of_group);
    let more = retries.len().saturating_sub(NAMES);
    let more = (more > 0).then(|| format!("{more} more retries"));
    let listed = retries.iter().take(NAMES).cloned();
    grouped.chain(obstacles(status, pods)).chain(listed).chain(more).collect()
}

/// The obstacles of recorded Pods, and the Tasks that each holds up.
fn obstacles(status: &FrameworkStatus, pods: &[PodView]) -> Vec<String> {
    let by_uid: BTreeMap<&str, &PodView> = pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
    let mut held: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, task) in named(status) {
        let pod = task.attempt_status.pod_uid.as_deref().and_then(|uid| by_uid.get(uid));
        if let Some(obstacle) = pod.and_then(|pod| pod.obstacle.as_deref()) {
            held.entry(obstacle).or_default().push(name);
        }
    }
    held.into_iter().map(|(obstacle, names)| format!("{obstacle} holds up {}", tasks(&names))).collect()
}

/// All Tasks, with their names.
fn named(status: &FrameworkStatus) -> impl Iterator<Item = (String, &TaskStatus)> {
    let of_role = |role| framework_api::status::TaskRoleStatus::tasks(role).map(move |task| (role, task));
    let tasks = status.task_roles().iter().flat_map(of_role);
    tasks.map(|(role, task)| (format!("{}-{}", role.name, task.index), task))
}

fn when(due: Time, now: Timestamp) -> String {
    let left = due.since(Time::floor(now)).as_secs();
    if left > 0 { format!("in {}, at {due}", seconds(left)) } else { "now".to_owned() }
}
