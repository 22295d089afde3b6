//! When status writes that failed are repeated.

use std::time::Duration;

use framework_message::{Key, Now};

use super::{Engine, Sending};
use crate::framework_state::FrameworkState;

impl Engine {
    /// A write of the status failed, and waits for its back-off. `is_trouble`: the API server could not take
    /// it, so that those of other Frameworks fail, too. Returns when it is repeated.
    pub(super) fn repeat_at(&mut self, now: Now, key: &Key, delay: Duration, is_trouble: bool) -> Duration {
        let own = now.steady + delay;
        let Sending { trouble, budget, .. } = &mut self.sending;
        let (at, traded) =
            if is_trouble { trouble.repeat(key, now.steady, own, budget.qps()) } else { (own, None) };
        if let Some((other, until)) = traded
            && let Some(state) = self.state(&other)
        {
            state.outgoing.write.wait_until(until);
        }
        if let Some(state) = self.state(key) {
            state.outgoing.write.wait_until(at);
        }
        at
    }

    /// The API server takes writes: one of those that wait for the end of trouble need not. A write that was
    /// stored without a reply has left its Framework among them, which waits no more.
    pub(super) fn release_one(&mut self, now: Now) {
        while let Some((key, until)) = self.sending.trouble.accepted(now.steady) {
            let waits = |state: &&mut FrameworkState| state.outgoing.write.waits(now.steady);
            let Some(state) = self.state(&key).filter(waits) else { continue };
            state.outgoing.write.wait_only_until(until);
            state.schedule.mark_dirty(now.steady);
            return self.schedule(now, &key);
        }
    }
}
