//! The slots of the two sides: that of the Framework's UID, and that of the namespace.

use framework_message::{Ownership, Slot, SlotSelection, Slots};

use super::declared::{named, show};
use super::*;
use crate::active_slots::ActiveSlots;

/// A world whose two sides have this ownership, with a job that fits.
fn owned(ownership: &Ownership) -> World {
    let mut world = World::new(1, 10);
    world.controller =
        QueueController::new(settings(), 1).with_active_slots(ActiveSlots::of(ownership.clone()));
    world.frameworks =
        FrameworkUnits::new(settings(), 1).with_active_slots(ActiveSlots::of(ownership.clone()));
    world.listed();
    world.submit("a", 8);
    world
}

/// The slots of the two sides of the job, and the requests that are sent without each.
fn sides() -> [(Slot, &'static [&'static str]); 2] {
    [(Slot::of("uid-a"), &[]), (Slot::of(SPACE), &["create a"])]
}

#[test]
fn a_side_whose_slot_is_paused_keeps_its_work() {
    for (slot, without) in sides() {
        let ownership = Ownership::default();
        let mut world = owned(&ownership);
        ownership.own(slot, Some(Duration::from_secs(1)));
        world.pass(2);
        assert_eq!(world.settle(), without);
        assert!(world.admitted.is_empty());
        ownership.own(slot, Some(Duration::from_secs(100)));
        assert!(world.settle().contains(&"framework-a Dequeued Admitted".to_owned()));
        assert!(world.admitted.contains_key(&key("a")));
    }
}

#[test]
fn a_request_names_the_time_at_which_its_slot_is_lost() {
    let ownership = Ownership::default();
    let mut world = owned(&ownership);
    let until = Duration::from_secs(100);
    ownership.own(Slot::of("uid-a"), Some(until));
    let now = world.now();
    world.frameworks.turn(now);
    let (_, request, right) = world.frameworks.next_request(now).unwrap();
    assert_eq!((summary(&request), right), ("create a".to_owned(), ownership.right(Slot::of("uid-a"))));
}

#[test]
fn a_granted_slot_is_taken_up_and_a_seized_one_is_listed_first() {
    for (slot, without) in sides() {
        let ownership = Ownership::default();
        ownership.disown(slot);
        let mut world = owned(&ownership);
        assert_eq!(world.settle(), without);
        ownership.own(slot, None);
        assert_eq!(world.settle(), [""; 0], "nothing was listed since");
        let until = world.now().steady + LIFETIME;
        let slots: Slots = [slot].into_iter().collect();
        world.frameworks.hold(slots, until);
        world.frameworks.begin(world.now(), slots);
        world.controller.hold(slots, until);
        world.controller.begin(world.now(), slots);
        let released = "framework-a Dequeued Admitted".to_owned();
        let is_released_at_once = world.settle().contains(&released);
        assert_eq!(is_released_at_once, slot != Slot::of(SPACE));
        world.pass(LIFETIME.as_secs());
        let requests = world.settle();
        if !is_released_at_once {
            assert_eq!(requests.first().map(String::as_str), Some("list after None"));
            assert_eq!(requests.last(), Some(&released));
        }
        assert!(world.admitted.contains_key(&key("a")));
    }
}

/// The next Framework with the name `a`.
fn made_again() -> Consumer {
    Consumer {
        uid: "uid-again".into(),
        resource_version: 0,
        generation: 1,
        created: at(1),
        resumed_by: None,
        queue: Some("q".into()),
        class: None,
        requests: Ok(cpu(8)),
        growths: BTreeMap::new(),
        held: BTreeMap::new(),
        stage: Stage::Waiting,
        deleting: false,
    }
}

#[test]
fn a_framework_made_again_gets_a_unit_though_the_slot_of_the_first_went() {
    let mut world = owned(&Ownership::default());
    assert_eq!(world.settle_except("create a").len(), 1);
    let slot = Slot::of("uid-a");
    assert_ne!(slot, Slot::of(&made_again().uid));
    world.frameworks.framework(key("a"), Some(made_again()), false, false);
    world.frameworks.lost([slot].into_iter().collect());
    assert_eq!(world.settle_except("create a").len(), 1, "the reply to the first POST is not awaited");
}

#[test]
fn the_reply_to_a_post_of_an_earlier_framework_ends_no_later_post() {
    let mut world = owned(&Ownership::default());
    let first = world.settle_except("create a");
    world.frameworks.framework(key("a"), Some(made_again()), false, false);
    assert_eq!(world.settle_except("create a").len(), 1);
    let refusal = world.server.refuse(403);
    world.reply(first[0].0, refusal);
    world.pass(2);
    assert!(world.settle_except("create a").is_empty(), "the POST of the present one is on its way");
}

/// The slot of the namespace, granted when the requests of an earlier owner can land until `held`.
fn granted(world: &mut World, ownership: &Ownership, held: Duration) -> Slots {
    let slot = Slot::of(SPACE);
    let slots = [slot].into_iter().collect();
    ownership.own(slot, None);
    world.controller.hold(slots, held);
    world.pass(1);
    world.controller.begin(world.now(), slots);
    slots
}

/// A world whose replica does not own the slot of the namespace, and whose job waits.
fn without_namespace() -> (World, Ownership) {
    let ownership = Ownership::default();
    ownership.disown(Slot::of(SPACE));
    let mut world = owned(&ownership);
    assert_eq!(world.settle(), ["create a"]);
    (world, ownership)
}

/// Other LISTs may have taken long, and the watch of units may be behind.
#[test]
fn a_granted_namespace_is_listed_once_though_its_hold_is_over() {
    let (mut world, ownership) = without_namespace();
    let now = world.now();
    let slots = granted(&mut world, &ownership, now.steady);
    let requests = world.settle();
    assert_eq!(requests.first().map(String::as_str), Some("list after None"));
    assert!(requests.contains(&"framework-a Dequeued Admitted".to_owned()));
    world.controller.drain(slots);
    world.controller.begin(world.now(), slots);
    assert_eq!(world.settle(), [""; 0], "the slot was not handed over");
}

/// A cluster may have Jobs in ten thousand namespaces, and units in few.
#[test]
fn a_granted_namespace_without_units_is_not_listed() {
    let ownership = Ownership::default();
    ownership.disown(Slot::of(SPACE));
    let mut world = World::new(1, 10);
    world.controller =
        QueueController::new(settings(), 1).with_active_slots(ActiveSlots::of(ownership.clone()));
    world.listed();
    world.server.jobs.insert(key("train"), (Stage::Waiting, 6));
    show(&mut world, Change::Listed(named("train", 1, Stage::Waiting)));
    show(&mut world, Change::Synced);
    assert_eq!(world.settle(), [""; 0]);
    let until = world.now().steady + LIFETIME;
    granted(&mut world, &ownership, until);
    let requests = world.settle();
    assert_eq!(requests.first().map(String::as_str), Some("create train"));
    let released = "sweep-train Dequeued Admitted".to_owned();
    assert!(requests.contains(&released), "no LIST is awaited: {requests:?}");
}

/// The earlier owner resumed its job, and the watch of jobs does not show that yet. The hold may be over.
#[test]
fn a_deleted_unit_keeps_its_quota_after_a_seizure_for_a_requests_life() {
    let mut world = World::new(1, 10);
    world.server.jobs.insert(key("train"), (Stage::Waiting, 6));
    let list = |world: &mut World| {
        show(world, Change::Listed(named("train", 1, Stage::Waiting)));
        show(world, Change::Synced);
    };
    list(&mut world);
    assert!(world.settle().contains(&"resume train at 1".to_owned()));
    world.delete(&key("sweep-train"));
    let ownership = Ownership::default();
    ownership.disown(Slot::of(SPACE));
    let active_slots = ActiveSlots::of(ownership.clone());
    world.restart_queues();
    world.controller = QueueController::new(settings(), 1).with_active_slots(active_slots);
    world.listed();
    list(&mut world);
    assert_eq!(world.settle(), [""; 0]);
    let hold = LIFETIME - Duration::from_secs(9);
    let until = world.now().steady + hold;
    granted(&mut world, &ownership, until);
    world.pass(hold.as_secs());
    let removal = "remove finalizer of sweep-train".to_owned();
    let requests = world.settle();
    assert!(requests.contains(&"list after None".to_owned()), "the hold is over: {requests:?}");
    assert!(!requests.contains(&removal), "{requests:?}");
    world.pass(9);
    assert!(world.settle().contains(&removal));
}

#[test]
fn a_lost_namespace_awaits_no_requests_of_its_earlier_owner() {
    let (mut world, ownership) = without_namespace();
    let until = world.now().steady + LIFETIME;
    let slots = granted(&mut world, &ownership, until);
    assert_eq!(world.settle(), [""; 0], "it is held");
    world.controller.lost(slots);
    world.controller.begin(world.now(), slots);
    assert!(world.settle().contains(&"framework-a Dequeued Admitted".to_owned()));
}

/// It shows no release that another owner made in the meantime.
#[test]
fn a_list_from_before_a_loss_does_not_end_the_wait_after_it() {
    const LIST: &str = "list after None";
    let (mut world, ownership) = without_namespace();
    let now = world.now().steady;
    let slots = granted(&mut world, &ownership, now);
    let [(early, shown)] = &world.settle_except(LIST)[..] else { panic!("it is listed once") };
    world.controller.lost(slots);
    granted(&mut world, &ownership, now);
    let [(late, _)] = world.settle_except(LIST)[..] else { panic!("it is listed again") };
    world.answer(*early, shown);
    assert_eq!(world.settle(), [""; 0], "the second LIST is on its way");
    world.answer(late, shown);
    assert!(world.settle().contains(&"framework-a Dequeued Admitted".to_owned()));
}

#[test]
fn a_replica_decides_in_namespaces_whose_slot_it_has() {
    let (ownership, slots) = (Ownership::default(), Slots::ALL);
    let mut world = owned(&ownership);
    assert!(world.controller.decides_in(SPACE), "one replica has every slot");
    let active_slots = ActiveSlots::of(ownership).without_slots();
    world.controller = QueueController::new(settings(), 1).with_active_slots(active_slots);
    assert!(!world.controller.decides_in(SPACE));
    world.controller.begin(world.now(), slots);
    assert!(world.controller.decides_in(SPACE));
    world.controller.lost(slots);
    assert!(!world.controller.decides_in(SPACE));
}

/// The label of a Pod says which replicas see it. The namespace says which of them decides.
#[test]
fn pods_and_config_maps_leave_with_the_slot_that_their_labels_name() {
    let mut world = World::new(1, 10);
    let slots: Slots = [Slot::of(SPACE)].into_iter().collect();
    let map = OwnerLink { slot: Some(Slot::of(SPACE)), ..world.show_attempt("a") };
    let map = OwnerLink { resource_version: world.server.stamp(), ..map };
    world.controller.step(QueueEvent::Attempt(Change::Applied(map.clone())));
    let pod = |name: &str, slot| PodUse {
        key: key(name),
        resource_version: 2,
        controller: Some("map-a".into()),
        consumer: None,
        requests: cpu(1),
        ended: false,
        lapses: None,
        slot,
    };
    let labelled = pod("labelled", Some(Slot::of(SPACE)));
    for pod in [labelled.clone(), pod("unlabelled", None)] {
        world.controller.step(QueueEvent::Pod(Change::Applied(pod)));
    }
    let used = |world: &mut World| {
        world.turn();
        world.controller.usage.of(&Key::new(SPACE, "uid-a")).cloned()
    };
    assert_eq!(used(&mut world), Some(cpu(2)));
    let none = SlotSelection { grant: 2, slots: Slots::NONE, list: Slots::NONE };
    world.controller.step(QueueEvent::PodsSelected(none));
    assert_eq!(used(&mut world), Some(cpu(1)), "the other one is shown to every replica");
    world.controller.step(QueueEvent::AttemptsSelected(none));
    assert_eq!(used(&mut world), None, "its Framework is not known");
    let share = SlotSelection { grant: 3, slots, list: slots };
    world.controller.step(QueueEvent::AttemptsSelected(share));
    for change in [Change::Restarted, Change::Listed(map), Change::Synced] {
        world.controller.step(QueueEvent::Attempt(change));
    }
    world.controller.step(QueueEvent::PodsSelected(share));
    for change in [Change::Restarted, Change::Listed(labelled), Change::Synced] {
        world.controller.step(QueueEvent::Pod(change));
    }
    assert_eq!(used(&mut world), Some(cpu(2)), "the LIST of the slot does not show the other one");
}

/// A world whose owner of Frameworks has come to their slots and does not see that of a released unit.
fn unseen() -> World {
    let ownership = Ownership::default();
    let mut world = owned(&ownership);
    assert!(world.settle().contains(&"framework-a Dequeued Admitted".to_owned()));
    let active_slots = ActiveSlots::of(ownership).without_slots();
    world.frameworks = FrameworkUnits::new(settings(), 2).with_active_slots(active_slots);
    world.frameworks.begin(world.now(), Slots::ALL);
    world.relist();
    world.frameworks.framework(key("a"), None, false, false);
    world
}

/// Answers the next read of that Framework. Returns the requests that follow.
fn read(world: &mut World, reply: Reply) -> Vec<String> {
    world.pass(LIFETIME.as_secs());
    let read = summary(&QueueRequest::GetFramework { framework: key("a") });
    let [(ticket, _)] = world.settle_except(&read)[..] else { panic!("it is read once") };
    world.reply(ticket, reply);
    world.settle()
}

fn framework(uid: &str) -> Reply {
    Reply::Object(Object::Framework(uid.into()))
}

/// The API server may refuse the label of a Framework: then the next owner of its slot does not see it.
#[test]
fn a_framework_that_no_watch_shows_is_read_before_its_unit_is_let_go() {
    for another in [false, true] {
        let mut world = unseen();
        assert_eq!(world.settle(), [""; 0], "it may just have got its label");
        assert_eq!(read(&mut world, framework("uid-a")), [""; 0], "it is there");
        let error = world.server.refuse(500);
        assert_eq!(read(&mut world, error), [""; 0], "nothing is known");
        let end = if another { framework("uid-b") } else { world.server.refuse(404) };
        assert_eq!(read(&mut world, end), ["remove finalizer of framework-a"]);
    }
}
