//! Metrics of the export of traces.

use prometheus::IntCounter;

use super::maker::Maker;

#[derive(Debug)]
pub struct SpanMetrics {
    /// The receiver took them.
    pub exported: IntCounter,
    /// They found no room, or no receiver that took them.
    pub dropped: IntCounter,
}

impl SpanMetrics {
    pub fn new(maker: &Maker) -> Self {
        let spans = maker.counters(
            "trace_spans_total",
            "Spans of traces, by whether the receiver took them.",
            &["result"],
        );
        let result = |result| spans.with_label_values(&[result]);
        SpanMetrics { exported: result("exported"), dropped: result("dropped") }
    }
}
