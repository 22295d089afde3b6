//! Ends TrainJobs at their deadlines and deletes them after their TTLs: for the owner of a namespace's slot.
//!
//! Guarantees:
//! - Nothing is sent before a `Date` of the API server shows that the time has come (rule A8). Both times are
//!   sums of values in the object, so nothing has to be remembered.
//! - A deadline is stored in the JobSet first, in the version in which it had not ended. So of the end of the
//!   JobSet and its deadline one is stored, and everything else follows from it.
//! - A TrainJob is deleted in the version in which it had finished.
//! - Namespaces send in turns. Ends that come while the slot of a namespace is paused are kept.
//!
//! It does no I/O and reads no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework_api::Time;
use framework_core::EventReason;
use framework_core::lifetime::{End, SHORT_SEC};
use framework_core::plan::Report;
use framework_message::{Change, Dues, Key, Now, Paused, Slot, Slots};
use jiff::Timestamp;

use crate::active_slots::ActiveSlots;
use crate::consumer::{ConsumerKey, JobKind};
use crate::effect::QueueEffect;
use crate::in_flight::InFlight;
use crate::job_lifetime::JobLifetime;
use crate::object::QueueEvent;
use crate::store::Store;

mod job_request;
mod replies;
mod requests;
mod state;
#[cfg(test)]
mod tests;

use crate::turns::Turns;
use job_request::JobRequest;
use state::{Job, State};

/// The number of the first ticket: apart from those of the other parts.
const TICKETS: u64 = 1 << 62;
/// A TrainJob that is this old when it is first seen was reported by an earlier program, if at all.
const NEW: i64 = 60;
/// For so long after a TrainJob has failed, an operator that saw it before may create its JobSet.
const LATE_CHILD: i64 = 300;

/// The lifetimes of TrainJobs; see the module.
#[derive(Debug)]
pub struct JobLifetimes {
    request_lifetime: Duration,
    active_slots: ActiveSlots,
    jobs: BTreeMap<JobKind, Store<Job>>,
    states: BTreeMap<ConsumerKey, State>,
    /// Ends, on the API server's clock.
    timers: Dues<ConsumerKey, Time>,
    /// Jobs whose end may have come, and since when, on the monotonic clock, they wait for a `Date`.
    waiting: BTreeMap<ConsumerKey, Duration>,
    asked: bool,
    ready: Turns<ConsumerKey>,
    later: BTreeSet<(Duration, ConsumerKey)>,
    sent: InFlight<JobRequest>,
    /// Jobs of which nothing was reported yet.
    unseen: BTreeSet<ConsumerKey>,
    paused: Paused<ConsumerKey>,
    effects: Vec<QueueEffect>,
}

/// How many lifetimes wait to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifetimeGauges {
    /// Jobs that a TTL will delete.
    pub ttl_pending: usize,
    /// The deadlines of the jobs that have not finished.
    pub deadlines: Vec<Time>,
}

impl JobLifetimes {
    /// No job was seen yet. A request lives for so long at most.
    pub fn new(request_lifetime: Duration) -> Self {
        JobLifetimes {
            request_lifetime,
            active_slots: ActiveSlots::default(),
            jobs: BTreeMap::new(),
            states: BTreeMap::new(),
            timers: Dues::default(),
            waiting: BTreeMap::new(),
            asked: false,
            ready: Turns::default(),
            later: BTreeSet::new(),
            sent: InFlight::new(TICKETS),
            unseen: BTreeSet::new(),
            paused: Paused::default(),
            effects: Vec::new(),
        }
    }

    /// The same, for the namespaces of these slots.
    #[must_use]
    pub fn with_active_slots(self, active_slots: ActiveSlots) -> Self {
        JobLifetimes { active_slots, ..self }
    }

    /// The namespaces of these slots are acted for from now on.
    pub fn begin(&mut self, now: Now, slots: Slots) {
        self.active_slots.begin(now, slots);
        let all = self.jobs.iter().flat_map(|(kind, jobs)| jobs.iter().map(move |job| (kind, &job.key)));
        let ours = all.filter(|(_, key)| slots.contains(Slot::of(&key.namespace)));
        let ours: Vec<_> = ours.map(|(kind, key)| of(kind, key)).collect();
        ours.iter().for_each(|job| self.refresh(job));
    }

    /// Nothing new is sent for the namespaces of these slots.
    pub fn drain(&mut self, slots: Slots) {
        self.active_slots.drain(slots);
    }

    /// The namespaces of these slots are not ours any more.
    pub fn lost(&mut self, slots: Slots) {
        self.active_slots.lose(slots);
        self.sent.lose(slots);
        let lost = |job: &&ConsumerKey| slots.contains(slot(job));
        let lost: Vec<_> = self.states.keys().filter(lost).cloned().collect();
        lost.iter().for_each(|job| self.forget(job));
    }

    /// Takes in a change that a watch shows.
    pub fn step(&mut self, event: &QueueEvent) {
        let (kind, change) = match event {
            QueueEvent::Declared(kind, change) => (kind, change),
            QueueEvent::NotServed(kind) => return self.kind_is_not_served(kind),
            _ => return,
        };
        if let Change::Listed(object) | Change::Applied(object) | Change::Deleted(object) = &**change
            && object.row.deadline.is_none()
        {
            return;
        }
        let changed = self.jobs.entry(kind.clone()).or_default().apply((**change).clone().map(Job::from));
        changed.iter().for_each(|key| self.refresh(&of(kind, key)));
    }

    /// A kind that has a row is not served, or not any more: its jobs are not known.
    fn kind_is_not_served(&mut self, kind: &JobKind) {
        let known = self.jobs.remove(kind);
        let gone: Vec<_> = known.iter().flat_map(Store::iter).map(|job| of(kind, &job.key)).collect();
        gone.iter().for_each(|job| self.refresh(job));
    }

    /// Finds the ends that have come by the API server's `time`, and returns the effects to report.
    pub fn turn(&mut self, now: Now, time: Timestamp) -> Vec<QueueEffect> {
        for job in std::mem::take(&mut self.unseen) {
            self.first_seen(now, time, &job);
        }
        let active_slots = &self.active_slots;
        let resumed = self.paused.take(|slot| active_slots.is_paused(slot, now));
        resumed.into_iter().for_each(|job| self.ready.offer(&job.key.namespace.clone(), job));
        let due = self.timers.take(Time::floor(time));
        self.waiting.extend(due.into_iter().map(|job| (job, now.steady)));
        while let Some((at, _)) = self.later.first()
            && *at <= now.steady
            && let Some((_, job)) = self.later.pop_first()
        {
            self.ready.offer(&job.key.namespace.clone(), job);
        }
        std::mem::take(&mut self.effects)
    }

    /// Whether the API server is to be asked for its time, once.
    pub fn asks(&mut self) -> bool {
        !self.waiting.is_empty() && !std::mem::replace(&mut self.asked, true)
    }

    /// The response to a request that was sent at `sent` on the monotonic clock carries this `Date`.
    pub fn heard(&mut self, sent: Duration, date: Time) {
        self.asked = false;
        let asked = self.waiting.iter().filter(|(_, since)| **since <= sent);
        let asked: Vec<_> = asked.map(|(job, _)| job.clone()).collect();
        for job in asked {
            if let Some(state) = self.states.get_mut(&job) {
                if state.due.is_some_and(|due| date < due) {
                    continue;
                }
                state.shown = state.shown.max(Some(date));
                self.ready.offer(&job.key.namespace, job.clone());
            }
            self.waiting.remove(&job);
        }
    }

    /// When, on the monotonic clock, [`JobLifetimes::turn`] must be called again though nothing happens.
    pub fn next_wake(&self, now: Now, time: Timestamp) -> Option<Duration> {
        let timer = self.timers.next().map(|at| {
            let wait = Duration::try_from(at.timestamp().duration_since(time)).unwrap_or(Duration::ZERO);
            // Not a moment too early: whole instants are compared.
            now.steady + wait + Duration::from_millis(1)
        });
        timer.into_iter().chain(self.later.first().map(|(at, _)| *at)).min()
    }

    /// How many lifetimes of its namespaces wait to end: costs as much as there are of them.
    pub fn gauges(&self) -> LifetimeGauges {
        let mut gauges = LifetimeGauges::default();
        let lifetimes = self.states.keys().filter_map(|job| self.job(job)?.lifetime.as_ref());
        for JobLifetime { lifetime, .. } in lifetimes {
            match lifetime.next() {
                Some(End::Deadline(due)) => gauges.deadlines.push(due),
                Some(End::Expiry(_)) => gauges.ttl_pending += 1,
                None => {}
            }
        }
        gauges
    }

    fn job(&self, job: &ConsumerKey) -> Option<&Job> {
        self.jobs.get(&job.kind)?.get(&job.key)
    }

    /// A job has changed, is new or gone, or its slot is ours from now on.
    fn refresh(&mut self, key: &ConsumerKey) {
        let is_ours = self.active_slots.contains(slot(key));
        let found = self.job(key).filter(|job| is_ours && !job.deleting);
        let found =
            found.and_then(|job| Some((Arc::clone(&job.uid), job.lifetime.as_ref()?.lifetime.next())));
        let Some((uid, end)) = found else { return self.forget(key) };
        if self.states.get(key).is_some_and(|state| state.uid != uid) {
            self.forget(key);
        }
        let is_new = !self.states.contains_key(key);
        let state = self.states.entry(key.clone()).or_insert_with(|| State::new(&uid));
        if is_new {
            self.unseen.insert(key.clone());
        }
        // Its time may have come while the slot was drained.
        self.later.extend(state.confirms.map(|at| (at, key.clone())));
        let due = end.map(End::due);
        let is_proved = due.is_some_and(|due| state.is_proved(due));
        if is_proved {
            self.ready.offer(&key.key.namespace, key.clone());
        }
        if due != state.due {
            self.waiting.remove(key);
            self.timers.set(key, due.filter(|_| !is_proved));
            state.due = due;
        }
    }

    fn forget(&mut self, key: &ConsumerKey) {
        self.unseen.remove(key);
        self.waiting.remove(key);
        self.timers.set(key, None);
        self.states.remove(key);
    }

    /// Reports the facts that users need about a job that is seen for the first time.
    fn first_seen(&mut self, now: Now, time: Timestamp, key: &ConsumerKey) {
        let Some(job) = self.job(key) else { return };
        let Some(JobLifetime { lifetime, is_overdue, ignored, .. }) = &job.lifetime else { return };
        let is_since = |at: Option<Time>, seconds| {
            at.is_some_and(|at: Time| at.plus_seconds(seconds).timestamp() > time)
        };
        let ignored = ignored.iter().cloned();
        let ignored = ignored.map(|note| Report::warning(EventReason::InvalidFieldIgnored, note));
        let mut notes: Vec<_> = ignored.collect();
        let short = lifetime.ttl.filter(|seconds| *seconds < i64::from(SHORT_SEC));
        if let Some(seconds) = short.filter(|_| lifetime.finished.is_none()) {
            let note = format!(
                "ttlSecondsAfterFinished is {seconds}: the TrainJob is deleted so many seconds after it \
                 finished, maybe before anyone has read its status; {SHORT_SEC} or more leaves time for that"
            );
            notes.push(Report::warning(EventReason::ShortTTLSecondsAfterFinished, note));
        }
        let confirms = *is_overdue && lifetime.deadline.is_some() && is_since(lifetime.finished, LATE_CHILD);
        if is_since(lifetime.created, NEW) {
            let (row, uid) = (Arc::clone(&job.row), Arc::clone(&job.uid));
            let job = key.key.clone();
            self.effects.extend(notes.into_iter().map(|report| QueueEffect::Lifetime {
                row: Arc::clone(&row),
                job: job.clone(),
                uid: Arc::clone(&uid),
                report: Some(report),
                measure: None,
            }));
        }
        if confirms {
            self.confirm_later(now, key);
        }
    }

    /// Reads the JobSet of a job that has failed once more: its operator may have created one meanwhile.
    fn confirm_later(&mut self, now: Now, key: &ConsumerKey) {
        if let Some(state) = self.states.get_mut(key) {
            let at = now.steady + self.request_lifetime;
            state.confirms = Some(at);
            self.later.insert((at, key.clone()));
        }
    }
}

fn of(kind: &JobKind, key: &Key) -> ConsumerKey {
    ConsumerKey { kind: kind.clone(), key: key.clone() }
}

fn slot(job: &ConsumerKey) -> Slot {
    Slot::of(&job.key.namespace)
}
