//! The settings that decisions depend on.

use framework_api::config::{Config, LogObjectSnapshot};

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

/// The smallest limit of unrecorded creates of a Framework: a crash may lose this many Pods.
const LEAST_UNRECORDED: usize = 64;

impl Policy {
    /// The settings without a config file, with this classifier.
    pub fn new(classifier: Classifier) -> Self {
        Policy::of(&Config::default(), classifier)
    }

    /// The settings of a config file, with the classifier of its rules.
    pub fn of(config: &Config, classifier: Classifier) -> Self {
        let [min_delay, max_delay] = [
            config.framework_min_retry_delay_sec_for_transient_conflict_failed,
            config.framework_max_retry_delay_sec_for_transient_conflict_failed,
        ];
        Policy {
            classifier,
            object_local_cache_creation_timeout_sec: signed(config.object_local_cache_creation_timeout_sec),
            min_conflict_retry_delay_sec: signed(min_delay),
            max_conflict_retry_delay_sec: signed(max_delay),
            retry_backoff: Backoff {
                short_run_sec: signed(config.retry_backoff_short_run_sec),
                max_delay_sec: signed(config.retry_backoff_max_delay_sec),
            },
            framework_completed_retain_sec: signed(config.framework_completed_retain_sec),
            // The creates of two seconds. Casts saturate.
            expectations_limit: LEAST_UNRECORDED.max((2.0 * config.kube_client_qps) as usize),
            size: SizeLimits::default(),
            log_object_snapshot: config.log_object_snapshot,
            queueing: config.queueing,
            defects: Defects::NONE,
        }
    }
}

fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
