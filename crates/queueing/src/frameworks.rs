//! The QueueUnits of Frameworks, as the owner of a Framework's slot treats them: it creates and deletes them,
//! removes their finalizers, and compares a Framework with its units before it begins.
//!
//! The owner of the namespace's slot releases the units, in [`QueueController`](crate::QueueController). The
//! two sides may be two replicas: they exchange nothing but the units themselves.
//!
//! Guarantees:
//! - A Framework begins only with what its stored unit was released for, and only while our finalizer is on
//!   the unit. A deletion by a user takes nothing back: the finalizer stays until the Framework has ended.
//! - The finalizer stands for the reservation. It is removed once nothing of the Framework can run by the
//!   unit any more.
//! - Each request is sent only while the slot of the Framework's UID is owned; work that comes up while that
//!   is in doubt is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework_message::{Change, Key, MayAct, Now, Ownership, Slot, Slots};

use crate::consumer::{Consumer, ConsumerKey};
use crate::object::UnitObject;
use crate::outcome::Outcome;
use crate::outgoing::{OutgoingRequests, Work};
use crate::paused::Paused;
use crate::settings::Settings;

mod admission;
mod create;
mod reply;
mod send;
mod state;
mod units;
mod verdict;

use state::{FrameworkState, Writes};
use units::Units;

/// The number of the first ticket: apart from those of the engine and of the queues.
const TICKETS: u64 = 3 << 62;

/// A Framework as the engine reported it last.
#[derive(Debug)]
struct Reported {
    /// `None`: it is gone.
    framework: Option<Consumer>,
    /// Whether Pods of the name run that it does not record.
    has_strays: bool,
}

/// The units of Frameworks; see the module.
#[derive(Debug)]
pub struct FrameworkUnits {
    settings: Settings,
    ownership: Ownership,
    units: Units,
    frameworks: BTreeMap<Key, Reported>,
    states: BTreeMap<Key, FrameworkState>,
    /// Requests about units.
    writes: BTreeMap<Key, Writes>,
    /// Names of Frameworks that have changed, or whose units have.
    stale: BTreeSet<Key>,
    paused: Paused<Key>,
    outgoing: OutgoingRequests,
    /// By slot, until when requests of an earlier owner may land.
    holds: BTreeMap<Slot, Duration>,
    /// UIDs of Frameworks that went while Pods of them were yet to be seen: until when these may appear.
    late: BTreeMap<Arc<str>, Option<Duration>>,
    began: bool,
    outcomes: Vec<Outcome>,
    draining: bool,
}

impl FrameworkUnits {
    /// No unit was seen yet.
    pub fn new(settings: Settings, seed: u64) -> Self {
        FrameworkUnits {
            settings,
            ownership: Ownership::default(),
            units: Units::default(),
            frameworks: BTreeMap::new(),
            states: BTreeMap::new(),
            writes: BTreeMap::new(),
            stale: BTreeSet::new(),
            paused: Paused::default(),
            outgoing: OutgoingRequests::new(TICKETS, seed),
            holds: BTreeMap::new(),
            late: BTreeMap::new(),
            began: false,
            outcomes: Vec::new(),
            draining: false,
        }
    }

    /// The same, for the slots that `ownership` says it owns.
    #[must_use]
    pub fn with_ownership(mut self, ownership: Ownership) -> Self {
        self.ownership = ownership;
        self
    }

    /// These slots are owned from now on. Requests of an earlier owner may land until `hold`; `None`: none
    /// can.
    pub fn granted(&mut self, slots: Slots, hold: Option<Duration>) {
        if let Some(until) = hold {
            self.holds.extend(slots.iter().map(|slot| (slot, until)));
        }
        self.stale.extend(self.frameworks.keys().chain(self.units.frameworks()).cloned());
    }

    /// Takes in a change of a unit.
    pub fn step(&mut self, change: Change<Arc<UnitObject>>) {
        let (changed, concerned) = self.units.apply(change);
        let units = &self.units;
        for unit in changed.iter().filter(|unit| units.get(unit).is_none()) {
            self.writes.remove(unit);
        }
        // A unit was created or deleted: the next POST need not wait.
        for key in &concerned {
            if let Some(state) = self.states.get_mut(key) {
                (state.not_before, state.is_name_taken) = (Duration::ZERO, false);
            }
        }
        self.stale.extend(concerned);
    }

    /// Takes in a Framework as the engine shows it; `None`: it is gone, or concerns no queue. `has_strays`:
    /// whether Pods of the name run that no Framework records. `left_creates`: whether Pods of the Framework
    /// before are yet to be seen.
    pub fn framework(&mut self, key: Key, framework: Option<Consumer>, has_strays: bool, left_creates: bool) {
        let before = match framework.is_some() || has_strays {
            true => self.frameworks.insert(key.clone(), Reported { framework, has_strays }),
            false => {
                self.states.remove(&key);
                self.frameworks.remove(&key)
            }
        };
        let before = before.and_then(|before| before.framework).filter(|_| left_creates);
        self.late.extend(before.map(|before| (before.uid, None)));
        self.stale.insert(key);
    }

    /// Compares the Frameworks that have changed with their units, and queues the requests that follow.
    pub fn turn(&mut self, now: Now) -> Vec<Outcome> {
        if !self.units.is_synced() {
            return Vec::new();
        }
        if !std::mem::replace(&mut self.began, true) {
            let until = now.steady + self.settings.request_lifetime;
            self.holds.extend(Slot::all().map(|slot| (slot, until)));
        }
        self.late.retain(|_, until| until.is_none_or(|until| now.steady < until));
        for until in self.late.values_mut() {
            until.get_or_insert(now.steady + self.settings.request_lifetime);
        }
        let ownership = &self.ownership;
        self.stale.extend(self.paused.take(|slot| ownership.may_act(slot, now) == MayAct::Paused));
        for work in self.outgoing.take_due(now.steady) {
            match work {
                // Whether its Framework may begin may have changed, too.
                Work::Unit(unit) => {
                    self.stale.extend(self.units.get(&unit).map(|unit| unit.consumer.key.clone()));
                }
                work => self.outgoing.offer(work, true),
            }
        }
        for key in std::mem::take(&mut self.stale) {
            self.sync(now, &key);
        }
        std::mem::take(&mut self.outcomes)
    }

    /// When, on the steady clock, [`FrameworkUnits::turn`] must be called again though nothing happens.
    pub fn next_wake(&self) -> Option<Duration> {
        self.outgoing.next_due()
    }

    /// Creates no more units. Requests about those that exist go on.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether no request is on its way.
    pub fn is_settled(&self) -> bool {
        self.outgoing.is_settled()
    }

    fn sync(&mut self, now: Now, key: &Key) {
        let framework = self.frameworks.get(key).and_then(|reported| reported.framework.as_ref());
        if let Some(uid) = framework.map(|framework| Arc::clone(&framework.uid))
            && self.may_act(now, &uid, key)
        {
            self.admit(now, key);
            if self.wants_create(key) {
                let job = ConsumerKey::of_framework(key.clone());
                self.outgoing.offer(Work::Job(job), true);
            }
        }
        for unit in self.units.of(key) {
            self.outgoing.offer(Work::Unit(unit.clone()), true);
        }
    }

    /// Whether the slot of the Framework with this UID is owned. While that is in doubt, the name is set
    /// aside.
    fn may_act(&mut self, now: Now, uid: &str, key: &Key) -> bool {
        let slot = Slot::of(uid);
        let may_act = self.ownership.may_act(slot, now);
        if may_act == MayAct::Paused {
            self.paused.add(slot, key.clone());
        }
        may_act == MayAct::Yes
    }
}
