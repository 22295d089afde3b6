//! The state of each namespace: its schedule, and the usage of its quotas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework_message::Dues;
use framework_queue::{Namespace, ResourceRequests};
use jiff::Timestamp;

use crate::object::QuotaObject;
use crate::others::{Others, Sight};
use crate::refused::RefusedUnits;

/// One namespace.
#[derive(Debug)]
pub struct NamespaceState {
    /// The order of its units, and the rounds that release them.
    pub schedule: Namespace,
    /// Names of its units, by those in the schedule.
    pub names: BTreeMap<Arc<str>, Arc<str>>,
    /// Names of the units whose release is decided, in the order of these decisions.
    pub granted: BTreeMap<u64, Arc<str>>,
    /// Its units that are passed over because the API server refuses their status.
    pub refused: RefusedUnits,
    /// The usage of the Pods of its released units.
    pub own: ResourceRequests,
    /// The usage of its quotas by others.
    pub others: Others,
}

/// A watch without which the usage of a quota by others may seem smaller than it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageWatch {
    /// That of Pods with the label of a queue.
    Pods,
    /// That of ResourceQuotas.
    Quotas,
}

/// All namespaces with queues, quotas or units.
#[derive(Debug)]
pub struct Namespaces {
    reserve_after: Duration,
    states: BTreeMap<Arc<str>, NamespaceState>,
    /// When, on the API server's clock, a round is due though nothing happens.
    rounds: Dues<Arc<str>, Timestamp>,
    /// When, on the monotonic clock, a smaller usage of a quota by others may count.
    others: Dues<Arc<str>, Duration>,
    /// The watches that are not open.
    closed: BTreeSet<UsageWatch>,
}

impl Namespaces {
    /// None yet.
    pub fn new(reserve_after: Duration) -> Self {
        Namespaces {
            reserve_after,
            states: BTreeMap::new(),
            rounds: Dues::default(),
            others: Dues::default(),
            closed: BTreeSet::new(),
        }
    }

    /// Whether a watch is open from now on. Returns the namespaces that need a turn, if that has changed.
    pub fn set_watched(&mut self, watch: UsageWatch, is_open: bool) -> Vec<Arc<str>> {
        if !is_open {
            self.states.values_mut().for_each(|state| state.others.interrupt());
        }
        let is_news = if is_open { self.closed.remove(&watch) } else { self.closed.insert(watch) };
        if is_news { self.states.keys().cloned().collect() } else { Vec::new() }
    }

    /// Gives the schedule of a namespace the usage of its quotas, by our own Pods and by others.
    pub fn refresh_quotas<'a>(
        &mut self,
        namespace: &str,
        at: Duration,
        quotas: impl Iterator<Item = &'a QuotaObject>,
    ) {
        let sight = Sight { at, are_watched: self.closed.is_empty() };
        if let Some(state) = self.states.get_mut(namespace) {
            state.refresh_quotas(sight, quotas);
        }
    }

    /// A namespace, if anything is known of it.
    pub fn get(&self, namespace: &str) -> Option<&NamespaceState> {
        self.states.get(namespace)
    }

    /// As [`Namespaces::get`], to change it.
    pub fn get_mut(&mut self, namespace: &str) -> Option<&mut NamespaceState> {
        self.states.get_mut(namespace)
    }

    /// A namespace, which from now on is known.
    pub fn entry(&mut self, namespace: &Arc<str>) -> &mut NamespaceState {
        self.states.entry(Arc::clone(namespace)).or_insert_with(|| NamespaceState {
            schedule: Namespace::new(self.reserve_after),
            names: BTreeMap::new(),
            granted: BTreeMap::new(),
            refused: RefusedUnits::default(),
            own: ResourceRequests::default(),
            others: Others::default(),
        })
    }

    /// Notes when a namespace needs its next turn, after it had one. Every turn would otherwise have to look
    /// at all namespaces, even if nothing waits there.
    pub fn note_dues(&mut self, namespace: &Arc<str>) {
        let state = self.states.get(namespace);
        self.rounds.set(namespace, state.and_then(|state| state.schedule.next_wake()));
        self.others.set(namespace, state.and_then(|state| state.others.due()));
    }

    /// A namespace is not acted for.
    pub fn forget_dues(&mut self, namespace: &Arc<str>) {
        self.rounds.set(namespace, None);
        self.others.set(namespace, None);
    }

    /// A namespace without objects is not known any more, unless Pods of its jobs use something still.
    pub fn forget(&mut self, namespace: &Arc<str>) {
        if self.states.get(namespace).is_some_and(|state| state.own.is_empty()) {
            self.states.remove(namespace);
            self.forget_dues(namespace);
        }
    }

    /// The namespaces that need a turn though nothing happened in them.
    pub fn due(&self, now: Duration, time: Timestamp) -> impl Iterator<Item = &Arc<str>> {
        self.rounds.due(time).chain(self.others.due(now))
    }

    /// When, on the API server's clock, a round is due though nothing happens.
    pub fn round_at(&self) -> Option<Timestamp> {
        self.rounds.next()
    }

    /// When, on the monotonic clock, a smaller usage of a quota by others may count.
    pub fn others_at(&self) -> Option<Duration> {
        self.others.next()
    }
}

impl NamespaceState {
    fn refresh_quotas<'a>(&mut self, sight: Sight, quotas: impl Iterator<Item = &'a QuotaObject>) {
        self.schedule.set_own_usage(self.own.clone());
        for quota in quotas {
            if let Some(limits) = &quota.limits {
                let name = &quota.key.name;
                let settled = if quota.counted {
                    let held = |resource: &str| self.schedule.usage(resource);
                    self.others.settle(sight, name, limits, &self.own, held)
                } else {
                    // The first count is the first that is known of others: no less than before.
                    self.others.forget(name);
                    limits.clone()
                };
                self.schedule.set_quota(name, Some(settled));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use framework_message::Key;
    use framework_queue::{Amount, QuotaFacts};

    use super::*;

    fn quota(used: i64, counted: bool) -> QuotaObject {
        let amount = |cpu| [("cpu".to_owned(), Amount::units(cpu))].into();
        let limits = Some(QuotaFacts { hard: amount(10), used: amount(used), ..Default::default() });
        QuotaObject { key: Key::new("ns", "quota"), resource_version: 1, limits, counted }
    }

    #[test]
    fn a_smaller_use_by_others_names_the_moment_when_it_may_count() {
        let mut namespaces = Namespaces::new(Duration::from_secs(60));
        namespaces.entry(&"ns".into());
        namespaces.refresh_quotas("ns", Duration::from_secs(1), [quota(7, true)].iter());
        namespaces.note_dues(&"ns".into());
        assert_eq!(namespaces.others_at(), None);
        namespaces.refresh_quotas("ns", Duration::from_secs(2), [quota(3, true)].iter());
        namespaces.note_dues(&"ns".into());
        assert_eq!(namespaces.others_at(), Some(Duration::from_secs(3)));
        let due = |at| namespaces.due(Duration::from_secs(at), Timestamp::MIN).count();
        assert_eq!([due(2), due(3)], [0, 1]);
        assert_eq!(namespaces.set_watched(UsageWatch::Pods, false), ["ns".into()]);
        namespaces.refresh_quotas("ns", Duration::from_secs(2), [quota(3, true)].iter());
        namespaces.note_dues(&"ns".into());
        assert_eq!(namespaces.others_at(), None, "nothing counts until Pods are watched");
        assert!(namespaces.set_watched(UsageWatch::Pods, false).is_empty(), "it has not changed");
        namespaces.set_watched(UsageWatch::Pods, true);
        namespaces.refresh_quotas("ns", Duration::from_secs(4), [quota(3, true)].iter());
        for are_watched in [false, true] {
            namespaces.set_watched(UsageWatch::Pods, are_watched);
        }
        // Both were taken in together.
        namespaces.refresh_quotas("ns", Duration::from_secs(5), [quota(3, true)].iter());
        namespaces.note_dues(&"ns".into());
        assert_eq!(namespaces.others_at(), Some(Duration::from_secs(6)));
        namespaces.refresh_quotas("ns", Duration::from_secs(2), [quota(3, false)].iter());
        namespaces.note_dues(&"ns".into());
        assert_eq!(namespaces.others_at(), None, "a quota that is not counted yet has no others");
    }

    #[test]
    fn a_namespace_is_known_from_its_entry_until_it_is_forgotten() {
        let mut namespaces = Namespaces::new(Duration::ZERO);
        assert!(namespaces.get("ns").is_none());
        namespaces.entry(&"ns".into()).names.insert("uid".into(), "unit".into());
        assert_eq!(namespaces.get("ns").unwrap().names.len(), 1);
        assert_eq!(namespaces.round_at(), None);
        namespaces.entry(&"ns".into()).own = [("cpu", Amount::units(1))].into_iter().collect();
        namespaces.forget(&"ns".into());
        assert!(namespaces.get("ns").is_some(), "it uses something");
        namespaces.entry(&"ns".into()).own = ResourceRequests::default();
        namespaces.forget(&"ns".into());
        assert!(namespaces.get("ns").is_none());
    }
}
