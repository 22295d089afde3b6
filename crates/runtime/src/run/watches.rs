//! The watches of a controller, in the order in which they begin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use framework_engine::object::{ConfigMapObject, PodObject};
use framework_message::SlotSelection;
use framework_queueing::{ClassObject, JobKind, PodUse, QueueEvent, QueueObject, QuotaObject, UnitObject};

use super::membership::Selected;
use super::parts::Parts;
use crate::client::REPLY_TIMEOUT;
use crate::event::Event;
use crate::watch::{Kind, Selector, Sink, Turn, watch, watch_while_served};
use crate::wire::{AttemptObject, DeclaredKind, DeclaredText, FrameworkText};

/// The pause between checks whether a kind of jobs is served: the first one, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Starts the watches, each of which returns its name when it ends.
pub fn start(tasks: &mut JoinSet<&'static str>, parts: &mut Parts, sink: &Sink, selected: Option<Selected>) {
    let is_member = selected.is_some();
    let [frameworks_within, config_maps_within, pods_within, queueing_within @ ..] =
        selected.map_or([const { None }; 6], |selected| selected.map(Some));
    let [frameworks, config_maps, pods, queueing @ ..] = Turn::chain::<11>();
    let queueing = if is_member { of_member() } else { queueing };
    let of = "the watch of Frameworks";
    start_selected::<FrameworkText>(tasks, parts, sink, frameworks, of, frameworks_within);
    let of = "the watch of ConfigMaps";
    start_selected::<ConfigMapObject>(tasks, parts, sink, config_maps, of, config_maps_within);
    start_selected::<PodObject>(tasks, parts, sink, pods, "the watch of Pods", pods_within);
    let mut turns = BTreeMap::new();
    if parts.policy.queueing {
        parts.health.await_queueing();
        turns = start_queueing(tasks, parts, sink, queueing, queueing_within);
    }
    start_declared(tasks, parts, sink, turns);
}

/// The turns of the kinds of queueing in a member. It lists no Frameworks and no units before it has a slot,
/// and the other kinds do not wait for that. Of ConfigMaps and Pods in queues, those that name no slot are
/// listed first.
fn of_member() -> [Turn; 8] {
    let [attempts, jobs, sets, used, units] = Turn::chain();
    let [queues, quotas, classes] = Turn::chain();
    [attempts, jobs, sets, used, units, queues, quotas, classes]
}

fn start_selected<T: Kind>(
    tasks: &mut JoinSet<&'static str>,
    parts: &mut Parts,
    sink: &Sink,
    turn: Turn,
    name: &'static str,
    selection: Option<Receiver<SlotSelection>>,
) {
    let selector = Selector::of::<T>();
    let selector = match selection {
        Some(selection) => selector.within(selection),
        None => selector,
    };
    let watching = watch::<T>(parts.client.clone(), selector, sink.clone(), turn, parts.seeds.generator());
    tasks.spawn(async move {
        watching.await;
        name
    });
}

/// Starts the watches. Units come after the jobs that they name, or these would read as gone; Pods after
/// their owners, or they would count as others' use for a moment. Returns the turns of jobs, by their kind.
fn start_queueing(
    tasks: &mut JoinSet<&'static str>,
    parts: &mut Parts,
    sink: &Sink,
    turns: [Turn; 8],
    [attempts_within, used_within, units_within]: [Option<Receiver<SlotSelection>>; 3],
) -> BTreeMap<&'static str, Turn> {
    let [attempts, jobs, sets, used, units, queues, quotas, classes] = turns;
    let of = "the watch of ConfigMaps in queues";
    start_selected::<AttemptObject>(tasks, parts, sink, attempts, of, attempts_within);
    start_selected::<PodUse>(tasks, parts, sink, used, "the watch of Pods in queues", used_within);
    start_selected::<UnitObject>(tasks, parts, sink, units, "the watch of QueueUnits", units_within);
    start_selected::<QueueObject>(tasks, parts, sink, queues, "the watch of Queues", None);
    start_selected::<QuotaObject>(tasks, parts, sink, quotas, "the watch of ResourceQuotas", None);
    start_selected::<ClassObject>(tasks, parts, sink, classes, "the watch of PriorityClasses", None);
    [("Job", jobs), ("JobSet", sets)].into()
}

/// Watches the jobs of each kind that has a row while it is served; without queues, only kinds with
/// lifetimes. Of rows for several versions of a kind, the first that is served counts. No other watch waits
/// for one that has no turn.
fn start_declared(
    tasks: &mut JoinSet<&'static str>,
    parts: &mut Parts,
    sink: &Sink,
    mut turns: BTreeMap<&str, Turn>,
) {
    let mut kinds = BTreeMap::new();
    let queueing = parts.policy.queueing;
    for row in parts.job_kinds.iter().filter(|row| queueing || row.deadline.is_some()) {
        let begin = || (turns.remove(row.kind.as_str()).unwrap_or_default(), Vec::new());
        let (_, versions) = kinds.entry(JobKind::declared(row)).or_insert_with(begin);
        versions.push(sink.clone().of_kind(Arc::new(DeclaredKind::new(row.clone()))));
    }
    for (turn, versions) in kinds.into_values() {
        let (client, rng) = (parts.client.clone(), parts.seeds.generator());
        tasks.spawn(watch_declared(client, versions, turn, rng));
    }
}

async fn watch_declared(
    client: kube::Client,
    versions: Vec<Sink>,
    mut turn: Turn,
    mut rng: fastrand::Rng,
) -> &'static str {
    let name = "the watch of a kind of jobs";
    if !turn.comes().await {
        return name;
    }
    let mut pause = FIRST_PAUSE;
    loop {
        let mut is_missing = true;
        for sink in &versions {
            let Some(kind) = &sink.declared else { continue };
            match is_there(&client, sink, kind).await {
                Some(true) => {
                    debug!(resource = kind.resource.plural, "a kind of jobs is served");
                    let (client, selector) = (client.clone(), Selector::of::<DeclaredText>());
                    watch_while_served::<DeclaredText>(client, selector, sink.clone(), &mut turn, rng.fork())
                        .await;
                    pause = FIRST_PAUSE;
                    // A watch may end by a 403 of an API server that begins. Whether the kind is served is
                    // asked before its jobs are forgotten.
                    is_missing = false;
                }
                Some(false) => {}
                None => is_missing = false,
            }
        }
        if is_missing {
            say_not_served(&versions).await;
        }
        // The next watches need not wait for a kind that is not there.
        turn.pass();
        if versions.iter().any(|sink| sink.events.is_closed()) {
            return name;
        }
        sleep(pause.mul_f64(0.75 + rng.f64() / 2.0)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// No version of a kind is served, or the rights for it are missing.
async fn say_not_served(versions: &[Sink]) {
    let Some((sink, kind)) = versions.iter().find_map(|sink| Some((sink, sink.declared.as_ref()?))) else {
        return;
    };
    let event = Event::Queue(QueueEvent::NotServed(kind.kind.clone()));
    // The receiver is gone only if the program is ending.
    let _ = sink.events.send(event).await;
}

/// Whether a kind is served, and the rights for it are there; `None` if the API server does not say. Every
/// API server has Jobs.
async fn is_there(
    client: &kube::Client,
    sink: &Sink,
    DeclaredKind { row, kind, .. }: &DeclaredKind,
) -> Option<bool> {
    if kind.is_job() {
        return Some(true);
    }
    match is_served(client, &row.api_version, &row.plural).await? {
        true => is_listed(client, sink).await,
        false => Some(false),
    }
}

/// Whether a LIST of a kind is answered: the rights for it are there.
async fn is_listed(client: &kube::Client, sink: &Sink) -> Option<bool> {
    let resource = sink.resource::<DeclaredText>();
    let api = resource.api::<DeclaredText>(client.clone(), sink.namespace.as_deref());
    let one = ListParams::default().limit(1);
    match timeout(REPLY_TIMEOUT, api.list(&one)).await {
        Ok(Ok(_)) => Some(true),
        reply => {
            let reply = reply.map(|listed| listed.map(|_| ()));
            info!(resource = resource.plural, ?reply, "a job kind is served but cannot be listed");
            match reply {
                Ok(Err(kube::Error::Api(status))) if matches!(status.code, 403 | 404) => Some(false),
                _ => None,
            }
        }
    }
}

/// Whether the API server serves a resource.
async fn is_served(client: &kube::Client, api_version: &str, plural: &str) -> Option<bool> {
    match timeout(REPLY_TIMEOUT, client.list_api_group_resources(api_version)).await {
        Ok(Ok(found)) => Some(found.resources.iter().any(|resource| resource.name == plural)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Some(false),
        unknown => {
            debug!(?unknown, resource = plural, "it is not known whether a kind of jobs is served");
            None
        }
    }
}
