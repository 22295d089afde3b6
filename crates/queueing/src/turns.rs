//! Jobs that may send: namespaces in turn, and the jobs of a namespace in the order in which they came.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::consumer::ConsumerKey;

/// Jobs that may send.
#[derive(Debug, Default)]
pub struct Turns {
    waiting: BTreeMap<Arc<str>, VecDeque<ConsumerKey>>,
    known: BTreeSet<ConsumerKey>,
    /// The namespace that had the last turn.
    last: Arc<str>,
}

impl Turns {
    /// A job may send. One that waits already keeps its place.
    pub fn offer(&mut self, job: ConsumerKey) {
        if self.known.insert(job.clone()) {
            self.waiting.entry(Arc::clone(&job.key.namespace)).or_default().push_back(job);
        }
    }

    /// Whether none may.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The job whose turn it is.
    pub fn take(&mut self) -> Option<ConsumerKey> {
        let after = (Bound::Excluded(Arc::clone(&self.last)), Bound::Unbounded);
        let next = self.waiting.range(after).next().or_else(|| self.waiting.iter().next());
        let namespace = Arc::clone(next?.0);
        let jobs = self.waiting.get_mut(&namespace)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.waiting.remove(&namespace);
        }
        self.last = namespace;
        let job = job?;
        self.known.remove(&job);
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use framework_message::Key;

    use super::*;
    use crate::consumer::JobKind;

    #[test]
    fn a_namespace_of_many_jobs_delays_another_by_one() {
        let mut turns = Turns::default();
        let job = |namespace: &str, name: &str| ConsumerKey {
            kind: JobKind::Itself,
            key: Key::new(namespace, name),
        };
        for (namespace, name) in [("a", "1"), ("a", "2"), ("a", "1"), ("a", "3"), ("b", "1")] {
            turns.offer(job(namespace, name));
        }
        let order: Vec<_> = std::iter::from_fn(|| turns.take()).collect();
        assert_eq!(order, [job("a", "1"), job("b", "1"), job("a", "2"), job("a", "3")]);
        assert!(turns.is_empty());
    }
}
