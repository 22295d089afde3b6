//! The desk's watches, and its part of a turn.

use framework_core::plan::Report;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Controller, Parts, start_watch};
use crate::event::{Now, Request};
use crate::queue::{ClassObject, Inquiry, JobObject, Outcome, PodUse, QueueObject, QuotaObject, UnitObject};
use crate::recorder::Subject;
use crate::watch::{Sink, Turn};

/// Requests about units that one turn sends at most.
const UNITS: usize = 32;

/// Starts the watches. Units come after the jobs that they name, or these would read as gone.
pub(super) fn start(tasks: &mut JoinSet<&'static str>, parts: &mut Parts, sink: &Sink, turns: [Turn; 6]) {
    let [jobs, used, units, queues, quotas, classes] = turns;
    start_watch::<JobObject>(tasks, parts, sink, jobs, "the watch of Jobs");
    start_watch::<PodUse>(tasks, parts, sink, used, "the watch of Pods in queues");
    start_watch::<UnitObject>(tasks, parts, sink, units, "the watch of QueueUnits");
    start_watch::<QueueObject>(tasks, parts, sink, queues, "the watch of Queues");
    start_watch::<QuotaObject>(tasks, parts, sink, quotas, "the watch of ResourceQuotas");
    start_watch::<ClassObject>(tasks, parts, sink, classes, "the watch of PriorityClasses");
}

/// The questions that come in. Without queues nobody listens.
pub(super) fn inquiries(parts: &mut Parts) -> mpsc::Receiver<Inquiry> {
    let (_, nobody) = mpsc::channel(1);
    let mut inquiries = std::mem::replace(&mut parts.inquiries, nobody);
    if !parts.policy.queueing {
        inquiries.close();
    }
    inquiries
}

impl Controller {
    /// Lets the desk decide, and sends what it wants: a few requests in each turn, so that many units and
    /// many Pods share the budget.
    pub(super) fn queue(&mut self, now: Now) {
        let Some(desk) = &mut self.desk else { return };
        let time = self.engine.time(now);
        let outcomes = if self.engine.knows_time() { desk.turn(now, time) } else { Vec::new() };
        let mut sent = Vec::new();
        while sent.len() < UNITS && desk.wants() && self.engine.lend(now) {
            let Some(request) = desk.next_request(now, time) else {
                self.engine.give_back();
                break;
            };
            sent.push(request);
        }
        // The rest goes in the next turn, which comes at once.
        self.again = desk.wants() && sent.len() == UNITS;
        for (ticket, request) in sent {
            self.send(ticket, Request::Queue(request));
        }
        for outcome in outcomes {
            self.come_out(now, outcome);
        }
    }

    fn come_out(&mut self, now: Now, outcome: Outcome) {
        match outcome {
            Outcome::Admit { key, uid, admission } => {
                self.engine.admit(now, &key, &uid, admission);
                self.again = true;
            }
            Outcome::Tell { unit, uid, reason, note, waited } => {
                self.metrics.unit_decided(reason, waited);
                let report = Report { reason: reason.as_str(), note, warning: false };
                self.recorder.record(Subject::unit(&unit, &uid), report);
            }
        }
    }
}
