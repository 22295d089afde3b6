//! Metrics of `activeDeadlineSeconds` and `ttlSecondsAfterFinished`, under names that users were promised.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Opts};

use framework_api::Time;
use framework_engine::server_time::ServerTime;

use super::maker::{Maker, whole};
use super::remaining::RemainingMetrics;

const LATENESS_BUCKETS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0];

/// Deletions by the TTL, and deadlines, of jobs of one kind.
#[derive(Debug)]
pub struct LifetimeMetrics {
    ttl_deletions: IntCounter,
    ttl_deletion_seconds: Histogram,
    ttl_pending: IntGauge,
    deadlines_exceeded: IntCounter,
    /// Time left to deadlines.
    pub remaining: RemainingMetrics,
}

/// How late deletions by the TTL are.
fn lateness(name: &str) -> prometheus::Result<Histogram> {
    let help = "How long after the end of ttlSecondsAfterFinished the deletion was accepted.";
    Histogram::with_opts(HistogramOpts::from(Opts::new(name, help)).buckets(LATENESS_BUCKETS.to_vec()))
}

impl LifetimeMetrics {
    /// Those of Frameworks.
    pub fn of_frameworks(maker: &Maker) -> Self {
        LifetimeMetrics {
            ttl_deletions: maker.register(IntCounter::with_opts(Opts::new(
                "framework_ttl_deletions_total",
                "Frameworks whose deletion was accepted because ttlSecondsAfterFinished had passed.",
            ))),
            ttl_deletion_seconds: maker.register(lateness("framework_ttl_deletion_latency_seconds")),
            ttl_pending: maker.register(IntGauge::with_opts(Opts::new(
                "framework_ttl_pending_deletions",
                "Completed Frameworks that ttlSecondsAfterFinished will delete.",
            ))),
            deadlines_exceeded: maker.register(IntCounter::with_opts(Opts::new(
                "framework_deadline_exceeded_total",
                "Frameworks that ran past their activeDeadlineSeconds.",
            ))),
            remaining: RemainingMetrics::of_frameworks(maker),
        }
    }

    /// Those of TrainJobs that this controller ends.
    pub fn of_train_jobs(maker: &Maker) -> Self {
        LifetimeMetrics {
            ttl_deletions: maker.register(IntCounter::with_opts(Opts::new(
                "trainjob_ttl_deletions_total",
                "TrainJobs whose deletion was accepted because ttlSecondsAfterFinished had passed.",
            ))),
            ttl_deletion_seconds: maker.register(lateness("trainjob_ttl_deletion_latency_seconds")),
            ttl_pending: maker.register(IntGauge::with_opts(Opts::new(
                "trainjob_ttl_pending_deletions",
                "Finished TrainJobs that ttlSecondsAfterFinished will delete.",
            ))),
            deadlines_exceeded: maker.register(IntCounter::with_opts(Opts::new(
                "trainjob_deadline_exceeded_total",
                "TrainJobs that ran past their activeDeadlineSeconds.",
            ))),
            remaining: RemainingMetrics::of_train_jobs(maker),
        }
    }

    /// The deletions and the deadlines that are known, and the clock that they follow.
    pub fn set(&self, ttl_pending: usize, deadlines: Vec<Time>, time: ServerTime) {
        self.ttl_pending.set(whole(ttl_pending));
        self.remaining.set(deadlines, time);
    }

    /// The deletion of a job was accepted, so late after the end of its TTL.
    pub fn deleted(&self, late: Duration) {
        self.ttl_deletions.inc();
        self.ttl_deletion_seconds.observe(late.as_secs_f64());
    }

    /// A job ran past its deadline.
    pub fn exceeded(&self) {
        self.deadlines_exceeded.inc();
    }
}
