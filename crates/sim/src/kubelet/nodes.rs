//! The nodes and the plans for their Pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use crate::agenda::Agenda;
use crate::deed::{Deed, PodRef, Step};
use crate::fate::{Behaviour, Fate};
use crate::history::Change;
use crate::object::{Meta, ended};
use crate::store::Key;

/// All nodes, and the scheduler.
#[derive(Debug)]
pub(crate) struct Kubelet {
    pub behaviour: Behaviour,
    pub(super) rng: Rng,
    pub(super) nodes: Vec<Node>,
    addresses: u32,
    pub(super) fates: BTreeMap<String, Fate>,
    pub(super) kubelet: Arc<str>,
    pub(super) scheduler: Arc<str>,
    pub(super) node_controller: Arc<str>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub name: String,
    pub address: String,
    pub dead: bool,
}

impl Kubelet {
    pub(crate) fn new(behaviour: Behaviour, nodes: usize, rng: Rng) -> Self {
        let node = |index: usize| Node {
            name: format!("node-{index}"),
            address: format!("10.0.0.{}", index + 1),
            dead: false,
        };
        Self {
            behaviour,
            rng,
            nodes: (0..nodes.max(1)).map(node).collect(),
            addresses: 0,
            fates: BTreeMap::new(),
            kubelet: "kubelet".into(),
            scheduler: "scheduler".into(),
            node_controller: "node-controller".into(),
        }
    }

    /// Plans the steps that follow from a change of a Pod.
    pub(crate) fn notice(&mut self, change: &Change, agenda: &mut Agenda) {
        if !change.is("pods") {
            return;
        }
        let Some(new) = &change.new else {
            self.fates.remove(&change.uid);
            return;
        };
        let key = Key::new(&change.namespace, &change.name);
        let pod = PodRef { kind: change.kind, key, uid: change.uid.clone() };
        if change.creates() {
            let fate = self.behaviour.decide(new, &mut self.rng);
            let (schedule, start) = (fate.schedule, fate.start);
            self.fates.insert(change.uid.clone(), fate);
            let pinned = !node_of(new).is_empty();
            let (after, step) = if pinned { (start, Step::Start) } else { (schedule, Step::Bind) };
            if let Some(after) = after {
                agenda.add(change.at + after, Deed::Pod(pod, step));
            }
            return;
        }
        let grace = |object: &Value| object["metadata"]["deletionGracePeriodSeconds"].as_u64();
        let shortened = change.old.as_ref().is_none_or(|old| grace(old) != grace(new));
        if new.deleting() && shortened {
            self.plan_end(&pod, new, change.at, agenda);
        }
    }

    /// Plans the end of a Pod that is being deleted.
    pub(super) fn plan_end(&self, pod: &PodRef, object: &Value, at: Duration, agenda: &mut Agenda) {
        if ended(object) {
            agenda.add(at + Duration::from_millis(1), Deed::Pod(pod.clone(), Step::Remove));
        } else if let Some(time) = self.fates.get(&pod.uid).and_then(|fate| fate.terminate) {
            let grace = object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
            agenda.add(at + time.min(Duration::from_secs(grace)), Deed::Pod(pod.clone(), Step::Kill));
        }
    }

    /// Whether a node is silent.
    pub(super) fn dead(&self, name: &str) -> bool {
        self.nodes.iter().any(|node| node.dead && node.name == name)
    }

    /// Names of the nodes that are silent.
    pub(crate) fn dead_nodes(&self) -> Vec<String> {
        self.nodes.iter().filter(|node| node.dead).map(|node| node.name.clone()).collect()
    }

    /// An address for another Pod.
    pub(super) fn new_address(&mut self) -> String {
        self.addresses += 1;
        let n = self.addresses;
        format!("10.{}.{}.{}", 64 + (n >> 16) % 128, (n >> 8) % 256, n % 256)
    }
}

/// The name of the node that a Pod is bound to, empty before.
pub(super) fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or("")
}
