//! The rule as it is written down, with nothing remembered and nothing indexed: the decisions of a round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework_api::queue::Reason;
use framework_queue::order::{DominantShare, Overdue, QueueRank, Rank, UnitRank};
use framework_queue::{
    Amount, Decision, Namespace, QueueFacts, QuotaFacts, ResourceRequests, UnitFacts, UnitPhase, UnitUpdate,
};
use jiff::Timestamp;

use crate::world::RESERVE_AFTER;

type Available = BTreeMap<String, Amount>;

/// All facts of a namespace.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub queues: BTreeMap<Arc<str>, QueueFacts>,
    pub units: BTreeMap<Arc<str>, UnitFacts>,
    pub quotas: BTreeMap<String, QuotaFacts>,
    pub own: ResourceRequests,
}

/// The decisions that a round must make, reasons by UID apart from their numbers.
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
        for Decision { uid, update } in decisions {
            let uid = Arc::clone(uid);
            let is_new = match update {
                UnitUpdate::Release => {
                    expected.released.push(uid);
                    true
                }
                UnitUpdate::Wait(refusal) => expected.reasons.insert(uid, refusal.reason()).is_none(),
                UnitUpdate::Overtaken { .. } => expected.overtaken.insert(uid),
                UnitUpdate::Reserved => expected.reserved.insert(uid),
            };
            assert!(is_new, "said twice: {decisions:?}");
        }
        expected
    }
}

fn resource(key: &str) -> &str {
    key.strip_prefix("requests.").unwrap_or(key)
}

fn fits(requests: &ResourceRequests, available: &Available) -> bool {
    requests
        .iter()
        .all(|(resource, amount)| available.get(&**resource).is_none_or(|available| amount <= *available))
}

fn take(available: &mut Available, requests: &ResourceRequests) {
    for (resource, amount) in available {
        *amount = amount.minus(requests.get(resource));
    }
}

impl Facts {
    /// A namespace that receives everything at once.
    pub fn namespace(&self) -> Namespace {
        let mut namespace = Namespace::new(RESERVE_AFTER);
        for (uid, unit) in &self.units {
            namespace.set_unit(Arc::clone(uid), Some(unit.clone()));
        }
        for (name, quota) in &self.quotas {
            namespace.set_quota(name, Some(quota.clone()));
        }
        for (name, queue) in &self.queues {
            namespace.set_queue(name, Some(*queue));
        }
        namespace.set_own_usage(self.own.clone());
        namespace
    }

    fn least(&self, of: impl Fn(&QuotaFacts, &str, Amount) -> Amount) -> Available {
        let mut available = Available::new();
        for quota in self.quotas.values() {
            for (key, limit) in &quota.hard {
                let amount = of(quota, key, *limit);
                let least = available.entry(resource(key).to_owned()).or_insert(amount);
                *least = amount.min(*least);
            }
        }
        available
    }

    /// The room that limits leave to us, if as much of the use as possible is our own.
    fn left(&self, unattributed: impl Fn(&QuotaFacts, &str) -> Amount) -> Available {
        self.least(|quota, key, limit| {
            let used = quota.used.get(key).copied().unwrap_or_default();
            let others = used.minus(self.own.get(resource(key))).minus(unattributed(quota, key));
            limit.minus(others.max(Amount::ZERO))
        })
    }

    /// A unit that asks for more than this never fits.
    pub fn capacity(&self) -> Available {
        self.left(|quota, key| quota.unattributed.get(key).copied().unwrap_or_default())
    }

    fn usage(&self, queue: Option<&str>) -> Vec<&ResourceRequests> {
        let own = self.units.values().filter(|unit| queue.is_none_or(|name| *unit.queue == *name));
        let usage = own.filter_map(|unit| match &unit.phase {
            UnitPhase::Released { usage } => Some(usage),
            UnitPhase::Waiting { .. } => None,
        });
        usage.collect()
    }

    pub fn available(&self) -> Available {
        let mut available = self.left(|_, _| Amount::ZERO);
        self.usage(None).into_iter().for_each(|requests| take(&mut available, requests));
        available
    }

    /// Those that wait in queues that are there and could fit some time.
    pub fn contenders(&self) -> Vec<(&Arc<str>, &UnitFacts)> {
        let capacity = self.capacity();
        let could = |unit: &UnitFacts| {
            let waits = matches!(unit.phase, UnitPhase::Waiting { .. });
            waits && self.queues.contains_key(&unit.queue) && fits(&unit.requests, &capacity)
        };
        self.units.iter().filter(|(_, unit)| could(unit)).collect()
    }

    fn place(&self, uid: &Arc<str>) -> UnitRank {
        let unit = &self.units[uid];
        UnitRank::new(self.queues[&unit.queue].policy, uid, unit)
    }

    /// The first unit of a queue that could fit some time.
    fn first(&self, queue: &str) -> Option<UnitRank> {
        let own = self.contenders().into_iter().filter(|(_, unit)| *unit.queue == *queue);
        own.map(|(uid, _)| self.place(uid)).min()
    }

    pub fn overdue(&self, uid: &Arc<str>, now: Timestamp) -> Option<Overdue> {
        let unit = &self.units[uid];
        let UnitPhase::Waiting { overtaken: Some(since), .. } = unit.phase else { return None };
        let overdue = Overdue { since, enqueued: unit.enqueued, uid: Arc::clone(uid) };
        (since + RESERVE_AFTER <= now).then_some(overdue)
    }

    fn rank(&self, uid: &Arc<str>, now: Timestamp) -> Rank {
        if let Some(overdue) = self.overdue(uid, now) {
            return Rank::Overdue(overdue);
        }
        let name = &self.units[uid].queue;
        let limits = self.least(|_, _, limit| limit);
        let share = |(resource, limit): (&String, &Amount)| {
            let usage = self.usage(Some(name)).into_iter().map(|requests| requests.get(resource));
            usage.fold(Amount::ZERO, Amount::plus).parts_per_billion(*limit)
        };
        let share = DominantShare(limits.iter().map(share).max().unwrap_or(0));
        let oldest = self.first(name).unwrap().enqueued;
        Rank::InLine(QueueRank::new(self.queues[name], share, oldest, name), self.place(uid))
    }

    /// The unit that is released next.
    fn next(&self, now: Timestamp) -> Option<Arc<str>> {
        let mut left = self.available();
        let contenders = self.contenders();
        let mut by_rank: Vec<_> = contenders.iter().map(|(uid, _)| (self.rank(uid, now), *uid)).collect();
        by_rank.sort();
        for (rank, uid) in by_rank {
            let requests = &self.units[uid].requests;
            if fits(requests, &left) {
                return Some(Arc::clone(uid));
            }
            if matches!(rank, Rank::Overdue(_)) {
                take(&mut left, requests);
            }
        }
        // Nothing is set aside from a job that has begun.
        let available = self.available();
        let growths =
            contenders.into_iter().filter(|(_, unit)| unit.grows && fits(&unit.requests, &available));
        growths.map(|(uid, unit)| (unit.enqueued, uid)).min().map(|(_, uid)| Arc::clone(uid))
    }

    fn reason(&self, unit: &UnitFacts) -> Reason {
        if !self.queues.contains_key(&unit.queue) {
            Reason::QueueNotFound
        } else if !fits(&unit.requests, &self.capacity()) {
            Reason::ExceedsQuota
        } else if fits(&unit.requests, &self.available()) {
            Reason::CapacityReserved
        } else {
            Reason::InsufficientQuota
        }
    }

    /// The reason that is to be said of a unit, if any is.
    fn news(&self, uid: &Arc<str>) -> Option<Reason> {
        let unit = &self.units[uid];
        let UnitPhase::Waiting { reason: known, .. } = unit.phase else { return None };
        let reason = self.reason(unit);
        let passes = |reason| [Reason::InsufficientQuota, Reason::CapacityReserved].contains(&reason);
        if passes(reason) && known.is_some_and(passes) {
            let alike = self.contenders().into_iter();
            let alike =
                alike.filter(|(_, other)| (&other.queue, &other.requests) == (&unit.queue, &unit.requests));
            if alike.map(|(uid, _)| self.place(uid)).min() != Some(self.place(uid)) {
                return None;
            }
        }
        (known != Some(reason)).then_some(reason)
    }

    /// The decisions that a round must make; the facts are those after it.
    pub fn round(&mut self, now: Timestamp) -> Expected {
        let mut expected = Expected::default();
        let mut passed = Vec::new();
        while let Some(uid) = self.next(now) {
            let place = self.place(&uid);
            let unit = self.units.get_mut(&uid).unwrap();
            unit.phase = UnitPhase::Released { usage: unit.requests.clone() };
            passed.push((Arc::clone(&unit.queue), place));
            expected.released.push(uid);
        }
        for uid in self.units.keys() {
            expected.reasons.extend(self.news(uid).map(|reason| (Arc::clone(uid), reason)));
        }
        for name in self.queues.keys() {
            let Some(first) = self.first(name) else { continue };
            let passes = |(queue, place): &(Arc<str>, UnitRank)| {
                if queue == name { first < *place } else { first.enqueued < place.enqueued }
            };
            let UnitPhase::Waiting { overtaken, .. } = self.units[&first.uid].phase else { continue };
            if overtaken.is_none() && passed.iter().any(passes) {
                expected.overtaken.insert(first.uid);
            }
        }
        for (uid, unit) in self.contenders() {
            let said = matches!(unit.phase, UnitPhase::Waiting { reserved: true, .. });
            // A unit that was overtaken just now is not overdue yet, unless there is nothing to wait for.
            if !said && self.overdue(uid, now).is_some() {
                expected.reserved.insert(Arc::clone(uid));
            }
        }
        self.note(&expected, now);
        expected
    }

    fn note(&mut self, expected: &Expected, now: Timestamp) {
        for (uid, unit) in &mut self.units {
            if let UnitPhase::Waiting { overtaken, reserved, reason } = &mut unit.phase {
                *overtaken = overtaken.or(expected.overtaken.contains(uid).then_some(now));
                *reserved |= expected.reserved.contains(uid);
                *reason = expected.reasons.get(uid).copied().or(*reason);
            }
        }
    }
}
