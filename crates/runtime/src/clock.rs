//! The one place where the runtime reads a clock.
//!
//! The monotonic clock of [`Now`] is tokio's. The boot clock and the wall clock are the system's. A simulated
//! [`Clock`] derives all three from tokio's, and stands still while tokio is paused. No other part of this
//! crate may read a clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use framework_message::Now;

/// Shows the time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// The wall at `start`; `None`: ask the system.
    wall: Option<Timestamp>,
    /// The system's clock that counts suspension, at `start`; `None`: the machine is never suspended.
    boot: Option<Duration>,
    /// How many thousandths of a second pass here in a second.
    rate: u32,
}

/// The rate of a clock that is neither fast nor slow.
const RATE: u32 = 1000;

impl Clock {
    /// The system's clocks; the monotonic one starts now.
    pub fn system() -> Self {
        Clock { start: Instant::now(), wall: None, boot: Some(boot_time()), rate: RATE }
    }

    /// Tokio's time alone, which tests pause: the wall shows `wall` now and goes as fast.
    pub fn simulated(wall: Timestamp) -> Self {
        Clock { start: Instant::now(), wall: Some(wall), boot: None, rate: RATE }
    }

    /// The same clock, if it is simulated, which shows so many thousandths of a second for each second of
    /// tokio's time.
    #[must_use]
    pub fn at_rate(self, rate: u32) -> Self {
        Clock { rate, ..self }
    }

    /// This moment.
    pub fn now(&self) -> Now {
        let passed = self.start.elapsed();
        let steady = if self.rate == RATE { passed } else { passed * self.rate / RATE };
        let wall = match self.wall {
            None => Timestamp::now(),
            Some(base) => SignedDuration::try_from(steady)
                .ok()
                .and_then(|passed| base.checked_add(passed).ok())
                .unwrap_or(Timestamp::MAX),
        };
        let boot = self.boot.map_or(steady, |start| boot_time().saturating_sub(start));
        Now { steady, boot, wall }
    }

    /// The tokio instant at which the monotonic clock shows `steady`.
    pub fn instant(&self, steady: Duration) -> Instant {
        if self.rate == RATE {
            return self.start + steady;
        }
        // Rounded up: at that instant the clock must show `steady`, or a timer would be set again and again.
        self.start + steady * RATE / self.rate + Duration::from_nanos(1)
    }
}

/// The time since the machine started, including suspension.
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_that_counts_suspension_is_not_behind_the_steady_one() {
        let clock = Clock::system();
        let (first, second) = (clock.now(), clock.now());
        assert!(second.boot >= first.boot && second.boot < Duration::from_secs(3600), "{second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulated_clock_moves_with_tokios_time_only() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let first = clock.now();
        assert_eq!(first, clock.now(), "no time passes by itself");
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let second = clock.now();
        assert_eq!(second.steady - first.steady, Duration::from_millis(1500));
        assert_eq!(second.wall.to_string(), "2026-01-01T00:00:01.5Z");
        assert_eq!(clock.instant(second.steady), Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_slow_or_fast_shows_the_moment_that_a_timer_waits_for() {
        for rate in [900, 1000, 1100] {
            let clock = Clock::simulated(Timestamp::UNIX_EPOCH).at_rate(rate);
            let (begun, due) = (Instant::now(), Duration::from_millis(7_777));
            tokio::time::sleep_until(clock.instant(due)).await;
            assert!(clock.now().steady >= due, "{rate}: {:?}", clock.now());
            let expected = due * 1000 / rate;
            assert!(begun.elapsed() - expected <= Duration::from_millis(1), "{rate}: {:?}", begun.elapsed());
        }
    }
}
