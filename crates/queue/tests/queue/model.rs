//! The rule as it is written down, with nothing remembered and nothing indexed: what a round must decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_api::queue::Reason;
use framework_queue::order::{Overdue, Place, QueueTurn, Share, Turn};
use framework_queue::{
    Amount, Ask, Decision, Namespace, QueueFacts, QuotaFacts, Standing, UnitFacts, Verdict,
};
use jiff::Timestamp;

use crate::world::RESERVE_AFTER;

type Room = BTreeMap<String, Amount>;

/// All facts of a namespace.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub queues: BTreeMap<Arc<str>, QueueFacts>,
    pub units: BTreeMap<Arc<str>, UnitFacts>,
    pub quotas: BTreeMap<String, QuotaFacts>,
    pub own: Ask,
}

/// What a round must decide, reasons by UID apart from their numbers.
#[derive(Debug, Default, PartialEq)]
pub struct Expected {
    pub released: Vec<Arc<str>>,
    pub reasons: BTreeMap<Arc<str>, Reason>,
    pub overtaken: BTreeSet<Arc<str>>,
    pub reserved: BTreeSet<Arc<str>>,
}

impl Expected {
    pub fn of(decisions: &[Decision]) -> Self {
        let mut expected = Self::default();
        for Decision { uid, verdict } in decisions {
            let uid = Arc::clone(uid);
            let is_new = match verdict {
                Verdict::Release => {
                    expected.released.push(uid);
                    true
                }
                Verdict::Wait(refusal) => expected.reasons.insert(uid, refusal.reason()).is_none(),
                Verdict::Overtaken { .. } => expected.overtaken.insert(uid),
                Verdict::Reserved => expected.reserved.insert(uid),
            };
            assert!(is_new, "said twice: {decisions:?}");
        }
        expected
    }
}

fn resource(key: &str) -> &str {
    key.strip_prefix("requests.").unwrap_or(key)
}

fn fits(ask: &Ask, room: &Room) -> bool {
    ask.iter().all(|(resource, amount)| room.get(&**resource).is_none_or(|room| amount <= *room))
}

fn take(room: &mut Room, ask: &Ask) {
    for (resource, amount) in room {
        *amount = amount.minus(ask.get(resource));
    }
}

impl Facts {
    /// A namespace that is told everything at once.
    pub fn namespace(&self) -> Namespace {
        let mut namespace = Namespace::new(RESERVE_AFTER);
        for (uid, unit) in &self.units {
            namespace.set_unit(uid, Some(unit.clone()));
        }
        for (name, quota) in &self.quotas {
            namespace.set_quota(name, Some(quota.clone()));
        }
        for (name, queue) in &self.queues {
            namespace.set_queue(name, Some(*queue));
        }
        namespace.set_own_use(self.own.clone());
        namespace
    }

    fn least(&self, of: impl Fn(&QuotaFacts, &str, Amount) -> Amount) -> Room {
        let mut room = Room::new();
        for quota in self.quotas.values() {
            for (key, limit) in &quota.hard {
                let amount = of(quota, key, *limit);
                let least = room.entry(resource(key).to_owned()).or_insert(amount);
                *least = amount.min(*least);
            }
        }
        room
    }

    /// What limits leave to us, so much as that may be of what is used being our own.
    fn left(&self, doubtful: impl Fn(&QuotaFacts, &str) -> Amount) -> Room {
        self.least(|quota, key, limit| {
            let used = quota.used.get(key).copied().unwrap_or_default();
            let others = used.minus(self.own.get(resource(key))).minus(doubtful(quota, key));
            limit.minus(others.max(Amount::ZERO))
        })
    }

    /// What asks for more than this never fits.
    pub fn capacity(&self) -> Room {
        self.left(|quota, key| quota.doubtful.get(key).copied().unwrap_or_default())
    }

    fn held(&self, queue: Option<&str>) -> Vec<&Ask> {
        let own = self.units.values().filter(|unit| queue.is_none_or(|name| *unit.queue == *name));
        let held = own.filter_map(|unit| match &unit.standing {
            Standing::Released { holds } => Some(holds),
            Standing::Waiting { .. } => None,
        });
        held.collect()
    }

    pub fn room(&self) -> Room {
        let mut room = self.left(|_, _| Amount::ZERO);
        self.held(None).into_iter().for_each(|ask| take(&mut room, ask));
        room
    }

    /// Those that wait in queues that are there and could fit some time.
    pub fn contenders(&self) -> Vec<(&Arc<str>, &UnitFacts)> {
        let capacity = self.capacity();
        let could = |unit: &UnitFacts| {
            let waits = matches!(unit.standing, Standing::Waiting { .. });
            waits && self.queues.contains_key(&unit.queue) && fits(&unit.ask, &capacity)
        };
        self.units.iter().filter(|(_, unit)| could(unit)).collect()
    }

    fn place(&self, uid: &Arc<str>) -> Place {
        let unit = &self.units[uid];
        Place::new(self.queues[&unit.queue].policy, uid, unit)
    }

    /// The first unit of a queue that could fit some time.
    fn first(&self, queue: &str) -> Option<Place> {
        let own = self.contenders().into_iter().filter(|(_, unit)| *unit.queue == *queue);
        own.map(|(uid, _)| self.place(uid)).min()
    }

    pub fn overdue(&self, uid: &Arc<str>, now: Timestamp) -> Option<Overdue> {
        let unit = &self.units[uid];
        let Standing::Waiting { overtaken: Some(since), .. } = unit.standing else { return None };
        let overdue = Overdue { since, enqueued: unit.enqueued, uid: Arc::clone(uid) };
        (since + RESERVE_AFTER <= now).then_some(overdue)
    }

    fn turn(&self, uid: &Arc<str>, now: Timestamp) -> Turn {
        if let Some(overdue) = self.overdue(uid, now) {
            return Turn::Overdue(overdue);
        }
        let name = &self.units[uid].queue;
        let limits = self.least(|_, _, limit| limit);
        let share = |(resource, limit): (&String, &Amount)| {
            let held = self.held(Some(name)).into_iter().map(|ask| ask.get(resource));
            held.fold(Amount::ZERO, Amount::plus).parts_per_billion(*limit)
        };
        let share = Share(limits.iter().map(share).max().unwrap_or(0));
        let oldest = self.first(name).unwrap().enqueued;
        Turn::InLine(QueueTurn::new(self.queues[name], share, oldest, name), self.place(uid))
    }

    /// Who is released next.
    fn next(&self, now: Timestamp) -> Option<Arc<str>> {
        let mut left = self.room();
        let contenders = self.contenders();
        let mut turns: Vec<_> = contenders.iter().map(|(uid, _)| (self.turn(uid, now), *uid)).collect();
        turns.sort();
        for (turn, uid) in turns {
            let ask = &self.units[uid].ask;
            if fits(ask, &left) {
                return Some(Arc::clone(uid));
            }
            if matches!(turn, Turn::Overdue(_)) {
                take(&mut left, ask);
            }
        }
        // Nothing is set aside from what has begun.
        let room = self.room();
        let growths = contenders.into_iter().filter(|(_, unit)| unit.grows && fits(&unit.ask, &room));
        growths.map(|(uid, unit)| (unit.enqueued, uid)).min().map(|(_, uid)| Arc::clone(uid))
    }

    fn reason(&self, unit: &UnitFacts) -> Reason {
        if !self.queues.contains_key(&unit.queue) {
            Reason::QueueNotFound
        } else if !fits(&unit.ask, &self.capacity()) {
            Reason::ExceedsQuota
        } else if fits(&unit.ask, &self.room()) {
            Reason::CapacityReserved
        } else {
            Reason::InsufficientQuota
        }
    }

    /// The reason that is to be said of a unit, if any is.
    fn news(&self, uid: &Arc<str>) -> Option<Reason> {
        let unit = &self.units[uid];
        let Standing::Waiting { reason: known, .. } = unit.standing else { return None };
        let reason = self.reason(unit);
        let passes = |reason| [Reason::InsufficientQuota, Reason::CapacityReserved].contains(&reason);
        if passes(reason) && known.is_some_and(passes) {
            let alike = self.contenders().into_iter();
            let alike = alike.filter(|(_, other)| (&other.queue, &other.ask) == (&unit.queue, &unit.ask));
            if alike.map(|(uid, _)| self.place(uid)).min() != Some(self.place(uid)) {
                return None;
            }
        }
        (known != Some(reason)).then_some(reason)
    }

    /// What a round must decide; the facts are those after it.
    pub fn round(&mut self, now: Timestamp) -> Expected {
        let mut expected = Expected::default();
        let mut passed = Vec::new();
        while let Some(uid) = self.next(now) {
            let place = self.place(&uid);
            let unit = self.units.get_mut(&uid).unwrap();
            unit.standing = Standing::Released { holds: unit.ask.clone() };
            passed.push((Arc::clone(&unit.queue), place));
            expected.released.push(uid);
        }
        for uid in self.units.keys() {
            expected.reasons.extend(self.news(uid).map(|reason| (Arc::clone(uid), reason)));
        }
        for name in self.queues.keys() {
            let Some(first) = self.first(name) else { continue };
            let passes = |(queue, place): &(Arc<str>, Place)| {
                if queue == name { first < *place } else { first.enqueued < place.enqueued }
            };
            let Standing::Waiting { overtaken, .. } = self.units[&first.uid].standing else { continue };
            if overtaken.is_none() && passed.iter().any(passes) {
                expected.overtaken.insert(first.uid);
            }
        }
        for (uid, unit) in self.contenders() {
            let said = matches!(unit.standing, Standing::Waiting { reserved: true, .. });
            // Who was overtaken just now is not overdue yet, unless there is nothing to wait for.
            if !said && self.overdue(uid, now).is_some() {
                expected.reserved.insert(Arc::clone(uid));
            }
        }
        self.note(&expected, now);
        expected
    }

    fn note(&mut self, expected: &Expected, now: Timestamp) {
        for (uid, unit) in &mut self.units {
            if let Standing::Waiting { overtaken, reserved, reason } = &mut unit.standing {
                *overtaken = overtaken.or(expected.overtaken.contains(uid).then_some(now));
                *reserved |= expected.reserved.contains(uid);
                *reason = expected.reasons.get(uid).copied().or(*reason);
            }
        }
    }
}
