//! Changes of Queues and PriorityClasses become facts for the schedule.
//!
//! A Queue that changes many times between two turns costs its units one evaluation, not one for each change.

use std::sync::Arc;

use framework_message::Key;
use framework_queue::QueueFacts;

use super::QueueController;

impl QueueController {
    /// A class decides the priorities of the units and Queues that name it.
    pub(super) fn class_changed(&mut self, name: &str) {
        let named = |class: &Option<Arc<str>>| class.as_deref() == Some(name);
        let units = self.objects.units.iter().filter(|unit| named(&unit.class));
        self.stale.units.extend(units.map(|unit| unit.key.clone()));
        let queues = self.objects.queues.iter().filter(|queue| named(&queue.class));
        let queues: Vec<Key> = queues.map(|queue| queue.key.clone()).collect();
        queues.iter().for_each(|key| self.queue_changed(key));
    }

    /// The facts of a Queue may have changed: the next turn applies them.
    pub(super) fn queue_changed(&mut self, key: &Key) {
        let lacked_class = self.queue_states.get(key).map(|state| state.lacks_class);
        self.stale.queue_facts.entry(key.clone()).or_insert(lacked_class);
    }

    /// Gives the schedule the changed facts of Queues.
    pub(super) fn refresh_queues(&mut self) {
        for (key, lacked_class) in std::mem::take(&mut self.stale.queue_facts) {
            self.refresh_queue(&key, lacked_class);
        }
    }

    fn refresh_queue(&mut self, key: &Key, lacked_class: Option<bool>) {
        let queue = self.objects.queues.get(key);
        let priority = queue.map(|queue| self.objects.priority(queue.priority, queue.class.as_deref()));
        let facts = queue.zip(priority).map(|(queue, priority)| QueueFacts {
            policy: queue.policy,
            priority: priority.unwrap_or_default(),
        });
        self.namespaces.entry(&key.namespace).schedule.set_queue(&key.name, facts);
        self.stale.namespaces.insert(Arc::clone(&key.namespace));
        // A unit is concerned only if its Queue, or the PriorityClass of that, comes or goes. A Queue changes
        // with each status.
        let lacks_class = priority.map(|priority| priority.is_none());
        if lacked_class != lacks_class {
            let units = self.objects.units.within(&key.namespace).filter(|unit| unit.queue == key.name);
            self.stale.units.extend(units.map(|unit| unit.key.clone()));
        }
        if let Some(lacks_class) = lacks_class {
            self.queue_states.entry(key.clone()).or_default().lacks_class = lacks_class;
        }
    }
}
