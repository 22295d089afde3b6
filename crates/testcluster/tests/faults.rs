//! Parts of the control plane stop, crash or lose their parent. Each test has its cluster.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use framework_testcluster::audit::Record;
use framework_testcluster::{Cluster, Component, Options};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// Set in the environment of a test program that plays the process to be killed.
const VICTIM: &str = "FRAMEWORK_TESTCLUSTER_VICTIM";

/// The annotation of a Pod that ends with this exit code.
const ENDS: &str = "test.frameworkcontroller.microsoft.com/exit-code";

/// How many Pods there are at a time.
const PODS: usize = 20;

fn start() -> Cluster {
    Cluster::start(Options { nodes: 1, ..Options::default() }).unwrap()
}

/// A Pod that succeeds as soon as it runs.
fn short_lived(name: &str) -> Pod {
    let pod = serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": { (ENDS): "0" } },
        "spec": { "containers": [{ "name": "main", "image": "none" }], "nodeName": "node-0" },
    }));
    pod.unwrap()
}

async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Whether any process that lives has this directory on its command line.
fn is_used(dir: &Path) -> bool {
    let dir = dir.to_str().unwrap().as_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(|line| line.windows(dir.len()).any(|part| part == dir))
}

#[tokio::test]
async fn pods_run_again_after_the_api_server_crashed() {
    let cluster = start();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    cluster.stop_apiserver().unwrap();
    assert!(pods.get_opt("p").await.is_err(), "it is dead");
    assert!(cluster.pause(Component::Apiserver).is_err(), "a dead process cannot be paused");
    cluster.start_apiserver().unwrap();
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    }));
    pods.create(&PostParams::default(), &pod.unwrap()).await.unwrap();
    eventually("the Pod runs", async || {
        let status = pods.get("p").await.unwrap().status.unwrap_or_default();
        status.phase.as_deref() == Some("Running")
    })
    .await;
}

#[tokio::test]
async fn pods_that_waited_for_kwok_end_as_soon_as_it_is_back() {
    let cluster = start();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    cluster.stop(Component::Kwok).unwrap();
    for index in 0..PODS {
        let pod = short_lived(&format!("p{index}"));
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let begun = Instant::now();
    cluster.launch(Component::Kwok).unwrap();
    eventually("all Pods end", async || {
        let ended = ListParams::default().fields("status.phase=Succeeded");
        pods.list(&ended).await.unwrap().items.len() == PODS
    })
    .await;
    // With Leases of Nodes it would first wait for the end of those of its earlier life, 30 s at least.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Creates Pods that end at once, and deletes each. The first deletion shows how long one takes here and now;
/// the requests of the others are dropped after shares of that, up to half as much again.
async fn cut_deletions(pods: &Api<Pod>, round: usize) {
    let names: Vec<String> = (0..PODS).map(|index| format!("p{round}-{index}")).collect();
    for name in &names {
        pods.create(&PostParams::default(), &short_lived(name)).await.unwrap();
    }
    eventually("the Pods end", async || {
        let ended = ListParams::default().fields("status.phase=Succeeded");
        let list = pods.list(&ended).await.unwrap();
        list.iter().filter(|pod| names.contains(&pod.name_any())).count() == names.len()
    })
    .await;
    let (whole, others) = names.split_first().unwrap();
    let begun = Instant::now();
    pods.delete(whole, &DeleteParams::default()).await.unwrap();
    let whole = begun.elapsed();
    for (name, step) in others.iter().zip(1_u32..) {
        let options = DeleteParams::default();
        let share = whole * (3 * step) / (2 * PODS as u32);
        // The API server drops the rest of a request whose client is gone.
        let cut = tokio::time::timeout(share, pods.delete(name, &options)).await;
        drop(cut);
    }
}

#[tokio::test]
async fn a_pod_whose_deletion_was_cut_goes_all_the_same() {
    let cluster = start();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    for round in 0..20 {
        cut_deletions(&pods, round).await;
        eventually("Pods whose deletion has begun are gone", async || {
            let list = pods.list(&ListParams::default()).await.unwrap();
            list.iter().all(|pod| pod.metadata.deletion_timestamp.is_none())
        })
        .await;
        let records = cluster.audit().records().unwrap();
        let by_kwok =
            |record: &&Record| record.user == "kwok" && record.verb == "patch" && record.code == 200;
        // One starts a Pod and one ends it: any other one has removed a Pod.
        if records.iter().filter(by_kwok).count() > 2 * PODS * (round + 1) {
            return;
        }
    }
    panic!("no deletion was cut between its two writes");
}

#[tokio::test]
async fn a_paused_component_answers_nothing_until_it_is_resumed() {
    let cluster = start();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    for component in [Component::Etcd, Component::Apiserver] {
        cluster.pause(component).unwrap();
        let mut map = ConfigMap::default();
        map.metadata.generate_name = Some("m-".into());
        let post = PostParams::default();
        let create = maps.create(&post, &map);
        tokio::pin!(create);
        let reply = tokio::time::timeout(Duration::from_millis(500), &mut create).await;
        assert!(reply.is_err(), "{component:?} is paused, and yet: {reply:?}");
        cluster.resume(component).unwrap();
        create.await.unwrap();
    }
}

#[tokio::test]
async fn a_witness_sees_the_write_just_before_a_crash() {
    let cluster = start();
    let seen: Api<ConfigMap> = Api::default_namespaced(cluster.witness().unwrap());
    let mut map = ConfigMap::default();
    map.metadata.name = Some("last".into());
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    maps.create(&PostParams::default(), &map).await.unwrap();
    cluster.stop_apiserver().unwrap();
    assert!(maps.get_opt("last").await.is_err(), "it is dead");
    assert!(seen.get_opt("last").await.unwrap().is_some());
}

#[test]
fn a_component_that_died_is_reported_with_its_log() {
    let cluster = start();
    cluster.check().unwrap();
    let pid = cluster.pid(Component::Scheduler).unwrap();
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let error = loop {
        match cluster.check() {
            Err(error) => break error.to_string(),
            Ok(()) => assert!(Instant::now() < deadline, "nobody noticed"),
        }
    };
    assert!(error.contains("kube-scheduler ended (signal: 9"), "{error}");
    assert!(error.contains("kube-scheduler.log"), "{error}");
}

#[test]
fn two_clusters_live_beside_each_other_and_leave_nothing() {
    let other = std::thread::spawn(start);
    let (one, two) = (start(), other.join().unwrap());
    assert_ne!(one.url(), two.url());
    let dirs = [one.dir().to_owned(), two.dir().to_owned()];
    drop((one, two));
    for dir in dirs {
        assert!(!dir.exists() && !is_used(&dir), "left behind: {}", dir.display());
    }
}

#[tokio::test]
async fn the_cluster_of_a_killed_process_ends() {
    if std::env::var_os(VICTIM).is_some() {
        let cluster = start();
        println!("\ndir {}", cluster.dir().display());
        loop {
            std::thread::park();
        }
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_cluster_of_a_killed_process_ends", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut dirs = lines.filter_map(|line| line.unwrap().strip_prefix("dir ").map(PathBuf::from));
    let dir = dirs.next().expect("the victim says where its cluster is");
    assert!(dir.exists() && is_used(&dir));
    victim.kill().unwrap();
    victim.wait().unwrap();
    // The warden and its rm, which name the directory too, end a moment after it is gone.
    eventually("directory and processes are gone", async || !dir.exists() && !is_used(&dir)).await;
}
