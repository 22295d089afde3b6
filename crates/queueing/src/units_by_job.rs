//! Units by the UIDs of their jobs.
//!
//! A user may make ten thousand units of one job. Each question here costs one search, however many they are.

use std::collections::{BTreeMap, BTreeSet};

use framework_message::Key;

/// Units by their jobs; each job is given by namespace and UID.
#[derive(Debug, Default)]
pub struct UnitsByJob {
    /// How many units name a job, and one more if the job is there.
    named: BTreeMap<Key, usize>,
    /// The units whose reservation or finalizer depends on the Pods of a job.
    dependents: BTreeMap<Key, BTreeSet<Key>>,
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
    pub fn depends(&mut self, unit: &Key, before: Option<&Key>, now: Option<&Key>) {
        if before == now {
            return;
        }
        if let Some(job) = before
            && let Some(units) = self.dependents.get_mut(job)
        {
            units.remove(unit);
            if units.is_empty() {
                self.dependents.remove(job);
            }
        }
        if let Some(job) = now {
            self.dependents.entry(job.clone()).or_default().insert(unit.clone());
        }
    }

    /// The units that depend on the Pods of a job.
    pub fn dependents(&self, job: &Key) -> impl Iterator<Item = &Key> {
        self.dependents.get(job).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let [one, other, unit] = ["one", "other", "unit"].map(|name| Key::new("ns", name));
        units.depends(&unit, None, Some(&one));
        units.depends(&unit, Some(&one), Some(&one));
        assert_eq!(units.dependents(&one).collect::<Vec<_>>(), [&unit]);
        units.depends(&unit, Some(&one), Some(&other));
        assert_eq!((units.dependents(&one).count(), units.dependents(&other).count()), (0, 1));
        units.depends(&unit, Some(&other), None);
        assert!(units.dependents.is_empty());
    }
}
