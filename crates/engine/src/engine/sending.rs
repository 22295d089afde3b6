//! Sends requests as far as the budget allows: in their turn, and only if they may still be sent. Replies say
//! how much the API server can take.

use std::sync::Arc;

use framework_api::Time;
use framework_core::{Action, Defect, Policy, first_attempt};
use jiff::Timestamp;

use super::{Engine, Sending};
use crate::budget::Part;
use crate::cache::Entry;
use crate::concurrency::LatencyClass;
use crate::dispatch::Class;
use crate::event::Effect;
use crate::framework_state::FrameworkState;
use crate::in_flight::{Purpose, Sent};
use crate::object::Reply;
use crate::outgoing::may_create;
use crate::persisted::Persisted;
use crate::request::Request;
use crate::retry::DEFAULT_RETRY_AFTER;
use framework_message::{Key, MayAct, Now};

impl Engine {
    /// Sends until the budget is used up or nothing waits.
    pub(super) fn send(&mut self, now: Now) {
        if self.clock.probe.is_due(now.steady) && self.sending.budget.take(now.steady, Part::Whole) {
            let ticket = self.sending.in_flight.ticket();
            self.clock.probe.send(ticket, now.steady);
            self.effects.push(Effect::Send { ticket, request: Request::AskTime, right: None });
        }
        while !self.sending.dispatch.is_empty() {
            let Sending { dispatch, budget, in_flight, .. } = &mut self.sending;
            let half = budget.limit().div_ceil(2);
            dispatch.let_others_pass(|namespace| in_flight.of_namespace(namespace) >= half);
            let part = self.sending.part();
            if !self.sending.budget.take(now.steady, part) {
                return;
            }
            if !self.send_next(now) {
                self.sending.budget.give_back();
            }
        }
    }

    /// Sends the request of the Framework whose turn it is. Returns whether it had one.
    fn send_next(&mut self, now: Now) -> bool {
        let Some((class, key)) = self.sending.dispatch.take() else { return false };
        let Some((purpose, request)) = self.next_request(now, class, &key) else { return false };
        let ticket = self.sending.in_flight.ticket();
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(&key) else { return false };
        if purpose.reads() {
            known.begin_read();
        }
        if let Purpose::Act(action) = &purpose {
            state.outgoing.sent(action, &mut known.objects);
        }
        let lines = match &purpose {
            Purpose::Write { .. } => state.outgoing.write.take_history(),
            // After the DELETE, there may be no event that shows the Framework.
            Purpose::Act(Action::DeleteFramework) => vec![state.last_line(&key, None)],
            _ => Vec::new(),
        };
        let lines = state.logged.unlogged(state.resource_version, lines);
        state.outgoing.write.write_history(now.steady, &lines);
        let (uid, slot) = (Arc::clone(&state.uid), state.slot);
        let asks_once = self.policy.defects.has(Defect::AskOnce);
        let right = self.ownership.right(slot).filter(|_| !asks_once);
        let switches = &self.policy.log_object_snapshot;
        // Lines that are switched off are not written, and nothing waits for them.
        let follows_history = lines.iter().any(|line| line.trigger().is_on(switches));
        let is_forgotten = false;
        let sent =
            Sent { key: key.clone(), uid, slot, purpose, at: now.steady, follows_history, is_forgotten };
        self.sending.in_flight.begin(ticket, sent);
        if follows_history {
            // While standard error takes no lines, it must not take the place of other requests.
            self.sending.budget.ended();
        }
        if state.wants(class, now.steady) {
            self.sending.dispatch.offer(class, &key);
        }
        self.write_history(lines, Some(ticket));
        self.effects.push(Effect::Send { ticket, request, right });
        true
    }

    /// The next request of a class that one Framework may send now.
    fn next_request(&mut self, now: Now, class: Class, key: &Key) -> Option<(Purpose, Request)> {
        let Some(Entry { known, state: Some(state) }) = self.cache.get_mut(key) else { return None };
        if !state.wants(class, now.steady) {
            return None;
        }
        match self.ownership.may_act(state.slot, now) {
            MayAct::Yes => {}
            _ if self.policy.defects.has(Defect::AskOnce) => {}
            MayAct::Paused => {
                self.paused.add(state.slot, key.clone());
                return None;
            }
            MayAct::No => return None,
        }
        if class == Class::Record
            && let Some(found) =
                quarantine(state, self.clock.time.now(now)).or_else(|| record(state, now, key, &self.policy))
        {
            return Some(found);
        }
        while let Some(action) = state.outgoing.outbox.take(class) {
            if !state.permits(&action, &self.policy)
                || known.makes_pointless(&action)
                || state.is_held_back(&action, &known.objects, &self.policy)
            {
                continue;
            }
            if class == Class::Create && !may_create(&known.objects, &self.policy) {
                // The next write records these creates; its reply leads back here.
                state.outgoing.outbox.put_back(action);
                return None;
            }
            let Some(Persisted { framework, status, .. }) = &state.persisted else { return None };
            let announced =
                || Arc::new(first_attempt::announced(framework, Time::floor(self.clock.time.now(now))));
            let status = status.clone().unwrap_or_else(announced);
            let framework = Arc::clone(framework);
            let request = Request::Act { framework, status, action: action.clone() };
            return Some((Purpose::Act(action), request));
        }
        None
    }

    /// A 429 pauses the Framework concerned. Repeated ones pause everything if they are the API server's own:
    /// all our requests share its queue. Those of a webhook or a quota concern one tenant.
    pub(super) fn record_overload(&mut self, now: Now, sent: &Sent, reply: &Reply) {
        match reply {
            Reply::Refused(rejection) if rejection.code == 429 => {
                let wait = rejection.pause().unwrap_or(DEFAULT_RETRY_AFTER);
                if rejection.is_overload() {
                    self.sending.budget.overloaded(now.steady, wait);
                }
                if let Some(state) = self.state(&sent.key).filter(|_| !sent.is_forgotten) {
                    state.outgoing.pause(now.steady + wait);
                }
            }
            Reply::NotSent(_) | Reply::Unknown(_) => {}
            _ => self.sending.budget.served(),
        }
    }

    /// The latency of a request shows how busy the API server is.
    pub(super) fn record_latency(&mut self, now: Now, sent: &Sent, reply: &Reply) {
        let latency = now.steady.saturating_sub(sent.at);
        let kind = match &sent.purpose {
            // One that waited for its history says nothing of the API server.
            Purpose::Write { .. } if !sent.follows_history && reply.was_sent() => {
                return self.pace.took(latency);
            }
            Purpose::Act(Action::CreatePod { .. }) => LatencyClass::Create,
            Purpose::Act(Action::DeletePod { .. }) => LatencyClass::Delete,
            _ => return,
        };
        // A reply that did not come is not the API server's, and a refusal is quicker than a write.
        if matches!(reply, Reply::Object(_) | Reply::Done) {
            self.sending.budget.took(now.steady, kind, latency);
        }
    }
}

/// The condition that says why a Framework cannot be read.
fn quarantine(state: &mut FrameworkState, at: Timestamp) -> Option<(Purpose, Request)> {
    let request = state.quarantine.take_request(at, state.resource_version)?;
    Some((Purpose::Quarantine, request))
}

/// The status write, the read after it, and the follow-ups of replies.
fn record(state: &mut FrameworkState, now: Now, key: &Key, policy: &Policy) -> Option<(Purpose, Request)> {
    let base = state.resource_version;
    if state.outgoing.write.is_unread() {
        if state.outgoing.write.is_due(now.steady) {
            state.send_read();
            return Some((Purpose::Read { known: base }, Request::GetFramework { key: key.clone() }));
        }
    } else if let Some(persisted @ Persisted { framework, stored_bytes, form, .. }) = &state.persisted
        && let Some(status) = state.outgoing.write.send(now.steady)
    {
        // By the time of the reply, the watch may already have shown the new form.
        state.reported.replaces(*form);
        let framework = Arc::clone(framework);
        let compressed = persisted.stays_compressed(&status);
        let room = policy.size.beside(*stored_bytes);
        let request = Request::PutStatus { framework, resource_version: base, status, compressed, room };
        return Some((Purpose::Write { base }, request));
    }
    if let Some(lookup) = state.outgoing.outbox.take_lookup() {
        let request = Request::GetHolder { key: key.clone(), action: lookup.action.clone() };
        return Some((Purpose::Lookup(lookup), request));
    }
    let framework = Arc::clone(&state.persisted.as_ref()?.framework);
    let label = state.outgoing.outbox.take_label()?;
    let request = Request::RestoreLabel {
        framework,
        pod: label.pod.clone(),
        uid: label.uid.clone(),
        resource_version: label.resource_version,
    };
    Some((Purpose::Label(label), request))
}
