//! Reports to the controller of QueueUnits about Frameworks that wait, or have waited, in a queue; and the
//! budget that both controllers share.

use std::time::Duration;

use super::Engine;
use crate::budget::Part;
use crate::cache::Entry;
use crate::consumer::Consumer;
use crate::event::Effect;
use crate::retry::CALM;
use framework_message::Reply;
use framework_message::{Key, Now};

impl Engine {
    /// Reports the changes of a Framework to the controller of QueueUnits. A Framework that left its queue is
    /// reported as long as it exists, also after a restart: its unit has to be deleted.
    pub(super) fn report_consumer(&mut self, key: &Key) {
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
        // A Framework that cannot be read keeps its last reported facts.
        let Some(o) = entry.and_then(Entry::observed) else { return };
        let before = self.consumers.get(key);
        let Some(consumer) = Consumer::of(before, state, &o, &self.policy) else { return };
        if consumer.is_news(before)
            && let Some(persisted) = &state.persisted
        {
            let framework = Some(consumer.queued(&persisted.framework));
            self.effects.push(Effect::Queued { key: key.clone(), framework });
        }
        self.consumers.insert(key.clone(), consumer);
    }

    /// Lends the permission to send one request, if the budget allows it.
    pub fn lend(&mut self, now: Now) -> bool {
        self.sending.budget.take(now.steady, Part::Whole)
    }

    /// When a permission to send may be lent; `None`: when another request has ended.
    pub fn lends_at(&self, now: Now) -> Option<Duration> {
        self.sending.budget.next(now.steady, Part::Whole)
    }

    /// Takes back a permission that is not needed.
    pub fn give_back(&mut self) {
        self.sending.budget.give_back();
    }

    /// A request with a lent permission has ended.
    pub fn repaid<T>(&mut self, now: Now, reply: &Reply<T>) {
        self.sending.budget.ended();
        match reply {
            Reply::Refused(rejection) if rejection.is_overload() => {
                self.sending.budget.overloaded(now.steady, rejection.pause().unwrap_or(CALM));
            }
            Reply::NotSent(_) | Reply::Unknown(_) => {}
            _ => self.sending.budget.served(),
        }
    }
}
