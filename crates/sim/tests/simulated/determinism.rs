//! The same seed gives the same run, to the microsecond and the byte, with every fault in it.

use std::time::Duration;

use framework_sim::{Options, Rates, SimCluster, run};
use futures::{StreamExt, future::join_all};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;

fn rough() -> Options {
    Options { rates: Rates::rough(), ..Options::default() }
}

fn config_map(name: &str, value: u32) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "slot": (value % 3).to_string() } },
        "data": { "value": value.to_string() },
    }))
    .unwrap()
}

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "x" }], "restartPolicy": "Never" },
    }))
    .unwrap()
}

/// Creates, rewrites, patches and deletes, with conflicts, and gives up on requests without an answer.
async fn write(cluster: SimCluster, writer: u32) {
    let client = cluster.client(&format!("writer-{writer}"));
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    for round in 0..12 {
        let name = format!("shared-{}", round % 4);
        let patience = Duration::from_secs(5);
        let _ =
            tokio::time::timeout(patience, maps.create(&PostParams::default(), &config_map(&name, round)))
                .await;
        if let Ok(Ok(mut found)) = tokio::time::timeout(patience, maps.get(&name)).await {
            found.data.get_or_insert_default().insert(format!("w{writer}"), round.to_string());
            let _ = tokio::time::timeout(patience, maps.replace(&name, &PostParams::default(), &found)).await;
        }
        let patch = Patch::Merge(json!({ "metadata": { "labels": { "slot": (round % 3).to_string() } } }));
        let _ = tokio::time::timeout(patience, maps.patch(&name, &PatchParams::default(), &patch)).await;
        let own = format!("pod-{writer}-{round}");
        let _ = tokio::time::timeout(patience, pods.create(&PostParams::default(), &pod(&own))).await;
        if round % 3 == 0 {
            let _ = tokio::time::timeout(patience, maps.delete(&name, &DeleteParams::background())).await;
            let _ = tokio::time::timeout(patience, pods.delete(&own, &DeleteParams::default())).await;
        }
        let page = ListParams::default().limit(2);
        if let Ok(Ok(first)) = tokio::time::timeout(patience, pods.list(&page)).await
            && let Some(token) = first.metadata.continue_
        {
            let _ = tokio::time::timeout(patience, pods.list(&page.continue_token(&token))).await;
        }
    }
}

async fn workload(cluster: SimCluster) -> (u64, u64, usize) {
    let watched = cluster.client("watcher");
    let maps: Api<ConfigMap> = Api::default_namespaced(watched.clone());
    let pods: Api<Pod> = Api::default_namespaced(watched);
    let selected = watcher::Config::default().labels("slot in (0,1)").timeout(20);
    let watch_maps = watcher(maps, selected).default_backoff().for_each(|_| async {});
    let watch_pods = watcher(pods, watcher::Config::default()).default_backoff().for_each(|_| async {});
    let tasks = [tokio::spawn(watch_maps), tokio::spawn(watch_pods)];
    join_all((0..4).map(|writer| tokio::spawn(write(cluster.clone(), writer)))).await;
    cluster.settle(Duration::from_secs(100), Duration::from_secs(300)).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    (cluster.digest(), cluster.version(), cluster.history().exchanges.len())
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let mut digests = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let first = run(seed, rough(), workload);
        let second = run(seed, rough(), workload);
        assert_eq!(first, second, "seed {seed}");
        assert!(first.2 > 200, "seed {seed} made only {} requests", first.2);
        digests.insert(first.0);
    }
    assert_eq!(digests.len(), 50);
}

#[test]
fn the_trace_is_the_same_on_another_thread() {
    let here = run(3, rough(), workload);
    let there = std::thread::spawn(|| run(3, rough(), workload)).join().unwrap();
    assert_eq!(here, there);
}

#[test]
fn faults_of_every_sort_occur_in_the_workload() {
    let mut seen = String::new();
    for seed in 0..20 {
        let trace = run(seed, rough(), |cluster| async move {
            workload(cluster.clone()).await;
            cluster.trace()
        });
        for entry in trace {
            seen.push_str(&entry.note);
            seen.push('\n');
        }
    }
    let faults = [
        "RefuseConnection",
        "LoseReply",
        "Hang(None)",
        "Hang(Some",
        "Conflict",
        "TooManyRequests",
        "InternalError",
        "Unavailable",
        "applied: true",
        "applied: false",
        "Gone",
        "Quota",
        "frozen",
        "ends Clean",
        "ends Broken",
        "ends Gone",
        "answered 409",
        "answered 429",
        "answered 410",
    ];
    for fault in faults {
        assert!(seen.contains(fault), "{fault} never happened");
    }
}
