//! The loop that ties the parts together: take in what happened, let the engine decide, do what it wants.
//!
//! Guarantees: one task steps the engine, so what it decides depends on the order of events alone; nothing
//! is detached: if a watch or the recorder ends, the loop ends with the reason. Under a
//! paused clock, a current-thread runtime and fixed [`Seeds`] a run replays exactly: there are no threads,
//! no wall clock and no other randomness here.
//!
//! In production this future belongs on the main thread (`block_on`), where a long turn delays nobody: the
//! runtime's workers decode and send meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_core::Policy;
use framework_core::snapshot::Trigger;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use crate::clock::Clock;
use crate::compression::Compressor;
use crate::event::Event;
use crate::health::{Health, Synced};
use crate::journal::{Full, Journal, Receipt};
use crate::metrics::Metrics;
use crate::position_query::PositionQuery;
use crate::recorder::{Recorder, Subject};
use crate::seeds::Seeds;
use crate::send::{Answer, send};
use crate::watch::{Kind, Sink, Turn, watch};
use framework_engine::engine::{Engine, EngineSettings};
use framework_engine::event::{self as engine, Effect, QueuedFramework};
use framework_engine::history::Line;
use framework_engine::object::{ConfigMapObject, FrameworkObject, PodObject};
use framework_engine::request::Request;
use framework_message::{Change, Key, Reply, Ticket};
use framework_queueing::{Consumer, QueueController};

mod queueing;

/// Events that may wait; a watch that finds the channel full waits too.
const EVENTS: usize = 4096;
/// Events that one turn takes in at most.
const BATCH: usize = 1024;
/// How old the gauges of a busy controller may get.
const MEASURE: Duration = Duration::from_secs(5);
/// How long queued Kubernetes Events may hold up a stop.
const FLUSH: Duration = Duration::from_secs(1);

/// What a controller is made of.
pub struct Parts {
    /// The way to the API server.
    pub client: kube::Client,
    /// Of the engine.
    pub settings: EngineSettings,
    /// Of the core.
    pub policy: Arc<Policy>,
    /// Tells the time.
    pub clock: Clock,
    /// All randomness.
    pub seeds: Seeds,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Flags for probes.
    pub health: Arc<Health>,
    /// Takes the history.
    pub journal: Arc<dyn Journal>,
    /// Names this replica in Kubernetes Events.
    pub instance: String,
    /// Where questions come in for where a unit stands.
    pub position_queries: mpsc::Receiver<PositionQuery>,
    /// When this is done, the controller stops gracefully.
    pub stop: BoxFuture<'static, ()>,
}

/// Why a controller ended that was not told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part that runs for ever ended.
    #[error("{0} ended unexpectedly")]
    PartEnded(&'static str),
    /// A task panicked.
    #[error("a task failed: {0}")]
    TaskFailed(#[source] JoinError),
}

/// Runs a controller until it is told to stop.
pub async fn run(mut parts: Parts) -> Result<(), Error> {
    let (sink, mut events) = mpsc::channel(EVENTS);
    let compressor = Arc::new(Compressor::new(parts.settings.compression));
    let sink =
        Sink { events: sink, metrics: Arc::clone(&parts.metrics), compressor: Arc::clone(&compressor) };
    let (recorder, writer) =
        Recorder::new(parts.client.clone(), parts.clock, &parts.instance, Arc::clone(&parts.metrics));
    let mut recording = JoinSet::new();
    recording.spawn(writer.run());
    let mut tasks = JoinSet::new();
    start(&mut tasks, &mut parts, &sink);
    drop(sink);

    let mut stop = std::mem::replace(&mut parts.stop, futures::future::pending().boxed()).fuse();
    let lifetime = parts.settings.request_lifetime;
    let mut position_queries = queueing::position_queries(&mut parts);
    let mut controller = Controller::new(parts, recorder, compressor);
    let mut batch = Vec::with_capacity(BATCH);
    let mut deadline: Option<Instant> = None;
    while !controller.is_over() {
        let wake = controller.wake();
        tokio::select! {
            biased;
            () = &mut stop => {
                info!("stopping: no new creates and deletes, waiting for what is in flight");
                deadline = Some(Instant::now() + lifetime);
                controller.stop();
            }
            Some(ended) = controller.requests.join_next() => controller.replied(ended)?,
            Some(ended) = tasks.join_next() => return Err(part_ended(ended)),
            Some(ended) = recording.join_next() => return Err(part_ended(ended.map(|()| "the recorder"))),
            _ = events.recv_many(&mut batch, BATCH) => {}
            () = until(deadline) => {
                warn!(unsettled = controller.requests.len(), "stopped with requests unsettled");
                break;
            }
            Some(query) = queueing::next(&mut position_queries, controller.answer_at) => {
                controller.answer(query);
                continue;
            }
            () = until(controller.measure_at) => {
                controller.measure();
                continue;
            }
            () = until(wake) => controller.tick(),
        }
        // Whatever else is there goes into the same turn.
        while let Some(ended) = controller.requests.try_join_next() {
            controller.replied(ended)?;
        }
        while batch.len() < BATCH
            && let Ok(event) = events.try_recv()
        {
            batch.push(event);
        }
        controller.metrics.queue("watch_events", events.len());
        controller.turn(batch.drain(..));
    }
    drop(controller);
    // Best effort: what is not written by then is lost.
    let _ = timeout(FLUSH, recording.join_next()).await;
    Ok(())
}

/// Starts the watches, each of which tells its name when it ends.
fn start(tasks: &mut JoinSet<&'static str>, parts: &mut Parts, sink: &Sink) {
    let [frameworks, config_maps, pods, jobs, sets, used, units, queues, quotas, classes] = Turn::chain();
    start_watch::<FrameworkObject>(tasks, parts, sink, frameworks, "the watch of Frameworks");
    start_watch::<ConfigMapObject>(tasks, parts, sink, config_maps, "the watch of ConfigMaps");
    start_watch::<PodObject>(tasks, parts, sink, pods, "the watch of Pods");
    if parts.policy.queueing {
        queueing::start(tasks, parts, sink, [jobs, sets, used, units, queues, quotas, classes]);
    }
}

fn start_watch<T: Kind>(
    tasks: &mut JoinSet<&'static str>,
    parts: &mut Parts,
    sink: &Sink,
    turn: Turn,
    name: &'static str,
) {
    let watching = watch::<T>(parts.client.clone(), sink.clone(), turn, parts.seeds.generator());
    tasks.spawn(async move {
        watching.await;
        name
    });
}

fn part_ended(ended: Result<&'static str, JoinError>) -> Error {
    ended.map_or_else(Error::TaskFailed, Error::PartEnded)
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// The outcome of a request, for the part that sent it.
enum Answered {
    Engine(Answer<framework_engine::object::Object>),
    Queue(Answer<framework_queueing::Object>),
}

/// The engine and the hands that do what it wants.
struct Controller {
    engine: Engine,
    /// Who schedules the queues, if there are any.
    queues: Option<QueueController>,
    client: kube::Client,
    clock: Clock,
    seeds: Seeds,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    recorder: Recorder,
    journal: Arc<dyn Journal>,
    /// What has to be written before a request of this turn leaves.
    told: BTreeMap<Ticket, Result<Receipt, Full>>,
    compressor: Arc<Compressor>,
    /// Requests whose reply is awaited; the engine bounds how many.
    requests: JoinSet<(Ticket, Answered)>,
    drained: bool,
    /// There is more to do at once, though nothing happens.
    again: bool,
    /// When the gauges are taken again, which costs time; `None`: nothing has changed since.
    measure_at: Option<Instant>,
    /// When the next question is answered; `None`: at once.
    answer_at: Option<Instant>,
}

impl Controller {
    fn new(mut parts: Parts, recorder: Recorder, compressor: Arc<Compressor>) -> Self {
        Controller {
            queues: queueing::queues(&mut parts),
            engine: Engine::new(parts.settings, parts.policy),
            client: parts.client,
            clock: parts.clock,
            seeds: parts.seeds,
            metrics: parts.metrics,
            health: parts.health,
            recorder,
            journal: parts.journal,
            told: BTreeMap::new(),
            compressor,
            requests: JoinSet::new(),
            drained: false,
            again: false,
            measure_at: None,
            answer_at: None,
        }
    }

    /// When the engine wants a turn though nothing happens.
    fn wake(&self) -> Option<Instant> {
        if self.again {
            return Some(self.clock.instant(self.clock.now().steady));
        }
        let engine = self.engine.next_wake();
        let now = self.clock.now();
        let queues = self.queues.as_ref().and_then(|queues| queues.next_wake(now, self.engine.time(now)));
        // What the budget left over of what the queues wants to send.
        let wants = self.queues.as_ref().is_some_and(QueueController::wants);
        let sending = wants.then(|| self.engine.lends_at(now)).flatten();
        engine.into_iter().chain(queues).chain(sending).min().map(|steady| self.clock.instant(steady))
    }

    fn is_over(&self) -> bool {
        self.drained && self.queues.as_ref().is_none_or(QueueController::is_settled)
    }

    fn stop(&mut self) {
        self.health.set_stopping();
        self.engine.step(self.clock.now(), engine::Event::Drain);
        if let Some(queues) = &mut self.queues {
            queues.drain();
        }
    }

    fn tick(&mut self) {
        self.engine.step(self.clock.now(), engine::Event::Tick);
    }

    fn measure(&mut self) {
        self.metrics.engine(&self.engine.gauges(), self.clock.now().steady);
        if let Some(queues) = &self.queues {
            self.metrics.units(queues.gauges());
        }
        self.metrics.queue("log", self.journal.waiting());
        self.metrics.log_lines_dropped(self.journal.dropped());
        self.measure_at = None;
    }

    fn replied(&mut self, ended: Result<(Ticket, Answered), JoinError>) -> Result<(), Error> {
        let (ticket, answered) = ended.map_err(Error::TaskFailed)?;
        let now = self.clock.now();
        match answered {
            Answered::Engine((reply, server)) => {
                self.engine.step(now, engine::Event::Reply { ticket, reply, server });
            }
            Answered::Queue((reply, _)) => {
                self.engine.repaid(now, &reply);
                if let Some(queues) = &mut self.queues {
                    queues.replied(now, self.engine.time(now), ticket, reply);
                }
            }
        }
        Ok(())
    }

    /// Takes in a batch of events, lets the engine decide, and does what it wants.
    fn turn(&mut self, batch: impl ExactSizeIterator<Item = Event>) {
        let begun = Instant::now();
        let events = batch.len();
        self.health.turn_begins();
        for event in batch {
            if let Some(kind) = synced(&event) {
                self.health.set_synced(kind);
            }
            self.take_in(event);
        }
        let effects = self.engine.turn(self.clock.now(), self.seeds.draw());
        for effect in effects {
            self.perform(effect);
        }
        self.queue(self.clock.now());
        self.health.turn_ends();
        self.measure_at.get_or_insert(begun + MEASURE);
        self.metrics.turn_taken(events, begun.elapsed());
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::Engine(event) => self.engine.step(self.clock.now(), event),
            Event::Queue(event) => {
                if let Some(queues) = &mut self.queues {
                    queues.step(event);
                }
            }
        }
    }

    /// Hands lines of the history over. What a request waits for is never lost, because the request is not
    /// sent; of the rest it is counted and said.
    fn tell(&mut self, lines: Vec<Line>, before: Option<Ticket>) {
        let triggers: Vec<Trigger> = lines.iter().map(Line::trigger).collect();
        let told = self.journal.tell(lines, self.clock.now().wall);
        if told.is_ok() {
            triggers.iter().for_each(|trigger| self.metrics.snapshot_told(trigger.name()));
        } else if before.is_none() {
            triggers.iter().for_each(|trigger| self.metrics.snapshot_dropped(trigger.name()));
            warn!(snapshots = triggers.len(), "history was dropped: standard error takes no more for now");
        }
        if let Some(ticket) = before {
            self.told.insert(ticket, told);
        }
    }

    fn send(&mut self, ticket: Ticket, request: Request) {
        let compressor = Arc::clone(&self.compressor);
        let sending = send(self.client.clone(), request, Arc::clone(&self.metrics), compressor);
        let told = self.told.remove(&ticket);
        self.requests.spawn(async move {
            if let Some(told) = told
                && !is_written(told).await
            {
                let reason = "standard error does not take the history that goes before it";
                return (ticket, Answered::Engine((Reply::NotSent(reason.to_owned()), None)));
            }
            (ticket, Answered::Engine(sending.await))
        });
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { ticket, request, .. } => self.send(ticket, request),
            Effect::Queued { key, framework } => {
                let consumer = framework.map(|queued| {
                    let QueuedFramework { framework, queue, stage, demands } = queued;
                    Consumer::framework(&framework, queue.as_deref(), stage, &demands)
                });
                if let Some(queues) = &mut self.queues {
                    queues.framework(key, consumer);
                }
            }
            Effect::Measure(measure) => self.metrics.lifetime_ended(measure),
            Effect::WriteHistory { lines, before } => self.tell(lines, before),
            Effect::Publish { framework, reports } => {
                let key = Key::new(
                    framework.metadata.namespace.as_deref().unwrap_or_default(),
                    framework.metadata.name.as_deref().unwrap_or_default(),
                );
                for report in reports {
                    if report.warning {
                        warn!(framework = %key, reason = report.reason, note = report.note, "trouble");
                    } else {
                        info!(framework = %key, reason = report.reason, note = report.note, "progress");
                    }
                    self.recorder.record(Subject::framework(&framework), report);
                }
            }
            Effect::Drained => self.drained = true,
        }
    }
}

/// Whether the history that goes before a request is written.
async fn is_written(told: Result<Receipt, Full>) -> bool {
    match told {
        Ok(receipt) => receipt.is_written().await,
        Err(Full) => false,
    }
}

fn synced(event: &Event) -> Option<Synced> {
    match event {
        Event::Engine(engine::Event::Framework(Change::Synced)) => Some(Synced::Frameworks),
        Event::Engine(engine::Event::ConfigMap(Change::Synced)) => Some(Synced::ConfigMaps),
        Event::Engine(engine::Event::Pod(Change::Synced)) => Some(Synced::Pods),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
