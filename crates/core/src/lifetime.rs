//! How long a Framework may be active, and how long it is kept once it has finished.
//!
//! Both ends are sums of a timestamp and a number of seconds in the object, so nothing has to be
//! remembered. Only a `Date` of the API server proves that an end has come (rule A8). A `Date` is truncated
//! to whole seconds, as the timestamps are. So a `Date` that is not before the end is proof, and no end
//! comes early.

use framework_api::code::{Code, DEADLINE_EXCEEDED};
use framework_api::status::FrameworkAttemptCompletionStatus;
use framework_api::{Framework, FrameworkStatus, State, Time};

use crate::observed::{Moment, Observed, Policy};
use crate::plan::Report;

/// Reason of the Event about a Framework that is deleted soon after its end.
pub const SHORT_TTL: &str = "ShortTTLSecondsAfterFinished";
/// Reason of the Event about a Framework whose deletion failed.
pub const DELETION_FAILED: &str = "DeletionFailed";
/// Below this many seconds, a finished Framework may be deleted before its user has read it.
const SHORT_SEC: i32 = 60;

/// When a completed Framework is to be deleted, and by which of the two settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The earlier of the two.
    pub due: Time,
    /// Whether `ttlSecondsAfterFinished` decides rather than the retention of all Frameworks.
    pub by_ttl: bool,
}

/// When the Framework is ended as failed: `activeDeadlineSeconds` after its creation.
pub fn deadline(framework: &Framework) -> Option<Time> {
    let seconds = framework.spec.active_deadline_seconds?;
    let created = framework.metadata.creation_timestamp.as_ref()?;
    Some(Time::floor(created.0).plus_seconds(seconds))
}

/// When a Framework that completed is deleted; `None`: it has not completed.
pub fn expiry(framework: &Framework, status: &FrameworkStatus, policy: &Policy) -> Option<Expiry> {
    if status.state != State::Completed {
        return None;
    }
    let completed = status.completion_time.unwrap_or(status.transition_time);
    let kept = completed.plus_seconds(policy.framework_completed_retain_sec);
    let ttl = framework.spec.ttl_seconds_after_finished.map(|seconds| completed.plus_seconds(seconds.into()));
    Some(match ttl {
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
    Some(Report::warning(SHORT_TTL, note))
}
