//! Changes of Pods and of released units become the usage of quotas in each schedule.

use std::sync::Arc;

use framework_message::{Key, Now};
use jiff::Timestamp;

use super::QueueController;
use crate::consumer::ConsumerKey;
use crate::usage::{Use, changed};

impl QueueController {
    pub(super) fn pod_changed(&mut self, key: &Key) {
        let Some((before, now)) = self.usage.pod_changed(key, self.objects.pods.get(key)) else { return };
        for (counts, more) in [(before, false), (now, true)] {
            if let Some(counts) = counts {
                self.count(counts, more);
            }
        }
    }

    /// A Pod uses something, or no longer does.
    fn count(&mut self, counts: Use, more: bool) {
        self.usage.count(&counts, more);
        let Use { job, requests, in_quotas } = counts;
        if in_quotas && self.usage.is_own(&job) {
            let namespace_state = self.namespaces.entry(&job.key.namespace);
            namespace_state.own = changed(&namespace_state.own, &requests, more);
        }
        self.usage_changed(job);
    }

    /// Quotas cease to count Pods that hang in their deletion.
    pub(super) fn expire_pods(&mut self, time: Timestamp) {
        self.usage.set_time(time);
        while let Some(key) = self.usage.next_expired() {
            self.pod_changed(&key);
        }
    }

    /// A job has a released unit that holds something, or one less of them.
    pub(super) fn released_units(&mut self, job: &ConsumerKey, more: bool) {
        if self.usage.released_units(job, more) {
            let namespace_state = self.namespaces.entry(&job.key.namespace);
            namespace_state.own = changed(&namespace_state.own, &self.usage.in_quotas(job), more);
        }
        self.stale.namespaces.insert(Arc::clone(&job.key.namespace));
    }

    fn usage_changed(&mut self, job: ConsumerKey) {
        self.stale.units.extend(self.objects.units_of(&job).cloned());
        self.stale.namespaces.insert(Arc::clone(&job.key.namespace));
        self.stale.jobs.insert(job);
    }

    /// Gives the schedule of each changed namespace the usage of its quotas, by our own Pods and by others.
    pub(super) fn refresh_quotas(&mut self, now: Now) {
        for namespace in &self.stale.namespaces {
            if let Some(namespace_state) = self.namespaces.get_mut(namespace) {
                namespace_state.refresh_quotas(now.steady, self.objects.quotas.within(namespace));
            }
        }
    }
}
