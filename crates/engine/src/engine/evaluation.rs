//! Evaluates Frameworks: their observations go to the core in one batch, and the plans come back.

use std::sync::Arc;
use std::time::Duration;

use framework_api::State;
use framework_core::batch::{Panicked, sync_all};
use framework_core::observed::{Objects, Outcome};
use framework_core::{Defect, Moment, Observed, Plan, Urgency};

use super::Engine;
use crate::cache::Entry;
use crate::event::Effect;
use crate::framework_state::FrameworkState;
use crate::history::Line;
use crate::persisted::Persisted;
use crate::status_write::Draft;
use framework_message::backoff::mix;
use framework_message::{Key, MayAct, Now};
use tracing::error;

/// The least time between evaluations of one Framework, for each Task: as between its status writes
/// ([`Windows`](crate::windows::Windows)), because an earlier evaluation would seldom write anything. A burst
/// of events is evaluated once in that time. The acts that a write of ours permits do not wait for it
/// ([`Schedule::wrote`](crate::schedule::Schedule::wrote)).
const REST_PER_TASK: Duration = Duration::from_micros(100);
/// A shorter rest counts as none: the events of one turn are evaluated together anyway, and timers are no
/// finer.
const LEAST_REST: Duration = Duration::from_millis(1);

impl Engine {
    /// Evaluates every Framework whose time has come.
    pub(super) fn evaluate(&mut self, now: Now, seed: u128) {
        if self.clock.take_reset(now.steady) {
            self.schedule_all(now);
        }
        let mut keys = self.ready.take(now.steady);
        keys.retain(|key| {
            if self.is_paused(now, key) {
                return false;
            }
            self.seek_proof(now, key);
            let wanted = self.wants_evaluation(now, key);
            if !wanted {
                self.schedule(now, key);
            }
            wanted
        });
        let plans = self.plan(now, seed, &keys);
        for (key, plan) in keys.iter().zip(plans) {
            match plan {
                Ok(plan) => self.absorb(now, key, plan),
                Err(panicked) => self.leave_alone(key, &panicked),
            }
            self.schedule(now, key);
        }
    }

    /// Whether the slot of a Framework is paused. It is set aside then, with all that is due.
    fn is_paused(&mut self, now: Now, key: &Key) -> bool {
        let state = self.cache.get(key).and_then(|entry| entry.state.as_ref());
        let Some(slot) = state.map(|state| state.slot) else { return false };
        let is_paused = self.ownership.may_act(slot, now) == MayAct::Paused;
        if is_paused {
            self.paused.add(slot, key.clone());
        }
        is_paused
    }

    /// Requests the API server's time if that time may be late enough for the Framework's proof. A Framework
    /// that is drained needs none; a proof that stayed due would wake the engine at once, again and again.
    fn seek_proof(&mut self, now: Now, key: &Key) {
        let latest = self.clock.time.latest(now);
        let state = self.cache.get_mut(key).and_then(|entry| entry.state.as_mut());
        if let Some(state) = state
            && state.schedule.take_proof(latest)
            && !self.drain.contains(state.slot)
        {
            self.clock.probe.wait(key);
        }
    }

    /// Whether something of a Framework is due, and may be done now.
    pub(super) fn wants_evaluation(&mut self, now: Now, key: &Key) -> bool {
        let Some(entry) = self.cache.get_mut(key) else { return false };
        let Entry { known, state: Some(state) } = entry else { return false };
        state.release(now.steady, key, known);
        let (slot, is_evaluable) = (state.slot, state.is_evaluable());
        let is_drained = self.drain.contains(slot) && !entry.has_unrecorded();
        if !is_evaluable || !self.is_ready(slot) {
            return false;
        }
        let (may_act, time) = (self.ownership.may_act(slot, now), self.clock.time);
        if may_act == MayAct::Paused {
            // Since it was asked a moment ago. The member runs in another task.
            self.paused.add(slot, key.clone());
            return false;
        }
        let Some(state) = self.state(key) else { return false };
        if is_drained || may_act == MayAct::No {
            // Only an event makes the Framework wanted again.
            state.schedule.forget();
            state.outgoing.write.withdraw();
            return false;
        }
        state.schedule.is_due(now, &time)
    }

    fn plan(&self, now: Now, seed: u128, keys: &[Key]) -> Vec<Result<Plan, Panicked>> {
        let wall = self.clock.time.now(now);
        let is_forgetful = self.policy.defects.has(Defect::ForgetInFlight);
        let forgetful: Vec<Objects> =
            if is_forgetful { keys.iter().map(|key| self.forgetful(key)).collect() } else { Vec::new() };
        let mut batch = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let Some(entry) = self.cache.get(key) else { continue };
            let (Some(observed), Some(state)) = (entry.observed(), &entry.state) else { continue };
            let objects = forgetful.get(batch.len()).unwrap_or(observed.objects);
            let moment =
                Moment { now: wall, server: state.schedule.server_time(), seed: derive(seed, index) };
            batch.push((Observed { objects, ..observed }, moment));
        }
        debug_assert_eq!(batch.len(), keys.len(), "every key that is evaluated has a version to evaluate");
        sync_all(&batch, &self.policy)
    }

    /// The observation as if creates in flight were forgotten: see [`Defect::ForgetInFlight`].
    fn forgetful(&self, key: &Key) -> Objects {
        let mut objects = self.cache.get(key).map(|entry| entry.known.objects.clone()).unwrap_or_default();
        objects.pod_creates.retain(|_, create| create.outcome != Outcome::InFlight);
        objects
    }

    /// The evaluation of a Framework panicked: nothing happens to it until its object changes.
    pub(super) fn leave_alone(&mut self, key: &Key, Panicked(message): &Panicked) {
        error!(framework = %key, reason = message, "a Framework is left alone: its evaluation panicked");
        let Some(state) = self.state(key) else { return };
        state.leave_alone(&format!("its evaluation panicked, a defect of the controller: {message}"));
        if let Some((framework, report)) = state.quarantine.report(&mut state.reported) {
            self.effects.push(Effect::Publish { framework, reports: vec![report] });
        }
    }

    fn absorb(&mut self, now: Now, key: &Key, plan: Plan) {
        let Some(state) = self.state(key) else { return };
        let Some(persisted) = &state.persisted else { return };
        let rest = rest_after(persisted);
        state.schedule.planned(now.steady, rest, plan.wake, plan.proof_due);
        self.seek_proof(now, key);
        let Some(Entry { state: Some(state), .. }) = self.cache.get_mut(key) else { return };
        let (is_draining, size) = (self.drain.contains(state.slot), state.status_size());
        let FrameworkState { persisted: Some(persisted), outgoing, schedule, .. } = state else { return };
        let status: Option<Arc<_>> = plan.persist.map(Arc::from);
        let mut acts = if is_draining { Vec::new() } else { plan.act };
        let settles_at = outgoing.hold_back_inherited(persisted, &mut acts);
        if let Some(settles_at) = settles_at.filter(|at| *at > now.steady) {
            schedule.settle_at(settles_at);
        }
        outgoing.queue(now.steady, &persisted.framework, acts, status.as_deref(), &self.policy);
        let is_over = settles_at.is_some_and(|at| at <= now.steady);
        let Some(status) = status else {
            outgoing.write.withdraw();
            if is_over {
                // A read shows what that write has stored. A write of ours would show it, too.
                outgoing.write.doubt();
            }
            return self.publish(key, plan.report);
        };
        if is_over && outgoing.write.is_failing() {
            // A write of ours that is refused shows nothing.
            return outgoing.write.doubt();
        }
        if !outgoing.keeps_permits(&persisted.framework, &status, &self.policy) {
            // The create's reply marks the Framework dirty, and the status is decided again.
            return outgoing.write.hold_back(now.steady);
        }
        let urgency = if is_draining { Urgency::Now } else { plan.urgency };
        let history = Line::replaced(persisted, plan.snapshots);
        let draft = Draft { status, reports: plan.report, history };
        let windows = self.pace.windows();
        if let Some(due) = outgoing.write.propose(draft, urgency, size, &windows, now.steady) {
            schedule.write_at(due);
        }
    }
}

/// How long a Framework is not evaluated again.
fn rest_after(persisted: &Persisted) -> Duration {
    let state = persisted.status.as_ref().map(|status| status.state);
    // There are no Pods yet that could cause a burst of events, and their creation waits for each event.
    if matches!(state, None | Some(State::AttemptCreationPending | State::AttemptCreationRequested)) {
        return Duration::ZERO;
    }
    let rest = REST_PER_TASK * u32::try_from(persisted.tasks()).unwrap_or(u32::MAX);
    if rest < LEAST_REST { Duration::ZERO } else { rest }
}

/// The seed of the evaluation at `index` of a turn.
fn derive(seed: u128, index: usize) -> u128 {
    let index = u64::try_from(index).unwrap_or(u64::MAX);
    let high = mix((seed >> 64) as u64 ^ index);
    let low = mix(seed as u64 ^ high);
    u128::from(high) << 64 | u128::from(low)
}
