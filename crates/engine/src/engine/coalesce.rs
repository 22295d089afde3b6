//! Deferrable events are coalesced: they are evaluated together with the next status write.

use framework_core::{Observed, deferrable};

use super::Engine;
use framework_message::{Key, Now};

impl Engine {
    /// The watch showed another version of a Pod: its Framework is evaluated, now or when more changes have
    /// gathered.
    pub(super) fn pod_moved(&mut self, now: Now, key: &Key, pod: &str) {
        if self.join(now, key, |observed| deferrable::is_deferrable(observed, pod)) {
            self.schedule(now, key);
        } else {
            self.mark_dirty(now, key, true);
        }
    }

    /// As [`Engine::pod_moved`], for an accepted create.
    pub(super) fn pod_created(&mut self, now: Now, key: &Key, pod: Option<&str>) {
        let is_deferrable =
            |observed: &Observed<'_>| pod.is_some_and(|pod| deferrable::is_deferrable_create(observed, pod));
        if !self.join(now, key, is_deferrable)
            && let Some(state) = self.state(key)
        {
            state.event(now.steady);
        }
    }

    /// Records an event that may be deferrable. Returns whether it is.
    fn join(&mut self, now: Now, key: &Key, is_deferrable: impl Fn(&Observed<'_>) -> bool) -> bool {
        // If a rule is switched off, every event is evaluated immediately, so that the missing rule shows.
        if !self.policy.defects.is_empty() {
            return false;
        }
        let Some(entry) = self.cache.get(key) else { return false };
        let Some(slot) = entry.state.as_ref().map(|state| state.slot) else { return false };
        if self.drain.contains(slot) || !self.is_ready(slot) {
            return false;
        }
        // Once the number of unrecorded creates reaches its limit, the next write must not wait.
        let expectations = entry.known.objects.expectations();
        if expectations >= self.policy.expectations_limit
            || !entry.observed().is_some_and(|o| is_deferrable(&o))
        {
            return false;
        }
        let windows = self.pace.windows();
        let Some(state) = self.state(key) else { return false };
        if state.schedule.dirty_since().is_some() || !state.is_evaluable() {
            return false;
        }
        let Some(due) = state.outgoing.write.join(state.status_size(), &windows, now.steady) else {
            return false;
        };
        state.schedule.write_at(due);
        true
    }
}
