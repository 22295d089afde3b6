//! How long to wait before another try: exponential, bounded, with jitter that replays from a seed.

use std::time::Duration;

use crate::Reply;

/// Grows from `first` by powers of two up to `last`.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    last: Duration,
}

/// The API server refused, or did not answer: it may need time.
pub const REFUSED: Backoff = Backoff { first: Duration::from_secs(1), last: Duration::from_secs(60) };
/// A request never left: nothing was spent, but the network may be down.
pub const NOT_SENT: Backoff = Backoff { first: Duration::from_millis(50), last: Duration::from_secs(10) };

/// Failures of one request in a row, counted separately for attempts that left and attempts that did not. A
/// time in which the API server was unreachable does not indicate how it will treat later requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failures {
    count: u32,
    sent: bool,
}

impl Failures {
    /// Counts one more failure, of a request that was sent or was not. Returns the number of failures.
    pub fn another(&mut self, sent: bool) -> u32 {
        if self.sent != sent {
            *self = Failures { count: 0, sent };
        }
        self.count = self.count.saturating_add(1);
        self.count
    }

    /// Counts one more failure, of a request that was sent or was not. Returns the delay before another try.
    pub fn delay(&mut self, sent: bool, jitter: u64) -> Duration {
        let backoff = if sent { REFUSED } else { NOT_SENT };
        backoff.delay(self.another(sent), jitter)
    }

    /// As [`Failures::delay`], of a request with this reply: never less than the pause that it asks for.
    pub fn delay_after<T>(&mut self, reply: &Reply<T>, jitter: u64) -> Duration {
        let delay = self.delay(reply.was_sent(), jitter);
        match reply {
            Reply::Refused(rejection) => delay.max(rejection.pause().unwrap_or_default()),
            _ => delay,
        }
    }

    /// How often the request failed in a row.
    pub fn count(self) -> u32 {
        self.count
    }
}

impl Backoff {
    /// The delay after `failures` failures in a row (at least one), less up to a quarter of it by `seed`.
    pub fn delay(self, failures: u32, seed: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let whole = self.first.saturating_mul(1 << doublings).min(self.last);
        let share = u32::try_from(mix(seed) % 256).unwrap_or(0);
        whole - whole / 4 * share / 256
    }
}

/// Spreads the bits of a number, so that neighbours give unrelated draws (the finaliser of SplitMix64).
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rejection;

    #[test]
    fn delays_double_up_to_a_minute() {
        let bounds = [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (u32::MAX, 60)];
        for (failures, seconds) in bounds {
            for seed in 0..100 {
                let delay = REFUSED.delay(failures, seed);
                let whole = Duration::from_secs(seconds);
                assert!(delay <= whole && delay >= whole * 3 / 4, "{failures} failures: {delay:?}");
            }
        }
    }

    #[test]
    fn an_unsent_request_is_not_counted_among_the_refused_ones() {
        let mut failures = Failures::default();
        let counts = [false, false, false, true, true, false].map(|sent| failures.another(sent));
        assert_eq!(counts, [1, 2, 3, 1, 2, 1]);
    }

    #[test]
    fn the_delay_after_a_reply_is_never_below_the_pause_that_it_asks_for() {
        let refused = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            let (reason, message) = (String::new(), String::new());
            Reply::<()>::Refused(Rejection { code: 429, reason, message, retry_after })
        };
        let mut failures = Failures::default();
        assert_eq!(failures.delay_after(&refused(7), 3), Duration::from_secs(7));
        assert_eq!(failures.delay_after(&refused(0), 3), REFUSED.delay(2, 3));
        assert_eq!(failures.delay_after(&Reply::<()>::Unknown(String::new()), 3), REFUSED.delay(3, 3));
        assert_eq!(failures.delay_after(&Reply::<()>::NotSent(String::new()), 3), NOT_SENT.delay(1, 3));
        assert_eq!((failures.delay(false, 5), failures.count()), (NOT_SENT.delay(2, 5), 2));
    }

    #[test]
    fn jitter_differs_by_seed_and_replays() {
        let delays: std::collections::BTreeSet<_> = (0..50).map(|seed| REFUSED.delay(5, seed)).collect();
        assert!(delays.len() > 20, "{delays:?}");
        assert_eq!(REFUSED.delay(5, 7), REFUSED.delay(5, 7));
    }
}
