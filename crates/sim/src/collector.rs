//! The garbage collector: it follows owner references by UID, with delays of its own.
//!
//! Like the real collector it decides by a graph that it builds from watches. The graph is older than the
//! store: a dependent created a moment ago may be missing from it.

pub(crate) mod graph;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::deed::WorkItem;
use crate::deletion::DeleteOptions;
use crate::kind::KindId;
use crate::object::{FOREGROUND, Meta, ORPHAN, Object};
use crate::patch::Patch;
use crate::store::Key;
use crate::update::Part;
use crate::world::World;

/// Handles an item of the work queue.
pub(crate) fn run(world: &mut World, item: WorkItem) {
    match item {
        WorkItem::Notice(index) => notice(world, index),
        WorkItem::Visit(uid) => visit(world, &uid),
        WorkItem::Await(uid) => wait_for_dependents(world, &uid),
        WorkItem::Release(uid) => release(world, &uid),
    }
}

fn notice(world: &mut World, index: usize) {
    let change = Arc::clone(&world.store.history.changes[index]);
    let uid = &change.uid;
    // Notices may overtake each other: a node that is gone from the store must not come back to the graph.
    let living = world.store.find_uid(uid).is_some();
    let mut items = Vec::new();
    match &change.new {
        Some(object) if living => {
            world.collector.learn(uid, Some(object));
            if object.deleting() && object.has_finalizer(FOREGROUND) {
                items.push(WorkItem::Await(uid.clone()));
            }
            if object.deleting() && object.has_finalizer(ORPHAN) {
                items.push(WorkItem::Release(uid.clone()));
            }
            let gone = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| absent(world, uid));
            if object.owners().iter().any(gone) {
                items.push(WorkItem::Visit(uid.clone()));
            }
        }
        Some(_) => {}
        None => {
            let dependents = world.collector.dependents_of(uid);
            items.extend(dependents.into_iter().map(|(uid, _)| WorkItem::Visit(uid)));
            let owners = change.object().owners().iter().filter_map(|owner| owner["uid"].as_str());
            items.extend(owners.map(|owner| WorkItem::Await(owner.to_owned())));
            world.collector.learn(uid, None);
        }
    }
    plan(world, items);
}

fn plan(world: &mut World, items: Vec<WorkItem>) {
    let now = world.clock.elapsed();
    for item in items {
        world.collector.plan(now, item, &mut world.agenda);
    }
}

fn absent(world: &World, uid: &str) -> bool {
    world.store.find_uid(uid).is_none()
}

fn waits(object: &Value) -> bool {
    object.deleting() && object.has_finalizer(FOREGROUND)
}

/// Deletes an object whose owners are all gone, or being deleted in the foreground.
fn visit(world: &mut World, uid: &str) {
    let Some((kind, object)) = world.store.find_uid(uid) else { return };
    let object = Arc::clone(object);
    if object.deleting() {
        return wait_for_dependents(world, uid);
    }
    let state = |owner: &Value| world.store.find_uid(owner["uid"].as_str().unwrap_or(""));
    let solid = |owner: &&Value| {
        state(owner).is_some_and(|(_, found)| !waits(found) && matches_namespace(found, &object))
    };
    let waiting = |owner: &Value| state(owner).is_some_and(|(_, found)| waits(found));
    let kept: Vec<Value> = object.owners().iter().filter(solid).cloned().collect();
    if object.owners().is_empty() || kept.len() == object.owners().len() {
        return;
    }
    if !kept.is_empty() {
        let patch = json!({ "metadata": { "ownerReferences": kept } });
        return write(world, kind, &object, &patch);
    }
    let has_dependents = !world.collector.dependents_of(uid).is_empty();
    let policy = if object.owners().iter().any(waiting) && has_dependents {
        "Foreground"
    } else if object.has_finalizer(ORPHAN) {
        "Orphan"
    } else if object.has_finalizer(FOREGROUND) {
        "Foreground"
    } else {
        "Background"
    };
    let options = DeleteOptions {
        version: Some(object.meta("resourceVersion").to_owned()),
        propagation: Some(policy.to_owned()),
        ..DeleteOptions::of_uid(uid)
    };
    let key = Key::new(object.namespace(), object.name());
    let actor = Arc::clone(&world.collector.actor);
    // Read and written under one lock: the preconditions hold.
    let _ = world.write(&actor, 0, |store, caller| store.delete(caller, kind, &key, &options));
}

fn matches_namespace(owner: &Value, dependent: &Value) -> bool {
    owner.namespace().is_empty() || owner.namespace() == dependent.namespace()
}

/// Deletes the dependents of an object that waits for them; lets it go when none that block it are left.
fn wait_for_dependents(world: &mut World, uid: &str) {
    let Some((kind, object)) = world.store.find_uid(uid) else { return };
    if !waits(object) {
        return;
    }
    let object = Arc::clone(object);
    let dependents = world.collector.dependents_of(uid);
    if !dependents.iter().any(|(_, blocks)| *blocks) {
        return drop_finalizer(world, kind, &object, FOREGROUND);
    }
    plan(world, dependents.into_iter().map(|(uid, _)| WorkItem::Visit(uid)).collect());
}

/// Takes an object out of the owner references of its dependents, then lets it go.
fn release(world: &mut World, uid: &str) {
    let Some((kind, object)) = world.store.find_uid(uid) else { return };
    if !object.deleting() || !object.has_finalizer(ORPHAN) {
        return;
    }
    let object = Arc::clone(object);
    for (dependent, _) in world.collector.dependents_of(uid) {
        let Some((kind, found)) = world.store.find_uid(&dependent) else { continue };
        let found = Arc::clone(found);
        let kept: Vec<&Value> = found.owners().iter().filter(|owner| owner["uid"] != uid).collect();
        let patch = json!({ "metadata": { "ownerReferences": kept } });
        write(world, kind, &found, &patch);
    }
    drop_finalizer(world, kind, &object, ORPHAN);
}

fn drop_finalizer(world: &mut World, kind: KindId, object: &Object, finalizer: &str) {
    let all = object["metadata"]["finalizers"].as_array().map_or(&[][..], Vec::as_slice);
    let kept: Vec<&Value> = all.iter().filter(|one| *one != finalizer).collect();
    let patch = json!({ "metadata": { "finalizers": kept } });
    write(world, kind, object, &patch);
}

fn write(world: &mut World, kind: KindId, object: &Object, patch: &Value) {
    let key = Key::new(object.namespace(), object.name());
    let patch = Patch::Merge(patch.clone());
    let actor = Arc::clone(&world.collector.actor);
    // The patch carries no precondition, and the object was found under the same lock.
    let _ = world.write(&actor, 0, |store, caller| store.patch(caller, kind, &key, Part::Main, &patch));
}
