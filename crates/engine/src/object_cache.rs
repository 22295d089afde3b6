//! The ConfigMap and the Pods of one Framework's name, as the watches and the replies showed them.
//!
//! Guarantees: for each object only a higher resourceVersion applies. A late reply about an object whose
//! deletion was seen is ignored. Facts are kept incrementally, never rebuilt. They are kept by name and
//! outlive a Framework, because its objects do, until they are deleted.

use std::collections::BTreeMap;

use framework_core::Action;
use framework_core::cached::{CachedPod, Version};
use framework_core::observed::{Instance, Objects, PodFacts, PodPhase};
use framework_message::{Slot, Slots};

use crate::deletions::{Deletions, has_no_time_left};
use crate::object::{ConfigMapObject, PodObject};

pub mod sweep;

/// The source of a version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The watch, or its LIST.
    Watch,
    /// The reply to a GET or a PATCH: perhaps of an object that the watch does not select.
    Reply,
}

/// The most deletions that are remembered: one for each of 10,000 Tasks, and more. A watch that hangs while
/// Tasks fail and are retried adds to them.
const MOST_TOMBSTONES: usize = 16_384;

/// The most objects that are remembered as gone: those that a status of 10,000 Tasks names, and more. Pods
/// that no status names add to them, until a newer version of the Framework drops these.
const MOST_GONE: usize = 16_384;

/// The objects of one Framework's name.
#[derive(Debug, Default)]
pub struct ObjectCache {
    /// The objects as the core sees them.
    pub objects: Objects,
    /// Pods that have left the cache and are to go into the history.
    pub deletions: Deletions,
    config_map: Option<Version>,
    /// All slots that labels of the objects name, and perhaps more: most entries are in one slot, and their
    /// objects are not looked at when others come or go.
    labels: Slots,
    /// Deletions that a late reply, or a watch that lags, must not undo: by UID, for versions below this one.
    tombstones: BTreeMap<String, u128>,
    /// The last Framework of the name went while the watch was yet to show Pods that were created for it.
    pub left_creates: bool,
    /// The slot of the last Framework of the name, whose objects may still be there. `None`: it is unknown,
    /// or was lost, so that the next LIST of any slot ends the objects it lacks.
    pub left_in: Option<Slot>,
    /// GETs and PATCHes in flight.
    reads: usize,
    /// The ConfigMap that our delete has removed, according to the API server; the watch is yet to show it.
    removed: Option<String>,
}

/// The version of an object that is shown. `before`: its cached version, if there was one.
fn version(
    resource_version: u128,
    label: Option<u8>,
    source: Source,
    list_number: u64,
    before: Option<Version>,
) -> Version {
    match source {
        Source::Watch => Version::watched(resource_version, label, list_number),
        Source::Reply => Version::replied(resource_version, before),
    }
}

/// The cached Pod of that name, if it has that UID.
fn cached<'a>(objects: &'a Objects, name: &str, uid: &str) -> Option<&'a CachedPod> {
    objects.pods.get(name).map(|pod| &**pod).filter(|pod| pod.uid == uid)
}

fn is_terminal(phase: PodPhase) -> bool {
    matches!(phase, PodPhase::Succeeded | PodPhase::Failed)
}

/// Whether the disappearance of a Pod with these last known facts needs no confirmation. A Pod that still has
/// time to end may have lost its label instead: a deletion of the object first takes that time away.
fn is_ending(pod: &PodFacts) -> bool {
    has_no_time_left(pod) || is_terminal(pod.phase)
}

impl ObjectCache {
    /// Whether nothing is left to remember.
    pub fn is_empty(&self) -> bool {
        let objects = &self.objects;
        let nothing = objects.config_map.is_none() && objects.pods.is_empty();
        nothing && self.deletions.is_empty() && self.reads == 0
    }

    /// Takes in the current version of a Pod. Returns whether the Pod has changed.
    pub fn apply_pod(&mut self, pod: PodObject, source: Source, list_number: u64) -> bool {
        let PodObject { name, resource_version, mut facts, label, .. } = pod;
        let label = self.note(label);
        if self.has_tombstone(&facts.uid, resource_version) {
            let is_free = !self.objects.pods.contains_key(&name);
            let lives = facts.deletion.is_none() && source == Source::Watch;
            return is_free && lives && self.doubt(&facts.uid);
        }
        self.objects.gone.remove(&facts.uid);
        let mut before = None;
        if let Some(cached) = self.objects.pods.get_mut(&name) {
            let same = cached.uid == facts.uid;
            if resource_version <= cached.version.resource_version {
                let news = same && source == Source::Watch && cached.version.see(label, list_number);
                cached.facts.unwatched &= !news;
                return news;
            }
            if same {
                before = Some(cached.version);
            } else {
                // Only one object holds a name at a time: the one that held it before is gone.
                let uid = cached.uid.clone();
                self.pod_gone(&name, &uid);
            }
        }
        self.deletions.present(&name, &facts.uid, source == Source::Watch);
        let version = version(resource_version, label, source, list_number, before);
        facts.unwatched = version.unwatched;
        match self.objects.pods.get_mut(&name) {
            Some(cached) => {
                facts.continue_from(&cached.facts);
                std::mem::replace(&mut **cached, CachedPod { facts, version }).facts != cached.facts
            }
            None => {
                if let Some(left) = self.objects.left_pods.remove(&facts.uid) {
                    facts.continue_from(&left);
                }
                self.objects.pods.insert(&name, Box::new(CachedPod { facts, version })).is_none()
            }
        }
    }

    /// Takes in the current version of a ConfigMap. Returns whether the ConfigMap has changed.
    pub fn apply_config_map(&mut self, map: ConfigMapObject, source: Source, list_number: u64) -> bool {
        let ConfigMapObject { resource_version, facts, label, .. } = map;
        let label = self.note(label);
        if self.has_tombstone(&facts.uid, resource_version) {
            let is_free = self.objects.config_map.is_none();
            return is_free && !facts.deleting && source == Source::Watch && self.doubt(&facts.uid);
        }
        self.objects.gone.remove(&facts.uid);
        let mut before = None;
        if let (Some(version), Some(holder)) = (&mut self.config_map, &self.objects.config_map) {
            let same = holder.uid == facts.uid;
            if resource_version <= version.resource_version {
                return same && source == Source::Watch && version.see(label, list_number);
            }
            if same {
                before = Some(*version);
            } else {
                let uid = holder.uid.clone();
                self.config_map_gone(&uid);
            }
        }
        self.config_map = Some(version(resource_version, label, source, list_number, before));
        let news = self.objects.config_map.as_ref() != Some(&facts);
        self.objects.config_map = Some(facts);
        news
    }

    /// The watch shows that a Pod was deleted, or is no longer selected. Returns whether the cache has
    /// changed.
    pub fn delete_pod(&mut self, pod: &PodObject) -> bool {
        let uid = &pod.facts.uid;
        self.add_tombstone(uid, pod.resource_version);
        let cached = cached(&self.objects, &pod.name, uid);
        let ending = is_ending(&pod.facts) || cached.is_some_and(|cached| is_terminal(cached.phase));
        if let Some(cached) = cached {
            if !cached.version.ends_at(pod.resource_version) {
                return false;
            }
            self.objects.drop_pod(&pod.name);
        }
        self.deletions.unselected(pod);
        self.disappeared(uid, ending);
        true
    }

    /// The watch shows that a ConfigMap was deleted, or is no longer selected. Returns whether the cache has
    /// changed.
    pub fn delete_config_map(&mut self, map: &ConfigMapObject) -> bool {
        let uid = &map.facts.uid;
        self.add_tombstone(uid, map.resource_version);
        if self.objects.config_map.as_ref().is_some_and(|cached| cached.uid == *uid) {
            if self.config_map.is_some_and(|version| !version.ends_at(map.resource_version)) {
                return false;
            }
            self.drop_config_map();
        }
        if self.removed.as_ref() == Some(uid) {
            self.removed = None;
            self.disappeared(uid, true);
            return true;
        }
        // The event of a background deletion looks the same as the event of a removed label. If the deletion
        // is ours, its reply distinguishes them.
        if !map.facts.deleting && self.objects.deletes.contains(uid) {
            return true;
        }
        self.disappeared(uid, map.facts.deleting);
        true
    }

    /// The API server reports that our delete has removed this ConfigMap: no finalizer is left. The ConfigMap
    /// counts as gone once the watch has shown that, too.
    pub fn config_map_removed(&mut self, uid: &str) {
        if self.holds(None, uid) {
            self.objects.deletes.insert(uid.to_owned());
            self.removed = Some(uid.to_owned());
        } else {
            self.disappeared(uid, true);
        }
    }

    /// This Pod certainly no longer exists.
    pub fn pod_gone(&mut self, name: &str, uid: &str) {
        match cached(&self.objects, name, uid) {
            Some(pod) => {
                let Version { resource_version, unwatched, .. } = pod.version;
                self.deletions.gone(name, pod, resource_version, !unwatched);
            }
            None => self.deletions.confirmed(name, uid),
        }
        self.forget_pod(name, uid);
    }

    /// This Pod lives, and is no longer ours since this version. A later one may show that it is ours again.
    pub fn pod_released(&mut self, name: &str, uid: &str, resource_version: u128) {
        self.deletions.released(name, uid);
        self.add_tombstone(uid, resource_version.saturating_add(1));
        if self.holds(Some(name), uid) {
            self.objects.drop_pod(name);
        }
        self.disappeared(uid, true);
    }

    /// A reply shows an object that counts as gone for good: it is there. If the reply is older than its end,
    /// the watch will show that end. Returns whether it counted as gone.
    pub fn remove_tombstone(&mut self, uid: &str) -> bool {
        let has_tombstone = self.tombstones.get(uid) == Some(&u128::MAX);
        if has_tombstone {
            self.tombstones.remove(uid);
        }
        has_tombstone
    }

    /// The watch shows an object alive that counts as gone. It may lag: the object is not taken back, but it
    /// does not count as gone any more, so that a GET decides. Returns whether it did.
    fn doubt(&mut self, uid: &str) -> bool {
        self.objects.gone.remove(uid)
    }

    fn forget_pod(&mut self, name: &str, uid: &str) {
        if let Some(pod) = cached(&self.objects, name, uid) {
            self.add_final_tombstone(uid, Some(pod.version));
            self.objects.drop_pod(name);
        }
        self.disappeared(uid, true);
    }

    /// This ConfigMap certainly no longer exists.
    pub fn config_map_gone(&mut self, uid: &str) {
        if self.objects.config_map.as_ref().is_some_and(|map| map.uid == uid) {
            self.add_final_tombstone(uid, self.config_map);
            self.drop_config_map();
        }
        self.disappeared(uid, true);
    }

    /// Forgets a Pod that a reply showed, because it cannot be made visible to the watch.
    pub fn forget_unwatched(&mut self, pod: Option<&str>) {
        match pod {
            Some(name) if self.objects.pods.get(name).is_some_and(|pod| pod.version.unwatched) => {
                self.objects.drop_pod(name);
            }
            None if self.config_map.is_some_and(|version| version.unwatched) => {
                // No watch will show the end of its deletion.
                let uid = self.objects.config_map.as_ref().map(|map| map.uid.clone());
                uid.iter().for_each(|uid| self.disappeared(uid, false));
                self.drop_config_map();
            }
            _ => {}
        }
    }

    /// Whether the cache holds an object with this UID.
    pub fn holds(&self, pod: Option<&str>, uid: &str) -> bool {
        match pod {
            Some(name) => self.objects.pod(name, uid).is_some(),
            None => self.objects.config_map.as_ref().is_some_and(|map| map.uid == uid),
        }
    }

    /// Whether a change since an act was planned has made it pointless. Examples are a create whose name is
    /// held or whose owner is gone, a delete of an absent object, and a confirmation of a known fact.
    pub fn makes_pointless(&self, action: &Action) -> bool {
        let objects = &self.objects;
        let map = objects.config_map.as_ref();
        match action {
            Action::CreateConfigMap { .. } => map.is_some(),
            Action::CreatePod { name, instance, .. } => {
                let Instance::TaskAttempt { config_map_uid, .. } = instance else { return true };
                let owned = map.is_some_and(|map| map.uid == *config_map_uid && !map.deleting);
                objects.pods.contains_key(name) || !owned
            }
            Action::DeleteConfigMap { uid } => !self.holds(None, uid),
            Action::DeletePod { name, uid, .. } => !self.holds(Some(name), uid),
            Action::ConfirmConfigMap { uid } => objects.gone.contains(uid) || self.holds(None, uid),
            Action::ConfirmPod { name, uid } => {
                objects.gone.contains(uid) || objects.pod(name, uid).is_some_and(|pod| !pod.unwatched)
            }
            Action::DeleteFramework => false,
        }
    }

    /// A GET or a PATCH is sent.
    pub fn begin_read(&mut self) {
        self.reads += 1;
    }

    /// The reply to a read has been taken in.
    pub fn end_read(&mut self) {
        self.reads = self.reads.saturating_sub(1);
        if self.reads == 0 {
            self.tombstones.retain(|_, version| *version == u128::MAX);
        }
    }

    fn has_tombstone(&self, uid: &str, resource_version: u128) -> bool {
        self.tombstones.get(uid).is_some_and(|end| resource_version < *end)
    }

    /// A deletion was seen: replies that are still to come may be older.
    fn add_tombstone(&mut self, uid: &str, resource_version: u128) {
        self.tombstones.remove(uid);
        if self.reads > 0 {
            self.tombstones.insert(uid.to_owned(), resource_version);
        }
    }

    /// The watch will go on to show the object up to its deletion, and must not revive it.
    fn add_final_tombstone(&mut self, uid: &str, version: Option<Version>) {
        if version.is_some_and(|version| !version.unwatched) {
            // Without its tombstone, a watch that lags shows an object alive until it shows the end.
            if self.tombstones.len() >= MOST_TOMBSTONES {
                self.tombstones.pop_first();
            }
            self.tombstones.insert(uid.to_owned(), u128::MAX);
        }
    }

    fn drop_config_map(&mut self) {
        self.config_map = None;
        self.objects.config_map = None;
    }

    fn disappeared(&mut self, uid: &str, confirmed: bool) {
        let objects = &mut self.objects;
        objects.deletes.remove(uid);
        objects.forced_deletes.remove(uid);
        if confirmed {
            objects.confirms.remove(uid);
            if objects.gone.len() >= MOST_GONE {
                // The cache does not know which of them a status names. A GET confirms those again (rule
                // A6), or the time-out of an object that was created and not seen.
                objects.gone.clear();
            }
            objects.gone.insert(uid.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
