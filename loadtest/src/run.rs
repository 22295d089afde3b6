//! One run of a scenario by a system, and the report of it.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use crate::admission;
use crate::counters::{After, Before};
use crate::exposition::Scrape;
use crate::floor::{self, FloorClient};
use crate::follow::{SharedTracker, follow, lock};
use crate::generator::{AT_ONCE, Generator};
use crate::kills::{Killed, Kills, kill_in_turn};
use crate::levels;
use crate::metrics::{Metrics, growth, rows};
use crate::namespace::Namespace;
use crate::number::count;
use crate::partial_status::Phase;
use crate::phase_names::{JOBS, UNITS};
use crate::process::Watched;
use crate::report::{Bytes, Requests, Run, Throughput, Totals, Used};
use crate::sampler::{self, Sampler};
use crate::scenario::{Queues, Scenario};
use crate::system::System;
use crate::terminal::note;
use crate::tracker::{Tracker, latency};

/// The interval of samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// The number of samples between two lines of progress on standard error.
const PROGRESS_EVERY: u32 = 10;
/// The name of the controller's processes.
const CONTROLLER: &str = "frameworkcontroller";

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

/// Runs until all jobs are over, the scenario's timeout has passed, or `interrupted` is ready. A failure
/// during the run or after it is part of the report, and does not replace it.
pub async fn run(setup: &Setup, interrupted: impl Future<Output = ()>) -> Result<Run> {
    let id = format!("{:x}", Timestamp::now().as_millisecond());
    if let Some(kills) = &setup.kills {
        kills.check().await?;
    }
    let made = match &setup.scenario.queue {
        Some(queues) => prepare_queues(setup, queues, &id).await?,
        None => prepare(setup).await?,
    };
    let mut outcome = measure(setup, &id, interrupted).await;
    if setup.cleanup {
        note("removing the objects of the run");
        if let Err(error) = clean_up(setup, &id, made).await {
            let problem = format!("the objects of the run could not be removed: {error:#}");
            match &mut outcome {
                Ok(run) => run.totals.problems.push(problem),
                Err(_) => note(problem),
            }
        }
    }
    outcome
}

/// Removes the objects of the run, and the namespace if it was made for them.
async fn clean_up(setup: &Setup, id: &str, made: bool) -> Result<()> {
    if setup.system == System::Queue {
        setup.namespace.clear_queues(Some(id)).await?;
    } else {
        setup.namespace.clear(Some(id)).await?;
    }
    if made {
        setup.namespace.remove().await?;
    }
    Ok(())
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
        note(format_args!("removing {} of earlier load tests", count(left, "job")));
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
        note(format_args!("removing {} of earlier load tests", count(left, "namespace")));
        namespace.clear_queues(None).await?;
    }
    let (namespaces, each) = (count(queues.namespaces, "namespace"), count(queues.queues, "Queue"));
    note(format_args!("making {namespaces} with {each} each"));
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
    let client = &setup.namespace.client;
    let before = Before::read(client, setup.metrics.as_ref(), setup.audit_log.as_deref()).await?;
    let mut sampler = Sampler::begin(setup.metrics.clone(), setup.processes.clone(), before.start)?;
    generator.announce(before.start);
    let work = generator.create(before.start, before.wall);
    let why = |error: anyhow::Error| format!("{error:#}");
    let given_up = tokio::select! {
        biased;
        Err(error) = kill_in_turn(setup.kills.as_ref(), before.start, &killed) => Some(why(error)),
        followed = until_over(setup, &tracked, &mut sampler, before.start, work) => {
            followed.unwrap_or_else(|error| Some(why(error)))
        }
        () = interrupted => Some("interrupted".to_owned()),
    };
    let given_up = given_up.or(sampler.sample().await.err().map(why));
    let elapsed = elapsed(&tracked, before.start, given_up.is_some());
    let mut run = compile(setup, &tracked, &sampler, &before, elapsed, given_up).await;
    run.totals.kills = std::mem::take(&mut *killed.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(run)
}

/// The seconds until the last end if all jobs are over, otherwise until now.
fn elapsed(tracked: &SharedTracker, start: Instant, given_up: bool) -> f64 {
    let end = lock(tracked).last_end().filter(|_| !given_up);
    end.map_or_else(|| start.elapsed(), |end| end.saturating_duration_since(start)).as_secs_f64().max(0.001)
}

/// Samples every second until all jobs are over. Returns the reason if the run was given up. An error if a
/// job could not be created, or a process has ended.
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
    note(format_args!(
        "{:4.0} s: of {} {}",
        start.elapsed().as_secs_f64(),
        count(setup.scenario.jobs(), "job"),
        counts.collect::<Vec<_>>().join(", "),
    ));
}

/// The report of the run, with the figures that are known.
async fn compile(
    setup: &Setup,
    tracked: &SharedTracker,
    sampler: &Sampler,
    before: &Before,
    elapsed: f64,
    given_up: Option<String>,
) -> Run {
    let scenario = &setup.scenario;
    let after = After::read(&setup.namespace.client, setup.metrics.as_ref(), before, setup.system).await;
    let (processes, mut series) = sampler.report(scenario.tasks());
    let requests = match &after.counted {
        Some(counted) => counted.report(scenario, setup.system, after.controller_count),
        None => Requests { source: "none".into(), ..Requests::default() },
    };
    series.extend(after.counted.iter().flat_map(|counted| counted.series(elapsed)));
    let tracker = lock(tracked);
    let mut latencies = tracker.latencies();
    let nodes = after.counted.iter().flat_map(|counted| counted.nodes.latencies());
    latencies.extend(nodes.flat_map(|(name, seconds)| latency(name, "fake nodes", seconds)));
    series.extend(tracker.series(before.start, elapsed));
    let (first, last) = (before.controller.as_ref(), after.controller.as_ref());
    let (earlier, later) = (first.map(|all| &all.sum), last.map(|all| &all.sum));
    let written = growth(earlier, later, "frameworkcontroller_status_write_bytes_total");
    let servers = (before.api_server.as_ref(), after.api_server.as_ref());
    // No counter: a store that was compacted shrinks.
    let stored = |scrape: Option<&Scrape>| scrape?.total("apiserver_storage_size_bytes");
    let store = stored(servers.1).zip(stored(servers.0)).map(|(after, before)| after - before);
    let tasks = scenario.tasks().max(1) as f64;
    let per_task = |counter: &str| Some(growth(servers.0, servers.1, counter)? / tasks);
    let turns = |share| later?.bound(earlier, "frameworkcontroller_turn_duration_seconds", share);
    // The Tasks of ended jobs are known only when all jobs are over: jobs differ in size.
    let ended = if given_up.is_none() { scenario.tasks() } else { 0 };
    let mut run = Run {
        system: setup.name.clone(),
        profile: setup.profile.clone(),
        started_at: before.wall,
        elapsed_seconds: elapsed,
        given_up,
        totals: totals(scenario, &tracker, &after),
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
            status_writes_per_task: written.map(|bytes| bytes / tasks),
            store_growth: store.map(|bytes| bytes as i64),
            watch_events: sampler::watched_bytes(servers.0, servers.1),
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
    run
}

fn totals(scenario: &Scenario, tracker: &Tracker, after: &After) -> Totals {
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
        pods: after.counted.as_ref().map_or(0, |counted| counted.pods),
        peak_tasks: Some(tracker.peak(tasks)),
        outcomes: by_outcome,
        states: tracker.states(),
        kills: Vec::new(),
        problems: after.problems.clone(),
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::metrics::tests::answering;

    /// An API server that shows its metrics once, checks jobs in dry runs, and stores and deletes nothing.
    fn api_server() -> kube::Client {
        let mut was_measured = false;
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let code: u16 = match request.method().as_str() {
                "POST" if path.ends_with("/namespaces") => 409,
                "POST" if query.contains("dryRun") => 201,
                "POST" | "DELETE" => 500,
                _ if path == "/metrics" && std::mem::replace(&mut was_measured, true) => 500,
                _ => 200,
            };
            // An object, and a list of none.
            let found = json!({"metadata": {"name": "default", "resourceVersion": "1"}, "items": []});
            let refusal = json!({"status": "Failure", "message": "no", "code": code});
            let answer = if code < 400 { found } else { refusal };
            let is_watch = query.contains("watch=");
            async move {
                if is_watch {
                    std::future::pending::<()>().await;
                }
                http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))
            }
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_fails_reports_what_is_known_and_what_is_missing() {
        let text = "description: d\npinned: false\nlevels: {refused: 0}\n\
            groups: [{name: a, jobs: 1, taskRoles: [{name: w, taskNumber: 1}]}]";
        let log = tempfile::NamedTempFile::new().unwrap();
        // The wait for the replica, and the start of the run.
        let mut scrapes = ["frameworkcontroller_received_bytes_total 5\n"; 2].into_iter();
        let setup = Setup {
            scenario: Scenario::parse(text).unwrap(),
            system: System::Framework,
            name: "s".into(),
            profile: String::new(),
            namespace: Namespace { client: api_server(), name: "x".into() },
            audit_log: Some(log.path().to_owned()),
            metrics: Some(answering(move || scrapes.next())),
            processes: Vec::new(),
            kills: None,
            remove_leftovers: false,
            promises: true,
            cleanup: true,
        };
        let done = run(&setup, std::future::pending()).await.expect("a report");
        let why = done.given_up.unwrap_or_default();
        assert!(why.starts_with("creating a0: "), "{why}");
        let expected = [
            "reading the controller's metrics: /metrics answers 503",
            "has no request of the load test since the start of the run",
            "reading the API server's metrics: /metrics answers 500",
            "the objects of the run could not be removed: deleting Frameworks: ",
        ];
        let problems = done.totals.problems;
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}");
        }
        assert_eq!((done.totals.jobs, done.used.replicas.len()), (1, 1));
        assert_eq!(done.used.replicas[0].received_bytes, None);
        let refused = done.levels.iter().find(|level| level.name == "refused").unwrap();
        assert_eq!((done.requests.source.as_str(), refused.measured, refused.met), ("none", None, false));
    }
}
