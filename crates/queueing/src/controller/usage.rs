//! Changes of Pods and of released units become the usage of quotas in each schedule.

use std::sync::Arc;

use framework_message::{Key, Now};
use framework_queue::ResourceRequests;
use jiff::Timestamp;

use super::QueueController;
use crate::object::UnitObject;
use crate::owners::Named;
use crate::unit::Reserves;
use crate::usage::{Own, less};

impl QueueController {
    pub(super) fn pod_changed(&mut self, key: &Key) {
        let pod = self.objects.pods.get(key);
        let of = |uid: &Arc<str>| Key { namespace: Arc::clone(&key.namespace), name: Arc::clone(uid) };
        let named = pod.and_then(|pod| {
            let controller = of(pod.controller.as_ref()?);
            Some(Named { controller, consumer: pod.consumer.as_ref().map(of) })
        });
        self.objects.owners.set_pod(key, named);
        let job = self.objects.owners.job_of(key);
        let is_within = job.as_ref().is_some_and(|job| self.objects.is_within(job, key));
        let Some((before, now)) = self.usage.pod_changed(key, pod, job, is_within) else { return };
        for (counts, more) in [(before, false), (now, true)] {
            if let Some(counts) = counts {
                let used = self.usage.of(&counts.job).cloned();
                let own = self.usage.count(&counts, more);
                self.own_changed(&counts.job.namespace, own);
                self.usage_changed(&counts.job, used);
            }
        }
    }

    /// Counts Pods for the jobs that they belong to now: at most `left`, because one edit of an object may
    /// concern all Pods that it controls. Returns how many more this turn may count.
    pub(super) fn recount_pods(&mut self, left: usize) -> usize {
        for counted in 0..left {
            let Some(pod) = self.stale.pods.pop_first() else { return left - counted };
            self.pod_changed(&pod);
        }
        0
    }

    /// Whether Pods of a namespace are yet to be counted for the jobs that they belong to.
    pub(super) fn recounts(&self, namespace: &Arc<str>) -> bool {
        let next = self.stale.pods.range(Key::new(namespace, "")..).next();
        next.is_some_and(|pod| pod.namespace == *namespace)
    }

    /// Quotas cease to count Pods that hang in their deletion.
    pub(super) fn expire_pods(&mut self, time: Timestamp) {
        self.usage.set_time(time);
        while let Some(key) = self.usage.next_expired() {
            self.pod_changed(&key);
        }
    }

    /// A unit reserves something else, or for another job, by namespace and UID.
    pub(super) fn reserve(&mut self, before: Option<Reserves>, now: Option<Reserves>) {
        for (reserves, more) in [(before, false), (now, true)] {
            if let Some((job, requests)) = reserves {
                let own = self.usage.reserve(&job, &requests, more);
                self.own_changed(&job.namespace, own);
            }
        }
    }

    /// The part of the usage of quotas that released units contain has changed.
    fn own_changed(&mut self, namespace: &Arc<str>, Own { before, after }: Own) {
        let namespace_state = self.namespaces.entry(namespace);
        if before != after {
            namespace_state.own = less(&namespace_state.own.plus(&after), &before);
        }
        self.stale.namespaces.insert(Arc::clone(namespace));
    }

    /// The Pods of a job use something else than `before`.
    fn usage_changed(&mut self, job: &Key, before: Option<ResourceRequests>) {
        self.stale.jobs.extend(self.objects.jobs_by_uid.get(job).cloned());
        self.stale.usage.entry(job.clone()).or_insert(before);
        self.stale.namespaces.insert(Arc::clone(&job.namespace));
    }

    /// Evaluates the units again that depend on Pods which use something else: once in a turn, however many
    /// Pods of the job come and go. Between the first Pod of a job and the last one, only those units whose
    /// reservation that changes.
    pub(super) fn look_at_dependents(&mut self) {
        let units = &self.objects.units_by_job;
        for (job, before) in std::mem::take(&mut self.stale.usage) {
            match (&before, self.usage.of(&job)) {
                (Some(before), Some(now)) => {
                    self.stale.units.extend(units.concerned(&job, before, now).cloned());
                }
                (None, None) => {}
                _ => self.stale.units.extend(units.dependents(&job).cloned()),
            }
        }
    }

    /// Whether a unit may hold something, or is being deleted with a request. A user may have made ten
    /// thousand others of one Job, whose Pods come and go: those that only wait, and those that request
    /// nothing.
    pub(super) fn may_hold(&self, unit: &UnitObject) -> bool {
        let is_more = unit.requests.as_ref().is_ok_and(|requests| !requests.is_empty());
        is_more && !unit.is_of_framework() && (unit.deleting || !self.waits(unit))
    }

    /// Whether a unit depends on the Pods of its job. Of those that stay, only one does whose job asks for
    /// less by now: its Pods may use the rest.
    pub(super) fn depends_on_pods(&self, unit: &UnitObject) -> bool {
        let given = || unit.requests.clone().unwrap_or_default();
        let asks_for_less = || given().min(&self.asks_now(unit)) != given();
        self.may_hold(unit) && (unit.deleting || asks_for_less())
    }

    /// The job that a unit stands for, by namespace and UID; `None`: that is not known.
    pub(super) fn job_of(&self, unit: &UnitObject) -> Option<Key> {
        let known = || self.objects.job_of_unit(unit).map(|job| &job.uid);
        let uid = unit.owner.as_ref().or(unit.consumer_uid.as_ref()).or_else(known)?;
        Some(Key { namespace: Arc::clone(&unit.key.namespace), name: Arc::clone(uid) })
    }

    /// Gives the schedule of each changed namespace the usage of its quotas, by our own Pods and by others.
    pub(super) fn refresh_quotas(&mut self, now: Now) {
        for namespace in &self.stale.namespaces {
            let quotas = self.objects.quotas.within(namespace);
            self.namespaces.refresh_quotas(namespace, now.steady, quotas);
        }
    }
}
