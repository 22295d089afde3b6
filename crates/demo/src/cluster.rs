//! `cargo xtask cluster up|down`: a control plane that stays, to try things on by hand.
//!
//! `up` starts this program again, detached, as `cluster serve`. That process holds the cluster, so that
//! nothing of the cluster can outlive it, however it ends. A state file in the work tree's `.cluster`
//! directory names the process; a state file whose process is gone is ignored.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use framework_api::pod_failure::DEFAULT_CONFIG;
use framework_programs::output::note;
use framework_programs::workspace::{cluster_home, root};
use framework_testcluster::{Cluster, Options, interrupt};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// How long `down` waits for the components to end before it kills their holder.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a Lease of a replica lasts without a renewal, in seconds: half of the default, as people wait.
pub(crate) const LEASE_SECONDS: u32 = 5;
/// The name of the controller's program and log.
const CONTROLLER: &str = "frameworkcontroller";
const EVERY: Duration = Duration::from_millis(50);

/// Starts, stops or holds the cluster.
#[derive(clap::Subcommand)]
pub(crate) enum ClusterCommand {
    /// Start it, install the CRDs, and print the path of its kubeconfig.
    Up,
    /// Stop it and remove its files.
    Down,
    /// Hold it until this process is stopped (`up` starts this).
    #[command(hide = true)]
    Serve {
        /// A controller to run against it.
        #[arg(long)]
        controller: Option<PathBuf>,
    },
}

/// Runs the command.
pub(crate) fn run(command: ClusterCommand) -> Result<()> {
    match command {
        ClusterCommand::Up => {
            let interrupted = Arc::new(AtomicBool::new(false));
            interrupt::run(up(Arc::clone(&interrupted)), &interrupted)
        }
        ClusterCommand::Down => down(),
        ClusterCommand::Serve { controller } => serve(controller.as_deref()),
    }
}

/// The process that holds the cluster, and how to reach the cluster.
#[derive(Serialize, Deserialize)]
pub(crate) struct State {
    pid: i32,
    /// When the process started: distinguishes it from a later process with the same pid.
    started: u64,
    pub(crate) dir: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) programs: PathBuf,
    /// The controller that runs against it, if the holder started one.
    pub(crate) controller: Option<i32>,
    /// Whether the directory stays when the cluster ends.
    #[serde(default)]
    keeps_dir: bool,
}

impl State {
    fn file() -> PathBuf {
        cluster_home().join("state.json")
    }

    /// The state, if its process still runs.
    pub(crate) fn read() -> Option<State> {
        let state: State = serde_json::from_slice(&fs::read(State::file()).ok()?).ok()?;
        state.is_held().then_some(state)
    }

    /// Whether its process still runs.
    fn is_held(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    /// Written whole or not at all: `up` reads it while it waits for it.
    fn write(&self) -> Result<()> {
        let unfinished = State::file().with_extension("unfinished");
        fs::write(&unfinished, serde_json::to_vec(self)?)?;
        fs::rename(&unfinished, State::file()).context("writing the state file")
    }
}

async fn up(interrupted: Arc<AtomicBool>) -> Result<()> {
    let state = match State::read() {
        Some(state) => {
            note("the cluster is already up");
            state
        }
        None => tokio::task::spawn_blocking(move || start(None, &interrupted)).await??,
    };
    note(format_args!("kubectl is in {}; logs are in {}", state.programs.display(), state.dir.display()));
    note("stop it with: cargo xtask cluster down");
    Ok(writeln!(io::stdout(), "{}", state.kubeconfig.display())?)
}

/// Starts the holder, and passes its progress on until the cluster is up, the holder ends, or `given_up` is
/// set.
pub(crate) fn start(controller: Option<&Path>, given_up: &AtomicBool) -> Result<State> {
    let home = cluster_home();
    fs::create_dir_all(&home).with_context(|| format!("creating {}", home.display()))?;
    let path = home.join("serve.log");
    let log = File::create(&path).context("creating the log")?;
    // This program, even if its file was replaced meanwhile.
    let mut holder = std::process::Command::new("/proc/self/exe")
        .arg0("framework-demo")
        .args(["cluster", "serve"])
        .args(controller.into_iter().flat_map(|path| [OsStr::new("--controller"), path.as_os_str()]))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // An interrupt from the terminal is not meant for it once this command is over.
        .process_group(0)
        .spawn()
        .context("starting the holder of the cluster")?;
    let state = follow(&mut holder, &mut File::open(&path)?, given_up);
    if state.is_err() {
        // It may be gone already; it ends the cluster with itself.
        let _ = holder.kill();
    }
    state
}

fn follow(holder: &mut Child, log: &mut File, given_up: &AtomicBool) -> Result<State> {
    loop {
        let ended = holder.try_wait()?;
        // After the check of the process, so that its last lines are not missed.
        let mut new = Vec::new();
        log.read_to_end(&mut new)?;
        io::stderr().write_all(&new)?;
        if let Some(status) = ended {
            bail!("the cluster did not start ({status})");
        }
        // Before the state: who was told that nothing is left running must not find a cluster.
        ensure!(!given_up.load(Ordering::Relaxed), "interrupted while the cluster started");
        if let Some(state) = State::read() {
            return Ok(state);
        }
        std::thread::sleep(EVERY);
    }
}

pub(crate) fn down() -> Result<()> {
    let Some(state) = State::read() else {
        note("the cluster is not up");
        return Ok(());
    };
    let pid = Pid::from_raw(state.pid).context("the state file names no process")?;
    note("stopping the cluster");
    kill_process(pid, Signal::TERM).context("stopping the holder of the cluster")?;
    if !gone_within(&state, PATIENCE) {
        // Once it has ended, its pid may be that of another process.
        if state.is_held() {
            kill_process(pid, Signal::KILL).context("killing the holder of the cluster")?;
        }
        let dir = state.dir.display();
        ensure!(gone_within(&state, PATIENCE), "process {} or its directory {dir} is still there", state.pid);
    }
    if state.keeps_dir {
        note(format_args!("its logs and data stay in {}", state.dir.display()));
    }
    fs::remove_file(State::file()).context("removing the state file")
}

/// Whether the holder ended in time, and the cluster's directory went with it unless it stays.
fn gone_within(state: &State, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while state.is_held() || !state.keeps_dir && state.dir.exists() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(EVERY);
    }
    true
}

fn serve(controller: Option<&Path>) -> Result<()> {
    let lock = File::create(cluster_home().join("lock")).context("creating the lock")?;
    // Held until this process ends: a killed `up` leaves a holder that is still starting.
    ensure!(lock.try_lock().is_ok(), "another cluster is being started or stopped: try again");
    note("starting the control plane");
    let began = Instant::now();
    let options = Options::default();
    let keeps_dir = options.keep;
    let cluster = Cluster::start(options)?;
    note(format_args!("the control plane is ready after {:.1} s", began.elapsed().as_secs_f64()));
    cluster.install(&root().join("deploy/crds"))?;
    let controller = controller.map(|program| host(&cluster, program, &cluster_home())).transpose()?;
    let pid = i32::try_from(std::process::id())?;
    State {
        pid,
        started: start_time(pid).context("reading when this process started")?,
        dir: cluster.dir().to_owned(),
        kubeconfig: cluster.kubeconfig_path().to_owned(),
        programs: cluster.programs().to_owned(),
        controller,
        keeps_dir,
    }
    .write()?;
    until_stopped()
}

/// Runs a controller against the cluster and with it, logging to `dir`; returns its pid.
pub(crate) fn host(cluster: &Cluster, program: &Path, dir: &Path) -> Result<i32> {
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    let log = controller_log(dir);
    File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    let config = dir.join("frameworkcontroller.yaml");
    // Any free port: several clusters may be up at the same time.
    fs::write(&config, format!("{DEFAULT_CONFIG}\nmetricsAddress: 127.0.0.1:0\nqueueing: true\n"))
        .with_context(|| format!("writing {}", config.display()))?;
    // It runs in that directory.
    let arguments = ["--config".into(), "frameworkcontroller.yaml".into()];
    Ok(i32::try_from(cluster.host(CONTROLLER, program, &arguments, dir)?)?)
}

/// Runs a replica of the controller on a host of that name, beside others; returns its pid. It logs to `dir`.
pub(crate) fn host_replica(cluster: &Cluster, program: &Path, host: &'static str, dir: &Path) -> Result<u32> {
    let config = format!("{host}.yaml");
    let sharing = format!("sharding: true\nleaseDurationSec: {LEASE_SECONDS}\nleaseRenewIntervalSec: 1\n");
    fs::write(dir.join(&config), format!("{DEFAULT_CONFIG}\nmetricsAddress: 127.0.0.1:0\n{sharing}"))
        .with_context(|| format!("writing {config}"))?;
    let program = program.to_str().context("the controller's path is no text")?.to_owned();
    let arguments = [format!("HOSTNAME={host}"), program, "--config".into(), config];
    Ok(cluster.host(host, Path::new("/usr/bin/env"), &arguments, dir)?)
}

/// Where a controller that [`host`] started logs to.
pub(crate) fn controller_log(dir: &Path) -> PathBuf {
    dir.join(CONTROLLER).with_extension("log")
}

fn until_stopped() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

/// When a process started, in clock ticks since boot; `None` if there is no such process.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; after it the state is the first field, the start time the
    // 20th.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (state != "Z").then_some(fields.nth(18)?.parse().ok()?)
}
