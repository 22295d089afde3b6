//! The conditions of a `QueueUnit`, and the closed set of their reasons.

use std::fmt;

/// Type of the condition that says whether a unit is released (`True`) or why not (`False`).
pub const DEQUEUED: &str = "Dequeued";
/// Type of the condition of a waiting unit that others have passed; its `lastTransitionTime` is when the
/// first one did.
pub const OVERTAKEN: &str = "Overtaken";

/// Why a unit waits or does not: the closed set of reasons of its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// There is room for it; others go first.
    Waiting,
    /// There is no Queue of that name in the namespace.
    QueueNotFound,
    /// There is no PriorityClass of that name, be it the unit's or its queue's.
    PriorityClassNotFound,
    /// There is no such job.
    ConsumerNotFound,
    /// The job is of another namespace.
    ConsumerNotAllowed,
    /// A ResourceQuota has no room for it now.
    InsufficientQuota,
    /// It asks for more than a ResourceQuota leaves even when all released units have ended.
    ExceedsQuota,
    /// There is room, which is kept for a unit that was overtaken for too long; of the condition `Overtaken`:
    /// it is kept for this one.
    CapacityReserved,
    /// It is released.
    Admitted,
    /// A unit that came later was released although this one waits.
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
    pub fn as_str(self) -> &'static str {
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

    /// The reason that this word stands for.
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
