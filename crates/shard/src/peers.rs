//! The Leases of all members, as one replica watches them, and the lives that it proved gone.
//!
//! Every member times every Lease from joining, so that a leader that takes over does not count from zero.
//! One that is long absent is forgotten, and timed afresh if it comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use framework_message::Ticket;

use crate::defect::Defect;
use crate::event::{Effect, Outcome};
use crate::incarnation::{Gone, Incarnation};
use crate::lease::{LeaseRecord, LeaseState, ORPHANED_AFTER, WatchedLease};
use crate::map::SlotMap;
use crate::policy::Policy;
use crate::version::{Seen, Version};

/// Writes of the Leases of others that are on their way at a time, and as many deletions of them in a quarter
/// of a renewal interval. Thousands of Leases must not keep the replica from renewing its own. Leases of
/// owners are few, and do not wait: thousands that cannot be emptied must not keep their slots from moving.
const AT_A_TIME: usize = 32;

/// A write of another member's Lease that was sent: once it is applied, these lives are gone. An eviction has
/// none, nor has the creation of a Lease that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EmptyingWrite {
    name: String,
    record: LeaseRecord,
    gone: Vec<Incarnation>,
}

/// All members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Peers {
    leases: BTreeMap<String, WatchedLease>,
    gone: BTreeSet<Incarnation>,
    proofs: BTreeMap<u64, EmptyingWrite>,
    /// Leases of which a write did not succeed, or that were to be deleted: until when nothing more is sent.
    paused: BTreeMap<String, Duration>,
}

impl Peers {
    /// Takes in a version of a Lease.
    pub fn see(&mut self, name: &str, seen: Seen<LeaseRecord>, at: Duration) {
        match self.leases.get_mut(name) {
            Some(known) => known.see(seen, at),
            None => {
                self.leases.insert(name.to_owned(), WatchedLease::new(seen, at));
            }
        }
    }

    /// Starts to time all Leases again, after a time in which nothing was heard of any.
    pub fn time_again(&mut self, at: Duration) {
        self.leases.values_mut().for_each(|lease| lease.time_again(at));
    }

    /// Starts to time the Leases of these lives, if none was seen yet.
    pub fn expect<'a>(&mut self, lives: impl Iterator<Item = &'a Incarnation>, at: Duration) {
        for life in lives {
            let absent = || WatchedLease::new(Seen { version: Version(0), value: None }, at);
            self.leases.entry(life.lease().to_owned()).or_insert_with(absent);
        }
    }

    /// Whether anything is known of the Lease of this name.
    pub fn knows(&self, name: &str) -> bool {
        self.leases.contains_key(name)
    }

    /// Forgets Leases that have long been absent, and lives that have long been gone, but for those that
    /// `map` names. A member that joins now knows as little: it waits for longer, never for less. By then
    /// no read that was sent before the deletion can bring the Lease back.
    pub fn forget(&mut self, map: Option<&SlotMap>, at: Duration, policy: &Policy) {
        let long = policy.duration.saturating_mul(ORPHANED_AFTER);
        let entries = map.into_iter().flat_map(|map| map.slots.values());
        let named: BTreeSet<&Incarnation> =
            entries.flat_map(|entry| entry.owner.iter().chain(&entry.next)).collect();
        let is_named = |name: &str| named.iter().any(|life| life.lease() == name);
        self.leases
            .retain(|name, lease| lease.record().is_some() || lease.unchanged(at) < long || is_named(name));
        let leases = &self.leases;
        self.gone.retain(|life| {
            // Its claim may arrive late.
            let may_come = |lease: &WatchedLease| lease.holder() == Some(life) || lease.held(at) < long;
            named.contains(life) || leases.get(life.lease()).is_some_and(may_come)
        });
    }

    /// The Leases, by name.
    pub fn leases(&self) -> impl Iterator<Item = (&String, &WatchedLease)> {
        self.leases.iter()
    }

    /// A life is proved gone.
    pub fn prove(&mut self, Gone(life): Gone) {
        self.gone.insert(life);
    }

    /// Whether a life is proved gone.
    pub fn is_gone(&self, life: &Incarnation) -> bool {
        self.gone.contains(life)
    }

    /// The members that may get slots, and for how long each has been seen. A life that is gone is none of
    /// them, though a claim of it may arrive late.
    pub fn ready(&self, at: Duration, slowest: Duration, policy: &Policy) -> BTreeMap<Incarnation, Duration> {
        let ready =
            self.leases.values().filter(|lease| self.state(lease, at, slowest, policy) > LeaseState::Expired);
        let live = |life: &Incarnation| !self.gone.contains(life) || policy.defects.has(Defect::ClaimAgain);
        ready.filter_map(|lease| Some((lease.holder().cloned().filter(live)?, lease.held(at)))).collect()
    }

    /// Whether no member has seen a map.
    pub fn know_no_map(&self) -> bool {
        let mut held = self.leases.values().filter(|lease| lease.holder().is_some());
        held.all(|lease| lease.record().is_some_and(|record| !record.knows_map))
    }

    /// The longest duration by which a member acts.
    pub fn longest(&self) -> Duration {
        let records = self.leases.values().filter_map(WatchedLease::record);
        records.map(LeaseRecord::duration_of_member).max().unwrap_or_default()
    }

    /// The longest duration by which an owner that `map` names may act, at least that of `policy`. The
    /// duration of the map falls once every owner has held its Lease with an unchanged, shorter duration
    /// for as long as the longer one lasts. An edit of the Lease of a silent owner shortens
    /// nothing: that Lease is emptied first.
    pub fn slowest(&self, map: &SlotMap, at: Duration, policy: &Policy) -> Duration {
        let known = policy.duration.max(self.longest());
        let slowest = map.duration.max(known);
        let is_steady = |life: &Incarnation| {
            let lease = self.leases.get(life.lease()).filter(|lease| lease.holder() == Some(life));
            lease.is_some_and(|lease| lease.steady(at) >= policy.expiry(slowest))
        };
        let mut lives = map.slots.values().flat_map(|entry| entry.owner.iter().chain(&entry.next));
        if known < slowest && lives.all(is_steady) { known } else { slowest }
    }

    fn state(&self, lease: &WatchedLease, at: Duration, slowest: Duration, policy: &Policy) -> LeaseState {
        lease.state(at, slowest, |duration| policy.expiry(duration))
    }

    /// Empties the Leases of members that must have stopped, deletes those that were empty for long, and
    /// notes the lives that are gone. Many Leases take turns. `owners` are the lives that the map names.
    pub fn judge(
        &mut self,
        owners: &BTreeSet<&Incarnation>,
        at: Duration,
        slowest: Duration,
        policy: &Policy,
        mut ticket: impl FnMut() -> Ticket,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.paused.retain(|_, until| at < *until);
        for (name, lease) in &self.leases {
            if self.paused.contains_key(name) {
                continue;
            }
            let mut lives: Vec<Incarnation> =
                owners.iter().filter(|owner| owner.lease() == name).map(|owner| (*owner).clone()).collect();
            let has_slots = !lives.is_empty();
            lives.retain(|life| lease.holder() != Some(life) && !self.gone.contains(life));
            let state = self.state(lease, at, slowest, policy);
            let any = !lives.is_empty();
            let stopped = |seen: Duration| any && seen >= policy.expiry(slowest);
            let lease_record = || lease.record().cloned().unwrap_or_default();
            let write = match lease.holder() {
                Some(holder) if state == LeaseState::Uncertain => {
                    lives.push(holder.clone());
                    Some(lease_record().emptied())
                }
                Some(_) if policy.defects.has(Defect::TrustOldView) && stopped(lease.held(at)) => {
                    self.gone.extend(lives.iter().cloned());
                    None
                }
                // A life that lost its Lease never gets it back, but this view may be older than its claim.
                // That a write of the Lease as it stands is applied shows that it is not.
                Some(_) => stopped(lease.held(at)).then(lease_record),
                None if policy.defects.has(Defect::TrustEmptyLease) => {
                    self.gone.extend(lives.iter().cloned());
                    None
                }
                None if stopped(lease.unchanged(at)) => Some(lease_record().emptied()),
                None => {
                    let is_over = state == LeaseState::Orphaned && lives.is_empty();
                    if let Some(base) = lease.base().filter(|_| is_over && self.paused.len() < AT_A_TIME) {
                        self.paused.insert(name.clone(), at.saturating_add(policy.interval / 4));
                        effects.push(Effect::DeleteLease { name: name.clone(), base });
                    }
                    None
                }
            };
            let is_full = self.proofs.len() >= AT_A_TIME && !has_slots;
            let is_sent = || self.proofs.values().any(|one| one.name == *name);
            let Some(record) = write.filter(|_| !is_full && !is_sent()) else { continue };
            let (name, ticket) = (name.clone(), ticket());
            // An absence has no version, so it says nothing of the time before: somebody may have deleted the
            // Lease just now. The next write replaces the version that this one makes.
            let gone = if lease.base().is_some() { lives } else { Vec::new() };
            let proof = EmptyingWrite { name: name.clone(), record: record.clone(), gone };
            self.proofs.insert(ticket.0, proof);
            effects.push(Effect::WriteLease { name, base: lease.base(), record, ticket });
        }
        effects
    }

    /// Empties the Lease of a holder that keeps others waiting, unless a write of it is on its way or was
    /// just refused. It frees nothing: the holder may go on until its time has passed.
    pub fn evict(&mut self, holder: &Incarnation, ticket: impl FnOnce() -> Ticket) -> Option<Effect> {
        let name = holder.lease();
        let lease = self.leases.get(name).filter(|lease| lease.holder() == Some(holder))?;
        if self.paused.contains_key(name) || self.proofs.values().any(|one| one.name == name) {
            return None;
        }
        let (name, base, record) = (name.to_owned(), lease.base(), lease.record()?.emptied());
        let ticket = ticket();
        let proof = EmptyingWrite { name: name.clone(), record: record.clone(), gone: Vec::new() };
        self.proofs.insert(ticket.0, proof);
        Some(Effect::WriteLease { name, base, record, ticket })
    }

    /// Takes in the end of such a write. One that was not applied was computed from an old version: the Lease
    /// must be read. A write that is refused for ever is sent four times in an interval.
    pub fn answered(
        &mut self,
        ticket: Ticket,
        outcome: Outcome,
        at: Duration,
        policy: &Policy,
    ) -> Option<Effect> {
        let EmptyingWrite { name, record, gone } = self.proofs.remove(&ticket.0)?;
        let Outcome::Done(version) = outcome else {
            self.paused.insert(name.clone(), at.saturating_add(policy.interval / 4));
            return Some(Effect::ReadLease(name));
        };
        self.see(&name, Seen { version, value: Some(record) }, at);
        self.gone.extend(gone);
        None
    }
}

#[cfg(test)]
mod tests {
    use framework_message::Slot;

    use super::*;
    use crate::lease::UNKNOWN;

    const SECOND: Duration = Duration::from_secs(1);

    /// The view of a member that has seen another one hold its Lease.
    fn holder_seen_at(at: Duration) -> (Policy, Incarnation, Peers) {
        let policy = Policy::new(SECOND * 10, SECOND * 2, SECOND * 3, SECOND * 28).unwrap();
        let life = Incarnation::new("member-a", "x7");
        let record =
            LeaseRecord { holder: Some(life.clone()), duration: policy.duration, ..LeaseRecord::default() };
        let mut peers = Peers::default();
        peers.see(life.lease(), Seen { version: Version(3), value: Some(record) }, at);
        (policy, life, peers)
    }

    #[test]
    fn a_lease_that_cannot_be_emptied_is_tried_four_times_in_an_interval() {
        let (policy, life, mut peers) = holder_seen_at(Duration::ZERO);
        let owners = BTreeSet::from([&life]);
        let mut tickets = 0;
        let mut sent = Vec::new();
        for at in (0..20).map(|tenth| SECOND * 12 + SECOND / 10 * tenth) {
            let next = || {
                tickets += 1;
                Ticket(tickets)
            };
            for effect in peers.judge(&owners, at, policy.duration, &policy, next) {
                let Effect::WriteLease { ticket, .. } = effect else { panic!("{effect:?}") };
                sent.push(at.as_millis());
                let read = peers.answered(ticket, Outcome::Refused, at, &policy);
                assert!(matches!(read, Some(Effect::ReadLease(_))));
            }
        }
        assert_eq!(sent, [12_000, 12_500, 13_000, 13_500]);
    }

    /// A renewal of the holder arrives before it.
    #[test]
    fn an_eviction_that_conflicts_is_sent_again_in_a_quarter_of_an_interval() {
        let (policy, life, mut peers) = holder_seen_at(SECOND * 70);
        let mut sent = Vec::new();
        for at in (0..10).map(|tenth| SECOND * 70 + SECOND / 10 * tenth) {
            let number = sent.len() as u64;
            // It is the leader's step that ends the pause.
            peers.judge(&BTreeSet::new(), at, policy.duration, &policy, || Ticket(100));
            let Some(effect) = peers.evict(&life, || Ticket(number)) else { continue };
            let Effect::WriteLease { ticket, base, .. } = effect else { panic!("{effect:?}") };
            assert_eq!(peers.evict(&life, || Ticket(200)), None, "one is on its way");
            sent.push((at.as_millis(), base));
            let read = peers.answered(ticket, Outcome::Refused, at, &policy);
            assert_eq!(read, Some(Effect::ReadLease(life.lease().to_owned())));
            let renewed = peers.leases["member-a"].record().cloned();
            peers.see(life.lease(), Seen { version: Version(4 + number), value: renewed }, at);
        }
        assert_eq!(sent, [(70_000, Some(Version(3))), (70_500, Some(Version(4)))]);
    }

    /// The view is old: the owner held its Lease until somebody deleted it.
    #[test]
    fn a_lease_that_is_created_empty_frees_no_slot_until_it_has_stood() {
        let (policy, life, mut peers) =
            (holder_seen_at(Duration::ZERO).0, Incarnation::new("a", "x"), Peers::default());
        let owners = BTreeSet::from([&life]);
        peers.expect(owners.iter().copied(), Duration::ZERO);
        let mut judged = |at: Duration| {
            let sent = peers.judge(&owners, at, policy.duration, &policy, || Ticket(1));
            let bases: Vec<_> = sent
                .iter()
                .map(|effect| match effect {
                    Effect::WriteLease { base, .. } => *base,
                    other => panic!("{other:?}"),
                })
                .collect();
            if !bases.is_empty() {
                peers.answered(Ticket(1), Outcome::Done(Version(at.as_secs())), at, &policy);
            }
            (bases, peers.is_gone(&life))
        };
        assert_eq!(judged(SECOND * 12), (vec![None], false));
        assert_eq!(judged(SECOND * 23), (vec![], false));
        assert_eq!(judged(SECOND * 24), (vec![Some(Version(12))], true));
    }

    #[test]
    fn thousands_of_leases_are_emptied_and_deleted_some_at_a_time() {
        let (policy, _, mut peers) = holder_seen_at(Duration::ZERO);
        let mut tickets = 0;
        let mut judge = |peers: &mut Peers, at: Duration| {
            let next = || {
                tickets += 1;
                Ticket(tickets)
            };
            peers.judge(&BTreeSet::new(), at, policy.duration, &policy, next)
        };
        for number in 1..1000 {
            let life = Incarnation::new(&format!("member-{number}"), "x");
            let record = LeaseRecord { holder: Some(life.clone()), ..LeaseRecord::default() };
            peers.see(life.lease(), Seen { version: Version(3), value: Some(record) }, Duration::ZERO);
        }
        let mut emptied = 0;
        loop {
            let sent = judge(&mut peers, SECOND * 12);
            assert!(judge(&mut peers, SECOND * 12).is_empty(), "as many as may be are on their way");
            if sent.is_empty() {
                break;
            }
            assert!(sent.len() <= AT_A_TIME, "{}", sent.len());
            emptied += sent.len();
            for effect in sent {
                let Effect::WriteLease { ticket, .. } = effect else { panic!("{effect:?}") };
                peers.answered(ticket, Outcome::Done(Version(4)), SECOND * 12, &policy);
            }
        }
        assert_eq!(emptied, 1000, "each has its turn");
        let deletions = [0, 100, 499, 500].map(|millis| {
            let at = SECOND * 700 + Duration::from_millis(millis);
            judge(&mut peers, at).len()
        });
        assert_eq!(deletions, [AT_A_TIME, 0, 0, AT_A_TIME]);
    }

    #[test]
    fn the_lease_of_an_owner_waits_for_no_leases_of_others() {
        let (policy, owner, mut peers) = holder_seen_at(Duration::ZERO);
        for number in 0..100 {
            let life = Incarnation::new(&format!("a-{number}"), "x");
            let record = LeaseRecord { holder: Some(life.clone()), ..LeaseRecord::default() };
            peers.see(life.lease(), Seen { version: Version(3), value: Some(record) }, Duration::ZERO);
        }
        let mut tickets = 0;
        let next = || {
            tickets += 1;
            Ticket(tickets)
        };
        let sent = peers.judge(&BTreeSet::from([&owner]), SECOND * 12, policy.duration, &policy, next);
        let names: Vec<&str> = sent
            .iter()
            .map(|effect| match effect {
                Effect::WriteLease { name, .. } => name.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((names.len(), names.last()), (AT_A_TIME + 1, Some(&owner.lease())));
    }

    /// People and other programs may write any holder, with any duration.
    #[test]
    fn the_duration_of_an_unknown_holder_does_not_count() {
        let (policy, life, mut peers) = holder_seen_at(Duration::ZERO);
        let record = LeaseRecord {
            holder: Some(Incarnation::new("member-b", UNKNOWN)),
            duration: policy.duration * 6,
            ..LeaseRecord::default()
        };
        let mut seen = Seen { version: Version(4), value: Some(record) };
        peers.see("member-b", seen.clone(), Duration::ZERO);
        assert_eq!(peers.longest(), policy.duration);
        seen.version = Version(5);
        seen.value.iter_mut().for_each(|record| record.holder = Some(life.clone()));
        peers.see("member-b", seen, Duration::ZERO);
        assert_eq!(peers.longest(), policy.duration * 6);
    }

    /// A map whose only slot belongs to this life.
    fn map_of(owner: &Incarnation) -> SlotMap {
        let mut map = SlotMap::without_owners([Slot(3)], SECOND * 10, false);
        map.seize(Slot(3), owner.clone(), 1);
        map
    }

    #[test]
    fn a_lease_that_is_long_absent_is_forgotten_unless_the_map_names_it() {
        let (policy, life, mut peers) = holder_seen_at(Duration::ZERO);
        peers.prove(Gone(life.clone()));
        peers.see(life.lease(), Seen { version: Version(4), value: None }, SECOND);
        let known = |map: Option<&SlotMap>, second: u32| {
            let mut peers = peers.clone();
            peers.forget(map, SECOND * second, &policy);
            (peers.knows(life.lease()), peers.is_gone(&life))
        };
        let named = map_of(&life);
        let other = map_of(&Incarnation::new("member-b", "x"));
        assert_eq!([600, 601].map(|second| known(Some(&named), second)), [(true, true); 2]);
        for map in [None, Some(&other)] {
            assert_eq!([600, 601].map(|second| known(map, second)), [(true, true), (false, false)]);
        }
    }

    #[test]
    fn a_life_that_is_gone_is_remembered_while_its_lease_shows_it() {
        let (policy, life, mut peers) = holder_seen_at(Duration::ZERO);
        peers.prove(Gone(life.clone()));
        peers.forget(None, SECOND * 9000, &policy);
        assert!(peers.is_gone(&life), "its claim arrived late");
        let next = LeaseRecord { holder: Some(Incarnation::new("member-a", "y")), ..LeaseRecord::default() };
        peers.see(life.lease(), Seen { version: Version(4), value: Some(next) }, SECOND * 9000);
        let known = [9599, 9600].map(|second| {
            peers.forget(None, SECOND * second, &policy);
            (peers.knows(life.lease()), peers.is_gone(&life))
        });
        assert_eq!(known, [(true, true), (true, false)]);
    }

    #[test]
    fn leases_that_come_and_go_take_bounded_memory() {
        let (policy, _, mut peers) = holder_seen_at(Duration::ZERO);
        for number in 0..10_000_u32 {
            let (name, at) = (format!("member-{number}"), SECOND * number);
            let life = Incarnation::new(&name, "x");
            let record = LeaseRecord { holder: Some(life.clone()), ..LeaseRecord::default() };
            let version = u64::from(number) * 2;
            peers.see(&name, Seen { version: Version(version), value: Some(record) }, at);
            peers.see(&name, Seen { version: Version(version + 1), value: None }, at);
            peers.prove(Gone(life));
            peers.forget(None, at, &policy);
        }
        assert_eq!((peers.leases.len(), peers.gone.len()), (601, 600), "those of 60 durations, and one held");
    }

    #[test]
    fn a_life_that_is_gone_gets_no_slots_though_its_claim_arrives() {
        let (policy, life, mut peers) = holder_seen_at(SECOND);
        let is_ready = |peers: &Peers| peers.ready(SECOND, policy.duration, &policy).contains_key(&life);
        assert!(is_ready(&peers));
        peers.prove(Gone(life.clone()));
        assert!(!is_ready(&peers));
    }
}
