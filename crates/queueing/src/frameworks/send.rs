//! The requests about units, and their order.

use std::sync::Arc;
use std::time::Duration;

use framework_message::{Key, Now, Right, Slot, Ticket};

use super::FrameworkUnits;
use super::state::UnitChange;
use super::verdict::Verdict;
use crate::object::UnitObject;
use crate::outgoing::{Sent, Work};
use crate::request::QueueRequest;
use crate::unit::PendingRequest;

impl FrameworkUnits {
    /// Whether anything waits to be sent. Before the units are listed nothing is.
    pub fn wants(&self) -> bool {
        self.units.is_synced() && self.outgoing.wants()
    }

    /// Whether a ticket is of one of these requests.
    pub fn sent(&self, ticket: Ticket) -> bool {
        self.outgoing.is_in_flight(ticket)
    }

    /// The next request, if there is one, and the right by which it may leave.
    pub fn next_request(&mut self, now: Now) -> Option<(Ticket, QueueRequest, Option<Right>)> {
        while self.wants()
            && let Some((work, releases)) = self.outgoing.next_work()
        {
            let found = match &work {
                Work::Unit(unit) => self.unit_request(now, unit),
                Work::Job(job) => self.create(now, job),
                Work::List(_) | Work::Queue(_) => None,
            };
            if let Some((sent, request, slot)) = found {
                let right = self.active_slots.right(slot);
                return Some((self.outgoing.sent(slot, sent, releases), request, right));
            }
        }
        None
    }

    fn unit_request(&mut self, now: Now, key: &Key) -> Option<(Sent, QueueRequest, Slot)> {
        let unit = Arc::clone(self.units.get(key).filter(|unit| unit.consumer.is_framework())?);
        let framework = self.framework_of(&unit)?;
        let is_blocked = self.writes.get(key).is_some_and(|writes| writes.blocks(&unit));
        if is_blocked || !self.may_act(now, &framework, &unit.consumer.key) {
            return None;
        }
        let (name, uid, resource_version) = (key.clone(), Arc::clone(&unit.uid), unit.resource_version);
        let (pending, request) = match self.verdict(now, &unit) {
            Verdict::KeepUntil(until) => {
                self.outgoing.offer_at(until, Work::Unit(name));
                return None;
            }
            Verdict::Read => {
                (PendingRequest::Read, QueueRequest::GetFramework { framework: unit.consumer.key.clone() })
            }
            Verdict::Delete => (PendingRequest::Delete, QueueRequest::DeleteUnit { unit: name, uid }),
            Verdict::Finalise if unit.finalizers.has_ours() => {
                (PendingRequest::RemoveFinalizer, QueueRequest::remove_finalizer(&unit))
            }
            Verdict::Return(held) => {
                let request = QueueRequest::ReturnCapacity { unit: name, uid, resource_version, held };
                (PendingRequest::ReturnCapacity, request)
            }
            Verdict::Bind(framework) => {
                let request = QueueRequest::BindUnit { unit: name, uid, resource_version, framework };
                (PendingRequest::Bind, request)
            }
            Verdict::Keep | Verdict::Finalise => return None,
        };
        let held = match &request {
            QueueRequest::ReturnCapacity { held, .. } => Some(held.clone()),
            _ => None,
        };
        let change = (pending, held);
        let sends_from = self.sends_from(&unit, &change);
        if now.steady < sends_from {
            self.outgoing.offer_at(sends_from, Work::Unit(key.clone()));
            return None;
        }
        let writes = self.writes.entry(key.clone()).or_default();
        writes.begin(&unit, &framework, change);
        writes.is_let_go |= pending == PendingRequest::RemoveFinalizer;
        Some((Sent::Unit(key.clone(), Arc::clone(&unit.uid), pending), request, Slot::of(&framework)))
    }

    /// The moment before which this request about a unit is not sent.
    fn sends_from(&self, unit: &UnitObject, change: &UnitChange) -> Duration {
        let writes = self.writes_of(unit);
        let from = writes.map_or(Duration::ZERO, |writes| writes.sends_from(change, unit.resource_version));
        match change.0 {
            PendingRequest::Bind => {
                let refused = self.refused_binds.get(&unit.key.namespace);
                from.max(refused.map_or(Duration::ZERO, |refused| refused.not_before()))
            }
            _ => from,
        }
    }
}
