//! The outcomes of the requests that end a job.

use std::sync::Arc;
use std::time::Duration;

use framework_core::EventReason;
use framework_core::plan::Report;
use framework_message::backoff::Failures;
use framework_message::{Now, Rejection, Ticket};
use jiff::Timestamp;
use tracing::debug;

use super::JobLifetimes;
use super::job_request::{JobRequest, Purpose};
use super::state::{Child, State};
use crate::consumer::ConsumerKey;
use crate::effect::{LifetimeMeasure, QueueEffect};
use crate::job_lifetime::ChildEnd;
use crate::object::{Object, Reply};

/// The delay before an accepted deletion is repeated.
const RETIRED: Duration = Duration::from_secs(60);
/// How long the operator has to copy the end of the JobSet to its TrainJob.
const COPIES: Duration = Duration::from_secs(1);
/// How long the operator has to report a JobSet that ended by itself.
const REPORTS: Duration = Duration::from_secs(60);

impl JobLifetimes {
    /// Takes in the outcome of a request, at the API server's `time`.
    pub fn replied(&mut self, now: Now, time: Timestamp, ticket: Ticket, reply: Reply) {
        let may_land = matches!(reply, Reply::Unknown(_)).then(|| now.steady + self.request_lifetime);
        let Some(JobRequest { job, uid, purpose }) = self.sent.ended(ticket, may_land) else { return };
        if let (Purpose::Delete(row, due), Reply::Done) = (&purpose, &reply) {
            let late = Duration::try_from(time.duration_since(due.timestamp())).unwrap_or_default();
            self.effects.push(QueueEffect::Lifetime {
                row: Arc::clone(row),
                job: job.key.clone(),
                uid: Arc::clone(&uid),
                report: None,
                measure: Some(LifetimeMeasure::TtlDeletion { late }),
            });
        }
        let Some(state) = self.states.get_mut(&job).filter(|state| state.uid == uid) else { return };
        state.busy = false;
        let jitter = ticket.0;
        let pause = match (&purpose, reply) {
            (Purpose::Look, Reply::Object(Object::Child(child))) => {
                let is_ours = child.controller.as_ref() == Some(&uid);
                (state.child, state.not_before) = match child.end.clone() {
                    _ if !is_ours => (Child::Absent, state.not_before),
                    ChildEnd::None => (Child::Runs(child), state.not_before),
                    ChildEnd::Deadline(condition) => (Child::Failed(condition), state.not_before),
                    ChildEnd::Other => (Child::Unknown, now.steady + REPORTS),
                };
                None
            }
            (Purpose::Look, Reply::Refused(Rejection { code: 404, .. })) => {
                state.child = Child::Absent;
                None
            }
            (Purpose::FailChild(condition), Reply::Done) => {
                state.child = Child::Failed(condition.clone());
                state.failures = Failures::default();
                self.exceeded(&job, &uid);
                Some(COPIES)
            }
            (Purpose::FailJob, Reply::Done) => {
                self.job_failed(now, &job, &uid, jitter);
                return;
            }
            (Purpose::Delete(..), Reply::Done) => {
                state.failures = Failures::default();
                Some(RETIRED)
            }
            (purpose, reply) => {
                let (pause, report) = failed(purpose, reply, state, jitter);
                report.into_iter().for_each(|report| self.say(&job, &uid, Some(report), None));
                Some(pause)
            }
        };
        self.again(now, &job, pause);
    }

    /// The API server stored that a job failed by its deadline. The watch shows it, unless its operator
    /// removes the condition again, as some versions do.
    fn job_failed(&mut self, now: Now, job: &ConsumerKey, uid: &Arc<str>, jitter: u64) {
        self.exceeded(job, uid);
        let Some(state) = self.states.get_mut(job) else { return };
        let had_child = !matches!(state.child, Child::Absent);
        state.child = Child::Unknown;
        let pause = state.failures.delay(true, jitter);
        if !had_child {
            self.confirm_later(now, job);
        }
        self.again(now, job, Some(pause));
    }

    /// A job sends its next request after a pause, if it needs one.
    fn again(&mut self, now: Now, job: &ConsumerKey, pause: Option<Duration>) {
        let Some(state) = self.states.get_mut(job) else { return };
        if let Some(pause) = pause {
            state.not_before = now.steady + pause;
        }
        self.ready.offer(&job.key.namespace, job.clone());
    }

    /// Counts a deadline once.
    fn exceeded(&mut self, job: &ConsumerKey, uid: &Arc<str>) {
        let Some(state) = self.states.get_mut(job) else { return };
        if !std::mem::replace(&mut state.counted, true) {
            let note = "the TrainJob ran past its activeDeadlineSeconds, and its Pods end".to_owned();
            let report = Report::warning(EventReason::DeadlineExceeded, note);
            self.say(job, uid, Some(report), Some(LifetimeMeasure::DeadlineExceeded));
        }
    }

    fn say(
        &mut self,
        key: &ConsumerKey,
        uid: &Arc<str>,
        report: Option<Report>,
        measure: Option<LifetimeMeasure>,
    ) {
        let Some(row) = self.job(key).map(|job| Arc::clone(&job.row)) else { return };
        let (job, uid) = (key.key.clone(), Arc::clone(uid));
        self.effects.push(QueueEffect::Lifetime { row, job, uid, report, measure });
    }
}

/// A request had no effect, or it is not known. Returns the pause after it, and the Event.
fn failed(purpose: &Purpose, reply: Reply, state: &mut State, jitter: u64) -> (Duration, Option<Report>) {
    debug!(?purpose, ?reply, "a request that ends a job failed");
    // The JobSet may be another one by now, or have ended.
    state.child = Child::Unknown;
    let pause = state.failures.delay_after(&reply, jitter);
    let Reply::Refused(Rejection { code, message, .. }) = reply else { return (pause, None) };
    // Gone, or decided from an older version: the watch shows the newer one.
    if code == 404 || code == 409 {
        return (pause, None);
    }
    let (reason, what) = match purpose {
        Purpose::Delete(..) => (EventReason::DeletionFailed, "let the expired TrainJob be deleted"),
        _ => (EventReason::DeadlineNotEnforced, "let the TrainJob be ended at its deadline"),
    };
    let wait = pause.as_secs().max(1);
    let note =
        format!("the API server does not {what}, which is tried again in {wait} s: {message} ({code})");
    (pause, Some(Report::warning(reason, note)))
}
