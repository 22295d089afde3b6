//! The floor client: sends the minimum of requests that running Frameworks takes, and decides nothing.
//!
//! One attempt of n Tasks that succeed takes nine status writes, and POST and DELETE of a ConfigMap and of n
//! Pods: 2n + 11 requests. The client sends them in that order with full bodies, each as soon as the Pods
//! allow it. The difference to a controller is the overhead of the controller. A status that is too large for
//! etcd is compressed. The client supports neither failing Tasks nor retries nor rescaling.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail, ensure};
use framework_api::name::config_map_name;
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::core::{ApiResource, Object};
use kube::runtime::watcher::{self, Event, watcher};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::job::{Job, RUN_LABEL};
use crate::namespace::Namespace;
use crate::partial_status::Nothing;
use crate::scenario::Scenario;

mod bodies;

use bodies::{CreatedPod, Progress, pod_of, status};
pub use bodies::{compress, config_map, pod};

/// Concurrent requests.
const AT_ONCE: usize = 64;
/// Concurrent requests on the Pods of one Framework, so that other Frameworks get their share.
const OF_ONE: usize = 32;
/// The Task statuses are compressed from this size on: etcd refuses larger ones.
const COMPRESSED_FROM: usize = 700 * 1024;
const GROUP: &str = "/apis/frameworkcontroller.microsoft.com/v1";

/// A Pod with the few fields that the client reads.
type SlimPod = Object<Nothing, PodStatus>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
    #[serde(rename = "hostIP")]
    host_ip: String,
}

/// How many Pods of a Framework have reached each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pods {
    running: usize,
    ended: usize,
    gone: usize,
}

/// The phase of one Pod: it only advances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum PodPhase {
    #[default]
    Created,
    Running,
    Ended,
    Gone,
}

/// The Pods that a Framework waits for.
struct Waiting {
    pods: BTreeMap<String, PodPhase>,
    counts: watch::Sender<Pods>,
}

/// The waiting Frameworks by name.
type Waiters = Arc<Mutex<BTreeMap<String, Waiting>>>;

/// The floor client.
#[derive(Clone)]
pub struct FloorClient {
    namespace: Namespace,
    requests: Arc<Semaphore>,
    all: Waiters,
}

/// The reply to a write: only its metadata is read.
#[derive(Deserialize)]
struct Stored {
    metadata: StoredMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredMeta {
    uid: String,
    resource_version: String,
}

/// The status of a job whose Tasks all run, as large as one that a controller writes.
pub fn status_of(job: &Job<'_>) -> Value {
    let uid = |number: usize| format!("00000000-0000-8000-8000-{number:012x}");
    let created: Vec<CreatedPod> = indexes(job)
        .enumerate()
        .map(|(number, _)| CreatedPod { name: String::new(), uid: uid(number) })
        .collect();
    status(job, "AttemptRunning", Progress::Running, &created)
}

/// An error if the client does not support the scenario.
pub fn check(scenario: &Scenario) -> Result<()> {
    for group in &scenario.groups {
        let is_plain = group.task_roles.iter().all(|role| role.exit_code == 0)
            && group.rescale.is_empty()
            && group.deadline_at_seconds.is_none()
            && group.expire_at_seconds.is_none()
            && group.active_deadline_seconds.is_none()
            && group.ttl_seconds_after_finished.is_none();
        ensure!(is_plain, "group {}: the floor client runs only jobs whose Tasks all succeed", group.name);
    }
    Ok(())
}

impl FloorClient {
    /// Starts to watch the Pods of a run.
    pub async fn begin(namespace: Namespace, run: &str) -> Result<FloorClient> {
        let all = Waiters::default();
        let api = Api::<SlimPod>::namespaced_with(
            namespace.client.clone(),
            &namespace.name,
            &ApiResource::erase::<Pod>(&()),
        );
        let config = watcher::Config::default().labels(&format!("{RUN_LABEL}={run}"));
        let mut events = Box::pin(watcher(api, config));
        loop {
            match events.next().await {
                Some(Ok(Event::InitDone)) => break,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error).context("watching Pods"),
                None => bail!("the watch of Pods ended during its first list"),
            }
        }
        let waiters = Arc::clone(&all);
        // The task ends with the runtime: a process has one run.
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => note(&waiters, &pod, false),
                    Ok(Event::Delete(pod)) => note(&waiters, &pod, true),
                    Ok(_) | Err(_) => {}
                }
            }
        });
        Ok(FloorClient { namespace, requests: Arc::new(Semaphore::new(AT_ONCE)), all })
    }

    /// Sends all requests for a Framework that was just created.
    pub async fn attend(&self, job: &Job<'_>, uid: &str, mut version: String) -> Result<()> {
        let name = job.name();
        let mut pods = self.expect(job);
        let mut created = Vec::new();
        let config_map = config_map_name(&name);
        let namespace = &self.namespace.name;
        self.write_status(job, &mut version, "AttemptCreationPending", Progress::Pending, &created).await?;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let owner_map = self.send(Method::POST, &path, &bodies::config_map(job, uid)).await?;
        self.write_status(job, &mut version, "AttemptPreparing", Progress::Pending, &created).await?;
        created = self.create_pods(job, &owner_map.metadata.uid).await?;
        self.write_status(job, &mut version, "AttemptPreparing", Progress::Preparing, &created).await?;
        let count = created.len();
        wait(&mut pods, |pods| pods.running >= count).await?;
        self.write_status(job, &mut version, "AttemptRunning", Progress::Running, &created).await?;
        wait(&mut pods, |pods| pods.ended >= count).await?;
        self.write_status(job, &mut version, "AttemptRunning", Progress::Ended, &created).await?;
        self.delete_pods(&created).await?;
        wait(&mut pods, |pods| pods.gone >= count).await?;
        self.write_status(job, &mut version, "AttemptRunning", Progress::Over, &created).await?;
        self.write_status(job, &mut version, "AttemptDeletionPending", Progress::Over, &created).await?;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{config_map}");
        self.remove(&path, &owner_map.metadata.uid).await?;
        self.write_status(job, &mut version, "AttemptCompleted", Progress::Over, &created).await?;
        self.write_status(job, &mut version, "Completed", Progress::Over, &created).await?;
        self.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&name);
        Ok(())
    }

    /// Registers the Pods of a job before any of them is created.
    fn expect(&self, job: &Job<'_>) -> watch::Receiver<Pods> {
        let name = job.name();
        let pods = indexes(job).map(|(role, index)| (pod_of(&name, role, index), PodPhase::default()));
        let (counts, receiver) = watch::channel(Pods::default());
        let waiting = Waiting { pods: pods.collect(), counts };
        self.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(name, waiting);
        receiver
    }

    async fn create_pods(&self, job: &Job<'_>, config_map_uid: &str) -> Result<Vec<CreatedPod>> {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace.name);
        let framework = job.name();
        let create = |(role, index): (&str, usize)| {
            let path = path.clone();
            let name = pod_of(&framework, role, index);
            let pod = bodies::pod(job, role, index, config_map_uid);
            async move {
                let stored = self.send(Method::POST, &path, &pod).await?;
                Ok::<_, anyhow::Error>(CreatedPod { name, uid: stored.metadata.uid })
            }
        };
        let all: Vec<_> = indexes(job).collect();
        stream::iter(all).map(create).buffered(OF_ONE).try_collect().await
    }

    async fn delete_pods(&self, created: &[CreatedPod]) -> Result<()> {
        let delete = |pod: &CreatedPod| {
            let path = format!("/api/v1/namespaces/{}/pods/{}", self.namespace.name, pod.name);
            let uid = pod.uid.clone();
            async move { self.remove(&path, &uid).await }
        };
        let deletions: Vec<_> = created.iter().map(delete).collect();
        stream::iter(deletions).buffer_unordered(OF_ONE).try_collect::<()>().await
    }

    /// Writes the whole status.
    async fn write_status(
        &self,
        job: &Job<'_>,
        version: &mut String,
        state: &str,
        progress: Progress,
        created: &[CreatedPod],
    ) -> Result<()> {
        let mut object = job.framework(None);
        object["metadata"]["resourceVersion"] = version.clone().into();
        object["status"] = status(job, state, progress, created);
        compress(&mut object["status"], COMPRESSED_FROM)?;
        let path = format!("{GROUP}/namespaces/{}/frameworks/{}/status", self.namespace.name, job.name());
        *version = self.send(Method::PUT, &path, &object).await?.metadata.resource_version;
        Ok(())
    }

    async fn remove(&self, path: &str, uid: &str) -> Result<()> {
        let options = json!({ "preconditions": { "uid": uid }, "propagationPolicy": "Background" });
        let _permit = self.requests.acquire().await?;
        let request = Request::delete(path).header("content-type", "application/json");
        let response =
            self.namespace.client.send(request.body(serde_json::to_vec(&options)?.into())?).await?;
        ensure!(response.status().is_success(), "DELETE {path}: {}", response.status());
        Ok(())
    }

    async fn send(&self, method: Method, path: &str, object: &Value) -> Result<Stored> {
        let _permit = self.requests.acquire().await?;
        let what = format!("{method} {path}");
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(object)?)?;
        self.namespace.client.request(request).await.context(what)
    }
}

async fn wait(pods: &mut watch::Receiver<Pods>, is: impl Fn(&Pods) -> bool) -> Result<()> {
    pods.wait_for(|pods| is(pods)).await.context("the watch of Pods ended")?;
    Ok(())
}

/// Updates the phase of a Pod from a watch event.
fn note(all: &Waiters, pod: &SlimPod, is_gone: bool) {
    let Some(name) = pod.metadata.name.as_deref() else { return };
    // The names of Frameworks contain no dash.
    let Some(framework) = name.split('-').next() else { return };
    let now = match pod.status.as_ref().map(|status| status.phase.as_str()) {
        _ if is_gone => PodPhase::Gone,
        Some("Running") => PodPhase::Running,
        Some("Succeeded" | "Failed") => PodPhase::Ended,
        _ => PodPhase::Created,
    };
    let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(waiting) = all.get_mut(framework) else { return };
    let Some(phase) = waiting.pods.get_mut(name) else { return };
    let before = std::mem::replace(phase, now.max(*phase));
    let after = *phase;
    let passed = |mark: PodPhase| usize::from(before < mark && after >= mark);
    waiting.counts.send_modify(|pods| {
        pods.running += passed(PodPhase::Running);
        pods.ended += passed(PodPhase::Ended);
        pods.gone += passed(PodPhase::Gone);
    });
}

/// The Tasks of a job: the TaskRole and the index of each.
fn indexes<'a>(job: &Job<'a>) -> impl Iterator<Item = (&'a str, usize)> {
    job.group
        .task_roles
        .iter()
        .flat_map(|role| (0..role.task_number).map(|index| (role.name.as_str(), index)))
}
