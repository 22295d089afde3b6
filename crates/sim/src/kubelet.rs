//! The scheduler and the nodes: they bind Pods, run them, end them as their [`crate::Fate`] says, and
//! remove the ones that were deleted.

pub(crate) mod nodes;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use self::nodes::node_of;
use crate::clock::wire_time;
use crate::deed::{Deed, PodRef, Step};
use crate::deletion::DeleteOptions;
use crate::fate::End;
use crate::history::Verb;
use crate::kind::KindId;
use crate::object::{Meta, Object, ended, entry_mut};
use crate::store::Key;
use crate::world::World;

/// Takes a step with a Pod, if it is still there and the step still makes sense.
pub(crate) fn step(world: &mut World, pod: &PodRef, step: Step) {
    let Some(object) = world.store.get(pod.kind, &pod.key).cloned() else { return };
    let node = node_of(&object);
    let by_node = !matches!(step, Step::Bind | Step::Evict);
    if object.uid() != pod.uid || (by_node && world.kubelet.dead(node)) {
        return;
    }
    match step {
        Step::Bind if node.is_empty() && !object.deleting() => bind(world, pod, &object),
        Step::Start if object["status"]["phase"] == "Pending" && !object.deleting() => {
            start(world, pod, &object);
        }
        Step::Finish if object["status"]["phase"] == "Running" && !object.deleting() => {
            let end = world.kubelet.fates.get(&pod.uid).map(|fate| fate.end.clone());
            let end = end.unwrap_or(End::Exit { code: 0, reason: None, message: None, signal: None });
            finish(world, pod, &object, &end);
        }
        Step::Kill if object.deleting() => {
            if !ended(&object) {
                let code = if world.kubelet.rng.bool() { 137 } else { 143 };
                let end = End::Exit { code, reason: None, message: None, signal: None };
                finish(world, pod, &object, &end);
            }
            let after = Duration::from_millis(world.kubelet.rng.u64(0..=20));
            let at = world.clock.elapsed() + after;
            world.agenda.add(at, Deed::Pod(pod.clone(), Step::Remove));
        }
        Step::Remove if object.deleting() => delete(world, pod, Some(0), "kubelet"),
        Step::Evict if !object.deleting() => delete(world, pod, None, "node-controller"),
        _ => {}
    }
}

fn delete(world: &mut World, pod: &PodRef, grace: Option<i64>, actor: &str) {
    let options = DeleteOptions { grace, ..DeleteOptions::of_uid(&pod.uid) };
    let actor = if actor == "kubelet" { &world.kubelet.kubelet } else { &world.kubelet.node_controller };
    let actor = Arc::clone(actor);
    // The UID was compared under the same lock: nothing can refuse this.
    let _ = world.write(&actor, 0, |store, caller| store.delete(caller, pod.kind, &pod.key, &options));
}

/// Writes a Pod as its node or the scheduler may: past the checks that a client's write meets.
fn rewrite(world: &mut World, pod: &PodRef, old: &Arc<Object>, new: Value, (verb, by_node): (Verb, bool)) {
    let actor = if by_node { &world.kubelet.kubelet } else { &world.kubelet.scheduler };
    let actor = Arc::clone(actor);
    let old = Some(Arc::clone(old));
    let _ = world
        .write(&actor, 0, |store, caller| Ok(store.commit(caller, pod.kind, old, new, caller.cause(verb))));
}

fn bind(world: &mut World, pod: &PodRef, object: &Arc<Object>) {
    let alive: Vec<usize> =
        (0..world.kubelet.nodes.len()).filter(|n| !world.kubelet.nodes[*n].dead).collect();
    let Some(index) = world.kubelet.rng.choice(&alive).copied() else { return };
    let mut new = Value::clone(object);
    entry_mut(&mut new, "spec").insert("nodeName".to_owned(), json!(world.kubelet.nodes[index].name));
    let now = wire_time(world.clock.server_now());
    new["status"]["conditions"] =
        json!([{ "type": "PodScheduled", "status": "True", "lastTransitionTime": now }]);
    rewrite(world, pod, object, new, (Verb::Update, false));
    let start = world.kubelet.fates.get(&pod.uid).and_then(|fate| fate.start);
    if let Some(start) = start {
        world.agenda.add(world.clock.elapsed() + start, Deed::Pod(pod.clone(), Step::Start));
    }
}

fn start(world: &mut World, pod: &PodRef, object: &Arc<Object>) {
    let mut new = Value::clone(object);
    let now = wire_time(world.clock.server_now());
    let address = world.kubelet.new_address();
    let host = world.kubelet.nodes.iter().find(|node| node.name == node_of(object));
    let host = host.map_or_else(|| "10.0.0.254".to_owned(), |node| node.address.clone());
    let running = |container: &Value| {
        json!({ "name": container["name"], "image": container["image"], "imageID": "", "ready": true,
            "restartCount": 0, "started": true, "state": { "running": { "startedAt": now } } })
    };
    let containers = object["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    let statuses: Vec<Value> = containers.iter().map(running).collect();
    let status = entry_mut(&mut new, "status");
    status.insert("phase".to_owned(), json!("Running"));
    status.insert("hostIP".to_owned(), json!(host));
    status.insert("podIP".to_owned(), json!(address));
    status.insert("podIPs".to_owned(), json!([{ "ip": address }]));
    status.insert("startTime".to_owned(), json!(now));
    status.insert("containerStatuses".to_owned(), json!(statuses));
    rewrite(world, pod, object, new, (Verb::PatchStatus, true));
    let run = world.kubelet.fates.get(&pod.uid).and_then(|fate| fate.run);
    if let Some(run) = run {
        world.agenda.add(world.clock.elapsed() + run, Deed::Pod(pod.clone(), Step::Finish));
    }
}

fn finish(world: &mut World, pod: &PodRef, object: &Arc<Object>, end: &End) {
    let mut new = Value::clone(object);
    let now = wire_time(world.clock.server_now());
    let status = entry_mut(&mut new, "status");
    match end {
        End::PodFailed { reason, message } => {
            status.insert("phase".to_owned(), json!("Failed"));
            status.insert("reason".to_owned(), json!(reason));
            status.insert("message".to_owned(), json!(message));
            status.remove("containerStatuses");
        }
        End::Exit { code, reason, message, signal } => {
            status.insert("phase".to_owned(), json!(if *code == 0 { "Succeeded" } else { "Failed" }));
            let containers = object["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
            let terminated = |(index, container): (usize, &Value)| {
                let first = index == 0;
                let code = if first { *code } else { 0 };
                let usual = if code == 0 { "Completed" } else { "Error" };
                let reason = reason.as_deref().filter(|_| first).unwrap_or(usual);
                let mut state = json!({ "exitCode": code, "reason": reason, "finishedAt": now,
                    "startedAt": object["status"]["startTime"] });
                if let Some(message) = message.as_ref().filter(|_| first) {
                    state["message"] = json!(message);
                }
                if let Some(signal) = signal.filter(|_| first) {
                    state["signal"] = json!(signal);
                }
                json!({ "name": container["name"], "image": container["image"], "imageID": "",
                    "ready": false, "restartCount": 0, "started": false, "state": { "terminated": state } })
            };
            let statuses: Vec<Value> = containers.iter().enumerate().map(terminated).collect();
            status.insert("containerStatuses".to_owned(), json!(statuses));
        }
    }
    rewrite(world, pod, object, new, (Verb::PatchStatus, true));
}

/// Makes a node fall silent. After that long the node controller deletes the node's Pods, which then hang.
pub(crate) fn kill_node(world: &mut World, name: &str, evict_after: Duration) {
    for node in &mut world.kubelet.nodes {
        node.dead |= node.name == name;
    }
    for pod in pods_on(world, name) {
        world.agenda.add(world.clock.elapsed() + evict_after, Deed::Pod(pod, Step::Evict));
    }
}

/// Brings a node back: it ends the Pods that were deleted meanwhile, and runs on with the rest.
pub(crate) fn revive_node(world: &mut World, name: &str) {
    for node in &mut world.kubelet.nodes {
        node.dead &= node.name != name;
    }
    let now = world.clock.elapsed();
    for pod in pods_on(world, name) {
        let Some(object) = world.store.get(pod.kind, &pod.key).cloned() else { continue };
        let fate = world.kubelet.fates.get(&pod.uid);
        let next = match object["status"]["phase"].as_str() {
            _ if object.deleting() => {
                world.kubelet.plan_end(&pod, &object, now, &mut world.agenda);
                continue;
            }
            Some("Pending") => (fate.and_then(|fate| fate.start), Step::Start),
            Some("Running") => (fate.and_then(|fate| fate.run), Step::Finish),
            _ => continue,
        };
        if let (Some(after), step) = next {
            world.agenda.add(now + after, Deed::Pod(pod, step));
        }
    }
}

/// Ends a running Pod now, in a way that the test chooses. Returns whether there was one.
pub(crate) fn end_pod(world: &mut World, kind: KindId, key: &Key, end: &End) -> bool {
    let Some(object) = world.store.get(kind, key).cloned() else { return false };
    if ended(&object) {
        return false;
    }
    let pod = PodRef { kind, key: key.clone(), uid: object.uid().to_owned() };
    finish(world, &pod, &object, end);
    true
}

fn pods_on(world: &World, node: &str) -> Vec<PodRef> {
    let Some(kind) = world.store.registry.find("", "v1", "pods") else { return Vec::new() };
    let there = world.store.all(kind).filter(|pod| node_of(pod) == node);
    let pod = |pod: &Arc<Object>| PodRef {
        kind,
        key: Key::new(pod.namespace(), pod.name()),
        uid: pod.uid().to_owned(),
    };
    there.map(pod).collect()
}
