//! What comes of QueueUnits.

use std::time::Duration;

use framework_api::queue::Reason;
use prometheus::{Gauge, Histogram, IntCounterVec, IntGaugeVec};

use super::{Maker, Metrics, whole};
use crate::queue::Gauges;

const WAIT_BUCKETS: &[f64] =
    &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0];

#[derive(Debug)]
pub(super) struct Units {
    waiting: IntGaugeVec,
    released: Gauge,
    decisions: IntCounterVec,
    wait_seconds: Histogram,
}

impl Units {
    pub fn new(maker: &Maker) -> Self {
        Units {
            waiting: maker.gauges("queue_units_waiting", "QueueUnits that wait, by reason.", &["reason"]),
            released: maker.gauge(
                "queue_units_released",
                "QueueUnits that were released and whose jobs have not ended.",
            ),
            decisions: maker.counters(
                "queue_decisions_total",
                "What was stored of QueueUnits: releases, and why others wait.",
                &["reason"],
            ),
            wait_seconds: maker.histogram(
                "queue_wait_seconds",
                "How long released QueueUnits waited since their jobs were created.",
                WAIT_BUCKETS,
            ),
        }
    }
}

impl Metrics {
    /// How many units wait, and hold something.
    pub fn units(&self, gauges: &Gauges) {
        self.units.waiting.reset();
        for (reason, count) in &gauges.waiting {
            self.units.waiting.with_label_values(&[reason]).set(whole(*count));
        }
        self.units.released.set(gauges.released as f64);
    }

    /// It is stored that a unit was released, after so long, or why it waits.
    pub fn unit_decided(&self, reason: Reason, waited: Option<Duration>) {
        self.units.decisions.with_label_values(&[reason.as_str()]).inc();
        if let Some(waited) = waited {
            self.units.wait_seconds.observe(waited.as_secs_f64());
        }
    }
}
