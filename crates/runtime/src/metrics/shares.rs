//! Metrics of the share of a replica.

use prometheus::{IntCounter, IntGauge};

use super::maker::Maker;

#[derive(Debug)]
pub struct Shares {
    pub slots: IntGauge,
    pub changes: IntCounter,
    pub fenced: IntCounter,
}

impl Shares {
    pub fn new(maker: &Maker) -> Self {
        Shares {
            slots: maker.whole_gauge("slots", "Slots that this replica has; 256 in all."),
            changes: maker.counter("slot_changes_total", "Slots that this replica was granted or lost."),
            fenced: maker.counter(
                "requests_fenced_total",
                "Requests that were not sent because the right to act for their slot had ended.",
            ),
        }
    }
}
