//! The epochs by which members act, in histories in which the map is deleted.

use std::collections::BTreeMap;

use framework_message::{Slot, Ticket};
use framework_shard::event::{Event, Outcome};
use framework_shard::map::SlotMap;

/// The epochs that replicas have seen, and those by which members have acted.
#[derive(Clone, Default)]
pub struct Epochs {
    /// The highest epoch in all maps that a replica has seen, over all lives of its program.
    seen: BTreeMap<u64, u64>,
    /// The highest epoch by which a member has acted for a slot.
    acted: BTreeMap<(String, Slot), u64>,
    /// The highest epoch of each map that was sent.
    put: BTreeMap<(u64, Ticket), u64>,
    /// The highest epoch that the writer of a new map had seen when it sent this map.
    sent: BTreeMap<(u64, Ticket), u64>,
    /// The same, of the map that was made last.
    known: u64,
    /// Maps that were made by a replica whose wall clock was behind an epoch that it had seen.
    pub behind: u64,
}

impl Epochs {
    /// A replica takes in an event.
    pub fn shown(&mut self, replica: u64, event: &Event) {
        let highest = match event {
            Event::MapSeen(shown) | Event::MapRead(Some(shown)) => shown.value.as_ref().and_then(highest),
            Event::MapPut { ticket, outcome: Outcome::Done(_) } => self.put.get(&(replica, *ticket)).copied(),
            _ => None,
        };
        let Some(highest) = highest else { return };
        let seen = self.seen.entry(replica).or_default();
        *seen = highest.max(*seen);
    }

    /// Another life of the same program has this number.
    pub fn rejoined(&mut self, former: u64, replica: u64) {
        let seen = self.seen_by(former);
        self.seen.insert(replica, seen);
    }

    /// A replica sends a map: a new one if it `is_first`, because none is there.
    pub fn sent(&mut self, replica: u64, ticket: Ticket, map: &SlotMap, is_first: bool) {
        self.put.insert((replica, ticket), highest(map).unwrap_or(0));
        if is_first {
            let seen = self.seen_by(replica);
            self.sent.insert((replica, ticket), seen);
        }
    }

    /// This map was applied.
    pub fn made(&mut self, replica: u64, ticket: Ticket, map: &SlotMap) {
        self.known = self.sent.get(&(replica, ticket)).copied().unwrap_or(0);
        self.behind += u64::from(highest(map) == Some(self.known + 1));
    }

    /// A member acts for a slot. It does so by a lower epoch than before only if the writer of the map had
    /// not seen the higher one.
    pub fn acted(&mut self, member: &str, slot: Slot, epoch: u64) -> Result<(), String> {
        let acted = self.acted.entry((member.to_owned(), slot)).or_default();
        if epoch < *acted && *acted <= self.known {
            return Err(format!("{member} acts for slot {slot} by epoch {epoch}, and did by {acted}"));
        }
        *acted = epoch.max(*acted);
        Ok(())
    }

    fn seen_by(&self, replica: u64) -> u64 {
        self.seen.get(&replica).copied().unwrap_or(0)
    }
}

fn highest(map: &SlotMap) -> Option<u64> {
    map.slots.values().map(|entry| entry.epoch).max()
}
