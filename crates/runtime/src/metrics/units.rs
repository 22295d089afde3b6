//! Metrics of QueueUnits.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use prometheus::{Gauge, HistogramVec, IntCounterVec, IntGaugeVec};

use framework_api::queue::Reason;
use framework_message::Key;
use framework_queueing::{Gauges, UnitWait};

use super::maker::{Maker, OTHERS, whole};

const WAIT_BUCKETS: &[f64] =
    &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0];

/// The number of Queues that have series of their own; all others share one.
const QUEUES: usize = 100;

#[derive(Debug)]
pub struct UnitMetrics {
    waiting: IntGaugeVec,
    released: Gauge,
    decisions: IntCounterVec,
    wait_seconds: HistogramVec,
    /// The Queues that have series of their own.
    known: Mutex<BTreeSet<Key>>,
}

impl UnitMetrics {
    pub fn new(maker: &Maker) -> Self {
        UnitMetrics {
            waiting: maker.gauges(
                "queue_units_waiting",
                "QueueUnits that wait, by queue and reason.",
                &["namespace", "queue", "reason"],
            ),
            released: maker.gauge(
                "queue_units_released",
                "QueueUnits that were released and whose jobs have not ended.",
            ),
            decisions: maker.counters(
                "queue_decisions_total",
                "Decisions that were stored in QueueUnits: releases, and reasons to wait.",
                &["reason"],
            ),
            wait_seconds: maker.histograms(
                "queue_wait_seconds",
                "How long released QueueUnits waited since their jobs were created, by queue and priority.",
                &["namespace", "queue", "priority"],
                WAIT_BUCKETS,
            ),
            known: Mutex::default(),
        }
    }

    /// How many units wait, and how many are released.
    pub fn set(&self, gauges: &Gauges, is_there: impl Fn(&Key) -> bool) {
        self.forget(|queue| !is_there(queue));
        self.waiting.reset();
        for ((queue, reason), count) in &gauges.waiting {
            let [namespace, queue] = self.labels(queue);
            self.waiting.with_label_values(&[namespace, queue, *reason]).add(whole(*count));
        }
        for (reason, count) in &gauges.without_queue {
            self.waiting.with_label_values(&[OTHERS, OTHERS, *reason]).add(whole(*count));
        }
        self.released.set(gauges.released as f64);
    }

    /// A decision was stored: a unit was released, after such a wait, or waits for a reason.
    pub fn decided(&self, reason: Reason, waited: Option<&UnitWait>) {
        self.decisions.with_label_values(&[reason.as_str()]).inc();
        if let Some(wait) = waited {
            self.waited(wait);
        }
    }

    /// Drops the series of Queues that are gone: they would keep the places of later ones for ever.
    fn forget(&self, is_gone: impl Fn(&Key) -> bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in known.extract_if(.., is_gone) {
            for band in BANDS {
                // A band without a release has no series.
                let _ = self.wait_seconds.remove_label_values(&[&*queue.namespace, &*queue.name, band]);
            }
        }
    }

    /// The labels of a Queue: its namespace and its name.
    fn labels<'a>(&self, queue: &'a Key) -> [&'a str; 2] {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(queue) {
            if known.len() == QUEUES {
                return [OTHERS; 2];
            }
            known.insert(queue.clone());
        }
        [&queue.namespace, &queue.name]
    }

    fn waited(&self, wait: &UnitWait) {
        let [namespace, queue] = self.labels(&wait.queue);
        let labels = [namespace, queue, band(wait.priority)];
        self.wait_seconds.with_label_values(&labels).observe(wait.time.as_secs_f64());
    }
}

/// The bands of priorities. The last one has no upper bound; it begins far below the priorities of
/// Kubernetes' own Pods.
const BANDS: [&str; 5] = ["negative", "0", "1-999", "1000-999999", "1000000-"];

/// The band of a priority.
fn band(priority: i32) -> &'static str {
    let [negative, zero, low, high, highest] = BANDS;
    match priority {
        ..0 => negative,
        0 => zero,
        1..1000 => low,
        1000..1_000_000 => high,
        1_000_000.. => highest,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use framework_message::Now;

    use super::*;
    use crate::metrics::Metrics;

    fn text(metrics: &Metrics) -> String {
        metrics.text(Now { steady: Duration::ZERO, boot: Duration::ZERO, wall: jiff::Timestamp::UNIX_EPOCH })
    }

    fn wait(queue: &str, priority: i32) -> UnitWait {
        UnitWait { queue: Key::new("team", queue), priority, time: Duration::from_secs(2) }
    }

    #[test]
    fn waits_are_shown_by_queue_and_band_and_decisions_by_reason() {
        let metrics = Metrics::new();
        metrics.unit_decided(Reason::Admitted, Some(&wait("q", 1000)));
        metrics.unit_decided(Reason::Admitted, Some(&wait("q", 5000)));
        metrics.unit_decided(Reason::InsufficientQuota, None);
        let waiting = [((Key::new("team", "q"), "InsufficientQuota"), 7)].into();
        metrics.units(&Gauges { waiting, released: 3, ..Gauges::default() }, |_| true);
        let text = text(&metrics);
        let labels = r#"namespace="team",priority="1000-999999",queue="q""#;
        let waiting = r#"namespace="team",queue="q",reason="InsufficientQuota""#;
        for line in [
            format!(r#"frameworkcontroller_queue_wait_seconds_bucket{{{labels},le="1"}} 0"#),
            format!(r#"frameworkcontroller_queue_wait_seconds_bucket{{{labels},le="2.5"}} 2"#),
            format!("frameworkcontroller_queue_wait_seconds_sum{{{labels}}} 4"),
            r#"frameworkcontroller_queue_decisions_total{reason="Admitted"} 2"#.to_owned(),
            r#"frameworkcontroller_queue_decisions_total{reason="InsufficientQuota"} 1"#.to_owned(),
            format!("frameworkcontroller_queue_units_waiting{{{waiting}}} 7"),
            "frameworkcontroller_queue_units_released 3".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn every_priority_has_a_band() {
        let bands = [i32::MIN, -1, 0, 1, 999, 1000, 999_999, 1_000_000, 2_000_001_000].map(band);
        let (low, high) = ("1-999", "1000-999999");
        assert_eq!(bands, ["negative", "negative", "0", low, low, high, high, "1000000-", "1000000-"]);
    }

    #[test]
    fn units_of_queues_beyond_the_bound_are_shown_together() {
        let metrics = Metrics::new();
        let of = |queue: usize| ((Key::new("team", &format!("q{queue:03}")), "Waiting"), 1);
        // They are added up, and a second look replaces the first.
        for _ in 0..2 {
            let waiting = (0..QUEUES + 3).map(of).collect();
            metrics.units(&Gauges { waiting, without_queue: [("Waiting", 4)].into(), released: 0 }, |_| true);
        }
        let text = text(&metrics);
        let series = text.lines().filter(|line| line.starts_with("frameworkcontroller_queue_units_waiting{"));
        assert_eq!(series.count(), QUEUES + 1);
        let others = r#"_waiting{namespace="_others",queue="_others",reason="Waiting"} 7"#;
        assert!(text.contains(others), "{text}");
    }

    #[test]
    fn a_queue_that_is_gone_leaves_its_series_to_another_one() {
        let metrics = Metrics::new();
        for priority in [-1, 0, 1, 1000] {
            metrics.unit_decided(Reason::Admitted, Some(&wait("stays", priority)));
        }
        for round in 0..2 {
            for queue in 1..QUEUES {
                metrics.unit_decided(Reason::Admitted, Some(&wait(&format!("q{round}-{queue}"), -1)));
            }
            assert!(!text(&metrics).contains(r#"queue="_others""#), "each Queue has series of its own");
            metrics.units(&Gauges::default(), |queue| *queue.name == *"stays");
        }
        let text = text(&metrics);
        let series = text.lines().filter(|line| line.starts_with("frameworkcontroller_queue_wait_seconds_"));
        let series: Vec<&str> = series.collect();
        assert_eq!(series.len(), 4 * 16);
        assert!(series.iter().all(|line| line.contains(r#"queue="stays""#)), "{text}");
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let metrics = Metrics::new();
        for queue in 0..2 * QUEUES {
            for priority in [-1, 0, 1, 1000, 1_000_000] {
                metrics.unit_decided(Reason::Admitted, Some(&wait(&format!("q{queue}"), priority)));
            }
        }
        let text = text(&metrics);
        let series = text.lines().filter(|line| line.starts_with("frameworkcontroller_queue_wait_seconds_"));
        assert_eq!(series.count(), 5 * 16 * (QUEUES + 1));
        let others = r#"_count{namespace="_others",priority="0",queue="_others"} 100"#;
        assert!(text.contains(others), "{text}");
    }
}
