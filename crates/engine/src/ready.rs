//! The Frameworks that are due, and when: a ready set and its timers in one.
//!
//! Each key has at most one time, the earliest deadline of its state; one that has come is "ready". Every
//! operation costs O(log n), and the order is the same in every run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use framework_message::Key;

/// The times at which keys are due, on the steady clock.
#[derive(Debug, Default)]
pub struct Ready {
    times: BTreeMap<Key, Duration>,
    order: BTreeSet<(Duration, Key)>,
}

impl Ready {
    /// Replaces the time of a key; `None`: it waits for an event.
    pub fn set(&mut self, key: &Key, at: Option<Duration>) {
        if self.times.get(key).copied() == at {
            return;
        }
        if let Some(old) = self.times.remove(key) {
            self.order.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.times.insert(key.clone(), at);
            self.order.insert((at, key.clone()));
        }
    }

    /// Takes all keys whose time has come, the longest waiting first.
    pub fn take(&mut self, now: Duration) -> Vec<Key> {
        let mut taken = Vec::new();
        while self.order.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.order.pop_first() else { break };
            self.times.remove(&key);
            taken.push(key);
        }
        taken
    }

    /// The earliest time of all.
    pub fn next(&self) -> Option<Duration> {
        self.order.first().map(|(at, _)| *at)
    }

    /// How many keys have a time.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether no key has a time.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_key_is_ready_once_however_often_it_is_set() {
        let mut ready = Ready::default();
        for _ in 0..3 {
            ready.set(&key("a"), Some(ms(5)));
        }
        assert_eq!(ready.take(ms(4)), vec![]);
        assert_eq!(ready.take(ms(5)), vec![key("a")]);
        assert_eq!(ready.take(ms(9)), vec![]);
    }

    #[test]
    fn the_longest_waiting_comes_first() {
        let mut ready = Ready::default();
        ready.set(&key("a"), Some(ms(5)));
        ready.set(&key("b"), Some(ms(3)));
        ready.set(&key("c"), Some(ms(8)));
        assert_eq!(ready.next(), Some(ms(3)));
        assert_eq!(ready.take(ms(6)), vec![key("b"), key("a")]);
        assert_eq!(ready.next(), Some(ms(8)));
    }

    #[test]
    fn a_time_is_replaced_or_taken_back() {
        let mut ready = Ready::default();
        ready.set(&key("a"), Some(ms(5)));
        ready.set(&key("a"), Some(ms(7)));
        assert_eq!((ready.next(), ready.len()), (Some(ms(7)), 1));
        ready.set(&key("a"), None);
        assert!(ready.is_empty());
        assert_eq!(ready.next(), None);
    }
}
