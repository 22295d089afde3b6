//! The watches of a controller, in the order in which they begin.

use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::debug;

use framework_api::queue::ConsumerKind;
use framework_engine::object::{ConfigMapObject, PodObject};
use framework_message::Selection;
use framework_queueing::{
    AttemptObject, ChildJobObject, ClassObject, JobObject, JobSetObject, PodUse, QueueObject, QuotaObject,
    UnitObject,
};

use super::parts::Parts;
use super::shares::Selected;
use crate::client::REPLY_TIMEOUT;
use crate::watch::{Kind, Selector, Sink, Turn, watch};
use crate::wire::{FrameworkText, Wire};

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
    start_watch::<ChildJobObject>(tasks, parts, sink, children, "the watch of Jobs of JobSets");
    start_watch::<PodUse>(tasks, parts, sink, used, "the watch of Pods in queues");
    start_share::<UnitObject>(tasks, parts, sink, units, "the watch of QueueUnits", units_within);
    start_watch::<QueueObject>(tasks, parts, sink, queues, "the watch of Queues");
    start_watch::<QuotaObject>(tasks, parts, sink, quotas, "the watch of ResourceQuotas");
    start_watch::<ClassObject>(tasks, parts, sink, classes, "the watch of PriorityClasses");
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
        let mut pause = FIRST_PAUSE;
        while !are_job_sets_served(&client).await {
            // The next watches need not wait for a kind that is not there.
            if let Some(then) = turn.then.take() {
                let _ = then.send(());
            }
            sleep(pause.mul_f64(0.75 + rng.f64() / 2.0)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        watch::<JobSetObject>(client, Selector::of::<JobSetObject>(), sink, turn, rng).await;
        name
    });
}

/// Whether the API server serves that version of JobSets; a failure counts as no.
async fn are_job_sets_served(client: &kube::Client) -> bool {
    let version = ConsumerKind::JobSet.api_version();
    match timeout(REPLY_TIMEOUT, client.list_api_group_resources(version)).await {
        Ok(Ok(found)) => {
            found.resources.iter().any(|resource| resource.name == JobSetObject::RESOURCE.plural)
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => false,
        unknown => {
            debug!(?unknown, "it is not known whether JobSets are served");
            false
        }
    }
}
