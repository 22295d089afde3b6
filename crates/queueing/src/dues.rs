//! The namespaces that need a turn at a certain time although nothing changes in them.
//!
//! Finding those whose time has come costs as much as there are of them, however many namespaces there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The time of each namespace that has one.
#[derive(Debug)]
pub struct Dues<T> {
    times: BTreeMap<Arc<str>, T>,
    order: BTreeSet<(T, Arc<str>)>,
}

impl<T> Default for Dues<T> {
    fn default() -> Self {
        Dues { times: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<T: Copy + Ord> Dues<T> {
    /// Replaces the time of a namespace; `None`: it waits for a change.
    pub fn set(&mut self, namespace: &Arc<str>, at: Option<T>) {
        let before = match at {
            Some(at) => self.times.insert(Arc::clone(namespace), at),
            None => self.times.remove(namespace),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, Arc::clone(namespace)));
        }
        self.order.extend(at.map(|at| (at, Arc::clone(namespace))));
    }

    /// The namespaces whose time has come. They keep it until it is replaced.
    pub fn due(&self, now: T) -> impl Iterator<Item = &Arc<str>> {
        self.order.iter().take_while(move |(at, _)| *at <= now).map(|(_, namespace)| namespace)
    }

    /// The earliest time of all.
    pub fn next(&self) -> Option<T> {
        self.order.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_whose_time_has_come_are_due() {
        let [a, b, c]: [Arc<str>; 3] = ["a", "b", "c"].map(Arc::from);
        let mut dues = Dues::default();
        dues.set(&a, Some(9));
        dues.set(&b, Some(4));
        dues.set(&c, Some(5));
        dues.set(&b, Some(6));
        dues.set(&c, None);
        assert_eq!(dues.next(), Some(6));
        assert_eq!(dues.due(5).count(), 0);
        assert_eq!(dues.due(6).collect::<Vec<_>>(), [&b]);
        assert_eq!(dues.due(9).collect::<Vec<_>>(), [&b, &a]);
        dues.set(&b, None);
        assert_eq!(dues.next(), Some(9));
    }
}
