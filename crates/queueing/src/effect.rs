//! The effects of the queues that are not requests.

use std::sync::Arc;
use std::time::Duration;

use framework_api::job_kind::JobKindRow;
use framework_api::queue::Reason;
use framework_core::observed::Admission;
use framework_core::plan::Report;
use framework_message::Key;

use crate::consumer::NamedKind;

/// An effect that the caller carries out.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueEffect {
    /// A Framework may begin, or has to wait.
    Admit {
        /// Its name.
        key: Key,
        /// Its UID.
        uid: Arc<str>,
        /// Whether it may begin, or why it waits.
        admission: Admission,
    },
    /// These growths of a Framework may begin.
    AdmitGrowths {
        /// Its name.
        key: Key,
        /// Its UID.
        uid: Arc<str>,
        /// The generations of the released growths, sorted.
        growths: Vec<i64>,
    },
    /// The API server stored a new reason of a unit, or refuses its status for good: it waits then.
    StatusStored {
        /// Its name.
        unit: Key,
        /// Its UID.
        uid: Arc<str>,
        /// The new reason.
        reason: Reason,
        /// The text of an Event; `None` if there is no Event for this reason.
        note: Option<String>,
        /// How it waited, if it was released.
        waited: Option<UnitWait>,
    },
    /// A job stays suspended, or Tasks of a Framework wait, for a reason that no unit names.
    StaysSuspended {
        /// Its kind.
        kind: NamedKind,
        /// Its name.
        job: Key,
        /// Its UID.
        uid: Arc<str>,
        /// The Event.
        report: Report,
    },
    /// Something is to be said about the lifetime of a job.
    Lifetime {
        /// Its kind.
        row: Arc<JobKindRow>,
        /// Its name.
        job: Key,
        /// Its UID.
        uid: Arc<str>,
        /// The Event, if there is one.
        report: Option<Report>,
        /// The measure for metrics, if they count it.
        measure: Option<LifetimeMeasure>,
    },
}

/// The end of the lifetime of a job, as metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifetimeMeasure {
    /// The API server accepted the deletion of a job whose TTL had passed.
    TtlDeletion {
        /// The time from the expiry to that acceptance.
        late: Duration,
    },
    /// The API server stored that a job ran past its deadline.
    DeadlineExceeded,
}

/// How a unit waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitWait {
    /// In which queue.
    pub queue: Key,
    /// With which priority.
    pub priority: i32,
    /// How long, since its job was created.
    pub time: Duration,
}
