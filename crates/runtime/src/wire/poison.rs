//! One bad object is one bad object: objects that the API server stores, and our types would not take.

use std::sync::{Arc, LazyLock};

use kube::core::{ObjectList, WatchEvent};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use framework_api::job_kind::{JobKindRow, built_in};
use framework_api::name;
use framework_api::queue::QUEUE_NAME_LABEL;
use framework_engine::object::{ConfigMapObject, FrameworkObject, PodObject};
use framework_queueing::{
    ClassObject, DeclaredObject, JobObject, PodUse, QueueObject, QuotaObject, TemplateMetadata, UnitObject,
};

use super::{AttemptObject, DeclaredText, Read, Resource, UnlabelledFramework, Watched, Wire, decode, page};

/// A job as a row reads it: its fields, and the places of its templates.
type ByRow = (JobObject, Vec<(String, TemplateMetadata)>);

/// A Job as its row reads it.
#[derive(Clone, Debug)]
pub(super) struct JobByRow(#[expect(dead_code, reason = "its Debug form is compared")] ByRow);

/// A JobSet as its row reads it.
#[derive(Clone, Debug)]
pub(super) struct JobSetByRow(#[expect(dead_code, reason = "its Debug form is compared")] ByRow);

impl Wire for JobByRow {
    const RESOURCE: Resource = Resource::new("batch", "v1", "Job", "jobs");

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        by_row("Job", json, JobByRow)
    }
}

impl Wire for JobSetByRow {
    const RESOURCE: Resource = Resource::new("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets");

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        by_row("JobSet", json, JobSetByRow)
    }
}

fn by_row<T>(kind: &str, json: &RawValue, of: fn(ByRow) -> T) -> Result<Read<T>, serde_json::Error> {
    static ROWS: LazyLock<Vec<Arc<JobKindRow>>> =
        LazyLock::new(|| built_in().into_iter().map(Arc::new).collect());
    let row = ROWS.iter().find(|row| row.kind == kind).expect("a built-in kind");
    let Read { resource_version, slot, object, unowned } = DeclaredText::read(json)?;
    let object = object.map(|text| {
        let found = text.by(row).unwrap_or_else(|error| text.unreadable(row, &error));
        let DeclaredObject { job, templates, .. } = found;
        of((job, templates))
    });
    Ok(Read { resource_version, slot, object, unowned })
}

/// A sound object of a kind.
pub(super) fn sound(resource: &Resource, name: &str) -> Value {
    let at = "2026-01-01T00:00:00Z";
    let container = json!({"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}});
    let pod = json!({"containers": [container], "priorityClassName": "high"});
    let job = json!({"parallelism": 2, "template": {"metadata": {"labels": {}}, "spec": pod}});
    let mut owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n", "controller": true});
    let (mut name, mut spec, mut status) = (name.to_owned(), json!({}), json!({}));
    match resource.kind {
        "Framework" => {
            let task = json!({"pod": {"spec": {"containers": [container]}}});
            spec = json!({"taskRoles": [{"name": "worker", "taskNumber": 2, "task": task}]});
        }
        "ConfigMap" => {
            owner["kind"] = "Framework".into();
            owner["apiVersion"] = name::API_VERSION.into();
            name = format!("{name}-attempt");
        }
        "Pod" => {
            owner["kind"] = "ConfigMap".into();
            owner["name"] = "job-attempt".into();
            name = format!("job-{name}");
            let end = json!({"exitCode": 1, "finishedAt": at});
            spec = pod;
            status = json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": end}}]});
        }
        "Job" => {
            spec = job;
            status =
                json!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at}]});
        }
        "JobSet" => {
            spec = json!({"suspend": true, "replicatedJobs": [{"replicas": 2, "template": {"spec": job}}]});
            status = json!({"conditions": [{"type": "Completed", "status": "True"}]});
        }
        "QueueUnit" => {
            spec = json!({"queue": "q", "resource": {"cpu": "1", "pods": 2}});
            let waits = json!({
                "type": "Dequeued", "status": "False", "reason": "QuotaExceeded", "lastTransitionTime": at,
            });
            status = json!({"phase": "Enqueued", "message": "full", "conditions": [waits]});
        }
        "Queue" => {
            spec = json!({"queuePolicy": "FIFO", "priority": 3});
            status = json!({"waiting": 1, "released": 2});
        }
        "ResourceQuota" => {
            spec = json!({"hard": {"cpu": "10"}});
            status = json!({"hard": {"cpu": "10"}, "used": {"cpu": "3"}});
        }
        "PriorityClass" => {}
        // A kind of the config file.
        "" => spec = job,
        kind => panic!("no sound object of kind {kind}"),
    }
    json!({
        "apiVersion": "x/v1", "kind": resource.kind, "value": 7,
        "metadata": {
            "name": name, "namespace": "team", "uid": name, "resourceVersion": "12", "generation": 1,
            "creationTimestamp": at, "labels": {QUEUE_NAME_LABEL: "q", name::SLOT_LABEL: "7"},
            "annotations": {"a": "b"}, "finalizers": ["f"], "ownerReferences": [owner],
            "managedFields": [{"manager": "m", "time": at, "fieldsV1": {"f:spec": {}}}],
        },
        "spec": spec, "status": status,
    })
}

/// Poison that the API server stores: its calendar ends later than ours, and it reads more than we need.
fn poisons() -> Vec<(&'static str, Value)> {
    let late = "9999-12-31T23:59:59Z";
    vec![
        ("/metadata/managedFields", json!([{"manager": "m", "time": late}])),
        ("/metadata/managedFields", json!({"not": "a list"})),
        ("/metadata/creationTimestamp", json!(late)),
        ("/metadata/deletionTimestamp", json!(late)),
        ("/metadata/selfLink", json!(7)),
        ("/metadata/unknown", json!([[[]]])),
        ("/spec/unknown", json!({"startTime": late})),
        ("/status/unknown", json!({"startTime": late})),
        ("/status/startTime", json!(late)),
        ("/status/conditions/0/lastTransitionTime", json!(late)),
        ("/status/conditions/0/lastProbeTime", json!(late)),
        ("/status/containerStatuses/0/state/terminated/finishedAt", json!(late)),
        ("/spec/template/metadata/creationTimestamp", json!(late)),
        ("/spec/replicatedJobs/0/template/metadata", json!({"creationTimestamp": late, "labels": {}})),
        ("/spec/containers/0/ports", json!("none")),
        ("/spec/template/spec/volumes", json!({"not": "a list"})),
    ]
}

/// The object with a value put in place of the one at a path, or beside its siblings.
fn poisoned(object: &Value, path: &str, value: &Value) -> Value {
    let mut object = object.clone();
    if let Some(place) = object.pointer_mut(path) {
        *place = value.clone();
    } else if let Some((parent, field)) = path.rsplit_once('/')
        && let Some(Value::Object(parent)) = object.pointer_mut(parent)
    {
        parent.insert(field.to_owned(), value.clone());
    }
    object
}

fn list<T: Wire>(items: &[&str]) -> Vec<Watched<T>> {
    let items = items.join(",");
    let list =
        format!(r#"{{"kind":"L","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{items}]}}"#);
    page::<T>(list.as_bytes()).expect("a page is read, whatever is in it");
    serde_json::from_str::<ObjectList<Watched<T>>>(&list).expect("a LIST is read, whatever is in it").items
}

/// Reads the JSON of an object in every way in which it may come.
pub(super) fn read_in_a_list<T: Wire>(object: &str) -> Option<T> {
    let good = |name| sound(&T::RESOURCE, name).to_string();
    let mut items = list::<T>(&[&good("first"), object, &good("last")]);
    assert!(items[0].object.is_some() && items[2].object.is_some(), "the neighbours of {object}");
    let line = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
    assert!(
        matches!(serde_json::from_str::<WatchEvent<Watched<T>>>(&line), Ok(WatchEvent::Modified(_))),
        "the watch ends at {object}"
    );
    let _ = decode::<T>(object.as_bytes());
    items.remove(1).object
}

/// Runs a check for every kind that is watched.
macro_rules! of_every_kind {
    ($check:ident $(, $argument:expr)*) => {
        $check::<FrameworkObject>($($argument),*);
        $check::<UnlabelledFramework>($($argument),*);
        $check::<ConfigMapObject>($($argument),*);
        $check::<PodObject>($($argument),*);
        $check::<AttemptObject>($($argument),*);
        $check::<PodUse>($($argument),*);
        $check::<JobByRow>($($argument),*);
        $check::<JobSetByRow>($($argument),*);
        $check::<UnitObject>($($argument),*);
        $check::<QueueObject>($($argument),*);
        $check::<QuotaObject>($($argument),*);
        $check::<ClassObject>($($argument),*);
        $check::<DeclaredText>($($argument),*);
    };
}

fn poison_is_read_past<T: Wire>() {
    let sound = sound(&T::RESOURCE, "job");
    let expected = format!("{:?}", read_in_a_list::<T>(&sound.to_string()).expect("it is sound"));
    assert!(expected.contains("team"), "{expected}");
    for (path, value) in poisons() {
        let found = read_in_a_list::<T>(&poisoned(&sound, path, &value).to_string());
        assert!(found.is_some(), "{}: {path} = {value}", T::RESOURCE.kind);
    }
}

#[test]
fn poison_that_the_api_server_stores_hides_no_object() {
    of_every_kind!(poison_is_read_past);
}

fn nothing_else_is_lost<T: Wire>(object: &str) {
    read_in_a_list::<T>(object);
}

#[test]
fn an_object_of_no_form_at_all_hides_no_neighbour() {
    let deep = format!(
        r#"{{"metadata":{{"name":"a","resourceVersion":"5"}},"spec":{}1{}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    for object in [
        "null",
        "7",
        "[]",
        "{}",
        r#"{"metadata":null}"#,
        r#"{"metadata":{"name":7,"resourceVersion":"5"}}"#,
        r#"{"metadata":{"resourceVersion":5},"spec":[],"status":1}"#,
        r#"{"metadata":{"name":"a","name":"b","resourceVersion":"5"}}"#,
        r#"{"metadata":{"name":"a","resourceVersion":"5"},"spec":1e999,"value":1e999}"#,
        r#"{"metadata":{"name":"\ud800","resourceVersion":"5"}}"#,
        &deep,
    ] {
        of_every_kind!(nothing_else_is_lost, object);
    }
}

#[test]
fn the_watch_goes_on_from_an_object_that_cannot_be_decoded() {
    let mut bad = sound(&QuotaObject::RESOURCE, "bad");
    bad["spec"]["hard"] = "much".into();
    bad["metadata"]["labels"] = 7.into();
    let read = list::<QuotaObject>(&[&bad.to_string()]).remove(0);
    assert_eq!(kube::ResourceExt::resource_version(&read).as_deref(), Some("12"));
    let unreadable = read.unreadable.unwrap();
    assert_eq!(unreadable.key.to_string(), "team/bad");
    assert!(unreadable.error.contains("invalid type"), "{}", unreadable.error);
}

/// Any JSON, up to a few levels deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!("9999-12-31T23:59:59Z")),
        Just(json!("2026-01-01T00:00:00Z")),
    ];
    let key = prop_oneof!["[a-z]{0,4}", Just("metadata".to_owned()), Just("spec".to_owned())];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// The paths of all values in a value.
fn paths(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| paths(item, &format!("{here}/{at}"), all));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            paths(field, &format!("{here}/{}", name.replace('~', "~0").replace('/', "~1")), all);
        }),
        _ => {}
    }
}

fn survives_mutations<T: Wire>(mutations: &[(prop::sample::Index, Value)]) {
    let mut object = sound(&T::RESOURCE, "job");
    for (at, value) in mutations {
        let mut all = Vec::new();
        paths(&object, "", &mut all);
        let path: &String = at.get(&all);
        object = poisoned(&object, path, value);
    }
    read_in_a_list::<T>(&object.to_string());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_json_in_a_list_or_a_watch_hides_no_neighbour(object in any_json()) {
        let object = object.to_string();
        of_every_kind!(nothing_else_is_lost, &object);
    }

    #[test]
    fn a_mutated_object_hides_no_neighbour(
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..4),
    ) {
        of_every_kind!(survives_mutations, &mutations);
    }
}
