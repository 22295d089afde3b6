//! A queue in which Frameworks wait while the controllers are exchanged. Only versions of ours have queues.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use framework_api::Framework;
use framework_api::queue::{Phase, QUEUE_NAME_LABEL, QueueUnit};
use framework_testcluster::Cluster;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::cluster::{EVERY, Frameworks, PATIENCE, Uids, list};
use super::phase;

const NAMESPACE: &str = "queued";
/// The Pods of each Framework, and those that may run in the namespace: two Frameworks run, the others
/// wait.
const TASKS: usize = 3;
const ROOM: usize = 6;
const FRAMEWORKS: usize = 5;

/// The setting that makes a version of ours serve queues.
pub(super) const SETTING: &str = "queueing: true\n";

/// The namespace of the queue.
pub(super) struct Queue {
    frameworks: Api<Framework>,
    units: Api<QueueUnit>,
    pods: Api<Pod>,
    /// How many Frameworks were released so far.
    released: usize,
}

/// The Pods of the Frameworks that run, and the unit of each Framework.
pub(super) struct Seen {
    running: Uids,
    units: Uids,
}

impl Queue {
    /// Creates the queue, a quota, and Frameworks that run for ever once they are released.
    pub(super) async fn begin(cluster: &Cluster) -> Result<Queue> {
        cluster.namespace(NAMESPACE).await?;
        let client = cluster.client();
        let queue = Queue {
            frameworks: Api::namespaced(client.clone(), NAMESPACE),
            units: Api::namespaced(client.clone(), NAMESPACE),
            pods: Api::namespaced(client.clone(), NAMESPACE),
            released: ROOM / TASKS,
        };
        let post = PostParams::default();
        let object = json!({ "metadata": { "name": "q" }, "spec": {} });
        let queues: Api<framework_api::queue::Queue> = Api::namespaced(client.clone(), NAMESPACE);
        queues.create(&post, &serde_json::from_value(object)?).await.context("creating the queue")?;
        let object =
            json!({ "metadata": { "name": "room" }, "spec": { "hard": { "pods": ROOM.to_string() } } });
        let quotas: Api<ResourceQuota> = Api::namespaced(client, NAMESPACE);
        quotas.create(&post, &serde_json::from_value(object)?).await.context("creating the quota")?;
        for index in 0..FRAMEWORKS {
            let mut framework = phase::Phase::Endless.framework(&format!("gang{index}"))?;
            framework.metadata.labels = Some([(QUEUE_NAME_LABEL.to_owned(), "q".to_owned())].into());
            queue.frameworks.create(&post, &framework).await.context("creating a Framework in a queue")?;
        }
        Ok(queue)
    }

    /// Waits until as many run as there is room for, and the others wait or have ended.
    pub(super) async fn settle(&self) -> Result<Seen> {
        let running = ROOM / TASKS;
        let expected = [running, FRAMEWORKS - self.released, self.released - running];
        let began = Instant::now();
        loop {
            let counts = self.count().await?;
            let seen = self.look().await?;
            if counts == expected && seen.running.len() == ROOM {
                return Ok(seen);
            }
            let [running, waiting, over] = counts;
            ensure!(
                began.elapsed() < PATIENCE,
                "in the queue {running} Frameworks run, {waiting} wait and {over} have ended"
            );
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Stops a Framework that runs: the next one is released, and nothing else happens.
    pub(super) async fn goes_on(&mut self, way: &str, before: &Seen) -> Result<()> {
        let framework = self.running().await?.pop().context("no Framework of the queue runs")?;
        let stop = json!({ "spec": { "executionType": "Stop" } });
        self.frameworks.patch(&framework, &PatchParams::default(), &Patch::Merge(&stop)).await?;
        self.released += 1;
        let now = self.settle().await.with_context(|| format!("{way}: after the end of {framework}"))?;
        ensure!(
            now.units == before.units,
            "{way}: units were made again: {:?}, {:?}",
            before.units,
            now.units
        );
        let stopped = format!("{framework}-");
        let stay = before.running.iter().filter(|(pod, _)| !pod.starts_with(&stopped));
        let lost: Vec<&String> =
            stay.filter(|(pod, uid)| now.running.get(*pod) != Some(*uid)).map(|(pod, _)| pod).collect();
        ensure!(lost.is_empty(), "{way}: these Pods of the queue did not stay: {lost:?}");
        let waiting = FRAMEWORKS - self.released;
        println!("{way}: in the queue the next Framework was released, and {waiting} wait");
        Ok(())
    }

    async fn list(&self) -> Result<Frameworks> {
        list(&self.frameworks).await
    }

    /// The names of the Frameworks all of whose Tasks run.
    async fn running(&self) -> Result<Vec<String>> {
        let runs = |(_, it): &(String, Framework)| phase::running_pods(it).count() == TASKS;
        Ok(self.list().await?.into_iter().filter(runs).map(|(name, _)| name).collect())
    }

    /// How many Frameworks run, wait and have ended. No more are released than there was room for.
    async fn count(&self) -> Result<[usize; 3]> {
        let units = self.units.list(&ListParams::default()).await?.items;
        let is_released = |unit: &&QueueUnit| {
            unit.status.as_ref().is_some_and(|status| status.phase == Some(Phase::Dequeued))
        };
        let released = units.iter().filter(is_released).count();
        ensure!(released <= self.released, "{released} Frameworks of the queue were released");
        let over = self.list().await?.values().filter(|it| phase::code(it).is_some()).count();
        Ok([self.running().await?.len(), units.len() - released, over])
    }

    async fn look(&self) -> Result<Seen> {
        let pods = self.pods.list_metadata(&ListParams::default()).await?.items;
        let units = self.units.list_metadata(&ListParams::default()).await?.items;
        let uids = |name: Option<String>, uid: Option<String>| name.zip(uid);
        Ok(Seen {
            running: pods.into_iter().filter_map(|it| uids(it.metadata.name, it.metadata.uid)).collect(),
            units: units.into_iter().filter_map(|it| uids(it.metadata.name, it.metadata.uid)).collect(),
        })
    }
}
