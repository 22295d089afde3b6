//! The API server: Leases and the map under one counter of versions, every write guarded.

use std::collections::BTreeMap;

use framework_shard::lease::LeaseRecord;
use framework_shard::map::SlotMap;
use framework_shard::{Seen, Version};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    version: u64,
    pub leases: BTreeMap<String, (Version, LeaseRecord)>,
    pub map: Option<(Version, SlotMap)>,
}

impl Store {
    fn next(&mut self) -> Version {
        self.version += 1;
        Version(self.version)
    }

    /// It was restored from a copy: versions count from the start again.
    pub fn rewind(&mut self) {
        self.version = 0;
    }

    pub fn write_lease(&mut self, name: &str, base: Option<Version>, record: LeaseRecord) -> Option<Version> {
        if self.leases.get(name).map(|(version, _)| *version) != base {
            return None;
        }
        let version = self.next();
        self.leases.insert(name.to_owned(), (version, record));
        Some(version)
    }

    pub fn delete_lease(&mut self, name: &str) {
        self.next();
        self.leases.remove(name);
    }

    pub fn put_map(&mut self, base: Option<Version>, map: SlotMap) -> Option<Version> {
        if self.map.as_ref().map(|(version, _)| *version) != base {
            return None;
        }
        let version = self.next();
        self.map = Some((version, map));
        Some(version)
    }

    pub fn delete_map(&mut self) {
        self.next();
        self.map = None;
    }

    pub fn lease(&self, name: &str) -> Seen<LeaseRecord> {
        match self.leases.get(name) {
            Some((version, record)) => Seen { version: *version, value: Some(record.clone()) },
            None => Seen { version: Version(self.version), value: None },
        }
    }

    pub fn map(&self) -> Seen<SlotMap> {
        match &self.map {
            Some((version, map)) => Seen { version: *version, value: Some(map.clone()) },
            None => Seen { version: Version(self.version), value: None },
        }
    }
}
