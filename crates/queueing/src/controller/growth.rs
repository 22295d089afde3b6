//! Growths of released Frameworks: each one has a unit of its own beside the first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use framework_api::queue::{ConsumerKind, Phase};
use framework_core::Defect;
use framework_core::queue::Stage;
use framework_queue::ResourceRequests;
use jiff::Timestamp;

use super::QueueController;
use crate::consumer::{Consumer, ConsumerKey, Growth, JobKind};
use crate::object::UnitObject;
use crate::outcome::Outcome;
use crate::outgoing::Work;
use crate::request::Request;
use crate::usage::less;
use framework_message::Key;

/// The quota that released units of jobs reserve. The units of one job are computed together, and once.
#[derive(Debug, Default)]
pub(super) struct Shares(BTreeMap<ConsumerKey, BTreeMap<Key, ResourceRequests>>);

impl Shares {
    /// The quota that a unit reserves if it is released, or may be. It is the sum of the present requests of
    /// its Tasks, at most those it was released with, and of the usage of removed Tasks whose Pods remain.
    pub fn of(&mut self, unit: &UnitObject, controller: &QueueController) -> ResourceRequests {
        if !self.0.contains_key(&unit.consumer) {
            self.0.insert(unit.consumer.clone(), controller.shares(&unit.consumer));
        }
        self.0.get(&unit.consumer).and_then(|shares| shares.get(&unit.key)).cloned().unwrap_or_default()
    }
}

impl QueueController {
    /// The quota that the released units of a job reserve. Usage beyond the present requests is of removed
    /// Tasks. It is attributed to the youngest growths first, because a shrink removes these first.
    fn shares(&self, job: &ConsumerKey) -> BTreeMap<Key, ResourceRequests> {
        let units = self.objects.units_of(job).filter_map(|key| self.objects.units.get(key));
        let is_released = |unit: &&UnitObject| {
            let releasing =
                || self.unit_states.get(&unit.key).is_some_and(|state| state.writes.releasing.is_some());
            unit.status.phase == Some(Phase::Dequeued) || releasing()
        };
        let mut released: Vec<_> = units
            .filter(is_released)
            .map(|unit| {
                let given = unit.requests.clone().unwrap_or_default();
                let base = given.min(&self.asks_now(unit));
                (Reverse(job.generation_of(&unit.key)), unit.key.clone(), given, base)
            })
            .collect();
        released.sort_unstable_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        let mut used = self.usage.of(job).map(|used| used.requests.clone()).unwrap_or_default();
        if self.settings.defects.has(Defect::ReturnAtEnd) {
            used = ResourceRequests::default();
        }
        for (_, _, _, base) in &released {
            used = less(&used, base);
        }
        let share = |(_, key, given, base): (_, Key, ResourceRequests, ResourceRequests)| {
            let more = less(&given, &base).min(&used);
            used = less(&used, &more);
            (key, base.plus(&more))
        };
        released.into_iter().map(share).collect()
    }

    /// The present requests of the Tasks of a unit.
    fn asks_now(&self, unit: &UnitObject) -> ResourceRequests {
        let given = || unit.requests.clone().unwrap_or_default();
        if !self.objects.sees(&unit.consumer.kind) {
            return given();
        }
        let same = |job: &&Consumer| unit.consumer_uid.as_ref().is_none_or(|uid| *uid == job.uid);
        let job = self.objects.consumers.get(&unit.consumer).filter(same);
        let Some(job) = job.filter(|job| job.stage != Stage::Finished) else {
            return ResourceRequests::default();
        };
        let requests = match generation(unit, job) {
            // It may come to ask for as much again, until it has begun with less.
            None if job.stage == Stage::Waiting => return given(),
            None => &job.requests,
            Some(generation) => match job.growths.get(&generation) {
                Some(growth) => &growth.requests,
                None => return ResourceRequests::default(),
            },
        };
        requests.clone().unwrap_or_else(|_| given())
    }

    /// Since when a unit waits: since its job was created, or grew. A new attempt adds all Tasks again, but a
    /// unit that existed before keeps its place.
    pub(super) fn enqueued(&self, unit: &UnitObject) -> Timestamp {
        let Some(job) = self.objects.consumers.get(&unit.consumer) else { return unit.created };
        match generation(unit, job) {
            None => job.created,
            Some(generation) => {
                let since = job.growths.get(&generation).map(|growth| growth.since);
                since.map_or(unit.created, |since| since.min(unit.created))
            }
        }
    }

    /// Makes sure that each growth of a job has a unit, that no other unit stays, and that growths are
    /// admitted.
    pub(super) fn sync_growths(&mut self, key: &ConsumerKey) {
        if self.growth_request(key).is_some() {
            self.offer(Work::Job(key.clone()));
        }
        let Some(job) = self.objects.consumers.get(key) else { return };
        let (mut growths, mut wanted) = (Vec::new(), Vec::new());
        for name in self.objects.units_of(key) {
            let Some(unit) = self.objects.units.get(name) else { continue };
            let Some(generation) = generation(unit, job) else { continue };
            let growth = job.growths.get(&generation);
            let is_released = unit.status.phase == Some(Phase::Dequeued);
            let stays = growth.is_some_and(|growth| is_released || fits(unit, job, growth));
            wanted.push((name.clone(), stays || unit.deleting));
            if is_released && growth.is_some() {
                growths.push(generation);
            }
        }
        growths.sort_unstable();
        let uid = Arc::clone(&job.uid);
        for (name, wanted) in wanted {
            self.set_wanted(name, wanted);
        }
        if key.kind == JobKind::Known(ConsumerKind::Framework) {
            self.admit_growths(key, uid, growths);
        }
    }

    fn admit_growths(&mut self, key: &ConsumerKey, uid: Arc<str>, growths: Vec<i64>) {
        let known = self.job_states.get(key);
        let is_news = match known {
            Some(state) => state.is_growth_news(&uid, &growths),
            None => !growths.is_empty(),
        };
        if is_news {
            let state = self.job_states.entry(key.clone()).or_default();
            state.last_growths = Some((Arc::clone(&uid), growths.clone()));
            self.outcomes.push(Outcome::AdmitGrowths { key: key.key.clone(), uid, growths });
        }
    }

    /// The request that creates the unit of the first growth that has none. Queue and priority are those of
    /// the first unit.
    pub(super) fn growth_request(&self, key: &ConsumerKey) -> Option<Request> {
        let (job, JobKind::Known(kind)) = (self.objects.consumers.get(key)?, &key.kind) else { return None };
        if job.deleting || job.stage == Stage::Finished {
            return None;
        }
        let missing = |(generation, growth): (&i64, &Growth)| {
            let unit = key.growth_unit(*generation)?;
            let requests = growth.requests.clone().ok()?;
            self.objects.units.get(&unit).is_none().then_some((unit, requests))
        };
        let (unit, requests) = job.growths.iter().find_map(missing)?;
        let first = self.objects.units.get(&key.unit()?).filter(|unit| unit.owner.as_ref() == Some(&job.uid));
        Some(Request::CreateUnit {
            unit,
            kind: *kind,
            job: key.key.clone(),
            uid: Arc::clone(&job.uid),
            queue: Arc::clone(job.queue.as_ref()?),
            class: first.map_or_else(|| job.class.clone(), |first| first.class.clone()),
            priority: first.and_then(|first| first.priority),
            requests,
        })
    }
}

/// Which growth of a job a unit that was made for it asks for; `None`: none.
pub(super) fn generation(unit: &UnitObject, job: &Consumer) -> Option<i64> {
    unit.consumer.generation_of(&unit.key).filter(|_| unit.owner.as_ref() == Some(&job.uid))
}

/// Whether the unit of a growth still has the requests and the queue of the growth.
fn fits(unit: &UnitObject, job: &Consumer, growth: &Growth) -> bool {
    job.stage != Stage::Finished
        && job.queue.as_ref() == Some(&unit.queue)
        && growth.requests == unit.requests
}
