//! The delay before the next query: it grows, so that long waits cost little, and is jittered, so that
//! thousands of barriers do not ask at once.

use std::time::Duration;

/// The factor to which an interval grows.
const GROWTH: u32 = 3;
/// The delay after the first failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The delays after the first two refusals for lack of rights: three tries take less than 10 s.
const DENIED: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(4)];
/// The longest delay that a header may ask for. Otherwise a proxy could stop a barrier until its time is
/// over.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// The pace of one barrier.
#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    queries: u32,
    random: fastrand::Rng,
}

impl Pace {
    /// Starts with `interval`.
    pub fn new(interval: Duration, random: fastrand::Rng) -> Self {
        Pace { interval, queries: 0, random }
    }

    /// The delay after a query that showed missing Tasks: the interval, then a quarter longer each time. It
    /// is lengthened at random by up to a quarter, never shortened.
    pub fn after_query(&mut self) -> Duration {
        let longest = self.interval.saturating_mul(GROWTH);
        let whole = (0..self.queries).try_fold(self.interval, |delay, _| {
            let next = delay.saturating_add(delay / 4);
            if next < longest { Ok(next) } else { Err(longest) }
        });
        self.queries = self.queries.saturating_add(1);
        let whole = whole.unwrap_or_else(|longest| longest);
        whole.saturating_add(self.share(whole / 4))
    }

    /// The delay after this many failures in a row: one second, doubled up to three intervals, shortened at
    /// random by up to half. It is not shorter than the time that the API server asked for, up to a minute.
    pub fn after_failure(&mut self, failures: u32, asked_for: Option<Duration>) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        let whole = FIRST_RETRY.saturating_mul(1 << doublings).min(self.interval.saturating_mul(GROWTH));
        let own = whole - self.share(whole / 2);
        // Barriers that were asked to wait for the same time must not come back together either.
        let asked_for = asked_for.map(|asked_for| asked_for.min(LONGEST_ASKED));
        asked_for.map_or(own, |asked_for| own.max(asked_for.saturating_add(self.share(FIRST_RETRY))))
    }

    /// The delay after this many refusals for lack of rights; `None` after the last try.
    pub fn after_denial(&mut self, denials: u32) -> Option<Duration> {
        let index = usize::try_from(denials).ok()?.checked_sub(1)?;
        let whole = *DENIED.get(index)?;
        Some(whole - self.share(whole / 4))
    }

    fn share(&mut self, of: Duration) -> Duration {
        of.mul_f64(self.random.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    fn pace(seed: u64) -> Pace {
        Pace::new(TEN, fastrand::Rng::with_seed(seed))
    }

    #[test]
    fn intervals_grow_to_three_times_the_first_and_are_never_shorter() {
        for seed in 0..50 {
            let mut pace = pace(seed);
            for whole in [10_000, 12_500, 15_625, 19_531, 24_414, 30_000, 30_000, 30_000] {
                let whole = Duration::from_millis(whole);
                let delay = pace.after_query();
                assert!(delay >= whole && delay <= whole * 5 / 4 + TEN / 1000, "{whole:?}: {delay:?}");
            }
        }
    }

    #[test]
    fn barriers_that_start_together_spread() {
        let delays: std::collections::BTreeSet<_> =
            (0..100).map(|seed| pace(seed).after_query().as_millis()).collect();
        assert!(delays.len() > 80, "{delays:?}");
    }

    #[test]
    fn delays_after_failures_grow_and_never_undercut_retry_after() {
        let mut pace = pace(1);
        for (failures, seconds) in [(1, 1), (2, 2), (5, 16), (6, 30), (u32::MAX, 30)] {
            let (delay, whole) = (pace.after_failure(failures, None), Duration::from_secs(seconds));
            assert!(delay <= whole && delay >= whole / 2, "{failures} failures: {delay:?}");
        }
        let asked_for = Duration::from_secs(7);
        assert!(pace.after_failure(1, Some(asked_for)) >= asked_for);
        assert!(pace.after_failure(6, Some(asked_for)) >= asked_for);
    }

    #[test]
    fn no_header_stops_a_barrier_for_more_than_a_minute() {
        for seconds in [60, 61, 100_000, u64::MAX] {
            let delay = pace(1).after_failure(1, Some(Duration::from_secs(seconds)));
            assert!(delay >= LONGEST_ASKED && delay <= LONGEST_ASKED + FIRST_RETRY, "{seconds}: {delay:?}");
        }
    }

    #[test]
    fn three_denials_fit_into_ten_seconds() {
        for seed in 0..50 {
            let mut pace = pace(seed);
            let waits: Vec<_> = (1..=3).map(|denials| pace.after_denial(denials)).collect();
            let [Some(first), Some(second), None] = waits[..] else { panic!("{waits:?}") };
            assert!(first + second <= Duration::from_secs(6) && first >= Duration::from_secs(1), "{waits:?}");
        }
    }

    #[test]
    fn the_longest_interval_does_not_panic() {
        let mut pace = Pace::new(Duration::MAX, fastrand::Rng::with_seed(1));
        assert_eq!(pace.after_query(), Duration::MAX);
        assert_eq!(pace.after_query(), Duration::MAX);
    }
}
