//! One Framework's life under one controller: its outcome, and the requests to the API server.

use std::time::Duration;

use framework_sim::{Behaviour, History, Meta, Options, Rates, SimCluster, User, Verb, check};
use serde_json::Value;

use super::controller::{Controller, Setup};
use super::manifest::Manifest;
use super::wire::{Fuse, Moment};
use super::{SECOND, simulate};

/// How long a life may take.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A cluster in which nothing goes wrong by chance, and Pods take the same time to start and to end.
pub fn calm() -> Options {
    let exactly = |ms| Duration::from_millis(ms)..=Duration::from_millis(ms);
    let behaviour = Behaviour {
        schedule: exactly(10),
        start: exactly(50),
        run: exactly(1_000),
        terminate: exactly(500),
        ..Behaviour::default()
    };
    Options { rates: Rates::calm(), behaviour, ..Options::default() }
}

/// The outcome of a Framework, without names of instances and without times: two lives compare by it.
pub fn outcome(user: &User, framework: &str) -> String {
    let Some(framework) = user.get("frameworks", framework) else { return "gone".to_owned() };
    let status = &framework.opened()["status"];
    let mut lines = vec![line(status, "the Framework")];
    for role in status["attemptStatus"]["taskRoleStatuses"].as_array().into_iter().flatten() {
        for task in role["taskStatuses"].as_array().into_iter().flatten() {
            lines.push(line(task, &format!("{}-{}", role["name"].as_str().unwrap_or(""), task["index"])));
        }
    }
    lines.join("\n")
}

fn line(status: &Value, who: &str) -> String {
    let state = status["state"].as_str().unwrap_or("");
    let retried = &status["retryPolicyStatus"]["totalRetriedCount"];
    let code = &status["attemptStatus"]["completionStatus"]["code"];
    format!("{who}: {state} with {code} after {retried} retries")
}

/// Waits until a Framework is Completed, or gone.
pub async fn ended(cluster: &SimCluster, framework: &str) -> bool {
    let over = |user: &User| {
        let found = user.get("frameworks", framework);
        found.is_none_or(|found| found["status"]["state"] == "Completed" && !found.deleting())
    };
    cluster.until(PATIENCE, over).await
}

/// Waits until a Framework is Completed and all is quiet, and checks every promise. An error describes the
/// fault.
pub async fn lived_well(cluster: &SimCluster, framework: &str) -> Result<(), String> {
    if !ended(cluster, framework).await {
        let outcome = outcome(&cluster.user(), framework);
        return Err(format!("{framework} has not ended after {} s: {outcome}", PATIENCE.as_secs()));
    }
    if !cluster.settle(SECOND * 90, PATIENCE).await {
        return Err("it has ended, and changes go on and on".to_owned());
    }
    check::at_quiescence(&cluster.history()).map_err(|violation| violation.to_string())
}

/// The requests of the controllers but LISTs, watches and Events, as `verb plural` in order.
pub fn requests(history: &History) -> Vec<String> {
    let counted = |verb: Verb, plural: &str| {
        !matches!(verb, Verb::List | Verb::Watch) && ["frameworks", "configmaps", "pods"].contains(&plural)
    };
    let of_frameworks = history.exchanges.iter().filter(|one| counted(one.verb, &one.plural));
    of_frameworks.map(|one| format!("{:?} {}", one.verb, one.plural)).collect()
}

/// Runs a Framework under an undisturbed controller; `then` happens meanwhile. Returns the outcome.
pub fn lives<F: Future<Output = ()>>(manifest: Manifest, then: impl FnOnce(SimCluster) -> F) -> String {
    simulate(1, calm(), |cluster| async move {
        manifest.create(&cluster.user());
        let _controller = Controller::start(&cluster, 1, 1, &Setup::default());
        then(cluster.clone()).await;
        lived_well(&cluster, "job").await.unwrap();
        outcome(&cluster.user(), "job")
    })
}

/// Waits until the Framework `job` runs.
pub async fn until_running(cluster: &SimCluster) {
    let running = |user: &User| user.get("frameworks", "job").unwrap()["status"]["state"] == "AttemptRunning";
    assert!(cluster.until(SECOND * 60, running).await, "it never runs");
}

/// The outcome of a life in which the first controller ends at its n-th request, and another follows, both
/// set up so. `None`: it made fewer requests.
pub fn killed_at(job: &Manifest, nth: usize, moment: Moment, setup: &Setup) -> Option<String> {
    simulate(nth as u64, calm(), |cluster| async move {
        job.clone().create(&cluster.user());
        let fuse = Fuse::new(nth, moment);
        let first = Controller::start_fused(&cluster, 1, 1, setup, Some(fuse.clone()));
        tokio::select! {
            biased;
            () = fuse.blown() => {}
            _ = ended(&cluster, "job") => return None,
        }
        first.crash().await;
        let _second = Controller::start(&cluster, 2, 2, setup);
        lived_well(&cluster, "job").await.unwrap_or_else(|what| panic!("{moment:?} request {nth}: {what}"));
        Some(outcome(&cluster.user(), "job"))
    })
}
