//! Finds the attempts that ended when a status was replaced or its Framework deleted: for metrics and traces.

use framework_api::{FrameworkStatus, Time};
use framework_core::snapshot::Trigger;
use framework_message::Key;

use super::Engine;
use crate::event::{Effect, Measure};
use crate::history::Line;
use crate::outcomes::{Outcomes, creation_to_running};
use crate::persisted::Persisted;
use crate::traces;

impl Engine {
    /// The status of a Framework, which was `before`, was replaced.
    pub(super) fn status_replaced(&mut self, key: &Key, before: &FrameworkStatus) {
        let state = self.cache.get(key).and_then(|entry| entry.state.as_ref());
        let Some(Persisted { framework, status: Some(after), .. }) =
            state.and_then(|state| state.persisted.as_ref())
        else {
            return;
        };
        let attempts = Outcomes::between(before, after).map(Measure::Attempts);
        let running = creation_to_running(framework, before, after).map(|after| Measure::Running { after });
        self.effects.extend(attempts.into_iter().chain(running).map(Effect::Measure));
        if let Some(sampling) = self.settings.traces {
            let spans = traces::ended(sampling, framework, before, after, self.seen_at());
            self.effects.extend((!spans.is_empty()).then_some(Effect::Trace(spans)));
        }
    }

    /// The history has a line that may say that a Framework was deleted.
    pub(super) fn trace_deletion(&mut self, line: &Line) {
        if let (Some(sampling), Line::Framework { trigger, framework, status: Some(status), .. }) =
            (self.settings.traces, line)
            && *trigger == Trigger::OnFrameworkDeletion
        {
            let spans = traces::cut_off(sampling, framework, status, self.seen_at());
            self.effects.extend((!spans.is_empty()).then_some(Effect::Trace(spans)));
        }
    }

    /// The time of the API server's clock, as far as it is known.
    fn seen_at(&self) -> Time {
        Time::floor(self.time(self.now))
    }
}
