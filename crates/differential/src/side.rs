//! One side of the comparison: a control plane, a controller on it, and the Frameworks that both show.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use framework_api::Framework;
use framework_testcluster::{Cluster, Options};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams};
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::example::Example;
use crate::kubelet::Kubelet;

/// How long a controller may take until Frameworks are served.
const READY: Duration = Duration::from_secs(120);
const EVERY: Duration = Duration::from_millis(100);

/// The settings of both controllers beside their default files: no limit that matters, and a retry
/// delay that is short and not random. The original ignores keys that only ours has; a delay after short runs
/// would make ours the only one that waits.
const SETTINGS: &str = "
kubeClientQps: 2000
kubeClientBurst: 4000
workerNumber: 100
frameworkMinRetryDelaySecForTransientConflictFailed: 4
frameworkMaxRetryDelaySecForTransientConflictFailed: 4
retryBackoffShortRunSec: 0
metricsAddress: 127.0.0.1:0
";

/// The Frameworks of a side by name, as last seen.
type Frameworks = BTreeMap<String, Arc<Framework>>;

/// A controller's program, and the files and tools it needs.
///
/// All are started alike: in a directory with their config file, with no arguments.
#[derive(Clone)]
pub(crate) struct Controller {
    pub(crate) program: PathBuf,
    /// The CRDs, for one that does not install them by itself.
    pub(crate) crds: Option<PathBuf>,
    /// The config file that is shipped with it.
    pub(crate) config: String,
    /// Whether examples are applied: they need kubectl, and a scheduler that binds none of their Pods.
    pub(crate) examples: bool,
}

/// A side.
pub(crate) struct Side {
    /// Its name in reports.
    pub(crate) name: &'static str,
    pub(crate) frameworks: Api<Framework>,
    pub(crate) pods: Api<Pod>,
    pub(crate) config_maps: Api<ConfigMap>,
    pub(crate) kubelet: Kubelet,
    log: PathBuf,
    seen: watch::Sender<Frameworks>,
    cluster: Cluster,
}

impl Side {
    /// Starts the control plane and the controller in `dir`, and waits until Frameworks can be created.
    pub(crate) async fn start(name: &'static str, controller: Controller, dir: PathBuf) -> Result<Side> {
        let log = dir.join(name).with_extension("log");
        let started = tokio::task::spawn_blocking(move || launch(name, &controller, &dir));
        let cluster = started.await??;
        let client = cluster.client();
        let pods = Api::<Pod>::default_namespaced(client.clone());
        let side = Side {
            name,
            frameworks: Api::default_namespaced(client.clone()),
            config_maps: Api::default_namespaced(client),
            kubelet: Kubelet::new(pods.clone()),
            pods,
            log,
            seen: watch::Sender::default(),
            cluster,
        };
        let deadline = Instant::now() + READY;
        while let Err(error) = side.frameworks.list(&ListParams::default()).await {
            side.cluster.check()?;
            if Instant::now() > deadline {
                return Err(error).with_context(|| format!("{name}: Frameworks are not served"));
            }
            tokio::time::sleep(EVERY).await;
        }
        Ok(side)
    }

    /// Follows the Frameworks and runs the kubelet, until it is dropped or something fails.
    pub(crate) async fn work(&self) -> Result<()> {
        tokio::try_join!(self.follow(), self.kubelet.work(), self.guard())?;
        Ok(())
    }

    async fn follow(&self) -> Result<()> {
        let mut events = watcher(self.frameworks.clone(), watcher::Config::default()).boxed();
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                // The watcher tries again by itself.
                Err(error) => {
                    eprintln!("{}: the watch of Frameworks was interrupted: {error}", self.name);
                    continue;
                }
            };
            self.seen.send_if_modified(|seen| match event {
                Event::Apply(framework) | Event::InitApply(framework) => {
                    let name = framework.metadata.name.clone().unwrap_or_default();
                    seen.insert(name, Arc::new(framework));
                    true
                }
                Event::Delete(framework) => {
                    seen.remove(framework.metadata.name.as_deref().unwrap_or_default());
                    true
                }
                Event::Init | Event::InitDone => false,
            });
        }
        bail!("{}: the watch of Frameworks ended", self.name)
    }

    /// Fails when the controller or a component of its control plane ends.
    async fn guard(&self) -> Result<()> {
        loop {
            let state = self.cluster.check();
            state.with_context(|| format!("{}: see {}", self.name, self.log.display()))?;
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Waits until the condition holds for a Framework, or for its absence.
    pub(crate) async fn wait(
        &self,
        name: &str,
        patience: Duration,
        mut is: impl FnMut(Option<&Framework>) -> bool,
    ) -> Option<Option<Arc<Framework>>> {
        let mut seen = self.seen.subscribe();
        let asked = seen.wait_for(|seen| is(seen.get(name).map(AsRef::as_ref)));
        let seen = tokio::time::timeout(patience, asked).await.ok()?.ok()?;
        Some(seen.get(name).cloned())
    }

    /// A Framework as last seen.
    pub(crate) fn framework(&self, name: &str) -> Option<Arc<Framework>> {
        self.seen.borrow().get(name).cloned()
    }

    /// Applies a manifest, as a user does.
    pub(crate) fn apply(&self, manifest: &str) -> Result<()> {
        self.kubectl(&["apply", "-f", "-"], manifest)
    }

    /// Runs kubectl with this input. It blocks the few requests of this side, and of the other one alike.
    pub(crate) fn kubectl(&self, arguments: &[&str], input: &str) -> Result<()> {
        let output = self.cluster.kubectl_as("admin", arguments, input)?;
        ensure!(output.status.success(), "{}: kubectl {arguments:?}: {}", self.name, output.stderr);
        Ok(())
    }

    /// Does all that an example needs before its Framework.
    pub(crate) fn prepare(&self, example: &Example) -> Result<()> {
        for command in &example.commands {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            match self.kubectl(&command, "") {
                // Several examples show the same commands.
                Err(error) if !error.to_string().contains("AlreadyExists") => return Err(error),
                _ => {}
            }
        }
        example.others.iter().try_for_each(|manifest| self.apply(manifest))
    }

    /// The log of the controller.
    pub(crate) fn log(&self) -> Result<String> {
        let log = fs::read(&self.log).with_context(|| format!("reading {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }
}

fn launch(name: &'static str, controller: &Controller, dir: &Path) -> Result<Cluster> {
    let (nodes, kubectl) = if controller.examples { (0, true) } else { (1, false) };
    let options = Options { nodes, audit_bodies: false, kubectl, ..Options::default() };
    let cluster = Cluster::start(options)?;
    if let Some(crds) = &controller.crds {
        cluster.install(crds)?;
    }
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    // The log of an earlier run is not this one's.
    let _ = fs::remove_file(dir.join(name).with_extension("log"));
    let config = dir.join("frameworkcontroller.yaml");
    fs::write(&config, format!("{}{SETTINGS}", controller.config))
        .with_context(|| format!("writing {}", config.display()))?;
    cluster.host(name, &controller.program, &[], dir)?;
    Ok(cluster)
}
