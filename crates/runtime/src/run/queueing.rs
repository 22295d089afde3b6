//! The part of a turn that the queues take.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use framework_api::Time;
use framework_engine::engine::Engine;
use framework_engine::event as engine;
use framework_message::{Key, Now, Ownership, Reply, Right, Slots, Ticket};
use framework_queueing::{
    ActiveSlots, Consumer, FrameworkUnits, Gauges, JobKind, JobLifetimes, LifetimeGauges, Object,
    QueueController, QueueEffect, QueueEvent, QueueRequest, Settings,
};

use super::parts::Parts;
use super::requests::Requests;
use crate::position_query::PositionQuery;

/// Requests about units that one turn sends at most.
const UNITS: usize = 32;

/// A request, and the right by which it may leave.
type NextRequest = (Ticket, QueueRequest, Option<Right>);

/// The pause after an answer, as a multiple of its time: answers get a twentieth of the loop's time.
const PAUSE: u32 = 20;

/// The two sides of the queues.
struct Sides {
    /// For the slots of Frameworks.
    frameworks: FrameworkUnits,
    /// For the slots of namespaces.
    queues: QueueController,
}

/// The two sides of the queues, if there are queues. They exchange nothing but stored QueueUnits. Beside
/// them, the lifetimes of the jobs of declared kinds.
pub struct Queueing {
    sides: Option<Sides>,
    lifetimes: JobLifetimes,
    /// There is more to do at once, though nothing happens.
    again: bool,
    /// In the next turn the requests of the queues leave before those of the engine.
    goes_first: bool,
    /// When the next query is answered; `None`: at once.
    pub answer_at: Option<Instant>,
}

fn sides(parts: &mut Parts, active_slots: ActiveSlots) -> Option<Sides> {
    let settings = Settings {
        reserve_after: parts.settings.reserve_after,
        request_lifetime: parts.settings.request_lifetime,
        defects: parts.policy.defects,
    };
    if !parts.policy.queueing {
        return None;
    }
    Some(Sides {
        frameworks: FrameworkUnits::new(settings, parts.seeds.draw() as u64)
            .with_active_slots(active_slots.clone()),
        queues: QueueController::new(settings, parts.seeds.draw() as u64)
            .with_active_slots(active_slots)
            .with_kinds(parts.job_kinds.iter().map(JobKind::declared)),
    })
}

/// The queries that come in. Without queues they are refused.
pub fn position_queries(parts: &mut Parts) -> mpsc::Receiver<PositionQuery> {
    let (_, closed) = mpsc::channel(1);
    let mut position_queries = std::mem::replace(&mut parts.queries.positions, closed);
    if !parts.policy.queueing {
        position_queries.close();
    }
    position_queries
}

/// The next query, once it may be answered.
pub async fn next(
    position_queries: &mut mpsc::Receiver<PositionQuery>,
    at: Option<Instant>,
) -> Option<PositionQuery> {
    if let Some(at) = at {
        sleep_until(at).await;
    }
    position_queries.recv().await
}

impl Queueing {
    /// The queues, for the slots that `ownership` says it owns: from the start if the replica runs alone,
    /// otherwise from their grants on.
    pub fn new(parts: &mut Parts, ownership: Ownership, is_alone: bool) -> Self {
        let active_slots = ActiveSlots::of(ownership);
        let active_slots = if is_alone { active_slots } else { active_slots.without_slots() };
        let lifetimes =
            JobLifetimes::new(parts.settings.request_lifetime).with_active_slots(active_slots.clone());
        Queueing {
            sides: sides(parts, active_slots),
            lifetimes,
            again: false,
            goes_first: false,
            answer_at: None,
        }
    }

    /// Whether the next turn is to follow at once.
    pub fn again(&self) -> bool {
        self.again
    }

    /// When, on the monotonic clock, the queues want a turn though nothing happens.
    pub fn next_wake(&self, engine: &Engine, now: Now) -> Option<Duration> {
        let time = engine.time(now);
        let sides = self.sides.as_ref();
        // Without the API server's time they do nothing.
        let next = sides.filter(|_| engine.knows_time()).and_then(|Sides { frameworks, queues }| {
            [queues.next_wake(now, time), frameworks.next_wake()].into_iter().flatten().min()
        });
        // The time at which the budget allows the next request that one of them wants to send.
        let sending = self.wants().then(|| engine.lends_at(now)).flatten();
        [next, self.lifetimes.next_wake(now, time), sending].into_iter().flatten().min()
    }

    /// Whether anything waits to be sent.
    fn wants(&self) -> bool {
        let sides = self.sides.as_ref();
        let wants = |Sides { frameworks, queues }: &Sides| frameworks.wants() || queues.wants();
        self.lifetimes.wants() || sides.is_some_and(wants)
    }

    /// Whether nothing that was sent is still to be settled.
    pub fn is_settled(&self) -> bool {
        let is_settled = |sides: &Sides| sides.frameworks.is_settled() && sides.queues.is_settled();
        self.lifetimes.is_settled() && self.sides.as_ref().is_none_or(is_settled)
    }

    /// Takes in an event about the replica's slots.
    pub fn slots_change(&mut self, now: Now, event: &engine::Event) {
        match *event {
            engine::Event::Begin(slots) | engine::Event::Resume(slots) => self.lifetimes.begin(now, slots),
            engine::Event::Drain(slots) => self.lifetimes.drain(slots),
            engine::Event::Lost(slots) => self.lifetimes.lost(slots),
            _ => {}
        }
        let Some(Sides { frameworks, queues }) = &mut self.sides else { return };
        match *event {
            engine::Event::Hold { slots, until } => {
                let until = now.steady + until.saturating_sub(now.boot);
                frameworks.hold(slots, until);
                queues.hold(slots, until);
            }
            engine::Event::Begin(slots) | engine::Event::Resume(slots) => {
                frameworks.begin(now, slots);
                queues.begin(now, slots);
            }
            engine::Event::Drain(slots) => {
                frameworks.drain(slots);
                queues.drain(slots);
            }
            engine::Event::Lost(slots) => {
                frameworks.lost(slots);
                queues.lost(slots);
            }
            _ => {}
        }
    }

    /// The slots of requests that may still land.
    pub fn unsettled(&mut self, now: Now) -> Slots {
        let unsettled = self.lifetimes.unsettled(now);
        let Some(Sides { frameworks, queues }) = &mut self.sides else { return unsettled };
        unsettled.or(frameworks.unsettled(now)).or(queues.unsettled(now))
    }

    /// When the next request without a reply can land no more.
    pub fn settles_at(&self) -> Option<Duration> {
        let sides = self.sides.as_ref();
        let settles =
            sides.map(|Sides { frameworks, queues }| [frameworks.settles_at(), queues.settles_at()]);
        settles.into_iter().flatten().chain([self.lifetimes.settles_at()]).flatten().min()
    }

    /// How many lifetimes of jobs wait to end.
    pub fn lifetimes(&self) -> LifetimeGauges {
        self.lifetimes.gauges()
    }

    /// The API server showed its time.
    pub fn heard(&mut self, sent: Duration, date: Time) {
        self.lifetimes.heard(sent, date);
    }

    /// The gauges, if there are queues.
    pub fn gauges(&self) -> Option<Gauges> {
        self.sides.as_ref().map(|sides| sides.queues.gauges())
    }

    /// Whether a Queue is there.
    pub fn has_queue(&self, queue: &Key) -> bool {
        self.sides.as_ref().is_some_and(|sides| sides.queues.has_queue(queue))
    }

    /// Takes in a change that a watch reported.
    pub fn step(&mut self, event: QueueEvent) {
        self.lifetimes.step(&event);
        let Some(Sides { frameworks, queues }) = &mut self.sides else { return };
        if let QueueEvent::Unit(change) = &event {
            frameworks.step(change.clone());
        }
        queues.step(event);
    }

    /// Takes in a Framework as the engine shows it; `None`: it is gone or names no queue. `has_strays`:
    /// whether Pods of the name run that no Framework records. `left_creates`: whether Pods of the one before
    /// are yet to be seen.
    pub fn framework(&mut self, key: Key, consumer: Option<Consumer>, has_strays: bool, left_creates: bool) {
        if let Some(Sides { frameworks, .. }) = &mut self.sides {
            frameworks.framework(key, consumer, has_strays, left_creates);
        }
    }

    /// Takes in a reply.
    pub fn replied(&mut self, engine: &Engine, now: Now, ticket: Ticket, reply: Reply<Object>) {
        if self.lifetimes.sent(ticket) {
            return self.lifetimes.replied(now, engine.time(now), ticket, reply);
        }
        match &mut self.sides {
            Some(Sides { frameworks, .. }) if frameworks.sent(ticket) => {
                frameworks.replied(now, ticket, reply)
            }
            Some(Sides { queues, .. }) => queues.replied(now, engine.time(now), ticket, reply),
            None => {}
        }
    }

    /// Answers a query, unless another replica decides in the namespace. To count the units before a unit
    /// takes as long as there are many, 60 ms among 50,000: the loop waits meanwhile, and so does the next
    /// query, for longer.
    pub fn answer(&mut self, PositionQuery { unit, answer }: PositionQuery) {
        let Some(Sides { queues, .. }) = &self.sides else { return };
        if !queues.decides_in(&unit.namespace) {
            return;
        }
        let begun = Instant::now();
        // The caller may have gone.
        let _ = answer.send(queues.queue_position(&unit));
        self.answer_at = Some(begun + begun.elapsed() * PAUSE);
    }

    /// Before the engine's turn: sends first, if it is their turn to. The first one may leave nothing of the
    /// budget. Returns the number of requests in flight, unless the queues were first.
    pub fn before_engine(&mut self, engine: &mut Engine, requests: &mut Requests, now: Now) -> Option<usize> {
        let is_contended = self.wants();
        engine.contend(is_contended);
        let went_first = is_contended && self.goes_first && self.send(engine, requests, now) > 0;
        self.goes_first &= !went_first;
        (!went_first).then(|| requests.len())
    }

    /// After it: if the engine sent something, the queues are first in the next turn.
    pub fn after_engine(&mut self, before: Option<usize>, in_flight: usize) {
        self.goes_first |= before.is_some_and(|before| in_flight > before);
    }

    /// Lets the queues decide, and sends their requests.
    pub fn turn(&mut self, engine: &mut Engine, requests: &mut Requests, now: Now) -> Vec<QueueEffect> {
        let time = engine.time(now);
        let mut effects = Vec::new();
        if engine.knows_time() {
            effects = self.lifetimes.turn(now, time);
            if let Some(Sides { frameworks, queues }) = &mut self.sides {
                effects.extend(frameworks.turn(now));
                effects.extend(queues.turn(now, time));
            }
            if self.lifetimes.asks() {
                engine.ask_time();
            }
        }
        let named = self.sides.as_mut().map(|sides| sides.frameworks.take_named()).unwrap_or_default();
        named.iter().for_each(|(framework, is_named)| engine.set_named(framework, *is_named));
        let sent = self.send(engine, requests, now);
        // The rest goes in the next turn, which comes at once, as does the engine's turn on an admission, or
        // on a Framework that a unit names.
        let admits = |effect: &QueueEffect| {
            matches!(effect, QueueEffect::Admit { .. } | QueueEffect::AdmitGrowths { .. })
        };
        self.again = self.wants() && sent == UNITS || effects.iter().any(admits) || !named.is_empty();
        effects
    }

    /// Sends requests: a few in each turn, so that many units and many Pods share the budget. Returns how
    /// many.
    fn send(&mut self, engine: &mut Engine, requests: &mut Requests, now: Now) -> usize {
        let time = engine.time(now);
        let mut sent = 0;
        while sent < UNITS && self.wants() && engine.lend(now) {
            let Some((ticket, request, right)) = self.next_request(sent, now, time) else {
                engine.give_back();
                break;
            };
            requests.send_queueing(ticket, request, right);
            sent += 1;
        }
        sent
    }

    /// The next request of the three parts, in turns, so that none waits for all of another.
    fn next_request(&mut self, sent: usize, now: Now, time: Timestamp) -> Option<NextRequest> {
        let Queueing { sides, lifetimes, .. } = self;
        let of_lifetimes = |lifetimes: &mut JobLifetimes| lifetimes.next_request(now);
        let first = (sent % 3 == 2).then(|| of_lifetimes(lifetimes)).flatten();
        let next = first.or_else(|| {
            let Sides { frameworks, queues } = sides.as_mut()?;
            match sent % 2 {
                0 => queues.next_request(now, time).or_else(|| frameworks.next_request(now)),
                _ => frameworks.next_request(now).or_else(|| queues.next_request(now, time)),
            }
        });
        next.or_else(|| of_lifetimes(lifetimes))
    }
}
