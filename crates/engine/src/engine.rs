//! Decides what is sent to the API server, and when: takes in events, gives out effects.
//!
//! Thin: it routes events to the parts that hold the rules, [`cache`](crate::cache),
//! [`state`](crate::framework_state), [`status_write`](crate::status_write), [`ready`](crate::ready),
//! [`dispatch`](crate::dispatch) and [`budget`](crate::budget). Guarantees: the same events at the same times
//! with the same seeds give the same effects. It does no I/O, reads no clock, draws no random numbers and
//! waits for nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_api::code::DEADLINE_EXCEEDED;
use framework_api::{Framework, FrameworkStatus, State, Time};
use framework_core::observed::{Objects, Outcome};
use framework_core::plan::Report;
use framework_core::{Action, Policy, lifetime};
use jiff::Timestamp;

use crate::budget::{Budget, Part};
use crate::cache::Cache;
use crate::compression::Compression;
use crate::dispatch::{Class, Dispatch};
use crate::engine::consumers::Mark;
use crate::event::{Effect, Event, Measure};
use crate::history::Line;
use crate::outbox::{Label, Lookup};
use crate::ready::Ready;
use crate::server_time::ServerTime;
use crate::server_time_probe::ServerTimeProbe;
use crate::status_write::Windows;
use framework_message::Ownership;
use framework_message::{Key, Now, Ticket};

mod admission;
mod coalesce;
mod consumers;
mod creates;
mod evaluation;
mod lifetimes;
mod replies;
mod sending;
mod watches;

/// What an engine is set to.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Requests a second.
    pub qps: f64,
    /// Requests that may follow each other at once after a pause.
    pub burst: u32,
    /// Requests in flight.
    pub max_in_flight: usize,
    /// The longest life of a request that was sent: after it, one without a reply has no effect any more.
    pub request_lifetime: Duration,
    /// How long changes gather when an act waits for their write and more are likely.
    pub gather: Duration,
    /// How long changes gather when nothing waits for their write.
    pub record: Duration,
    /// So many bytes of one Framework's status a second, at most.
    pub status_bytes_per_second: u64,
    /// How long a unit may be overtaken in its queue before capacity is kept for it.
    pub reserve_after: Duration,
    /// When and how statuses are compressed.
    pub compression: Compression,
}

impl Default for EngineSettings {
    fn default() -> Self {
        EngineSettings {
            qps: 80.0,
            burst: 120,
            max_in_flight: 200,
            request_lifetime: Duration::from_secs(28),
            gather: Duration::from_millis(100),
            record: Duration::from_millis(250),
            status_bytes_per_second: 1 << 20,
            reserve_after: Duration::from_secs(300),
            compression: Compression::default(),
        }
    }
}

/// Figures for metrics.
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
    /// Creates without a recorded outcome.
    pub unrecorded_creates: usize,
    /// Completed Frameworks that wait for their `ttlSecondsAfterFinished` to pass.
    pub ttl_pending: usize,
    /// Deadlines of Frameworks that have not completed.
    pub deadlines: Vec<Time>,
    /// The API server's clock.
    pub time: ServerTime,
    /// Since when, on the steady clock, the oldest event has been waiting for its Framework's evaluation.
    pub oldest_event: Option<Duration>,
}

/// A request on its way.
#[derive(Debug)]
struct Sent {
    key: Key,
    /// The Framework that it was sent for.
    uid: Arc<str>,
    what: What,
    at: Duration,
}

/// What a request on its way is for.
#[derive(Debug)]
enum What {
    /// A status write for this resourceVersion.
    Write {
        base: u128,
    },
    /// The read after a write that conflicted or got no reply.
    Read,
    /// The conditions of a Framework that cannot be read.
    Quarantine,
    Act(Action),
    Lookup(Lookup),
    Label(Label),
}

impl What {
    /// Whether the reply shows the state of a ConfigMap or a Pod that the cache may take in.
    fn reads(&self) -> bool {
        match self {
            What::Act(action) => {
                matches!(action, Action::ConfirmConfigMap { .. } | Action::ConfirmPod { .. })
            }
            What::Lookup(_) | What::Label(_) => true,
            What::Write { .. } | What::Read | What::Quarantine => false,
        }
    }
}

/// Stepped by events; see the module.
#[derive(Debug)]
pub struct Engine {
    settings: EngineSettings,
    windows: Windows,
    /// How long a status write takes, smoothed.
    round_trip: Duration,
    policy: Arc<Policy>,
    ownership: Ownership,
    cache: Cache,
    ready: Ready,
    dispatch: Dispatch,
    budget: Budget,
    time: ServerTime,
    time_probe: ServerTimeProbe,
    in_flight: BTreeMap<Ticket, Sent>,
    /// Frameworks that the desk was told of, and as what.
    consumers: BTreeMap<Key, Mark>,
    tickets: u64,
    effects: Vec<Effect>,
    seed: u64,
    /// Since when it has been draining.
    draining: Option<Duration>,
    drained: bool,
    now: Duration,
}

impl Engine {
    /// An engine that knows nothing yet.
    pub fn new(settings: EngineSettings, policy: Arc<Policy>) -> Self {
        let windows = Windows {
            gather: settings.gather,
            record: settings.record,
            bytes_per_second: settings.status_bytes_per_second,
        };
        Engine {
            budget: Budget::new(settings.qps, settings.burst, settings.max_in_flight),
            windows,
            round_trip: Duration::ZERO,
            settings,
            policy,
            ownership: Ownership,
            cache: Cache::default(),
            ready: Ready::default(),
            dispatch: Dispatch::default(),
            time: ServerTime::default(),
            time_probe: ServerTimeProbe::default(),
            in_flight: BTreeMap::new(),
            consumers: BTreeMap::new(),
            tickets: 0,
            effects: Vec::new(),
            seed: 0,
            draining: None,
            drained: false,
            now: Duration::ZERO,
        }
    }

    /// Whether the API server has told its time.
    pub fn knows_time(&self) -> bool {
        self.time.is_known()
    }

    /// The API server's time, as well as it is known.
    pub fn time(&self, now: Now) -> Timestamp {
        self.time.now(now)
    }

    /// Takes in one event.
    pub fn step(&mut self, now: Now, event: Event) {
        self.now = now.steady;
        match event {
            Event::Framework(change) => self.framework_changed(now, change),
            Event::ConfigMap(change) => self.config_map_changed(now, change),
            Event::Pod(change) => self.pod_changed(now, change),
            Event::Reply { ticket, reply, server } => {
                self.replied(now, ticket, reply, server);
            }
            Event::UnownedPod(pod) => self.pod_released(now, pod),
            Event::Tick => {}
            Event::Drain => self.drain(now),
        }
    }

    /// Evaluates what is ready, and sends what may be sent. `seed` must be unique and not to be guessed.
    pub fn turn(&mut self, now: Now, seed: u128) -> Vec<Effect> {
        self.now = now.steady;
        self.seed = (seed >> 64) as u64 ^ seed as u64;
        self.evaluate(now, seed);
        self.send(now);
        if self.is_drained() && !std::mem::replace(&mut self.drained, true) {
            self.effects.push(Effect::Drained);
        }
        std::mem::take(&mut self.effects)
    }

    /// When, on the steady clock, [`Engine::turn`] must be called again though nothing happens.
    pub fn next_wake(&self) -> Option<Duration> {
        let part = self.dispatch.part();
        let sending = if self.dispatch.is_empty() { None } else { self.budget.next(self.now, part) };
        let draining =
            self.draining.filter(|_| !self.drained).map(|since| since + self.settings.request_lifetime);
        let asking =
            self.time_probe.next().and_then(|at| Some(at.max(self.budget.next(self.now, Part::Whole)?)));
        [self.ready.next(), sending, asking, draining].into_iter().flatten().min()
    }

    /// Counts everything: costs O(Frameworks).
    pub fn gauges(&self) -> Gauges {
        let mut gauges = Gauges {
            in_flight: self.in_flight.len(),
            timers: self.ready.len(),
            time: self.time,
            ..Gauges::default()
        };
        for (_, entry) in self.cache.iter() {
            let objects = &entry.known.objects;
            gauges.pods += objects.pods.len();
            gauges.config_maps += usize::from(objects.config_map.is_some());
            let Some(state) = &entry.state else { continue };
            gauges.unrecorded_creates += objects.unrecorded_creates();
            match (&state.persisted, state.status()) {
                (None, _) => gauges.unreadable_frameworks += 1,
                (_, None) => gauges.new_frameworks += 1,
                (Some(persisted), Some(status)) => {
                    *gauges.frameworks.entry(status.state).or_default() += 1;
                    self.gauge_lifetime(&mut gauges, &persisted.framework, status);
                }
            }
            for class in Class::ALL {
                let writes = usize::from(class == Class::Record && state.write.is_due(self.now));
                gauges.queued[class as usize] += state.outbox.len(class) + writes;
            }
            let waiting = state.dirty.then_some(state.dirty_since);
            gauges.oldest_event = gauges.oldest_event.into_iter().chain(waiting).min();
        }
        gauges
    }

    fn gauge_lifetime(&self, gauges: &mut Gauges, framework: &Framework, status: &FrameworkStatus) {
        let expiry = lifetime::expiry(framework, status, &self.policy);
        let is_kept = framework.metadata.deletion_timestamp.is_none();
        gauges.ttl_pending += usize::from(is_kept && expiry.is_some_and(|expiry| expiry.by_ttl));
        if status.state != State::Completed {
            gauges.deadlines.extend(lifetime::deadline(framework));
        }
    }

    /// No new acts; what is not recorded is written a last time.
    fn drain(&mut self, now: Now) {
        if self.draining.is_some() {
            return;
        }
        self.draining = Some(now.steady);
        for key in self.cache.keys() {
            let state = self.cache.get_mut(&key).and_then(|entry| entry.state.as_mut());
            if let Some(state) = state {
                state.outbox.clear();
                state.mark_dirty(now.steady);
            }
            self.schedule(now, &key);
        }
    }

    /// Whether anything may be decided: all is listed, and the API server has told its time. A status says
    /// when things happened, and a local clock that is wrong would say it for ever.
    fn is_ready(&self) -> bool {
        self.cache.is_synced() && self.time.is_known()
    }

    fn is_drained(&self) -> bool {
        let Some(since) = self.draining else { return false };
        let late = self.now >= since + self.settings.request_lifetime;
        let settled = |state: &crate::framework_state::FrameworkState, objects| {
            let writes = state.write.is_busy() || state.wants(Class::Record, self.now);
            state.lost || !writes && !has_unrecorded(objects)
        };
        late || self.in_flight.is_empty()
            && self.cache.iter().all(|(_, entry)| {
                entry.state.as_ref().is_none_or(|state| settled(state, &entry.known.objects))
            })
    }

    /// Brings timers and rotation in line with what is kept of a name.
    fn schedule(&mut self, now: Now, key: &Key) {
        self.tell_ends(key);
        self.tell_consumer(key);
        let state = self.cache.get(key).and_then(|entry| entry.state.as_ref());
        let Some(state) = state else {
            self.ready.set(key, None);
            return self.cache.tidy(key);
        };
        self.ready.set(key, state.next(now, self.is_ready().then_some(&self.time)));
        for class in Class::ALL {
            if state.wants(class, now.steady) {
                self.dispatch.offer(class, key);
            }
        }
    }

    fn schedule_all(&mut self, now: Now) {
        for key in self.cache.keys() {
            self.schedule(now, &key);
        }
    }

    /// Tells lines of the history, if they are wanted: before that request leaves, or as soon as may be.
    fn tell(&mut self, mut lines: Vec<Line>, before: Option<Ticket>) {
        lines.retain(|line| line.trigger().is_on(&self.policy.log_object_snapshot));
        if !lines.is_empty() {
            self.effects.push(Effect::Tell { lines, before });
        }
    }

    /// Tells of the Pods of a name that are known to be gone by now.
    fn tell_ends(&mut self, key: &Key) {
        let Some(entry) = self.cache.get_mut(key) else { return };
        if entry.state.is_none() {
            entry.known.deletions.unasked();
        }
        let gone = entry.known.deletions.take_gone();
        let lines = gone.into_iter().map(|pod| Line::Pod { key: key.clone(), pod }).collect();
        self.tell(lines, None);
    }

    fn publish(&mut self, key: &Key, reports: Vec<Report>) {
        let state = self.cache.get(key).and_then(|entry| entry.state.as_ref());
        if let Some(persisted) = state.and_then(|state| state.persisted.as_ref())
            && !reports.is_empty()
        {
            if reports.iter().any(|report| report.reason == DEADLINE_EXCEEDED) {
                self.effects.push(Effect::Measure(Measure::DeadlineExceeded));
            }
            self.effects.push(Effect::Publish { framework: Arc::clone(&persisted.framework), reports });
        }
    }
}

/// Whether a crash would lose a create that was acknowledged.
fn has_unrecorded(objects: &Objects) -> bool {
    let creates = objects.pod_creates.values().chain(&objects.config_map_create);
    creates.into_iter().any(|create| matches!(create.outcome, Outcome::Acknowledged { .. }))
}

#[cfg(test)]
mod tests;
