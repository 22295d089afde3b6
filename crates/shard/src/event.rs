//! The inputs and outputs of a member.

use std::time::Duration;

use framework_message::{Slots, Ticket};

use crate::lease::LeaseRecord;
use crate::map::SlotMap;
use crate::version::{Seen, Version};

/// The end of a write. Each write has exactly one, at the latest when its time-out has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was applied, and this is the version of the object now.
    Done(Version),
    /// This copy was not applied and never will be: a conflict, another refusal, or it was not sent. If a
    /// proxy sent it twice, the other copy may have been applied.
    Refused,
    /// It may have been applied, or may still be.
    Unknown,
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time passed. It comes at least four times in each interval of renewals.
    Tick,
    /// A watch or a read showed a Lease.
    LeaseSeen {
        /// Its name.
        name: String,
        /// The Lease, or its absence.
        seen: Seen<LeaseRecord>,
    },
    /// The end of [`Effect::WriteLease`].
    LeaseWritten {
        /// The write.
        ticket: Ticket,
        /// Its end.
        outcome: Outcome,
    },
    /// A watch showed the map.
    MapSeen(Seen<SlotMap>),
    /// The end of [`Effect::ReadMap`]; `None`: no answer.
    MapRead(Option<Seen<SlotMap>>),
    /// The end of [`Effect::PutMap`].
    MapPut {
        /// The write.
        ticket: Ticket,
        /// Its end.
        outcome: Outcome,
    },
    /// The Frameworks, ConfigMaps and Pods of these slots were listed, as [`Effect::List`] asked.
    Listed(Slots),
    /// No request for these slots was on the way any more, as [`Effect::Drain`] asked.
    Drained {
        /// The slots.
        slots: Slots,
        /// `since` of the last [`Effect::Drain`] that was carried out before. If another drain of a slot has
        /// begun meanwhile, creates for it may have been sent in between.
        since: Duration,
    },
    /// Whether every Framework has the label by which another replica would select it. Until then the leader
    /// proposes no move: the owner would lose sight of its own Frameworks.
    Labelled(bool),
    /// The program is to end.
    Stop,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write a Lease, if it still has the version `base`; without one, create it.
    WriteLease {
        /// Its name.
        name: String,
        /// The version that it replaces.
        base: Option<Version>,
        /// The new content.
        record: LeaseRecord,
        /// Names the write in its reply.
        ticket: Ticket,
    },
    /// Read a Lease from the API server.
    ReadLease(String),
    /// Delete a Lease, if it still has this version.
    DeleteLease {
        /// Its name.
        name: String,
        /// Its version.
        base: Version,
    },
    /// Write the map, if it still has the version `base`; without one, create it.
    PutMap {
        /// The version that it replaces.
        base: Option<Version>,
        /// The new content.
        map: SlotMap,
        /// Names the write in its reply.
        ticket: Ticket,
    },
    /// Read the map from the API server.
    ReadMap,
    /// List the objects of slots that were granted, by consistent reads that begin now.
    List(Slots),
    /// These slots are owned until this moment. Earlier moments for them are void.
    Own {
        /// The slots.
        slots: Slots,
        /// The end, on the clock that counts suspension.
        until: Duration,
    },
    /// Send no create for these slots that the stored status already permitted, until this moment.
    Hold {
        /// The slots.
        slots: Slots,
        /// The end, on the clock that counts suspension.
        until: Duration,
    },
    /// Begin no create and no delete for these slots; write the statuses that are not persisted, and
    /// say when all is settled.
    Drain {
        /// The slots.
        slots: Slots,
        /// When their drain began, on the clock that counts suspension: names it.
        since: Duration,
    },
    /// The drain of these slots is called off: they may be created for again.
    Resume(Slots),
    /// These slots are not owned.
    Disown(Slots),
    /// This life is over: begin another one.
    Rejoin,
    /// Everything was handed over: the program can end.
    Exit,
}
