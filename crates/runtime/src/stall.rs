//! How long the threads that move bytes were held up: a heartbeat that notes how late each beat is.
//!
//! A beat is late when the threads that could run it were busy with a task that does not yield. A stall that
//! is longer than [`BEAT`] is seen, and measured too short by [`BEAT`] at most. The heartbeat is not part of
//! the loop, which simulations run under a paused clock: there it would be the only event.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::wall_clock::WallClock;

pub use crate::metrics::Threads;

/// How often the heart beats. Each beat wakes a thread: at 50 ms, two hearts took a third of the processor
/// time of an idle replica.
pub const BEAT: Duration = Duration::from_millis(200);

/// Beats until the program ends, on the threads on which it is polled, which `threads` names. Hearts that
/// begin at the same time wake one thread together. That of the loop also looks at the wall clock.
pub async fn beat(metrics: Arc<Metrics>, threads: Threads, begin: Instant) {
    let mut beats = interval_at(begin + BEAT, BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (clock, mut wall_clock) = (Clock::system(), WallClock::default());
    loop {
        let due = beats.tick().await;
        metrics.stalled(threads, Instant::now().saturating_duration_since(due));
        if threads == Threads::Loop {
            wall_clock.look(clock.now(), &metrics);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The value of a series in the text of a scrape.
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
        let beating = beat(Arc::clone(&metrics), Threads::Workers, Instant::now());
        let _ = tokio::time::timeout(60 * SECOND, beating).await;
        assert!(series(&metrics, COUNT) > 250.0);
        // Tokio's time has milliseconds.
        assert!(series(&metrics, LONGEST) <= 0.001, "{}", series(&metrics, LONGEST));
    }
}
