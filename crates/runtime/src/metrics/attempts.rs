//! Metrics of attempts: their ends, and retries.

use prometheus::IntCounterVec;

use framework_engine::outcomes::{Attempt, End, Outcomes};

use super::maker::Maker;

#[derive(Debug)]
pub struct Attempts {
    completed: IntCounterVec,
    retries: IntCounterVec,
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
        };
        for attempt in Attempt::ALL {
            attempts.retries.with_label_values(&[kind(attempt)]);
            for end in End::ALL {
                attempts.completed.with_label_values(&[kind(attempt), &format!("{end:?}")]);
            }
        }
        attempts
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
