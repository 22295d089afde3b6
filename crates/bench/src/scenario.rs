//! `cargo xtask bench`: a scenario of the load test on a fresh control plane, with an optimised controller.
//!
//! Each system gets a control plane of its own, one after another on the same machine, because their ratio
//! counts. The audit log has no bodies there, as on clusters that carry load.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use framework_programs::output::note;
use framework_programs::workspace::root;
use framework_testcluster::{Cluster, Component, Options, audit_log};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};

use control_plane::options;
use controllers::{CONTROLLER, HOSTS, by_its_name, config_of, metrics_address, start, start_replica};
use keeper::Keeper;
use programs::Programs;
use task::{System, Task};

mod control_plane;
mod controllers;
mod cost;
mod keeper;
mod missed;
mod programs;
mod suite;
mod task;

const NODES: usize = 10;

/// The scenario, the systems that run it, and the directory of the report.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A scenario of loadtest/scenarios, without its extension, or another file. Without it all are run,
    /// which takes about two hours, and docs/performance.md and docs/capacity.md are rewritten.
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// The directory for report.json and report.html; for all scenarios, it has a directory for each.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    out: PathBuf,
    /// The systems that run it, one after another; the report is about the first.
    #[arg(
        long = "as",
        value_enum,
        value_delimiter = ',',
        default_value = "framework",
        value_name = "SYSTEMS",
        requires = "scenario"
    )]
    systems: Vec<System>,
    /// The requests that a controller of Frameworks may send in a second. Without --scenario, each has its
    /// own.
    #[arg(
        long,
        default_value_t = 5000,
        requires = "scenario",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    qps: u32,
    /// The numbers of replicas of this project's controller; with several, one run after another for each.
    /// More than one share the Frameworks by Leases.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1",
        value_name = "NUMBERS",
        requires = "scenario",
        value_parser = clap::value_parser!(u8).range(1..=HOSTS.len() as i64)
    )]
    replicas: Vec<u8>,
    /// The program of the original controller, for `--as reference`.
    #[arg(long, value_name = "PROGRAM")]
    reference: Option<PathBuf>,
    /// Multiplies the number of jobs and their arrival rate.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "scenario", value_parser = factor)]
    scale: f64,
    /// Multiplies the duration of the scenario: the number of jobs and all times in it, which are starts,
    /// runs, rescales, deadlines, TTLs and the time between kills. Rates, levels and `timeoutSeconds` stay.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "scenario", value_parser = factor)]
    shorten: f64,
    /// How many Pods kwok, which plays the kubelets, patches at the same time. On a busy API server few
    /// workers let thousands of Pods wait. Without --scenario, each has its own; otherwise kwok's default, 4.
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "scenario",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    kwok_workers: Option<u32>,
    /// Print where the time of the Frameworks of this group goes, from the audit log of each run.
    #[arg(long, value_name = "GROUP", requires = "scenario")]
    lives: Option<String>,
    #[command(flatten)]
    cost: cost::Arguments,
    /// Build nothing: take frameworkcontroller and loadtest from this directory.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

fn factor(text: &str) -> Result<f64, &'static str> {
    let factor = text.parse::<f64>().ok().filter(|factor| *factor > 0.0 && factor.is_finite());
    factor.ok_or("must be a number above 0")
}

/// Runs it; fails if a service level was missed, or if it could not be run.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.cost.chosen() {
        return arguments.cost.run(&Programs::find(arguments.programs.as_deref())?);
    }
    let out = std::path::absolute(&arguments.out)?;
    let tasks = match &arguments.scenario {
        Some(scenario) => {
            let (scenario, systems) = (scenario.clone(), arguments.systems.clone());
            let (replicas, shorten, qps) = (arguments.replicas.clone(), arguments.shorten, arguments.qps);
            let kwok_workers = arguments.kwok_workers;
            vec![Task { scenario, systems, replicas, shorten, qps, kwok_workers, out }]
        }
        None => suite::tasks(&out, arguments.reference.is_some()),
    };
    for task in &tasks {
        let is_there = scenario_file(&task.scenario).exists();
        ensure!(is_there, "there is no scenario {}: there are {}", task.scenario, scenarios()?.join(", "));
        ensure!(
            arguments.reference.is_some() || !task.systems.contains(&System::Reference),
            "--as reference needs --reference PROGRAM"
        );
        task.check()?;
    }
    if let Some(program) = &arguments.reference {
        ensure!(program.is_file(), "--reference: there is no program {}", program.display());
    }
    let programs = Programs::find(arguments.programs.as_deref())?;
    for task in &tasks {
        let mut check = std::process::Command::new(&programs.loadtest);
        let checked = check.arg("check").arg(scenario_file(&task.scenario)).stdout(Stdio::null()).status();
        ensure!(checked.context("starting the load test")?.success(), "{} is not valid", task.scenario);
    }
    let (mut missed, mut signals) = (Vec::new(), None);
    for task in &tasks {
        missed.extend(compare(task, arguments, &programs, &mut signals)?);
    }
    if arguments.scenario.is_none() {
        suite::keep(&tasks, &programs.loadtest)?;
    }
    ensure!(missed.is_empty(), "not all was kept:\n  {}", missed.join("\n  "));
    Ok(())
}

/// Runs a scenario by each of its systems, and leaves one report. Returns the missed service levels.
fn compare(
    task: &Task,
    arguments: &Arguments,
    programs: &Programs,
    signals: &mut Option<Signals>,
) -> Result<Vec<String>> {
    let mut reports = Vec::new();
    let mut missed = Vec::new();
    let variants = task.variants();
    for (system, replicas) in &variants {
        let name = format!("{system:?}").to_lowercase();
        let dir = match (variants.len(), task.replicas.len()) {
            (1, _) => task.out.clone(),
            (_, 1) => task.out.join(name),
            _ => task.out.join(format!("{name}-{replicas}")),
        };
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let report = dir.join("report.json");
        // A report of an earlier run would be taken for this one's.
        if report.exists() {
            fs::remove_file(&report).with_context(|| format!("removing {}", report.display()))?;
        }
        let kept = perform((*system, *replicas), task, arguments, programs, &dir, signals);
        if !kept.with_context(|| format!("{} by {system:?}", task.scenario))? {
            let what = missed::of(&report)?;
            missed.push(format!("{} by {system:?}: {}", task.scenario, what.join("; ")));
        }
        // A system that gave up at once has no report.
        if report.exists() {
            reports.push(report);
        }
    }
    if variants.len() > 1 {
        let mut merge = std::process::Command::new(&programs.loadtest);
        let merged = merge.arg("merge").args(&reports).arg("--out").arg(&task.out).status();
        ensure!(merged.context("starting the load test")?.success(), "the reports could not be merged");
    }
    Ok(missed)
}

/// The file of a scenario: a name with a `/` is a path.
fn scenario_file(name: &str) -> PathBuf {
    if name.contains('/') {
        return name.into();
    }
    root().join("loadtest/scenarios").join(name).with_extension("yaml")
}

/// Whether a scenario has a section.
fn has(name: &str, section: &str) -> Result<bool> {
    let text = fs::read_to_string(scenario_file(name)).context("reading the scenario")?;
    Ok(text.lines().any(|line| line.split_once(':').is_some_and(|(key, _)| key == section)))
}

/// The names of all scenarios.
fn scenarios() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("loadtest/scenarios")).context("listing the scenarios")? {
        names.push(entry?.path().file_stem().unwrap_or_default().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Runs the scenario by one system. Returns whether all service levels were kept.
fn perform(
    (system, replicas): (System, u8),
    task: &Task,
    arguments: &Arguments,
    programs: &Programs,
    out: &Path,
    signals: &mut Option<Signals>,
) -> Result<bool> {
    note("starting a control plane");
    let kwok_workers = task.kwok_workers;
    let cluster = Cluster::start(Options { nodes: NODES, kwok_workers, ..options() })?;
    cluster.install(&root().join("deploy/crds"))?;
    let mut command = tokio::process::Command::new(&programs.loadtest);
    command.arg("run").arg(scenario_file(&task.scenario)).arg("--out").arg(out);
    command.arg("--kubeconfig").arg(cluster.kubeconfig_path());
    command.arg("--audit-log").arg(audit_log(cluster.dir()));
    // The control plane goes with the run.
    command.args(["--cleanup", "false", "--scale", &arguments.scale.to_string()]);
    command.args(["--shorten", &task.shorten.to_string()]);
    for (name, component) in [
        ("kube-apiserver", Component::Apiserver),
        ("etcd", Component::Etcd),
        ("kwok", Component::Kwok),
        ("kube-controller-manager", Component::ControllerManager),
    ] {
        command.arg("--process").arg(format!("{name}={}", cluster.pid(component)?));
    }
    let mut keeper = None;
    match system {
        System::Framework | System::Recommended => {
            let has_queues = has(&task.scenario, "queue")?;
            let (config, profile) = config_of(system == System::Recommended, has_queues);
            let started = start_ours(&cluster, &programs.controller, replicas, &config, task.qps)?;
            for (name, pid) in &started {
                let address = metrics_address(&cluster, name)?;
                command.args(["--controller-metrics", &format!("http://{address}")]);
                command.args(["--process", &format!("{CONTROLLER}={pid}")]);
            }
            if replicas > 1 && has(&task.scenario, "replicaKills")? {
                command.args(["--controller-namespace", keeper::NAMESPACE]);
                let (cluster, program) = (&cluster, programs.controller.as_path());
                keeper = Some(Keeper { cluster, program, config, qps: task.qps, replicas: started });
            }
            let shared = if replicas == 1 { String::new() } else { format!(", {replicas} replicas") };
            command.args(["--profile", &format!("{profile}{shared}, kubeClientQps {}", task.qps)]);
        }
        System::Reference => {
            let program = arguments.reference.as_deref().context("--reference is needed")?;
            let pid = start(&cluster, &by_its_name(program, cluster.dir())?, "", task.qps)?;
            command.args([
                "--levels",
                "false",
                "--name",
                "the original",
                "--process",
                &format!("{CONTROLLER}={pid}"),
            ]);
            command.args(["--profile", &format!("defaults, kubeClientQps {}", task.qps)]);
        }
        System::Job => {
            command.args(["--as", "job"]);
        }
        System::Floor => {
            command.args(["--as", "floor"]);
        }
    }
    let watched = watch(&cluster, command, keeper, signals);
    for (name, copy) in [(CONTROLLER, "controller")].into_iter().chain(HOSTS.map(|host| (host, host))) {
        // Those that did not run have no log.
        let _ = fs::copy(cluster.dir().join(format!("{name}.log")), out.join(format!("{copy}.log")));
    }
    let kept = watched?;
    if let Some(group) = &arguments.lives {
        writeln!(io::stdout(), "{system:?}:")?;
        print_lives(group, &cluster, programs)?;
    }
    Ok(kept)
}

/// Prints where the time of the Frameworks of a group goes.
fn print_lives(group: &str, cluster: &Cluster, programs: &Programs) -> Result<()> {
    let mut lives = std::process::Command::new(&programs.loadtest);
    lives.arg("lives").arg(audit_log(cluster.dir())).args(["--group", group]);
    if !lives.status().context("starting the load test")?.success() {
        note(format_args!("there are no lives of group {group} to show"));
    }
    Ok(())
}

/// Starts our controller, or replicas of it. Returns their hosts and processes.
fn start_ours(
    cluster: &Cluster,
    program: &Path,
    replicas: u8,
    config: &str,
    qps: u32,
) -> Result<Vec<(&'static str, u32)>> {
    if replicas == 1 {
        return Ok(vec![(CONTROLLER, start(cluster, program, config, qps)?)]);
    }
    let hosts = HOSTS[..replicas.into()].iter();
    hosts.map(|host| Ok((*host, start_replica(cluster, program, host, config, qps)?))).collect()
}

/// The signals that ask this program to end. Once they are caught, they do not end it by themselves. So they
/// are kept from one run to the next: one that comes between two runs counts, too.
struct Signals {
    interrupts: Signal,
    terminations: Signal,
}

impl Signals {
    fn catch() -> Result<Signals> {
        let (interrupts, terminations) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Signals { interrupts, terminations })
    }
}

/// Waits for the load test, also after an interrupt: the load test handles it and writes a report. Afterwards
/// it is an error, so that no other run follows. SIGTERM is meant for this process alone, and ends both at
/// once.
fn watch(
    cluster: &Cluster,
    mut command: tokio::process::Command,
    keeper: Option<Keeper<'_>>,
    signals: &mut Option<Signals>,
) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let Signals { interrupts, terminations } = match signals {
            Some(caught) => caught,
            None => signals.insert(Signals::catch()?),
        };
        tokio::select! {
            biased;
            _ = interrupts.recv() => bail!("interrupted"),
            _ = terminations.recv() => bail!("interrupted"),
            // A new runtime learns of earlier signals when it waits for the first time.
            () = sleep(Duration::from_millis(1)) => {}
        }
        command.kill_on_drop(true);
        let status = tokio::select! {
            biased;
            _ = terminations.recv() => bail!("interrupted"),
            ended = run_beside(command, keeper) => ended?,
        };
        ensure!(timeout(Duration::ZERO, interrupts.recv()).await.is_err(), "interrupted");
        cluster.check()?;
        Ok(status.success())
    })
}

/// Runs the load test to its end, while the keeper replaces the replicas that it kills.
async fn run_beside(mut command: tokio::process::Command, keeper: Option<Keeper<'_>>) -> Result<ExitStatus> {
    let status = match keeper {
        None => command.status().await,
        Some(mut keeper) => {
            keeper.begin().await?;
            tokio::select! {
                biased;
                status = command.status() => status,
                Err(error) = keeper.keep() => return Err(error),
            }
        }
    };
    status.context("starting the load test")
}
