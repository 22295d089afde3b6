//! The time that is left until deadlines, as a histogram of this moment.
//!
//! It stays as small as its buckets, however many Frameworks run; one gauge for each would not.

use std::sync::{Mutex, PoisonError};

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, Histogram, HistogramOpts};

use framework_api::Time;
use framework_engine::server_time::ServerTime;
use framework_message::Now;

use super::maker::Maker;

/// Seconds: past, 1 min, 5 min, 15 min, 1 h, 4 h, 12 h, 1 d, 3 d, 1 week, 30 d.
const BUCKETS: &[f64] =
    &[0.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0, 2_592_000.0];

/// Deadlines that have not passed yet or are about to be enforced, and the clock that they follow.
#[derive(Debug)]
pub struct RemainingMetrics {
    deadlines: Mutex<(Vec<Time>, ServerTime)>,
    nearest: Gauge,
    histogram: HistogramOpts,
}

impl RemainingMetrics {
    /// Those of Frameworks.
    pub fn of_frameworks(maker: &Maker) -> Self {
        RemainingMetrics {
            deadlines: Mutex::default(),
            nearest: maker.gauge(
                "nearest_deadline_seconds",
                "Time left, at the scrape, to the nearest activeDeadlineSeconds of a Framework that has not \
                 completed; +Inf without one.",
            ),
            histogram: HistogramOpts::new(
                "framework_active_deadline_remaining_seconds",
                "Time left, at the scrape, to the Frameworks with activeDeadlineSeconds that have not \
                 completed. Not cumulative over time: it shows those of now. Deprecated: see \
                 frameworkcontroller_nearest_deadline_seconds.",
            )
            .buckets(BUCKETS.to_vec()),
        }
    }

    /// Those of TrainJobs.
    pub fn of_train_jobs(maker: &Maker) -> Self {
        RemainingMetrics {
            deadlines: Mutex::default(),
            nearest: maker.gauge(
                "nearest_trainjob_deadline_seconds",
                "Time left, at the scrape, to the nearest activeDeadlineSeconds of a TrainJob that this \
                 controller will end; +Inf without one.",
            ),
            histogram: HistogramOpts::new(
                "trainjob_active_deadline_remaining_seconds",
                "Time left, at the scrape, to the TrainJobs with activeDeadlineSeconds that have not \
                 finished. Not cumulative over time: it shows those of now. Deprecated: see \
                 frameworkcontroller_nearest_trainjob_deadline_seconds.",
            )
            .buckets(BUCKETS.to_vec()),
        }
    }

    /// Replaces the deadlines.
    pub fn set(&self, deadlines: Vec<Time>, time: ServerTime) {
        *self.deadlines.lock().unwrap_or_else(PoisonError::into_inner) = (deadlines, time);
    }

    /// Sets the gauge, and returns the histogram as of `now`. That is made for each scrape, because one that
    /// is registered only grows.
    pub fn collect(&self, now: Now) -> Vec<MetricFamily> {
        let histogram =
            Histogram::with_opts(self.histogram.clone()).expect("a metric of a constant name can be made");
        let state = self.deadlines.lock().unwrap_or_else(PoisonError::into_inner);
        let (deadlines, time) = &*state;
        let now = Time::floor(time.now(now)).unix();
        let mut nearest = f64::INFINITY;
        for deadline in deadlines {
            let left = deadline.unix().saturating_sub(now) as f64;
            histogram.observe(left);
            nearest = nearest.min(left);
        }
        self.nearest.set(nearest);
        histogram.collect()
    }
}
