//! Sends what waits, as far as the budget allows: whose turn it is, and whether it may still be sent.

use std::sync::Arc;

use framework_api::Time;
use framework_core::{Action, Policy};
use jiff::Timestamp;

use super::{Engine, Sent, What};
use crate::budget::Part;
use crate::cache::Entry;
use crate::dispatch::Class;
use crate::event::{Effect, Key, Now, Request, Ticket};
use crate::ledger::{Ledger, Persisted};
use crate::quarantine;

impl Engine {
    /// Sends until the budget or what waits is used up.
    pub(super) fn send(&mut self, now: Now) {
        if self.inquiry.is_due(now.steady) && self.budget.take(now.steady, Part::Whole) {
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            self.inquiry.send(ticket, now.steady);
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
        let Some(Entry { known, ledger: Some(ledger) }) = self.cache.get_mut(&key) else { return false };
        if what.reads() {
            known.begin_read();
        }
        if let What::Act(action) = &what {
            ledger.sent(action, &mut known.objects);
        }
        let lines = match &what {
            What::Write { .. } => ledger.write.take_history(),
            // Once it is sent, nobody may be left to tell.
            What::Act(Action::DeleteFramework) => vec![ledger.last_line(&key, None)],
            _ => Vec::new(),
        };
        let sent = Sent { key: key.clone(), uid: Arc::clone(&ledger.uid), what, at: now.steady };
        self.in_flight.insert(ticket, sent);
        if ledger.wants(class, now.steady) {
            self.dispatch.offer(class, &key);
        }
        self.tell(lines, Some(ticket));
        self.effects.push(Effect::Send { ticket, request });
        true
    }

    /// The next request of a class that one Framework may send now.
    fn next_request(&mut self, now: Now, class: Class, key: &Key) -> Option<(What, Request)> {
        let Some(Entry { known, ledger: Some(ledger) }) = self.cache.get_mut(key) else { return None };
        if !ledger.wants(class, now.steady) || !self.ownership.may_act(ledger.slot, now.steady) {
            return None;
        }
        if class == Class::Record
            && let Some(found) =
                quarantine(ledger, self.time.now(now)).or_else(|| record(ledger, now, key, &self.policy))
        {
            return Some(found);
        }
        while let Some(action) = ledger.outbox.take(class) {
            if !ledger.permits(&action, &self.policy)
                || known.makes_pointless(&action)
                || ledger.is_held_back(&action, &known.objects, &self.policy)
            {
                continue;
            }
            if class == Class::Create && !ledger.may_create(&known.objects, &self.policy) {
                // The next write records what was created; that brings us back here.
                ledger.outbox.put_back(action);
                return None;
            }
            let Some(Persisted { framework, status: Some(status), .. }) = &ledger.persisted else {
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
fn quarantine(ledger: &mut Ledger, at: Timestamp) -> Option<(What, Request)> {
    let unreadable = ledger.unreadable.as_ref().filter(|_| ledger.quarantines)?;
    ledger.quarantines = false;
    let framework = Arc::clone(unreadable.framework.as_ref()?);
    let present = unreadable.conditions.as_deref()?;
    let conditions = quarantine::conditions(present, &unreadable.reason, Time::floor(at))?;
    let request =
        Request::PatchConditions { framework, resource_version: ledger.resource_version, conditions };
    Some((What::Quarantine, request))
}

/// The status write, the read after it, and the follow-ups of replies.
fn record(ledger: &mut Ledger, now: Now, key: &Key, policy: &Policy) -> Option<(What, Request)> {
    let base = ledger.resource_version;
    if ledger.write.is_unread() {
        if ledger.write.is_due(now.steady) {
            ledger.write.send_read();
            return Some((What::Read, Request::GetFramework { key: key.clone() }));
        }
    } else if let Some(Persisted { framework, stored_bytes, form, .. }) = &ledger.persisted
        && let Some(status) = ledger.write.send(now.steady)
    {
        // By the time of the reply the watch may have shown the new one.
        ledger.told_compressed |= form.compressed;
        let framework = Arc::clone(framework);
        let compressed = ledger.stays_compressed(&status);
        let room = policy.size.beside(*stored_bytes);
        let request = Request::PutStatus { framework, resource_version: base, status, compressed, room };
        return Some((What::Write { base }, request));
    }
    if let Some(lookup) = ledger.outbox.take_lookup() {
        let request = Request::GetHolder { key: key.clone(), action: lookup.action.clone() };
        return Some((What::Lookup(lookup), request));
    }
    let framework = Arc::clone(&ledger.persisted.as_ref()?.framework);
    let label = ledger.outbox.take_label()?;
    let request = Request::RestoreLabel {
        framework,
        pod: label.pod.clone(),
        uid: label.uid.clone(),
        resource_version: label.resource_version,
    };
    Some((What::Label(label), request))
}
