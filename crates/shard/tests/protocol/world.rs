//! Replicas around a store in one thread: messages are late, lost and repeated, clocks differ, replicas die.
//!
//! After each event two claims are checked. At most one replica may act for a slot. None may create for a
//! slot while a create of another one is on the way.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::timeout::LANDS_WITHIN;
use framework_message::{Slot, Slots};
use framework_shard::event::{Effect, Event};
use framework_shard::lease::{LeaseRecord, UNKNOWN};
use framework_shard::{Incarnation, Policy};

use crate::epochs::Epochs;
use crate::faults::Faults;
use crate::network::unanswered;
use crate::replica::{Clocks, Replica};
use crate::store::Store;

pub const SECOND: i64 = 1000;

#[derive(Clone, Debug)]
pub enum Item {
    Tick,
    Apply(Effect, Option<i64>),
    Tell(Event),
    Drained(Slots, Duration),
    Stop,
    Crash,
    Freeze(i64),
    /// A cut begins, or ends.
    Cut(i64),
    Heal,
}

/// How often something happened.
#[derive(Clone, Default)]
pub struct Counts {
    /// Writes of the map that were applied.
    pub puts: u64,
    /// Writes that were sent twice.
    pub repeated: u64,
    /// Listings that were asked for.
    pub lists: u64,
}

#[derive(Clone)]
pub struct World {
    pub time: i64,
    pub store: Store,
    pub replicas: BTreeMap<u64, Replica>,
    pub faults: Faults,
    pub counts: Counts,
    pub epochs: Epochs,
    pub random: fastrand::Rng,
    /// That of replicas which join.
    pub policy: Policy,
    slots: Vec<Slot>,
    queue: BTreeMap<(i64, u64), (u64, Item)>,
    frozen: BTreeMap<u64, i64>,
    /// Until when a replica is cut off: no request of it arrives, and it hears nothing.
    cut: BTreeMap<u64, i64>,
    creates: Vec<(Slot, Incarnation, i64)>,
    count: u64,
}

impl World {
    pub fn new(seed: u64, policy: Policy, slots: u8) -> Self {
        World {
            time: 0,
            store: Store::default(),
            replicas: BTreeMap::new(),
            faults: Faults::default(),
            counts: Counts::default(),
            epochs: Epochs::default(),
            random: fastrand::Rng::with_seed(seed),
            policy,
            slots: (0..slots).map(Slot).collect(),
            queue: BTreeMap::new(),
            frozen: BTreeMap::new(),
            cut: BTreeMap::new(),
            creates: Vec::new(),
            count: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub fn later(&mut self, replica: u64, delay: i64, item: Item) {
        let key = (self.time + delay, self.number());
        self.queue.insert(key, (replica, item));
    }

    /// A replica starts under this name, in the Pod with this UID.
    pub fn join(&mut self, name: &str, pod: &str) -> u64 {
        let number = self.number();
        let off = self.random.i64(-3600 * SECOND..3600 * SECOND);
        let clocks = Clocks { fast: self.random.i64(-100..=100), off };
        let me = Incarnation::new(name, &number.to_string());
        self.replicas.insert(number, Replica::new(self.policy, me, pod, clocks, &self.slots));
        self.open_watches(number);
        self.later(number, 0, Item::Tick);
        number
    }

    pub fn stop(&mut self, replica: u64) {
        self.later(replica, 0, Item::Stop);
    }

    pub fn crash(&mut self, replica: u64) {
        self.later(replica, 0, Item::Crash);
    }

    pub fn freeze(&mut self, replica: u64, time: i64) {
        self.later(replica, 0, Item::Freeze(time));
    }

    /// A replica is cut off for a time, after a delay.
    pub fn cut(&mut self, replica: u64, delay: i64, time: i64) {
        self.later(replica, delay, Item::Cut(time));
        self.later(replica, delay + time, Item::Heal);
    }

    /// The wall clock of a replica is set.
    pub fn set_clock(&mut self, replica: u64) {
        let by = self.random.i64(-100 * SECOND..100 * SECOND);
        self.replicas.entry(replica).and_modify(|one| one.clocks.off += by);
    }

    /// A user takes the holder out of a Lease.
    pub fn empty_by_hand(&mut self, name: &str) {
        if let Some((version, record)) = self.store.leases.get(name).cloned() {
            self.store.write_lease(name, Some(version), record.emptied());
            self.show_lease(name);
        }
    }

    /// A client that is no replica holds a Lease; it may set its Pod too.
    pub fn take_by_hand(&mut self, name: &str, pod: Option<&str>) {
        if let Some((version, record)) = self.store.leases.get(name).cloned() {
            let (holder, transitions) = (Some(Incarnation::new(name, UNKNOWN)), record.next_transition());
            let pod = pod.map_or(record.pod.clone(), str::to_owned);
            let taken = LeaseRecord { holder, transitions, pod, ..record };
            self.store.write_lease(name, Some(version), taken);
            self.show_lease(name);
        }
    }

    /// A user sets the duration of a Lease.
    pub fn set_duration_by_hand(&mut self, name: &str, duration: Duration) {
        if let Some((version, record)) = self.store.leases.get(name).cloned() {
            self.store.write_lease(name, Some(version), LeaseRecord { duration, ..record });
            self.show_lease(name);
        }
    }

    pub fn delete_lease(&mut self, name: &str) {
        self.store.delete_lease(name);
        self.show_lease(name);
    }

    pub fn delete_map(&mut self) {
        self.store.delete_map();
        self.show_map();
    }

    /// Runs until `end`. The claim that broke, if one did.
    pub fn run(&mut self, end: i64) -> Result<(), String> {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((time, _), (replica, item)) = entry.remove_entry();
            self.time = time;
            self.happen(replica, item);
            self.check()?;
        }
        self.time = end;
        Ok(())
    }

    fn happen(&mut self, number: u64, item: Item) {
        if let Item::Apply(effect, reply) = item {
            return self.apply(number, effect, reply);
        }
        if let Item::Cut(time) = item {
            self.cut.insert(number, self.time + time);
            return;
        }
        if matches!(item, Item::Crash) {
            self.replicas.remove(&number);
            return;
        }
        if let Some(until) = self.frozen.get(&number).copied().filter(|until| *until > self.time) {
            return self.later(number, until - self.time + 1, item);
        }
        let Some(replica) = self.replicas.get_mut(&number) else { return };
        let cut_until = self.cut.get(&number).copied().filter(|until| *until > self.time);
        let event = match item {
            Item::Tell(event @ Event::Listed(_)) if let Some(until) = cut_until => {
                return self.later(number, until - self.time, Item::Tell(event));
            }
            Item::Tell(event) if cut_until.is_some() => match unanswered(event) {
                Some(event) => event,
                None => return,
            },
            Item::Tick => {
                let pause = i64::try_from(replica.policy.interval.as_millis()).unwrap() / 5;
                self.later(number, pause, Item::Tick);
                self.create(number);
                Event::Tick
            }
            Item::Tell(event) => event,
            Item::Stop => Event::Stop,
            Item::Drained(slots, since) => {
                let me = replica.me.clone();
                let end = self.creates.iter().filter(|(slot, who, _)| *who == me && slots.contains(*slot));
                match end.map(|(.., end)| *end).max().filter(|end| *end > self.time) {
                    Some(end) => return self.later(number, end - self.time, Item::Drained(slots, since)),
                    None => {
                        // The member hears of it later: the drain may have been called off by then.
                        let delay = self.random.i64(1..300);
                        return self.later(number, delay, Item::Tell(Event::Drained { slots, since }));
                    }
                }
            }
            Item::Freeze(time) => {
                self.frozen.insert(number, self.time + time);
                return;
            }
            Item::Heal => return self.open_watches(number),
            Item::Apply(..) | Item::Crash | Item::Cut(_) => return,
        };
        self.step(number, event);
    }

    pub fn is_cut(&self, replica: u64) -> bool {
        self.cut.get(&replica).is_some_and(|until| *until > self.time)
    }

    /// Creates where it may.
    fn create(&mut self, number: u64) {
        let Some(replica) = self.replicas.get(&number) else { return };
        for slot in self.slots.clone() {
            if replica.may_create(slot, self.time) && self.random.u8(..4) == 0 {
                let longest = i64::try_from(LANDS_WITHIN.as_millis()).unwrap();
                let life = if self.random.u8(..4) == 0 { longest } else { SECOND };
                let end = self.time + self.random.i64(0..=life);
                self.creates.push((slot, replica.me.clone(), end));
            }
        }
    }

    fn step(&mut self, number: u64, event: Event) {
        let time = self.time;
        let Some(replica) = self.replicas.get_mut(&number) else { return };
        self.epochs.shown(number, &event);
        let effects = replica.step(time, event);
        for effect in effects {
            if let Some(replica) = self.replicas.get_mut(&number) {
                replica.own(&effect);
            }
            self.handle(number, effect);
        }
    }

    fn handle(&mut self, number: u64, effect: Effect) {
        let quick = self.random.i64(1..300);
        match effect {
            Effect::List(slots) => {
                self.counts.lists += 1;
                if self.faults.lists_hang {
                    return;
                }
                self.later(number, quick * 3, Item::Tell(Event::Listed(slots)));
            }
            Effect::Drain { .. } if self.faults.drains_hang => {}
            Effect::Drain { slots, since } => self.later(number, quick, Item::Drained(slots, since)),
            Effect::Rejoin | Effect::Exit => {
                let Some(replica) = self.replicas.remove(&number) else { return };
                let former = number;
                if effect == Effect::Rejoin {
                    let pod = format!("pod of {}", replica.me.lease());
                    let number = self.join(replica.me.lease(), &pod);
                    let again = |one: &mut Replica| {
                        *one = replica.next_life(one.me.clone(), &pod, one.clocks);
                    };
                    self.replicas.entry(number).and_modify(again);
                    self.epochs.rejoined(former, number);
                    if let Some(until) = self.cut.get(&former).filter(|until| **until > self.time) {
                        self.cut(number, 0, until - self.time);
                    }
                }
            }
            Effect::WriteLease { .. } | Effect::PutMap { .. } | Effect::ReadLease(_) | Effect::ReadMap => {
                self.send(number, effect, quick);
            }
            Effect::DeleteLease { name, base }
                if self.store.leases.get(&name).is_some_and(|(version, _)| *version == base) =>
            {
                self.delete_lease(&name);
            }
            _ => {}
        }
    }

    /// No faults from now on; all watches are opened again.
    pub fn calm_down(&mut self) {
        self.faults.calm = true;
        self.cut.clear();
        for number in self.replicas.keys().copied().collect::<Vec<_>>() {
            self.open_watches(number);
        }
    }

    /// The lives that may act for a slot.
    pub fn acting(&self, slot: Slot) -> Vec<&Incarnation> {
        let acts = |replica: &&Replica| replica.may_act(slot, self.time);
        self.replicas.values().filter(acts).map(|replica| &replica.me).collect()
    }

    fn check(&mut self) -> Result<(), String> {
        let time = self.time;
        self.creates.retain(|(.., end)| *end > time);
        // Each clock is read once for all slots.
        let clocks: Vec<_> = self.replicas.values().map(|replica| (replica, replica.at(time))).collect();
        for slot in &self.slots {
            if clocks.iter().filter(|(replica, at)| replica.may_act_at(*slot, *at)).count() > 1 {
                let acting = self.acting(*slot);
                return Err(format!("{acting:?} act for slot {slot} at {time}"));
            }
            let creator = clocks.iter().find(|(replica, at)| replica.may_create_at(*slot, *at));
            let creator = creator.map(|(replica, _)| *replica);
            let late = self
                .creates
                .iter()
                .find(|(of, who, _)| of == slot && Some(who) != creator.map(|one| &one.me));
            if let (Some(creator), Some((_, who, _))) = (creator, late) {
                let me = &creator.me;
                return Err(format!("{me} creates for slot {slot} at {time}, one of {who} may land"));
            }
        }
        if self.faults.deletes_maps { self.check_epochs() } else { Ok(()) }
    }

    fn check_epochs(&mut self) -> Result<(), String> {
        for replica in self.replicas.values() {
            for slot in self.slots.iter().filter(|slot| replica.may_act(**slot, self.time)) {
                if let Some(epoch) = replica.member.epoch(*slot) {
                    self.epochs.acted(replica.me.lease(), *slot, epoch)?;
                }
            }
        }
        Ok(())
    }

    /// Every slot has an owner that acts, and no hand-over is awaited, unless every replica was stopped.
    pub fn is_settled(&self) -> Result<(), String> {
        if self.replicas.is_empty() {
            return Ok(());
        }
        let (_, map) = self.store.map.as_ref().ok_or("there is no map")?;
        for slot in &self.slots {
            let entry = map.slots.get(slot).ok_or("the map lacks a slot")?;
            let acting = self.acting(*slot);
            if entry.next.is_some() || entry.owner.iter().collect::<Vec<_>>() != acting {
                return Err(format!("slot {slot}: {entry:?}, and {acting:?} act at {}", self.time));
            }
        }
        Ok(())
    }

    pub fn pick(&mut self) -> Option<u64> {
        let all: Vec<_> = self.replicas.keys().copied().collect();
        self.random.choice(all)
    }

    pub fn dice(&mut self, sides: u8) -> u8 {
        self.random.u8(..sides)
    }
}
