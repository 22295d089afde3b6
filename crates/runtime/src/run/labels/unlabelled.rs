//! The Frameworks that are to get the label of their slot, and those of them that keep slots where they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_message::Key;
use tokio::time::Instant;
use tracing::warn;

use crate::watch::Wrong;

/// A version of a Framework that is to get the label.
#[derive(Clone, Debug)]
pub struct Unlabelled {
    pub uid: Arc<str>,
    pub resource_version: Arc<str>,
    /// When it was first seen without the label.
    pub since: Instant,
}

impl From<Wrong> for Unlabelled {
    fn from(wrong: Wrong) -> Self {
        Unlabelled {
            uid: wrong.uid,
            resource_version: wrong.resource_version.to_string().into(),
            since: wrong.since,
        }
    }
}

/// The Frameworks that the first list showed without the label.
#[derive(Default)]
pub struct FirstList {
    /// When it was complete; `None`: it is not.
    pub at: Option<Instant>,
    /// How many it showed: Frameworks that come later keep no slots where they are.
    pub count: usize,
    /// Those that may still be without the label. Each is looked at until it has the label or was waited for
    /// long enough, and never again: ten thousand that come later cost no walk each.
    pub left: BTreeSet<Key>,
}

impl FirstList {
    /// A list is complete, and these have no label.
    pub fn listed(&mut self, unlabelled: &BTreeMap<Key, Unlabelled>) {
        if self.at.is_none() {
            self.at = Some(Instant::now());
            self.count = unlabelled.len();
            self.left = unlabelled.keys().cloned().collect();
        }
    }

    /// Whether one of them is awaited. `since` says since when a Framework is known to be without the label.
    pub fn has_any(
        &mut self,
        since: impl Fn(&Key) -> Option<Instant>,
        awaited: impl Fn(Instant) -> bool,
    ) -> bool {
        while let Some(key) = self.left.first() {
            if since(key).is_some_and(&awaited) {
                return true;
            }
            self.left.pop_first();
        }
        false
    }

    /// Warns of those that are without the label though none is awaited any more.
    pub fn warn_of(&self, unlabelled: &BTreeMap<Key, Unlabelled>) {
        let mut left = unlabelled.iter().filter(|(_, one)| Some(one.since) <= self.at);
        if let Some((framework, _)) = left.next() {
            let count = left.count() + 1;
            warn!(count, %framework, "slots may move before all Frameworks have the label of their slot");
        }
    }
}
