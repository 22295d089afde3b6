//! The memory that one object of the largest size costs, with any pod templates: decoded from the watch,
//! evaluated, summed up for its queue, and rendered for 100 Tasks.

use std::sync::LazyLock;

use allocation_counter::measure;
use framework_api::{Framework, FrameworkStatus};
use framework_core::observed::{ConfigMapFacts, Instance, Objects};
use framework_core::queue::Stage;
use framework_core::{Action, Observed, act, sync};
use framework_engine::object::FrameworkObject;
use framework_queueing::Consumer;
use framework_runtime::wire::{Watched, decode};
use kube::core::ObjectList;
use serde_json::{Value, json};

use crate::steady_state::{framework, moment, policy};

/// About the largest object that the API server takes.
const LARGEST: usize = 1_400_000;
const MIB: usize = 1 << 20;
const TASKS: usize = 100;

/// A list of as many of this element as fit.
fn full_of(element: &Value, bytes: usize) -> Value {
    vec![element; bytes / (element.to_string().len() + 1)].into_iter().cloned().collect()
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(0), |inner, _| json!({ "a": inner }))
}

/// Templates of the largest size, beyond the limits and at them.
fn templates() -> Vec<(&'static str, Value)> {
    let of = |list: &str, element: Value| json!({ "spec": { list: full_of(&element, LARGEST) } });
    let late = |list: Value| json!({ "activeDeadlineSeconds": 1, "unknown": list });
    let some = |list: &str, count: usize, element: Value| json!({ "spec": { list: vec![element; count] } });
    let padded = |bytes: usize| json!({ "name": "x".repeat(bytes) });
    vec![
        ("empty volumes", of("volumes", json!({}))),
        ("empty containers", some("containers", 100_000, json!({}))),
        ("small objects", of("unknown", json!({ "": 0 }))),
        ("small objects beside a deadline", json!({ "spec": late(full_of(&json!({ "": 0 }), LARGEST)) })),
        ("numbers", of("unknown", json!(0))),
        ("placeholders", of("unknown", json!("{{FC_FRAMEWORK_NAMESPACE}}"))),
        ("nested", of("unknown", nested(60))),
        ("as many volumes as a template may have", some("volumes", 4_900, padded(260))),
        ("as many containers as a template may have", some("containers", 1_000, padded(1_300))),
        ("as many variables as a template may have", some("env", 4_900, padded(260))),
        ("as many values as a template may have", some("unknown", 49_000, json!("x".repeat(20)))),
        ("one text", json!({ "spec": { "unknown": "x".repeat(LARGEST) } })),
    ]
}

/// An object as the watch shows it, with a name for messages.
type Text = (&'static str, Vec<u8>);

/// Frameworks whose Tasks run, with those templates.
static WITH_TEMPLATE: LazyLock<Vec<Text>> = LazyLock::new(|| {
    let mut framework = framework("job", TASKS, 1);
    let with = |(name, template)| {
        framework["spec"]["taskRoles"][0]["task"]["pod"] = template;
        (name, framework.to_string().into_bytes())
    };
    templates().into_iter().map(with).collect()
});

/// The work of the controller on an object, except for sending. Renders 100 Pods.
fn work(object: FrameworkObject) {
    let (framework, status) = object.content.expect("any template is readable");
    let status = status.expect("it runs");
    // The name of its ConfigMap is taken: a status says so.
    let taken = ConfigMapFacts { uid: "other".to_owned(), framework_uid: None, deleting: false };
    let objects = Objects { config_map: Some(taken), ..Objects::default() };
    let observed = Observed {
        framework: &framework,
        stored_bytes: object.stored_bytes,
        status: None,
        server_date: None,
        admission: None,
        growths: &[],
        objects: &objects,
    };
    assert!(sync(&observed, moment(), &policy()).persist.is_some());
    drop(Consumer::framework(&framework, Some("queue"), Stage::Waiting, &[]));
    let first = status.task_roles().iter().flat_map(|role| {
        let indices = role.tasks().map(|task| task.index);
        indices.map(|index| (role.name.clone(), index))
    });
    let posted = first.take(TASKS).map(|(role, index)| post(&framework, &status, &role, index));
    assert_eq!(posted.count(), TASKS);
}

/// Renders the Pod of a Task, if its template is within the limits.
fn post(framework: &Framework, status: &FrameworkStatus, task_role: &str, task_index: i32) {
    let instance = Instance::FrameworkAttempt { attempt_id: 0 };
    let action =
        Action::CreatePod { name: "pod".to_owned(), task_role: task_role.to_owned(), task_index, instance };
    let body = act::body(framework, status, &action).expect("the Task is there");
    if let Ok(body) = body {
        let bytes = body.to_string().len();
        let role = framework.spec.task_roles.iter().find(|role| role.name == task_role).expect("its role");
        let estimate = role.task.pod.rendered_bytes();
        assert!(bytes <= estimate, "{bytes} bytes, but {estimate} are counted in flight");
    }
}

fn peak(work: impl FnOnce()) -> usize {
    usize::try_from(measure(work).bytes_max).expect("it fits into memory")
}

#[test]
fn no_object_costs_more_than_64_mib() {
    for (name, text) in &*WITH_TEMPLATE {
        assert!(text.len() < 3 * MIB / 2, "{name}: {} bytes are never stored", text.len());
        let peak = peak(|| work(decode(text).unwrap().unwrap()));
        println!("{name}: {} KiB", peak >> 10);
        assert!(peak + text.len() <= 64 * MIB, "{name}: {} MiB", peak / MIB);
    }
}

/// Frameworks that are large in other ways than by one template.
fn frameworks() -> Vec<(&'static str, Value)> {
    let of_roles = |tasks: usize, template: Value| {
        let mut framework = framework("job", 1, 1);
        let task = json!({"pod": template});
        let role = |index: usize| json!({"name": format!("r{index}"), "taskNumber": tasks, "task": task});
        framework["spec"]["taskRoles"] = (0..TASKS).map(role).collect();
        let statuses = &mut framework["status"]["attemptStatus"]["taskRoleStatuses"];
        let first = statuses[0].clone();
        let status = |index: usize| {
            let mut status = first.clone();
            status["name"] = json!(format!("r{index}"));
            status
        };
        *statuses = (0..TASKS).map(status).collect();
        framework
    };
    let notes = (0..250).map(|index| (format!("a{index}"), json!("x".repeat(1_000)))).collect();
    let fields = json!([{"manager": "m", "fieldsV1": full_of(&json!({}), LARGEST)}]);
    let labels = (0..LARGEST / 12).map(|index| (format!("{index:06}"), json!(""))).collect();
    let owner = json!({"apiVersion": "v", "kind": "K", "name": "n", "uid": "u"});
    let volumes = json!({"spec": {"volumes": full_of(&json!({"name": "x"}), LARGEST / 110)}});
    let containers = json!({"spec": {"containers": vec![json!({}); 1_000]}});
    vec![
        ("as many Tasks as can be asked for", of_roles(10_000, json!({}))),
        ("as many TaskRoles as there may be, with volumes", of_roles(1, volumes)),
        ("as many TaskRoles as there may be, with containers", of_roles(100, containers)),
        ("annotations", with_metadata("annotations", Value::Object(notes))),
        ("managed fields", with_metadata("managedFields", fields)),
        ("labels", with_metadata("labels", Value::Object(labels))),
        ("finalizers", with_metadata("finalizers", json!(vec!["a/b"; LARGEST / 6]))),
        ("owner references", with_metadata("ownerReferences", json!(vec![owner; LARGEST / 50]))),
    ]
}

fn with_metadata(field: &str, value: Value) -> Value {
    let mut framework = framework("job", TASKS, 1);
    framework["metadata"][field] = value;
    framework
}

/// Their texts.
static OF_OTHER_SHAPES: LazyLock<Vec<Text>> = LazyLock::new(|| {
    let text = |(name, framework): (_, Value)| (name, framework.to_string().into_bytes());
    frameworks().into_iter().map(text).collect()
});

#[test]
fn no_framework_of_any_shape_costs_more_than_64_mib() {
    for (name, text) in &*OF_OTHER_SHAPES {
        assert!(text.len() < 3 * MIB / 2, "{name}: {} bytes are never stored", text.len());
        let peak = peak(|| work(decode(text).unwrap().unwrap()));
        println!("{name}: {} KiB of {} KiB", peak >> 10, text.len() >> 10);
        assert!(peak + text.len() <= 64 * MIB, "{name}: {} MiB", peak / MIB);
    }
}

#[test]
fn a_hundred_of_the_largest_objects_at_once_cost_at_most_256_mib() {
    let of_few_tasks = OF_OTHER_SHAPES.iter().filter(|(name, _)| !name.starts_with("as many"));
    for (name, text) in WITH_TEMPLATE.iter().chain(of_few_tasks) {
        let decoded = || decode::<FrameworkObject>(text).unwrap().unwrap();
        let three = peak(|| {
            let objects: Vec<_> = (0..3).map(|_| decoded()).collect();
            objects.iter().for_each(|object| work(object.clone()));
        });
        let kept = |count: usize| peak(|| drop((0..count).map(|_| decoded()).collect::<Vec<_>>()));
        // Each object is as large as the one before: ten more show the cost of all others.
        let hundred = three + (kept(20) - kept(10)) * 97 / 10;
        println!("{name}: {} KiB", hundred >> 10);
        assert!(hundred <= 256 * MIB, "{name}: {} MiB", hundred / MIB);
    }
}

#[test]
fn a_page_of_the_largest_objects_costs_at_most_256_mib() {
    let item = str::from_utf8(&WITH_TEMPLATE[0].1).unwrap();
    let items = vec![item; 50].join(",");
    let head = r#""apiVersion":"v1","kind":"FrameworkList","metadata":{"resourceVersion":"9"}"#;
    let page = format!("{{{head},\"items\":[{items}]}}");
    let peak = peak(|| drop(serde_json::from_str::<ObjectList<Watched<FrameworkObject>>>(&page).unwrap()));
    println!("a page: {} KiB and its {} KiB of text", peak >> 10, page.len() >> 10);
    assert!(peak + page.len() <= 256 * MIB);
}
