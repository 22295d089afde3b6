//! Pods that have left the cache: who is deleted for certain, and how it was last.
//!
//! A DELETED event of a watch by label has two meanings. An API server that deletes a Pod first leaves it no
//! time (`deletionGracePeriodSeconds` 0), and the event shows that; else the Pod has lost its label, and only
//! what is learnt afterwards tells whether it lives. Guarantees: each Pod that was known and is known to be
//! gone is told of at least once; one that is found alive is not. One Pod of each name waits at most.

use std::collections::BTreeMap;

use framework_core::observed::PodFacts;

use crate::last_seen::{LastSeen, LastState};
use crate::object::PodObject;

/// The Pods of one Framework's name that have left the cache.
#[derive(Debug, Default)]
pub struct Deletions {
    /// By name.
    waiting: BTreeMap<String, LeftCache>,
    /// To be told.
    gone: Vec<LastSeen>,
}

/// A Pod that left the cache and is not told of yet.
#[derive(Debug)]
struct LeftCache {
    last: LastSeen,
    why: Why,
}

/// Why it left, and what is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// An event that does not mean an end for certain. Found alive, it goes on.
    Unselected,
    /// A LIST does not show it. Found alive, it goes on.
    Unlisted,
    /// It is gone for certain; the event that shows it whole is yet to come.
    Gone,
}

/// Whether a Pod was last seen with no time left: what the watch does not show any more then is deleted.
fn has_no_time_left(facts: &PodFacts) -> bool {
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
        if is_end || before.is_some_and(|departed| departed.why == Why::Gone) {
            self.gone.push(last);
        } else {
            self.wait(last, Why::Unselected);
        }
    }

    /// A LIST does not show a Pod that was cached so.
    pub fn unlisted(&mut self, name: &str, facts: &PodFacts, resource_version: u128) {
        let last = last_seen(name, facts, resource_version);
        if has_no_time_left(facts) { self.gone.push(last) } else { self.wait(last, Why::Unlisted) }
    }

    /// A Pod is gone for certain that was cached so: `shown` says whether the watch will show it deleted.
    pub fn gone(&mut self, name: &str, facts: &PodFacts, resource_version: u128, shown: bool) {
        let last = last_seen(name, facts, resource_version);
        if shown { self.wait(last, Why::Gone) } else { self.gone.push(last) }
    }

    /// A Pod that is not cached is gone for certain. Unless an event is yet to show it, nothing more comes.
    pub fn confirmed(&mut self, name: &str, uid: &str) {
        if self.waiting.get(name).is_some_and(|departed| departed.why != Why::Gone) {
            let departed = self.take(name, uid);
            self.gone.extend(departed.map(|departed| departed.last));
        }
    }

    /// A Pod of that name is there. If the watch says so, nobody who had the name before will be shown again.
    pub fn present(&mut self, name: &str, uid: &str, by_watch: bool) {
        let Some(departed) = self.waiting.get(name) else { return };
        if departed.last.uid == uid {
            self.waiting.remove(name);
        } else if by_watch {
            self.gone.extend(self.waiting.remove(name).map(|departed| departed.last));
        }
    }

    /// A Pod was taken from its owner, alive.
    pub fn released(&mut self, name: &str, uid: &str) {
        self.take(name, uid);
    }

    /// A LIST is complete: what it told nothing of, no event will. What `asked` says is asked for waits for
    /// the answer.
    pub fn listed(&mut self, asked: impl Fn(&str) -> bool) {
        self.give_up(|departed| match departed.why {
            Why::Unselected => None,
            Why::Unlisted => (!asked(&departed.last.uid)).then_some(true),
            Why::Gone => Some(true),
        });
    }

    /// Nobody asks any more whether a Pod lives: what a LIST missed counts as gone, what lost its label as
    /// alive.
    pub fn unasked(&mut self) {
        self.give_up(|departed| match departed.why {
            Why::Unselected => Some(false),
            Why::Unlisted => Some(true),
            Why::Gone => None,
        });
    }

    /// The Pods that are gone and not told of yet.
    pub fn take_gone(&mut self) -> Vec<LastSeen> {
        std::mem::take(&mut self.gone)
    }

    /// Lets those go of which `verdict` says whether they are gone.
    fn give_up(&mut self, verdict: impl Fn(&LeftCache) -> Option<bool>) {
        for (name, departed) in std::mem::take(&mut self.waiting) {
            match verdict(&departed) {
                None => drop(self.waiting.insert(name, departed)),
                Some(true) => self.gone.push(departed.last),
                Some(false) => {}
            }
        }
    }

    fn take(&mut self, name: &str, uid: &str) -> Option<LeftCache> {
        self.waiting.get(name).filter(|departed| departed.last.uid == uid)?;
        self.waiting.remove(name)
    }

    fn wait(&mut self, last: LastSeen, why: Why) {
        let uid = last.uid.clone();
        let before = self.waiting.insert(last.name.clone(), LeftCache { last, why });
        // One name is held by one object at a time: whoever waited under it is gone.
        self.gone.extend(before.map(|departed| departed.last).filter(|last| last.uid != uid));
    }
}

fn last_seen(name: &str, facts: &PodFacts, resource_version: u128) -> LastSeen {
    let state = LastState::Facts { facts: facts.clone(), resource_version };
    LastSeen { name: name.to_owned(), uid: facts.uid.clone(), state }
}

#[cfg(test)]
mod tests;
