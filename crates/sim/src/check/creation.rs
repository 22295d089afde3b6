//! Nothing is created that the persisted status does not announce.
//!
//! At the resourceVersion at which a Pod is created, the status has its Task, attempt and instance in
//! AttemptCreationPending, records its ConfigMap, and does not want the Task removed. The same for a
//! ConfigMap and the attempt of its Framework; without a status, the spec announces the first one. A create
//! that the spec announced may land after another replica has begun the Framework: no status records its
//! ConfigMap, so it is deleted.

use crate::check::state_at::{PodIdentity, StateAt, Status, by_controller, framework_of_map};
use crate::check::violation::Violation;
use crate::history::{Change, History};
use crate::object::{Meta, Object};
use crate::store::Key;

const PROMISE: &str = "an object is created only when the persisted status announces it";

/// Checks it.
///
/// # Errors
/// When something was created that the status did not announce.
pub fn check(history: &History) -> Result<(), Violation> {
    let mut state = StateAt::default();
    for change in &history.changes {
        if change.creates() && by_controller(change) {
            let announced = match &*change.plural {
                "pods" => pod(&state, change),
                "configmaps" => config_map(history, &state, change),
                _ => Ok(()),
            };
            announced.map_err(|what| Violation::new(PROMISE, change, what))?;
        }
        state.apply(change);
    }
    Ok(())
}

fn pod(state: &StateAt, change: &Change) -> Result<(), String> {
    let identity =
        PodIdentity::of(change.object()).ok_or("its controller is not the ConfigMap of an attempt")??;
    let framework = state.framework(&change.namespace, identity.framework, identity.framework_uid);
    // The request may have been in flight when the Framework was deleted: the collector takes the Pod.
    let Some(framework) = framework else { return Ok(()) };
    let status = Status::of(framework).ok_or("its Framework has no status")?;
    if status.compressed() {
        return Err("the status is compressed and cannot be checked".to_owned());
    }
    if status.attempt_id() != identity.framework_attempt {
        let (is, was) = (status.attempt_id(), identity.framework_attempt);
        return Err(format!("it is of FrameworkAttempt {was}, the status is at {is}"));
    }
    if status.object_uid() != identity.map_uid {
        let (recorded, owner) = (status.object_uid(), identity.map_uid);
        return Err(format!("its ConfigMap is {owner:?}, the status records {recorded:?}"));
    }
    let role = identity.role;
    let task = status.task(role, identity.index);
    let task = task.ok_or_else(|| format!("the status has no Task {role}/{}", identity.index))?;
    if task.uid() != identity.task_uid {
        return Err(format!("it is of Task instance {}, the status has {}", identity.task_uid, task.uid()));
    }
    if task.attempt_id() != identity.task_attempt {
        let (is, was) = (task.attempt_id(), identity.task_attempt);
        return Err(format!("it is of TaskAttempt {was}, the status is at {is}"));
    }
    if !task.is("AttemptCreationPending") {
        return Err(format!("its Task is in {}", task.state()));
    }
    if task.deletion_pending() {
        return Err("its Task is to be removed".to_owned());
    }
    Ok(())
}

fn config_map(history: &History, state: &StateAt, change: &Change) -> Result<(), String> {
    let map = change.object();
    let name = framework_of_map(map).ok_or("its controller is not the Framework that its name says")?;
    let owner = map.controller().and_then(|owner| owner["uid"].as_str()).unwrap_or("");
    let framework = state.frameworks.get(&Key::new(&change.namespace, name));
    let Some(framework) = framework.filter(|framework| framework.uid() == owner) else { return Ok(()) };
    if !map.has_finalizer(crate::object::FOREGROUND) {
        return Err("it lacks the finalizer that keeps it until its Pods are gone".to_owned());
    }
    let attempt = map.annotation("FC_FRAMEWORK_ATTEMPT_ID").unwrap_or("");
    let Some(status) = Status::of(framework) else { return first_config_map(framework, attempt) };
    if attempt == "0" && is_overtaken(history, change, owner) {
        return Ok(());
    }
    if attempt != status.attempt_id().to_string() {
        return Err(format!(
            "it is of FrameworkAttempt {attempt:?}, the status is at {}",
            status.attempt_id()
        ));
    }
    if !status.is("AttemptCreationPending") {
        return Err(format!("its Framework is in {}", status.state()));
    }
    Ok(())
}

/// Whether the create of a ConfigMap was sent before its Framework had a status, and another client has
/// created that ConfigMap since then.
fn is_overtaken(history: &History, change: &Change, owner: &str) -> bool {
    let Some(sent) = history.exchange_of(change) else { return false };
    let before = || history.changes.iter().filter(|one| one.rv < change.rv);
    let has_status = |one: &Change| one.new.as_ref().is_some_and(|new| Status::of(new).is_some());
    let had_status = before().any(|one| one.uid == owner && one.at <= sent.at && has_status(one));
    let of_another = |one: &Change| {
        let same = one.is("configmaps") && one.namespace == change.namespace && one.name == change.name;
        let creator = history.exchange_of(one).filter(|_| same && one.creates() && one.at >= sent.at);
        creator.is_some_and(|creator| creator.who != sent.who)
    };
    !had_status && before().any(|one| of_another(one))
}

/// Without a status the spec alone announces the first attempt. A stop or a deletion may have come while the
/// request was in flight; a Framework that was never started can have none.
fn first_config_map(framework: &Object, attempt: &str) -> Result<(), String> {
    if attempt != "0" {
        return Err(format!("it is of FrameworkAttempt {attempt:?}, and its Framework has no status"));
    }
    if framework.opened()["spec"]["executionType"] == "Create" {
        return Err("its Framework has no status, and was never started".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::history_builder::HistoryBuilder;
    use serde_json::json;

    #[test]
    fn creating_an_announced_pod_is_right() {
        assert_eq!(check(&HistoryBuilder::running().history()), Ok(()));
    }

    fn broken(change: impl FnOnce(&mut HistoryBuilder)) -> String {
        let mut builder = HistoryBuilder::started();
        change(&mut builder);
        builder.create_pod(0, 0);
        check(&builder.history()).unwrap_err().what
    }

    #[test]
    fn creating_a_pod_that_is_not_announced_is_wrong() {
        let said = broken(|builder| builder.edit_task(0, |task| task["state"] = json!("AttemptCompleted")));
        assert!(said.contains("in AttemptCompleted"), "{said}");
        let said = broken(|builder| builder.edit_task(0, |task| task["deletionPending"] = json!(true)));
        assert!(said.contains("to be removed"), "{said}");
        let said = broken(|builder| builder.edit_task(0, |task| task["instanceUID"] = json!("other")));
        assert!(said.contains("Task instance"), "{said}");
        let said = broken(|builder| builder.edit_task(0, |task| task["attemptStatus"]["id"] = json!(1)));
        assert!(said.contains("TaskAttempt 0"), "{said}");
        let said =
            broken(|builder| builder.edit(|status| status["attemptStatus"]["configMapUID"] = json!(null)));
        assert!(said.contains("its ConfigMap is"), "{said}");
        let said = broken(|builder| builder.edit(|status| status["attemptStatus"]["id"] = json!(1)));
        assert!(said.contains("FrameworkAttempt 0"), "{said}");
    }

    #[test]
    fn creating_a_config_map_that_is_not_announced_is_wrong() {
        let mut builder = HistoryBuilder::announced();
        builder.edit(|status| status["state"] = json!("AttemptCompleted"));
        builder.create_map();
        assert!(check(&builder.history()).unwrap_err().what.contains("in AttemptCompleted"));
    }

    #[test]
    fn a_first_config_map_may_land_late_only_after_another_client_made_one() {
        for (other, is_right) in [("controller-2", true), ("controller-1", false)] {
            let mut builder = HistoryBuilder::fresh("Start");
            let owner = builder.uid("frameworks", "f");
            let sent = builder.send_map();
            builder.wait(1);
            builder.controller(other);
            builder.create_map();
            builder.edit(|status| status["state"] = json!("AttemptDeletionPending"));
            builder.collect_map();
            builder.land_map(&sent, &owner);
            assert_eq!(check(&builder.history()).is_ok(), is_right, "{other}");
        }
        let mut builder = HistoryBuilder::announced();
        let owner = builder.uid("frameworks", "f");
        builder.wait(1);
        let sent = builder.send_map();
        builder.controller("controller-2");
        builder.create_map();
        builder.edit(|status| status["state"] = json!("AttemptDeletionPending"));
        builder.collect_map();
        builder.land_map(&sent, &owner);
        assert!(check(&builder.history()).is_err(), "there was a status when it was sent");
    }

    #[test]
    fn without_a_status_only_a_spec_that_starts_announces_a_config_map() {
        for (execution, is_right) in [("Start", true), ("Create", false)] {
            let mut builder = HistoryBuilder::fresh(execution);
            builder.create_map();
            assert_eq!(check(&builder.history()).is_ok(), is_right, "{execution}");
        }
    }
}
