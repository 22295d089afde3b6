//! Reports to the controller of QueueUnits about Frameworks that wait, or have waited, in a queue; and the
//! budget that both controllers share.

use std::time::Duration;

use super::Engine;
use crate::budget::Part;
use crate::cache::Entry;
use crate::consumers::{ConsumerFacts, Consumers};
use crate::event::Effect;
use crate::retry::DEFAULT_RETRY_AFTER;
use framework_message::Reply;
use framework_message::{Key, Now};

impl Engine {
    /// Units that users made have come to name a Framework of this name, or none names one any more. The
    /// Framework is reported as if it were in a queue, because such a unit returns its share at its end.
    pub fn set_named(&mut self, key: &Key, is_named: bool) {
        if is_named && self.consumers.named.insert(key.clone()) {
            self.report_consumer(key);
        } else if !is_named {
            self.consumers.named.remove(key);
        }
    }

    /// Reports the changes of a Framework to `FrameworkUnits`. A Framework that left its queue is
    /// reported as long as it exists, also after a restart: its unit has to be deleted. One that is gone is
    /// reported until its last Pod is.
    pub(super) fn report_consumer(&mut self, key: &Key) {
        if !self.policy.queueing {
            return;
        }
        let left_creates =
            self.cache.get_mut(key).is_some_and(|entry| std::mem::take(&mut entry.known.left_creates));
        let entry = self.cache.get(key);
        let Consumers { reported, strays, queued, named } = &mut self.consumers;
        let mut report_gone = |has_strays, left_creates| {
            // The reader has to know the Framework that went.
            self.effects.extend(queued.remove(key));
            self.effects.push(Effect::Queued { key: key.clone(), framework: None, has_strays, left_creates });
        };
        let Some(state) = entry.and_then(|entry| entry.state.as_ref()) else {
            let has_strays = entry.is_some_and(Entry::has_strays);
            let had = if has_strays { !strays.insert(key.clone()) } else { strays.remove(key) };
            if reported.remove(key).is_some() || had != has_strays {
                report_gone(has_strays, left_creates);
            }
            return;
        };
        if reported.get(key).is_some_and(|before| !before.is_of(&state.uid)) {
            reported.remove(key);
            strays.insert(key.clone());
            report_gone(true, left_creates);
        }
        // A Framework that cannot be read keeps its last reported facts.
        let o = entry.and_then(Entry::observed);
        let before = reported.get(key);
        let of = |o| ConsumerFacts::of(before, state, o, &self.policy, named.contains(key));
        let Some(consumer) = o.as_ref().and_then(of) else {
            // One that concerns no queue may have the name of one that did, whose Pods go one by one.
            let is_over = before.is_none() && strays.contains(key) && !entry.is_some_and(Entry::has_strays);
            if is_over && strays.remove(key) {
                report_gone(false, left_creates);
            }
            return;
        };
        strays.remove(key);
        if consumer.is_news(before)
            && let Some(persisted) = &state.persisted
        {
            let framework = Some(consumer.queued(&persisted.framework));
            let has_strays = consumer.has_strays;
            let effect = Effect::Queued { key: key.clone(), framework, has_strays, left_creates: false };
            queued.insert(key.clone(), effect);
        }
        reported.insert(key.clone(), consumer);
    }

    /// The reports about Frameworks that are there, one of each: it costs a sum of the requests of all its
    /// templates.
    pub(super) fn report_queued(&mut self) {
        self.effects.extend(std::mem::take(&mut self.consumers.queued).into_values());
    }

    /// Whether permissions to send are lent to others that wait for them. They leave nothing in the budget,
    /// so no request waits until there is more than its own permission.
    pub fn contend(&mut self, is_contended: bool) {
        self.sending.is_contended = is_contended;
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
                self.sending.budget.overloaded(now.steady, rejection.pause().unwrap_or(DEFAULT_RETRY_AFTER));
            }
            Reply::NotSent(_) | Reply::Unknown(_) => {}
            _ => self.sending.budget.served(),
        }
    }
}
