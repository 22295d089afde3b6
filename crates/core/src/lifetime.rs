//! How long a job may be active, and how long it is kept once it has finished: a Framework, or a job of
//! another kind.
//!
//! Both ends are sums of a timestamp and a number of seconds in the object, so nothing has to be
//! remembered. Only a `Date` of the API server proves that an end has come (rule A8). A `Date` is truncated
//! to whole seconds, as the timestamps are. So a `Date` that is not before the end is proof, and no end
//! comes early.

use framework_api::code::{Code, DEADLINE_EXCEEDED};
use framework_api::status::FrameworkAttemptCompletionStatus;
use framework_api::{Framework, FrameworkStatus, State, Time};

use crate::event_reason::EventReason;
use crate::observed::{Moment, Observed, Policy};
use crate::plan::Report;

/// Below this many seconds, a finished job may be deleted before its user has read it.
pub const SHORT_SEC: i32 = 60;

/// When a completed Framework is to be deleted, and by which of the two settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The earlier of the two.
    pub due: Time,
    /// Whether `ttlSecondsAfterFinished` decides rather than the retention of all Frameworks.
    pub by_ttl: bool,
}

/// The four facts on which both ends depend, of a job of any kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// When the job was created.
    pub created: Option<Time>,
    /// The seconds from its creation after which it is ended as failed; `None`: it may run for ever.
    pub deadline: Option<i64>,
    /// When it finished; `None`: it has not.
    pub finished: Option<Time>,
    /// The seconds from then on after which it is deleted; `None`: it is kept.
    pub ttl: Option<i64>,
}

/// The next end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It is ended as failed.
    Deadline(Time),
    /// It is deleted.
    Expiry(Time),
}

impl End {
    /// When it comes.
    pub fn due(self) -> Time {
        let (End::Deadline(due) | End::Expiry(due)) = self;
        due
    }
}

impl Lifetime {
    /// When the job is ended as failed, unless it has finished before.
    pub fn deadline(&self) -> Option<Time> {
        Some(self.created?.plus_seconds(self.deadline?))
    }

    /// When the job is deleted by its TTL; `None`: never, or it has not finished.
    pub fn expiry(&self) -> Option<Time> {
        Some(self.finished?.plus_seconds(self.ttl?))
    }

    /// The end that comes next. A deadline ends only a job that has not finished.
    pub fn next(&self) -> Option<End> {
        match self.finished {
            None => self.deadline().map(End::Deadline),
            Some(_) => self.expiry().map(End::Expiry),
        }
    }

    fn of(framework: &Framework, finished: Option<Time>) -> Self {
        Lifetime {
            created: framework.metadata.creation_timestamp.as_ref().map(|at| Time::floor(at.0)),
            deadline: framework.spec.active_deadline_seconds,
            finished,
            ttl: framework.spec.ttl_seconds_after_finished.map(i64::from),
        }
    }
}

/// When the Framework is ended as failed: `activeDeadlineSeconds` after its creation.
pub fn deadline(framework: &Framework) -> Option<Time> {
    Lifetime::of(framework, None).deadline()
}

/// When a Framework that completed is deleted; `None`: it has not completed.
pub fn expiry(framework: &Framework, status: &FrameworkStatus, policy: &Policy) -> Option<Expiry> {
    if status.state != State::Completed {
        return None;
    }
    let completed = status.completion_time.unwrap_or(status.transition_time);
    let kept = completed.plus_seconds(policy.framework_completed_retain_sec);
    Some(match Lifetime::of(framework, Some(completed)).expiry() {
        Some(due) if due <= kept => Expiry { due, by_ttl: true },
        _ => Expiry { due: kept, by_ttl: false },
    })
}

/// Whether the deadline has passed on the API server's clock.
pub(crate) fn is_over(o: &Observed<'_>, m: &Moment) -> bool {
    let Some(due) = deadline(o.framework) else { return false };
    m.server.max(o.server_date).is_some_and(|server| server >= due)
}

/// Whether the deadline may have passed: nothing new begins until a `Date` of the API server decides.
pub(crate) fn may_be_over(o: &Observed<'_>, m: &Moment) -> bool {
    deadline(o.framework).is_some_and(|due| m.time() >= due)
}

/// The completion status of an attempt that the deadline ended.
pub(crate) fn exceeded(o: &Observed<'_>) -> FrameworkAttemptCompletionStatus {
    let code = Code::ActiveDeadlineExceeded;
    let (seconds, due) = (o.framework.spec.active_deadline_seconds, deadline(o.framework));
    let seconds = seconds.map_or_else(String::new, |seconds| seconds.to_string());
    let due = due.map_or_else(String::new, |due| due.to_string());
    let text = format!(
        "{phrase}: {DEADLINE_EXCEEDED}: activeDeadlineSeconds is {seconds}, and ended at {due}, counted from \
         the creation of the Framework",
        phrase = code.phrase(),
    );
    FrameworkAttemptCompletionStatus::predefined(code, &text)
}

/// The warning about a Framework that is seen for the first time.
pub(crate) fn warning(framework: &Framework) -> Option<Report> {
    let seconds = framework.spec.ttl_seconds_after_finished.filter(|seconds| *seconds < SHORT_SEC)?;
    let note = format!(
        "spec.ttlSecondsAfterFinished is {seconds}: the Framework is deleted so many seconds after it \
         completed, maybe before anyone has read its status; {SHORT_SEC} or more leaves time for that"
    );
    Some(Report::warning(EventReason::ShortTTLSecondsAfterFinished, note))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time::floor(jiff::Timestamp::from_second(second).unwrap())
    }

    fn lifetime(deadline: Option<i64>, finished: Option<i64>, ttl: Option<i64>) -> Lifetime {
        Lifetime { created: Some(at(100)), deadline, finished: finished.map(at), ttl }
    }

    #[test]
    fn a_job_ends_by_its_deadline_until_it_finishes_and_by_its_ttl_then() {
        for (deadline, finished, ttl, expected) in [
            (None, None, None, None),
            (None, None, Some(0), None),
            (Some(50), None, Some(0), Some(End::Deadline(at(150)))),
            (Some(50), Some(120), None, None),
            (Some(50), Some(120), Some(30), Some(End::Expiry(at(150)))),
            (None, Some(120), Some(0), Some(End::Expiry(at(120)))),
            (Some(50), Some(150), Some(10), Some(End::Expiry(at(160)))),
        ] {
            let found = lifetime(deadline, finished, ttl).next();
            assert_eq!(found, expected, "{deadline:?} {finished:?} {ttl:?}");
            assert_eq!(found.map(End::due), expected.map(End::due));
        }
        let unborn = Lifetime { created: None, ..lifetime(Some(50), None, None) };
        assert_eq!(unborn.next(), None, "no deadline without a creation");
    }
}
