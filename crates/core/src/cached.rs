//! What a cache holds of a Pod: the facts that the core reads, and of which version they are.
//!
//! One value, because a cache of 100,000 Pods pays for each map that it looks them up in, names and all. The
//! core reads the facts alone: which version they are of, and who showed it, is the cache's own business.

use std::ops::{Deref, DerefMut};

use crate::pod_facts::PodFacts;

/// A Pod in the cache. Reads like its facts.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedPod {
    /// What the core is told.
    pub facts: PodFacts,
    /// Of which version that is.
    pub version: Version,
}

/// Which version of an object is cached, and who showed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// The LIST, or the watch that follows it, that last showed the object; 0: none.
    pub epoch: u64,
    /// Known by a reply only.
    pub unwatched: bool,
}

impl Version {
    /// Of an object that a watch shows, or the LIST that it follows.
    pub fn watched(resource_version: u128, epoch: u64) -> Self {
        Version { resource_version, epoch, unwatched: false }
    }

    /// Of an object that a reply shows, and that was cached before or was not.
    pub fn replied(resource_version: u128, before: Option<Version>) -> Self {
        let (epoch, unwatched) = before.map_or((0, true), |before| (before.epoch, before.unwatched));
        Version { resource_version, epoch, unwatched }
    }

    /// Takes note that the watch shows the object again, in a version that is not newer. Says whether that is
    /// news.
    pub fn see(&mut self, epoch: u64) -> bool {
        self.epoch = epoch;
        std::mem::replace(&mut self.unwatched, false)
    }

    /// Whether a DELETED event of that version ends this one: what a GET showed at the same version, or a
    /// later one, has lost its label and not its life.
    pub fn ends_at(self, resource_version: u128) -> bool {
        !self.unwatched || resource_version > self.resource_version
    }
}

impl Deref for CachedPod {
    type Target = PodFacts;

    fn deref(&self) -> &PodFacts {
        &self.facts
    }
}

impl DerefMut for CachedPod {
    fn deref_mut(&mut self) -> &mut PodFacts {
        &mut self.facts
    }
}

/// Of no version: what reads the facts alone needs none.
impl From<PodFacts> for Box<CachedPod> {
    fn from(facts: PodFacts) -> Self {
        Box::new(CachedPod { facts, version: Version::default() })
    }
}
