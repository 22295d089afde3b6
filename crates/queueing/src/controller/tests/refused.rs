//! Jobs that the API server does not let go on, and units that outlive their jobs.

use super::declared::{named, show};
use super::*;
use crate::object::DeclaredObject;
use crate::object::TemplateMetadata;

/// A job that waits, with a Pod template that can get labels.
fn waits(version: u128) -> DeclaredObject {
    let template = ("/spec/template".to_owned(), TemplateMetadata::WithLabels);
    DeclaredObject { templates: vec![template], ..named("train", version, Stage::Waiting) }
}

/// A world with that job, and the requests of a kind that were not answered.
fn until(held: &str) -> (World, Vec<(Ticket, QueueRequest)>) {
    let mut world = World::new(1, 10);
    world.server.jobs.insert(key("train"), (Stage::Waiting, 6));
    show(&mut world, Change::Listed(waits(1)));
    show(&mut world, Change::Synced);
    let sent = world.settle_except(held);
    (world, sent)
}

fn refuse(world: &mut World, ticket: Ticket) {
    let reply = world.server.refuse(422);
    world.reply(ticket, reply);
}

fn labels(request: &QueueRequest) -> usize {
    let QueueRequest::ResumeJob { templates, .. } = request else { panic!("{request:?}") };
    templates.len()
}

#[test]
fn a_job_whose_template_is_immutable_is_resumed_without_labels() {
    let (mut world, sent) = until("resume train at 1");
    assert_eq!(labels(&sent[0].1), 1);
    refuse(&mut world, sent[0].0);
    world.settle();
    assert!(
        world.said[0].starts_with("train ResumeRefused: it was released, and the API"),
        "{:?}",
        world.said
    );
    world.pass(2);
    let sent = world.settle_except("resume train at 1");
    assert_eq!(labels(&sent[0].1), 0);
}

#[test]
fn a_job_that_was_edited_meanwhile_is_resumed_with_labels() {
    let (mut world, sent) = until("resume train at 1");
    refuse(&mut world, sent[0].0);
    show(&mut world, Change::Applied(waits(2)));
    world.pass(2);
    let sent = world.settle_except("resume train at 2");
    assert_eq!(labels(&sent[0].1), 1, "the edit may be the reason");
    refuse(&mut world, sent[0].0);
    show(&mut world, Change::Applied(waits(3)));
    world.pass(4);
    let sent = world.settle_except("resume train at 3");
    assert_eq!(labels(&sent[0].1), 0, "edits without end do not stop it");
}

#[test]
fn a_refusal_of_a_request_without_labels_says_nothing_of_labels() {
    let (mut world, sent) = until("resume train at 1");
    refuse(&mut world, sent[0].0);
    world.pass(2);
    let sent = world.settle_except("resume train at 1");
    assert_eq!(labels(&sent[0].1), 0);
    refuse(&mut world, sent[0].0);
    show(&mut world, Change::Applied(waits(2)));
    world.pass(4);
    let sent = world.settle_except("resume train at 2");
    assert_eq!(labels(&sent[0].1), 1);
}

#[test]
fn a_unit_whose_job_cannot_be_resumed_returns_its_capacity_when_deleted() {
    let (mut world, sent) = until("resume train at 1");
    refuse(&mut world, sent[0].0);
    world.delete(&key("sweep-train"));
    world.show();
    world.submit("next", 5);
    world.settle();
    assert!(world.admitted.contains_key(&key("next")));
}

#[test]
fn the_finalizer_of_a_job_that_a_webhook_puts_back_is_removed_again() {
    let (mut world, sent) = until("resume train at 1");
    refuse(&mut world, sent[0].0);
    world.delete(&key("sweep-train"));
    let removal = "remove finalizer of sweep-train";
    for _ in 0..2 {
        let [(ticket, _)] = world.settle_except(removal)[..] else { panic!("it is tried") };
        world.reply(ticket, Reply::Done);
        world.pass(LIFETIME.as_secs() - 1);
        assert_eq!(world.settle_except(removal).len(), 0, "the watch may be slow");
        world.pass(1);
    }
    assert!(world.settle().contains(&removal.to_owned()));
}

#[test]
fn a_job_that_may_have_been_resumed_keeps_its_capacity_after_a_refusal() {
    let (mut world, sent) = until("resume train at 1");
    world.reply(sent[0].0, Reply::Unknown(String::new()));
    world.pass(2);
    let again = world.settle_except("resume train at 1");
    refuse(&mut world, again[0].0);
    world.delete(&key("sweep-train"));
    world.show();
    world.submit("next", 5);
    world.settle();
    assert!(!world.admitted.contains_key(&key("next")), "the first request may have got there");
}

#[test]
fn a_job_whose_unit_is_refused_says_so() {
    let (mut world, sent) = until("create train");
    refuse(&mut world, sent[0].0);
    world.settle_except("create train");
    let says = "train QueueUnitRefused: it stays suspended, because the API server refuses its QueueUnit: ";
    assert_eq!(world.said, [says]);
}

#[test]
fn a_job_whose_name_is_taken_says_so_and_gets_its_unit_once_it_is_free() {
    let (mut world, sent) = until("create train");
    let [(ticket, QueueRequest::CreateUnit(creation))] = &sent[..] else { panic!("{sent:?}") };
    // A user copies the unit of another job.
    let copy = UnitCreation { job: key("other"), uid: "uid-other".into(), ..creation.clone() };
    let unit = world.server.create(&copy);
    world.server.changed(&unit);
    world.answer(*ticket, &sent[0].1);
    world.show();
    world.pass(60);
    world.settle();
    let says = "train QueueUnitRefused: it stays suspended, because another QueueUnit has the name ";
    assert_eq!(world.said, [format!("{says}sweep-train")]);
    world.delete(&unit);
    world.show();
    assert!(world.settle().contains(&"create train".to_owned()));
}

#[test]
fn a_job_that_changes_while_its_release_fails_is_not_released_as_it_was() {
    let (mut world, sent) = until("sweep-train Dequeued Admitted");
    let mut smaller = waits(2);
    smaller.job.requests = Ok(cpu(3));
    show(&mut world, Change::Applied(smaller));
    assert_eq!(world.settle(), [""; 0], "the release may be stored");
    let refusal = world.server.refuse(429);
    world.reply(sent[0].0, refusal);
    world.pass(2);
    let requests = world.settle();
    assert_eq!(requests[0], "delete sweep-train", "{requests:?}");
    assert_eq!(world.server.units[&key("sweep-train")].requests, Ok(cpu(3)));
}

#[test]
fn a_kind_that_is_not_served_any_more_holds_no_capacity_of_deleted_units() {
    let (mut world, _) = until("resume train at 1");
    let started = DeclaredObject { templates: Vec::new(), ..named("train", 2, Stage::Started) };
    let kind = JobKind::declared(&started.row);
    show(&mut world, Change::Applied(started));
    world.controller.step(QueueEvent::NotServed(kind));
    world.submit("next", 5);
    world.settle();
    assert!(!world.admitted.contains_key(&key("next")), "its Pods may run");
    world.delete(&key("sweep-train"));
    world.show();
    assert!(world.settle().contains(&"remove finalizer of sweep-train".to_owned()));
    assert!(world.admitted.contains_key(&key("next")));
}

#[test]
fn a_change_of_a_job_that_concerns_no_unit_costs_none_of_its_units_a_look() {
    let (mut world, _) = until("resume train at 1");
    let by_hand = world.server.units[&key("sweep-train")].clone();
    for name in ["x", "y"] {
        let unit = UnitObject { key: key(name), uid: name.into(), owner: None, ..by_hand.clone() };
        world.server.units.insert(key(name), unit);
        world.server.changed(&key(name));
    }
    world.show();
    world.settle();
    let stale =
        |world: &World| world.controller.stale.units.iter().map(|unit| unit.name.to_string()).collect();
    show(&mut world, Change::Applied(named("train", 2, Stage::Started)));
    let begun: Vec<String> = stale(&world);
    assert_eq!(begun, ["sweep-train", "x", "y"]);
    world.settle();
    show(&mut world, Change::Applied(named("train", 3, Stage::Started)));
    let unchanged: Vec<String> = stale(&world);
    assert_eq!(unchanged, ["sweep-train"]);
}

#[test]
fn a_change_of_a_pod_costs_no_waiting_unit_of_its_job_a_look() {
    let (mut world, _) = until("resume train at 1");
    let released = world.server.units[&key("sweep-train")].clone();
    for name in ["x", "y"] {
        let status = UnitStatus { phase: Some(Phase::Enqueued), ..UnitStatus::default() };
        let (uid, requests) = (name.into(), Ok(cpu(11)));
        let unit = UnitObject { key: key(name), uid, owner: None, status, requests, ..released.clone() };
        world.server.units.insert(key(name), unit);
        world.server.changed(&key(name));
    }
    world.show();
    let mut smaller = named("train", 2, Stage::Started);
    smaller.job.requests = Ok(cpu(1));
    show(&mut world, Change::Applied(smaller));
    world.settle();
    let pod = PodUse {
        key: key("train-0"),
        resource_version: 4,
        controller: Some("uid-train".into()),
        consumer: None,
        requests: cpu(1),
        ended: false,
        lapses: None,
        slot: None,
    };
    world.controller.step(QueueEvent::Pod(Change::Applied(pod)));
    world.controller.look_at_dependents();
    let stale: Vec<&str> = world.controller.stale.units.iter().map(|unit| &*unit.name).collect();
    assert_eq!(stale, ["sweep-train"]);
}

/// A user with the permission to write the status of units may store any time.
#[test]
fn a_unit_that_was_released_at_the_end_of_time_hurts_nobody() {
    let (mut world, _) = until("resume train at 1");
    let released = world.server.units[&key("sweep-train")].clone();
    let status = UnitStatus { since: Some(Time::floor(Timestamp::MAX)), ..released.status.clone() };
    let unit =
        UnitObject { key: key("x"), uid: "x".into(), owner: None, consumer_uid: None, status, ..released };
    world.server.units.insert(key("x"), unit);
    world.server.changed(&key("x"));
    world.show();
    world.settle();
    assert!(world.controller.unit_states[&key("x")].reserves.is_some(), "the job may have begun by it");
}

/// Shows a unit as `--cascade=orphan` leaves it.
fn orphan(world: &mut World, unit: &Key) {
    world.server.units.get_mut(unit).unwrap().notes.orphaned = true;
    world.server.changed(unit);
    world.show();
}

#[test]
fn the_unit_of_a_job_that_left_it_behind_is_deleted() {
    let (mut world, _) = until("resume train at 1");
    show(&mut world, Change::Applied(named("train", 2, Stage::Started)));
    orphan(&mut world, &key("sweep-train"));
    assert_eq!(world.settle(), [""; 0], "its job is there");
    world.server.jobs.insert(key("train"), (Stage::Finished, 6));
    show(&mut world, Change::Deleted(named("train", 3, Stage::Started)));
    assert!(world.settle().contains(&"delete sweep-train".to_owned()));
    let mut again = waits(4);
    again.job.uid = "another".into();
    world.server.jobs.insert(key("train"), (Stage::Waiting, 6));
    show(&mut world, Change::Applied(again));
    assert!(world.settle().contains(&"create train".to_owned()), "the name is free");
}

#[test]
fn the_unit_of_a_framework_that_left_it_behind_is_deleted() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    world.settle();
    assert!(world.admitted.contains_key(&key("a")));
    orphan(&mut world, &key("framework-a"));
    world.server.jobs.insert(key("a"), (Stage::Finished, 8));
    world.frameworks.framework(key("a"), None, false, false);
    world.submit("b", 8);
    for _ in 0..3 {
        world.pass(LIFETIME.as_secs() + 1);
        world.settle();
    }
    assert!(world.admitted.contains_key(&key("b")));
    assert!(!world.server.units.contains_key(&key("framework-a")));
}

/// The API server refuses these requests and asks for a pause of half a minute: none is sent before.
#[track_caller]
fn waits_as_asked(world: &mut World, sent: &[(Ticket, QueueRequest)]) {
    let [(ticket, request)] = sent else { panic!("{sent:?}") };
    let held = summary(request);
    let (reason, message) = (String::new(), String::new());
    let retry_after = Some(Duration::from_secs(30));
    world.reply(*ticket, Reply::Refused(Rejection { code: 429, reason, message, retry_after }));
    world.pass(29);
    assert_eq!(world.settle_except(&held).len(), 0, "{held}");
    world.pass(1);
    assert_eq!(world.settle_except(&held).len(), 1, "{held}");
}

#[test]
fn a_refused_request_for_a_job_waits_as_the_api_server_asks() {
    for held in ["create train", "resume train at 1"] {
        let (mut world, sent) = until(held);
        waits_as_asked(&mut world, &sent);
    }
}

#[test]
fn a_refused_request_for_a_unit_of_a_framework_waits_as_asked() {
    let mut world = World::new(1, 10);
    world.submit("a", 8);
    let sent = world.settle_except("create a");
    waits_as_asked(&mut world, &sent);

    let mut world = World::new(1, 10);
    world.submit("a", 8);
    world.settle();
    world.finish("a");
    let sent = world.settle_except("remove finalizer of framework-a");
    waits_as_asked(&mut world, &sent);

    let mut world = World::new(1, 10);
    world.submit("a", 8);
    world.settle();
    world.server.jobs.remove(&key("a"));
    world.restart_frameworks();
    let read = summary(&QueueRequest::GetFramework { framework: key("a") });
    world.pass(LIFETIME.as_secs() + 1);
    let sent = world.settle_except(&read);
    waits_as_asked(&mut world, &sent);
}
