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
    /// The number of the slot that the label named when a watch last showed the object. The watch selects the
    /// object by it. `None`: it named none.
    pub label: Option<u8>,
}

impl Version {
    /// The version of an object that a watch shows, or the LIST before it.
    pub fn watched(resource_version: u128, label: Option<u8>, list_number: u64) -> Self {
        Version { resource_version, list_number, unwatched: false, label }
    }

    /// The version of an object that a reply shows. `before` is the cached version, if there is one.
    pub fn replied(resource_version: u128, before: Option<Version>) -> Self {
        let unseen = Version { unwatched: true, ..Version::default() };
        Version { resource_version, ..before.unwrap_or(unseen) }
    }

    /// Notes that the watch shows the object again, in a version that is not newer. Returns whether it was
    /// unwatched.
    pub fn see(&mut self, label: Option<u8>, list_number: u64) -> bool {
        (self.label, self.list_number) = (label, list_number);
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
