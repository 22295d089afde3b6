//! The status of Queues: how many of their units wait, and how many hold something.
//!
//! It is written when a count has changed, of one Queue at most once in [`PAUSE`]: a queue where much happens
//! costs no more writes than one where little does. The pause grows by [`SHARE`] for each Queue, or a
//! thousand Queues would cost as many writes as their units do.

use std::time::Duration;

use framework_message::backoff::Failures;
use framework_message::{Key, Rejection};
use tracing::warn;

use crate::counts::QueueCounts;
use crate::object::Reply;

/// How long after a write the next one of the same Queue follows at the earliest.
const PAUSE: Duration = Duration::from_secs(5);
/// So much longer the pause is for each Queue that there is, once that makes more.
const SHARE: Duration = Duration::from_millis(100);

/// The state of one Queue's status.
#[derive(Debug, Default)]
pub struct QueueState {
    /// The counts of the write in flight.
    busy: Option<QueueCounts>,
    failures: Failures,
    not_before: Duration,
    /// The counts that were written since the watch last showed the Queue.
    written: Option<QueueCounts>,
    /// It names a PriorityClass that does not exist.
    pub lacks_class: bool,
}

/// The next step for the status of a Queue.
#[derive(Debug, PartialEq, Eq)]
pub enum NextWrite {
    /// It is written now.
    Send,
    /// Nothing before that moment of the monotonic clock.
    Wait(Duration),
}

impl QueueState {
    /// Another replica writes its status from now on.
    pub fn forget(&mut self) {
        *self = QueueState { lacks_class: self.lacks_class, ..QueueState::default() };
    }

    /// The watch shows the Queue.
    pub fn shown(&mut self) {
        self.written = None;
    }

    /// The next step to store the counts; `None` if they are stored already, or a write is in flight.
    pub fn next(
        &mut self,
        now: Duration,
        stored: Option<QueueCounts>,
        counted: QueueCounts,
    ) -> Option<NextWrite> {
        if self.busy.is_some() || self.written.or(stored) == Some(counted) {
            return None;
        }
        if now < self.not_before {
            return Some(NextWrite::Wait(self.not_before));
        }
        self.busy = Some(counted);
        Some(NextWrite::Send)
    }

    /// Takes in the outcome of a write; `queues` is the number of all Queues. Another try has newer counts.
    pub fn replied(&mut self, now: Duration, queue: &Key, queues: usize, reply: &Reply, jitter: u64) {
        let pause = PAUSE.max(SHARE.saturating_mul(u32::try_from(queues).unwrap_or(u32::MAX)));
        let counts = self.busy.take();
        let delay = match reply {
            Reply::Done => {
                self.failures = Failures::default();
                self.written = counts;
                pause
            }
            Reply::NotSent(_) => self.failures.delay_after(reply, jitter),
            // It is gone, or another one of that name is there: the watch says so.
            Reply::Refused(Rejection { code: 404 | 409, .. }) => pause,
            reply => {
                warn!(%queue, ?reply, "the status of a Queue was not written");
                self.failures.delay_after(reply, jitter).max(pause)
            }
        };
        self.not_before = now + delay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn waiting(waiting: usize) -> QueueCounts {
        QueueCounts { waiting, released: 0 }
    }

    /// A write of one that waits is on its way.
    fn writing() -> QueueState {
        let mut state = QueueState::default();
        assert_eq!(state.next(NOW, None, waiting(1)), Some(NextWrite::Send));
        assert_eq!(state.next(NOW, None, waiting(2)), None, "one write at a time");
        state
    }

    fn after(queues: usize, reply: &Reply) -> Option<NextWrite> {
        let mut state = writing();
        state.replied(NOW, &Key::new("ns", "q"), queues, reply, 0);
        state.next(NOW, None, waiting(2))
    }

    #[test]
    fn the_pause_after_a_write_grows_with_the_number_of_queues() {
        assert_eq!(after(1, &Reply::Done), Some(NextWrite::Wait(NOW + PAUSE)));
        assert_eq!(after(200, &Reply::Done), Some(NextWrite::Wait(NOW + Duration::from_secs(20))));
    }

    #[test]
    fn a_write_that_never_left_is_tried_again_sooner_than_one_that_failed() {
        let sooner = after(1, &Reply::NotSent(String::new()));
        assert!(matches!(sooner, Some(NextWrite::Wait(at)) if at < NOW + PAUSE));
        assert_eq!(after(1, &Reply::Unknown(String::new())), Some(NextWrite::Wait(NOW + PAUSE)));
    }

    #[test]
    fn a_refused_write_waits_for_the_pause_that_the_api_server_asks_for() {
        let (reason, message) = (String::new(), String::new());
        let asked = Duration::from_secs(7);
        let busy = Reply::Refused(Rejection { code: 429, reason, message, retry_after: Some(asked) });
        assert_eq!(after(1, &busy), Some(NextWrite::Wait(NOW + asked)));
    }

    #[test]
    fn counts_that_are_stored_are_not_written_again() {
        let mut state = writing();
        state.replied(NOW, &Key::new("ns", "q"), 1, &Reply::Done, 0);
        let later = NOW + PAUSE;
        assert_eq!(state.next(later, None, waiting(1)), None, "the watch is slow");
        state.shown();
        assert_eq!(state.next(later, Some(waiting(1)), waiting(1)), None);
        assert_eq!(state.next(later, Some(waiting(3)), waiting(1)), Some(NextWrite::Send));
    }
}
