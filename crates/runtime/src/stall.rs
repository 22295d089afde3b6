//! How long the threads that move bytes were held up: a heartbeat that notes how late each beat is.
//!
//! A beat is late when the threads that could run it were busy with something that does not yield. A stall
//! that is longer than [`BEAT`] is seen, and told too short by that at most. Not part of the loop itself,
//! which simulations run under a paused clock: a heart that beats there would be all they do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::metrics::Metrics;

/// How often the heart beats.
pub const BEAT: Duration = Duration::from_millis(50);
/// For how long the longest stall is told, at least. Whoever scrapes more often sees each.
const MEMORY: Duration = Duration::from_secs(120);

/// Who was held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The one on which the loop evaluates and decides.
    Loop,
    /// The runtime's own, which read, decode, encode and send.
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

/// Beats for ever, on the threads on which it is polled, which `threads` names.
pub async fn beat(metrics: Arc<Metrics>, threads: Threads) {
    loop {
        let due = Instant::now() + BEAT;
        sleep_until(due).await;
        metrics.stalled(threads, Instant::now().saturating_duration_since(due));
    }
}

/// The longest of the last minutes: of two spans of time, so that none is forgotten as soon as it was seen.
#[derive(Debug)]
pub struct Longest(Mutex<Spans>);

#[derive(Debug)]
struct Spans {
    begun: Instant,
    now: Duration,
    before: Duration,
}

impl Default for Longest {
    fn default() -> Self {
        Longest(Mutex::new(Spans { begun: Instant::now(), now: Duration::ZERO, before: Duration::ZERO }))
    }
}

impl Longest {
    /// Takes note of one, and says which is the longest.
    pub fn note(&self, stall: Duration) -> Duration {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = spans.begun.elapsed();
        if age >= MEMORY {
            spans.before = if age < 2 * MEMORY { spans.now } else { Duration::ZERO };
            (spans.begun, spans.now) = (Instant::now(), Duration::ZERO);
        }
        spans.now = spans.now.max(stall);
        spans.now.max(spans.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    const SECOND: Duration = Duration::from_secs(1);

    /// The value of a series in what is scraped.
    fn series(metrics: &Metrics, name: &str) -> f64 {
        let text = metrics.text(Clock::system().now());
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        // It is not there before the first beat.
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    const LONGEST: &str = r#"frameworkcontroller_event_loop_longest_stall_seconds{threads="workers"}"#;
    const COUNT: &str = r#"frameworkcontroller_event_loop_stall_seconds_count{threads="workers"}"#;

    #[tokio::test(start_paused = true)]
    async fn threads_that_yield_are_never_late() {
        let metrics = Metrics::new();
        let beating = beat(Arc::clone(&metrics), Threads::Workers);
        let _ = tokio::time::timeout(60 * SECOND, beating).await;
        assert!(series(&metrics, COUNT) > 1000.0);
        // Tokio's time has milliseconds.
        assert!(series(&metrics, LONGEST) <= 0.001, "{}", series(&metrics, LONGEST));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_is_told_for_minutes_and_then_forgotten() {
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
