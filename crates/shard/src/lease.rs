//! The Lease of a replica, and its state as a function of the versions seen of it and of the time.
//!
//! The state is ordered: a member may get slots while its Lease is above [`LeaseState::Expired`]. No state
//! frees slots: only an emptying that was written by compare-and-swap does, see [`crate::leader`].

use std::time::Duration;

use crate::incarnation::Incarnation;
use crate::version::{Seen, Version};

/// The contents of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaseRecord {
    /// The life that holds it; `None`: nobody.
    pub holder: Option<Incarnation>,
    /// The UID of the Pod that wrote it last.
    pub pod: String,
    /// Counts the writes of one holder: a read shows which of them arrived.
    pub renewals: u64,
    /// Counts the changes of holder, so a holder that is put back by hand is noticed.
    pub transitions: u64,
    /// The duration by which its holder acts.
    pub duration: Duration,
    /// The holder gives its slots away and gets no more.
    pub leaving: bool,
    /// The holder may have seen a map. Only the first life of a program that has seen none says no.
    pub knows_map: bool,
}

impl LeaseRecord {
    /// The same Lease without a holder.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let transitions = self.next_transition();
        LeaseRecord { holder: None, transitions, leaving: false, ..self.clone() }
    }

    /// The count of transitions after one more. `leaseTransitions` holds 31 bits; after the largest number
    /// comes 2, which is a change as well. Only the first holder of a Lease counts 1.
    pub fn next_transition(&self) -> u64 {
        if self.transitions < LARGEST_COUNT { self.transitions + 1 } else { 2 }
    }

    /// The duration by which a member acts that holds it. A holder that is no member acts for no slot.
    pub fn duration_of_member(&self) -> Duration {
        let is_member = |holder: &Incarnation| *holder != Incarnation::new(holder.lease(), UNKNOWN);
        if self.holder.as_ref().is_some_and(is_member) { self.duration } else { Duration::ZERO }
    }

    /// The Lease of this name. A holder that names another Lease counts as unknown, and gets no slots: that
    /// the copy of a Lease is not renewed proves nothing about the life that it names.
    #[must_use]
    pub fn under(self, name: &str) -> Self {
        let unknown = Incarnation::new(name, UNKNOWN);
        match &self.holder {
            Some(holder) if holder.lease() != name || *holder == unknown => {
                LeaseRecord { holder: Some(unknown), leaving: true, ..self }
            }
            _ => self,
        }
    }
}

/// The state of a Lease, from the least to the most alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseState {
    /// It has been empty for long: it can be deleted.
    Orphaned,
    /// It is empty, or absent.
    Dead,
    /// Its holder must have stopped: it can be emptied.
    Uncertain,
    /// It was not renewed in time, or its holder leaves.
    Expired,
    /// It is renewed.
    Ready,
}

/// A Lease as one replica watches it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchedLease {
    seen: Seen<LeaseRecord>,
    /// When this version was first seen, on the watcher's own clock.
    since: Duration,
    /// When the present holder was first seen.
    holder_since: Duration,
    /// When it was first seen with its present duration.
    duration_since: Duration,
}

/// The life that stands for a holder of another form, which never renews a Lease.
pub const UNKNOWN: &str = "unknown";

/// The largest `leaseTransitions`, an int32 of which the API server refuses negative values.
const LARGEST_COUNT: u64 = i32::MAX as u64;

/// An empty Lease is deleted after this many durations, and an absent one is forgotten.
pub(crate) const ORPHANED_AFTER: u32 = 60;

impl WatchedLease {
    /// A Lease that is seen for the first time.
    pub fn new(seen: Seen<LeaseRecord>, at: Duration) -> Self {
        WatchedLease { seen, since: at, holder_since: at, duration_since: at }
    }

    /// Takes in a version seen now. A version that is older than the known one came late and is ignored.
    pub fn see(&mut self, seen: Seen<LeaseRecord>, at: Duration) {
        if seen.version <= self.seen.version {
            return;
        }
        let holder = seen.value.as_ref().and_then(|lease| lease.holder.as_ref());
        // Between two renewals that do not follow each other, it may have had another duration.
        let follows = |now: &LeaseRecord, known: &LeaseRecord| {
            now.duration == known.duration && now.renewals <= known.renewals.saturating_add(1)
        };
        if holder != self.holder() {
            (self.holder_since, self.duration_since) = (at, at);
        } else if !seen.value.as_ref().zip(self.record()).is_some_and(|(now, known)| follows(now, known)) {
            self.duration_since = at;
        }
        self.seen = seen;
        self.since = at;
    }

    /// The watcher heard nothing until now: that the Lease is unchanged says nothing about that time.
    pub fn time_again(&mut self, at: Duration) {
        self.since = self.since.max(at);
    }

    /// Its state at `at`. `slowest` is the longest duration by which any member acts.
    pub fn state(
        &self,
        at: Duration,
        slowest: Duration,
        expiry: impl Fn(Duration) -> Duration,
    ) -> LeaseState {
        let unchanged = at.saturating_sub(self.since);
        match &self.seen.value {
            None => LeaseState::Dead,
            Some(lease) if lease.holder.is_none() => {
                let orphaned = unchanged >= slowest.saturating_mul(ORPHANED_AFTER);
                if orphaned { LeaseState::Orphaned } else { LeaseState::Dead }
            }
            Some(lease) => {
                let duration = lease.duration.max(slowest);
                match unchanged {
                    age if age >= expiry(duration) => LeaseState::Uncertain,
                    age if age >= duration || lease.leaving => LeaseState::Expired,
                    _ => LeaseState::Ready,
                }
            }
        }
    }

    /// How long the present version has been seen.
    pub fn unchanged(&self, at: Duration) -> Duration {
        at.saturating_sub(self.since)
    }

    /// How long the present holder has been seen.
    pub fn held(&self, at: Duration) -> Duration {
        at.saturating_sub(self.holder_since)
    }

    /// How long the present holder has been seen with its present duration.
    pub fn steady(&self, at: Duration) -> Duration {
        at.saturating_sub(self.duration_since)
    }

    /// The life that holds it.
    pub fn holder(&self) -> Option<&Incarnation> {
        self.record().and_then(|lease| lease.holder.as_ref())
    }

    /// Its contents; `None`: it does not exist.
    pub fn record(&self) -> Option<&LeaseRecord> {
        self.seen.value.as_ref()
    }

    /// The version that was seen last.
    pub fn version(&self) -> Version {
        self.seen.version
    }

    /// The version that a write of it must replace; `None`: it must be created.
    pub fn base(&self) -> Option<Version> {
        self.seen.base()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: Duration = Duration::from_secs(10);

    fn record(holder: Option<&str>, renewals: u64) -> LeaseRecord {
        let holder = holder.map(|random| Incarnation::new("a", random));
        LeaseRecord {
            holder,
            pod: "p".into(),
            renewals,
            transitions: 0,
            duration: D,
            leaving: false,
            knows_map: true,
        }
    }

    fn seen(version: u64, value: Option<LeaseRecord>) -> Seen<LeaseRecord> {
        Seen { version: Version(version), value }
    }

    fn state(lease: &WatchedLease, at: u64) -> LeaseState {
        lease.state(Duration::from_secs(at), D, |duration| duration * 6 / 5)
    }

    #[test]
    fn a_lease_grows_old_by_the_watchers_clock_until_it_changes() {
        use LeaseState::{Dead, Expired, Orphaned, Ready, Uncertain};
        let mut lease = WatchedLease::new(seen(1, Some(record(Some("x"), 0))), Duration::from_secs(100));
        assert_eq!(
            [100, 109, 110, 111, 112].map(|at| state(&lease, at)),
            [Ready, Ready, Expired, Expired, Uncertain]
        );
        lease.see(seen(2, Some(record(Some("x"), 1))), Duration::from_secs(112));
        assert_eq!([112, 123, 124].map(|at| state(&lease, at)), [Ready, Expired, Uncertain]);
        lease.see(seen(3, Some(record(None, 1))), Duration::from_secs(124));
        assert_eq!([124, 723, 724].map(|at| state(&lease, at)), [Dead, Dead, Orphaned]);
        lease.see(seen(4, None), Duration::from_secs(800));
        assert_eq!(state(&lease, 2000), Dead);
    }

    #[test]
    fn only_a_ready_lease_is_above_expired() {
        use LeaseState::{Dead, Expired, Orphaned, Ready, Uncertain};
        assert!(Ready > Expired && Expired > Uncertain && Uncertain > Dead && Dead > Orphaned);
    }

    #[test]
    fn transitions_go_on_after_the_largest_number_that_can_be_stored() {
        let after = |transitions| LeaseRecord { transitions, ..LeaseRecord::default() }.emptied().transitions;
        assert_eq!([0, 7, LARGEST_COUNT - 1, LARGEST_COUNT].map(after), [1, 8, LARGEST_COUNT, 2]);
    }

    #[test]
    fn a_version_that_comes_late_changes_nothing() {
        let mut lease = WatchedLease::new(seen(5, Some(record(Some("x"), 3))), Duration::ZERO);
        lease.see(seen(4, Some(record(Some("y"), 2))), Duration::from_secs(9));
        assert_eq!(
            (lease.unchanged(Duration::from_secs(9)), lease.base()),
            (Duration::from_secs(9), Some(Version(5)))
        );
        lease.see(seen(6, Some(record(Some("x"), 4))), Duration::from_secs(9));
        assert_eq!(lease.held(Duration::from_secs(9)), Duration::from_secs(9), "the same holder");
    }

    #[test]
    fn a_holder_that_leaves_gets_no_more() {
        let leaving = LeaseRecord { leaving: true, ..record(Some("x"), 0) };
        assert_eq!(state(&WatchedLease::new(seen(1, Some(leaving)), Duration::ZERO), 1), LeaseState::Expired);
    }
}
