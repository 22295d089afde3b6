//! Reports that wait to be written: bounded in all and for each namespace, and taken from the namespaces in
//! rotation. So the reports of one namespace neither displace nor delay those of another.

use std::collections::{BTreeMap, VecDeque};

/// The reports that wait, by namespace.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    /// No queue in here is empty.
    waiting: BTreeMap<String, VecDeque<T>>,
    /// The namespaces in the order of their turns.
    order: VecDeque<String>,
    len: usize,
    most: usize,
    most_of_namespace: usize,
}

impl<T> FairQueue<T> {
    /// An empty queue with these bounds.
    pub fn new(most: usize, most_of_namespace: usize) -> Self {
        FairQueue { waiting: BTreeMap::new(), order: VecDeque::new(), len: 0, most, most_of_namespace }
    }

    /// Adds a report. If there is no room, drops a report, not necessarily this one, and returns false.
    pub fn push(&mut self, namespace: &str, report: T) -> bool {
        let own = self.waiting.get(namespace).map_or(0, VecDeque::len);
        if own >= self.most_of_namespace {
            return false;
        }
        let is_full = self.len >= self.most;
        if is_full && !self.drop_one_of_more_than(own + 1) {
            return false;
        }
        match self.waiting.get_mut(namespace) {
            Some(queue) => queue.push_back(report),
            None => {
                self.waiting.insert(namespace.to_owned(), VecDeque::from([report]));
                self.order.push_back(namespace.to_owned());
            }
        }
        self.len += 1;
        !is_full
    }

    /// Takes the first report of the namespace whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let namespace = self.order.pop_front()?;
        let queue = self.waiting.get_mut(&namespace)?;
        let report = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&namespace);
        } else {
            self.order.push_back(namespace);
        }
        self.len -= usize::from(report.is_some());
        report
    }

    /// Reports that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Drops the newest report of the namespace with most of them, if it has more than `least`.
    fn drop_one_of_more_than(&mut self, least: usize) -> bool {
        let longest = self.waiting.values_mut().max_by_key(|queue| queue.len());
        let dropped = longest.filter(|queue| queue.len() > least).and_then(VecDeque::pop_back).is_some();
        self.len -= usize::from(dropped);
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_take_turns() {
        let mut queue = FairQueue::new(100, 10);
        for number in 0..4 {
            assert!(queue.push("many", format!("many {number}")));
        }
        assert!(queue.push("few", "few".to_owned()));
        let order: Vec<String> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["many 0", "few", "many 1", "many 2", "many 3"]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_namespace_with_many_reports_displaces_none_of_another() {
        let mut queue = FairQueue::new(12, 8);
        let taken = (0..20).filter(|number| queue.push("many", *number)).count();
        assert_eq!((taken, queue.len()), (8, 8), "its own bound");
        let taken = (0..20).filter(|number| queue.push("more", *number)).count();
        assert_eq!((taken, queue.len()), (4, 12), "the bound of all, and one of \"many\" made room");
        assert!(!queue.push("few", 99), "another report was dropped for it");
        assert_eq!(queue.len(), 12);
        assert!(std::iter::from_fn(|| queue.pop()).any(|report| report == 99));
    }
}
