//! Decides which requests are sent to the API server, and when: takes in events, gives out effects.
//!
//! The engine is thin: it routes events to the parts that hold the rules, `cache`, `framework_state`,
//! `status_write`, [`Dues`], `dispatch` and `budget`. Guarantees: the same events at the same times with the
//! same seeds give the same effects. It does no I/O, reads no clock, draws no random numbers and never
//! blocks.

use std::sync::Arc;
use std::time::Duration;

use framework_api::code::DEADLINE_EXCEEDED;
use framework_core::plan::Report;
use framework_core::{Defect, Policy};
use framework_message::{Dues, Key, MayAct, Now, Ownership, Paused, Slot, Slots, Ticket};
use jiff::Timestamp;
use tracing::info;

use crate::budget::{Budget, Part};
use crate::cache::{Cache, Entry};
use crate::compression::Compression;
use crate::concurrency::Concurrency;
use crate::consumers::Consumers;
use crate::dispatch::{Class, Dispatch};
use crate::drain::Drain;
use crate::event::{Effect, Event, Measure};
use crate::framework_state::FrameworkState;
use crate::gauges::Gauges;
use crate::grants::Grants;
use crate::history::Line;
use crate::in_flight::InFlight;
use crate::server_clock::ServerClock;
use crate::traces::Sampling;
use crate::trouble::Trouble;
use crate::windows::{Pace, Windows};

mod admission;
mod coalesce;
mod consumers;
mod creates;
mod evaluation;
mod lifetimes;
mod outcomes;
mod refusals;
mod repetition;
mod replies;
mod sending;
mod slots;
mod watches;

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Requests a second. This and the next three are of all replicas together: see [`Engine::set_share`].
    pub qps: f64,
    /// Requests that may follow each other without delay after a pause.
    pub burst: u32,
    /// The least limit of requests in flight, however slow the API server is.
    pub min_in_flight: usize,
    /// The greatest.
    pub max_in_flight: usize,
    /// The longest life of a request that was sent: after it, a request without a reply can have no effect.
    pub request_lifetime: Duration,
    /// How long changes gather when an act waits for their write and more are likely.
    pub gather: Duration,
    /// How long changes gather when nothing waits for their write.
    pub record: Duration,
    /// The most bytes of one Framework's status that are written a second.
    pub status_bytes_per_second: u64,
    /// The most Tasks of one Framework's status that are written a second.
    pub status_tasks_per_second: u64,
    /// How long a unit may be overtaken in its queue before capacity is kept for it.
    pub reserve_after: Duration,
    /// When and how statuses are compressed.
    pub compression: Compression,
    /// The lives that are traced; `None`: none.
    pub traces: Option<Sampling>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        EngineSettings {
            qps: 80.0,
            burst: 120,
            // With an admission webhook that takes 200 ms, these are the requests a second above.
            min_in_flight: 16,
            max_in_flight: 200,
            request_lifetime: Duration::from_secs(28),
            gather: Duration::from_millis(100),
            record: Duration::from_millis(250),
            status_bytes_per_second: 1 << 20,
            // Each costs 7 µs to render and compress: a fourteenth of a processor.
            status_tasks_per_second: 10_000,
            reserve_after: Duration::from_secs(300),
            compression: Compression::default(),
            traces: None,
        }
    }
}

/// The order of requests, the budget for them, the requests in flight, and those to be repeated.
#[derive(Debug)]
struct Sending {
    dispatch: Dispatch,
    budget: Budget,
    in_flight: InFlight,
    trouble: Trouble,
    /// Others wait for the budget, too, and it never fills.
    is_contended: bool,
}

impl Sending {
    /// The part of the budget that pays for the next request.
    fn part(&self) -> Part {
        if self.is_contended { Part::Whole } else { self.dispatch.part() }
    }
}

/// An engine that is stepped by events; see the module.
#[derive(Debug)]
pub struct Engine {
    settings: EngineSettings,
    pace: Pace,
    policy: Arc<Policy>,
    ownership: Ownership,
    grants: Grants,
    cache: Cache,
    ready: Dues<Key, Duration>,
    paused: Paused<Key>,
    sending: Sending,
    clock: ServerClock,
    consumers: Consumers,
    effects: Vec<Effect>,
    seed: u64,
    drain: Drain,
    now: Now,
}

impl Engine {
    /// An engine that has seen no event, and owns every slot.
    pub fn new(settings: EngineSettings, policy: Arc<Policy>) -> Self {
        let windows = Windows {
            gather: settings.gather,
            record: settings.record,
            bytes_per_second: settings.status_bytes_per_second,
            tasks_per_second: settings.status_tasks_per_second,
        };
        let concurrency = Concurrency::new(settings.min_in_flight, settings.max_in_flight);
        Engine {
            sending: Sending {
                dispatch: Dispatch::default(),
                budget: Budget::new(settings.qps, settings.burst, concurrency),
                in_flight: InFlight::default(),
                trouble: Trouble::default(),
                is_contended: false,
            },
            pace: Pace::new(windows),
            settings,
            policy,
            ownership: Ownership::default(),
            grants: Grants::default(),
            cache: Cache::default(),
            ready: Dues::default(),
            paused: Paused::default(),
            clock: ServerClock::default(),
            consumers: Consumers::default(),
            effects: Vec::new(),
            seed: 0,
            drain: Drain::default(),
            now: Now::START,
        }
    }

    /// The same engine, which acts for the slots that `ownership` says it owns.
    #[must_use]
    pub fn with_ownership(mut self, ownership: Ownership) -> Self {
        self.ownership = ownership;
        self
    }

    /// The same engine, to which no slot was granted yet.
    #[must_use]
    pub fn without_slots(mut self) -> Self {
        self.grants = Grants::none();
        self
    }

    /// From now on, this part of the budget of all requests may be used.
    pub fn set_share(&mut self, now: Now, share: f64) {
        self.sending.budget.set_share(now.steady, share);
    }

    /// Whether the API server's time is known.
    pub fn knows_time(&self) -> bool {
        self.clock.time.is_known()
    }

    /// The API server's time, as well as it is known.
    pub fn time(&self, now: Now) -> Timestamp {
        self.clock.time.now(now)
    }

    /// Asks the API server for its time on behalf of queueing: [`Effect::TimeHeard`] follows.
    pub fn ask_time(&mut self) {
        self.clock.probe.want();
    }

    /// Takes in one event.
    pub fn step(&mut self, now: Now, event: Event) {
        self.now = now;
        match event {
            Event::Framework(change) => self.framework_changed(now, change),
            Event::ConfigMap(change) => self.config_map_changed(now, change),
            Event::Pod(change) => self.pod_changed(now, change),
            Event::Reply { ticket, reply, server } => {
                self.replied(now, ticket, reply, server);
            }
            Event::UnownedPod(pod) => self.pod_released(now, pod),
            Event::Drain(slots) => self.drain(now, slots),
            Event::Resume(slots) => self.drain_called_off(now, slots),
            Event::Selected(kind, selection) => self.cache.listing(kind).selection = selection,
            Event::Granted { slots, grant } => self.granted(slots, grant),
            Event::Hold { slots, until } => {
                self.grants.hold(slots, now.steady + until.saturating_sub(now.boot));
            }
            Event::Begin(slots) => self.begin_slots(now, slots),
            Event::Lost(slots) => self.lost(slots),
        }
    }

    /// Evaluates the Frameworks that are ready, and sends requests within the budget. `seed` must be unique
    /// and unpredictable.
    pub fn turn(&mut self, now: Now, seed: u128) -> Vec<Effect> {
        self.now = now;
        self.seed = (seed >> 64) as u64 ^ seed as u64;
        self.resume(now);
        self.evaluate(now, seed);
        self.send(now);
        self.report_queued();
        let drained = self.drain.announce(self.drained());
        if !drained.is_empty() {
            self.effects.push(Effect::Drained(drained));
        }
        self.drain.settles_at = self.drain_settles_at();
        std::mem::take(&mut self.effects)
    }

    /// When, on the monotonic clock, [`Engine::turn`] must be called again even without an event.
    pub fn next_wake(&self) -> Option<Duration> {
        let Sending { dispatch, budget, .. } = &self.sending;
        let sending =
            if dispatch.is_empty() { None } else { budget.next(self.now.steady, self.sending.part()) };
        let asking =
            self.clock.probe.next().and_then(|at| Some(at.max(budget.next(self.now.steady, Part::Whole)?)));
        let reset = self.clock.next_reset();
        [self.ready.next(), sending, asking, reset, self.drain.settles_at].into_iter().flatten().min()
    }

    /// Counts all Frameworks and their objects: costs O(Frameworks).
    pub fn gauges(&self) -> Gauges {
        Gauges {
            in_flight: self.sending.in_flight.len(),
            in_flight_limit: self.sending.budget.limit(),
            timers: self.ready.count(),
            time: self.clock.time,
            ..Gauges::of(&self.cache, &self.policy, self.now.steady)
        }
    }

    /// Sends no new acts for these slots; their unrecorded outcomes are written once more.
    pub fn drain(&mut self, now: Now, slots: Slots) {
        let slots = self.drain.begin(slots);
        if slots.is_empty() {
            return;
        }
        let states = self.cache.iter().filter_map(|(_, entry)| entry.state.as_ref());
        let in_doubt = states.filter(|state| slots.contains(state.slot) && self.may_be_overtaken(state));
        let frameworks = in_doubt.count();
        if frameworks > 0 {
            info!(frameworks, "waiting for requests without a reply to expire");
        }
        for key in self.cache.keys() {
            let state = self.cache.get_mut(&key).and_then(|entry| entry.state.as_mut());
            match state {
                Some(state) if !slots.contains(state.slot) => continue,
                Some(state) => {
                    state.outgoing.outbox.drop_acts();
                    state.schedule.mark_dirty(now.steady);
                }
                None => {}
            }
            self.schedule(now, &key);
        }
    }

    /// The drained slots that are settled: nothing that was sent for them can land any more.
    pub fn drained(&self) -> Slots {
        if self.drain.is_empty() {
            return Slots::NONE;
        }
        let states = self.cache.iter().filter_map(|(_, entry)| Some((entry, entry.state.as_ref()?)));
        let is_unsettled = |(entry, state): &(&Entry, &FrameworkState)| {
            let writes = state.outgoing.write.is_busy() || state.wants(Class::Record, self.now.steady);
            let unsettled = writes || entry.has_unrecorded() || self.may_be_overtaken(state);
            !state.outgoing.is_lost() && unsettled
        };
        let mut unsettled: Slots = states.filter(is_unsettled).map(|(_, state)| state.slot).collect();
        unsettled.extend(Slot::all().filter(|slot| self.sending.in_flight.of_slot(*slot) > 0));
        self.drain.done(unsettled)
    }

    /// Whether a create or a status write of unknown outcome may land when another replica has the slot: the
    /// next owner would act by the status that it replaces. Creates of an earlier owner do not count: the
    /// slot is handed over as unsettled while its hold lasts.
    fn may_be_overtaken(&self, state: &FrameworkState) -> bool {
        let is_shared =
            self.ownership.right(state.slot).is_some() && !self.policy.defects.has(Defect::HandOverEarly);
        let held_until = self.grants.held_until(state.slot, self.now.steady).unwrap_or(self.now.steady);
        let written = || state.outgoing.write.lands_until(self.settings.request_lifetime);
        let writes = || written().is_some_and(|until| self.now.steady < until);
        is_shared && (state.outgoing.may_land_after(held_until) || writes())
    }

    /// Whether anything may be decided for a slot: all of it is listed, and the API server's time is known. A
    /// time in a status would stay wrong permanently if it came from a wrong local clock.
    fn is_ready(&self, slot: Slot) -> bool {
        self.cache.synced().contains(slot) && self.grants.has_begun(slot) && self.clock.time.is_known()
    }

    /// Schedules the Frameworks that were set aside while their slot was paused, once it is not paused any
    /// more.
    fn resume(&mut self, now: Now) {
        let ownership = &self.ownership;
        for key in self.paused.take(|slot| ownership.may_act(slot, now) == MayAct::Paused) {
            self.schedule(now, &key);
        }
    }

    /// Updates the timers and the rotation after the entry of a name has changed.
    fn schedule(&mut self, now: Now, key: &Key) {
        self.write_pod_ends(key);
        self.report_consumer(key);
        let state = self.cache.get(key).and_then(|entry| entry.state.as_ref());
        let Some(state) = state else {
            self.ready.set(key, None);
            return self.cache.tidy(key);
        };
        let is_ready = self.is_ready(state.slot);
        self.ready.set(key, state.next(now, is_ready.then_some(&self.clock.time)));
        for class in Class::ALL {
            if state.wants(class, now.steady) {
                self.sending.dispatch.offer(class, key);
            }
        }
    }

    fn schedule_all(&mut self, now: Now) {
        for key in self.cache.keys() {
            self.schedule(now, &key);
        }
    }

    /// Emits lines of the history, if they are configured: before that request leaves, or soon.
    fn write_history(&mut self, mut lines: Vec<Line>, before: Option<Ticket>) {
        lines.iter().for_each(|line| self.trace_deletion(line));
        let switches = &self.policy.log_object_snapshot;
        lines.retain(|line| line.trigger().is_on(switches));
        if switches.redact_env {
            lines = lines.into_iter().map(Line::redacted).collect();
        }
        if !lines.is_empty() {
            self.effects.push(Effect::WriteHistory { lines, before });
        }
    }

    /// Writes the Pods of a name that are known to be gone into the history.
    fn write_pod_ends(&mut self, key: &Key) {
        let Some(entry) = self.cache.get_mut(key) else { return };
        if entry.state.is_none() {
            entry.known.deletions.unasked();
            // No status names them. A GET asks for those that a later one names.
            entry.known.objects.forget_gone();
        }
        let gone = entry.known.deletions.take_gone();
        let lines = gone.into_iter().map(|pod| Line::Pod { key: key.clone(), pod }).collect();
        self.write_history(lines, None);
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

#[cfg(test)]
mod tests;
