//! The API server and its objects: versions, status, preconditions, deletion, watches, pages.

use std::time::Duration;

use framework_sim::{DeleteOptions, Meta, Options, Rates, Refusal, SimCluster, User, Verb, run};
use futures::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use serde_json::{Value, json};

fn steady_state() -> Options {
    Options { rates: Rates::none(), ..Options::default() }
}

fn framework(name: &str) -> Value {
    json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
        "metadata": { "name": name, "labels": { "slot": "7" } }, "spec": { "executionType": "Start" },
        "status": { "state": "Invented" },
    })
}

fn map(name: &str, metadata: Value) -> Value {
    let mut map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    map["metadata"]["name"] = json!(name);
    map
}

fn pod(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "annotations": annotations },
        "spec": { "containers": [{ "name": "main", "image": "x" }], "restartPolicy": "Never" },
    })
}

fn refused<T>(result: Result<T, Refusal>) -> (u16, &'static str) {
    result.err().map_or((0, "accepted"), |refusal| (refusal.code, refusal.reason))
}

async fn raw(cluster: &SimCluster, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(kube::client::Body::from(body)).unwrap();
    let response = cluster.client("raw").send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// The next events of a watch: type, name and resourceVersion.
async fn events(cluster: &SimCluster, path: &str, limit: Duration) -> Vec<(String, Value)> {
    let request = Request::get(path).body(Vec::new()).unwrap();
    let lines = cluster.client("raw").request_stream(request).await.unwrap().lines();
    let mut seen = Vec::new();
    let read = lines.try_for_each(|line| {
        assert!(line.starts_with("{\"type\":"), "the type comes first: {line}");
        let event: Value = serde_json::from_str(&line).unwrap();
        seen.push((event["type"].as_str().unwrap().to_owned(), event["object"].clone()));
        std::future::ready(Ok(()))
    });
    let _ = tokio::time::timeout(limit, read).await;
    seen
}

fn kinds(events: &[(String, Value)]) -> Vec<String> {
    events.iter().map(|(kind, object)| format!("{kind} {}", object.name())).collect()
}

#[test]
fn status_and_spec_are_written_apart_and_only_the_spec_counts_generations() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        let made = user.create(framework("f")).unwrap();
        assert_eq!((&made["status"], &made["metadata"]["generation"]), (&Value::Null, &json!(1)));
        let one = user.patch("frameworks", "f", json!({ "spec": { "x": 1 }, "status": { "y": 1 } })).unwrap();
        assert_eq!((&one["status"], &one["metadata"]["generation"]), (&Value::Null, &json!(2)));
        let two = user.patch_status("frameworks", "f", json!({ "state": "S" })).unwrap();
        assert_eq!((&two["status"]["state"], &two["metadata"]["generation"]), (&json!("S"), &json!(2)));
        let path = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks/f/status";
        let mut body = Value::clone(&two);
        body["spec"] = json!({ "stolen": true });
        body["status"] = json!({ "state": "T" });
        let (code, three) = raw(&cluster, "PUT", path, body.clone()).await;
        assert_eq!((code, &three["spec"]["x"], &three["status"]["state"]), (200, &json!(1), &json!("T")));
        let (code, refusal) = raw(&cluster, "PUT", path, body).await;
        assert_eq!((code, &refusal["reason"], &refusal["kind"]), (409, &json!("Conflict"), &json!("Status")));
    });
}

#[test]
fn a_write_that_changes_nothing_makes_no_version() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        let made = user.create(framework("f")).unwrap();
        let again = user.patch("frameworks", "f", json!({ "spec": { "executionType": "Start" } })).unwrap();
        assert_eq!(made.version(), again.version());
        assert_eq!(cluster.version(), made.version());
    });
}

#[test]
fn preconditions_refuse_another_version_or_another_life() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        let first = user.create(map("m", json!({}))).unwrap();
        assert_eq!(refused(user.create(map("m", json!({})))), (409, "AlreadyExists"));
        let wrong = DeleteOptions::of_uid("wrong");
        assert_eq!(refused(user.delete_with("configmaps", "m", &wrong)), (409, "Conflict"));
        let old = DeleteOptions { version: Some("1".to_owned()), ..DeleteOptions::default() };
        assert_eq!(refused(user.delete_with("configmaps", "m", &old)), (409, "Conflict"));
        let stale = json!({ "metadata": { "resourceVersion": "1" }, "data": { "a": "b" } });
        assert_eq!(refused(user.patch("configmaps", "m", stale)), (409, "Conflict"));
        user.delete_with("configmaps", "m", &DeleteOptions::of_uid(first.uid())).unwrap();
        assert_eq!(refused(user.delete("configmaps", "m")), (404, "NotFound"));
        let second = user.create(map("m", json!({}))).unwrap();
        assert_ne!(first.uid(), second.uid());
        assert_eq!(refused(user.create(map("Bad_Name", json!({})))), (422, "Invalid"));
        let mut empty = pod("p", json!({}));
        empty["spec"]["containers"] = json!([]);
        assert_eq!(refused(user.create(empty)), (422, "Invalid"));
    });
}

#[test]
fn a_pod_that_does_not_run_goes_at_once_and_says_so_twice() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        let made = user.create(pod("p", json!({ "sim/never-schedule": "true" }))).unwrap();
        user.delete("pods", "p").unwrap();
        assert!(user.get("pods", "p").is_none());
        let path = format!("/api/v1/pods?watch=true&resourceVersion={}", made.version());
        let seen = events(&cluster, &path, Duration::from_secs(1)).await;
        assert_eq!(kinds(&seen), ["MODIFIED p", "DELETED p"]);
        assert!(seen[1].1.deleting(), "its last version carries the deletionTimestamp");
        assert!(seen[1].1.version() > seen[0].1.version());
    });
}

#[test]
fn a_running_pod_gets_its_grace_period_and_force_shortens_it() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        let forever = json!({ "sim/run-ms": "forever", "sim/hang-terminating": "true" });
        user.create(pod("p", forever)).unwrap();
        let running =
            |user: &User| user.get("pods", "p").is_some_and(|pod| pod["status"]["phase"] == "Running");
        assert!(cluster.until(Duration::from_secs(5), running).await);
        user.delete("pods", "p").unwrap();
        let dying = user.get("pods", "p").unwrap();
        assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], 30);
        let longer = DeleteOptions { grace: Some(60), ..DeleteOptions::default() };
        user.delete_with("pods", "p", &longer).unwrap();
        assert_eq!(user.get("pods", "p").unwrap().version(), dying.version(), "it only ever gets shorter");
        cluster.settle(Duration::from_secs(100), Duration::from_secs(200)).await;
        assert!(user.get("pods", "p").is_some(), "it hangs");
        let force = DeleteOptions { grace: Some(0), ..DeleteOptions::of_uid(dying.uid()) };
        user.delete_with("pods", "p", &force).unwrap();
        assert!(user.get("pods", "p").is_none());
    });
}

#[test]
fn finalizers_hold_an_object_until_the_last_is_gone() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        user.create(map("m", json!({ "finalizers": ["a/x", "a/y"] }))).unwrap();
        user.delete("configmaps", "m").unwrap();
        assert!(user.get("configmaps", "m").unwrap().deleting());
        let more = json!({ "metadata": { "finalizers": ["a/x", "a/y", "a/z"] } });
        assert_eq!(refused(user.patch("configmaps", "m", more)), (422, "Invalid"));
        user.patch("configmaps", "m", json!({ "metadata": { "finalizers": ["a/y"] } })).unwrap();
        assert!(user.get("configmaps", "m").is_some());
        user.patch("configmaps", "m", json!({ "metadata": { "finalizers": [] } })).unwrap();
        assert!(user.get("configmaps", "m").is_none());
    });
}

#[test]
fn a_selected_watch_sees_an_object_leave_as_deleted_with_its_old_content() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        let label = |slot: &str| json!({ "metadata": { "labels": { "slot": slot } } });
        let start = cluster.version();
        user.create(framework("f")).unwrap();
        user.patch("frameworks", "f", label("9")).unwrap();
        user.patch("frameworks", "f", label("8")).unwrap();
        user.delete("frameworks", "f").unwrap();
        let path = format!(
            "/apis/frameworkcontroller.microsoft.com/v1/frameworks?watch=1&resourceVersion={start}\
             &labelSelector=slot%20in%20(7,8)"
        );
        let seen = events(&cluster, &path, Duration::from_secs(1)).await;
        assert_eq!(kinds(&seen), ["ADDED f", "DELETED f", "ADDED f", "DELETED f"]);
        let (left, gone) = (&seen[1].1, &seen[3].1);
        assert_eq!((left["metadata"]["labels"]["slot"].as_str(), left.version()), (Some("7"), start + 2));
        assert_eq!((gone["metadata"]["labels"]["slot"].as_str(), gone.version()), (Some("8"), start + 4));
    });
}

#[test]
fn pages_are_of_one_version_and_expire_with_it() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        (0..5).for_each(|n| drop(user.create(map(&format!("m{n}"), json!({}))).unwrap()));
        let path = "/api/v1/namespaces/default/configmaps?limit=2";
        let (_, first) = raw(&cluster, "GET", path, Value::Null).await;
        assert_eq!(first["metadata"]["remainingItemCount"], 3);
        assert!(first["items"][0].get("kind").is_none(), "items of a built-in kind do not say their kind");
        let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
        user.delete("configmaps", "m2").unwrap();
        user.create(map("m21", json!({}))).unwrap();
        let (_, second) = raw(&cluster, "GET", &format!("{path}&continue={token}"), Value::Null).await;
        let names: Vec<_> = second["items"].as_array().unwrap().iter().map(|item| item.name()).collect();
        assert_eq!(names, ["m2", "m3"]);
        assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        cluster.compact();
        let (code, gone) = raw(&cluster, "GET", &format!("{path}&continue={token}"), Value::Null).await;
        assert_eq!((code, &gone["reason"]), (410, &json!("Expired")));
    });
}

#[test]
fn a_watch_from_a_compacted_version_is_answered_with_gone() {
    run(1, steady_state(), |cluster| async move {
        let start = cluster.version();
        cluster.user().create(map("m", json!({}))).unwrap();
        cluster.compact();
        let path = format!("/api/v1/configmaps?watch=1&resourceVersion={start}");
        let seen = events(&cluster, &path, Duration::from_secs(1)).await;
        assert_eq!((seen.len(), &*seen[0].0, &seen[0].1["code"]), (1, "ERROR", &json!(410)));
    });
}

#[test]
fn a_watch_ends_in_time_and_bookmarks_say_how_far_it_is() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        user.create(pod("p", json!({ "sim/never-schedule": "true" }))).unwrap();
        let path = "/api/v1/configmaps?watch=1&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=90";
        let seen = events(&cluster, path, Duration::from_secs(1000)).await;
        assert_eq!(cluster.clock().elapsed(), Duration::from_secs(90));
        // One after a minute, and one shortly before the end.
        assert_eq!(kinds(&seen), ["BOOKMARK ", "BOOKMARK "]);
        assert_eq!(seen[1].1.version(), cluster.version());
        let path = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                    &allowWatchBookmarks=true&timeoutSeconds=9";
        let seen = events(&cluster, path, Duration::from_secs(1000)).await;
        assert_eq!(kinds(&seen), ["ADDED p", "BOOKMARK ", "BOOKMARK "]);
        assert_eq!(seen[1].1.annotation("k8s.io/initial-events-end"), Some("true"));
    });
}

#[test]
fn replies_carry_the_servers_date_and_the_history_counts_requests() {
    run(1, steady_state(), |cluster| async move {
        cluster.clock().skew_server(jiff::SignedDuration::from_secs(3600));
        let request = Request::get("/version").body(kube::client::Body::empty()).unwrap();
        let response = cluster.client("raw").send(request).await.unwrap();
        assert_eq!(response.headers()["date"], "Thu, 01 Jan 2026 01:00:00 GMT");
        raw(&cluster, "GET", "/api/v1/namespaces/default/pods/none", Value::Null).await;
        let history = cluster.history();
        assert_eq!(history.count("raw", Verb::Get, "pods"), 1);
        assert_eq!(history.exchanges[1].code, Some(404));
    });
}
