//! The messages between the member and the controller.

use std::time::Duration;

use framework_message::Slots;
use framework_shard::Version;
use framework_shard::event::Outcome;
use framework_shard::member::view::{Figures, View};
use framework_shard::moves::Move;
use tokio::sync::oneshot;

/// A message of the controller to the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The objects of these slots were listed, as [`Notice::Granted`] asked.
    Listed {
        /// The slots.
        slots: Slots,
        /// The latest grant that the controller knew. It has not listed slots for a later one.
        grant: u64,
    },
    /// No request for these slots was on its way any more, as [`Notice::Drain`] asked.
    Drained {
        /// The slots.
        slots: Slots,
        /// `since` of the last [`Notice::Drain`] that was carried out before.
        since: Duration,
    },
    /// Whether every Framework has the label of its slot. Nothing is moved before.
    Labelled(bool),
    /// The program is to end; [`Notice::Exit`] follows.
    Stop,
}

/// A query for the member's view; takes the answer.
pub type ViewQuery = oneshot::Sender<View>;

/// The Lease that a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRole {
    /// This replica's own.
    Own,
    /// The leader's.
    Leader,
    /// Another member's, which is emptied.
    Other,
}

/// A message of the member to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// These slots were granted: their objects are to be listed, by consistent reads that begin now.
    Granted {
        /// The slots.
        slots: Slots,
        /// The number of the grant: one more than that of the grant before.
        grant: u64,
    },
    /// Creates of an earlier owner of these slots may land until this moment of `Now::boot`. It comes
    /// before the grant.
    Hold(Slots, Duration),
    /// These slots are owned, and acted for from now on.
    Begin(Slots),
    /// The right to act is proved again after it had ended, or when it was about to.
    Regained,
    /// Nothing new is to be begun for these slots, and nothing of them lost.
    Drain {
        /// The slots.
        slots: Slots,
        /// When their drain began, on the clock that counts suspension: names it.
        since: Duration,
    },
    /// The drain of these slots is called off.
    Resume(Slots),
    /// These slots are not owned any more.
    Lost(Slots),
    /// Whether there are other replicas.
    Accompanied(bool),
    /// Whether this replica is the leader.
    Leads(bool),
    /// The end of a write of a Lease.
    LeaseWritten(LeaseRole, Outcome),
    /// This replica acts for all slots that it has and is to get, or the time to wait for that is over. It
    /// comes once.
    ShareTaken {
        /// Whether it has any slots.
        has_slots: bool,
    },
    /// The figures of the member have changed.
    Figures(Figures),
    /// This replica changed the owners of slots.
    Moved(Moved),
    /// This replica has become the leader, and its Lease was seen.
    Elected(Elected),
    /// A read showed an older version than one that was known when it was sent: the store was restored to an
    /// older state. This replica owns nothing any more, and only another start makes its knowledge valid.
    StoreWentBack {
        /// The version that was known.
        seen: Version,
        /// The version of the read.
        found: Version,
    },
    /// Everything was handed over: the program can end.
    Exit,
}

/// A change of owners, and the leader's Lease for an Event about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The moves.
    pub moves: Vec<Move>,
    /// The leader's Lease.
    pub lease: LeaderLease,
}

/// The election of a leader, for an Event about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elected {
    /// The name of the Lease of the replica that leads now.
    pub leader: String,
    /// The leader's Lease.
    pub lease: LeaderLease,
}

/// The leader's Lease as Events name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderLease {
    /// Its name.
    pub name: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its UID; empty: it was not seen.
    pub uid: String,
}
