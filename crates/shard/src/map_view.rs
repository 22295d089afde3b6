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
    /// The duration of the last map that was seen, also after that map was deleted.
    duration: Duration,
    /// When the map was first seen absent, if it still is.
    absent_since: Option<Duration>,
    /// When this life was last not the leader.
    not_leader_at: Option<Duration>,
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
    /// The view with which the next life of the program begins. It knows the epochs, the duration of the last
    /// map, and until when a creation may be applied. That life never hears of the end of one that is on its
    /// way.
    #[must_use]
    pub fn next_life(&self, policy: &Policy) -> Self {
        let creates = self.put.as_ref().is_some_and(|put| put.base.is_none());
        // It was sent before that time.
        let put_lands = self.put_not_before.saturating_add(policy.request_lifetime);
        let lands_until = if creates { self.lands_until.max(put_lands) } else { self.lands_until };
        MapView { epoch: self.epoch, duration: self.duration, lands_until, ..MapView::default() }
    }

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
    fn remember(&mut self, epoch: u64) {
        if epoch <= LARGEST_EPOCH {
            self.epoch = self.epoch.max(epoch);
        }
    }

    /// The duration of the last map that this program has seen; zero: it has seen none. A member that is cut
    /// off may act by it, though its Lease is gone.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// When the last read was sent that was answered.
    pub fn read_at(&self) -> Duration {
        self.read_at
    }

    /// Whether the API server counted back: it was restored from a copy.
    pub fn restored(&self) -> bool {
        self.restored
    }

    /// This life is not the leader. Another leader may make a map, which others see, and which is deleted
    /// while the watch is frozen. So absence counts from the answer to a read that this life sends as leader.
    pub fn note_not_leader(&mut self, at: Duration) {
        self.not_leader_at = Some(at);
    }

    /// Whether it was read since this life has been the leader: only this life makes maps since then.
    fn is_read_as_leader(&self) -> bool {
        self.not_leader_at.is_none_or(|at| self.read_at > at)
    }

    /// How long the leader knows that there is no map. A creation of unknown outcome may yet be applied, seen
    /// by others, and undone while the watch is frozen: the time begins when it can land no more.
    pub fn absent(&self, at: Duration) -> Duration {
        let since = self.absent_since.filter(|_| self.is_read_as_leader());
        since.map_or(Duration::ZERO, |since| at.saturating_sub(since.max(self.lands_until)))
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
            match &seen.value {
                Some(map) => (self.absent_since, self.duration) = (None, map.duration),
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
            if !self.is_read_as_leader() {
                self.absent_since = self.absent_since.map(|_| at);
            }
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

    /// The map that it met was deleted before a watch or a read showed it.
    #[test]
    fn a_refused_creation_begins_the_absence_of_the_map_again() {
        let policy = Policy::new(SECOND * 10, SECOND * 2, SECOND * 3, SECOND * 28).unwrap();
        let mut view = MapView::default();
        view.see(Seen { version: Version(6), value: None }, Duration::ZERO);
        view.put(seen(0, 1).value.unwrap(), Ticket(1), SECOND * 14, &policy);
        assert_eq!(view.absent(SECOND * 15), SECOND * 15);
        let mut effects = Vec::new();
        assert!(view.answered(Ticket(1), Outcome::Refused, SECOND * 15, &policy, &mut effects));
        assert_eq!(effects, [Effect::ReadMap]);
        view.read(Some(Seen { version: Version(9), value: None }), SECOND * 16, &policy);
        assert_eq!([15, 16, 50].map(|at| view.absent(SECOND * at)), [0, 1, 35].map(|age| SECOND * age));
    }

    /// Another leader makes a map at 24 s, is stopped, and the map is deleted. This one saw neither.
    #[test]
    fn absence_counts_from_the_answer_to_a_read_of_the_leader() {
        let policy = Policy::new(SECOND * 10, SECOND * 2, SECOND * 3, SECOND * 28).unwrap();
        let absence = |version| Some(Seen { version: Version(version), value: None });
        let mut view = MapView::default();
        assert_eq!(view.due(SECOND), Some(Effect::ReadMap));
        view.read(absence(6), SECOND, &policy);
        assert_eq!(view.due(SECOND * 24), Some(Effect::ReadMap));
        view.note_not_leader(SECOND * 25);
        view.read(absence(6), SECOND * 26, &policy);
        assert_eq!(view.absent(SECOND * 60), Duration::ZERO, "it was sent before");
        assert_eq!(view.due(SECOND * 34), Some(Effect::ReadMap));
        view.read(absence(9), SECOND * 35, &policy);
        assert_eq!(view.absent(SECOND * 60), SECOND * 25);
        // Each later one confirms it. So does a map that it sees itself, and whose end a watch shows.
        assert_eq!(view.due(SECOND * 44), Some(Effect::ReadMap));
        view.read(absence(9), SECOND * 45, &policy);
        assert_eq!(view.absent(SECOND * 60), SECOND * 25);
        view.see(seen(10, 1), SECOND * 46);
        view.see(Seen { version: Version(11), value: None }, SECOND * 47);
        assert_eq!(view.absent(SECOND * 60), SECOND * 13);
        view.note_not_leader(SECOND * 50);
        assert_eq!(view.absent(SECOND * 60), Duration::ZERO, "another one may lead meanwhile");
    }

    #[test]
    fn the_duration_of_the_last_map_is_remembered_also_by_the_next_life() {
        let policy = Policy::new(SECOND * 10, SECOND * 2, SECOND * 3, SECOND * 28).unwrap();
        let lasting = |version, seconds: u32| {
            let map = SlotMap::without_owners([Slot(3)], SECOND * seconds, false);
            Seen { version: Version(version), value: Some(map) }
        };
        let mut view = MapView::default();
        view.see(lasting(5, 60), Duration::ZERO);
        view.see(Seen { version: Version(6), value: None }, Duration::ZERO);
        view.see(lasting(4, 90), Duration::ZERO);
        let known = [view.duration(), view.next_life(&policy).duration()];
        assert_eq!(known, [SECOND * 60; 2], "one that came late is not the last");
        view.see(lasting(7, 10), Duration::ZERO);
        assert_eq!(view.duration(), SECOND * 10);
    }

    /// The life that sent the creation ends before the answer, or after an unknown outcome.
    #[test]
    fn the_next_life_waits_for_a_creation_that_may_land() {
        let policy = Policy::new(SECOND * 10, SECOND * 2, SECOND * 3, SECOND * 28).unwrap();
        for (outcome, absent) in
            [(None, 7_500), (Some(Outcome::Unknown), 7_000), (Some(Outcome::Refused), 30_000)]
        {
            let mut view = MapView::default();
            view.see(Seen { version: Version(6), value: None }, Duration::ZERO);
            view.put(seen(0, 1).value.unwrap(), Ticket(1), SECOND * 14, &policy);
            if let Some(outcome) = outcome {
                assert!(view.answered(Ticket(1), outcome, SECOND * 15, &policy, &mut Vec::new()));
            }
            let mut next = view.next_life(&policy);
            next.see(Seen { version: Version(6), value: None }, SECOND * 20);
            assert_eq!(next.absent(SECOND * 50), Duration::from_millis(absent), "{outcome:?}");
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
