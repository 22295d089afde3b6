//! Frameworks whose slot label names another slot than theirs, such as copies by `kubectl get -o yaml`.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use framework_message::{Change, Key, Slot, Slots};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::wire::FrameworkText;

/// A Framework with a wrong label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The slot that its label names. The replica that owns it sees the Framework; the owner of its own slot
    /// does not.
    pub label: Slot,
    /// Its UID.
    pub uid: Arc<str>,
    /// The version with this label.
    pub resource_version: u128,
    /// When a wrong label of this Framework was first seen.
    pub since: Instant,
}

/// The Frameworks with a wrong label that the watch shows. There are never more than Frameworks.
#[derive(Debug, Default)]
pub struct Mislabelled {
    found: Mutex<BTreeMap<Key, Wrong>>,
    changed: Notify,
}

impl Mislabelled {
    /// Takes in a change that the watch shows.
    pub fn note(&self, change: &Change<FrameworkText>) {
        match change {
            Change::Listed(text) | Change::Applied(text) => {
                let wrong = text.label.filter(|label| *label != Slot::of(&text.uid));
                let before = match wrong {
                    Some(label) => {
                        let (uid, resource_version) = (Arc::clone(&text.uid), text.resource_version);
                        let mut found = self.found();
                        let earlier = found.get(&text.key).filter(|wrong| wrong.uid == uid);
                        let since = earlier.map_or_else(Instant::now, |wrong| wrong.since);
                        found.insert(text.key.clone(), Wrong { label, uid, resource_version, since })
                    }
                    None => self.found().remove(&text.key),
                };
                if wrong.is_some() || before.is_some() {
                    self.changed.notify_one();
                }
            }
            Change::Deleted(text) => drop(self.found().remove(&text.key)),
            Change::Restarted | Change::Synced => {}
        }
    }

    /// A LIST begins, which shows all others than those whose labels name these slots.
    pub fn keep(&self, slots: Slots) {
        self.found().retain(|_, wrong| slots.contains(wrong.label));
    }

    /// Waits for a change.
    pub async fn changed(&self) {
        self.changed.notified().await
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.found().is_empty()
    }

    /// The first one with a greater name that is wanted.
    pub fn first(&self, after: Bound<&Key>, wanted: impl Fn(&Key, &Wrong) -> bool) -> Option<(Key, Wrong)> {
        let found = self.found();
        let mut rest = found.range((after, Unbounded));
        rest.find(|(key, wrong)| wanted(key, wrong)).map(|(key, wrong)| (key.clone(), wrong.clone()))
    }

    /// This version is not to be looked at again.
    pub fn forget(&self, key: &Key, version: &str) {
        let mut found = self.found();
        if found.get(key).is_some_and(|wrong| wrong.resource_version.to_string() == version) {
            found.remove(key);
        }
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<Key, Wrong>> {
        // The map is whole at every time, also after a panic elsewhere.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::wire::Wire;

    fn text(uid: &str, label: Option<&str>, version: u32) -> FrameworkText {
        let labels = label.map(|label| json!({framework_api::name::SLOT_LABEL: label}));
        let metadata = json!({
            "namespace": "ns", "name": "job", "uid": uid, "resourceVersion": version.to_string(),
            "labels": labels,
        });
        let raw = to_raw_value(&json!({ "metadata": metadata })).unwrap();
        FrameworkText::read(&raw).unwrap().object.unwrap()
    }

    #[test]
    fn a_framework_is_mislabelled_while_its_label_names_another_slot() {
        let (right, wrong) = (Slot::of("u").0, Slot::of("u").0.wrapping_add(1));
        let all = Mislabelled::default();
        for label in [None, Some(right.to_string()), Some("none".into()), Some(format!("0{wrong}"))] {
            all.note(&Change::Applied(text("u", label.as_deref(), 1)));
            assert!(all.is_empty(), "{label:?}: the watch of invalid labels shows it, if anything is wrong");
        }
        all.note(&Change::Listed(text("u", Some(&wrong.to_string()), 7)));
        let (key, first) = all.first(Unbounded, |_, _| true).expect("its label is wrong");
        assert_eq!((key, first.label, first.resource_version), (Key::new("ns", "job"), Slot(wrong), 7));
        // Another version with a wrong label is not awaited for longer.
        all.note(&Change::Applied(text("u", Some(&wrong.to_string()), 7)));
        assert_eq!(all.first(Unbounded, |_, _| true).map(|(_, again)| again), Some(first));
        assert_eq!(all.first(Unbounded, |_, one| one.label == Slot(right)), None);
        assert_eq!(all.first(Bound::Excluded(&Key::new("ns", "job")), |_, _| true), None);
        all.forget(&Key::new("ns", "job"), "6");
        assert!(!all.is_empty(), "another version");
        all.note(&Change::Applied(text("u", Some(&right.to_string()), 8)));
        assert!(all.is_empty());
    }
}
