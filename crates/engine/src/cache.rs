//! The cache of the cluster, by Framework: the newest version of each object that a watch or a reply showed,
//! and the state of each Framework.
//!
//! Guarantees: among versions of one object only a higher resourceVersion applies, from a watch or a reply.
//! So our own writes are never undone in the cache, and their echo costs nothing. A LIST replaces the cached
//! objects of its kind. Replies never bring a deleted Framework back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_api::State;
use framework_api::status::TaskStatus;
use framework_core::Observed;
use framework_core::observed::{Create, Outcome};
use framework_core::permit::task_of_pod;

use crate::consumers;
use crate::event::Kind;
use crate::framework_state::FrameworkState;
use crate::object::FrameworkObject;
use crate::object_cache::sweep::Listed;
use crate::object_cache::{ObjectCache, Source};
use framework_message::{Key, SlotSelection, Slots};

/// The LISTs of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing {
    /// Counts LISTs that began.
    pub list_number: u64,
    /// The slots of which at least one LIST has been complete since they were granted.
    pub synced: Slots,
    /// The share that the LIST that began last, and the watch after it, show.
    pub selection: SlotSelection,
}

/// The cache entry of one name.
#[derive(Debug, Default)]
pub struct Entry {
    /// Its ConfigMap and Pods.
    pub known: ObjectCache,
    /// The state of the Framework that has the name now.
    pub state: Option<FrameworkState>,
}

/// The order of a version of a Framework relative to the version in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionOrder {
    /// The version is known already, or older, or a reply shows a Framework that the watch did not.
    NotNewer,
    /// A newer version.
    Newer,
    /// A version of a Framework that the cache does not have under that name.
    AnotherUid,
}

/// The cache, by Framework.
#[derive(Debug, Default)]
pub struct Cache {
    /// Of Frameworks.
    pub frameworks: Listing,
    /// Of ConfigMaps.
    pub config_maps: Listing,
    /// Of Pods.
    pub pods: Listing,
    /// Boxed: half of the places in a map's nodes are empty.
    entries: BTreeMap<Key, Box<Entry>>,
    /// The UIDs of Pods that were ours and lost their owner: their end is in the history, though their
    /// Framework may be gone by then.
    released: BTreeSet<String>,
}

/// The most Pods without an owner that are remembered.
const MOST_RELEASED: usize = 16_384;

impl Cache {
    /// Whether a Pod without an owner was ours; `is_gone`: it does not exist any more.
    pub fn was_ours(&mut self, key: &Key, name: &str, uid: &str, is_gone: bool) -> bool {
        let is_known = self.get(key).is_some_and(|entry| entry.knew_pod(name, uid));
        if is_gone {
            return self.released.remove(uid) || is_known;
        }
        if is_known && self.released.insert(uid.to_owned()) && self.released.len() > MOST_RELEASED {
            self.released.pop_first();
        }
        is_known
    }

    /// The slots of which every kind was listed. Nothing can be decided for a slot before that.
    pub fn synced(&self) -> Slots {
        self.frameworks.synced.and(self.config_maps.synced).and(self.pods.synced)
    }

    /// The entry of a name.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key).map(|entry| &**entry)
    }

    /// The entry of a name.
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Entry> {
        self.entries.get_mut(key).map(|entry| &mut **entry)
    }

    /// The entry of a name, created if it does not exist.
    pub fn entry(&mut self, key: &Key) -> &mut Entry {
        self.entries.entry(key.clone()).or_default()
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter().map(|(key, entry)| (key, &**entry))
    }

    /// All entries.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &mut Entry)> {
        self.entries.iter_mut().map(|(key, entry)| (key, &mut **entry))
    }

    /// Drops the entry of a name if the entry is empty.
    pub fn tidy(&mut self, key: &Key) {
        if self.entries.get(key).is_some_and(|entry| entry.state.is_none() && entry.known.is_empty()) {
            self.entries.remove(key);
        }
    }

    /// Drops the entry of a name.
    pub fn forget(&mut self, key: &Key) {
        self.entries.remove(key);
    }

    /// The LISTs of a kind.
    pub fn listing(&mut self, kind: Kind) -> &mut Listing {
        match kind {
            Kind::Frameworks => &mut self.frameworks,
            Kind::ConfigMaps => &mut self.config_maps,
            Kind::Pods => &mut self.pods,
        }
    }

    /// These slots are to be listed again.
    pub fn unsync(&mut self, slots: Slots) {
        for kind in [Kind::Frameworks, Kind::ConfigMaps, Kind::Pods] {
            let listing = self.listing(kind);
            listing.synced = listing.synced.without(slots);
        }
    }

    /// All names that have an entry.
    pub fn keys(&self) -> Vec<Key> {
        self.entries.keys().cloned().collect()
    }
}

impl Entry {
    /// The Framework as the core observes it; `None` if the Framework cannot be read, or is gone.
    pub fn observed(&self) -> Option<Observed<'_>> {
        self.state.as_ref()?.observed(&self.known.objects)
    }

    /// Whether a crash would lose a create that was acknowledged, and a write can prevent that. Nothing is
    /// written of a Framework that cannot be read, or that is deleted before its first status. The first
    /// ConfigMap is not lost then: it is taken over as long as there is no status (rule A11).
    pub fn has_unrecorded(&self) -> bool {
        let persisted = self.state.as_ref().and_then(|state| state.persisted.as_ref());
        let is_written = persisted.is_some_and(|persisted| {
            persisted.status.is_some() || persisted.framework.metadata.deletion_timestamp.is_none()
        });
        let objects = &self.known.objects;
        let mut creates = objects.pod_creates.values().chain(&objects.config_map_create);
        is_written && creates.any(|create| matches!(create.outcome, Outcome::Acknowledged { .. }))
    }

    /// A LIST with this number shows these slots. Objects without a label are in the slot of the Framework,
    /// as far as that is known.
    pub fn listed(&self, number: u64, slots: Slots) -> Listed {
        let slot = self.state.as_ref().map(|state| state.slot).or(self.known.left_in);
        Listed { number, slots, others: slot.is_none_or(|slot| slots.contains(slot)) }
    }

    /// Whether the cache holds the Pod of that name with this UID, its create was acknowledged, or the
    /// persisted status names it. Nothing else shows that a Pod is ours: users can copy names, labels and
    /// annotations.
    pub fn knew_pod(&self, name: &str, uid: &str) -> bool {
        let status = self.state.as_ref().and_then(|state| state.status());
        let task = status.and_then(|status| task_of_pod(status, name));
        let recorded = task.and_then(|task| task.attempt_status.pod_uid.as_deref());
        let is_made = self.known.objects.pod_creates.get(name).is_some_and(
            |create| matches!(&create.outcome, Outcome::Acknowledged { uid: made, .. } if made == uid),
        );
        recorded == Some(uid) || is_made || self.known.holds(Some(name), uid)
    }

    /// Whether Pods run that are not of the Framework that has the name now.
    pub fn has_strays(&self) -> bool {
        let status = self.state.as_ref().and_then(|state| state.status());
        consumers::has_strays(&self.known.objects, status.map(Arc::as_ref))
    }

    /// Whether the watch is yet to show Pods that were created, or may have been.
    fn has_unseen_pods(&self) -> bool {
        let objects = &self.known.objects;
        let seen: BTreeSet<&str> = objects.pods.values().map(|pod| pod.uid.as_str()).collect();
        let is_unseen = |create: &Create| match &create.outcome {
            Outcome::InFlight => true,
            Outcome::Acknowledged { uid } => !seen.contains(uid.as_str()),
            Outcome::Refused { .. } => false,
        };
        let status = self.state.as_ref().and_then(|state| state.status());
        let mut tasks = status.into_iter().flat_map(|status| status.all_tasks());
        let is_over = |state| matches!(state, State::AttemptCompleted | State::Completed);
        let is_missing = |task: &TaskStatus| {
            let uid = task.attempt_status.pod_uid.as_deref().filter(|_| !is_over(task.state));
            uid.is_some_and(|uid| !objects.gone.contains(uid) && !seen.contains(uid))
        };
        objects.pod_creates.values().any(is_unseen) || tasks.any(is_missing)
    }

    /// The order of a version of a Framework relative to the version of this entry.
    pub fn order_of(&self, object: &FrameworkObject, source: Source) -> VersionOrder {
        match &self.state {
            // The watch brings Frameworks into the cache, and takes them out.
            None if source == Source::Watch => VersionOrder::AnotherUid,
            None => VersionOrder::NotNewer,
            Some(state) if object.resource_version <= state.resource_version => VersionOrder::NotNewer,
            Some(state) if state.uid == object.uid => VersionOrder::Newer,
            Some(_) => VersionOrder::AnotherUid,
        }
    }

    /// A LIST of Pods is complete. Pods that it did not show and that a Task records are confirmed by a GET.
    pub fn pods_listed(&mut self) {
        let status = self.state.as_ref().and_then(|state| state.status());
        let roles = status.map_or(&[][..], |status| status.task_roles());
        let is_over = |state| matches!(state, State::AttemptCompleted | State::Completed);
        let ObjectCache { deletions, objects, .. } = &mut self.known;
        if deletions.is_empty() {
            return;
        }
        let tasks = roles.iter().flat_map(|role| &role.task_statuses);
        let live = tasks.filter(|task| !is_over(task.state));
        let recorded: BTreeSet<&str> =
            live.filter_map(|task| task.attempt_status.pod_uid.as_deref()).collect();
        deletions.listed(|uid| recorded.contains(uid) && !objects.gone.contains(uid));
    }

    /// The Framework is gone: its state is dropped. Its objects stay known until they are gone too. Its
    /// requests in flight have no effect on a Framework that takes the name next.
    pub fn close(&mut self) {
        self.known.left_creates |= self.has_unseen_pods();
        self.known.left_in = self.state.take().map(|state| state.slot);
        self.known.deletions.unasked();
        self.known.objects.pod_creates.clear();
        self.known.objects.config_map_create = None;
        self.known.objects.forget_gone();
        self.known.objects.confirms.clear();
        // The delays after failed deletes go with the state: no delete would be repeated.
        self.known.objects.deletes.clear();
        self.known.objects.forced_deletes.clear();
    }
}
