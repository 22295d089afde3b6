//! The times at which the map of slots offers a slot to another member.
//!
//! An owner that is to hand a slot over sends its unrecorded statuses, and gives the slot up at the latest
//! after the life of a request. From then on it knows no more of the slot than any other replica, also if the
//! hand-over never reaches the API server and the slot stays its own.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::check::owners::MAP;
use crate::check::slot::slot;
use crate::history::Change;

/// The shortest life of a request in any configuration: two time-outs, and the steps before and after.
const LIFETIME: Duration = Duration::from_secs(16);

/// A time at which a slot had a next owner.
#[derive(Debug, Clone, Copy)]
struct Offer {
    since: Duration,
    /// `None` while it lasts.
    until: Option<Duration>,
}

/// All offers until a version of the map, by slot.
#[derive(Debug, Default)]
pub(crate) struct Offers(BTreeMap<u8, Vec<Offer>>);

impl Offers {
    /// Takes a change in.
    pub(crate) fn apply(&mut self, change: &Change) {
        if !change.is("configmaps") || change.name != MAP {
            return;
        }
        let data = change.new.as_ref().and_then(|map| map["data"].as_object());
        for (slot, row) in data.into_iter().flatten() {
            let row: Option<Value> = row.as_str().and_then(|row| serde_json::from_str(row).ok());
            let (Ok(slot), Some(row)) = (slot.parse(), row) else { continue };
            let offers = self.0.entry(slot).or_default();
            let open = offers.last_mut().filter(|offer| offer.until.is_none());
            match (open, row["next"].is_string()) {
                (None, true) => offers.push(Offer { since: change.at, until: None }),
                (Some(open), false) => open.until = Some(change.at),
                _ => {}
            }
        }
    }

    /// Whether the owner of the Framework's slot may have given it up between these two moments, and taken it
    /// again.
    pub(crate) fn given_up(&self, framework: &str, from: Duration, to: Duration) -> bool {
        let offers = self.0.get(&slot(framework)).map_or(&[][..], Vec::as_slice);
        offers.iter().any(|offer| {
            let until = offer.until.unwrap_or(to);
            until >= from && until.saturating_sub(offer.since) >= LIFETIME
        })
    }
}
