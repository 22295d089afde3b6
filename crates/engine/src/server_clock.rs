//! The API server's clock, and the request that asks for it.

use std::time::Duration;

use framework_api::Time;
use framework_message::{Now, Ticket};

use crate::server_time::ServerTime;
use crate::server_time_probe::ServerTimeProbe;

/// The known bounds of the API server's clock, and the request that asks for it.
#[derive(Debug, Default)]
pub struct ServerClock {
    /// The known bounds of the clock.
    pub time: ServerTime,
    /// The request, and the Frameworks that wait for it.
    pub probe: ServerTimeProbe,
}

impl ServerClock {
    /// A response carries `date`. `sent`: when its request was sent; `None`: it may be the probe's. Returns
    /// whether timers are to be set again.
    pub fn heard(&mut self, ticket: Ticket, sent: Option<Duration>, date: Option<Time>, now: Now) -> bool {
        let sent = sent.or_else(|| self.probe.sent(ticket));
        date.zip(sent).is_some_and(|(date, sent)| self.time.heard(date, sent, now))
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
}
