//! The part of a turn that the queues take.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use framework_engine::engine::Engine;
use framework_engine::event as engine;
use framework_message::{Key, Now, Ownership, Reply, Slots, Ticket};
use framework_queueing::{
    Consumer, FrameworkUnits, Gauges, Object, Outcome, QueueController, QueueEvent, Settings, Share,
};

use super::parts::Parts;
use super::requests::Requests;
use crate::position_query::PositionQuery;

/// Requests about units that one turn sends at most.
const UNITS: usize = 32;

/// The pause after an answer, as a multiple of its time: answers get a twentieth of the loop's time.
const PAUSE: u32 = 20;

/// The two sides of the queues.
struct Sides {
    /// For the slots of Frameworks.
    frameworks: FrameworkUnits,
    /// For the slots of namespaces.
    queues: QueueController,
}

/// The two sides of the queues, if there are queues. They exchange nothing but stored QueueUnits.
pub struct Queueing {
    sides: Option<Sides>,
    /// There is more to do at once, though nothing happens.
    again: bool,
    /// When the next query is answered; `None`: at once.
    pub answer_at: Option<Instant>,
}

fn sides(parts: &mut Parts, ownership: Ownership, is_alone: bool) -> Option<Sides> {
    let settings = Settings {
        reserve_after: parts.settings.reserve_after,
        request_lifetime: parts.settings.request_lifetime,
        defects: parts.policy.defects,
    };
    if !parts.policy.queueing {
        return None;
    }
    let share = Share::of(ownership);
    let share = if is_alone { share } else { share.without_slots() };
    Some(Sides {
        frameworks: FrameworkUnits::new(settings, parts.seeds.draw() as u64).with_share(share.clone()),
        queues: QueueController::new(settings, parts.seeds.draw() as u64).with_share(share),
    })
}

/// The queries that come in. Without queues they are refused.
pub fn position_queries(parts: &mut Parts) -> mpsc::Receiver<PositionQuery> {
    let (_, closed) = mpsc::channel(1);
    let mut position_queries = std::mem::replace(&mut parts.position_queries, closed);
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
        Queueing { sides: sides(parts, ownership, is_alone), again: false, answer_at: None }
    }

    /// Whether the next turn is to follow at once.
    pub fn again(&self) -> bool {
        self.again
    }

    /// When, on the steady clock, the queues want a turn though nothing happens.
    pub fn next_wake(&self, engine: &Engine, now: Now) -> Option<Duration> {
        let Sides { frameworks, queues } = self.sides.as_ref()?;
        let next = queues.next_wake(now, engine.time(now));
        // The time at which the budget allows the next request that one of them wants to send.
        let wants = frameworks.wants() || queues.wants();
        let sending = wants.then(|| engine.lends_at(now)).flatten();
        [next, frameworks.next_wake(), sending].into_iter().flatten().min()
    }

    /// Whether nothing that was sent is still to be settled.
    pub fn is_settled(&self) -> bool {
        self.sides.as_ref().is_none_or(|sides| sides.frameworks.is_settled() && sides.queues.is_settled())
    }

    /// Takes in what becomes of the replica's slots.
    pub fn shared(&mut self, now: Now, event: &engine::Event) {
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
        let Some(Sides { frameworks, queues }) = &mut self.sides else { return Slots::NONE };
        frameworks.unsettled(now).or(queues.unsettled(now))
    }

    /// When the next request without a reply can land no more.
    pub fn settles_at(&self) -> Option<Duration> {
        let Sides { frameworks, queues } = self.sides.as_ref()?;
        frameworks.settles_at().into_iter().chain(queues.settles_at()).min()
    }

    /// The gauges, if there are queues.
    pub fn gauges(&self) -> Option<Gauges> {
        self.sides.as_ref().map(|sides| sides.queues.gauges())
    }

    /// Takes in a change that a watch reported.
    pub fn step(&mut self, event: QueueEvent) {
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
        match &mut self.sides {
            Some(Sides { frameworks, .. }) if frameworks.sent(ticket) => {
                frameworks.replied(now, ticket, reply)
            }
            Some(Sides { queues, .. }) => queues.replied(now, engine.time(now), ticket, reply),
            None => {}
        }
    }

    /// Answers a query. To count the units before a unit takes as long as there are many, 60 ms among 50,000:
    /// the loop waits meanwhile, and so does the next query, for longer.
    pub fn answer(&mut self, PositionQuery { unit, answer }: PositionQuery) {
        let Some(Sides { queues, .. }) = &self.sides else { return };
        let begun = Instant::now();
        // The caller may have gone.
        let _ = answer.send(queues.queue_position(&unit));
        self.answer_at = Some(begun + begun.elapsed() * PAUSE);
    }

    /// Lets the queues decide, and sends their requests: a few in each turn, so that many units and many Pods
    /// share the budget.
    pub fn turn(&mut self, engine: &mut Engine, requests: &mut Requests, now: Now) -> Vec<Outcome> {
        let Some(Sides { frameworks, queues }) = &mut self.sides else { return Vec::new() };
        let time = engine.time(now);
        let mut outcomes = Vec::new();
        if engine.knows_time() {
            outcomes = frameworks.turn(now);
            outcomes.extend(queues.turn(now, time));
        }
        let mut sent = 0;
        while sent < UNITS && (frameworks.wants() || queues.wants()) && engine.lend(now) {
            // In turns, so that neither waits for all of the other.
            let of_framework = |frameworks: &mut FrameworkUnits| frameworks.next_request(now);
            let of_queue = |queues: &mut QueueController| queues.next_request(now, time);
            let next = match sent % 2 {
                0 => of_queue(queues).or_else(|| of_framework(frameworks)),
                _ => of_framework(frameworks).or_else(|| of_queue(queues)),
            };
            let Some((ticket, request, leave_by)) = next else {
                engine.give_back();
                break;
            };
            requests.send_queueing(ticket, request, leave_by);
            sent += 1;
        }
        // The rest goes in the next turn, which comes at once, as does the engine's turn on an admission.
        let admits = |outcome: &Outcome| !matches!(outcome, Outcome::StatusStored { .. });
        self.again = (frameworks.wants() || queues.wants()) && sent == UNITS || outcomes.iter().any(admits);
        outcomes
    }
}
