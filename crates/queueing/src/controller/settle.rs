//! The time after a start in which nothing is released: what a predecessor sent may still land, and with
//! fewer known releases than there are, too many would follow.
//!
//! Its requests live as long as any. Then the units of the namespace are listed, consistently: what the
//! watch shows may be behind, and what was written last would be missing. Only then does a round run there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_api::queue::Phase;
#[cfg(feature = "defects")]
use framework_core::Defect;
use tracing::warn;

use super::{QueueController, Sent, Work};
use crate::object::{Object, Reply};
use crate::object::{QueueEvent, UnitObject};
use crate::request::Request;
use framework_message::backoff::{Failures, NOT_SENT, REFUSED};
use framework_message::{Change, Key, Now};

/// How far a namespace is.
#[derive(Debug)]
pub(super) enum Unsettled {
    /// Requests of a predecessor may land until then.
    Waits(Duration),
    /// Its units are being listed.
    Lists(Listing),
}

/// A LIST, page by page.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// `continue` of the last page.
    after: Option<Arc<str>>,
    busy: bool,
    failures: Failures,
    not_before: Duration,
    /// What the watch showed deleted meanwhile, and in which version: a page may be older.
    deleted: BTreeMap<Key, u128>,
}

impl QueueController {
    /// A predecessor may have been releasing what waits here, and beginning what is released.
    pub(super) fn begin(&mut self, now: Now) {
        let is_open = |unit: &&UnitObject| unit.standing.phase == Some(Phase::Enqueued) || unit.deleting;
        let open = self.units.iter().filter(is_open);
        let until = now.steady + self.settings.request_lifetime;
        let wait = |unit: &UnitObject| (Arc::clone(&unit.key.namespace), Unsettled::Waits(until));
        self.unsettled = open.map(wait).collect();
        #[cfg(feature = "defects")]
        if self.lacks(Defect::ReleaseAtOnce) {
            self.unsettled.clear();
        }
    }

    /// Lists the units of namespaces where nothing of a predecessor can land any more.
    pub(super) fn settle(&mut self, now: Now) {
        let mut due = Vec::new();
        for (namespace, unsettled) in &mut self.unsettled {
            if matches!(unsettled, Unsettled::Waits(until) if *until <= now.steady) {
                *unsettled = Unsettled::Lists(Listing::default());
                due.push(Arc::clone(namespace));
            }
        }
        due.into_iter().for_each(|namespace| self.offer(Work::List(namespace)));
    }

    /// When the first namespace has waited long enough.
    pub(super) fn settles_at(&self) -> Option<Duration> {
        let waits = |unsettled: &Unsettled| match unsettled {
            Unsettled::Waits(until) => Some(*until),
            Unsettled::Lists(_) => None,
        };
        self.unsettled.values().filter_map(waits).min()
    }

    /// The watch no longer shows a unit that it showed in that version.
    pub(super) fn vanished(&mut self, key: &Key, version: u128) {
        if let Some(Unsettled::Lists(listing)) = self.unsettled.get_mut(&key.namespace) {
            listing.deleted.insert(key.clone(), version);
        }
    }

    pub(super) fn list(&mut self, now: Now, namespace: &Arc<str>) -> Option<(Sent, Request)> {
        if self.draining || !self.owns(namespace, now) {
            return None;
        }
        let Some(Unsettled::Lists(listing)) = self.unsettled.get_mut(namespace) else { return None };
        if listing.busy {
            return None;
        }
        if now.steady < listing.not_before {
            self.later.insert((listing.not_before, Work::List(Arc::clone(namespace))));
            return None;
        }
        listing.busy = true;
        let request = Request::ListUnits { namespace: Arc::clone(namespace), after: listing.after.clone() };
        Some((Sent::List(Arc::clone(namespace)), request))
    }

    /// Takes in a page, or asks for it again.
    pub(super) fn listed(&mut self, now: Now, namespace: Arc<str>, reply: Reply, jitter: u64) {
        let Some(Unsettled::Lists(listing)) = self.unsettled.get_mut(&namespace) else { return };
        listing.busy = false;
        let page = match reply {
            Reply::Object(Object::Page(page)) => page,
            reply => {
                // A `continue` that is too old is worth nothing: from the first page on.
                listing.after = None;
                let delay = match reply {
                    Reply::NotSent(_) => NOT_SENT.delay(listing.failures.another(false), jitter),
                    reply => {
                        warn!(%namespace, ?reply, "the QueueUnits of a namespace cannot be listed");
                        REFUSED.delay(listing.failures.another(true), jitter)
                    }
                };
                listing.not_before = now.steady + delay;
                self.offer(Work::List(namespace));
                return;
            }
        };
        listing.failures = Failures::default();
        listing.after = page.after.map(Arc::from);
        let is_last = listing.after.is_none();
        let deleted = |unit: &UnitObject| listing.deleted.get(&unit.key).copied().unwrap_or(0);
        let alive = page.units.into_iter().filter(|unit| deleted(unit) < unit.resource_version);
        let alive: Vec<UnitObject> = alive.collect();
        alive.into_iter().for_each(|unit| self.step(QueueEvent::Unit(Change::Listed(unit))));
        if is_last {
            self.unsettled.remove(&namespace);
            let deleting = self.units.within(&namespace).filter(|unit| unit.deleting);
            self.stale_units.extend(deleting.map(|unit| unit.key.clone()));
            self.stale_namespaces.insert(namespace);
        } else {
            self.offer(Work::List(namespace));
        }
    }
}
