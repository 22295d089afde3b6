//! The testbed of the demo: a control plane with the controller beside it.
//!
//! Without `--keep` this process holds the cluster, so that nothing can outlive it. With `--keep` the holder
//! is the process that `cargo xtask cluster down` stops. Until the demo has ended, this value stops it too.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use framework_programs::output::note;
use framework_programs::workspace::{cluster_home, root};
use framework_testcluster::{Cluster, Options, audit, audit_log};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::cluster::{self, State};

/// The cluster of the demo.
pub(crate) enum Testbed {
    /// Held by this process.
    Own(Box<Own>),
    /// Held by a process that stays.
    Held(Held),
}

/// A cluster that this process holds.
pub(crate) struct Own {
    pub(crate) cluster: Cluster,
    /// The directory for the configs and the logs of controllers.
    pub(crate) logs: PathBuf,
    /// Keeps other demos out of that directory.
    _lock: File,
}

/// A cluster that another process holds, stopped with this value unless it is kept.
pub(crate) struct Held {
    state: State,
    kept: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = if self.kept { Ok(()) } else { cluster::down() } {
            note(format_args!("{error:#}"));
        }
    }
}

impl Testbed {
    /// Fails if another cluster is up where this one is to stay.
    pub(crate) fn check_free(keep: bool) -> Result<()> {
        let free = !keep || State::read().is_none();
        ensure!(free, "a cluster is up already: stop it with `cargo xtask cluster down`");
        Ok(())
    }

    /// Starts the control plane and, on it, the controller. Blocks.
    pub(crate) fn prepare(keep: bool, controller: &Path, given_up: &AtomicBool) -> Result<Testbed> {
        let (testbed, pid, log) = if keep {
            Testbed::check_free(keep)?;
            let held = Held { state: cluster::start(Some(controller), given_up)?, kept: false };
            let pid = held.state.controller.context("the cluster has no controller")?;
            (Testbed::Held(held), pid, cluster::controller_log(&cluster_home()))
        } else {
            let own = Own::start()?;
            let pid = cluster::host(&own.cluster, controller, &own.logs)?;
            let log = cluster::controller_log(&own.logs);
            (Testbed::Own(Box::new(own)), pid, log)
        };
        note(format_args!("the control plane is in {}", testbed.dir().display()));
        note(format_args!("the controller is process {pid} and logs to {}", log.display()));
        Ok(testbed)
    }

    /// Starts the control plane alone. Blocks.
    pub(crate) fn without_a_controller() -> Result<Testbed> {
        let own = Own::start()?;
        note(format_args!("the control plane is in {}", own.cluster.dir().display()));
        note(format_args!("the controllers log to {}", own.logs.display()));
        Ok(Testbed::Own(Box::new(own)))
    }

    /// The cluster, if this process holds it.
    pub(crate) fn own(&self) -> Option<&Own> {
        match self {
            Testbed::Own(own) => Some(own),
            Testbed::Held(_) => None,
        }
    }

    /// A client that may do everything.
    pub(crate) async fn client(&self) -> Result<kube::Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        // kube takes the proxy of the environment for every address, and this one is on this machine.
        config.proxy_url = None;
        Ok(kube::Client::try_from(config)?)
    }

    /// The audit log of the API server.
    pub(crate) fn audit(&self) -> audit::Log {
        audit::Log::new(audit_log(self.dir()))
    }

    /// Fails if the controller or a component of the control plane has ended.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Testbed::Own(own) => own.cluster.check()?,
            Testbed::Held(held) => {
                ensure!(State::read().is_some(), "the process that held the cluster has ended");
                let alive = held.state.controller.and_then(cluster::start_time).is_some();
                ensure!(alive, "the controller has ended");
            }
        }
        Ok(())
    }

    /// Stops the cluster, or keeps it and prints how to reach it. If it cannot be printed, the cluster stops.
    pub(crate) fn end(self) -> Result<()> {
        let Testbed::Held(mut held) = self else { return Ok(()) };
        let State { kubeconfig, programs, controller, .. } = &held.state;
        let controller = controller.map(|pid| format!(" (process {pid})")).unwrap_or_default();
        let all = format!("The cluster, the controller{controller} and the Frameworks");
        let mut out = io::stdout();
        writeln!(out, "\n{all} stay. Look at them with")?;
        writeln!(out, "  export KUBECONFIG={}", kubeconfig.display())?;
        writeln!(out, "  {} get frameworks", programs.join("kubectl").display())?;
        writeln!(out, "and stop them all with")?;
        writeln!(out, "  cargo xtask cluster down")?;
        held.kept = true;
        Ok(())
    }

    fn dir(&self) -> &Path {
        match self {
            Testbed::Own(own) => own.cluster.dir(),
            Testbed::Held(held) => &held.state.dir,
        }
    }

    fn kubeconfig(&self) -> &Path {
        match self {
            Testbed::Own(own) => own.cluster.kubeconfig_path(),
            Testbed::Held(held) => &held.state.kubeconfig,
        }
    }
}

impl Own {
    fn start() -> Result<Own> {
        let (logs, _lock) = logs(&cluster_home())?;
        note("starting the control plane");
        let cluster = Cluster::start(Options { kubectl: false, ..Options::default() })?;
        cluster.install(&root().join("deploy/crds"))?;
        Ok(Own { cluster, logs, _lock })
    }
}

/// A directory that no other demo writes to as long as the file is open: `demo`, `demo-2` and so on.
fn logs(home: &Path) -> Result<(PathBuf, File)> {
    let mut number = 1;
    loop {
        let dir = home.join(if number == 1 { "demo".to_owned() } else { format!("demo-{number}") });
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let path = dir.join("lock");
        let lock = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => return Ok((dir, lock)),
            Err(TryLockError::WouldBlock) => number += 1,
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", path.display()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demos_at_once_log_to_different_directories() {
        let home = tempfile::tempdir().unwrap();
        let (first, lock) = logs(home.path()).unwrap();
        let (second, _other) = logs(home.path()).unwrap();
        assert_ne!(first, second);
        drop(lock);
        assert_eq!(logs(home.path()).unwrap().0, first, "no demo uses it any more");
    }
}
