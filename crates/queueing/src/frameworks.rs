//! The QueueUnits of Frameworks, as the owner of a Framework's slot treats them. It creates and deletes them,
//! removes their finalizers, and compares a Framework with its units before the Framework begins.
//!
//! The owner of the namespace's slot releases the units, in [`QueueController`](crate::QueueController). The
//! two sides may be two replicas: they exchange nothing but the units themselves.
//!
//! Guarantees:
//! - A Framework begins only with the requests of its stored, released unit, and only while our finalizer is
//!   on the unit. A deletion by a user takes nothing back: the finalizer stays until the Framework has ended.
//! - The finalizer stands for the reservation. It is removed once nothing of the Framework can run by the
//!   unit any more.
//! - Each request is sent only while the slot of the Framework's UID is owned; work that comes up while that
//!   is in doubt is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework_message::{Change, Key, MayAct, Now, Paused, Slot, Slots};

use crate::active_slots::ActiveSlots;
use crate::consumer::{Consumer, ConsumerKey};
use crate::object::UnitObject;
use crate::outcome::Outcome;
use crate::outgoing::{OutgoingRequests, Work};
use crate::settings::Settings;

mod admission;
mod create;
mod reply;
mod send;
mod state;
mod units;
mod verdict;

use state::{UnitRequests, Writes};
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
    active_slots: ActiveSlots,
    units: Units,
    frameworks: BTreeMap<Key, Reported>,
    /// Requests about the units of each Framework.
    unit_requests: BTreeMap<Key, UnitRequests>,
    /// Requests about units.
    writes: BTreeMap<Key, Writes>,
    /// Names of Frameworks that have changed, or whose units have.
    stale: BTreeSet<Key>,
    paused: Paused<Key>,
    outgoing: OutgoingRequests,
    /// UIDs of Frameworks that went while Pods of them were yet to be seen: until when these may appear.
    late: BTreeMap<Arc<str>, Option<Duration>>,
    /// Units whose Frameworks were seen to go.
    orphans: BTreeSet<Key>,
    began: bool,
    outcomes: Vec<Outcome>,
}

impl FrameworkUnits {
    /// No unit was seen yet.
    pub fn new(settings: Settings, seed: u64) -> Self {
        FrameworkUnits {
            settings,
            active_slots: ActiveSlots::default(),
            units: Units::default(),
            frameworks: BTreeMap::new(),
            unit_requests: BTreeMap::new(),
            writes: BTreeMap::new(),
            stale: BTreeSet::new(),
            paused: Paused::default(),
            outgoing: OutgoingRequests::new(TICKETS, seed),
            late: BTreeMap::new(),
            orphans: BTreeSet::new(),
            began: false,
            outcomes: Vec::new(),
        }
    }

    /// The same, for the Frameworks of these slots.
    #[must_use]
    pub fn with_active_slots(self, active_slots: ActiveSlots) -> Self {
        FrameworkUnits { active_slots, ..self }
    }

    /// Requests of an earlier owner of these slots may land until then, on the monotonic clock.
    pub fn hold(&mut self, slots: Slots, until: Duration) {
        self.active_slots.hold(slots, until);
    }

    /// These slots are acted for from now on: their Frameworks and all units were listed since the grant, or
    /// their drain is called off.
    pub fn begin(&mut self, now: Now, slots: Slots) {
        self.active_slots.begin(now, slots);
        self.stale.extend(self.frameworks.keys().chain(self.units.frameworks()).cloned());
    }

    /// Nothing new is sent for these slots.
    pub fn drain(&mut self, slots: Slots) {
        self.active_slots.drain(slots);
    }

    /// These slots are not owned any more: the state of their Frameworks is dropped. They are not gone.
    pub fn lost(&mut self, slots: Slots) {
        self.active_slots.lose(slots);
        self.outgoing.lose(slots);
        let is_lost = |uid: &str| slots.contains(Slot::of(uid));
        let of_lost = |_: &Key, reported: &mut Reported| {
            reported.framework.as_ref().is_some_and(|framework| is_lost(&framework.uid))
        };
        for (key, _) in self.frameworks.extract_if(.., of_lost) {
            self.unit_requests.remove(&key);
        }
        self.late.retain(|uid, _| !is_lost(uid));
        let units = &self.units;
        let owner = |unit: &Key| units.get(unit).and_then(|unit| unit.owner.clone());
        self.orphans.retain(|unit| owner(unit).is_some_and(|uid| !is_lost(&uid)));
        self.writes.retain(|unit, _| owner(unit).is_some_and(|uid| !is_lost(&uid)));
    }

    /// Takes in a change of a unit.
    pub fn step(&mut self, change: Change<Arc<UnitObject>>) {
        let (changed, concerned) = self.units.apply(change);
        let units = &self.units;
        for unit in changed.iter().filter(|unit| units.get(unit).is_none()) {
            self.writes.remove(unit);
            self.orphans.remove(unit);
        }
        // A unit was created or deleted: the next POST need not wait.
        for key in &concerned {
            if let Some(state) = self.unit_requests.get_mut(key) {
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
                self.unit_requests.remove(&key);
                self.frameworks.remove(&key)
            }
        };
        if let Some(before) = before.and_then(|before| before.framework) {
            let units = &self.units;
            let is_of =
                |unit: &&Key| units.get(unit).is_some_and(|unit| unit.owner.as_ref() == Some(&before.uid));
            let is_gone = self
                .frameworks
                .get(&key)
                .and_then(|now| now.framework.as_ref())
                .is_none_or(|now| now.uid != before.uid);
            self.orphans.extend(units.of(&key).filter(is_of).filter(|_| is_gone).cloned());
            self.late.extend(left_creates.then_some((before.uid, None)));
        }
        self.stale.insert(key);
    }

    /// Compares the Frameworks that have changed with their units, and queues the requests that follow.
    pub fn turn(&mut self, now: Now) -> Vec<Outcome> {
        if !self.units.is_synced() {
            return Vec::new();
        }
        if !std::mem::replace(&mut self.began, true) && self.active_slots.is_alone() {
            self.active_slots.hold(Slots::ALL, now.steady + self.settings.request_lifetime);
        }
        self.late.retain(|_, until| until.is_none_or(|until| now.steady < until));
        for until in self.late.values_mut() {
            until.get_or_insert(now.steady + self.settings.request_lifetime);
        }
        let active_slots = &self.active_slots;
        self.stale.extend(self.paused.take(|slot| active_slots.is_paused(slot, now)));
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

    /// When, on the monotonic clock, [`FrameworkUnits::turn`] must be called again though nothing happens.
    pub fn next_wake(&self) -> Option<Duration> {
        self.outgoing.next_due().filter(|_| self.units.is_synced())
    }

    /// Whether no request is on its way.
    pub fn is_settled(&self) -> bool {
        self.outgoing.is_settled()
    }

    /// The slots of requests that may still land.
    pub fn unsettled(&mut self, now: Now) -> Slots {
        self.outgoing.unsettled(now.steady)
    }

    /// When, on the monotonic clock, the next request without a reply can land no more.
    pub fn settles_at(&self) -> Option<Duration> {
        self.outgoing.settles_at()
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
        let may_act = self.active_slots.may_act(slot, now);
        if may_act == MayAct::Paused {
            self.paused.add(slot, key.clone());
        }
        may_act == MayAct::Yes
    }
}
