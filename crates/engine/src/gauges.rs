//! The gauges of the engine: Frameworks, cached objects, waiting requests and timers.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_api::{Framework, FrameworkStatus, State, Time};
use framework_core::{Policy, lifetime};

use crate::cache::Cache;
use crate::dispatch::Class;
use crate::framework_state::FrameworkState;
use crate::server_time::ServerTime;

/// How many Frameworks, cached objects, waiting requests and timers there are now, for the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Frameworks by the state of their persisted status.
    pub frameworks: BTreeMap<State, usize>,
    /// Frameworks without a status yet.
    pub new_frameworks: usize,
    /// Frameworks that cannot be read and are left alone.
    pub unreadable_frameworks: usize,
    /// Cached ConfigMaps.
    pub config_maps: usize,
    /// Cached Pods.
    pub pods: usize,
    /// Frameworks that wait for a time or are ready.
    pub timers: usize,
    /// Status writes and reads, deletes, and creates that wait to be sent.
    pub queued: [usize; 3],
    /// Requests without a reply.
    pub in_flight: usize,
    /// How many of them there may be now.
    pub in_flight_limit: usize,
    /// Creates without a recorded outcome.
    pub expectations: usize,
    /// Completed Frameworks that wait for their `ttlSecondsAfterFinished` to pass.
    pub ttl_pending: usize,
    /// Deadlines of Frameworks that have not completed.
    pub deadlines: Vec<Time>,
    /// The API server's clock.
    pub time: ServerTime,
    /// When, on the monotonic clock, the oldest event arrived that waits for its Framework's evaluation.
    pub oldest_event: Option<Duration>,
}

impl Gauges {
    /// Counts the cached objects: costs O(Frameworks).
    pub fn of(cache: &Cache, policy: &Policy, now: Duration) -> Self {
        let mut gauges = Gauges::default();
        for (_, entry) in cache.iter() {
            let objects = &entry.known.objects;
            gauges.pods += objects.pods.len();
            gauges.config_maps += usize::from(objects.config_map.is_some());
            if let Some(state) = &entry.state {
                gauges.expectations += objects.expectations();
                gauges.add(state, policy, now);
            }
        }
        gauges
    }

    fn add(&mut self, state: &FrameworkState, policy: &Policy, now: Duration) {
        match (&state.persisted, state.status()) {
            (None, _) => self.unreadable_frameworks += 1,
            (_, None) => self.new_frameworks += 1,
            (Some(persisted), Some(status)) => {
                *self.frameworks.entry(status.state).or_default() += 1;
                self.add_lifetime(&persisted.framework, status, policy);
            }
        }
        for class in Class::ALL {
            let writes = usize::from(class == Class::Record && state.outgoing.write.is_due(now));
            self.queued[class as usize] += state.outgoing.outbox.len(class) + writes;
        }
        // One that cannot be read is evaluated when it was changed.
        let waits_since = state.schedule.dirty_since().filter(|_| state.persisted.is_some());
        self.oldest_event = self.oldest_event.into_iter().chain(waits_since).min();
    }

    fn add_lifetime(&mut self, framework: &Framework, status: &FrameworkStatus, policy: &Policy) {
        let expiry = lifetime::expiry(framework, status, policy);
        let is_kept = framework.metadata.deletion_timestamp.is_none();
        self.ttl_pending += usize::from(is_kept && expiry.is_some_and(|expiry| expiry.by_ttl));
        if status.state != State::Completed {
            self.deadlines.extend(lifetime::deadline(framework));
        }
    }
}
