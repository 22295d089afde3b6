//! The LISTs of QueueUnits, which no selector divides into slots.

use framework_message::{SlotSelection, Slots};
use tokio::sync::watch;

/// The LISTs of QueueUnits. Every replica watches all units, because a unit belongs to two slots. After each
/// grant they are listed again: a release of the earlier owner may be newer than the last event of the watch.
/// A LIST that is under way is completed first. Otherwise slots that come one after another would keep the
/// first of them waiting.
pub struct UnitListing {
    /// The grant of the LIST that was asked for last.
    pub selection: watch::Sender<SlotSelection>,
    /// The grant of the LIST that began last.
    pub listing: u64,
    /// The grant of the LIST that was complete last.
    pub listed: u64,
    /// Whether they are listed again after each grant: always, but for a test without this rule.
    pub relist: bool,
}

impl UnitListing {
    /// They are to be listed for this grant.
    pub fn list(&self, grant: u64) {
        let asked = self.selection.borrow().grant;
        let is_due = asked < grant && (self.relist || asked == 0);
        let is_under_way = self.listed < asked && asked <= self.listing;
        if is_due && !is_under_way {
            self.selection.send_replace(SlotSelection::whole(grant, Slots::ALL));
        }
    }

    /// The latest grant since which they were listed.
    pub fn listed_since(&self) -> u64 {
        if self.relist || self.listed == 0 { self.listed } else { u64::MAX }
    }
}
