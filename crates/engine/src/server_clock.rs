//! The API server's clock, and the request that asks for it.

use std::time::Duration;

use framework_api::Time;
use framework_message::{Now, Ticket};

use crate::server_time::ServerTime;
use crate::server_time_probe::ServerTimeProbe;

/// The least time between two moments when all timers are set again, which takes time for each Framework. If
/// the clocks of several API servers behind one address differ, each reply may move the clock.
const BETWEEN_RESETS: Duration = Duration::from_secs(1);

/// The known bounds of the API server's clock, and the request that asks for it.
#[derive(Debug, Default)]
pub struct ServerClock {
    /// The known bounds of the clock.
    pub time: ServerTime,
    /// The request, and the Frameworks that wait for it.
    pub probe: ServerTimeProbe,
    /// When all timers are to be set again, because the clock has moved forward.
    reset_at: Option<Duration>,
    /// They are not set again before.
    not_before: Duration,
}

impl ServerClock {
    /// A response carries `date`. `sent`: when its request was sent; `None`: it may be the probe's. Returns
    /// whether all timers are to be set again now.
    pub fn heard(&mut self, ticket: Ticket, sent: Option<Duration>, date: Option<Time>, now: Now) -> bool {
        let sent = sent.or_else(|| self.probe.sent(ticket));
        if date.zip(sent).is_some_and(|(date, sent)| self.time.heard(date, sent, now)) {
            self.reset_at = Some(self.not_before.max(now.steady));
        }
        self.take_reset(now.steady)
    }

    /// Whether all timers are to be set again now. Returns `true` once.
    pub fn take_reset(&mut self, now: Duration) -> bool {
        let is_due = self.reset_at.take_if(|at| *at <= now).is_some();
        if is_due {
            self.not_before = now + BETWEEN_RESETS;
        }
        is_due
    }

    /// When all timers are to be set again.
    pub fn next_reset(&self) -> Option<Duration> {
        self.reset_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_response_to_a_known_request_sets_the_clock() {
        let steady = Duration::from_secs(3);
        let now = Now { steady, boot: steady, wall: jiff::Timestamp::UNIX_EPOCH };
        let date = Some(Time::floor(now.wall).plus_seconds(100));
        let mut clock = ServerClock::default();
        assert!(!clock.heard(Ticket(1), None, date, now) && !clock.time.is_known());
        assert!(!clock.heard(Ticket(1), Some(steady), None, now) && !clock.time.is_known());
        clock.probe.send(Ticket(1), steady);
        assert!(clock.heard(Ticket(1), None, date, now) && clock.time.is_known());
    }

    #[test]
    fn clocks_that_differ_by_much_set_timers_at_most_once_a_second() {
        let at = Duration::from_millis;
        let now = |ms| Now { steady: at(ms), boot: at(ms), wall: jiff::Timestamp::UNIX_EPOCH };
        let mut clock = ServerClock::default();
        let mut resets = 0;
        // Replies of two API servers in turn, 100 a second for ten seconds.
        for (number, ms) in (0_u64..10_000).step_by(10).enumerate() {
            let ahead = if number % 2 == 0 { 0 } else { 10_000 };
            let shown = jiff::Timestamp::from_millisecond(i64::try_from(ms + ahead).unwrap()).unwrap();
            resets += usize::from(clock.heard(Ticket(0), Some(at(ms)), Some(Time::floor(shown)), now(ms)));
        }
        assert!((9..=10).contains(&resets), "{resets}");
        let next = clock.next_reset().expect("the last move is not forgotten");
        assert!(next > at(9_990) && next <= at(11_000), "{next:?}");
        assert!(!clock.take_reset(at(9_990)) && clock.take_reset(next) && !clock.take_reset(next));
        assert_eq!(clock.next_reset(), None);
    }
}
