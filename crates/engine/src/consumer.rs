//! A Framework as it was last reported to the controller of QueueUnits.

use std::sync::Arc;

use framework_core::growth::{self, UnitDemand};
use framework_core::queue::{self, Stage};
use framework_core::{Observed, Policy};

use crate::event::QueuedFramework;
use crate::framework_state::FrameworkState;

/// The facts about a Framework that are reported to the controller of QueueUnits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    uid: Arc<str>,
    generation: Option<i64>,
    queue: Option<Arc<str>>,
    stage: Stage,
    deleting: bool,
    demands: Vec<UnitDemand>,
    /// The version of these facts.
    seen: u128,
}

impl Consumer {
    /// The facts about an observed Framework, after those `before`; `None`: nothing has changed, or the
    /// Framework concerns no queue.
    pub fn of(
        before: Option<&Self>,
        state: &FrameworkState,
        o: &Observed<'_>,
        policy: &Policy,
    ) -> Option<Self> {
        let (framework, status) = (o.framework, o.status);
        let stage = queue::stage_now(o, policy);
        // Events of its Pods alone cost nothing.
        let (version, uid) = (state.resource_version, &state.uid);
        if before.is_some_and(|before| (before.seen, before.stage, &before.uid) == (version, stage, uid)) {
            return None;
        }
        let queue = queue::is_queued(framework, status);
        let was_reported = before.is_some_and(|before| before.uid == state.uid);
        let may_have_unit = queue::names_one(framework) || queue::has_waited(status);
        if queue.is_none() && !was_reported && !may_have_unit {
            return None;
        }
        Some(Consumer {
            uid: Arc::clone(&state.uid),
            generation: framework.metadata.generation,
            queue: queue.map(Arc::from),
            stage,
            deleting: framework.metadata.deletion_timestamp.is_some(),
            demands: growth::unit_demands(o, policy),
            seen: version,
        })
    }

    /// Whether these facts differ from `before`; their versions do not count.
    pub fn is_news(&self, before: Option<&Self>) -> bool {
        before.is_none_or(|before| *before != Consumer { seen: before.seen, ..self.clone() })
    }

    /// The report: the Framework with these facts.
    pub fn queued(&self, framework: &Arc<framework_api::Framework>) -> QueuedFramework {
        QueuedFramework {
            framework: Arc::clone(framework),
            queue: self.queue.clone(),
            stage: self.stage,
            demands: self.demands.clone(),
        }
    }
}
