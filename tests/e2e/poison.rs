//! Poisoned objects beside good Frameworks: the good ones run to their end, the controller goes on, and it
//! sends few requests for each poisoned one.
//!
//! The gate plays some of each kind. `cargo xtask soak poison` plays many with an optimised controller, and
//! prints how long the good Frameworks took alone, beside as many harmless objects, and beside the poisoned
//! ones. The second is the control: it has the load without the poison. No time is asserted, as times depend
//! on the machine. `FRAMEWORK_POISON_OBJECTS` and `FRAMEWORK_POISON_FRAMEWORKS` set the numbers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use framework_api::codec::{DECODED_LIMIT, Effort, encode};
use framework_api::config::CompressionCodec;
use framework_api::name::{API_VERSION, SLOT_LABEL};
use framework_api::{Framework, State};
use futures::{StreamExt, stream};
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};

use framework_testcluster::audit::{Mark, Record};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{self, block_on, client, frameworks, installed, manifest};

/// Requests of the user at a time.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(900);
/// The rise of the p99 over the control that the soak run calls good.
const GOAL: f64 = 1.1;
/// At most so many requests of the controller are for one poisoned Framework. A sound one of one Task costs
/// 13; a name that is taken is tried again with back-off.
const REQUESTS: usize = 30;
const FRAMEWORKS: &str = "apis/frameworkcontroller.microsoft.com/v1";

fn number(name: &str, otherwise: usize) -> usize {
    let asked = std::env::var(format!("FRAMEWORK_POISON_{name}")).ok();
    asked.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// A poisoned object, and the values stored beside it.
struct Poison {
    /// Kind in the path, and the object.
    objects: Vec<(&'static str, Value)>,
    /// A status that is written to the Framework.
    status: Option<Value>,
    /// Whether the Framework is deleted, and stays because of a finalizer.
    deleted: bool,
}

fn framework(name: &str, pod: Value) -> Value {
    let role = json!({"name": "w", "taskNumber": 1, "task": {"pod": pod}});
    json!({
        "apiVersion": API_VERSION, "kind": "Framework", "metadata": {"name": name},
        "spec": {"executionType": "Start", "taskRoles": [role]},
    })
}

fn template(container: Value) -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [container]}})
}

fn plain() -> Value {
    template(json!({"name": "main", "image": "busybox"}))
}

/// A status with the Tasks of this attempt.
fn status(attempt: Value) -> Value {
    let at = "2026-01-01T00:00:00Z";
    let mut status = json!({
        "startTime": at, "runTime": null, "completionTime": null, "state": "AttemptRunning",
        "transitionTime": at,
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null},
        "attemptStatus": {
            "id": 0, "startTime": at, "runTime": null, "completionTime": null,
            "instanceUID": "0_3f9a2c51-6a0e-8d14-9b67-000000000000", "configMapName": "x-attempt",
            "configMapUID": "3f9a2c51-6a0e-8d14-9b67-000000000000", "completionStatus": null,
            "taskRoleStatuses": null,
        },
    });
    for (field, value) in attempt.as_object().expect("fields") {
        status["attemptStatus"][field] = value.clone();
    }
    status
}

fn compressed(text: &str) -> Value {
    status(json!({"taskRoleStatusesCompressed": text}))
}

fn packed(content: &[u8], codec: CompressionCodec) -> String {
    encode(content, codec, Effort::Fast).expect("it is encoded")
}

/// One object within another, so often.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!("deep"), |inner, _| json!({"deeper": inner}))
}

/// An object that pretends to belong to a Framework's attempt.
fn pretender(kind: &str, name: &str, owner: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {
            "name": name, "labels": {"FC_FRAMEWORK_NAME": "x", SLOT_LABEL: "not-a-number"},
            "annotations": {"FC_TASK_INDEX": "-1", "FC_TASK_ATTEMPT_ID": "1e400"},
        },
    });
    if owner.is_object() {
        object["metadata"]["ownerReferences"] = json!([owner]);
    }
    if kind == "Pod" {
        object["spec"] = plain()["spec"].clone();
    }
    object
}

fn owner(kind: &str, name: &str) -> Value {
    let version = if kind == "Framework" { API_VERSION } else { "v1" };
    json!({
        "apiVersion": version, "kind": kind, "name": name, "controller": true, "blockOwnerDeletion": true,
        "uid": "00000000-0000-4000-8000-000000000000",
    })
}

/// How many kinds of poison there are.
const KINDS: usize = 24;

/// The poison of that number.
fn poison(number: usize, bomb: &str) -> Poison {
    let name = format!("poison{number}");
    let with = |pod: Value| vec![("frameworks", framework(&name, pod))];
    let of = |status: Value| Poison { objects: with(plain()), status: Some(status), deleted: false };
    let pod = |pod: Value| Poison { objects: with(pod), status: None, deleted: false };
    let metadata = |field: &str, value: Value| {
        let mut framework = framework(&name, plain());
        framework["metadata"][field] = value;
        Poison { objects: vec![("frameworks", framework)], status: None, deleted: false }
    };
    let beside = |kind: &'static str, object: Value| {
        let mut poison = pod(plain());
        poison.objects.insert(0, (kind, object));
        poison
    };
    let attempt = format!("{name}-attempt");
    match number % KINDS {
        0 => of(compressed("*** no base64 ***")),
        1 => of(compressed(bomb)),
        2 => of(compressed(&bomb[..bomb.len() / 2])),
        3 => of(compressed("H4sIAAAA")),
        4 => of(compressed(&packed(b"\"no list\"", CompressionCodec::Zstd))),
        5 => of(compressed(&packed(b"[{\"name\": 7}]", CompressionCodec::Gzip))),
        6 => of(status(json!({"taskRoleStatuses": [5, null, "x"]}))),
        7 => of(status(json!({"taskRoleStatuses": [{"name": {}, "taskStatuses": "x"}]}))),
        8 => of(status(json!({"taskRoleStatuses": [{"name": "w", "taskStatuses": [{"index": -1e300}]}]}))),
        9 => of(status(json!({"id": i32::MAX, "taskRoleStatuses": []}))),
        10 => of(status(json!({"startTime": "9999-12-31T23:59:59Z", "taskRoleStatuses": []}))),
        11 => pod(json!({"spec": {"containers": "no list"}})),
        12 => pod(json!({"spec": null, "metadata": {"labels": [1, 2]}})),
        13 => pod(json!({"spec": nested(60)})),
        14 => pod(json!({"spec": {"containers": vec![json!({"name": "c", "image": "x"}); 5_001]}})),
        15 => pod(template(json!({"name": "Not A Name", "image": "{{FC_TASK_INDEX}}".repeat(1_000)}))),
        16 => pod(template(json!({"name": "main", "image": "x", "env": "{{FC_".repeat(10_000)}))),
        17 => metadata("annotations", json!({"big": "x".repeat(200_000)})),
        18 => metadata(
            "managedFields",
            json!([{
                "manager": "m", "operation": "Update", "apiVersion": API_VERSION, "fieldsType": "FieldsV1",
                "time": "9999-12-31T23:59:59Z", "fieldsV1": {"f:spec": {}},
            }]),
        ),
        19 => Poison { deleted: true, ..metadata("finalizers", json!(["test.example.com/stays"])) },
        20 => beside("configmaps", pretender("ConfigMap", &attempt, Value::Null)),
        21 => beside("pods", pretender("Pod", &format!("{name}-w-0"), Value::Null)),
        22 => beside("configmaps", pretender("ConfigMap", &attempt, owner("Framework", &name))),
        _ => beside("pods", pretender("Pod", &format!("{name}-w-0"), owner("ConfigMap", &attempt))),
    }
}

/// The object in place of the poison of that number, for the control: as many objects, and no poison.
fn harmless(number: usize, bomb: &str) -> Poison {
    let name = format!("harmless{number}");
    let Poison { objects, deleted, .. } = poison(number, bomb);
    let sound = |(kind, _): &(&'static str, Value)| match *kind {
        "frameworks" => (*kind, framework(&name, plain())),
        "pods" => (*kind, other("Pod", &format!("{name}-other"))),
        _ => (*kind, other("ConfigMap", &format!("{name}-other"))),
    };
    Poison { objects: objects.iter().map(sound).collect(), status: None, deleted }
}

/// An object of somebody else.
fn other(kind: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    if kind == "Pod" {
        object["spec"] = plain()["spec"].clone();
    }
    object
}

async fn send(request: http::Result<http::Request<Vec<u8>>>) -> Result<Value, kube::Error> {
    client().request(request.expect("a request")).await
}

/// Stores a poison; false if the API server refuses it.
async fn store(namespace: &str, poison: Poison) -> bool {
    for (kind, object) in &poison.objects {
        let group = if *kind == "frameworks" { FRAMEWORKS } else { "api/v1" };
        let path = format!("/{group}/namespaces/{namespace}/{kind}");
        let post = http::Request::post(path).header("content-type", "application/json");
        if send(post.body(object.to_string().into_bytes())).await.is_err() {
            return false;
        }
    }
    let (_, framework) = poison.objects.last().expect("a Framework");
    let name = framework["metadata"]["name"].as_str().expect("a name");
    let path = format!("/{FRAMEWORKS}/namespaces/{namespace}/frameworks/{name}");
    if poison.deleted {
        return send(http::Request::delete(path).body(Vec::new())).await.is_ok();
    }
    let Some(status) = poison.status else { return true };
    let patch = http::Request::patch(format!("{path}/status"));
    let patch = patch.header("content-type", "application/merge-patch+json");
    send(patch.body(json!({ "status": status }).to_string().into_bytes())).await.is_ok()
}

/// Runs good Frameworks; returns how long each took from its creation to Completed, in order.
async fn run(namespace: &str, prefix: &str, count: usize) -> Vec<Duration> {
    let api = frameworks(namespace);
    let mut events = watcher(api.clone(), watcher::Config::default()).boxed();
    let is_over = |seen: &Framework| cluster::state(seen) == Some(State::Completed);
    let create = async {
        let one = async |index: usize| {
            let name = format!("{prefix}{index}");
            let began = Instant::now();
            let good = manifest(&name).role("w", 1, &[("run-duration", "100ms"), ("exit-code", "0")]);
            api.create(&Default::default(), &good.object()).await.expect("it is accepted");
            (name, began)
        };
        stream::iter(0..count).map(one).buffer_unordered(AT_ONCE).collect::<BTreeMap<_, _>>().await
    };
    let watch = async {
        let mut ended = BTreeMap::new();
        while ended.len() < count {
            // An interrupted watch goes on by itself.
            let Some(Ok(Event::Apply(seen) | Event::InitApply(seen))) = events.next().await else { continue };
            let name = seen.metadata.name.clone().unwrap_or_default();
            if name.starts_with(prefix) && is_over(&seen) {
                ended.entry(name).or_insert_with(Instant::now);
            }
        }
        ended
    };
    let both = async { tokio::join!(create, watch) };
    let (began, ended) = tokio::time::timeout(PATIENCE, both).await.expect("all good Frameworks end");
    let mut took: Vec<Duration> = ended.iter().map(|(name, at)| at.duration_since(began[name])).collect();
    took.sort_unstable();
    took
}

fn percent(took: &[Duration], percent: usize) -> f64 {
    let rank = (took.len() * percent).div_ceil(100).saturating_sub(1);
    took.get(rank).copied().unwrap_or_default().as_secs_f64()
}

/// Stores so many objects. Returns the numbers of those that the API server refuses.
async fn store_all(namespace: &str, objects: usize, of: impl Fn(usize) -> Poison) -> Vec<usize> {
    let one = async |number: usize| (number, store(namespace, of(number)).await);
    let stored = stream::iter(0..objects).map(one).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    stored.iter().filter(|(_, stored)| !stored).map(|(number, _)| *number).collect()
}

/// Deletes the Frameworks of a namespace, and waits until they are gone.
async fn clear(namespace: &str) {
    let api = frameworks(namespace);
    api.delete_collection(&Default::default(), &Default::default()).await.expect("they may be deleted");
    let deadline = Instant::now() + PATIENCE;
    while !api.list_metadata(&ListParams::default().limit(1)).await.expect("a list").items.is_empty() {
        assert!(Instant::now() < deadline, "the harmless Frameworks of {namespace} are still there");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The numbers of the objects with labels of a Framework and without an owner that are gone, or have an
/// owner.
async fn pretenders_that_are_gone(namespace: &str, objects: usize) -> Vec<usize> {
    let is_there = async |number: usize| {
        let (kind, name) = match number % KINDS {
            20 => ("configmaps", format!("poison{number}-attempt")),
            21 => ("pods", format!("poison{number}-w-0")),
            _ => return true,
        };
        let get = http::Request::get(format!("/api/v1/namespaces/{namespace}/{kind}/{name}"));
        let found = send(get.body(Vec::new())).await;
        found.is_ok_and(|object| object["metadata"]["ownerReferences"].is_null())
    };
    let seen = stream::iter(0..objects).map(async |number| (number, is_there(number).await));
    let seen = seen.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    seen.into_iter().filter(|(_, is_there)| !is_there).map(|(number, _)| number).collect()
}

/// The requests of the controller for the objects of a namespace, by the name of the Framework.
fn requests(namespace: &str, since: Mark) -> BTreeMap<String, usize> {
    let mut sent = BTreeMap::new();
    let take = |record: Record| {
        if record.namespace == namespace && record.user_agent.starts_with("frameworkcontroller/") {
            let named = record.request_object.as_ref().and_then(|body| body["metadata"]["name"].as_str());
            let name = if record.name.is_empty() { named.unwrap_or("") } else { &record.name };
            let framework = name.split('-').next().unwrap_or(name);
            // Events have names that the API server makes; they have a bound of their own.
            if framework.starts_with("poison") {
                *sent.entry(framework.to_owned()).or_default() += 1;
            }
        }
    };
    installed().audit().each_since(since, take).expect("the log is there");
    sent
}

fn print(what: &str, took: &[Duration]) {
    let [middle, high, last] = [50, 99, 100].map(|rank| percent(took, rank));
    let good = took.len();
    println!("{what}: {good} Frameworks, p50 {middle:.2} s, p99 {high:.2} s, last {last:.2} s");
}

#[test]
fn poisoned_objects_stop_no_good_framework_and_cost_few_requests() {
    let alone = Alone::wait();
    let (objects, good) = (number("OBJECTS", KINDS), number("FRAMEWORKS", 20));
    let [tenant, sound, bad] = ["poison-good", "poison-control", "poison-bad"].map(namespace);
    let controller = alone.start("poison", "kubeClientQps: 1000\nkubeClientBurst: 1000");
    let limit = usize::try_from(DECODED_LIMIT).expect("64 MiB") + 1;
    let bomb = packed(&vec![b' '; limit], CompressionCodec::Zstd);
    // A first run fills connections and caches.
    block_on(run(&tenant, "warm", good.div_ceil(10)));
    let without = block_on(run(&tenant, "alone", good));

    let refused = block_on(store_all(&sound, objects, |number| harmless(number, &bomb)));
    assert!(refused.is_empty(), "the API server refuses harmless objects: {refused:?}");
    let control = block_on(run(&tenant, "control", good));
    block_on(clear(&sound));

    let mark = installed().audit().mark().expect("the log is there");
    let refused = block_on(store_all(&bad, objects, |number| poison(number, &bomb)));
    let with = block_on(run(&tenant, "beside", good));
    let sent = requests(&bad, mark);

    print("alone", &without);
    print("beside harmless objects", &control);
    print("beside poisoned objects", &with);
    let [load, poison] =
        [(&control, &without), (&with, &control)].map(|(took, of)| percent(took, 99) / percent(of, 99));
    let verdict = if poison <= GOAL { "within" } else { "beyond" };
    println!(
        "p99: harmless / alone {load:.2}, poisoned / harmless {poison:.2}: {verdict} the goal of {GOAL}"
    );
    let mut most: Vec<_> = sent.iter().map(|(name, count)| (*count, name)).collect();
    most.sort_unstable_by(|one, other| other.cmp(one));
    let sum: usize = sent.values().sum();
    println!(
        "{objects} poisoned objects of {KINDS} kinds cost {sum} requests; the most: {:?}",
        &most[..most.len().min(5)]
    );
    installed().check().expect("the controller runs: it was never started again");
    let log = cluster::log_of("poison");
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(log.matches(" starting version=").count(), 1);
    let kinds: Vec<usize> = refused.iter().map(|number| number % KINDS).collect();
    assert!(kinds.is_empty(), "the API server refuses these kinds: they test nothing: {kinds:?}");
    let taken: Vec<usize> = block_on(pretenders_that_are_gone(&bad, objects));
    assert!(taken.is_empty(), "objects of others were adopted or deleted: {taken:?}");
    assert!(sum > 0, "no request is found: the names are read wrongly");
    assert!(most.iter().all(|(count, _)| *count <= REQUESTS), "{most:?}");
    drop(controller);
}
