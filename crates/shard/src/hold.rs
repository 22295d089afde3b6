//! The hold of a seizure: the time in which requests of an earlier owner may still land.
//!
//! While it lasts, the new owner sends no create that the stored status already permitted. A slot that
//! changes hands within its hold is marked unsettled, and its next owner begins the hold again.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::Slot;

/// The holds of one member, each until a moment on its own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holds(BTreeMap<Slot, Duration>);

impl Holds {
    /// Begins a hold.
    pub fn begin(&mut self, slot: Slot, until: Duration) {
        self.0.insert(slot, until);
    }

    /// Whether requests of an earlier owner may still land.
    pub fn lasts(&self, slot: Slot, at: Duration) -> bool {
        self.0.get(&slot).is_some_and(|until| at < *until)
    }

    /// How long that goes on, if it does.
    pub fn left(&self, slot: Slot, at: Duration) -> Option<Duration> {
        self.0.get(&slot).and_then(|until| until.checked_sub(at)).filter(|left| !left.is_zero())
    }

    /// The slot is not owned any more.
    pub fn forget(&mut self, slot: Slot) {
        self.0.remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_ends_by_the_members_own_clock() {
        let mut holds = Holds::default();
        holds.begin(Slot(1), Duration::from_secs(5));
        assert_eq!([4, 5].map(|at| holds.lasts(Slot(1), Duration::from_secs(at))), [true, false]);
        assert_eq!([4, 5].map(|at| holds.left(Slot(1), Duration::from_secs(at)).is_some()), [true, false]);
        assert!(!holds.lasts(Slot(2), Duration::ZERO));
        holds.forget(Slot(1));
        assert!(!holds.lasts(Slot(1), Duration::ZERO));
    }
}
