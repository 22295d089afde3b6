//! The Leases of leader and members, as watches and reads showed them last.

use std::collections::BTreeMap;

use framework_shard::event::Event;
use framework_shard::lease::LeaseRecord;
use framework_shard::member::LEADER_LEASE;
use framework_shard::{Seen, Version};

/// The last version of each Lease, or of its absence, by name.
#[derive(Default)]
pub struct Leases(BTreeMap<String, Seen<LeaseRecord>>);

impl Leases {
    /// Takes in a Lease, or its absence. A read may be answered when the watch has shown more.
    pub fn see(&mut self, name: &str, seen: &Seen<LeaseRecord>) {
        if self.version(name).is_none_or(|known| known < seen.version) {
            self.0.insert(name.to_owned(), seen.clone());
        }
    }

    /// The version that was shown last.
    pub fn version(&self, name: &str) -> Option<Version> {
        self.0.get(name).map(|seen| seen.version)
    }

    /// Whether they show another replica than the one whose Lease is `own`.
    pub fn show_others(&self, own: &str) -> bool {
        let mut others = self.0.iter().filter(|(name, _)| *name != LEADER_LEASE && *name != own);
        others.any(|(_, seen)| seen.value.as_ref().is_some_and(|lease| lease.holder.is_some()))
    }

    /// The events that show them to another life of the member.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.0.iter().map(|(name, seen)| Event::LeaseSeen { name: name.clone(), seen: seen.clone() })
    }

    /// Forgets the Leases of other names.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_kept(name));
    }
}

#[cfg(test)]
mod tests {
    use framework_shard::Incarnation;

    use super::*;

    #[test]
    fn a_read_that_is_answered_late_brings_no_lease_back() {
        let holder = Some(Incarnation::new("b", "x"));
        let held = Some(LeaseRecord { holder, ..LeaseRecord::default() });
        let seen = |version, value| Seen { version: Version(version), value };
        let mut leases = Leases::default();
        leases.see("b", &seen(4, held.clone()));
        assert_eq!((leases.show_others("a"), leases.show_others("b")), (true, false));
        leases.see("b", &seen(7, None));
        leases.see("b", &seen(5, held.clone()));
        assert_eq!((leases.show_others("a"), leases.version("b")), (false, Some(Version(7))));
        leases.see(LEADER_LEASE, &seen(9, held));
        assert!(!leases.show_others("a"), "the leader has one of its own beside it");
        leases.retain(|name| name == LEADER_LEASE);
        assert_eq!((leases.version("b"), leases.events().count()), (None, 1));
    }
}
