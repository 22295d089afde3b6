//! The usage of quotas by the Pods of each job, and the reservations of its released units.
//!
//! Both are updated as Pods and units change. A sum over all Pods in each turn took 31 ms where 50,000 units
//! wait; an update takes 0.05 ms (both in a test build).

use std::collections::BTreeMap;
use std::sync::Arc;

use framework_message::{Dues, Key};
use framework_queue::{Amount, ResourceRequests};
use jiff::Timestamp;

use crate::object::PodUse;

/// The usage of the Pods of a job, and the reservations of its units.
#[derive(Debug, Default)]
struct JobUsage {
    pods: usize,
    /// The sum of the requests of its Pods.
    requests: ResourceRequests,
    /// The part that quotas count.
    in_quotas: ResourceRequests,
    units: usize,
    /// The sum of the reservations of its released units.
    reserved: ResourceRequests,
}

impl JobUsage {
    /// The part of the usage of quotas that its reservations contain. Usage beyond them is others' use,
    /// even if a Pod names the job as its owner: otherwise nothing would count it.
    fn own(&self) -> ResourceRequests {
        self.in_quotas.min(&self.reserved)
    }
}

/// The usage that one Pod was counted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The job of the Pod, by namespace and UID.
    pub job: Key,
    /// Its requests.
    pub requests: ResourceRequests,
    /// Whether quotas count it, and within the reservation of its job. It uses its job's share as long as it
    /// exists.
    pub in_quotas: bool,
}

/// The part of the usage of quotas that is a job's own, before a change and after it.
pub struct Own {
    pub before: ResourceRequests,
    pub after: ResourceRequests,
}

/// The usage of all Pods with the label of a queue, by the UIDs of their jobs.
#[derive(Debug, Default)]
pub struct Usage {
    jobs: BTreeMap<Key, JobUsage>,
    /// The usage that each Pod was counted with.
    counted: BTreeMap<Key, Use>,
    /// When quotas stop counting Pods that are being deleted.
    expiring: Dues<Key, Timestamp>,
    /// The wall clock's time of the last turn.
    time: Timestamp,
}

impl Usage {
    /// The requests of the Pods of a job; `None` if it has no Pods.
    pub fn of(&self, job: &Key) -> Option<&ResourceRequests> {
        self.jobs.get(job).filter(|job| job.pods > 0).map(|job| &job.requests)
    }

    /// A Pod was added, changed or deleted, or belongs to another job. `is_within`: whether its use is within
    /// the reservation of that job; otherwise it is others' use, too. Returns its usage before and now, if
    /// that differs.
    pub fn pod_changed(
        &mut self,
        key: &Key,
        pod: Option<&PodUse>,
        job: Option<Key>,
        is_within: bool,
    ) -> Option<(Option<Use>, Option<Use>)> {
        let counts = pod.filter(|pod| !pod.ended).zip(job).map(|(pod, job)| {
            let in_quotas = is_within && pod.lapses.is_none_or(|at| self.time <= at);
            (Use { job, requests: pod.requests.clone(), in_quotas }, pod.lapses.filter(|_| in_quotas))
        });
        let lapses = counts.as_ref().and_then(|(_, lapses)| *lapses);
        self.expiring.set(key, lapses);
        let before = match &counts {
            Some((counts, _)) => self.counted.insert(key.clone(), counts.clone()),
            None => self.counted.remove(key),
        };
        let now = counts.map(|(counts, _)| counts);
        (before != now).then_some((before, now))
    }

    /// A Pod uses something, or no longer does.
    pub fn count(&mut self, Use { job, requests, in_quotas }: &Use, more: bool) -> Own {
        self.change(job, |job| {
            job.pods = if more { job.pods + 1 } else { job.pods.saturating_sub(1) };
            job.requests = changed(&job.requests, requests, more);
            if *in_quotas {
                job.in_quotas = changed(&job.in_quotas, requests, more);
            }
        })
    }

    /// A job has one more released unit that reserves this much, or one less.
    pub fn reserve(&mut self, job: &Key, reserves: &ResourceRequests, more: bool) -> Own {
        self.change(job, |job| {
            job.units = if more { job.units + 1 } else { job.units.saturating_sub(1) };
            job.reserved = changed(&job.reserved, reserves, more);
        })
    }

    fn change(&mut self, key: &Key, change: impl FnOnce(&mut JobUsage)) -> Own {
        let job = self.jobs.entry(key.clone()).or_default();
        let before = job.own();
        change(job);
        let after = job.own();
        if job.pods == 0 && job.units == 0 {
            self.jobs.remove(key);
        }
        Own { before, after }
    }

    /// Quotas count a Pod that hangs in its deletion only until a certain time, and so does this: otherwise
    /// the usage of others would seem smaller than it is.
    pub fn set_time(&mut self, time: Timestamp) {
        self.time = time;
    }

    /// The next Pod that quotas have stopped counting.
    pub fn next_expired(&mut self) -> Option<Key> {
        let (_, key) = self.expiring.first().filter(|(at, _)| *at < self.time)?.clone();
        self.expiring.set(&key, None);
        Some(key)
    }

    /// The time when quotas stop counting the next Pod.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expiring.next()
    }
}

/// The sum with a part, or without it.
pub fn changed(all: &ResourceRequests, some: &ResourceRequests, more: bool) -> ResourceRequests {
    if more { all.plus(some) } else { less(all, some) }
}

/// The difference, resource by resource.
pub fn less(all: &ResourceRequests, some: &ResourceRequests) -> ResourceRequests {
    let left =
        |(resource, amount): (&Arc<str>, Amount)| (Arc::clone(resource), amount.minus(some.get(resource)));
    all.iter().map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Key {
        Key::new("ns", "uid")
    }

    fn pod(cpu: i64, lapses: Option<Timestamp>) -> PodUse {
        PodUse {
            key: Key::new("ns", "a-0"),
            resource_version: 1,
            controller: Some("uid".into()),
            consumer: None,
            requests: [("cpu", Amount::units(cpu))].into_iter().collect(),
            ended: false,
            lapses,
            slot: None,
        }
    }

    /// Takes in a Pod as the controller does; whether anything has changed.
    fn show(usage: &mut Usage, pod: Option<&PodUse>) -> bool {
        let changed = usage.pod_changed(&Key::new("ns", "a-0"), pod, Some(job()), true);
        let Some((before, now)) = changed else { return false };
        before.iter().for_each(|before| drop(usage.count(before, false)));
        now.iter().for_each(|now| drop(usage.count(now, true)));
        true
    }

    fn cpu(requests: &ResourceRequests) -> Amount {
        requests.get("cpu")
    }

    #[test]
    fn a_pod_counts_for_its_job_until_it_has_ended_or_is_gone() {
        let mut usage = Usage::default();
        assert!(show(&mut usage, Some(&pod(2, None))) && !show(&mut usage, Some(&pod(2, None))));
        assert_eq!(cpu(usage.of(&job()).unwrap()), Amount::units(2));
        assert!(show(&mut usage, Some(&pod(3, None))));
        assert_eq!(cpu(&usage.jobs[&job()].in_quotas), Amount::units(3));
        assert!(show(&mut usage, Some(&PodUse { ended: true, ..pod(3, None) })));
        assert!(usage.of(&job()).is_none() && !show(&mut usage, None));
    }

    #[test]
    fn a_pod_that_hangs_in_its_deletion_leaves_the_quotas_and_keeps_its_share() {
        let mut usage = Usage::default();
        let second = |second| Timestamp::from_second(second).unwrap();
        let hanging = pod(2, Some(second(10)));
        show(&mut usage, Some(&hanging));
        assert_eq!(usage.expires_at(), Some(second(10)));
        usage.set_time(second(10));
        assert_eq!(usage.next_expired(), None, "not before the moment is past");
        usage.set_time(second(11));
        assert_eq!(usage.next_expired(), Some(hanging.key.clone()));
        assert!(show(&mut usage, Some(&hanging)));
        assert_eq!(cpu(&usage.jobs[&job()].in_quotas), Amount::ZERO);
        assert_eq!(cpu(usage.of(&job()).unwrap()), Amount::units(2));
        assert_eq!((usage.next_expired(), usage.expires_at()), (None, None));
    }

    #[test]
    fn a_pod_that_is_gone_or_ends_sooner_leaves_no_time_behind() {
        let mut usage = Usage::default();
        let hanging = |second| pod(2, Some(Timestamp::from_second(second).unwrap()));
        show(&mut usage, Some(&hanging(1_000_000_000)));
        show(&mut usage, Some(&hanging(20)));
        assert_eq!(usage.expiring.count(), 1, "its earlier time is replaced");
        assert_eq!(usage.expires_at(), hanging(20).lapses);
        show(&mut usage, None);
        assert_eq!(usage.expires_at(), None);
        show(&mut usage, Some(&hanging(20)));
        show(&mut usage, Some(&PodUse { ended: true, ..hanging(20) }));
        assert_eq!(usage.expires_at(), None, "one that has ended uses nothing");
        assert!(usage.expiring.count() == 0);
    }

    #[test]
    fn the_pods_of_a_job_are_own_as_far_as_its_units_reserve() {
        let mut usage = Usage::default();
        let reserves = |cpu| [("cpu", Amount::units(cpu))].into_iter().collect::<ResourceRequests>();
        show(&mut usage, Some(&pod(5, None)));
        let own = |own: Own| [own.before, own.after].map(|own| cpu(&own));
        let units = |before, after| [before, after].map(Amount::units);
        assert_eq!(own(usage.reserve(&job(), &reserves(3), true)), units(0, 3));
        assert_eq!(own(usage.reserve(&job(), &reserves(4), true)), units(3, 5));
        assert_eq!(own(usage.reserve(&job(), &reserves(3), false)), units(5, 4));
        show(&mut usage, None);
        assert_eq!(own(usage.reserve(&job(), &reserves(4), false)), units(0, 0));
        assert!(usage.jobs.is_empty());
    }
}
