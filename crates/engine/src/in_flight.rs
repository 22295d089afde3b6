//! The requests in flight: the Framework and the purpose of each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_core::Action;
use framework_message::{Key, Slot, Ticket};

use crate::outbox::{Label, Lookup};

/// A request in flight.
#[derive(Debug)]
pub struct Sent {
    /// The name of the Framework that it was sent for.
    pub key: Key,
    /// The Framework that it was sent for.
    pub uid: Arc<str>,
    /// The slot of that Framework.
    pub slot: Slot,
    /// Its purpose.
    pub purpose: Purpose,
    /// When it was sent, on the monotonic clock.
    pub at: Duration,
    /// Whether it leaves only after its history is written. It takes no place of other requests, and counts
    /// for its slot alone.
    pub follows_history: bool,
    /// All that was known of that Framework was dropped since: the reply is about no state that came later.
    pub is_forgotten: bool,
}

/// The purpose of a request in flight.
#[derive(Debug)]
pub enum Purpose {
    /// A status write.
    Write {
        /// The resourceVersion that it was computed from.
        base: u128,
    },
    /// The read after a write that conflicted or got no reply.
    Read {
        /// The version that was known when it was sent.
        known: u128,
    },
    /// The conditions of a Framework that cannot be read.
    Quarantine,
    /// A create, a delete or a confirmation.
    Act(Action),
    /// The GET of the object that holds a name.
    Lookup(Lookup),
    /// The return of a label.
    Label(Label),
}

impl Purpose {
    /// Whether the reply shows the state of a ConfigMap or a Pod that the cache may take in.
    pub fn reads(&self) -> bool {
        match self {
            Purpose::Act(action) => {
                matches!(action, Action::ConfirmConfigMap { .. } | Action::ConfirmPod { .. })
            }
            Purpose::Lookup(_) | Purpose::Label(_) => true,
            Purpose::Write { .. } | Purpose::Read { .. } | Purpose::Quarantine => false,
        }
    }
}

/// The requests in flight, by ticket, and their number for each slot and each namespace.
#[derive(Debug, Default)]
pub struct InFlight {
    sent: BTreeMap<Ticket, Sent>,
    slots: BTreeMap<Slot, usize>,
    namespaces: BTreeMap<Arc<str>, usize>,
    tickets: u64,
}

impl InFlight {
    /// A ticket that no request has had.
    pub fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// A request is sent.
    pub fn begin(&mut self, ticket: Ticket, sent: Sent) {
        *self.slots.entry(sent.slot).or_default() += 1;
        if !sent.follows_history {
            *self.namespaces.entry(Arc::clone(&sent.key.namespace)).or_default() += 1;
        }
        self.sent.insert(ticket, sent);
    }

    /// A request has ended.
    pub fn end(&mut self, ticket: Ticket) -> Option<Sent> {
        let sent = self.sent.remove(&ticket)?;
        one_less(&mut self.slots, &sent.slot);
        if !sent.follows_history {
            one_less(&mut self.namespaces, &sent.key.namespace);
        }
        Some(sent)
    }

    /// All that was known of these Frameworks was dropped. Their requests go on, and take their places.
    pub fn forget(&mut self, is_dropped: impl Fn(&Key) -> bool) {
        self.sent.values_mut().for_each(|sent| sent.is_forgotten |= is_dropped(&sent.key));
    }

    /// When a request was sent, on the monotonic clock.
    pub fn sent_at(&self, ticket: Ticket) -> Option<Duration> {
        self.sent.get(&ticket).map(|sent| sent.at)
    }

    /// The number of requests in flight.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// The number of requests in flight for Frameworks of a slot.
    pub fn of_slot(&self, slot: Slot) -> usize {
        self.slots.get(&slot).copied().unwrap_or_default()
    }

    /// The number of requests in flight for Frameworks of a namespace.
    pub fn of_namespace(&self, namespace: &str) -> usize {
        self.namespaces.get(namespace).copied().unwrap_or_default()
    }
}

/// Takes one from a count. A count of none is dropped.
pub fn one_less<K: Ord>(counts: &mut BTreeMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_slot_and_namespace_of_their_framework() {
        let mut in_flight = InFlight::default();
        let mut send = |(slot, follows_history)| {
            let ticket = in_flight.ticket();
            let (key, at) = (Key::new("ns", "job"), Duration::from_secs(slot));
            let slot = Slot(u8::try_from(slot).unwrap());
            let (purpose, is_forgotten) = (Purpose::Quarantine, false);
            let uid = "f".into();
            in_flight.begin(ticket, Sent { key, uid, slot, purpose, at, follows_history, is_forgotten });
            ticket
        };
        let tickets = [(3, false), (3, true), (5, false)].map(&mut send);
        assert_eq!([3, 4, 5].map(|slot| in_flight.of_slot(Slot(slot))), [2, 0, 1]);
        assert_eq!(in_flight.sent_at(tickets[2]), Some(Duration::from_secs(5)));
        assert!(in_flight.end(tickets[0]).is_some() && in_flight.end(tickets[0]).is_none());
        assert_eq!((in_flight.of_slot(Slot(3)), in_flight.len()), (1, 2));
        assert_eq!((in_flight.of_namespace("ns"), in_flight.of_namespace("other")), (1, 0), "one waits");
        assert!(in_flight.end(tickets[1]).is_some());
        assert_eq!(in_flight.of_namespace("ns"), 1);
    }
}
