//! Rules of the controller that a test switches off, to show that the checks detect their absence.
//!
//! Only dev-dependencies turn the feature `defects` on, so a shipped program is built without it. There every
//! rule holds under any policy, and the compiler drops the code of a missing rule.

/// Whether rules can be switched off in this build.
pub const SWITCHABLE: bool = cfg!(feature = "defects");

/// A rule of the controller that a test may switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// A1: acts are sent although the status being written withdraws its permission for them.
    SendUnpermitted,
    /// A2: creates in flight are not observed.
    ForgetInFlight,
    /// A3: the spec of the cache is mixed with the status of a reply.
    MixVersions,
    /// A4: Pods that are not recorded are left alone.
    KeepOrphans,
    /// A5: the attempt completes when its ConfigMap is gone, even if its Pods are not.
    TrustConfigMap,
    /// A6: an object that left the cache counts as gone.
    TrustDisappearance,
    /// A7: creates continue at any number of unrecorded ones.
    UnboundedLoss,
    /// A8: timers trust the local clock.
    TrustLocalClock,
    /// Deletes are sent before the completion status is persisted.
    DeleteBeforePersist,
    /// A retry is decided before AttemptCompleted is persisted.
    RetryBeforePersist,
    /// A status write that conflicts is repeated over the other one.
    OverwriteOnConflict,
    /// The status of a unit is written even if the unit changed since the decision.
    ReleaseUnguarded,
    /// A release without a reply no longer counts.
    ForgetRelease,
    /// After a start, units are released immediately.
    ReleaseAtOnce,
    /// The quota of a job returns when the job has ended, even while its Pods still use it.
    ReturnAtEnd,
    /// B1: creates of an earlier owner of a slot are not waited for.
    ForgetHold,
    /// B7: a slot is handed over while a create or a release without a reply may still land.
    HandOverEarly,
    /// Units are not listed again after a grant.
    ReleaseUnlisted,
    /// Ownership is asked before an evaluation, and not again before a request is sent.
    AskOnce,
    /// B8: a LIST from before the loss of a slot counts after the slot is granted again.
    TrustOldList,
    /// B10: the slot label says to which slot a Framework belongs.
    TrustLabel,
}

/// The rules that are switched off. Unless [`SWITCHABLE`], it behaves as [`Defects::NONE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defects(u32);

impl Defects {
    /// Every rule holds.
    pub const NONE: Self = Defects(0);

    /// Whether this rule is switched off.
    pub const fn has(self, defect: Defect) -> bool {
        SWITCHABLE && self.0 & bit(defect) != 0
    }

    /// Whether every rule holds.
    pub const fn is_empty(self) -> bool {
        !SWITCHABLE || self.0 == 0
    }

    /// Switches a rule off.
    pub const fn insert(&mut self, defect: Defect) {
        self.0 |= bit(defect);
    }
}

const fn bit(defect: Defect) -> u32 {
    1 << defect as u32
}

impl FromIterator<Defect> for Defects {
    fn from_iter<I: IntoIterator<Item = Defect>>(rules: I) -> Self {
        rules.into_iter().fold(Self::NONE, |mut off, rule| {
            off.insert(rule);
            off
        })
    }
}

impl From<Defect> for Defects {
    fn from(rule: Defect) -> Self {
        Self::from_iter([rule])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_off_if_the_policy_says_so() {
        let off = Defects::from(Defect::KeepOrphans);
        assert!(off.has(Defect::KeepOrphans) && !off.is_empty());
        assert!(!off.has(Defect::ReturnAtEnd) && Defects::NONE.is_empty());
    }
}
