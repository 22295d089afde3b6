//! All open watches: when each shows the changes, and how it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::agenda::Agenda;
use crate::deed::Deed;
use crate::history::Change;
use crate::kind::Registry;
use crate::refusal::Refusal;
use crate::store::Store;
use crate::trace::Trace;
use crate::watch::{Ending, Piece, Watch, WatchId};

/// How often a watch that wants bookmarks gets one.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// How long before the end of a watch its last bookmark comes.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The open watches by their number.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    open: BTreeMap<WatchId, Watch>,
}

/// The parts of the cluster that the watches read and write.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub store: &'a Store,
    pub agenda: &'a mut Agenda,
    pub trace: &'a mut Trace,
    pub now: Duration,
}

impl Watches {
    /// Takes a watch in, plans its bookmarks, and lets it show the changes that are due.
    pub(crate) fn open(&mut self, watch: Watch, around: &mut Surroundings<'_>) {
        let id = watch.id;
        if watch.bookmarks {
            plan_bookmark(&watch, around);
        }
        self.open.insert(id, watch);
        self.pump(id, around);
    }

    /// Lets each watch of the changed kind show the change, now or when its lag is over.
    pub(crate) fn notice(&mut self, change: &Change, around: &mut Surroundings<'_>) {
        let watching = |watch: &&Watch| watch.kind == change.kind;
        let ids: Vec<WatchId> = self.open.values().filter(watching).map(|watch| watch.id).collect();
        for id in ids {
            self.pump_when_due(id, around);
        }
    }

    fn pump_when_due(&mut self, id: WatchId, around: &mut Surroundings<'_>) {
        let Some(watch) = self.open.get_mut(&id) else { return };
        if watch.lag.is_zero() && watch.frozen_until <= around.now {
            self.pump(id, around);
        } else if watch.pump_at.is_none() {
            let at = (around.now + watch.lag).max(watch.frozen_until);
            watch.pump_at = Some(at);
            around.agenda.add(at, Deed::Pump(id));
        }
    }

    /// Lets a watch show the changes that are due.
    pub(crate) fn pump(&mut self, id: WatchId, around: &mut Surroundings<'_>) {
        let Some(watch) = self.open.get_mut(&id) else { return };
        let (changes, version) = (&around.store.history.changes, around.store.version());
        let (again, listening) = watch.pump(changes, version, around.now, around.trace);
        if let Some(at) = again {
            watch.pump_at = Some(at);
            around.agenda.add(at, Deed::Pump(id));
        }
        if !listening {
            self.open.remove(&id);
        }
    }

    /// Sends a bookmark and plans the next one.
    pub(crate) fn bookmark(&mut self, id: WatchId, around: &mut Surroundings<'_>) {
        let Some(watch) = self.open.get(&id) else { return };
        let kind = around.store.registry.get(watch.kind);
        if watch.frozen_until <= around.now && !watch.bookmark(kind, false, around.now, around.trace) {
            self.open.remove(&id);
            return;
        }
        plan_bookmark(watch, around);
    }

    /// Ends a watch.
    pub(crate) fn close(&mut self, id: WatchId, ending: Ending, around: &mut Surroundings<'_>) {
        let Some(watch) = self.open.remove(&id) else { return };
        around.trace.note(around.now, format_args!("watch {id} ends {ending:?}"));
        match ending {
            Ending::Clean => {}
            Ending::Broken => drop(watch.sender.send(Piece::Break)),
            Ending::Gone => {
                let status = Refusal::expired(watch.seen, around.store.compacted()).to_status();
                watch.show("ERROR", status.to_string().as_bytes(), watch.seen, around.now, around.trace);
            }
        }
    }

    /// Lets a watch stand still for that long from now.
    pub(crate) fn freeze(&mut self, id: WatchId, time: Duration, around: &mut Surroundings<'_>) {
        if let Some(watch) = self.open.get_mut(&id) {
            let now = around.now;
            around.trace.note(now, format_args!("watch {id} frozen for {} ms", time.as_millis()));
            watch.frozen_until = watch.frozen_until.max(now + time);
        }
    }

    /// Lets a watch show its last changes once more.
    pub(crate) fn repeat(&mut self, id: WatchId, count: usize, around: &mut Surroundings<'_>) {
        if let Some(watch) = self.open.get(&id) {
            watch.repeat(count, &around.store.history.changes, around.now, around.trace);
        }
    }

    /// Sets how far a watch lags behind from now on.
    pub(crate) fn lag(&mut self, id: WatchId, lag: Duration) {
        if let Some(watch) = self.open.get_mut(&id) {
            watch.lag = lag;
        }
    }

    /// Ends every lag and every standstill.
    pub(crate) fn heal(&mut self, around: &mut Surroundings<'_>) {
        let ids: Vec<WatchId> = self.open.keys().copied().collect();
        for id in ids {
            if let Some(watch) = self.open.get_mut(&id) {
                watch.frozen_until = around.now;
                watch.lag = Duration::ZERO;
            }
            self.pump(id, around);
        }
    }

    /// The open watches of one client on one kind.
    pub(crate) fn of(&self, who: &str, plural: &str, registry: &Registry) -> Vec<WatchId> {
        let fits = |watch: &&Watch| &*watch.who == who && registry.get(watch.kind).plural == plural;
        self.open.values().filter(fits).map(|watch| watch.id).collect()
    }
}

/// Plans the next bookmark: after a while, and at the latest shortly before the end.
fn plan_bookmark(watch: &Watch, around: &mut Surroundings<'_>) {
    let last = watch.deadline.saturating_sub(LAST_BOOKMARK);
    if last > around.now {
        around.agenda.add(last.min(around.now + BOOKMARK_PERIOD), Deed::Bookmark(watch.id));
    }
}
