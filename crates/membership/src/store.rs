//! Reads and writes of the Leases and the map, each within the time-out of the policy.
//!
//! A write has exactly one end. A response settles it, unless a proxy sent it twice. A broken connection, an
//! error of the server or a time-out leaves it unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use framework_message::timeout::SERVER_TIMEOUT;
use framework_shard::event::Outcome;
use framework_shard::lease::LeaseRecord;
use framework_shard::map::SlotMap;
use framework_shard::{Seen, Version};
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, ObjectList, Preconditions};
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
    client: kube::Client,
    pub leases: Api<Slim<Lease>>,
    pub maps: Api<Slim<ConfigMap>>,
    /// The UID of each object, by its name, and the latest version that showed it.
    uids: Arc<Mutex<BTreeMap<String, (Version, String)>>>,
    /// The failures that the log has, each once until such a request succeeds: a renewal that fails is tried
    /// again several times in an interval.
    failures: Arc<Mutex<BTreeSet<(Access, String, u16)>>>,
    timeout: Duration,
}

/// The requests that share the lines of their failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    Read,
    Write,
}

impl Store {
    pub fn new(client: &kube::Client, timeout: Duration) -> Self {
        Store {
            client: client.clone(),
            leases: Api::default_namespaced(client.clone()),
            maps: Api::default_namespaced(client.clone()),
            uids: Arc::default(),
            failures: Arc::default(),
            timeout,
        }
    }

    /// A request for this object was refused with this code, or has no answer: 0. Whether that is new.
    fn has_failed(&self, access: Access, name: &str, code: u16) -> bool {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.insert((access, name.to_owned(), code))
    }

    fn has_succeeded(&self, access: Access, name: &str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|(of, object, _)| (*of, object.as_str()) != (access, name));
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
            Ok(Ok(found)) => {
                self.has_succeeded(Access::Read, name);
                Some(found)
            }
            Ok(Err(kube::Error::Api(status))) => {
                let (code, reason) = (status.code, status.reason.as_str());
                if self.has_failed(Access::Read, name, code) {
                    warn!(name, code, reason, message = status.message, "a read was refused");
                }
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
        let writing = async {
            let request = match base {
                Some(_) => request(Method::PUT, &format!("{}/{name}", api.resource_url()), object)?,
                None => request(Method::POST, api.resource_url(), object)?,
            };
            self.client.request::<K>(request).await
        };
        match timeout(self.timeout, writing).await {
            Ok(Ok(written)) => {
                self.note(written.meta());
                self.has_succeeded(Access::Write, name);
                lease::version(written.meta()).map_or(Outcome::Unknown, Outcome::Done)
            }
            Ok(Err(kube::Error::Api(status))) if (400..500).contains(&status.code) => {
                let reason = status.reason.as_str();
                if status.code == 409 || status.code == 404 {
                    debug!(name, code = status.code, reason, "a write conflicted");
                } else if self.has_failed(Access::Write, name, status.code) {
                    warn!(name, code = status.code, reason, message = status.message, "a write was refused");
                }
                Outcome::Refused
            }
            Ok(Err(error)) => {
                if self.has_failed(Access::Write, name, 0) {
                    warn!(name, %error, "a write has an unknown outcome");
                }
                Outcome::Unknown
            }
            Err(_) => {
                if self.has_failed(Access::Write, name, 0) {
                    warn!(name, "a write got no answer in time");
                }
                Outcome::Unknown
            }
        }
    }

    /// Deletes a Lease, if it has this version still. Nothing depends on it.
    pub async fn delete_lease(&self, name: &str, Version(base): Version) {
        let preconditions = Preconditions { resource_version: Some(base.to_string()), uid: None };
        let parameters = DeleteParams::default().preconditions(preconditions);
        let path = format!("{}/{name}", self.leases.resource_url());
        let deleting = async {
            let request = request(Method::DELETE, &path, &parameters)?;
            self.client.request_status::<Slim<Lease>>(request).await
        };
        match timeout(self.timeout, deleting).await {
            Ok(Ok(_)) => debug!(name, "the Lease of a member that is gone was deleted"),
            Ok(Err(error)) => debug!(name, %error, "the Lease of a member that is gone was not deleted"),
            Err(_) => {}
        }
    }
}

/// A write, which the API server gives up after [`SERVER_TIMEOUT`]: a later one would pass the longest life
/// of a request. `kube` has no parameter for that.
fn request(method: Method, path: &str, body: &impl Serialize) -> kube::Result<Request<Vec<u8>>> {
    let uri = format!("{path}?timeout={}s", SERVER_TIMEOUT.as_secs());
    let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let request = Request::builder().method(method).uri(uri).header(CONTENT_TYPE, "application/json");
    request.body(body).map_err(kube::Error::HttpError)
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, Ordering};

    use framework_message::Slot;
    use http::Response;
    use kube::client::Body;
    use tower::BoxError;

    use super::*;

    #[tokio::test]
    async fn a_failure_is_logged_once_until_a_request_succeeds() {
        let code = Arc::new(AtomicU16::new(0));
        let answer = Arc::clone(&code);
        let service = tower::service_fn(move |_: Request<Body>| {
            let code = answer.load(Ordering::Relaxed);
            let body = serde_json::json!({"metadata": {"resourceVersion": "9"}, "items": [], "code": code});
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, BoxError>(Response::builder().status(code).body(body)?) }
        });
        let store = Store::new(&kube::Client::new(service, "ns"), Duration::from_secs(3));
        let mut logged = Vec::new();
        for answer in [403, 403, 500, 403, 200, 403] {
            code.store(answer, Ordering::Relaxed);
            let before = store.failures.lock().unwrap().clone();
            store.write_lease("a", None, &LeaseRecord::default(), Timestamp::UNIX_EPOCH).await;
            store.read_lease("a").await;
            let after = store.failures.lock().unwrap().clone();
            logged.push(after.difference(&before).map(|(access, _, code)| (*access, *code)).collect::<Vec<_>>());
        }
        let refused = vec![(Access::Read, 403), (Access::Write, 403)];
        // A server that fails is in the log of reads with its code, and its write has an unknown outcome.
        let failed = vec![(Access::Read, 500), (Access::Write, 0)];
        assert_eq!(logged, [refused.clone(), vec![], failed, vec![], vec![], refused]);
    }

    #[tokio::test]
    async fn each_write_says_after_which_time_it_is_given_up() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&sent);
        let service = tower::service_fn(move |request: Request<Body>| {
            kept.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
            async { Err::<Response<Body>, BoxError>("there is no API server".into()) }
        });
        let store = Store::new(&kube::Client::new(service, "ns"), Duration::from_secs(3));
        let record = LeaseRecord::default();
        let map = SlotMap::without_owners(Slot::all(), Duration::from_secs(10), true);
        for base in [None, Some(Version(7))] {
            store.write_lease("a", base, &record, Timestamp::UNIX_EPOCH).await;
            store.put_map(base, &map).await;
        }
        store.delete_lease("a", Version(7)).await;
        let mut writes = sent.lock().unwrap().clone();
        writes.retain(|sent| !sent.starts_with("GET"));
        let (leases, maps) =
            ("/apis/coordination.k8s.io/v1/namespaces/ns/leases", "/api/v1/namespaces/ns/configmaps");
        let expected = [
            format!("POST {leases}?timeout=10s"),
            format!("POST {maps}?timeout=10s"),
            format!("PUT {leases}/a?timeout=10s"),
            format!("PUT {maps}/{MAP}?timeout=10s"),
            format!("DELETE {leases}/a?timeout=10s"),
        ];
        assert_eq!(writes, expected);
    }
}
