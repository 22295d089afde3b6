//! Whether this replica may act for a Framework: the one value that all parts of the program ask.
//!
//! Ownership is checked before a Framework is evaluated, and again before a request is sent for it. Every
//! part of one program holds the same value: all parts see a change at the same time. A controller that runs
//! alone owns every slot permanently, which is the default.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::now::Now;
use crate::slot::Slot;

/// Whether a replica may act for the Frameworks of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayAct {
    /// It owns the slot.
    Yes,
    /// It owned the slot when its proof of that expired, and may prove it again. Nothing is evaluated or sent
    /// meanwhile, and no state is dropped.
    Paused,
    /// Another replica owns the slot, or none does.
    No,
}

/// The slots that this controller owns, each until a moment of [`Now::boot`] and under an epoch of the map.
/// Clones share one value.
#[derive(Clone, Debug)]
pub struct Ownership(Arc<[Held; Slot::COUNT]>);

/// The right to act for a slot, as it was when a request was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    slot: Slot,
    /// How often the slot had been given up before.
    losses: u64,
    /// Its end, on [`Now::boot`].
    until: Duration,
}

#[derive(Debug)]
struct Held {
    until: AtomicU64,
    epoch: AtomicU64,
    losses: AtomicU64,
}

/// The slot is not owned.
const NOT_OWNED: u64 = 0;
/// The slot is owned without a time limit.
const FOREVER: u64 = u64::MAX;
/// The slot was never granted by a map.
const NO_EPOCH: u64 = 0;

impl Default for Ownership {
    fn default() -> Self {
        Self::filled(FOREVER)
    }
}

impl Ownership {
    /// No slot is owned yet.
    pub fn none() -> Self {
        Self::filled(NOT_OWNED)
    }

    fn filled(until: u64) -> Self {
        let held = |_| Held {
            until: AtomicU64::new(until),
            epoch: AtomicU64::new(NO_EPOCH),
            losses: AtomicU64::new(0),
        };
        Ownership(Arc::new(std::array::from_fn(held)))
    }

    /// The map of slots grants the slot under this epoch. It is not owned by that alone.
    pub fn grant(&self, slot: Slot, epoch: u64) {
        if let Some(held) = self.0.get(usize::from(slot.0)) {
            held.epoch.store(epoch, Ordering::Release);
        }
    }

    /// The epoch of the last grant of the slot; `None`: no map granted it.
    pub fn epoch(&self, slot: Slot) -> Option<u64> {
        let held = self.0.get(usize::from(slot.0))?;
        Some(held.epoch.load(Ordering::Acquire)).filter(|epoch| *epoch != NO_EPOCH)
    }

    /// The slot is owned until that moment of [`Now::boot`]; `None`: permanently.
    pub fn own(&self, slot: Slot, until: Option<Duration>) {
        let until = until.map_or(FOREVER, |until| {
            u64::try_from(until.as_nanos()).unwrap_or(FOREVER).clamp(NOT_OWNED + 1, FOREVER - 1)
        });
        self.set(slot, until);
    }

    /// The slot is not owned any more.
    pub fn disown(&self, slot: Slot) {
        if let Some(held) = self.0.get(usize::from(slot.0)) {
            held.until.store(NOT_OWNED, Ordering::Release);
            held.losses.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether this controller may act for the Frameworks of `slot` at `now`.
    pub fn may_act(&self, slot: Slot, now: Now) -> MayAct {
        match self.until(slot) {
            NOT_OWNED => MayAct::No,
            FOREVER => MayAct::Yes,
            until if now.boot < Duration::from_nanos(until) => MayAct::Yes,
            _ => MayAct::Paused,
        }
    }

    /// The right to send a request for the Frameworks of `slot`, as it is now; `None`: it never ends.
    pub fn right(&self, slot: Slot) -> Option<Right> {
        // Read first: a slot that is given up and comes back in between makes no right that lasts.
        let losses = self.losses(slot);
        let until = self.until(slot);
        (until != FOREVER).then(|| Right { slot, losses, until: Duration::from_nanos(until) })
    }

    /// Whether a right lasts: the slot was not given up since, and its time is not over. A doubt about the
    /// clock ends it early.
    pub fn lasts(&self, right: Right, now: Now) -> bool {
        let held = Duration::from_nanos(self.until(right.slot));
        now.boot < right.until.min(held) && self.losses(right.slot) == right.losses
    }

    fn losses(&self, slot: Slot) -> u64 {
        self.0.get(usize::from(slot.0)).map_or(0, |held| held.losses.load(Ordering::Acquire))
    }

    fn until(&self, slot: Slot) -> u64 {
        self.0.get(usize::from(slot.0)).map_or(NOT_OWNED, |held| held.until.load(Ordering::Acquire))
    }

    fn set(&self, slot: Slot, value: u64) {
        if let Some(held) = self.0.get(usize::from(slot.0)) {
            held.until.store(value, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        let boot = Duration::from_secs(seconds);
        Now { steady: Duration::ZERO, boot, wall: jiff::Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn a_controller_that_runs_alone_owns_every_slot_for_ever() {
        let alone = Ownership::default();
        assert!(Slot::all().all(|slot| alone.may_act(slot, at(u64::from(u32::MAX))) == MayAct::Yes));
        assert_eq!(alone.right(Slot(3)), None);
    }

    #[test]
    fn an_epoch_is_that_of_the_last_grant_and_owns_nothing() {
        let ownership = Ownership::none();
        assert_eq!(ownership.epoch(Slot(3)), None);
        ownership.clone().grant(Slot(3), 100);
        assert_eq!((ownership.epoch(Slot(3)), ownership.epoch(Slot(4))), (Some(100), None));
        assert_eq!(ownership.may_act(Slot(3), at(0)), MayAct::No);
    }

    #[test]
    fn a_proof_that_runs_out_pauses_and_another_one_resumes() {
        let ownership = Ownership::none();
        let clone = ownership.clone();
        assert_eq!(ownership.may_act(Slot(3), at(0)), MayAct::No);
        clone.own(Slot(3), Some(Duration::from_secs(10)));
        let answers = [9, 10, 11].map(|second| ownership.may_act(Slot(3), at(second)));
        assert_eq!(answers, [MayAct::Yes, MayAct::Paused, MayAct::Paused]);
        let right = ownership.right(Slot(3)).unwrap();
        assert_eq!([9, 10].map(|second| ownership.lasts(right, at(second))), [true, false]);
        assert_eq!(ownership.may_act(Slot(4), at(0)), MayAct::No, "another slot");
        clone.own(Slot(3), Some(Duration::from_secs(20)));
        assert_eq!(ownership.may_act(Slot(3), at(11)), MayAct::Yes);
        assert!(!ownership.lasts(right, at(11)), "another proof gives another right");
        assert!(ownership.lasts(ownership.right(Slot(3)).unwrap(), at(19)));
        clone.disown(Slot(3));
        assert_eq!(ownership.may_act(Slot(3), at(11)), MayAct::No);
    }

    #[test]
    fn a_right_ends_with_its_slot_and_does_not_come_back_with_it() {
        let ownership = Ownership::none();
        let own = |epoch| {
            ownership.grant(Slot(3), epoch);
            ownership.own(Slot(3), Some(Duration::from_secs(10)));
            ownership.right(Slot(3)).unwrap()
        };
        let first = own(100);
        assert!(ownership.lasts(first, at(9)));
        ownership.disown(Slot(3));
        assert!(!ownership.lasts(first, at(9)), "it was given up");
        for epoch in [100, 101] {
            let again = own(epoch);
            assert_eq!([first, again].map(|right| ownership.lasts(right, at(9))), [false, true]);
            ownership.disown(Slot(4));
            assert!(ownership.lasts(again, at(9)), "another slot");
            ownership.disown(Slot(3));
        }
    }

    #[test]
    fn a_slot_that_is_not_owned_gives_no_right_that_lasts() {
        let ownership = Ownership::none();
        assert!(!ownership.lasts(ownership.right(Slot(3)).unwrap(), at(0)));
        ownership.own(Slot(3), Some(Duration::from_secs(10)));
        ownership.disown(Slot(3));
        let right = ownership.right(Slot(3)).unwrap();
        ownership.own(Slot(3), Some(Duration::from_secs(20)));
        assert!(!ownership.lasts(right, at(0)), "it was not a right, and does not become one");
    }

    #[test]
    fn a_doubt_about_the_clock_ends_a_right_early() {
        let ownership = Ownership::none();
        ownership.own(Slot(3), Some(Duration::from_secs(10)));
        let right = ownership.right(Slot(3)).unwrap();
        assert!(ownership.lasts(right, at(9)));
        ownership.own(Slot(3), Some(Duration::ZERO));
        assert_eq!(ownership.may_act(Slot(3), at(9)), MayAct::Paused, "it is not given up");
        assert!(!ownership.lasts(right, at(9)));
        ownership.own(Slot(3), Some(Duration::from_secs(5)));
        assert!(![5, 9].into_iter().any(|second| ownership.lasts(right, at(second))), "the proof is shorter");
    }
}
