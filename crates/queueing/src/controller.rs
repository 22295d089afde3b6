//! The controller of QueueUnits: decides which units are released, and writes their status.
//!
//! Guarantees:
//! - A release is decided from the stored unit and guarded by that resourceVersion.
//! - A release that may have been stored counts until it is known not to be.
//! - After a start no unit is released while a release of a predecessor may still land. Its requests live for
//!   a bounded time.
//! - The same events at the same times give the same requests. It does no I/O and reads no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_api::queue::ConsumerKind;
use framework_message::{Change, Key, MayAct, Now, Ownership, Slot};
use jiff::Timestamp;

use crate::cache::ObjectCache;
use crate::consumer::{Consumer, ConsumerKey};
use crate::counts::Counts;
use crate::job::JobState;
use crate::namespaces::Namespaces;
use crate::object::QueueEvent;
use crate::outcome::Outcome;
use crate::outgoing::OutgoingRequests;
use crate::queue_status::QueueState;
use crate::recovery::Recovery;
use crate::settings::Settings;
use crate::stale::Stale;
use crate::unit::UnitState;
use crate::usage::Usage;

mod decide;
mod facts;
mod growth;
mod position;
mod queue_status;
mod recovery;
mod replies;
mod requests;
mod usage;

/// The controller of QueueUnits; see the module.
#[derive(Debug)]
pub struct QueueController {
    settings: Settings,
    ownership: Ownership,
    objects: ObjectCache,
    unit_states: BTreeMap<Key, UnitState>,
    job_states: BTreeMap<ConsumerKey, JobState>,
    queue_states: BTreeMap<Key, QueueState>,
    namespaces: Namespaces,
    usage: Usage,
    counts: Counts,
    stale: Stale,
    outgoing: OutgoingRequests,
    recovery: Recovery,
    outcomes: Vec<Outcome>,
    draining: bool,
}

impl QueueController {
    /// A controller that has seen no objects yet.
    pub fn new(settings: Settings, seed: u64) -> Self {
        QueueController {
            settings,
            ownership: Ownership::default(),
            objects: ObjectCache::default(),
            unit_states: BTreeMap::new(),
            job_states: BTreeMap::new(),
            queue_states: BTreeMap::new(),
            namespaces: Namespaces::new(settings.reserve_after),
            usage: Usage::default(),
            counts: Counts::default(),
            stale: Stale::default(),
            outgoing: OutgoingRequests::new(seed),
            recovery: Recovery::default(),
            outcomes: Vec::new(),
            draining: false,
        }
    }

    /// Takes in a change that a watch shows.
    pub fn step(&mut self, news: QueueEvent) {
        match news {
            QueueEvent::Unit(change) => {
                let before = self.objects.job_of(&change);
                // Of one that a LIST of the watch does not show it is not known until when it was there.
                let version = match &change {
                    Change::Deleted(unit) => unit.resource_version,
                    _ => u128::MAX,
                };
                let keys = self.objects.units.apply(change);
                self.stale.jobs.extend(before);
                for key in keys {
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
            QueueEvent::Pod(change) => {
                let keys = self.objects.pods.apply(change);
                keys.into_iter().for_each(|key| self.pod_changed(&key));
            }
            QueueEvent::Job(change) => {
                let keys = self.objects.jobs.apply(change);
                keys.into_iter().for_each(|key| self.job_changed(&key));
            }
            QueueEvent::JobSet(change) => {
                let seen = self.objects.job_sets.is_synced();
                let keys = self.objects.job_sets.apply(change);
                keys.into_iter().for_each(|key| self.job_set_changed(&key));
                if seen != self.objects.job_sets.is_synced() {
                    self.job_sets_are_seen();
                }
            }
        }
    }

    /// A Framework that waits in a queue or was released from one has changed; `None` if it is gone.
    pub fn framework(&mut self, key: Key, consumer: Option<Consumer>) {
        let key = ConsumerKey::new(ConsumerKind::Framework, key);
        self.consumer_changed(key, consumer);
    }

    /// Runs the rounds that are due, and queues the requests that follow from them.
    pub fn turn(&mut self, now: Now, time: Timestamp) -> Vec<Outcome> {
        if !self.objects.is_synced() {
            return Vec::new();
        }
        if self.recovery.begins() {
            self.start_recovery(now);
        }
        self.expire_pods(time);
        self.sync_jobs();
        self.list_recovered(now);
        self.stale.namespaces.extend(self.namespaces.due(now.steady, time).cloned());
        self.refresh(now);
        self.decide(now, time);
        self.offer_queue_statuses();
        let due = self.outgoing.take_due(now.steady);
        due.into_iter().for_each(|work| self.offer(work));
        std::mem::take(&mut self.outcomes)
    }

    /// When, on the steady clock, [`QueueController::turn`] must be called again though nothing happens.
    pub fn next_wake(&self, now: Now, time: Timestamp) -> Option<Duration> {
        let on_the_wall = |at: Timestamp| {
            let wait = Duration::try_from(at.duration_since(time)).unwrap_or(Duration::ZERO);
            // Not a moment too early: whole instants are compared.
            now.steady + wait + Duration::from_millis(1)
        };
        let round = self.namespaces.round_at().map(on_the_wall);
        let lapses = self.usage.expires_at().map(on_the_wall);
        let (settles, later) = (self.recovery.settles_at(), self.outgoing.next_due());
        [settles, self.namespaces.others_at(), round, lapses, later].into_iter().flatten().min()
    }

    /// Stops all decisions and new work; requests about units go on.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether requests are on their way.
    pub fn is_settled(&self) -> bool {
        self.outgoing.is_settled()
    }

    /// Whether this replica schedules the queues of a namespace: it is a slot like any other.
    fn owns(&self, namespace: &str, now: Now) -> bool {
        self.ownership.may_act(Slot::of(namespace), now) == MayAct::Yes
    }
}

#[cfg(test)]
mod tests;
