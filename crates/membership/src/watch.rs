//! Watches the Leases of all members, or the map: a LIST, then a watch from its version, over and over.
//!
//! `kube::runtime::watcher` does not give the version of a LIST. A member needs that version, also to know
//! since when an object is absent.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use framework_shard::Version;
use futures::StreamExt;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Resource;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::store::Store;

/// An object that a watch shows.
#[derive(Debug)]
pub enum Shown<K> {
    /// The object as it is now.
    Present(K),
    /// The object of that name was deleted, or is not there.
    Absent(String, Version),
    /// All objects of a LIST were shown.
    Listed,
}

/// How long a LIST, or the head of a watch's response, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the API server keeps a watch open.
const WATCH_SECONDS: u32 = 290;
/// How much longer a watch may stay silent: the API server's end of it may have got lost.
const GRACE: Duration = Duration::from_secs(20);
/// The pause before a LIST after the first one.
const PAUSE: Duration = Duration::from_secs(1);
/// A watch that lasted for so long worked. Proxies may end each one after some minutes.
const LASTING: Duration = Duration::from_secs(900);

/// The objects that a watch shows.
pub struct Selection {
    /// The field selector.
    pub fields: Option<String>,
    /// Whether an object of this name is one of them. Not a label selector: an object without its label would
    /// be absent for the watch, and present for a read by name.
    pub is_ours: fn(&str) -> bool,
    /// The name of an object that is reported absent if it is.
    pub awaited: &'static str,
}

/// Watches until the receiver is gone.
pub async fn watch<K>(store: Store, api: Api<K>, only: Selection, shown: Sender<Shown<K>>)
where
    K: Clone + Debug + DeserializeOwned + Resource<DynamicType = ()> + Send + 'static,
{
    let mut known = BTreeSet::new();
    let mut said = String::new();
    while !shown.is_closed() {
        let began = Instant::now();
        let ended = list_and_watch(&store, &api, &only, &mut known, &shown).await;
        if began.elapsed() > LASTING {
            // It worked: the same error is a new one.
            said.clear();
        }
        if let Err(error) = ended
            && error != said
        {
            // Once for each cause, and not each second: without Leases a replica waits for ever.
            warn!(kind = %K::kind(&()), error, "a watch of Leases or of the slot map ended and is restarted");
            said = error;
        }
        sleep(PAUSE).await;
    }
}

/// `known` are the names that were shown, without those that were shown absent since.
async fn list_and_watch<K>(
    store: &Store,
    api: &Api<K>,
    only: &Selection,
    known: &mut BTreeSet<String>,
    shown: &Sender<Shown<K>>,
) -> Result<(), String>
where
    K: Clone + Debug + DeserializeOwned + Resource<DynamicType = ()> + Send + 'static,
{
    let parameters = ListParams { field_selector: only.fields.clone(), ..ListParams::default() };
    let listed = timeout(PATIENCE, store.list(api, &parameters)).await.map_err(|_| "no answer")?;
    let listed = listed.map_err(|error| error.to_string())?;
    let mut version = listed.metadata.resource_version.unwrap_or_default();
    let listed_at = parse(&version)?;
    let mut absent = std::mem::take(known);
    absent.insert(only.awaited.to_owned());
    for object in listed.items.into_iter().filter(|object| (only.is_ours)(&name_of(object))) {
        let name = name_of(&object);
        absent.remove(&name);
        known.insert(name);
        let _ = shown.send(Shown::Present(object)).await;
    }
    for name in absent {
        let _ = shown.send(Shown::Absent(name, listed_at)).await;
    }
    let _ = shown.send(Shown::Listed).await;
    let parameters = WatchParams {
        field_selector: only.fields.clone(),
        timeout: Some(WATCH_SECONDS),
        ..WatchParams::default()
    };
    let limit = Duration::from_secs(WATCH_SECONDS.into()) + GRACE;
    loop {
        let begun = timeout(PATIENCE, api.watch(&parameters, &version)).await.map_err(|_| "no answer")?;
        let stream = begun.map_err(|error| error.to_string())?;
        let mut stream = std::pin::pin!(stream);
        loop {
            let event = timeout(limit, stream.next()).await.map_err(|_| "silent")?;
            let Some(event) = event else { break };
            match event.map_err(|error| error.to_string())? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    follow(&mut version, object.meta().resource_version.as_ref());
                    if (only.is_ours)(&name_of(&object)) {
                        known.insert(name_of(&object));
                        let _ = shown.send(Shown::Present(object)).await;
                    }
                }
                WatchEvent::Deleted(object) => {
                    follow(&mut version, object.meta().resource_version.as_ref());
                    if (only.is_ours)(&name_of(&object)) {
                        let (name, at) = (name_of(&object), parse(&version)?);
                        known.remove(&name);
                        let _ = shown.send(Shown::Absent(name, at)).await;
                    }
                }
                WatchEvent::Bookmark(bookmark) => version.clone_from(&bookmark.metadata.resource_version),
                WatchEvent::Error(status) => return Err(status.message),
            }
            if shown.is_closed() {
                return Ok(());
            }
        }
        sleep(PAUSE).await;
    }
}

fn follow(version: &mut String, shown: Option<&String>) {
    if let Some(shown) = shown {
        version.clone_from(shown);
    }
}

fn name_of<K: Resource<DynamicType = ()>>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

fn parse(version: &str) -> Result<Version, String> {
    version.parse().map(Version).map_err(|_| format!("{version:?} is not a version"))
}

#[cfg(test)]
mod tests {
    use framework_shard::member::LEADER_LEASE;
    use http::{Request, Response};
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::sync::mpsc::channel;
    use tower::BoxError;

    use super::*;
    use crate::lease;
    use crate::slim::Slim;

    fn lease_of(host: &str, version: &str) -> Value {
        json!({"metadata": {"name": lease::lease_name(host), "resourceVersion": version}})
    }

    fn list(version: &str, items: &[Value]) -> String {
        json!({"metadata": {"resourceVersion": version}, "items": items}).to_string()
    }

    fn event(kind: &str, object: Value) -> String {
        json!({"type": kind, "object": object}).to_string() + "\n"
    }

    /// Of two Leases the watch shows the end of one, and the next LIST lacks both.
    #[tokio::test]
    async fn an_absence_is_shown_once_and_then_the_name_is_forgotten() {
        let ends = event("ERROR", json!({"code": 410, "message": "too old"}));
        let answers = [
            list("5", &[lease_of("a", "3"), lease_of("b", "4")]),
            event("DELETED", lease_of("a", "6")) + &ends,
            list("9", &[]),
            ends.clone(),
            list("12", &[]),
            ends,
        ];
        let mut answers = answers.into_iter();
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = answers.next().expect("a request too many");
            async move { Ok::<_, BoxError>(Response::new(Body::from(answer.into_bytes()))) }
        });
        let store = Store::new(&kube::Client::new(service, "ns"), Duration::from_secs(3));
        let only = Selection { fields: None, is_ours: lease::is_ours, awaited: LEADER_LEASE };
        let (shown, mut shows) = channel::<Shown<Slim<Lease>>>(16);
        let mut known = BTreeSet::new();
        for _ in 0..3 {
            let end = list_and_watch(&store, &store.leases, &only, &mut known, &shown).await;
            assert_eq!(end, Err("too old".to_owned()));
        }
        drop(shown);
        let mut absences = Vec::new();
        while let Some(one) = shows.recv().await {
            if let Shown::Absent(name, Version(version)) = one {
                absences.push((name, version));
            }
        }
        let [a, b] = ["a", "b"].map(lease::lease_name);
        let leader = || LEADER_LEASE.to_owned();
        // That of the leader is awaited, so each LIST without it shows that it is absent.
        assert_eq!(absences, [(leader(), 5), (a, 6), (leader(), 9), (b, 9), (leader(), 12)]);
        assert!(known.is_empty(), "{known:?}");
    }
}
