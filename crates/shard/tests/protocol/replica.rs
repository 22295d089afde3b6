//! A replica around a member: its clocks, the slots that it may act for, and its creates on the way.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::{Now, Slot};
use framework_shard::event::{Effect, Event};
use framework_shard::member::Member;
use framework_shard::{Incarnation, Policy};
use jiff::Timestamp;

/// The clocks of one machine, from true time in milliseconds.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Clocks {
    /// Thousandths by which they run fast.
    pub fast: i64,
    /// By how much the wall clock is off.
    pub off: i64,
}

impl Clocks {
    pub fn now(self, time: i64) -> Now {
        let local = time * (1000 + self.fast) / 1000;
        let boot = Duration::from_millis(u64::try_from(local).unwrap());
        let wall = Timestamp::from_millisecond(1_700_000_000_000 + local + self.off).unwrap();
        Now { steady: boot, boot, wall }
    }
}

#[derive(Clone, Debug, Hash)]
pub struct Replica {
    pub member: Member,
    pub me: Incarnation,
    pub clocks: Clocks,
    pub policy: Policy,
    /// Until when each slot is owned, by the clock of the policy.
    owned: BTreeMap<Slot, Duration>,
    held: BTreeMap<Slot, Duration>,
    drained: Vec<Slot>,
}

impl Replica {
    pub fn new(policy: Policy, me: Incarnation, pod: &str, clocks: Clocks, slots: &[Slot]) -> Self {
        Replica {
            member: Member::new(policy, me.clone(), pod, slots.iter().copied()).first_of_program(),
            me,
            clocks,
            policy,
            owned: BTreeMap::new(),
            held: BTreeMap::new(),
            drained: Vec::new(),
        }
    }

    /// A life of a program that had another life before.
    pub fn again(policy: Policy, me: Incarnation, pod: &str, clocks: Clocks, slots: &[Slot]) -> Self {
        let member = Member::new(policy, me.clone(), pod, slots.iter().copied());
        Replica { member, ..Replica::new(policy, me, pod, clocks, slots) }
    }

    /// The next life of this program, which remembers epochs.
    pub fn next_life(&self, me: Incarnation, pod: &str, clocks: Clocks) -> Self {
        let member = self.member.next_life(me.clone(), pod);
        let (owned, held, drained) = Default::default();
        Replica { member, me, clocks, policy: self.policy, owned, held, drained }
    }

    pub fn step(&mut self, time: i64, event: Event) -> Vec<Effect> {
        self.member.step(self.clocks.now(time), event)
    }

    /// Does an effect on ownership as `framework_message::Ownership` would.
    pub fn own(&mut self, effect: &Effect) {
        match effect {
            Effect::Own { slots, until } => slots.iter().for_each(|slot| {
                self.owned.insert(slot, *until);
            }),
            Effect::Disown(slots) => slots.iter().for_each(|slot| {
                self.owned.remove(&slot);
                self.drained.retain(|drained| *drained != slot);
            }),
            Effect::Hold { slots, until } => slots.iter().for_each(|slot| {
                self.held.insert(slot, *until);
            }),
            Effect::Resume(slots) => self.drained.retain(|slot| !slots.contains(*slot)),
            Effect::Drain { slots, .. } => self.drained.extend(slots.iter()),
            Effect::Rejoin | Effect::Exit => {
                self.owned.clear();
            }
            _ => {}
        }
    }

    /// A moment by the clock of the policy.
    pub fn at(&self, time: i64) -> Duration {
        self.policy.clock(self.clocks.now(time))
    }

    pub fn may_act(&self, slot: Slot, time: i64) -> bool {
        self.owned.contains_key(&slot) && self.may_act_at(slot, self.at(time))
    }

    pub fn may_create(&self, slot: Slot, time: i64) -> bool {
        self.owned.contains_key(&slot) && self.may_create_at(slot, self.at(time))
    }

    /// The same, by the clock of the policy.
    pub fn may_act_at(&self, slot: Slot, at: Duration) -> bool {
        self.owned.get(&slot).is_some_and(|until| at < *until)
    }

    pub fn may_create_at(&self, slot: Slot, at: Duration) -> bool {
        let held = self.held.get(&slot).is_some_and(|until| at < *until);
        self.may_act_at(slot, at) && !held && !self.drained.contains(&slot)
    }
}
