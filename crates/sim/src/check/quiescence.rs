//! Once nothing changes any more, nothing is left over. Every object of the controller that still exists is
//! recorded in a living Framework and carries the right slot. Every Framework that was started has ended.

use std::sync::Arc;

use crate::check::slot::{SLOT_LABEL, slot};
use crate::check::state_at::{PodIdentity, StateAt, Status, by_controller, framework_of_map};
use crate::check::violation::Violation;
use crate::history::{Change, History};
use crate::object::{Meta, Object};
use crate::store::Key;

const PROMISE: &str = "at rest nothing is left over";
const ENDED: &str = "at rest every started Framework has ended";

/// Checks that nothing is left over.
///
/// # Errors
/// When something is.
pub fn check(history: &History) -> Result<(), Violation> {
    let state = last(history);
    // An object that a user took from its owner is the user's.
    let owned = |object: &&Arc<Object>| object.controller().is_some();
    for object in state.maps.values().chain(state.pods.values()).filter(owned) {
        let Some(creation) = state.creations.get(object.uid()).filter(|creation| by_controller(creation))
        else {
            continue;
        };
        recorded(&state, creation, object).map_err(|what| Violation::new(PROMISE, creation, what))?;
    }
    Ok(())
}

/// Checks that every Framework that is still there and was started is completed.
///
/// # Errors
/// When one is not.
pub fn all_ended(history: &History) -> Result<(), Violation> {
    for framework in last(history).frameworks.values() {
        let held = framework["spec"]["executionType"] == "Create";
        let state = Status::of(framework).map_or("none", Status::state);
        if held || state == "Completed" {
            continue;
        }
        let change = history.of("frameworks").filter(|change| change.uid == framework.uid()).last();
        if let Some(change) = change {
            return Err(Violation::new(ENDED, change, format!("its state is {state}")));
        }
    }
    Ok(())
}

fn last(history: &History) -> StateAt {
    let mut state = StateAt::default();
    history.changes.iter().for_each(|change| state.apply(change));
    state
}

fn recorded(state: &StateAt, creation: &Change, object: &Object) -> Result<(), String> {
    let (framework, pod) = match PodIdentity::of(object) {
        Some(identity) => {
            let identity = identity?;
            (state.framework(&creation.namespace, identity.framework, identity.framework_uid), true)
        }
        None => {
            let name = framework_of_map(object).ok_or("it is of no Framework")?;
            (state.frameworks.get(&Key::new(&creation.namespace, name)), false)
        }
    };
    let framework = framework.ok_or("its Framework is gone")?;
    let status = Status::of(framework).ok_or("its Framework has no status")?;
    let found = if pod {
        status.compressed() || status.tasks().any(|(_, task)| task.object_uid() == object.uid())
    } else {
        status.object_uid() == object.uid()
    };
    if !found {
        return Err("it is not recorded in its Framework".to_owned());
    }
    let (is, should) = (&object["metadata"]["labels"][SLOT_LABEL], slot(framework.uid()).to_string());
    if *is != should.as_str() {
        return Err(format!("its slot label is {is}, the slot is {should}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::history_builder::HistoryBuilder;
    use serde_json::json;

    #[test]
    fn a_recorded_and_labelled_pod_may_stay() {
        assert_eq!(check(&HistoryBuilder::running().history()), Ok(()));
        let mut builder = HistoryBuilder::running();
        assert!(all_ended(&builder.history()).unwrap_err().what.contains("AttemptRunning"));
        builder.edit(|status| status["state"] = json!("Completed"));
        assert_eq!(all_ended(&builder.history()), Ok(()));
    }

    #[test]
    fn an_unrecorded_or_wrongly_labelled_pod_is_left_over() {
        let mut builder = HistoryBuilder::running();
        builder.edit_task(0, |task| task["attemptStatus"]["podUID"] = json!("another"));
        assert!(check(&builder.history()).unwrap_err().what.contains("not recorded"));

        let mut builder = HistoryBuilder::running();
        builder.patch("pods", "f-r-0", json!({ "metadata": { "labels": { SLOT_LABEL: "x" } } }));
        assert!(check(&builder.history()).unwrap_err().what.contains("slot label"));

        let mut builder = HistoryBuilder::running();
        builder.user_deletes("frameworks", "f");
        assert!(check(&builder.history()).unwrap_err().what.contains("gone"));
    }
}
