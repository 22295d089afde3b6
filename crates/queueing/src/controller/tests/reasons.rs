//! Reasons for which a unit is not even looked at, each until the missing object is there; the order of
//! classes; and the report of each reason.

use super::declared::named;
use super::*;
use crate::object::{ClassObject, UnitNotes};

/// A unit by hand for a Job of its name.
fn unit(name: &str) -> UnitObject {
    UnitObject {
        key: key(name),
        uid: name.into(),
        resource_version: 0,
        created: at(0),
        deleting: false,
        finalizers: Finalizers::default(),
        owner: None,
        consumer: ConsumerKey { kind: batch("Job"), key: key(name) },
        notes: UnitNotes::default(),
        consumer_uid: None,
        queue: "q".into(),
        priority: None,
        class: None,
        requests: Ok(cpu(6)),
        status: UnitStatus::default(),
    }
}

/// Of one that names no job.
fn reservation(name: &str) -> UnitObject {
    UnitObject { consumer: ConsumerKey { kind: JobKind::Itself, key: key(name) }, ..unit(name) }
}

fn create(world: &mut World, unit: UnitObject) {
    let name = unit.key.clone();
    world.server.jobs.insert(unit.consumer.key.clone(), (Stage::Waiting, 6));
    world.server.units.insert(name.clone(), unit);
    world.server.changed(&name);
    world.show();
    world.settle();
}

/// The stored reason and message of a unit.
fn says(world: &World, name: &str) -> (Reason, String) {
    let status = &world.server.units[&key(name)].status;
    (status.reason.unwrap(), status.message.clone())
}

fn class(name: &str, value: i32) -> QueueEvent {
    let class = ClassObject { key: Key::new("", name), resource_version: 1, value };
    QueueEvent::Class(Change::Applied(class))
}

#[test]
fn a_unit_waits_for_its_class_and_for_its_queue_and_says_so() {
    let mut world = World::new(1, 10);
    create(&mut world, UnitObject { class: Some("high".into()), ..reservation("a") });
    let expected = (Reason::PriorityClassNotFound, "there is no PriorityClass high".to_owned());
    assert_eq!(says(&world, "a"), expected);
    create(&mut world, UnitObject { queue: "other".into(), ..reservation("b") });
    let expected = (Reason::QueueNotFound, "there is no Queue other in the namespace ns".to_owned());
    assert_eq!(says(&world, "b"), expected);
    world.controller.step(class("high", 7));
    world.settle();
    assert_eq!(says(&world, "a").0, Reason::Admitted);
    assert_eq!(says(&world, "b").0, Reason::QueueNotFound);
    let gauges = world.controller.gauges();
    assert_eq!(gauges.without_queue, [("QueueNotFound", 1)].into(), "{gauges:?}");
    assert!(gauges.waiting.is_empty(), "{gauges:?}");
    assert_eq!(["q", "other"].map(|queue| world.controller.has_queue(&key(queue))), [true, false]);
}

#[test]
fn a_unit_waits_for_the_class_of_its_queue() {
    let mut world = World::new(1, 10);
    let queue = QueueObject {
        key: key("q"),
        uid: "q".into(),
        resource_version: 1000,
        counts: None,
        policy: QueuePolicy::Priority,
        priority: None,
        class: Some("low".into()),
    };
    world.controller.step(QueueEvent::Queue(Change::Applied(queue)));
    create(&mut world, reservation("a"));
    let expected = (Reason::PriorityClassNotFound, "there is no PriorityClass low of its Queue".to_owned());
    assert_eq!(says(&world, "a"), expected);
    world.controller.step(class("low", -10));
    world.settle();
    assert_eq!(says(&world, "a").0, Reason::Admitted);
}

#[test]
fn a_unit_of_a_new_queue_goes_on_when_the_class_of_that_is_made() {
    let mut world = World::new(1, 10);
    let queue = QueueObject {
        key: key("r"),
        uid: "r".into(),
        resource_version: 1000,
        counts: Some(QueueCounts { waiting: 1, released: 0 }),
        policy: QueuePolicy::Priority,
        priority: None,
        class: Some("low".into()),
    };
    world.controller.step(QueueEvent::Queue(Change::Applied(queue)));
    create(&mut world, UnitObject { queue: "r".into(), ..reservation("a") });
    assert_eq!(says(&world, "a").0, Reason::PriorityClassNotFound);
    world.controller.step(class("low", -10));
    world.settle();
    assert_eq!(says(&world, "a").0, Reason::Admitted);
}

#[test]
fn a_unit_whose_job_is_missing_or_elsewhere_is_not_released() {
    let mut world = World::new(1, 10);
    create(&mut world, unit("lost"));
    let expected = (Reason::ConsumerNotFound, "there is no job lost".to_owned());
    assert_eq!(says(&world, "lost"), expected);
    let elsewhere = ConsumerKey { key: Key::new("elsewhere", "job"), ..unit("job").consumer };
    create(&mut world, UnitObject { consumer: elsewhere, ..unit("astray") });
    let expected = (Reason::ConsumerNotAllowed, "its job is in the namespace elsewhere".to_owned());
    assert_eq!(says(&world, "astray"), expected);
    // Neither holds up another one.
    create(&mut world, reservation("good"));
    assert_eq!(says(&world, "good").0, Reason::Admitted);
}

#[test]
fn a_unit_waits_for_the_job_with_its_uid_and_takes_no_other_of_that_name() {
    let mut world = World::new(1, 10);
    let show = |world: &mut World, resource_version, uid: &str| {
        let mut object = named("lost", resource_version, Stage::Waiting);
        (object.job.queue, object.job.uid) = (None, uid.into());
        world.controller.step(QueueEvent::Declared(batch("Job"), Change::Applied(object).into()));
    };
    show(&mut world, 1, "another");
    create(&mut world, UnitObject { consumer_uid: Some("its-own".into()), ..unit("lost") });
    let expected = (Reason::ConsumerNotFound, "there is no job lost with the UID its-own".to_owned());
    assert_eq!(says(&world, "lost"), expected);
    show(&mut world, 2, "its-own");
    world.settle();
    assert_eq!(says(&world, "lost").0, Reason::Admitted);
}

#[test]
fn the_value_of_a_class_decides_the_order_and_a_priority_goes_before_it() {
    let mut world = World::new(1, 6);
    world.controller.step(class("high", 7));
    create(&mut world, reservation("holder"));
    create(&mut world, reservation("none"));
    create(&mut world, UnitObject { class: Some("high".into()), ..reservation("high") });
    let given = UnitObject { class: Some("high".into()), priority: Some(3), ..reservation("given") };
    create(&mut world, given);
    let mut order = Vec::new();
    for _ in 0..3 {
        let released = |unit: &&UnitObject| unit.status.phase == Some(Phase::Dequeued);
        let released = world.server.units.values().find(released).unwrap().key.clone();
        order.push(released.name.to_string());
        world.delete(&released);
        world.show();
        world.settle();
    }
    assert_eq!(order, ["holder", "high", "given"]);
    assert_eq!(says(&world, "none").0, Reason::Admitted);
}

#[test]
fn each_reason_is_reported_once_also_if_the_watch_outruns_the_reply() {
    let mut world = World::new(1, 10);
    let mut lacks_class = UnitObject { class: Some("high".into()), ..reservation("a") };
    lacks_class.resource_version = world.server.stamp();
    world.server.jobs.insert(key("a"), (Stage::Waiting, 6));
    world.server.units.insert(key("a"), lacks_class);
    world.server.changed(&key("a"));
    world.show();
    let watch_first = |world: &mut World| {
        world.turn();
        for transit in std::mem::take(&mut world.transit) {
            let Transit::There(ticket, request, _) = transit else { continue };
            let reply = world.server.take(&request);
            world.show();
            world.reply(ticket, reply);
        }
    };
    (0..3).for_each(|_| watch_first(&mut world));
    world.controller.step(class("high", 7));
    (0..3).for_each(|_| watch_first(&mut world));
    assert_eq!(world.reported, ["a PriorityClassNotFound", "a Admitted"]);
}
