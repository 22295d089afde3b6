//! Answers to queries: the position of a unit, and counts.

use super::QueueController;
use crate::counts::Gauges;
use crate::position::QueuePosition;
use framework_message::{Key, Slot};

impl QueueController {
    /// Whether this replica decides in a namespace: no other one knows the room in the quotas.
    pub fn decides_in(&self, namespace: &str) -> bool {
        self.active_slots.contains(Slot::of(namespace))
    }

    /// Where a unit stands; `None`: there is none of that name.
    pub fn queue_position(&self, key: &Key) -> Option<QueuePosition> {
        let unit = self.objects.units.get(key)?;
        let scheduled = &self.unit_states.get(key)?.name_in_schedule;
        let namespace_state = self.namespaces.get(&key.namespace);
        let position =
            namespace_state.and_then(|namespace_state| namespace_state.schedule.position(scheduled));
        let before = position.as_ref().and_then(|position| position.directly_before.as_ref());
        let name = before.and_then(|scheduled| namespace_state?.names.get(scheduled));
        let reason = namespace_state.and_then(|state| state.schedule.wait_reason(scheduled));
        let stored = || unit.status.reason.map(|reason| reason.to_string());
        Some(QueuePosition {
            queue: unit.queue.to_string(),
            phase: unit.status.phase,
            reason: reason.as_ref().map(|now| now.reason().to_string()).or_else(stored),
            message: reason.map_or_else(|| unit.status.message.clone(), |now| now.to_string()),
            place: position.as_ref().map(|position| position.place),
            before: position.as_ref().map(|position| position.before),
            directly_before: name.map(|name| name.to_string()),
        })
    }

    /// How many units wait, and how many hold something, in the namespaces that this replica schedules.
    pub fn gauges(&self) -> Gauges {
        self.counts.gauges(|slot| self.active_slots.contains(slot), |queue| self.has_queue(queue))
    }

    /// Whether a Queue is there, by the last complete LIST and the changes since.
    pub fn has_queue(&self, queue: &Key) -> bool {
        self.objects.queues.get(queue).is_some()
    }
}
