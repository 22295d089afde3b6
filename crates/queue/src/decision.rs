//! The decisions of a round, as data: every number of a message is a field.

use std::fmt;
use std::sync::Arc;

use framework_api::queue::Reason;
use jiff::Timestamp;

use crate::amount::Amount;

/// A decision about one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The UID of the unit.
    pub uid: Arc<str>,
    /// The change.
    pub update: UnitUpdate,
}

/// A change of a unit. All but `Release` leave the unit in its queue and change its conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitUpdate {
    /// It is released: phase `Dequeued`. From now on all its requests count as used, until its facts change.
    Release,
    /// It waits, and its reason differs from the last known one.
    Wait(WaitReason),
    /// A unit behind it was released for the first time: condition `Overtaken`, reason `Overtaken`.
    Overtaken {
        /// The moment of the round.
        since: Timestamp,
    },
    /// It is overdue, and its requests are set aside from now on: condition `Overtaken`, reason
    /// `CapacityReserved`. Decided once.
    Reserved,
}

/// Why a unit waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// There is no Queue of the unit's queue name.
    QueueNotFound {
        /// The name.
        queue: Arc<str>,
    },
    /// It requests more than a limit leaves even when all released units have ended.
    ExceedsQuota(Arc<[Shortage]>),
    /// There is no room now.
    InsufficientQuota(Arc<[Shortage]>),
    /// There is room, but it is kept for older units.
    CapacityReserved(Arc<[Shortage]>),
}

/// A limit that a unit exceeds: `limit - others - usage - set_aside < requested`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The name of the quota.
    pub quota: Arc<str>,
    /// The key of the limit in it.
    pub key: Arc<str>,
    /// The limit.
    pub limit: Amount,
    /// The usage of Pods that belong to no released unit.
    pub others: Amount,
    /// The usage of released units.
    pub usage: Amount,
    /// The amount set aside for overdue units; zero unless it is the reason.
    pub set_aside: Amount,
    /// The request of the unit.
    pub requested: Amount,
    /// The amount that would have to become free.
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

    /// The limits that the unit exceeds; empty if no limit is the reason.
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
        write!(to, "requests {requested} of {key}, {missing} too many: quota {quota:?} allows {limit}")?;
        let parts = [(usage, "released units hold"), (others, "others use")];
        for (amount, what) in parts.into_iter().filter(|(amount, _)| **amount != Amount::ZERO) {
            write!(to, ", {what} {amount}")?;
        }
        if *set_aside != Amount::ZERO {
            write!(to, ", {set_aside} are reserved")?;
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
    fn a_message_names_the_requested_missing_used_and_allowed_amounts() {
        let refusal = WaitReason::InsufficientQuota([shortage()].into());
        assert_eq!(
            refusal.to_string(),
            "no room: requests 40 of requests.cpu, 5 too many: quota \"team\" allows 100, \
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
            "there is room, kept for units that were overtaken: requests 40 of requests.cpu, 5 too many: \
             quota \"team\" allows 100, released units hold 60, others use 5, 30 are reserved; \
             requests 40 of requests.cpu, 5 too many: quota \"team\" allows 100, released units hold 60"
        );
        let missing = WaitReason::QueueNotFound { queue: "red".into() };
        assert_eq!(missing.to_string(), "there is no Queue \"red\"");
    }
}
