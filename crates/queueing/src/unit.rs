//! The state of one unit: the decision about it, and its requests.
//!
//! Guarantees: one request about a unit is on its way at a time; a release that may have been stored counts
//! as one until it is known not to be.

use std::sync::Arc;
use std::time::Duration;

use framework_api::Time;
use framework_api::queue::{Phase, Reason};
use framework_message::Key;
use framework_queue::{ResourceRequests, UnitFacts};

use crate::accepted::AcceptedChange;
use crate::consumer::ConsumerKey;
use crate::counts::Counted;
use crate::object::{Overtaken, UnitObject, UnitStatus};
use crate::request::QueueRequest;
use crate::units_by_job::Dependence;
use framework_message::backoff::Failures;

/// The decision about a unit that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UnitDecision {
    /// Nothing yet.
    #[default]
    None,
    /// It may begin, by a decision of this place in the order of those of its namespace.
    Release(u64),
    /// It waits, and why.
    Wait(Reason, String),
}

/// A request about a unit that is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingRequest {
    /// A status, decided from this resourceVersion; whether it releases the unit.
    Status {
        /// Of the version that it was decided from.
        base: u128,
        /// Whether it releases the unit.
        releases: bool,
    },
    /// A read.
    Read,
    /// A deletion.
    Delete,
    /// The removal of our finalizer.
    RemoveFinalizer,
    /// The part that a Framework still needs.
    ReturnCapacity,
    /// The Framework for which it stands.
    Bind,
}

impl PendingRequest {
    /// Whether a response that shows this version means that nothing of the status was stored.
    pub fn is_undone_by(self, version: u128) -> bool {
        matches!(self, PendingRequest::Status { base, .. } if version <= base)
    }
}

/// The requests about one unit, and their outcomes.
#[derive(Debug, Default)]
pub struct UnitWrites {
    /// A request is in flight.
    pub pending: bool,
    /// A release that may have been stored, or may yet be: decided from this resourceVersion. A newer version
    /// that is not released says that it never will be.
    pub releasing: Option<u128>,
    /// An earlier try of the release got no reply: until when, on the monotonic clock, it may land.
    pub unsure: Option<Duration>,
    /// It is to be read, because a write conflicted or got no reply.
    pub unread: bool,
    /// Its deletion was accepted. The watch will show it, and until then no other request is needed.
    pub deleted: bool,
    /// When, on the monotonic clock, the last request was sent.
    pub sent: Duration,
    /// The version of the unit that the last request was made from.
    pub base: u128,
    /// The reason in the version that the last status was decided from, or that was reported since.
    pub reported: Option<Reason>,
    /// Its last deletion, or removal of the finalizer.
    pub accepted: AcceptedChange<PendingRequest>,
    /// Failures in a row that may pass.
    pub failures: Failures,
    /// The version at which the last write conflicted.
    pub conflicted: Option<u128>,
    /// Writes that were refused for good, or conflicted at an unchanged version.
    pub refusals: Failures,
    /// Whether it was passed over because its status is refused, and an Event says so.
    pub is_refusal_said: bool,
    /// Nothing is sent before.
    pub not_before: Duration,
    /// No status is sent before: it is passed over, and the API server refuses to store why.
    pub status_not_before: Duration,
}

impl UnitWrites {
    /// The moment before which this request about this version of the unit is not sent.
    pub fn sends_from(&self, request: PendingRequest, version: u128) -> Duration {
        let is_status = matches!(request, PendingRequest::Status { .. });
        let from = if is_status { self.status_not_before } else { Duration::ZERO };
        from.max(self.not_before).max(self.accepted.until(&request, version))
    }

    /// Whether a release without a reply can land no more: a read shows whether it was stored.
    fn lands_no_more(&self, now: Duration) -> bool {
        self.unsure.is_some_and(|until| until <= now)
    }

    /// Whether a response shows that no try of the release was stored. It is that of a read which was sent
    /// when none could land any more, and it shows no later version than the tries were decided from.
    pub fn shows_no_release(&self, pending: PendingRequest, version: u128) -> bool {
        let is_not_later = self.releasing.is_some_and(|base| version <= base);
        pending == PendingRequest::Read && self.lands_no_more(self.sent) && is_not_later
    }
}

/// A job, by namespace and UID, and the quota that a released unit reserves for it.
pub type Reserves = (Key, ResourceRequests);

/// The state of one unit.
#[derive(Debug, Default)]
pub struct UnitState {
    /// The unit that they are of.
    pub uid: Option<Arc<str>>,
    /// Its name in the schedule.
    pub name_in_schedule: Arc<str>,
    /// UID of the object that controls it.
    pub owner: Option<Arc<str>>,
    /// The job that it names.
    pub consumer: Option<ConsumerKey>,
    /// The same by namespace and UID, if it names the UID of a job that is not a Framework.
    pub job: Option<Key>,
    /// The facts that the schedule last received.
    pub facts: Option<UnitFacts>,
    /// Its reservation by these facts, and the job that it is for.
    pub reserves: Option<Reserves>,
    /// The job on whose Pods its reservation or its finalizer depends, and its requests.
    pub depends_on: Option<Dependence>,
    /// The count that it is part of.
    pub counted: Option<Counted>,
    /// The decision of the last round.
    pub decision: UnitDecision,
    /// The condition `Overtaken` that is to be stored.
    pub overtaken: Option<Overtaken>,
    /// Before this time that condition alone is not worth a write.
    pub write_overtaken_from: Duration,
    /// It is to be deleted: the requests of its job have changed or ended.
    pub unwanted: bool,
    /// Its finalizer may be removed: its job uses no quota any more.
    pub may_remove_finalizer: bool,
    /// Its requests, and their outcomes.
    pub writes: UnitWrites,
}

impl UnitState {
    /// The next request about the unit, `now` on the monotonic clock and `at` the wall clock's time.
    pub fn next(&self, unit: &UnitObject, now: Duration, at: Time) -> Option<(PendingRequest, QueueRequest)> {
        if self.writes.pending {
            return None;
        }
        let name = || (unit.key.clone(), Arc::clone(&unit.uid));
        // Each later try of a release may be refused: it holds room no longer than it may have been stored.
        if self.writes.unread || self.writes.lands_no_more(now) {
            return Some((PendingRequest::Read, QueueRequest::GetUnit { unit: unit.key.clone() }));
        }
        if unit.deleting {
            let may_remove = self.may_remove_finalizer && unit.finalizers.has_ours();
            return may_remove
                .then(|| (PendingRequest::RemoveFinalizer, QueueRequest::remove_finalizer(unit)));
        }
        if self.unwanted {
            if self.writes.deleted {
                return None;
            }
            let (unit, uid) = name();
            return Some((PendingRequest::Delete, QueueRequest::DeleteUnit { unit, uid }));
        }
        let status = self.wanted(&unit.status, now, at)?;
        let releases = status.phase == Some(Phase::Dequeued);
        let pending = PendingRequest::Status { base: unit.resource_version, releases };
        let (name, uid) = name();
        let resource_version = unit.resource_version;
        Some((pending, QueueRequest::PutStatus { unit: name, uid, resource_version, status }))
    }

    /// The status that is to be stored; `None`: the one that is.
    fn wanted(&self, stored: &UnitStatus, now: Duration, at: Time) -> Option<UnitStatus> {
        let (phase, reason, message) = match (stored.phase, &self.decision) {
            (Some(Phase::Dequeued), _) => return None,
            // Being enqueued is visible, however short it is.
            (None, UnitDecision::Release(_)) => (Phase::Enqueued, Reason::Waiting, String::new()),
            (Some(Phase::Enqueued), UnitDecision::Release(_)) => {
                (Phase::Dequeued, Reason::Admitted, String::new())
            }
            (None, UnitDecision::Wait(reason, message)) => (Phase::Enqueued, *reason, message.clone()),
            // One reason has one message, or each release would rewrite those of all that wait. Only a status
            // that is refused gives `Waiting` one.
            (Some(Phase::Enqueued), UnitDecision::Wait(reason, message))
                if stored.reason != Some(*reason)
                    || *reason == Reason::Waiting && stored.message.is_empty() =>
            {
                (Phase::Enqueued, *reason, message.clone())
            }
            (Some(Phase::Enqueued), _)
                if self.overtaken != stored.overtaken && self.is_overtaken_due(now) =>
            {
                (Phase::Enqueued, stored.reason.unwrap_or(Reason::Waiting), stored.message.clone())
            }
            _ => return None,
        };
        let flips = stored.phase.is_none() || phase == Phase::Dequeued;
        let since = if flips { at } else { stored.since.unwrap_or(at) };
        let overtaken = self.overtaken.filter(|_| phase == Phase::Enqueued);
        Some(UnitStatus { phase: Some(phase), reason: Some(reason), message, since: Some(since), overtaken })
    }

    /// Whether the condition `Overtaken` may be stored now. A reservation is stored at once.
    fn is_overtaken_due(&self, now: Duration) -> bool {
        now >= self.write_overtaken_from || self.overtaken.is_some_and(|overtaken| overtaken.reserved)
    }
}

#[cfg(test)]
mod tests {
    use framework_api::queue::FINALIZER;
    use jiff::Timestamp;

    use super::*;
    use crate::object::UnitNotes;

    fn unit(phase: Option<Phase>) -> UnitObject {
        UnitObject {
            key: Key::new("ns", "unit"),
            uid: "uid".into(),
            resource_version: 7,
            created: Timestamp::UNIX_EPOCH,
            deleting: false,
            finalizers: ["a.b/c", FINALIZER, "d.e/f"].into_iter().collect(),
            owner: None,
            consumer: ConsumerKey::of_framework(Key::new("ns", "job")),
            notes: UnitNotes::default(),
            consumer_uid: None,
            queue: "q".into(),
            priority: None,
            class: None,
            requests: Ok(ResourceRequests::default()),
            status: UnitStatus { phase, ..UnitStatus::default() },
        }
    }

    fn next(state: &UnitState, unit: &UnitObject) -> Option<QueueRequest> {
        state.next(unit, Duration::ZERO, Time::floor(Timestamp::UNIX_EPOCH)).map(|(_, request)| request)
    }

    fn phase(request: Option<QueueRequest>) -> Option<Phase> {
        match request {
            Some(QueueRequest::PutStatus { resource_version: 7, status, .. }) => status.phase,
            _ => None,
        }
    }

    #[test]
    fn a_release_is_stored_after_the_entry_into_the_queue_and_once() {
        let state = UnitState { decision: UnitDecision::Release(0), ..UnitState::default() };
        assert_eq!(phase(next(&state, &unit(None))), Some(Phase::Enqueued));
        assert_eq!(phase(next(&state, &unit(Some(Phase::Enqueued)))), Some(Phase::Dequeued));
        assert!(next(&state, &unit(Some(Phase::Dequeued))).is_none());
    }

    #[test]
    fn one_request_about_a_unit_is_in_flight_at_a_time() {
        let mut state = UnitState { decision: UnitDecision::Release(0), ..UnitState::default() };
        state.writes.pending = true;
        assert!(next(&state, &unit(None)).is_none());
        state.writes.pending = false;
        state.writes.unread = true;
        assert!(matches!(next(&state, &unit(None)), Some(QueueRequest::GetUnit { .. })));
    }

    #[test]
    fn only_a_late_read_shows_that_a_lost_release_was_not_stored() {
        let second = Duration::from_secs;
        let shows = |sent, pending, version| {
            let (releasing, unsure, sent) = (Some(7), Some(second(28)), second(sent));
            UnitWrites { releasing, unsure, sent, ..UnitWrites::default() }.shows_no_release(pending, version)
        };
        assert!(shows(28, PendingRequest::Read, 7));
        assert!(!shows(27, PendingRequest::Read, 7), "it may land yet");
        assert!(!shows(28, PendingRequest::Read, 8));
        assert!(!shows(28, PendingRequest::Status { base: 7, releases: true }, 7));
    }

    #[test]
    fn only_our_finalizer_is_removed_and_only_when_the_job_uses_no_quota() {
        let mut state = UnitState { unwanted: true, ..UnitState::default() };
        let mut unit = unit(Some(Phase::Dequeued));
        assert!(matches!(next(&state, &unit), Some(QueueRequest::DeleteUnit { .. })));
        unit.deleting = true;
        assert!(next(&state, &unit).is_none());
        state.may_remove_finalizer = true;
        let Some(QueueRequest::RemoveFinalizer { finalizers, .. }) = next(&state, &unit) else { panic!() };
        assert_eq!(finalizers.others().collect::<Vec<_>>(), ["a.b/c", "d.e/f"]);
        unit.finalizers = finalizers.others().collect();
        assert!(next(&state, &unit).is_none());
    }
}
