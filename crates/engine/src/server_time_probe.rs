//! Asks the API server for its time, once for all Frameworks that wait for it.
//!
//! Thousands of Frameworks may be due in the same second: one request with a fresh `Date` serves them all.

use std::collections::BTreeSet;
use std::time::Duration;

use framework_message::backoff::Failures;
use framework_message::{Key, Ticket};

/// The Frameworks that wait for a `Date` that may be late enough, and the request that fetches it.
#[derive(Debug, Default)]
pub struct ServerTimeProbe {
    /// Whether the time is wanted.
    wanted: bool,
    /// The Frameworks that wait for a request that is not sent yet. The `Date` of an earlier request may be
    /// older than the reason for their wait.
    waiting: BTreeSet<Key>,
    /// The request in flight.
    sent: Option<SentProbe>,
    /// The request is not sent before this time.
    not_before: Duration,
    failures: Failures,
}

#[derive(Debug)]
struct SentProbe {
    ticket: Ticket,
    at: Duration,
    asked: BTreeSet<Key>,
}

impl ServerTimeProbe {
    /// Requests the time, which is needed before anything can be decided.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// Requests the time for a Framework, which is evaluated once the time is known.
    pub fn wait(&mut self, key: &Key) {
        self.wanted = true;
        self.waiting.insert(key.clone());
    }

    /// Whether the request is to be sent now.
    pub fn is_due(&self, now: Duration) -> bool {
        self.next().is_some_and(|at| at <= now)
    }

    /// When the request is to be sent.
    pub fn next(&self) -> Option<Duration> {
        (self.wanted && self.sent.is_none()).then_some(self.not_before)
    }

    /// The request is sent.
    pub fn send(&mut self, ticket: Ticket, at: Duration) {
        self.wanted = false;
        self.sent = Some(SentProbe { ticket, at, asked: std::mem::take(&mut self.waiting) });
    }

    /// When the request with this ticket was sent; `None`: it is not a request for the time.
    pub fn sent(&self, ticket: Ticket) -> Option<Duration> {
        self.sent.as_ref().filter(|sent| sent.ticket == ticket).map(|sent| sent.at)
    }

    /// A request failed, sent or not, or its response had no `Date`. Returns how often in a row.
    pub fn failed(&mut self, sent: bool) -> u32 {
        self.wanted = true;
        self.waiting.extend(self.sent.take().into_iter().flat_map(|sent| sent.asked));
        self.failures.another(sent)
    }

    /// The request is not sent again before `at`.
    pub fn delay_until(&mut self, at: Duration) {
        self.not_before = at;
    }

    /// The response carries the time. Returns the Frameworks that waited for it when the request was sent.
    pub fn answered(&mut self) -> BTreeSet<Key> {
        self.failures = Failures::default();
        self.sent.take().map(|sent| sent.asked).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn one_request_serves_all_waiting_frameworks() {
        let mut time_probe = ServerTimeProbe::default();
        assert!(!time_probe.is_due(ms(5)), "nobody waits");
        let keys = [Key::new("ns", "a"), Key::new("ns", "b")];
        keys.iter().for_each(|key| time_probe.wait(key));
        assert!(time_probe.is_due(ms(5)));
        time_probe.send(Ticket(7), ms(5));
        assert_eq!(
            (time_probe.next(), time_probe.sent(Ticket(7)), time_probe.sent(Ticket(8))),
            (None, Some(ms(5)), None)
        );
        assert_eq!(time_probe.answered(), keys.into());
        assert_eq!(time_probe.next(), None);
    }

    #[test]
    fn waiting_frameworks_are_kept_when_the_request_fails() {
        let mut time_probe = ServerTimeProbe::default();
        time_probe.wait(&Key::new("ns", "a"));
        time_probe.send(Ticket(1), ms(0));
        assert_eq!(time_probe.failed(true), 1);
        time_probe.delay_until(ms(50));
        assert_eq!(time_probe.next(), Some(ms(50)));
        time_probe.send(Ticket(2), ms(50));
        assert_eq!(time_probe.failed(true), 2);
        time_probe.send(Ticket(3), ms(150));
        assert_eq!(time_probe.answered().len(), 1);
    }

    #[test]
    fn a_framework_that_comes_during_a_request_waits_for_the_next() {
        let mut time_probe = ServerTimeProbe::default();
        let (first, second) = (Key::new("ns", "a"), Key::new("ns", "b"));
        time_probe.wait(&first);
        time_probe.send(Ticket(1), ms(0));
        time_probe.wait(&second);
        assert_eq!(time_probe.next(), None, "one at a time");
        assert_eq!(time_probe.answered(), [first].into());
        time_probe.delay_until(ms(200));
        assert_eq!(time_probe.next(), Some(ms(200)));
        time_probe.send(Ticket(2), ms(200));
        assert_eq!(time_probe.answered(), [second].into());
    }
}
