//! The kept facts of one job, and the state of its next end.

use std::sync::Arc;
use std::time::Duration;

use framework_api::Time;
use framework_api::job_kind::JobKindRow;
use framework_message::Key;
use framework_message::backoff::Failures;

use crate::job_lifetime::{ChildObject, DeadlineCondition, JobLifetime};
use crate::object::DeclaredObject;
use crate::store::Stored;

/// The kept facts of a job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// Its kind.
    pub row: Arc<JobKindRow>,
    /// When it ends.
    pub lifetime: Option<JobLifetime>,
}

impl Stored for Job {
    fn key(&self) -> &Key {
        &self.key
    }

    fn version(&self) -> u128 {
        self.resource_version
    }
}

impl From<DeclaredObject> for Job {
    fn from(DeclaredObject { job, row, lifetime, .. }: DeclaredObject) -> Self {
        let (uid, resource_version) = (job.uid, job.resource_version);
        Job { key: job.key, uid, resource_version, deleting: job.deleting, row, lifetime }
    }
}

/// The knowledge about the JobSet of a TrainJob.
#[derive(Debug)]
pub enum Child {
    /// It has to be read.
    Unknown,
    /// There is none, or it is another one's.
    Absent,
    /// It has not ended.
    Runs(ChildObject),
    /// It failed by the deadline.
    Failed(DeadlineCondition),
}

/// The state of the next end of one job.
#[derive(Debug)]
pub struct State {
    /// Of the job.
    pub uid: Arc<str>,
    /// When its next end comes.
    pub due: Option<Time>,
    /// The latest `Date` that was waited for.
    pub shown: Option<Time>,
    /// Whether a request is on its way.
    pub busy: bool,
    /// Failures in a row.
    pub failures: Failures,
    /// Nothing is sent before.
    pub not_before: Duration,
    /// Its JobSet.
    pub child: Child,
    /// When, on the monotonic clock, the JobSet is read once more, though the job has failed.
    pub confirms: Option<Duration>,
    /// Whether the deadline was counted.
    pub counted: bool,
}

impl State {
    /// Nothing is known of it.
    pub fn new(uid: &Arc<str>) -> Self {
        State {
            uid: Arc::clone(uid),
            due: None,
            shown: None,
            busy: false,
            failures: Failures::default(),
            not_before: Duration::ZERO,
            child: Child::Unknown,
            confirms: None,
            counted: false,
        }
    }

    /// Whether a `Date` has shown that this time has come.
    pub fn is_proved(&self, due: Time) -> bool {
        self.shown.is_some_and(|shown| shown >= due)
    }
}
