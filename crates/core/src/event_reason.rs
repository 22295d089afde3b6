//! The reasons of Kubernetes Events: a closed set, so that docs/reference/reasons.md can list all of them.

use framework_api::queue::Reason;

/// Why an Event is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventReason {
    /// A queue released a Framework.
    Admitted,
    /// The deadline of a job has passed.
    DeadlineExceeded,
    /// The API server does not let a job be ended at its deadline.
    DeadlineNotEnforced,
    /// An expired job, or an object of a Framework, cannot be deleted, or it stays unknown whether it was.
    DeletionFailed,
    /// A Framework completed and failed.
    Failed,
    /// The Tasks may not fit into the object.
    FrameworkTooLarge,
    /// Tasks by which a released Framework grew wait in its queue.
    GrowthQueued,
    /// A field of the spec counts as not set.
    InvalidFieldIgnored,
    /// A pod template cannot be decoded.
    InvalidPodTemplate,
    /// A replica has become the leader.
    LeaderElection,
    /// A Pod that was deleted by force waits for its finalizers.
    PodHeld,
    /// A job or a growth gets no QueueUnit: the API server refuses it, or its name is taken.
    QueueUnitRefused,
    /// A job gets no QueueUnit, because its request is not known.
    RequestUnknown,
    /// The API server refuses to resume a job that was released.
    ResumeRefused,
    /// The retry of a Framework waits.
    RetryDelayed,
    /// A Framework is retried.
    Retrying,
    /// A job is deleted soon after it ends.
    ShortTTLSecondsAfterFinished,
    /// A slot of the map got another owner.
    SlotsMoved,
    /// A job was suspended after its release, and is not resumed again.
    StaysSuspended,
    /// A status is stored compressed, though compression is off.
    StatusCompressed,
    /// The API server does not accept a status, or it stays unknown whether it did.
    StatusRefused,
    /// A Framework cannot be read.
    StatusUnreadable,
    /// A Framework completed and succeeded.
    Succeeded,
    /// The retry of a Task waits.
    TaskRetryDelayed,
    /// A Task is retried.
    TaskRetrying,
    /// A field of a pod template is not known to Kubernetes.
    UnknownFieldIgnored,
    /// The reason of a QueueUnit changed.
    Unit(Reason),
}

impl EventReason {
    /// All of them but those of QueueUnits.
    pub const ALL: [EventReason; 26] = [
        EventReason::Admitted,
        EventReason::DeadlineExceeded,
        EventReason::DeadlineNotEnforced,
        EventReason::DeletionFailed,
        EventReason::Failed,
        EventReason::FrameworkTooLarge,
        EventReason::GrowthQueued,
        EventReason::InvalidFieldIgnored,
        EventReason::InvalidPodTemplate,
        EventReason::LeaderElection,
        EventReason::PodHeld,
        EventReason::QueueUnitRefused,
        EventReason::RequestUnknown,
        EventReason::ResumeRefused,
        EventReason::RetryDelayed,
        EventReason::Retrying,
        EventReason::ShortTTLSecondsAfterFinished,
        EventReason::SlotsMoved,
        EventReason::StaysSuspended,
        EventReason::StatusCompressed,
        EventReason::StatusRefused,
        EventReason::StatusUnreadable,
        EventReason::Succeeded,
        EventReason::TaskRetryDelayed,
        EventReason::TaskRetrying,
        EventReason::UnknownFieldIgnored,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventReason::Admitted => "Admitted",
            EventReason::DeadlineExceeded => framework_api::code::DEADLINE_EXCEEDED,
            EventReason::DeadlineNotEnforced => "DeadlineNotEnforced",
            EventReason::DeletionFailed => "DeletionFailed",
            EventReason::Failed => "Failed",
            EventReason::FrameworkTooLarge => "FrameworkTooLarge",
            EventReason::GrowthQueued => "GrowthQueued",
            EventReason::InvalidFieldIgnored => "InvalidFieldIgnored",
            EventReason::InvalidPodTemplate => "InvalidPodTemplate",
            EventReason::LeaderElection => "LeaderElection",
            EventReason::PodHeld => "PodHeld",
            EventReason::QueueUnitRefused => "QueueUnitRefused",
            EventReason::RequestUnknown => "RequestUnknown",
            EventReason::ResumeRefused => "ResumeRefused",
            EventReason::RetryDelayed => "RetryDelayed",
            EventReason::Retrying => "Retrying",
            EventReason::ShortTTLSecondsAfterFinished => "ShortTTLSecondsAfterFinished",
            EventReason::SlotsMoved => "SlotsMoved",
            EventReason::StaysSuspended => "StaysSuspended",
            EventReason::StatusCompressed => "StatusCompressed",
            EventReason::StatusRefused => "StatusRefused",
            EventReason::StatusUnreadable => "StatusUnreadable",
            EventReason::Succeeded => "Succeeded",
            EventReason::TaskRetryDelayed => "TaskRetryDelayed",
            EventReason::TaskRetrying => "TaskRetrying",
            EventReason::UnknownFieldIgnored => "UnknownFieldIgnored",
            EventReason::Unit(reason) => reason.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_word_on_the_wire() {
        for reason in EventReason::ALL {
            assert_eq!(format!("{reason:?}"), reason.as_str(), "the word is its name");
        }
    }
}
