//! The map as one member knows it, its own write of it that is on the way, and the reads that confirm it.

use std::time::Duration;

use framework_message::Ticket;

use crate::event::{Effect, Outcome};
use crate::hold::Holds;
use crate::map::SlotMap;
use crate::policy::Policy;
use crate::version::{Seen, Version};

/// A write of the map that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Put {
    ticket: Ticket,
    base: Option<Version>,
    map: SlotMap,
}

/// An epoch above this follows no clock: somebody edited the map. A map that goes on above it could have
/// epochs that members refuse to read.
const LARGEST_EPOCH: u64 = u64::MAX / 8;

/// The map, as one member knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MapView {
    seen: Option<Seen<SlotMap>>,
    /// The highest epoch of any map that was seen, also before the map was deleted.
    epoch: u64,
    /// When the map was first seen absent, if it still is.
    absent_since: Option<Duration>,
    /// Until when a creation of unknown outcome may be applied.
    lands_until: Duration,
    /// When the last read was sent that was answered.
    read_at: Duration,
    reading: Option<Duration>,
    read_not_before: Duration,
    put: Option<Put>,
    put_not_before: Duration,
    restored: bool,
    /// The holds of the slots that it gave this member.
    pub holds: Holds,
}

impl MapView {
    /// The map or its absence, as it was seen last; `None`: it was never seen.
    pub fn seen(&self) -> Option<&Seen<SlotMap>> {
        self.seen.as_ref()
    }

    /// The map; `None`: it is absent, or was never seen.
    pub fn get(&self) -> Option<&SlotMap> {
        self.seen.as_ref().and_then(|seen| seen.value.as_ref())
    }

    /// The version that was seen last.
    pub fn version(&self) -> Version {
        self.seen.as_ref().map_or(Version(0), |seen| seen.version)
    }

    /// The highest epoch of any map that this program has seen.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// This program has seen an epoch.
    pub fn remember(&mut self, epoch: u64) {
        if epoch <= LARGEST_EPOCH {
            self.epoch = self.epoch.max(epoch);
        }
    }

    /// When the last read was sent that was answered.
    pub fn read_at(&self) -> Duration {
        self.read_at
    }

    /// Whether the API server counted back: it was restored from a copy.
    pub fn restored(&self) -> bool {
        self.restored
    }

    /// How long it has been seen absent. A creation of unknown outcome may yet be applied, seen by others,
    /// and undone while the watch is frozen: the time begins when it can land no more.
    pub fn absent(&self, at: Duration) -> Duration {
        self.absent_since.map_or(Duration::ZERO, |since| at.saturating_sub(since.max(self.lands_until)))
    }

    /// Whether others may have seen a map that this program sent, and that it never saw itself.
    pub fn may_have_been_made(&self) -> bool {
        self.lands_until > Duration::ZERO
    }

    /// Whether a write may be sent.
    pub fn writable(&self, at: Duration) -> bool {
        self.seen.is_some() && self.put.is_none() && at >= self.put_not_before
    }

    /// The read that is due: the watch of the map may be frozen.
    pub fn due(&mut self, at: Duration) -> Option<Effect> {
        if self.reading.is_some() || at < self.read_not_before {
            return None;
        }
        self.reading = Some(at);
        Some(Effect::ReadMap)
    }

    /// Takes in the map of a watch or a reply. A version that is older than the known one came late.
    pub fn see(&mut self, seen: Seen<SlotMap>, at: Duration) {
        let entries = seen.value.iter().flat_map(|map| map.slots.values());
        entries.for_each(|entry| self.remember(entry.epoch));
        if self.seen.as_ref().is_none_or(|known| known.version < seen.version) {
            match seen.value {
                Some(_) => self.absent_since = None,
                None => self.absent_since = self.absent_since.or(Some(at)),
            }
            self.seen = Some(seen);
        }
    }

    /// Takes in the end of a read.
    pub fn read(&mut self, seen: Option<Seen<SlotMap>>, at: Duration, policy: &Policy) {
        self.read_not_before = at.saturating_add(policy.interval / 4);
        let (Some(sent), Some(seen)) = (self.reading.take(), seen) else { return };
        // A server that lags behind confirms nothing.
        if seen.version >= self.version() {
            self.read_at = self.read_at.max(sent);
            self.read_not_before = sent.saturating_add(policy.duration);
        }
        self.see(seen, at);
    }

    /// Writes the map.
    pub fn put(&mut self, map: SlotMap, ticket: Ticket, at: Duration, policy: &Policy) -> Effect {
        let base = self.seen.as_ref().and_then(Seen::base);
        self.put_not_before = at.saturating_add(policy.interval / 4);
        self.put = Some(Put { ticket, base, map: map.clone() });
        Effect::PutMap { base, map, ticket }
    }

    /// Takes in the end of a write, at the time `at`. Returns whether it was waited for.
    pub fn answered(
        &mut self,
        ticket: Ticket,
        outcome: Outcome,
        at: Duration,
        policy: &Policy,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(put) = self.put.take_if(|put| put.ticket == ticket) else { return false };
        match outcome {
            Outcome::Done(version) if put.base.is_some_and(|base| version <= base) => self.restored = true,
            Outcome::Done(version) => self.see(Seen { version, value: Some(put.map) }, at),
            Outcome::Refused | Outcome::Unknown => {
                if put.base.is_none() {
                    // Another map may have been there.
                    self.absent_since = self.absent_since.map(|_| at);
                    if outcome == Outcome::Unknown {
                        self.lands_until = at.saturating_add(policy.request_lifetime);
                    }
                }
                self.read_not_before = at;
                effects.extend(self.due(at));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use framework_message::Slot;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A map whose only slot has this epoch.
    fn seen(version: u64, epoch: u64) -> Seen<SlotMap> {
        let map = SlotMap::without_owners([Slot(3)], Duration::from_secs(10), false);
        Seen { version: Version(version), value: Some(map.above(epoch)) }
    }

    #[test]
    fn absence_counts_once_a_creation_of_unknown_outcome_cannot_land() {
        let policy = Policy::new(SECOND * 10, SECOND * 2, SECOND * 3, SECOND * 28).unwrap();
        for (outcome, absent) in [(Outcome::Refused, 34), (Outcome::Unknown, 7)] {
            let mut view = MapView::default();
            view.see(Seen { version: Version(6), value: None }, Duration::ZERO);
            view.put(seen(0, 1).value.unwrap(), Ticket(1), SECOND * 14, &policy);
            assert!(view.answered(Ticket(1), outcome, SECOND * 15, &policy, &mut Vec::new()));
            assert_eq!(view.may_have_been_made(), outcome == Outcome::Unknown);
            // Another one is made and deleted meanwhile.
            view.see(seen(8, 1), SECOND * 16);
            view.see(Seen { version: Version(9), value: None }, SECOND * 16);
            assert_eq!(view.absent(SECOND * 50), SECOND * absent);
        }
    }

    #[test]
    fn epochs_of_all_maps_are_remembered_unless_no_clock_gives_them() {
        let mut view = MapView::default();
        view.see(seen(5, 700), Duration::ZERO);
        view.see(Seen { version: Version(6), value: None }, Duration::ZERO);
        assert_eq!((view.get(), view.epoch()), (None, 700));
        view.see(seen(4, 800), Duration::ZERO);
        assert_eq!((view.get(), view.epoch()), (None, 800), "it came late");
        view.see(seen(7, LARGEST_EPOCH + 1), Duration::ZERO);
        assert_eq!(view.epoch(), 800);
    }
}
