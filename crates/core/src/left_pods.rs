//! The last facts about Pods that have left the cache, for Tasks whose status does not have them yet.
//!
//! The exit that was seen stays the end of its Task, even if others delete the Pod before a status is
//! written. So does the time when the Pod was first seen Running. The number of Pods is bounded.

use std::collections::BTreeMap;

use crate::cached::CachedPod;
use crate::pod_facts::PodFacts;

/// The most Pods that are remembered. Pods that no status names add to them, until a newer version of the
/// Framework drops these.
const MOST: usize = 4096;

/// Pods that have left the cache, by UID.
#[derive(Clone, Debug, Default)]
pub struct LeftPods(BTreeMap<String, Box<CachedPod>>);

impl LeftPods {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last facts about the Pod with this UID.
    pub fn get(&self, uid: &str) -> Option<&PodFacts> {
        self.0.get(uid).map(|pod| &pod.facts)
    }

    /// A Pod leaves the cache. Nothing is remembered of one that neither ran nor ended by itself.
    pub fn insert(&mut self, pod: Box<CachedPod>) {
        if pod.own_end().is_none() && pod.ran_at.is_none() {
            return;
        }
        if self.0.len() >= MOST {
            self.0.pop_first();
        }
        self.0.insert(pod.uid.clone(), pod);
    }

    /// Takes out the last facts about the Pod with this UID.
    pub fn remove(&mut self, uid: &str) -> Option<Box<CachedPod>> {
        self.0.remove(uid)
    }

    /// Keeps the Pods for whose UID `keep` holds.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| keep(uid));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{LeftPods, MOST};
    use crate::classify::{TerminalPhase, TerminatedPod};
    use crate::pod_facts::{PodFacts, PodPhase};

    fn ended(uid: &str) -> PodFacts {
        let end = TerminatedPod {
            phase: TerminalPhase::Failed,
            pod_name: "job-a-0".to_owned(),
            reason: String::new(),
            message: String::new(),
            containers: Vec::new(),
        };
        PodFacts { end: Some(Box::new(end)), ..PodFacts::new(uid, "map", PodPhase::Failed) }
    }

    #[test]
    fn only_pods_that_ran_or_ended_by_themselves_are_remembered() {
        let mut left = LeftPods::default();
        left.insert(PodFacts::new("a", "map", PodPhase::Pending).into());
        assert!(left.is_empty());
        left.insert(ended("a").into());
        assert_eq!(left.get("a"), Some(&ended("a")));
    }

    #[test]
    fn a_pod_that_leaves_again_is_remembered_as_it_was_last() {
        let mut left = LeftPods::default();
        left.insert(ended("a").into());
        let again = PodFacts { node_name: "node".to_owned(), ..ended("a") };
        left.insert(again.clone().into());
        assert_eq!(left.get("a"), Some(&again));
        assert_eq!(left.remove("a").map(|pod| pod.facts), Some(again));
        assert!(left.is_empty(), "one for each Pod");
    }

    #[test]
    fn pods_that_leave_take_bounded_memory() {
        let mut left = LeftPods::default();
        for number in 0..MOST + 100 {
            let uid = format!("{number:09}");
            left.insert(ended(&uid).into());
            assert!(left.get(&uid).is_some(), "the last one is always remembered");
        }
        assert_eq!(left.0.len(), MOST);
    }
}
