//! The outcomes of requests.

use std::sync::Arc;

use framework_core::EventReason;
use framework_core::plan::Report;
use framework_message::backoff::Failures;
use framework_message::{Key, Now, Rejection, Ticket};
use tracing::{debug, warn};

use super::FrameworkUnits;
use super::state::RefusedUnit;
use crate::consumer::{ConsumerKey, NamedKind};
use crate::effect::QueueEffect;
use crate::object::{Object, Reply};
use crate::outgoing::{Sent, Work};
use crate::unit::PendingRequest;

/// Refusals in a row after which a name counts as taken. The first one may be of a unit that the watch is yet
/// to show.
const TAKEN: u32 = 2;

/// How often the pause between two reads of the Framework of a unit by hand is doubled: up to three or four
/// hours. A user may make thousands of such units for a Framework that no watch shows.
const MOST_DOUBLINGS: u32 = 9;

impl FrameworkUnits {
    /// Takes in the outcome of a request.
    pub fn replied(&mut self, now: Now, ticket: Ticket, reply: Reply) {
        let may_land = self.settings.may_land(now, &reply);
        let Some((sent, jitter)) = self.outgoing.answered(ticket, may_land) else { return };
        match sent {
            Sent::Unit(key, uid, PendingRequest::Read) => self.framework_read(now, key, &uid, &reply, jitter),
            Sent::Unit(key, uid, pending) => self.unit_replied(now, key, &uid, pending, reply, jitter),
            Sent::Create(job, uid) => self.create_replied(now, job, &uid, &reply, jitter),
            Sent::Resume(_) | Sent::Label(..) | Sent::List(_) | Sent::Queue(_) => {}
        }
    }

    fn unit_replied(
        &mut self,
        now: Now,
        key: Key,
        uid: &Arc<str>,
        pending: PendingRequest,
        reply: Reply,
        jitter: u64,
    ) {
        let Some(writes) = self.writes.get_mut(&key).filter(|writes| writes.uid.as_ref() == Some(uid)) else {
            return;
        };
        writes.pending = false;
        let (lag, is_bind) = (self.settings.request_lifetime, pending == PendingRequest::Bind);
        match reply {
            Reply::Object(Object::Unit(unit)) => {
                writes.succeeded(&key, now.steady, lag, jitter);
                if is_bind {
                    self.refused_binds.remove(&key.namespace);
                }
                self.stale.extend(self.units.refresh(Arc::from(unit)));
            }
            // Deleted, or let go. The watch shows when, unless a webhook has undone that.
            Reply::Done => {
                writes.is_unsure |= writes.is_let_go;
                writes.succeeded(&key, now.steady, lag, jitter);
            }
            // The watch shows it, too: until then nothing more is sent.
            Reply::Refused(Rejection { code: 404, .. }) => {
                writes.not_before = now.steady + self.settings.request_lifetime;
            }
            reply => {
                debug!(unit = %key, ?reply, "a change of a QueueUnit failed");
                // An earlier try without a reply may yet land.
                writes.is_unsure |= matches!(reply, Reply::Unknown(_));
                writes.is_let_go &= writes.is_unsure;
                let delay = writes.failures.delay_after(&reply, jitter);
                // Units that were not tried yet go first.
                let from = match &reply {
                    Reply::Refused(rejection) if is_bind && rejection.is_permanent() => {
                        let refused = self.refused_binds.entry(Arc::clone(&key.namespace)).or_default();
                        refused.refuse(now.steady, &reply, jitter)
                    }
                    _ => now.steady,
                };
                writes.not_before = from + delay;
            }
        }
        // Whether its Framework may begin may have changed.
        self.stale.extend(self.units.get(&key).map(|unit| unit.consumer.key.clone()));
        self.outgoing.offer(Work::Unit(key), true);
    }

    /// Takes in the Framework of a unit as the API server has it.
    fn framework_read(&mut self, now: Now, key: Key, uid: &Arc<str>, reply: &Reply, jitter: u64) {
        let Some(writes) = self.writes.get_mut(&key).filter(|writes| writes.uid.as_ref() == Some(uid)) else {
            return;
        };
        writes.pending = false;
        let unit = self.units.get(&key);
        let uid = unit.and_then(|unit| unit.framework_uid());
        match reply {
            Reply::Object(Object::Framework(there)) if uid == Some(there) => {
                writes.failures = Failures::default();
                let is_by_hand = unit.is_some_and(|unit| unit.is_by_hand());
                let pauses = if is_by_hand { 1_u32 << writes.reads.min(MOST_DOUBLINGS) } else { 1 };
                writes.reads = writes.reads.saturating_add(1);
                writes.next_read = now.steady + self.settings.request_lifetime * pauses;
            }
            Reply::Object(Object::Framework(_)) | Reply::Refused(Rejection { code: 404, .. }) => {
                self.orphans.extend(uid.map(|uid| (key.clone(), Arc::clone(uid))));
            }
            reply => {
                debug!(unit = %key, ?reply, "the Framework of a QueueUnit was not read");
                writes.next_read = now.steady + writes.failures.delay_after(reply, jitter);
            }
        }
        self.outgoing.offer(Work::Unit(key), true);
    }

    fn create_replied(&mut self, now: Now, job: ConsumerKey, uid: &Arc<str>, reply: &Reply, jitter: u64) {
        // The reply to a POST of an earlier Framework of that name says nothing of the present one.
        let state = self.unit_requests.get_mut(&job.key);
        let Some(state) = state.filter(|state| state.busy.as_ref() == Some(uid)) else { return };
        state.busy = None;
        let growth = state.growth.take();
        let before = (std::mem::take(&mut state.is_name_taken), std::mem::take(&mut state.refused));
        let delay = match reply {
            // The watch shows the result. Until then the request is not repeated.
            Reply::Object(_) | Reply::Done => {
                state.failures = Default::default();
                self.settings.request_lifetime
            }
            Reply::NotSent(_) => state.failures.delay_after(reply, jitter),
            reply => {
                warn!(job = %job.key, ?reply, "a QueueUnit was not created");
                let delay = state.failures.delay_after(reply, jitter);
                let is_taken = matches!(reply, Reply::Refused(Rejection { code: 409, .. }));
                state.is_name_taken = is_taken && state.failures.count() >= TAKEN;
                let of = |message| RefusedUnit { uid: Arc::clone(uid), growth, message };
                state.refused = permanent(reply).map(of);
                delay
            }
        };
        if (state.is_name_taken, &state.refused) != (before.0, &before.1) {
            self.stale.insert(job.key.clone());
        }
        state.not_before = now.steady + delay;
        self.outgoing.offer_at(state.not_before, Work::Job(job.clone()));
        self.report_refused_growth(&job);
    }

    /// Reports once that the API server refuses the unit of a growth.
    fn report_refused_growth(&mut self, job: &ConsumerKey) {
        let framework = self.frameworks.get(&job.key).and_then(|reported| reported.framework.as_ref());
        let state = self.unit_requests.get_mut(&job.key);
        let Some((framework, state)) = framework.zip(state) else { return };
        let Some(growth) = state.refused_growth(&framework.uid) else { return };
        let is_news = state.says(&framework.uid, growth, |growth| framework.growths.contains_key(&growth));
        let (Some(refused), Some(unit)) = (&state.refused, job.growth_unit(growth)) else { return };
        let note = format!(
            "the Tasks of generation {growth} wait, because the API server refuses their QueueUnit {}: {}",
            unit.name, refused.message
        );
        self.effects.extend(is_news.then(|| QueueEffect::StaysSuspended {
            kind: NamedKind::Framework,
            job: job.key.clone(),
            uid: Arc::clone(&framework.uid),
            report: Report::warning(EventReason::QueueUnitRefused, note),
        }));
    }
}

/// The message of a refusal that would be repeated.
fn permanent(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Refused(rejection) if rejection.is_permanent() => Some(rejection.message.clone()),
        _ => None,
    }
}
