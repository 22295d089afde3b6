//! The history of a run: every applied change in order, and every request of a client.
//!
//! The checkers read this and nothing else. The resourceVersion is the clock: it rises by one per change.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::kind::KindId;
use crate::object::{Meta, Object, metadata_mut};

/// The verb of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// GET of one object.
    Get,
    /// GET of many.
    List,
    /// GET of a stream of changes.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PUT of the status subresource.
    UpdateStatus,
    /// PATCH.
    Patch,
    /// PATCH of the status subresource.
    PatchStatus,
    /// DELETE.
    Delete,
    /// Anything that names no object, such as `/version`.
    Other,
}

/// The origin of a change: actor, verb and guards.
#[derive(Debug, Clone)]
pub struct Cause {
    /// Name of the client, or `user`, `kubelet`, `scheduler`, `collector`.
    pub actor: Arc<str>,
    /// Number of the request, 0 when it did not come over the wire.
    pub call: u64,
    /// The verb of the request.
    pub verb: Verb,
    /// UID precondition of a delete, or the uid that a write carried.
    pub uid: Option<String>,
    /// The resourceVersion that the request carried.
    pub version: Option<String>,
    /// Grace period that a delete asked for.
    pub grace: Option<i64>,
    /// Propagation policy that a delete asked for.
    pub propagation: Option<String>,
}

/// One applied change of one object.
#[derive(Debug)]
pub struct Change {
    /// The resourceVersion that it made.
    pub rv: u64,
    /// Virtual time since the simulation began.
    pub at: Duration,
    /// The server's own clock at that moment.
    pub time: Timestamp,
    /// Kind of the object.
    pub kind: KindId,
    /// Plural of the kind, as in paths.
    pub plural: Arc<str>,
    /// Namespace, empty for a cluster-wide object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// The origin of the change.
    pub cause: Cause,
    /// The object before, `None` when this change created it.
    pub old: Option<Arc<Object>>,
    /// The object after, `None` when this change removed it.
    pub new: Option<Arc<Object>>,
    pub(crate) farewell: OnceLock<Arc<Object>>,
}

impl Change {
    /// A change that was seen elsewhere, such as in the watches of a real cluster, for the checkers to judge.
    #[must_use]
    pub fn seen(
        rv: u64,
        plural: &str,
        time: Timestamp,
        cause: Cause,
        old: Option<Arc<Object>>,
        new: Option<Arc<Object>>,
    ) -> Self {
        let text = |field| new.as_ref().or(old.as_ref()).map_or("", |object| object.meta(field)).to_owned();
        let (namespace, name, uid) = (text("namespace"), text("name"), text("uid"));
        let at = Duration::try_from(time.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default();
        let (kind, plural, farewell) = (KindId(0), plural.into(), OnceLock::new());
        Self { rv, at, time, kind, plural, namespace, name, uid, cause, old, new, farewell }
    }

    /// Whether it is about an object of that plural.
    #[must_use]
    pub fn is(&self, plural: &str) -> bool {
        &*self.plural == plural
    }

    /// Whether it created the object.
    #[must_use]
    pub fn creates(&self) -> bool {
        self.old.is_none()
    }

    /// Whether it removed the object.
    #[must_use]
    pub fn removes(&self) -> bool {
        self.new.is_none()
    }

    /// The object after the change, or before it if it is gone.
    #[must_use]
    pub fn object(&self) -> &Value {
        match (&self.new, &self.old) {
            (Some(object), _) | (None, Some(object)) => object,
            (None, None) => &Value::Null,
        }
    }

    /// The object of a DELETED event: the previous content at this change's resourceVersion.
    pub(crate) fn farewell(&self) -> Arc<Object> {
        let make = || {
            let mut value = self.old.as_ref().map_or(Value::Null, |old| Value::clone(old));
            metadata_mut(&mut value).insert("resourceVersion".to_owned(), self.rv.to_string().into());
            Arc::new(Object::new(value))
        };
        Arc::clone(self.farewell.get_or_init(make))
    }
}

/// One request of a client and its outcome.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Number of the request.
    pub call: u64,
    /// Name of the client.
    pub who: Arc<str>,
    /// When it was sent.
    pub at: Duration,
    /// The verb.
    pub verb: Verb,
    /// Plural of the kind, or the path when it names no object.
    pub plural: Arc<str>,
    /// Namespace and name, as far as the path gives them.
    pub namespace: String,
    /// Name in the path, or in the body of a POST.
    pub name: String,
    /// Status code the server gave, `None` when it never saw the request.
    pub code: Option<u16>,
    /// The server's clock at that moment: the reply's `Date` is its whole second.
    pub clock: Option<Timestamp>,
    /// When the reply reached the client, `None` while it has not, or never will.
    pub answered: Option<Duration>,
    /// When the client knew that no more will come: with the reply, or as the connection broke. `None` while
    /// it hangs, and when the client gave up first.
    pub settled: Option<Duration>,
}

/// All changes, and all requests, in order.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Applied changes by rising resourceVersion.
    pub changes: Vec<Arc<Change>>,
    /// Requests in the order of their numbers, which start at 1.
    pub exchanges: Vec<Exchange>,
}

impl History {
    /// The changes of objects of one plural.
    pub fn of<'a>(&'a self, plural: &'a str) -> impl Iterator<Item = &'a Arc<Change>> {
        self.changes.iter().filter(move |change| change.is(plural))
    }

    /// The request behind a number.
    #[must_use]
    pub fn exchange(&self, call: u64) -> Option<&Exchange> {
        let index = usize::try_from(call).ok()?.checked_sub(1)?;
        self.exchanges.get(index)
    }

    /// The request that made a change, unless it did not come over the wire.
    #[must_use]
    pub fn exchange_of(&self, change: &Change) -> Option<&Exchange> {
        self.exchange(change.cause.call)
    }

    /// How many requests of one client match.
    #[must_use]
    pub fn count(&self, who: &str, verb: Verb, plural: &str) -> usize {
        let matches = |one: &&Exchange| &*one.who == who && one.verb == verb && &*one.plural == plural;
        self.exchanges.iter().filter(matches).count()
    }

    /// One line per change: for a failed test to print.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |change: &Arc<Change>| {
            let Change { rv, at, plural, namespace, name, cause, .. } = &**change;
            let what = match (&change.old, &change.new) {
                (None, _) => "+",
                (_, None) => "-",
                _ => "~",
            };
            let state = ["state", "phase"].iter().find_map(|field| change.object()["status"][field].as_str());
            let state = state.unwrap_or("");
            let deleting = if change.object().deleting() { " deleting" } else { "" };
            let ms = at.as_millis();
            let Cause { actor, verb, .. } = cause;
            let object = format!("{plural}/{namespace}/{name} {state}{deleting}");
            format!("{ms:>8} ms  rv {rv:<6} {what} {object}  {actor} {verb:?}")
        };
        self.changes.iter().map(line).collect()
    }
}
