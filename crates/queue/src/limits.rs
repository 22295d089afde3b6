//! The limits of the quotas, the usage of others, and the amounts that are available to us.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::amount::Amount;
use crate::decision::Shortage;
use crate::facts::QuotaFacts;
use crate::requests::{ResourceRequests, Tally, resource_of};

/// Available amounts by resource. A resource that is not here is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Available(BTreeMap<Arc<str>, Amount>);

impl Available {
    /// The available amount of a resource.
    pub fn get(&self, resource: &str) -> Amount {
        self.0.get(resource).copied().unwrap_or(Amount::MAX)
    }

    /// The first resource of which too little is available, and the request for it.
    pub fn lacking<'a>(&self, requests: &'a ResourceRequests) -> Option<(&'a Arc<str>, Amount)> {
        requests.iter().find(|(resource, amount)| self.get(resource) < *amount)
    }

    /// Whether enough of every requested resource is available.
    pub fn fits(&self, requests: &ResourceRequests) -> bool {
        self.lacking(requests).is_none()
    }

    /// Whether a sum is more than is available.
    pub fn is_exceeded_by(&self, usage: &Tally) -> bool {
        self.0.iter().any(|(resource, amount)| usage.get(resource) > *amount)
    }

    /// Subtracts requests, whether they fit or not.
    pub fn take(&mut self, requests: &ResourceRequests) {
        for (resource, amount) in requests.iter() {
            if let Some(left) = self.0.get_mut(resource) {
                *left = left.minus(amount);
            }
        }
    }

    /// The available amounts without those of a sum.
    pub fn without(&self, taken: &Tally) -> Self {
        let left = |(resource, amount): (&Arc<str>, &Amount)| {
            (Arc::clone(resource), amount.minus(taken.get(resource)))
        };
        Self(self.0.iter().map(left).collect())
    }

    /// The lower and the higher amount of each resource whose amounts differ.
    fn changes(&self, other: &Self) -> Vec<(Arc<str>, Amount, Amount)> {
        let mut changes = Vec::new();
        for resource in self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name))) {
            let (one, other) = (self.get(resource), other.get(resource));
            if one != other {
                changes.push((Arc::clone(resource), one.min(other), one.max(other)));
            }
        }
        changes
    }
}

/// The quotas of a namespace, and the usage of our own Pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    quotas: BTreeMap<Arc<str>, QuotaFacts>,
    own: ResourceRequests,
    /// Whether a fact changed since the last count.
    changed: bool,
    /// The smallest limit of each resource.
    hard: Available,
    /// The least amount of each resource that a quota leaves to us, before the usage of released units.
    free: Available,
    /// The same, if none of the unattributed usage is that of others.
    capacity: Available,
}

/// The changes of a count.
pub(crate) struct Recount {
    /// Whether the limits themselves have changed, and so the shares of them.
    pub shares: bool,
    /// The lower and the higher amount of each resource whose capacity has changed.
    pub capacity: Vec<(Arc<str>, Amount, Amount)>,
}

impl Limits {
    pub fn set_quota(&mut self, name: &str, facts: Option<QuotaFacts>) {
        if self.quotas.get(name) == facts.as_ref() {
            return;
        }
        self.changed = true;
        match facts {
            Some(facts) => self.quotas.insert(name.into(), facts),
            None => self.quotas.remove(name),
        };
    }

    pub fn set_own_usage(&mut self, own: ResourceRequests) {
        self.changed |= self.own != own;
        self.own = own;
    }

    /// The amounts that all released units together may use.
    pub fn free(&self) -> &Available {
        &self.free
    }

    /// A unit that requests more than this never fits.
    pub fn capacity(&self) -> &Available {
        &self.capacity
    }

    /// Counts the facts that changed since the last time.
    pub fn recount(&mut self) -> Option<Recount> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let (mut hard, mut free, mut capacity) =
            (Available::default(), Available::default(), Available::default());
        for entry in self.quota_limits() {
            let left = |others| entry.limit.minus(others);
            let targets = [
                (&mut hard, entry.limit),
                (&mut free, left(entry.others)),
                (&mut capacity, left(entry.surely)),
            ];
            for (available, amount) in targets {
                let least = available.0.entry(entry.resource.into()).or_insert(Amount::MAX);
                *least = amount.min(*least);
            }
        }
        let recount = Recount { shares: self.hard != hard, capacity: self.capacity.changes(&capacity) };
        (self.hard, self.free, self.capacity) = (hard, free, capacity);
        Some(recount)
    }

    /// The largest share of a limit that a sum uses, in parts per billion. Users may invent as many names of
    /// resources as they have units, so only those with a limit are visited.
    pub fn dominant(&self, usage: &Tally) -> u64 {
        let share = |(resource, limit): (&Arc<str>, &Amount)| usage.get(resource).parts_per_billion(*limit);
        self.hard.0.iter().map(share).max().unwrap_or(0)
    }

    /// Every limit with the usage and the set-aside amount of its resource.
    pub fn bounds(&self, usage: &Tally, set_aside: &Tally) -> Bounds {
        let bound = |QuotaLimit { quota, key, resource, limit, others, surely }: QuotaLimit<'_>| Bound {
            quota: Arc::clone(quota),
            key: key.into(),
            resource: resource.into(),
            limit,
            others,
            surely,
            usage: usage.get(resource),
            set_aside: set_aside.get(resource),
        };
        Bounds(self.quota_limits().map(bound).collect())
    }

    fn quota_limits(&self) -> impl Iterator<Item = QuotaLimit<'_>> {
        self.quotas.iter().flat_map(move |(quota, facts)| {
            facts.hard.iter().map(move |(key, limit)| {
                let resource = resource_of(key);
                let used = facts.used.get(key).copied().unwrap_or_default();
                let others = used.minus(self.own.get(resource)).max(Amount::ZERO);
                let unattributed = facts.unattributed.get(key).copied().unwrap_or_default();
                let surely = others.minus(unattributed).max(Amount::ZERO);
                QuotaLimit { quota, key, resource, limit: *limit, others, surely }
            })
        })
    }
}

/// All limits, to compare requests with.
#[derive(Debug)]
pub(crate) struct Bounds(Vec<Bound>);

/// One limit, and the amounts that reduce it.
#[derive(Debug)]
struct Bound {
    quota: Arc<str>,
    key: Arc<str>,
    resource: Arc<str>,
    limit: Amount,
    others: Amount,
    surely: Amount,
    usage: Amount,
    set_aside: Amount,
}

impl Bounds {
    /// The limits that requests exceed: without unattributed usage, if that is enough to refuse them.
    /// Otherwise our own usage would be reported twice, once as that of others.
    pub fn shortages(&self, requests: &ResourceRequests) -> Arc<[Shortage]> {
        let surely = self.shortages_beside(requests, |bound| bound.surely);
        if surely.is_empty() { self.shortages_beside(requests, |bound| bound.others) } else { surely }
    }

    fn shortages_beside(
        &self,
        requests: &ResourceRequests,
        others: impl Fn(&Bound) -> Amount,
    ) -> Arc<[Shortage]> {
        let shortage = |bound: &Bound| {
            let others = others(bound);
            let Bound { limit, usage, set_aside, .. } = *bound;
            let requested = requests.get(&bound.resource);
            let missing = requested.plus(set_aside).plus(usage).plus(others).minus(limit);
            (requested > Amount::ZERO && missing > Amount::ZERO).then(|| {
                let (quota, key) = (Arc::clone(&bound.quota), Arc::clone(&bound.key));
                Shortage { quota, key, limit, others, usage, set_aside, requested, missing }
            })
        };
        let mut shortages = self.0.iter().filter_map(shortage);
        match (shortages.next(), shortages.next()) {
            // As a rule there is one: it needs no list that is copied.
            (Some(only), None) => Arc::new([only]),
            (first, second) => first.into_iter().chain(second).chain(shortages).collect(),
        }
    }
}

/// One limit of one quota.
struct QuotaLimit<'a> {
    quota: &'a Arc<str>,
    key: &'a str,
    resource: &'a str,
    limit: Amount,
    /// The largest possible usage of others.
    others: Amount,
    /// The part of it that is certain.
    surely: Amount,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(entries: &[(&str, i64)]) -> BTreeMap<String, Amount> {
        entries.iter().map(|(key, units)| ((*key).to_owned(), Amount::units(*units))).collect()
    }

    fn requests(entries: &[(&str, i64)]) -> ResourceRequests {
        entries.iter().map(|(resource, units)| (*resource, Amount::units(*units))).collect()
    }

    fn limits(hard: &[(&str, i64)], used: &[(&str, i64)], own: &[(&str, i64)]) -> Limits {
        let mut limits = Limits::default();
        limits.set_quota(
            "q",
            Some(QuotaFacts { hard: amounts(hard), used: amounts(used), ..Default::default() }),
        );
        limits.set_own_usage(requests(own));
        limits.recount();
        limits
    }

    #[test]
    fn usage_of_others_is_all_usage_without_our_own_pods() {
        let limits = limits(&[("cpu", 10)], &[("cpu", 6)], &[("cpu", 4)]);
        assert_eq!(limits.capacity().get("cpu"), Amount::units(8));
        assert_eq!(limits.capacity().get("memory"), Amount::MAX);
    }

    #[test]
    fn own_pods_that_the_quota_has_not_counted_yet_make_no_room() {
        let limits = limits(&[("cpu", 10)], &[("cpu", 1)], &[("cpu", 4)]);
        assert_eq!(limits.capacity().get("cpu"), Amount::units(10));
    }

    #[test]
    fn the_tightest_of_all_limits_on_a_resource_counts() {
        let mut limits = limits(&[("cpu", 10), ("requests.cpu", 9)], &[("cpu", 3)], &[]);
        assert_eq!(limits.capacity().get("cpu"), Amount::units(7));
        limits
            .set_quota("r", Some(QuotaFacts { hard: amounts(&[("requests.cpu", 5)]), ..Default::default() }));
        limits.recount();
        assert_eq!(limits.capacity().get("cpu"), Amount::units(5));
    }

    #[test]
    fn a_recount_names_only_changed_resources() {
        let mut limits = limits(&[("cpu", 10), ("pods", 5)], &[], &[]);
        assert!(limits.recount().is_none());
        limits.set_own_usage(requests(&[("cpu", 1)]));
        assert!(limits.recount().is_some_and(|done| !done.shares && done.capacity.is_empty()));
        let facts = QuotaFacts {
            hard: amounts(&[("cpu", 10), ("gpu", 2)]),
            used: amounts(&[("cpu", 3)]),
            ..Default::default()
        };
        limits.set_quota("q", Some(facts.clone()));
        limits.set_quota("q", Some(facts));
        let done = limits.recount().unwrap();
        let units = Amount::units;
        let changed = |name: &str, low, high| (Arc::from(name), low, high);
        assert!(done.shares);
        assert_eq!(
            done.capacity,
            [
                changed("cpu", units(8), units(10)),
                changed("pods", units(5), Amount::MAX),
                changed("gpu", units(2), Amount::MAX)
            ]
        );
    }

    #[test]
    fn the_share_that_counts_is_the_largest() {
        let limits = limits(&[("cpu", 10), ("pods", 100)], &[("cpu", 9)], &[]);
        let mut usage = Tally::default();
        usage.add(&requests(&[("cpu", 2), ("pods", 30), ("gpu", 99)]));
        assert_eq!(limits.dominant(&usage), 300_000_000);
        assert_eq!(limits.dominant(&Tally::default()), 0);
    }

    #[test]
    fn every_exceeded_limit_is_reported_with_its_numbers() {
        let limits =
            limits(&[("cpu", 10), ("requests.cpu", 20), ("memory", 4)], &[("cpu", 3)], &[("cpu", 1)]);
        let (mut usage, mut set_aside) = (Tally::default(), Tally::default());
        usage.add(&requests(&[("cpu", 4)]));
        set_aside.add(&requests(&[("cpu", 1)]));
        let shortages = limits.bounds(&usage, &set_aside).shortages(&requests(&[("cpu", 8), ("memory", 4)]));
        let [shortage] = &shortages[..] else { panic!() };
        assert_eq!((&*shortage.quota, &*shortage.key, shortage.requested), ("q", "cpu", Amount::units(8)));
        assert_eq!([shortage.limit, shortage.others], [Amount::units(10), Amount::units(2)]);
        assert_eq!([shortage.usage, shortage.set_aside, shortage.missing], [4, 1, 5].map(Amount::units));
    }

    #[test]
    fn unattributed_usage_blocks_but_is_named_only_if_nothing_else_does() {
        let mut limits = Limits::default();
        let facts = QuotaFacts {
            hard: amounts(&[("cpu", 10)]),
            used: amounts(&[("cpu", 7)]),
            unattributed: amounts(&[("cpu", 5)]),
        };
        limits.set_quota("q", Some(facts));
        limits.recount();
        assert_eq!(limits.free().get("cpu"), Amount::units(3));
        assert_eq!(limits.capacity().get("cpu"), Amount::units(8));
        let (mut usage, nothing) = (Tally::default(), Tally::default());
        usage.add(&requests(&[("cpu", 6)]));
        let others = |usage: &Tally, cpu| {
            let shortages = limits.bounds(usage, &nothing).shortages(&requests(&[("cpu", cpu)]));
            shortages.iter().map(|shortage| (shortage.others, shortage.missing)).collect::<Vec<_>>()
        };
        assert_eq!(others(&usage, 4), [(Amount::units(2), Amount::units(2))]);
        assert_eq!(others(&nothing, 4), [(Amount::units(7), Amount::units(1))]);
        assert!(others(&nothing, 3).is_empty());
    }
}
