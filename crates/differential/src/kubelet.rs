//! The kubelet of the compared Pods: starts and stops them, and nothing else by itself.
//!
//! The plan decides how a Pod ends. Pods are bound to a node that does not exist, so that no other kubelet
//! touches them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};

use crate::draw::NODE;
use crate::form::{self, Forms};
use crate::plan::{CONTAINERS, ContainerEnd, Ending, HANGING, HELD};

/// How many Pods it handles at the same time.
const CONCURRENT: usize = 32;
/// The address of every Pod, so that no two runs differ by it.
const POD_IP: &str = "10.0.0.7";
const HOST_IP: &str = "10.0.0.1";

/// The label that names a Pod's Framework.
const FRAMEWORK: &str = "FC_FRAMEWORK_NAME";

/// Name and UID of a Pod.
pub(crate) type PodId = (String, String);

/// The kubelet of one side.
pub(crate) struct Kubelet {
    pods: Api<Pod>,
    state: Mutex<KubeletState>,
}

/// The memory of a kubelet.
#[derive(Default)]
struct KubeletState {
    started: HashSet<String>,
    /// The names of the app containers of each Pod, by its UID.
    containers: HashMap<String, Vec<String>>,
    /// The created form of the Pods of each Framework.
    forms: HashMap<String, Forms>,
    /// Frameworks whose Pods are not stopped for now, with the Pods that wait for that.
    frozen: HashMap<String, Vec<PodId>>,
}

impl Kubelet {
    pub(crate) fn new(pods: Api<Pod>) -> Kubelet {
        Kubelet { pods, state: Mutex::default() }
    }

    /// Watches and acts until it is dropped; an error comes from the API server.
    pub(crate) async fn work(&self) -> Result<()> {
        let config = watcher::Config::default().labels(FRAMEWORK);
        watcher(self.pods.clone(), config)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENT, |event| async {
                match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => self.see(pod).await,
                    Ok(_) => Ok(()),
                    // The watcher tries again by itself.
                    Err(error) => {
                        eprintln!("the watch of Pods was interrupted: {error}");
                        Ok(())
                    }
                }
            })
            .await
    }

    async fn see(&self, pod: Pod) -> Result<()> {
        let Some(id) = pod.metadata.name.clone().zip(pod.metadata.uid.clone()) else { return Ok(()) };
        let marked = |mark| pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(mark));
        let framework = pod.metadata.labels.iter().flatten().find(|(name, _)| *name == FRAMEWORK);
        let framework = framework.map(|(_, name)| name.clone()).unwrap_or_default();
        let pending = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending");
        if pending {
            let (name, facts) = form::of(&pod);
            let mut state = self.lock();
            state.forms.entry(framework.clone()).or_default().entry(name).or_insert(facts);
            state.containers.insert(id.1.clone(), containers(&pod));
        }
        if pod.metadata.deletion_timestamp.is_some() {
            if !marked(HANGING) && !self.keep(&framework, &id) {
                self.stop(&id).await?;
            }
        } else if pending && !marked(HELD) && self.lock().started.insert(id.1.clone()) {
            if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) {
                self.bind(&id).await?;
            }
            self.report(&id, running(&containers(&pod))).await?;
        }
        Ok(())
    }

    /// Whether a Pod's Framework is frozen; then the Pod waits.
    fn keep(&self, framework: &str, id: &PodId) -> bool {
        let mut state = self.lock();
        let Some(kept) = state.frozen.get_mut(framework) else { return false };
        kept.push(id.clone());
        true
    }

    /// The created form of the Pods of a Framework, which is forgotten here.
    pub(crate) fn take_forms(&self, framework: &str) -> Forms {
        self.lock().forms.remove(framework).unwrap_or_default()
    }

    /// From now on, Pods of a Framework stay terminating.
    pub(crate) fn freeze(&self, framework: &str) {
        self.lock().frozen.insert(framework.to_owned(), Vec::new());
    }

    /// Stops the Pods that stayed.
    pub(crate) async fn thaw(&self, framework: &str) -> Result<()> {
        let kept = self.lock().frozen.remove(framework).unwrap_or_default();
        for id in kept {
            self.stop(&id).await?;
        }
        Ok(())
    }

    /// Reports that a Pod ended.
    pub(crate) async fn end(&self, id: &PodId, ending: &Ending) -> Result<()> {
        let names = self.lock().containers.get(&id.1).cloned().unwrap_or_default();
        self.report(id, ended(ending, &names)).await
    }

    /// Binds a Pod that is meant for a scheduler.
    async fn bind(&self, (name, uid): &PodId) -> Result<()> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        });
        let parameters = PostParams::default();
        let bound = self.pods.create_subresource::<Value, Value>("binding", name, &parameters, &binding);
        unless_gone(bound.await.map(drop)).with_context(|| format!("binding Pod {name}"))
    }

    async fn report(&self, (name, uid): &PodId, status: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}));
        let reported = self.pods.patch_status(name, &PatchParams::default(), &patch).await;
        unless_gone(reported.map(drop)).with_context(|| format!("reporting the status of Pod {name}"))
    }

    async fn stop(&self, (name, uid): &PodId) -> Result<()> {
        let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
        let at_once =
            DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
        let stopped = self.pods.delete(name, &at_once).await;
        unless_gone(stopped.map(drop)).with_context(|| format!("stopping Pod {name}"))
    }

    fn lock(&self) -> MutexGuard<'_, KubeletState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Ignores that a Pod is gone, or that another has replaced it.
pub(crate) fn unless_gone(done: kube::Result<()>) -> kube::Result<()> {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        done => done,
    }
}

fn containers(pod: &Pod) -> Vec<String> {
    pod.spec.iter().flat_map(|spec| &spec.containers).map(|one| one.name.clone()).collect()
}

fn running(names: &[String]) -> Value {
    let state = json!({"running": {"startedAt": now()}});
    let container = |name: &str| container(name, state.clone(), true);
    json!({
        "phase": "Running", "podIP": POD_IP, "podIPs": [{"ip": POD_IP}],
        "hostIP": HOST_IP, "hostIPs": [{"ip": HOST_IP}], "startTime": now(),
        "containerStatuses": names.iter().map(|name| container(name)).collect::<Vec<_>>(),
    })
}

/// A Pod of an example has containers of its own, which end as those of the plan, in their order.
fn ended(ending: &Ending, names: &[String]) -> Value {
    let name = |planned: &str| {
        let at = CONTAINERS.iter().position(|container| *container == planned);
        at.map_or(Some(planned), |at| names.get(at).map(String::as_str)).map(str::to_owned)
    };
    let now = jiff::Timestamp::now();
    let statuses = |init: bool| -> Vec<Value> {
        let ends = ending.containers.iter().filter(|end| end.init == init);
        ends.filter_map(|end| Some(container(&name(end.name)?, state(end, now), false))).collect()
    };
    json!({
        "phase": if ending.failed { "Failed" } else { "Succeeded" },
        "reason": ending.reason, "message": ending.message,
        "initContainerStatuses": statuses(true), "containerStatuses": statuses(false),
    })
}

fn state(end: &ContainerEnd, now: jiff::Timestamp) -> Value {
    if end.waiting {
        return json!({"waiting": {"reason": "PodInitializing"}});
    }
    let finished = (now - jiff::SignedDuration::from_secs(end.earlier)).strftime("%Y-%m-%dT%H:%M:%SZ");
    json!({"terminated": {
        "exitCode": end.code, "signal": end.signal, "reason": end.reason, "message": end.message,
        "startedAt": finished.to_string(), "finishedAt": finished.to_string(),
    }})
}

fn container(name: &str, state: Value, ready: bool) -> Value {
    json!({
        "name": name, "image": "image", "imageID": "", "ready": ready, "started": ready, "restartCount": 0,
        "state": state,
    })
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
