//! The outcomes of requests.

use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::{Phase, Reason};
use framework_core::Defect;
use framework_core::truncate::truncate;
use jiff::Timestamp;
use tracing::{debug, warn};

use super::QueueController;
use crate::consumer::ConsumerKey;
use crate::effect::QueueEffect;
use crate::object::UnitObject;
use crate::object::{Object, Reply};
use crate::outgoing::{Sent, Work};
use crate::unit::{PendingRequest, UnitDecision};
use framework_message::{Key, Now, Rejection, Ticket};

/// From so many refusals of its status on, a unit is passed over. For a moment after it has started, an API
/// server refuses all requests that need a role: that must cost no unit its turn.
const LASTING: u32 = 4;

/// The largest weight of the API server's message in the reason of a unit that is passed over. Each such unit
/// stores its own.
const MOST_MESSAGE: usize = 512;

impl QueueController {
    /// Whether a ticket is of a request of the controller.
    pub fn sent(&self, ticket: Ticket) -> bool {
        self.outgoing.is_in_flight(ticket)
    }

    /// Takes in the outcome of a request.
    pub fn replied(&mut self, now: Now, time: Timestamp, ticket: Ticket, reply: Reply) {
        let may_land = self.settings.may_land(now, &reply);
        let Some((sent, jitter)) = self.outgoing.answered(ticket, may_land) else { return };
        match sent {
            Sent::Unit(key, uid, pending) => {
                let of_it = self.unit_states.get(&key).is_some_and(|state| state.uid.as_ref() == Some(&uid));
                if of_it {
                    self.unit_replied(now, time, &key, pending, reply, jitter);
                }
            }
            Sent::Create(job, _) => self.job_replied(now, job, &reply, jitter),
            Sent::Resume(job) => self.resume_replied(now, job, &reply, jitter),
            Sent::Label(job, child) => self.label_replied(now, job, child, &reply, jitter),
            Sent::Queue(queue) => self.queue_status_replied(now, queue, &reply, jitter),
            Sent::List(namespace) => self.list_replied(now, namespace, reply, jitter),
        }
    }

    fn unit_replied(
        &mut self,
        now: Now,
        time: Timestamp,
        key: &Key,
        pending: PendingRequest,
        reply: Reply,
        jitter: u64,
    ) {
        let Some(state) = self.unit_states.get_mut(key) else { return };
        state.writes.pending = false;
        let releases = matches!(pending, PendingRequest::Status { releases: true, .. });
        match reply {
            Reply::Object(Object::Unit(unit)) if pending.is_undone_by(unit.resource_version) => {
                self.unit_refused(now, key, pending, &undone(), jitter);
            }
            Reply::Object(Object::Unit(unit)) => {
                state.writes.unread = false;
                state.writes.failures = Default::default();
                let is_absent = state.writes.shows_no_release(pending, unit.resource_version);
                let is_over = state.writes.is_refusal_said && unit.status.phase == Some(Phase::Dequeued);
                self.refresh_unit_from_reply(*unit);
                self.report_status(key, time);
                if is_absent {
                    self.not_released(key);
                }
                if is_over {
                    self.bring_forward(now, &key.namespace);
                }
            }
            // Deleted, or let go. The watch says when, unless a webhook has undone that.
            Reply::Done => {
                let (writes, lag) = (&mut state.writes, self.settings.request_lifetime);
                writes.failures = Default::default();
                writes.deleted |= pending == PendingRequest::Delete;
                writes.accepted.accept(key, pending, writes.base, now.steady, lag, jitter);
            }
            Reply::Refused(Rejection { code: 404, .. }) => {
                // The watch says so, too: until then nothing more is sent.
                state.writes.not_before = now.steady + self.settings.request_lifetime;
                self.not_released(key);
            }
            Reply::Refused(_) => self.unit_refused(now, key, pending, &reply, jitter),
            Reply::NotSent(reason) => {
                debug!(unit = %key, reason, "a write of a QueueUnit was not sent");
                state.writes.not_before = now.steady + state.writes.failures.delay(false, jitter);
                if releases && state.writes.unsure.is_none() {
                    self.not_released(key);
                }
            }
            reply => {
                debug!(unit = %key, ?reply, "a write of a QueueUnit has an unknown outcome");
                state.writes.unread = true;
                // The watch may have shown the release already.
                if releases && state.writes.releasing.is_some() {
                    let until = now.steady + self.settings.request_lifetime;
                    state.writes.unsure = Some(until);
                    self.outgoing.offer_at(until, Work::Unit(key.clone()));
                }
                state.writes.not_before = now.steady + state.writes.failures.delay(true, jitter);
                if releases && self.settings.defects.has(Defect::ForgetRelease) {
                    self.not_released(key);
                }
            }
        }
        self.offer(Work::Unit(key.clone()));
    }

    /// A request about a unit was refused. A first conflict is repeated at once, from the newer version. One
    /// that comes again although a read showed the same version is a webhook's, like other lasting refusals.
    fn unit_refused(&mut self, now: Now, key: &Key, pending: PendingRequest, reply: &Reply, jitter: u64) {
        let (Some(state), Reply::Refused(rejection)) = (self.unit_states.get_mut(key), reply) else { return };
        let writes = &mut state.writes;
        let is_conflict = rejection.code == 409;
        if is_conflict {
            // The newer version is known already if the watch was faster.
            let known = self.objects.units.get(key).map_or(0, |unit| unit.resource_version);
            writes.unread = !matches!(pending, PendingRequest::Status { base, .. } if base < known);
            if writes.conflicted.replace(writes.base) != Some(writes.base) {
                return;
            }
        }
        let Rejection { code, message, .. } = rejection;
        warn!(unit = %key, code, reason = message, "a write of a QueueUnit was refused");
        let may_last = is_conflict || rejection.is_permanent();
        let failures = if may_last { &mut writes.refusals } else { &mut writes.failures };
        let retry_at = now.steady + failures.delay_after(reply, jitter);
        let lasts = may_last && writes.refusals.count() >= LASTING;
        let is_status = matches!(pending, PendingRequest::Status { .. });
        let is_granted =
            is_status && writes.unsure.is_none() && matches!(state.decision, UnitDecision::Release(_));
        let note = format!("the API server refuses its status: {}", truncate(message, MOST_MESSAGE));
        let refused = &mut self.namespaces.entry(&key.namespace).refused;
        if is_granted
            && lasts
            && let Some(until) = refused.pass(now.steady, &key.name, &note, retry_at, writes.is_refusal_said)
        {
            // It is not considered for a while: others get its room, and nothing is reserved for it.
            state.overtaken = None;
            self.stale.refused.set(key, Some(until));
            let uid = state.uid.clone().filter(|_| !std::mem::replace(&mut writes.is_refusal_said, true));
            self.effects.extend(uid.map(|uid| QueueEffect::StatusStored {
                unit: key.clone(),
                uid,
                reason: Reason::Waiting,
                note: Some(note.clone()),
                waited: None,
            }));
            self.set_decision(key, UnitDecision::Wait(Reason::Waiting, note));
            return self.not_released(key);
        }
        writes.not_before = retry_at;
        if is_status && may_last {
            // If it is passed over, the API server refuses its reason, too.
            writes.status_not_before = refused.until(&key.name).unwrap_or_default();
        }
        let releases = matches!(pending, PendingRequest::Status { releases: true, .. });
        if releases && writes.unsure.is_none() {
            self.not_released(key);
        }
    }

    /// Units whose status was refused are considered again, once a write of them may be sent.
    pub(super) fn consider_refused(&mut self, now: Now) {
        for key in self.stale.refused.take(now.steady) {
            let Some(state) = self.unit_states.get(&key) else { continue };
            if now.steady < state.writes.not_before {
                self.stale.refused.set(&key, Some(state.writes.not_before));
                continue;
            }
            self.namespaces.entry(&key.namespace).refused.remove(&key.name);
            self.stale.units.insert(key);
        }
    }

    /// A unit that was passed over is released: the refusals may be over. Some of the others are considered,
    /// and each of them that is released brings more. Otherwise they would wait about as long as the refusals
    /// have lasted.
    fn bring_forward(&mut self, now: Now, namespace: &Arc<str>) {
        let Some(state) = self.namespaces.get_mut(namespace) else { return };
        for name in state.refused.bring_forward(now.steady) {
            let key = Key { namespace: Arc::clone(namespace), name };
            if let Some(state) = self.unit_states.get_mut(&key) {
                state.writes.status_not_before = Duration::ZERO;
            }
            self.stale.refused.set(&key, Some(now.steady));
        }
    }

    /// A release was not stored, and never will be. The unit waits, and its job may ask for something else.
    fn not_released(&mut self, key: &Key) {
        let Some(state) = self.unit_states.get_mut(key) else { return };
        (state.writes.releasing, state.writes.unsure) = (None, None);
        self.stale.jobs.extend(state.consumer.clone());
        self.stale.units.insert(key.clone());
    }

    /// Takes in a unit as a reply shows it. One that a read shows unchanged says nothing of a release whose
    /// reply never came: that is tried again, with the same guard.
    fn refresh_unit_from_reply(&mut self, unit: UnitObject) {
        let key = unit.key.clone();
        if self.objects.units.refresh(Arc::new(unit)) {
            self.unit_changed(key);
        }
    }

    /// The Pod templates of a JobSet got labels. If the API server refuses that for good, their Pods count
    /// twice, and the job begins all the same.
    fn label_replied(&mut self, now: Now, job: ConsumerKey, child: Arc<str>, reply: &Reply, jitter: u64) {
        match reply {
            Reply::Done => {}
            Reply::Refused(rejection) if rejection.is_permanent() => {
                let reason = &rejection.message;
                warn!(job = %job.key, reason, "the Pods of a job count twice: its JobSet was not labelled");
            }
            _ => return self.job_replied(now, job, reply, jitter),
        }
        let Some(state) = self.job_states.get_mut(&job) else { return };
        (state.busy, state.labelled) = (false, Some(child));
        state.failures = Default::default();
        self.offer(Work::Job(job));
    }

    /// A job was resumed. Kubernetes before 1.36 allows no change of the Pod template of a Job that has run
    /// once. Then its Pods get no labels: they count twice, and the job begins all the same.
    fn resume_replied(&mut self, now: Now, job: ConsumerKey, reply: &Reply, jitter: u64) {
        if let Some(state) = self.job_states.get_mut(&job) {
            match reply {
                Reply::Object(_) | Reply::Done => {}
                Reply::Foreign(_) | Reply::Unknown(_) => state.unsure = true,
                Reply::NotSent(_) => state.not_resumed(),
                Reply::Refused(rejection) => {
                    if rejection.code == 422 {
                        state.refuses_labels();
                    }
                    state.not_resumed();
                }
            }
            // Whether its unit is void may have changed.
            self.stale.units.extend(job.unit());
        }
        self.job_replied(now, job, reply, jitter);
    }

    fn job_replied(&mut self, now: Now, job: ConsumerKey, reply: &Reply, jitter: u64) {
        let Some(state) = self.job_states.get_mut(&job) else { return };
        state.busy = false;
        match reply {
            // The watch shows the result. Until then the request is not repeated.
            Reply::Object(Object::Unit(_)) | Reply::Done => {
                state.failures = Default::default();
                state.refused = None;
                state.not_before = now.steady + self.settings.request_lifetime;
            }
            reply => {
                if reply.was_sent() {
                    warn!(job = %job.key, ?reply, "a request for a job in a queue failed");
                }
                state.not_before = now.steady + state.failures.delay_after(reply, jitter);
            }
        }
        self.outgoing.offer_at(state.not_before, Work::Job(job.clone()));
        let refusal = match reply {
            Reply::Refused(rejection) if rejection.is_permanent() => rejection,
            _ => return,
        };
        let uid = self.objects.consumers.get(&job).map(|consumer| Arc::clone(&consumer.uid));
        state.refused = uid.map(|uid| (uid, refusal.message.clone()));
        self.stale.jobs.insert(job);
    }
}

/// The refusal of a status that was accepted, and of which a webhook has left nothing.
fn undone() -> Reply {
    let message = "it is accepted, and nothing of it is stored".to_owned();
    Reply::Refused(Rejection { code: 422, reason: String::new(), message, retry_after: None })
}
