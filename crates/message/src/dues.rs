//! Keys that are due at a certain time although nothing changes.
//!
//! Each key has at most one time. Every operation costs O(log n), and the order is the same in every run.

use std::collections::{BTreeMap, BTreeSet};

/// The time of each key that has one.
#[derive(Debug)]
pub struct Dues<K, T> {
    times: BTreeMap<K, T>,
    order: BTreeSet<(T, K)>,
}

impl<K, T> Default for Dues<K, T> {
    fn default() -> Self {
        Dues { times: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Clone + Ord, T: Copy + Ord> Dues<K, T> {
    /// Replaces the time of a key; `None`: it waits for a change.
    pub fn set(&mut self, key: &K, at: Option<T>) {
        let before = self.times.get(key).copied();
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, key.clone()));
        }
        match at {
            Some(at) => self.times.insert(key.clone(), at),
            None => self.times.remove(key),
        };
        self.order.extend(at.map(|at| (at, key.clone())));
    }

    /// The keys whose time has come, the longest waiting first. They keep it until it is replaced.
    pub fn due(&self, now: T) -> impl Iterator<Item = &K> {
        self.order.iter().take_while(move |(at, _)| *at <= now).map(|(_, key)| key)
    }

    /// Takes the keys whose time has come, the longest waiting first.
    pub fn take(&mut self, now: T) -> Vec<K> {
        let mut taken = Vec::new();
        while self.order.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.order.pop_first() else { break };
            self.times.remove(&key);
            taken.push(key);
        }
        taken
    }

    /// The key with the earliest time.
    pub fn first(&self) -> Option<&(T, K)> {
        self.order.first()
    }

    /// The earliest time of all.
    pub fn next(&self) -> Option<T> {
        self.order.first().map(|(at, _)| *at)
    }

    /// How many keys have a time.
    pub fn count(&self) -> usize {
        self.times.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_whose_time_has_come_are_due() {
        let mut dues = Dues::default();
        dues.set(&"a", Some(9));
        dues.set(&"b", Some(4));
        dues.set(&"c", Some(5));
        dues.set(&"b", Some(6));
        dues.set(&"c", None);
        assert_eq!((dues.next(), dues.first(), dues.count()), (Some(6), Some(&(6, "b")), 2));
        assert_eq!(dues.due(5).count(), 0);
        assert_eq!(dues.due(6).collect::<Vec<_>>(), [&"b"]);
        assert_eq!(dues.due(9).collect::<Vec<_>>(), [&"b", &"a"]);
        dues.set(&"b", None);
        assert_eq!(dues.next(), Some(9));
    }

    #[test]
    fn a_key_is_taken_once_the_longest_waiting_first() {
        let mut dues = Dues::default();
        for _ in 0..3 {
            dues.set(&"a", Some(5));
        }
        dues.set(&"b", Some(3));
        dues.set(&"c", Some(8));
        assert_eq!(dues.take(2), [""; 0]);
        assert_eq!(dues.take(6), ["b", "a"]);
        assert_eq!((dues.take(6).len(), dues.next(), dues.count()), (0, Some(8), 1));
    }
}
