//! The vocabulary of the agenda: the actions that each part of the cluster may plan for later.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::body::Answer;
use crate::call::Call;
use crate::faults::Plan;
use crate::kind::KindId;
use crate::store::Key;
use crate::watch::{Ending, WatchId};

/// Something that the cluster does at a set time.
#[derive(Debug)]
pub(crate) enum Deed {
    /// A request reaches the server.
    Arrive(Box<Parcel>),
    /// A reply reaches the client.
    Deliver { call: u64, reply: oneshot::Sender<Answer>, answer: Box<Answer> },
    /// A watch shows the changes that are due.
    Pump(WatchId),
    /// A watch shows how far it is.
    Bookmark(WatchId),
    /// A watch stands still for a while.
    Freeze(WatchId, Duration),
    /// A watch ends.
    Close(WatchId, Ending),
    /// A node or the scheduler takes a step with a Pod.
    Pod(PodRef, Step),
    /// The garbage collector looks at something.
    Collect(WorkItem),
    /// The quota controller counts the use in a namespace.
    Count(String),
}

/// A request, its plan of delays and faults, and the way back.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub call: Call,
    pub plan: Plan,
    pub reply: oneshot::Sender<Answer>,
}

/// A Pod, by name and UID.
#[derive(Debug, Clone)]
pub(crate) struct PodRef {
    pub kind: KindId,
    pub key: Key,
    pub uid: String,
}

/// The next step of a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Bind,
    Start,
    Finish,
    /// The containers of a deleted Pod end.
    Kill,
    /// The ended containers of a deleted Pod are cleaned up, and the object is removed.
    Remove,
    /// The node controller gives up on the node and deletes the Pod.
    Evict,
}

/// An item of the collector's work queue.
#[derive(Debug, Clone)]
pub(crate) enum WorkItem {
    /// A change, by its place in the history.
    Notice(usize),
    /// An object whose owners may be gone.
    Visit(String),
    /// An object that waits for its dependents.
    Await(String),
    /// An object whose dependents are to be released.
    Release(String),
}
