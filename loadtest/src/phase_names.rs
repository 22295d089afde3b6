//! The names of phases, and of the transitions whose latencies are measured.

use crate::partial_status::Phase;

/// The names of phases and transitions.
#[derive(Clone, Copy, Debug)]
pub struct PhaseNames {
    /// Transitions: the name, from (`None`: the creation), and to.
    pub transitions: &'static [(&'static str, Option<Phase>, Phase)],
    /// Phases whose jobs are counted.
    pub counted: &'static [(&'static str, Phase)],
    /// Phases whose latencies are plotted.
    pub timed: &'static [(&'static str, Phase)],
}

impl Default for PhaseNames {
    fn default() -> Self {
        JOBS
    }
}

/// The transition from the creation to the stored object.
pub const STORED: &str = "creation → stored";
/// The transition from the creation to the first running Task.
pub const RUNNING: &str = "creation → first Task running";
/// The transition from the creation to the end of the job.
pub const COMPLETED: &str = "creation → completed";
/// The transition from the creation to the phase Enqueued.
pub const ENQUEUED: &str = "creation → Enqueued";
/// The transition from the creation to the release.
pub const DEQUEUED: &str = "creation → Dequeued";

/// The latency from a deadline to the status that says so.
pub const DEADLINE_LATENCY: &str = "deadline → exceeded";
/// The latency from an expiry to the deletion.
pub const EXPIRY_LATENCY: &str = "expiry → deletion";

/// The names for jobs with Tasks.
pub const JOBS: PhaseNames = PhaseNames {
    transitions: &[
        (STORED, None, Phase::Stored),
        ("creation → accepted", None, Phase::Accepted),
        ("creation → preparing", None, Phase::Preparing),
        (RUNNING, None, Phase::Running),
        (COMPLETED, None, Phase::Completed),
        ("first Task running → ended", Some(Phase::Running), Phase::Ended),
        ("ended → completed", Some(Phase::Ended), Phase::Completed),
    ],
    counted: &[
        ("stored", Phase::Stored),
        ("first Task running", Phase::Running),
        ("completed", Phase::Completed),
        ("deleted", Phase::Deleted),
    ],
    timed: &[(RUNNING, Phase::Running), (COMPLETED, Phase::Completed)],
};

/// The names for QueueUnits.
pub const UNITS: PhaseNames = PhaseNames {
    transitions: &[
        (STORED, None, Phase::Stored),
        (ENQUEUED, None, Phase::Accepted),
        (DEQUEUED, None, Phase::Running),
        ("Enqueued → Dequeued", Some(Phase::Accepted), Phase::Running),
        ("Dequeued → gone", Some(Phase::Running), Phase::Deleted),
    ],
    counted: &[
        ("stored", Phase::Stored),
        ("Enqueued", Phase::Accepted),
        ("Dequeued", Phase::Running),
        ("gone", Phase::Deleted),
    ],
    timed: &[(ENQUEUED, Phase::Accepted), (DEQUEUED, Phase::Running)],
};
