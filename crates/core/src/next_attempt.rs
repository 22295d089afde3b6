//! The step after a completed attempt: another attempt, now or later, or the end of the Framework.

use framework_api::status::FrameworkAttemptCompletionStatus;
use framework_api::{FrameworkStatus, State, Time};

use crate::event_reason::EventReason;
use crate::framework::{Step, describe, is_stopped, new_attempt, transition};
use crate::lifetime;
use crate::plan::Report;
use crate::retry::{self, Decision};

impl Step<'_> {
    /// AttemptCompleted: completes, or retries, now or later, once that is `persisted`.
    pub(crate) fn decide(&self, next: &mut FrameworkStatus, persisted: bool, reports: &mut Vec<Report>) {
        let Some(end) = next.attempt_status.completion_status.clone() else {
            return self.complete(next, reports);
        };
        let decision = retry::decide(
            self.o.framework.spec.retry_policy,
            next.retry_policy_status,
            end.code,
            &end.r#type,
        );
        match (next.retry_policy_status.retry_delay_sec, decision) {
            (None, Decision::Stop) => self.complete(next, reports),
            _ if !persisted => {}
            // A `Date` of the API server decides whether another attempt may begin.
            (_, Decision::Retry { .. }) if !self.is_over() && lifetime::may_be_over(self.o, self.m) => {}
            (None, Decision::Retry { accountable, conflict }) => {
                let (least, most) =
                    (self.policy.min_conflict_retry_delay_sec, self.policy.max_conflict_retry_delay_sec);
                let random = if conflict { retry::random_delay(least, most, self.m.seed) } else { 0 };
                let delay = random.max(self.backoff_delay(next));
                if delay > 0 && !is_stopped(self.o) && !self.is_over() {
                    reports.push(Report::normal(
                        EventReason::RetryDelayed,
                        format!(
                            "attempt {} ended as {}; the next starts in {delay} s",
                            next.attempt_status.id, end.phrase
                        ),
                    ));
                    next.retry_policy_status.retry_delay_sec = Some(delay);
                } else {
                    self.retry(next, accountable, &end, reports);
                }
            }
            // The retry was decided before: only its time, or a Stop, is awaited.
            (Some(_), decision)
                if is_stopped(self.o) || self.is_over() || self.m.time() >= retry_due(next) =>
            {
                let accountable = !matches!(decision, Decision::Retry { accountable: false, .. });
                self.retry(next, accountable, &end, reports);
            }
            (Some(_), _) => {}
        }
    }

    /// The delay because the attempt, and those before it, ended soon after their start.
    fn backoff_delay(&self, status: &FrameworkStatus) -> i64 {
        let (run, completed) = ran(status);
        self.policy.retry_backoff.delay(status.retry_policy_status, run, completed)
    }

    fn retry(
        &self,
        next: &mut FrameworkStatus,
        accountable: bool,
        end: &FrameworkAttemptCompletionStatus,
        reports: &mut Vec<Report>,
    ) {
        if !self.is_over() {
            reports.push(Report::normal(
                EventReason::Retrying,
                format!(
                    "attempt {} ended as {} ({}); another follows",
                    next.attempt_status.id, end.phrase, end.code
                ),
            ));
        }
        let (backoff, retried) = (self.policy.retry_backoff, next.retry_policy_status);
        let (run, completed) = ran(next);
        next.retry_policy_status = backoff.retried(retried, accountable, run, completed);
        let id = next.retry_policy_status.total_retried_count;
        next.attempt_status = new_attempt(id, Some(next), self.o, self.m, self.policy);
        transition(next, State::AttemptCreationPending, self.m.time());
        if is_stopped(self.o) {
            self.stop(next);
        } else if self.is_over() {
            self.end_late(next, reports);
        }
    }

    fn complete(&self, next: &mut FrameworkStatus, reports: &mut Vec<Report>) {
        let at = self.m.time();
        next.completion_time = Some(at);
        next.retry_policy_status.retry_delay_sec = None;
        transition(next, State::Completed, at);
        let Some(end) = &next.attempt_status.completion_status else { return };
        let note = describe(end);
        reports.push(if end.r#type.is_failed() {
            Report::warning(EventReason::Failed, note)
        } else {
            Report::normal(EventReason::Succeeded, note)
        });
    }
}

/// When the attempt began to run, if ever, and when it was over.
fn ran(status: &FrameworkStatus) -> (Option<Time>, Time) {
    let attempt = &status.attempt_status;
    (attempt.run_time, attempt.completion_time.unwrap_or(status.transition_time))
}

/// When a decided retry starts.
pub(crate) fn retry_due(status: &FrameworkStatus) -> Time {
    retry::due(status.attempt_status.completion_time, status.transition_time, status.retry_policy_status)
}
