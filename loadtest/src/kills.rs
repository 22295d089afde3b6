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
use crate::terminal::note;

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
        let count = self.replicas().await.context("listing the Pods of the controller")?.len();
        ensure!(
            count >= FEWEST,
            "replicaKills: {count} Pods have the label {LABEL}; at least {FEWEST} are needed"
        );
        Ok(())
    }

    /// Kills the oldest replica at each turn, unless those that were killed before are not back. A refused
    /// request costs its turn, not the run: the API server may be busy, and a Pod may go by itself. A lack of
    /// rights ends the run: nothing would ever be killed.
    async fn go_on(&self, start: Instant, killed: &Killed) -> Result<Infallible> {
        let mut turns = tokio::time::interval_at((start + self.every).into(), self.every);
        loop {
            turns.tick().await;
            match self.kill_oldest().await {
                Ok(Some(replica)) => {
                    let kill = Kill { replica, at_seconds: start.elapsed().as_secs_f64() };
                    note(format_args!("{:4.0} s: {} is killed", kill.at_seconds, kill.replica));
                    killed.lock().unwrap_or_else(PoisonError::into_inner).push(kill);
                }
                Ok(None) => {
                    note(format_args!("no replica is killed at this turn: fewer than {FEWEST} are there"));
                }
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    return Err(kube::Error::Api(status)).context("killing a Pod of the controller");
                }
                Err(error) => note(format_args!("no replica is killed at this turn: {error}")),
            }
        }
    }

    /// The name of the oldest replica, which is killed; nothing if too few are there.
    async fn kill_oldest(&self) -> kube::Result<Option<String>> {
        let replicas = self.replicas().await?;
        if replicas.len() < FEWEST {
            return Ok(None);
        }
        let age = |pod: &&Pod| (pod.creation_timestamp(), pod.name_any());
        let Some(oldest) = replicas.iter().min_by_key(age) else { return Ok(None) };
        let preconditions = Preconditions { uid: oldest.uid(), resource_version: None };
        let at_once = DeleteParams::default().grace_period(0).preconditions(preconditions);
        let name = oldest.name_any();
        self.pods.delete(&name, &at_once).await?;
        Ok(Some(name))
    }

    /// The Pods of the controller that are not being deleted.
    async fn replicas(&self) -> kube::Result<Vec<Pod>> {
        let mut pods = self.pods.list(&ListParams::default().labels(LABEL)).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// Pods of an API server that answers the requests with these codes. Each list has two Pods.
    fn pods(codes: Vec<u16>) -> Api<Pod> {
        let codes = Arc::new(Mutex::new(codes.into_iter()));
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let code = codes.lock().unwrap().next().expect("no more requests");
            let pod = |name: &str| json!({"metadata": {"name": name, "uid": name}});
            let answer = match code {
                200 => json!({"metadata": {}, "items": [pod("a"), pod("b")]}),
                _ => json!({"kind": "Status", "status": "Failure", "code": code, "reason": "r"}),
            };
            let body = Body::from(answer.to_string().into_bytes());
            std::future::ready(http::Response::builder().status(code).body(body))
        });
        Api::namespaced(kube::Client::new(service, "default"), "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_request_costs_a_turn_and_a_lack_of_rights_the_run() {
        // Turns: the list fails; another Pod has the name; the Pod is gone; one is killed, and its DELETE is
        // answered like a list; there is no right to delete.
        let codes = vec![500, 200, 409, 200, 404, 200, 200, 200, 403];
        let kills = Kills { pods: pods(codes), every: Duration::from_secs(30) };
        let killed = Killed::default();
        let ended = kills.go_on(Instant::now(), &killed).await.expect_err("no right");
        assert!(format!("{ended:#}").starts_with("killing a Pod of the controller: "), "{ended:#}");
        let killed: Vec<_> = killed.lock().unwrap().iter().map(|kill| kill.replica.clone()).collect();
        assert_eq!(killed, ["a"]);
    }
}
