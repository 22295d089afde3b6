//! The number of units that wait or are released, updated as units change so that reading it is cheap.

use std::collections::{BTreeMap, BTreeSet};

use framework_message::{Key, Slot};

/// The numbers of units that wait and that are released, for the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Units that wait, by their queue and reason.
    pub waiting: BTreeMap<(Key, &'static str), usize>,
    /// Units that name a Queue that is not there, by their reason: users may invent names.
    pub without_queue: BTreeMap<&'static str, usize>,
    /// Units that were released and whose jobs have not ended.
    pub released: usize,
}

/// The number of units of one queue that wait, and that are released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Those that wait.
    pub waiting: usize,
    /// Those that were released and whose jobs have not ended.
    pub released: usize,
}

/// The count that a unit is part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It waits in this queue, for this reason.
    Waiting(Key, &'static str),
    /// It was released from this queue, and its job has not ended.
    Released(Key),
}

/// The counts.
#[derive(Debug, Default)]
pub struct Counts {
    /// By the slot of the namespace.
    gauges: BTreeMap<Slot, Gauges>,
    queues: BTreeMap<Key, QueueCounts>,
    changed: BTreeSet<Key>,
}

impl Counts {
    /// A unit moves from one count to another.
    pub fn replace(&mut self, before: Option<&Counted>, now: Option<&Counted>) {
        if before == now {
            return;
        }
        if let Some(counted) = before {
            self.change(counted, |count| *count = count.saturating_sub(1));
        }
        if let Some(counted) = now {
            self.change(counted, |count| *count += 1);
        }
    }

    fn change(&mut self, counted: &Counted, by: impl Fn(&mut usize)) {
        let (Counted::Waiting(queue, _) | Counted::Released(queue)) = counted;
        let gauges = self.gauges.entry(Slot::of(&queue.namespace)).or_default();
        match counted {
            Counted::Waiting(queue, reason) => {
                let series = (queue.clone(), *reason);
                let count = gauges.waiting.entry(series.clone()).or_default();
                by(count);
                if *count == 0 {
                    gauges.waiting.remove(&series);
                }
                by(&mut self.queues.entry(queue.clone()).or_default().waiting);
            }
            Counted::Released(queue) => {
                by(&mut gauges.released);
                by(&mut self.queues.entry(queue.clone()).or_default().released);
            }
        }
        if self.queues.get(queue) == Some(&QueueCounts::default()) {
            self.queues.remove(queue);
        }
        self.changed.insert(queue.clone());
    }

    /// Those of the namespaces of these slots, in all.
    pub fn gauges(&self, slots: impl Fn(Slot) -> bool, is_there: impl Fn(&Key) -> bool) -> Gauges {
        let mut all = Gauges::default();
        for (_, gauges) in self.gauges.iter().filter(|(slot, _)| slots(**slot)) {
            all.released += gauges.released;
            for ((queue, reason), count) in &gauges.waiting {
                if is_there(queue) {
                    // A queue is of one slot.
                    all.waiting.insert((queue.clone(), *reason), *count);
                } else {
                    *all.without_queue.entry(*reason).or_default() += count;
                }
            }
        }
        all
    }

    /// Those of a queue.
    pub fn of(&self, queue: &Key) -> QueueCounts {
        self.queues.get(queue).copied().unwrap_or_default()
    }

    /// The queues of which a count has changed since this was last asked.
    pub fn take_changed(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.changed)
    }
}
