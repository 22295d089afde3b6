//! The division of the slots as one member knows it, for people who look for a cause, and for probes.
//!
//! It decides about no slot. Times are seconds from now, so a reader needs no clock of the member.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::{Now, Slot};
use serde::Serialize;

use super::{LEADER_LEASE, Member};
use crate::holding::Phase;
use crate::incarnation::Incarnation;
use crate::lease::WatchedLease;
use crate::map::Entry;

/// Leases that are shown.
const LEASES: usize = 256;

/// The knowledge of a member.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// This life of the replica.
    pub incarnation: String,
    /// The holder of the leader's Lease.
    pub leader: Option<String>,
    /// Whether this life is the leader.
    pub is_leader: bool,
    /// Whether this life hands everything over, to end.
    pub stopping: bool,
    /// How long it may act for its slots without another proof. 0: it is paused.
    pub acts_for_sec: f64,
    /// Since this life sent the last renewal of its own Lease that was applied.
    pub renewed_sec_ago: Option<f64>,
    /// The map; `None`: it is absent, or was not seen yet.
    pub map: Option<MapState>,
    /// The Leases of the leader and of all members.
    pub leases: Vec<LeaseRow>,
    /// How many Leases are not shown, because there are too many.
    pub leases_left_out: usize,
    /// The slots. Those that agree in everything share a row.
    pub slots: Vec<SlotRow>,
}

/// The version of the map.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MapState {
    /// Its resourceVersion.
    pub version: u64,
    /// Since this life sent the last read of it that was answered.
    pub read_sec_ago: f64,
    /// The longest duration of a Lease by which any member acts.
    pub lease_duration_sec: f64,
}

/// A Lease.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseRow {
    /// Its name.
    pub name: String,
    /// Its holder.
    pub holder: Option<String>,
    /// Its state, as this member sees it.
    pub state: String,
    /// Since this member saw it change: the age of the last renewal.
    pub changed_sec_ago: f64,
    /// How long until it may be emptied, unless it changes. 0: it may be, or nobody holds it.
    pub expires_in_sec: f64,
    /// Whether its holder gives its slots away.
    pub leaving: bool,
}

/// Slots that agree in everything.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotRow {
    /// The slots, such as `0-3,7`.
    pub slots: String,
    /// How many they are.
    pub count: usize,
    /// The life that may act for them.
    pub owner: Option<String>,
    /// Their epoch.
    pub epoch: u64,
    /// The life that their owner is asked to hand them over to.
    pub next: Option<String>,
    /// Whether requests of an earlier owner may still land.
    pub unsettled: bool,
    /// How far this member has come with them: `Listing`, `Held`, `Draining` or `Released`.
    pub phase: Option<&'static str>,
    /// How long this member creates nothing for them that an earlier owner may have sent.
    pub holds_for_sec: Option<f64>,
}

/// The part that all slots of a row have in common.
type Kind<'a> = (&'a Entry, Option<&'static str>, Option<Duration>);

/// The figures of a member that metrics show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// When it sent the last renewal of its own Lease that was applied, on the clock that counts suspension.
    pub renewed: Option<Duration>,
    /// The highest epoch of its slots; without slots 0.
    pub epoch: u64,
    /// The name of the leader's own Lease.
    pub leader: Option<String>,
}

/// How far a member has come with the slots that the map gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareProgress {
    /// Slots that it acts for, including those that it is to hand over.
    pub acting: usize,
    /// Slots that it owns, and whose objects are being listed.
    pub listing: usize,
    /// Slots that their owner is asked to hand over to it.
    pub proposed: usize,
    /// All slots of the map.
    pub all: usize,
    /// Whether every Framework that it has seen has its label, so that nothing keeps slots from moving.
    pub is_labelled: bool,
}

impl ShareProgress {
    /// Whether it acts for all that it has and is to get.
    pub fn is_whole(self) -> bool {
        self.acting > 0 && self.listing == 0 && self.proposed == 0
    }
}

impl Member {
    /// How far it has come with its slots; `None`: it may not act now, or there is no map.
    pub fn share(&self, at: Duration) -> Option<ShareProgress> {
        let map = self.map.get().filter(|_| at < self.owned_until.unwrap_or_default())?;
        let (all, is_labelled) = (map.slots.len(), self.labelled);
        let mut share = ShareProgress { all, is_labelled, ..ShareProgress::default() };
        for (slot, entry) in &map.slots {
            let is_mine = entry.owner.as_ref() == Some(&self.me);
            match self.holdings.get(*slot).filter(|_| is_mine).map(|holding| holding.phase) {
                Some(Phase::Held | Phase::Draining { .. }) => share.acting += 1,
                Some(Phase::Listing) => share.listing += 1,
                Some(Phase::Released { .. }) => {}
                None => share.proposed += usize::from(entry.next.as_ref() == Some(&self.me)),
            }
        }
        Some(share)
    }

    /// Its knowledge at `now`.
    pub fn view(&self, now: Now) -> View {
        let at = self.policy.clock(now);
        let shown = self.peers.leases().take(LEASES);
        let mut leases: Vec<_> = shown.map(|(name, lease)| self.lease_row(name, lease, at)).collect();
        leases.extend(self.leadership.watched().map(|lease| self.lease_row(LEADER_LEASE, lease, at)));
        View {
            incarnation: self.me.to_string(),
            leader: self.leader().map(ToString::to_string),
            is_leader: self.leads(at),
            stopping: self.stopping,
            acts_for_sec: seconds(self.owned_until.unwrap_or_default().saturating_sub(at)),
            renewed_sec_ago: self.lease.proved().map(|sent| seconds(at.saturating_sub(sent))),
            map: self.map.get().map(|map| MapState {
                version: self.map.version().0,
                read_sec_ago: seconds(at.saturating_sub(self.map.read_at())),
                lease_duration_sec: seconds(map.duration),
            }),
            leases,
            leases_left_out: self.peers.leases().count().saturating_sub(LEASES),
            slots: self.slot_rows(at),
        }
    }

    /// Its figures.
    pub fn figures(&self) -> Figures {
        let entries = self.map.get().into_iter().flat_map(|map| map.slots.values());
        let owned = entries.filter(|entry| entry.owner.as_ref() == Some(&self.me));
        Figures {
            renewed: self.lease.proved(),
            epoch: owned.map(|entry| entry.epoch).max().unwrap_or(0),
            leader: self.leader().map(|leader| leader.lease().to_owned()),
        }
    }

    fn leader(&self) -> Option<&Incarnation> {
        self.leadership.watched().and_then(WatchedLease::holder)
    }

    fn lease_row(&self, name: &str, lease: &WatchedLease, at: Duration) -> LeaseRow {
        let slowest =
            self.map.get().map_or(self.policy.duration, |map| map.duration.max(self.policy.duration));
        let duration = lease.record().map_or(slowest, |record| record.duration.max(slowest));
        let changed = lease.unchanged(at);
        let left = self.policy.expiry(duration).saturating_sub(changed);
        LeaseRow {
            name: name.to_owned(),
            holder: lease.holder().map(ToString::to_string),
            state: format!("{:?}", lease.state(at, slowest, |duration| self.policy.expiry(duration))),
            changed_sec_ago: seconds(changed),
            expires_in_sec: seconds(lease.holder().map_or(Duration::ZERO, |_| left)),
            leaving: lease.record().is_some_and(|record| record.leaving),
        }
    }

    fn slot_rows(&self, at: Duration) -> Vec<SlotRow> {
        let mut kinds: Vec<(Kind<'_>, Vec<Slot>)> = Vec::new();
        for (slot, entry) in self.map.get().into_iter().flat_map(|map| &map.slots) {
            let mine = entry.owner.as_ref() == Some(&self.me);
            let phase = self.holdings.get(*slot).filter(|_| mine).map(|holding| match holding.phase {
                Phase::Listing => "Listing",
                Phase::Held => "Held",
                Phase::Draining { .. } => "Draining",
                Phase::Released { .. } => "Released",
            });
            let kind = (entry, phase, self.map.holds.left(*slot, at).filter(|_| mine));
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, slots)) => slots.push(*slot),
                None => kinds.push((kind, vec![*slot])),
            }
        }
        let row = |((entry, phase, hold), slots): (Kind<'_>, Vec<Slot>)| SlotRow {
            slots: ranges(&slots),
            count: slots.len(),
            owner: entry.owner.as_ref().map(ToString::to_string),
            epoch: entry.epoch,
            next: entry.next.as_ref().map(ToString::to_string),
            unsettled: entry.unsettled,
            phase,
            holds_for_sec: hold.map(seconds),
        };
        kinds.into_iter().map(row).collect()
    }
}

/// Seconds with three digits after the point.
fn seconds(duration: Duration) -> f64 {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(millis).as_secs_f64()
}

/// Slots in ascending order, as ranges.
fn ranges(slots: &[Slot]) -> String {
    let mut runs: BTreeMap<u8, u8> = BTreeMap::new();
    for slot in slots {
        match runs.last_entry() {
            Some(mut run) if run.get().checked_add(1) == Some(slot.0) => *run.get_mut() = slot.0,
            _ => _ = runs.insert(slot.0, slot.0),
        }
    }
    let run =
        |(first, last): (u8, u8)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.into_iter().map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::event::{Effect, Event, Outcome};
    use crate::map::SlotMap;
    use crate::version::{Seen, Version};

    fn now(second: u64) -> Now {
        let boot = Duration::from_secs(second);
        let wall = jiff::Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
        Now { steady: boot, boot, wall }
    }

    #[test]
    fn slots_are_shown_as_ranges() {
        let of = |slots: &[u8]| ranges(&slots.iter().copied().map(Slot).collect::<Vec<_>>());
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[0, 1, 2, 7, 254, 255]), "0-2,7,254-255");
    }

    /// A member that is alone, after it wrote Leases and map and listed its slots. Each write is applied.
    fn lone() -> Member {
        let secs = Duration::from_secs;
        let policy = Policy::new(secs(10), secs(2), secs(3), secs(28)).unwrap();
        let me = Incarnation::new("frameworkcontroller-member-a", "1f0c77e2");
        let mut member = Member::new(policy, me, "pod", Slot::all()).first_of_program();
        let mut version = 0;
        let mut events = vec![Event::Labelled(true)];
        while let Some(event) = events.pop() {
            for effect in member.step(now(100), event) {
                version += 1;
                let outcome = Outcome::Done(Version(version));
                let absent = Version(version);
                events.extend(match effect {
                    Effect::ReadLease(name) => {
                        Some(Event::LeaseSeen { name, seen: Seen { version: absent, value: None } })
                    }
                    Effect::ReadMap => Some(Event::MapRead(Some(Seen { version: absent, value: None }))),
                    Effect::WriteLease { ticket, .. } => Some(Event::LeaseWritten { ticket, outcome }),
                    Effect::PutMap { ticket, .. } => Some(Event::MapPut { ticket, outcome }),
                    Effect::List(slots) => Some(Event::Listed(slots)),
                    _ => None,
                });
            }
        }
        member
    }

    /// The form of a value: names and types. Numbers and words are replaced, and of a list all elements must
    /// have one form.
    fn form(value: &serde_json::Value) -> serde_json::Value {
        match value {
            serde_json::Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), form(value))).collect()
            }
            serde_json::Value::Array(rows) => {
                let forms: std::collections::BTreeSet<_> =
                    rows.iter().map(|row| form(row).to_string()).collect();
                assert!(forms.len() == 1, "{forms:?}");
                forms.into_iter().collect()
            }
            _ => "value".into(),
        }
    }

    #[test]
    fn the_sample_in_the_manual_has_the_form_of_a_view() {
        let document = include_str!("../../../../docs/sharding.md");
        let sample = document.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
        let sample = serde_json::from_str(sample.expect("there is a sample")).expect("it is JSON");
        let view = serde_json::to_value(lone().view(now(101))).unwrap();
        assert_eq!(form(&sample), form(&view), "the sample, and {view:#}");
    }

    #[test]
    fn a_view_shows_leader_leases_and_the_phase_of_each_slot() {
        let member = lone();
        let me = "frameworkcontroller-member-a/1f0c77e2";
        let view = member.view(now(103));
        assert_eq!((view.incarnation.as_str(), view.leader.as_deref(), view.is_leader), (me, Some(me), true));
        assert_eq!((view.acts_for_sec, view.renewed_sec_ago), (5.0, Some(3.0)));
        let lease = &view.leases[0];
        assert_eq!((lease.holder.as_deref(), lease.state.as_str()), (Some(me), "Ready"));
        assert_eq!((lease.changed_sec_ago, lease.expires_in_sec), (3.0, 9.0));
        assert_eq!(view.leases.len(), 2, "that of the leader, too");
        let all = &view.slots[0];
        assert_eq!((all.slots.as_str(), all.count, all.phase), ("0-255", 256, Some("Held")));
        assert_eq!((all.owner.as_deref(), all.holds_for_sec), (Some(me), None), "the first map of all");
        let figures = member.figures();
        assert_eq!(figures.leader.as_deref(), Some("frameworkcontroller-member-a"));
        assert_eq!((figures.epoch, figures.renewed), (100_000, Some(Duration::from_secs(100))));
        assert_eq!(member.view(now(120)).acts_for_sec, 0.0, "its right has ended");
    }

    #[test]
    fn a_share_that_is_handed_over_in_two_parts_is_whole_after_the_second() {
        let mut member = lone();
        let (me, other) = (member.me.clone(), Incarnation::new("frameworkcontroller-member-b", "9d2e01aa"));
        let mut map = member.known_map().and_then(|seen| seen.value.clone()).unwrap();
        for slot in Slot::all() {
            map.leave(slot, &me, Some(other.clone()), false, 100_001);
        }
        [0, 1].into_iter().for_each(|slot| map.propose(Slot(slot), Some(me.clone())));
        let mut version = 5000;
        let mut shown = |member: &mut Member, map: &SlotMap| {
            version += 1;
            let seen = Seen { version: Version(version), value: Some(map.clone()) };
            member.step(now(101), Event::MapSeen(seen));
            member.share(Duration::from_secs(101)).unwrap()
        };
        let all = map.slots.len();
        let share =
            |acting, listing, proposed| ShareProgress { acting, listing, proposed, all, is_labelled: true };
        assert_eq!(shown(&mut member, &map), share(0, 0, 2));
        for (slot, left) in [(0, 1), (1, 0)] {
            map.hand_over(Slot(slot), &other, false, 100_002);
            assert_eq!(shown(&mut member, &map), share(usize::from(slot), 1, left));
            member.step(now(101), Event::Listed([Slot(slot)].into_iter().collect()));
            let listed = member.share(Duration::from_secs(101)).unwrap();
            assert_eq!(listed, share(usize::from(slot) + 1, 0, left));
            assert_eq!(listed.is_whole(), slot == 1, "{listed:?}");
        }
        assert_eq!(member.share(Duration::from_secs(120)), None, "its right has ended");
    }

    #[test]
    fn a_read_of_the_map_forgets_leases_that_are_long_absent() {
        let mut member = lone();
        let name = "frameworkcontroller-member-b";
        let seen = Seen { version: Version(5000), value: None };
        member.step(now(101), Event::LeaseSeen { name: name.to_owned(), seen });
        let known = [700, 701].map(|second| {
            member.step(now(second), Event::MapRead(None));
            member.knows_lease(name)
        });
        assert_eq!(known, [true, false]);
    }

    #[test]
    fn the_largest_view_has_a_bound() {
        let mut member = lone();
        let long = |number: usize| Incarnation::new(&format!("{number:0200}"), "01234567");
        let mut map = member.map.get().unwrap().clone();
        for (number, entry) in map.slots.values_mut().enumerate() {
            let epoch = u64::MAX - number as u64;
            *entry =
                Entry { owner: Some(long(number)), epoch, next: Some(long(number + 1)), unsettled: true };
        }
        member.step(now(101), Event::MapSeen(Seen { version: Version(5000), value: Some(map) }));
        for number in 0..300 {
            let record = crate::lease::LeaseRecord { holder: Some(long(number)), ..Default::default() };
            let seen = Seen { version: Version(6000 + number as u64), value: Some(record) };
            member.step(now(101), Event::LeaseSeen { name: format!("{number:0200}"), seen });
        }
        let view = member.view(now(102));
        assert_eq!(view.leases_left_out, 301 - LEASES, "{}", view.leases.len());
        assert!(serde_json::to_string(&view).unwrap().len() < 400_000);
    }
}
