//! What the core answers: a status to persist, permitted acts, when to look again, and what to report.

use framework_api::{FrameworkStatus, Time};
use jiff::Timestamp;

use crate::observed::Instance;
use crate::snapshot::Snapshot;

/// The next step of one Framework.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The status to write, if it differs from the persisted one.
    pub persist: Option<Box<FrameworkStatus>>,
    /// How soon `persist` is to be written.
    pub urgency: Urgency,
    /// What to do; each act is permitted by the persisted status.
    pub act: Vec<Action>,
    /// When to evaluate again though nothing happens.
    pub wake: Option<Timestamp>,
    /// From when on something is due that a `Date` of the API server alone proves (rule A8): as soon as it
    /// may be so late there, one is to be fetched, and then the Framework evaluated again.
    pub proof_due: Option<Time>,
    /// What users should hear of, once `persist` is written (at once if there is none).
    pub report: Vec<Report>,
    /// What `persist` replaces for ever: to be told before that is written.
    pub snapshots: Vec<Snapshot>,
}

impl Plan {
    /// Asks to be woken at `at`, or earlier.
    pub(crate) fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

/// How soon a status is to be written. Whatever changes until then goes out in the same write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing waits for it: it records what was seen.
    #[default]
    Record,
    /// An act waits for it, and further Tasks are likely to join.
    Gather,
    /// An act waits for it, and nothing is likely to join.
    Now,
}

/// Something to be done to an object other than the Framework's status.
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
    /// Delete a ConfigMap, by UID, leaving nothing to the garbage collector.
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

/// Something that users should hear of: an Event, and a line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether something went wrong.
    pub warning: bool,
    /// One word in CamelCase, from a closed set.
    pub reason: &'static str,
    /// A sentence.
    pub note: String,
}

impl Report {
    /// Reports progress.
    pub fn normal(reason: &'static str, note: String) -> Self {
        Report { warning: false, reason, note }
    }

    /// Reports trouble.
    pub fn warning(reason: &'static str, note: String) -> Self {
        Report { warning: true, reason, note }
    }
}
