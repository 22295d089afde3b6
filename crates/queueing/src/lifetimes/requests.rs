//! The requests that end a job, in their order.

use std::sync::Arc;
use std::time::Duration;

use framework_core::lifetime::{End, Lifetime};
use framework_message::{MayAct, Now, Right, Slot, Slots, Ticket};

use super::JobLifetimes;
use super::job_request::{JobRequest, Purpose};
use super::state::{Child, Job, State};
use crate::job_lifetime::{DeadlineCondition, JobLifetime};
use crate::request::QueueRequest;

impl JobLifetimes {
    /// Whether anything waits to be sent.
    pub fn wants(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next request, if there is one, and the right by which it may leave.
    pub fn next_request(&mut self, now: Now) -> Option<(Ticket, QueueRequest, Option<Right>)> {
        while let Some(key) = self.ready.take() {
            let slot = Slot::of(&key.key.namespace);
            match self.active_slots.may_act(slot, now) {
                MayAct::Yes => {}
                MayAct::Paused => {
                    self.paused.add(slot, key);
                    continue;
                }
                MayAct::No => continue,
            }
            let jobs = self.jobs.get(&key.kind);
            let Some((job, state)) = jobs.and_then(|jobs| jobs.get(&key.key)).zip(self.states.get_mut(&key))
            else {
                continue;
            };
            if state.busy || job.deleting {
                continue;
            }
            if now.steady < state.not_before {
                self.later.insert((state.not_before, key));
                continue;
            }
            let Some((purpose, request)) = next(job, state, now.steady) else { continue };
            state.busy = true;
            let sent = JobRequest { job: key.clone(), uid: Arc::clone(&job.uid), purpose };
            let ticket = self.sent.begin(slot, sent);
            return Some((ticket, request, self.active_slots.right(slot)));
        }
        None
    }

    /// Whether a ticket is of a request of this part.
    pub fn sent(&self, ticket: Ticket) -> bool {
        self.sent.contains(ticket)
    }

    /// Whether no request is on its way.
    pub fn is_settled(&self) -> bool {
        self.sent.is_settled()
    }

    /// The slots of requests that may still land.
    pub fn unsettled(&mut self, now: Now) -> Slots {
        self.sent.unsettled(now.steady)
    }

    /// When, on the monotonic clock, the next request without a reply can land no more.
    pub fn settles_at(&self) -> Option<Duration> {
        self.sent.settles_at()
    }
}

/// The request that a job needs now.
fn next(job: &Job, state: &mut State, now: Duration) -> Option<(Purpose, QueueRequest)> {
    let JobLifetime { lifetime, is_overdue, .. } = job.lifetime.as_ref()?;
    match lifetime.next() {
        Some(End::Expiry(due)) if state.is_proved(due) => {
            let request = QueueRequest::DeleteJob {
                row: Arc::clone(&job.row),
                job: job.key.clone(),
                uid: Arc::clone(&job.uid),
                resource_version: job.resource_version,
            };
            Some((Purpose::Delete(Arc::clone(&job.row), due), request))
        }
        Some(End::Deadline(due)) if state.is_proved(due) => {
            let at = state.shown?;
            let condition = DeadlineCondition { at, message: message(lifetime) };
            match &state.child {
                Child::Absent => Some((Purpose::FailJob, fail_job(job, condition)?)),
                Child::Failed(condition) => Some((Purpose::FailJob, fail_job(job, condition.clone())?)),
                _ => look(job, state, condition),
            }
        }
        _ if *is_overdue && state.confirms.is_some_and(|at| at <= now) => {
            let at = lifetime.finished?;
            let found = look(job, state, DeadlineCondition { at, message: message(lifetime) });
            state.confirms = state.confirms.filter(|_| found.is_some());
            found
        }
        _ => None,
    }
}

/// Reads the JobSet of a job, or ends it.
fn look(job: &Job, state: &State, condition: DeadlineCondition) -> Option<(Purpose, QueueRequest)> {
    match &state.child {
        Child::Unknown => Some((Purpose::Look, QueueRequest::GetChild { job: job.key.clone() })),
        Child::Runs(child) => {
            let request = QueueRequest::Fail {
                row: None,
                job: job.key.clone(),
                uid: Arc::clone(&child.uid),
                resource_version: child.resource_version,
                place: child.place,
                condition: condition.clone(),
            };
            Some((Purpose::FailChild(condition), request))
        }
        Child::Absent | Child::Failed(_) => None,
    }
}

fn fail_job(job: &Job, condition: DeadlineCondition) -> Option<QueueRequest> {
    Some(QueueRequest::Fail {
        row: Some(Arc::clone(&job.row)),
        job: job.key.clone(),
        uid: Arc::clone(&job.uid),
        resource_version: job.resource_version,
        place: job.lifetime.as_ref()?.place,
        condition,
    })
}

fn message(lifetime: &Lifetime) -> String {
    let seconds = lifetime.deadline.unwrap_or_default();
    let due = lifetime.deadline().map_or_else(String::new, |due| due.to_string());
    format!(
        "activeDeadlineSeconds is {seconds}, and ended at {due}, counted from the creation of the TrainJob"
    )
}
