//! The events to come, by virtual time. One task of the cluster sleeps until the next deed is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::deed::Deed;

/// The deeds to come, in order of time and then of entry.
#[derive(Debug)]
pub(crate) struct Agenda {
    deeds: BTreeMap<(Duration, u64), Deed>,
    entered: u64,
    wake: Arc<Notify>,
}

impl Agenda {
    /// An empty agenda that rings the bell when its first deed changes.
    pub(crate) fn new(wake: Arc<Notify>) -> Self {
        Self { deeds: BTreeMap::new(), entered: 0, wake }
    }

    /// Enters a deed.
    pub(crate) fn add(&mut self, at: Duration, deed: Deed) {
        self.entered += 1;
        let first = self.next().is_none_or(|next| at < next);
        self.deeds.insert((at, self.entered), deed);
        if first {
            self.wake.notify_one();
        }
    }

    /// When the next deed is due.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.deeds.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next deed if it is due.
    pub(crate) fn take_due(&mut self, now: Duration) -> Option<Deed> {
        if self.next()? > now {
            return None;
        }
        self.deeds.pop_first().map(|(_, deed)| deed)
    }
}
