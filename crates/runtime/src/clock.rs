//! The one place where the runtime reads a clock.
//!
//! Both clocks of [`Now`] come from tokio's time, or the wall from the system: under a paused tokio clock a
//! simulated [`Clock`] stands still with it. No other part of this crate may read a clock.

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
}

impl Clock {
    /// The system's clocks; the steady one starts now.
    pub fn system() -> Self {
        Clock { start: Instant::now(), wall: None }
    }

    /// Tokio's time alone, which tests pause: the wall shows `wall` now and goes as fast.
    pub fn simulated(wall: Timestamp) -> Self {
        Clock { start: Instant::now(), wall: Some(wall) }
    }

    /// This moment.
    pub fn now(&self) -> Now {
        let steady = self.start.elapsed();
        let wall = match self.wall {
            None => Timestamp::now(),
            Some(base) => SignedDuration::try_from(steady)
                .ok()
                .and_then(|passed| base.checked_add(passed).ok())
                .unwrap_or(Timestamp::MAX),
        };
        Now { steady, boot: steady, wall }
    }

    /// The tokio instant at which the steady clock shows `steady`.
    pub fn instant(&self, steady: Duration) -> Instant {
        self.start + steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
