//! Asks the API server for its time, once for all who wait for it.
//!
//! Thousands of Frameworks may be due in the same second: one request with a fresh `Date` serves them all.

use std::collections::BTreeSet;
use std::time::Duration;

use framework_message::backoff::Failures;
use framework_message::{Key, Ticket};

/// Who waits for a `Date` that may be late enough, and the request that fetches it.
#[derive(Debug, Default)]
pub struct Inquiry {
    /// Whether the time is wanted, by whomever.
    wanted: bool,
    /// Who waits for a request that is not sent yet: the `Date` of an earlier one may be older than what made
    /// them wait.
    waiting: BTreeSet<Key>,
    /// The request on its way.
    sent: Option<Sent>,
    /// Not sent before.
    rested: Duration,
    failures: Failures,
}

#[derive(Debug)]
struct Sent {
    ticket: Ticket,
    at: Duration,
    asked: BTreeSet<Key>,
}

impl Inquiry {
    /// The time is wanted before anything can be decided.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// A Framework is to be evaluated once the time has been told.
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
        (self.wanted && self.sent.is_none()).then_some(self.rested)
    }

    /// The request is sent.
    pub fn send(&mut self, ticket: Ticket, at: Duration) {
        self.wanted = false;
        self.sent = Some(Sent { ticket, at, asked: std::mem::take(&mut self.waiting) });
    }

    /// When the request with this ticket was sent; `None`: it is none of these.
    pub fn sent(&self, ticket: Ticket) -> Option<Duration> {
        self.sent.as_ref().filter(|sent| sent.ticket == ticket).map(|sent| sent.at)
    }

    /// The request was sent, or was not, and ended without a `Date`: how often in a row.
    pub fn failed(&mut self, sent: bool) -> u32 {
        self.wanted = true;
        self.waiting.extend(self.sent.take().into_iter().flat_map(|sent| sent.asked));
        self.failures.another(sent)
    }

    /// Not sent again before `at`.
    pub fn rest_until(&mut self, at: Duration) {
        self.rested = at;
    }

    /// The time was told: who had waited for it when it was asked for.
    pub fn told(&mut self) -> BTreeSet<Key> {
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
    fn one_request_serves_all_who_wait() {
        let mut inquiry = Inquiry::default();
        assert!(!inquiry.is_due(ms(5)), "nobody waits");
        let keys = [Key::new("ns", "a"), Key::new("ns", "b")];
        keys.iter().for_each(|key| inquiry.wait(key));
        assert!(inquiry.is_due(ms(5)));
        inquiry.send(Ticket(7), ms(5));
        assert_eq!(
            (inquiry.next(), inquiry.sent(Ticket(7)), inquiry.sent(Ticket(8))),
            (None, Some(ms(5)), None)
        );
        assert_eq!(inquiry.told(), keys.into());
        assert_eq!(inquiry.next(), None);
    }

    #[test]
    fn who_waits_is_not_forgotten_when_the_request_fails() {
        let mut inquiry = Inquiry::default();
        inquiry.wait(&Key::new("ns", "a"));
        inquiry.send(Ticket(1), ms(0));
        assert_eq!(inquiry.failed(true), 1);
        inquiry.rest_until(ms(50));
        assert_eq!(inquiry.next(), Some(ms(50)));
        inquiry.send(Ticket(2), ms(50));
        assert_eq!(inquiry.failed(true), 2);
        inquiry.send(Ticket(3), ms(150));
        assert_eq!(inquiry.told().len(), 1);
    }

    #[test]
    fn who_comes_while_it_is_on_its_way_waits_for_the_next() {
        let mut inquiry = Inquiry::default();
        let (first, second) = (Key::new("ns", "a"), Key::new("ns", "b"));
        inquiry.wait(&first);
        inquiry.send(Ticket(1), ms(0));
        inquiry.wait(&second);
        assert_eq!(inquiry.next(), None, "one at a time");
        assert_eq!(inquiry.told(), [first].into());
        inquiry.rest_until(ms(200));
        assert_eq!(inquiry.next(), Some(ms(200)));
        inquiry.send(Ticket(2), ms(200));
        assert_eq!(inquiry.told(), [second].into());
    }
}
