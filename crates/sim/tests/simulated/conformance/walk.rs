//! Random requests, written without UIDs and versions: each side fills in its own.

use fastrand::Rng;
use serde_json::{Value, json};

/// A kind that the walk is about.
pub struct Walked {
    pub base: &'static str,
    pub plural: &'static str,
    pub status: bool,
}

/// The kinds of the walk.
pub const KINDS: &[Walked] = &[
    Walked { base: "/api/v1", plural: "configmaps", status: false },
    Walked { base: "/api/v1", plural: "pods", status: false },
    Walked { base: "/apis/frameworkcontroller.microsoft.com/v1", plural: "frameworks", status: true },
    Walked { base: "/apis/coordination.k8s.io/v1", plural: "leases", status: false },
    Walked { base: "/apis/events.k8s.io/v1", plural: "events", status: false },
];

/// Which of the UIDs or versions known is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    None,
    Right,
    Wrong,
}

/// The change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    Nothing,
    Slot(u8),
    NoSlot,
    Finalizer,
    NoFinalizer,
    Content(u8),
    Status(u8),
}

#[derive(Debug, Clone, Copy)]
pub enum Ask {
    Create { slot: u8, finalizer: bool, placed: bool },
    CreateBadly(u8),
    Get,
    List { selector: &'static str },
    Put { part: &'static str, version: Given, uid: Given, edit: Edit },
    Merge { part: &'static str, version: Given, uid: Given, edit: Edit },
    Json { slot: u8, tested: bool },
    Delete { version: Given, uid: Given, grace: Option<i64>, policy: Option<&'static str> },
}

#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub kind: usize,
    pub name: usize,
    pub ask: Ask,
}

const SELECTORS: &[&str] = &[
    "",
    "slot",
    "!slot",
    "slot=1",
    "slot!=1",
    "slot in (1,2)",
    "slot notin (1,2)",
    "slot in (2),slot",
    "a b",
];

/// Draws a walk.
pub fn walk(seed: u64, steps: usize) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    (0..steps).map(|_| step(&mut rng)).collect()
}

fn step(rng: &mut Rng) -> Step {
    let kind = rng.usize(..KINDS.len());
    let mostly = |rng: &mut Rng, usual: Given| match rng.u8(..8) {
        0 => Given::Wrong,
        1 => Given::None,
        2 => Given::Right,
        _ => usual,
    };
    let status = KINDS[kind].status && rng.bool();
    let part = if status { "/status" } else { "" };
    let edit = match rng.u8(..9) {
        0 => Edit::Nothing,
        1 | 2 => Edit::Slot(rng.u8(1..4)),
        3 => Edit::NoSlot,
        4 => Edit::Finalizer,
        5 => Edit::NoFinalizer,
        6 => Edit::Content(rng.u8(..3)),
        _ => Edit::Status(rng.u8(..3)),
    };
    let ask = match rng.u8(..20) {
        0..=5 => Ask::Create { slot: rng.u8(..4), finalizer: rng.u8(..4) == 0, placed: rng.bool() },
        6 => Ask::CreateBadly(rng.u8(..5)),
        7 => Ask::Get,
        8 | 9 => Ask::List { selector: SELECTORS[rng.usize(..SELECTORS.len())] },
        10..=12 => {
            Ask::Put { part, version: mostly(rng, Given::Right), uid: mostly(rng, Given::Right), edit }
        }
        13..=14 => {
            Ask::Merge { part, version: mostly(rng, Given::None), uid: mostly(rng, Given::None), edit }
        }
        15 => Ask::Json { slot: rng.u8(1..4), tested: rng.u8(..3) == 0 },
        _ => Ask::Delete {
            version: mostly(rng, Given::None),
            uid: mostly(rng, Given::Right),
            grace: [None, None, Some(0), Some(5)][rng.usize(..4)],
            policy: [None, None, Some("Background")][rng.usize(..3)],
        },
    };
    Step { kind, name: rng.usize(..3), ask }
}

/// Name of an object of the walk.
pub fn name(index: usize) -> String {
    format!("x{index}")
}

/// The body of a POST.
pub fn body(kind: usize, name: &str, slot: u8, finalizer: bool, placed: bool) -> Value {
    let mut body = match KINDS[kind].plural {
        "pods" => json!({ "spec": {
            "schedulerName": "nobody", "terminationGracePeriodSeconds": 20,
            "containers": [{ "name": "main", "image": "x" }],
        } }),
        "frameworks" => json!({ "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "spec": { "taskRoles": [{ "name": "r", "taskNumber": 1, "task": { "pod": { "spec": {} } } }] },
            "status": { "state": "AttemptCreationPending" } }),
        "leases" => json!({ "spec": { "holderIdentity": "a" } }),
        "events" => json!({ "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Walked",
            "action": "Walk", "note": "a step", "reportingController": "example.com/walker",
            "reportingInstance": "walker-1", "regarding": { "kind": "Pod", "name": "x0" } }),
        _ => json!({ "data": { "a": "0" } }),
    };
    body["metadata"] = json!({ "name": name, "annotations": {} });
    if KINDS[kind].plural == "pods" {
        // These Pods stay Pending on both sides.
        let pending = json!({ "sim/never-schedule": "true", "sim/never-start": "true",
            "sim/hang-terminating": "true" });
        body["metadata"]["annotations"] = pending;
        if placed {
            body["spec"]["nodeName"] = json!("nowhere");
        }
    }
    if slot > 0 {
        body["metadata"]["labels"] = json!({ "slot": slot.to_string() });
    }
    if finalizer {
        body["metadata"]["finalizers"] = json!(["example.com/held"]);
    }
    body
}

/// Puts the namespace into an Event, which is about an object there.
pub fn fill_namespace(body: &mut Value, namespace: &str) {
    if body["regarding"].is_object() && body["regarding"]["namespace"].is_null() {
        body["regarding"]["namespace"] = json!(namespace);
    }
}

/// A body that is wrong in one way.
pub fn bad_body(kind: usize, name: &str, how: u8) -> Value {
    let mut body = body(kind, name, 0, false, false);
    match how {
        0 => body["metadata"]["name"] = json!("Not_A_Name"),
        1 => body["metadata"]["namespace"] = json!("elsewhere"),
        // A custom kind says more about this, about another field.
        2 if KINDS[kind].plural != "frameworks" => body["metadata"]["name"] = json!(""),
        3 => body["metadata"]["resourceVersion"] = json!("5"),
        _ => body["kind"] = json!("Elephant"),
    }
    body
}

/// The merge patch of an edit.
pub fn patch(kind: usize, edit: Edit) -> Value {
    match edit {
        Edit::Nothing => json!({}),
        Edit::Slot(slot) => json!({ "metadata": { "labels": { "slot": slot.to_string() } } }),
        Edit::NoSlot => json!({ "metadata": { "labels": { "slot": null } } }),
        Edit::Finalizer => json!({ "metadata": { "finalizers": ["example.com/held"] } }),
        Edit::NoFinalizer => json!({ "metadata": { "finalizers": null } }),
        Edit::Content(n) => match KINDS[kind].plural {
            "configmaps" => json!({ "data": { "a": n.to_string() } }),
            "pods" => json!({ "spec": { "hostname": format!("h{n}") } }),
            "frameworks" => json!({ "spec": { "description": n.to_string() } }),
            "events" => json!({ "series": { "count": n + 2,
                "lastObservedTime": "2026-01-01T00:00:00.000000Z" } }),
            _ => json!({ "spec": { "holderIdentity": n.to_string() } }),
        },
        Edit::Status(n) => json!({ "status": {
            "state": "AttemptCreationPending", "startTime": "2026-01-01T00:00:00Z", "tasks": n.to_string(),
            "transitionTime": "2026-01-01T00:00:00Z",
            "retryPolicyStatus": { "totalRetriedCount": 0, "accountableRetriedCount": 0 },
            "attemptStatus": { "id": 0, "configMapName": "c", "startTime": "2026-01-01T00:00:00Z" },
        } }),
    }
}
