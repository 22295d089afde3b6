//! Replicas as a cluster keeps them: each has a Pod, is killed when that is deleted, and comes again with
//! another one.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use framework_testcluster::Cluster;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;
use tokio::time::sleep;

use super::controllers::start_replica;

/// The namespace of the Pods.
pub(super) const NAMESPACE: &str = "default";
/// The label by which the load test finds them.
const LABEL: (&str, &str) = ("app.kubernetes.io/name", "frameworkcontroller");
const EVERY: Duration = Duration::from_millis(100);
/// About how long a kubelet takes to start another container.
const RESTART: Duration = Duration::from_secs(2);

/// The running replicas, and how they are started.
pub(super) struct Keeper<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) program: &'a Path,
    pub(super) config: String,
    pub(super) qps: u32,
    /// Each by its host, with its process.
    pub(super) replicas: Vec<(&'static str, u32)>,
}

impl Keeper<'_> {
    /// Makes a Pod for each replica.
    pub(super) async fn begin(&self) -> Result<()> {
        let pods = self.pods();
        for (host, _) in &self.replicas {
            create(&pods, host).await?;
        }
        Ok(())
    }

    /// Kills and replaces replicas as their Pods are deleted, until it is dropped.
    pub(super) async fn keep(&mut self) -> Result<Infallible> {
        let pods = self.pods();
        loop {
            sleep(EVERY).await;
            let listed = pods.list(&ListParams::default()).await.context("listing the Pods of replicas")?;
            let there: BTreeSet<String> = listed.iter().map(ResourceExt::name_any).collect();
            for (host, pid) in self.replicas.iter_mut().filter(|(host, _)| !there.contains(*host)) {
                self.cluster.kill_hosted(*pid).with_context(|| format!("killing {host}"))?;
                sleep(RESTART).await;
                *pid = start_replica(self.cluster, self.program, host, &self.config, self.qps)?;
                create(&pods, host).await?;
            }
        }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), NAMESPACE)
    }
}

/// Creates the Pod of a replica, which no node runs: the process beside it stands for its container.
async fn create(pods: &Api<Pod>, host: &str) -> Result<()> {
    let pod = json!({
        "metadata": {"name": host, "labels": {LABEL.0: LABEL.1}},
        "spec": {
            "containers": [{"name": LABEL.1, "image": "none"}],
            "schedulingGates": [{"name": "example.com/not-scheduled"}],
        },
    });
    let pod = serde_json::from_value(pod).context("the Pod of a replica")?;
    pods.create(&Default::default(), &pod).await.with_context(|| format!("creating the Pod {host}"))?;
    Ok(())
}
