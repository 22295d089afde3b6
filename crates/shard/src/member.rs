//! A member: a state machine that is stepped by time and events, and answers with effects.
//!
//! It holds its own Lease, and watches those of the others and the map. It acts for the slots that the map
//! gives it, and hands them over. While it is the leader, it does the leader's duties.

use std::time::Duration;

use framework_message::{Now, Slot, Slots, Ticket};

use crate::clock::Clock;
use crate::defect::Defect;
use crate::event::{Effect, Event, Outcome};
use crate::holding::{Holdings, Phase};
use crate::incarnation::Incarnation;
use crate::leader::{self, Awaited};
use crate::map::SlotMap;
use crate::map_view::MapView;
use crate::peers::Peers;
use crate::policy::Policy;
use crate::renewal::{Renewal, Standing};
use crate::version::Seen;

mod slots;
pub mod view;

/// The name of the leader's Lease.
pub const LEADER_LEASE: &str = "frameworkcontroller-leader";

/// One life of a replica, as a state machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    policy: Policy,
    me: Incarnation,
    slots: Vec<Slot>,
    clock: Clock,
    lease: Renewal,
    leadership: Renewal,
    peers: Peers,
    awaited: Awaited,
    map: MapView,
    holdings: Holdings,
    stopping: bool,
    over: bool,
    labelled: bool,
    /// Until when it may act for its slots, as it last said; `None`: it says so again.
    owned_until: Option<Duration>,
    tickets: u64,
}

impl Member {
    /// A life that begins now. `pod` is the UID of its Pod, `slots` are the slots that there are.
    pub fn new(policy: Policy, me: Incarnation, pod: &str, slots: impl IntoIterator<Item = Slot>) -> Self {
        Member {
            policy,
            slots: slots.into_iter().collect(),
            clock: Clock::default(),
            lease: Renewal::new(me.lease(), &me, pod),
            leadership: Renewal::new(LEADER_LEASE, &me, pod),
            me,
            peers: Peers::default(),
            awaited: Awaited::default(),
            map: MapView::default(),
            holdings: Holdings::default(),
            stopping: false,
            over: false,
            labelled: true,
            owned_until: None,
            tickets: 0,
        }
    }

    /// The same life, which is the first one of its program. If no program of the cluster ever was a leader,
    /// and none has seen a map, it writes the first map at once.
    #[must_use]
    pub fn first_of_program(mut self) -> Self {
        self.lease.set_knows_map(false);
        self
    }

    /// The next life of the same program. It remembers the epochs that this one has seen, the duration of the
    /// last map, and a creation of the map that may land.
    #[must_use]
    pub fn next_life(&self, me: Incarnation, pod: &str) -> Self {
        let map = self.map.next_life(&self.policy);
        Member { map, ..Member::new(self.policy, me, pod, self.slots.iter().copied()) }
    }

    /// Takes in one event. Effects are to be done in their order.
    pub fn step(&mut self, now: Now, event: Event) -> Vec<Effect> {
        if self.over {
            return Vec::new();
        }
        let at = self.policy.clock(now);
        let wall = u64::try_from(now.wall.as_millisecond()).unwrap_or(0);
        self.clock.step(now, &self.policy);
        let mut effects = Vec::new();
        let (before, heard) = (self.map.version(), self.heard());
        self.take(event, at, &mut effects);
        if self.heard().is_some_and(|now| heard.is_none_or(|heard| now > heard + self.policy.validity())) {
            // Others may have heard as little, and be as alive. Nor could they hand anything over.
            self.peers.time_again(at);
            self.awaited.time_again(at);
        }
        if self.map.version() != before {
            self.follow(at, &mut effects);
        }
        if self.map.get().is_some() {
            self.lease.set_knows_map(true);
        }
        if self.lease.standing() == Standing::Lost || self.map.restored() {
            self.over = true;
            return vec![
                Effect::Disown(self.slots.iter().copied().collect()),
                if self.stopping { Effect::Exit } else { Effect::Rejoin },
            ];
        }
        self.renew(at, &mut effects);
        self.release_overdue(at, &mut effects);
        self.lead(at, &mut effects);
        self.write_map(at, wall, &mut effects);
        self.end(at, &mut effects);
        self.prove(&mut effects);
        effects
    }

    /// When it sent the last renewal of a Lease that it knows to be applied.
    fn heard(&self) -> Option<Duration> {
        self.lease.proved().max(self.leadership.proved())
    }

    fn take(&mut self, event: Event, at: Duration, effects: &mut Vec<Effect>) {
        match event {
            Event::Tick => {}
            Event::LeaseSeen { name, seen } if name == LEADER_LEASE => {
                // A leader that fell silent may act for its slots all the same: it is not proved gone.
                self.leadership.see(seen, at);
            }
            Event::LeaseSeen { name, mut seen } => {
                seen.value = seen.value.map(|record| record.under(&name));
                if name == self.me.lease() {
                    let gone = self.lease.see(seen.clone(), at);
                    gone.into_iter().for_each(|gone| self.peers.prove(gone));
                }
                self.peers.see(&name, seen, at);
            }
            Event::LeaseWritten { ticket, outcome } if self.lease.awaits(ticket) => {
                let gone = self.lease.answered(at, &self.policy, outcome, effects);
                gone.into_iter().for_each(|gone| self.peers.prove(gone));
                if let Some(seen) = self.lease.seen() {
                    self.peers.see(self.me.lease(), seen, at);
                }
            }
            Event::LeaseWritten { ticket, outcome } if self.leadership.awaits(ticket) => {
                self.leadership.answered(at, &self.policy, outcome, effects);
            }
            Event::LeaseWritten { ticket, outcome } => {
                effects.extend(self.peers.answered(ticket, outcome, at, &self.policy));
            }
            Event::MapSeen(seen) => self.map.see(seen, at),
            Event::MapRead(seen) => {
                self.map.read(seen, at, &self.policy);
                // Now, because a read ends about once in a duration of a Lease.
                self.peers.forget(self.map.get(), at, &self.policy);
            }
            Event::MapPut { ticket, outcome } => {
                let awaited = self.map.answered(ticket, outcome, at, &self.policy, effects);
                if awaited && outcome == Outcome::Unknown && self.policy.defects.has(Defect::TakeBack) {
                    let released: Vec<_> = self.holdings.released().map(|(slot, _)| slot).collect();
                    effects.push(Effect::Resume(released.iter().copied().collect()));
                    released.into_iter().for_each(|slot| self.enter(slot, Phase::Held));
                    self.owned_until = None;
                }
            }
            Event::Listed(slots) => self.listed(slots),
            Event::Drained { slots, since } => {
                self.release(self.holdings.drained_since(slots, since), false, effects);
            }
            Event::Labelled(labelled) => self.labelled = labelled,
            Event::Stop => {
                self.stopping = true;
                self.lease.leave();
                // The drain may take long, and others may need a leader meanwhile.
                self.leadership.release();
            }
        }
    }

    fn renew(&mut self, at: Duration, effects: &mut Vec<Effect>) {
        let ticket = self.ticket();
        effects.extend(self.lease.due(at, &self.policy, ticket));
        self.leadership.claim_again();
        if self.lease.standing() == Standing::Holder {
            let ticket = self.ticket();
            effects.extend(self.leadership.due(at, &self.policy, ticket));
        }
        effects.extend(self.map.due(at));
    }

    /// The epoch under which it was granted a slot; `None`: it does not have the slot.
    pub fn epoch(&self, slot: Slot) -> Option<u64> {
        self.holdings.get(slot).map(|holding| holding.epoch)
    }

    /// The map or its absence, as it was seen last. A write of the map replaces this version.
    pub fn known_map(&self) -> Option<&Seen<SlotMap>> {
        self.map.seen()
    }

    /// Whether it knows anything of the member's Lease of this name. It forgets Leases that are long absent.
    pub fn knows_lease(&self, name: &str) -> bool {
        self.peers.knows(name)
    }

    /// Whether this member is the leader now, by its own clock.
    pub fn leads(&self, at: Duration) -> bool {
        let valid = |sent: Duration| at < sent.saturating_add(self.policy.validity());
        self.leadership.standing() == Standing::Holder && self.leadership.proved().is_some_and(valid)
    }

    fn lead(&mut self, at: Duration, effects: &mut Vec<Effect>) {
        if !self.leads(at) {
            self.map.note_not_leader(at);
            return;
        }
        let map = self.map.get();
        let owners = map.iter().flat_map(|map| map.slots.values()).filter_map(|entry| entry.owner.as_ref());
        let slowest = map.map_or(self.policy.duration, |map| map.duration.max(self.policy.duration));
        let mut tickets = self.tickets;
        let mut ticket = || {
            tickets += 1;
            Ticket(tickets)
        };
        let judged = self.peers.judge(&owners.collect(), at, slowest, &self.policy, &mut ticket);
        effects.extend(judged);
        let patience = self.policy.request_lifetime.saturating_mul(2).saturating_add(self.policy.duration);
        for owner in self.awaited.overdue(at, patience) {
            effects.extend(self.peers.evict(&owner, &mut ticket));
        }
        self.tickets = tickets;
    }

    /// All changes of the map that are due, as one write.
    fn write_map(&mut self, at: Duration, wall: u64, effects: &mut Vec<Effect>) {
        if !self.map.writable(at) || self.lease.standing() != Standing::Holder {
            return;
        }
        let leads = self.leads(at) && !self.stopping;
        let Some(map) = self.map.get() else {
            let longest = self.policy.duration.max(self.peers.longest()).max(self.map.duration());
            let nobody_knows = !self.lease.knows_map() && self.peers.know_no_map();
            let is_first =
                nobody_knows && self.leadership.is_first_holder() && !self.map.may_have_been_made();
            if leads && (is_first || self.map.absent(at) >= self.policy.map_absence(longest)) {
                let slots = self.slots.iter().copied();
                let map = SlotMap::without_owners(slots, self.policy.duration, is_first);
                let mut map = map.above(self.map.epoch());
                leader::plan(&mut map, &self.peers, at, &self.policy, wall, self.labelled);
                let ticket = self.ticket();
                effects.push(self.map.put(map, ticket, at, &self.policy));
            }
            return;
        };
        let gives_up = self.stopping || self.holdings.released().next().is_some();
        let plans = leads && !leader::is_settled(map, &self.peers, at, &self.policy);
        // With all slots, this would take most of the time of a step: a test of the leader compares them.
        debug_assert!(
            plans || !leads || map.slots.len() > 16 || self.planned(map, at, wall) == *map,
            "it is not settled"
        );
        if !plans && !gives_up && self.slots_of_predecessors(map).is_empty() {
            // As almost always: a copy of the map would cost more than the rest of the step.
            return;
        }
        let mut next = if plans { self.planned(map, at, wall) } else { map.clone() };
        self.give_up(&mut next, at, wall);
        let inherited = self.slots_of_predecessors(&next);
        inherited.iter().for_each(|slot| next.seize(slot, self.me.clone(), wall));
        if next != *map {
            let ticket = self.ticket();
            effects.push(self.map.put(next, ticket, at, &self.policy));
        }
    }

    /// The map with the changes that the leader makes.
    fn planned(&self, map: &SlotMap, at: Duration, wall: u64) -> SlotMap {
        let mut next = map.clone();
        leader::plan(&mut next, &self.peers, at, &self.policy, wall, self.labelled);
        next
    }

    /// Hands over the released slots.
    fn give_up(&self, map: &mut SlotMap, at: Duration, wall: u64) {
        let successors = match self.stopping {
            true => leader::successors(map, &self.me, &self.peers, at, &self.policy),
            false => Default::default(),
        };
        let forgets = self.policy.defects.has(Defect::ForgetHold);
        for (slot, late) in self.holdings.released() {
            let unsettled = (late || self.map.holds.lasts(slot, at)) && !forgets;
            if self.stopping {
                map.leave(slot, &self.me, successors.get(&slot).cloned(), unsettled, wall);
            } else {
                map.hand_over(slot, &self.me, unsettled, wall);
            }
        }
        if self.stopping {
            map.withdraw(&self.me);
            map.duration = map.duration.max(self.peers.longest());
        }
    }

    /// The slots of its last life, which a container that was restarted in its Pod takes at once.
    fn slots_of_predecessors(&self, map: &SlotMap) -> Slots {
        if self.stopping {
            return Slots::NONE;
        }
        let last = |owner: &Incarnation| owner.lease() == self.me.lease() && self.peers.is_gone(owner);
        let inherited = map.slots.iter().filter(|(_, entry)| entry.owner.as_ref().is_some_and(last));
        inherited.map(|(slot, _)| *slot).collect()
    }

    /// After the last hand-over the Leases are emptied, and the program can end. A slot that is granted after
    /// that stays behind: the replica that seizes it sees the empty Lease.
    fn end(&mut self, at: Duration, effects: &mut Vec<Effect>) {
        if !self.stopping {
            return;
        }
        if self.lease.standing() != Standing::Released {
            let named = self.map.get().is_some_and(|map| map.names(&self.me));
            if named || !self.holdings.is_empty() {
                return;
            }
            if self.leadership.standing() != Standing::Holder {
                self.lease.release();
            }
        }
        // A claim that is on its way would make a member of this life when it has ended.
        let never_joined =
            self.lease.standing() == Standing::Outside && self.lease.is_settled(at, &self.policy);
        if never_joined || self.lease.standing() == Standing::Released {
            self.over = true;
            effects.push(Effect::Exit);
        }
    }

    /// Extends the right to act as far as Lease and map prove it.
    fn prove(&mut self, effects: &mut Vec<Effect>) {
        let lease = self.lease.proved().filter(|sent| self.clock.trusts(*sent));
        let until = lease.map_or(Duration::ZERO, |sent| {
            let lease = sent.saturating_add(self.policy.validity());
            lease.min(self.map.read_at().saturating_add(self.policy.map_validity()))
        });
        if Some(until) != self.owned_until {
            self.owned_until = Some(until);
            let slots = self.holdings.acting();
            if !slots.is_empty() {
                effects.push(Effect::Own { slots, until: until.max(Duration::from_nanos(1)) });
            }
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }
}
