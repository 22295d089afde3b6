//! Jobs of a kind that the config file declares: their unit, their release, and the return of capacity.

use framework_api::job_kind::JobKindRow;
use framework_message::{Ownership, Slot};
use serde_json::json;

use super::*;
use crate::consumer::JobKind;
use crate::object::{DeclaredObject, JobObject};
use crate::share::Share;

fn row() -> Arc<JobKindRow> {
    let row = json!({
        "apiVersion": "example.com/v1", "kind": "Sweep", "plural": "sweeps",
        "suspend": {"pointer": "/spec/suspend"}, "podSets": [{"template": "/spec/template"}],
        "finished": {"conditions": ["Done"]},
    });
    Arc::new(serde_json::from_value(row).unwrap())
}

/// A job in the queue that requests six CPUs.
fn job(resource_version: u128, stage: Stage) -> DeclaredObject {
    let job = JobObject {
        key: key("train"),
        uid: "uid-train".into(),
        resource_version,
        created: at(0),
        queue: Some("q".into()),
        suspended: stage == Stage::Waiting,
        finished: stage == Stage::Finished,
        deleting: false,
        class: None,
        requests: Ok(cpu(6)),
    };
    DeclaredObject { job, row: row(), templates: Vec::new(), lifetime: None }
}

fn show(world: &mut World, change: Change<DeclaredObject>) {
    world.controller.step(QueueEvent::Declared(JobKind::declared(&row()), change));
}

fn with_job() -> World {
    let mut world = World::new(1, 10);
    // The server counts what is released for it.
    world.server.jobs.insert(key("train"), (Stage::Waiting, 6));
    show(&mut world, Change::Listed(job(1, Stage::Waiting)));
    show(&mut world, Change::Synced);
    world
}

#[test]
fn a_job_of_a_declared_kind_gets_a_unit_and_is_resumed_once_by_it() {
    let mut world = with_job();
    let requests = world.settle();
    let expected = ["create train", "sweep-train Enqueued", "sweep-train Dequeued", "resume train at 1"];
    assert_eq!(requests.len(), expected.len(), "{requests:?}");
    for (request, expected) in requests.iter().zip(expected) {
        assert!(request.starts_with(expected), "{requests:?}");
    }
    show(&mut world, Change::Applied(job(2, Stage::Started)));
    assert_eq!(world.settle(), [""; 0]);
}

#[test]
fn the_capacity_of_a_declared_job_returns_when_it_has_finished() {
    let mut world = with_job();
    world.settle();
    show(&mut world, Change::Applied(job(2, Stage::Started)));
    world.submit("next", 5);
    world.settle();
    assert!(!world.admitted.contains_key(&key("next")));
    world.server.jobs.insert(key("train"), (Stage::Finished, 6));
    show(&mut world, Change::Applied(job(3, Stage::Finished)));
    world.settle();
    assert!(world.admitted.contains_key(&key("next")));
}

#[test]
fn a_declared_job_is_left_to_the_owner_of_its_namespace() {
    let ownership = Ownership::default();
    ownership.disown(Slot::of(SPACE));
    let mut world = with_job();
    world.controller = QueueController::new(settings(), 1).with_share(Share::of(ownership));
    world.listed();
    show(&mut world, Change::Listed(job(1, Stage::Waiting)));
    show(&mut world, Change::Synced);
    assert_eq!(world.settle(), [""; 0]);
}

#[test]
fn a_unit_of_a_declared_kind_waits_for_its_job_once_the_kind_is_listed() {
    let mut cache = crate::cache::ObjectCache::default();
    let kind = JobKind::declared(&row());
    assert!(!cache.sees(&kind) && !cache.watches(&kind));
    cache.declared.entry(kind.clone()).or_default().apply(Change::Synced);
    assert!(cache.sees(&kind) && cache.watches(&kind));
}
