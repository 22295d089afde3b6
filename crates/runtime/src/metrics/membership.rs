//! Metrics of the membership of a replica.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use framework_membership::Figures;
use framework_message::Now;
use prometheus::{Gauge, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::maker::Maker;

#[derive(Debug)]
pub struct MembershipMetrics {
    pub slots: IntGauge,
    pub changes: IntCounter,
    pub fenced: IntCounter,
    pub leader: IntGauge,
    lease_writes: IntCounterVec,
    pub moved: IntCounter,
    pub handover_seconds: Histogram,
    leader_info: IntGaugeVec,
    epoch: IntGauge,
    lease_age: Gauge,
    /// This replica has tried to write its own Lease.
    has_tried: AtomicBool,
    /// When the last renewal was sent that was applied, in this life or an earlier one. Before the first one:
    /// when a scrape first found that it was tried.
    renewed: Mutex<Option<Duration>>,
}

/// From a hand-over without a request on its way to one that waits for the life of a request.
const HANDOVER_BUCKETS: [f64; 10] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 20.0, 30.0, 60.0];

impl MembershipMetrics {
    pub fn new(maker: &Maker) -> Self {
        MembershipMetrics {
            slots: maker.whole_gauge("slots", "Slots that this replica acts for; 256 in all."),
            changes: maker.counter("slot_changes_total", "Slots that this replica gained or lost."),
            fenced: maker.counter(
                "requests_fenced_total",
                "Requests that were not sent because the right to act for their slot had ended, and creates \
                 that the epoch policy refused.",
            ),
            leader: maker.whole_gauge("leader", "1 if this replica is the leader, otherwise 0."),
            lease_writes: maker.counters(
                "lease_writes_total",
                "Writes by this replica of its own Lease, the leader's, or one that it empties, by outcome.",
                &["lease", "outcome"],
            ),
            moved: maker.counter("slots_moved_total", "Slots whose owner this replica changed in the map."),
            handover_seconds: maker.histogram(
                "handover_duration_seconds",
                "Seconds from the start of a slot's drain to the loss of the slot.",
                &HANDOVER_BUCKETS,
            ),
            leader_info: maker.gauges(
                "leader_info",
                "Constant 1, labelled with the Lease of the leader as this replica sees it.",
                &["member"],
            ),
            epoch: maker.whole_gauge("slot_epoch", "The highest epoch of this replica's slots."),
            lease_age: maker.gauge(
                "lease_age_seconds",
                "Seconds since this replica sent the last renewal of its own Lease that was applied; before \
                 the first one, since a scrape found that it was tried.",
            ),
            has_tried: AtomicBool::new(false),
            renewed: Mutex::default(),
        }
    }

    /// A write of a Lease ended.
    pub fn lease_written(&self, lease: &str, outcome: &str) {
        self.lease_writes.with_label_values(&[lease, outcome]).inc();
        if lease == "own" {
            self.has_tried.store(true, Ordering::Relaxed);
        }
    }

    /// Takes in the figures of the member.
    pub fn member(&self, figures: &Figures) {
        // A replica has one leader at a time.
        self.leader_info.reset();
        if let Some(leader) = &figures.leader {
            self.leader_info.with_label_values(&[leader]).set(1);
        }
        self.epoch.set(i64::try_from(figures.epoch).unwrap_or(i64::MAX));
        if figures.renewed.is_some() {
            *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = figures.renewed;
        }
    }

    /// Sets the age of the Lease at `now`. That of one that is refused from the start grows, too.
    pub fn grow_old(&self, now: Now) {
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_tried.load(Ordering::Relaxed) {
            renewed.get_or_insert(now.boot);
        }
        let age = renewed.map_or(Duration::ZERO, |renewed| now.boot.saturating_sub(renewed));
        self.lease_age.set(age.as_secs_f64());
    }
}
