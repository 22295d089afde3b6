//! Open watches: the changes that each has seen, how far it lags, and how its stream ends.
//!
//! A watch shows the changes of its kind in order and each once, as on the real server. Most faults do not
//! change that: they delay a watch or end it. One shows the last changes again, which is harsher than any
//! server: its clients may not count on each change coming once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::mpsc;

use crate::history::Change;
use crate::kind::{Kind, KindId};
use crate::object::{Meta, Object};
use crate::selector::Selector;
use crate::trace::Trace;

/// Number of a watch: that of the request which opened it.
pub(crate) type WatchId = u64;

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The body ends as if all were said.
    Clean,
    /// The connection breaks.
    Broken,
    /// The server says that the version is gone, then the body ends.
    Gone,
}

/// A piece of a stream.
#[derive(Debug)]
pub(crate) enum Piece {
    Line(Bytes),
    Break,
}

/// One open watch.
#[derive(Debug)]
pub(crate) struct Watch {
    pub id: WatchId,
    pub who: Arc<str>,
    pub kind: KindId,
    pub namespace: Option<String>,
    pub selector: Selector,
    /// Index in the history of the first change not looked at yet.
    pub next: usize,
    /// Nothing up to here is still to be shown.
    pub seen: u64,
    pub lag: Duration,
    pub frozen_until: Duration,
    pub bookmarks: bool,
    /// When its time is over.
    pub deadline: Duration,
    pub pump_at: Option<Duration>,
    pub sender: mpsc::UnboundedSender<Piece>,
}

impl Watch {
    /// Shows all that may be shown now. Returns when to come back, if there is more, and whether the client
    /// still listens.
    pub(crate) fn pump(
        &mut self,
        changes: &[Arc<Change>],
        version: u64,
        now: Duration,
        trace: &mut Trace,
    ) -> (Option<Duration>, bool) {
        self.pump_at = None;
        if self.frozen_until > now {
            return (Some(self.frozen_until), true);
        }
        while let Some(change) = changes.get(self.next) {
            let due = change.at + self.lag;
            if due > now {
                self.seen = self.seen.max(change.rv - 1);
                return (Some(due), true);
            }
            self.next += 1;
            if change.rv <= self.seen {
                continue;
            }
            if let Some((event, object)) = self.event(change)
                && !self.show(event, &object.json(), change.rv, now, trace)
            {
                return (None, false);
            }
        }
        self.seen = self.seen.max(version);
        (None, !self.sender.is_closed())
    }

    /// Shows the last `count` of the changes that it has shown once more, oldest first.
    pub(crate) fn repeat(&self, count: usize, changes: &[Arc<Change>], now: Duration, trace: &mut Trace) {
        let shown = changes[..self.next.min(changes.len())].iter().rev();
        let shown = shown.filter_map(|change| Some((change.rv, self.event(change)?)));
        let last: Vec<_> = shown.take(count).collect();
        for (rv, (event, object)) in last.into_iter().rev() {
            self.show(event, &object.json(), rv, now, trace);
        }
    }

    /// The event that a change is for this watch, if it is one.
    fn event(&self, change: &Change) -> Option<(&'static str, Arc<Object>)> {
        if change.kind != self.kind
            || self.namespace.as_ref().is_some_and(|wanted| *wanted != change.namespace)
        {
            return None;
        }
        let selected = |object: &Option<Arc<Object>>| {
            object
                .as_ref()
                .filter(|object| self.selector.is_empty() || self.selector.matches(object))
                .cloned()
        };
        match (selected(&change.old), selected(&change.new)) {
            (None, Some(new)) => Some(("ADDED", new)),
            (Some(_), Some(new)) => Some(("MODIFIED", new)),
            (Some(_), None) => Some(("DELETED", change.farewell())),
            (None, None) => None,
        }
    }

    /// Sends one event; `false` when the client is gone.
    pub(crate) fn show(&self, event: &str, json: &[u8], rv: u64, now: Duration, trace: &mut Trace) -> bool {
        let id = self.id;
        trace.note(now, format_args!("watch {id} {event} rv {rv}"));
        let mut line = Vec::with_capacity(json.len() + 40);
        line.extend_from_slice(b"{\"type\":\"");
        line.extend_from_slice(event.as_bytes());
        line.extend_from_slice(b"\",\"object\":");
        line.extend_from_slice(json);
        line.extend_from_slice(b"}\n");
        self.sender.send(Piece::Line(line.into())).is_ok()
    }

    /// Sends a bookmark; `initial` says that the initial events end with it.
    pub(crate) fn bookmark(&self, kind: &Kind, initial: bool, now: Duration, trace: &mut Trace) -> bool {
        let mut metadata = json!({ "resourceVersion": self.seen.to_string() });
        if initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = json!({ "kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata });
        self.show("BOOKMARK", object.to_string().as_bytes(), self.seen, now, trace)
    }

    /// Shows every object of an initial state.
    pub(crate) fn show_all(&self, items: &[Arc<Object>], now: Duration, trace: &mut Trace) -> bool {
        items.iter().all(|item| self.show("ADDED", &item.json(), item.version(), now, trace))
    }
}
