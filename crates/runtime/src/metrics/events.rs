//! Metrics of Kubernetes Events.

use prometheus::{IntCounter, IntCounterVec};

use super::maker::Maker;

/// Why a report makes no Event: the queue was full, the API server refused it, or did not answer.
pub const REASONS: [&str; 3] = ["full", "refused", "unknown"];

#[derive(Debug)]
pub struct EventMetrics {
    pub published: IntCounter,
    pub aggregated: IntCounter,
    pub dropped: IntCounterVec,
}

impl EventMetrics {
    pub fn new(maker: &Maker) -> Self {
        let events = EventMetrics {
            published: maker.counter("events_published_total", "Kubernetes Events that were written."),
            aggregated: maker.counter(
                "events_aggregated_total",
                "Reports that were added to an Event of the last minutes.",
            ),
            dropped: maker.counters(
                "events_dropped_total",
                "Reports that made no Event: the queue was full, or the API server refused it or did not \
                 answer.",
                &["reason"],
            ),
        };
        // `rate()` misses the first increase of a series that is created by it.
        for reason in REASONS {
            events.dropped.with_label_values(&[reason]);
        }
        events
    }
}
