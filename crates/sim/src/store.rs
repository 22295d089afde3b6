//! The objects, their versions and the history of their changes: the work of etcd and the registry layer of a
//! real API server together.
//!
//! Synchronous and free of faults: a call either changes the store at once or refuses, with the reasons
//! and the preconditions of the real server. The verbs are in `creation.rs`, `update.rs`, `deletion.rs`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::history::{Cause, Change, History, Verb};
use crate::kind::{Kind, KindId, Registry};
use crate::object::{Meta, Object, metadata_mut};
use crate::refusal::Refusal;
use crate::selector::Selector;

/// The first resourceVersion that a change gets is one above this.
const FIRST_VERSION: u64 = 1000;

/// Namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Namespace, empty for a cluster-wide object.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// A key from its two parts.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// The caller of a verb: its name and the time.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Name that the history shows.
    pub actor: Arc<str>,
    /// Number of the request, 0 when it did not come over the wire.
    pub call: u64,
    /// Virtual time.
    pub at: Duration,
    /// Time on the server's clock.
    pub time: Timestamp,
}

impl Caller {
    pub(crate) fn cause(&self, verb: Verb) -> Cause {
        let actor = Arc::clone(&self.actor);
        Cause { actor, call: self.call, verb, uid: None, version: None, grace: None, propagation: None }
    }
}

/// A part of a list, all of one version.
#[derive(Debug)]
pub struct Page {
    /// The objects, by namespace and name.
    pub items: Vec<Arc<Object>>,
    /// The version they are of.
    pub version: u64,
    /// Where the next page starts after, and how many objects follow, selected or not.
    pub next: Option<(Key, usize)>,
}

/// The query of a list.
#[derive(Debug, Default)]
pub struct Query {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only the objects that this selects.
    pub selector: Selector,
    /// The state at exactly this version instead of the newest.
    pub version: Option<u64>,
    /// At most so many.
    pub limit: Option<usize>,
    /// Only the objects after this key.
    pub after: Option<Key>,
}

/// The store.
#[derive(Debug, Clone)]
pub struct Store {
    /// The kinds it knows.
    pub registry: Registry,
    pub(crate) history: History,
    pub(crate) uids: Rng,
    objects: Vec<BTreeMap<Key, Arc<Object>>>,
    by_uid: BTreeMap<String, (KindId, Key)>,
    plurals: Vec<Arc<str>>,
    version: u64,
    compacted: u64,
}

impl Store {
    /// An empty store whose UIDs come from that generator.
    #[must_use]
    pub fn new(registry: Registry, uids: Rng) -> Self {
        let mut store = Self {
            registry,
            history: History::default(),
            uids,
            objects: Vec::new(),
            by_uid: BTreeMap::new(),
            plurals: Vec::new(),
            version: FIRST_VERSION,
            compacted: FIRST_VERSION,
        };
        store.fit();
        store
    }

    /// Adds a kind, or replaces one.
    pub fn add_kind(&mut self, kind: Kind) -> KindId {
        let id = self.registry.add(kind);
        self.fit();
        id
    }

    fn fit(&mut self) {
        for index in self.objects.len()..self.registry.len() {
            self.objects.push(BTreeMap::new());
            self.plurals.push(self.registry.get(KindId(index)).plural.as_str().into());
        }
    }

    /// The newest version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The oldest version from which a watch may start.
    #[must_use]
    pub fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Forgets the history up to and including that version: older watches and tokens get 410.
    pub fn compact(&mut self, version: u64) {
        self.compacted = self.compacted.max(version.min(self.version));
    }

    /// Plural of a kind, shared.
    #[must_use]
    pub fn plural(&self, kind: KindId) -> Arc<str> {
        Arc::clone(&self.plurals[kind.0])
    }

    /// An object.
    #[must_use]
    pub fn get(&self, kind: KindId, key: &Key) -> Option<&Arc<Object>> {
        self.objects[kind.0].get(key)
    }

    /// An object, or the refusal that a GET of it gets.
    pub(crate) fn expect(&self, kind: KindId, key: &Key) -> Result<Arc<Object>, Refusal> {
        let missing = || Refusal::not_found(self.registry.get(kind), &key.name);
        self.get(kind, key).cloned().ok_or_else(missing)
    }

    /// The living object with that UID.
    #[must_use]
    pub fn find_uid(&self, uid: &str) -> Option<(KindId, &Arc<Object>)> {
        let (kind, key) = self.by_uid.get(uid)?;
        Some((*kind, self.get(*kind, key)?))
    }

    /// All objects of a kind, in order.
    pub fn all(&self, kind: KindId) -> impl Iterator<Item = &Arc<Object>> {
        self.objects[kind.0].values()
    }

    /// A page of a list.
    ///
    /// # Errors
    /// When the version asked for is compacted.
    pub fn list(&self, kind: KindId, query: &Query) -> Result<Page, Refusal> {
        let version = query.version.unwrap_or(self.version);
        if version < self.compacted && version != self.version {
            return Err(Refusal::expired_token());
        }
        let past = self.undone(kind, version);
        let all = past.as_ref().unwrap_or(&self.objects[kind.0]);
        let first = match (&query.after, &query.namespace) {
            (Some(key), _) => Bound::Excluded(key.clone()),
            (None, Some(namespace)) => Bound::Included(Key::new(namespace, "")),
            (None, None) => Bound::Unbounded,
        };
        let mut rest = all
            .range((first, Bound::Unbounded))
            .take_while(|(key, _)| query.namespace.as_ref().is_none_or(|wanted| *wanted == key.namespace))
            .map(|(_, object)| object);
        let limit = query.limit.unwrap_or(usize::MAX);
        let selected = rest.by_ref().filter(|object| query.selector.matches(object));
        let items: Vec<_> = selected.take(limit).cloned().collect();
        // A full page says that there is more if anything follows, selected or not.
        let remaining = rest.count();
        let next = match items.last() {
            Some(last) if remaining > 0 => Some((Key::new(last.namespace(), last.name()), remaining)),
            _ => None,
        };
        Ok(Page { items, version, next })
    }

    /// The objects of a kind as they were at an older version, `None` when nothing changed since.
    fn undone(&self, kind: KindId, version: u64) -> Option<BTreeMap<Key, Arc<Object>>> {
        let newer = self.history.changes.iter().rev().take_while(|change| change.rv > version);
        let mut past = None;
        for change in newer.filter(|change| change.kind == kind) {
            let objects = past.get_or_insert_with(|| self.objects[kind.0].clone());
            let key = Key::new(&change.namespace, &change.name);
            match &change.old {
                Some(old) => objects.insert(key, Arc::clone(old)),
                None => objects.remove(&key),
            };
        }
        past
    }

    /// Puts a new version of an object in place and writes it into the history.
    pub(crate) fn commit(
        &mut self,
        caller: &Caller,
        kind: KindId,
        old: Option<Arc<Object>>,
        mut value: Value,
        cause: Cause,
    ) -> Arc<Object> {
        self.version += 1;
        metadata_mut(&mut value).insert("resourceVersion".to_owned(), self.version.to_string().into());
        let new = Arc::new(Object::new(value));
        let key = Key::new(new.namespace(), new.name());
        if old.is_none() {
            self.by_uid.insert(new.uid().to_owned(), (kind, key.clone()));
        }
        self.record(caller, kind, &key, new.uid(), cause, (old, Some(Arc::clone(&new))));
        self.objects[kind.0].insert(key, Arc::clone(&new));
        new
    }

    /// Takes an object out and writes that into the history.
    pub(crate) fn remove(&mut self, caller: &Caller, kind: KindId, old: &Arc<Object>, cause: Cause) {
        self.version += 1;
        let key = Key::new(old.namespace(), old.name());
        self.by_uid.remove(old.uid());
        self.objects[kind.0].remove(&key);
        self.record(caller, kind, &key, old.uid(), cause, (Some(Arc::clone(old)), None));
    }

    fn record(
        &mut self,
        caller: &Caller,
        kind: KindId,
        key: &Key,
        uid: &str,
        cause: Cause,
        (old, new): (Option<Arc<Object>>, Option<Arc<Object>>),
    ) {
        self.history.changes.push(Arc::new(Change {
            rv: self.version,
            at: caller.at,
            time: caller.time,
            kind,
            plural: self.plural(kind),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: uid.to_owned(),
            cause,
            old,
            new,
            farewell: OnceLock::new(),
        }));
    }

    /// A new UID, in the form of a random UUID.
    pub(crate) fn new_uid(&mut self) -> Value {
        let bits = self.uids.u128(..);
        let bits = bits & !(0xf << 76) | (0x4 << 76);
        let bits = bits & !(0x3 << 62) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        json!(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
    }
}
