//! `loadtest run`: a scenario on the cluster of a kubeconfig.

use std::fmt::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use framework_access::Directions;
use framework_access::proxy::Variables;
use kube::api::Api;
use tokio::signal::unix::{SignalKind, signal};

use crate::kills::Kills;
use crate::machine;
use crate::metrics::Metrics;
use crate::namespace::Namespace;
use crate::number::{count, rate, short, size, time, whole};
use crate::output;
use crate::process::Watched;
use crate::report::{Replica, Report, Run, SCHEMA};
use crate::run::{Setup, run};
use crate::sampler::controller_version;
use crate::scenario::Scenario;
use crate::system::{FLOOR_AGENT, System};
use crate::terminal::{note, print};

/// The arguments of `loadtest run`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The scenario file, such as loadtest/scenarios/burst.yaml.
    scenario: PathBuf,
    /// The directory for report.json and report.html.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The cluster; by default that of KUBECONFIG, or of the Pod that this runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the jobs. If it does not exist, it is created, and removed afterwards with --cleanup.
    #[arg(long, default_value = "loadtest")]
    namespace: String,
    /// The system that runs the jobs.
    #[arg(long = "as", value_enum, default_value = "framework")]
    system: System,
    /// The name of the system in the report.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// The settings of the system, for the report.
    #[arg(long, value_name = "TEXT", default_value = "")]
    profile: String,
    /// Multiply the number of jobs and the rate of their arrival.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,
    /// Multiply the duration of the scenario: the number of jobs and all times in it, which are starts, runs,
    /// rescales, deadlines, TTLs and the time between kills. Rates, levels and `timeoutSeconds` stay.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    shorten: f64,
    /// The API server's audit log, the source of all counts of requests.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// The address of the controller's metrics, such as http://127.0.0.1:8080. With several replicas, give it
    /// once for each.
    #[arg(long, value_name = "URL")]
    controller_metrics: Vec<http::Uri>,
    /// The file of the token that is sent to them.
    #[arg(long, value_name = "FILE")]
    controller_metrics_token: Option<PathBuf>,
    /// A process on this machine to measure, such as etcd=4711. Can be repeated. Processes of one name are
    /// added; those named frameworkcontroller are also reported one by one.
    #[arg(long, value_name = "NAME=PID")]
    process: Vec<Watched>,
    /// The namespace of the controller, whose Pods a scenario with `replicaKills` deletes.
    #[arg(long, default_value = "frameworkcontroller", value_name = "NAMESPACE")]
    controller_namespace: String,
    /// Apply the levels of the scenario; only to a controller of Frameworks.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    levels: bool,
    /// Remove the jobs of earlier runs first.
    #[arg(long)]
    remove_leftovers: bool,
    /// Remove the objects of the run afterwards.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    cleanup: bool,
}

/// Runs a scenario. The exit code is 0 if every job ended as its group says, every level is met, and nothing
/// is missing in the report.
pub fn start(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let report = runtime.block_on(report(arguments))?;
    let written = output::write(&report, &arguments.out);
    report.runs.iter().try_for_each(|run| print(shown(run)?))?;
    written?;
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn report(arguments: &Arguments) -> Result<Report> {
    ensure!(arguments.scale > 0.0, "--scale: must be above 0");
    ensure!(arguments.shorten > 0.0, "--shorten: must be above 0");
    let scenario = Scenario::read(&arguments.scenario)?.scaled(arguments.scale).shortened(arguments.shorten);
    scenario.check().context("with --scale and --shorten")?;
    ensure!(
        scenario.queue.is_none() || arguments.system == System::Framework,
        "--as: only `framework` releases QueueUnits"
    );
    output::check(&arguments.out)?;
    let setup = setup(arguments, scenario.clone()).await?;
    let mut versions = versions(&setup).await?;
    versions.insert("loadtest".into(), env!("CARGO_PKG_VERSION").into());
    note(format_args!(
        "{}: {} with {}, by {}",
        scenario.name,
        count(scenario.jobs(), "job"),
        count(scenario.tasks(), "Task"),
        setup.name
    ));
    let interrupted = async {
        // Without a signal handler, the run is never interrupted.
        if stop_signal().await.is_err() {
            std::future::pending::<()>().await;
        }
        note("interrupted: the report has the figures so far");
    };
    let done = run(&setup, interrupted).await?;
    Ok(Report {
        schema: SCHEMA.into(),
        scenario,
        machine: machine::this(!arguments.process.is_empty()),
        versions,
        write_efficiency: done.requests.write_efficiency,
        runs: vec![done],
    })
}

/// Waits until Ctrl-C or SIGTERM asks the run to end.
async fn stop_signal() -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        biased;
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn metrics(arguments: &Arguments) -> Result<Option<Metrics>> {
    let (urls, token) = (&arguments.controller_metrics, arguments.controller_metrics_token.as_deref());
    if urls.is_empty() { Ok(None) } else { Metrics::of(urls, token).map(Some) }
}

async fn setup(arguments: &Arguments, scenario: Scenario) -> Result<Setup> {
    let directions = Directions {
        address: None,
        kubeconfig_file: arguments.kubeconfig.clone(),
        kubeconfig: std::env::var_os("KUBECONFIG"),
        context: None,
        home: std::env::var_os("HOME").map(PathBuf::from),
        proxies: Variables::of_this_process(),
    };
    let config = framework_access::find(&directions).await?;
    let agent = match arguments.system {
        System::Floor => FLOOR_AGENT,
        System::Framework | System::Job | System::Queue => "loadtest",
    };
    let agent = format!("{agent}/{}", env!("CARGO_PKG_VERSION"));
    let client = framework_access::client::connect(config, &agent)?;
    let mut processes = arguments.process.clone();
    if !processes.is_empty() {
        processes.push(Watched { name: "loadtest".into(), pid: std::process::id() });
    }
    let system = if scenario.queue.is_some() { System::Queue } else { arguments.system };
    // The other systems have no replicas.
    let is_ours = arguments.system == System::Framework;
    let kills = scenario.replica_kills.filter(|_| is_ours).map(|kills| Kills {
        pods: Api::namespaced(client.clone(), &arguments.controller_namespace),
        every: Duration::from_secs(kills.every_seconds),
    });
    Ok(Setup {
        scenario,
        system,
        name: arguments.name.clone().unwrap_or_else(|| system.name().into()),
        profile: arguments.profile.clone(),
        namespace: Namespace { client, name: arguments.namespace.clone() },
        audit_log: arguments.audit_log.clone(),
        metrics: metrics(arguments)?,
        processes,
        kills,
        promises: arguments.levels && is_ours,
        remove_leftovers: arguments.remove_leftovers,
        cleanup: arguments.cleanup,
    })
}

async fn versions(setup: &Setup) -> Result<std::collections::BTreeMap<String, String>> {
    let mut versions = match &setup.metrics {
        Some(metrics) => controller_version(&metrics.scrape().await?.sum),
        None => Default::default(),
    };
    let version =
        setup.namespace.client.apiserver_version().await.context("asking the API server's version")?;
    versions.insert("kubernetes".into(), version.git_version);
    Ok(versions)
}

fn show_replicas(out: &mut String, replicas: &[Replica]) -> fmt::Result {
    for (at, replica) in replicas.iter().enumerate() {
        let known = [
            replica.slots.map(|slots| count(slots, "slot")),
            replica.requests.map(|requests| count(requests, "request")),
            replica.received_bytes.map(|bytes| format!("{} received", size(bytes as f64))),
            replica.process.as_ref().map(|process| time(process.cpu_seconds)),
            replica.process.as_ref().map(|process| size(process.rss_peak_bytes as f64)),
        ];
        writeln!(out, "replica {}: {}", at + 1, known.into_iter().flatten().collect::<Vec<_>>().join(", "))?;
    }
    Ok(())
}

/// The result of a run in a few lines.
fn shown(run: &Run) -> Result<String, fmt::Error> {
    let (requests, mut out) = (&run.requests, String::new());
    let task = if run.queue.is_some() { "unit" } else { "Task" };
    writeln!(
        out,
        "{}: {}, {}, {}",
        run.system,
        time(run.elapsed_seconds),
        rate(run.throughput.jobs_per_second, "job"),
        rate(run.throughput.tasks_per_second, "Task")
    )?;
    if let Some(why) = &run.given_up {
        writeln!(out, "given up: {why}")?;
    }
    for problem in &run.totals.problems {
        writeln!(out, "problem: {problem}")?;
    }
    if requests.source != "none" {
        let efficiency = requests.write_efficiency.map_or("not known".into(), short);
        writeln!(
            out,
            "{}, {} for each {task}, {} refused, {}; write efficiency {efficiency}",
            count(requests.own, "request"),
            short(requests.per_task),
            whole(requests.refused),
            count(requests.reads, "read")
        )?;
    }
    if let Some(queue) = &run.queue {
        let over = queue.over_admitted.map_or("not known".to_owned(), whole);
        writeln!(
            out,
            "{} released, {}; beyond the quota: {over}",
            count(queue.releases, "unit"),
            queue.releases_per_second.map_or("rate not known".to_owned(), |each| rate(each, "unit"))
        )?;
    }
    for kill in &run.totals.kills {
        writeln!(out, "{} was killed after {}", kill.replica, time(kill.at_seconds))?;
    }
    for process in &run.used.processes {
        writeln!(
            out,
            "{}: {} of processor time, {} for each {task}, at most {} of memory",
            process.name,
            time(process.cpu_seconds),
            time(process.cpu_milliseconds_per_task / 1000.0),
            size(process.rss_peak_bytes as f64)
        )?;
    }
    if run.used.replicas.len() > 1 {
        show_replicas(&mut out, &run.used.replicas)?;
    }
    for level in &run.levels {
        let measured = level.measured.map_or("not measured".into(), short);
        writeln!(
            out,
            "{} {} {}: {measured}",
            if level.met { "met   " } else { "MISSED" },
            level.name,
            level.bound
        )?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn both_signals_that_ask_a_program_to_end_end_a_run() {
        for signal in [Signal::TERM, Signal::INT] {
            let mut stopped = Box::pin(stop_signal());
            assert!(stopped.as_mut().now_or_never().is_none(), "nothing asks yet, and both are caught");
            kill_process(getpid(), signal).unwrap();
            stopped.await.unwrap();
        }
    }
}
