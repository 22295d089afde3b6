//! A Lease that this replica holds or wants: its claim, its renewals, and the proof until when it may act.
//!
//! The proof counts from *sending* a write that was applied. Each write carries a number, so a read after an
//! unknown outcome shows which of them arrived.

use std::time::Duration;

use framework_message::Ticket;

use crate::defect::Defect;
use crate::event::{Effect, Outcome};
use crate::incarnation::{Gone, Incarnation};
use crate::lease::{LeaseRecord, WatchedLease};
use crate::policy::Policy;
use crate::version::{Seen, Version};

/// A write that was sent and may have been applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Write {
    record: LeaseRecord,
    base: Option<Version>,
    sent: Duration,
    /// The holder that it replaces, if that holder is gone once it is applied.
    gone: Option<Incarnation>,
    /// It was refused. If a proxy sent it twice, the first copy may have been applied all the same.
    refused: bool,
}

/// The proof of holding a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Proof {
    transitions: u64,
    sent: Duration,
}

/// The relation of this life to the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It does not hold the Lease yet.
    Outside,
    /// It holds the Lease, though perhaps not in time.
    Holder,
    /// It held the Lease and lost it.
    Lost,
    /// It emptied the Lease itself.
    Released,
}

/// One Lease, from the side of a replica that holds it or wants it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Renewal {
    name: String,
    me: Incarnation,
    pod: String,
    seen: Option<WatchedLease>,
    proof: Option<Proof>,
    standing: Standing,
    writes: Vec<Write>,
    in_flight: Option<Ticket>,
    count: u64,
    not_before: Duration,
    leaving: bool,
    releasing: bool,
    knows_map: bool,
}

/// Writes that are remembered until a read shows one of them. A read after each settles older ones.
const REMEMBERED: usize = 8;

impl Renewal {
    /// A Lease that is not held yet.
    pub fn new(name: &str, me: &Incarnation, pod: &str) -> Self {
        Renewal {
            name: name.into(),
            me: me.clone(),
            pod: pod.into(),
            seen: None,
            proof: None,
            standing: Standing::Outside,
            writes: Vec::new(),
            in_flight: None,
            count: 0,
            not_before: Duration::ZERO,
            leaving: false,
            releasing: false,
            knows_map: true,
        }
    }

    /// Whether this life holds it.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// When the last write was sent that is known to be applied.
    pub fn proved(&self) -> Option<Duration> {
        self.proof.map(|proof| proof.sent)
    }

    /// Whether the holder may have seen a map; the next renewal says so.
    pub fn set_knows_map(&mut self, knows: bool) {
        self.knows_map = knows;
    }

    /// Whether the holder may have seen a map.
    pub fn knows_map(&self) -> bool {
        self.knows_map
    }

    /// Whether this life holds it, and nobody held it before.
    pub fn is_first_holder(&self) -> bool {
        let record = self.seen.as_ref().and_then(WatchedLease::record);
        self.standing == Standing::Holder && record.is_some_and(|lease| lease.transitions == 1)
    }

    /// The holder gets no more slots; the next renewal says so.
    pub fn leave(&mut self) {
        self.leaving = true;
        self.not_before = Duration::ZERO;
    }

    /// The Lease is emptied instead of renewed.
    pub fn release(&mut self) {
        if !self.releasing {
            self.releasing = true;
            self.not_before = Duration::ZERO;
        }
    }

    /// Whether no write of it may still be applied. A refused one is not waited for: if another copy of it
    /// lands after all, the Lease has a holder that is gone, and is emptied after 1.2 durations.
    pub fn is_settled(&self, at: Duration, policy: &Policy) -> bool {
        let may_land =
            |write: &Write| !write.refused && at < write.sent.saturating_add(policy.request_lifetime);
        self.in_flight.is_none() && !self.writes.iter().any(may_land)
    }

    /// A Lease that was lost may be claimed again: for the leader's, on which no safety depends.
    pub fn claim_again(&mut self) {
        if self.standing == Standing::Lost {
            self.standing = Standing::Outside;
            self.writes.clear();
        }
    }

    /// The write or read that is due.
    pub fn due(&mut self, at: Duration, policy: &Policy, ticket: Ticket) -> Option<Effect> {
        if self.in_flight.is_some() || at < self.not_before {
            return None;
        }
        let Some(seen) = &self.seen else {
            self.not_before = at.saturating_add(policy.interval);
            return Some(Effect::ReadLease(self.name.clone()));
        };
        let is_sure = policy.defects.has(Defect::ClaimAgain) || !self.may_have_held(seen, at, policy);
        let (record, gone) = match self.standing {
            Standing::Holder => (self.renewed(seen.record()?, policy), None),
            Standing::Outside if !is_sure => {
                self.standing = Standing::Lost;
                return None;
            }
            Standing::Outside if !self.releasing && !self.leaving => self.claim(seen, at, policy)?,
            _ => return None,
        };
        let base = seen.base();
        self.not_before = at.saturating_add(policy.interval);
        self.count = record.renewals;
        self.in_flight = Some(ticket);
        if self.writes.len() >= REMEMBERED {
            // The first of all claims says since when others may have seen this life hold the Lease.
            self.writes.remove(usize::from(self.standing == Standing::Outside));
        }
        self.writes.push(Write { record: record.clone(), base, sent: at, gone, refused: false });
        Some(Effect::WriteLease { name: self.name.clone(), base, record, ticket })
    }

    fn renewed(&self, lease: &LeaseRecord, policy: &Policy) -> LeaseRecord {
        let renewals = self.count.saturating_add(1);
        let (pod, duration) = (self.pod.clone(), policy.duration);
        let (leaving, knows_map) = (self.leaving, self.knows_map);
        let record = LeaseRecord { pod, renewals, duration, leaving, knows_map, ..lease.clone() };
        if self.releasing { record.emptied() } else { record }
    }

    /// Whether a claim may have been applied, and replaced since. Then others may have proved this life gone,
    /// though it never knew that it held the Lease.
    fn may_have_held(&self, seen: &WatchedLease, at: Duration, policy: &Policy) -> bool {
        // A claim would take this life for its own predecessor. Of the leader's Lease that does no harm.
        let shows_forgotten_claim = self.name == self.me.lease() && seen.holder() == Some(&self.me);
        shows_forgotten_claim
            || self.writes.iter().any(|claim| {
                // To prove a holder gone takes the expiry of a Lease at least, which is longer.
                let is_old = at >= claim.sent.saturating_add(policy.validity());
                // A refused one rarely was applied: this life goes on while nobody can have proved it gone.
                let counts = is_old || !claim.refused;
                match claim.base {
                    Some(_) => counts && claim.base != seen.base(),
                    // A Lease that came and went looks like one that never was.
                    None => is_old || (counts && seen.base().is_some()),
                }
            })
    }

    /// The record that takes the Lease, and the holder that it proves gone. A predecessor in the same Pod has
    /// ended; any other holder must not have renewed for its whole time.
    fn claim(
        &self,
        seen: &WatchedLease,
        at: Duration,
        policy: &Policy,
    ) -> Option<(LeaseRecord, Option<Incarnation>)> {
        let gone = match (seen.record(), seen.holder()) {
            (Some(lease), Some(holder)) => {
                // People and other programs may write any duration.
                let duration = lease.duration_of_member().max(policy.duration);
                let expired = seen.unchanged(at) >= policy.expiry(duration);
                let predecessor = lease.pod == self.pod && holder.lease() == self.me.lease();
                (expired || predecessor).then(|| Some(holder.clone()))?
            }
            _ => None,
        };
        let record = LeaseRecord {
            holder: Some(self.me.clone()),
            pod: self.pod.clone(),
            renewals: self.count.saturating_add(1),
            transitions: seen.record().map_or(1, LeaseRecord::next_transition),
            duration: policy.duration,
            leaving: self.leaving,
            knows_map: self.knows_map,
        };
        Some((record, gone))
    }

    /// Takes in the end of a write of this Lease.
    pub fn answered(
        &mut self,
        at: Duration,
        policy: &Policy,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) -> Option<Gone> {
        self.in_flight = None;
        match outcome {
            Outcome::Done(version) => {
                let write = self.writes.last()?;
                // An API server that counts back was restored from a copy: nothing it says proves anything.
                if write.base.is_some_and(|base| version <= base) {
                    self.standing = Standing::Lost;
                    return None;
                }
                let value = Some(write.record.clone());
                return self.see(Seen { version, value }, at);
            }
            Outcome::Refused => {
                if let Some(write) = self.writes.last_mut() {
                    write.refused = true;
                }
            }
            Outcome::Unknown => {}
        }
        self.not_before = at.saturating_add(policy.interval / 4);
        effects.push(Effect::ReadLease(self.name.clone()));
        None
    }

    /// The Lease as it was seen last.
    pub fn seen(&self) -> Option<Seen<LeaseRecord>> {
        self.seen.as_ref().map(|seen| Seen { version: seen.version(), value: seen.record().cloned() })
    }

    /// The same, with the times at which it was seen.
    pub fn watched(&self) -> Option<&WatchedLease> {
        self.seen.as_ref()
    }

    /// Whether `ticket` is the write that is on the way.
    pub fn awaits(&self, ticket: Ticket) -> bool {
        self.in_flight == Some(ticket)
    }

    /// Takes in the Lease of a watch, a read or a reply.
    pub fn see(&mut self, seen: Seen<LeaseRecord>, at: Duration) -> Option<Gone> {
        match &mut self.seen {
            Some(known) if seen.version <= known.version() => return None,
            Some(known) => known.see(seen.clone(), at),
            None => {
                self.seen = Some(WatchedLease::new(seen.clone(), at));
                self.not_before = at;
            }
        }
        let record = seen.value;
        // The number names one of our own writes only if the rest is ours, too.
        let ours = |write: &Write| Some(&write.record) == record.as_ref();
        let arrived = self.writes.iter().position(ours);
        let mine = record.as_ref().is_some_and(|lease| lease.holder.as_ref() == Some(&self.me));
        let transitions = record.as_ref().map_or(0, |lease| lease.transitions);
        let same = self.proof.is_none_or(|proof| proof.transitions == transitions);
        if self.standing == Standing::Holder && !(mine && same) {
            let released = self.releasing && arrived.is_some();
            self.standing = if released { Standing::Released } else { Standing::Lost };
            self.proof = None;
            return None;
        }
        let write = self.writes.drain(..=arrived?).next_back()?;
        if mine && same && self.standing != Standing::Lost {
            self.standing = Standing::Holder;
            let sent = self.proof.map_or(write.sent, |proof| proof.sent.max(write.sent));
            self.proof = Some(Proof { transitions, sent });
        }
        write.gone.map(Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let second = Duration::from_secs(1);
        Policy::new(second * 10, second * 2, second * 3, second * 28).unwrap()
    }

    fn lease() -> (Renewal, Incarnation) {
        let me = Incarnation::new("member-a", "x7");
        (Renewal::new("member-a", &me, "pod"), me)
    }

    fn absent(version: u64) -> Seen<LeaseRecord> {
        Seen { version: Version(version), value: None }
    }

    /// The claim that is due now, with its end.
    fn ended(lease: &mut Renewal, at: Duration, outcome: Outcome) -> Option<LeaseRecord> {
        let ticket = Ticket(at.as_secs());
        let Some(Effect::WriteLease { record, .. }) = lease.due(at, &policy(), ticket) else { return None };
        lease.answered(at, &policy(), outcome, &mut Vec::new());
        Some(record)
    }

    /// The claim that is due now; its outcome is not known.
    fn claim(lease: &mut Renewal, at: Duration) -> Option<LeaseRecord> {
        ended(lease, at, Outcome::Unknown)
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_claim_of_unknown_outcome_is_repeated_while_nothing_has_changed() {
        let (mut lease, me) = lease();
        let emptied = LeaseRecord { pod: "pod".to_owned(), transitions: 4, ..LeaseRecord::default() };
        lease.see(Seen { version: Version(9), value: Some(emptied) }, Duration::ZERO);
        let claims: Vec<_> = (1..=4).map(|count| claim(&mut lease, seconds(10 * count)).unwrap()).collect();
        lease.see(Seen { version: Version(12), value: Some(claims[0].clone()) }, seconds(41));
        assert_eq!((lease.standing(), lease.proved()), (Standing::Holder, Some(seconds(10))));
        assert_eq!(claims[3].holder, Some(me));
    }

    #[test]
    fn a_renewal_whose_reply_was_lost_counts_from_its_sending() {
        let (mut lease, _) = lease();
        lease.see(absent(1), Duration::ZERO);
        ended(&mut lease, seconds(1), Outcome::Done(Version(2)));
        let renewed = ended(&mut lease, seconds(4), Outcome::Unknown).unwrap();
        assert_eq!(lease.proved(), Some(seconds(1)), "it may not have arrived");
        lease.see(Seen { version: Version(3), value: Some(renewed) }, seconds(8));
        assert_eq!((lease.standing(), lease.proved()), (Standing::Holder, Some(seconds(4))));
        let next = lease.due(seconds(8), &policy(), Ticket(8));
        assert!(matches!(next, Some(Effect::WriteLease { base: Some(Version(3)), .. })), "{next:?}");
    }

    /// The reply to its claim is lost, and the leader empties the Lease of the silent holder.
    #[test]
    fn a_life_that_may_have_held_its_lease_does_not_claim_it_again() {
        let (mut lease, _) = lease();
        lease.see(absent(1), Duration::ZERO);
        let claimed = claim(&mut lease, seconds(1)).unwrap();
        let emptied = Seen { version: Version(7), value: Some(claimed.emptied()) };
        lease.see(emptied, seconds(4));
        assert_eq!(lease.standing(), Standing::Outside, "the watch showed it late");
        assert_eq!(claim(&mut lease, seconds(4)), None);
        assert_eq!(lease.standing(), Standing::Lost);
    }

    #[test]
    fn a_lease_that_may_have_come_and_gone_is_not_claimed_again() {
        let (mut lease, _) = lease();
        lease.see(absent(1), Duration::ZERO);
        assert!(claim(&mut lease, seconds(1)).is_some());
        lease.see(absent(2), seconds(4));
        assert!(claim(&mut lease, seconds(4)).is_some(), "nobody can have proved it gone yet");
        lease.see(absent(3), seconds(9));
        assert_eq!((claim(&mut lease, seconds(9)), lease.standing()), (None, Standing::Lost));
    }

    /// A proxy sends the claim twice, and passes on the conflict of the second one.
    #[test]
    fn a_claim_that_was_refused_counts_if_a_read_shows_it() {
        let (mut lease, _) = lease();
        lease.see(absent(1), Duration::ZERO);
        let claimed = ended(&mut lease, seconds(1), Outcome::Refused).unwrap();
        assert_eq!(lease.see(Seen { version: Version(5), value: Some(claimed) }, seconds(2)), None);
        assert_eq!((lease.standing(), lease.proved()), (Standing::Holder, Some(seconds(1))));
    }

    /// Another replica may have seen it hold the Lease, and have emptied it.
    #[test]
    fn a_claim_that_was_refused_is_not_repeated_by_a_life_that_may_be_gone() {
        for (at, is_repeated) in [(8, true), (9, false)] {
            let (mut lease, _) = lease();
            lease.see(absent(1), Duration::ZERO);
            let claimed = ended(&mut lease, seconds(1), Outcome::Refused).unwrap();
            lease.see(Seen { version: Version(7), value: Some(claimed.emptied()) }, seconds(at));
            assert_eq!(claim(&mut lease, seconds(at)).is_some(), is_repeated, "after {at} s");
            assert_eq!(lease.standing() == Standing::Lost, !is_repeated, "after {at} s");
        }
    }

    /// The API server applies the second of many claims, and is silent.
    #[test]
    fn a_claim_that_was_forgotten_proves_nobody_gone() {
        let (mut lease, _) = lease();
        let emptied = LeaseRecord { pod: "pod".to_owned(), transitions: 4, ..LeaseRecord::default() };
        lease.see(Seen { version: Version(9), value: Some(emptied) }, Duration::ZERO);
        let times = (1..=REMEMBERED as u64 + 1).map(|count| seconds(10 * count));
        let claims: Vec<_> = times.map(|at| claim(&mut lease, at).unwrap()).collect();
        let second = Seen { version: Version(12), value: Some(claims[1].clone()) };
        assert_eq!(lease.see(second, seconds(100)), None);
        assert_eq!((claim(&mut lease, seconds(101)), lease.standing()), (None, Standing::Lost));
    }
}
