//! A create that was sent, and its outcome.

use std::sync::Arc;

use jiff::Timestamp;

/// A create that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// The instance that it creates; a create of another instance never counts for this one.
    pub instance: Instance,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The instance that a create is for: names are used again, instances never.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instance {
    /// An attempt of the Framework.
    FrameworkAttempt {
        /// Its id.
        attempt_id: i32,
    },
    /// An attempt of a Task in an attempt of its Framework.
    TaskAttempt {
        /// UID of the ConfigMap that stands for the Framework's attempt.
        config_map_uid: String,
        /// Instance UID of the Task.
        task_uid: String,
        /// Id of the Task's attempt.
        attempt_id: i32,
    },
}

/// The outcome of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is no reply yet, or it is unknown: the object may appear at any time.
    InFlight,
    /// Created, with this UID.
    Acknowledged {
        /// `metadata.uid` of the object.
        uid: String,
    },
    /// It was not created, and no object of ours has that name.
    Refused {
        /// Whether, and how, that ends the attempt.
        refusal: Refusal,
        /// The API server's message. The creates of a TaskRole that are refused for now share it.
        message: Arc<str>,
        /// When a transient refusal is tried again.
        retry_at: Timestamp,
    },
}

impl Outcome {
    /// Whether the create made the object with this UID, or may turn out to have.
    pub fn may_have_made(&self, made: &str) -> bool {
        match self {
            Outcome::InFlight => true,
            Outcome::Acknowledged { uid } => uid == made,
            Outcome::Refused { .. } => false,
        }
    }
}

/// Why a create was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The reason may pass: the create is tried again.
    Transient,
    /// An object that is not ours has the name. The create is tried again; that object is never deleted.
    NameConflict,
    /// The Pod is invalid or too large: PodCreationPermanentError.
    Permanent,
    /// Forbidden, or a bad request: PodCreationUnknownError.
    Unknown,
}
