//! The requests that end jobs, on their way.

use std::sync::Arc;

use framework_api::Time;
use framework_api::job_kind::JobKindRow;

use crate::consumer::ConsumerKey;
use crate::job_lifetime::DeadlineCondition;

/// The purpose of a request on its way.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// Deletes a job of that kind that was due then. By the time of the reply, it may be gone.
    Delete(Arc<JobKindRow>, Time),
    /// Reads its JobSet.
    Look,
    /// Ends its JobSet.
    FailChild(DeadlineCondition),
    /// Ends the job itself.
    FailJob,
}

/// A request on its way.
#[derive(Debug)]
pub struct JobRequest {
    /// The job.
    pub job: ConsumerKey,
    /// Its UID.
    pub uid: Arc<str>,
    /// Its purpose.
    pub purpose: Purpose,
}
