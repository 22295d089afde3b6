//! The request budget for the API server: a token bucket, a bound on requests in flight, and pauses that the
//! API server asked for.

use std::time::Duration;

use framework_message::Slot;

use crate::concurrency::{Concurrency, LatencyClass};

/// After this many refusals for overload in a row everything pauses, not only the Framework concerned.
const REPEATED: u32 = 3;

/// The least part of the rate that a replica has.
const LEAST_SHARE: f64 = 1.0 / Slot::COUNT as f64;

/// A part of the bucket, and of the requests that may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The upper half: the lower one is kept, so that a Framework with few requests can send immediately. The
    /// rate is the same: only the burst is halved. Half as many may be in flight, because a busy API server
    /// does not serve more if more are sent, and urgent requests would queue behind them.
    Upper,
}

/// The budget of all requests together.
#[derive(Debug)]
pub struct Budget {
    /// Rate and burst of all replicas together.
    whole: (f64, f64),
    qps: f64,
    burst: f64,
    tokens: f64,
    refilled: Duration,
    in_flight: usize,
    concurrency: Concurrency,
    overloads: u32,
    paused_until: Duration,
}

impl Budget {
    /// A full bucket of `burst` requests that refills with `qps` requests a second. The limit of
    /// requests in flight follows latencies.
    pub fn new(qps: f64, burst: u32, concurrency: Concurrency) -> Self {
        let burst = f64::from(burst.max(1));
        Budget {
            whole: (qps, burst),
            qps,
            burst,
            tokens: burst,
            refilled: Duration::ZERO,
            in_flight: 0,
            concurrency,
            overloads: 0,
            paused_until: Duration::ZERO,
        }
    }

    /// From now on, this part of the budget may be used: rate, burst and requests in flight. With the parts
    /// of their slots, all replicas together load the API server no more than one does. A larger burst comes
    /// with no tokens: they are earned.
    pub fn set_share(&mut self, now: Duration, share: f64) {
        self.refill(now);
        let (qps, burst) = self.whole;
        // A replica without slots still asks for the API server's time.
        self.qps = qps * share.max(LEAST_SHARE);
        self.burst = (burst * share).ceil().max(1.0);
        self.tokens = self.tokens.min(self.burst);
        self.concurrency.set_share(share);
    }

    /// Takes the right to send one request, if there is one in this part.
    pub fn take(&mut self, now: Duration, part: Part) -> bool {
        self.refill(now);
        let is_missing = self.tokens < 1.0 + self.kept(part);
        if self.in_flight >= self.most(part) || now < self.paused_until || is_missing {
            return false;
        }
        self.tokens -= 1.0;
        self.in_flight += 1;
        self.concurrency.in_flight(self.in_flight);
        true
    }

    /// Returns the token that [`Budget::take`] took for a request that was not sent after all.
    pub fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.burst);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A request has ended.
    pub fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A request of this kind was answered after so long: the bound of requests in flight follows.
    pub fn took(&mut self, now: Duration, kind: LatencyClass, latency: Duration) {
        self.concurrency.took(now, kind, latency);
    }

    /// A request was refused for overload, and `wait` was asked for.
    pub fn overloaded(&mut self, now: Duration, wait: Duration) {
        self.overloads += 1;
        if self.overloads >= REPEATED {
            self.paused_until = self.paused_until.max(now + wait);
        }
    }

    /// A request was served: the API server is not overloaded.
    pub fn served(&mut self) {
        self.overloads = 0;
    }

    /// When a request may be sent again; `None`: when a request has ended.
    pub fn next(&self, now: Duration, part: Part) -> Option<Duration> {
        if self.in_flight >= self.most(part) {
            return None;
        }
        let since = now.saturating_sub(self.refilled).as_secs_f64();
        let missing = 1.0 + self.kept(part) - (self.tokens + since * self.qps);
        // A nanosecond more than the quotient: rounding must not wake us just before the token is there.
        let wait = if missing > 0.0 {
            Duration::from_secs_f64(missing / self.qps) + Duration::from_nanos(1)
        } else {
            Duration::ZERO
        };
        Some((now + wait).max(self.paused_until))
    }

    /// Requests a second.
    pub fn qps(&self) -> f64 {
        self.qps
    }

    /// How many requests may be in flight now.
    pub fn limit(&self) -> usize {
        self.concurrency.limit()
    }

    /// The tokens that this part leaves in the bucket. A bucket of one keeps none, because no request could
    /// use it.
    fn kept(&self, part: Part) -> f64 {
        match part {
            Part::Whole => 0.0,
            Part::Upper => ((self.burst - 1.0) / 2.0).floor(),
        }
    }

    /// How many requests may be in flight for this part. A bound of one is shared by both parts.
    fn most(&self, part: Part) -> usize {
        match part {
            Part::Whole => self.limit(),
            Part::Upper => self.limit().div_ceil(2),
        }
    }

    fn refill(&mut self, now: Duration) {
        let since = now.saturating_sub(self.refilled).as_secs_f64();
        self.tokens = (self.tokens + since * self.qps).min(self.burst);
        self.refilled = self.refilled.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A budget with a fixed limit of requests in flight.
    fn fixed(qps: f64, burst: u32, in_flight: usize) -> Budget {
        Budget::new(qps, burst, Concurrency::new(in_flight, in_flight))
    }

    fn take_all(budget: &mut Budget, now: Duration) -> usize {
        std::iter::repeat_with(|| budget.take(now, Part::Whole)).take_while(|taken| *taken).count()
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut budget = fixed(10.0, 5, 1000);
        assert_eq!(take_all(&mut budget, ms(0)), 5);
        assert_eq!(take_all(&mut budget, ms(99)), 0);
        let next = budget.next(ms(99), Part::Whole).unwrap();
        assert!(next >= ms(100) && next < ms(101), "{next:?}");
        assert_eq!(take_all(&mut budget, next), 1);
        assert_eq!(take_all(&mut budget, ms(60_000)), 5, "the bucket holds no more than the burst");
    }

    #[test]
    fn the_lower_half_is_kept_from_frequent_callers() {
        for (burst, upper) in [(1, 1), (2, 2), (5, 3), (120, 61)] {
            let mut budget = fixed(10.0, burst, 1000);
            let taken = (0..=burst).take_while(|_| budget.take(ms(0), Part::Upper)).count();
            assert_eq!(taken, upper, "of {burst}");
            // Its rate is that of all the bucket.
            let next = budget.next(ms(0), Part::Upper).unwrap();
            assert!(next >= ms(100) && next < ms(101), "{next:?}");
            assert!(budget.take(next, Part::Upper) && !budget.take(next, Part::Upper));
            assert_eq!(take_all(&mut budget, next), burst as usize - upper, "what was kept is there");
        }
    }

    #[test]
    fn over_ten_seconds_the_rate_is_the_rate() {
        let mut budget = fixed(80.0, 20, 1000);
        let sent: usize = (0..10_000).map(|at| take_all(&mut budget, ms(at))).sum();
        assert!((815..=820).contains(&sent), "{sent}");
    }

    #[test]
    fn requests_in_flight_are_bounded() {
        let mut budget = fixed(1000.0, 1000, 3);
        assert_eq!(take_all(&mut budget, ms(0)), 3);
        assert_eq!(budget.next(ms(0), Part::Whole), None, "only a reply helps");
        budget.ended();
        assert_eq!(take_all(&mut budget, ms(0)), 1);
    }

    #[test]
    fn half_of_the_requests_in_flight_is_kept_from_frequent_callers() {
        for (most, upper) in [(1, 1), (2, 1), (3, 2), (200, 100)] {
            let mut budget = fixed(1000.0, 1000, most);
            let taken = (0..most).take_while(|_| budget.take(ms(0), Part::Upper)).count();
            assert_eq!(taken, upper, "of {most}");
            assert_eq!(budget.next(ms(0), Part::Upper), None, "only a reply helps");
            assert_eq!(take_all(&mut budget, ms(0)), most - upper, "what was kept is there");
            (0..=most - upper).for_each(|_| budget.ended());
            assert!(budget.take(ms(0), Part::Upper));
        }
    }

    #[test]
    fn a_new_share_counts_from_now_and_adds_no_tokens() {
        let mut budget = Budget::new(1000.0, 100, Concurrency::new(400, 400));
        budget.set_share(ms(0), 0.05);
        assert_eq!(take_all(&mut budget, ms(0)), 5, "a smaller burst takes tokens away");
        budget.set_share(ms(100), 1.0);
        assert_eq!(take_all(&mut budget, ms(100)), 5, "those of the old rate");
        assert_eq!(take_all(&mut budget, ms(110)), 10);
        budget.set_share(ms(10_000), 0.02);
        assert_eq!(take_all(&mut budget, ms(10_000)), 0, "more are in flight than may be by now");
        (0..19).for_each(|_| budget.ended());
        assert_eq!([take_all(&mut budget, ms(10_000)), budget.in_flight], [2, 3]);
    }

    #[test]
    fn no_part_is_lost_by_rounding() {
        let mut budget = Budget::new(80.0, 100, Concurrency::new(32, 32));
        let of = |budget: &Budget| (budget.qps, budget.burst, budget.limit());
        budget.set_share(ms(0), 85.0 / 256.0);
        assert_eq!(of(&budget), (80.0 * 85.0 / 256.0, 34.0, 11));
        budget.set_share(ms(0), 0.0);
        assert_eq!(of(&budget), (80.0 / 256.0, 1.0, 1), "a replica without slots still asks for the time");
        budget.set_share(ms(0), 1.0);
        assert_eq!(of(&budget), (80.0, 100.0, 32));
    }

    #[test]
    fn a_request_that_was_not_sent_costs_nothing() {
        let mut budget = fixed(1.0, 1, 1);
        assert!(budget.take(ms(0), Part::Whole));
        budget.give_back();
        assert!(budget.take(ms(0), Part::Whole));
    }

    #[test]
    fn repeated_overload_pauses_everything_for_the_time_asked() {
        let mut budget = fixed(1000.0, 1000, 1000);
        for _ in 0..2 {
            budget.overloaded(ms(0), ms(500));
        }
        assert!(budget.take(ms(0), Part::Whole), "two may be chance");
        budget.served();
        for _ in 0..3 {
            budget.overloaded(ms(0), ms(500));
        }
        assert!(!budget.take(ms(499), Part::Whole));
        assert_eq!(budget.next(ms(1), Part::Whole), Some(ms(500)));
        assert!(budget.take(ms(500), Part::Whole));
    }
}
