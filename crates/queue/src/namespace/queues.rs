//! The queues of a namespace. Each has a number, which indexes hold instead of its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::facts::QueueFacts;
use crate::requests::Tally;

/// The number of a queue, whether there is a Queue of its name or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueId(pub u32);

/// A queue that exists or that a unit names.
#[derive(Debug)]
pub(super) struct Queue {
    pub name: Arc<str>,
    /// Unset while there is no such Queue; its units are known even then.
    pub facts: Option<QueueFacts>,
    /// The usage of its released units.
    pub usage: Tally,
    /// The number of units that name it.
    pub units: usize,
}

/// All queues of a namespace.
#[derive(Debug, Default)]
pub(super) struct Queues {
    ids: BTreeMap<Arc<str>, QueueId>,
    all: BTreeMap<QueueId, Queue>,
    last: u32,
}

impl Queues {
    /// The queue of that name.
    pub fn named(&self, name: &str) -> Option<&Queue> {
        self.get(*self.ids.get(name)?)
    }

    /// The queue with that number.
    pub fn get(&self, id: QueueId) -> Option<&Queue> {
        self.all.get(&id)
    }

    /// The queue with that number, to be changed.
    pub fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.all.get_mut(&id)
    }

    /// All queues.
    pub fn iter(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.all.iter().map(|(id, queue)| (*id, queue))
    }

    /// The number of the queue of that name, which is added if it is not known.
    pub fn id(&mut self, name: &Arc<str>) -> QueueId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.last = self.last.wrapping_add(1);
        let id = QueueId(self.last);
        self.ids.insert(Arc::clone(name), id);
        let queue = Queue { name: Arc::clone(name), facts: None, usage: Tally::default(), units: 0 };
        self.all.insert(id, queue);
        id
    }

    /// Forgets a queue that does not exist and that no unit names. Returns whether it did.
    pub fn remove_if_empty(&mut self, id: QueueId) -> bool {
        let is_empty = |queue: &&Queue| queue.facts.is_none() && queue.units == 0;
        let Some(queue) = self.all.get(&id).filter(is_empty) else { return false };
        self.ids.remove(&queue.name);
        self.all.remove(&id);
        true
    }
}
