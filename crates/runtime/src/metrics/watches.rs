//! Metrics of watches.

use prometheus::IntCounterVec;

use super::maker::Maker;

#[derive(Debug)]
pub struct WatchMetrics {
    pub starts: IntCounterVec,
    pub failures: IntCounterVec,
    pub left_out: IntCounterVec,
}

impl WatchMetrics {
    pub fn new(maker: &Maker) -> Self {
        WatchMetrics {
            starts: maker.counters(
                "watch_starts_total",
                "Watches opened, the first one and each time one is resumed.",
                &["resource"],
            ),
            failures: maker.counters("watch_failures_total", "Errors of LISTs and watches.", &["resource"]),
            left_out: maker.counters(
                "objects_left_out_total",
                "Objects in LISTs and watches that could not be decoded.",
                &["resource"],
            ),
        }
    }

    /// A watch is opened. Its other series begin at 0, so that the first failure shows in a rate.
    pub fn started(&self, resource: &str) {
        self.starts.with_label_values(&[resource]).inc();
        self.failures.with_label_values(&[resource]);
        self.left_out.with_label_values(&[resource]);
    }
}
