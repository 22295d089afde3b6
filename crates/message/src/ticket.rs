//! Names of requests in flight.

/// Names a request until its reply. Unique among the requests of one deciding part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);
