//! How long threads were held up, and the longest time of the last minutes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::{GaugeVec, HistogramVec};
use tokio::time::Instant;

use super::maker::Maker;

/// For how long the longest stall is shown, at least. A scraper that comes more often sees each.
const MEMORY: Duration = Duration::from_secs(120);
const BUCKETS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The threads that were held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The one on which the loop evaluates and decides.
    Loop,
    /// The runtime's workers, which read, decode, encode and send.
    Workers,
}

impl Threads {
    /// All of them.
    pub const ALL: [Threads; 2] = [Threads::Loop, Threads::Workers];

    /// As metrics call them.
    pub const fn name(self) -> &'static str {
        match self {
            Threads::Loop => "loop",
            Threads::Workers => "workers",
        }
    }
}

/// How long threads were held up.
#[derive(Debug)]
pub struct StallMetrics {
    seconds: HistogramVec,
    longest_seconds: GaugeVec,
    longest: [Longest; 2],
}

impl StallMetrics {
    pub fn new(maker: &Maker) -> Self {
        StallMetrics {
            seconds: maker.histograms(
                "event_loop_stall_seconds",
                "How late a heartbeat of the threads was, every 200 ms: so long something did not yield.",
                &["threads"],
                BUCKETS,
            ),
            longest_seconds: maker.float_gauges(
                "event_loop_longest_stall_seconds",
                "The longest delay of a heartbeat of the threads in the last two to four minutes.",
                &["threads"],
            ),
            longest: Default::default(),
        }
    }

    /// A heartbeat of these threads was late by this much.
    pub fn note(&self, threads: Threads, late: Duration) {
        let longest = self.longest[threads as usize].note(late);
        self.seconds.with_label_values(&[threads.name()]).observe(late.as_secs_f64());
        self.longest_seconds.with_label_values(&[threads.name()]).set(longest.as_secs_f64());
    }
}

/// The longest stall of the last minutes. It covers two windows, so that no stall is forgotten at once.
#[derive(Debug)]
struct Longest(Mutex<StallWindows>);

#[derive(Debug)]
struct StallWindows {
    begun: Instant,
    now: Duration,
    before: Duration,
}

impl Default for Longest {
    fn default() -> Self {
        Longest(Mutex::new(StallWindows {
            begun: Instant::now(),
            now: Duration::ZERO,
            before: Duration::ZERO,
        }))
    }
}

impl Longest {
    /// Takes in a stall, and returns the longest one.
    fn note(&self, stall: Duration) -> Duration {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = windows.begun.elapsed();
        if age >= MEMORY {
            windows.before = if age < 2 * MEMORY { windows.now } else { Duration::ZERO };
            (windows.begun, windows.now) = (Instant::now(), Duration::ZERO);
        }
        windows.now = windows.now.max(stall);
        windows.now.max(windows.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_longest_stall_is_shown_for_minutes_and_then_forgotten() {
        let longest = Longest::default();
        assert_eq!(longest.note(SECOND), SECOND);
        tokio::time::sleep(MEMORY - SECOND).await;
        assert_eq!(longest.note(Duration::ZERO), SECOND);
        tokio::time::sleep(SECOND).await;
        assert_eq!(longest.note(2 * SECOND), 2 * SECOND);
        tokio::time::sleep(MEMORY).await;
        assert_eq!(longest.note(Duration::ZERO), 2 * SECOND, "it was long in the span before");
        tokio::time::sleep(MEMORY).await;
        assert_eq!(longest.note(Duration::ZERO), Duration::ZERO);
    }
}
