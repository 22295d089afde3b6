//! The newest version of each object of a kind.
//!
//! Guarantees: only a higher resourceVersion of an object applies, from a watch or a reply. A LIST replaces
//! all known objects of its kind. A reply brings no object back that the watch showed deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_message::{Change, Key};

use crate::object::{ClassObject, DeclaredObject, PodUse, QueueObject, QuotaObject, UnitObject};

/// An object that is kept.
pub trait Stored {
    /// Its name.
    fn key(&self) -> &Key;
    /// `metadata.resourceVersion`.
    fn version(&self) -> u128;
}

#[derive(Debug)]
struct Kept<T> {
    object: T,
    /// The number of the LIST since which it was last shown.
    list_number: u64,
}

/// All objects of a kind.
#[derive(Debug)]
pub struct Store<T> {
    kept: BTreeMap<Key, Kept<T>>,
    list_number: u64,
    /// Whether the watch lists, so that [`Change::Synced`] follows.
    listing: bool,
    synced: bool,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store { kept: BTreeMap::new(), list_number: 0, listing: false, synced: false }
    }
}

impl<T: Stored> Store<T> {
    /// Whether it was ever listed.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// The object of that name.
    pub fn get(&self, key: &Key) -> Option<&T> {
        self.kept.get(key).map(|kept| &kept.object)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.kept.values().map(|kept| &kept.object)
    }

    /// Those of a namespace.
    pub fn within(&self, namespace: &str) -> impl Iterator<Item = &T> {
        let within = move |key: &Key| *key.namespace == *namespace;
        let first = self.kept.range(Key::new(namespace, "")..);
        first.take_while(move |(key, _)| within(key)).map(|(_, kept)| &kept.object)
    }

    /// The namespaces of all objects, in order. Each takes one search, however many objects it has.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<str>> {
        let first = |from: Key| Some(&self.kept.range(from..).next()?.0.namespace);
        // The least name that is greater: names of namespaces contain no NUL.
        let next = move |last: &&Arc<str>| first(Key::new(&format!("{last}\0"), ""));
        std::iter::successors(first(Key::new("", "")), next)
    }

    /// Takes in a change that the watch shows. Returns the names of the objects that changed.
    pub fn apply(&mut self, change: Change<T>) -> Vec<Key> {
        match change {
            Change::Restarted => {
                self.list_number += 1;
                self.listing = true;
                Vec::new()
            }
            Change::Listed(object) | Change::Applied(object) => {
                self.keep(object, self.list_number).into_iter().collect()
            }
            Change::Deleted(object) => {
                let newer = |kept: &Kept<T>| kept.object.version() > object.version();
                if self.kept.get(object.key()).is_some_and(newer) {
                    return Vec::new();
                }
                self.kept.remove(object.key());
                vec![object.key().clone()]
            }
            Change::Synced => {
                (self.listing, self.synced) = (false, true);
                let stale = self.kept.extract_if(.., |_, kept| kept.list_number < self.list_number);
                stale.map(|(key, _)| key).collect()
            }
        }
    }

    /// Takes in an object of a LIST of our own. One that the watch lists at the same time decides whether the
    /// object is still there. Returns the name if the object is news.
    pub fn read(&mut self, object: T) -> Option<Key> {
        let known = self.kept.get(object.key()).map(|kept| kept.list_number);
        self.keep(object, known.unwrap_or(self.list_number - u64::from(self.listing)))
    }

    fn keep(&mut self, object: T, list_number: u64) -> Option<Key> {
        let key = object.key().clone();
        match self.kept.get_mut(&key) {
            Some(kept) if kept.object.version() >= object.version() => {
                kept.list_number = list_number;
                None
            }
            _ => {
                self.kept.insert(key.clone(), Kept { object, list_number });
                Some(key)
            }
        }
    }

    /// Takes in a known object from a reply. Returns whether it is newer.
    pub fn refresh(&mut self, object: T) -> bool {
        let Some(kept) = self.kept.get_mut(object.key()) else { return false };
        let news = kept.object.version() < object.version();
        if news {
            kept.object = object;
        }
        news
    }
}

macro_rules! stored {
    ($($object:ty),*) => {$(
        impl Stored for $object {
            fn key(&self) -> &Key {
                &self.key
            }

            fn version(&self) -> u128 {
                self.resource_version
            }
        }
    )*};
}

impl Stored for DeclaredObject {
    fn key(&self) -> &Key {
        &self.job.key
    }

    fn version(&self) -> u128 {
        self.job.resource_version
    }
}

stored!(QueueObject, QuotaObject, ClassObject, PodUse, Arc<UnitObject>);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing(Key, u128);

    impl Stored for Thing {
        fn key(&self) -> &Key {
            &self.0
        }

        fn version(&self) -> u128 {
            self.1
        }
    }

    fn thing(name: &str, version: u128) -> Thing {
        Thing(Key::new("ns", name), version)
    }

    fn versions(store: &Store<Thing>) -> Vec<u128> {
        store.iter().map(|thing| thing.1).collect()
    }

    #[test]
    fn each_namespace_is_named_once_in_order() {
        let mut store = Store::default();
        for (namespace, name) in [("b", "x"), ("a", "z"), ("a-b", "x"), ("a", "x"), ("b", "y")] {
            store.apply(Change::Applied(Thing(Key::new(namespace, name), 1)));
        }
        assert_eq!(store.namespaces().map(|name| &**name).collect::<Vec<_>>(), ["a", "a-b", "b"]);
        assert_eq!(Store::<Thing>::default().namespaces().count(), 0);
    }

    #[test]
    fn only_a_newer_version_applies_from_watch_and_reply() {
        let mut store = Store::default();
        assert_eq!(store.apply(Change::Applied(thing("a", 5))).len(), 1);
        assert!(store.apply(Change::Applied(thing("a", 4))).is_empty());
        assert!(store.refresh(thing("a", 6)) && !store.refresh(thing("a", 6)));
        assert!(store.apply(Change::Deleted(thing("a", 5))).is_empty(), "of an earlier object of that name");
        assert_eq!(versions(&store), [6]);
        assert_eq!(store.apply(Change::Deleted(thing("a", 7))).len(), 1);
        assert!(!store.refresh(thing("a", 8)), "a reply brings nothing back");
        assert_eq!(versions(&store), []);
    }

    #[test]
    fn a_page_that_arrives_while_the_watch_lists_brings_nothing_back() {
        let mut store = Store::default();
        store.apply(Change::Applied(thing("a", 5)));
        store.apply(Change::Restarted);
        store.apply(Change::Listed(thing("c", 5)));
        // The API server answered these before the LIST of the watch, and a and b were deleted since.
        for (name, version) in [("a", 6), ("b", 6), ("c", 6)] {
            assert!(store.read(thing(name, version)).is_some());
        }
        store.apply(Change::Synced);
        assert_eq!(versions(&store), [6], "only c is left");
        assert!(store.read(thing("d", 7)).is_some() && store.read(thing("c", 5)).is_none());
        assert_eq!(versions(&store), [6, 7]);
    }

    #[test]
    fn a_list_replaces_the_known_objects() {
        let mut store = Store::default();
        for name in ["a", "b"] {
            store.apply(Change::Applied(thing(name, 5)));
        }
        assert!(!store.is_synced());
        store.apply(Change::Restarted);
        store.apply(Change::Listed(thing("b", 5)));
        assert_eq!(store.apply(Change::Synced), [Key::new("ns", "a")]);
        assert!(store.is_synced());
        assert_eq!(versions(&store), [5]);
    }
}
