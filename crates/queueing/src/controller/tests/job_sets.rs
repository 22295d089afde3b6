//! Jobs whose Pods are those of a JobSet, as a TrainJob has them: labels for Pods, and whose use they are.

use framework_message::Rejection;

use super::declared::{named, parent, resumed, show};
use super::*;
use crate::object::{DeclaredObject, TemplateMetadata};

/// The JobSet of the job `train`: all its Pods request six CPUs.
fn job_set(resource_version: u128, uid: &str, controller: &str) -> DeclaredObject {
    let mut object = named("train", resource_version, Stage::Waiting);
    object.job.uid = uid.into();
    object.job.controller = Some(controller.into());
    object.job.queue = None;
    object.templates = vec![("/spec/template".to_owned(), TemplateMetadata::Missing)];
    object
}

fn set_event(object: DeclaredObject) -> QueueEvent {
    let kind = JobKind::Other { group: "jobset.x-k8s.io".into(), kind: "JobSet".into() };
    QueueEvent::Declared(kind, Change::Applied(object).into())
}

/// A Job that a JobSet controls.
fn worker(resource_version: u128, job_set: &str) -> QueueEvent {
    let mut object = named("train-worker-0", resource_version, Stage::Started);
    object.job.uid = format!("worker-of-{job_set}").into();
    object.job.controller = Some(job_set.into());
    object.job.queue = None;
    QueueEvent::Declared(batch("Job"), Change::Applied(object).into())
}

/// The only Pod of that Job.
fn pod(resource_version: u128, job_set: &str, ended: bool) -> QueueEvent {
    QueueEvent::Pod(Change::Applied(PodUse {
        key: key(&format!("pod-of-{job_set}")),
        resource_version,
        controller: Some(format!("worker-of-{job_set}").into()),
        consumer: None,
        requests: cpu(6),
        ended,
        lapses: None,
        slot: None,
    }))
}

fn used(resource_version: u128, cpu: i64) -> QueueEvent {
    let units = |cpu| [("cpu".to_owned(), Amount::units(cpu))].into();
    let limits = QuotaFacts { hard: units(10), used: units(cpu), ..Default::default() };
    let quota = QuotaObject { key: key("quota"), resource_version, limits: Some(limits), counted: true };
    QueueEvent::Quota(Change::Applied(quota))
}

/// A job that waits, whose JobSet was made by its operator.
fn waiting() -> World {
    let mut world = World::new(1, 10);
    world.server.jobs.insert(key("train"), (Stage::Waiting, 6));
    show(&mut world, Change::Listed(parent(1)));
    show(&mut world, Change::Synced);
    world.controller.step(set_event(job_set(2, "set", "uid-train")));
    world
}

/// The job after its release.
fn started(world: &World) -> DeclaredObject {
    let DeclaredObject { job, .. } = resumed(world, 9, Stage::Started);
    let mut object = parent(9);
    (object.job.notes, object.job.suspended) = (job.notes, false);
    object
}

/// Whether a unit of that size is released beside the job.
fn has_room_for(world: &mut World, asks: u64) -> bool {
    world.submit("next", asks);
    for _ in 0..3 {
        world.settle();
        world.pass(LIFETIME.as_secs() + 1);
    }
    world.settle();
    world.admitted.contains_key(&key("next"))
}

const LABEL: &str = "label JobSet train at 2 for uid-train";
const RESUME: &str = "resume train at 1";

#[test]
fn the_pods_of_a_job_set_get_labels_before_its_job_is_resumed() {
    let mut world = waiting();
    let requests = world.settle();
    assert_eq!(requests[2..], ["sweep-train Dequeued Admitted", LABEL, RESUME], "{requests:?}");
}

#[test]
fn a_job_set_that_cannot_be_labelled_holds_up_no_job() {
    let mut world = waiting();
    let (ticket, _) = world.settle_except(LABEL).remove(0);
    let refusal = |code| {
        let (reason, message) = (String::new(), String::new());
        Reply::Refused(Rejection { code, reason, message, retry_after: None })
    };
    // Its operator wrote it in the meantime.
    world.reply(ticket, refusal(409));
    world.controller.step(set_event(job_set(3, "set", "uid-train")));
    assert_eq!(world.settle(), [""; 0], "not at once");
    world.pass(LIFETIME.as_secs());
    let again = "label JobSet train at 3 for uid-train";
    let (ticket, _) = world.settle_except(again).remove(0);
    world.reply(ticket, refusal(403));
    assert_eq!(world.settle(), [RESUME]);
}

#[test]
fn only_a_suspended_job_set_of_its_own_without_a_queue_is_labelled() {
    type Change = fn(&mut DeclaredObject);
    let changes: [(Change, bool); 4] = [
        (|set| set.job.suspended = false, true),
        (|set| set.job.queue = Some("q".into()), true),
        (|set| set.templates.clear(), true),
        (|set| set.job.controller = Some("another".into()), false),
    ];
    for (change, resumes) in changes {
        let mut world = waiting();
        let mut set = job_set(3, "set", "uid-train");
        set.job.requests = Ok(cpu(3));
        change(&mut set);
        world.controller.step(set_event(set));
        let requests = world.settle();
        assert!(!requests.iter().any(|request| request.starts_with("label")), "{requests:?}");
        assert_eq!(requests.contains(&RESUME.to_owned()), resumes, "{requests:?}");
    }
}

#[test]
fn the_pods_of_a_job_set_count_once_in_any_order_of_arrival() {
    for first in 0..4 {
        for step in [1, 3] {
            let mut world = waiting();
            world.settle();
            let job = started(&world);
            world.restart_queues();
            for number in (0..4).map(|number| (first + number * step) % 4) {
                match number {
                    0 => show(&mut world, Change::Listed(job.clone())),
                    1 => world.controller.step(set_event(job_set(2, "set", "uid-train"))),
                    2 => world.controller.step(worker(3, "set")),
                    _ => world.controller.step(pod(4, "set", false)),
                }
            }
            show(&mut world, Change::Synced);
            world.controller.step(used(2, 6));
            assert!(!has_room_for(&mut world, 5), "{first} {step}: six of ten are used");
            world.resize(&key("next"), 4);
            world.settle();
            world.pass(LIFETIME.as_secs() + 1);
            world.settle();
            assert!(
                world.admitted.contains_key(&key("next")),
                "{first} {step}: by the job that reserves them"
            );
        }
    }
}

/// The job runs with one Pod of its JobSet.
fn running() -> World {
    let mut world = waiting();
    world.settle();
    let job = started(&world);
    show(&mut world, Change::Applied(job));
    world.controller.step(worker(3, "set"));
    world.controller.step(pod(4, "set", false));
    world.controller.step(used(2, 6));
    world.settle();
    world
}

#[test]
fn a_finished_job_holds_the_capacity_of_the_last_pod_of_its_job_set() {
    let mut world = running();
    world.server.jobs.insert(key("train"), (Stage::Finished, 6));
    let mut job = started(&world);
    (job.job.resource_version, job.job.finished) = (10, true);
    show(&mut world, Change::Applied(job));
    world.settle();
    let held = |world: &World| world.controller.reservation(&world.server.units[&key("sweep-train")]);
    assert_eq!(held(&world), cpu(6));
    assert!(!has_room_for(&mut world, 5));
    world.controller.step(pod(5, "set", true));
    world.controller.step(used(3, 0));
    assert_eq!(held(&world), ResourceRequests::default());
    world.settle();
    world.pass(10);
    world.settle();
    assert!(world.admitted.contains_key(&key("next")));
}

#[test]
fn a_job_set_that_is_not_provably_part_of_the_job_counts_for_itself() {
    let change: [fn(&mut DeclaredObject); 3] = [
        |set| set.job.controller = Some("another".into()),
        |set| set.job.queue = Some("q".into()),
        // Another one took its name, and the Pods are of the first.
        |set| set.job.uid = "set-2".into(),
    ];
    for change in change {
        let mut world = running();
        let mut set = job_set(5, "set", "uid-train");
        set.job.suspended = false;
        change(&mut set);
        world.controller.step(set_event(set.clone()));
        assert!(!has_room_for(&mut world, 4), "six are used by others, and six are reserved: {set:?}");
    }
    let mut world = running();
    assert!(has_room_for(&mut world, 4));
}

#[test]
fn a_job_set_has_its_pods_as_long_as_it_has_a_unit_by_hand() {
    let mut world = running();
    let of_job = |world: &World, uid: &str| {
        world.controller.objects.owners.job_of(&key("pod-of-set")) == Some(key(uid))
    };
    assert!(of_job(&world, "uid-train"));
    let mut unit = world.server.units[&key("sweep-train")].clone();
    let kind = JobKind::Other { group: "jobset.x-k8s.io".into(), kind: "JobSet".into() };
    unit.key = key("by-hand");
    unit.uid = "by-hand".into();
    (unit.owner, unit.consumer_uid, unit.consumer) = (None, None, ConsumerKey { kind, key: key("train") });
    unit.resource_version = world.server.stamp();
    let unit = Arc::new(unit);
    world.controller.step(QueueEvent::Unit(Change::Applied(Arc::clone(&unit))));
    assert!(of_job(&world, "set"));
    world.controller.step(QueueEvent::Unit(Change::Deleted(unit)));
    assert!(of_job(&world, "uid-train"));
}
