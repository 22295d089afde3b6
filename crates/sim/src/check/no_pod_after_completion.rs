//! No Pod outlives its attempt. No Pod of a Task's attempt is alive when the status says that the attempt or
//! the Task is completed. The same holds when the Task is gone, or the Framework's attempt is over.

use crate::check::state_at::{PodIdentity, StateAt, Status};
use crate::check::violation::Violation;
use crate::history::{Change, History};
use crate::object::{Meta, Object, ended};
use crate::store::Key;

const PROMISE: &str = "no Pod is alive whose attempt the status calls over";

/// Checks it.
///
/// # Errors
/// When a Pod lived on.
pub fn check(history: &History) -> Result<(), Violation> {
    let mut state = StateAt::default();
    for change in &history.changes {
        state.apply(change);
        let wrong = |what| Violation::new(PROMISE, change, what);
        match &*change.plural {
            "pods" => {
                if let Some(pod) = &change.new {
                    alive(&state, &change.namespace, pod).map_err(wrong)?;
                }
            }
            "frameworks" if status_changed(change) => {
                let of_it = pods_of(&state, change);
                of_it
                    .map(|pod| alive(&state, &change.namespace, pod))
                    .find(Result::is_err)
                    .unwrap_or(Ok(()))
                    .map_err(wrong)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn status_changed(change: &Change) -> bool {
    let [old, new] = [&change.old, &change.new].map(|one| one.as_ref().map(|object| &object["status"]));
    change.new.is_some() && old != new
}

/// The Pods whose names begin with that of the Framework; each says itself whose it is.
fn pods_of<'a>(state: &'a StateAt, change: &'a Change) -> impl Iterator<Item = &'a std::sync::Arc<Object>> {
    let first = Key::new(&change.namespace, &format!("{}-", change.name));
    let prefix = first.name.clone();
    let same = move |key: &Key| key.namespace == change.namespace && key.name.starts_with(&prefix);
    state.pods.range(first..).take_while(move |(key, _)| same(key)).map(|(_, pod)| pod)
}

fn alive(state: &StateAt, namespace: &str, pod: &Object) -> Result<(), String> {
    if ended(pod) {
        return Ok(());
    }
    // A Pod that cannot be read is the business of the check of creations.
    let Some(Ok(identity)) = PodIdentity::of(pod) else { return Ok(()) };
    let framework = state.framework(namespace, identity.framework, identity.framework_uid);
    let Some(status) = framework.and_then(|framework| Status::of(framework)) else { return Ok(()) };
    let (name, role, index) = (pod.name(), identity.role, identity.index);
    let over = |why: String| Err(format!("Pod {name} is {} but {why}", pod["status"]["phase"]));
    if status.attempt_id() > identity.framework_attempt || status.attempt_is_over() {
        let (id, state) = (status.attempt_id(), status.state());
        let was = identity.framework_attempt;
        return over(format!("FrameworkAttempt {was} is over: the status is at {id}, in {state}"));
    }
    if status.compressed() {
        return over("the status is compressed and cannot be checked".to_owned());
    }
    match status.task(role, index).filter(|task| task.uid() == identity.task_uid) {
        None => over(format!("Task {role}/{index} of instance {} is not in the status", identity.task_uid)),
        Some(task) if task.attempt_id() > identity.task_attempt => {
            over(format!("Task {role}/{index} is at attempt {}", task.attempt_id()))
        }
        Some(task) if task.attempt_is_over() => over(format!("Task {role}/{index} is in {}", task.state())),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::history_builder::HistoryBuilder;
    use serde_json::json;

    #[test]
    fn a_pod_that_is_gone_or_ended_first_is_right() {
        let mut builder = HistoryBuilder::running();
        builder.complete_task(0);
        builder.delete("pods", "f-r-0", None);
        builder.kubelet_removes("f-r-0");
        builder.edit_task(0, |task| task["state"] = json!("AttemptCompleted"));
        assert_eq!(check(&builder.history()), Ok(()));

        let mut builder = HistoryBuilder::running();
        builder.kubelet_ends("f-r-0", 0);
        builder.edit_task(0, |task| task["state"] = json!("Completed"));
        assert_eq!(check(&builder.history()), Ok(()));
    }

    #[test]
    fn a_pod_that_lives_on_is_wrong() {
        let said = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut builder = HistoryBuilder::running();
            builder.edit(change);
            check(&builder.history()).unwrap_err().what
        };
        let task = |status: &mut serde_json::Value, field: &str, value: serde_json::Value| {
            status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0][field] = value;
        };
        assert!(
            said(&|status| task(status, "state", json!("AttemptCompleted"))).contains("in AttemptCompleted")
        );
        assert!(said(&|status| task(status, "instanceUID", json!("new"))).contains("not in the status"));
        assert!(said(&|status| task(status, "attemptStatus", json!({ "id": 1 }))).contains("at attempt 1"));
        assert!(said(&|status| status["attemptStatus"]["id"] = json!(1)).contains("is over"));
        assert!(said(&|status| status["state"] = json!("Completed")).contains("is over"));
    }
}
