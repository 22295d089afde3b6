//! `cargo xtask demo --queue`: two gangs and room for one, first without a queue, then with one.
//!
//! The Tasks of a gang need all their peers, so they run until all of them do; then this program, in the part
//! of the job, lets them end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use framework_api::queue::{QUEUE_NAME_LABEL, Queue};
use framework_api::{Framework, State};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::place::Place;

/// Tasks of a gang.
const GANG: i32 = 40;
/// Pods that the quota lets in.
const ROOM: i32 = 41;
/// So long nothing changes before it is said that both hang.
const STILL: Duration = Duration::from_secs(5);
/// So long the quota says that nothing is used before the controller believes it, too.
const BELIEVED: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(120);
const EVERY: Duration = Duration::from_millis(200);
const GANGS: [&str; 2] = ["alpha", "beta"];
const EXIT_CODE: &str = "test.frameworkcontroller.microsoft.com/exit-code";

/// What the demo acts on.
struct Stage<'a> {
    place: &'a Place,
    frameworks: Api<Framework>,
    pods: Api<Pod>,
    quotas: Api<ResourceQuota>,
    begun: Instant,
    /// What was last said of each gang.
    said: BTreeMap<String, String>,
}

/// Shows both.
pub(super) async fn perform(place: &Place) -> Result<()> {
    let client = place.client().await?;
    let quotas: Api<ResourceQuota> = Api::default_namespaced(client.clone());
    let hard = json!({"pods": ROOM.to_string()});
    create(&quotas, json!({"metadata": {"name": "room"}, "spec": {"hard": hard}})).await?;
    let queues: Api<Queue> = Api::default_namespaced(client.clone());
    create(&queues, json!({"metadata": {"name": "default"}, "spec": {}})).await?;
    let mut stage = Stage {
        place,
        frameworks: Api::default_namespaced(client.clone()),
        pods: Api::default_namespaced(client),
        quotas,
        begun: Instant::now(),
        said: BTreeMap::new(),
    };
    println!("Two gangs of {GANG} Tasks, and a ResourceQuota with room for {ROOM} Pods.\n");
    println!("Without a queue each gets a part of it:");
    stage.without().await?;
    println!("\nIn a queue one goes first:");
    stage.with().await?;
    println!("\nNobody waited for what the other one held.");
    Ok(())
}

async fn create<K>(api: &Api<K>, object: serde_json::Value) -> Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

/// So many Tasks that run until they are told to end.
fn role(tasks: i32) -> serde_json::Value {
    let container = json!({"name": "main", "image": "busybox"});
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    json!({"name": "worker", "taskNumber": tasks, "task": {"pod": pod}})
}

/// What is seen of a gang.
struct Seen {
    running: i32,
    state: Option<State>,
    why: String,
}

impl Stage<'_> {
    /// Both come to have some Tasks, and neither all of them. They come up side by side: half of each, then
    /// the rest, as it happens among many jobs.
    async fn without(&mut self) -> Result<()> {
        self.submit(None, GANG / 2).await?;
        self.until("both have half of their Tasks", |seen| seen.iter().all(|gang| gang.running == GANG / 2))
            .await?;
        for name in GANGS {
            let rest = Patch::Merge(json!({"spec": {"taskRoles": [role(GANG)]}}));
            self.frameworks.patch(name, &PatchParams::default(), &rest).await?;
        }
        let mut still = Instant::now();
        let mut before = Vec::new();
        self.until("both hang", |seen| {
            let running: Vec<i32> = seen.iter().map(|gang| gang.running).collect();
            if running != before {
                (before, still) = (running, Instant::now());
            }
            before.iter().sum::<i32>() == ROOM && still.elapsed() >= STILL
        })
        .await?;
        println!("  Both wait for peers that cannot start: this would last for ever. They are deleted.");
        for name in GANGS {
            self.frameworks.delete(name, &DeleteParams::foreground()).await?;
        }
        self.until("both are gone", |seen| seen.iter().all(|gang| gang.state.is_none())).await?;
        self.until_nothing_counts().await
    }

    /// A quota counts Pods for a while after they have gone, and the controller believes a lower count after
    /// a second. Before, the gangs would hear that others use all of it.
    async fn until_nothing_counts(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut counted = Instant::now();
        while counted.elapsed() < BELIEVED {
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

    /// One runs and ends, then the other.
    async fn with(&mut self) -> Result<()> {
        self.submit(Some("default"), GANG).await?;
        for round in 0..GANGS.len() {
            self.until("a gang has all its Tasks", |seen| {
                seen.iter().any(|gang| gang.running == GANG && gang.state != Some(State::Completed))
            })
            .await?;
            let running: Vec<i32> = self.look().await?.iter().map(|gang| gang.running).collect();
            ensure!(running.contains(&0), "both have Pods: {running:?}");
            self.let_end().await?;
            self.until("it has completed", |seen| {
                seen.iter().filter(|gang| gang.state == Some(State::Completed)).count() > round
            })
            .await?;
        }
        Ok(())
    }

    async fn submit(&mut self, queue: Option<&str>, tasks: i32) -> Result<()> {
        self.begun = Instant::now();
        self.said.clear();
        for name in GANGS {
            let labels = queue.map(|queue| json!({QUEUE_NAME_LABEL: queue}));
            let spec = json!({"executionType": "Start", "taskRoles": [role(tasks)]});
            create(&self.frameworks, json!({"metadata": {"name": name, "labels": labels}, "spec": spec}))
                .await?;
        }
        Ok(())
    }

    /// The Pods that run have found their peers: they end.
    async fn let_end(&self) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {EXIT_CODE: "0"}}}));
        for pod in self.pods.list(&ListParams::default()).await? {
            self.pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    async fn until(&mut self, what: &str, mut is: impl FnMut(&[Seen]) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is(&self.look().await?) {
            self.place.check()?;
            ensure!(Instant::now() < deadline, "not within {} s: {what}", PATIENCE.as_secs());
            tokio::time::sleep(EVERY).await;
        }
        Ok(())
    }

    /// Looks at both, and says what is new.
    async fn look(&mut self) -> Result<Vec<Seen>> {
        let mut all = Vec::new();
        for name in GANGS {
            let framework = self.frameworks.get_opt(name).await?;
            let status = framework.and_then(|framework| framework.status);
            let seen = Seen {
                running: status
                    .as_ref()
                    .and_then(|status| status.task_counts)
                    .map_or(0, |counts| counts.running),
                state: status.as_ref().map(|status| status.state),
                why: status.as_ref().map(why).unwrap_or_default(),
            };
            if let Some(state) = seen.state {
                let line = format!("{name}: {state:?}, {} of {GANG} Tasks run{}", seen.running, seen.why);
                if self.said.get(name) != Some(&line) {
                    println!("  {:>5.1}s {line}", self.begun.elapsed().as_secs_f64());
                    self.said.insert(name.to_owned(), line);
                }
            }
            all.push(seen);
        }
        Ok(all)
    }
}

/// Why a gang waits, as it says itself.
fn why(status: &framework_api::FrameworkStatus) -> String {
    let queued =
        status.conditions.iter().find(|condition| condition.type_ == "Queued" && condition.status == "True");
    queued.map(|condition| format!(": {}: {}", condition.reason, condition.message)).unwrap_or_default()
}
