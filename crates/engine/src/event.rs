//! The seam between the engine and the shell: every input that can wake the engine is an [`Event`], and every
//! action that it wants done is an [`Effect`].
//!
//! Both are closed: a new way to wake the engine, or to touch the API server, is a new variant here.

use std::sync::Arc;
use std::time::Duration;

use framework_api::{Framework, Time};
use framework_core::growth::UnitDemand;
use framework_core::plan::Report;
use framework_core::queue::Stage;
use framework_message::{Change, Key, Right, SlotSelection, Slots, Ticket};

use crate::history::Line;
use crate::object::{ConfigMapObject, FrameworkObject, PodObject, Reply, UnownedPod};
use crate::outcomes::Outcomes;
use crate::request::Request;
use crate::traces::Span;

/// An input that can wake the engine.
#[derive(Debug)]
pub enum Event {
    /// The watch of Frameworks.
    Framework(Change<FrameworkObject>),
    /// The watch of ConfigMaps.
    ConfigMap(Change<ConfigMapObject>),
    /// The watch of Pods.
    Pod(Change<PodObject>),
    /// The watch of Pods shows a Pod that is not ours.
    UnownedPod(UnownedPod),
    /// A request has ended.
    Reply {
        /// Which request.
        ticket: Ticket,
        /// Its outcome.
        reply: Reply,
        /// The `Date` of the response, if there was one.
        server: Option<Time>,
    },
    /// Send no new creates and deletes for these slots; [`Effect::Drained`] follows once all is settled.
    Drain(Slots),
    /// The drain of these slots is called off.
    Resume(Slots),
    /// A LIST of a kind begins, and selects these objects.
    Selected(Kind, SlotSelection),
    /// These slots were granted; [`Effect::Listed`] follows once every kind has been listed.
    Granted {
        /// The slots.
        slots: Slots,
        /// The number of the grant.
        grant: u64,
    },
    /// Creates of an earlier owner of these slots may land until this moment of
    /// [`Now::boot`](framework_message::Now::boot). It comes before [`Event::Granted`].
    Hold {
        /// The slots.
        slots: Slots,
        /// The end.
        until: Duration,
    },
    /// The Frameworks of these slots may be acted for: they are evaluated.
    Begin(Slots),
    /// These slots are not owned any more: all that is known of them is dropped.
    Lost(Slots),
}

/// The kinds that the engine watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Frameworks.
    Frameworks,
    /// ConfigMaps.
    ConfigMaps,
    /// Pods.
    Pods,
}

/// An action that the engine wants done.
#[derive(Debug)]
pub enum Effect {
    /// Send this request immediately; exactly one [`Event::Reply`] with the ticket follows.
    Send {
        /// Identifies the request.
        ticket: Ticket,
        /// The request.
        request: Request,
        /// It may leave while this right lasts; `None`: at any time.
        right: Option<Right>,
    },
    /// Publish Events about a Framework, best effort, and log them.
    Publish {
        /// The Framework.
        framework: Arc<Framework>,
        /// The Events.
        reports: Vec<Report>,
    },
    /// Report a Framework that waits in a queue, or came through one, to `FrameworkUnits`.
    Queued {
        /// The Framework's name.
        key: Key,
        /// The Framework; `None`: it is gone, or is in no queue any more.
        framework: Option<QueuedFramework>,
        /// Whether Pods of the name run that its Framework does not record.
        has_strays: bool,
        /// Whether the Framework before went while Pods of it were yet to be seen.
        left_creates: bool,
    },
    /// Count the end of a lifetime, or of attempts.
    Measure(Measure),
    /// These parts of the lives of Frameworks have ended: export them as spans, best effort.
    Trace(Vec<Span>),
    /// Write lines of the history.
    WriteHistory {
        /// The lines.
        lines: Vec<Line>,
        /// The request that may leave only once they are written; the effect that sends it follows. `None`:
        /// no request waits for them.
        before: Option<Ticket>,
    },
    /// A read shows a lower version than was seen before: the API server's store was restored to an older
    /// state. Nothing that is cached is valid, so the program is to start afresh.
    StoreWentBack {
        /// The version that was seen.
        seen: u128,
        /// The version that the read shows.
        found: u128,
    },
    /// The API server showed its time, in the response to a request that was sent at `sent`.
    TimeHeard {
        /// On the monotonic clock.
        sent: Duration,
        /// The `Date`.
        date: Time,
    },
    /// Every kind has been listed for these slots since they were granted.
    Listed(Slots),
    /// These slots are settled after [`Event::Drain`], or were drained for as long as a request can live.
    Drained(Slots),
}

/// A Framework that waits in a queue, or came through one, as `FrameworkUnits` needs it.
#[derive(Clone, Debug)]
pub struct QueuedFramework {
    /// Metadata and spec.
    pub framework: Arc<Framework>,
    /// The queue that it names.
    pub queue: Option<Arc<str>>,
    /// Its stage.
    pub stage: Stage,
    /// The demand of each of its units.
    pub demands: Vec<UnitDemand>,
}

/// A moment in the life of a Framework, as metrics count it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The API server accepted the deletion of a Framework whose `ttlSecondsAfterFinished` had passed.
    TtlDeletion {
        /// The time from the expiry to that acceptance.
        late: Duration,
    },
    /// A persisted status records that a Framework ran past its `activeDeadlineSeconds`.
    DeadlineExceeded,
    /// A persisted status records that attempts ended or were retried.
    Attempts(Outcomes),
    /// A persisted status records that a Task of a Framework runs for the first time.
    Running {
        /// The time since the Framework was created.
        after: Duration,
    },
}
