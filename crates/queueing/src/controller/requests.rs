//! The requests about units and jobs, and their order.

use std::sync::Arc;

use framework_api::Time;
use framework_core::Defect;
use jiff::Timestamp;

use super::QueueController;
use crate::consumer::{ConsumerKey, NamedKind};
use crate::object::{DeclaredObject, UnitObject};
use crate::outgoing::{Sent, Work};
use crate::request::{PodLabels, QueueRequest, Resumption, UnitCreation};
use crate::unit::{PendingRequest, UnitDecision};
use framework_message::{Key, Now, Right, Slot, Ticket};

impl QueueController {
    pub(super) fn offer(&mut self, work: Work) {
        let releases = match &work {
            // Its quota is reserved already, also while it is not Enqueued yet.
            Work::Unit(key) => {
                let decision = self.unit_states.get(key).map(|state| &state.decision);
                matches!(decision, Some(UnitDecision::Release(_)))
            }
            Work::List(_) | Work::Job(_) => true,
            Work::Queue(_) => false,
        };
        self.outgoing.offer(work, releases);
    }

    /// Whether anything waits to be sent. Before all kinds are listed nothing is: a part of the objects shows
    /// too little.
    pub fn wants(&self) -> bool {
        self.objects.is_synced() && self.outgoing.wants()
    }

    /// The next request, if there is one, at the wall clock's `time`; and the right by which it may leave.
    pub fn next_request(
        &mut self,
        now: Now,
        time: Timestamp,
    ) -> Option<(Ticket, QueueRequest, Option<Right>)> {
        while self.wants()
            && let Some((work, releases)) = self.outgoing.next_work()
        {
            if let Some((sent, request)) = self.request(now, Time::floor(time), &work) {
                let slot = Slot::of(work.namespace());
                let right = self.active_slots.right(slot);
                return Some((self.outgoing.sent(slot, sent, releases), request, right));
            }
        }
        None
    }

    /// The request that a piece of work needs now, if it needs one.
    pub(super) fn request(&mut self, now: Now, time: Time, work: &Work) -> Option<(Sent, QueueRequest)> {
        match work {
            Work::Unit(key) => self.unit_request(now, time, key),
            Work::Queue(key) => self.queue_status_request(now, key),
            Work::List(namespace) => self.list_request(now, namespace),
            Work::Job(key) => self.job_request(now, key),
        }
    }

    fn unit_request(&mut self, now: Now, time: Time, key: &Key) -> Option<(Sent, QueueRequest)> {
        let unit = self.objects.units.get(key)?;
        let state = self.unit_states.get_mut(key)?;
        let (pending, request) = state.next(unit, now.steady, time)?;
        let is_unguarded = self.settings.defects.has(Defect::ReleaseUnguarded);
        let request = if is_unguarded { request.unguarded() } else { request };
        let sends_from = state.writes.sends_from(pending, unit.resource_version);
        if now.steady < sends_from {
            self.outgoing.offer_at(sends_from, Work::Unit(key.clone()));
            return None;
        }
        if !self.owns(&key.namespace, now) {
            return None;
        }
        let (unit, state) = (self.objects.units.get(key)?, self.unit_states.get_mut(key)?);
        state.writes.pending = true;
        state.writes.sent = now.steady;
        state.writes.base = unit.resource_version;
        if let PendingRequest::Status { releases, base } = pending {
            state.writes.reported = unit.status.reason;
            if releases {
                state.writes.releasing = Some(base);
                self.stale.units.insert(key.clone());
            }
        }
        Some((Sent::Unit(key.clone(), Arc::clone(&unit.uid), pending), request))
    }

    fn job_request(&mut self, now: Now, key: &ConsumerKey) -> Option<(Sent, QueueRequest)> {
        if !self.owns(&key.key.namespace, now) {
            return None;
        }
        let job = self.objects.consumers.get(key)?;
        let first = key.unit().and_then(|unit| self.objects.units.get(&unit));
        let begins = first.is_some_and(|unit| self.lets_begin(key, unit, job));
        let state = self.job_states.entry(key.clone()).or_default();
        if state.busy {
            return None;
        }
        if now.steady < state.not_before {
            self.outgoing.offer_at(state.not_before, Work::Job(key.clone()));
            return None;
        }
        let (sent, request) = match first {
            None if job.wants_unit() => {
                // If a template cannot be decoded, its requests are unknown: the job gets no unit.
                let creation = UnitCreation {
                    unit: key.unit()?,
                    kind: NamedKind::Declared(Arc::clone(&self.objects.declared_job(key)?.row)),
                    job: key.key.clone(),
                    uid: Arc::clone(&job.uid),
                    queue: Arc::clone(job.queue.as_ref()?),
                    class: job.class.clone(),
                    priority: state.priority_of(&job.uid),
                    requests: job.requests.clone().ok()?,
                    enqueued: job.created,
                };
                (Sent::Create(key.clone(), Arc::clone(&job.uid)), QueueRequest::CreateUnit(creation))
            }
            Some(unit) if begins && job.waits_to_begin() => {
                let object = self.objects.declared_job(key)?;
                let child = self.objects.child_of(object).filter(|child| may_be_labelled(child));
                match child.filter(|child| state.labelled.as_ref() != Some(&child.job.uid)) {
                    Some(child) => {
                        let request = label_request(child, &object.job.uid, unit);
                        (Sent::Label(key.clone(), Arc::clone(&child.job.uid)), request)
                    }
                    None => {
                        let bare = state.is_unlabelled(&job.uid, job.resource_version);
                        (Sent::Resume(key.clone()), resume_request(object, unit, bare))
                    }
                }
            }
            _ => return None,
        };
        state.busy = true;
        if let Sent::Resume(_) = sent {
            state.resume(&job.uid, job.resource_version);
        }
        Some((sent, request))
    }
}

/// Whether the Pod templates of a JobSet may get labels. One that has started is immutable, and one in a
/// queue gets labels of its own.
fn may_be_labelled(child: &DeclaredObject) -> bool {
    child.job.suspended && child.job.queue.is_none() && !child.templates.is_empty()
}

/// The request that labels the Pod templates of the JobSet of a job.
fn label_request(child: &DeclaredObject, job: &Arc<str>, unit: &UnitObject) -> QueueRequest {
    QueueRequest::LabelTemplates {
        row: Arc::clone(&child.row),
        job: child.job.key.clone(),
        uid: Arc::clone(&child.job.uid),
        resource_version: child.job.resource_version,
        labels: PodLabels { queue: Arc::clone(&unit.queue), job: Arc::clone(job) },
        templates: child.templates.clone(),
    }
}

/// The request that resumes a job, in the version that is known. `bare`: its Pod templates get no labels.
fn resume_request(object: &DeclaredObject, unit: &UnitObject, bare: bool) -> QueueRequest {
    let DeclaredObject { job, row, templates, .. } = object;
    let with = Resumption {
        uid: Arc::clone(&job.uid),
        resource_version: job.resource_version,
        queue: Arc::clone(&unit.queue),
        unit: Arc::clone(&unit.uid),
        has_annotations: job.notes.has_annotations,
    };
    let templates = if bare { Vec::new() } else { templates.clone() };
    QueueRequest::ResumeJob { row: Arc::clone(row), job: job.key.clone(), with, templates }
}
