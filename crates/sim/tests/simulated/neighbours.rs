//! The rest of the cluster: nodes with Pods, the garbage collector with owners, quota.

use std::time::Duration;

use framework_sim::{Behaviour, DeleteOptions, End, Meta, Options, Rates, User, run};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

fn steady_state() -> Options {
    Options { rates: Rates::none(), ..Options::default() }
}

fn owned(mut object: Value, owner: &Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    object
}

fn framework() -> Value {
    let version = "frameworkcontroller.microsoft.com/v1";
    json!({ "apiVersion": version, "kind": "Framework", "metadata": { "name": "f" }, "spec": {} })
}

fn attempt() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "f-attempt", "finalizers": ["foregroundDeletion"] } })
}

fn pod(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "annotations": annotations },
        "spec": { "containers": [{ "name": "main", "image": "x" }, { "name": "side", "image": "y" }] },
    })
}

fn phase(user: &User, name: &str) -> String {
    user.get("pods", name)
        .map_or("gone", |pod| match pod["status"]["phase"].as_str() {
            Some("Pending") => "Pending",
            Some("Running") => "Running",
            Some("Failed") => "Failed",
            Some("Succeeded") => "Succeeded",
            _ => "?",
        })
        .to_owned()
}

/// A Framework, its ConfigMap and two Pods that run until they are deleted.
fn family(user: &User) {
    let framework = user.create(framework()).unwrap();
    let attempt = user.create(owned(attempt(), &framework)).unwrap();
    for name in ["f-r-0", "f-r-1"] {
        user.create(owned(pod(name, json!({ "sim/run-ms": "forever" })), &attempt)).unwrap();
    }
}

#[test]
fn a_pod_is_bound_runs_and_ends_as_its_annotations_say() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        let annotations = json!({ "sim/exit-code": "7", "sim/reason": "OOMKilled", "sim/message": "too much",
            "sim/run-ms": "5000", "sim/start-ms": "1000" });
        user.create(pod("p", annotations)).unwrap();
        assert!(cluster.until(MINUTE, |user| phase(user, "p") == "Running").await);
        let running = user.get("pods", "p").unwrap();
        assert!(running["spec"]["nodeName"].is_string() && running["status"]["podIP"].is_string());
        let since = cluster.clock().elapsed();
        assert!(cluster.until(MINUTE, |user| phase(user, "p") == "Failed").await);
        assert_eq!(cluster.clock().elapsed() - since, Duration::from_secs(5));
        let ended = user.get("pods", "p").unwrap();
        let state = |index: usize| &ended["status"]["containerStatuses"][index]["state"]["terminated"];
        assert_eq!((&state(0)["exitCode"], &state(0)["reason"]), (&json!(7), &json!("OOMKilled")));
        assert_eq!((&state(0)["message"], &state(1)["exitCode"]), (&json!("too much"), &json!(0)));
        assert!(state(0)["finishedAt"].is_string());
        user.delete("pods", "p").unwrap();
        assert_eq!(phase(&user, "p"), "gone");
    });
}

#[test]
fn a_pod_may_never_start_or_fail_as_a_whole() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        user.create(pod("stuck", json!({ "sim/never-start": "true" }))).unwrap();
        user.create(pod("evicted", json!({ "sim/pod-reason": "Evicted" }))).unwrap();
        assert!(cluster.until(MINUTE, |user| phase(user, "evicted") == "Failed").await);
        let evicted = user.get("pods", "evicted").unwrap();
        assert_eq!(evicted["status"]["reason"], "Evicted");
        assert!(evicted["status"]["containerStatuses"].is_null());
        cluster.settle(MINUTE, 2 * MINUTE).await;
        assert_eq!(phase(&user, "stuck"), "Pending");
        assert!(user.get("pods", "stuck").unwrap()["spec"]["nodeName"].is_string());
    });
}

#[test]
fn a_test_may_script_all_pods_and_end_one_by_hand() {
    let mut options = steady_state();
    options.behaviour = Behaviour { fail: 1.0, exit_codes: vec![42], never_end: 1.0, ..Behaviour::default() };
    run(1, options, |cluster| async move {
        let user = cluster.user();
        user.create(pod("p", json!({}))).unwrap();
        assert!(cluster.until(MINUTE, |user| phase(user, "p") == "Running").await);
        assert!(user.end_pod("p", &End::Exit { code: 0, reason: None, message: None, signal: None }));
        assert_eq!(phase(&user, "p"), "Succeeded");
        cluster.behave(|behaviour| behaviour.never_end = 0.0);
        user.create(pod("q", json!({}))).unwrap();
        assert!(cluster.until(MINUTE, |user| phase(user, "q") == "Failed").await);
        let code = &user.get("pods", "q").unwrap()["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(code["exitCode"], 42);
    });
}

#[test]
fn deleting_an_owner_in_the_foreground_takes_its_pods_first() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        family(&user);
        assert!(cluster.until(MINUTE, |user| phase(user, "f-r-1") == "Running").await);
        user.delete("configmaps", "f-attempt").unwrap();
        assert!(user.get("configmaps", "f-attempt").unwrap().deleting());
        assert!(cluster.until(MINUTE, |user| user.get("configmaps", "f-attempt").is_none()).await);
        assert_eq!(user.list("pods").len(), 0);
        let history = cluster.history();
        let gone = |name: &str| history.changes.iter().position(|c| c.removes() && c.name == name).unwrap();
        assert!(gone("f-r-0") < gone("f-attempt") && gone("f-r-1") < gone("f-attempt"));
    });
}

#[test]
fn a_background_deletion_strips_the_finalizer_and_leaves_the_pods() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        family(&user);
        let background =
            DeleteOptions { propagation: Some("Background".to_owned()), ..DeleteOptions::default() };
        user.delete_with("configmaps", "f-attempt", &background).unwrap();
        assert!(user.get("configmaps", "f-attempt").is_none());
        assert_eq!(user.list("pods").len(), 2);
        assert!(cluster.until(MINUTE, |user| user.list("pods").is_empty()).await);
    });
}

#[test]
fn deleting_a_framework_takes_all_and_orphaning_it_takes_nothing() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        family(&user);
        user.delete("frameworks", "f").unwrap();
        let empty = |user: &User| user.list("pods").is_empty() && user.list("configmaps").is_empty();
        assert!(cluster.until(MINUTE, empty).await);
        family(&user);
        let orphan = DeleteOptions { propagation: Some("Orphan".to_owned()), ..DeleteOptions::default() };
        user.delete_with("frameworks", "f", &orphan).unwrap();
        assert!(cluster.until(MINUTE, |user| user.get("frameworks", "f").is_none()).await);
        cluster.settle(MINUTE, 10 * MINUTE).await;
        assert_eq!((user.list("configmaps").len(), user.list("pods").len()), (1, 2));
        assert!(user.get("configmaps", "f-attempt").unwrap().owners().is_empty());
    });
}

#[test]
fn a_pod_born_after_its_owner_died_is_collected() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        let attempt = user
            .create(json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "f-attempt" } }))
            .unwrap();
        user.delete("configmaps", "f-attempt").unwrap();
        user.create(owned(pod("late", json!({ "sim/run-ms": "forever" })), &attempt)).unwrap();
        assert!(cluster.until(MINUTE, |user| phase(user, "late") == "gone").await);
    });
}

#[test]
fn a_dead_node_keeps_its_pods_terminating_until_it_is_back() {
    let options = Options { nodes: 1, ..steady_state() };
    run(1, options, |cluster| async move {
        let user = cluster.user();
        user.create(pod("p", json!({ "sim/run-ms": "forever" }))).unwrap();
        assert!(cluster.until(MINUTE, |user| phase(user, "p") == "Running").await);
        cluster.kill_node("node-0", Duration::from_secs(40));
        assert!(cluster.until(MINUTE, |user| user.get("pods", "p").unwrap().deleting()).await);
        cluster.settle(MINUTE, 5 * MINUTE).await;
        assert_eq!(phase(&user, "p"), "Running");
        cluster.revive_node("node-0");
        assert!(cluster.until(MINUTE, |user| phase(user, "p") == "gone").await);
    });
}
