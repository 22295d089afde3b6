//! A thread of the runtime that is blocked shows in the metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use framework_runtime::clock::Clock;
use framework_runtime::metrics::Metrics;
use framework_runtime::stall::{BEAT, Threads, beat};

const PATIENCE: Duration = Duration::from_secs(60);
const HELD: Duration = Duration::from_millis(400);

/// The value of a series of the workers in the scraped text; 0 before the first beat.
fn series(metrics: &Metrics, name: &str) -> f64 {
    let name = format!(r#"frameworkcontroller_event_loop_{name}{{threads="workers"}} "#);
    let text = metrics.text(Clock::system().now());
    let value = text.lines().find_map(|line| line.strip_prefix(&name));
    value.map_or(0.0, |value| value.parse().expect("a number"))
}

#[test]
fn a_worker_that_does_not_yield_shows() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
    let (runtime, metrics) = (runtime.expect("a runtime starts"), Metrics::new());
    runtime.spawn(beat(Arc::clone(&metrics), Threads::Workers, tokio::time::Instant::now()));
    let deadline = Instant::now() + PATIENCE;
    while series(&metrics, "stall_seconds_count") < 1.0 {
        assert!(Instant::now() < deadline, "the heart does not beat");
        std::thread::yield_now();
    }
    let blocked = runtime.spawn(async {
        let until = Instant::now() + HELD;
        while Instant::now() < until {}
    });
    runtime.block_on(blocked).expect("it ends");
    // Timers have milliseconds.
    let least = (HELD - BEAT).as_secs_f64() * 0.99;
    while series(&metrics, "longest_stall_seconds") < least {
        assert!(Instant::now() < deadline, "{} s", series(&metrics, "longest_stall_seconds"));
        std::thread::yield_now();
    }
}
