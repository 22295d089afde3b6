//! Sends what waits, as far as the budget allows: whose turn it is, and whether it may still be sent.

use std::sync::Arc;

use framework_api::Time;
use framework_core::{Action, Policy};
use jiff::Timestamp;

use super::{Engine, Sent, What};
use crate::budget::Part;
use crate::cache::Entry;
use crate::dispatch::Class;
use crate::event::Effect;
use crate::framework_state::{FrameworkState, Persisted};
use crate::quarantine;
use crate::request::Request;
use framework_message::{Key, Now, Ticket};

impl Engine {
    /// Sends until the budget or what waits is used up.
    pub(super) fn send(&mut self, now: Now) {
        if self.time_probe.is_due(now.steady) && self.budget.take(now.steady, Part::Whole) {
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            self.time_probe.send(ticket, now.steady);
            self.effects.push(Effect::Send { ticket, request: Request::AskTime });
        }
        while !self.dispatch.is_empty() && self.budget.take(now.steady, self.dispatch.part()) {
            if !self.send_next(now) {
                self.budget.give_back();
            }
        }
    }

    /// Sends the request of the Framework whose turn it is. Says whether it had one.
    fn send_next(&mut self, now: Now) -> bool {
        let Some((class, key)) = self.dispatch.take() else { return false };
        let Some((what, request)) = self.next_request(now, class, &key) else { return false };
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(&key) else { return false };
        if what.reads() {
            known.begin_read();
        }
        if let What::Act(action) = &what {
            state.sent(action, &mut known.objects);
        }
        let lines = match &what {
            What::Write { .. } => state.write.take_history(),
            // Once it is sent, nobody may be left to tell.
            What::Act(Action::DeleteFramework) => vec![state.last_line(&key, None)],
            _ => Vec::new(),
        };
        let sent = Sent { key: key.clone(), uid: Arc::clone(&state.uid), what, at: now.steady };
        self.in_flight.insert(ticket, sent);
        if state.wants(class, now.steady) {
            self.dispatch.offer(class, &key);
        }
        self.tell(lines, Some(ticket));
        self.effects.push(Effect::Send { ticket, request });
        true
    }

    /// The next request of a class that one Framework may send now.
    fn next_request(&mut self, now: Now, class: Class, key: &Key) -> Option<(What, Request)> {
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return None };
        if !state.wants(class, now.steady) || !self.ownership.may_act(state.slot, now.steady) {
            return None;
        }
        if class == Class::Record
            && let Some(found) =
                quarantine(state, self.time.now(now)).or_else(|| record(state, now, key, &self.policy))
        {
            return Some(found);
        }
        while let Some(action) = state.outbox.take(class) {
            if !state.permits(&action, &self.policy)
                || known.makes_pointless(&action)
                || state.is_held_back(&action, &known.objects, &self.policy)
            {
                continue;
            }
            if class == Class::Create && !state.may_create(&known.objects, &self.policy) {
                // The next write records what was created; that brings us back here.
                state.outbox.put_back(action);
                return None;
            }
            let Some(Persisted { framework, status: Some(status), .. }) = &state.persisted else {
                return None;
            };
            let request = Request::Act {
                framework: Arc::clone(framework),
                status: Arc::clone(status),
                action: action.clone(),
            };
            return Some((What::Act(action), request));
        }
        None
    }
}

/// The condition that says why a Framework cannot be read.
fn quarantine(state: &mut FrameworkState, at: Timestamp) -> Option<(What, Request)> {
    let unreadable = state.unreadable.as_ref().filter(|_| state.quarantines)?;
    state.quarantines = false;
    let framework = Arc::clone(unreadable.framework.as_ref()?);
    let present = unreadable.conditions.as_deref()?;
    let conditions = quarantine::conditions(present, &unreadable.reason, Time::floor(at))?;
    let request =
        Request::PatchConditions { framework, resource_version: state.resource_version, conditions };
    Some((What::Quarantine, request))
}

/// The status write, the read after it, and the follow-ups of replies.
fn record(state: &mut FrameworkState, now: Now, key: &Key, policy: &Policy) -> Option<(What, Request)> {
    let base = state.resource_version;
    if state.write.is_unread() {
        if state.write.is_due(now.steady) {
            state.write.send_read();
            return Some((What::Read, Request::GetFramework { key: key.clone() }));
        }
    } else if let Some(Persisted { framework, stored_bytes, form, .. }) = &state.persisted
        && let Some(status) = state.write.send(now.steady)
    {
        // By the time of the reply the watch may have shown the new one.
        state.told_compressed |= form.compressed;
        let framework = Arc::clone(framework);
        let compressed = state.stays_compressed(&status);
        let room = policy.size.beside(*stored_bytes);
        let request = Request::PutStatus { framework, resource_version: base, status, compressed, room };
        return Some((What::Write { base }, request));
    }
    if let Some(lookup) = state.outbox.take_lookup() {
        let request = Request::GetHolder { key: key.clone(), action: lookup.action.clone() };
        return Some((What::Lookup(lookup), request));
    }
    let framework = Arc::clone(&state.persisted.as_ref()?.framework);
    let label = state.outbox.take_label()?;
    let request = Request::RestoreLabel {
        framework,
        pod: label.pod.clone(),
        uid: label.uid.clone(),
        resource_version: label.resource_version,
    };
    Some((What::Label(label), request))
}
