//! The loop that ties the parts together: it takes in events, lets the engine decide and carries out the
//! effects.
//!
//! Guarantees: one task steps the engine, so that its decisions depend on the order of events alone. No task
//! is detached: if a watch or the recorder ends, the loop ends with the reason. Under a paused clock, a
//! current-thread runtime and fixed [`Seeds`] a run replays exactly: there are no threads, no wall clock and
//! no other randomness here.
//!
//! In production this future belongs on the main thread (`block_on`), where a long turn delays no other task:
//! the runtime's workers decode and send meanwhile.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use framework_engine::engine::Engine;
use framework_engine::event::{self as engine, Effect, QueuedFramework};
use framework_engine::request::Request;
use framework_membership::Notice;
use framework_message::{Key, Now, Ownership, Right, Slots, Ticket};
use framework_queueing::Consumer;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::compression::Compressor;
use crate::event::Event;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::position_query::PositionQuery;
use crate::recorder::{Recorder, Subject};
use crate::seeds::Seeds;
use crate::traces::Traces;
use crate::watch::Sink;

mod error;
mod granted;
mod history;
mod labels;
mod listing;
mod membership;
mod parts;
mod queueing;
mod requests;
mod settle;
mod units;
mod watches;
mod writers;

pub use error::Error;
use history::History;
use membership::Membership;
pub use parts::{MemberParts, Parts, Queries};
use queueing::Queueing;
use requests::{Answered, Requests};

/// Events that may wait; a watch that finds the channel full waits too.
const EVENTS: usize = 4096;
/// Events that one turn takes in at most.
const BATCH: usize = 1024;
/// How old the gauges of a busy controller may get.
const MEASURE: Duration = Duration::from_secs(5);
/// How long a stop may take after the last request has had its effect: its slot is handed over then.
pub const HAND_OVER: Duration = Duration::from_secs(4);
/// How long queued Kubernetes Events may hold up a stop.
pub const FLUSH: Duration = Duration::from_secs(1);

/// Runs a controller until `parts.stop` is done and its requests are settled.
pub async fn run(mut parts: Parts) -> Result<(), Error> {
    let (sink, mut events) = mpsc::channel(EVENTS);
    let compressor = Arc::new(Compressor::new(parts.settings.compression));
    let sink = Sink::new(sink, Arc::clone(&parts.metrics), Arc::clone(&compressor))
        .within(parts.namespace.as_deref());
    let mut writers = JoinSet::new();
    let (recorder, traces) = writers::start(&mut writers, &mut parts);
    let mut tasks = JoinSet::new();
    let (membership, ownership, selected) =
        membership::start(&mut tasks, &mut parts, &recorder, &sink.mislabelled);
    watches::start(&mut tasks, &mut parts, &sink, selected);
    drop(sink);

    let mut stop = std::mem::replace(&mut parts.stop, futures::future::pending().boxed()).fuse();
    let lifetime = parts.settings.request_lifetime;
    let mut position_queries = queueing::position_queries(&mut parts);
    let mut controller = Controller::new(parts, recorder, compressor, membership, ownership);
    controller.traces = traces;
    let mut batch = Vec::with_capacity(BATCH);
    let mut deadline: Option<Instant> = None;
    let [mut ends, mut measures, mut wakes] = [(); 3].map(|()| Alarm::new());
    while !controller.is_over() {
        let wake = controller.wake();
        tokio::select! {
            biased;
            () = &mut stop => {
                info!("stopping: no new creates and deletes, waiting for requests in flight");
                deadline = Some(Instant::now() + lifetime + HAND_OVER);
                controller.stop();
            }
            Some(notice) = notified(&mut controller.membership) => controller.notified(notice),
            Some(ended) = controller.requests.next() => controller.replied(ended)?,
            Some(ended) = tasks.join_next() => return Err(part_ended(ended)),
            Some(ended) = writers.join_next() => return Err(part_ended(ended)),
            () = ends.at(deadline) => {
                warn!(unsettled = controller.requests.len(), "stopped with requests unsettled");
                break;
            }
            _ = events.recv_many(&mut batch, BATCH) => {}
            Some(query) = queueing::next(&mut position_queries, controller.queueing.answer_at) => {
                controller.queueing.answer(query);
                continue;
            }
            () = measures.at(controller.measure_at) => {
                controller.measure();
                continue;
            }
            () = wakes.at(wake) => {}
        }
        // All events and replies that are there go into the same turn.
        while let Some(ended) = controller.requests.try_next() {
            controller.replied(ended)?;
        }
        while batch.len() < BATCH
            && let Ok(event) = events.try_recv()
        {
            batch.push(event);
        }
        controller.metrics.queue("watch_events", events.len());
        controller.turn(batch.drain(..));
        if let Some((seen, found)) = controller.went_back {
            return Err(Error::StoreWentBack { seen, found });
        }
        controller.attend(&mut position_queries);
    }
    drop(controller);
    // Best effort: Events and spans that are not written by then are lost.
    let _ = timeout(FLUSH, async { while writers.join_next().await.is_some() {} }).await;
    Ok(())
}

fn part_ended(ended: Result<&'static str, JoinError>) -> Error {
    ended.map_or_else(Error::TaskFailed, Error::PartEnded)
}

/// The next notice of the member.
async fn notified(membership: &mut Option<Membership>) -> Option<Notice> {
    match membership {
        Some(membership) => membership.notified().await,
        None => std::future::pending().await,
    }
}

/// The engine, and the parts that carry out its effects.
struct Controller {
    engine: Engine,
    queueing: Queueing,
    membership: Option<Membership>,
    requests: Requests,
    history: History,
    recorder: Recorder,
    traces: Traces,
    clock: Clock,
    seeds: Seeds,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    /// The slots for which nothing is on its way, and nothing will be.
    drained: Slots,
    /// A version that was seen, and a lower one that a read showed after it.
    went_back: Option<(u128, u128)>,
    /// When the gauges are taken again, which costs time; `None`: they do not change.
    measure_at: Option<Instant>,
}

impl Controller {
    fn new(
        mut parts: Parts,
        recorder: Recorder,
        compressor: Arc<Compressor>,
        membership: Option<Membership>,
        ownership: Ownership,
    ) -> Self {
        let queueing = Queueing::new(&mut parts, ownership.clone(), membership.is_none());
        let (metrics, clock) = (Arc::clone(&parts.metrics), parts.clock);
        let requests = Requests::new(parts.client, metrics, compressor, clock, ownership.clone());
        let engine = Engine::new(parts.settings, parts.policy).with_ownership(ownership);
        Controller {
            engine: if membership.is_some() { engine.without_slots() } else { engine },
            membership,
            queueing,
            requests,
            history: History::new(parts.journal, Arc::clone(&parts.metrics)),
            recorder,
            traces: Traces::new(None, Arc::clone(&parts.metrics)).0,
            clock: parts.clock,
            seeds: parts.seeds,
            metrics: parts.metrics,
            health: parts.health,
            drained: Slots::NONE,
            went_back: None,
            measure_at: None,
        }
    }

    /// When the engine or the queues want a turn though nothing happens.
    fn wake(&self) -> Option<Instant> {
        let now = self.clock.now();
        if self.queueing.again() {
            return Some(self.clock.instant(now.steady));
        }
        let queueing = self.queueing.next_wake(&self.engine, now);
        // A slot that is drained but for the queues is handed over then.
        let settles = match &self.membership {
            Some(_) if !self.drained.is_empty() => self.queueing.settles_at(),
            _ => None,
        };
        let next = self.engine.next_wake().into_iter().chain(queueing).chain(settles).min();
        next.map(|steady| self.clock.instant(steady))
    }

    fn is_over(&self) -> bool {
        let is_over = match &self.membership {
            Some(membership) => membership.has_exited(),
            None => self.drained == Slots::ALL,
        };
        is_over && self.queueing.is_settled()
    }

    fn stop(&mut self) {
        self.health.set_stopping();
        match &self.membership {
            // It drains slot by slot, and hands each over.
            Some(membership) => membership.stop(),
            None => self.slots_change(self.clock.now(), engine::Event::Drain(Slots::ALL)),
        }
    }

    /// Slots come or go.
    fn notified(&mut self, notice: Notice) {
        let Some(membership) = &mut self.membership else { return };
        let now = self.clock.now();
        let events = membership.take_in(now, notice);
        let share = membership.of_budget();
        self.went_back = self.went_back.or(membership.went_back());
        events.into_iter().for_each(|event| self.slots_change(now, event));
        self.engine.set_share(now, share);
    }

    /// Slots come or go, for the engine and for the queues.
    fn slots_change(&mut self, now: Now, event: engine::Event) {
        if let engine::Event::Lost(slots) | engine::Event::Resume(slots) = event {
            self.drained = self.drained.without(slots);
        }
        self.queueing.slots_change(now, &event);
        self.engine.step(now, event);
    }

    /// Reports the slots for which neither the engine nor the queues have anything on its way.
    fn report_drained(&mut self, now: Now) {
        let Some(membership) = self.membership.as_ref().filter(|_| !self.drained.is_empty()) else { return };
        let drained = self.drained.without(self.queueing.unsettled(now));
        self.drained = self.drained.without(drained);
        if !drained.is_empty() {
            membership.drained(drained);
        }
    }

    fn measure(&mut self) {
        let gauges = self.engine.gauges();
        self.metrics.engine(&gauges, self.clock.now().steady);
        self.metrics.job_lifetimes(self.queueing.lifetimes(), gauges.time);
        if let Some(gauges) = self.queueing.gauges() {
            self.metrics.units(&gauges, |queue| self.queueing.has_queue(queue));
        }
        self.measure_at = self.history.measure().then(|| Instant::now() + MEASURE);
    }

    /// Measures, and answers a query, if that is due: the loop comes to neither while events never stop.
    fn attend(&mut self, position_queries: &mut mpsc::Receiver<PositionQuery>) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
        if is_due(self.measure_at) {
            self.measure();
        }
        if (self.queueing.answer_at.is_none() || is_due(self.queueing.answer_at))
            && let Ok(query) = position_queries.try_recv()
        {
            self.queueing.answer(query);
        }
    }

    fn replied(&mut self, ended: Result<(Ticket, Answered), JoinError>) -> Result<(), Error> {
        let (ticket, answered) = ended.map_err(Error::TaskFailed)?;
        let now = self.clock.now();
        match answered {
            Answered::Engine(answer) => {
                let (reply, server) = *answer;
                self.engine.step(now, engine::Event::Reply { ticket, reply, server });
            }
            Answered::Queue((reply, _)) => {
                self.engine.repaid(now, &reply);
                self.queueing.replied(&self.engine, now, ticket, reply);
            }
        }
        Ok(())
    }

    /// Takes in a batch of events, lets the engine and the queues decide, and carries out the effects.
    fn turn(&mut self, batch: impl ExactSizeIterator<Item = Event>) {
        let begun = Instant::now();
        let events = batch.len();
        self.health.turn_begins();
        for event in batch {
            if let Some(kind) = event.synced() {
                self.health.set_synced(kind);
            }
            self.take_in(event);
        }
        let now = self.clock.now();
        let before = self.queueing.before_engine(&mut self.engine, &mut self.requests, now);
        let effects = self.engine.turn(self.clock.now(), self.seeds.draw());
        for effect in effects {
            self.perform(effect);
        }
        self.queueing.after_engine(before, self.requests.len());
        let now = self.clock.now();
        for effect in self.queueing.turn(&mut self.engine, &mut self.requests, now) {
            self.settle(now, effect);
        }
        self.report_drained(now);
        self.health.turn_ends();
        self.measure_at.get_or_insert(begun + MEASURE);
        self.metrics.turn_taken(events, begun.elapsed());
    }

    fn take_in(&mut self, event: Event) {
        if let Some(membership) = &mut self.membership {
            membership.follow(&event);
        }
        match event {
            Event::Engine(event) => self.engine.step(self.clock.now(), event),
            Event::Queue(event) => self.queueing.step(event),
            Event::ListsUnits(_) => {}
            Event::StoreWentBack { seen, found } => self.went_back = Some((seen, found)),
        }
    }

    fn send(&mut self, ticket: Ticket, request: Request, right: Option<Right>) {
        let receipt = self.history.receipt(ticket);
        self.requests.send(ticket, request, right, receipt);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { ticket, request, right } => self.send(ticket, request, right),
            Effect::Queued { key, framework, has_strays, left_creates } => {
                let consumer = framework.map(|queued| {
                    let QueuedFramework { framework, queue, stage, demands } = queued;
                    Consumer::framework(&framework, queue.as_deref(), stage, &demands)
                });
                self.queueing.framework(key, consumer, has_strays, left_creates);
            }
            Effect::Measure(measure) => self.metrics.ended(measure),
            Effect::Trace(spans) => self.traces.export(spans),
            Effect::WriteHistory { lines, before } => self.history.append(self.clock.now(), lines, before),
            Effect::Publish { framework, reports } => {
                let key = Key::of(&framework);
                for report in reports {
                    if report.warning {
                        warn!(framework = %key, note = report.note, "{}", report.reason);
                    } else {
                        info!(framework = %key, note = report.note, "{}", report.reason);
                    }
                    self.recorder.record(Subject::framework(&framework), report);
                }
            }
            Effect::StoreWentBack { seen, found } => self.went_back = Some((seen, found)),
            Effect::TimeHeard { sent, date } => self.queueing.heard(sent, date),
            Effect::Drained(slots) => {
                self.drained = self.drained.or(slots);
                let waiting = slots.and(self.queueing.unsettled(self.clock.now())).iter().count();
                if waiting > 0 && self.membership.is_some() {
                    info!(slots = waiting, "waiting for requests of queues without a reply to expire");
                }
            }
            Effect::Listed(slots) => {
                self.membership.iter_mut().for_each(|membership| membership.listed(slots))
            }
        }
    }
}

#[cfg(test)]
mod tests;
