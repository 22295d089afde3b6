//! Watches of a scripted API server, under a paused clock.

use std::collections::VecDeque;
use std::sync::Mutex;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::BoxError;

use framework_engine::object::{ConfigMapObject, PodObject};

use framework_message::{Slot, SlotSelection};
use framework_queueing::QueueEvent;

use super::*;
use crate::wire::{DeclaredKind, DeclaredText, FrameworkText};

mod in_queues;

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
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": "c", "controller": true},
            ],
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
            Event::StoreWentBack { seen: shown, found } => {
                seen.push(format!("went back from {shown} to {found}"));
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
async fn a_page_that_is_too_large_is_asked_for_again_with_half_as_many_objects() {
    let script = Script::new(vec![
        (200, " ".repeat(crate::pace::MOST_BYTES + 1)),
        list("10", "", &[pod("job-a", "3", "job-attempt")]),
        events(&[("ERROR", gone())]),
        list("20", "", &[]),
    ]);
    let expected = ["restarted", "restarted", "listed job-a", "synced", "restarted", "synced"];
    assert_eq!(seen(&script).await, expected);
    let limit = |uri: &String| uri.split("limit=").nth(1)?.split('&').next()?.parse().ok();
    let limits: Vec<u32> = script.asked().iter().filter_map(limit).collect();
    assert_eq!(limits, [500, 250, 500], "the next LIST tries twice as many");
}

#[tokio::test(start_paused = true)]
async fn pages_and_events_become_changes_and_foreign_pods_are_left_out() {
    let script = Script::new(vec![
        list("10", "more", &[pod("job-a", "3", "job-attempt"), pod("x", "4", "settings")]),
        list("10", "", &[pod("job-b", "5", "job-attempt")]),
        events(&[
            ("ADDED", pod("job-c", "11", "job-attempt")),
            ("ADDED", pod("y", "12", "settings")),
            ("MODIFIED", pod("job-w-0", "12", "settings")),
            ("DELETED", pod("job-a", "13", "job-attempt")),
        ]),
    ]);
    let expected = [
        "restarted",
        "listed job-a",
        "listed job-b",
        "synced",
        "applied job-c 11",
        "released job-w-0 of job",
        "deleted job-a",
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
        list("10", "", &[pod("job-a", "3", "job-attempt")]),
        events(&[("ERROR", gone())]),
        list("20", "", &[]),
    ]);
    assert_eq!(seen(&script).await, ["restarted", "listed job-a", "synced", "restarted", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_older_than_the_shown_state_is_of_a_restored_store() {
    let applied = |name: &str, version: &str| ("ADDED", pod(name, version, "job-attempt"));
    let script = Script::new(vec![
        list("10", "", &[]),
        events(&[applied("job-a", "11"), applied("job-b", "12"), ("ERROR", gone())]),
        list("12", "", &[]),
        events(&[("ERROR", gone())]),
        list("11", "", &[pod("job-a", "11", "job-attempt")]),
        events(&[("ERROR", gone())]),
        list("11", "", &[]),
    ]);
    let seen = seen(&script).await;
    let after: Vec<&str> = seen.iter().map(String::as_str).skip(4).collect();
    let expected = [
        "restarted",
        "synced",
        "restarted",
        "went back from 12 to 11",
        "listed job-a",
        "synced",
        "restarted",
        "synced",
    ];
    assert_eq!(after, expected);
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
    // 0.8 s doubled twice, and 5 s three times, each within a quarter; and the 200 s of silence at the end.
    let waited = begun.elapsed() - Duration::from_secs(200);
    assert!(waited > Duration::from_secs(15) && waited < Duration::from_secs(26), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_is_asked_for_again_and_no_page_before_it() {
    let script = Script::new(vec![
        list("10", "more", &[pod("job-a", "3", "job-attempt")]),
        (503, String::new()),
        (200, " ".repeat(crate::pace::MOST_BYTES + 1)),
        list("10", "", &[pod("job-b", "5", "job-attempt")]),
    ]);
    assert_eq!(seen(&script).await, ["restarted", "listed job-a", "listed job-b", "synced"]);
    let asked = script.asked();
    assert!(asked[1..4].iter().all(|uri| uri.contains("continue=more")), "{asked:?}");
    assert!(asked[2].contains("limit=500") && asked[3].contains("limit=250"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_begins_again_if_its_page_has_expired_or_fails_for_long() {
    let first = |version| list(version, "more", &[pod("job-a", "3", "job-attempt")]);
    let mut replies = vec![first("10"), (410, gone().to_string()), first("20")];
    // The store was restored: it never had the version of the page.
    replies.extend((0..source::TRIES).map(|_| (500, String::new())));
    replies.extend([first("30"), (500, String::new()), list("30", "", &[])]);
    let expected = [["restarted", "listed job-a"].repeat(3), vec!["synced"]].concat();
    assert_eq!(seen(&Script::new(replies)).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_watch_too_far_behind_after_failures_lists_soon() {
    let mut replies = vec![list("10", "", &[])];
    replies.extend((0..5).map(|_| (503, String::new())));
    replies.extend([events(&[("ERROR", gone())]), list("20", "", &[])]);
    let script = Script::new(replies);
    let begun = tokio::time::Instant::now();
    assert_eq!(seen(&script).await, ["restarted", "synced", "restarted", "synced"]);
    // 0.8 s doubled twice, 5 s twice, and once more the first delay, each within a quarter.
    let waited = begun.elapsed() - Duration::from_secs(200);
    assert!(waited > Duration::from_secs(12) && waited < Duration::from_millis(20_600), "{waited:?}");
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

/// A watch of Pods whose selection changes.
struct SelectedWatch {
    script: Script,
    changes: tokio::sync::watch::Sender<SlotSelection>,
    events: mpsc::Receiver<Event>,
    watching: tokio::task::JoinHandle<()>,
}

impl SelectedWatch {
    async fn begin(slots: &[u8], replies: Vec<(u16, String)>) -> Self {
        let script = Script::new(replies);
        let (sender, events) = mpsc::channel(64);
        let sink = Sink::new(sender, Metrics::new(), Arc::default());
        let (changes, within) = tokio::sync::watch::channel(SlotSelection::whole(1, of(slots)));
        let selector = Selector::of::<PodObject>().within(within);
        let (client, rng) = (script.client(), fastrand::Rng::with_seed(1));
        let watching = tokio::spawn(watch::<PodObject>(client, selector, sink, Turn::default(), rng));
        let mut share = SelectedWatch { script, changes, events, watching };
        share.seen().await;
        share.script.asked.lock().unwrap().clear();
        share
    }

    /// Changes the share. Returns the events after it, and the requests: the slots, then the version.
    async fn change(
        &mut self,
        slots: &[u8],
        list: &[u8],
        replies: Vec<(u16, String)>,
    ) -> (Vec<String>, Vec<String>) {
        self.script.replies.lock().unwrap().extend(replies);
        let grant = self.changes.borrow().grant + 1;
        self.changes.send(SlotSelection { grant, slots: of(slots), list: of(list) }).unwrap();
        let seen = self.seen().await;
        let asked = std::mem::take(&mut *self.script.asked.lock().unwrap());
        let request = |uri: &String| {
            let slots = uri.split_once("in+%28").unwrap().1.split_once("%29").unwrap().0.replace("%2C", ",");
            match uri.split_once("resourceVersion=") {
                Some((_, version)) => format!("watch {slots} from {version}"),
                None => format!("list {slots}"),
            }
        };
        (seen, asked.iter().map(request).collect())
    }

    async fn seen(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(10), self.events.recv()).await {
            seen.push(match event {
                Event::Engine(engine::Event::Selected(_, SlotSelection { list, .. })) => {
                    format!("lists {:?}", list.iter().map(|slot| slot.0).collect::<Vec<_>>())
                }
                Event::Engine(engine::Event::Pod(Change::Restarted)) => "restarted".to_owned(),
                Event::Engine(engine::Event::Pod(Change::Synced)) => "synced".to_owned(),
                Event::Engine(engine::Event::Pod(
                    Change::Listed(pod) | Change::Applied(pod) | Change::Deleted(pod),
                )) => pod.name.replace("job-", ""),
                Event::StoreWentBack { .. } => "went back".to_owned(),
                event => panic!("{event:?}"),
            });
        }
        seen
    }
}

impl Drop for SelectedWatch {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

fn of(slots: &[u8]) -> framework_message::Slots {
    slots.iter().copied().map(Slot).collect()
}

fn pod_in(slot: u8, name: &str, version: &str) -> Value {
    let mut pod = pod(&format!("job-{name}"), version, "job-attempt");
    pod["metadata"]["labels"] = json!({framework_api::name::SLOT_LABEL: slot.to_string()});
    pod
}

#[tokio::test(start_paused = true)]
async fn granted_slots_are_listed_alone_and_the_watch_goes_on_where_it_was() {
    let first = vec![list("10", "", &[pod_in(1, "a", "3")]), events(&[("ADDED", pod_in(1, "b", "12"))])];
    let mut share = SelectedWatch::begin(&[1], first).await;
    let then = vec![
        list("20", "more", &[pod_in(2, "c", "19")]),
        list("20", "", &[pod_in(2, "d", "4")]),
        events(&[
            // The LIST shows the changes of the Pods of its slot up to its version.
            ("ADDED", pod_in(2, "late", "14")),
            ("ADDED", pod_in(1, "e", "15")),
            ("DELETED", pod_in(2, "late", "20")),
            ("MODIFIED", pod_in(2, "f", "21")),
            ("MODIFIED", pod_in(1, "g", "22")),
        ]),
    ];
    let (seen, asked) = share.change(&[1, 2], &[2], then).await;
    assert_eq!(seen, ["lists [2]", "restarted", "c", "d", "synced", "e", "f", "g"]);
    // The first page, the second one, the watch, and the watch after it has ended.
    assert_eq!(asked[0], "list 2");
    assert!(asked[1].starts_with("list 2"), "{asked:?}");
    assert_eq!(asked[2..], ["watch 1,2 from 12", "watch 1,2 from 22"]);
}

#[tokio::test(start_paused = true)]
async fn slots_that_are_granted_while_a_watch_waits_are_listed_at_once() {
    let mut first = vec![list("10", "", &[])];
    first.extend((0..4).map(|_| (503, String::new())));
    // Nothing is seen for ten seconds: the watch has failed four times, and waits.
    let mut share = SelectedWatch::begin(&[1], first).await;
    assert!(share.script.replies.lock().unwrap().is_empty(), "all failures are used up");
    let begun = tokio::time::Instant::now();
    let (seen, asked) = share.change(&[1, 2], &[2], vec![list("20", "", &[])]).await;
    assert_eq!(seen, ["lists [2]", "restarted", "synced"]);
    assert_eq!(asked, ["list 2", "watch 1,2 from 10"]);
    assert_eq!(begun.elapsed(), Duration::from_secs(10), "the silence after the last event");
}

#[tokio::test(start_paused = true)]
async fn objects_that_a_list_shows_are_not_repeated_after_another_change() {
    let mut share = SelectedWatch::begin(&[1], vec![list("10", "", &[])]).await;
    let (_, asked) = share.change(&[1, 2], &[2], vec![list("20", "", &[])]).await;
    assert_eq!(asked, ["list 2", "watch 1,2 from 10"]);
    let then = vec![
        list("30", "", &[]),
        events(&[
            ("ADDED", pod_in(2, "old", "20")),
            ("ADDED", pod_in(2, "a", "21")),
            ("ADDED", pod_in(3, "old", "30")),
        ]),
    ];
    let (seen, asked) = share.change(&[2, 3], &[3], then).await;
    assert_eq!(seen, ["lists [3]", "restarted", "synced", "a"]);
    assert_eq!(asked, ["list 3", "watch 2,3 from 10", "watch 2,3 from 30"]);
}

#[tokio::test(start_paused = true)]
async fn slots_that_go_cost_no_list_and_slots_that_come_back_are_listed() {
    let mut share = SelectedWatch::begin(&[1, 2], vec![list("10", "", &[])]).await;
    let (seen, asked) = share.change(&[1], &[], Vec::new()).await;
    assert_eq!(seen, ["lists []", "restarted", "synced"]);
    assert_eq!(asked, ["watch 1 from 10"]);
    let back = list("40", "", &[]);
    let (seen, asked) = share.change(&[1, 2], &[2], vec![back.clone()]).await;
    assert_eq!(seen, ["lists [2]", "restarted", "synced"]);
    assert_eq!(asked, ["list 2", "watch 1,2 from 10"]);
    // A slot that was lost and granted in one change.
    let (_, asked) = share.change(&[1, 2], &[1], vec![back]).await;
    assert_eq!(asked, ["list 1", "watch 1,2 from 10"]);
}

#[tokio::test(start_paused = true)]
async fn a_share_is_listed_whole_if_its_watch_cannot_go_on() {
    let mut share = SelectedWatch::begin(&[1], vec![list("10", "", &[])]).await;
    let expired = vec![list("20", "", &[]), events(&[("ERROR", gone())]), list("30", "", &[])];
    let (seen, asked) = share.change(&[1, 2], &[2], expired).await;
    assert_eq!(seen, ["lists [2]", "restarted", "synced", "lists [1, 2]", "restarted", "synced"]);
    assert_eq!(asked, ["list 2", "watch 1,2 from 10", "list 1,2", "watch 1,2 from 30"]);
    // A LIST that is older than the last event: the store was restored.
    let restored = vec![list("29", "", &[]), list("29", "", &[])];
    let (seen, asked) = share.change(&[1, 2, 3], &[3], restored).await;
    assert_eq!(seen, ["lists [3]", "restarted", "went back", "lists [1, 2, 3]", "restarted", "synced"]);
    assert_eq!(asked, ["list 3", "list 1,2,3", "watch 1,2,3 from 29"]);
    // Nothing was shown meanwhile.
    share.change(&[], &[], Vec::new()).await;
    let (seen, asked) = share.change(&[1], &[1], vec![list("40", "", &[])]).await;
    assert_eq!(seen, ["lists [1]", "restarted", "synced"]);
    assert_eq!(asked, ["list 1", "watch 1 from 40"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_unreadable_object_is_complete() {
    let bad = json!({"metadata": {"name": ["a", "list"], "namespace": "ns", "resourceVersion": "4"}});
    let script = Script::new(vec![
        list("10", "", &[pod("job-a", "3", "job-attempt"), bad.clone(), pod("job-b", "5", "job-attempt")]),
        events(&[("MODIFIED", bad), ("ADDED", pod("job-c", "11", "job-attempt"))]),
    ]);
    assert_eq!(
        seen(&script).await,
        ["restarted", "listed job-a", "listed job-b", "synced", "applied job-c 11"]
    );
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
async fn jobs_that_cannot_be_listed_keep_no_other_watch_from_its_begin() {
    let [first, mut second] = Turn::chain();
    let script = Script::new(vec![(500, String::new()); 40]);
    let (sender, _receiver) = mpsc::channel(64);
    let sink = Sink::new(sender, Metrics::new(), Arc::default()).of_kind(sweeps());
    let (selector, rng) = (Selector::of::<DeclaredText>(), fastrand::Rng::with_seed(1));
    let watching = tokio::spawn(watch::<DeclaredText>(script.client(), selector, sink, first, rng));
    let begins = tokio::time::timeout(Duration::from_secs(60), second.comes()).await;
    assert_eq!(begins, Ok(true), "{:?}", script.asked());
    assert!(script.asked().len() >= 4, "a failure or two are no reason");
    watching.abort();
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
        seen.push(match *change {
            Change::Restarted => "restarted".to_owned(),
            Change::Listed(sweep) => format!("listed {} {}", sweep.job.key.name, sweep.job.suspended),
            Change::Synced => "synced".to_owned(),
            Change::Applied(sweep) => format!("applied {}", sweep.job.key.name),
            Change::Deleted(sweep) => format!("deleted {}", sweep.job.key.name),
        });
    }
    let expected =
        ["restarted", "listed a true", "listed malformed true", "synced", "applied malformed", "deleted a"];
    assert_eq!(seen, expected);
    assert!(script.asked().iter().all(|uri| uri.starts_with("/apis/example.com/v1/sweeps?")));
    let text = metrics.text(crate::clock::Clock::system().now());
    assert!(text.contains("objects_left_out_total{resource=\"sweeps\"} 2"), "{text}");
}
