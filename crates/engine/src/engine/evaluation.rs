//! Evaluates Frameworks: what is observed of them goes to the core in one batch, and the plans come back.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "defects")]
use framework_core::Defect;
use framework_core::batch::sync_all;
#[cfg(feature = "defects")]
use framework_core::observed::{Objects, Outcome};
use framework_core::{Moment, Observed, Plan, Urgency};

use super::{Engine, has_unrecorded};
use crate::cache::Entry;
use crate::status_write::Draft;
use framework_message::backoff::mix;
use framework_message::{Key, Now};

/// A burst of events is evaluated once in so much time for each Task: about what an evaluation costs.
const REST_PER_TASK: Duration = Duration::from_micros(10);
/// A shorter rest is none: what a turn takes in together is evaluated once anyway, and timers are no finer.
const LEAST_REST: Duration = Duration::from_millis(1);

impl Engine {
    /// Evaluates every Framework whose time has come.
    pub(super) fn evaluate(&mut self, now: Now, seed: u128) {
        let mut keys = self.ready.take(now.steady);
        keys.retain(|key| {
            self.seek_proof(now, key);
            let wanted = self.wants_evaluation(now, key);
            if !wanted {
                self.schedule(now, key);
            }
            wanted
        });
        let plans = self.plan(now, seed, &keys);
        for (key, plan) in keys.iter().zip(plans) {
            self.absorb(now, key, plan);
            self.schedule(now, key);
        }
    }

    /// Asks the API server for its time, if it may be late enough there for what the Framework waits for.
    fn seek_proof(&mut self, now: Now, key: &Key) {
        let latest = self.time.latest(now);
        let state = self.cache.get_mut(key).and_then(|entry| entry.state.as_mut());
        if let Some(state) = state
            && self.draining.is_none()
            && state.proof_due.is_some_and(|due| due.timestamp() <= latest)
        {
            state.proof_due = None;
            self.time_probe.wait(key);
        }
    }

    fn wants_evaluation(&mut self, now: Now, key: &Key) -> bool {
        let ready = self.is_ready();
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return false };
        state.release(now.steady, known);
        if !ready || !state.is_evaluable() {
            return false;
        }
        let draining = self.draining.is_some() && !has_unrecorded(&known.objects);
        if draining || !self.ownership.may_act(state.slot, now.steady) {
            // Whoever makes it wanted again stirs it.
            state.dirty = false;
            (state.wake, state.due, state.proof_due) = (None, None, None);
            state.write.withdraw();
            return false;
        }
        let dirty = state.dirty && state.not_before <= now.steady;
        dirty || state.is_due(now, &self.time)
    }

    fn plan(&self, now: Now, seed: u128, keys: &[Key]) -> Vec<Plan> {
        let wall = self.time.now(now);
        #[cfg(feature = "defects")]
        let forgetful: Vec<Objects> = keys.iter().map(|key| self.forgetful(key)).collect();
        let mut batch = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let Some(entry) = self.cache.get(key) else { continue };
            let (Some(observed), Some(state)) = (observed(entry), &entry.state) else { continue };
            #[cfg(feature = "defects")]
            let observed = match self.policy.defects.has(Defect::ForgetInFlight) {
                true => Observed { objects: &forgetful[batch.len()], ..observed },
                false => observed,
            };
            let moment = Moment { now: wall, server: state.server_time, seed: derive(seed, index) };
            batch.push((observed, moment));
        }
        debug_assert_eq!(batch.len(), keys.len(), "every key that is evaluated has a version to evaluate");
        sync_all(&batch, &self.policy)
    }

    /// What would be observed if creates on their way were forgotten.
    #[cfg(feature = "defects")]
    fn forgetful(&self, key: &Key) -> Objects {
        if !self.policy.defects.has(Defect::ForgetInFlight) {
            return Objects::default();
        }
        let mut objects = self.cache.get(key).map(|entry| entry.known.objects.clone()).unwrap_or_default();
        objects.pod_creates.retain(|_, create| create.outcome != Outcome::InFlight);
        objects
    }

    fn absorb(&mut self, now: Now, key: &Key, plan: Plan) {
        let Some(Entry { state: Some(state), .. }) = self.cache.get_mut(key) else { return };
        let tasks = state.tasks();
        state.dirty = false;
        state.server_time = None;
        let rest = REST_PER_TASK * u32::try_from(tasks).unwrap_or(u32::MAX);
        state.not_before = if rest < LEAST_REST { now.steady } else { now.steady + rest };
        // What is due already is in the plan: only a later wake adds to it.
        let wake = plan.wake.filter(|wake| *wake > self.time.now(now));
        (state.wake, state.due) = (None, wake);
        state.proof_due = plan.proof_due;
        self.seek_proof(now, key);
        let Some(Entry { state: Some(state), .. }) = self.cache.get_mut(key) else { return };
        let status: Option<Arc<_>> = plan.persist.map(Arc::from);
        let draining = self.draining.is_some();
        let acts = if draining { Vec::new() } else { plan.act };
        state.queue(acts, status.as_deref(), &self.policy);
        let Some(status) = status else {
            state.write.withdraw();
            return self.publish(key, plan.report);
        };
        if !state.keeps_permits(&status, &self.policy) {
            // Its settling stirs the Framework, and the status is decided anew.
            return state.write.hold_back(now.steady);
        }
        let urgency = if draining { Urgency::Now } else { plan.urgency };
        let history = state.history(plan.snapshots);
        let draft = Draft { status, reports: plan.report, history };
        let bytes = state.status_bytes();
        let windows = self.windows.stretched(self.round_trip);
        if let Some(due) = state.write.propose(draft, urgency, bytes, &windows, now.steady) {
            state.wake = Some(state.wake.map_or(due, |wake| wake.min(due)));
        }
    }
}

/// What is observed of a Framework; `None` if it cannot be read, or is gone.
pub(super) fn observed(entry: &Entry) -> Option<Observed<'_>> {
    entry.state.as_ref()?.observed(&entry.known.objects)
}

/// A seed of its own for the evaluation at `index` of a turn.
fn derive(seed: u128, index: usize) -> u128 {
    let index = u64::try_from(index).unwrap_or(u64::MAX);
    let high = mix((seed >> 64) as u64 ^ index);
    let low = mix(seed as u64 ^ high);
    u128::from(high) << 64 | u128::from(low)
}
