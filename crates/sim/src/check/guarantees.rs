//! The manual's ConsistencyGuarantees 1 to 4.
//!
//! They hold for every history in which users keep to the manual's rules: no user deletes Pods by force,
//! deletes a Framework other than in the foreground, or changes owners. The checkers of [`super::ALWAYS`]
//! hold even where users do that.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;

use crate::check::state_at::{PodIdentity, StateAt, Status, framework_of_map, framework_of_pod};
use crate::check::violation::{Checker, Violation};
use crate::history::{Change, History};
use crate::object::{Meta, Object, ended};

/// One instance of a Task at a time.
const FIRST: &str = "ConsistencyGuarantee1";
/// No instance of a Task that is deleted or completed.
const SECOND: &str = "ConsistencyGuarantee2";
/// One instance of a Framework at a time.
const THIRD: &str = "ConsistencyGuarantee3";
/// No instance of a Framework that is deleted or completed.
const FOURTH: &str = "ConsistencyGuarantee4";

/// The four guarantees by name.
pub const ALL: [(&str, Checker); 4] = [(FIRST, first), (SECOND, second), (THIRD, third), (FOURTH, fourth)];

/// How long the garbage collector may take to delete an empty ConfigMap that arrived during the deletion of
/// its Framework.
pub const COLLECTED_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// Of a Task, at most one instance runs at any time.
///
/// # Errors
/// When two Pods of one Task ran at once.
pub fn first(history: &History) -> Result<(), Violation> {
    each(history, |state, change| {
        let Some(pod) = created(change, "pods").and_then(|pod| PodIdentity::of(pod)?.ok()) else {
            return Ok(());
        };
        let task = |identity: PodIdentity<'_>| {
            (identity.framework, identity.role, identity.index) == (pod.framework, pod.role, pod.index)
        };
        let of_task = |other: &&Arc<Object>| matches!(PodIdentity::of(other), Some(Ok(one)) if task(one));
        let mut beside = running(state, &change.namespace).filter(|other| other.uid() != change.uid);
        match beside.find(of_task) {
            Some(other) => Err((FIRST, format!("it runs beside {}", other.uid()))),
            None => Ok(()),
        }
    })
}

/// No instance of a Task runs that is deleted, AttemptCompleted or Completed, or whose Framework is deleted.
///
/// # Errors
/// When one ran.
pub fn second(history: &History) -> Result<(), Violation> {
    each(history, |state, change| {
        let fail = |pod: &Object, why: &str| Err((SECOND, format!("{} {why}", pod.name())));
        for pod in affected(state, change).filter(|object| framework_of_pod(object).is_some()) {
            let Some(Ok(identity)) = PodIdentity::of(pod) else { continue };
            let framework = state.framework(&change.namespace, identity.framework, identity.framework_uid);
            let Some(framework) = framework else { return fail(pod, "outlives its Framework") };
            // The check of creations judges the status at the creation of a Pod.
            let Some(status) = Status::of(framework).filter(|_| change.is("frameworks")) else { continue };
            let task = status.task(identity.role, identity.index);
            let active = status.object_uid() == identity.map_uid
                && task.is_some_and(|task| {
                    task.uid() == identity.task_uid
                        && task.attempt_id() == identity.task_attempt
                        && !task.attempt_is_over()
                });
            if !active {
                return fail(pod, "runs when its Task does not");
            }
        }
        Ok(())
    })
}

/// Of a Framework, at most one instance runs at any time: a ConfigMap with its Pods.
///
/// # Errors
/// When two ran at once.
pub fn third(history: &History) -> Result<(), Violation> {
    each(history, |state, change| {
        let Some(name) = created(change, "configmaps").and_then(|map| framework_of_map(map)) else {
            return Ok(());
        };
        let mut beside = running(state, &change.namespace);
        match beside.find(|pod| framework_of_pod(pod) == Some(name)) {
            Some(pod) => Err((THIRD, format!("it is created while {} runs", pod.name()))),
            None => Ok(()),
        }
    })
}

/// No instance of a Framework runs that is AttemptCompleted, Completed or deleted. An empty ConfigMap that
/// arrived during the deletion is the garbage collector's: Kubernetes has no write that covers two objects.
///
/// # Errors
/// When one ran, or such a ConfigMap was not deleted in time, or owned a Pod.
pub fn fourth(history: &History) -> Result<(), Violation> {
    let mut late = Late::default();
    each(history, |state, change| {
        late.see(state, change)?;
        let fail = |object: &Object, why: &str| Err((FOURTH, format!("{} {why}", object.name())));
        for object in affected(state, change) {
            let Some((framework, attempt)) = attempt_of(state, change, object) else { continue };
            let Some(framework) = framework else {
                if late.arrived.contains_key(object.uid()) {
                    continue;
                }
                return fail(object, "outlives its Framework");
            };
            let Some(status) = Status::of(framework).filter(|_| change.is("frameworks")) else { continue };
            if status.attempt_id() != attempt || status.attempt_is_over() {
                return fail(object, "runs when its attempt is over");
            }
        }
        Ok(())
    })?;
    let left = late.arrived.into_values().find(|one| one.orphaned && !one.gone);
    left.map_or(Ok(()), |one| {
        Err(Violation::new(FOURTH, &one.creation, "it outlives its Framework for ever".to_owned()))
    })
}

/// The ConfigMaps that arrived when their Framework was being deleted, or gone.
#[derive(Debug, Default)]
struct Late {
    arrived: BTreeMap<String, Arrival>,
}

#[derive(Debug)]
struct Arrival {
    creation: Arc<Change>,
    /// Whether its Framework is gone.
    orphaned: bool,
    gone: bool,
}

impl Late {
    fn see(&mut self, state: &StateAt, change: &Arc<Change>) -> Result<(), (&'static str, String)> {
        if let Some(map) = created(change, "configmaps").filter(|map| framework_of_map(map).is_some()) {
            let framework = owner_of(state, change, map);
            if framework.is_none_or(|framework| framework.deleting()) {
                let (creation, orphaned) = (Arc::clone(change), framework.is_none());
                self.arrived.insert(change.uid.clone(), Arrival { creation, orphaned, gone: false });
            }
        }
        if let Some(owner) = created(change, "pods").and_then(|pod| pod.controller())
            && let Some(map) = owner["uid"].as_str().filter(|uid| self.arrived.contains_key(*uid))
        {
            return Err((
                FOURTH,
                format!("its ConfigMap {map} arrived when the Framework was being deleted"),
            ));
        }
        if change.is("frameworks") && change.removes() {
            let of_it = |one: &&mut Arrival| {
                let owner = one.creation.object().controller().and_then(|owner| owner["uid"].as_str());
                owner == Some(&*change.uid)
            };
            self.arrived.values_mut().filter(of_it).for_each(|one| one.orphaned = true);
        }
        if let Some(one) = self.arrived.get_mut(&change.uid).filter(|_| change.removes()) {
            one.gone = true;
            let took: SignedDuration = change.time.duration_since(one.creation.time);
            if one.orphaned && took > COLLECTED_WITHIN {
                return Err((FOURTH, format!("it outlives its Framework and is collected after {took:#}")));
            }
        }
        Ok(())
    }
}

/// Looks at each change, with the state that it led to.
fn each(
    history: &History,
    mut look: impl FnMut(&StateAt, &Arc<Change>) -> Result<(), (&'static str, String)>,
) -> Result<(), Violation> {
    let mut state = StateAt::default();
    for change in &history.changes {
        state.apply(change);
        look(&state, change).map_err(|(promise, what)| Violation::new(promise, change, what))?;
    }
    Ok(())
}

/// The object that a change created, if it is of that kind.
fn created<'a>(change: &'a Change, plural: &str) -> Option<&'a Arc<Object>> {
    change.new.as_ref().filter(|_| change.creates() && change.is(plural))
}

/// The Pods of a namespace that have not ended.
fn running<'a>(state: &'a StateAt, namespace: &'a str) -> impl Iterator<Item = &'a Arc<Object>> {
    state.pods.values().filter(move |pod| pod.namespace() == namespace && !ended(pod))
}

/// The instances about which a change may say something: the created one, or all of a changed Framework.
fn affected<'a>(state: &'a StateAt, change: &'a Change) -> impl Iterator<Item = &'a Arc<Object>> {
    let of_framework = move |object: &&Arc<Object>| {
        let name = framework_of_pod(object).or_else(|| framework_of_map(object));
        change.is("frameworks") && name == Some(&*change.name) && is_of(object, &change.uid)
    };
    let maps = state.maps.values().filter(move |map| map.namespace() == change.namespace);
    let all = running(state, &change.namespace).chain(maps).filter(of_framework);
    let is_instance =
        |object: &&Arc<Object>| framework_of_pod(object).is_some() || framework_of_map(object).is_some();
    let new = created(change, "pods").or_else(|| created(change, "configmaps"));
    all.chain(new.filter(is_instance))
}

/// Whether a Pod or a ConfigMap is of the Framework with that UID.
fn is_of(object: &Object, framework: &str) -> bool {
    match PodIdentity::of(object) {
        Some(identity) => identity.is_ok_and(|identity| identity.framework_uid == framework),
        None => object.controller().is_some_and(|owner| owner["uid"] == framework),
    }
}

/// The Framework that owns a ConfigMap, if it is there.
fn owner_of<'a>(state: &'a StateAt, change: &Change, map: &Object) -> Option<&'a Arc<Object>> {
    let uid = map.controller().and_then(|owner| owner["uid"].as_str()).unwrap_or("");
    state.framework(&change.namespace, framework_of_map(map)?, uid)
}

/// The Framework of a Pod or a ConfigMap, if it is there, and the attempt that the object is of.
fn attempt_of<'a>(
    state: &'a StateAt,
    change: &Change,
    object: &Object,
) -> Option<(Option<&'a Arc<Object>>, i64)> {
    match PodIdentity::of(object) {
        Some(identity) => {
            let PodIdentity { framework, framework_uid, framework_attempt, .. } = identity.ok()?;
            Some((state.framework(&change.namespace, framework, framework_uid), framework_attempt))
        }
        None => {
            let attempt = object.annotation("FC_FRAMEWORK_ATTEMPT_ID")?.parse().ok()?;
            Some((owner_of(state, change, object), attempt))
        }
    }
}

#[cfg(test)]
mod tests;
