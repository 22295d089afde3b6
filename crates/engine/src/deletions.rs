//! Pods that have left the cache: which of them are certainly deleted, and their last state.
//!
//! A DELETED event of a watch by label has two meanings. An API server that deletes a Pod sets
//! `deletionGracePeriodSeconds` to 0 first, and the event shows that. Otherwise the Pod has lost its label,
//! and only later events or replies show whether it lives.
//!
//! Guarantees: each Pod that was known and is known to be gone goes into the history at least once; one that
//! is found alive does not. At most one Pod of each name waits.

use std::collections::BTreeMap;

use framework_core::observed::PodFacts;

use crate::last_seen::{LastSeen, LastState};
use crate::object::PodObject;

/// The Pods of one Framework's name that have left the cache.
#[derive(Debug, Default)]
pub struct Deletions {
    /// By name.
    waiting: BTreeMap<String, LeftCache>,
    /// To go into the history.
    gone: Vec<LastSeen>,
}

/// A Pod that left the cache and is not in the history yet.
#[derive(Debug)]
struct LeftCache {
    last: LastSeen,
    why: Cause,
}

/// Why it left, and the event or reply that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// An event that does not prove a deletion. A Pod that is found alive stops waiting.
    Unselected,
    /// A LIST does not show it. A Pod that is found alive stops waiting.
    Unlisted,
    /// It is certainly gone; the event that shows the whole Pod is yet to come.
    Gone,
}

/// Whether a Pod was last seen with no time left. If the watch no longer shows such a Pod, the Pod is
/// deleted.
pub fn has_no_time_left(facts: &PodFacts) -> bool {
    facts.deletion.is_some_and(|deletion| deletion.grace_sec == 0)
}

impl Deletions {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.gone.is_empty()
    }

    /// The watch shows that a Pod was deleted, or is no longer selected.
    pub fn unselected(&mut self, pod: &PodObject) {
        let before = self.take(&pod.name, &pod.facts.uid);
        let is_end = has_no_time_left(&pod.facts);
        let mut last = last_seen(&pod.name, &pod.facts, pod.resource_version);
        if let Some(json) = pod.last.clone() {
            last.state = if is_end { LastState::Whole(json) } else { LastState::Earlier(json) };
        }
        if is_end || before.is_some_and(|left| left.why == Cause::Gone) {
            self.gone.push(last);
        } else {
            self.wait(last, Cause::Unselected);
        }
    }

    /// A LIST does not show a Pod that was cached with these facts.
    pub fn unlisted(&mut self, name: &str, facts: &PodFacts, resource_version: u128) {
        let last = last_seen(name, facts, resource_version);
        if has_no_time_left(facts) { self.gone.push(last) } else { self.wait(last, Cause::Unlisted) }
    }

    /// A Pod that was cached with these facts is certainly gone. `shown`: the watch will show its deletion.
    pub fn gone(&mut self, name: &str, facts: &PodFacts, resource_version: u128, shown: bool) {
        let last = last_seen(name, facts, resource_version);
        if shown { self.wait(last, Cause::Gone) } else { self.gone.push(last) }
    }

    /// A Pod that is not cached is certainly gone. Unless an event is yet to show it, nothing more comes.
    pub fn confirmed(&mut self, name: &str, uid: &str) {
        if self.waiting.get(name).is_some_and(|left| left.why != Cause::Gone) {
            let left = self.take(name, uid);
            self.gone.extend(left.map(|left| left.last));
        }
    }

    /// A Pod of that name is there. If the watch shows it, no earlier Pod of that name will be shown again.
    pub fn present(&mut self, name: &str, uid: &str, by_watch: bool) {
        let Some(left) = self.waiting.get(name) else { return };
        if left.last.uid == uid {
            self.waiting.remove(name);
        } else if by_watch {
            self.gone.extend(self.waiting.remove(name).map(|left| left.last));
        }
    }

    /// A Pod was taken from its owner, alive.
    pub fn released(&mut self, name: &str, uid: &str) {
        self.take(name, uid);
    }

    /// A LIST is complete: no event will come about a Pod that it did not show. A Pod for which `asked` is
    /// true waits for the reply to its GET.
    pub fn listed(&mut self, asked: impl Fn(&str) -> bool) {
        self.give_up(|left| match left.why {
            Cause::Unselected => None,
            Cause::Unlisted => (!asked(&left.last.uid)).then_some(true),
            Cause::Gone => Some(true),
        });
    }

    /// No GET will ask whether a Pod lives: a Pod that a LIST missed counts as gone, one that lost its label
    /// as alive.
    pub fn unasked(&mut self) {
        self.give_up(|left| match left.why {
            Cause::Unselected => Some(false),
            Cause::Unlisted => Some(true),
            Cause::Gone => None,
        });
    }

    /// The Pods that are gone and not in the history yet.
    pub fn take_gone(&mut self) -> Vec<LastSeen> {
        std::mem::take(&mut self.gone)
    }

    /// Stops waiting for the Pods of which `is_gone` says whether they are gone.
    fn give_up(&mut self, is_gone: impl Fn(&LeftCache) -> Option<bool>) {
        for (name, left) in std::mem::take(&mut self.waiting) {
            match is_gone(&left) {
                None => drop(self.waiting.insert(name, left)),
                Some(true) => self.gone.push(left.last),
                Some(false) => {}
            }
        }
    }

    fn take(&mut self, name: &str, uid: &str) -> Option<LeftCache> {
        self.waiting.get(name).filter(|left| left.last.uid == uid)?;
        self.waiting.remove(name)
    }

    fn wait(&mut self, last: LastSeen, why: Cause) {
        let uid = last.uid.clone();
        let before = self.waiting.insert(last.name.clone(), LeftCache { last, why });
        // Only one object holds a name at a time: the Pod that waited under it is gone.
        self.gone.extend(before.map(|left| left.last).filter(|last| last.uid != uid));
    }
}

fn last_seen(name: &str, facts: &PodFacts, resource_version: u128) -> LastSeen {
    let state = LastState::Facts { facts: Box::new(facts.clone()), resource_version };
    LastSeen { name: name.to_owned(), uid: facts.uid.clone(), state }
}

#[cfg(test)]
mod tests;
