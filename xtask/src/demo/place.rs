//! Where the demo happens: a control plane with the controller beside it.
//!
//! Without `--keep` this process holds the cluster, so that nothing can outlive it. With `--keep` the holder
//! is the process that `cargo xtask cluster down` stops; until the demo comes to its end, this value stops it
//! too.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use framework_testcluster::{Cluster, Options, audit, audit_log};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::cluster::{self, State};

/// The cluster of the demo.
pub(crate) enum Place {
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

impl Place {
    /// An error if there is a cluster where the demo's is to stay.
    pub(crate) fn check_free(keep: bool) -> Result<()> {
        let free = !keep || State::read().is_none();
        ensure!(free, "a cluster is up already: stop it with `cargo xtask cluster down`");
        Ok(())
    }

    /// Starts the control plane and, on it, the controller. Blocks.
    pub(crate) fn prepare(keep: bool, controller: &Path, given_up: &AtomicBool) -> Result<Place> {
        let (place, pid, log) = if keep {
            Place::check_free(keep)?;
            let held = Held { state: cluster::start(Some(controller), given_up)?, kept: false };
            let pid = held.state.controller.context("the cluster has no controller")?;
            (Place::Held(held), pid, cluster::controller_log(&cluster::home()))
        } else {
            eprintln!("starting the control plane");
            let own = Cluster::start(Options::default())?;
            cluster::install(&own, &cluster::root().join("deploy/crds"))?;
            let dir = cluster::home().join("demo");
            let pid = cluster::host(&own, controller, &dir)?;
            (Place::Own(Box::new(own)), pid, cluster::controller_log(&dir))
        };
        eprintln!("the control plane is in {}", place.dir().display());
        eprintln!("the controller is process {pid} and logs to {}", log.display());
        Ok(place)
    }

    /// A client that may do everything.
    pub(crate) async fn client(&self) -> Result<kube::Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// What the API server was asked.
    pub(crate) fn audit(&self) -> audit::Log {
        audit::Log::new(audit_log(self.dir()))
    }

    /// An error if the controller, or what it needs, has ended.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Place::Own(cluster) => cluster.check()?,
            Place::Held(held) => {
                ensure!(State::read().is_some(), "the process that held the cluster has ended");
                let alive = held.state.controller.and_then(cluster::start_time).is_some();
                ensure!(alive, "the controller has ended");
            }
        }
        Ok(())
    }

    /// Ends what is not to be kept, and tells how to reach what is.
    pub(crate) fn end(self) -> Result<()> {
        let Place::Held(mut held) = self else { return Ok(()) };
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
            Place::Own(cluster) => cluster.dir(),
            Place::Held(held) => &held.state.dir,
        }
    }

    fn kubeconfig(&self) -> &Path {
        match self {
            Place::Own(cluster) => cluster.kubeconfig_path(),
            Place::Held(held) => &held.state.kubeconfig,
        }
    }
}
