//! The watches of a controller, in the order in which they begin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use framework_engine::object::{ConfigMapObject, PodObject};
use framework_message::Selection;
use framework_queueing::{
    ChildSetObject, ClassObject, JobKind, JobObject, JobSetObject, PodUse, QueueObject, QuotaObject,
    UnitObject,
};

use super::parts::Parts;
use super::shares::Selected;
use crate::client::REPLY_TIMEOUT;
use crate::watch::{Kind, Selector, Sink, Turn, watch};
use crate::wire::{
    AttemptObject, DeclaredKind, DeclaredText, FrameworkText, JobOfJobSet, JobOfOperator, Resource, Wire,
};

/// The pause between checks whether JobSets are served: the first one, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Starts the watches, each of which returns its name when it ends.
pub fn start(tasks: &mut JoinSet<&'static str>, parts: &mut Parts, sink: &Sink, selected: Option<Selected>) {
    let [frameworks_within, config_maps_within, pods_within, units_within] =
        selected.map_or([const { None }; 4], |selected| selected.map(Some));
    let [frameworks, config_maps, pods, queueing @ ..] = Turn::chain::<12>();
    let of = "the watch of Frameworks";
    start_share::<FrameworkText>(tasks, parts, sink, frameworks, of, frameworks_within);
    let of = "the watch of ConfigMaps";
    start_share::<ConfigMapObject>(tasks, parts, sink, config_maps, of, config_maps_within);
    start_share::<PodObject>(tasks, parts, sink, pods, "the watch of Pods", pods_within);
    if parts.policy.queueing {
        parts.health.await_queueing();
        start_queueing(tasks, parts, sink, queueing, units_within);
    }
    start_declared(tasks, parts, sink);
}

fn start_watch<T: Kind>(
    tasks: &mut JoinSet<&'static str>,
    parts: &mut Parts,
    sink: &Sink,
    turn: Turn,
    name: &'static str,
) {
    start_share::<T>(tasks, parts, sink, turn, name, None);
}

fn start_share<T: Kind>(
    tasks: &mut JoinSet<&'static str>,
    parts: &mut Parts,
    sink: &Sink,
    turn: Turn,
    name: &'static str,
    share: Option<Receiver<Selection>>,
) {
    let selector = Selector::of::<T>();
    let selector = match share {
        Some(share) => selector.within(share),
        None => selector,
    };
    let watching = watch::<T>(parts.client.clone(), selector, sink.clone(), turn, parts.seeds.generator());
    tasks.spawn(async move {
        watching.await;
        name
    });
}

/// Starts the watches. Units come after the jobs that they name, or these would read as gone; Pods after
/// their owners, or they would count as others' use for a moment.
fn start_queueing(
    tasks: &mut JoinSet<&'static str>,
    parts: &mut Parts,
    sink: &Sink,
    turns: [Turn; 9],
    units_within: Option<Receiver<Selection>>,
) {
    let [attempts, jobs, sets, children, used, units, queues, quotas, classes] = turns;
    start_watch::<AttemptObject>(tasks, parts, sink, attempts, "the watch of ConfigMaps in queues");
    start_watch::<JobObject>(tasks, parts, sink, jobs, "the watch of Jobs");
    start_job_sets(tasks, parts, sink, sets);
    start_watch::<JobOfJobSet>(tasks, parts, sink, children, "the watch of Jobs of JobSets");
    start_watch::<PodUse>(tasks, parts, sink, used, "the watch of Pods in queues");
    start_share::<UnitObject>(tasks, parts, sink, units, "the watch of QueueUnits", units_within);
    start_watch::<QueueObject>(tasks, parts, sink, queues, "the watch of Queues");
    start_watch::<QuotaObject>(tasks, parts, sink, quotas, "the watch of ResourceQuotas");
    start_watch::<ClassObject>(tasks, parts, sink, classes, "the watch of PriorityClasses");
}

/// Watches the jobs of each declared kind while it is served; without queues, only kinds with lifetimes. Of
/// rows for several versions of a kind, the first that is served counts. No other watch waits for these.
fn start_declared(tasks: &mut JoinSet<&'static str>, parts: &mut Parts, sink: &Sink) {
    let mut kinds: BTreeMap<JobKind, Vec<Sink>> = BTreeMap::new();
    let queueing = parts.policy.queueing;
    for row in parts.job_kinds.drain(..).filter(|row| queueing || row.deadline.is_some()) {
        let kind = Arc::new(DeclaredKind::new(row));
        kinds.entry(kind.kind.clone()).or_default().push(sink.clone().of_kind(kind));
    }
    let later = Later::default();
    if queueing {
        let name = "the watch of Jobs of operators";
        start_later::<JobOfOperator>(tasks, parts, sink, &later.jobs, name);
        start_later::<ChildSetObject>(
            tasks,
            parts,
            sink,
            &later.job_sets,
            "the watch of JobSets of TrainJobs",
        );
    }
    for versions in kinds.into_values() {
        let (client, rng) = (parts.client.clone(), parts.seeds.generator());
        tasks.spawn(watch_declared(client, versions, rng, later.clone()));
    }
}

/// Watches that begin once a kind is served that needs them. Most clusters have none, and many Jobs.
#[derive(Clone, Default)]
struct Later {
    /// Jobs that are not of JobSets.
    jobs: Arc<Notify>,
    /// JobSets without the label of a queue.
    job_sets: Arc<Notify>,
}

fn start_later<T: Kind>(
    tasks: &mut JoinSet<&'static str>,
    parts: &mut Parts,
    sink: &Sink,
    begins: &Arc<Notify>,
    name: &'static str,
) {
    let (client, sink, mut rng) = (parts.client.clone(), sink.clone(), parts.seeds.generator());
    let begins = Arc::clone(begins);
    tasks.spawn(async move {
        let begin = async {
            begins.notified().await;
            until_served::<T>(&client, &mut rng, || {}).await;
        };
        tokio::select! {
            biased;
            () = begin => {}
            () = sink.events.closed() => return name,
        }
        watch::<T>(client, Selector::of::<T>(), sink, Turn::default(), rng).await;
        name
    });
}

async fn watch_declared(
    client: kube::Client,
    versions: Vec<Sink>,
    mut rng: fastrand::Rng,
    later: Later,
) -> &'static str {
    let mut pause = FIRST_PAUSE;
    loop {
        for sink in &versions {
            let Some(kind) = &sink.declared else { continue };
            let is_served = is_served(&client, &kind.row.api_version, &kind.row.plural).await;
            if is_served && is_listed(&client, sink).await {
                debug!(resource = kind.resource.plural, "a kind of jobs is served");
                if kind.row.owns_jobs {
                    later.jobs.notify_one();
                }
                if kind.row.child.is_some() {
                    later.job_sets.notify_one();
                }
                let (turn, selector) = (Turn::default(), Selector::of::<DeclaredText>());
                watch::<DeclaredText>(client.clone(), selector, sink.clone(), turn, rng.fork()).await;
                pause = FIRST_PAUSE;
            }
        }
        if versions.iter().any(|sink| sink.events.is_closed()) {
            return "the watch of a declared kind";
        }
        sleep(pause.mul_f64(0.75 + rng.f64() / 2.0)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether a LIST of a kind is answered: the rights for it are there. A failure counts as no.
async fn is_listed(client: &kube::Client, sink: &Sink) -> bool {
    let resource = sink.resource::<DeclaredText>();
    let api = resource.api::<DeclaredText>(client.clone(), sink.namespace.as_deref());
    let one = ListParams::default().limit(1);
    match timeout(REPLY_TIMEOUT, api.list(&one)).await {
        Ok(Ok(_)) => true,
        unknown => {
            let unknown = unknown.map(|listed| listed.map(|_| ()));
            info!(resource = resource.plural, ?unknown, "a kind of jobs is served and cannot be listed");
            false
        }
    }
}

/// Watches JobSets once they are served. A cluster without them costs a request now and then.
fn start_job_sets(tasks: &mut JoinSet<&'static str>, parts: &mut Parts, sink: &Sink, mut turn: Turn) {
    let (client, sink, mut rng) = (parts.client.clone(), sink.clone(), parts.seeds.generator());
    tasks.spawn(async move {
        let name = "the watch of JobSets";
        if let Some(after) = turn.after.take()
            && after.await.is_err()
        {
            return name;
        }
        // The next watches need not wait for a kind that is not there.
        let missing = || {
            if let Some(then) = turn.then.take() {
                let _ = then.send(());
            }
        };
        until_served::<JobSetObject>(&client, &mut rng, missing).await;
        watch::<JobSetObject>(client, Selector::of::<JobSetObject>(), sink, turn, rng).await;
        name
    });
}

/// Waits until a kind is served; calls `missing` each time that it is not.
async fn until_served<T: Wire>(client: &kube::Client, rng: &mut fastrand::Rng, mut missing: impl FnMut()) {
    let Resource { group, version, plural, .. } = T::RESOURCE;
    let mut pause = FIRST_PAUSE;
    while !is_served(client, &format!("{group}/{version}"), plural).await {
        missing();
        sleep(pause.mul_f64(0.75 + rng.f64() / 2.0)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether the API server serves a resource; a failure counts as no.
async fn is_served(client: &kube::Client, api_version: &str, plural: &str) -> bool {
    match timeout(REPLY_TIMEOUT, client.list_api_group_resources(api_version)).await {
        Ok(Ok(found)) => found.resources.iter().any(|resource| resource.name == plural),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => false,
        unknown => {
            debug!(?unknown, resource = plural, "it is not known whether a kind of jobs is served");
            false
        }
    }
}
