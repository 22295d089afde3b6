//! News that can wait joins what gathers for the next status write, and is evaluated with it.

use framework_core::{Observed, deferrable};

use super::Engine;
use super::evaluation::observed;
use crate::cache::Entry;
use framework_message::{Key, Now};

impl Engine {
    /// The watch showed another version of a Pod: its Framework is evaluated, or is when more has gathered.
    pub(super) fn pod_moved(&mut self, now: Now, key: &Key, pod: &str) {
        if self.join(now, key, |observed| deferrable::is_deferrable(observed, pod)) {
            self.schedule(now, key);
        } else {
            self.mark_dirty(now, key, true);
        }
    }

    /// A create was accepted, and likewise.
    pub(super) fn pod_created(&mut self, now: Now, key: &Key, pod: Option<&str>) {
        let is_deferrable =
            |observed: &Observed<'_>| pod.is_some_and(|pod| deferrable::is_deferrable_create(observed, pod));
        if !self.join(now, key, is_deferrable)
            && let Some(state) = self.state(key)
        {
            state.event(now.steady);
        }
    }

    /// Takes note of news that can wait. Says whether it could.
    fn join(&mut self, now: Now, key: &Key, is_deferrable: impl Fn(&Observed<'_>) -> bool) -> bool {
        // With a rule switched off everything is evaluated at once, so that its absence shows.
        #[cfg(feature = "defects")]
        if !self.policy.defects.is_empty() {
            return false;
        }
        if self.draining.is_some() || !self.is_ready() {
            return false;
        }
        let Some(entry) = self.cache.get_mut(key) else { return false };
        // Once as many creates are unrecorded as may be, the next write is not to wait.
        let unrecorded = entry.known.objects.unrecorded_creates();
        if unrecorded >= self.policy.unrecorded_creates_limit
            || !observed(entry).is_some_and(|o| is_deferrable(&o))
        {
            return false;
        }
        let Entry { state: Some(state), .. } = entry else { return false };
        if state.dirty || !state.is_evaluable() {
            return false;
        }
        let windows = self.windows.stretched(self.round_trip);
        let Some(due) = state.write.join(state.status_bytes(), &windows, now.steady) else { return false };
        state.wake = Some(due);
        true
    }
}
