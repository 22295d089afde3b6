//! `top`: Frameworks by the Tasks that run and wait, and the resources that their Pods use, or request.
//!
//! The use is known where `metrics.k8s.io` is served. A Pod counts for the Framework whose ConfigMap
//! controls it: the name in its label does not count.

use std::collections::BTreeMap;

use framework_api::name::variable;
use framework_queue::ResourceRequests;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Resource;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};

use crate::args::Get;
use crate::cluster::{self, Cluster};
use crate::error::Error;
use crate::find::{self, Found};
use crate::output::Style;
use crate::table::Table;

/// The resources that have a column of their own. Of these alone, the use is measured.
const MEASURED: [&str; 2] = ["cpu", "memory"];

/// The amounts of Pods, by namespace and name.
type Amounts = BTreeMap<(String, String), ResourceRequests>;

/// The output of `-o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Top {
    /// The meaning of the amounts of CPU and memory.
    source: Source,
    items: Vec<Row>,
}

/// The meaning of amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Source {
    Used,
    Requested,
}

/// A Framework.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    namespace: String,
    name: String,
    running: i32,
    waiting: i32,
    cpu: String,
    memory: String,
    /// Other resources, which its Pods request.
    requests: BTreeMap<String, String>,
    #[serde(skip)]
    amounts: ResourceRequests,
}

/// The text that `top` prints. Fails if the API server refuses a list; if it refuses only the metrics,
/// requests stand in for them. Fails with the text if only some of the named or listed Frameworks can be
/// read.
pub async fn run(cluster: &Cluster, asked: &Get, style: Style) -> Result<String, Error> {
    let listed = find::asked(cluster, asked, Found::summarized).await?;
    let pods: Api<Pod> = match asked.all_namespaces {
        true => Api::all(cluster.client.clone()),
        false => cluster.api(),
    };
    let labels = cluster::with_labels(Some(variable::FRAMEWORK_NAME));
    let pods = cluster.each(&pods, labels, "the Pods of Frameworks", cluster::decode::<Pod>).await?;
    // A Pod with a time that no type of ours holds must not hide the Frameworks of all others.
    let pods: Vec<Pod> = pods.into_iter().flatten().collect();
    let used = used(cluster, asked.all_namespaces).await?;
    let top = rank(&listed.found, &pods, used.as_ref());
    let text = style.show(&top, || table(&top, asked.all_namespaces, style))?;
    listed.answer(text)
}

/// The use of Pods; none where it is not measured, or not for this user.
async fn used(cluster: &Cluster, all_namespaces: bool) -> Result<Option<Amounts>, Error> {
    let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", "PodMetrics");
    let resource = ApiResource::from_gvk_with_plural(&kind, "pods");
    let client = cluster.client.clone();
    let api: Api<DynamicObject> = match all_namespaces {
        true => Api::all_with(client, &resource),
        false => Api::namespaced_with(client, &cluster.namespace, &resource),
    };
    match cluster.list(&api, Some(variable::FRAMEWORK_NAME), "the metrics of Pods").await {
        Ok(measured) => Ok(Some(measured.iter().map(measure).collect())),
        Err(Error::Request { source, .. }) if is_not_measured(&source) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_not_measured(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 404 | 503))
}

/// The use of a Pod: the sum over its containers.
fn measure(measured: &DynamicObject) -> ((String, String), ResourceRequests) {
    #[derive(Deserialize)]
    struct Container {
        usage: BTreeMap<String, Quantity>,
    }
    let containers = measured.data.get("containers").cloned().unwrap_or_default();
    let containers: Vec<Container> = serde_json::from_value(containers).unwrap_or_default();
    let amounts = containers.iter().filter_map(|one| ResourceRequests::from_list(&one.usage).ok());
    let metadata = &measured.metadata;
    let key = (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
    (key, amounts.fold(ResourceRequests::default(), |sum, one| sum.plus(&one)))
}

/// The Frameworks that are not Completed, the largest first.
fn rank(found: &[Found], pods: &[Pod], used: Option<&Amounts>) -> Top {
    let mut by_map: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| lives(pod)) {
        if let Some(map) = controller(pod) {
            by_map.entry(map).or_default().push(pod);
        }
    }
    let with_its_pods = |one: &Found| {
        let status = one.framework.status.as_ref();
        let map = status.and_then(|status| status.attempt_status.config_map_uid.as_deref());
        let own = map.and_then(|map| by_map.get(map)).map(Vec::as_slice);
        row(one, own.unwrap_or_default(), used)
    };
    let mut items: Vec<Row> = found.iter().filter(|one| !one.is_completed()).map(with_its_pods).collect();
    items.sort_by_cached_key(|row| {
        let of = |resource| std::cmp::Reverse(row.amounts.get(resource));
        (of("cpu"), of("memory"), row.namespace.clone(), row.name.clone())
    });
    Top { source: if used.is_some() { Source::Used } else { Source::Requested }, items }
}

fn row(found: &Found, pods: &[&Pod], used: Option<&Amounts>) -> Row {
    let status = found.framework.status.as_ref();
    let counts = status.and_then(|status| status.task_counts).unwrap_or_default();
    let mut requested = ResourceRequests::default();
    let mut measured = ResourceRequests::default();
    for pod in pods {
        let spec = pod.spec.as_ref();
        let own = spec.and_then(|spec| ResourceRequests::pod(spec).ok()).unwrap_or_default();
        requested = requested.plus(&own);
        let key = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        let key = (key.0.unwrap_or_default(), key.1.unwrap_or_default());
        if let Some(use_of_it) = used.and_then(|used| used.get(&key)) {
            measured = measured.plus(use_of_it);
        }
    }
    let (cpu, memory) = match used {
        Some(_) => measured_words(&measured),
        None => (requested.get("cpu").to_string(), requested.get("memory").to_string()),
    };
    let amounts = if used.is_some() { measured } else { requested.clone() };
    let others = requested.iter().filter(|(name, _)| !MEASURED.contains(&&***name) && &***name != "pods");
    Row {
        namespace: found.namespace().to_owned(),
        name: found.name().to_owned(),
        running: counts.running,
        waiting: counts.pending,
        cpu,
        memory,
        requests: others.map(|(name, amount)| (name.to_string(), amount.to_string())).collect(),
        amounts,
    }
}

/// Measured CPU and memory, as coarse as `kubectl top` writes them.
fn measured_words(amounts: &ResourceRequests) -> (String, String) {
    let (cpu, memory) = (amounts.get("cpu").nanos(), amounts.get("memory").nanos());
    let (milli, mebi) = (1_000_000, (1 << 20) * 1_000_000_000);
    (format!("{}m", (cpu + milli - 1) / milli), format!("{}Mi", memory / mebi))
}

/// The UID of the object that controls a Pod.
fn controller(pod: &Pod) -> Option<&str> {
    let owner = pod.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    Some(&owner.uid)
}

/// Whether a Pod has not ended yet: it may hold its requests.
fn lives(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

fn table(top: &Top, with_namespace: bool, style: Style) -> String {
    if top.items.is_empty() {
        return style.nothing("No Frameworks found that are not Completed.\n");
    }
    let namespace: &[&str] = if with_namespace { &["NAMESPACE"] } else { &[] };
    let amounts: &[&str] = match top.source {
        Source::Used => &["CPU USED", "MEMORY USED"],
        Source::Requested => &["CPU REQUESTED", "MEMORY REQUESTED"],
    };
    let mut table =
        Table::new(&[namespace, &["NAME", "RUNNING", "WAITING"], amounts, &["OTHERS REQUESTED"]].concat());
    for row in &top.items {
        let others = row.requests.iter().map(|(name, amount)| format!("{name}: {amount}"));
        let others = others.collect::<Vec<_>>().join(", ");
        let mut cells = Vec::new();
        cells.extend(with_namespace.then(|| row.namespace.clone()));
        cells.extend([row.name.clone(), row.running.to_string(), row.waiting.to_string()]);
        cells.extend([row.cpu.clone(), row.memory.clone(), others]);
        table.row(cells);
    }
    style.table(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PLAIN, found};
    use expect_test::expect;
    use serde_json::{Value, json};

    fn pod(name: &str, owner: &str, phase: &str, requests: Value) -> Pod {
        let owner =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": owner, "controller": true});
        serde_json::from_value(json!({
            "metadata": {"namespace": "team", "name": name, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    fn pods() -> Vec<Pod> {
        let large = json!({"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "4"});
        vec![
            pod("train-worker-0", "c", "Running", large.clone()),
            pod("train-worker-1", "c", "Pending", large.clone()),
            pod("train-worker-2", "c", "Failed", large.clone()),
            pod("a-copy", "another", "Running", large),
        ]
    }

    #[test]
    fn without_metrics_living_pods_count_by_their_requests() {
        let frameworks = [found("queued.yaml"), found("running.yaml"), found("completed.yaml")];
        let top = rank(&frameworks.map(Found::summarized), &pods(), None);
        expect![[r#"
            NAME    RUNNING   WAITING   CPU REQUESTED   MEMORY REQUESTED   OTHERS REQUESTED
            train   1         2         3               4Gi                nvidia.com/gpu: 8
            gang    0         1         0               0
        "#]]
        .assert_eq(&table(&top, false, PLAIN));
        assert_eq!(serde_json::to_value(&top).unwrap()["source"], "requested");
    }

    #[test]
    fn with_metrics_pods_count_by_the_usage_of_their_containers() {
        let measured: DynamicObject = serde_json::from_value(json!({
            "metadata": {"namespace": "team", "name": "train-worker-0"}, "window": "15s",
            "containers": [
                {"name": "main", "usage": {"cpu": "250m", "memory": "100Mi"}},
                {"name": "side", "usage": {"cpu": "1500000n", "memory": "28Mi"}},
            ],
        }))
        .unwrap();
        let used = Amounts::from([measure(&measured)]);
        let top = rank(&[found("running.yaml")], &pods(), Some(&used));
        expect![[r#"
            NAMESPACE   NAME    RUNNING   WAITING   CPU USED   MEMORY USED   OTHERS REQUESTED
            team        train   1         2         252m       128Mi         nvidia.com/gpu: 8
        "#]]
        .assert_eq(&table(&top, true, PLAIN));
    }

    #[test]
    fn completed_frameworks_are_left_out() {
        let top = rank(&[found("completed.yaml")], &[], None);
        assert_eq!(table(&top, false, PLAIN), "No Frameworks found that are not Completed.\n");
    }
}
