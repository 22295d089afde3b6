//! Work that waits to be sent: namespaces in turn, and the work of a namespace in the order in which it came.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Work that waits.
#[derive(Debug)]
pub struct Turns<T> {
    waiting: BTreeMap<Arc<str>, VecDeque<T>>,
    known: BTreeSet<T>,
    /// The namespace that had the last turn.
    last: Arc<str>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Turns { waiting: BTreeMap::new(), known: BTreeSet::new(), last: "".into() }
    }
}

impl<T: Clone + Ord> Turns<T> {
    /// A piece of work of a namespace waits. If it waits already, it keeps its place.
    pub fn offer(&mut self, namespace: &Arc<str>, work: T) {
        if self.known.insert(work.clone()) {
            self.waiting.entry(Arc::clone(namespace)).or_default().push_back(work);
        }
    }

    /// Whether that piece of work waits.
    pub fn contains(&self, work: &T) -> bool {
        self.known.contains(work)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The piece of work whose turn it is.
    pub fn take(&mut self) -> Option<T> {
        let after = (Bound::Excluded(Arc::clone(&self.last)), Bound::Unbounded);
        let next = self.waiting.range(after).next().or_else(|| self.waiting.iter().next());
        let namespace = Arc::clone(next?.0);
        let of_it = self.waiting.get_mut(&namespace)?;
        let work = of_it.pop_front();
        if of_it.is_empty() {
            self.waiting.remove(&namespace);
        }
        self.last = namespace;
        let work = work?;
        self.known.remove(&work);
        Some(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_much_work_delays_another_by_one() {
        let mut turns = Turns::default();
        for (namespace, name) in [("a", "1"), ("a", "2"), ("a", "1"), ("a", "3"), ("b", "1")] {
            turns.offer(&namespace.into(), (namespace, name));
        }
        assert!(turns.contains(&("a", "3")) && !turns.contains(&("b", "3")));
        let order: Vec<_> = std::iter::from_fn(|| turns.take()).collect();
        assert_eq!(order, [("a", "1"), ("b", "1"), ("a", "2"), ("a", "3")]);
        assert!(turns.is_empty());
    }
}
