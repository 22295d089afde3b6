//! The simulated API server against the real one: the same random requests, the same answers.
//!
//! A walk of requests is drawn from a seed and made on both servers. The test compares the parts that a
//! controller can see. These are status codes, reasons, the fields of objects that clients write or wait for,
//! and the events of watches.

pub mod difference;
pub mod face;
pub mod listing;
pub mod side;
pub mod walk;
pub mod wire;

use std::time::Duration;

use framework_sim::{Kind, Options, Rates, run};
use framework_testcluster::shared;
use serde_json::{Value, json};

use self::side::Side;
use self::walk::{KINDS, Step, body, fill_namespace, walk};

const SEEDS: u64 = 10;
const STEPS: usize = 60;

fn crd() -> Value {
    serde_json::to_value(framework_api::crd::definition()).unwrap()
}

/// The answers of a side to a walk, one line a step, and then the events of a watch on each kind.
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
    let (mut accepted, mut differences) = (0, Vec::<String>::new());
    for seed in 0..SEEDS {
        let steps = walk(seed, STEPS);
        let ours = simulated(seed, &steps);
        let theirs = runtime.block_on(async {
            let namespace = format!("walk-{seed}");
            cluster.namespace(&namespace).await.unwrap();
            answers(Side::new(client.clone(), &namespace), &steps).await
        });
        accepted += theirs.iter().filter(|line| line.contains("\n    2")).count();
        // One difference makes others follow, so only the first of each walk is reported.
        differences.extend(difference::first(&ours, &theirs).map(|found| format!("seed {seed}, {found}")));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert!(accepted > 100, "only {accepted} of {SEEDS} x {STEPS} requests were accepted");
}

#[test]
fn pages_bookmarks_and_expired_watches_are_those_of_the_real_server() {
    let cluster = shared();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        install(&cluster.client()).await;
        cluster.namespace("listing").await.unwrap();
    });
    // The real server keeps no cache of Events: their pages and bookmarks are others, and no controller asks.
    let cached = KINDS.iter().enumerate().filter(|(_, walked)| walked.plural != "events");
    for (kind, walked) in cached {
        let collection = |namespace| format!("{}/namespaces/{namespace}/{}", walked.base, walked.plural);
        let make = |namespace: &'static str| {
            move |name: &str| {
                let mut body = body(kind, name, 0, false, false);
                fill_namespace(&mut body, namespace);
                body
            }
        };
        let options = Options { rates: Rates::none(), ..Options::default() };
        let ours = run(1, options, |cluster| async move {
            cluster.register(Kind::of_definition(&crd()).unwrap());
            listing::answers(&cluster.client("walker"), &collection("default"), make("default")).await
        });
        let theirs = runtime.block_on(async {
            listing::answers(&cluster.client(), &collection("listing"), make("listing")).await
        });
        assert_eq!(difference::first(&ours, &theirs), None, "{}", walked.plural);
    }
}

#[test]
fn the_resources_of_a_group_are_those_of_the_real_server() {
    let options = Options { rates: Rates::none(), ..Options::default() };
    let ours = run(1, options, |cluster| async move {
        cluster.register(Kind::of_definition(&crd()).unwrap());
        resources(Side::new(cluster.client("walker"), "default")).await
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let theirs = runtime.block_on(async {
        let client = shared().client();
        install(&client).await;
        resources(Side::new(client, "default")).await
    });
    assert_eq!(difference::first(&ours, &theirs), None);
    assert_eq!(ours.len(), 4);
}

/// The resources in the group of Frameworks, and the answers about a group and a version that are not there.
async fn resources(mut side: Side) -> Vec<String> {
    let group = "/apis/frameworkcontroller.microsoft.com";
    let (code, found) = side.send("GET", &format!("{group}/v1"), "application/json", None).await;
    assert_eq!((code, &found["kind"]), (200, &json!("APIResourceList")), "{found}");
    let resource = |resource: &Value| {
        let fields = ["name", "singularName", "namespaced", "kind"].map(|field| resource[field].to_string());
        // The simulated server has no DELETE of a collection.
        let verbs = resource["verbs"].as_array().unwrap().iter().filter(|verb| *verb != "deletecollection");
        let mut verbs: Vec<&str> = verbs.filter_map(Value::as_str).collect();
        verbs.sort_unstable();
        format!("{} {} {verbs:?}", found["groupVersion"], fields.join(" "))
    };
    let mut lines: Vec<String> = found["resources"].as_array().unwrap().iter().map(resource).collect();
    for path in [format!("{group}/v0"), "/apis/nobody.example.com/v1".to_owned()] {
        let (code, _) = side.send("GET", &path, "application/json", None).await;
        lines.push(format!("{path}: {code}"));
    }
    lines
}

#[test]
fn events_are_refused_as_by_the_real_server() {
    let cluster = shared();
    let options = Options { rates: Rates::none(), ..Options::default() };
    let ours =
        run(
            1,
            options,
            |cluster| async move { bad_events(Side::new(cluster.client("walker"), "events")).await },
        );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let theirs = runtime.block_on(async {
        cluster.namespace("events").await.unwrap();
        bad_events(Side::new(cluster.client(), "events")).await
    });
    assert_eq!(difference::first(&ours, &theirs), None);
}

/// Events that lack a field, or that change one.
async fn bad_events(mut side: Side) -> Vec<String> {
    let kind = KINDS.iter().position(|kind| kind.plural == "events").unwrap();
    let (all, good) = (side.collection("events"), body(kind, "x-bad", 0, false, false));
    let json = "application/json";
    let mut lines = Vec::new();
    for field in [
        "regarding",
        "eventTime",
        "type",
        "reason",
        "action",
        "reportingController",
        "reportingInstance",
        "note",
    ] {
        let mut event = good.clone();
        event["metadata"]["name"] = json!(format!("x-{}", field.to_lowercase()));
        event[field] = Value::Null;
        if field == "regarding" {
            event[field] = json!({ "kind": "Pod", "name": "x0", "namespace": "" });
        }
        let (code, answer) = side.send("POST", &all, json, Some(&event)).await;
        lines.push(format!("without {field}: {}", face::answer(code, &answer)));
    }
    side.post(&all, good).await;
    for (field, value) in [("reason", json!("Other")), ("note", json!("other")), ("type", json!("Warning"))] {
        let patch = json!({ field: value });
        let form = "application/merge-patch+json";
        let (code, answer) = side.send("PATCH", &format!("{all}/x-bad"), form, Some(&patch)).await;
        lines.push(format!("another {field}: {}", face::answer(code, &answer)));
    }
    lines
}

#[test]
fn a_side_that_answers_less_differs() {
    let answers = ["a".to_owned(), "b".to_owned()];
    assert_eq!(difference::first(&answers, &answers), None);
    for (simulated, real) in [(&answers[..], &answers[..1]), (&answers[..1], &answers[..])] {
        assert!(difference::first(simulated, real).unwrap().contains("no further answer"));
    }
}

#[test]
fn the_real_collector_deletes_an_object_that_comes_after_its_owner() {
    let cluster = shared();
    let options = Options { rates: Rates::none(), ..Options::default() };
    let ours =
        run(
            1,
            options,
            |cluster| async move { orphan(Side::new(cluster.client("walker"), "default")).await },
        );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let theirs = runtime.block_on(async {
        cluster.namespace("orphan").await.unwrap();
        orphan(Side::new(cluster.client(), "orphan")).await
    });
    assert_eq!(ours, theirs);
    assert!(theirs.first().is_some_and(|first| first.starts_with("ADDED")), "{theirs:?}");
    assert!(theirs.last().is_some_and(|last| last.starts_with("DELETED")), "{theirs:?}");
}

/// A ConfigMap as the controller makes it, created after its owner was deleted and gone; the events of its
/// life.
async fn orphan(mut side: Side) -> Vec<String> {
    let start = side.versions().await;
    let maps = side.collection("configmaps");
    let owner = side.post(&maps, json!({ "metadata": { "name": "x-owner" } })).await;
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground" });
    side.send("DELETE", &format!("{maps}/x-owner"), "application/json", Some(&options)).await;
    side.until_idle().await;
    assert!(side.names(&maps).await.is_empty(), "its owner is gone");
    let late = json!({ "metadata": { "name": "x-late", "finalizers": ["foregroundDeletion"],
        "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "x-owner",
            "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true }] } });
    side.post(&maps, late).await;
    side.until_idle().await;
    let events = side.events(0, &start[0], "").await;
    events.into_iter().filter(|event| event.contains("x-late")).collect()
}

#[test]
fn the_real_collector_leaves_the_same_objects_as_the_simulated_one() {
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

/// Two ConfigMaps, one owning the other, and a Pod owned by the second. Deletes the first, and returns the
/// objects that are left and the events that were seen on the way.
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
    side.until_idle().await;
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy });
    side.send("DELETE", &format!("{maps}/x-first"), "application/json", Some(&options)).await;
    side.until_idle().await;
    let mut lines = side.names(&maps).await;
    lines.extend(side.names(&pods).await);
    for (kind, start) in start.iter().enumerate().take(2) {
        lines.extend(side.events(kind, start, "").await);
    }
    lines
}
