//! The facts about creates and deletions that are still needed after a status was persisted.
//!
//! A record is dropped when its outcome is persisted. It is also dropped when its instance is no longer the
//! current one and the create can have no further effect. Creates without a known outcome always stay (rule
//! A2).

use std::collections::BTreeSet;

use framework_api::status::TaskStatus;
use framework_api::{FrameworkStatus, State};
use framework_core::observed::{Create, Instance, Objects, Outcome, Refusal};
use framework_core::permit::{is_instance, task_of};
use framework_core::pod_map::PodName;

/// Drops the records that `status`, now persisted, makes obsolete.
pub fn prune(objects: &mut Objects, status: Option<&FrameworkStatus>) {
    objects.pod_creates.retain(|name, create| {
        create.outcome == Outcome::InFlight || status.is_some_and(|status| is_current(status, name, create))
    });
    let map = objects.config_map_create.take();
    objects.config_map_create =
        map.filter(|create| create.outcome == Outcome::InFlight || is_current_map(status, create));
    let unsettled = |create: &Create| create.outcome == Outcome::InFlight;
    // While a create is in flight its UID is not known yet, and the object may already be gone.
    if !objects.config_map_create.iter().chain(objects.pod_creates.values()).any(unsettled) {
        prune_gone(objects, status);
        prune_left(objects, status);
    }
}

/// A Pod of another owner, which had this name, is gone. If a create was refused because of it, forgets that:
/// the create need not wait for its back-off (rule A4). Returns whether there was one.
pub fn forget_conflict(objects: &mut Objects, pod: &str) -> bool {
    let is_conflict =
        |create: &Create| matches!(create.outcome, Outcome::Refused { refusal: Refusal::NameConflict, .. });
    objects.pod_creates.get(pod).is_some_and(is_conflict) && objects.pod_creates.remove(pod).is_some()
}

/// Whether the Task still waits for this create to be recorded, or tried again.
fn is_current(status: &FrameworkStatus, name: PodName<'_>, create: &Create) -> bool {
    let waits = |task: &&TaskStatus| {
        task.state == State::AttemptCreationPending && is_instance(status, task, &create.instance)
    };
    task_of(status, name).filter(waits).is_some()
}

/// Whether the attempt still waits for this create. The first one may be sent before there is a status.
fn is_current_map(status: Option<&FrameworkStatus>, create: &Create) -> bool {
    let attempt_id = status.map_or(0, |status| status.attempt_status.id);
    status.is_none_or(|status| status.state == State::AttemptCreationPending)
        && create.instance == Instance::FrameworkAttempt { attempt_id }
}

/// Drops the UIDs that no status names: they are not asked for any more.
fn prune_gone(objects: &mut Objects, status: Option<&FrameworkStatus>) {
    if objects.gone.is_empty() {
        return;
    }
    let gone = std::mem::take(&mut objects.gone);
    let recorded = tasks(status).filter_map(|task| task.attempt_status.pod_uid.as_ref());
    let map = status.and_then(|status| status.attempt_status.config_map_uid.as_ref());
    let named = recorded.chain(map).chain(acknowledged(objects));
    let named = named.filter(|uid| gone.contains(*uid)).cloned().collect();
    objects.gone = named;
}

/// Drops the last facts about Pods that no status names, or with an end that is stored.
fn prune_left(objects: &mut Objects, status: Option<&FrameworkStatus>) {
    if objects.left_pods.is_empty() {
        return;
    }
    let mut left_pods = std::mem::take(&mut objects.left_pods);
    let open = tasks(status).filter(|task| task.attempt_status.completion_status.is_none());
    let open = open.filter_map(|task| task.attempt_status.pod_uid.as_ref());
    let named: BTreeSet<&str> = open.chain(acknowledged(objects)).map(String::as_str).collect();
    left_pods.retain(|uid| named.contains(uid));
    objects.left_pods = left_pods;
}

fn tasks(status: Option<&FrameworkStatus>) -> impl Iterator<Item = &TaskStatus> {
    status.into_iter().flat_map(|status| status.all_tasks())
}

/// The UIDs of objects that were created and are not recorded.
fn acknowledged(objects: &Objects) -> impl Iterator<Item = &String> {
    let creates = objects.config_map_create.iter().chain(objects.pod_creates.values());
    creates.filter_map(|create| match &create.outcome {
        Outcome::Acknowledged { uid } => Some(uid),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use framework_api::code::Code;
    use framework_api::status::TaskAttemptCompletionStatus;
    use framework_core::classify::{TerminalPhase, TerminatedPod};
    use framework_core::observed::{PodFacts, PodPhase};
    use serde_json::json;

    /// A status of two Tasks: `w-0` waits for its Pod, `w-1` has recorded Pod `p1`.
    fn status() -> FrameworkStatus {
        let at = "2026-01-01T00:00:00Z";
        let counts = json!({"totalRetriedCount": 0, "accountableRetriedCount": 0});
        let task = |index: i32, state: State, uid: Option<&str>| {
            json!({
                "index": index, "instanceUID": format!("t{index}"), "startTime": at, "state": state,
                "transitionTime": at, "retryPolicyStatus": counts,
                "attemptStatus": {
                    "id": 0, "startTime": at, "podName": format!("job-w-{index}"), "podUID": uid,
                },
            })
        };
        let tasks =
            json!(
                [task(0, State::AttemptCreationPending, None), task(1, State::AttemptRunning, Some("p1")),]
            );
        let roles = json!([{"name": "w", "instanceUID": "r", "taskStatuses": tasks}]);
        serde_json::from_value(json!({
            "startTime": at, "state": "AttemptRunning", "transitionTime": at, "retryPolicyStatus": counts,
            "attemptStatus": {
                "id": 0, "startTime": at, "configMapName": "job-attempt", "configMapUID": "map",
                "taskRoleStatuses": roles,
            },
        }))
        .unwrap()
    }

    fn create(task_uid: &str, outcome: Outcome) -> Create {
        let (config_map_uid, task_uid) = ("map".to_owned(), task_uid.to_owned());
        Create { instance: Instance::TaskAttempt { config_map_uid, task_uid, attempt_id: 0 }, outcome }
    }

    fn acknowledged(uid: &str) -> Outcome {
        Outcome::Acknowledged { uid: uid.into() }
    }

    fn objects(creates: &[(&str, Create)], gone: &[&str]) -> Objects {
        Objects {
            pod_creates: creates.iter().map(|(name, create)| ((*name).to_owned(), create.clone())).collect(),
            gone: gone.iter().map(|uid| (*uid).to_owned()).collect(),
            ..Objects::default()
        }
    }

    #[test]
    fn a_create_is_forgotten_once_its_uid_is_recorded() {
        let mut objects = objects(
            &[("job-w-0", create("t0", acknowledged("p0"))), ("job-w-1", create("t1", acknowledged("p1")))],
            &[],
        );
        prune(&mut objects, Some(&status()));
        assert_eq!(objects.pod_creates.keys().collect::<Vec<_>>(), ["job-w-0"]);
    }

    #[test]
    fn a_create_of_another_instance_is_forgotten_unless_it_may_still_land() {
        let mut objects = objects(
            &[
                ("job-w-0", create("older", acknowledged("p"))),
                ("job-w-1", create("older", Outcome::InFlight)),
            ],
            &[],
        );
        prune(&mut objects, Some(&status()));
        assert_eq!(objects.pod_creates.keys().collect::<Vec<_>>(), ["job-w-1"]);
        prune(&mut objects, None);
        assert_eq!(objects.pod_creates.len(), 1);
    }

    #[test]
    fn the_gone_are_remembered_while_a_status_or_a_create_may_name_them() {
        let mut objects =
            objects(&[("job-w-0", create("t0", Outcome::InFlight))], &["p0", "p1", "map", "other"]);
        prune(&mut objects, Some(&status()));
        assert_eq!(objects.gone.len(), 4, "the create on its way may be of any of them");
        objects.pod_creates.insert("job-w-0", create("t0", acknowledged("p0")));
        prune(&mut objects, Some(&status()));
        assert_eq!(objects.gone.iter().collect::<Vec<_>>(), ["map", "p0", "p1"]);
    }

    #[test]
    fn an_end_that_was_seen_is_forgotten_once_it_is_stored() {
        let left = |status: &FrameworkStatus| {
            let mut objects = objects(&[("job-w-0", create("t0", acknowledged("p0")))], &[]);
            for uid in ["p0", "p1", "other"] {
                let end = TerminatedPod {
                    phase: TerminalPhase::Succeeded,
                    pod_name: String::new(),
                    reason: String::new(),
                    message: String::new(),
                    containers: Vec::new(),
                };
                let ended = PodFacts::new(uid, "map", PodPhase::Succeeded);
                objects.left_pods.insert(PodFacts { end: Some(Box::new(end)), ..ended }.into());
            }
            prune(&mut objects, Some(status));
            ["p0", "p1", "other"].map(|uid| objects.left_pods.get(uid).is_some())
        };
        let mut status = status();
        assert_eq!(left(&status), [true, true, false], "the create's is to be recorded");
        let end = TaskAttemptCompletionStatus::predefined(Code::Succeeded, String::new());
        let roles = status.attempt_status.task_role_statuses.as_mut().unwrap();
        roles[0].task_statuses[1].to_mut().attempt_status.completion_status = Some(Box::new(end));
        assert_eq!(left(&status), [true, false, false]);
    }

    #[test]
    fn the_config_maps_create_is_forgotten_with_its_attempt() {
        let mut status = status();
        status.state = State::AttemptCreationPending;
        status.attempt_status.config_map_uid = None;
        let instance = Instance::FrameworkAttempt { attempt_id: 0 };
        let record = Create { instance, outcome: acknowledged("map") };
        let mut objects = Objects { config_map_create: Some(record.clone()), ..Objects::default() };
        prune(&mut objects, Some(&status));
        assert_eq!(objects.config_map_create, Some(record));
        status.attempt_status.id = 1;
        prune(&mut objects, Some(&status));
        assert_eq!(objects.config_map_create, None);
    }
}
