//! A create that was sent, and what came of it.

use jiff::Timestamp;

/// A create that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// For which instance; a create for another one never stands for this one.
    pub instance: Instance,
    /// What came of it.
    pub outcome: Outcome,
}

/// Which instance a create is for: names are used again, instances never.
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

/// What came of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No reply yet, or its outcome is unknown: the object may appear at any time.
    InFlight,
    /// Created, with this UID.
    Acknowledged {
        /// `metadata.uid` of the object.
        uid: String,
    },
    /// Not created, and no object of ours has that name.
    Refused {
        /// Whether, and how, that ends the attempt.
        refusal: Refusal,
        /// The API server's message.
        message: String,
        /// When a transient refusal is tried again.
        retry_at: Timestamp,
    },
}

/// Why a create was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// May pass: it is tried again.
    Transient,
    /// The name is taken by an object that is not ours: it is tried again, the holder is never deleted.
    NameConflict,
    /// The Pod is invalid or too large: PodCreationPermanentError.
    Permanent,
    /// Forbidden, or a bad request: PodCreationUnknownError.
    Unknown,
}
