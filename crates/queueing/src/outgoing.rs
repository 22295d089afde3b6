//! The order of the requests that are to be sent, and the requests in flight.
//!
//! Guarantees: a piece of work is queued once. Releases go before all other work, of which at most
//! [`MAX_DEFERRABLE_IN_FLIGHT`] requests are in flight at a time. After [`URGENT`] releases in a row, other
//! work has its turn: the jobs of one namespace do not stop the deletions of all others. Namespaces send in
//! turn.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use framework_message::{Key, Slot, Slots, Ticket};

use crate::consumer::ConsumerKey;
use crate::in_flight::InFlight;
use crate::turns::Turns;
use crate::unit::PendingRequest;

/// Requests in flight at a time that let no job begin. When many units come at once, the updates of waiting
/// units would otherwise stand before the releases in the queue of the API server.
const MAX_DEFERRABLE_IN_FLIGHT: usize = 32;

/// Releases in a row while other work waits.
const URGENT: u32 = 16;

/// A piece of work that may need a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Something about a unit.
    Unit(Key),
    /// The status of a Queue is to be written.
    Queue(Key),
    /// The units of a namespace are to be listed.
    List(Arc<str>),
    /// Something about a job: its unit is to be made, or it is to be resumed.
    Job(ConsumerKey),
}

impl Work {
    /// The namespace that it is in.
    pub fn namespace(&self) -> &Arc<str> {
        match self {
            Work::Unit(key) | Work::Queue(key) => &key.namespace,
            Work::List(namespace) => namespace,
            Work::Job(job) => &job.key.namespace,
        }
    }
}

/// A request on its way.
#[derive(Debug)]
pub enum Sent {
    /// About the unit with that UID.
    Unit(Key, Arc<str>, PendingRequest),
    /// The POST of a unit of a job, which has that UID.
    Create(ConsumerKey, Arc<str>),
    /// A job is resumed.
    Resume(ConsumerKey),
    /// The Pod templates of the JobSet of a job, with that UID, get labels.
    Label(ConsumerKey, Arc<str>),
    /// The units of a namespace are listed.
    List(Arc<str>),
    /// The status of a Queue is written.
    Queue(Key),
}

/// Requests that wait, and those on their way.
#[derive(Debug)]
pub struct OutgoingRequests {
    /// Releases.
    urgent: Turns<Work>,
    /// Requests of the former that were sent in a row.
    urgent_in_a_row: u32,
    /// Everything else.
    deferrable: Turns<Work>,
    later: BTreeSet<(Duration, Work)>,
    in_flight: InFlight<Sent>,
    /// The requests on their way that let no job begin.
    deferrable_in_flight: BTreeSet<Ticket>,
    seed: u64,
}

impl OutgoingRequests {
    /// No work yet. The tickets begin after `tickets`; the seed is that of the jitter of retries.
    pub fn new(tickets: u64, seed: u64) -> Self {
        OutgoingRequests {
            urgent: Turns::default(),
            urgent_in_a_row: 0,
            deferrable: Turns::default(),
            later: BTreeSet::new(),
            in_flight: InFlight::new(tickets),
            deferrable_in_flight: BTreeSet::new(),
            seed,
        }
    }

    /// Queues a piece of work; whether it lets a job begin.
    pub fn offer(&mut self, work: Work, releases: bool) {
        let namespace = Arc::clone(work.namespace());
        if releases {
            // It may overtake itself: the earlier entry finds no work left.
            self.urgent.offer(&namespace, work);
        } else if !self.urgent.contains(&work) {
            self.deferrable.offer(&namespace, work);
        }
    }

    /// A piece of work is to be queued at that moment of the monotonic clock.
    pub fn offer_at(&mut self, at: Duration, work: Work) {
        self.later.insert((at, work));
    }

    /// The work whose moment has come.
    pub fn take_due(&mut self, now: Duration) -> Vec<Work> {
        let mut due = Vec::new();
        while self.next_due().is_some_and(|at| at <= now) {
            due.extend(self.later.pop_first().map(|(_, work)| work));
        }
        due
    }

    /// When the moment of the next work comes.
    pub fn next_due(&self) -> Option<Duration> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Whether anything may be sent.
    pub fn wants(&self) -> bool {
        !self.urgent.is_empty() || self.may_defer()
    }

    /// Whether work that lets no job begin waits, and may be sent.
    fn may_defer(&self) -> bool {
        !self.deferrable.is_empty() && self.deferrable_in_flight.len() < MAX_DEFERRABLE_IN_FLIGHT
    }

    /// The next piece of work that may be sent, and whether it lets a job begin.
    pub fn next_work(&mut self) -> Option<(Work, bool)> {
        if !self.urgent.is_empty() && (self.urgent_in_a_row < URGENT || !self.may_defer()) {
            return self.urgent.take().map(|work| (work, true));
        }
        self.may_defer().then(|| self.deferrable.take())?.map(|work| (work, false))
    }

    /// A request for a slot is on its way; whether it lets a job begin.
    pub fn sent(&mut self, slot: Slot, sent: Sent, releases: bool) -> Ticket {
        let ticket = self.in_flight.begin(slot, sent);
        // Work that needs no request any more counts for neither.
        self.urgent_in_a_row = if releases { self.urgent_in_a_row.saturating_add(1) } else { 0 };
        if !releases {
            self.deferrable_in_flight.insert(ticket);
        }
        ticket
    }

    /// Whether that request is on its way.
    pub fn is_in_flight(&self, ticket: Ticket) -> bool {
        self.in_flight.contains(ticket)
    }

    /// Whether no request is on its way.
    pub fn is_settled(&self) -> bool {
        self.in_flight.is_settled()
    }

    /// A request has ended; if it got no reply, it may land until `may_land`. Returns the request, and the
    /// jitter of another try.
    pub fn answered(&mut self, ticket: Ticket, may_land: Option<Duration>) -> Option<(Sent, u64)> {
        self.deferrable_in_flight.remove(&ticket);
        let sent = self.in_flight.ended(ticket, may_land)?;
        Some((sent, self.seed ^ ticket.0))
    }

    /// Slots are lost: replies to what was sent for them concern nothing that comes later.
    pub fn lose(&mut self, slots: Slots) {
        self.in_flight.lose(slots);
    }

    /// The slots of requests that may still land.
    pub fn unsettled(&mut self, now: Duration) -> Slots {
        self.in_flight.unsettled(now)
    }

    /// When the next request without a reply can land no more.
    pub fn settles_at(&self) -> Option<Duration> {
        self.in_flight.settles_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(name: &str) -> Work {
        Work::Unit(Key::new("ns", name))
    }

    fn list() -> Sent {
        Sent::List("ns".into())
    }

    #[test]
    fn a_release_overtakes_other_work_and_itself() {
        let mut outgoing = OutgoingRequests::new(0, 0);
        outgoing.offer(unit("a"), false);
        outgoing.offer(unit("b"), false);
        outgoing.offer(unit("b"), false);
        outgoing.offer(unit("b"), true);
        outgoing.offer(unit("b"), false);
        assert_eq!(outgoing.next_work(), Some((unit("b"), true)));
        assert_eq!(outgoing.next_work(), Some((unit("a"), false)));
        assert_eq!(outgoing.next_work(), Some((unit("b"), false)), "the earlier entry");
        assert!(!outgoing.wants() && outgoing.next_work().is_none());
    }

    #[test]
    fn only_so_many_requests_that_release_nothing_are_on_their_way() {
        let mut outgoing = OutgoingRequests::new(0, 0);
        let tickets: Vec<_> =
            (0..MAX_DEFERRABLE_IN_FLIGHT).map(|_| outgoing.sent(Slot(1), list(), false)).collect();
        outgoing.offer(unit("a"), false);
        assert!(!outgoing.wants() && outgoing.next_work().is_none());
        outgoing.offer(unit("b"), true);
        assert_eq!(outgoing.next_work(), Some((unit("b"), true)));
        let release = outgoing.sent(Slot(1), list(), true);
        outgoing.answered(release, None);
        assert!(!outgoing.wants(), "a release makes no room for the others");
        outgoing.answered(tickets[0], None);
        assert_eq!(outgoing.next_work(), Some((unit("a"), false)));
    }

    #[test]
    fn releases_without_end_do_not_stop_the_other_work_of_all_namespaces() {
        let mut outgoing = OutgoingRequests::new(0, 0);
        let names: Vec<String> = (0..1000).map(|number| format!("{number:04}")).collect();
        names.iter().for_each(|name| outgoing.offer(unit(name), true));
        let other = |name: &str| Work::Unit(Key::new("other", name));
        ["gone", "a", "b"].iter().for_each(|name| outgoing.offer(other(name), false));
        let mut order = Vec::new();
        while let Some((work, releases)) = outgoing.next_work() {
            order.push(work.clone());
            if work != other("gone") {
                outgoing.sent(Slot(1), list(), releases);
            }
        }
        let place = |work: &Work| order.iter().position(|taken| taken == work).unwrap();
        assert_eq!(["gone", "a", "b"].map(|name| place(&other(name))), [16, 17, 34]);
        assert_eq!(order.len(), 1003);
    }

    #[test]
    fn releases_go_on_while_no_other_work_may_be_sent() {
        let mut outgoing = OutgoingRequests::new(0, 0);
        (0..MAX_DEFERRABLE_IN_FLIGHT).for_each(|_| _ = outgoing.sent(Slot(1), list(), false));
        outgoing.offer(unit("a"), false);
        for number in 0..2 * URGENT {
            outgoing.offer(unit(&format!("b{number}")), true);
            assert!(outgoing.next_work().is_some_and(|(_, releases)| releases));
            outgoing.sent(Slot(1), list(), true);
        }
    }

    #[test]
    fn an_answer_is_taken_once_and_its_jitter_differs_by_request() {
        let mut outgoing = OutgoingRequests::new(0, 7);
        let (one, two) = (outgoing.sent(Slot(1), list(), true), outgoing.sent(Slot(1), list(), false));
        assert!(outgoing.is_in_flight(one) && !outgoing.is_settled());
        let jitters = [one, two].map(|ticket| outgoing.answered(ticket, None).unwrap().1);
        assert_ne!(jitters[0], jitters[1]);
        assert!(outgoing.answered(one, None).is_none() && outgoing.is_settled());
    }

    #[test]
    fn work_comes_back_when_its_moment_has_come() {
        let mut outgoing = OutgoingRequests::new(0, 0);
        let second = Duration::from_secs;
        outgoing.offer_at(second(2), unit("b"));
        outgoing.offer_at(second(1), unit("a"));
        assert_eq!(outgoing.next_due(), Some(second(1)));
        assert!(outgoing.take_due(Duration::ZERO).is_empty());
        assert_eq!(outgoing.take_due(second(1)), [unit("a")]);
        assert_eq!(outgoing.take_due(second(5)), [unit("b")]);
        assert_eq!(outgoing.next_due(), None);
    }
}
