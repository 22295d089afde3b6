//! The simulated API server against the real one, for queues: which changes of a QueueUnit its definition
//! allows, and how Pods are held to a ResourceQuota. The same requests, the same answers.

use std::time::Duration;

use framework_api::crd::queue;
use framework_sim::{Kind, Options, Rates, run};
use framework_testcluster::shared;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::conformance::wire::{JSON, MERGE};
use crate::conformance::{difference, listing, wire};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definitions() -> [Value; 2] {
    [queue::unit_definition(), queue::queue_definition()].map(|crd| serde_json::to_value(crd).unwrap())
}

async fn send(client: &kube::Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let form = if method == "PATCH" { MERGE } else { JSON };
    wire::send(client, method, path, form, Some(body).filter(|body| !body.is_null())).await
}

/// The part of an answer that a client of units acts on.
fn summary(code: u16, body: &Value) -> String {
    let causes = body["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let fields: Vec<&str> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
    format!("{code} {} {fields:?}", body["reason"].as_str().unwrap_or("-"))
}

/// A unit's life, and every change that is not allowed in it.
async fn unit_life(client: &kube::Client, namespace: &str) -> Vec<String> {
    let all = format!("/apis/queue.k8s.io/v1alpha1/namespaces/{namespace}/queueunits");
    let (one, status) = (format!("{all}/x"), format!("{all}/x/status"));
    let unit = unit("x");
    let spec = |field: &str, value: Value| json!({ "spec": { field: value } });
    let phase = |phase: &str| json!({ "status": { "phase": phase, "message": "", "conditions": [] } });
    let other = json!({ "apiVersion": "example.com/v1", "kind": "Train", "name": "y" });
    let fixed = [
        ("queue", json!("r")),
        ("resource", json!({ "pods": 1 })),
        ("consumerRef", other),
        ("priorityClassName", json!("high")),
    ];
    let mut steps = vec![("POST", &all, unit), ("PATCH", &one, spec("priority", json!(5)))];
    let every = |steps: &mut Vec<(&'static str, _, Value)>| {
        steps.extend(fixed.iter().map(|(field, value)| ("PATCH", &one, spec(field, value.clone()))));
    };
    every(&mut steps);
    steps.extend([
        ("PATCH", &status, phase("Dequeued")),
        ("PATCH", &status, phase("Enqueued")),
        ("PATCH", &one, spec("priority", json!(6))),
        ("PATCH", &one, spec("priority", Value::Null)),
        ("PATCH", &one, spec("priority", json!(7))),
    ]);
    every(&mut steps);
    let mut stale = phase("Dequeued");
    stale["metadata"] = json!({ "resourceVersion": "1" });
    steps.extend([
        ("PATCH", &status, stale),
        ("PATCH", &status, phase("Dequeued")),
        ("PATCH", &one, spec("priority", json!(8))),
        ("PATCH", &one, spec("priority", Value::Null)),
    ]);
    every(&mut steps);
    steps.extend([
        ("PATCH", &status, phase("Enqueued")),
        ("PATCH", &status, json!({ "status": { "message": "more" } })),
        ("PATCH", &one, json!({ "metadata": { "finalizers": ["example.com/held"] } })),
        ("DELETE", &one, Value::Null),
        ("PATCH", &one, json!({ "metadata": { "finalizers": [] } })),
        ("GET", &one, Value::Null),
    ]);
    let mut lines = Vec::new();
    for (method, path, body) in steps {
        let (code, answer) = send(client, method, path, &body).await;
        lines.push(format!("{method} {body}: {}", summary(code, &answer)));
    }
    lines
}

/// A unit of the shape that all of these have.
fn unit(name: &str) -> Value {
    let reference = json!({ "apiVersion": "example.com/v1", "kind": "Train", "name": name });
    json!({
        "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": { "name": name },
        "spec": { "consumerRef": reference, "queue": "q", "resource": { "pods": 2, "cpu": "1" } },
    })
}

/// PUTs of a unit and of its status, each of the unit as it was read, with one thing changed.
async fn unit_puts(client: &kube::Client, namespace: &str) -> Vec<String> {
    let all = format!("/apis/queue.k8s.io/v1alpha1/namespaces/{namespace}/queueunits");
    let (one, status) = (format!("{all}/put"), format!("{all}/put/status"));
    let (code, created) = send(client, "POST", &all, &unit("put")).await;
    assert_eq!(code, 201, "{created}");
    let phase = |phase: &str| json!({ "status": { "phase": phase, "message": "", "conditions": [] } });
    let version = |version: Value| json!({ "metadata": { "resourceVersion": version } });
    let both = |mut change: Value, other: Value| {
        json_patch::merge(&mut change, &other);
        change
    };
    let priority = |priority: u8| json!({ "spec": { "priority": priority } });
    let steps = [
        ("its status skips a phase", &status, phase("Dequeued")),
        ("its status has no version", &status, both(phase("Enqueued"), version(Value::Null))),
        ("its status has an old version", &status, both(phase("Enqueued"), version(json!("1")))),
        (
            "its status has another UID",
            &status,
            both(phase("Enqueued"), json!({ "metadata": { "uid": "u" } })),
        ),
        ("its status goes on, and the spec in it", &status, both(phase("Enqueued"), priority(3))),
        ("it is put with another status", &one, both(priority(4), phase("Dequeued"))),
        ("its label is put with the status", &status, json!({ "metadata": { "labels": { "a": "b" } } })),
        ("nothing changes", &status, json!({})),
        ("its status has another field", &status, json!({ "status": { "unknown": 1 } })),
        ("its status has no phase", &status, json!({ "status": { "phase": null } })),
        ("it is released", &status, phase("Dequeued")),
        ("it is taken back", &status, phase("Enqueued")),
        ("its status is taken away", &status, json!({ "status": null })),
        ("its message changes", &status, json!({ "status": { "message": "again" } })),
    ];
    let mut lines = Vec::new();
    for (what, path, change) in steps {
        let (_, mut object) = send(client, "GET", &one, &Value::Null).await;
        let before = object["metadata"]["resourceVersion"].clone();
        json_patch::merge(&mut object, &change);
        let (code, answer) = send(client, "PUT", path, &object).await;
        let (_, after) = send(client, "GET", &one, &Value::Null).await;
        let changed = after["metadata"]["resourceVersion"] != before;
        let (spec, labels) = (&after["spec"]["priority"], &after["metadata"]["labels"]);
        let seen =
            format!("{} {spec} {labels} generation {}", after["status"], after["metadata"]["generation"]);
        lines.push(format!("{what}: {} changed {changed}: {seen}", summary(code, &answer)));
    }
    let mut absent = unit("absent");
    json_patch::merge(&mut absent, &both(phase("Enqueued"), version(json!("1"))));
    for path in [format!("{all}/absent"), format!("{all}/absent/status")] {
        let (code, answer) = send(client, "PUT", &path, &absent).await;
        lines.push(format!("one that is not there: {}", summary(code, &answer)));
    }
    lines
}

/// Pods come and go under quotas of Pods and of CPU.
async fn quota_life(client: &kube::Client, namespace: &str) -> Vec<String> {
    let base = format!("/api/v1/namespaces/{namespace}");
    let (quotas, pods) = (format!("{base}/resourcequotas"), format!("{base}/pods"));
    let hard = json!({ "pods": "2", "requests.cpu": "1" });
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "room" },
        "spec": { "hard": hard } });
    let pod = |name: &str, cpu: &str| {
        json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "annotations": { "sim/never-schedule": "true" } },
            "spec": { "schedulerName": "nobody", "containers": [
                { "name": "main", "image": "x", "resources": { "requests": { "cpu": cpu } } },
            ] } })
    };
    let mut lines = Vec::new();
    let (code, _) = send(client, "POST", &quotas, &quota).await;
    lines.push(format!("the quota is made: {code}"));
    let one = format!("{quotas}/room");
    lines.push(counted(client, &one, "0").await);
    let none = Value::Null;
    let steps = [
        ("POST", pods.clone(), pod("a", "600m")),
        ("GET", one.clone(), none.clone()),
        ("POST", pods.clone(), pod("b", "500m")),
        ("POST", pods.clone(), pod("c", "400m")),
        ("GET", one.clone(), none.clone()),
        ("POST", pods.clone(), pod("d", "0")),
        ("DELETE", format!("{pods}/c"), json!({ "gracePeriodSeconds": 0 })),
    ];
    for (method, path, body) in steps {
        let (code, answer) = send(client, method, &path, &body).await;
        let message = answer["message"].as_str().unwrap_or("");
        let used = if answer["kind"] == "ResourceQuota" { &answer["status"] } else { &none };
        lines.push(format!("{method} {}: {code} {message} {used}", body["metadata"]["name"]));
    }
    // Counting takes away later than admission has added.
    lines.push(counted(client, &one, "1").await);
    // Admission sees the change by a watch of its own.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut code = 403;
    while code == 403 && Instant::now() < deadline {
        code = send(client, "POST", &pods, &pod("e", "400m")).await.0;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    lines.push(format!("there is room again: {code}"));
    lines
}

/// The status of a quota once so many Pods count as used.
async fn counted(client: &kube::Client, quota: &str, pods: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, found) = send(client, "GET", quota, &Value::Null).await;
        if found["status"]["used"]["pods"] == pods {
            return found["status"].to_string();
        }
        assert!(Instant::now() < deadline, "never counted: {found}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until units are served.
async fn install(client: &kube::Client) {
    for definition in definitions() {
        // It may be there.
        send(client, "POST", CRDS, &definition).await;
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    let served = "/apis/queue.k8s.io/v1alpha1/namespaces/default/queueunits";
    while send(client, "GET", served, &Value::Null).await.0 != 200 {
        assert!(Instant::now() < deadline, "the definition is not served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn lives(client: kube::Client, namespace: &str) -> Vec<String> {
    let mut lines = unit_life(&client, namespace).await;
    lines.extend(unit_puts(&client, namespace).await);
    lines.extend(quota_life(&client, namespace).await);
    let units = format!("/apis/queue.k8s.io/v1alpha1/namespaces/{namespace}/queueunits");
    lines.extend(listing::answers(&client, &units, unit).await);
    lines
}

#[test]
fn units_and_quotas_are_simulated_as_the_real_server_treats_them() {
    let cluster = shared();
    let options = Options { rates: Rates::none(), ..Options::default() };
    let ours = run(1, options, |cluster| async move {
        for definition in definitions() {
            cluster.register(Kind::of_definition(&definition).unwrap());
        }
        lives(cluster.client("walker"), "queues").await
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let theirs = runtime.block_on(async {
        let client = cluster.client();
        install(&client).await;
        cluster.namespace("queues").await.unwrap();
        lives(client, "queues").await
    });
    assert_eq!(difference::first(&ours, &theirs), None);
}
