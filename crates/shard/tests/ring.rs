//! The hash ring over histories of members that join and leave.

#![allow(clippy::disallowed_macros, reason = "it says what it has counted")]

use std::collections::{BTreeMap, BTreeSet};

use framework_message::Slot;
use framework_shard::{Incarnation, ring};
use proptest::prelude::*;

type Owners = BTreeMap<Slot, Option<Incarnation>>;

fn member(number: usize) -> Incarnation {
    Incarnation::new(&format!("replica-{number}"), "x")
}

/// Members that come and go, and the owners that follow.
struct History {
    owners: Owners,
    members: BTreeSet<Incarnation>,
    born: usize,
}

impl History {
    fn new(members: usize) -> Self {
        let owners = Slot::all().map(|slot| (slot, None)).collect();
        let mut history = History { owners, members: (0..members).map(member).collect(), born: members };
        history.settle();
        history
    }

    /// Assigns again and checks the bounds. Returns the number of slots that moved.
    fn settle(&mut self) -> usize {
        let next = ring::assign(&self.owners, &self.members);
        assert_eq!(next.len(), Slot::COUNT, "every slot has an owner");
        let share = |one: &Incarnation| next.values().filter(|owner| *owner == one).count();
        for one in &self.members {
            let bounds = ring::least(256, self.members.len())..=ring::most(256, self.members.len());
            assert!(bounds.contains(&share(one)), "{one} of {}: {}", self.members.len(), share(one));
        }
        let moved = next.iter().filter(|(slot, owner)| self.owners[slot].as_ref() != Some(owner)).count();
        self.owners = next.into_iter().map(|(slot, owner)| (slot, Some(owner))).collect();
        moved
    }

    fn join(&mut self) -> usize {
        self.members.insert(member(self.born));
        self.born += 1;
        self.settle()
    }

    fn leave(&mut self, which: usize) -> usize {
        let gone = self.members.iter().nth(which % self.members.len()).unwrap().clone();
        self.members.remove(&gone);
        self.settle()
    }

    /// One random change, and the share of all slots that it moved beyond one member's.
    fn change(&mut self, choice: usize) -> f64 {
        let before = self.members.len();
        let moved = if before == 1 || (before < 24 && choice.is_multiple_of(2)) {
            self.join()
        } else {
            self.leave(choice / 2)
        };
        moved as f64 / 256.0 - 1.0 / before.max(self.members.len()) as f64
    }
}

proptest! {
    #[test]
    fn a_change_of_members_moves_one_share_and_a_tenth_at_most(
        first in 1..24_usize, choices in prop::collection::vec(any::<usize>(), 1..60)
    ) {
        let mut history = History::new(first);
        let beyond: Vec<_> = choices.into_iter().map(|choice| history.change(choice)).collect();
        prop_assert!(beyond.iter().all(|beyond| *beyond <= 0.10), "{beyond:?}");
    }
}

#[test]
fn a_change_of_members_moves_one_share_and_two_hundredths_on_average() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut sum, mut count, mut worst) = (0.0, 0, f64::MIN);
    for first in 1..24 {
        let mut history = History::new(first);
        for _ in 0..100 {
            let beyond = history.change(random.usize(..));
            (sum, count, worst) = (sum + beyond, count + 1, f64::max(worst, beyond));
        }
    }
    println!("beyond one share: mean {:.4}, worst {worst:.4}, of {count} changes", sum / f64::from(count));
    assert!(sum / f64::from(count) <= 0.02);
}

/// An old member leaves before anything moves to the new one. In a rollout of the Deployment it leaves later,
/// and some slots move more often.
#[test]
fn a_rolling_update_moves_each_slot_once() {
    for replicas in [1, 2, 3, 5, 10] {
        let mut history = History::new(replicas);
        let mut moved = 0;
        for old in 0..replicas {
            history.members.remove(&member(old));
            history.members.insert(member(history.born));
            history.born += 1;
            moved += history.settle();
        }
        assert_eq!(moved, 256, "{replicas} replicas");
    }
}

/// The order of a rollout of the Deployment: a new Pod is ready once it has its share. Then an old one ends.
#[test]
fn a_rollout_with_a_surge_moves_some_slots_twice_or_more() {
    for (replicas, expected, least) in [(2, 338, 324), (3, 378, 360), (5, 420, 400)] {
        let mut history = History::new(replicas);
        let mut moved = 0;
        for old in 0..replicas {
            moved += history.join();
            history.members.remove(&member(old));
            moved += history.settle();
        }
        // Within the bounds the new member gets this share, and the old one has as much to give away.
        let share = ring::least(256, replicas + 1);
        assert_eq!((moved, 2 * share * replicas), (expected, least), "{replicas} replicas");
    }
}

#[test]
fn more_members_than_slots_own_one_slot_or_none() {
    let mut history = History::new(300);
    assert!(history.leave(7) <= 1 && history.join() == 0);
    assert!(ring::assign(&history.owners, &BTreeSet::new()).is_empty(), "nobody is left");
}

#[test]
fn a_restarted_member_stands_where_it_stood() {
    let free: Owners = Slot::all().map(|slot| (slot, None)).collect();
    let lives = ["x", "y"].map(|life| {
        let members = (0..3).map(|number| Incarnation::new(&format!("replica-{number}"), life)).collect();
        let owners = ring::assign(&free, &members);
        owners.into_iter().map(|(slot, owner)| (slot, owner.lease().to_owned())).collect::<Vec<_>>()
    });
    assert_eq!(lives[0], lives[1]);
}
