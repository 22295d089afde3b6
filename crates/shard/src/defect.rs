//! Rules of sharding that a test switches off, to show that the checks detect their absence.
//!
//! Only dev-dependencies turn the feature `defects` on, so a shipped program is built without it. There every
//! rule holds, and the compiler drops the code of a missing rule.

/// A rule that a test may switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// B1: the hold of a seizure ends with its first owner.
    ForgetHold,
    /// B2: a Lease is emptied before its holder has stopped.
    TakeOverAtOnce,
    /// B3: a hand-over of unknown outcome is taken back.
    TakeBack,
    /// B4: the right to act ends by the wall clock.
    WallClock,
    /// B5: a Lease that shows another holder frees slots, however old the view is.
    TrustOldView,
    /// B5: an empty Lease frees the slots of its holder at once.
    TrustEmptyLease,
    /// B5: a life that others may have proved gone claims its Lease again, and gets slots.
    ClaimAgain,
}

/// The rules that are switched off. Without the feature `defects` it behaves as [`Defects::NONE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Defects(u8);

impl Defects {
    /// Every rule holds.
    pub const NONE: Self = Defects(0);

    /// Whether this rule is switched off.
    pub const fn has(self, defect: Defect) -> bool {
        cfg!(feature = "defects") && self.0 & bit(defect) != 0
    }
}

const fn bit(defect: Defect) -> u8 {
    1 << defect as u8
}

impl From<Defect> for Defects {
    fn from(defect: Defect) -> Self {
        Defects(bit(defect))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rule_is_switched_off_at_a_time() {
        let off = Defects::from(Defect::WallClock);
        assert!(off.has(Defect::WallClock) && !off.has(Defect::TakeBack));
        assert!(!Defects::NONE.has(Defect::WallClock));
    }
}
