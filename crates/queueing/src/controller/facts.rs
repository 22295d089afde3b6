//! Changes of objects become facts for the schedule.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::{Phase, Reason};
use framework_core::queue::Stage;
use framework_queue::{ResourceRequests, UnitFacts, UnitPhase};

use super::QueueController;
use crate::consumer::{Consumer, ConsumerKey, JobKind};
use crate::counts::Counted;
use crate::object::{DeclaredObject, JobObject, UnitObject};
use crate::outgoing::Work;
use crate::owners::Between;
use crate::store::Store;
use crate::unit::{UnitDecision, UnitState};
use framework_message::{Change, Key, Now, Slot};

/// The places of units of one namespace that are gone. Most are never made again.
const MOST_LEFT_PLACES: usize = 100;

impl QueueController {
    pub(super) fn unit_changed(&mut self, key: Key) {
        let known = self.unit_states.get(&key).and_then(|state| state.uid.clone());
        let unit = self.objects.units.get(&key).map(Arc::clone);
        if known.is_some_and(|known| unit.as_ref().is_none_or(|unit| unit.uid != known)) {
            self.forget_unit(&key);
        }
        let Some(unit) = unit else { return };
        let (uid, consumer, resource_version) =
            (Arc::clone(&unit.uid), unit.consumer.clone(), unit.resource_version);
        let job = self.named_job(&key);
        if let Some(job) = job.as_ref().filter(|_| !self.unit_states.contains_key(&key)) {
            let pods = self.objects.name_job(job, &consumer);
            self.stale.pods.extend(pods);
            self.objects.units_by_job.name(job);
        }
        self.job_is_answered(&consumer);
        let left = self.left_places.remove(&key).filter(|(owner, _)| unit.owner.as_ref() == Some(owner));
        let left = left.map(|(_, overtaken)| overtaken);
        let state = self.unit_states.entry(key.clone()).or_insert_with(|| UnitState {
            uid: Some(uid),
            name_in_schedule: unit.name_in_schedule(),
            owner: unit.owner.clone(),
            consumer: Some(consumer.clone()),
            job,
            overtaken: unit.status.overtaken.or(left),
            ..Default::default()
        });
        let names = &mut self.namespaces.entry(&key.namespace).names;
        names.insert(Arc::clone(&state.name_in_schedule), Arc::clone(&key.name));
        if !self.active_slots.contains(Slot::of(&key.namespace)) {
            // The owner of the namespace decides it, and this replica goes on from there.
            state.overtaken = unit.status.overtaken;
        }
        state.writes.deleted = false;
        if state.writes.releasing.is_some_and(|base| base < resource_version) {
            state.writes.releasing = None;
            state.writes.unsure = None;
            state.facts = None;
        }
        self.objects.link(consumer.clone(), key.clone());
        self.part_changed(&consumer);
        self.look_at_namesakes(&key, &consumer);
        self.stale.jobs.insert(consumer);
        self.stale.units.insert(key.clone());
        self.offer(Work::Unit(key));
    }

    /// The unit of that name is gone, or another one has its name.
    pub(super) fn forget_unit(&mut self, key: &Key) {
        let state = self.unit_states.remove(key).unwrap_or_default();
        self.counts.replace(state.counted.as_ref(), None);
        self.reserve(state.reserves, None);
        self.objects.units_by_job.depends(key, state.depends_on.as_ref(), None);
        self.stale.refused.set(key, None);
        let waits = matches!(state.counted, Some(Counted::Waiting(..)));
        if let (true, Some(owner), Some(overtaken)) = (waits, state.owner, state.overtaken) {
            self.left_places.insert(key.clone(), (owner, overtaken));
            let of_namespace = self.left_places.range(Key::new(&key.namespace, "")..);
            let mut names =
                of_namespace.map(|(left, _)| left).take_while(|left| left.namespace == key.namespace);
            if let Some(excess) = names.nth(MOST_LEFT_PLACES).cloned() {
                self.left_places.remove(&excess);
            }
        }
        if let Some(consumer) = state.consumer {
            self.objects.unlink(&consumer, key);
            self.part_changed(&consumer);
            self.job_is_answered(&consumer);
            if let Some(job) = state.job {
                self.job_left(&job);
            }
            self.look_at_namesakes(key, &consumer);
            self.stale.jobs.insert(consumer);
        }
        if let Some(namespace_state) = self.namespaces.get_mut(&key.namespace) {
            if let UnitDecision::Release(place) = state.decision {
                namespace_state.granted.remove(&place);
            }
            namespace_state.refused.remove(&key.name);
            namespace_state.names.remove(&state.name_in_schedule);
            namespace_state.schedule.set_unit(state.name_in_schedule, None);
            self.stale.namespaces.insert(Arc::clone(&key.namespace));
        }
    }

    /// A namespace has no objects any more. A place stays as long as its job waits for a unit.
    pub(super) fn forget_places(&mut self, namespace: &Arc<str>) {
        let objects = &self.objects;
        let waits = |owner: &Arc<str>| {
            let uid = Key { namespace: Arc::clone(namespace), name: Arc::clone(owner) };
            let job = objects.jobs_by_uid.get(&uid).and_then(|job| objects.consumers.get(job));
            job.is_some_and(|job| job.uid == *owner && job.wants_unit())
        };
        let of_namespace = Key::new(namespace, "")..Key::new(&format!("{namespace}\0"), "");
        self.left_places.extract_if(of_namespace, |_, (owner, _)| !waits(owner)).for_each(drop);
    }

    /// The job that a unit names by its UID, if it is not a Framework.
    fn named_job(&self, unit: &Key) -> Option<Key> {
        let unit = self.objects.units.get(unit).filter(|unit| !unit.consumer.is_framework())?;
        let uid = unit.owner.as_ref().or(unit.consumer_uid.as_ref())?;
        Some(Key { namespace: Arc::clone(&unit.key.namespace), name: Arc::clone(uid) })
    }

    /// A job, by namespace and UID, is gone, or a unit of it. It is known as long as one of them is there:
    /// its Pods may outlive it.
    fn job_left(&mut self, job: &Key) {
        self.objects.units_by_job.unname(job);
        if !self.objects.units_by_job.is_named(job) {
            let pods = self.objects.set_job(job, None);
            self.stale.pods.extend(pods);
        }
    }

    /// The unit of a job was created or deleted: its next request need not wait.
    pub(super) fn job_is_answered(&mut self, job: &ConsumerKey) {
        if let Some(state) = self.job_states.get_mut(job) {
            state.not_before = Duration::ZERO;
        }
    }

    pub(super) fn quota_changed(&mut self, key: &Key) {
        if self.objects.quotas.get(key).is_none_or(|quota| quota.limits.is_none()) {
            let namespace_state = self.namespaces.entry(&key.namespace);
            namespace_state.others.forget(&key.name);
            namespace_state.schedule.set_quota(&key.name, None);
        }
        self.namespaces.entry(&key.namespace);
        self.stale.namespaces.insert(Arc::clone(&key.namespace));
    }

    pub(super) fn declared_changed(&mut self, kind: JobKind, change: Change<DeclaredObject>) {
        let store = self.objects.declared.entry(kind.clone()).or_default();
        let seen = store.is_synced();
        let keys = store.apply(change);
        let is_news = seen != store.is_synced();
        if is_news {
            self.objects.undetermined.remove(&kind);
        }
        keys.into_iter().for_each(|key| self.job_shown(&kind, key));
        if is_news {
            // Units that name a missing job of it are known from now on.
            self.stale.units.extend(self.objects.units_of_kind(&kind).cloned());
        }
    }

    /// A kind that has a row is not served, or not any more: its units have no jobs.
    pub(super) fn kind_is_not_served(&mut self, kind: &JobKind) {
        self.objects.undetermined.remove(kind);
        let known = self.objects.declared.remove(kind);
        let jobs: Vec<Key> = known.iter().flat_map(Store::iter).map(|job| job.job.key.clone()).collect();
        jobs.into_iter().for_each(|key| self.job_shown(kind, key));
        self.stale.units.extend(self.objects.units_of_kind(kind).cloned());
    }

    fn job_shown(&mut self, kind: &JobKind, key: Key) {
        let job = ConsumerKey { kind: kind.clone(), key };
        self.part_changed(&job);
        if kind.is_job_set() {
            self.child_changed(&job.key);
        }
        self.declared_job_changed(job);
    }

    /// A Job or JobSet is part of the job that controls it, unless it waits in a queue itself.
    fn part_changed(&mut self, key: &ConsumerKey) {
        let Some(between) = Between::of(&key.kind) else { return };
        let is_unit_of_its_own = self.objects.units_of(key).next().is_some();
        let job = self.objects.declared_job(key).map(|object| &object.job);
        let part = job.filter(|job| job.queue.is_none() && !is_unit_of_its_own);
        let link = part.and_then(|job| Some((Arc::clone(&job.uid), job.controller.clone()?)));
        let pods = self.objects.owners.link(between, key.key.clone(), link);
        self.stale.pods.extend(pods);
    }

    /// A JobSet says something else of the Pods of the job that controls it.
    fn child_changed(&mut self, key: &Key) {
        let is_parent =
            |store: &Store<DeclaredObject>| store.get(key).is_some_and(|job| job.row.child.is_some());
        let kinds = self.objects.declared.iter().filter(|(_, store)| is_parent(store));
        let jobs: Vec<_> =
            kinds.map(|(kind, _)| ConsumerKey { kind: kind.clone(), key: key.clone() }).collect();
        jobs.into_iter().for_each(|job| self.declared_job_changed(job));
    }

    fn declared_job_changed(&mut self, key: ConsumerKey) {
        let consumer = self.objects.declared_job(&key).map(|object| {
            let consumer = consumer_of(&object.job);
            match self.objects.child_of(object) {
                Some(DeclaredObject { job: JobObject { requests, class, .. }, .. }) => {
                    Consumer { requests: requests.clone(), class: class.clone(), ..consumer }
                }
                None => consumer,
            }
        });
        self.consumer_changed(key, consumer);
    }

    fn consumer_changed(&mut self, key: ConsumerKey, consumer: Option<Consumer>) {
        let of =
            |job: &Consumer| Key { namespace: Arc::clone(&key.key.namespace), name: Arc::clone(&job.uid) };
        let now = consumer.as_ref().map(of);
        // Most changes of a job, as of its status, concern at most the unit that it begins by. Users may
        // make thousands of others for it.
        let known = self.objects.consumers.get(&key);
        let is_same = known.zip(consumer.as_ref()).is_some_and(|(known, now)| known.differs_by_version(now));
        let before = match consumer {
            Some(consumer) => self.objects.consumers.insert(key.clone(), consumer),
            None => {
                self.job_states.remove(&key);
                self.objects.consumers.remove(&key)
            }
        };
        let before = before.as_ref().map(of);
        let is_another = before != now;
        if let Some(job) = before.filter(|_| is_another) {
            self.job_left(&job);
            if let Some(unit) = key.unit()
                && self.left_places.get(&unit).is_some_and(|(owner, _)| *owner == job.name)
            {
                self.left_places.remove(&unit);
            }
        }
        if let Some(job) = now {
            if is_another {
                self.objects.units_by_job.name(&job);
            }
            self.stale.pods.extend(self.objects.set_job(&job, Some(&key)));
        }
        // An edit concerns no other unit that holds nothing.
        let holds = |unit: &Key| self.objects.units.get(unit).is_some_and(|unit| self.may_hold(unit));
        let concerned: Vec<Key> = match is_same {
            true => Vec::new(),
            false => self.objects.units_of(&key).filter(|unit| is_another || holds(unit)).cloned().collect(),
        };
        self.stale.units.extend(concerned);
        self.stale.units.extend(key.unit());
        self.stale.jobs.insert(key);
    }

    /// Gives the schedule the changed facts of Queues and units, and the usage of quotas.
    pub(super) fn refresh(&mut self, now: Now) {
        self.refresh_queues();
        self.look_at_dependents();
        for key in std::mem::take(&mut self.stale.units) {
            self.refresh_unit(&key);
        }
        self.refresh_quotas(now);
    }

    pub(super) fn refresh_unit(&mut self, key: &Key) {
        self.objects.bind(key);
        let Some(unit) = self.objects.units.get(key) else { return };
        let usage = self.reservation(unit);
        let obstacle = self.obstacle(unit);
        let facts = self.facts(unit, &usage, obstacle.is_some());
        let may_remove_finalizer = self.may_remove_finalizer(unit, &usage);
        let counted = counted(unit, facts.as_ref());
        let job = self.job_of(unit);
        let depends_on = job.clone().filter(|_| self.depends_on_pods(unit)).zip(unit.requests.clone().ok());
        let reserves = job.zip(facts.as_ref().and_then(reservation));
        let unit_is_released = unit.status.phase == Some(Phase::Dequeued);
        let offers = (may_remove_finalizer && unit.finalizers.has_ours()) || obstacle.is_some();
        if unit.deleting && self.recounts(&key.namespace) {
            // Its Pods may be among them.
            self.stale.units.insert(key.clone());
        }
        let Some(state) = self.unit_states.get_mut(key) else { return };
        state.may_remove_finalizer = may_remove_finalizer;
        let waits = facts.as_ref().is_some_and(|facts| !is_released(facts));
        let is_news = state.facts != facts;
        let reserved = std::mem::replace(&mut state.reserves, reserves.clone());
        let before = std::mem::replace(&mut state.counted, counted.clone());
        let depended = std::mem::replace(&mut state.depends_on, depends_on.clone());
        self.objects.units_by_job.depends(key, depended.as_ref(), depends_on.as_ref());
        if is_news {
            state.facts.clone_from(&facts);
            let schedule = &mut self.namespaces.entry(&key.namespace).schedule;
            schedule.set_unit(Arc::clone(&state.name_in_schedule), facts);
            self.stale.namespaces.insert(Arc::clone(&key.namespace));
        }
        if reserved != reserves {
            self.reserve(reserved, reserves);
        }
        self.counts.replace(before.as_ref(), counted.as_ref());
        if let Some((reason, message)) = obstacle {
            self.set_decision(key, UnitDecision::Wait(reason, message));
        } else if waits && is_news || unit_is_released {
            // The next round decides again, if there is anything to decide.
            self.set_decision(key, UnitDecision::None);
        }
        if offers {
            self.offer(Work::Unit(key.clone()));
        }
    }

    /// The facts of a unit for the schedule; `None` if it does not need them.
    fn facts(&self, unit: &UnitObject, usage: &ResourceRequests, has_obstacle: bool) -> Option<UnitFacts> {
        let state = self.unit_states.get(&unit.key)?;
        let released = unit.status.phase == Some(Phase::Dequeued) || state.writes.releasing.is_some();
        let phase = if released {
            if usage.is_empty() {
                return None;
            }
            UnitPhase::Released { usage: usage.clone() }
        } else {
            if has_obstacle || unit.deleting || state.unwanted {
                return None;
            }
            UnitPhase::Waiting {
                // It is stored later than it is decided, if ever.
                overtaken: state.overtaken.map(|overtaken| overtaken.since.timestamp()),
                reserved: state.overtaken.is_some_and(|overtaken| overtaken.reserved),
                reason: unit.status.reason.filter(|_| unit.status.phase.is_some()),
            }
        };
        Some(UnitFacts {
            queue: Arc::clone(&unit.queue),
            priority: self.objects.priority(unit.priority, unit.class.as_deref()).unwrap_or_default(),
            enqueued: self.enqueued(unit),
            requests: unit.requests.clone().ok()?,
            grows: self.grows(unit),
            phase,
        })
    }
}

/// The reservation of a unit, if it was released.
fn reservation(facts: &UnitFacts) -> Option<ResourceRequests> {
    match &facts.phase {
        UnitPhase::Released { usage } => Some(usage.clone()),
        UnitPhase::Waiting { .. } => None,
    }
}

/// Whether a unit was released.
pub(super) fn is_released(facts: &UnitFacts) -> bool {
    matches!(facts.phase, UnitPhase::Released { .. })
}

/// The count that a unit is part of.
fn counted(unit: &UnitObject, facts: Option<&UnitFacts>) -> Option<Counted> {
    let queue = Key { namespace: Arc::clone(&unit.key.namespace), name: Arc::clone(&unit.queue) };
    match unit.status.phase {
        Some(Phase::Dequeued) => facts.is_some_and(is_released).then_some(Counted::Released(queue)),
        _ => Some(Counted::Waiting(queue, unit.status.reason.unwrap_or(Reason::Waiting).as_str())),
    }
}

/// A job as the queues see it.
fn consumer_of(job: &JobObject) -> Consumer {
    let stage = match (job.finished, job.suspended) {
        (true, _) => Stage::Finished,
        (false, true) => Stage::Waiting,
        (false, false) => Stage::Started,
    };
    Consumer {
        uid: Arc::clone(&job.uid),
        resource_version: job.resource_version,
        generation: 0,
        created: job.created,
        resumed_by: job.notes.resumed_by.clone(),
        queue: job.queue.clone(),
        class: job.class.clone(),
        requests: job.requests.clone(),
        growths: BTreeMap::new(),
        held: BTreeMap::new(),
        stage,
        deleting: job.deleting,
    }
}
