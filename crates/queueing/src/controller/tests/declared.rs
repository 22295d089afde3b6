//! Jobs of a kind that the config file declares: their unit, their release, and the return of capacity.

use framework_api::job_kind::JobKindRow;
use framework_message::{Ownership, Slot};
use serde_json::json;

use super::*;
use crate::active_slots::ActiveSlots;
use crate::object::{DeclaredObject, JobNotes, JobObject, UnitNotes};

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
    named("train", resource_version, stage)
}

pub(super) fn named(name: &str, resource_version: u128, stage: Stage) -> DeclaredObject {
    let job = JobObject {
        key: key(name),
        uid: format!("uid-{name}").into(),
        resource_version,
        created: at(0),
        notes: JobNotes::default(),
        controller: None,
        queue: Some("q".into()),
        suspended: stage == Stage::Waiting,
        finished: stage == Stage::Finished,
        deleting: false,
        class: None,
        requests: Ok(cpu(6)),
    };
    DeclaredObject { job, row: row(), templates: Vec::new(), lifetime: None }
}

/// The same after the patch that resumed it.
pub(super) fn resumed(world: &World, resource_version: u128, stage: Stage) -> DeclaredObject {
    let unit = &world.server.units[&key("sweep-train")];
    let mut object = job(resource_version, stage);
    object.job.notes = JobNotes { has_annotations: true, resumed_by: Some(Arc::clone(&unit.uid)) };
    object
}

pub(super) fn show(world: &mut World, change: Change<DeclaredObject>) {
    world.controller.step(QueueEvent::Declared(JobKind::declared(&row()), change.into()));
}

fn with_job() -> World {
    let mut world = World::new(1, 10);
    // The server counts the releases for it.
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
fn a_job_whose_request_is_not_known_says_so_once_and_holds_up_no_other() {
    let mut world = with_job();
    world.server.jobs.insert(key("bad"), (Stage::Waiting, 6));
    let bad = |version| {
        let mut bad = named("bad", version, Stage::Waiting);
        bad.job.requests = Err("/spec/template/spec is missing; it must be the spec of a Pod".into());
        bad
    };
    show(&mut world, Change::Applied(bad(1)));
    assert!(world.settle().contains(&"resume train at 1".to_owned()));
    show(&mut world, Change::Applied(bad(2)));
    assert_eq!(world.settle(), [""; 0]);
    let says = "bad RequestUnknown: it stays suspended without a QueueUnit, because its request is not known: \
                /spec/template/spec is missing; it must be the spec of a Pod";
    assert_eq!(world.said, [says]);

    let mut small = named("bad", 3, Stage::Waiting);
    small.job.requests = Ok(cpu(4));
    show(&mut world, Change::Applied(small));
    assert_eq!(world.settle()[0], "create bad");
    show(&mut world, Change::Applied(bad(4)));
    world.settle();
    assert_eq!(world.said, [says], "its released unit lets it begin");
}

#[test]
fn a_job_that_is_suspended_after_its_release_stays_so_and_it_is_said_once() {
    let mut world = with_job();
    world.settle();
    let started = resumed(&world, 2, Stage::Started);
    show(&mut world, Change::Applied(started));
    world.settle();
    for version in [3, 4] {
        let suspended = resumed(&world, version, Stage::Waiting);
        show(&mut world, Change::Applied(suspended));
        world.pass(LIFETIME.as_secs() + 1);
        assert_eq!(world.settle(), [""; 0]);
    }
    assert_eq!(world.said.len(), 1, "{:?}", world.said);
    assert!(world.said[0].starts_with("train StaysSuspended: it was suspended after"), "{:?}", world.said);
    // It keeps its capacity.
    world.submit("next", 5);
    world.settle();
    assert!(!world.admitted.contains_key(&key("next")));
    // The next controller knows it from the job.
    world.restart_queues();
    let suspended = resumed(&world, 4, Stage::Waiting);
    show(&mut world, Change::Listed(suspended));
    show(&mut world, Change::Synced);
    for _ in 0..3 {
        world.pass(LIFETIME.as_secs() + 1);
        let requests = world.settle();
        assert!(!requests.iter().any(|request| request.starts_with("resume")), "{requests:?}");
    }
    // Without its unit it waits again, and its next unit lets it begin.
    world.delete(&key("sweep-train"));
    world.show();
    let requests = world.settle();
    assert!(requests.contains(&"create train".to_owned()), "{requests:?}");
    assert!(world.admitted.contains_key(&key("next")), "it is first in the queue no more: {requests:?}");
    world.server.jobs.insert(key("next"), (Stage::Finished, 5));
    world.report(&key("next"));
    assert_eq!(world.settle().last().map(String::as_str), Some("resume train at 4"));
}

/// A user deletes the job, which a finalizer of another owner keeps.
fn hang(world: &mut World) {
    let mut hanging = job(2, Stage::Waiting);
    hanging.job.deleting = true;
    show(world, Change::Applied(hanging));
}

#[test]
fn a_job_that_hangs_in_its_deletion_does_not_wait_for_capacity() {
    let mut world = World::new(1, 10);
    world.submit("first", 10);
    world.settle();
    world.server.jobs.insert(key("train"), (Stage::Waiting, 6));
    show(&mut world, Change::Listed(job(1, Stage::Waiting)));
    show(&mut world, Change::Synced);
    world.settle();
    hang(&mut world);
    assert_eq!(world.settle(), ["delete sweep-train", "remove finalizer of sweep-train"]);
}

#[test]
fn a_released_job_that_is_deleted_before_it_begins_holds_no_capacity() {
    let mut world = with_job();
    let unsent = world.settle_except("resume train at 1");
    assert_eq!(unsent.len(), 1);
    hang(&mut world);
    world.submit("next", 5);
    world.settle();
    assert!(world.admitted.contains_key(&key("next")));
}

#[test]
fn a_job_that_was_released_and_not_resumed_is_resumed_once_after_a_crash() {
    let mut world = with_job();
    let unsent = world.settle_except("resume train at 1");
    assert_eq!(unsent.len(), 1);
    world.restart_queues();
    show(&mut world, Change::Listed(job(1, Stage::Waiting)));
    show(&mut world, Change::Synced);
    assert_eq!(world.settle(), ["resume train at 1"]);
    let started = resumed(&world, 2, Stage::Started);
    show(&mut world, Change::Applied(started));
    world.pass(LIFETIME.as_secs() + 1);
    let requests = world.settle();
    assert!(!requests.iter().any(|request| request.starts_with("resume")), "{requests:?}");
    assert_eq!(world.said, [""; 0]);
}

/// A unit by hand that requests six CPUs for a job without the label, and the release of that unit.
fn by_hand() -> World {
    let mut world = World::new(1, 10);
    world.server.jobs.insert(key("train"), (Stage::Waiting, 6));
    let mut unlabelled = job(1, Stage::Waiting);
    unlabelled.job.queue = None;
    show(&mut world, Change::Listed(unlabelled));
    show(&mut world, Change::Synced);
    let unit = UnitObject {
        key: key("by-hand"),
        uid: "by-hand".into(),
        resource_version: world.server.stamp(),
        created: at(0),
        deleting: false,
        finalizers: Finalizers::default(),
        owner: None,
        consumer: ConsumerKey { kind: JobKind::declared(&row()), key: key("train") },
        notes: UnitNotes::default(),
        consumer_uid: None,
        queue: "q".into(),
        priority: None,
        class: None,
        requests: Ok(cpu(6)),
        status: UnitStatus::default(),
    };
    world.server.units.insert(key("by-hand"), unit);
    world.server.changed(&key("by-hand"));
    world.show();
    assert_eq!(world.settle(), ["by-hand Enqueued Waiting", "by-hand Dequeued Admitted"]);
    world
}

#[test]
fn a_unit_by_hand_returns_its_capacity_when_its_job_is_gone_and_for_good() {
    for second in [0, 100] {
        let mut world = by_hand();
        world.submit("next", 5);
        world.settle();
        assert!(!world.admitted.contains_key(&key("next")));
        world.server.jobs.insert(key("train"), (Stage::Finished, 6));
        show(&mut world, Change::Deleted(job(2, Stage::Started)));
        world.settle();
        assert!(world.admitted.contains_key(&key("next")));
        // A later job of the same name is not the one that the unit was released for, however soon it comes.
        let mut later = job(3, Stage::Waiting);
        later.job.created = at(second);
        later.job.uid = "uid-later".into();
        later.job.queue = None;
        show(&mut world, Change::Applied(later));
        world.submit("third", 5);
        world.settle();
        assert!(world.admitted.contains_key(&key("third")), "{second} seconds after the release");
        assert_eq!(world.said, [""; 0]);
    }
}

/// The watch of the jobs may be slower than that of the units.
#[test]
fn a_unit_by_hand_without_a_uid_follows_a_job_that_is_seen_later() {
    let mut world = by_hand();
    world.restart_queues();
    show(&mut world, Change::Synced);
    let reserved = |world: &World| world.controller.reservation(&world.server.units[&key("by-hand")]);
    assert_eq!(reserved(&world), ResourceRequests::default(), "there is no job");
    let mut first = job(2, Stage::Waiting);
    first.job.queue = None;
    show(&mut world, Change::Applied(first));
    assert_eq!(reserved(&world), cpu(6));
}

#[test]
fn a_unit_by_hand_follows_its_job_through_a_second_suspension_to_its_end() {
    let mut world = by_hand();
    for (version, stage) in [(2, Stage::Started), (3, Stage::Waiting), (4, Stage::Started)] {
        let mut unlabelled = job(version, stage);
        unlabelled.job.queue = None;
        show(&mut world, Change::Applied(unlabelled));
        assert_eq!(world.settle(), [""; 0], "its creator starts and stops it");
    }
    world.submit("next", 5);
    world.settle();
    assert!(!world.admitted.contains_key(&key("next")));
    world.server.jobs.insert(key("train"), (Stage::Finished, 6));
    show(&mut world, Change::Applied(job(5, Stage::Finished)));
    world.settle();
    assert!(world.admitted.contains_key(&key("next")));
}

#[test]
fn the_pod_of_a_launcher_counts_once_and_keeps_the_capacity_of_its_job() {
    let mut world = with_job();
    world.settle();
    let started = resumed(&world, 2, Stage::Started);
    show(&mut world, Change::Applied(started));
    let mut launcher = named("train-launcher", 1, Stage::Started);
    launcher.job.uid = "launcher".into();
    launcher.job.controller = Some("uid-train".into());
    launcher.job.queue = None;
    let pod = |resource_version, ended| PodUse {
        key: key("train-launcher-x"),
        resource_version,
        controller: Some("launcher".into()),
        consumer: None,
        requests: cpu(6),
        ended,
        lapses: None,
        slot: None,
    };
    let used = |version, cpu: i64| {
        let units = |cpu| [("cpu".to_owned(), Amount::units(cpu))].into();
        let limits = QuotaFacts { hard: units(10), used: units(cpu), ..Default::default() };
        QuotaObject { key: key("quota"), resource_version: version, limits: Some(limits), counted: true }
    };
    world.controller.step(QueueEvent::Declared(batch("Job"), Change::Applied(launcher).into()));
    world.controller.step(QueueEvent::Pod(Change::Applied(pod(1, false))));
    world.controller.step(QueueEvent::Quota(Change::Applied(used(2, 6))));
    world.submit("small", 4);
    world.settle();
    assert!(world.admitted.contains_key(&key("small")), "six of ten are used, by the job that reserves them");

    world.server.jobs.insert(key("train"), (Stage::Finished, 6));
    show(&mut world, Change::Applied(job(3, Stage::Finished)));
    world.submit("next", 5);
    world.pass(10);
    world.settle();
    assert!(!world.admitted.contains_key(&key("next")), "the launcher still runs");
    world.controller.step(QueueEvent::Pod(Change::Applied(pod(2, true))));
    world.controller.step(QueueEvent::Quota(Change::Applied(used(3, 0))));
    world.settle();
    world.pass(10);
    world.settle();
    assert!(world.admitted.contains_key(&key("next")));
}

#[test]
fn a_deleted_job_holds_its_capacity_until_its_last_pod_is_gone() {
    let mut world = with_job();
    world.settle();
    let started = resumed(&world, 2, Stage::Started);
    show(&mut world, Change::Applied(started));
    let pod = |resource_version, ended| PodUse {
        key: key("train-0"),
        resource_version,
        controller: Some("uid-train".into()),
        consumer: None,
        requests: cpu(6),
        ended,
        lapses: None,
        slot: None,
    };
    world.controller.step(QueueEvent::Pod(Change::Applied(pod(1, false))));
    world.settle();
    world.server.jobs.insert(key("train"), (Stage::Finished, 6));
    show(&mut world, Change::Deleted(job(3, Stage::Started)));
    world.delete(&key("sweep-train"));
    world.show();
    world.submit("next", 5);
    world.settle();
    assert!(!world.admitted.contains_key(&key("next")), "its Pod runs");
    // The next controller knows it from the unit.
    world.restart_queues();
    world.controller.step(QueueEvent::Pod(Change::Applied(pod(1, false))));
    show(&mut world, Change::Synced);
    for _ in 0..3 {
        world.pass(LIFETIME.as_secs() + 1);
        world.settle();
    }
    assert!(!world.admitted.contains_key(&key("next")), "its Pod runs");
    world.controller.step(QueueEvent::Pod(Change::Applied(pod(2, true))));
    assert!(world.settle().contains(&"remove finalizer of sweep-train".to_owned()));
    assert!(world.admitted.contains_key(&key("next")));
}

#[test]
fn a_deleted_unit_stays_until_it_is_known_whether_its_kind_is_served() {
    let mut world = with_job();
    world.settle();
    let started = resumed(&world, 2, Stage::Started);
    show(&mut world, Change::Applied(started));
    world.settle();
    let kind = JobKind::declared(&row());
    world.restart_queues();
    world.controller = QueueController::new(settings(), 1).with_kinds([kind.clone()]);
    world.listed();
    world.delete(&key("sweep-train"));
    world.show();
    let removal = "remove finalizer of sweep-train".to_owned();
    for _ in 0..3 {
        world.pass(LIFETIME.as_secs() + 1);
        assert!(!world.settle().contains(&removal), "its job may run");
    }
    world.controller.step(QueueEvent::NotServed(kind));
    assert!(world.settle().contains(&removal));
}

/// A job that does not state its requests, of a kind whose JobSet does.
pub(super) fn parent(resource_version: u128) -> DeclaredObject {
    let row = json!({
        "apiVersion": "example.com/v1", "kind": "Sweep", "plural": "sweeps",
        "suspend": {"pointer": "/spec/suspend"}, "ask": "example.com/ask", "child": "JobSet",
        "finished": {"conditions": ["Done"]},
    });
    let mut object = job(resource_version, Stage::Waiting);
    object.row = Arc::new(serde_json::from_value(row).unwrap());
    object.job.requests = Err("the annotation example.com/ask is missing".into());
    object
}

fn child(resource_version: u128, controller: &str, requests: Result<u64, &str>) -> QueueEvent {
    let mut object = job(resource_version, Stage::Waiting);
    object.job.uid = "child".into();
    object.job.controller = Some(controller.into());
    object.job.queue = None;
    object.job.requests = requests.map(cpu).map_err(Arc::from);
    let kind = JobKind::Other { group: "jobset.x-k8s.io".into(), kind: "JobSet".into() };
    QueueEvent::Declared(kind, Change::Applied(object).into())
}

#[test]
fn a_job_requests_the_amounts_of_its_job_set_once_that_exists() {
    let mut world = World::new(1, 10);
    world.server.jobs.insert(key("train"), (Stage::Waiting, 8));
    show(&mut world, Change::Listed(parent(1)));
    show(&mut world, Change::Synced);
    world.controller.step(child(2, "another", Ok(3)));
    assert_eq!(world.settle(), [""; 0], "a JobSet that it does not control says nothing");
    assert_eq!(world.said, [""; 0], "its operator has yet to make the JobSet");
    world.controller.step(child(3, "uid-train", Err("spec.replicatedJobs[0]: cpu")));
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!(world.said.len(), 1);
    assert!(world.said[0].ends_with("not known: spec.replicatedJobs[0]: cpu"), "{:?}", world.said);
    world.controller.step(child(4, "uid-train", Ok(8)));
    let requests = world.settle();
    assert_eq!((requests[0].as_str(), requests.len()), ("create train", 4), "{requests:?}");
    assert_eq!(world.server.units[&key("sweep-train")].requests, Ok(cpu(8)));
}

#[test]
fn a_declared_job_is_left_to_the_owner_of_its_namespace() {
    let ownership = Ownership::default();
    ownership.disown(Slot::of(SPACE));
    let mut world = with_job();
    world.controller = QueueController::new(settings(), 1).with_active_slots(ActiveSlots::of(ownership));
    world.listed();
    show(&mut world, Change::Listed(job(1, Stage::Waiting)));
    show(&mut world, Change::Synced);
    assert_eq!(world.settle(), [""; 0]);
}

#[test]
fn a_unit_of_a_declared_kind_waits_for_its_job_once_the_kind_is_listed() {
    let mut cache = crate::cache::QueueCache::default();
    let kind = JobKind::declared(&row());
    assert!(!cache.sees(&kind));
    cache.declared.entry(kind.clone()).or_default().apply(Change::Synced);
    assert!(cache.sees(&kind));
}
