//! Metrics of attempts: their ends, retries, and the time until a Framework first runs.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::{Histogram, IntCounterVec};

use framework_engine::outcomes::{Attempt, AttemptEnd, Outcomes};

use super::maker::{Maker, OTHERS};

/// In seconds: a status has whole ones, and a queue may take days.
const RUNNING_BUCKETS: [f64; 11] =
    [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0, 86_400.0];

/// The number of phrases with series of their own. A podFailureSpec may have more; all others share one.
const PHRASES: usize = 200;

#[derive(Debug)]
pub struct AttemptMetrics {
    completed: IntCounterVec,
    phrases: IntCounterVec,
    /// The phrases that have series of their own.
    known: Mutex<BTreeSet<String>>,
    retries: IntCounterVec,
    running: Histogram,
}

impl AttemptMetrics {
    /// Every series is there from the start, so that the first failure shows in a rate.
    pub fn new(maker: &Maker) -> Self {
        let attempts = AttemptMetrics {
            completed: maker.counters(
                "attempts_completed_total",
                "Attempts whose end was stored, by kind and type.",
                &["kind", "type"],
            ),
            phrases: maker.counters(
                "attempt_phrases_total",
                "Attempts whose end was stored, by kind, type and the phrase of their completion status.",
                &["kind", "type", "phrase"],
            ),
            known: Mutex::default(),
            retries: maker.counters("retries_total", "Retries that were stored.", &["kind"]),
            running: maker.histogram(
                "creation_to_running_seconds",
                "Time from the creation of a Framework until a Task of it first ran.",
                &RUNNING_BUCKETS,
            ),
        };
        for attempt in Attempt::ALL {
            attempts.retries.with_label_values(&[kind(attempt)]);
            for end in AttemptEnd::ALL {
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
        for (attempt, end, phrase, count) in outcomes.ended() {
            let (kind, end) = (kind(attempt), format!("{end:?}"));
            self.completed.with_label_values(&[kind, &end]).inc_by(count);
            self.phrases.with_label_values(&[kind, &end, self.phrase(phrase)]).inc_by(count);
        }
        for (attempt, count) in outcomes.retried() {
            self.retries.with_label_values(&[kind(attempt)]).inc_by(count);
        }
    }

    /// The label of a phrase.
    fn phrase<'a>(&self, phrase: &'a str) -> &'a str {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(phrase) {
            return phrase;
        }
        if known.len() == PHRASES {
            return OTHERS;
        }
        known.insert(phrase.to_owned());
        phrase
    }
}

fn kind(attempt: Attempt) -> &'static str {
    match attempt {
        Attempt::Framework => "Framework",
        Attempt::Task => "Task",
    }
}
