//! Units that users made for Frameworks: their share returns once the Framework has ended, and is kept until
//! then.

use framework_message::{Ownership, Slot, Slots};

use super::*;
use crate::active_slots::ActiveSlots;
use crate::object::UnitNotes;

const TRAIN: &str = "uid-train";
const RELEASED: [&str; 2] = ["mine Enqueued Waiting", "mine Dequeued Admitted"];
const BOUND: &str = "mine is for uid-train";
const RETURNED: [&str; 2] = ["mine keeps nothing", "framework-b Dequeued Admitted"];

/// A user makes a unit for the Framework `train`, maybe with its UID.
fn make(world: &mut World, name: &str, uid: Option<&str>, asks: u64) {
    let resource_version = world.server.stamp();
    let unit = UnitObject {
        key: key(name),
        uid: format!("unit-{resource_version}").into(),
        resource_version,
        created: at(world.second),
        deleting: false,
        finalizers: Finalizers::default(),
        owner: None,
        consumer: ConsumerKey::of_framework(key("train")),
        notes: UnitNotes::default(),
        consumer_uid: uid.map(Arc::from),
        queue: "q".into(),
        priority: None,
        class: None,
        requests: Ok(cpu(asks)),
        status: UnitStatus::default(),
    };
    world.server.units.insert(key(name), unit);
    world.server.changed(&key(name));
}

/// The Framework `train`, which names no queue.
fn train(uid: &str, stage: Stage, deleting: bool) -> Consumer {
    Consumer {
        uid: uid.into(),
        resource_version: 0,
        generation: 1,
        created: at(0),
        resumed_by: None,
        queue: None,
        class: None,
        requests: Ok(cpu(8)),
        growths: BTreeMap::new(),
        held: BTreeMap::new(),
        stage,
        deleting,
    }
}

/// The engine reports the Framework `train`.
fn report(world: &mut World, uid: &str, stage: Stage, has_strays: bool) {
    world.frameworks.framework(key("train"), Some(train(uid, stage, false)), has_strays, false);
}

/// The engine reports that `train` is gone.
fn report_gone(world: &mut World, has_strays: bool) {
    world.frameworks.framework(key("train"), None, has_strays, false);
}

/// The side of the Frameworks dies, and another one starts, which has seen no `train` yet.
fn restart(world: &mut World) {
    world.frameworks = FrameworkUnits::new(settings(), 2);
    let jobs: Vec<Key> = world.server.jobs.keys().filter(|job| *job.name != *"train").cloned().collect();
    jobs.iter().for_each(|job| world.report(job));
    world.relist();
}

/// A unit by hand was released for the Framework `train`, which runs. The job b waits for its share.
fn released(uid: Option<&str>) -> World {
    let mut world = World::new(1, 10);
    report(&mut world, uid.unwrap_or(TRAIN), Stage::Started, false);
    make(&mut world, "mine", uid, 8);
    let noted: &[&str] = if uid.is_none() { &[BOUND] } else { &[] };
    assert_eq!(world.settle(), [&RELEASED[..], noted].concat());
    world.submit("b", 8);
    world.settle();
    world.pass(2 * LIFETIME.as_secs());
    assert_eq!(world.settle(), [""; 0], "it runs");
    assert!(world.admitted.is_empty());
    world
}

/// Counts, and takes away, the reads of `train`.
fn take_reads(requests: &mut Vec<String>) -> usize {
    requests.extract_if(.., |one| one.starts_with("GetFramework")).count()
}

#[test]
fn a_unit_by_hand_returns_its_share_once_its_framework_is_completed() {
    for uid in [Some(TRAIN), None] {
        for restarts in [false, true] {
            let mut world = released(uid);
            report(&mut world, TRAIN, Stage::Finished, true);
            assert_eq!(world.settle(), [""; 0], "Pods of its name run");
            if restarts {
                restart(&mut world);
            }
            report(&mut world, TRAIN, Stage::Finished, false);
            assert_eq!(world.settle(), RETURNED);
            restart(&mut world);
            report(&mut world, TRAIN, Stage::Finished, false);
            world.pass(2 * LIFETIME.as_secs());
            assert_eq!(world.settle(), [""; 0], "the unit says so");
            assert!(world.server.units.contains_key(&key("mine")), "its user deletes it");
        }
    }
}

#[test]
fn a_unit_by_hand_is_returned_after_the_last_pod_of_a_deleted_framework() {
    for (restarts, uid) in [(false, Some(TRAIN)), (true, Some(TRAIN)), (false, None), (true, None)] {
        let mut world = released(uid);
        report_gone(&mut world, true);
        if restarts {
            restart(&mut world);
            report_gone(&mut world, true);
        }
        world.pass(2 * LIFETIME.as_secs());
        assert_eq!(world.settle(), [""; 0], "its Pods run");
        report_gone(&mut world, false);
        let mut requests = world.settle();
        assert_eq!(take_reads(&mut requests), usize::from(restarts), "the new program did not see it go");
        assert_eq!(requests, RETURNED);
    }
}

#[test]
fn a_unit_by_hand_waits_for_pods_that_the_watch_is_yet_to_show() {
    let mut world = released(Some(TRAIN));
    world.frameworks.framework(key("train"), None, false, true);
    assert_eq!(world.settle(), [""; 0]);
    world.pass(LIFETIME.as_secs() - 1);
    assert_eq!(world.settle(), [""; 0]);
    world.pass(1);
    assert_eq!(world.settle(), RETURNED);
}

/// The engine reports the end of the first Framework, and then the second one, which runs.
#[test]
fn a_framework_made_again_ends_only_the_units_of_the_one_before() {
    for restarts in [false, true] {
        let mut world = released(Some("uid-old"));
        world.server.jobs.insert(key("train"), (Stage::Waiting, 0));
        if restarts {
            restart(&mut world);
        } else {
            report_gone(&mut world, true);
        }
        report(&mut world, TRAIN, Stage::Started, true);
        assert_eq!(world.settle(), [""; 0], "Pods of the first run");
        report(&mut world, TRAIN, Stage::Started, false);
        let mut requests = world.settle();
        assert_eq!(take_reads(&mut requests), usize::from(restarts));
        assert_eq!(requests, RETURNED);
        make(&mut world, "new", Some(TRAIN), 2);
        assert_eq!(world.settle(), ["new Enqueued Waiting", "new Dequeued Admitted"]);
        world.pass(2 * LIFETIME.as_secs());
        assert_eq!(world.settle(), [""; 0], "the second runs");
        report(&mut world, TRAIN, Stage::Finished, false);
        assert_eq!(world.settle(), ["new keeps nothing"]);
    }
}

#[test]
fn a_unit_by_hand_without_uid_is_for_the_first_later_framework() {
    let mut world = World::new(1, 10);
    make(&mut world, "mine", None, 8);
    assert_eq!(world.settle(), RELEASED);
    world.submit("b", 8);
    world.settle();
    for _ in 0..2 {
        world.pass(10 * LIFETIME.as_secs());
        assert_eq!(world.settle(), [""; 0], "one may be created");
        restart(&mut world);
    }
    report(&mut world, TRAIN, Stage::Waiting, false);
    assert_eq!(world.settle(), [BOUND]);
    report(&mut world, "uid-later", Stage::Started, false);
    assert_eq!(world.settle(), RETURNED, "the first is gone");
}

#[test]
fn a_unit_by_hand_is_not_bound_to_a_framework_that_is_being_deleted() {
    for stage in [Stage::Started, Stage::Finished] {
        let mut world = World::new(1, 10);
        world.frameworks.framework(key("train"), Some(train("uid-old", stage, true)), false, false);
        make(&mut world, "mine", None, 8);
        assert_eq!(world.settle(), RELEASED, "it may be for the next one");
        report_gone(&mut world, false);
        assert_eq!(world.settle(), [""; 0]);
        report(&mut world, TRAIN, Stage::Waiting, false);
        assert_eq!(world.settle(), [BOUND]);
    }
}

/// Lets all requests arrive, but refuses those that note a Framework. Returns how many these were.
fn refuse_binds(world: &mut World) -> usize {
    world.turn();
    let mut refused = 0;
    for transit in std::mem::take(&mut world.transit) {
        match transit {
            Transit::There(ticket, QueueRequest::BindUnit { .. }, _) => {
                refused += 1;
                let refusal = world.server.refuse(403);
                world.reply(ticket, refusal);
            }
            transit => world.arrive(transit),
        }
    }
    world.show();
    refused
}

/// A user may make ten thousand, and a webhook may refuse each change of them.
#[test]
fn units_by_hand_that_cannot_be_bound_cost_few_requests_together() {
    let mut world = World::new(1, 500);
    report(&mut world, TRAIN, Stage::Started, false);
    (0..200).for_each(|number| make(&mut world, &format!("mine{number}"), None, 1));
    let mut refused_in = |seconds: u64| {
        let mut refused = 0;
        for _ in 0..seconds {
            refused += (0..3).map(|_| refuse_binds(&mut world)).sum::<usize>();
            world.pass(1);
        }
        refused
    };
    refused_in(300);
    let refused = refused_in(600);
    assert!((100..480).contains(&refused), "{refused} in ten minutes, 32 at a time");
    for _ in 0..180 {
        world.settle();
        world.pass(1);
    }
    assert!(world.server.units.values().all(|unit| unit.notes.bound_to.is_some()), "the webhook is mended");
}

#[test]
fn a_unit_by_hand_for_a_framework_that_never_was_is_read_and_returned() {
    let mut world = World::new(1, 10);
    make(&mut world, "mine", Some("uid-never"), 8);
    assert_eq!(world.settle(), RELEASED);
    world.submit("b", 8);
    world.settle();
    world.pass(LIFETIME.as_secs() - 1);
    assert_eq!(world.settle(), [""; 0], "the program has just begun");
    world.pass(1);
    let mut requests = world.settle();
    assert_eq!(take_reads(&mut requests), 1);
    assert_eq!(requests, RETURNED);
    world.pass(10 * LIFETIME.as_secs());
    assert_eq!(world.settle(), [""; 0]);
}

/// It cannot be decoded, or the API server refuses its label.
#[test]
fn a_framework_that_is_there_unseen_is_read_ever_more_rarely() {
    let mut world = World::new(1, 10);
    make(&mut world, "mine", Some(TRAIN), 8);
    assert_eq!(world.settle(), RELEASED);
    world.server.jobs.insert(key("train"), (Stage::Waiting, 0));
    let mut requests = Vec::new();
    for _ in 0..200 {
        world.pass(LIFETIME.as_secs());
        requests.extend(world.settle());
    }
    assert_eq!(take_reads(&mut requests), 8, "after 1, 2, 4, ... 128 lives of a request");
    assert_eq!(requests, [""; 0]);
    world.server.jobs.remove(&key("train"));
    world.pass(56 * LIFETIME.as_secs());
    let mut requests = world.settle();
    assert_eq!((take_reads(&mut requests), requests), (1, vec!["mine keeps nothing".to_owned()]));
}

#[test]
fn a_share_whose_return_got_no_reply_is_returned_once() {
    let mut world = released(Some(TRAIN));
    report(&mut world, TRAIN, Stage::Finished, false);
    let [(ticket, request)] = &world.settle_except(RETURNED[0])[..] else { panic!("it is sent once") };
    world.server.take(request);
    world.reply(*ticket, Reply::Unknown(String::new()));
    assert_eq!(world.settle(), RETURNED[1..]);
    world.pass(10 * LIFETIME.as_secs());
    assert_eq!((world.settle(), world.server.refused), (Vec::new(), 0));
}

#[test]
fn a_share_whose_return_a_webhook_undoes_is_returned_later() {
    let mut world = released(Some(TRAIN));
    report(&mut world, TRAIN, Stage::Finished, false);
    let [(ticket, _)] = world.settle_except(RETURNED[0])[..] else { panic!("it is sent once") };
    let unit = world.server.units[&key("mine")].clone();
    world.reply(ticket, Reply::Object(Object::Unit(Box::new(unit))));
    assert_eq!(world.settle(), [""; 0]);
    world.pass(LIFETIME.as_secs());
    assert_eq!(world.settle(), RETURNED);
}

/// A webhook drops the annotation from each such change of `mine`, and stamps something else. Returns how
/// often the change is made in ten minutes.
fn tried(world: &mut World, change: &str) -> usize {
    let mut tries = 0;
    for second in 0..600 {
        for _ in 0..3 {
            for (ticket, _) in world.settle_except(change) {
                tries += 1;
                world.server.changed(&key("mine"));
                let unit = world.server.units[&key("mine")].clone();
                world.reply(ticket, Reply::Object(Object::Unit(Box::new(unit))));
            }
        }
        assert!(tries <= 1 + second, "{change}");
        world.pass(1);
    }
    tries
}

#[test]
fn an_annotation_that_a_webhook_drops_is_tried_ever_more_rarely() {
    let mut world = World::new(1, 10);
    report(&mut world, TRAIN, Stage::Started, false);
    make(&mut world, "mine", None, 8);
    let binds = tried(&mut world, BOUND);
    let mut world = released(Some(TRAIN));
    report(&mut world, TRAIN, Stage::Finished, false);
    let returns = tried(&mut world, RETURNED[0]);
    assert!([binds, returns].iter().all(|tries| (10..=20).contains(tries)), "{binds} {returns}");
}

#[test]
fn a_unit_by_hand_that_its_user_deletes_is_not_written() {
    let mut world = released(Some(TRAIN));
    world.delete(&key("mine"));
    world.show();
    report(&mut world, TRAIN, Stage::Finished, false);
    assert_eq!(world.settle(), RETURNED[1..]);
}

/// A world whose side of the Frameworks has no slot yet, and has seen a unit by hand released.
fn without_slot(uid: Option<&str>) -> (World, Ownership) {
    let ownership = Ownership::default();
    ownership.disown(Slot::of(TRAIN));
    let mut world = World::new(1, 10);
    let active_slots = ActiveSlots::of(ownership.clone()).without_slots();
    world.frameworks = FrameworkUnits::new(settings(), 1).with_active_slots(active_slots);
    world.relist();
    make(&mut world, "mine", uid, 8);
    assert_eq!(world.settle(), RELEASED);
    world.pass(10 * LIFETIME.as_secs());
    assert_eq!(world.settle(), [""; 0], "another replica has the slot");
    (world, ownership)
}

/// The slot of `train` is granted.
fn begin(world: &mut World, ownership: &Ownership) -> Slots {
    let slots: Slots = [Slot::of(TRAIN)].into_iter().collect();
    ownership.own(Slot::of(TRAIN), None);
    world.frameworks.begin(world.now(), slots);
    slots
}

#[test]
fn the_next_owner_of_a_slot_returns_the_share_of_a_completed_framework() {
    for uid in [Some(TRAIN), None] {
        let (mut world, ownership) = without_slot(uid);
        // It is listed before the slot begins.
        report(&mut world, TRAIN, Stage::Finished, false);
        assert_eq!(world.settle(), [""; 0]);
        begin(&mut world, &ownership);
        assert_eq!(world.settle(), RETURNED[..1]);
    }
}

#[test]
fn the_next_owner_of_a_slot_reads_a_framework_before_it_counts_as_gone() {
    let (mut world, ownership) = without_slot(Some(TRAIN));
    let slots = begin(&mut world, &ownership);
    assert_eq!(world.settle(), [""; 0], "it may just have got its label");
    world.pass(LIFETIME.as_secs());
    let read = summary(&QueueRequest::GetFramework { framework: key("train") });
    let [(ticket, _)] = world.settle_except(&read)[..] else { panic!("it is read once") };
    // The slot is lost meanwhile, and comes back.
    world.frameworks.lost(slots);
    let gone = world.server.refuse(404);
    world.reply(ticket, gone);
    assert_eq!(world.settle(), [""; 0], "another owner decides");
    begin(&mut world, &ownership);
    world.pass(LIFETIME.as_secs());
    let mut requests = world.settle();
    assert_eq!(take_reads(&mut requests), 1);
    assert_eq!(requests, RETURNED[..1]);
}

#[test]
fn the_loss_of_another_slot_forgets_no_request_of_a_unit_without_uid() {
    let mut world = World::new(1, 10);
    report(&mut world, TRAIN, Stage::Started, false);
    make(&mut world, "mine", None, 8);
    assert_eq!(world.settle_except(BOUND).len(), 1);
    world.frameworks.lost(Slot::all().filter(|slot| *slot != Slot::of(TRAIN)).collect());
    world.server.changed(&key("mine"));
    assert_eq!(world.settle(), [""; 0], "it is on its way");
}

#[test]
fn a_bind_whose_slot_is_lost_stops_none_to_the_next_framework() {
    let mut world = World::new(1, 10);
    report(&mut world, TRAIN, Stage::Started, false);
    make(&mut world, "mine", None, 8);
    assert_eq!(world.settle_except(BOUND).len(), 1);
    let later = (0..).map(|number| format!("uid-later{number}")).find(|uid| Slot::of(uid) != Slot::of(TRAIN));
    let later = later.expect("there are 256 slots");
    report(&mut world, &later, Stage::Started, false);
    world.frameworks.lost([Slot::of(TRAIN)].into_iter().collect());
    world.server.changed(&key("mine"));
    assert_eq!(world.settle(), [format!("mine is for {later}")]);
}

#[test]
fn a_paused_slot_keeps_the_return_of_a_share() {
    for uid in [Some(TRAIN), None] {
        let (mut world, ownership) = without_slot(uid);
        begin(&mut world, &ownership);
        ownership.own(Slot::of(TRAIN), Some(Duration::from_secs(1)));
        report(&mut world, TRAIN, Stage::Finished, false);
        assert_eq!(world.settle(), [""; 0], "its time is over");
        ownership.own(Slot::of(TRAIN), None);
        assert_eq!(world.settle(), RETURNED[..1]);
    }
}

/// A user may make ten thousand, and edit the Framework all the time.
#[test]
fn a_unit_by_hand_costs_a_look_when_it_changes_or_its_framework_ends() {
    let mut world = World::new(1, 500);
    report(&mut world, TRAIN, Stage::Started, false);
    for number in 0..100 {
        make(&mut world, &format!("mine{number}"), Some(TRAIN), 1);
    }
    world.settle();
    for stage in [Stage::Waiting, Stage::Started] {
        report(&mut world, TRAIN, stage, false);
        let now = world.now();
        world.frameworks.turn(now);
        assert!(!world.frameworks.wants(), "it runs on");
    }
    world.server.changed(&key("mine7"));
    world.show_frameworks();
    assert!(world.frameworks.wants(), "it is looked at");
    assert!(world.frameworks.next_request(world.now()).is_none() && !world.frameworks.wants());
    report(&mut world, TRAIN, Stage::Finished, false);
    let requests = world.settle();
    let returned = requests.iter().filter(|request| request.ends_with(" keeps nothing")).count();
    assert_eq!((returned, requests.len()), (100, 100), "each is written once");
}

#[test]
fn a_framework_is_named_while_a_unit_by_hand_may_hold_a_share() {
    let mut world = World::new(1, 10);
    let named = |world: &mut World| {
        world.settle();
        world.frameworks.take_named()
    };
    make(&mut world, "mine", Some(TRAIN), 4);
    assert_eq!(named(&mut world), [(key("train"), true)]);
    make(&mut world, "another", None, 4);
    named(&mut world);
    world.delete(&key("another"));
    assert_eq!(named(&mut world), [(key("train"), true)], "the first names it still");
    world.server.changed(&key("mine"));
    assert!(named(&mut world).is_empty(), "nothing has come or gone");
    report(&mut world, TRAIN, Stage::Finished, false);
    assert_eq!(named(&mut world), [(key("train"), false)], "it was returned");
}

/// A user may write the annotation where no policy forbids it.
#[test]
fn an_annotation_returns_nothing_of_a_unit_that_is_for_no_framework() {
    let mut world = World::new(1, 10);
    make(&mut world, "mine", None, 8);
    let mut unit = world.server.units[&key("mine")].clone();
    unit.status.phase = Some(Phase::Dequeued);
    unit.notes.held = Some(ResourceRequests::default());
    assert_eq!(world.controller.reservation(&unit), ResourceRequests::default());
    unit.consumer = ConsumerKey { kind: JobKind::Itself, key: key("mine") };
    assert_eq!(world.controller.reservation(&unit), cpu(8));
}
