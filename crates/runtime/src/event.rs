//! The seam between what decides and what moves bytes: everything that can wake the engine is an
//! [`Event`], everything it wants done is an [`Effect`].
//!
//! Both are closed: a new way to wake the engine, or to touch the API server, is a new variant here.

use std::sync::Arc;
use std::time::Duration;

use framework_api::{Framework, FrameworkStatus, Time};
use framework_core::Action;
use framework_core::observed::{ConfigMapFacts, PodFacts};
use framework_core::plan::Report;
use framework_core::size::SizeLimits;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::value::RawValue;

use crate::history::Line;
use crate::queue::{self, Consumer, News, UnitObject};

/// Names a Framework in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl Key {
    /// The Framework `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Key { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A moment on both clocks: the steady one for windows and time-outs, the wall for what users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since the program started; never goes back.
    pub steady: Duration,
    /// The local wall clock.
    pub wall: Timestamp,
}

/// Everything that can wake the engine.
#[derive(Debug)]
pub enum Event {
    /// The watch of Frameworks.
    Framework(Change<FrameworkObject>),
    /// The watch of ConfigMaps.
    ConfigMap(Change<ConfigMapObject>),
    /// The watch of Pods.
    Pod(Change<PodObject>),
    /// A watch that queueing needs: not the engine's affair.
    Queue(News),
    /// A request has ended.
    Reply {
        /// Which request.
        ticket: Ticket,
        /// What came of it.
        reply: Reply,
        /// The `Date` of the response, if there was one.
        server: Option<Time>,
    },
    /// Time has passed.
    Tick,
    /// No new creates and deletes; say when all is settled.
    Drain,
}

/// What a watch tells of one object, or of the watch itself.
#[derive(Debug)]
pub enum Change<T> {
    /// A LIST begins: what follows until [`Change::Synced`] replaces all that was known of the kind.
    Restarted,
    /// One object of that LIST.
    Listed(T),
    /// The LIST is complete.
    Synced,
    /// Added or modified.
    Applied(T),
    /// Deleted, or no longer selected; the object as it was last.
    Deleted(T),
    /// There, and not ours: if it was, somebody took it from its owner.
    Released(Stranger),
}

/// A Pod that no ConfigMap of ours controls.
#[derive(Clone, Debug)]
pub struct Stranger {
    /// The Framework that its name speaks of.
    pub key: Key,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// The whole Pod, if the controller made it and an event shows it deleted.
    pub last: Option<Box<RawValue>>,
}

/// A decoded Framework, its status apart.
pub type Content = (Arc<Framework>, Option<Arc<FrameworkStatus>>);

/// A Framework as read from the API server.
#[derive(Clone, Debug)]
pub struct FrameworkObject {
    /// Its name.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, as the number that it is (KEP-5504).
    pub resource_version: u128,
    /// Length of its metadata and spec as the API server wrote them, which is how it stores them.
    pub stored_bytes: usize,
    /// The decoded object, status apart; or why it cannot be decoded, in which case it is left alone.
    pub content: Result<Content, Unreadable>,
    /// How its status is stored.
    pub form: Form,
    /// Which fields of its spec count as not set because they are not what they may be.
    pub ignored: Option<String>,
}

/// How a status is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Whether its TaskRole statuses are compressed.
    pub compressed: bool,
    /// How long it is, as JSON.
    pub bytes: usize,
}

/// Why a Framework cannot be read, and what can be read of it all the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreadable {
    /// Which field, and why.
    pub reason: Arc<str>,
    /// Metadata and spec.
    pub framework: Option<Arc<Framework>>,
    /// The conditions in its status.
    pub conditions: Option<Vec<Condition>>,
}

impl From<&str> for Unreadable {
    fn from(reason: &str) -> Self {
        Unreadable { reason: reason.into(), framework: None, conditions: None }
    }
}

/// A ConfigMap with the name of a FrameworkAttempt's.
#[derive(Clone, Debug)]
pub struct ConfigMapObject {
    /// The Framework that its name speaks of.
    pub key: Key,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// What the core wants to know.
    pub facts: ConfigMapFacts,
    /// Whether it carries the slot label.
    pub labelled: bool,
}

/// A Pod that is controlled by a ConfigMap with the name of a FrameworkAttempt's.
#[derive(Clone, Debug)]
pub struct PodObject {
    /// The Framework that its controller's name speaks of.
    pub key: Key,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.resourceVersion`.
    pub resource_version: u128,
    /// What the core wants to know.
    pub facts: PodFacts,
    /// Whether it carries the slot label.
    pub labelled: bool,
    /// The whole Pod, if an event shows it deleted. The cache keeps none.
    pub last: Option<Box<RawValue>>,
}

/// Names a request until its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What the engine wants done.
#[derive(Debug)]
pub enum Effect {
    /// Send this request, at once; exactly one [`Event::Reply`] with the ticket follows.
    Send {
        /// Names it.
        ticket: Ticket,
        /// What to send.
        request: Request,
    },
    /// Publish Events about a Framework, best effort, and log them.
    Publish {
        /// About whom.
        framework: Arc<Framework>,
        /// What to say.
        reports: Vec<Report>,
    },
    /// Tell the desk of a Framework that waits in a queue, or came through one.
    Consumer {
        /// Its name.
        key: Key,
        /// What it asks for; `None`: it is gone.
        consumer: Option<Consumer>,
    },
    /// Count what came of a lifetime.
    Measure(Measure),
    /// Write lines of the history.
    Tell {
        /// The lines.
        lines: Vec<Line>,
        /// The request that may leave only once they are written; the effect that sends it follows. Without
        /// one nothing waits for them.
        before: Option<Ticket>,
    },
    /// Everything is settled after [`Event::Drain`]: the program may end.
    Drained,
}

/// The end of a lifetime, as metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The API server accepted the deletion of a Framework whose `ttlSecondsAfterFinished` had passed.
    TtlDeletion {
        /// How long before.
        late: Duration,
    },
    /// It is persisted that a Framework ran past its `activeDeadlineSeconds`.
    DeadlineExceeded,
}

/// A request to the API server. Each carries what keeps it from hitting anything else than it means.
#[derive(Clone, Debug)]
pub enum Request {
    /// PUT of the status, guarded by the resourceVersion that it was computed from.
    PutStatus {
        /// The object whose status it is: gives name, namespace and UID.
        framework: Arc<Framework>,
        /// Guard.
        resource_version: u128,
        /// The new status.
        status: Arc<FrameworkStatus>,
        /// Whether it is compressed in any case, because its attempt has been so far.
        compressed: bool,
        /// What it may take, beside metadata and spec.
        room: SizeLimits,
    },
    /// Merge patch of the conditions of a Framework that cannot be read, guarded by UID and resourceVersion.
    PatchConditions {
        /// The object: gives name, namespace and UID.
        framework: Arc<Framework>,
        /// Guard.
        resource_version: u128,
        /// All of them.
        conditions: Vec<Condition>,
    },
    /// One of the core's actions; creates are rendered from the persisted status when they are sent.
    Act {
        /// The object acted for.
        framework: Arc<Framework>,
        /// The persisted status that permits the act.
        status: Arc<FrameworkStatus>,
        /// The act.
        action: Action,
    },
    /// Fetches a `Date`.
    AskTime,
    /// GET of a Framework, after a conflict or a reply that never came.
    GetFramework {
        /// Its name.
        key: Key,
    },
    /// GET of the object that holds a name which a create wanted.
    GetHolder {
        /// For whom the create was.
        key: Key,
        /// The refused act.
        action: Action,
    },
    /// Merge patch that puts the slot label back, guarded by UID and resourceVersion.
    RestoreLabel {
        /// The Framework that the object belongs to.
        framework: Arc<Framework>,
        /// The Pod's name; `None` for the ConfigMap.
        pod: Option<String>,
        /// Guard.
        uid: String,
        /// Guard.
        resource_version: u128,
    },
    /// One of the desk's.
    Queue(queue::Request),
}

/// What came of a request.
#[derive(Debug)]
pub enum Reply {
    /// The Framework as it stands after a PUT or at a GET.
    Framework(FrameworkObject),
    /// The ConfigMap after a POST, a PATCH or at a GET.
    ConfigMap(ConfigMapObject),
    /// The Pod after a POST, a PATCH, a DELETE or at a GET.
    Pod(PodObject),
    /// The QueueUnit after a POST, a PATCH or at a GET.
    Unit(Box<UnitObject>),
    /// A page of QueueUnits.
    Units(queue::Page),
    /// An object of that name that is not ours, at a GET: a sentence that names its owner.
    Foreign(String),
    /// Done, and there is nothing to show.
    Done,
    /// Refused: it had no effect.
    Refused(Rejection),
    /// Never left, or was certainly not processed: it had no effect.
    NotSent(String),
    /// No reply: it may have had, or may yet have, its effect.
    Unknown(String),
}

impl Reply {
    /// Whether the request may have reached the API server.
    pub fn was_sent(&self) -> bool {
        !matches!(self, Reply::NotSent(_))
    }
}

/// An error that the API server answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// HTTP status.
    pub code: u16,
    /// `reason` of the Status, such as `Conflict`, `AlreadyExists`, `Forbidden`, `Invalid`.
    pub reason: String,
    /// `message` of the Status.
    pub message: String,
    /// How long to wait before another try, from `Retry-After`.
    pub retry_after: Option<Duration>,
}
