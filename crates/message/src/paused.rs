//! Work that came up while its slot was paused, to be done once it is not.

use std::collections::{BTreeMap, BTreeSet};

use crate::slot::Slot;

/// Work by slot.
#[derive(Debug)]
pub struct Paused<T>(BTreeMap<Slot, BTreeSet<T>>);

impl<T> Default for Paused<T> {
    fn default() -> Self {
        Paused(BTreeMap::new())
    }
}

impl<T: Ord> Paused<T> {
    /// Sets work aside.
    pub fn add(&mut self, slot: Slot, work: T) {
        self.0.entry(slot).or_default().insert(work);
    }

    /// Takes the work of the slots that are not paused any more.
    pub fn take(&mut self, is_paused: impl Fn(Slot) -> bool) -> Vec<T> {
        self.0.extract_if(.., |slot, _| !is_paused(*slot)).flat_map(|(_, work)| work).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_returns_once_its_slot_is_not_paused() {
        let mut paused = Paused::default();
        for (slot, work) in [(1, "a"), (2, "c"), (1, "b"), (1, "a")] {
            paused.add(Slot(slot), work);
        }
        assert_eq!(paused.take(|_| true), [""; 0]);
        assert_eq!(paused.take(|slot| slot == Slot(2)), ["a", "b"]);
        assert_eq!(paused.take(|_| false), ["c"]);
    }
}
