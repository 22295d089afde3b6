//! Once nothing changes any more, nothing is left over: what the controller made and still stands is recorded
//! in a living Framework, carries the right slot, and every Framework that was started has ended.

use std::sync::Arc;

use crate::check::Violation;
use crate::check::guard::SLOT_LABEL;
use crate::check::scene::{Scene, Stand, Status, by_controller, framework_of_map};
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
    let scene = last(history);
    // What somebody took from its owner is his.
    let owned = |object: &&Arc<Object>| object.controller().is_some();
    for object in scene.maps.values().chain(scene.pods.values()).filter(owned) {
        let Some(birth) = scene.births.get(object.uid()).filter(|birth| by_controller(birth)) else {
            continue;
        };
        recorded(&scene, birth, object).map_err(|what| Violation::new(PROMISE, birth, what))?;
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

fn last(history: &History) -> Scene {
    let mut scene = Scene::default();
    history.changes.iter().for_each(|change| scene.apply(change));
    scene
}

fn recorded(scene: &Scene, birth: &Change, object: &Object) -> Result<(), String> {
    let (framework, pod) = match Stand::of(object) {
        Some(stand) => {
            let stand = stand?;
            (scene.framework(&birth.namespace, stand.framework, stand.framework_uid), true)
        }
        None => {
            let name = framework_of_map(object).ok_or("it is of no Framework")?;
            (scene.frameworks.get(&Key::new(&birth.namespace, name)), false)
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

/// The slot of a Framework: the top 8 bits of FNV-1a-64 over its UID.
pub(crate) fn slot(uid: &str) -> u8 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    hash.to_be_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::story::Story;
    use serde_json::json;

    #[test]
    fn what_is_recorded_and_labelled_may_stay() {
        assert_eq!(check(&Story::running().history()), Ok(()));
        let mut story = Story::running();
        assert!(all_ended(&story.history()).unwrap_err().what.contains("AttemptRunning"));
        story.edit(|status| status["state"] = json!("Completed"));
        assert_eq!(all_ended(&story.history()), Ok(()));
    }

    #[test]
    fn what_is_not_recorded_or_labelled_wrong_is_left_over() {
        let mut story = Story::running();
        story.edit_task(0, |task| task["attemptStatus"]["podUID"] = json!("another"));
        assert!(check(&story.history()).unwrap_err().what.contains("not recorded"));

        let mut story = Story::running();
        story.patch("pods", "f-r-0", json!({ "metadata": { "labels": { SLOT_LABEL: "x" } } }));
        assert!(check(&story.history()).unwrap_err().what.contains("slot label"));

        let mut story = Story::running();
        story.user_deletes("frameworks", "f");
        assert!(check(&story.history()).unwrap_err().what.contains("gone"));
    }

    #[test]
    fn the_slot_is_the_top_byte_of_the_published_hash() {
        // FNV-1a-64 of "a" is af63dc4c8601ec8c, of "foobar" 85944171f73967e8.
        assert_eq!((slot("a"), slot("foobar")), (0xaf, 0x85));
    }
}
