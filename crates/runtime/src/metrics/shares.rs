//! Metrics of the share of a replica.

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};

use super::maker::Maker;

#[derive(Debug)]
pub struct Shares {
    pub slots: IntGauge,
    pub changes: IntCounter,
    pub fenced: IntCounter,
    pub leader: IntGauge,
    pub lease_writes: IntCounterVec,
    pub moved: IntCounter,
    pub handover_seconds: Histogram,
}

/// From a hand-over without a request on its way to one that waits for the life of a request.
const HANDOVER_BUCKETS: [f64; 10] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 20.0, 30.0, 60.0];

impl Shares {
    pub fn new(maker: &Maker) -> Self {
        Shares {
            slots: maker.whole_gauge("slots", "Slots that this replica has; 256 in all."),
            changes: maker.counter("slot_changes_total", "Slots that this replica was granted or lost."),
            fenced: maker.counter(
                "requests_fenced_total",
                "Requests that were not sent because the right to act for their slot had ended.",
            ),
            leader: maker.whole_gauge("leader", "1 if this replica is the leader, otherwise 0."),
            lease_writes: maker.counters(
                "lease_writes_total",
                "Writes of Leases by this replica, by outcome: done, refused or unknown.",
                &["outcome"],
            ),
            moved: maker.counter("slots_moved_total", "Slots whose owner this replica changed in the map."),
            handover_seconds: maker.histogram(
                "handover_duration_seconds",
                "Seconds from the begin of a slot's drain to its loss.",
                &HANDOVER_BUCKETS,
            ),
        }
    }
}
