//! Records a namespace: its objects by watches that miss nothing, and the requests by the audit log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use framework_testcluster::audit::{Mark, Record};
use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, ObjectList, WatchEvent, WatchParams};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::history::{Change, History, Object, What};
use super::replicas::MAP;
use super::{PATIENCE, block_on, client, installed};

/// Group, version, kind and plural: first of a Framework and its objects, then of the objects of queues.
const KINDS: [[&str; 4]; 6] = [
    ["frameworkcontroller.microsoft.com", "v1", "Framework", "frameworks"],
    ["", "v1", "ConfigMap", "configmaps"],
    ["", "v1", "Pod", "pods"],
    ["queue.k8s.io", "v1alpha1", "QueueUnit", "queueunits"],
    ["queue.k8s.io", "v1alpha1", "Queue", "queues"],
    ["", "v1", "ResourceQuota", "resourcequotas"],
];
const OF_FRAMEWORKS: usize = 3;
const LEASES: [&str; 4] = ["coordination.k8s.io", "v1", "Lease", "leases"];

/// How long a watch may be behind a LIST.
const LAG: Duration = Duration::from_secs(30);
/// Pause before another attempt to watch.
const LISTEN_AGAIN: Duration = Duration::from_millis(100);

/// The objects of a kind that are recorded.
#[derive(Clone)]
struct Kind {
    plural: &'static str,
    api: Api<DynamicObject>,
    /// A selector of fields; empty: all.
    fields: String,
}

impl Kind {
    fn new(client: &kube::Client, namespace: &str, names: [&'static str; 4], fields: String) -> Kind {
        let [group, version, kind, plural] = names;
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let (group, version) = (group.to_owned(), version.to_owned());
        let resource =
            ApiResource { group, version, api_version, kind: kind.to_owned(), plural: plural.to_owned() };
        Kind { plural, api: Api::namespaced_with(client.clone(), namespace, &resource), fields }
    }

    /// All its objects. An API server whose store has just restarted refuses to list them for a while, and
    /// one that has just heard of the kind, too.
    async fn list(&self) -> ObjectList<DynamicObject> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.api.list(&ListParams::default().fields(&self.fields)).await {
                Ok(list) => return list,
                Err(error) => assert!(Instant::now() < deadline, "no list: {error}"),
            }
            tokio::time::sleep(LISTEN_AGAIN).await;
        }
    }
}

/// A recording that goes on.
pub struct Recording {
    kinds: Vec<Kind>,
    namespace: String,
    mark: Mark,
    changes: watch::Receiver<Vec<Change>>,
    /// They end with this value.
    _watches: JoinSet<()>,
}

impl Recording {
    /// Starts to record a namespace, in which there is nothing yet.
    pub fn start(namespace: &str) -> Recording {
        Recording::start_by(client(), namespace)
    }

    /// The same by a client of another API server, which goes on while that of the cluster does not.
    pub fn start_by(client: kube::Client, namespace: &str) -> Recording {
        let kinds = KINDS[..OF_FRAMEWORKS].iter();
        let kinds = kinds.map(|names| Kind::new(&client, namespace, *names, String::new()));
        let recording = Recording::of(kinds.collect(), namespace);
        assert!(recording.changes.borrow().is_empty(), "a recording starts before the first object");
        recording
    }

    /// The same, with queues and quotas, which may be there already.
    pub fn start_with_queues(client: kube::Client, namespace: &str) -> Recording {
        let kinds = KINDS.iter().map(|names| Kind::new(&client, namespace, *names, String::new()));
        Recording::of(kinds.collect(), namespace)
    }

    /// Starts to record the map of slots, and the Leases of all members and of the leader.
    pub fn start_of_map(client: kube::Client) -> Recording {
        let map = Kind::new(&client, "default", KINDS[1], format!("metadata.name={MAP}"));
        let leases = Kind::new(&client, "default", LEASES, String::new());
        // A seizure that the map shows then has all versions of the Lease that it needs.
        Recording::of(vec![leases, map], "default")
    }

    fn of(kinds: Vec<Kind>, namespace: &str) -> Recording {
        let mark = installed().audit().mark().expect("the log is there");
        let (changes, recorded) = watch::channel(Vec::new());
        let mut watches = JoinSet::new();
        block_on(async {
            for kind in &kinds {
                record(kind.clone(), changes.clone(), &mut watches).await;
            }
        });
        Recording { kinds, namespace: namespace.to_owned(), mark, changes: recorded, _watches: watches }
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

    /// Waits until the watches have delivered all changes up to now, and ends.
    pub fn end(self) -> History {
        let (changes, requests) = self.end_with_changes(|request| request);
        History::complete(changes, requests)
    }

    /// The same, with every change by itself in order, and each request as `keep` leaves it: bodies are
    /// large.
    pub fn end_with_changes(self, mut keep: impl FnMut(Record) -> Record) -> (Vec<Change>, Vec<Record>) {
        let deadline = Instant::now() + LAG;
        while !self.covers(&listed(&self.kinds)) {
            assert!(Instant::now() < deadline, "the watches are behind");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut changes = self.changes.borrow().clone();
        changes.sort_by_key(|change| change.version);
        let mut requests = Vec::new();
        let visit = |request: Record| {
            if request.namespace == self.namespace {
                requests.push(keep(request));
            }
        };
        installed().audit().each_since(self.mark, visit).expect("the log is there");
        (changes, requests)
    }

    /// Whether the watches show these objects and no others, at these versions or later ones: a Lease that is
    /// renewed never rests.
    fn covers(&self, listed: &BTreeMap<String, u64>) -> bool {
        let recorded = self.recorded();
        let shows = |(uid, version): (&String, &u64)| recorded.get(uid).is_some_and(|seen| seen >= version);
        recorded.len() == listed.len() && listed.iter().all(shows)
    }

    /// UID and version of each object, by the watches.
    fn recorded(&self) -> BTreeMap<String, u64> {
        let mut present = BTreeMap::new();
        for change in self.changes.borrow().iter() {
            let uid = change.object.metadata().uid.clone().expect("an object has a UID");
            match change.what {
                What::Created | What::Changed => present.insert(uid, change.version),
                What::Gone => present.remove(&uid),
            };
        }
        present
    }
}

/// UID and version of each object, by LISTs.
fn listed(kinds: &[Kind]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for kind in kinds {
        let list = block_on(kind.list());
        let ours = list.items.iter().filter(|object| is_ours(object));
        all.extend(ours.map(|object| (object.metadata.uid.clone().expect("a UID"), version(object))));
    }
    all
}

/// Whether an object is not the one that every namespace has: the ConfigMap of the cluster's certificate.
fn is_ours(object: &DynamicObject) -> bool {
    object.metadata.name.as_deref() != Some("kube-root-ca.crt")
}

fn version(object: &DynamicObject) -> u64 {
    let version = object.metadata.resource_version.as_deref().expect("an object has a version");
    version.parse().expect("a version is a number")
}

/// Records the objects of a kind that are there, and then their changes in the background of the cluster's
/// runtime.
async fn record(kind: Kind, changes: watch::Sender<Vec<Change>>, watches: &mut JoinSet<()>) {
    let list = kind.list().await;
    let mut from = list.metadata.resource_version.expect("a list has a version");
    let add = move |what, mut object: DynamicObject| {
        // Half of an object, and of no interest.
        object.metadata.managed_fields = None;
        if is_ours(&object) {
            let (version, object) = (version(&object), Object::read(kind.plural, object));
            changes.send_modify(|all| all.push(Change { version, what, object }));
        }
    };
    list.items.into_iter().for_each(|object| add(What::Created, object));
    watches.spawn(async move {
        loop {
            // An API server whose store restarts refuses a watch or ends it: the next one goes on from the
            // last version.
            let deadline = Instant::now() + PATIENCE;
            let selected = WatchParams::default().timeout(290).fields(&kind.fields);
            let watch = loop {
                match kind.api.watch(&selected, &from).await {
                    Ok(watch) => break watch,
                    Err(error) => assert!(Instant::now() < deadline, "no watch: {error}"),
                }
                tokio::time::sleep(LISTEN_AGAIN).await;
            };
            let mut events = watch.boxed();
            while let Ok(Some(event)) = events.try_next().await {
                let (what, object) = match event {
                    WatchEvent::Added(object) => (What::Created, object),
                    WatchEvent::Modified(object) => (What::Changed, object),
                    WatchEvent::Deleted(object) => (What::Gone, object),
                    // Of a kind that seldom changes the last version may be compacted before the next change.
                    WatchEvent::Bookmark(bookmark) => {
                        from = bookmark.metadata.resource_version;
                        continue;
                    }
                    WatchEvent::Error(error) if error.code == 410 => panic!("changes are missed: {error:?}"),
                    WatchEvent::Error(_) => break,
                };
                from = version(&object).to_string();
                add(what, object);
            }
        }
    });
}
