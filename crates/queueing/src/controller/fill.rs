//! The status of Queues: how many of their units wait, and how many hold something.
//!
//! It is written when a count has changed, of one Queue at most once in [`PAUSE`]: a queue where much happens
//! costs no more writes than one where little does. All Queues together are written once in [`SHARE`]: a
//! thousand of them would else cost as much as what happens in them.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::{QueueController, Sent, Work};
use crate::counts::Filling;
use crate::object::Reply;
use crate::request::Request;
use framework_message::backoff::{Failures, NOT_SENT, REFUSED};
use framework_message::{Key, Now, Rejection};

/// How long after a write the next one of the same Queue follows at the earliest.
pub const PAUSE: Duration = Duration::from_secs(5);
/// So much longer the pause is for each Queue that there is, once that makes more.
pub const SHARE: Duration = Duration::from_millis(100);

/// The unit_states of one Queue's status.
#[derive(Debug, Default)]
pub(super) struct QueueState {
    /// What is being written.
    busy: Option<Filling>,
    failures: Failures,
    not_before: Duration,
    /// What was written since the watch last showed the Queue.
    written: Option<Filling>,
}

impl QueueController {
    /// A Queue is there, has changed, or is gone.
    pub(super) fn queue_shown(&mut self, key: &Key) {
        if self.queues.get(key).is_none() {
            self.queue_states.remove(key);
            return;
        }
        self.queue_states.entry(key.clone()).or_default().written = None;
        self.unfilled.insert(key.clone());
    }

    /// Writes down what has changed. Before all was listed, nothing is: the counts are too low.
    pub(super) fn fill_queues(&mut self) {
        self.unfilled.extend(self.counts.take_changed());
        for key in std::mem::take(&mut self.unfilled) {
            if self.queue_states.contains_key(&key) {
                self.offer(Work::Queue(key));
            }
        }
    }

    pub(super) fn about_queue(&mut self, now: Now, key: &Key) -> Option<(Sent, Request)> {
        if self.draining || !self.owns(&key.namespace, now) {
            return None;
        }
        let queue = self.queues.get(key)?;
        let filling = self.counts.filling(key);
        let state = self.queue_states.get_mut(key)?;
        if state.busy.is_some() || state.written.or(queue.filling) == Some(filling) {
            return None;
        }
        if now.steady < state.not_before {
            self.later.insert((state.not_before, Work::Queue(key.clone())));
            return None;
        }
        state.busy = Some(filling);
        let uid = Arc::clone(&queue.uid);
        Some((Sent::Queue(key.clone()), Request::PatchQueue { queue: key.clone(), uid, filling }))
    }

    /// What came of a write. It is tried again with the counts of then.
    pub(super) fn filled(&mut self, now: Now, key: Key, reply: &Reply, jitter: u64) {
        let queues = u32::try_from(self.queue_states.len()).unwrap_or(u32::MAX);
        let pause = PAUSE.max(SHARE.saturating_mul(queues));
        let Some(state) = self.queue_states.get_mut(&key) else { return };
        let filling = state.busy.take();
        let delay = match reply {
            Reply::Done => {
                state.failures = Failures::default();
                state.written = filling;
                pause
            }
            Reply::NotSent(_) => NOT_SENT.delay(state.failures.another(false), jitter),
            // It is gone, or another one of that name is there: the watch says so.
            Reply::Refused(Rejection { code: 404 | 409, .. }) => pause,
            reply => {
                warn!(queue = %key, ?reply, "the status of a Queue was not written");
                REFUSED.delay(state.failures.another(true), jitter).max(pause)
            }
        };
        state.not_before = now.steady + delay;
        self.offer(Work::Queue(key));
    }
}
