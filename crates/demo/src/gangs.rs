//! `cargo xtask demo --queue`: two gangs and room for one, first without a queue, then with one.
//!
//! The Tasks of a gang need all their peers, so they run until all of them do. Then this program ends them,
//! as the job itself would.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use framework_api::queue::{QUEUE_NAME_LABEL, Queue};
use framework_api::{Framework, State};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::testbed::Testbed;

/// The number of Tasks of a gang.
const GANG: i32 = 40;
/// The number of Pods that the quota admits.
const ROOM: i32 = 41;
/// Both gangs hang if nothing changes for this time.
const UNCHANGED: Duration = Duration::from_secs(5);
/// The quota reports no usage for this time before the controller relies on it.
const SETTLED: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(120);
const EVERY: Duration = Duration::from_millis(200);
const GANGS: [&str; 2] = ["alpha", "beta"];
const EXIT_CODE: &str = "test.frameworkcontroller.microsoft.com/exit-code";

/// The two gangs and the objects around them.
struct Gangs<'a> {
    testbed: &'a Testbed,
    frameworks: Api<Framework>,
    pods: Api<Pod>,
    quotas: Api<ResourceQuota>,
    began: Instant,
    /// The last line that was printed about each gang.
    printed: BTreeMap<String, String>,
}

/// Shows the gangs without a queue, then in one.
pub(crate) async fn show(testbed: &Testbed) -> Result<()> {
    let client = testbed.client().await?;
    let quotas: Api<ResourceQuota> = Api::default_namespaced(client.clone());
    let hard = json!({"pods": ROOM.to_string()});
    create(&quotas, json!({"metadata": {"name": "room"}, "spec": {"hard": hard}})).await?;
    until_the_quota_is_in_force(&quotas).await?;
    let queues: Api<Queue> = Api::default_namespaced(client.clone());
    create(&queues, json!({"metadata": {"name": "default"}, "spec": {}})).await?;
    let mut gangs = Gangs {
        testbed,
        frameworks: Api::default_namespaced(client.clone()),
        pods: Api::default_namespaced(client),
        quotas,
        began: Instant::now(),
        printed: BTreeMap::new(),
    };
    let mut out = io::stdout();
    writeln!(out, "Two gangs of {GANG} Tasks, and a ResourceQuota with room for {ROOM} Pods.\n")?;
    writeln!(out, "Without a queue each gets a part of it:")?;
    gangs.run_without_a_queue().await?;
    writeln!(out, "\nIn a queue one goes first:")?;
    gangs.run_in_a_queue().await?;
    writeln!(out, "\nNo gang waited for Pods that the other one held.")?;
    Ok(())
}

async fn create<K>(api: &Api<K>, object: serde_json::Value) -> Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

/// Until the quota controller has counted a new quota, the API server holds no Pod to it.
async fn until_the_quota_is_in_force(quotas: &Api<ResourceQuota>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = quotas.get("room").await?.status.unwrap_or_default();
        let counts =
            |amounts: Option<BTreeMap<String, _>>| amounts.is_some_and(|all| all.contains_key("pods"));
        if counts(status.hard) && counts(status.used) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the quota is not in force after {} s", PATIENCE.as_secs());
        tokio::time::sleep(EVERY).await;
    }
}

/// A TaskRole whose Tasks run until their Pods are annotated with an exit code.
fn role(tasks: i32) -> serde_json::Value {
    let container = json!({"name": "main", "image": "busybox"});
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    json!({"name": "worker", "taskNumber": tasks, "task": {"pod": pod}})
}

/// The observed state of a gang.
struct Gang {
    running: i32,
    state: Option<State>,
    reason: String,
}

impl Gangs<'_> {
    /// Each gang gets some of its Tasks, and neither gets all of them. They start side by side: half of each,
    /// then the rest, as it happens among many jobs.
    async fn run_without_a_queue(&mut self) -> Result<()> {
        self.submit(None, GANG / 2).await?;
        self.until("both have half of their Tasks", |gangs| {
            gangs.iter().all(|gang| gang.running == GANG / 2)
        })
        .await?;
        for name in GANGS {
            let rest = Patch::Merge(json!({"spec": {"taskRoles": [role(GANG)]}}));
            self.frameworks.patch(name, &PatchParams::default(), &rest).await?;
        }
        let mut since = Instant::now();
        let mut before = Vec::new();
        self.until("both hang", |gangs| {
            let running: Vec<i32> = gangs.iter().map(|gang| gang.running).collect();
            if running != before {
                (before, since) = (running, Instant::now());
            }
            before.iter().sum::<i32>() == ROOM && since.elapsed() >= UNCHANGED
        })
        .await?;
        let hang = "Both wait for peers that cannot start: this would last for ever. They are deleted.";
        writeln!(io::stdout(), "  {hang}")?;
        for name in GANGS {
            self.frameworks.delete(name, &DeleteParams::foreground()).await?;
        }
        self.until("both are gone", |gangs| gangs.iter().all(|gang| gang.state.is_none())).await?;
        self.until_the_quota_is_free().await
    }

    /// A quota counts Pods for a while after they are gone, and the controller relies on a lower count after
    /// a second. Until then it would report the old Pods as the usage of others.
    async fn until_the_quota_is_free(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut counted = Instant::now();
        while counted.elapsed() < SETTLED {
            let status = self.quotas.get("room").await?.status;
            let used = status.and_then(|status| status.used).unwrap_or_default();
            if used.get("pods").is_none_or(|pods| pods.0 != "0") {
                counted = Instant::now();
            }
            ensure!(Instant::now() < deadline, "the quota still counts {used:?}");
            tokio::time::sleep(EVERY).await;
        }
        Ok(())
    }

    /// One gang runs and ends, then the other.
    async fn run_in_a_queue(&mut self) -> Result<()> {
        self.submit(Some("default"), GANG).await?;
        for round in 0..GANGS.len() {
            self.until("a gang has all its Tasks", |gangs| {
                gangs.iter().any(|gang| gang.running == GANG && gang.state != Some(State::Completed))
            })
            .await?;
            let running: Vec<i32> = self.observe().await?.iter().map(|gang| gang.running).collect();
            ensure!(running.contains(&0), "both have Pods: {running:?}");
            self.end_running_pods().await?;
            self.until("it has completed", |gangs| {
                gangs.iter().filter(|gang| gang.state == Some(State::Completed)).count() > round
            })
            .await?;
        }
        Ok(())
    }

    async fn submit(&mut self, queue: Option<&str>, tasks: i32) -> Result<()> {
        self.began = Instant::now();
        self.printed.clear();
        for name in GANGS {
            let labels = queue.map(|queue| json!({QUEUE_NAME_LABEL: queue}));
            let spec = json!({"executionType": "Start", "taskRoles": [role(tasks)]});
            create(&self.frameworks, json!({"metadata": {"name": name, "labels": labels}, "spec": spec}))
                .await?;
        }
        Ok(())
    }

    /// Ends the Pods: they all run, so that they have found their peers.
    async fn end_running_pods(&self) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {EXIT_CODE: "0"}}}));
        for pod in self.pods.list(&ListParams::default()).await? {
            self.pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    async fn until(&mut self, what: &str, mut is: impl FnMut(&[Gang]) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is(&self.observe().await?) {
            self.testbed.check()?;
            ensure!(Instant::now() < deadline, "not within {} s: {what}", PATIENCE.as_secs());
            tokio::time::sleep(EVERY).await;
        }
        Ok(())
    }

    /// Reads both gangs, and prints a line for each that changed.
    async fn observe(&mut self) -> Result<Vec<Gang>> {
        let mut all = Vec::new();
        for name in GANGS {
            let framework = self.frameworks.get_opt(name).await?;
            let status = framework.and_then(|framework| framework.status);
            let gang = Gang {
                running: status
                    .as_ref()
                    .and_then(|status| status.task_counts)
                    .map_or(0, |counts| counts.running),
                state: status.as_ref().map(|status| status.state),
                reason: status.as_ref().map(reason).unwrap_or_default(),
            };
            if let Some(state) = gang.state {
                let line = format!("{name}: {state:?}, {} of {GANG} Tasks run{}", gang.running, gang.reason);
                if self.printed.get(name) != Some(&line) {
                    writeln!(io::stdout(), "  {:>5.1}s {line}", self.began.elapsed().as_secs_f64())?;
                    self.printed.insert(name.to_owned(), line);
                }
            }
            all.push(gang);
        }
        Ok(all)
    }
}

/// Why a gang waits, by its own status.
fn reason(status: &framework_api::FrameworkStatus) -> String {
    let queued =
        status.conditions.iter().find(|condition| condition.type_ == "Queued" && condition.status == "True");
    queued.map(|condition| format!(": {}: {}", condition.reason, condition.message)).unwrap_or_default()
}
