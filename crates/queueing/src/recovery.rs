//! The time after a start in which no unit is released. Requests of a predecessor may still land, and a round
//! that does not know a release would release too many units.
//!
//! These requests live for a bounded time. Then the units of the namespace are listed consistently, because
//! the watch may be behind and miss the last write. Only then does a round run there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_message::backoff::Failures;
use framework_message::{Key, Slot, Slots};

use crate::object::{Page, Reply, UnitObject};

/// Units in one page of a LIST, while no page is too large to be read.
const PAGE: u32 = 500;
/// The fewest: the response with so many of the largest units, 1.5 MiB each, can be read.
const LEAST: u32 = 40;

/// How far a namespace is.
#[derive(Debug)]
enum Unsettled {
    /// Requests of a predecessor may land until then.
    Waits(Duration),
    /// Its units are being listed.
    Lists(PagedList),
}

/// A LIST, page by page.
#[derive(Debug)]
pub struct PagedList {
    /// `continue` of the last page.
    after: Option<Arc<str>>,
    /// The most units of a page.
    limit: u32,
    busy: bool,
    failures: Failures,
    not_before: Duration,
    /// Units that the watch showed deleted meanwhile, with their versions: a page may be older.
    deleted: BTreeMap<Key, u128>,
}

/// The next step of a LIST.
#[derive(Debug, PartialEq, Eq)]
pub enum NextPage {
    /// The page after the one with this `continue`, of so many units at most.
    Send(Option<Arc<str>>, u32),
    /// Nothing before that moment of the monotonic clock.
    Wait(Duration),
}

/// The namespaces where nothing is released yet.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Namespaces where a request of a predecessor may still land.
    unsettled: BTreeMap<Arc<str>, Unsettled>,
    /// Namespaces that were granted, and until when the watch of Jobs may be behind that.
    lagging: BTreeMap<Arc<str>, Duration>,
    /// Whether these were determined.
    began: bool,
}

impl Recovery {
    /// Whether this is the first turn, in which the namespaces that have to wait are determined.
    pub fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.began, true)
    }

    /// In these namespaces nothing is released before their units were listed after that moment.
    pub fn wait(&mut self, namespaces: impl Iterator<Item = Arc<str>>, until: Duration) {
        self.unsettled.extend(namespaces.map(|namespace| (namespace, Unsettled::Waits(until))));
    }

    /// Whether a request of a predecessor may still land in a namespace.
    pub fn is_unsettled(&self, namespace: &str) -> bool {
        self.unsettled.contains_key(namespace)
    }

    /// The watches of jobs in a namespace may be behind the writes of its earlier owner until that moment.
    pub fn lags(&mut self, namespace: &Arc<str>, until: Duration) {
        self.lagging.insert(Arc::clone(namespace), until);
    }

    /// Whether the watches of jobs in a namespace may be behind the writes of its earlier owner.
    pub fn may_lag(&self, namespace: &str) -> bool {
        self.lagging.contains_key(namespace)
    }

    /// The namespaces where the watches of jobs are not behind any more.
    pub fn take_caught_up(&mut self, now: Duration) -> Vec<Arc<str>> {
        self.lagging.extract_if(.., |_, until| *until <= now).map(|(namespace, _)| namespace).collect()
    }

    /// The namespaces of these slots are not ours any more.
    pub fn forget(&mut self, slots: Slots) {
        self.unsettled.retain(|namespace, _| !slots.contains(Slot::of(namespace)));
        self.lagging.retain(|namespace, _| !slots.contains(Slot::of(namespace)));
    }

    /// The namespaces where nothing of a predecessor can land any more: their units are to be listed now.
    pub fn take_due(&mut self, now: Duration) -> Vec<Arc<str>> {
        let mut due = Vec::new();
        for (namespace, unsettled) in &mut self.unsettled {
            if matches!(unsettled, Unsettled::Waits(until) if *until <= now) {
                *unsettled = Unsettled::Lists(PagedList::new());
                due.push(Arc::clone(namespace));
            }
        }
        due
    }

    /// When the first namespace has waited, or may have lagged, long enough.
    pub fn settles_at(&self) -> Option<Duration> {
        let waits = |unsettled: &Unsettled| match unsettled {
            Unsettled::Waits(until) => Some(*until),
            Unsettled::Lists(_) => None,
        };
        self.unsettled.values().filter_map(waits).chain(self.lagging.values().copied()).min()
    }

    /// The watch no longer shows a unit that it showed in that version.
    pub fn vanished(&mut self, key: &Key, version: u128) {
        if let Some(listing) = self.listing(&key.namespace) {
            listing.deleted.insert(key.clone(), version);
        }
    }

    /// The LIST of a namespace that is under way.
    pub fn listing(&mut self, namespace: &str) -> Option<&mut PagedList> {
        match self.unsettled.get_mut(namespace)? {
            Unsettled::Lists(listing) => Some(listing),
            Unsettled::Waits(_) => None,
        }
    }

    /// All units of a namespace are known.
    pub fn settled(&mut self, namespace: &str) {
        self.unsettled.remove(namespace);
    }
}

impl PagedList {
    fn new() -> Self {
        PagedList {
            after: None,
            limit: PAGE,
            busy: false,
            failures: Failures::default(),
            not_before: Duration::ZERO,
            deleted: BTreeMap::new(),
        }
    }

    /// Its next step; `None` if a page is on its way.
    pub fn next(&mut self, now: Duration) -> Option<NextPage> {
        if self.busy {
            return None;
        }
        if now < self.not_before {
            return Some(NextPage::Wait(self.not_before));
        }
        self.busy = true;
        Some(NextPage::Send(self.after.clone(), self.limit))
    }

    /// No page came back, but this reply: it begins again, after a while.
    pub fn failed(&mut self, now: Duration, reply: &Reply, jitter: u64) {
        self.busy = false;
        // A `continue` that is too old is worth nothing: from the first page on.
        self.after = None;
        self.not_before = now + self.failures.delay_after(reply, jitter);
        if let Reply::Unknown(_) = reply {
            // The page may have been too large to be read.
            self.limit = (self.limit / 2).max(LEAST);
        }
    }

    /// A page came back. Its units that are not known to be gone, and whether it is the last one.
    pub fn received(&mut self, page: Page) -> (Vec<UnitObject>, bool) {
        self.busy = false;
        self.failures = Failures::default();
        self.after = page.after.map(Arc::from);
        let deleted = |unit: &UnitObject| self.deleted.get(&unit.key).copied().unwrap_or(0);
        let alive = page.units.into_iter().filter(|unit| deleted(unit) < unit.resource_version);
        (alive.collect(), self.after.is_none())
    }
}

#[cfg(test)]
mod tests {
    use framework_message::Rejection;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn recovery() -> Recovery {
        let mut recovery = Recovery::default();
        recovery.wait(["ns".into()].into_iter(), SECOND);
        recovery
    }

    /// The API server asks for a pause of seven seconds.
    fn refused() -> Reply {
        let (reason, message) = (String::new(), String::new());
        Reply::Refused(Rejection { code: 429, reason, message, retry_after: Some(SECOND * 7) })
    }

    fn page(after: Option<&str>) -> Page {
        Page { units: Vec::new(), after: after.map(str::to_owned) }
    }

    #[test]
    fn a_namespace_is_listed_once_a_predecessors_requests_have_ended() {
        let mut recovery = recovery();
        assert!(recovery.begins() && !recovery.begins());
        assert_eq!(recovery.settles_at(), Some(SECOND));
        assert!(recovery.take_due(Duration::ZERO).is_empty() && recovery.listing("ns").is_none());
        assert_eq!(recovery.take_due(SECOND), ["ns".into()]);
        assert!(recovery.take_due(SECOND).is_empty() && recovery.settles_at().is_none());
        assert!(recovery.is_unsettled("ns") && !recovery.is_unsettled("other"));
        recovery.settled("ns");
        assert!(!recovery.is_unsettled("ns"));
    }

    #[test]
    fn a_list_goes_on_after_a_page_and_begins_again_after_a_failure() {
        let mut recovery = recovery();
        recovery.take_due(SECOND);
        let listing = recovery.listing("ns").unwrap();
        assert_eq!(listing.next(SECOND), Some(NextPage::Send(None, 500)));
        assert_eq!(listing.next(SECOND), None, "one page at a time");
        assert!(!listing.received(page(Some("b"))).1);
        assert_eq!(listing.next(SECOND), Some(NextPage::Send(Some("b".into()), 500)));
        listing.failed(SECOND, &refused(), 0);
        assert_eq!(listing.next(SECOND), Some(NextPage::Wait(SECOND * 8)), "as the API server asks");
        assert_eq!(listing.next(SECOND * 10), Some(NextPage::Send(None, 500)));
        (0..9).for_each(|_| listing.failed(SECOND * 10, &Reply::Unknown(String::new()), 0));
        assert_eq!(listing.next(SECOND * 100), Some(NextPage::Send(None, LEAST)));
        assert!(listing.received(page(None)).1);
    }
}
