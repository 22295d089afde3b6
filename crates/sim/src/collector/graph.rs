//! The garbage collector's graph of owners and dependents, and the objects that it plans to look at.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use crate::agenda::Agenda;
use crate::deed::{Deed, WorkItem};
use crate::duration::draw;
use crate::history::Change;
use crate::object::{Meta, Object};

/// The collector and its graph.
#[derive(Debug)]
pub(crate) struct Collector {
    rng: Rng,
    delay: RangeInclusive<Duration>,
    nodes: BTreeMap<String, OwnerNode>,
    dependents: BTreeMap<String, BTreeMap<String, bool>>,
    pub(super) actor: Arc<str>,
}

#[derive(Debug)]
struct OwnerNode {
    owners: Vec<String>,
}

impl Collector {
    pub(crate) fn new(delay: RangeInclusive<Duration>, rng: Rng) -> Self {
        Self { rng, delay, nodes: BTreeMap::new(), dependents: BTreeMap::new(), actor: "collector".into() }
    }

    /// Plans to look at a change.
    pub(crate) fn notice(&mut self, index: usize, change: &Change, agenda: &mut Agenda) {
        let concerns = |object: &Option<Arc<Object>>| {
            object.as_ref().is_some_and(|object| !object.owners().is_empty() || object.has_finalizers())
        };
        // Objects without owners and finalizers matter only when they go.
        if concerns(&change.old) || concerns(&change.new) || change.removes() {
            let at = change.at + draw(&mut self.rng, &self.delay);
            agenda.add(at, Deed::Collect(WorkItem::Notice(index)));
        }
    }

    /// Plans to handle an item.
    pub(super) fn plan(&mut self, now: Duration, item: WorkItem, agenda: &mut Agenda) {
        let at = now + draw(&mut self.rng, &self.delay);
        agenda.add(at, Deed::Collect(item));
    }

    /// Takes an object into the graph, or out of it.
    pub(super) fn learn(&mut self, uid: &str, object: Option<&Value>) {
        for owner in self.nodes.remove(uid).map_or_else(Vec::new, |node| node.owners) {
            if let Some(dependents) = self.dependents.get_mut(&owner) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner);
                }
            }
        }
        let Some(object) = object else { return };
        let mut owners = Vec::new();
        for owner in object.owners() {
            let Some(owner_uid) = owner["uid"].as_str() else { continue };
            let blocks = owner["blockOwnerDeletion"] == true;
            self.dependents.entry(owner_uid.to_owned()).or_default().insert(uid.to_owned(), blocks);
            owners.push(owner_uid.to_owned());
        }
        self.nodes.insert(uid.to_owned(), OwnerNode { owners });
    }

    /// UIDs of the dependents of an object, and whether each blocks its deletion.
    pub(super) fn dependents_of(&self, uid: &str) -> Vec<(String, bool)> {
        let all = self.dependents.get(uid).into_iter().flatten();
        all.map(|(uid, blocks)| (uid.clone(), *blocks)).collect()
    }
}
