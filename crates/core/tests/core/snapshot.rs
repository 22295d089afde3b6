//! History: which snapshots are reported, when, and of which status; each kind can be switched off by itself.

use framework_api::config::{FrameworkSnapshot, LogObjectSnapshot, PodSnapshot, TaskSnapshot};
use framework_api::{FrameworkStatus, State};
use framework_core::snapshot::{FrameworkView, Snapshot, TaskView, Trigger};
use serde_json::{Value, json};

use crate::world::{World, framework};

/// The reported facts, each with the number of the persisted status that it is of.
fn reported(world: &World) -> Vec<(usize, &Snapshot)> {
    world.snapshots.iter().map(|(at, snapshot)| (*at, snapshot)).collect()
}

fn task_view(world: &World, status: &FrameworkStatus, snapshot: &Snapshot) -> Value {
    let view = match snapshot {
        Snapshot::TaskRetry { task_role, task_index, at } => {
            let view = TaskView::new(&world.cluster.framework, status, task_role, *task_index, None);
            view.map(|view| view.completed(*at))
        }
        Snapshot::TaskDeletion { task_role, task_index, at } => {
            TaskView::new(&world.cluster.framework, status, task_role, *task_index, Some(*at))
        }
        Snapshot::FrameworkRetry => panic!("no Task"),
    };
    serde_json::to_value(view.expect("the status has the Task")).unwrap()
}

/// A Framework with one Task that failed, was retried, and failed for good, and whose whole is retried.
fn retried() -> World {
    let mut world = framework().role("a", 2).task_retry(false, 1).retry(false, 1).world();
    world.settle().run();
    for _ in 0..2 {
        world.exit("a", 1, 7).settle().run();
    }
    world
}

/// A Framework of three Tasks, two of which a scale-down removes; the last one is then wanted again.
fn rescaled() -> World {
    let mut world = framework().role("a", 3).world();
    world.settle().run();
    world.edit(|spec| spec.task_roles[0].task_number = 1).settle();
    world
}

#[test]
fn a_retry_snapshot_shows_the_completed_attempt() {
    let world = retried();
    let reported = reported(&world);
    let [(task_at, task_retry), (whole_at, Snapshot::FrameworkRetry)] = reported[..] else {
        panic!("{reported:?}")
    };
    let before = &world.history[task_at];
    let persisted = before.task("a", 1).unwrap();
    assert_eq!((persisted.state, persisted.attempt_status.id), (State::AttemptDeletionPending, 0));
    let task = task_view(&world, before, task_retry)["status"].clone();
    assert_eq!((&task["state"], &task["index"]), (&json!("AttemptCompleted"), &json!(1)));
    assert_eq!(task["attemptStatus"]["completionTime"], task["transitionTime"]);
    assert_eq!(task["attemptStatus"]["completionStatus"]["code"], 7, "as it was persisted");
    assert_eq!(world.history[task_at + 1].task("a", 1).unwrap().attempt_status.id, 1, "the very next write");
    let before = &world.history[whole_at];
    assert_eq!((before.state, before.attempt_status.id), (State::AttemptCompleted, 0));
    assert_eq!(before.task("a", 1).unwrap().attempt_status.id, 1, "it has all of its Tasks");
    assert_eq!(world.history[whole_at + 1].attempt_status.id, 1);
}

#[test]
fn removed_and_replaced_tasks_have_a_snapshot() {
    let mut world = rescaled();
    let removed: Vec<_> = reported(&world)
        .into_iter()
        .map(|(at, snapshot)| {
            let task = &task_view(&world, &world.history[at], snapshot)["status"];
            assert_eq!((&task["state"], &task["deletionPending"]), (&json!("Completed"), &json!(true)));
            task["index"].as_i64().unwrap()
        })
        .collect();
    assert_eq!(removed, [1, 2]);
    // Marked, and wanted again before it is removed: replaced.
    world.edit(|spec| spec.task_roles[0].task_number = 0);
    world.step();
    let before = world.snapshots.len();
    world.edit(|spec| spec.task_roles[0].task_number = 1).settle();
    let uid = &world.task("a", 0).instance_uid;
    let [(at, snapshot)] = reported(&world)[before..] else { panic!("{:?}", world.snapshots) };
    let task = task_view(&world, &world.history[at], snapshot);
    assert_ne!(&task["metadata"]["uid"], uid, "it is another instance");
    assert_eq!(task["status"]["attemptStatus"]["completionStatus"]["code"], -230);
}

#[test]
fn a_removed_task_role_has_a_snapshot_of_each_task() {
    let mut world = framework().role("a", 1).role("b", 2).world();
    world.settle().run();
    world.edit(|spec| drop(spec.task_roles.pop())).settle();
    assert_eq!(world.snapshots.len(), 2);
    for (at, snapshot) in reported(&world) {
        let task = task_view(&world, &world.history[at], snapshot);
        assert_eq!(task["spec"], Value::Null, "its TaskRole is gone from the spec");
        assert_eq!(task["metadata"]["labels"]["FC_TASKROLE_NAME"], "b");
    }
}

#[test]
fn a_framework_without_retry_or_rescale_has_no_snapshot() {
    let mut world = framework().role("a", 2).world();
    world.settle().run();
    world.exit("a", 0, 0).exit("a", 1, 0).settle();
    assert_eq!(world.state(), State::Completed);
    assert_eq!(world.snapshots, []);
}

#[test]
fn each_kind_can_be_switched_off_by_itself() {
    let all = LogObjectSnapshot::default();
    let without = |trigger: Trigger| {
        let mut switches = all;
        match trigger {
            Trigger::OnFrameworkRetry => switches.framework.on_framework_retry = false,
            Trigger::OnFrameworkDeletion => switches.framework.on_framework_deletion = false,
            Trigger::OnTaskRetry => switches.task.on_task_retry = false,
            Trigger::OnTaskDeletion => switches.task.on_task_deletion = false,
            Trigger::OnPodDeletion => switches.pod.on_pod_deletion = false,
        }
        switches
    };
    for off in Trigger::ALL {
        for trigger in Trigger::ALL {
            assert_eq!(trigger.is_on(&without(off)), trigger != off);
            assert!(trigger.is_on(&all));
        }
        let mut world = framework().role("a", 2).task_retry(false, 1).retry(false, 1).world();
        world.policy.log_object_snapshot = without(off);
        world.settle().run();
        world.exit("a", 1, 7).settle().run();
        world.exit("a", 1, 7).settle().run();
        world.edit(|spec| spec.task_roles[0].task_number = 1).settle();
        let kinds: Vec<Trigger> = world.snapshots.iter().map(|(_, snapshot)| snapshot.trigger()).collect();
        let mut expected = vec![Trigger::OnTaskRetry, Trigger::OnFrameworkRetry, Trigger::OnTaskDeletion];
        expected.retain(|trigger| *trigger != off);
        assert_eq!(kinds, expected, "without {off:?}");
    }
    let none = LogObjectSnapshot {
        redact_env: false,
        framework: FrameworkSnapshot { on_framework_retry: false, on_framework_deletion: false },
        task: TaskSnapshot { on_task_retry: false, on_task_deletion: false },
        pod: PodSnapshot { on_pod_deletion: false },
    };
    assert!(Trigger::ALL.iter().all(|trigger| !trigger.is_on(&none)));
}

#[test]
fn a_task_is_shown_as_an_object_of_its_own() {
    let mut world = rescaled();
    world.cluster.framework.metadata.resource_version = Some("77".to_owned());
    let (at, snapshot) = reported(&world)[0];
    let status = &world.history[at];
    let task = status.task("a", 1).unwrap();
    let view = task_view(&world, status, snapshot);
    let role = &status.task_roles()[0];
    let map = status.attempt_status.config_map_uid.as_deref().unwrap();
    let Snapshot::TaskDeletion { at: deleted, .. } = snapshot else { panic!("{snapshot:?}") };
    let labels = json!({"FC_FRAMEWORK_NAME": "job", "FC_TASKROLE_NAME": "a", "FC_TASK_INDEX": "1"});
    let annotations = json!({
        "FC_FRAMEWORK_NAMESPACE": "default", "FC_FRAMEWORK_NAME": "job", "FC_TASKROLE_NAME": "a",
        "FC_TASK_INDEX": "1", "FC_CONFIGMAP_NAME": "job-attempt", "FC_FRAMEWORK_UID": "fw-uid",
        "FC_FRAMEWORK_ATTEMPT_ID": "0", "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": format!("0_{map}"),
        "FC_CONFIGMAP_UID": map, "FC_TASKROLE_UID": role.instance_uid,
    });
    let expected = json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Task",
        "metadata": {
            "name": "job-a-1", "namespace": "default", "uid": task.instance_uid,
            "resourceVersion": "77", "generation": 2, "creationTimestamp": task.start_time,
            "deletionTimestamp": deleted, "deletionGracePeriodSeconds": 0,
            "annotations": annotations, "labels": labels,
        },
        "spec": world.cluster.framework.spec.task_roles[0].task,
        "status": task,
    });
    assert_eq!(view, expected);
    let retried = TaskView::new(&world.cluster.framework, status, "a", 1, None).unwrap();
    let metadata = &serde_json::to_value(retried).unwrap()["metadata"];
    assert!(metadata.get("deletionTimestamp").is_none(), "only a removal has one");
    assert!(TaskView::new(&world.cluster.framework, status, "a", 9, None).is_none());
}

#[test]
fn unknown_fields_of_a_task_are_left_out() {
    let mut world = framework().execution("Create").role("a", 1).world();
    world.settle();
    let view = TaskView::new(&world.cluster.framework, world.status(), "a", 0, None).unwrap();
    let annotations = &serde_json::to_value(view).unwrap()["metadata"]["annotations"];
    assert_eq!(annotations["FC_CONFIGMAP_NAME"], "job-attempt");
    for unknown in ["FC_CONFIGMAP_UID", "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"] {
        assert!(annotations.get(unknown).is_none(), "{annotations}");
    }
}

#[test]
fn a_framework_is_shown_whole() {
    let world = retried();
    let (at, _) = reported(&world)[1];
    let status = &world.history[at];
    let view = serde_json::to_value(FrameworkView::new(&world.cluster.framework, Some(status))).unwrap();
    let mut whole = world.cluster.framework.clone();
    whole.status = Some(status.clone());
    assert_eq!(view, serde_json::to_value(whole).unwrap());
    assert_eq!(view["kind"], "Framework");
    let new = serde_json::to_value(FrameworkView::new(&world.cluster.framework, None)).unwrap();
    assert_eq!(new["status"], Value::Null);
}
