//! `loadtest request-cost`: the memory that the API server allocates for each kind of request in the life of
//! a Framework of one Task, by its own counter. [`status_cost`](crate::status_cost) measures the writes of
//! statuses.

use std::ops::Range;
use std::process::ExitCode;

use anyhow::{Context, Result};
use futures::StreamExt;
use http::{Method, Request};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, watcher};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::cost::{ROLE, Reading, Spent, Target, scenario};
use crate::floor::{config_map, pod};
use crate::job::Job;
use crate::namespace::{Namespace, framework_resource};
use crate::number::{size, whole};
use crate::process::Watched;
use crate::terminal::print;

const RUN: &str = "request-cost";
/// Pods are bound to a node that nothing plays, so that each change of them is ours.
const NODE: &str = "absent";

/// The arguments of `loadtest request-cost`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Requests of each kind.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(4..))]
    lives: u32,
}

/// The cost of one request of a kind, on average.
#[derive(Debug)]
pub struct Cost {
    /// The request.
    pub request: &'static str,
    /// The bytes that the API server allocated.
    pub allocated: f64,
    /// The objects that it allocated.
    pub objects: f64,
}

/// A kind of request.
struct Kind {
    name: &'static str,
    method: Method,
    /// The path up to the namespace, and the rest of it for a Framework of this name.
    path: (&'static str, fn(&str) -> String),
    content: &'static str,
    /// The body, with the UID of the owner.
    body: fn(&Job<'_>, &str) -> Value,
}

const CORE: &str = "/api/v1";
const GROUP: &str = "/apis/frameworkcontroller.microsoft.com/v1";
const JSON: &str = "application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The requests of a life in their order, without those on the status.
fn kinds() -> [Kind; 8] {
    let kind = |name, method, path, content, body| Kind { name, method, path, content, body };
    let map = |name: &str| format!("configmaps/{}", framework_api::name::config_map_name(name));
    let one: fn(&str) -> String = |name| format!("pods/{}", pod_name(name));
    let status: fn(&str) -> String = |name| format!("pods/{}/status", pod_name(name));
    let deletion = |_: &Job<'_>, _: &str| json!({ "propagationPolicy": "Background" });
    let post = Method::POST;
    [
        kind("POST a Framework", post.clone(), (GROUP, |_| "frameworks".into()), JSON, |job, _| {
            job.framework(None)
        }),
        kind("POST a ConfigMap", post.clone(), (CORE, |_| "configmaps".into()), JSON, config_map),
        kind("POST a Pod", post.clone(), (CORE, |_| "pods".into()), JSON, |job, uid| pod(job, ROLE, 0, uid)),
        kind("PATCH a Pod to Running", Method::PATCH, (CORE, status), STRATEGIC, |_, _| phase("Running")),
        kind("PATCH a Pod to Succeeded", Method::PATCH, (CORE, status), STRATEGIC, |_, _| phase("Succeeded")),
        kind("DELETE a Pod", Method::DELETE, (CORE, one), JSON, deletion),
        kind("DELETE a ConfigMap", Method::DELETE, (CORE, map), JSON, deletion),
        kind("POST an Event", post, (CORE, |_| "events".into()), JSON, event),
    ]
}

fn pod_name(framework: &str) -> String {
    framework_api::name::pod_name(framework, ROLE, 0)
}

/// The status of a Pod, as large as that of a kubelet for one container.
pub(crate) fn phase(phase: &str) -> Value {
    const TIME: &str = "2026-01-01T00:00:00Z";
    let is_over = phase == "Succeeded";
    let ended = json!({"exitCode": 0, "reason": "Completed", "startedAt": TIME, "finishedAt": TIME});
    let state = if is_over { json!({"terminated": ended}) } else { json!({"running": {"startedAt": TIME}}) };
    let holds = if is_over { "False" } else { "True" };
    let condition = |kind: &str| json!({"type": kind, "status": holds, "lastTransitionTime": TIME});
    let conditions = ["Initialized", "Ready", "ContainersReady"].map(condition);
    json!({"status": {
        "phase": phase, "hostIP": "10.0.0.1", "podIP": "10.64.0.1", "startTime": TIME,
        "podIPs": [{"ip": "10.64.0.1"}],
        "conditions": conditions,
        "containerStatuses": [{
            "name": "worker", "image": "busybox:stable", "imageID": "", "ready": !is_over, "restartCount": 0,
            "started": !is_over, "state": state,
        }],
    }})
}

/// An Event as the controller writes it.
fn event(job: &Job<'_>, uid: &str) -> Value {
    let name = job.name();
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.1"), "labels": job.labels()},
        "involvedObject": {
            "apiVersion": framework_api::name::API_VERSION, "kind": framework_api::name::KIND,
            "namespace": RUN, "name": name, "uid": uid,
        },
        "type": "Normal", "reason": "Completed", "action": "Complete",
        "message": "The Framework is Completed: Succeeded (0): Pod succeeded",
        "reportingComponent": "frameworkcontroller", "reportingInstance": "frameworkcontroller-0",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    })
}

/// Measures, and prints a table.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let costs = arguments.target.measure(RUN, async |namespace, server| {
        measure(namespace, server, 0..arguments.lives as usize).await
    })?;
    print("| request | allocated by the API server | objects |\n|---|---|---|\n")?;
    for cost in &costs {
        let (allocated, objects) = (size(cost.allocated), whole(cost.objects as usize));
        print(format_args!("| {} | {allocated} | {objects} |\n", cost.request))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends the requests of the lives with these numbers, one kind after another. Nothing else may use the API
/// server meanwhile.
pub async fn measure(namespace: &Namespace, server: &Watched, lives: Range<usize>) -> Result<Vec<Cost>> {
    let scenario = scenario("cost", 1)?;
    let group = scenario.groups.first().context("there is a group")?;
    let _watches = watch(namespace);
    let (mut uids, mut costs) = (vec![String::new(); lives.len()], Vec::new());
    for kind in kinds() {
        let before = Reading::take(namespace, server).await?;
        for (index, uid) in lives.clone().zip(&mut uids) {
            let job = Job { scenario: &scenario, group, index, run: RUN, node: Some(NODE) };
            let stored = send(namespace, &kind, &job, uid).await?;
            // A Framework owns its ConfigMap, and that its Pods: they are created in this order.
            if kind.method == Method::POST {
                *uid = stored;
            }
        }
        let after = Reading::take(namespace, server).await?;
        let Spent { allocated, objects, .. } = after.spent(&before, lives.len())?;
        costs.push(Cost { request: kind.name, allocated, objects });
    }
    Ok(costs)
}

/// Watches the three kinds of objects as a controller does: the API server sends it each change.
fn watch(namespace: &Namespace) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let (client, name) = (namespace.client.clone(), &namespace.name);
    let frameworks = Api::<DynamicObject>::namespaced_with(client, name, &framework_resource());
    watches.spawn(watcher(frameworks, watcher::Config::default()).for_each(async |_| ()));
    watches.spawn(watcher(namespace.all::<Pod>(), watcher::Config::default()).for_each(async |_| ()));
    watches.spawn(watcher(namespace.all::<ConfigMap>(), watcher::Config::default()).for_each(async |_| ()));
    watches
}

/// Sends a request, and returns the UID in the reply.
async fn send(namespace: &Namespace, kind: &Kind, job: &Job<'_>, owner: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct Stored {
        #[serde(default)]
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    struct Metadata {
        #[serde(default)]
        uid: String,
    }
    let path = format!("{}/namespaces/{}/{}", kind.path.0, namespace.name, (kind.path.1)(&job.name()));
    let request = Request::builder().method(kind.method.clone()).uri(path);
    let body = serde_json::to_vec(&(kind.body)(job, owner))?;
    let stored: Stored = namespace
        .client
        .request(request.header("content-type", kind.content).body(body)?)
        .await
        .with_context(|| format!("{} of {}", kind.name, job.name()))?;
    Ok(stored.metadata.uid)
}
