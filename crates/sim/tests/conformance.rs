//! The simulated API server against the real one: the same random requests, the same answers.
//!
//! A walk of requests is drawn from a seed and made on both. What is compared is what a controller can see:
//! status codes, reasons, the parts of objects that clients write or wait for, and the events of watches.

mod conformance {
    pub mod face;
    pub mod side;
    pub mod walk;
}

use std::time::Duration;

use conformance::side::Side;
use conformance::walk::{KINDS, Step, walk};
use framework_sim::{Kind, Options, Rates, run};
use framework_testcluster::shared;
use serde_json::{Value, json};

const SEEDS: u64 = 10;
const STEPS: usize = 60;

fn crd() -> Value {
    serde_json::to_value(framework_api::crd::definition()).unwrap()
}

/// What a side answers to a walk, one line a step, and then the events of a watch on each kind.
async fn answers(mut side: Side, steps: &[Step]) -> Vec<String> {
    let start = side.versions().await;
    let mut lines = Vec::new();
    for step in steps {
        let answer = side.take(step).await;
        lines.push(format!("{step:?}\n    {answer}"));
    }
    for (kind, start) in (0..KINDS.len()).zip(&start) {
        for selector in ["", "slot in (1,2)"] {
            let events = side.events(kind, start, selector).await;
            lines.push(format!("watch {} {selector:?}\n    {}", KINDS[kind].plural, events.join("\n    ")));
        }
    }
    lines
}

fn simulated(seed: u64, steps: &[Step]) -> Vec<String> {
    let options = Options { rates: Rates::none(), ..Options::default() };
    run(seed, options, |cluster| async move {
        cluster.register(Kind::of_definition(&crd()).unwrap());
        answers(Side::new(cluster.client("walker"), "default"), steps).await
    })
}

async fn install(client: &kube::Client) {
    let mut side = Side::new(client.clone(), "default");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    side.send("POST", path, "application/json", Some(&crd())).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let served = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks";
    while side.send("GET", served, "application/json", None).await.0 != 200 {
        assert!(tokio::time::Instant::now() < deadline, "the CRD is not served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn the_simulated_server_answers_as_the_real_one() {
    let cluster = shared();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let client = cluster.client();
        install(&client).await;
        client
    });
    let (mut requests, mut differences) = (0, Vec::<String>::new());
    for seed in 0..SEEDS {
        let steps = walk(seed, STEPS);
        let ours = simulated(seed, &steps);
        let theirs = runtime.block_on(async {
            let namespace = format!("walk-{seed}");
            cluster.namespace(&namespace).await.unwrap();
            answers(Side::new(client.clone(), &namespace), &steps).await
        });
        requests += steps.len();
        // One difference makes others follow, so the first of each walk is told.
        if let Some((ours, theirs)) = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) {
            differences.push(format!("seed {seed}, simulated:\n{ours}\nreal:\n{theirs}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert!(requests > 400);
}

#[test]
fn the_real_collector_leaves_what_the_simulated_one_leaves() {
    let cluster = shared();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for policy in [None, Some("Background"), Some("Foreground"), Some("Orphan")] {
        let ours = run(1, Options { rates: Rates::none(), ..Options::default() }, |cluster| async move {
            family(Side::new(cluster.client("walker"), "default"), policy).await
        });
        let theirs = runtime.block_on(async {
            let namespace = format!("family-{}", policy.unwrap_or("none").to_lowercase());
            cluster.namespace(&namespace).await.unwrap();
            family(Side::new(cluster.client(), &namespace), policy).await
        });
        assert_eq!(ours, theirs, "{policy:?}");
    }
}

/// Two ConfigMaps, one owning the other, and a Pod owned by the second; the first is deleted, and what is
/// left and what was seen on the way is told.
async fn family(mut side: Side, policy: Option<&str>) -> Vec<String> {
    let start = side.versions().await;
    let owner = |object: &Value, kind: &str| {
        json!([{ "apiVersion": "v1", "kind": kind, "name": object["metadata"]["name"],
            "uid": object["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true }])
    };
    let maps = side.collection("configmaps");
    let pods = side.collection("pods");
    let first = side.post(&maps, json!({ "metadata": { "name": "x-first" } })).await;
    let second = json!({ "metadata": { "name": "x-second", "finalizers": ["foregroundDeletion"],
        "ownerReferences": owner(&first, "ConfigMap") } });
    let second = side.post(&maps, second).await;
    let pod = json!({ "metadata": { "name": "x-pod", "ownerReferences": owner(&second, "ConfigMap"),
        "annotations": { "sim/never-schedule": "true" } },
        "spec": { "schedulerName": "nobody", "containers": [{ "name": "main", "image": "x" }] } });
    side.post(&pods, pod).await;
    // The collector may not know the newest of them yet.
    side.rest().await;
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy });
    side.send("DELETE", &format!("{maps}/x-first"), "application/json", Some(&options)).await;
    side.rest().await;
    let mut told = side.names(&maps).await;
    told.extend(side.names(&pods).await);
    for (kind, start) in start.iter().enumerate().take(2) {
        told.extend(side.events(kind, start, "").await);
    }
    told
}
