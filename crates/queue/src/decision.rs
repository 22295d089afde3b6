//! What a round decides, as data: every number of a message is a field.

use std::fmt;
use std::sync::Arc;

use framework_api::queue::Reason;
use jiff::Timestamp;

use crate::amount::Amount;

/// What was decided of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Of which.
    pub uid: Arc<str>,
    /// What.
    pub update: UnitUpdate,
}

/// What was decided. All but `Release` leave the unit where it is and say something of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitUpdate {
    /// It goes: phase `Dequeued`. From here on the namespace counts its whole ask, until told otherwise.
    Release,
    /// It waits for another reason than the one last known.
    Wait(WaitReason),
    /// Somebody behind it was released for the first time: condition `Overtaken`, reason `Overtaken`.
    Overtaken {
        /// The moment of the round.
        since: Timestamp,
    },
    /// It is overdue, and its ask is set aside from now on: condition `Overtaken`, reason `CapacityReserved`.
    /// Given once.
    Reserved,
}

/// Why a unit waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// There is no Queue of the name that it gives.
    QueueNotFound {
        /// The name.
        queue: Arc<str>,
    },
    /// It asks more than a limit leaves even when all released units have ended.
    ExceedsQuota(Arc<[Shortage]>),
    /// There is no room now.
    InsufficientQuota(Arc<[Shortage]>),
    /// There is room, but it is kept for older units.
    CapacityReserved(Arc<[Shortage]>),
}

/// Why one limit does not let a unit go: `limit - others - usage - set_aside < requested`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The name of the quota.
    pub quota: Arc<str>,
    /// The key of the limit in it.
    pub key: Arc<str>,
    /// The limit.
    pub limit: Amount,
    /// What is used by Pods that belong to no released unit.
    pub others: Amount,
    /// What released units hold.
    pub usage: Amount,
    /// What is set aside for overdue units; nothing unless that is why it waits.
    pub set_aside: Amount,
    /// What the unit asks.
    pub requested: Amount,
    /// How much more would have to be free.
    pub missing: Amount,
}

impl WaitReason {
    /// The reason that the condition `Dequeued` gives.
    pub fn reason(&self) -> Reason {
        match self {
            Self::QueueNotFound { .. } => Reason::QueueNotFound,
            Self::ExceedsQuota(_) => Reason::ExceedsQuota,
            Self::InsufficientQuota(_) => Reason::InsufficientQuota,
            Self::CapacityReserved(_) => Reason::CapacityReserved,
        }
    }

    /// The limits that do not let it go; none where no limit is the reason.
    pub fn shortages(&self) -> &[Shortage] {
        match self {
            Self::QueueNotFound { .. } => &[],
            Self::ExceedsQuota(shortages)
            | Self::InsufficientQuota(shortages)
            | Self::CapacityReserved(shortages) => shortages,
        }
    }
}

/// The message of the condition.
impl fmt::Display for WaitReason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Self::QueueNotFound { queue } => return write!(to, "there is no Queue {queue:?}"),
            Self::ExceedsQuota(_) => "never fits, even when all released units have ended",
            Self::InsufficientQuota(_) => "no room",
            Self::CapacityReserved(_) => "there is room, kept for units that were overtaken",
        };
        to.write_str(why)?;
        for (at, shortage) in self.shortages().iter().enumerate() {
            write!(to, "{}{shortage}", if at == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, key, limit, others, usage, set_aside, requested, missing } = self;
        write!(to, "asks {requested} of {key}, {missing} too much: quota {quota:?} allows {limit}")?;
        let parts = [(usage, "released units hold"), (others, "others use"), (set_aside, "kept are")];
        for (amount, what) in parts.into_iter().filter(|(amount, _)| **amount != Amount::ZERO) {
            write!(to, ", {what} {amount}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortage() -> Shortage {
        Shortage {
            quota: "team".into(),
            key: "requests.cpu".into(),
            limit: Amount::units(100),
            others: Amount::units(5),
            usage: Amount::units(60),
            set_aside: Amount::ZERO,
            requested: Amount::units(40),
            missing: Amount::units(5),
        }
    }

    #[test]
    fn a_message_says_what_is_asked_missing_used_and_allowed() {
        let refusal = WaitReason::InsufficientQuota([shortage()].into());
        assert_eq!(
            refusal.to_string(),
            "no room: asks 40 of requests.cpu, 5 too much: quota \"team\" allows 100, \
             released units hold 60, others use 5"
        );
        let both = WaitReason::CapacityReserved(
            [
                Shortage { set_aside: Amount::units(30), ..shortage() },
                Shortage { others: Amount::ZERO, ..shortage() },
            ]
            .into(),
        );
        assert_eq!(
            both.to_string(),
            "there is room, kept for units that were overtaken: asks 40 of requests.cpu, 5 too much: quota \
             \"team\" allows 100, released units hold 60, others use 5, kept are 30; asks 40 of requests.cpu, \
             5 too much: quota \"team\" allows 100, released units hold 60"
        );
        let missing = WaitReason::QueueNotFound { queue: "red".into() };
        assert_eq!(missing.to_string(), "there is no Queue \"red\"");
    }
}
