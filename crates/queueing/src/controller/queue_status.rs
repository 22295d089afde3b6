//! The status of Queues is written when a count has changed.

use std::sync::Arc;

use framework_message::{Key, Now};

use super::QueueController;
use crate::object::Reply;
use crate::outgoing::{Sent, Work};
use crate::queue_status::NextWrite;
use crate::request::QueueRequest;

impl QueueController {
    /// A Queue was added, changed or deleted. Its stored status may differ from the counts.
    pub(super) fn queue_shown(&mut self, key: &Key) {
        if self.objects.queues.get(key).is_none() {
            self.queue_states.remove(key);
            return;
        }
        self.queue_states.entry(key.clone()).or_default().shown();
        self.stale.queues.insert(key.clone());
    }

    /// Offers the Queues whose counts have changed. Before all objects are listed the counts are too low.
    pub(super) fn offer_queue_statuses(&mut self) {
        self.stale.queues.extend(self.counts.take_changed());
        for key in std::mem::take(&mut self.stale.queues) {
            if self.queue_states.contains_key(&key) {
                self.offer(Work::Queue(key));
            }
        }
    }

    pub(super) fn queue_status_request(&mut self, now: Now, key: &Key) -> Option<(Sent, QueueRequest)> {
        if !self.owns(&key.namespace, now) {
            return None;
        }
        let queue = self.objects.queues.get(key)?;
        let counts = self.counts.of(key);
        match self.queue_states.get_mut(key)?.next(now.steady, queue.counts, counts)? {
            NextWrite::Wait(until) => {
                self.outgoing.offer_at(until, Work::Queue(key.clone()));
                None
            }
            NextWrite::Send => {
                let uid = Arc::clone(&queue.uid);
                Some((Sent::Queue(key.clone()), QueueRequest::PatchQueue { queue: key.clone(), uid, counts }))
            }
        }
    }

    pub(super) fn queue_status_replied(&mut self, now: Now, key: Key, reply: &Reply, jitter: u64) {
        let queues = self.queue_states.len();
        let Some(state) = self.queue_states.get_mut(&key) else { return };
        state.replied(now.steady, &key, queues, reply, jitter);
        self.offer(Work::Queue(key));
    }
}
