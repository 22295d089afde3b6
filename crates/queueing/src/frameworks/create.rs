//! The POSTs of units.

use std::ops::Bound;
use std::sync::Arc;

use framework_core::queue::Stage;
use framework_message::{Key, Now, Slot};

use super::FrameworkUnits;
use crate::consumer::{Consumer, ConsumerKey, Growth, NamedKind};
use crate::outgoing::{Sent, Work};
use crate::request::{QueueRequest, UnitCreation};

impl FrameworkUnits {
    /// Whether a Framework lacks a unit.
    pub(super) fn wants_create(&self, key: &Key) -> bool {
        self.creation(key).is_some()
    }

    /// The POST that a Framework needs now, if it needs one.
    pub(super) fn create(&mut self, now: Now, job: &ConsumerKey) -> Option<(Sent, QueueRequest, Slot)> {
        let key = &job.key;
        let creation = self.creation(key)?;
        let slot = Slot::of(&creation.uid);
        if !self.may_act(now, &creation.uid, key) {
            return None;
        }
        let state = self.unit_requests.entry(key.clone()).or_default();
        if state.busy.as_ref() == Some(&creation.uid) {
            return None;
        }
        if now.steady < state.not_before {
            self.outgoing.offer_at(state.not_before, Work::Job(job.clone()));
            return None;
        }
        state.busy = Some(Arc::clone(&creation.uid));
        state.growth = job.generation_of(&creation.unit);
        let sent = Sent::Create(job.clone(), Arc::clone(&creation.uid));
        Some((sent, QueueRequest::CreateUnit(creation), slot))
    }

    fn creation(&self, key: &Key) -> Option<UnitCreation> {
        let framework = self.frameworks.get(key)?.framework.as_ref()?;
        let job = ConsumerKey::of_framework(key.clone());
        let first = job.unit()?;
        if framework.wants_unit() {
            return self.units.get(&first).is_none().then(|| self.first_creation(&job, framework)).flatten();
        }
        self.growth_creation(&job, framework)
    }

    /// If a template cannot be decoded, its requests are unknown: the Framework gets no unit, and reports it.
    fn first_creation(&self, job: &ConsumerKey, framework: &Consumer) -> Option<UnitCreation> {
        let state = self.unit_requests.get(&job.key);
        Some(UnitCreation {
            unit: job.unit()?,
            kind: NamedKind::Framework,
            job: job.key.clone(),
            uid: Arc::clone(&framework.uid),
            queue: Arc::clone(framework.queue.as_ref()?),
            class: framework.class.clone(),
            priority: state.and_then(|state| state.priority_of(&framework.uid)),
            requests: framework.requests.clone().ok()?,
            enqueued: framework.created,
        })
    }

    /// The unit of the first growth that has none. After one that the API server refused, the next one has
    /// its turn. Queue and priority are those of the first unit.
    fn growth_creation(&self, job: &ConsumerKey, framework: &Consumer) -> Option<UnitCreation> {
        if framework.deleting || framework.stage == Stage::Finished {
            return None;
        }
        let missing = |(generation, growth): (&i64, &Growth)| {
            let unit = job.growth_unit(*generation)?;
            let requests = growth.requests.clone().ok()?;
            self.units.get(&unit).is_none().then_some((unit, requests, growth.since))
        };
        let state = self.unit_requests.get(&job.key);
        let refused = state.and_then(|state| state.refused_growth(&framework.uid));
        let next = refused.map_or(Bound::Unbounded, Bound::Excluded);
        let mut growths = framework.growths.range((next, Bound::Unbounded)).chain(&framework.growths);
        let (unit, requests, enqueued) = growths.find_map(missing)?;
        let first = self.units.get(&job.unit()?);
        let first = first.filter(|unit| unit.owner.as_ref() == Some(&framework.uid));
        Some(UnitCreation {
            unit,
            kind: NamedKind::Framework,
            job: job.key.clone(),
            uid: Arc::clone(&framework.uid),
            queue: Arc::clone(framework.queue.as_ref()?),
            class: first.map_or_else(|| framework.class.clone(), |first| first.class.clone()),
            priority: first.and_then(|first| first.priority),
            requests,
            enqueued,
        })
    }
}
