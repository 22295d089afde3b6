//! Watches of a scripted API server, under a paused clock.

use std::collections::VecDeque;
use std::sync::Mutex;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::BoxError;

use framework_engine::object::{ConfigMapObject, PodObject};

use framework_message::{Selection, Slot};
use framework_queueing::QueueEvent;

use super::*;
use crate::wire::{DeclaredKind, DeclaredText, FrameworkText};

/// Answers requests from a script, in order, and records them; then never answers again.
#[derive(Clone, Default)]
struct Script {
    replies: Arc<Mutex<VecDeque<(u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn new(replies: Vec<(u16, String)>) -> Self {
        Script { replies: Arc::new(Mutex::new(replies.into())), ..Default::default() }
    }

    fn client(&self) -> kube::Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            script.asked.lock().unwrap().push(request.uri().to_string());
            let reply = script.replies.lock().unwrap().pop_front();
            async move {
                let Some((status, body)) = reply else { return std::future::pending().await };
                Ok::<_, BoxError>(Response::builder().status(status).body(Body::from(body.into_bytes()))?)
            }
        });
        kube::Client::new(service, "default")
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn pod(name: &str, version: &str, owner: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "resourceVersion": version,
            "ownerReferences": [{"kind": "ConfigMap", "name": owner, "uid": "c", "controller": true}],
        },
    })
}

fn list(version: &str, token: &str, items: &[Value]) -> (u16, String) {
    let list = json!({
        "kind": "PodList", "apiVersion": "v1",
        "metadata": {"resourceVersion": version, "continue": token}, "items": items,
    });
    (200, list.to_string())
}

fn events(events: &[(&str, Value)]) -> (u16, String) {
    let lines = events.iter().map(|(kind, object)| format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"));
    (200, lines.collect())
}

fn gone() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": 410, "reason": "Expired", "message": "too old",
    })
}

/// Watches Pods by the script until nothing happens any more, and returns a summary of the changes.
async fn seen(script: &Script) -> Vec<String> {
    let (sender, mut receiver) = mpsc::channel(4);
    let sink = Sink::new(sender, Metrics::new(), Arc::default());
    let rng = fastrand::Rng::with_seed(1);
    let watching = tokio::spawn(watch::<PodObject>(
        script.client(),
        Selector::of::<PodObject>(),
        sink,
        Turn::default(),
        rng,
    ));
    let mut seen = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(200), receiver.recv()).await {
        let change = match event {
            Event::Engine(engine::Event::Pod(change)) => change,
            Event::Engine(engine::Event::UnownedPod(pod)) => {
                seen.push(format!("released {} of {}", pod.name, pod.key.name));
                continue;
            }
            event => panic!("{event:?}"),
        };
        seen.push(match change {
            Change::Restarted => "restarted".to_owned(),
            Change::Listed(pod) => format!("listed {}", pod.name),
            Change::Synced => "synced".to_owned(),
            Change::Applied(pod) => format!("applied {} {}", pod.name, pod.resource_version),
            Change::Deleted(pod) => format!("deleted {}", pod.name),
        });
    }
    watching.abort();
    seen
}

#[tokio::test(start_paused = true)]
async fn pages_and_events_become_changes_and_foreign_pods_are_left_out() {
    let script = Script::new(vec![
        list("10", "more", &[pod("a", "3", "job-attempt"), pod("x", "4", "settings")]),
        list("10", "", &[pod("b", "5", "job-attempt")]),
        events(&[
            ("ADDED", pod("c", "11", "job-attempt")),
            ("ADDED", pod("y", "12", "settings")),
            ("MODIFIED", pod("job-w-0", "12", "settings")),
            ("DELETED", pod("a", "13", "job-attempt")),
        ]),
    ]);
    let expected = [
        "restarted",
        "listed a",
        "listed b",
        "synced",
        "applied c 11",
        "released job-w-0 of job",
        "deleted a",
    ];
    assert_eq!(seen(&script).await, expected);
    let asked = script.asked();
    let selector = "labelSelector=frameworkcontroller.microsoft.com%2Fslot";
    assert!(asked[0].contains(selector) && asked[0].contains("limit=500"), "{asked:?}");
    assert!(!asked[0].contains("resourceVersion"), "the LIST is consistent: {asked:?}");
    assert!(asked[1].contains("continue=more"), "{asked:?}");
    assert!(asked[2].contains("watch=true") && asked[2].contains("resourceVersion=10"), "{asked:?}");
    assert!(asked[2].contains(selector) && asked[2].contains("allowWatchBookmarks=true"), "{asked:?}");
    // Resumed after the last event, foreign or not.
    assert!(asked[3].contains("resourceVersion=13"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_too_far_behind_lists_again() {
    let script = Script::new(vec![
        list("10", "", &[pod("a", "3", "job-attempt")]),
        events(&[("ERROR", gone())]),
        list("20", "", &[]),
    ]);
    assert_eq!(seen(&script).await, ["restarted", "listed a", "synced", "restarted", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_tried_again_with_growing_delays() {
    let refused = || (503, String::new());
    let mut replies: Vec<_> = (0..6).map(|_| refused()).collect();
    replies.push(list("10", "", &[]));
    let script = Script::new(replies);
    let begun = tokio::time::Instant::now();
    let watching = seen(&script);
    let changes = watching.await;
    assert_eq!(changes.last().map(String::as_str), Some("synced"));
    assert_eq!(changes.iter().filter(|change| *change == "restarted").count(), 7);
    // 0.8 s doubled five times, each within a quarter, and the 200 s of silence at the end.
    let waited = begun.elapsed() - Duration::from_secs(200);
    assert!(waited > Duration::from_secs(37) && waited < Duration::from_secs(64), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn lists_begin_one_after_the_other() {
    let [first, second, third] = Turn::chain();
    assert!(first.after.is_none() && first.then.is_some());
    let (sender, mut receiver) = mpsc::channel(64);
    let sink = Sink::new(sender, Metrics::new(), Arc::default());
    let empty = || Script::new(vec![list("10", "", &[])]);
    let (frameworks, maps, pods) = (empty(), Script::default(), empty());
    let rng = || fastrand::Rng::with_seed(1);
    // The ConfigMaps' LIST never ends, so the Pods' must not begin.
    let tasks = [
        tokio::spawn(watch::<PodObject>(
            pods.client(),
            Selector::of::<PodObject>(),
            sink.clone(),
            third,
            rng(),
        )),
        tokio::spawn(watch::<ConfigMapObject>(
            maps.client(),
            Selector::of::<ConfigMapObject>(),
            sink.clone(),
            second,
            rng(),
        )),
        tokio::spawn(watch::<FrameworkText>(
            frameworks.client(),
            Selector::of::<FrameworkText>(),
            sink,
            first,
            rng(),
        )),
    ];
    let mut seen = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(10), receiver.recv()).await {
        seen.push(format!("{event:?}"));
    }
    let expected = ["Framework(Restarted)", "Framework(Synced)", "ConfigMap(Restarted)"];
    assert_eq!(seen, expected.map(|change| format!("Engine({change})")));
    assert_eq!((maps.asked().len(), pods.asked().len()), (1, 0));
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_changed_selector_begins_a_new_list() {
    let script = Script::new(vec![list("10", "", &[pod("a", "3", "job-attempt")])]);
    let (sender, _receiver) = mpsc::channel(64);
    let sink = Sink::new(sender, Metrics::new(), Arc::default());
    let share = |slot| Selection { grant: 1, slots: [Slot(slot)].into_iter().collect() };
    let (shares, within) = tokio::sync::watch::channel(share(1));
    let selector = Selector::of::<PodObject>().within(within);
    let rng = fastrand::Rng::with_seed(1);
    let client = script.client();
    let watching = tokio::spawn(watch::<PodObject>(client, selector, sink, Turn::default(), rng));
    tokio::time::sleep(Duration::from_secs(10)).await;
    script.replies.lock().unwrap().push_back(list("20", "", &[]));
    shares.send(share(2)).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    watching.abort();
    let asked = script.asked();
    let selected = |uri: &String, slot| uri.contains(&format!("slot+in+%28{slot}%29"));
    assert!(asked.iter().take(2).all(|uri| selected(uri, 1)), "{asked:?}");
    assert!(asked.iter().skip(2).all(|uri| selected(uri, 2)), "{asked:?}");
    assert!(!asked[2].contains("watch=true") && asked[3].contains("resourceVersion=20"), "{asked:?}");
    assert_eq!(asked.len(), 4, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_unreadable_object_is_complete() {
    let bad = json!({"metadata": {"name": ["a", "list"], "namespace": "ns", "resourceVersion": "4"}});
    let script = Script::new(vec![
        list("10", "", &[pod("a", "3", "job-attempt"), bad.clone(), pod("b", "5", "job-attempt")]),
        events(&[("MODIFIED", bad), ("ADDED", pod("c", "11", "job-attempt"))]),
    ]);
    assert_eq!(seen(&script).await, ["restarted", "listed a", "listed b", "synced", "applied c 11"]);
}

/// A kind that a config file declares.
fn sweeps() -> Arc<DeclaredKind> {
    let row = json!({
        "apiVersion": "example.com/v1", "kind": "Sweep", "plural": "sweeps",
        "suspend": {"pointer": "/spec/suspend"}, "podSets": [{"template": "/spec/template"}],
        "finished": {"conditions": ["Done"]},
    });
    Arc::new(DeclaredKind::new(serde_json::from_value(row).unwrap()))
}

fn sweep(name: &str, version: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": version});
    json!({"kind": "Sweep", "apiVersion": "example.com/v1", "metadata": metadata, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_declared_kind_is_watched_until_its_resource_is_gone() {
    let missing = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
        "message": "the server could not find the requested resource",
    });
    let malformed = sweep("malformed", "4", json!({"suspend": "yes"}));
    let script = Script::new(vec![
        list("10", "", &[sweep("a", "3", json!({"suspend": true})), malformed.clone()]),
        events(&[("MODIFIED", malformed), ("DELETED", sweep("a", "12", json!("no spec")))]),
        (404, missing.to_string()),
    ]);
    let (sender, mut receiver) = mpsc::channel(64);
    let metrics = Metrics::new();
    let sink = Sink::new(sender, Arc::clone(&metrics), Arc::default()).of_kind(sweeps());
    let (selector, rng) = (Selector::of::<DeclaredText>(), fastrand::Rng::with_seed(1));
    let watching = watch::<DeclaredText>(script.client(), selector, sink, Turn::default(), rng);
    let ended = tokio::time::timeout(Duration::from_secs(100), watching).await;
    assert!(ended.is_ok(), "{:?}", script.asked());
    let mut seen = Vec::new();
    while let Some(event) = receiver.recv().await {
        let Event::Queue(QueueEvent::Declared(_, change)) = event else { panic!("{event:?}") };
        seen.push(match change {
            Change::Restarted => "restarted".to_owned(),
            Change::Listed(sweep) => format!("listed {} {}", sweep.job.key.name, sweep.job.suspended),
            Change::Synced => "synced".to_owned(),
            Change::Applied(sweep) => format!("applied {}", sweep.job.key.name),
            Change::Deleted(sweep) => format!("deleted {}", sweep.job.key.name),
        });
    }
    assert_eq!(seen, ["restarted", "listed a true", "synced", "deleted a"]);
    assert!(script.asked().iter().all(|uri| uri.starts_with("/apis/example.com/v1/sweeps?")));
    let text = metrics.text(crate::clock::Clock::system().now());
    assert!(text.contains("objects_left_out_total{resource=\"sweeps\"} 2"), "{text}");
}
