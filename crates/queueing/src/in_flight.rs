//! Requests on their way, and those without a reply that may still land.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::{Slot, Slots, Ticket};

/// The requests on their way, each with the data that its end needs.
#[derive(Debug)]
pub struct InFlight<T> {
    /// `None`: its slot was lost since, so the reply is about nothing that came later.
    sent: BTreeMap<Ticket, (Slot, Option<T>)>,
    /// By slot, until when requests without a reply may land.
    may_land: BTreeMap<Slot, Duration>,
    tickets: u64,
}

impl<T> InFlight<T> {
    /// None yet. The tickets begin after `tickets`.
    pub fn new(tickets: u64) -> Self {
        InFlight { sent: BTreeMap::new(), may_land: BTreeMap::new(), tickets }
    }

    /// A request for a slot is on its way.
    pub fn begin(&mut self, slot: Slot, sent: T) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.sent.insert(ticket, (slot, Some(sent)));
        ticket
    }

    /// A request has ended; if it got no reply, it may land until `may_land`. Returns nothing if its slot was
    /// lost meanwhile.
    pub fn ended(&mut self, ticket: Ticket, may_land: Option<Duration>) -> Option<T> {
        let (slot, sent) = self.sent.remove(&ticket)?;
        self.may_land.extend(may_land.map(|until| (slot, until)));
        sent
    }

    /// Slots are lost. Their requests are still on their way, and may land.
    pub fn lose(&mut self, slots: Slots) {
        let of_lost = self.sent.values_mut().filter(|(slot, _)| slots.contains(*slot));
        of_lost.for_each(|(_, sent)| *sent = None);
    }

    /// Whether that request is on its way.
    pub fn contains(&self, ticket: Ticket) -> bool {
        self.sent.contains_key(&ticket)
    }

    /// Whether no request is on its way.
    pub fn is_settled(&self) -> bool {
        self.sent.is_empty()
    }

    /// The slots of requests that may still land.
    pub fn unsettled(&mut self, now: Duration) -> Slots {
        self.may_land.retain(|_, until| now < *until);
        let sent = self.sent.values().map(|(slot, _)| slot);
        sent.chain(self.may_land.keys()).copied().collect()
    }

    /// When, on the monotonic clock, the next request without a reply can land no more.
    pub fn settles_at(&self) -> Option<Duration> {
        self.may_land.values().copied().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_settled_once_no_request_can_land_also_if_it_is_lost() {
        let mut in_flight = InFlight::new(0);
        let second = Duration::from_secs;
        let tickets = [1, 2].map(|slot| in_flight.begin(Slot(slot), ()));
        let slots = |slots: &[u8]| slots.iter().copied().map(Slot).collect::<Slots>();
        assert_eq!(in_flight.unsettled(second(0)), slots(&[1, 2]));
        in_flight.lose(slots(&[2]));
        assert_eq!(in_flight.ended(tickets[0], None), Some(()));
        assert_eq!(in_flight.ended(tickets[1], Some(second(30))), None, "its slot was lost");
        assert_eq!(in_flight.settles_at(), Some(second(30)));
        assert_eq!(in_flight.unsettled(second(29)), slots(&[2]));
        assert_eq!(in_flight.unsettled(second(30)), Slots::NONE);
    }
}
