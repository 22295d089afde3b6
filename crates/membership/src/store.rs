//! Reads and writes of the Leases and the map, each within the time-out of the policy.
//!
//! A write has exactly one end. A response settles it, unless a proxy sent it twice. A broken connection, an
//! error of the server or a time-out leaves it unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use framework_shard::event::Outcome;
use framework_shard::lease::LeaseRecord;
use framework_shard::map::SlotMap;
use framework_shard::{Seen, Version};
use http::{Method, Request};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, ObjectList, Preconditions};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::map::MAP;
use crate::slim::Slim;
use crate::{lease, map, request};

/// The objects of the members, in one namespace.
#[derive(Clone)]
pub struct Store {
    client: kube::Client,
    pub leases: Api<Slim<Lease>>,
    pub maps: Api<Slim<ConfigMap>>,
    /// The latest version of each object that was shown, by its name.
    known: Arc<Mutex<BTreeMap<String, Known>>>,
    /// The failures that the log has, each once until such a request succeeds: a renewal that fails is tried
    /// again several times in an interval.
    failures: Arc<Mutex<BTreeSet<(Access, String, u16)>>>,
    timeout: Duration,
}

/// The guards of a write of an object, beside its content.
struct Known {
    version: Version,
    uid: String,
    is_immutable: bool,
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
            known: Arc::default(),
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

    /// Forgets the objects of other names.
    pub fn retain(&self, is_kept: impl Fn(&str) -> bool) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| is_kept(name));
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|(_, name, _)| is_kept(name));
    }

    /// An object was shown. `is_immutable`: the API server takes no other content for it, and never will.
    pub fn note(&self, metadata: &ObjectMeta, is_immutable: bool) {
        let version = lease::version(metadata);
        if let (Some(version), Some(name), Some(uid)) = (version, &metadata.name, &metadata.uid) {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            // A watch may be behind a reply, which does not say whether the object is immutable.
            if known.get(name).is_none_or(|known| known.version <= version) {
                known.insert(name.clone(), Known { version, uid: uid.clone(), is_immutable });
            }
        }
    }

    fn uid(&self, name: &str) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).map(|known| known.uid.clone())
    }

    fn is_immutable(&self, name: &str, version: Version) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).is_some_and(|known| known.version == version && known.is_immutable)
    }

    /// The map that an object holds. One that cannot be read counts as absent.
    pub fn map_of(&self, object: &ConfigMap) -> Option<Seen<SlotMap>> {
        self.note(&object.metadata, object.immutable == Some(true));
        let version = lease::version(&object.metadata)?;
        let read = map::read(object).inspect_err(|error| warn!(%error, "the slot map counts as absent"));
        Some(Seen { version, value: read.ok() })
    }

    /// Reads a Lease; `None`: no answer. A LIST gives a version also of its absence.
    pub async fn read_lease(&self, name: &str) -> Option<Seen<LeaseRecord>> {
        let found = self.find(&self.leases, name).await?;
        match found.items.first() {
            Some(Slim(found)) => {
                self.note(&found.metadata, false);
                lease::read(found)
            }
            None => absent(&found),
        }
    }

    /// Reads the map; `None`: no answer.
    pub async fn read_map(&self) -> Option<Seen<SlotMap>> {
        let found = self.find(&self.maps, MAP).await?;
        match found.items.first() {
            Some(Slim(found)) => self.map_of(found),
            None => absent(&found),
        }
    }

    /// Lists objects. The caller limits the time.
    pub async fn list<K>(&self, api: &Api<K>, only: &ListParams) -> kube::Result<ObjectList<K>>
    where
        K: Clone + DeserializeOwned + Resource,
    {
        let request = kube::core::Request::new(api.resource_url()).list(only);
        self.send(request.map_err(kube::Error::BuildRequest)?).await
    }

    async fn send<T: DeserializeOwned>(&self, request: Request<Vec<u8>>) -> kube::Result<T> {
        request::send(&self.client, request, self.timeout).await
    }

    /// The object of a name, as a list of one or none; `None`: no answer.
    async fn find<K>(&self, api: &Api<K>, name: &str) -> Option<ObjectList<K>>
    where
        K: Clone + DeserializeOwned + Resource,
    {
        let only = ListParams::default().fields(&format!("metadata.name={name}"));
        match timeout(self.timeout, self.list(api, &only)).await {
            Ok(Ok(found)) => {
                self.has_succeeded(Access::Read, name);
                Some(found)
            }
            Ok(Err(kube::Error::Api(status))) => {
                let (code, reason) = (status.code, status.reason.as_str());
                if self.has_failed(Access::Read, name, code) {
                    warn!(name, code, reason, error = status.message, "a read was refused");
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
        lease.metadata.uid = base.and_then(|_| self.uid(name));
        self.write(&self.leases, name, base, &Slim(lease)).await
    }

    /// Writes the map, if it has the version `base` still; without one, creates it.
    pub async fn put_map(&self, base: Option<Version>, map: &SlotMap) -> Outcome {
        let base = match base {
            None => self.unreadable_map().await,
            base => base,
        };
        if let Some(base) = base.filter(|base| self.is_immutable(MAP, *base)) {
            return self.delete_immutable_map(base).await;
        }
        let written = Slim(map::render(map, base));
        self.write(&self.maps, MAP, base, &written).await
    }

    /// The version of a map that is there and cannot be read. It counts as absent, and is replaced.
    async fn unreadable_map(&self) -> Option<Version> {
        let found = self.find(&self.maps, MAP).await?;
        let Slim(object) = found.items.first()?;
        self.map_of(object).filter(|seen| seen.value.is_none()).map(|seen| seen.version)
    }

    /// Deletes a map of which no write would be applied any more, in place of a write. Then it is absent, as
    /// if a person had deleted it. A deletion that lands late meets this version, or does nothing.
    async fn delete_immutable_map(&self, base: Version) -> Outcome {
        match self.delete(&self.maps, MAP, base).await {
            // The code that the write would get.
            Ok(()) if self.has_failed(Access::Write, MAP, 422) => {
                warn!(name = MAP, "the slot map was immutable and is deleted: it is made again");
            }
            // Another replica was faster, or it has changed: a read follows.
            Err((code @ (404 | 409), error)) => debug!(name = MAP, code, error, "the slot map has changed"),
            Err((code, error)) if self.has_failed(Access::Write, MAP, code) => {
                warn!(name = MAP, code, error, "the slot map is immutable and was not deleted: delete it");
            }
            Ok(()) | Err(_) => {}
        }
        Outcome::Refused
    }

    async fn write<K>(&self, api: &Api<K>, name: &str, base: Option<Version>, object: &K) -> Outcome
    where
        K: Clone + Serialize + DeserializeOwned + std::fmt::Debug + Resource,
    {
        let writing = async {
            let request = match base {
                Some(_) => request::write(Method::PUT, &format!("{}/{name}", api.resource_url()), object)?,
                None => request::write(Method::POST, api.resource_url(), object)?,
            };
            self.send::<K>(request).await
        };
        match timeout(self.timeout, writing).await {
            Ok(Ok(written)) => {
                self.note(written.meta(), false);
                self.has_succeeded(Access::Write, name);
                lease::version(written.meta()).map_or(Outcome::Unknown, Outcome::Done)
            }
            Ok(Err(kube::Error::Api(status))) if (400..500).contains(&status.code) => {
                let reason = status.reason.as_str();
                if status.code == 409 || status.code == 404 {
                    debug!(name, code = status.code, reason, "a write conflicted");
                } else if self.has_failed(Access::Write, name, status.code) {
                    warn!(name, code = status.code, reason, error = status.message, "a write was refused");
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

    /// Deletes a Lease, if it has this version still. Returns whether it is gone already, or has another one.
    pub async fn delete_lease(&self, name: &str, base: Version) -> bool {
        let deleted = self.delete(&self.leases, name, base).await;
        match &deleted {
            Ok(()) => debug!(name, "the Lease of a member that is gone was deleted"),
            Err((code, error)) => {
                debug!(name, code, error, "the Lease of a member that is gone was not deleted");
            }
        }
        matches!(deleted, Err((404 | 409, _)))
    }

    /// Deletes an object, if it has this version still. An error has the code, or 0, and the message.
    async fn delete<K: Resource>(
        &self,
        api: &Api<K>,
        name: &str,
        Version(base): Version,
    ) -> Result<(), (u16, String)> {
        let preconditions = Preconditions { resource_version: Some(base.to_string()), uid: self.uid(name) };
        let parameters = DeleteParams::default().preconditions(preconditions);
        let path = format!("{}/{name}", api.resource_url());
        let deleting = async {
            let request = request::write(Method::DELETE, &path, &parameters)?;
            self.send::<IgnoredAny>(request).await
        };
        match timeout(self.timeout, deleting).await {
            Ok(Ok(IgnoredAny)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) => Err((status.code, status.message)),
            Ok(Err(error)) => Err((0, error.to_string())),
            Err(_) => Err((0, "no answer in time".to_owned())),
        }
    }
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
            let new = after.difference(&before).map(|(access, _, code)| (*access, *code));
            logged.push(new.collect::<Vec<_>>());
        }
        let refused = vec![(Access::Read, 403), (Access::Write, 403)];
        // A server that fails is in the log of reads with its code, and its write has an unknown outcome.
        let failed = vec![(Access::Read, 500), (Access::Write, 0)];
        assert_eq!(logged, [refused.clone(), vec![], failed, vec![], vec![], refused]);
    }

    /// Method and preconditions of each request that was sent.
    type Sent = Arc<Mutex<Vec<(Method, serde_json::Value)>>>;

    /// A store whose deletions have this answer. Its other writes are applied.
    fn store_that_deletes(code: u16) -> (Store, Sent) {
        let sent = Sent::default();
        let kept = Arc::clone(&sent);
        let service = tower::service_fn(move |request: Request<Body>| {
            let kept = Arc::clone(&kept);
            async move {
                let method = request.method().clone();
                let status = if method == Method::DELETE { code } else { 200 };
                let body = request.into_body().collect_bytes().await?;
                let body: serde_json::Value = serde_json::from_slice(&body)?;
                kept.lock().unwrap().push((method, body["preconditions"].clone()));
                Ok::<_, BoxError>(Response::builder().status(status).body(Body::from(b"{}".to_vec()))?)
            }
        });
        (Store::new(&kube::Client::new(service, "ns"), Duration::from_secs(3)), sent)
    }

    #[tokio::test]
    async fn a_map_that_was_made_immutable_is_deleted_instead_of_written() {
        let map = SlotMap::without_owners(Slot::all(), Duration::from_secs(10), true);
        for (code, logged) in [(200, 422), (403, 403)] {
            let (store, sent) = store_that_deletes(code);
            let mut object = map::render(&map, Some(Version(7)));
            object.metadata.uid = Some("u".to_owned());
            let mut ends = Vec::new();
            for immutable in [None, Some(true), Some(true)] {
                object.immutable = immutable;
                let seen = store.map_of(&object).expect("it has a version");
                assert_eq!(seen.value.as_ref(), Some(&map), "it names the owners all the same");
                ends.push(store.put_map(Some(seen.version), &map).await);
            }
            let said = BTreeSet::from([(Access::Write, MAP.to_owned(), logged)]);
            assert_eq!(*store.failures.lock().unwrap(), said, "it is in the log once");
            ends.push(store.put_map(Some(Version(8)), &map).await);
            let put = (Method::PUT, serde_json::Value::Null);
            let delete = (Method::DELETE, serde_json::json!({"resourceVersion": "7", "uid": "u"}));
            assert_eq!(*sent.lock().unwrap(), [put.clone(), delete.clone(), delete, put], "{code}");
            // The replies of this server have no versions.
            let [written, deleted] = [Outcome::Unknown, Outcome::Refused];
            assert_eq!(ends, [written, deleted, deleted, written], "{code}");
        }
    }

    #[tokio::test]
    async fn objects_that_are_forgotten_take_no_memory() {
        let store = store_that_deletes(403).0;
        for number in 0..100_u64 {
            let name = format!("member-{number}");
            let metadata = ObjectMeta {
                name: Some(name.clone()),
                uid: Some("u".to_owned()),
                resource_version: Some(number.to_string()),
                ..ObjectMeta::default()
            };
            store.note(&metadata, false);
            assert!(store.has_failed(Access::Read, &name, 403), "it is said of each name");
            store.retain(|name| name == "member-0");
        }
        assert_eq!(store.known.lock().unwrap().len(), 1);
        assert_eq!(store.failures.lock().unwrap().len(), 1);
        assert_eq!(store.uid("member-0").as_deref(), Some("u"), "a write of it still names its UID");
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
