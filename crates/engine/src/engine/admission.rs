//! The answers of queues to the Frameworks that wait in them.

use framework_core::observed::Admission;

use super::Engine;
use crate::framework_state::FrameworkState;
use framework_message::{Key, Now};

impl Engine {
    /// Records the answer of its queue to the Framework with this UID. The answer is kept as long as the
    /// Framework is, and does not hold for another one of that name. A new message alone causes no
    /// evaluation.
    pub fn admit(&mut self, now: Now, key: &Key, uid: &str, admission: Admission) {
        self.now = now;
        let Some(state) = self.state(key).filter(|state| &*state.uid == uid) else { return };
        let is_news = match (&state.admission, &admission) {
            (Some(Admission::Waiting { reason: before, .. }), Admission::Waiting { reason, .. }) => {
                before != reason
            }
            (before, admission) => before.as_ref() != Some(admission),
        };
        if is_news {
            state.admission = Some(admission);
            state.schedule.mark_dirty(now.steady);
            self.schedule(now, key);
        }
    }

    /// Records the released growths of that Framework: their generations, sorted.
    pub fn admit_growths(&mut self, now: Now, key: &Key, uid: &str, growths: Vec<i64>) {
        self.now = now;
        let news = |state: &&mut FrameworkState| *state.uid == *uid && state.growths != growths;
        let Some(state) = self.state(key).filter(news) else { return };
        state.growths = growths;
        state.schedule.mark_dirty(now.steady);
        self.schedule(now, key);
    }
}
