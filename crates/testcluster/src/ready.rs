//! Waits for the control plane: for the API server first, then for the objects that Pods need.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use tokio::time::Instant;

use crate::error::Error;

const EVERY: Duration = Duration::from_millis(25);
/// The time-out of a request: a paused API server accepts connections and does not reply.
const REQUEST: Duration = Duration::from_secs(5);

/// Polls until `look` succeeds. An error of `look` is the current state; `check` may end the wait early.
pub(crate) async fn until<F: Future<Output = Result<(), String>>>(
    what: &str,
    within: Duration,
    check: impl Fn() -> Result<(), Error>,
    look: impl Fn() -> F,
) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        check()?;
        let seen = tokio::time::timeout(REQUEST, look()).await.unwrap_or_else(|_| Err("no reply".into()));
        match seen {
            Ok(()) => return Ok(()),
            Err(last) if began.elapsed() > within => {
                return Err(Error::NotReady { what: what.to_owned(), after: within, last });
            }
            Err(_) => tokio::time::sleep(EVERY).await,
        }
    }
}

/// Whether the API server is ready.
pub(crate) async fn apiserver(client: kube::Client) -> Result<(), String> {
    let request = http::Request::get("/readyz").body(Vec::new()).expect("a constant request");
    match client.request_text(request).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Creates the Nodes `node-0`, `node-1`, ... for kwok, with room for everything; existing Nodes stay.
pub(crate) async fn create_nodes(client: kube::Client, count: usize) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(client);
    for name in (0..count).map(|n| format!("node-{n}")) {
        let room =
            json!({ "cpu": "100000", "memory": "1000Ti", "pods": "100000", "nvidia.com/gpu": "100000" });
        let node = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": { "kwok.x-k8s.io/node": "fake" },
                "labels": { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok" },
            },
            "status": {
                "capacity": room,
                "allocatable": room,
                "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
            },
        }))
        .expect("a constant object");
        match nodes.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created.map_err(Error::request(format!("creating {name}")))?),
        }
    }
    Ok(())
}

/// Whether `count` Nodes take Pods: Ready, and without the taint that new Nodes carry.
pub(crate) async fn nodes(client: kube::Client, count: usize) -> Result<(), String> {
    let list =
        Api::<Node>::all(client).list(&ListParams::default()).await.map_err(|error| error.to_string())?;
    let open = list.items.iter().filter(|node| takes_pods(node)).count();
    if open >= count { Ok(()) } else { Err(format!("{open} of {count} Nodes take Pods")) }
}

fn takes_pods(node: &Node) -> bool {
    let tainted =
        node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).is_some_and(|taints| !taints.is_empty());
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.is_some_and(|conditions| {
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    ready && !tainted
}

/// Whether the ServiceAccount of the Pods of this namespace exists: before that, Pods are Forbidden.
pub(crate) async fn default_account(client: kube::Client, namespace: &str) -> Result<(), String> {
    let found = Api::<ServiceAccount>::namespaced(client, namespace).get_opt("default").await;
    match found {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(format!("no ServiceAccount `default` in namespace {namespace}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs a future to its end on a thread and runtime of its own, so that it may be called from within another
/// runtime, too.
pub(crate) fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(future)
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
