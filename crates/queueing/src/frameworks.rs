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
//!   unit any more. A unit that a user made has none: its share is returned then.
//! - Each request is sent only while the slot of the Framework's UID is owned; work that comes up while that
//!   is in doubt is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework_core::queue::Stage;
use framework_message::{Change, Key, MayAct, Now, Paused, Slot, Slots};

use crate::active_slots::ActiveSlots;
use crate::consumer::{Consumer, ConsumerKey};
use crate::effect::QueueEffect;
use crate::object::UnitObject;
use crate::outgoing::{OutgoingRequests, Work};
use crate::settings::Settings;

mod admission;
mod by_hand;
mod create;
mod reply;
mod send;
mod state;
mod units;
mod verdict;

use state::{RefusedBinds, UnitRequests, Writes};
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
    /// By namespace.
    refused_binds: BTreeMap<Arc<str>, RefusedBinds>,
    /// Names of Frameworks that have changed, or whose units have.
    stale: BTreeSet<Key>,
    paused: Paused<Key>,
    outgoing: OutgoingRequests,
    /// UIDs of Frameworks that went while Pods of them were yet to be seen: until when these may appear.
    late: BTreeMap<Arc<str>, Option<Duration>>,
    /// Units whose Frameworks were seen to go, and the UIDs of these.
    orphans: BTreeMap<Key, Arc<str>>,
    began: bool,
    effects: Vec<QueueEffect>,
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
            refused_binds: BTreeMap::new(),
            stale: BTreeSet::new(),
            paused: Paused::default(),
            outgoing: OutgoingRequests::new(TICKETS, seed),
            late: BTreeMap::new(),
            orphans: BTreeMap::new(),
            began: false,
            effects: Vec::new(),
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
        self.look_by_hand_in(slots);
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
        self.orphans.retain(|_, uid| !is_lost(uid));
        // The reply to a request of a lost slot is dropped.
        self.writes.retain(|_, writes| writes.framework.as_ref().is_some_and(|uid| !is_lost(uid)));
        let units: BTreeSet<&str> = self.units.all_by_hand().map(|unit| &*unit.namespace).collect();
        self.refused_binds.retain(|namespace, _| units.contains(&**namespace));
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
        for unit in changed {
            if self.units.get(&unit).is_some_and(|unit| unit.holds_by_hand()) {
                self.outgoing.offer(Work::Unit(unit), false);
            }
        }
    }

    /// Takes in a Framework as the engine shows it; `None`: it is gone, or concerns no queue. `has_strays`:
    /// whether Pods of the name run that no Framework records. `left_creates`: whether Pods of the Framework
    /// before are yet to be seen.
    pub fn framework(&mut self, key: Key, framework: Option<Consumer>, has_strays: bool, left_creates: bool) {
        let is_over = framework.as_ref().is_none_or(|framework| framework.stage == Stage::Finished);
        let before = match framework.is_some() || has_strays {
            true => self.frameworks.insert(key.clone(), Reported { framework, has_strays }),
            false => {
                self.unit_requests.remove(&key);
                self.frameworks.remove(&key)
            }
        };
        let had_strays = before.as_ref().is_some_and(|before| before.has_strays);
        let uid_of = |reported: Option<&Reported>| Some(Arc::clone(&reported?.framework.as_ref()?.uid));
        let is_another = uid_of(before.as_ref()) != uid_of(self.frameworks.get(&key));
        if let Some(before) = before.and_then(|before| before.framework) {
            let units = &self.units;
            let is_of =
                |unit: &&Key| units.get(unit).and_then(|unit| unit.framework_uid()) == Some(&before.uid);
            if is_another {
                let all = units.of(&key).chain(units.by_hand(&key)).filter(is_of);
                self.orphans.extend(all.map(|unit| (unit.clone(), Arc::clone(&before.uid))));
            }
            self.late.extend(left_creates.then_some((before.uid, None)));
        }
        // Strays may be of an earlier Framework of the name.
        if !has_strays && (is_over || had_strays || is_another) {
            self.look_by_hand(&key);
        }
        self.stale.insert(key);
    }

    /// Compares the Frameworks that have changed with their units, and queues the requests that follow.
    pub fn turn(&mut self, now: Now) -> Vec<QueueEffect> {
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
        let resumed = self.paused.take(|slot| active_slots.is_paused(slot, now));
        resumed.iter().for_each(|framework| self.look_by_hand(framework));
        self.stale.extend(resumed);
        for work in self.outgoing.take_due(now.steady) {
            match work {
                Work::Unit(unit) => match self.units.get(&unit).filter(|unit| unit.is_of_framework()) {
                    // Whether its Framework may begin may have changed, too.
                    Some(unit) => _ = self.stale.insert(unit.consumer.key.clone()),
                    None => self.outgoing.offer(Work::Unit(unit), false),
                },
                work => self.outgoing.offer(work, true),
            }
        }
        for key in std::mem::take(&mut self.stale) {
            self.sync(now, &key);
        }
        std::mem::take(&mut self.effects)
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
