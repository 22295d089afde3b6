//! The output of the core: a status to persist, permitted acts, the time of the next sync, and reports.

use framework_api::{FrameworkStatus, Time};
use jiff::Timestamp;

use crate::event_reason::EventReason;
use crate::observed::Instance;
use crate::snapshot::Snapshot;

/// The next step of one Framework.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The status to write, if it differs from the persisted one.
    pub persist: Option<Box<FrameworkStatus>>,
    /// How soon `persist` is to be written.
    pub urgency: Urgency,
    /// The acts; the persisted status permits each of them.
    pub act: Vec<Action>,
    /// When to sync again even if nothing happens: later than now.
    pub wake: Option<Timestamp>,
    /// When something becomes due that only a `Date` of the API server proves (rule A8). From then on, by the
    /// estimated clock of the API server, a `Date` is to be fetched and the Framework synced again.
    pub proof_due: Option<Time>,
    /// The reports for users, to be sent once `persist` is written (immediately if there is none).
    pub report: Vec<Report>,
    /// The history snapshots of the objects that `persist` replaces: to be written before it.
    pub snapshots: Vec<Snapshot>,
}

impl Plan {
    /// Requests a sync at `at`, or earlier. A time that has come by `now` is left out: the plan has all that
    /// is due by then, and that time would hide a later one.
    pub(crate) fn wake_at(&mut self, at: Timestamp, now: Timestamp) {
        if at > now {
            self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
        }
    }
}

/// How soon a status is to be written. All changes until then are part of the same write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// No act waits for it: it records facts.
    #[default]
    Record,
    /// An act waits for it, and more Tasks are likely to change soon.
    Gather,
    /// An act waits for it, and no more Tasks are likely to change soon.
    Now,
}

/// A request for an object other than the Framework's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create the ConfigMap of the current attempt.
    CreateConfigMap {
        /// The attempt.
        instance: Instance,
    },
    /// Create the Pod of a Task's current attempt.
    CreatePod {
        /// Its name.
        name: String,
        /// TaskRole of the Task.
        task_role: String,
        /// Index of the Task.
        task_index: i32,
        /// The attempt.
        instance: Instance,
    },
    /// Delete a ConfigMap, by UID, in the background: nothing is left to the garbage collector.
    DeleteConfigMap {
        /// UID precondition.
        uid: String,
    },
    /// Delete a Pod, by UID.
    DeletePod {
        /// Its name.
        name: String,
        /// UID precondition.
        uid: String,
        /// With a grace period of 0.
        force: bool,
    },
    /// Find out by a GET whether the ConfigMap with this UID still exists.
    ConfirmConfigMap {
        /// The UID looked for.
        uid: String,
    },
    /// Find out by a GET whether the Pod with this UID still exists.
    ConfirmPod {
        /// Its name.
        name: String,
        /// The UID looked for.
        uid: String,
    },
    /// Delete the Framework: foreground, by UID. It has expired.
    DeleteFramework,
}

/// A report for users: an Event, and a line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Whether it is a warning.
    pub warning: bool,
    /// The word of an [`EventReason`].
    pub reason: &'static str,
    /// A sentence.
    pub note: String,
}

impl Report {
    /// Reports progress.
    pub fn normal(reason: EventReason, note: String) -> Self {
        Report { warning: false, reason: reason.as_str(), note }
    }

    /// Reports a problem.
    pub fn warning(reason: EventReason, note: String) -> Self {
        Report { warning: true, reason: reason.as_str(), note }
    }
}
