//! A round: the decisions of the schedule become the next status writes of units.

use std::sync::Arc;
use std::time::Duration;

use framework_api::Time;
use framework_api::queue::{Phase, Reason};
use framework_core::EventReason;
use framework_core::plan::Report;
use framework_core::queue::Stage;
use framework_queue::{Decision, UnitUpdate};
use jiff::Timestamp;

use super::QueueController;
use crate::consumer::{Consumer, ConsumerKey, NamedKind};
use crate::effect::{QueueEffect, UnitWait};
use crate::object::{Overtaken, UnitObject};
use crate::outgoing::Work;
use crate::unit::UnitDecision;
use framework_message::{Key, Now};

/// That a unit was overtaken is stored when this part of the time has passed after which it is overdue. Where
/// queues take turns, most units are overtaken for a while, and a write for each would be up to a fifth of
/// all. A controller that starts may have to count that time again.
const OVERTAKEN_WRITE_PART: u32 = 2;

impl QueueController {
    /// Runs a round in each namespace where something has changed, or time has.
    pub(super) fn decide(&mut self, now: Now, time: Timestamp) {
        for namespace in std::mem::take(&mut self.stale.namespaces) {
            if self.owns(&namespace, now) && !self.recovery.is_unsettled(&namespace) {
                self.round(now, time, &namespace);
                self.namespaces.note_dues(&namespace);
            } else {
                // A round that stays due would wake the controller again and again.
                self.namespaces.forget_dues(&namespace);
            }
            if self.objects.has_none_in(&namespace) {
                self.namespaces.forget(&namespace);
                self.forget_places(&namespace);
            }
        }
    }

    fn round(&mut self, now: Now, time: Timestamp, namespace: &Arc<str>) {
        self.withdraw_excess(namespace);
        let Some(namespace_state) = self.namespaces.get_mut(namespace) else { return };
        for Decision { uid: scheduled, update } in namespace_state.schedule.round(time) {
            let names = self.namespaces.get(namespace).map(|namespace_state| &namespace_state.names);
            if let Some(name) = names.and_then(|names| names.get(&scheduled)) {
                let key = Key { namespace: Arc::clone(namespace), name: Arc::clone(name) };
                self.decided(now, key, update);
            }
        }
    }

    /// Takes back decisions to release units, the last first, while more is used than a limit allows. The
    /// request of such a release waits to be sent, and others have used the room meanwhile. A release that
    /// was sent may be stored, so it stands.
    fn withdraw_excess(&mut self, namespace: &Arc<str>) {
        let Some(state) = self.namespaces.get_mut(namespace) else { return };
        if state.granted.is_empty() || !state.schedule.exceeds_limits() {
            return;
        }
        for name in state.granted.values().rev().cloned().collect::<Vec<_>>() {
            let key = Key { namespace: Arc::clone(namespace), name };
            let state = self.namespaces.get_mut(namespace);
            let Some((unit, state)) = self.unit_states.get_mut(&key).zip(state) else { continue };
            if unit.writes.releasing.is_some() || !state.schedule.is_over_limit(&unit.name_in_schedule) {
                continue;
            }
            unit.facts = None;
            self.refresh_unit(&key);
            if self.namespaces.get_mut(namespace).is_none_or(|state| !state.schedule.exceeds_limits()) {
                return;
            }
        }
    }

    /// Sets the decision about a unit.
    pub(super) fn set_decision(&mut self, key: &Key, decision: UnitDecision) {
        let Some(state) = self.unit_states.get_mut(key) else { return };
        let before = std::mem::replace(&mut state.decision, decision);
        let granted = self.namespaces.get_mut(&key.namespace).map(|state| &mut state.granted);
        if let (UnitDecision::Release(place), Some(granted)) = (before, granted) {
            granted.remove(&place);
        }
    }

    /// Decides to release a unit, after all others of its namespace.
    fn grant(&mut self, key: &Key) {
        let granted = &mut self.namespaces.entry(&key.namespace).granted;
        let place = granted.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        granted.insert(place, Arc::clone(&key.name));
        self.set_decision(key, UnitDecision::Release(place));
    }

    fn decided(&mut self, now: Now, key: Key, update: UnitUpdate) {
        let Some(state) = self.unit_states.get_mut(&key) else { return };
        match update {
            UnitUpdate::Release => self.grant(&key),
            UnitUpdate::Wait(refusal) => {
                self.set_decision(&key, UnitDecision::Wait(refusal.reason(), refusal.to_string()));
            }
            UnitUpdate::Overtaken { since } => {
                state.overtaken = Some(Overtaken { since: Time::floor(since), reserved: false });
                state.write_overtaken_from = now.steady + self.settings.reserve_after / OVERTAKEN_WRITE_PART;
                self.outgoing.offer_at(state.write_overtaken_from, Work::Unit(key));
                return;
            }
            UnitUpdate::Reserved => {
                let since = state.overtaken.map(|overtaken| overtaken.since);
                state.overtaken = since.map(|since| Overtaken { since, reserved: true });
            }
        }
        self.offer(Work::Unit(key));
    }

    /// Makes sure that each job has the unit that it should have, and is resumed by it.
    pub(super) fn sync_jobs(&mut self, now: Now) {
        for key in std::mem::take(&mut self.stale.jobs) {
            self.sync_job(&key);
            self.report_job(now, &key);
        }
    }

    /// Looks again at the jobs whose unit would have this name. They get none while the unit of another job
    /// has it.
    pub(super) fn look_at_namesakes(&mut self, unit: &Key, consumer: &ConsumerKey) {
        if consumer.unit().as_ref() == Some(unit) {
            return;
        }
        for job in self.objects.namesakes(unit) {
            self.job_is_answered(&job);
            self.stale.jobs.insert(job);
        }
    }

    fn sync_job(&mut self, key: &ConsumerKey) {
        let Some(name) = key.unit() else { return };
        let unit = self.objects.units.get(&name);
        let is_left = unit.is_some_and(|unit| self.is_left(unit));
        let Some(job) = self.objects.consumers.get(key) else {
            if is_left {
                self.set_wanted(name, false);
            }
            return;
        };
        let Some(unit) = unit else {
            if job.wants_unit() {
                self.offer(Work::Job(key.clone()));
            }
            return;
        };
        let ours = unit.owner.as_ref() == Some(&job.uid);
        let is_released = unit.status.phase == Some(Phase::Dequeued);
        let stays = match is_released {
            true => !unit.is_outgrown(job) && !job.ends_unbegun(),
            false => job.wants_unit() && unit.asks_as(job),
        };
        let unwanted = (ours && !stays || is_left) && !unit.deleting;
        let begins = self.lets_begin(key, unit, job);
        let uid = Arc::clone(&job.uid);
        if ours {
            self.job_states.entry(key.clone()).or_default().set_priority(&uid, unit.priority);
        }
        let resumes = begins && job.waits_to_begin();
        self.set_wanted(name, !unwanted);
        if resumes {
            self.offer(Work::Job(key.clone()));
        }
    }

    /// Whether a unit that we made is left of a job that is gone, and has no owner reference by which the
    /// garbage collector would delete it. A Framework's unit is looked after by the owner of its slot.
    fn is_left(&self, unit: &UnitObject) -> bool {
        let kind = &unit.consumer.kind;
        let is_gone = || self.objects.job_of_unit(unit).is_none();
        unit.notes.orphaned && !unit.is_of_framework() && self.objects.sees(kind) && is_gone()
    }

    /// Says once to the user of a job why it stays suspended, if no unit says it.
    fn report_job(&mut self, now: Now, key: &ConsumerKey) {
        let Some((uid, reason)) = self.stays_suspended(key) else { return };
        if reason.is_none() && self.job_states.get(key).is_none_or(|state| state.said.is_none()) {
            return;
        }
        if !self.owns(&key.key.namespace, now) {
            return;
        }
        let state = self.job_states.entry(key.clone()).or_default();
        let is_news = state.says(&uid, reason.as_ref().map(|reason| reason.note.as_str()));
        if let (true, Some(report), Some(object)) = (is_news, reason, self.objects.declared_job(key)) {
            let (kind, job) = (NamedKind::Declared(Arc::clone(&object.row)), key.key.clone());
            self.effects.push(QueueEffect::StaysSuspended { kind, job, uid, report });
        }
    }

    /// The UID of a job, and the reason for which it stays suspended though no unit says so.
    fn stays_suspended(&self, key: &ConsumerKey) -> Option<(Arc<str>, Option<Report>)> {
        let job = self.objects.consumers.get(key)?;
        let unit = key.unit().and_then(|unit| self.objects.units.get(&unit));
        let report = match (unit, &job.requests) {
            (None, Err(error)) if job.wants_unit() && !self.awaits_child(key) => Some(Report::warning(
                EventReason::RequestUnknown,
                format!("it stays suspended without a QueueUnit, because its request is not known: {error}"),
            )),
            (None, Ok(_))
                if job.wants_unit()
                    && let Some(refusal) = self.refusal(key, &job.uid) =>
            {
                Some(Report::warning(
                    EventReason::QueueUnitRefused,
                    format!("it stays suspended, because the API server refuses its QueueUnit: {refusal}"),
                ))
            }
            (Some(unit), _) if job.wants_unit() && is_foreign(unit, key, job) => Some(Report::warning(
                EventReason::QueueUnitRefused,
                format!("it stays suspended, because another QueueUnit has the name {}", unit.key.name),
            )),
            (Some(unit), _)
                if self.lets_begin(key, unit, job)
                    && job.waits_to_begin()
                    && let Some(refusal) = self.refusal(key, &job.uid) =>
            {
                Some(Report::warning(
                    EventReason::ResumeRefused,
                    format!("it was released, and the API server refuses to resume it: {refusal}"),
                ))
            }
            (Some(unit), _) if job.waits_to_begin() && job.was_resumed_by(&unit.uid) => {
                let unit = &unit.key.name;
                Some(Report::normal(
                    EventReason::StaysSuspended,
                    format!(
                        "it was suspended after its release, and stays so until it is resumed by hand; \
                         the QueueUnit {unit} keeps its capacity until then, or until the unit is deleted"
                    ),
                ))
            }
            _ => None,
        };
        Some((Arc::clone(&job.uid), report))
    }

    fn refusal(&self, key: &ConsumerKey, uid: &Arc<str>) -> Option<&str> {
        self.job_states.get(key)?.refusal(uid)
    }

    /// Whether the JobSet that has the requests of a job is not there yet.
    fn awaits_child(&self, key: &ConsumerKey) -> bool {
        let job = self.objects.declared_job(key);
        job.is_some_and(|job| job.row.child.is_some() && self.objects.child_of(job).is_none())
    }

    /// Whether the first unit of a job lets it begin. A unit that is being deleted lets no job begin any
    /// more, and one that has let it begin does so once: a user may suspend it again.
    pub(super) fn lets_begin(&self, key: &ConsumerKey, unit: &UnitObject, job: &Consumer) -> bool {
        unit.owner.as_ref() == Some(&job.uid)
            && unit.status.phase == Some(Phase::Dequeued)
            && !unit.is_outgrown(job)
            && !job.was_resumed_by(&unit.uid)
            && (!unit.deleting || self.may_have_begun(key, job))
    }

    /// Whether a job that is seen waiting may have begun: its present version was resumed.
    fn may_have_begun(&self, key: &ConsumerKey, job: &Consumer) -> bool {
        self.job_states.get(key).is_some_and(|state| state.was_resumed(&job.uid, job.resource_version))
    }

    /// Whether nothing has begun, or will, by the release of a unit that is being deleted: its job asks for
    /// another one then. Until it is gone its quota stays reserved.
    pub(super) fn is_void(&self, unit: &UnitObject) -> bool {
        let key = &unit.consumer;
        let Some(job) = self.objects.consumers.get(key).filter(|job| job.stage == Stage::Waiting) else {
            return false;
        };
        let is_first = unit.owner.as_ref() == Some(&job.uid) && key.unit().as_ref() == Some(&unit.key);
        // A request of a predecessor may still land, unless the job has outgrown the unit.
        let may_land =
            || self.recovery.is_unsettled(&unit.key.namespace) || self.recovery.may_lag(&unit.key.namespace);
        let may_begin = || may_land() || self.may_have_begun(key, job);
        is_first
            && unit.deleting
            && self.job_of(unit).is_none_or(|job| self.usage.of(&job).is_none())
            && (unit.is_outgrown(job) || !may_begin())
    }

    /// Notes whether a unit is wanted. One that may be released already stays: the first decision wins.
    pub(super) fn set_wanted(&mut self, name: Key, wanted: bool) {
        let Some(state) = self.unit_states.get_mut(&name) else { return };
        let unwanted = !wanted && state.writes.releasing.is_none();
        if state.unwanted != unwanted {
            state.unwanted = unwanted;
            self.stale.units.insert(name.clone());
            self.offer(Work::Unit(name));
        }
    }

    /// Reports a newly stored reason of a unit. There is no Event for entering the queue, nor for the release
    /// of a Framework, which has an Event of its own.
    pub(super) fn report_status(&mut self, key: &Key, time: Timestamp) {
        let (Some(unit), Some(state)) = (self.objects.units.get(key), self.unit_states.get_mut(key)) else {
            return;
        };
        // The watch may have shown it before the reply.
        let before = std::mem::replace(&mut state.writes.reported, unit.status.reason);
        let Some(reason) = unit.status.reason.filter(|reason| Some(*reason) != before) else { return };
        let since = self.enqueued(unit);
        let waited = (reason == Reason::Admitted).then(|| UnitWait {
            queue: Key { namespace: Arc::clone(&key.namespace), name: Arc::clone(&unit.queue) },
            priority: self.objects.priority(unit.priority, unit.class.as_deref()).unwrap_or_default(),
            time: Duration::try_from(time.duration_since(since)).unwrap_or(Duration::ZERO),
        });
        let is_event = match reason {
            Reason::Waiting => false,
            Reason::Admitted => !unit.is_of_framework(),
            _ => true,
        };
        self.effects.push(QueueEffect::StatusStored {
            unit: key.clone(),
            uid: Arc::clone(&unit.uid),
            reason,
            note: is_event.then(|| unit.status.message.clone()),
            waited,
        });
    }
}

/// Whether a unit with the name of a job's unit is that of another job, or was made by a user. The unit of an
/// earlier job of that name goes by itself.
fn is_foreign(unit: &UnitObject, key: &ConsumerKey, job: &Consumer) -> bool {
    let is_of_an_earlier = unit.owner.is_some() && unit.consumer == *key;
    unit.owner.as_ref() != Some(&job.uid) && !is_of_an_earlier
}
