//! The history of one namespace: its objects, by watches that miss nothing, and the requests, by the audit
//! log.
//!
//! Versions are resourceVersions. The whole cluster counts them with one counter, so that they order events
//! across kinds. The watches and not the audit log say which objects were written. A request that lost its
//! sender may have been carried out and yet stand in the log as failed.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use framework_api::{Framework, FrameworkStatus};
use framework_testcluster::audit::{Mark, Record};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Resource;
use kube::api::{Api, ListParams, ObjectList, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::{PATIENCE, block_on, checkers, installed};

/// How long a watch may be behind a LIST.
const LAG: Duration = Duration::from_secs(30);
/// Pause before another attempt to watch.
const LISTEN_AGAIN: Duration = Duration::from_millis(100);

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The version that it led to.
    pub version: u64,
    /// The kind of the change.
    pub what: What,
    /// The object as it is since; one that is gone, as it was last.
    pub object: Object,
}

/// The kind of a change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It was created.
    Created,
    /// It was changed.
    Changed,
    /// It is gone.
    Gone,
}

/// An object of a kind that is recorded.
#[derive(Clone, Debug)]
pub enum Object {
    /// A Framework.
    Framework(Box<Framework>),
    /// A ConfigMap.
    ConfigMap(Box<ConfigMap>),
    /// A Pod.
    Pod(Box<Pod>),
}

impl Change {
    /// Whether only the controller makes such changes: it has got one step further.
    pub fn is_step(&self) -> bool {
        match self.object {
            Object::Framework(_) => self.what == What::Changed,
            Object::ConfigMap(_) | Object::Pod(_) => self.what != What::Changed,
        }
    }
}

/// A recording that goes on.
pub struct Recording {
    client: kube::Client,
    namespace: String,
    mark: Mark,
    changes: watch::Receiver<Vec<Change>>,
}

/// The recorded history.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The versions of Frameworks, oldest first.
    pub frameworks: Vec<(u64, Framework)>,
    /// When Frameworks were gone, and their UIDs.
    pub ends: Vec<(u64, String)>,
    /// The lives of ConfigMaps, oldest first.
    pub config_maps: Vec<Life>,
    /// The lives of Pods, oldest first.
    pub pods: Vec<Life>,
    /// Every request about the namespace.
    pub requests: Vec<Record>,
    /// How many changes only the controller can have made.
    pub steps: usize,
    /// All of it in the form of the checkers; empty for a part of a history.
    pub recorded: framework_sim::History,
}

/// An object from its creation to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its annotations when it was created.
    pub annotations: BTreeMap<String, String>,
    /// When it was created.
    pub created: u64,
    /// When it ended by itself, as Pods do.
    pub ended: Option<u64>,
    /// When its deletion was first seen: being deleted, or gone.
    pub deleted: Option<u64>,
    /// When it was gone.
    pub gone: Option<u64>,
}

impl Life {
    /// An annotation that every object of the controller has.
    pub fn annotation(&self, name: &str) -> &str {
        self.annotations.get(name).map_or("", String::as_str)
    }
}

impl Recording {
    /// Starts to record a namespace, in which there is nothing yet.
    pub fn start(namespace: &str) -> Recording {
        Recording::start_by(super::client(), namespace)
    }

    /// The same by a client of another API server, which goes on while that of the cluster does not.
    pub fn start_by(client: kube::Client, namespace: &str) -> Recording {
        let mark = installed().audit().mark().expect("the log is there");
        let (changes, recorded) = watch::channel(Vec::new());
        block_on(async {
            let all = Api::namespaced(client.clone(), namespace);
            record(all, changes.clone(), opened).await;
            let all = Api::namespaced(client.clone(), namespace);
            record(all, changes.clone(), |object| Object::ConfigMap(Box::new(object))).await;
            let all = Api::namespaced(client.clone(), namespace);
            record(all, changes, |object| Object::Pod(Box::new(object))).await;
        });
        Recording { client, namespace: namespace.to_owned(), mark, changes: recorded }
    }

    /// Waits until the changes recorded so far are as asked.
    pub fn wait(&self, what: &str, is: impl FnMut(&Vec<Change>) -> bool) {
        let mut changes = self.changes.clone();
        let waited = block_on(async {
            tokio::time::timeout(PATIENCE, changes.wait_for(is)).await.is_ok_and(|seen| seen.is_ok())
        });
        let situation = || super::situation::situation(&self.namespace);
        assert!(waited, "not seen within {PATIENCE:?}: {what}\n{}", situation());
    }

    /// The changes recorded so far, kind by kind in order.
    pub fn changes(&self) -> Vec<Change> {
        self.changes.borrow().clone()
    }

    /// Looks at the changes recorded so far, of each kind in order.
    pub fn look<T>(&self, at: impl FnOnce(&[Change]) -> T) -> T {
        at(&self.changes.borrow())
    }

    /// How many steps the controller has done.
    pub fn steps(&self) -> usize {
        self.changes.borrow().iter().filter(|change| change.is_step()).count()
    }

    /// Waits until the watches have delivered all changes, and ends.
    pub fn end(self) -> History {
        let (changes, requests) = self.end_with_changes(|request| request);
        History::complete(changes, requests)
    }

    /// The same, with every change by itself in order, and each request as `keep` leaves it: bodies are
    /// large.
    pub fn end_with_changes(self, mut keep: impl FnMut(Record) -> Record) -> (Vec<Change>, Vec<Record>) {
        let deadline = Instant::now() + LAG;
        while self.recorded() != listed(&self.client, &self.namespace) {
            assert!(Instant::now() < deadline, "the watches are behind, or the namespace is not at rest");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut changes = self.changes.borrow().clone();
        changes.sort_by_key(|change| change.version);
        let mut requests = Vec::new();
        let tell = |request: Record| {
            if request.namespace == self.namespace {
                requests.push(keep(request));
            }
        };
        installed().audit().each_since(self.mark, tell).expect("the log is there");
        (changes, requests)
    }

    /// UID and version of each object, by the watches.
    fn recorded(&self) -> BTreeMap<String, u64> {
        let mut present = BTreeMap::new();
        for change in self.changes.borrow().iter() {
            let uid = match &change.object {
                Object::Framework(framework) => framework.metadata.uid.clone(),
                Object::ConfigMap(config_map) => config_map.metadata.uid.clone(),
                Object::Pod(pod) => pod.metadata.uid.clone(),
            };
            let uid = uid.expect("an object has a UID");
            match change.what {
                What::Created | What::Changed => present.insert(uid, change.version),
                What::Gone => present.remove(&uid),
            };
        }
        present
    }
}

/// UID and version of each object, by LISTs.
fn listed(client: &kube::Client, namespace: &str) -> BTreeMap<String, u64> {
    async fn versions<K: Resource + Clone + Debug + DeserializeOwned>(api: Api<K>) -> Vec<(String, u64)> {
        let list = list(&api).await;
        let ours = list.items.iter().filter(|object| is_ours(*object));
        ours.map(|object| (object.meta().uid.clone().expect("a UID"), version(object))).collect()
    }
    block_on(async {
        let mut all = versions(Api::<Framework>::namespaced(client.clone(), namespace)).await;
        all.extend(versions(Api::<ConfigMap>::namespaced(client.clone(), namespace)).await);
        all.extend(versions(Api::<Pod>::namespaced(client.clone(), namespace)).await);
        all.into_iter().collect()
    })
}

/// All objects of a kind. An API server whose store has just restarted refuses to list them for a while.
async fn list<K: Resource + Clone + Debug + DeserializeOwned>(api: &Api<K>) -> ObjectList<K> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match api.list(&ListParams::default()).await {
            Ok(list) => return list,
            Err(error) => assert!(Instant::now() < deadline, "no list: {error}"),
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

/// Whether an object is none that every namespace has, such as the ConfigMap of the cluster's certificate.
fn is_ours<K: Resource>(object: &K) -> bool {
    !object.meta().name.as_deref().is_some_and(|name| name.contains('.'))
}

fn version<K: Resource>(object: &K) -> u64 {
    let version = object.meta().resource_version.as_deref().expect("an object has a version");
    version.parse().expect("a version is a number")
}

/// A Framework with its status readable.
fn opened(mut framework: Framework) -> Object {
    if let Some(status) = &mut framework.status {
        status.decompress().expect("the controller writes what can be read");
    }
    Object::Framework(framework.into())
}

/// Records a kind from now on, in the background of the cluster's runtime.
async fn record<K>(api: Api<K>, changes: watch::Sender<Vec<Change>>, wrap: fn(K) -> Object)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let list = list(&api).await;
    assert!(!list.items.iter().any(is_ours), "a recording starts before the first object");
    let mut from = list.metadata.resource_version.expect("a list has a version");
    tokio::spawn(async move {
        loop {
            // An API server whose store restarts refuses a watch or ends it: the next one goes on from the
            // last version.
            let deadline = Instant::now() + PATIENCE;
            let watch = loop {
                match api.watch(&WatchParams::default().timeout(290), &from).await {
                    Ok(watch) => break watch,
                    Err(error) => assert!(Instant::now() < deadline, "no watch: {error}"),
                }
                tokio::time::sleep(LISTEN_AGAIN).await;
            };
            let mut events = watch.boxed();
            while let Ok(Some(event)) = events.try_next().await {
                let (what, mut object) = match event {
                    WatchEvent::Added(object) => (What::Created, object),
                    WatchEvent::Modified(object) => (What::Changed, object),
                    WatchEvent::Deleted(object) => (What::Gone, object),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(error) if error.code == 410 => panic!("changes are missed: {error:?}"),
                    WatchEvent::Error(_) => break,
                };
                let version = version(&object);
                from = version.to_string();
                // Half of an object, and of no interest.
                object.meta_mut().managed_fields = None;
                if is_ours(&object) {
                    changes.send_modify(|all| all.push(Change { version, what, object: wrap(object) }));
                }
            }
        }
    });
}

impl History {
    /// The history of all changes in the order of their versions, and of all requests.
    pub fn complete(changes: Vec<Change>, requests: Vec<Record>) -> History {
        let recorded = checkers::recorded(&changes, &requests);
        History { requests, recorded, ..History::of(changes) }
    }

    /// The history that some changes in the order of their versions make.
    pub fn of(changes: Vec<Change>) -> History {
        let steps = changes.iter().filter(|change| change.is_step()).count();
        let mut history = History { steps, ..History::default() };
        for Change { version, what, object } in changes {
            match object {
                Object::Framework(framework) if what != What::Gone => {
                    history.frameworks.push((version, *framework));
                }
                Object::Framework(framework) => {
                    history.ends.push((version, framework.metadata.uid.expect("an object has a UID")));
                }
                Object::ConfigMap(config_map) => {
                    live(&mut history.config_maps, version, what, &*config_map, false)
                }
                Object::Pod(pod) => {
                    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                    let ended = phase.is_some_and(|phase| ["Succeeded", "Failed"].contains(&phase));
                    live(&mut history.pods, version, what, &*pod, ended);
                }
            }
        }
        history
    }

    /// The status that a Framework of that name had just before a version.
    pub fn status_before(&self, framework: &str, version: u64) -> Option<&FrameworkStatus> {
        let named = |seen: &&(u64, Framework)| seen.1.metadata.name.as_deref() == Some(framework);
        let (_, seen) = self.frameworks.iter().rev().filter(named).find(|(at, _)| *at < version)?;
        seen.status.as_ref()
    }

    /// Every status that was written, with its version, oldest first.
    pub fn statuses(&self) -> impl Iterator<Item = (u64, &str, &FrameworkStatus)> {
        self.frameworks.iter().filter_map(|(version, framework)| {
            Some((*version, framework.metadata.uid.as_deref()?, framework.status.as_ref()?))
        })
    }

    /// Whether others than the controller deleted an object: users, or a node that meant the instance before.
    pub fn is_deleted_by_others(&self, life: &Life) -> bool {
        let hits = |request: &&Record| {
            let of = |body: &Option<serde_json::Value>, pointer: &str| {
                let uid = body.as_ref().and_then(|body| body.pointer(pointer)?.as_str());
                uid == Some(life.uid.as_str())
            };
            let named = of(&request.response_object, "/metadata/uid")
                || of(&request.request_object, "/preconditions/uid");
            request.verb == "delete" && request.code < 300 && named
        };
        let mut deletes = self.requests.iter().filter(hits).peekable();
        deletes.peek().is_some()
            && deletes.all(|request| !request.user_agent.starts_with("frameworkcontroller/"))
    }

    /// Asserts that the promises were kept that hold whatever users do.
    pub fn assert_promises_are_kept(&self) {
        assert_none(&checkers::broken_promises(&self.recorded));
    }

    /// Asserts that the manual's guarantees were kept, too.
    pub fn assert_guarantees_are_kept(&self) {
        self.assert_promises_are_kept();
        assert_none(&checkers::broken_guarantees(&self.recorded));
    }
}

fn assert_none(breaches: &[String]) {
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}

/// Adds a change of an object to its life.
fn live<K: Resource>(lives: &mut Vec<Life>, version: u64, what: What, object: &K, ended: bool) {
    let meta = object.meta();
    let uid = meta.uid.clone().expect("an object has a UID");
    if what == What::Created {
        let (name, annotations) =
            (meta.name.clone().expect("a name"), meta.annotations.clone().unwrap_or_default());
        let (uid, created) = (uid.clone(), version);
        lives.push(Life { name, uid, annotations, created, ended: None, deleted: None, gone: None });
    }
    let life = lives.iter_mut().find(|life| life.uid == uid).expect("what changes was created");
    if ended && what != What::Gone {
        life.ended.get_or_insert(version);
    }
    if meta.deletion_timestamp.is_some() || what == What::Gone {
        life.deleted.get_or_insert(version);
    }
    if what == What::Gone {
        life.gone = Some(version);
    }
}
