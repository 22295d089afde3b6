//! Frameworks that were due while their slot was paused.
//!
//! Their state keeps timers, dirty marks and staged writes. All of them are scheduled again once the slot is
//! not paused any more.

use std::collections::{BTreeMap, BTreeSet};

use framework_message::{Key, Slot};

/// Frameworks to be scheduled again, by slot.
#[derive(Debug, Default)]
pub struct Paused(BTreeMap<Slot, BTreeSet<Key>>);

impl Paused {
    /// Sets a Framework aside.
    pub fn add(&mut self, slot: Slot, key: &Key) {
        self.0.entry(slot).or_default().insert(key.clone());
    }

    /// Takes the Frameworks of the slots that are not paused any more.
    pub fn take(&mut self, is_paused: impl Fn(Slot) -> bool) -> Vec<Key> {
        self.0.extract_if(.., |slot, _| !is_paused(*slot)).flat_map(|(_, keys)| keys).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frameworks_of_a_slot_return_once_it_is_not_paused() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Key::new("ns", name));
        let mut paused = Paused::default();
        for (slot, key) in [(1, &b), (2, &c), (1, &a), (1, &b)] {
            paused.add(Slot(slot), key);
        }
        assert_eq!(paused.take(|_| true), []);
        assert_eq!(paused.take(|slot| slot == Slot(2)), [a, b]);
        assert_eq!(paused.take(|_| false), [c]);
        assert_eq!(paused.take(|_| false), []);
    }
}
