//! The newest version of each object of a kind.
//!
//! Guarantees: only a higher resourceVersion of an object applies, from a watch or a reply. A LIST replaces
//! all known objects of its kind, or those of the slots that it shows. A reply brings no object back that the
//! watch showed deleted.
//!
//! A user may edit the label that names the slot of an object. One watch shows objects of all slots of the
//! share, and those without a slot. So the changes of an object come in order, each once. A new label is a
//! change of the object, or its deletion if the slot is not of the share. The label of the newest version
//! decides which LIST replaces an object. One that a LIST of granted slots does not show, because its label
//! has just changed, is shown again by the watch, which begins before that LIST.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_message::{Change, Key, Slot, SlotSelection, Slots};

use crate::object::{ClassObject, DeclaredObject, OwnerLink, PodUse, QueueObject, QuotaObject, UnitObject};

/// An object that is kept.
pub trait Stored {
    /// Its name.
    fn key(&self) -> &Key;
    /// `metadata.resourceVersion`.
    fn version(&self) -> u128;
    /// The slot that its label names, if its kind is divided into slots.
    fn slot(&self) -> Option<Slot> {
        None
    }
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
    /// The slots whose objects the LIST shows; `None`: it shows all objects.
    part: Option<Slots>,
    /// Whether the watch lists, so that [`Change::Synced`] follows.
    listing: bool,
    synced: bool,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store { kept: BTreeMap::new(), list_number: 0, part: None, listing: false, synced: false }
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

    /// A LIST of a share begins. It shows all objects of the share if it lists every slot. Otherwise it shows
    /// those of the slots that it lists, and the others stay as they are. Returns the names of the objects
    /// that are not known any more, because their slots have left the share.
    pub fn select(&mut self, share: SlotSelection) -> Vec<Key> {
        self.part = (share.list != Slots::ALL).then_some(share.list);
        let has_left = |object: &T| object.slot().is_some_and(|slot| !share.slots.contains(slot));
        let left = self.kept.extract_if(.., |_, kept| has_left(&kept.object));
        left.map(|(key, _)| key).collect()
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
                let (list_number, part) = (self.list_number, self.part);
                let shows = |object: &T| {
                    part.is_none_or(|part| object.slot().is_some_and(|slot| part.contains(slot)))
                };
                let is_stale = |kept: &Kept<T>| kept.list_number < list_number && shows(&kept.object);
                let stale = self.kept.extract_if(.., |_, kept| is_stale(kept));
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
    ($($object:ty $(: $slot:ident)?),*) => {$(
        impl Stored for $object {
            fn key(&self) -> &Key {
                &self.key
            }

            fn version(&self) -> u128 {
                self.resource_version
            }
            $(
                fn slot(&self) -> Option<Slot> {
                    self.$slot
                }
            )?
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

stored!(QueueObject, QuotaObject, ClassObject, Arc<UnitObject>, PodUse: slot, OwnerLink: slot);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing(Key, u128, Option<Slot>);

    impl Stored for Thing {
        fn key(&self) -> &Key {
            &self.0
        }

        fn version(&self) -> u128 {
            self.1
        }

        fn slot(&self) -> Option<Slot> {
            self.2
        }
    }

    fn thing(name: &str, version: u128) -> Thing {
        Thing(Key::new("ns", name), version, None)
    }

    fn labelled(name: &str, version: u128, slot: u8) -> Thing {
        Thing(Key::new("ns", name), version, Some(Slot(slot)))
    }

    fn share(slots: &[u8], list: &[u8]) -> SlotSelection {
        let of = |slots: &[u8]| slots.iter().copied().map(Slot).collect();
        SlotSelection { grant: 1, slots: of(slots), list: of(list) }
    }

    /// A store with an object without a slot, and one of each of two slots.
    fn divided() -> Store<Thing> {
        let mut store = Store::default();
        store.select(SlotSelection { list: Slots::ALL, ..share(&[3, 7], &[]) });
        for change in [
            Change::Restarted,
            Change::Listed(thing("none", 5)),
            Change::Listed(labelled("three", 5, 3)),
            Change::Listed(labelled("seven", 5, 7)),
            Change::Synced,
        ] {
            store.apply(change);
        }
        store
    }

    fn names(store: &Store<Thing>) -> Vec<&str> {
        store.iter().map(|thing| &*thing.0.name).collect()
    }

    fn versions(store: &Store<Thing>) -> Vec<u128> {
        store.iter().map(|thing| thing.1).collect()
    }

    #[test]
    fn each_namespace_is_named_once_in_order() {
        let mut store = Store::default();
        for (namespace, name) in [("b", "x"), ("a", "z"), ("a-b", "x"), ("a", "x"), ("b", "y")] {
            store.apply(Change::Applied(Thing(Key::new(namespace, name), 1, None)));
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

    #[test]
    fn objects_leave_with_their_slot_and_a_list_replaces_those_of_its_slots() {
        let mut store = divided();
        assert_eq!(store.select(share(&[3], &[])), [Key::new("ns", "seven")]);
        store.apply(Change::Restarted);
        assert!(store.apply(Change::Synced).is_empty(), "nothing was listed");
        assert_eq!(names(&store), ["none", "three"]);
        assert!(store.select(share(&[3, 7], &[7])).is_empty());
        store.apply(Change::Restarted);
        store.apply(Change::Listed(labelled("back", 6, 7)));
        assert!(store.apply(Change::Synced).is_empty());
        store.select(share(&[3, 7], &[7]));
        store.apply(Change::Restarted);
        assert_eq!(store.apply(Change::Synced), [Key::new("ns", "back")], "the slot was granted again");
        store.select(SlotSelection { list: Slots::ALL, ..share(&[3, 7], &[]) });
        store.apply(Change::Restarted);
        assert_eq!(store.apply(Change::Synced).len(), 2, "a LIST of all objects");
    }

    #[test]
    fn a_label_that_comes_or_goes_moves_an_object_and_loses_none() {
        let mut store = divided();
        // Of the share to none, and back: its slot leaves the share meanwhile.
        store.apply(Change::Applied(thing("seven", 6)));
        assert!(store.select(share(&[3], &[])).is_empty());
        store.apply(Change::Applied(labelled("seven", 7, 3)));
        // To a slot outside of the share: the watch shows its deletion at the version of the change.
        store.apply(Change::Deleted(thing("none", 8)));
        assert_eq!(names(&store), ["seven", "three"]);
        store.apply(Change::Applied(thing("none", 9)));
        assert_eq!(versions(&store), [9, 7, 5]);
    }

    /// Both were changed after the last version that the watch had shown, and before the LIST.
    #[test]
    fn a_label_that_changes_while_its_slot_is_listed_is_shown_in_either_order() {
        let mut store = divided();
        store.select(share(&[3, 7, 9], &[7, 9]));
        store.apply(Change::Restarted);
        // One got the label of a granted slot, and another one lost it.
        store.apply(Change::Listed(labelled("none", 6, 9)));
        assert_eq!(store.apply(Change::Synced), [Key::new("ns", "seven")]);
        assert!(store.apply(Change::Applied(labelled("none", 6, 9))).is_empty(), "it is known");
        store.apply(Change::Applied(thing("seven", 7)));
        assert_eq!(versions(&store), [6, 7, 5]);
        // It was deleted before the LIST of the next slot, which does not show it.
        store.select(share(&[3, 7, 9, 11], &[11]));
        store.apply(Change::Restarted);
        assert!(store.apply(Change::Synced).is_empty());
        store.apply(Change::Deleted(labelled("seven", 9, 11)));
        assert_eq!(names(&store), ["none", "three"]);
    }
}
