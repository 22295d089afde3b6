//! The settings that decisions depend on.

use framework_api::config::LogObjectSnapshot;

use crate::classify::Classifier;
use crate::defect::Defects;
use crate::retry::Backoff;
use crate::size_limits::SizeLimits;

/// The settings that decisions depend on.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How failed Pods are classified.
    pub classifier: Classifier,
    /// How long a created object may be missing in the cache before it counts as deleted.
    pub object_local_cache_creation_timeout_sec: i64,
    /// Least random delay of a retry after a transient conflict, Frameworks only.
    pub min_conflict_retry_delay_sec: i64,
    /// Greatest random delay of a retry after a transient conflict, Frameworks only.
    pub max_conflict_retry_delay_sec: i64,
    /// Delays of retries after attempts that ended at once.
    pub retry_backoff: Backoff,
    /// How long a completed Framework is kept.
    pub framework_completed_retain_sec: i64,
    /// The number of Pods of a Framework that may exist, or be in flight, without being recorded (rule A7).
    pub expectations_limit: usize,
    /// The size limits of an object.
    pub size: SizeLimits,
    /// The history snapshots that are written.
    pub log_object_snapshot: LogObjectSnapshot,
    /// Whether a Framework that names a queue waits to be released from it.
    pub queueing: bool,
    /// Rules that are switched off, to show that the checks detect their absence.
    pub defects: Defects,
}

impl Policy {
    /// The contract's defaults, with this classifier.
    pub fn new(classifier: Classifier) -> Self {
        Policy {
            classifier,
            object_local_cache_creation_timeout_sec: 300,
            min_conflict_retry_delay_sec: 60,
            max_conflict_retry_delay_sec: 900,
            retry_backoff: Backoff::default(),
            framework_completed_retain_sec: 30 * 24 * 3600,
            expectations_limit: 64,
            size: SizeLimits::default(),
            log_object_snapshot: LogObjectSnapshot::default(),
            queueing: false,
            defects: Defects::NONE,
        }
    }
}
