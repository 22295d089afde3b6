//! Units by the UIDs of their jobs: the index is exact, and what it saves.

use super::declared::{named, show};
use super::quota::uses;
use super::*;
use crate::object::UnitNotes;

const UIDS: [&str; 3] = ["uid-a", "uid-b", "uid-c"];

/// A unit by hand for the job `train`, with a UID of the job.
fn unit(name: &str, job: Option<&str>) -> UnitObject {
    UnitObject {
        key: key(name),
        uid: format!("unit-{name}").into(),
        resource_version: 0,
        created: at(0),
        deleting: false,
        finalizers: [FINALIZER].into_iter().collect(),
        owner: None,
        consumer: ConsumerKey {
            kind: JobKind::declared(&named("train", 1, Stage::Waiting).row),
            key: key("train"),
        },
        notes: UnitNotes::default(),
        consumer_uid: job.map(Arc::from),
        queue: "q".into(),
        priority: None,
        class: None,
        requests: Ok(cpu(1)),
        status: UnitStatus::default(),
    }
}

fn released(unit: UnitObject) -> UnitObject {
    let status = UnitStatus { phase: Some(Phase::Dequeued), ..UnitStatus::default() };
    UnitObject { status, ..unit }
}

fn apply(world: &mut World, unit: UnitObject) {
    let unit = UnitObject { resource_version: world.server.stamp(), ..unit };
    world.controller.step(QueueEvent::Unit(Change::Applied(Arc::new(unit))));
}

fn remove(world: &mut World, name: &str) {
    let unit = UnitObject { resource_version: world.server.stamp(), ..unit(name, None) };
    world.controller.step(QueueEvent::Unit(Change::Deleted(Arc::new(unit))));
}

fn apply_pod(world: &mut World, name: &str, job: &str) {
    let ended = world.rng.u32(0..3) == 0;
    set_pod(world, name, job, ended);
}

fn set_pod(world: &mut World, name: &str, job: &str, ended: bool) {
    let pod = PodUse {
        key: key(name),
        resource_version: world.server.stamp(),
        controller: Some(job.into()),
        consumer: None,
        requests: cpu(1),
        ended,
        lapses: None,
        slot: None,
    };
    world.controller.step(QueueEvent::Pod(Change::Applied(pod)));
}

/// One change of a unit, a job or a Pod.
fn random_change(world: &mut World) {
    let pick = |world: &mut World| world.rng.choice(UIDS).unwrap();
    let maybe =
        |world: &mut World| world.rng.choice([None, Some(0), Some(1), Some(2)]).unwrap().map(|at| UIDS[at]);
    let name = format!("x{}", world.rng.u32(0..6));
    let job = world.rng.choice(["train", "other"]).unwrap();
    match world.rng.u32(0..8) {
        0 => remove(world, &name),
        1 => {
            let mut object = named(job, world.server.stamp(), Stage::Started);
            object.job.suspended = world.rng.bool();
            object.job.uid = pick(world).into();
            show(world, Change::Applied(object));
        }
        2 => {
            let gone = named(job, world.server.stamp(), Stage::Started);
            show(world, Change::Deleted(gone));
        }
        3 => {
            let (pod, uid) = (format!("pod{}", world.rng.u32(0..4)), pick(world));
            apply_pod(world, &pod, uid);
        }
        _ => {
            let mut unit = unit(&name, maybe(world));
            unit.consumer.key = key(job);
            unit.owner = maybe(world).map(Arc::from);
            unit.uid = world.rng.choice(["one", "two"]).unwrap().into();
            unit.deleting = world.rng.bool();
            let unit = if world.rng.bool() { released(unit) } else { unit };
            apply(world, unit);
        }
    }
}

/// Requests end without a reply, or are not sent.
fn answer_none(world: &mut World) {
    for transit in std::mem::take(&mut world.transit) {
        let Transit::There(ticket, ..) = transit else { continue };
        let unsent = world.rng.bool();
        let reply = if unsent { Reply::NotSent(String::new()) } else { Reply::Unknown(String::new()) };
        world.reply(ticket, reply);
    }
}

#[test]
fn the_index_of_units_by_job_is_exact_after_any_changes() {
    let mut seen = 0;
    for seed in 0..100 {
        let mut world = World::new(seed, 10);
        show(&mut world, Change::Synced);
        for _ in 0..200 {
            for _ in 0..world.rng.u32(1..4) {
                random_change(&mut world);
            }
            world.pass(1);
            world.turn();
            answer_none(&mut world);
            seen += check(&world.controller);
        }
        (0..6).for_each(|number| remove(&mut world, &format!("x{number}")));
        for job in ["train", "other"] {
            let gone = named(job, world.server.stamp(), Stage::Started);
            show(&mut world, Change::Deleted(gone));
        }
        check(&world.controller);
        assert!(world.controller.objects.jobs_by_uid.is_empty(), "seed {seed}");
    }
    assert!(seen > 10_000, "{seen}");
}

/// Compares the index with the objects. Returns how many units depend on Pods.
fn check(controller: &QueueController) -> usize {
    let objects = &controller.objects;
    let mut seen = 0;
    for uid in UIDS {
        let job = key(uid);
        let states = controller.unit_states.values();
        let is_named = states.filter(|state| state.job.as_ref() == Some(&job)).count() > 0
            || objects.consumers.values().any(|known| *known.uid == *uid);
        assert_eq!(objects.units_by_job.is_named(&job), is_named, "{uid}");
        assert_eq!(objects.jobs_by_uid.contains_key(&job), is_named, "{uid}");
        // Those that have changed since are evaluated in the next turn.
        let is_fresh = |unit: &&Key| !controller.stale.units.contains(*unit);
        let depends = |unit: &&Arc<UnitObject>| {
            controller.depends_on_pods(unit) && controller.job_of(unit).as_ref() == Some(&job)
        };
        let expected = objects.units.iter().filter(depends).map(|unit| &unit.key).filter(is_fresh);
        let expected: Vec<&Key> = expected.collect();
        assert_eq!(
            objects.units_by_job.dependents(&job).filter(is_fresh).collect::<Vec<_>>(),
            expected,
            "{uid}"
        );
        seen += expected.len();
    }
    seen
}

/// Ten thousand units that name one job may have other UIDs, or be on their way out.
#[test]
fn a_change_of_a_pod_costs_units_with_other_uids_no_look() {
    let mut world = World::new(1, 10);
    show(&mut world, Change::Synced);
    for number in 0..100 {
        let other = unit(&format!("x{number}"), Some("uid-b"));
        apply(&mut world, UnitObject { deleting: number % 2 == 0, ..released(other) });
    }
    apply(&mut world, released(unit("own", Some("uid-a"))));
    world.turn();
    for number in 0..10 {
        apply_pod(&mut world, &format!("pod{number}"), "uid-a");
    }
    assert!(world.controller.stale.units.is_empty(), "each turn looks once");
    world.controller.look_at_dependents();
    assert_eq!(world.controller.stale.units.iter().collect::<Vec<_>>(), [&key("own")]);
}

/// A user may have thousands of units released that request nothing, or that no quota limits.
#[test]
fn units_that_hold_nothing_cost_no_look_at_pods_and_edits_of_their_job() {
    let stale = |world: &World| -> Vec<String> {
        world.controller.stale.units.iter().map(|unit| unit.name.to_string()).collect()
    };
    let mut world = World::new(1, 10);
    show(&mut world, Change::Applied(named("train", 1, Stage::Started)));
    show(&mut world, Change::Synced);
    for number in 0..100 {
        let other = released(unit(&format!("x{number}"), Some("uid-train")));
        apply(&mut world, UnitObject { requests: Ok(ResourceRequests::default()), ..other });
    }
    apply(&mut world, released(unit("own", Some("uid-train"))));
    world.turn();
    (0..10).for_each(|number| apply_pod(&mut world, &format!("pod{number}"), "uid-train"));
    world.controller.look_at_dependents();
    assert_eq!(stale(&world), [""; 0], "its job asks for all of it, whatever its Pods use");
    let mut smaller = named("train", 1000, Stage::Started);
    smaller.job.requests = Ok(ResourceRequests::default());
    show(&mut world, Change::Applied(smaller));
    assert_eq!(stale(&world), ["own", "sweep-train"]);
    world.turn();
    (0..10).for_each(|number| set_pod(&mut world, &format!("pod{number}"), "uid-train", true));
    world.controller.look_at_dependents();
    assert_eq!(stale(&world), ["own"]);
}

/// A user may have thousands of units released for one job, of which thousands of Pods end.
#[test]
fn pods_that_end_cost_units_that_hold_all_they_request_no_look() {
    let mut world = World::new(1, 1_000);
    show(&mut world, Change::Applied(named("train", 1, Stage::Finished)));
    show(&mut world, Change::Synced);
    for number in 0..100 {
        apply(&mut world, released(unit(&format!("x{number}"), Some("uid-train"))));
    }
    let large = released(unit("large", Some("uid-train")));
    apply(&mut world, UnitObject { requests: Ok(cpu(5)), ..large });
    (0..8).for_each(|number| set_pod(&mut world, &format!("pod{number}"), "uid-train", false));
    world.turn();
    let looks = [0, 1, 2, 3, 4, 5, 6, 7].map(|number| {
        set_pod(&mut world, &format!("pod{number}"), "uid-train", true);
        world.controller.look_at_dependents();
        let looks = world.controller.stale.units.len();
        world.turn();
        looks
    });
    assert_eq!(looks, [0, 0, 0, 1, 1, 1, 1, 101]);
}

/// The units were released for one CPU to five. The job asks for two, until it has finished.
#[test]
fn each_reservation_follows_the_pods_of_its_job() {
    let reserved = |stage, pods: [u64; 2], asks: u64| {
        let mut world = World::new(1, 100);
        let mut job = named("train", 1, stage);
        job.job.requests = Ok(cpu(2));
        show(&mut world, Change::Applied(job));
        show(&mut world, Change::Synced);
        let unit = released(unit("x", Some("uid-train")));
        apply(&mut world, UnitObject { requests: Ok(cpu(asks)), ..unit });
        for pods in pods {
            for number in 0..6 {
                set_pod(&mut world, &format!("pod{number}"), "uid-train", number >= pods);
            }
            world.turn();
        }
        let reserves = world.controller.unit_states[&key("x")].reserves.clone();
        reserves.map(|(_, requests)| requests).unwrap_or_default()
    };
    for (before, after) in (0..36_u64).map(|pair| (pair / 6, pair % 6)) {
        for asks in 1..=5_u64 {
            for (stage, least) in [(Stage::Started, asks.min(2)), (Stage::Finished, 0)] {
                let expected = cpu(after.min(asks).max(least));
                let told = format!("{before} Pods, then {after}, of {asks}");
                assert_eq!(reserved(stage, [before, after], asks), expected, "{told}");
            }
        }
    }
}

#[test]
fn a_unit_of_another_name_takes_no_pods_from_a_job_when_it_goes() {
    let mut world = World::new(1, 10);
    show(&mut world, Change::Applied(named("train", 1, Stage::Started)));
    show(&mut world, Change::Synced);
    let mut other = unit("x", Some("uid-train"));
    other.consumer.key = key("other");
    apply(&mut world, other);
    world.turn();
    remove(&mut world, "x");
    apply_pod(&mut world, "train-0", "uid-train");
    assert_eq!(world.controller.objects.owners.job_of(&key("train-0")), Some(key("uid-train")));
}

/// The job `train` is shown as one of this kind.
fn show_as(world: &mut World, kind: &JobKind, stage: Stage) {
    let job = named("train", world.server.stamp(), stage);
    world.controller.step(QueueEvent::Declared(kind.clone(), Change::Applied(job).into()));
}

/// The job runs, and its unit reserves six CPUs.
fn reserve(world: &mut World, kind: &JobKind) {
    show_as(world, kind, Stage::Started);
    let consumer = ConsumerKey { kind: kind.clone(), key: key("train") };
    let mine = released(unit("mine", Some("uid-train")));
    apply(world, UnitObject { consumer, requests: Ok(cpu(6)), ..mine });
}

/// The Pod of a Deployment uses four CPUs, and has the label of the job.
fn copy_label(world: &mut World) {
    let pod = PodUse {
        key: key("web-0"),
        resource_version: world.server.stamp(),
        controller: Some("replica-set".into()),
        consumer: Some("uid-train".into()),
        requests: cpu(4),
        ended: false,
        lapses: None,
        slot: None,
    };
    world.controller.step(QueueEvent::Pod(Change::Applied(pod)));
}

/// Whether a job that requests two of ten CPUs is released, of which four are used.
fn is_room_left(world: &mut World) -> bool {
    uses(world, 4);
    world.submit("b", 2);
    world.settle();
    world.admitted.contains_key(&key("b"))
}

/// The job has no Pods yet. The kind is one whose jobs control their Pods, or an invented one.
#[test]
fn a_copied_label_hides_no_use_where_jobs_control_their_pods() {
    let invented = JobKind::declared(&named("train", 1, Stage::Started).row);
    for (kind, hides) in [(batch("Job"), false), (invented, true)] {
        let mut world = World::new(1, 10);
        show(&mut world, Change::Synced);
        reserve(&mut world, &kind);
        copy_label(&mut world);
        assert_eq!(is_room_left(&mut world), hides, "{kind:?}");
        show_as(&mut world, &kind, Stage::Finished);
        world.turn();
        let reserves = world.controller.unit_states[&key("mine")].reserves.clone();
        assert_eq!(reserves.map(|(_, requests)| requests), Some(cpu(4)), "it may be a Pod of the job");
    }
}

/// A user makes a unit that only waits, before the job is seen or after.
#[test]
fn a_kind_that_a_unit_claims_lets_no_copied_label_hide_use() {
    let kind = JobKind::Other { group: "ray.io".into(), kind: "RayJob".into() };
    let forge = |world: &mut World| {
        let consumer = ConsumerKey { kind: kind.clone(), key: key("train") };
        apply(world, UnitObject { consumer, queue: "none".into(), ..unit("forged", Some("uid-train")) });
    };
    for comes_first in [true, false] {
        let mut world = World::new(1, 10);
        if comes_first {
            forge(&mut world);
            copy_label(&mut world);
            world.turn();
            reserve(&mut world, &batch("Job"));
        } else {
            reserve(&mut world, &batch("Job"));
            forge(&mut world);
            copy_label(&mut world);
        }
        assert!(!is_room_left(&mut world), "{comes_first}");
    }
}
