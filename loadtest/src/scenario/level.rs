//! The service levels that a scenario can demand.

use serde::{Deserialize, Serialize};

/// A service level. The scenario gives its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// At least this write efficiency, (2n + 11) / requests.
    WriteEfficiency,
    /// At most this many refused requests.
    Refused,
    /// At most this many GETs and LISTs of the system.
    Reads,
    /// At most this many seconds from creation to the first running Task, for 99 of 100 jobs.
    RunningP99Seconds,
    /// At most this many seconds from creation to the end, for 99 of 100 jobs.
    CompletedP99Seconds,
    /// At most this many seconds from the deadline to the status DeadlineExceeded, for all jobs.
    DeadlineMaxSeconds,
    /// At most this many seconds from the expiry to the deletion, for 99 of 100 jobs.
    ExpiryP99Seconds,
    /// At least this many jobs a second.
    JobsPerSecond,
    /// At least this many Tasks a second.
    TasksPerSecond,
    /// At most this peak memory of the controller, in MiB.
    ControllerPeakMebibytes,
    /// At most this many bytes of status writes for each Task.
    StatusBytesPerTask,
    /// At most this many bytes allocated by the API server for each Task, freed memory included.
    ApiServerBytesPerTask,
    /// At most this many objects allocated by the API server for each Task.
    ApiServerObjectsPerTask,
    /// At most this difference between the controller's count of its requests and the audit log.
    Unreconciled,
    /// At least this many QueueUnits released a second, from the first release to the last.
    ReleasesPerSecond,
    /// At most this many Pods created beyond those of the scenario. A killed replica leaves Pods that no
    /// status records: they are deleted, and the Tasks run again.
    ExtraPods,
    /// At most this many QueueUnits released beyond the quota.
    OverAdmitted,
    /// At most this many requests of the controller for each QueueUnit.
    RequestsPerUnit,
}

impl Level {
    /// Whether more is better.
    pub fn is_least(self) -> bool {
        matches!(
            self,
            Level::WriteEfficiency | Level::JobsPerSecond | Level::TasksPerSecond | Level::ReleasesPerSecond
        )
    }

    /// Its name in the file.
    pub fn name(self) -> String {
        // A variant without fields is serialized as a string.
        serde_json::to_value(self).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
    }
}
