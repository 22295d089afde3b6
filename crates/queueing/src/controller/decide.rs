//! A round: what the scheduler decides becomes what is to be written, and what Frameworks are told.

use std::sync::Arc;
use std::time::Duration;

use framework_api::Time;
use framework_api::queue::{ConsumerKind, Phase, Reason};
use framework_core::observed::Admission;
use framework_core::queue::Stage;
use framework_queue::{Decision, UnitUpdate};
use jiff::Timestamp;

use super::{Outcome, QueueController, Wait, Work};
use crate::consumer::{Consumer, ConsumerKey, JobKind};
use crate::object::{Overtaken, UnitObject};
use crate::unit::Verdict;
use framework_message::{Key, Now};

/// That a unit was overtaken is stored when this part of the time has passed after which it is overdue. Where
/// queues take turns, most units are overtaken for a while, and a write for each would be up to a fifth of
/// all. A controller that starts anew may have to count that much again.
const MARK_PART: u32 = 2;

impl QueueController {
    /// Runs a round in each namespace where something has changed, or time has.
    pub(super) fn decide(&mut self, now: Now, time: Timestamp) {
        if self.draining {
            return;
        }
        if self.round_at.is_some_and(|at| at <= time) {
            self.stale_namespaces.extend(self.namespaces.keys().cloned());
        }
        for namespace in std::mem::take(&mut self.stale_namespaces) {
            if !self.owns(&namespace, now) || self.unsettled.contains_key(&namespace) {
                continue;
            }
            let Some(namespace_state) = self.namespaces.get_mut(&namespace) else { continue };
            for Decision { uid, update } in namespace_state.schedule.round(time) {
                let name = self
                    .namespaces
                    .get(&namespace)
                    .and_then(|namespace_state| namespace_state.names.get(&uid));
                if let Some(name) = name {
                    let key = Key { namespace: Arc::clone(&namespace), name: Arc::clone(name) };
                    self.decided(now, key, update);
                }
            }
        }
        self.round_at =
            self.namespaces.values().filter_map(|namespace_state| namespace_state.schedule.next_wake()).min();
        self.others_at =
            self.namespaces.values().filter_map(|namespace_state| namespace_state.others.due()).min();
    }

    fn decided(&mut self, now: Now, key: Key, update: UnitUpdate) {
        let Some(state) = self.unit_states.get_mut(&key) else { return };
        match update {
            UnitUpdate::Release => state.verdict = Verdict::Release,
            UnitUpdate::Wait(refusal) => {
                state.verdict = Verdict::Wait(refusal.reason(), refusal.to_string());
            }
            UnitUpdate::Overtaken { since } => {
                state.overtaken = Some(Overtaken { since: Time::floor(since), reserved: false });
                state.mark_from = now.steady + self.settings.reserve_after / MARK_PART;
                self.later.insert((state.mark_from, Work::Unit(key)));
                return;
            }
            UnitUpdate::Reserved => {
                let since = state.overtaken.map(|overtaken| overtaken.since);
                state.overtaken = since.map(|since| Overtaken { since, reserved: true });
            }
        }
        self.offer(Work::Unit(key));
    }

    /// Makes sure that each job has the unit that it should have, and hears of it.
    pub(super) fn look_after_jobs(&mut self) {
        for key in std::mem::take(&mut self.stale_jobs) {
            self.look_after(&key);
            self.look_after_growths(&key);
        }
    }

    fn look_after(&mut self, key: &ConsumerKey) {
        let (Some(job), Some(name)) = (self.consumers.get(key), key.unit()) else { return };
        let unit = self.units.get(&name);
        let Some(unit) = unit else {
            if wants_unit(job) {
                self.offer(Work::Job(key.clone()));
            }
            return;
        };
        let ours = unit.owner.as_ref() == Some(&job.uid);
        let is_released = unit.standing.phase == Some(Phase::Dequeued);
        let fits = job.queue.as_ref() == Some(&unit.queue) && job.ask == unit.ask && job.class == unit.class;
        let stays = match is_released {
            true => !is_outgrown(unit, job),
            false => job.stage == Stage::Waiting && fits,
        };
        let unwanted = ours && !stays && !unit.deleting;
        let begins = self.lets_begin(key, unit, job);
        let admission = match (ours, begins) {
            (true, true) => Admission::Released { generation: job.generation },
            (true, false) => waiting(unit),
            (false, _) => taken(unit),
        };
        let uid = Arc::clone(&job.uid);
        let (waits, resumes) = (wants_unit(job), begins && waits_to_begin(job));
        // One that is about to be released need not hear first that it is in its queue.
        let is_leaving = ours
            && !is_released
            && unit.standing.reason == Some(Reason::Waiting)
            && self.unit_states.get(&name).is_some_and(|state| state.verdict == Verdict::Release);
        self.want(name, !unwanted);
        match &key.kind {
            JobKind::Known(ConsumerKind::Framework) if waits && !is_leaving => {
                self.tell(key, uid, admission);
            }
            JobKind::Known(ConsumerKind::Job | ConsumerKind::JobSet) if resumes => {
                self.offer(Work::Job(key.clone()))
            }
            JobKind::Known(_) | JobKind::Other(_) | JobKind::Itself => {}
        }
    }

    /// Whether the first unit of a job lets it begin. One that is being deleted lets nobody begin any more.
    pub(super) fn lets_begin(&self, key: &ConsumerKey, unit: &UnitObject, job: &Consumer) -> bool {
        unit.owner.as_ref() == Some(&job.uid)
            && unit.standing.phase == Some(Phase::Dequeued)
            && !is_outgrown(unit, job)
            && (!unit.deleting || self.may_have_begun(key, job))
    }

    /// Whether a job that is seen to wait may have begun: it was told that it may as it is, or is being
    /// resumed as it is.
    fn may_have_begun(&self, key: &ConsumerKey, job: &Consumer) -> bool {
        let Some(state) = self.job_states.get(key) else { return false };
        let released = Admission::Released { generation: job.generation };
        match key.kind {
            JobKind::Known(ConsumerKind::Framework) => {
                state.told.as_ref().is_some_and(|(uid, told)| *uid == job.uid && *told == released)
            }
            _ => state.resumed.as_ref() == Some(&(Arc::clone(&job.uid), job.resource_version)),
        }
    }

    /// Whether nothing has begun, or will, by the release of a unit that is being deleted: its job asks for
    /// another one then. Until it is gone it holds what it was given all the same.
    pub(super) fn is_void(&self, unit: &UnitObject) -> bool {
        let key = &unit.consumer;
        let Some(job) = self.consumers.get(key).filter(|job| job.stage == Stage::Waiting) else {
            return false;
        };
        let is_first = unit.owner.as_ref() == Some(&job.uid) && key.unit().as_ref() == Some(&unit.key);
        // What a predecessor has sent may land yet, but not once its job has outgrown the unit.
        let may_land = || self.unsettled.contains_key(&unit.key.namespace);
        let may_begin = || may_land() || self.may_have_begun(key, job);
        is_first && unit.deleting && !self.used.contains_key(key) && (is_outgrown(unit, job) || !may_begin())
    }

    /// Whether a unit is to stay. One that may be released already is let be: whoever came first wins.
    pub(super) fn want(&mut self, name: Key, wanted: bool) {
        let Some(state) = self.unit_states.get_mut(&name) else { return };
        let unwanted = !wanted && state.releasing.is_none();
        if state.unwanted != unwanted {
            state.unwanted = unwanted;
            self.stale_units.insert(name.clone());
            self.offer(Work::Unit(name));
        }
    }

    fn tell(&mut self, key: &ConsumerKey, uid: Arc<str>, admission: Admission) {
        let state = self.job_states.entry(key.clone()).or_default();
        let news = Some((Arc::clone(&uid), admission.clone()));
        if state.told != news {
            state.told = news;
            self.outcomes.push(Outcome::Admit { key: key.key.clone(), uid, admission });
        }
    }

    /// Says what has been stored of a unit. Why it waits is worth an Event, but not that it was put into its
    /// queue; nor the release of a Framework, which has an Event of its own.
    pub(super) fn announce(&mut self, key: &Key, before: Option<Reason>, time: Timestamp) {
        let Some(unit) = self.units.get(key) else { return };
        let Some(reason) = unit.standing.reason.filter(|reason| Some(*reason) != before) else { return };
        let since = self.enqueued(unit);
        let waited = (reason == Reason::Admitted).then(|| Wait {
            queue: Key { namespace: Arc::clone(&key.namespace), name: Arc::clone(&unit.queue) },
            priority: self.priority(unit.priority, unit.class.as_deref()).unwrap_or_default(),
            time: Duration::try_from(time.duration_since(since)).unwrap_or(Duration::ZERO),
        });
        let is_event = match reason {
            Reason::Waiting => false,
            Reason::Admitted => unit.consumer.kind != JobKind::Known(ConsumerKind::Framework),
            _ => true,
        };
        self.outcomes.push(Outcome::Tell {
            unit: key.clone(),
            uid: Arc::clone(&unit.uid),
            reason,
            note: is_event.then(|| unit.standing.message.clone()),
            waited,
        });
    }
}

/// Whether a job waits for a unit of its own.
pub(super) fn wants_unit(job: &Consumer) -> bool {
    job.stage == Stage::Waiting && job.queue.is_some() && !job.deleting
}

/// Whether a job of which nothing has begun asks for more by now than its unit: it came to do so while the
/// unit was being released.
fn is_outgrown(unit: &UnitObject, job: &Consumer) -> bool {
    let (Ok(given), Ok(asks)) = (&unit.ask, &job.ask) else { return false };
    job.stage == Stage::Waiting && asks.iter().any(|(resource, amount)| amount > given.get(resource))
}

/// Why its unit does not let a Framework begin.
fn waiting(unit: &UnitObject) -> Admission {
    if unit.standing.phase == Some(Phase::Dequeued) {
        let message =
            format!("the QueueUnit {} was released for less, or deleted: it is made anew", unit.key.name);
        return Admission::Waiting { reason: Reason::Waiting.to_string(), message };
    }
    let reason = unit.standing.reason.unwrap_or(Reason::Waiting).to_string();
    Admission::Waiting { reason, message: unit.standing.message.clone() }
}

/// What a Framework hears whose unit cannot be made yet.
fn taken(unit: &UnitObject) -> Admission {
    let message = format!("the name {} is taken by a QueueUnit of another job", unit.key.name);
    Admission::Waiting { reason: "NameConflict".to_owned(), message }
}

/// Whether a job is suspended, and may be resumed.
pub(super) fn waits_to_begin(job: &Consumer) -> bool {
    job.stage == Stage::Waiting && !job.deleting
}
