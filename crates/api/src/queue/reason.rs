//! The conditions of a `QueueUnit`, and the closed set of their reasons.

use std::fmt;

/// Type of the condition that shows whether a unit is released (`True`) or why not (`False`).
pub const DEQUEUED: &str = "Dequeued";
/// Type of the condition of a waiting unit that other units have passed. Its `lastTransitionTime` is when
/// the first one did.
pub const OVERTAKEN: &str = "Overtaken";

/// Why a unit waits or does not: the closed set of reasons of its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// There is room for the unit; others go first, or the API server refuses its status.
    Waiting,
    /// There is no Queue of that name in the namespace.
    QueueNotFound,
    /// There is no PriorityClass of the name that the unit or its queue gives.
    PriorityClassNotFound,
    /// There is no such job.
    ConsumerNotFound,
    /// The job is of another namespace.
    ConsumerNotAllowed,
    /// A ResourceQuota has no room for it now.
    InsufficientQuota,
    /// The unit requests more than a ResourceQuota leaves even when all released units have ended.
    ExceedsQuota,
    /// There is room, but it is kept for a unit that was overtaken for too long. In the condition
    /// `Overtaken`: it is kept for this unit.
    CapacityReserved,
    /// The unit is released.
    Admitted,
    /// A younger unit was released although this one waits.
    Overtaken,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 10] = [
        Reason::Waiting,
        Reason::QueueNotFound,
        Reason::PriorityClassNotFound,
        Reason::ConsumerNotFound,
        Reason::ConsumerNotAllowed,
        Reason::InsufficientQuota,
        Reason::ExceedsQuota,
        Reason::CapacityReserved,
        Reason::Admitted,
        Reason::Overtaken,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Waiting => "Waiting",
            Reason::QueueNotFound => "QueueNotFound",
            Reason::PriorityClassNotFound => "PriorityClassNotFound",
            Reason::ConsumerNotFound => "ConsumerNotFound",
            Reason::ConsumerNotAllowed => "ConsumerNotAllowed",
            Reason::InsufficientQuota => "InsufficientQuota",
            Reason::ExceedsQuota => "ExceedsQuota",
            Reason::CapacityReserved => "CapacityReserved",
            Reason::Admitted => "Admitted",
            Reason::Overtaken => "Overtaken",
        }
    }

    /// The reason that this word names.
    pub fn parse(word: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_word_on_the_wire_and_back() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(reason));
            assert_eq!(format!("{reason:?}"), reason.to_string(), "the word is its name");
        }
        assert_eq!(Reason::parse("waiting"), None);
    }
}
