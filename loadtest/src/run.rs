//! One run of a scenario by a system, and the report of it.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use framework_audit::{Log, Mark};
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use crate::admission;
use crate::exposition::Scrape;
use crate::floor::{self, FloorClient};
use crate::follow::{SharedTracker, follow, lock};
use crate::generator::{AT_ONCE, Generator};
use crate::kills::{Killed, Kills, kill_in_turn};
use crate::levels;
use crate::metrics::{Metrics, Scrapes, counted_requests, growth, rows, scrape as scrape_server};
use crate::namespace::Namespace;
use crate::number::count;
use crate::partial_status::Phase;
use crate::phase_names::{JOBS, UNITS};
use crate::process::Watched;
use crate::report::{Bytes, Requests, Run, Throughput, Totals, Used};
use crate::requests::Counted;
use crate::sampler::{self, Sampler};
use crate::scenario::{Queues, Scenario};
use crate::system::System;
use crate::tracker::{Tracker, latency};

/// The interval of samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// The number of samples between two lines of progress on standard error.
const PROGRESS_EVERY: u32 = 10;
/// The name of the controller's processes.
const CONTROLLER: &str = "frameworkcontroller";
/// How long the last requests may take to appear in counters and logs.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of a run.
#[derive(Clone)]
pub struct Setup {
    /// The scenario.
    pub scenario: Scenario,
    /// The system that does it.
    pub system: System,
    /// The name of the system in the report.
    pub name: String,
    /// The settings of the system, for the report.
    pub profile: String,
    /// The namespace of the jobs.
    pub namespace: Namespace,
    /// The API server's audit log, if it can be read here.
    pub audit_log: Option<PathBuf>,
    /// The metrics of the controller's replicas, if they can be reached.
    pub metrics: Option<Metrics>,
    /// Processes on this machine to watch.
    pub processes: Vec<Watched>,
    /// The replicas to kill, if the scenario kills some.
    pub kills: Option<Kills>,
    /// Whether jobs of earlier runs are removed first; otherwise they are an error.
    pub remove_leftovers: bool,
    /// Whether the levels of the scenario apply: they do not apply to systems that ours is compared with.
    pub promises: bool,
    /// Whether this run's jobs are removed afterwards.
    pub cleanup: bool,
}

impl Setup {
    /// The setup without the counters and processes that end with a replica that is killed.
    fn without_what_ends(&self) -> Setup {
        let mut setup = self.clone();
        if setup.kills.is_some() {
            setup.metrics = None;
            setup.processes.retain(|process| process.name != CONTROLLER);
        }
        setup
    }
}

/// The counters before the run.
struct Before {
    api_server: Option<Scrape>,
    controller: Option<Scrapes>,
    mark: Mark,
    wall: Timestamp,
    start: Instant,
}

/// Runs until all jobs are over, the scenario's timeout has passed, or `interrupted` is ready.
pub async fn run(setup: &Setup, interrupted: impl Future<Output = ()>) -> Result<Run> {
    let id = format!("{:x}", Timestamp::now().as_millisecond());
    if let Some(kills) = &setup.kills {
        kills.check().await?;
    }
    let made = match &setup.scenario.queue {
        Some(queues) => prepare_queues(setup, queues, &id).await?,
        None => prepare(setup).await?,
    };
    let outcome = measure(setup, &id, interrupted).await;
    if setup.cleanup {
        eprintln!("removing the objects of the run");
        if setup.system == System::Queue {
            setup.namespace.clear_queues(Some(&id)).await?;
        } else {
            setup.namespace.clear(Some(&id)).await?;
        }
        if made {
            setup.namespace.remove().await?;
        }
    }
    outcome
}

/// An error if the API is missing or jobs are left over. Returns whether the namespace was created.
async fn prepare(setup: &Setup) -> Result<bool> {
    let namespace = &setup.namespace;
    if setup.system == System::Floor {
        floor::check(&setup.scenario)?;
    }
    let left = namespace.served().await.context(
        "listing Frameworks: is the CustomResourceDefinition of deploy/crds installed, and are you \
         allowed to list Frameworks?",
    )?;
    if left > 0 {
        ensure!(
            setup.remove_leftovers,
            "namespace {} has {} of earlier load tests: remove them with --remove-leftovers",
            namespace.name,
            count(left, "job")
        );
        eprintln!("removing {} of earlier load tests", count(left, "job"));
        namespace.clear(None).await?;
    }
    namespace.make().await
}

/// The same for queues. Returns false: the namespaces carry the label of the run, and are removed by it.
async fn prepare_queues(setup: &Setup, queues: &Queues, id: &str) -> Result<bool> {
    let namespace = &setup.namespace;
    ensure!(setup.system == System::Queue, "only a controller of Frameworks releases QueueUnits");
    let left = namespace.queues_left().await.context("listing namespaces")?;
    if left > 0 {
        ensure!(
            setup.remove_leftovers,
            "the cluster has {} of earlier load tests: remove them with --remove-leftovers",
            count(left, "namespace")
        );
        eprintln!("removing {} of earlier load tests", count(left, "namespace"));
        namespace.clear_queues(None).await?;
    }
    eprintln!("making {} with {} each", count(queues.namespaces, "namespace"), count(queues.queues, "Queue"));
    namespace.make_queues(queues, id).await?;
    Ok(false)
}

async fn measure(setup: &Setup, id: &str, interrupted: impl Future<Output = ()>) -> Result<Run> {
    let names = if setup.system == System::Queue { UNITS } else { JOBS };
    let tracked = Arc::new(Mutex::new(Tracker::new(names)));
    let has_pods = setup.system != System::Queue;
    let nodes = if setup.scenario.pinned && has_pods { setup.namespace.nodes().await? } else { Vec::new() };
    let _following = follow(&setup.namespace, setup.system, id, &tracked).await?;
    let floor = match setup.system {
        System::Floor => Some(FloorClient::begin(setup.namespace.clone(), id).await?),
        System::Framework | System::Job | System::Queue => None,
    };
    let generator = Generator {
        namespace: setup.namespace.clone(),
        system: setup.system,
        scenario: Arc::new(setup.scenario.clone()),
        run: id.to_owned(),
        nodes: Arc::new(nodes),
        tracked: Arc::clone(&tracked),
        floor,
        deletions: Arc::new(Semaphore::new(AT_ONCE)),
    };
    generator.rehearse().await?;
    if let Some(metrics) = &setup.metrics {
        metrics.await_rest().await?;
    }
    let setup = &setup.without_what_ends();
    let killed = Killed::default();
    let log = setup.audit_log.clone().map(Log::new);
    let before = Before {
        api_server: scrape_server(&setup.namespace.client).await.ok(),
        controller: scrape(setup.metrics.as_ref()).await?,
        mark: log.as_ref().map(Log::mark).transpose()?.unwrap_or_default(),
        wall: Timestamp::now(),
        start: Instant::now(),
    };
    let mut sampler = Sampler::begin(setup.metrics.clone(), setup.processes.clone(), before.start)?;
    generator.announce(before.start);
    let work = generator.create(before.start, before.wall);
    let given_up = tokio::select! {
        biased;
        Err(error) = kill_in_turn(setup.kills.as_ref(), before.start, &killed) => return Err(error),
        followed = until_over(setup, &tracked, &mut sampler, before.start, work) => followed?,
        () = interrupted => Some("interrupted".to_owned()),
    };
    sampler.sample().await?;
    let elapsed = elapsed(&tracked, before.start, given_up.is_some());
    let mut run = compile(setup, &tracked, &sampler, &before, log.as_ref(), elapsed, given_up).await?;
    run.totals.kills = std::mem::take(&mut *killed.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(run)
}

async fn scrape(metrics: Option<&Metrics>) -> Result<Option<Scrapes>> {
    match metrics {
        Some(metrics) => Ok(Some(metrics.scrape().await?)),
        None => Ok(None),
    }
}

/// The seconds until the last end if all jobs are over, otherwise until now.
fn elapsed(tracked: &SharedTracker, start: Instant, given_up: bool) -> f64 {
    let end = lock(tracked).last_end().filter(|_| !given_up);
    end.map_or_else(|| start.elapsed(), |end| end.saturating_duration_since(start)).as_secs_f64().max(0.001)
}

/// Samples every second until all jobs are over. Returns the reason if the run was given up.
async fn until_over(
    setup: &Setup,
    tracked: &SharedTracker,
    sampler: &mut Sampler,
    start: Instant,
    work: impl Future<Output = Result<()>>,
) -> Result<Option<String>> {
    let patience = Duration::from_secs(setup.scenario.timeout_seconds);
    let deleted =
        |group: &str| setup.scenario.groups.iter().any(|one| one.name == group && one.outcome == "Deleted");
    let mut ticks = tokio::time::interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut work, mut is_done, mut looks) = (Box::pin(work), false, 0_u32);
    loop {
        tokio::select! {
            biased;
            done = &mut work, if !is_done => {
                done?;
                is_done = true;
            }
            _ = ticks.tick() => {
                sampler.sample().await?;
                looks += 1;
                if looks % PROGRESS_EVERY == 0 {
                    print_progress(setup, tracked, start);
                }
                if is_done && lock(tracked).is_over(deleted) {
                    print_progress(setup, tracked, start);
                    return Ok(None);
                }
                if start.elapsed() > patience {
                    return Ok(Some(format!("the jobs are not over after {} s", patience.as_secs())));
                }
            }
        }
    }
}

fn print_progress(setup: &Setup, tracked: &SharedTracker, start: Instant) {
    let tracker = lock(tracked);
    let counts =
        tracker.names().counted.iter().map(|(name, phase)| format!("{name} {}", tracker.count(*phase)));
    eprintln!(
        "{:4.0} s: of {} {}",
        start.elapsed().as_secs_f64(),
        count(setup.scenario.jobs(), "job"),
        counts.collect::<Vec<_>>().join(", "),
    );
}

/// The counters after they have come to rest.
struct Settled {
    counted: Option<Counted>,
    controller: Option<Scrapes>,
    controller_count: Option<usize>,
}

/// Waits until the controller's counters are stable and the log has all requests that they count.
async fn settle(setup: &Setup, before: &Before, log: Option<&Log>) -> Result<Settled> {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    let count_of = |scrapes: &Scrapes| counted_requests(&scrapes.sum, setup.system);
    let count_before = before.controller.as_ref().and_then(count_of);
    let mut last = None;
    loop {
        let controller = scrape(setup.metrics.as_ref()).await?;
        let now = controller.as_ref().and_then(count_of);
        let rests = now.is_none() || last == now;
        last = now;
        let controller_count = now.map(|now| now.saturating_sub(count_before.unwrap_or(0)));
        let is_late = Instant::now() > deadline;
        if rests || is_late {
            let counted =
                log.map(|log| Counted::read(log, before.mark, before.wall, setup.system)).transpose()?;
            let agrees = match (&counted, controller_count) {
                (Some(counted), Some(controller_count)) => counted.difference(controller_count) == 0,
                _ => true,
            };
            if agrees || is_late {
                return Ok(Settled { counted, controller, controller_count });
            }
        }
        tokio::time::sleep(SAMPLE_EVERY).await;
    }
}

async fn compile(
    setup: &Setup,
    tracked: &SharedTracker,
    sampler: &Sampler,
    before: &Before,
    log: Option<&Log>,
    elapsed: f64,
    given_up: Option<String>,
) -> Result<Run> {
    let scenario = &setup.scenario;
    let settled = settle(setup, before, log).await?;
    let api_server = scrape_server(&setup.namespace.client).await.ok();
    let (processes, mut series) = sampler.report(scenario.tasks());
    let requests = match &settled.counted {
        Some(counted) => counted.report(scenario, setup.system, settled.controller_count),
        None => Requests { source: "none".into(), ..Requests::default() },
    };
    series.extend(settled.counted.iter().flat_map(|counted| counted.series(elapsed)));
    let tracker = lock(tracked);
    let mut latencies = tracker.latencies();
    let nodes = settled.counted.iter().flat_map(|counted| counted.nodes.latencies());
    latencies.extend(nodes.flat_map(|(name, seconds)| latency(name, "fake nodes", seconds)));
    series.extend(tracker.series(before.start, elapsed));
    let (first, last) = (before.controller.as_ref(), settled.controller.as_ref());
    let (earlier, later) = (first.map(|all| &all.sum), last.map(|all| &all.sum));
    let written = growth(earlier, later, "frameworkcontroller_status_write_bytes_total");
    let store = growth(before.api_server.as_ref(), api_server.as_ref(), "apiserver_storage_size_bytes");
    let per_task = |counter: &str| {
        let allocated = growth(before.api_server.as_ref(), api_server.as_ref(), counter)?;
        Some(allocated / scenario.tasks().max(1) as f64)
    };
    let turns = |share| later?.bound(earlier, "frameworkcontroller_turn_duration_seconds", share);
    // The Tasks of ended jobs are known only when all jobs are over: jobs differ in size.
    let ended = if given_up.is_none() { scenario.tasks() } else { 0 };
    let mut run = Run {
        system: setup.name.clone(),
        profile: setup.profile.clone(),
        started_at: before.wall,
        elapsed_seconds: elapsed,
        given_up,
        totals: totals(scenario, &tracker, settled.counted.as_ref()),
        throughput: Throughput {
            jobs_per_second: tracker.count(Phase::Completed) as f64 / elapsed,
            tasks_per_second: ended as f64 / elapsed,
        },
        latencies,
        queue_age_seconds: sampler.queue_age(),
        queue: scenario.queue.as_ref().map(|queues| admission::judge(scenario, queues, &tracker, turns)),
        requests,
        bytes: Bytes {
            status_writes: written.map(|bytes| bytes as u64),
            status_writes_per_task: written.map(|bytes| bytes / scenario.tasks() as f64),
            store_growth: store.map(|bytes| bytes as i64),
            watch_events: sampler::watched_bytes(before.api_server.as_ref(), api_server.as_ref()),
            api_server_allocated_per_task: per_task(sampler::ALLOCATED_BYTES),
            api_server_objects_per_task: per_task(sampler::ALLOCATED_OBJECTS),
        },
        used: Used {
            processes,
            replicas: rows(sampler.processes(CONTROLLER, scenario.tasks()), first, last, setup.system),
        },
        levels: Vec::new(),
        series,
    };
    run.levels = levels::judge(scenario, &run, setup.promises);
    Ok(run)
}

fn totals(scenario: &Scenario, tracker: &Tracker, counted: Option<&Counted>) -> Totals {
    let tasks = |group: &str| {
        scenario.groups.iter().find(|one| one.name == group).map_or(0, crate::scenario::Group::tasks)
    };
    let mut by_outcome = BTreeMap::new();
    for ((group, outcome), count) in tracker.outcomes() {
        let wanted = scenario.groups.iter().find(|one| one.name == group).map(|one| one.outcome.as_str());
        // A Framework that ends by deletion has succeeded or failed before.
        let outcome = match (wanted, outcome) {
            (Some("Deleted"), "Succeeded" | "Failed") => "Deleted",
            (_, outcome) => outcome,
        };
        *by_outcome.entry(outcome.to_owned()).or_default() += count;
    }
    Totals {
        jobs: scenario.jobs(),
        tasks: scenario.tasks(),
        pods: counted.map_or(0, |counted| counted.pods),
        peak_tasks: Some(tracker.peak(tasks)),
        outcomes: by_outcome,
        kills: Vec::new(),
    }
}
