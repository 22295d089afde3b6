//! Objects that leave the cache though no event shows their end: a LIST does not show them, or the slot that
//! their label names is lost.
//!
//! A watch selects an object by its own label. That may name another slot than that of the Framework: an
//! earlier Framework of the name left the object, or a user edited the label.

use framework_core::cached::{CachedPod, Version};
use framework_core::observed::ConfigMapFacts;
use framework_message::{Slot, Slots};

use super::{ObjectCache, cached, is_ending};
use crate::object::{ConfigMapObject, PodObject};

/// A LIST that is complete, as the objects of one Framework's name see it.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Its number.
    pub number: u64,
    /// The slots that it shows.
    pub slots: Slots,
    /// Whether it shows those that have no label, and those that only a reply has shown.
    pub others: bool,
}

impl Listed {
    /// Whether neither the LIST nor the watch since has shown an object with this cached version.
    fn misses(self, version: Version) -> bool {
        let is_shown = version.label.map_or(self.others, |label| self.slots.contains(Slot(label)));
        is_shown && version.list_number < self.number
    }
}

impl ObjectCache {
    /// Notes the slot that the label of an object names. Returns its number.
    pub(super) fn note(&mut self, label: Option<Slot>) -> Option<u8> {
        self.labels.extend(label);
        label.map(|slot| slot.0)
    }

    /// A LIST of Pods is complete. A cached Pod that neither the LIST nor the watch since has shown has
    /// disappeared. A Pod that only a reply showed has disappeared, too: a GET confirms whether it exists,
    /// because the watch may have passed its end.
    pub fn sweep_pods(&mut self, listed: Listed) -> bool {
        if !listed.others && self.labels.and(listed.slots).is_empty() {
            return false;
        }
        let stale = self.objects.pods.take_unless(|_, pod| !listed.misses(pod.version));
        let has_stale = !stale.is_empty();
        for (name, pod) in stale {
            self.deletions.unlisted(&name, &pod, pod.version.resource_version);
            let (uid, is_ending) = (pod.uid.clone(), is_ending(&pod));
            self.objects.pod_left(pod);
            self.disappeared(&uid, is_ending);
        }
        if listed.others {
            // The watch goes on from this LIST: it shows nothing older.
            self.tombstones.retain(|_, version| *version != u128::MAX);
        }
        has_stale
    }

    /// As [`ObjectCache::sweep_pods`], for ConfigMaps.
    pub fn sweep_config_map(&mut self, listed: Listed) -> bool {
        let is_stale = self.config_map.is_some_and(|version| listed.misses(version));
        let Some(map) = self.objects.config_map.as_ref().filter(|_| is_stale) else { return false };
        let ConfigMapFacts { uid, deleting, .. } = map.clone();
        self.drop_config_map();
        self.disappeared(&uid, deleting);
        true
    }

    /// These slots are lost: another replica sees the objects whose labels name them, and their ends. A GET
    /// finds those that a status records. Returns whether there were any.
    pub fn lose(&mut self, slots: Slots) -> bool {
        if self.labels.and(slots).is_empty() {
            return false;
        }
        self.labels = self.labels.without(slots);
        let is_lost = |version: Version| version.label.is_some_and(|label| slots.contains(Slot(label)));
        let pods = self.objects.pods.take_unless(|_, pod| !is_lost(pod.version));
        let map = self.config_map.filter(|version| is_lost(*version));
        let has_lost = map.is_some() || !pods.is_empty();
        for (_, pod) in pods {
            let version = pod.version.resource_version;
            self.pod_moved(pod, version);
        }
        if let Some(version) = map {
            self.config_map_moved(version.resource_version);
        }
        has_lost
    }

    /// The watch shows a Pod whose label names a slot of another replica, and will not show its end: as
    /// [`ObjectCache::lose`]. A Pod that only a reply has shown is about to get its label back.
    pub fn pod_relabelled(&mut self, pod: &PodObject) -> bool {
        let known = cached(&self.objects, &pod.name, &pod.facts.uid);
        if known.is_none_or(|known| known.version.unwatched) {
            return false;
        }
        if let Some(known) = self.objects.pods.remove(&pod.name) {
            self.pod_moved(known, pod.resource_version);
        }
        true
    }

    /// As [`ObjectCache::pod_relabelled`], for a ConfigMap.
    pub fn config_map_relabelled(&mut self, map: &ConfigMapObject) -> bool {
        let is_watched = self.config_map.is_some_and(|known| !known.unwatched);
        let is_known = is_watched && self.holds(None, &map.facts.uid);
        if is_known {
            self.config_map_moved(map.resource_version);
        }
        is_known
    }

    /// A Pod leaves the cache, and lives. A reply with an earlier version does not bring it back.
    fn pod_moved(&mut self, pod: Box<CachedPod>, resource_version: u128) {
        let uid = pod.uid.clone();
        self.add_tombstone(&uid, resource_version);
        self.objects.pod_left(pod);
        self.disappeared(&uid, false);
    }

    /// As [`ObjectCache::pod_moved`], for the ConfigMap.
    fn config_map_moved(&mut self, resource_version: u128) {
        let Some(uid) = self.objects.config_map.as_ref().map(|map| map.uid.clone()) else { return };
        self.add_tombstone(&uid, resource_version);
        self.drop_config_map();
        self.disappeared(&uid, false);
    }
}
