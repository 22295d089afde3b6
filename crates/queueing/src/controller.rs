//! Decides which units are released, and writes their status: for the owner of a namespace's slot.
//!
//! Guarantees:
//! - A release is decided from the stored unit and guarded by that resourceVersion.
//! - A release that may have been stored counts until it is known not to be.
//! - After a start no unit is released while a release of a predecessor may still land. Its requests live for
//!   a bounded time.
//! - A unit of a Framework counts as long as it carries our finalizer. One that a user made counts until it
//!   is returned or gone. Only its status is written here. The owner of the Framework's slot judges whether
//!   the Framework begins, runs or has ended.
//! - Work that comes up while the slot of a namespace is paused is kept.
//! - The same events at the same times give the same requests. It does no I/O and reads no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework_core::Defect;
use framework_message::{Change, Key, MayAct, Now, Paused, Slot, Slots};
use jiff::Timestamp;

use crate::active_slots::ActiveSlots;
use crate::cache::QueueCache;
use crate::consumer::{ConsumerKey, JobKind};
use crate::counts::Counts;
use crate::effect::QueueEffect;
use crate::job::JobState;
use crate::namespaces::{Namespaces, UsageWatch};
use crate::object::{Overtaken, QueueEvent};
use crate::outgoing::{OutgoingRequests, Work};
use crate::queue_status::QueueState;
use crate::recovery::Recovery;
use crate::settings::Settings;
use crate::stale::Stale;
use crate::unit::UnitState;
use crate::usage::Usage;

mod decide;
mod facts;
mod obstacle;
mod position;
mod queue_status;
mod queues;
mod recovery;
mod replies;
mod requests;
mod reservation;
mod usage;

/// The number of the first ticket: apart from the engine's.
const TICKETS: u64 = 1 << 63;

/// Pods that one turn counts again: some 10 ms.
const RECOUNTED: usize = 1_000;

/// The controller of QueueUnits; see the module.
#[derive(Debug)]
pub struct QueueController {
    settings: Settings,
    active_slots: ActiveSlots,
    objects: QueueCache,
    unit_states: BTreeMap<Key, UnitState>,
    job_states: BTreeMap<ConsumerKey, JobState>,
    queue_states: BTreeMap<Key, QueueState>,
    namespaces: Namespaces,
    usage: Usage,
    counts: Counts,
    stale: Stale,
    outgoing: OutgoingRequests,
    recovery: Recovery,
    effects: Vec<QueueEffect>,
    /// Namespaces that were due while their slot was paused.
    paused: Paused<Arc<str>>,
    /// Waiting units that are gone: their owner, and since when others overtook them. If the owner makes the
    /// unit again, because its request has changed, it keeps its place.
    left_places: BTreeMap<Key, (Arc<str>, Overtaken)>,
}

impl QueueController {
    /// A controller that has seen no objects yet.
    pub fn new(settings: Settings, seed: u64) -> Self {
        QueueController {
            settings,
            active_slots: ActiveSlots::default(),
            objects: QueueCache::default(),
            unit_states: BTreeMap::new(),
            job_states: BTreeMap::new(),
            queue_states: BTreeMap::new(),
            namespaces: Namespaces::new(settings.reserve_after),
            usage: Usage::default(),
            counts: Counts::default(),
            stale: Stale::default(),
            outgoing: OutgoingRequests::new(TICKETS, seed),
            recovery: Recovery::default(),
            effects: Vec::new(),
            paused: Paused::default(),
            left_places: BTreeMap::new(),
        }
    }

    /// The same, for the namespaces of these slots.
    #[must_use]
    pub fn with_active_slots(self, active_slots: ActiveSlots) -> Self {
        QueueController { active_slots, ..self }
    }

    /// The same, where these kinds have rows. Until it is known whether a kind is served, its jobs may be
    /// there.
    #[must_use]
    pub fn with_kinds(mut self, kinds: impl IntoIterator<Item = JobKind>) -> Self {
        self.objects.undetermined = kinds.into_iter().collect();
        self
    }

    /// Requests of an earlier owner of these slots may land until then, on the monotonic clock: nothing is
    /// released there before the units were listed after that.
    pub fn hold(&mut self, slots: Slots, until: Duration) {
        if !self.settings.defects.has(Defect::ForgetHold) {
            self.active_slots.hold(slots, until);
        }
    }

    /// The namespaces of these slots are scheduled from now on: all units were listed since the grant, or the
    /// drain is called off.
    pub fn begin(&mut self, now: Now, slots: Slots) {
        let granted: Slots = slots.iter().filter(|slot| self.active_slots.begun(*slot).is_none()).collect();
        self.active_slots.begin(now, slots);
        for namespace in self.known_namespaces(slots) {
            let slot = Slot::of(&namespace);
            let held_until = self.active_slots.held_until(slot);
            // After a grant also if the hold is over, because other LISTs took long: the watch of units may
            // be behind. A unit that the LIST after the grant has not shown was not released before it.
            let has_units = self.objects.units.within(&namespace).next().is_some();
            let may_land = |until: &Duration| has_units && (granted.contains(slot) || now.steady < *until);
            if let Some(until) = held_until.filter(may_land) {
                self.recovery.wait([Arc::clone(&namespace)].into_iter(), until);
            }
            self.recovery.lags(&namespace, now.steady + self.settings.request_lifetime);
            self.look_again(&namespace);
        }
    }

    /// Nothing new is sent for the namespaces of these slots.
    pub fn drain(&mut self, slots: Slots) {
        self.active_slots.drain(slots);
    }

    /// The namespaces of these slots are not ours any more: the decisions there, and the writes that may have
    /// been stored, are forgotten.
    pub fn lost(&mut self, slots: Slots) {
        self.active_slots.lose(slots);
        self.outgoing.lose(slots);
        self.recovery.forget(slots);
        for namespace in self.known_namespaces(slots) {
            let jobs: Vec<_> = jobs_of(&self.job_states, &namespace).cloned().collect();
            jobs.iter().for_each(|job| drop(self.job_states.remove(job)));
            let units: Vec<_> = self.objects.units.within(&namespace).map(|unit| unit.key.clone()).collect();
            for unit in units {
                if self.unit_states.contains_key(&unit) {
                    self.forget_unit(&unit);
                }
                self.unit_changed(unit);
            }
            let queues: Vec<_> =
                self.objects.queues.within(&namespace).map(|queue| queue.key.clone()).collect();
            for queue in queues {
                self.queue_states.entry(queue.clone()).and_modify(QueueState::forget);
                self.queue_shown(&queue);
            }
        }
        self.left_places.retain(|unit, _| !slots.contains(Slot::of(&unit.namespace)));
    }

    /// The namespaces of these slots with units, Queues or jobs.
    fn known_namespaces(&self, slots: Slots) -> BTreeSet<Arc<str>> {
        let all = self.objects.units.namespaces().chain(self.objects.queues.namespaces());
        let of_jobs = self.objects.consumers.keys().map(|consumer| &consumer.key.namespace);
        all.chain(of_jobs).filter(|namespace| slots.contains(Slot::of(namespace))).cloned().collect()
    }

    /// Takes in a change that a watch shows.
    pub fn step(&mut self, event: QueueEvent) {
        match event {
            QueueEvent::Unit(change) => {
                self.stale.jobs.extend(self.objects.job_of(&change));
                // Of one that a LIST of the watch does not show it is not known until when it was there.
                let version = match &change {
                    Change::Deleted(unit) => unit.resource_version,
                    _ => u128::MAX,
                };
                for key in self.objects.units.apply(change) {
                    if self.objects.units.get(&key).is_none() {
                        self.recovery.vanished(&key, version);
                    }
                    self.unit_changed(key);
                }
            }
            QueueEvent::Queue(change) => {
                let keys = self.objects.queues.apply(change);
                for key in keys {
                    self.queue_changed(&key);
                    self.queue_shown(&key);
                }
            }
            QueueEvent::Quota(change) => {
                let keys = self.objects.quotas.apply(change);
                keys.into_iter().for_each(|key| self.quota_changed(&key));
            }
            QueueEvent::Class(change) => {
                let keys = self.objects.classes.apply(change);
                keys.into_iter().for_each(|key| self.class_changed(&key.name));
            }
            QueueEvent::PodsSelected(share) => {
                let keys = self.objects.pods.select(share);
                keys.into_iter().for_each(|key| self.pod_changed(&key));
            }
            QueueEvent::Pod(change) => {
                let keys = self.objects.pods.apply(change);
                keys.into_iter().for_each(|key| self.pod_changed(&key));
            }
            QueueEvent::PodsAreWatched(is_open) => {
                self.stale.namespaces.extend(self.namespaces.set_watched(UsageWatch::Pods, is_open));
            }
            QueueEvent::QuotasAreWatched(is_open) => {
                self.stale.namespaces.extend(self.namespaces.set_watched(UsageWatch::Quotas, is_open));
            }
            QueueEvent::AttemptsSelected(share) => {
                let pods = self.objects.owners.select(share);
                self.stale.pods.extend(pods);
            }
            QueueEvent::Attempt(change) => {
                let pods = self.objects.owners.apply(change);
                self.stale.pods.extend(pods);
            }
            QueueEvent::Declared(kind, change) => self.declared_changed(kind, *change),
            QueueEvent::NotServed(kind) => self.kind_is_not_served(&kind),
        }
    }

    /// Runs the rounds that are due, and queues the requests that follow from them.
    pub fn turn(&mut self, now: Now, time: Timestamp) -> Vec<QueueEffect> {
        if !self.objects.is_synced() {
            return Vec::new();
        }
        if self.recovery.begins() {
            self.start_recovery(now);
        }
        self.expire_pods(time);
        let left = self.recount_pods(RECOUNTED);
        self.resume(now);
        self.sync_jobs(now);
        self.list_recovered(now);
        self.consider_refused(now);
        self.stale.namespaces.extend(self.namespaces.due(now.steady, time).cloned());
        // A unit that was read says to which job Pods belong.
        self.recount_pods(left);
        self.refresh(now);
        self.decide(now, time);
        self.offer_queue_statuses();
        let due = self.outgoing.take_due(now.steady);
        due.into_iter().for_each(|work| self.offer(work));
        std::mem::take(&mut self.effects)
    }

    /// When, on the monotonic clock, [`QueueController::turn`] must be called again though nothing happens.
    pub fn next_wake(&self, now: Now, time: Timestamp) -> Option<Duration> {
        let on_the_wall = |at: Timestamp| {
            let wait = Duration::try_from(at.duration_since(time)).unwrap_or(Duration::ZERO);
            // Not a moment too early: whole instants are compared.
            now.steady + wait + Duration::from_millis(1)
        };
        if !self.objects.is_synced() {
            // A turn would do nothing, again and again.
            return None;
        }
        let round = self.namespaces.round_at().map(on_the_wall);
        let lapses = self.usage.expires_at().map(on_the_wall);
        let (settles, later) = (self.recovery.settles_at(), self.outgoing.next_due());
        let recount = (!self.stale.pods.is_empty()).then_some(now.steady);
        let (others, refused) = (self.namespaces.others_at(), self.stale.refused.next());
        [recount, settles, others, refused, round, lapses, later].into_iter().flatten().min()
    }

    /// Whether no request is on its way.
    pub fn is_settled(&self) -> bool {
        self.outgoing.is_settled()
    }

    /// The slots of requests that may still land.
    pub fn unsettled(&mut self, now: Now) -> Slots {
        let waits = !self.settings.defects.has(Defect::HandOverEarly);
        if waits { self.outgoing.unsettled(now.steady) } else { Slots::NONE }
    }

    /// When, on the monotonic clock, the next request without a reply can land no more.
    pub fn settles_at(&self) -> Option<Duration> {
        self.outgoing.settles_at()
    }

    /// Whether this replica schedules the queues of a namespace, by the slot of its name. While that is in
    /// doubt, the namespace is set aside, and all of it is looked at again later.
    fn owns(&mut self, namespace: &Arc<str>, now: Now) -> bool {
        let slot = Slot::of(namespace);
        let may_act = self.active_slots.may_act(slot, now);
        if may_act == MayAct::Paused {
            self.paused.add(slot, Arc::clone(namespace));
        }
        may_act == MayAct::Yes
    }

    /// Looks again at the namespaces that were set aside, once their slot is not paused any more.
    fn resume(&mut self, now: Now) {
        let active_slots = &self.active_slots;
        let namespaces = self.paused.take(|slot| active_slots.is_paused(slot, now));
        namespaces.iter().for_each(|namespace| self.look_again(namespace));
    }

    /// All units, Queues and jobs of a namespace are evaluated again.
    fn look_again(&mut self, namespace: &Arc<str>) {
        let units: Vec<_> = self.objects.units.within(namespace).map(|unit| unit.key.clone()).collect();
        let queues = self.objects.queues.within(namespace).map(|queue| queue.key.clone());
        self.stale.queues.extend(queues);
        self.stale.jobs.extend(jobs_of(&self.objects.consumers, namespace).cloned());
        self.stale.units.extend(units.iter().cloned());
        self.stale.namespaces.insert(Arc::clone(namespace));
        units.into_iter().for_each(|unit| self.offer(Work::Unit(unit)));
        self.offer(Work::List(Arc::clone(namespace)));
    }
}

/// The jobs of a namespace, without a look at those of others.
fn jobs_of<'a, T>(
    all: &'a BTreeMap<ConsumerKey, T>,
    namespace: &'a str,
) -> impl Iterator<Item = &'a ConsumerKey> {
    let first = all.range(ConsumerKey::least_of(namespace)..);
    first.map(|(job, _)| job).take_while(move |job| *job.key.namespace == *namespace)
}

#[cfg(test)]
mod tests;
