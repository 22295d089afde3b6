//! What a scenario can promise.

use serde::{Deserialize, Serialize};

/// What a scenario can promise. The number beside it is the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// At least this write efficiency: (2n + 11) / requests.
    WriteEfficiency,
    /// At most so many requests that are refused.
    Refused,
    /// At most so many GETs and LISTs of the system.
    Reads,
    /// At most so many seconds from creation to the first running Task, for 99 of 100 jobs.
    RunningP99Seconds,
    /// At most so many seconds from creation to the end, for 99 of 100 jobs.
    CompletedP99Seconds,
    /// At most so many seconds from the deadline to the status that says so, for all jobs.
    DeadlineMaxSeconds,
    /// At most so many seconds from the expiry to the deletion, for 99 of 100 jobs.
    ExpiryP99Seconds,
    /// At least so many jobs a second.
    JobsPerSecond,
    /// At least so many Tasks a second.
    TasksPerSecond,
    /// At most so much memory of the controller at its peak, in MiB.
    ControllerPeakMebibytes,
    /// At most so many bytes of status writes for each Task.
    StatusBytesPerTask,
    /// At most such a difference between the controller's count of its requests and the API server's.
    Unreconciled,
    /// At least so many QueueUnits released a second, from the first release to the last.
    ReleasesPerSecond,
    /// At most so many QueueUnits released into more than the quota had left.
    OverAdmitted,
    /// At most so many requests of the controller for each QueueUnit.
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

    /// As the file names it.
    pub fn name(self) -> String {
        // A variant without fields is a string.
        serde_json::to_value(self).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
    }
}
