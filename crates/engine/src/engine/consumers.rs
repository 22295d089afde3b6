//! Frameworks that wait in a queue, or came through one, as the desk is told of them; and the budget that it
//! shares.

use std::sync::Arc;
use std::time::Duration;

use framework_core::growth::{self, UnitDemand};
use framework_core::queue::{self, Stage};

use super::Engine;
use super::evaluation::observed;
use crate::budget::Part;
use crate::event::{Effect, QueuedFramework};
use framework_message::Reply;
use framework_message::{Key, Now, Rejection};

/// What of a Framework the desk may want to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    uid: Arc<str>,
    generation: Option<i64>,
    queue: Option<Arc<str>>,
    stage: Stage,
    deleting: bool,
    demands: Vec<UnitDemand>,
    /// The version that all this is of.
    seen: u128,
}

impl Engine {
    /// Tells the desk what has changed of a Framework. One that leaves its queue is told of as long as it is
    /// there, also by a controller that is started later: its unit has to go.
    pub(super) fn tell_consumer(&mut self, key: &Key) {
        if !self.policy.queueing {
            return;
        }
        let entry = self.cache.get(key);
        let Some(state) = entry.and_then(|entry| entry.state.as_ref()) else {
            if self.consumers.remove(key).is_some() {
                self.effects.push(Effect::Queued { key: key.clone(), framework: None });
            }
            return;
        };
        // One that cannot be read is what it was.
        let Some(o) = entry.and_then(observed) else { return };
        let (framework, status) = (o.framework, o.status);
        let known = self.consumers.get(key);
        let stage = queue::stage_now(&o, &self.policy);
        // News of its Pods alone costs nothing.
        let (version, uid) = (state.resource_version, &state.uid);
        if known.is_some_and(|known| (known.seen, known.stage, &known.uid) == (version, stage, uid)) {
            return;
        }
        let queue = queue::is_queued(framework, status);
        let is_known = known.is_some_and(|known| known.uid == state.uid);
        let may_have_unit = queue::names_one(framework) || queue::has_waited(status);
        if queue.is_none() && !is_known && !may_have_unit {
            return;
        }
        let mark = Mark {
            uid: Arc::clone(&state.uid),
            generation: framework.metadata.generation,
            queue: queue.map(Arc::from),
            stage,
            deleting: framework.metadata.deletion_timestamp.is_some(),
            demands: growth::unit_demands(&o, &self.policy),
            seen: version,
        };
        let is_news = known.is_none_or(|known| *known != Mark { seen: known.seen, ..mark.clone() });
        if is_news && let Some(persisted) = &state.persisted {
            let framework = QueuedFramework {
                framework: Arc::clone(&persisted.framework),
                queue: mark.queue.clone(),
                stage: mark.stage,
                demands: mark.demands.clone(),
            };
            self.effects.push(Effect::Queued { key: key.clone(), framework: Some(framework) });
        }
        self.consumers.insert(key.clone(), mark);
    }

    /// Lends the right to send one request, if there is one.
    pub fn lend(&mut self, now: Now) -> bool {
        self.budget.take(now.steady, Part::Whole)
    }

    /// When a request may be lent the right to be sent; `None`: when another has ended.
    pub fn lends_at(&self, now: Now) -> Option<Duration> {
        self.budget.next(now.steady, Part::Whole)
    }

    /// What was lent is not needed.
    pub fn give_back(&mut self) {
        self.budget.give_back();
    }

    /// A request has ended for which the right was lent.
    pub fn repaid<T>(&mut self, now: Now, reply: &Reply<T>) {
        self.budget.ended();
        match reply {
            Reply::Refused(Rejection { code: 429, retry_after, .. }) => {
                self.budget.overloaded(now.steady, retry_after.unwrap_or(super::replies::CALM));
            }
            Reply::NotSent(_) | Reply::Unknown(_) => {}
            _ => self.budget.served(),
        }
    }
}
