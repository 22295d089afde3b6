//! A Pod in the cache: the facts that the core reads, and their version.
//!
//! Both are one value, because a cache of 100,000 Pods pays for each map, with its keys. The core reads the
//! facts only; the version and its source are for the cache.

use std::ops::{Deref, DerefMut};

use crate::pod_facts::PodFacts;

/// A Pod in the cache. Reads like its facts.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedPod {
    /// The facts that the core reads.
    pub facts: PodFacts,
    /// The version of the facts.
    pub version: Version,
}

/// The cached version of an object, and its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// The LIST, or the watch that follows it, that last showed the object; 0: none.
    pub list_number: u64,
    /// Known by a reply only.
    pub unwatched: bool,
}

impl Version {
    /// The version of an object that a watch shows, or the LIST before it.
    pub fn watched(resource_version: u128, list_number: u64) -> Self {
        Version { resource_version, list_number, unwatched: false }
    }

    /// The version of an object that a reply shows. `before` is the cached version, if there is one.
    pub fn replied(resource_version: u128, before: Option<Version>) -> Self {
        let (list_number, unwatched) =
            before.map_or((0, true), |before| (before.list_number, before.unwatched));
        Version { resource_version, list_number, unwatched }
    }

    /// Notes that the watch shows the object again, in a version that is not newer. Returns whether it was
    /// unwatched.
    pub fn see(&mut self, list_number: u64) -> bool {
        self.list_number = list_number;
        std::mem::replace(&mut self.unwatched, false)
    }

    /// Whether a DELETED event of that version means that the object is gone. An object that a GET showed
    /// at the same version or later has only lost its label.
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

/// Without a version: the core reads the facts only.
impl From<PodFacts> for Box<CachedPod> {
    fn from(facts: PodFacts) -> Self {
        Box::new(CachedPod { facts, version: Version::default() })
    }
}
