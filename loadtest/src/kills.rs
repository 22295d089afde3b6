//! Kills replicas of the controller during a run: their Pods are deleted at once, so that none hands over
//! its slots.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Preconditions};

use crate::report::Kill;

/// The label of the controller's Pods, as its manifests have it.
const LABEL: &str = "app.kubernetes.io/name=frameworkcontroller";
/// With fewer, a kill stops all work instead of handing a share of it to others.
const FEWEST: usize = 2;

/// The replicas that a run kills.
#[derive(Clone)]
pub struct Kills {
    /// The Pods in the namespace of the controller.
    pub pods: Api<Pod>,
    /// How often one is killed, first so long after the start of the run.
    pub every: Duration,
}

/// The kills so far.
pub type Killed = Arc<Mutex<Vec<Kill>>>;

/// Kills replicas, if the scenario kills some, until it is dropped.
pub async fn kill_in_turn(kills: Option<&Kills>, start: Instant, killed: &Killed) -> Result<Infallible> {
    match kills {
        Some(kills) => kills.go_on(start, killed).await,
        None => std::future::pending().await,
    }
}

impl Kills {
    /// An error if there are too few replicas.
    pub async fn check(&self) -> Result<()> {
        let count = self.replicas().await?.len();
        ensure!(
            count >= FEWEST,
            "replicaKills: {count} Pods have the label {LABEL}; at least {FEWEST} are needed"
        );
        Ok(())
    }

    /// Kills the oldest replica at each turn, unless those that were killed before are not back.
    async fn go_on(&self, start: Instant, killed: &Killed) -> Result<Infallible> {
        let mut turns = tokio::time::interval_at((start + self.every).into(), self.every);
        loop {
            turns.tick().await;
            let mut replicas = self.replicas().await?;
            if replicas.len() < FEWEST {
                eprintln!("no replica is killed at this turn: {} is there", replicas.len());
                continue;
            }
            replicas.sort_by_key(|pod| (pod.creation_timestamp(), pod.name_any()));
            let victim = &replicas[0];
            let name = victim.name_any();
            let at_once = DeleteParams {
                preconditions: Some(Preconditions { uid: victim.uid(), resource_version: None }),
                ..DeleteParams::default().grace_period(0)
            };
            self.pods.delete(&name, &at_once).await.with_context(|| format!("killing the Pod {name}"))?;
            let kill = Kill { replica: name, at_seconds: start.elapsed().as_secs_f64() };
            eprintln!("{:4.0} s: {} is killed", kill.at_seconds, kill.replica);
            killed.lock().unwrap_or_else(PoisonError::into_inner).push(kill);
        }
    }

    /// The Pods of the controller that are not being deleted.
    async fn replicas(&self) -> Result<Vec<Pod>> {
        let pods = self.pods.list(&ListParams::default().labels(LABEL)).await;
        let mut pods = pods.context("listing the Pods of the controller")?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }
}
