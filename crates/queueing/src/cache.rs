//! The newest known version of each object that queueing watches, and of the Frameworks in queues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_api::Time;
use framework_api::job_kind::{Child, unit_name};
use framework_api::queue::Phase;
use framework_message::{Change, Key};
use jiff::SignedDuration;

use crate::consumer::{Consumer, ConsumerKey, JobKind};
use crate::object::{ClassObject, DeclaredObject, PodUse, QueueObject, QuotaObject, UnitObject};
use crate::owners::Owners;
use crate::store::Store;
use crate::units_by_job::{UnitsByJob, drop_from};

/// By how much the clocks of two API servers may differ. A job that was created so soon after the release of
/// a unit may be the one that the unit was released for.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(60);

/// The newest known version of each object.
#[derive(Debug, Default)]
pub struct QueueCache {
    /// QueueUnits.
    pub units: Store<Arc<UnitObject>>,
    /// Queues.
    pub queues: Store<QueueObject>,
    /// ResourceQuotas.
    pub quotas: Store<QuotaObject>,
    /// PriorityClasses.
    pub classes: Store<ClassObject>,
    /// Pods with the label of a queue.
    pub pods: Store<PodUse>,
    /// Jobs of the kinds that have a row, once they are served.
    pub declared: BTreeMap<JobKind, Store<DeclaredObject>>,
    /// Kinds that have a row and were neither listed nor found missing since the start: a unit's job may be
    /// there unseen.
    pub undetermined: BTreeSet<JobKind>,
    /// The objects between Pods and jobs.
    pub owners: Owners,
    /// Those jobs, by namespace and UID.
    pub jobs_by_uid: BTreeMap<Key, ConsumerKey>,
    /// Those jobs, as the queues see them.
    pub consumers: BTreeMap<ConsumerKey, Consumer>,
    /// Units by the UID of their job.
    pub units_by_job: UnitsByJob,
    /// Units by the job that they name.
    units_of: BTreeMap<ConsumerKey, BTreeSet<Key>>,
    /// UIDs of the jobs for which those released units stand that name no UID.
    bound: BTreeMap<Key, Arc<str>>,
}

impl QueueCache {
    /// The job of that name, if its kind has a row.
    pub fn declared_job(&self, job: &ConsumerKey) -> Option<&DeclaredObject> {
        self.declared.get(&job.kind)?.get(&job.key)
    }

    /// The JobSet of a job that says more of its Pods than the job itself.
    pub fn child_of(&self, job: &DeclaredObject) -> Option<&DeclaredObject> {
        let Child::JobSet = job.row.child?;
        let child = self.of_kind(JobKind::is_job_set)?.get(&job.job.key)?;
        child.job.controller.as_ref().is_some_and(|controller| *controller == job.job.uid).then_some(child)
    }

    fn of_kind(&self, is_it: fn(&JobKind) -> bool) -> Option<&Store<DeclaredObject>> {
        self.declared.iter().find(|(kind, _)| is_it(kind)).map(|(_, jobs)| jobs)
    }

    /// Whether each kind was listed that every cluster has.
    pub fn is_synced(&self) -> bool {
        self.units.is_synced()
            && self.queues.is_synced()
            && self.quotas.is_synced()
            && self.classes.is_synced()
            && self.pods.is_synced()
            && self.of_kind(JobKind::is_job).is_some_and(Store::is_synced)
            && self.owners.is_synced()
    }

    /// Whether jobs of that kind are watched, so that an unknown job of it does not exist.
    pub fn sees(&self, kind: &JobKind) -> bool {
        self.declared.get(kind).is_some_and(Store::is_synced)
    }

    /// The job with this UID is known by this name, or no longer. Returns its Pods that may count otherwise
    /// now.
    pub fn set_job(&mut self, uid: &Key, job: Option<&ConsumerKey>) -> BTreeSet<Key> {
        let before = match job {
            Some(job) => self.jobs_by_uid.insert(uid.clone(), job.clone()),
            None => self.jobs_by_uid.remove(uid),
        };
        let pods = self.owners.set_job(uid, job.is_some());
        let is_another_kind = before.zip(job).is_some_and(|(before, job)| before.kind != job.kind);
        if is_another_kind { self.owners.pods_of(uid) } else { pods }
    }

    /// As [`QueueCache::set_job`], by a unit that names the job. A user may write any kind there, so it says
    /// nothing new of a job that is known.
    pub fn name_job(&mut self, uid: &Key, job: &ConsumerKey) -> BTreeSet<Key> {
        if self.jobs_by_uid.contains_key(uid) { BTreeSet::new() } else { self.set_job(uid, Some(job)) }
    }

    /// Whether the use of a Pod is within the reservation of its job. A label alone counts only for kinds
    /// whose jobs may have objects of any kind between them and their Pods.
    pub fn is_within(&self, job: &Key, pod: &Key) -> bool {
        let needs_label = |job: &ConsumerKey| !job.kind.controls_its_pods();
        self.jobs_by_uid.get(job).is_none_or(needs_label) || !self.owners.is_by_label(pod)
    }

    /// The job that a unit requests resources for. A unit that names no UID stands for the first job of its
    /// name that is seen after the release, and for no other: what it has returned stays returned. A job that
    /// was created after the release may be another one than the unit was released for.
    pub fn job_of_unit(&self, unit: &UnitObject) -> Option<&Consumer> {
        let job = self.consumers.get(&unit.consumer)?;
        let released = unit.status.since.filter(|_| unit.status.phase == Some(Phase::Dequeued));
        // Adding to a time may overflow: a user may have stored any.
        let since = |at: Time| job.created.duration_since(at.timestamp());
        let is_later = released.is_some_and(|at| since(at) > CLOCKS_DIFFER);
        let uid = unit.consumer_uid.as_ref().or_else(|| self.bound.get(&unit.key));
        let same = uid.map_or(!is_later, |uid| *uid == job.uid);
        same.then_some(job)
    }

    /// Notes the job for which the unit of that name stands, if it is released and names no UID.
    pub fn bind(&mut self, unit: &Key) {
        let is_open = |unit: &&Arc<UnitObject>| {
            unit.status.phase == Some(Phase::Dequeued) && unit.consumer_uid.is_none()
        };
        let released = self.units.get(unit).filter(is_open).filter(|_| !self.bound.contains_key(unit));
        let job = released.and_then(|released| self.job_of_unit(released));
        if let Some(uid) = job.map(|job| Arc::clone(&job.uid)) {
            self.bound.insert(unit.clone(), uid);
        }
    }

    /// The job whose unit a change shows.
    pub fn job_of(&self, change: &Change<Arc<UnitObject>>) -> Option<ConsumerKey> {
        match change {
            Change::Listed(unit) | Change::Applied(unit) | Change::Deleted(unit) => {
                Some(self.units.get(&unit.key).unwrap_or(unit).consumer.clone())
            }
            Change::Restarted | Change::Synced => None,
        }
    }

    /// The given priority, or that of the class; `None` if the class does not exist.
    pub fn priority(&self, given: Option<i32>, class: Option<&str>) -> Option<i32> {
        match (given, class) {
            (Some(priority), _) => Some(priority),
            (None, None) => Some(0),
            (None, Some(class)) => self.classes.get(&Key::new("", class)).map(|class| class.value),
        }
    }

    /// The names of the units of a job.
    pub fn units_of(&self, job: &ConsumerKey) -> impl Iterator<Item = &Key> {
        self.units_of.get(job).into_iter().flatten()
    }

    /// The jobs whose unit has this name, or would have it.
    pub fn namesakes(&self, unit: &Key) -> Vec<ConsumerKey> {
        let of = |kind: &JobKind| {
            let JobKind::Other { kind: of_kind, .. } = kind else { return None };
            let job = unit.name.strip_prefix(&*unit_name(of_kind, ""))?;
            Some(ConsumerKey { kind: kind.clone(), key: Key::new(&unit.namespace, job) })
        };
        self.declared.keys().filter_map(of).filter(|job| self.consumers.contains_key(job)).collect()
    }

    /// Whether a namespace has neither units nor Queues nor quotas.
    pub fn has_none_in(&self, namespace: &str) -> bool {
        let units = self.units.within(namespace).next().is_some();
        let queues = self.queues.within(namespace).next().is_some();
        !units && !queues && self.quotas.within(namespace).next().is_none()
    }

    /// The names of the units of all jobs of a kind.
    pub fn units_of_kind(&self, kind: &JobKind) -> impl Iterator<Item = &Key> {
        let of_kind = move |job: &ConsumerKey| job.kind == *kind;
        self.units_of.iter().filter(move |(job, _)| of_kind(job)).flat_map(|(_, units)| units)
    }

    /// A unit names a job.
    pub fn link(&mut self, job: ConsumerKey, unit: Key) {
        self.units_of.entry(job).or_default().insert(unit);
    }

    /// The unit that named a job is gone.
    pub fn unlink(&mut self, job: &ConsumerKey, unit: &Key) {
        self.bound.remove(unit);
        drop_from(&mut self.units_of, job, unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: &str) -> JobKind {
        let group = if kind == "Job" { "batch" } else { "jobset.x-k8s.io" };
        JobKind::Other { group: group.into(), kind: kind.into() }
    }

    #[test]
    fn job_sets_are_seen_once_they_are_listed_and_are_not_waited_for() {
        let mut cache = QueueCache::default();
        let (jobs, sets) = (kind("Job"), kind("JobSet"));
        assert!(!cache.is_synced() && !cache.sees(&sets));
        cache.units.apply(Change::Synced);
        cache.queues.apply(Change::Synced);
        cache.quotas.apply(Change::Synced);
        cache.classes.apply(Change::Synced);
        cache.pods.apply(Change::Synced);
        assert!(!cache.is_synced());
        cache.declared.entry(jobs).or_default().apply(Change::Synced);
        assert!(!cache.is_synced());
        cache.owners.apply(Change::Synced);
        assert!(cache.is_synced() && !cache.sees(&sets));
        cache.declared.entry(sets.clone()).or_default().apply(Change::Synced);
        assert!(cache.sees(&sets) && !cache.sees(&JobKind::Itself));
    }

    #[test]
    fn a_priority_that_is_given_goes_before_that_of_its_class() {
        let mut cache = QueueCache::default();
        assert_eq!(cache.priority(None, None), Some(0));
        assert_eq!(cache.priority(None, Some("high")), None);
        let class = ClassObject { key: Key::new("", "high"), resource_version: 1, value: 7 };
        cache.classes.apply(Change::Applied(class));
        assert_eq!(cache.priority(None, Some("high")), Some(7));
        assert_eq!(cache.priority(Some(3), Some("high")), Some(3));
    }

    #[test]
    fn units_are_found_by_their_job_and_by_its_kind_until_they_are_gone() {
        let mut cache = QueueCache::default();
        let framework = ConsumerKey::of_framework(Key::new("ns", "a"));
        let set = ConsumerKey { kind: kind("JobSet"), key: Key::new("ns", "a") };
        let unit = |name| Key::new("ns", name);
        for name in ["a", "a-2"] {
            cache.link(framework.clone(), unit(name));
        }
        cache.link(set.clone(), unit("set-a"));
        assert_eq!(cache.units_of(&framework).count(), 2);
        assert_eq!(cache.units_of_kind(&set.kind).collect::<Vec<_>>(), [&unit("set-a")]);
        cache.unlink(&framework, &unit("a"));
        assert_eq!(cache.units_of(&framework).collect::<Vec<_>>(), [&unit("a-2")]);
        cache.unlink(&set, &unit("set-a"));
        assert_eq!(cache.units_of(&set).count(), 0);
    }
}
