//! Units by the UIDs of their jobs.
//!
//! A user may make ten thousand units of one job. Each question here costs one search, however many they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_message::Key;
use framework_queue::{Amount, ResourceRequests};

/// A job, by namespace and UID, and the requests of a unit that depends on its Pods.
pub type Dependence = (Key, ResourceRequests);

/// Units by a resource that they request, in the order of the amounts.
type ByResource = BTreeMap<Arc<str>, BTreeSet<(Amount, Key)>>;

/// Units by their jobs; each job is given by namespace and UID.
#[derive(Debug, Default)]
pub struct UnitsByJob {
    /// How many units name a job, and one more if the job is there.
    named: BTreeMap<Key, usize>,
    /// The units whose reservation or finalizer depends on the Pods of a job.
    dependents: BTreeMap<Key, ByResource>,
}

impl UnitsByJob {
    /// A job comes, or a unit that names it.
    pub fn name(&mut self, job: &Key) {
        let units = self.named.entry(job.clone()).or_default();
        *units = units.saturating_add(1);
    }

    /// A job has gone, or a unit that named it.
    pub fn unname(&mut self, job: &Key) {
        if let Some(units) = self.named.get_mut(job) {
            *units = units.saturating_sub(1);
            if *units == 0 {
                self.named.remove(job);
            }
        }
    }

    /// Whether a job is there, or a unit that names it.
    pub fn is_named(&self, job: &Key) -> bool {
        self.named.contains_key(job)
    }

    /// A unit depended on the Pods of one job, and depends on those of another one now.
    pub fn depends(&mut self, unit: &Key, before: Option<&Dependence>, now: Option<&Dependence>) {
        if before == now {
            return;
        }
        if let Some((job, requests)) = before
            && let Some(of_job) = self.dependents.get_mut(job)
        {
            for (resource, amount) in requests.iter() {
                drop_from(of_job, resource, &(amount, unit.clone()));
            }
            if of_job.is_empty() {
                self.dependents.remove(job);
            }
        }
        if let Some((job, requests)) = now {
            let of_job = self.dependents.entry(job.clone()).or_default();
            for (resource, amount) in requests.iter() {
                of_job.entry(Arc::clone(resource)).or_default().insert((amount, unit.clone()));
            }
        }
    }

    /// The units that depend on the Pods of a job: each once for every resource that it requests.
    pub fn dependents(&self, job: &Key) -> impl Iterator<Item = &Key> {
        let of_job = self.dependents.get(job).into_iter().flat_map(BTreeMap::values);
        of_job.flatten().map(|(_, unit)| unit)
    }

    /// Those of them for which it matters that the Pods used `before` and use `now`: they request more of a
    /// resource than the smaller of both. A unit that requests no more holds all of it, before and now.
    pub fn concerned<'a>(
        &'a self,
        job: &Key,
        before: &'a ResourceRequests,
        now: &'a ResourceRequests,
    ) -> impl Iterator<Item = &'a Key> {
        let of_job = self.dependents.get(job);
        let resources = before.iter().chain(now.iter()).map(|(resource, _)| resource);
        let changed = resources.filter_map(move |resource| {
            let (before, now) = (before.get(resource), now.get(resource));
            Some((of_job?.get(resource)?, before.min(now))).filter(|_| before != now)
        });
        changed.flat_map(|(units, least)| {
            units.iter().rev().take_while(move |(amount, _)| *amount > least).map(|(_, unit)| unit)
        })
    }
}

/// Removes an entry of a set, and the set with its last entry.
pub fn drop_from<K: Ord, V: Ord>(sets: &mut BTreeMap<K, BTreeSet<V>>, of: &K, entry: &V) {
    if let Some(set) = sets.get_mut(of) {
        set.remove(entry);
        if set.is_empty() {
            sets.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(cpu: i64, memory: i64) -> ResourceRequests {
        [("cpu", Amount::units(cpu)), ("memory", Amount::units(memory))].into_iter().collect()
    }

    #[test]
    fn a_job_is_named_until_the_last_object_that_names_it_is_gone() {
        let (mut units, job) = (UnitsByJob::default(), Key::new("ns", "uid"));
        units.unname(&job);
        for _ in 0..2 {
            units.name(&job);
        }
        units.unname(&job);
        assert!(units.is_named(&job) && !units.is_named(&Key::new("other", "uid")));
        units.unname(&job);
        assert!(!units.is_named(&job) && units.named.is_empty());
    }

    #[test]
    fn a_unit_depends_on_one_job_at_a_time() {
        let mut units = UnitsByJob::default();
        let unit = Key::new("ns", "unit");
        let [one, other] = ["one", "other"].map(|name| (Key::new("ns", name), requests(3, 4)));
        units.depends(&unit, None, Some(&one));
        units.depends(&unit, Some(&one), Some(&one));
        assert_eq!(units.dependents(&one.0).collect::<Vec<_>>(), [&unit; 2], "once for each resource");
        units.depends(&unit, Some(&one), Some(&other));
        assert_eq!((units.dependents(&one.0).count(), units.dependents(&other.0).count()), (0, 2));
        units.depends(&unit, Some(&other), None);
        assert!(units.dependents.is_empty());
    }

    #[test]
    fn pods_concern_the_units_that_request_more_than_they_use() {
        let mut units = UnitsByJob::default();
        let job = Key::new("ns", "job");
        for (name, cpu, memory) in [("a", 1, 9), ("b", 2, 0), ("c", 3, 1)] {
            units.depends(&Key::new("ns", name), None, Some(&(job.clone(), requests(cpu, memory))));
        }
        let concerned = |before: (i64, i64), now: (i64, i64)| -> Vec<String> {
            let [before, now] = [before, now].map(|(cpu, memory)| requests(cpu, memory));
            let names: BTreeSet<&Key> = units.concerned(&job, &before, &now).collect();
            names.into_iter().map(|unit| unit.name.to_string()).collect()
        };
        assert_eq!(concerned((9, 9), (3, 9)), [""; 0], "each holds all that it requests");
        assert_eq!(concerned((3, 9), (2, 9)), ["c"]);
        assert_eq!(concerned((1, 9), (3, 9)), ["b", "c"]);
        assert_eq!(concerned((2, 9), (2, 8)), ["a"]);
        assert_eq!(concerned((2, 0), (2, 1)), ["a", "c"]);
        assert_eq!(concerned((2, 5), (2, 5)), [""; 0]);
    }
}
