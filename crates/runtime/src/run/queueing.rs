//! The queues's watches, and its part of a turn.

use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::ConsumerKind;
use framework_core::plan::Report;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::debug;

use super::{Answered, Controller, Parts, start_watch};
use crate::client::REPLY_TIMEOUT;
use crate::position_query::PositionQuery;
use crate::recorder::Subject;
use crate::send::send;
use crate::watch::{Sink, Turn, watch};
use crate::wire::Wire;
use framework_message::{Now, Ticket};
use framework_queueing::{
    ClassObject, JobObject, JobSetObject, Outcome, PodUse, QueueController, QueueObject, QuotaObject,
    Request, Settings, UnitObject,
};

/// Requests about units that one turn sends at most.
const UNITS: usize = 32;

/// After what time it is looked again whether JobSets are served: at first, and at last.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN_AT_LAST: Duration = Duration::from_secs(600);

/// How much longer than an answer takes the next question waits: answers get a twentieth of the loop's time.
const PAUSE: u32 = 20;

/// Starts the watches. Units come after the jobs that they name, or these would read as gone.
pub(super) fn start(tasks: &mut JoinSet<&'static str>, parts: &mut Parts, sink: &Sink, turns: [Turn; 7]) {
    let [jobs, sets, used, units, queues, quotas, classes] = turns;
    start_watch::<JobObject>(tasks, parts, sink, jobs, "the watch of Jobs");
    start_job_sets(tasks, parts, sink, sets);
    start_watch::<PodUse>(tasks, parts, sink, used, "the watch of Pods in queues");
    start_watch::<UnitObject>(tasks, parts, sink, units, "the watch of QueueUnits");
    start_watch::<QueueObject>(tasks, parts, sink, queues, "the watch of Queues");
    start_watch::<QuotaObject>(tasks, parts, sink, quotas, "the watch of ResourceQuotas");
    start_watch::<ClassObject>(tasks, parts, sink, classes, "the watch of PriorityClasses");
}

/// Watches JobSets once they are served. A cluster without them costs a request now and then.
fn start_job_sets(tasks: &mut JoinSet<&'static str>, parts: &mut Parts, sink: &Sink, mut turn: Turn) {
    let (client, sink, mut rng) = (parts.client.clone(), sink.clone(), parts.seeds.generator());
    tasks.spawn(async move {
        let name = "the watch of JobSets";
        if let Some(after) = turn.after.take()
            && after.await.is_err()
        {
            return name;
        }
        let mut pause = LOOK_AGAIN;
        while !are_job_sets_served(&client).await {
            // The others need not wait for what is not there.
            if let Some(then) = turn.then.take() {
                let _ = then.send(());
            }
            sleep(pause.mul_f64(0.75 + rng.f64() / 2.0)).await;
            pause = (pause * 2).min(LOOK_AGAIN_AT_LAST);
        }
        watch::<JobSetObject>(client, sink, turn, rng).await;
        name
    });
}

/// Whether the API server has that version of JobSets, as far as it says so.
async fn are_job_sets_served(client: &kube::Client) -> bool {
    let version = ConsumerKind::JobSet.api_version();
    match timeout(REPLY_TIMEOUT, client.list_api_group_resources(version)).await {
        Ok(Ok(found)) => found.resources.iter().any(|resource| resource.name == JobSetObject::PLURAL),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => false,
        unknown => {
            debug!(?unknown, "it is not known whether JobSets are served");
            false
        }
    }
}

/// The queues, if there are queues.
pub(super) fn queues(parts: &mut Parts) -> Option<QueueController> {
    let settings = Settings {
        reserve_after: parts.settings.reserve_after,
        request_lifetime: parts.settings.request_lifetime,
        defects: parts.policy.defects,
    };
    parts.policy.queueing.then(|| QueueController::new(settings, parts.seeds.draw() as u64))
}

/// The questions that come in. Without queues nobody listens.
pub(super) fn position_queries(parts: &mut Parts) -> mpsc::Receiver<PositionQuery> {
    let (_, nobody) = mpsc::channel(1);
    let mut position_queries = std::mem::replace(&mut parts.position_queries, nobody);
    if !parts.policy.queueing {
        position_queries.close();
    }
    position_queries
}

/// The next question, once it may be answered.
pub(super) async fn next(
    position_queries: &mut mpsc::Receiver<PositionQuery>,
    at: Option<Instant>,
) -> Option<PositionQuery> {
    if let Some(at) = at {
        sleep_until(at).await;
    }
    position_queries.recv().await
}

impl Controller {
    /// Answers a question. To say how many go before a unit takes as long as there are many, 60 ms among
    /// 50,000: the loop waits meanwhile, and so does the next question, for longer.
    pub(super) fn answer(&mut self, PositionQuery { unit, answer }: PositionQuery) {
        let Some(queues) = &self.queues else { return };
        let begun = Instant::now();
        // Whoever asked may have gone.
        let _ = answer.send(queues.queue_position(&unit));
        self.answer_at = Some(begun + begun.elapsed() * PAUSE);
    }

    /// Lets the queues decide, and sends what it wants: a few requests in each turn, so that many units and
    /// many Pods share the budget.
    pub(super) fn queue(&mut self, now: Now) {
        let Some(queues) = &mut self.queues else { return };
        let time = self.engine.time(now);
        let outcomes = if self.engine.knows_time() { queues.turn(now, time) } else { Vec::new() };
        let mut sent = Vec::new();
        while sent.len() < UNITS && queues.wants() && self.engine.lend(now) {
            let Some(request) = queues.next_request(now, time) else {
                self.engine.give_back();
                break;
            };
            sent.push(request);
        }
        // The rest goes in the next turn, which comes at once.
        self.again = queues.wants() && sent.len() == UNITS;
        for (ticket, request) in sent {
            self.send_queue(ticket, request);
        }
        for outcome in outcomes {
            self.come_out(now, outcome);
        }
    }

    fn send_queue(&mut self, ticket: Ticket, request: Request) {
        let compressor = Arc::clone(&self.compressor);
        let sending = send(self.client.clone(), request, Arc::clone(&self.metrics), compressor);
        self.requests.spawn(async move { (ticket, Answered::Queue(sending.await)) });
    }

    fn come_out(&mut self, now: Now, outcome: Outcome) {
        match outcome {
            Outcome::Admit { key, uid, admission } => {
                self.engine.admit(now, &key, &uid, admission);
                self.again = true;
            }
            Outcome::AdmitGrowths { key, uid, growths } => {
                self.engine.admit_growths(now, &key, &uid, growths);
                self.again = true;
            }
            Outcome::StatusStored { unit, uid, reason, note, waited } => {
                self.metrics.unit_decided(reason, waited.as_ref());
                if let Some(note) = note {
                    let report = Report { reason: reason.as_str(), note, warning: false };
                    self.recorder.record(Subject::unit(&unit, &uid), report);
                }
            }
        }
    }
}
