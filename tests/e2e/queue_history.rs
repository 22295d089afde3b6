//! The history of the queues of a namespace, version by version, in the form that the checks of the simulated
//! cluster read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use framework_sim::recorded::{self, Event};
use framework_sim::{Change, History, Object};
use framework_testcluster::audit::{Mark, Record};
use futures::TryStreamExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;

use crate::cluster::{block_on, client, installed, until};

/// The kinds that show which workload holds which amounts.
const KINDS: [(&str, &str, &str, &str); 6] = [
    ("frameworkcontroller.microsoft.com", "v1", "Framework", "frameworks"),
    ("queue.k8s.io", "v1alpha1", "QueueUnit", "queueunits"),
    ("queue.k8s.io", "v1alpha1", "Queue", "queues"),
    ("", "v1", "ResourceQuota", "resourcequotas"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "ConfigMap", "configmaps"),
];

/// The events of a namespace, by watches that miss nothing.
pub struct Recording {
    namespace: String,
    mark: Mark,
    seen: Arc<Mutex<Vec<Event>>>,
}

impl Recording {
    /// Starts to record a namespace in which there are neither units nor jobs yet.
    pub fn start(namespace: &str) -> Self {
        let mark = installed().audit().mark().expect("the log is there");
        let seen: Arc<Mutex<Vec<Event>>> = Arc::default();
        for (index, kind) in KINDS.iter().enumerate() {
            let (api, seen, plural) = (api(namespace, index), Arc::clone(&seen), kind.3);
            // A kind that is new is served after a while.
            until("it is served", || block_on(api.list(&ListParams::default())).ok().map(drop));
            block_on(async {
                let list = api.list(&ListParams::default()).await.expect("a list");
                let version = list.metadata.resource_version.expect("a list has a version");
                // The objects that the namespace was made with.
                let add = move |object: &DynamicObject, gone| {
                    seen.lock().expect("nobody panicked").push(Event { plural, object: value(object), gone });
                };
                list.items.iter().for_each(|object| add(object, false));
                tokio::spawn(async move {
                    let watch = api.watch(&WatchParams::default().timeout(290), &version).await;
                    let mut events = Box::pin(watch.expect("a watch"));
                    while let Some(event) = events.try_next().await.expect("a watch goes on") {
                        let (object, gone) = match event {
                            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                            WatchEvent::Deleted(object) => (object, true),
                            WatchEvent::Bookmark(_) => continue,
                            WatchEvent::Error(error) => panic!("a watch of {plural} failed: {error}"),
                        };
                        add(&object, gone);
                    }
                });
            });
        }
        Recording { namespace: namespace.to_owned(), mark, seen }
    }

    /// Waits until the watches have shown all that is there, and gives the history.
    pub fn end(self) -> History {
        until("the watches are as far as the lists", || {
            let mut shown = BTreeMap::new();
            for Event { object, gone, .. } in self.seen.lock().expect("nobody panicked").iter() {
                let [uid, version] = ["uid", "resourceVersion"].map(|field| meta(object, field));
                if *gone {
                    shown.remove(&uid)
                } else {
                    shown.insert(uid, version)
                };
            }
            let there = (0..KINDS.len()).flat_map(|kind| {
                block_on(api(&self.namespace, kind).list(&ListParams::default())).expect("a list").items
            });
            let there = there.map(|object| value(&object));
            let there = there.map(|object| (meta(&object, "uid"), meta(&object, "resourceVersion")));
            let there: BTreeMap<String, String> = there.collect();
            (shown == there).then_some(())
        });
        let mut requests = Vec::new();
        let keep =
            |request: Record| requests.extend((request.namespace == self.namespace).then_some(request));
        installed().audit().each_since(self.mark, keep).expect("the log is there");
        recorded::history(self.seen.lock().expect("nobody panicked").clone(), &requests)
    }
}

fn meta(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("an object is plain data")
}

fn api(namespace: &str, kind: usize) -> Api<DynamicObject> {
    let (group, version, kind, plural) = KINDS[kind];
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Api::namespaced_with(client(), namespace, &resource)
}

/// The version at which a unit was released.
pub fn released(history: &History, unit: &str) -> u64 {
    let is_released = |object: &Option<Arc<Object>>| {
        object.as_ref().is_some_and(|object| object["status"]["phase"] == "Dequeued")
    };
    version(history, "queueunits", unit, |change| !is_released(&change.old) && is_released(&change.new))
}

/// The version at which an object was gone.
pub fn gone(history: &History, plural: &str, name: &str) -> u64 {
    version(history, plural, name, |change| change.new.is_none())
}

/// The version of the only change of an object that is as asked.
fn version(history: &History, plural: &str, name: &str, is: impl Fn(&Change) -> bool) -> u64 {
    let is_of_it = |change: &Change| {
        let object = change.new.as_ref().or(change.old.as_ref()).expect("an object");
        change.is(plural) && object["metadata"]["name"] == name
    };
    let mut found = history.changes.iter().filter(|change| is_of_it(change) && is(change));
    let first = found.next().unwrap_or_else(|| panic!("{plural} {name}: it never happened")).rv;
    assert!(found.next().is_none(), "{plural} {name}: it happened again");
    first
}
