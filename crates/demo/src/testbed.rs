//! The testbed of the demo: a control plane with the controller beside it.
//!
//! Without `--keep` this process holds the cluster, so that nothing can outlive it. With `--keep` the holder
//! is the process that `cargo xtask cluster down` stops. Until the demo has ended, this value stops it too.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use framework_programs::workspace::{cluster_home, root};
use framework_testcluster::{Cluster, Options, audit, audit_log};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::cluster::{self, State};

/// The cluster of the demo.
pub(crate) enum Testbed {
    /// Held by this process.
    Own(Box<Cluster>),
    /// Held by a process that stays.
    Held(Held),
}

/// A cluster that another process holds, stopped with this value unless it is kept.
pub(crate) struct Held {
    state: State,
    kept: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = if self.kept { Ok(()) } else { cluster::down() } {
            eprintln!("{error:#}");
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
            let own = start()?;
            let dir = cluster_home().join("demo");
            let pid = cluster::host(&own, controller, &dir)?;
            (Testbed::Own(Box::new(own)), pid, cluster::controller_log(&dir))
        };
        eprintln!("the control plane is in {}", testbed.dir().display());
        eprintln!("the controller is process {pid} and logs to {}", log.display());
        Ok(testbed)
    }

    /// Starts the control plane alone. Blocks.
    pub(crate) fn without_a_controller() -> Result<Testbed> {
        let own = start()?;
        eprintln!("the control plane is in {}", own.dir().display());
        Ok(Testbed::Own(Box::new(own)))
    }

    /// The cluster, if this process holds it.
    pub(crate) fn own(&self) -> Option<&Cluster> {
        match self {
            Testbed::Own(cluster) => Some(cluster),
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
            Testbed::Own(cluster) => cluster.check()?,
            Testbed::Held(held) => {
                ensure!(State::read().is_some(), "the process that held the cluster has ended");
                let alive = held.state.controller.and_then(cluster::start_time).is_some();
                ensure!(alive, "the controller has ended");
            }
        }
        Ok(())
    }

    /// Stops the cluster, or keeps it and prints how to reach it.
    pub(crate) fn end(self) -> Result<()> {
        let Testbed::Held(mut held) = self else { return Ok(()) };
        held.kept = true;
        let State { kubeconfig, programs, controller, .. } = &held.state;
        let controller = controller.map(|pid| format!(" (process {pid})")).unwrap_or_default();
        println!("\nThe cluster, the controller{controller} and the Frameworks stay. Look at them with");
        println!("  export KUBECONFIG={}", kubeconfig.display());
        println!("  {} get frameworks", programs.join("kubectl").display());
        println!("and stop them all with");
        println!("  cargo xtask cluster down");
        Ok(())
    }

    fn dir(&self) -> &Path {
        match self {
            Testbed::Own(cluster) => cluster.dir(),
            Testbed::Held(held) => &held.state.dir,
        }
    }

    fn kubeconfig(&self) -> &Path {
        match self {
            Testbed::Own(cluster) => cluster.kubeconfig_path(),
            Testbed::Held(held) => &held.state.kubeconfig,
        }
    }
}

fn start() -> Result<Cluster> {
    eprintln!("starting the control plane");
    let own = Cluster::start(Options { kubectl: false, ..Options::default() })?;
    own.install(&root().join("deploy/crds"))?;
    Ok(own)
}
