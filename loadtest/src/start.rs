//! `loadtest run`: a scenario on the cluster of a kubeconfig.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use framework_access::Directions;

use crate::machine;
use crate::namespace::Namespace;
use crate::output;
use crate::process::Watched;
use crate::report::{Report, Run, SCHEMA};
use crate::run::{Setup, run};
use crate::sampler::{Metrics, controller_version};
use crate::scenario::Scenario;
use crate::system::{FLOOR_AGENT, System};

/// What is run, where, and what can be looked at meanwhile.
#[derive(clap::Args)]
pub struct Arguments {
    /// The scenario: a file such as loadtest/scenarios/burst.yaml.
    scenario: PathBuf,
    /// Where report.json and report.html are written.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The cluster; by default that of KUBECONFIG, or the own one of a Pod.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace that jobs are created in; it is made if there is none, and removed with --cleanup then.
    #[arg(long, default_value = "loadtest")]
    namespace: String,
    /// Who does the work.
    #[arg(long = "as", value_enum, default_value = "framework")]
    system: System,
    /// What the report calls it.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// How it is set, for the report.
    #[arg(long, value_name = "TEXT", default_value = "")]
    profile: String,
    /// So many times as many jobs, arriving so many times as fast.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,
    /// As many jobs a second for so many times the time, and jobs that run so many times as long.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    shorten: f64,
    /// The API server's audit log, if it can be read here: the source of all counts of requests.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// The controller's metrics, such as http://127.0.0.1:8080.
    #[arg(long, value_name = "URL")]
    controller_metrics: Option<http::Uri>,
    /// A process on this machine whose processor time and memory are of interest, such as etcd=4711.
    #[arg(long, value_name = "NAME=PID")]
    process: Vec<Watched>,
    /// Whether the scenario's levels are held; only of a controller of Frameworks.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    levels: bool,
    /// Remove what earlier runs have left in the namespace.
    #[arg(long)]
    remove_leftovers: bool,
    /// Whether what the run creates is removed afterwards.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    cleanup: bool,
}

/// Runs it. The exit code says whether every job ended as it has to and every level was kept.
pub fn start(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let report = runtime.block_on(report(arguments))?;
    output::write(&report, &arguments.out)?;
    for run in &report.runs {
        print(run);
    }
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn report(arguments: &Arguments) -> Result<Report> {
    ensure!(arguments.scale > 0.0, "--scale: must be above 0");
    ensure!(arguments.shorten > 0.0, "--shorten: must be above 0");
    let scenario = Scenario::read(&arguments.scenario)?.scaled(arguments.scale).shortened(arguments.shorten);
    ensure!(
        scenario.queue.is_none() || arguments.system == System::Framework,
        "--as: only a controller of Frameworks releases QueueUnits"
    );
    let setup = setup(arguments, scenario.clone()).await?;
    let mut versions = versions(&setup).await?;
    versions.insert("loadtest".into(), env!("CARGO_PKG_VERSION").into());
    eprintln!(
        "{}: {} jobs with {} Tasks, by {}",
        scenario.name,
        scenario.jobs(),
        scenario.tasks(),
        setup.name
    );
    let interrupted = async {
        // Where no signal can be waited for, none comes.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        eprintln!("interrupted: the report tells what was seen so far");
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

async fn setup(arguments: &Arguments, scenario: Scenario) -> Result<Setup> {
    let directions = Directions {
        address: None,
        kubeconfig_file: arguments.kubeconfig.clone(),
        kubeconfig: std::env::var_os("KUBECONFIG"),
        home: std::env::var_os("HOME").map(PathBuf::from),
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
    Ok(Setup {
        scenario,
        system,
        name: arguments.name.clone().unwrap_or_else(|| system.name().into()),
        profile: arguments.profile.clone(),
        namespace: Namespace { client, name: arguments.namespace.clone() },
        audit_log: arguments.audit_log.clone(),
        metrics: arguments.controller_metrics.as_ref().map(Metrics::of).transpose()?,
        processes,
        promises: arguments.levels && arguments.system == System::Framework,
        remove_leftovers: arguments.remove_leftovers,
        cleanup: arguments.cleanup,
    })
}

async fn versions(setup: &Setup) -> Result<std::collections::BTreeMap<String, String>> {
    let mut versions = match &setup.metrics {
        Some(metrics) => controller_version(&metrics.scrape().await?),
        None => Default::default(),
    };
    let version =
        setup.namespace.client.apiserver_version().await.context("asking the API server's version")?;
    versions.insert("kubernetes".into(), version.git_version);
    Ok(versions)
}

/// What came of a run, in a few lines.
fn print(run: &Run) {
    let requests = &run.requests;
    let task = if run.queue.is_some() { "unit" } else { "Task" };
    println!(
        "{}: {:.1} s, {:.1} jobs/s, {:.1} Tasks/s",
        run.system, run.elapsed_seconds, run.jobs_per_second, run.tasks_per_second
    );
    if let Some(why) = &run.given_up {
        println!("given up: {why}");
    }
    if requests.source != "none" {
        let efficiency = requests.write_efficiency.map_or("unknown".into(), |share| format!("{share:.3}"));
        println!(
            "{} requests, {:.2} a {task}, {} refused, {} reads; write efficiency {efficiency}",
            requests.own, requests.per_task, requests.refused, requests.reads
        );
    }
    if let Some(queue) = &run.queue {
        let over = queue.over_admitted.map_or("not known".to_owned(), |over| over.to_string());
        println!(
            "{} units released, {:.1} a second; beyond the quota: {over}",
            queue.releases, queue.releases_per_second
        );
    }
    for process in &run.processes {
        println!(
            "{}: {:.1} s of processor time, {:.2} ms a {task}, {:.1} MiB at most",
            process.name,
            process.cpu_seconds,
            process.cpu_milliseconds_per_task,
            process.rss_peak_bytes as f64 / 1024.0 / 1024.0
        );
    }
    for level in &run.levels {
        let measured = level.measured.map_or("not measured".into(), |measured| format!("{measured:.3}"));
        println!(
            "{} {} {}: {measured}",
            if level.met { "kept  " } else { "MISSED" },
            level.name,
            level.bound
        );
    }
}
