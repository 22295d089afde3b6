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
use tokio::time::{sleep, timeout};
use tracing::warn;

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
pub async fn watch<K>(api: Api<K>, only: Selection, shown: Sender<Shown<K>>)
where
    K: Clone + Debug + DeserializeOwned + Resource<DynamicType = ()> + Send + 'static,
{
    let mut known = BTreeSet::from([only.awaited.to_owned()]);
    let mut said = String::new();
    while !shown.is_closed() {
        if let Err(error) = list_and_watch(&api, &only, &mut known, &shown).await
            && error != said
        {
            // Once for each cause, and not each second: without Leases a replica waits for ever.
            warn!(kind = %K::kind(&()), error, "a watch of Leases or of the slot map ended and is restarted");
            said = error;
        }
        sleep(PAUSE).await;
    }
}

async fn list_and_watch<K>(
    api: &Api<K>,
    only: &Selection,
    known: &mut BTreeSet<String>,
    shown: &Sender<Shown<K>>,
) -> Result<(), String>
where
    K: Clone + Debug + DeserializeOwned + Resource<DynamicType = ()> + Send + 'static,
{
    let parameters = ListParams { field_selector: only.fields.clone(), ..ListParams::default() };
    let listed = timeout(PATIENCE, api.list(&parameters)).await.map_err(|_| "no answer")?;
    let listed = listed.map_err(|error| error.to_string())?;
    let mut version = listed.metadata.resource_version.unwrap_or_default();
    let mut absent = known.clone();
    for object in listed.items.into_iter().filter(|object| (only.is_ours)(&name_of(object))) {
        let name = name_of(&object);
        absent.remove(&name);
        known.insert(name);
        let _ = shown.send(Shown::Present(object)).await;
    }
    for name in absent {
        let _ = shown.send(Shown::Absent(name, parse(&version)?)).await;
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
                        let _ = shown.send(Shown::Absent(name_of(&object), parse(&version)?)).await;
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
