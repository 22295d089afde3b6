//! What is sent: about a unit, or for a job.

use std::sync::Arc;

use framework_api::Time;
use framework_api::queue::ConsumerKind;
#[cfg(feature = "defects")]
use framework_core::Defect;
use jiff::Timestamp;

use super::decide::{waits_to_begin, wants_unit};
use super::{QueueController, Sent};
use crate::consumer::{ConsumerKey, JobKind};
use crate::request::Request;
use crate::unit::{PendingRequest, Verdict};
use framework_message::{Key, MayAct, Now, Slot, Ticket};

/// Requests on their way at a time that let nobody begin. When many units come at once, what says that they
/// wait would otherwise stand before the releases, in the API server's own line.
const TOLD_AT_ONCE: usize = 32;

/// What waits to be sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// Something about a unit.
    Unit(Key),
    /// The status of a Queue is to be written.
    Queue(Key),
    /// The units of a namespace are to be listed.
    List(Arc<str>),
    /// Something about a job: its unit is to be made, or it is to be resumed.
    Job(ConsumerKey),
}

impl Work {
    /// After all others.
    pub fn last() -> Work {
        let key = Key::new("\u{10ffff}", "\u{10ffff}");
        Work::Job(ConsumerKey { kind: JobKind::Other("\u{10ffff}".into()), key })
    }
}

impl QueueController {
    pub(super) fn offer(&mut self, work: Work) {
        let releases = match &work {
            // What it will hold is kept from others already, also while it is not Enqueued yet.
            Work::Unit(key) => {
                self.unit_states.get(key).is_some_and(|state| state.verdict == Verdict::Release)
            }
            Work::List(_) | Work::Job(_) => true,
            Work::Queue(_) => false,
        };
        match self.queued.get(&work) {
            Some(urgent) if *urgent || !releases => return,
            // It overtakes itself: what is left of it finds nothing to be done.
            Some(_) | None => drop(self.queued.insert(work.clone(), releases)),
        }
        if releases {
            self.urgent.push_back(work);
        } else {
            self.others.push_back(work);
        }
    }

    /// Whether anything waits to be sent.
    pub fn wants(&self) -> bool {
        !self.urgent.is_empty() || !self.others.is_empty() && self.telling.len() < TOLD_AT_ONCE
    }

    /// The next request, if there is one: at the wall clock's `time`.
    pub fn next_request(&mut self, now: Now, time: Timestamp) -> Option<(Ticket, Request)> {
        while self.wants() {
            let urgent = self.urgent.pop_front();
            let tells = urgent.is_none();
            let work = urgent.or_else(|| self.others.pop_front())?;
            self.queued.remove(&work);
            if let Some((sent, request)) = self.request(now, Time::floor(time), &work) {
                self.tickets += 1;
                let ticket = Ticket(self.tickets);
                self.in_flight.insert(ticket, sent);
                if tells {
                    self.telling.insert(ticket);
                }
                return Some((ticket, request));
            }
        }
        None
    }

    /// The request that a piece of work needs now, if it needs one.
    pub(super) fn request(&mut self, now: Now, time: Time, work: &Work) -> Option<(Sent, Request)> {
        match work {
            Work::Unit(key) => self.about_unit(now, time, key),
            Work::Queue(key) => self.about_queue(now, key),
            Work::List(namespace) => self.list(now, namespace),
            Work::Job(key) => self.for_job(now, key),
        }
    }

    fn about_unit(&mut self, now: Now, time: Time, key: &Key) -> Option<(Sent, Request)> {
        #[cfg(feature = "defects")]
        let is_unguarded = self.lacks(Defect::ReleaseUnguarded);
        let unit = self.units.get(key)?;
        let state = self.unit_states.get_mut(key)?;
        let (pending, request) = state.next(unit, now.steady, time)?;
        #[cfg(feature = "defects")]
        let request = if is_unguarded { request.unguarded() } else { request };
        if now.steady < state.not_before {
            self.later.insert((state.not_before, Work::Unit(key.clone())));
            return None;
        }
        let namespace = &key.namespace;
        if self.ownership.may_act(Slot::of(namespace), now) != MayAct::Yes {
            return None;
        }
        state.pending = Some(pending);
        state.base = unit.resource_version;
        if let PendingRequest::Status { releases: true, base } = pending {
            state.releasing = Some(base);
            self.stale_units.insert(key.clone());
        }
        Some((Sent::Unit(key.clone(), Arc::clone(&unit.uid), pending), request))
    }

    fn for_job(&mut self, now: Now, key: &ConsumerKey) -> Option<(Sent, Request)> {
        let job = self.consumers.get(key)?;
        let JobKind::Known(kind) = key.kind else { return None };
        let growth = self.growth_request(key);
        let first = key.unit().and_then(|unit| self.units.get(&unit));
        let begins = first.is_some_and(|unit| self.lets_begin(key, unit, job));
        let state = self.job_states.entry(key.clone()).or_default();
        if state.busy || self.draining || self.ownership.may_act(Slot::of(&job.uid), now) != MayAct::Yes {
            return None;
        }
        if now.steady < state.not_before {
            self.later.insert((state.not_before, Work::Job(key.clone())));
            return None;
        }
        let (sent, request) = match first {
            None if wants_unit(job) => {
                // A template that cannot be read asks for nothing that is known; the Framework says so
                // itself.
                let request = Request::CreateUnit {
                    unit: key.unit()?,
                    kind,
                    job: key.key.clone(),
                    uid: Arc::clone(&job.uid),
                    queue: Arc::clone(job.queue.as_ref()?),
                    class: job.class.clone(),
                    priority: None,
                    ask: job.ask.clone().ok()?,
                };
                (Sent::Create(key.clone()), request)
            }
            Some(unit) if begins && waits_to_begin(job) => {
                let (name, uid, queue) = (key.key.clone(), Arc::clone(&job.uid), Arc::clone(&unit.queue));
                let resource_version = job.resource_version;
                let request = match kind {
                    ConsumerKind::Framework => return None,
                    ConsumerKind::Job => Request::ResumeJob { job: name, uid, resource_version, queue },
                    ConsumerKind::JobSet => {
                        let templates = self.job_sets.get(&name)?.templates.clone();
                        Request::ResumeJobSet { job: name, uid, resource_version, queue, templates }
                    }
                };
                (Sent::Resume(key.clone()), request)
            }
            _ => (Sent::Create(key.clone()), growth?),
        };
        state.busy = true;
        if let Sent::Resume(_) = sent {
            state.resumed = Some((Arc::clone(&job.uid), job.resource_version));
        }
        Some((sent, request))
    }
}
