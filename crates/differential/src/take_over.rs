//! The take-over of a live cluster, and the way back: one control plane, on which the original runs, then our
//! controller, then the original again.
//!
//! At each exchange there are Frameworks in the middle of everything that takes time. No Pod that runs may be
//! replaced, and each Framework has to go on under the next controller from the status that the one before
//! it stored. The commands are those of the page on compatibility. An earlier version of ours may stand in
//! the place of the original: that is an upgrade and a rollback.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use framework_api::Framework;
use framework_programs::workspace::root;
use framework_testcluster::{Cluster, Options};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::side::Controller;

mod cluster;
mod phase;
mod queue;

use cluster::{EVERY, Frameworks, PATIENCE, Uids, list, patiently};
use phase::Phase;
use queue::Queue;

/// The settings of both beside the delay of a retry: no limit that matters. The original ignores keys that
/// only ours has.
const SETTINGS: &str = "
kubeClientQps: 2000
kubeClientBurst: 4000
workerNumber: 100
largeFrameworkCompression: true
largeFrameworkCompressionCodec: gzip
retryBackoffShortRunSec: 0
metricsAddress: 127.0.0.1:0
";
/// Every status is stored in gzip, so that the original has to read many of them.
const OURS: &str = "largeFrameworkCompressionThresholdBytes: 0\n";

/// The cluster, and the directory of configs and logs.
struct TakeOver {
    cluster: Cluster,
    dir: PathBuf,
    frameworks: Api<Framework>,
    pods: Api<Pod>,
}

/// The objects after one controller had ended and before the other was started.
struct Exchange {
    frameworks: Frameworks,
    running: Uids,
    /// How many statuses were stored in gzip.
    compressed: usize,
    /// The Pods and units of the queue, if there is one.
    queued: Option<queue::Seen>,
}

/// Plays both exchanges with this many Frameworks each; fails where a Pod or a Framework suffers.
pub(crate) async fn run(original: &Controller, ours: &Controller, dir: PathBuf, number: usize) -> Result<()> {
    let options = Options { audit_bodies: false, ..Options::default() };
    let cluster = tokio::task::spawn_blocking(move || Cluster::start(options)).await??;
    let client = cluster.client();
    let (frameworks, pods) = (Api::default_namespaced(client.clone()), Api::default_namespaced(client));
    let stage = TakeOver { cluster, dir, frameworks, pods };
    if let Some(crds) = &original.crds {
        stage.cluster.install(crds)?;
    }

    // The original has neither CRDs of its own nor queues.
    let has_queues = original.crds.is_some();
    let (earlier, later) = match has_queues {
        true => (queue::SETTING.to_owned(), format!("{OURS}{}", queue::SETTING)),
        false => (String::new(), OURS.to_owned()),
    };

    let first = stage.start("reference", original, &earlier).await?;
    stage.begin("there", number).await?;
    let mut queue = if has_queues { Some(Queue::begin(&stage.cluster).await?) } else { None };
    let before = stage.exchange("reference", first, queue.as_ref()).await?;
    stage.replace_the_definition()?;
    let second = stage.start("ours", ours, &later).await?;
    stage.goes_on("from the reference to ours", &before, queue.as_mut()).await?;

    stage.begin("back", number).await?;
    let before = stage.exchange("ours", second, queue.as_ref()).await?;
    let _third = stage.start("reference-again", original, &earlier).await?;
    stage.goes_on("from ours to the reference", &before, queue.as_mut()).await?;
    stage.stop_all().await
}

impl TakeOver {
    /// Starts a controller, and waits until Frameworks are served.
    async fn start(&self, name: &'static str, controller: &Controller, settings: &str) -> Result<u32> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let delay = phase::retry_delay_settings();
        let config = format!("{}{SETTINGS}{delay}{settings}", controller.config);
        let file = dir.join("frameworkcontroller.yaml");
        fs::write(&file, config).with_context(|| format!("writing {}", file.display()))?;
        let pid = self.cluster.host(name, &controller.program, &[], &dir)?;
        let began = Instant::now();
        while let Err(error) = self.frameworks.list(&ListParams::default()).await {
            self.cluster.check()?;
            ensure!(began.elapsed() < PATIENCE, "{name}: Frameworks are not served: {error}");
            tokio::time::sleep(EVERY).await;
        }
        eprintln!("{name} runs");
        Ok(pid)
    }

    /// Creates Frameworks of all phases, and waits until each is in the middle of its own.
    async fn begin(&self, prefix: &str, number: usize) -> Result<()> {
        let phases = Phase::ALL.into_iter().cycle().take(number).enumerate();
        let all: Vec<(Phase, String)> =
            phases.map(|(place, phase)| (phase, phase.name(prefix, place))).collect();
        // Those that are in the middle for a short time come last.
        let (first, last): (Vec<_>, Vec<_>) = all.iter().partition(|(phase, _)| !phase.is_short());
        self.create(&first).await?;
        self.wait(&format!("the Frameworks {prefix} run"), |seen| {
            first.iter().all(|(phase, name)| seen.get(name).is_some_and(|it| phase.has_begun(it)))
        })
        .await?;
        self.create(&last).await?;
        for (phase, name) in &first {
            if let Some(patch) = phase.patch() {
                self.patch(name, &patch).await?;
            }
        }
        self.wait(&format!("the Frameworks {prefix} are in the middle"), |seen| {
            all.iter().all(|(phase, name)| seen.get(name).is_some_and(|it| phase.is_in_the_middle(it)))
        })
        .await
    }

    async fn create(&self, all: &[&(Phase, String)]) -> Result<()> {
        for (phase, name) in all {
            self.frameworks.create(&PostParams::default(), &phase.framework(name)?).await?;
        }
        Ok(())
    }

    /// Ends a controller as its StatefulSet or Deployment would, and records the objects it leaves.
    async fn exchange(&self, name: &str, pid: u32, queue: Option<&Queue>) -> Result<Exchange> {
        let queued = match queue {
            Some(queue) => Some(queue.settle().await.with_context(|| format!("{name} does not queue"))?),
            None => None,
        };
        let status = self.cluster.terminate_hosted(pid, Duration::from_secs(60));
        // Its code may be another than 0: the original ends by the signal.
        status.with_context(|| format!("{name} does not end"))?;
        let stored = self.frameworks.list(&ListParams::default()).await?.items;
        let texts = stored.iter().filter_map(|it| it.status.as_ref());
        let texts = texts.filter_map(|status| status.attempt_status.task_role_statuses_compressed.as_ref());
        let compressed = texts.filter(|text| text.starts_with("H4sI")).count();
        let frameworks = self.list().await?;
        for phase in Phase::ALL {
            let middle =
                |(name, it): (&String, &Framework)| Phase::of(name) == phase && phase.is_in_the_middle(it);
            ensure!(frameworks.iter().any(middle), "no Framework is in the middle any more: {phase:?}");
        }
        ensure!(compressed > 0, "{name} left no status in gzip");
        let running = self.running(&frameworks).await?;
        Ok(Exchange { frameworks, running, compressed, queued })
    }

    /// Waits until each Framework has gone on, and compares the Pods.
    async fn goes_on(&self, way: &str, before: &Exchange, queue: Option<&mut Queue>) -> Result<()> {
        if let (Some(queue), Some(queued)) = (queue, &before.queued) {
            queue.goes_on(way, queued).await?;
        }
        // Those that wait to be started are started by their user.
        for (name, framework) in &before.frameworks {
            if let Some(patch) = Phase::of(name).later().filter(|_| !Phase::of(name).is_over(framework)) {
                self.patch(name, &patch).await?;
            }
        }
        let went_on = |all: &Frameworks| -> Vec<String> {
            let stays = before
                .frameworks
                .iter()
                .filter(|(name, it)| !all.get(*name).is_some_and(|now| Phase::of(name).went_on(it, now)));
            stays.map(|(name, _)| name.clone()).collect()
        };
        let waited = self.wait("each Framework has gone on", |all| went_on(all).is_empty()).await;
        if waited.is_err() {
            let all = self.list().await?;
            waited.with_context(|| format!("{way}: {:?} did not", went_on(&all)))?;
        }
        let now = self.running(&self.list().await?).await?;
        let lost: Vec<&String> = before
            .running
            .iter()
            .filter(|(name, uid)| now.get(*name) != Some(uid))
            .map(|(name, _)| name)
            .collect();
        ensure!(lost.is_empty(), "{way}: these Pods did not stay: {lost:?}");
        println!(
            "{way}: {} Frameworks went on, {} of them with a status in gzip; all {} Pods that ran stayed",
            before.frameworks.len(),
            before.compressed,
            before.running.len()
        );
        Ok(())
    }

    /// Stops every Framework, and sees that each ends and leaves no Pod.
    async fn stop_all(&self) -> Result<()> {
        for (name, framework) in self.list().await? {
            if phase::code(&framework).is_none() {
                self.patch(&name, &json!({ "spec": { "executionType": "Stop" } })).await?;
            }
        }
        self.wait("every Framework has ended", |all| {
            all.iter().all(|(name, it)| phase::code(it) == Some(Phase::of(name).last_code()))
        })
        .await?;
        let began = Instant::now();
        loop {
            let pods = self.pods.list_metadata(&ListParams::default()).await?.items.len();
            if pods == 0 {
                println!("stopped: every Framework ended with its code, and no Pod is left");
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "{pods} Pods are left");
            tokio::time::sleep(EVERY).await;
        }
    }

    /// The step of the page: our definition in place of the original's.
    fn replace_the_definition(&self) -> Result<()> {
        let crds = root().join("deploy/crds");
        let crds = crds.to_string_lossy();
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", &crds];
        let output = self.cluster.kubectl_as("admin", &apply, "")?;
        ensure!(output.status.success(), "kubectl {apply:?}: {}", output.stderr);
        Ok(())
    }

    async fn patch(&self, name: &str, patch: &serde_json::Value) -> Result<()> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = patiently(|| self.frameworks.patch(name, &parameters, &patch)).await;
        patched.with_context(|| format!("patching {name}"))?;
        Ok(())
    }

    async fn wait(&self, what: &str, is: impl Fn(&Frameworks) -> bool) -> Result<()> {
        let began = Instant::now();
        while !is(&self.list().await?) {
            self.cluster.check().with_context(|| format!("see {}", self.dir.display()))?;
            ensure!(began.elapsed() < PATIENCE, "not after {} s: {what}", PATIENCE.as_secs());
            tokio::time::sleep(EVERY).await;
        }
        Ok(())
    }

    async fn list(&self) -> Result<Frameworks> {
        list(&self.frameworks).await
    }

    /// The Pods that have to stay: those of Tasks that run and are not being removed.
    async fn running(&self, frameworks: &Frameworks) -> Result<Uids> {
        let stays = |(name, _): &(&String, &Framework)| Phase::of(name).keeps_its_pods();
        let kept = frameworks.iter().filter(stays).flat_map(|(_, it)| phase::running_pods(it));
        let kept: Vec<String> = kept.collect();
        let pods = self.pods.list_metadata(&ListParams::default()).await?.items;
        let pods = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let uids = pods.filter_map(|pod| pod.metadata.name.zip(pod.metadata.uid));
        Ok(uids.filter(|(name, _)| kept.contains(name)).collect())
    }
}
