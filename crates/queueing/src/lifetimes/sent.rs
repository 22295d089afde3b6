//! The requests that end jobs, on their way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_api::Time;
use framework_api::job_kind::JobKindRow;
use framework_message::{Slot, Slots, Ticket};

use crate::consumer::ConsumerKey;
use crate::job_lifetime::DeadlineCondition;

/// A request on its way, by what it does.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// Deletes a job of that kind that was due then. By the time of the reply, it may be gone.
    Delete(Arc<JobKindRow>, Time),
    /// Reads its JobSet.
    Look,
    /// Ends its JobSet.
    FailChild(DeadlineCondition),
    /// Ends the job itself.
    FailJob,
}

/// A request on its way.
#[derive(Debug)]
pub struct InFlight {
    slot: Slot,
    /// The job.
    pub job: ConsumerKey,
    /// Its UID.
    pub uid: Arc<str>,
    /// Its effect.
    pub purpose: Purpose,
}

/// The requests on their way.
#[derive(Debug)]
pub struct Sent {
    in_flight: BTreeMap<Ticket, InFlight>,
    /// By slot, until when requests without a reply may land.
    may_land: BTreeMap<Slot, Duration>,
    tickets: u64,
}

impl Sent {
    /// None yet. The tickets begin after `tickets`.
    pub fn new(tickets: u64) -> Self {
        Sent { in_flight: BTreeMap::new(), may_land: BTreeMap::new(), tickets }
    }

    /// A request has ended; if it got no reply, it may land until `may_land`.
    pub fn ended(&mut self, ticket: Ticket, may_land: Option<Duration>) -> Option<InFlight> {
        let ended = self.in_flight.remove(&ticket)?;
        self.may_land.extend(may_land.map(|until| (ended.slot, until)));
        Some(ended)
    }

    /// A request of a job is on its way.
    pub fn begin(&mut self, slot: Slot, job: &ConsumerKey, uid: &Arc<str>, purpose: Purpose) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let in_flight = InFlight { slot, job: job.clone(), uid: Arc::clone(uid), purpose };
        self.in_flight.insert(ticket, in_flight);
        ticket
    }

    /// Whether a request is on its way.
    pub fn contains(&self, ticket: Ticket) -> bool {
        self.in_flight.contains_key(&ticket)
    }

    /// Whether none is.
    pub fn is_settled(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// The slots of requests that may still land.
    pub fn unsettled(&mut self, now: Duration) -> Slots {
        self.may_land.retain(|_, until| now < *until);
        let in_flight = self.in_flight.values().map(|sent| sent.slot);
        in_flight.chain(self.may_land.keys().copied()).collect()
    }

    /// When, on the steady clock, the next request without a reply can land no more.
    pub fn settles_at(&self) -> Option<Duration> {
        self.may_land.values().copied().min()
    }
}
