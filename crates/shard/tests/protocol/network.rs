//! The fate of messages between replicas and the store: they are late, lost and repeated.

use framework_shard::event::{Effect, Event, Outcome};

use crate::world::{Item, SECOND, World};

/// The event that a replica gets if this message does not arrive: a request has an unknown outcome then.
pub fn unanswered(event: Event) -> Option<Event> {
    match event {
        Event::LeaseWritten { ticket, .. } => Some(Event::LeaseWritten { ticket, outcome: Outcome::Unknown }),
        Event::MapPut { ticket, .. } => Some(Event::MapPut { ticket, outcome: Outcome::Unknown }),
        Event::MapRead(_) => Some(Event::MapRead(None)),
        Event::LeaseSeen { .. } | Event::MapSeen(_) => None,
        event => Some(event),
    }
}

impl World {
    /// A request is answered, is lost, or is applied and its reply is lost, perhaps long after its time-out.
    pub fn send(&mut self, number: u64, effect: Effect, quick: i64) {
        let fate = if self.faults.calm { 9 } else { self.random.u8(..12) };
        let unknown = match &effect {
            Effect::WriteLease { ticket, .. } => {
                Event::LeaseWritten { ticket: *ticket, outcome: Outcome::Unknown }
            }
            Effect::PutMap { ticket, .. } => Event::MapPut { ticket: *ticket, outcome: Outcome::Unknown },
            Effect::ReadMap => Event::MapRead(None),
            _ => Event::Tick,
        };
        let lost = match effect {
            Effect::PutMap { .. } => self.faults.puts_are_lost || self.faults.stuck == Some(number),
            Effect::ReadMap => self.faults.map_is_silent,
            _ => false,
        };
        let lost = lost || self.is_cut(number);
        if let Effect::PutMap { base, map, ticket } = &effect {
            self.epochs.sent(number, *ticket, map, base.is_none());
        }
        match fate {
            _ if lost => self.later(number, 3 * SECOND, Item::Tell(unknown)),
            0 => self.later(number, 3 * SECOND, Item::Tell(unknown)),
            1 | 2 => {
                let late = if fate == 1 { 12 * SECOND } else { 3 * SECOND };
                let arrival = self.random.i64(0..late);
                if let Some(after) = self.repetition(&effect) {
                    self.later(number, arrival + after, Item::Apply(effect.clone(), None));
                }
                self.later(number, arrival, Item::Apply(effect, None));
                self.later(number, 3 * SECOND, Item::Tell(unknown));
            }
            _ => {
                let back = self.random.i64(1..300);
                let Some(after) = self.repetition(&effect) else {
                    return self.later(number, quick, Item::Apply(effect, Some(back)));
                };
                // The second reply is heard: usually a conflict, though the write was applied.
                self.later(number, quick, Item::Apply(effect.clone(), None));
                self.later(number, quick + after, Item::Apply(effect, Some(back)));
            }
        }
    }

    /// How long after a write a proxy sends it again, with the same precondition; `None`: it does not.
    fn repetition(&mut self, effect: &Effect) -> Option<i64> {
        let is_write = matches!(effect, Effect::WriteLease { .. } | Effect::PutMap { .. });
        if !self.faults.repeats || self.faults.calm || !is_write || self.random.u8(..3) > 0 {
            return None;
        }
        self.counts.repeated += 1;
        Some(self.random.i64(1..2 * SECOND))
    }

    pub fn apply(&mut self, number: u64, effect: Effect, reply: Option<i64>) {
        let outcome = |version: Option<_>| version.map_or(Outcome::Refused, Outcome::Done);
        let event = match effect {
            Effect::WriteLease { name, base, record, ticket } => {
                let version = self.store.write_lease(&name, base, record);
                version.iter().for_each(|_| self.show_lease(&name));
                let heard = version.filter(|_| self.faults.conflicts != Some(number));
                Event::LeaseWritten { ticket, outcome: outcome(heard) }
            }
            Effect::PutMap { base, map, ticket } => {
                let version = self.store.put_map(base, map);
                if version.is_some() {
                    self.counts.puts += 1;
                    if let (None, Some((_, map))) = (base, &self.store.map) {
                        self.epochs.made(number, ticket, map);
                    }
                    self.show_map();
                }
                Event::MapPut { ticket, outcome: outcome(version) }
            }
            Effect::ReadLease(name) => {
                let seen = self.store.lease(&name);
                Event::LeaseSeen { name, seen }
            }
            _ => Event::MapRead(Some(self.store.map())),
        };
        if let Some(back) = reply {
            self.later(number, back, Item::Tell(event));
        }
    }

    pub fn show_lease(&mut self, name: &str) {
        let event = Event::LeaseSeen { name: name.to_owned(), seen: self.store.lease(name) };
        self.show(&event);
    }

    pub fn show_map(&mut self) {
        if self.faults.map_is_silent {
            return;
        }
        let event = Event::MapSeen(self.store.map());
        self.show(&event);
    }

    /// A replica opens its watches and sees the objects that exist.
    pub fn open_watches(&mut self, number: u64) {
        for name in self.store.leases.keys().cloned().collect::<Vec<_>>() {
            let seen = self.store.lease(&name);
            self.later(number, 1, Item::Tell(Event::LeaseSeen { name, seen }));
        }
        self.later(number, 1, Item::Tell(Event::MapSeen(self.store.map())));
    }

    /// A watch shows a change: soon, late, twice, or never.
    fn show(&mut self, event: &Event) {
        for number in self.replicas.keys().copied().collect::<Vec<_>>() {
            let fate = if self.faults.calm { 9 } else { self.random.u8(..12) };
            let lag = self.random.i64(1..200);
            match fate {
                _ if self.faults.conflicts == Some(number) => {}
                0 => {}
                1 => {
                    let late = self.random.i64(0..20 * SECOND);
                    self.later(number, lag + late, Item::Tell(event.clone()));
                }
                2 => {
                    self.later(number, lag, Item::Tell(event.clone()));
                    self.later(number, 5 * lag, Item::Tell(event.clone()));
                }
                _ => self.later(number, lag, Item::Tell(event.clone())),
            }
        }
    }
}
