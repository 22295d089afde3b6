//! Metrics of attempts: their ends, retries, and the time until a Framework first runs.

use std::time::Duration;

use prometheus::{Histogram, IntCounterVec};

use framework_engine::outcomes::{Attempt, End, Outcomes};

use super::maker::Maker;

/// In seconds: a status has whole ones, and a queue may take days.
const RUNNING_BUCKETS: [f64; 11] =
    [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0, 86_400.0];

#[derive(Debug)]
pub struct Attempts {
    completed: IntCounterVec,
    retries: IntCounterVec,
    running: Histogram,
}

impl Attempts {
    /// Every series is there from the start, so that the first failure shows in a rate.
    pub fn new(maker: &Maker) -> Self {
        let attempts = Attempts {
            completed: maker.counters(
                "attempts_completed_total",
                "Attempts whose end was stored, by kind and type.",
                &["kind", "type"],
            ),
            retries: maker.counters("retries_total", "Retries that were stored.", &["kind"]),
            running: maker.histogram(
                "creation_to_running_seconds",
                "Time from the creation of a Framework until a Task of it first ran.",
                &RUNNING_BUCKETS,
            ),
        };
        for attempt in Attempt::ALL {
            attempts.retries.with_label_values(&[kind(attempt)]);
            for end in End::ALL {
                attempts.completed.with_label_values(&[kind(attempt), &format!("{end:?}")]);
            }
        }
        attempts
    }

    /// A Framework first runs.
    pub fn runs(&self, after: Duration) {
        self.running.observe(after.as_secs_f64());
    }

    /// A stored status has these outcomes.
    pub fn ended(&self, outcomes: &Outcomes) {
        for (attempt, end, count) in outcomes.ended() {
            self.completed.with_label_values(&[kind(attempt), &format!("{end:?}")]).inc_by(count);
        }
        for (attempt, count) in outcomes.retried() {
            self.retries.with_label_values(&[kind(attempt)]).inc_by(count);
        }
    }
}

fn kind(attempt: Attempt) -> &'static str {
    match attempt {
        Attempt::Framework => "Framework",
        Attempt::Task => "Task",
    }
}
