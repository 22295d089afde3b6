//! Metrics of `activeDeadlineSeconds` and `ttlSecondsAfterFinished`, under names that users were promised.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Opts};

use framework_engine::gauges::Gauges;

use super::maker::{Maker, whole};
use super::remaining::Remaining;

const LATENESS_BUCKETS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0];

/// Deletions by the TTL, and deadlines.
#[derive(Debug)]
pub struct Lifetimes {
    ttl_deletions: IntCounter,
    ttl_deletion_seconds: Histogram,
    ttl_pending: IntGauge,
    deadlines_exceeded: IntCounter,
    /// Time left to deadlines.
    pub remaining: Remaining,
}

impl Lifetimes {
    pub fn new(maker: &Maker) -> Self {
        Lifetimes {
            ttl_deletions: maker.register(IntCounter::with_opts(Opts::new(
                "framework_ttl_deletions_total",
                "Frameworks whose deletion was accepted because ttlSecondsAfterFinished had passed.",
            ))),
            ttl_deletion_seconds: maker.register(Histogram::with_opts(
                HistogramOpts::new(
                    "framework_ttl_deletion_latency_seconds",
                    "How long after the end of ttlSecondsAfterFinished the deletion was accepted.",
                )
                .buckets(LATENESS_BUCKETS.to_vec()),
            )),
            ttl_pending: maker.register(IntGauge::with_opts(Opts::new(
                "framework_ttl_pending_deletions",
                "Completed Frameworks that ttlSecondsAfterFinished will delete.",
            ))),
            deadlines_exceeded: maker.register(IntCounter::with_opts(Opts::new(
                "framework_deadline_exceeded_total",
                "Frameworks that ran past their activeDeadlineSeconds.",
            ))),
            remaining: Remaining::new(maker),
        }
    }

    /// The deadlines and the deletions that the engine knows of.
    pub fn set(&self, gauges: &Gauges) {
        self.ttl_pending.set(whole(gauges.ttl_pending));
        self.remaining.set(gauges.deadlines.clone(), gauges.time);
    }

    /// The deletion of a Framework was accepted, so late after the end of its TTL.
    pub fn deleted(&self, late: Duration) {
        self.ttl_deletions.inc();
        self.ttl_deletion_seconds.observe(late.as_secs_f64());
    }

    /// A Framework ran past its deadline.
    pub fn exceeded(&self) {
        self.deadlines_exceeded.inc();
    }
}
