//! Reads and writes of the Leases and the map, each within the time-out of the policy.
//!
//! A write has exactly one end. A response settles it, unless a proxy sent it twice. A broken connection, an
//! error of the server or a time-out leaves it unknown.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use framework_shard::event::Outcome;
use framework_shard::lease::LeaseRecord;
use framework_shard::map::SlotMap;
use framework_shard::{Seen, Version};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, ObjectList, PostParams, Preconditions};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::map::MAP;
use crate::slim::Slim;
use crate::{lease, map};

/// The objects of the members, in one namespace.
#[derive(Clone)]
pub struct Store {
    pub leases: Api<Slim<Lease>>,
    pub maps: Api<Slim<ConfigMap>>,
    /// The UID of each object, by its name, and the latest version that showed it.
    uids: Arc<Mutex<BTreeMap<String, (Version, String)>>>,
    timeout: Duration,
}

impl Store {
    pub fn new(client: &kube::Client, timeout: Duration) -> Self {
        Store {
            leases: Api::default_namespaced(client.clone()),
            maps: Api::default_namespaced(client.clone()),
            uids: Arc::default(),
            timeout,
        }
    }

    /// An object was shown.
    pub fn note(&self, metadata: &ObjectMeta) {
        let version = lease::version(metadata);
        if let (Some(version), Some(name), Some(uid)) = (version, &metadata.name, &metadata.uid) {
            let mut uids = self.uids.lock().unwrap_or_else(PoisonError::into_inner);
            // A watch may be behind a reply.
            if uids.get(name).is_none_or(|(known, _)| *known < version) {
                uids.insert(name.clone(), (version, uid.clone()));
            }
        }
    }

    /// Reads a Lease; `None`: no answer. A LIST gives a version also of its absence.
    pub async fn read_lease(&self, name: &str) -> Option<Seen<LeaseRecord>> {
        let found = self.list(&self.leases, name).await?;
        match found.items.first() {
            Some(Slim(found)) => {
                self.note(&found.metadata);
                lease::read(found)
            }
            None => absent(&found),
        }
    }

    /// Reads the map; `None`: no answer.
    pub async fn read_map(&self) -> Option<Seen<SlotMap>> {
        let found = self.list(&self.maps, MAP).await?;
        match found.items.first() {
            Some(Slim(found)) => map_of(found),
            None => absent(&found),
        }
    }

    async fn list<K>(&self, api: &Api<K>, name: &str) -> Option<ObjectList<K>>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        let only = ListParams::default().fields(&format!("metadata.name={name}"));
        match timeout(self.timeout, api.list(&only)).await {
            Ok(Ok(found)) => Some(found),
            Ok(Err(kube::Error::Api(status))) => {
                let (code, reason) = (status.code, status.reason.as_str());
                warn!(name, code, reason, message = status.message, "a read was refused");
                None
            }
            Ok(Err(error)) => {
                debug!(name, %error, "a read failed");
                None
            }
            Err(_) => None,
        }
    }

    /// Writes a Lease, if it has the version `base` still; without one, creates it. A PUT with any version
    /// also creates a Lease that is not there, unless the PUT names a UID. Without a UID, the life of a
    /// deleted Lease would go on, though others may have proved it gone.
    pub async fn write_lease(
        &self,
        name: &str,
        base: Option<Version>,
        record: &LeaseRecord,
        now: Timestamp,
    ) -> Outcome {
        let mut lease = lease::render(name, base, record, now);
        if base.is_some() {
            let uids = self.uids.lock().unwrap_or_else(PoisonError::into_inner);
            lease.metadata.uid = uids.get(name).map(|(_, uid)| uid.clone());
        }
        self.write(&self.leases, name, base, &Slim(lease)).await
    }

    /// Writes the map, if it has the version `base` still; without one, creates it.
    pub async fn put_map(&self, base: Option<Version>, map: &SlotMap) -> Outcome {
        let base = match base {
            None => self.unreadable_map().await,
            base => base,
        };
        let written = Slim(map::render(map, base));
        self.write(&self.maps, MAP, base, &written).await
    }

    /// The version of a map that is there and cannot be read. It counts as absent, and is replaced.
    async fn unreadable_map(&self) -> Option<Version> {
        let found = self.list(&self.maps, MAP).await?;
        let unreadable = found.items.into_iter().find(|Slim(object)| map::read(object).is_err());
        unreadable.and_then(|object| lease::version(object.meta()))
    }

    async fn write<K>(&self, api: &Api<K>, name: &str, base: Option<Version>, object: &K) -> Outcome
    where
        K: Clone + Serialize + DeserializeOwned + std::fmt::Debug + Resource,
    {
        let parameters = PostParams::default();
        let writing = async {
            match base {
                Some(_) => api.replace(name, &parameters, object).await,
                None => api.create(&parameters, object).await,
            }
        };
        match timeout(self.timeout, writing).await {
            Ok(Ok(written)) => {
                self.note(written.meta());
                lease::version(written.meta()).map_or(Outcome::Unknown, Outcome::Done)
            }
            Ok(Err(kube::Error::Api(status))) if (400..500).contains(&status.code) => {
                let reason = status.reason.as_str();
                if status.code == 409 || status.code == 404 {
                    debug!(name, code = status.code, reason, "a write conflicted");
                } else {
                    warn!(name, code = status.code, reason, message = status.message, "a write was refused");
                }
                Outcome::Refused
            }
            Ok(Err(error)) => {
                warn!(name, %error, "a write has an unknown outcome");
                Outcome::Unknown
            }
            Err(_) => {
                warn!(name, "a write got no answer in time");
                Outcome::Unknown
            }
        }
    }

    /// Deletes a Lease, if it has this version still. Nothing depends on it.
    pub async fn delete_lease(&self, name: &str, Version(base): Version) {
        let preconditions = Preconditions { resource_version: Some(base.to_string()), uid: None };
        let parameters = DeleteParams::default().preconditions(preconditions);
        match timeout(self.timeout, self.leases.delete(name, &parameters)).await {
            Ok(Ok(_)) => debug!(name, "the Lease of a member that is gone was deleted"),
            Ok(Err(error)) => debug!(name, %error, "the Lease of a member that is gone was not deleted"),
            Err(_) => {}
        }
    }
}

/// The map that an object holds. One that cannot be read counts as absent.
pub fn map_of(object: &ConfigMap) -> Option<Seen<SlotMap>> {
    let version = lease::version(&object.metadata)?;
    let value = map::read(object).inspect_err(|error| warn!(%error, "the slot map counts as absent")).ok();
    Some(Seen { version, value })
}

fn absent<K: Clone, V>(list: &ObjectList<K>) -> Option<Seen<V>> {
    let version = list.metadata.resource_version.as_deref()?.parse().ok()?;
    Some(Seen { version: Version(version), value: None })
}
