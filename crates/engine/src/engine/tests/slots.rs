//! A replica that is granted slots, and loses them.

use std::time::Duration;

use framework_api::State;
use framework_api::name::SLOT_LABEL;
use framework_api::queue::QUEUE_NAME_LABEL;
use framework_core::Policy;
use framework_core::observed::{Admission, Deletion, PodPhase};
use framework_core::snapshot::Trigger;
use framework_message::{Change, Key, Ownership, Slot, SlotSelection, Slots, Ticket};

use super::cluster::{Cluster, generous, policy, refusal, relist};
use crate::engine::{Engine, EngineSettings};
use crate::event::{Event, Kind};
use crate::history::Line;
use crate::object::{Object, Reply};
use crate::request::Request;

const SECOND: Duration = Duration::from_secs(1);

/// A cluster whose engine takes part as a member, and the slots that it owns.
fn member() -> (Cluster, Ownership) {
    member_with(generous())
}

fn member_with(settings: EngineSettings) -> (Cluster, Ownership) {
    let mut cluster = Cluster::unsynced(policy(), settings.clone());
    let ownership = Ownership::none();
    let engine = Engine::new(settings, std::sync::Arc::new(policy()));
    cluster.engine = engine.with_ownership(ownership.clone()).without_slots();
    (cluster, ownership)
}

/// The slots are granted, listed and begun.
fn grant(cluster: &mut Cluster, ownership: &Ownership, slots: Slots, grant: u64) {
    cluster.step(Event::Granted { slots, grant });
    list(cluster, SlotSelection::whole(grant, slots));
    begin(cluster, ownership, slots);
}

fn begin(cluster: &mut Cluster, ownership: &Ownership, slots: Slots) {
    slots.iter().for_each(|slot| ownership.own(slot, None));
    cluster.step(Event::Begin(slots));
    cluster.live(SECOND * 5);
}

/// All kinds are listed once.
fn list(cluster: &mut Cluster, selection: SlotSelection) {
    for kind in [Kind::Frameworks, Kind::ConfigMaps, Kind::Pods] {
        cluster.step(Event::Selected(kind, selection));
    }
    relist(true).into_iter().for_each(|event| cluster.step(event));
    cluster.list_objects();
    relist(false).into_iter().for_each(|event| cluster.step(event));
}

fn slot(cluster: &Cluster) -> Slot {
    Slot::of(&cluster.frameworks["job"].uid)
}

#[test]
fn a_framework_of_a_slot_that_was_not_granted_is_left_alone() {
    let (mut cluster, ownership) = member();
    cluster.create_framework("job", 1);
    let others = Slots::ALL.without([slot(&cluster)].into_iter().collect());
    grant(&mut cluster, &ownership, others, 1);
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.log, [""; 0]);
    grant(&mut cluster, &ownership, Slots::ALL, 2);
    assert_eq!(cluster.state("job"), State::AttemptPreparing);
}

#[test]
fn only_lists_that_began_after_a_grant_show_its_slots() {
    let (mut cluster, _) = member();
    cluster.step(Event::Granted { slots: Slots::ALL, grant: 7 });
    list(&mut cluster, SlotSelection::whole(6, Slots::ALL));
    cluster.turn();
    assert_eq!(cluster.heard.listed, Slots::NONE, "they began before the grant");
    list(&mut cluster, SlotSelection::whole(7, Slots::ALL));
    cluster.turn();
    assert_eq!(cluster.heard.listed, Slots::ALL);
}

#[test]
fn a_slot_that_is_lost_leaves_no_history_and_no_request() {
    let (mut cluster, ownership) = member();
    cluster.create_framework("job", 1);
    grant(&mut cluster, &ownership, Slots::ALL, 1);
    assert_eq!(cluster.state("job"), State::AttemptPreparing);
    cluster.log.clear();
    ownership.disown(slot(&cluster));
    cluster.step(Event::Lost([slot(&cluster)].into_iter().collect()));
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    let rest = Slots::ALL.without([slot(&cluster)].into_iter().collect());
    list(&mut cluster, SlotSelection::whole(1, rest));
    cluster.live(SECOND * 5);
    assert_eq!(cluster.log, [""; 0]);
    assert!(cluster.heard.logged.is_empty(), "the Framework is not gone: {:?}", cluster.heard.logged);
}

#[test]
fn objects_of_a_slot_that_is_lost_stay_out_of_the_cache() {
    let (mut cluster, ownership) = member();
    cluster.create_framework("job", 1);
    grant(&mut cluster, &ownership, Slots::ALL, 1);
    ownership.disown(slot(&cluster));
    cluster.step(Event::Lost([slot(&cluster)].into_iter().collect()));
    cluster.exit("job-w-0", 0);
    cluster.step(Event::ConfigMap(Change::Applied(cluster.config_maps["job"].clone())));
    cluster.deliver();
    assert!(cluster.engine.cache.keys().is_empty(), "no LIST would end them");
    cluster.delete_pod_by_others("job-w-0");
    cluster.deliver();
    cluster.turn();
    let logged: Vec<_> = cluster.heard.logged.iter().map(|(line, _)| line.trigger()).collect();
    assert_eq!(logged, [Trigger::OnPodDeletion], "the next owner may never see it");
    assert!(cluster.engine.cache.keys().is_empty());
}

/// A member that watches by label, with a Framework that prepares.
fn selecting() -> (Cluster, Ownership) {
    let (mut cluster, ownership) = member();
    cluster.create_framework("job", 1);
    let another = Slots::ALL.iter().find(|another| *another != slot(&cluster)).expect("256 slots");
    grant(&mut cluster, &ownership, Slots::ALL.without([another].into_iter().collect()), 1);
    assert_eq!(cluster.state("job"), State::AttemptPreparing);
    cluster.log.clear();
    (cluster, ownership)
}

#[test]
fn a_framework_that_lost_its_label_is_read_and_goes_on() {
    let (mut cluster, _ownership) = selecting();
    cluster.unselect("job");
    cluster.deliver();
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!((cluster.log[0].as_str(), cluster.count("get")), ("get job", 1), "{:?}", cluster.log);
    assert_eq!(cluster.state("job"), State::Completed);
    let ends = cluster.heard.logged.iter().filter(|(line, _)| line.trigger() == Trigger::OnFrameworkDeletion);
    assert_eq!(ends.count(), 0, "the Framework is not gone: {:?}", cluster.heard.logged);
}

#[test]
fn a_get_that_is_owed_follows_the_read_of_a_framework_that_may_be_gone() {
    let (mut cluster, _ownership) = selecting();
    cluster.scale("job", 3);
    cluster.deliver();
    cluster.serve_until("create job-w-1");
    cluster.owe_a_lookup(["create job-w-1", "create job-w-2"]);
    cluster.unselect("job");
    cluster.deliver();
    cluster.log.clear();
    cluster.pass(SECOND * 10);
    assert_eq!(cluster.log, ["get job"], "and nothing else before its reply");
    cluster.live(SECOND * 20);
    assert_eq!(cluster.count("holder job-w-2"), 1, "{:?}", cluster.log);
    assert_eq!(cluster.state("job"), State::Completed, "{:?}", cluster.log);
}

#[test]
fn the_end_of_a_framework_is_logged_once_a_read_has_confirmed_it() {
    let (mut cluster, _ownership) = selecting();
    cluster.delete_framework("job");
    cluster.deliver();
    cluster.turn();
    assert!(cluster.heard.logged.is_empty(), "it may have lost its label: {:?}", cluster.heard.logged);
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("get"), 1, "{:?}", cluster.log);
    assert_eq!(cluster.heard.logged.len(), 1, "{:?}", cluster.heard.logged);
    assert_eq!(cluster.heard.logged[0].0.trigger(), Trigger::OnFrameworkDeletion);
}

#[test]
fn a_framework_that_left_and_is_made_again_is_logged_as_it_was_shown() {
    let (mut cluster, _ownership) = selecting();
    let before = cluster.frameworks["job"].uid.clone();
    cluster.delete_framework("job");
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.live(SECOND * 5);
    let ends: Vec<_> = cluster.heard.logged.iter().map(|(line, _)| line).collect();
    let [Line::Framework { framework, gap, .. }] = ends[..] else { panic!("{ends:?}") };
    assert_eq!((framework.metadata.uid.as_deref(), gap), (Some(&*before), &None));
}

#[test]
fn a_reply_from_before_it_left_does_not_show_that_a_framework_lives() {
    let (mut cluster, _ownership) = selecting();
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.serve_until("put job");
    let before = cluster.frameworks["job"].clone();
    cluster.delete_framework("job");
    cluster.deliver();
    let put =
        cluster.waiting().into_iter().find(|request| request.starts_with("put job")).expect("in flight");
    cluster.answer(&put, Reply::Object(Object::Framework(before)));
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("get"), 1, "{:?}", cluster.log);
    assert_eq!(cluster.heard.logged.len(), 1, "{:?}", cluster.heard.logged);
}

/// The next Framework of that name is in a slot of another replica.
#[test]
fn a_framework_of_another_replica_that_a_read_shows_is_not_kept() {
    let (mut cluster, ownership) = member();
    cluster.create_framework("job", 1);
    let own = [slot(&cluster)].into_iter().collect();
    grant(&mut cluster, &ownership, own, 1);
    cluster.deliver();
    cluster.delete_framework("job");
    // UIDs that differ in their last letter only may have the same slot.
    (0..20).for_each(|_| drop(cluster.uid("job")));
    cluster.create_framework("job", 1);
    assert!(!own.contains(slot(&cluster)));
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("get"), 1, "{:?}", cluster.log);
    assert_eq!(ends(&cluster).len(), 1);
    let cache = &cluster.engine.cache;
    let has_state = |key: &Key| cache.get(key).is_some_and(|entry| entry.state.is_some());
    assert!(!cache.keys().iter().any(has_state), "no event and no LIST would end it");
}

/// The lines of the history about the ends of Frameworks.
fn ends(cluster: &Cluster) -> Vec<&Line> {
    let lines = cluster.heard.logged.iter().map(|(line, _)| line);
    lines.filter(|line| line.trigger() == Trigger::OnFrameworkDeletion).collect()
}

/// All slots but one are selected by label from now on, and their Frameworks are being listed.
fn narrow(cluster: &mut Cluster) {
    let own = slot(cluster);
    let another = Slots::ALL.iter().find(|another| *another != own).expect("256 slots");
    let slots = Slots::ALL.without([another].into_iter().collect());
    cluster.step(Event::Selected(Kind::Frameworks, SlotSelection::whole(1, slots)));
    cluster.step(Event::Framework(Change::Restarted));
}

#[test]
fn a_framework_that_gets_its_label_after_a_list_was_taken_goes_on() {
    let (mut cluster, ownership) = member();
    cluster.create_framework("job", 1);
    grant(&mut cluster, &ownership, Slots::ALL, 1);
    cluster.deliver();
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.serve_until("put job");
    narrow(&mut cluster);
    let label = slot(&cluster).to_string();
    cluster.edit("job", |framework| {
        framework.metadata.labels = Some([(SLOT_LABEL.to_owned(), label)].into());
    });
    // No watch is open, so the read after the conflict shows the label.
    let shown = std::mem::take(&mut cluster.watch);
    cluster.serve("put job");
    cluster.serve_until("get job");
    cluster.serve("get job");
    cluster.log.clear();
    cluster.step(Event::Framework(Change::Synced));
    cluster.pass(SECOND);
    assert_eq!(cluster.log, ["get job"], "the LIST did not show it");
    cluster.watch.extend(shown);
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!((cluster.count("get"), cluster.state("job")), (1, State::Completed), "{:?}", cluster.log);
    assert!(ends(&cluster).is_empty(), "it is not gone: {:?}", cluster.heard.logged);
}

#[test]
fn a_read_from_before_a_list_does_not_show_that_a_framework_lives() {
    let (mut cluster, _ownership) = selecting();
    cluster.edit("job", |framework| framework.metadata.annotations = Some(Default::default()));
    cluster.watch.clear();
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.serve_until("put job");
    cluster.serve("put job");
    cluster.serve_until("get job");
    let read = cluster.frameworks.remove("job").expect("it is there");
    cluster.step(Event::Framework(Change::Restarted));
    cluster.step(Event::Framework(Change::Synced));
    cluster.answer("get job", Reply::Object(Object::Framework(read)));
    cluster.live(SECOND * 5);
    assert_eq!((cluster.count("get"), ends(&cluster).len()), (2, 1), "{:?}", cluster.log);
}

/// A Framework whose label a user removed, and then the Framework: no event shows that.
fn deleted_without_its_label() -> Cluster {
    let (mut cluster, _ownership) = selecting();
    cluster.unselect("job");
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.log, ["get job"], "it is alive");
    cluster.log.clear();
    cluster.frameworks.clear();
    cluster
}

#[test]
fn a_write_finds_the_end_of_a_framework_without_its_label() {
    let mut cluster = deleted_without_its_label();
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!((cluster.log.len(), cluster.count("put job")), (1, 1), "{:?}", cluster.log);
    assert_eq!(ends(&cluster).len(), 1, "{:?}", cluster.heard.logged);
}

#[test]
fn a_read_finds_the_end_of_a_framework_without_its_label() {
    let mut cluster = deleted_without_its_label();
    cluster.live(generous().request_lifetime);
    assert_eq!(cluster.log, ["get job"]);
    assert_eq!(ends(&cluster).len(), 1, "{:?}", cluster.heard.logged);
    cluster.live(SECOND * 3600);
    assert_eq!(cluster.log, ["get job"]);
}

#[test]
fn a_framework_that_stays_without_its_label_is_read_ever_more_rarely() {
    let (mut cluster, _ownership) = selecting();
    cluster.unselect("job");
    cluster.deliver();
    cluster.live(SECOND * 3600);
    let reads = cluster.count("get");
    assert!((10..=20).contains(&reads), "{reads} in an hour");
    let label = slot(&cluster).to_string();
    cluster.edit("job", |framework| {
        framework.metadata.labels = Some([(SLOT_LABEL.to_owned(), label)].into());
    });
    cluster.deliver();
    cluster.log.clear();
    cluster.live(SECOND * 3600);
    assert_eq!(cluster.count("get"), 0, "the watch shows it again: {:?}", cluster.log);
}

#[test]
fn a_list_that_does_not_show_a_framework_without_its_label_has_it_read() {
    let (mut cluster, ownership) = member();
    cluster.create_framework("job", 1);
    grant(&mut cluster, &ownership, Slots::ALL, 1);
    cluster.deliver();
    cluster.log.clear();
    narrow(&mut cluster);
    cluster.frameworks.clear();
    cluster.step(Event::Framework(Change::Synced));
    cluster.live(SECOND * 5);
    assert_eq!(cluster.log, ["get job"]);
    assert_eq!(ends(&cluster).len(), 1, "{:?}", cluster.heard.logged);
}

#[test]
fn a_list_ends_a_framework_that_a_reply_reported_gone() {
    let (mut cluster, _ownership) = selecting();
    cluster.frameworks.clear();
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!((cluster.count("put job"), ends(&cluster).len()), (1, 0), "the watch is yet to show it");
    cluster.step(Event::Framework(Change::Restarted));
    cluster.step(Event::Framework(Change::Synced));
    cluster.live(SECOND * 5);
    assert_eq!(ends(&cluster).len(), 1, "{:?}", cluster.heard.logged);
}

fn lose(cluster: &mut Cluster, ownership: &Ownership, slot: Slot) {
    ownership.disown(slot);
    cluster.step(Event::Lost([slot].into_iter().collect()));
}

/// The Framework `job` is deleted, and made again in another slot. Returns the slot that it had.
fn make_again(cluster: &mut Cluster) -> Slot {
    let first = slot(cluster);
    cluster.delete_framework("job");
    // The hash of UIDs with as many digits has the same first byte.
    while cluster.uid("job").len() < "job#10".len() {}
    cluster.create_framework("job", 1);
    assert_ne!(slot(cluster), first);
    cluster.deliver();
    cluster.live(SECOND * 5);
    first
}

/// The Framework `job` was made again, and its name is held by the Pod of the first one, which terminates.
/// Returns the slot of the first one, too.
fn awaiting_a_former_pod() -> (Cluster, Ownership, Slot) {
    let (mut cluster, ownership) = selecting();
    let at = cluster.server_time();
    cluster.change_pod("job-w-0", |pod| pod.deletion = Some(Deletion { at, grace_sec: 600 }));
    let map = cluster.config_maps.remove("job").expect("it is there");
    cluster.watch.push_back(Event::ConfigMap(Change::Deleted(map)));
    let first = make_again(&mut cluster);
    assert_eq!((cluster.state("job"), cluster.count("create map job")), (State::AttemptPreparing, 1));
    assert_eq!(cluster.count("create job-w-0"), 0, "its name is held: {:?}", cluster.log);
    (cluster, ownership, first)
}

/// The Pod of the first Framework ends, and no event shows that.
fn creates_its_pod(mut cluster: Cluster) {
    cluster.pods.remove("job-w-0");
    cluster.watch.clear();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("create job-w-0"), 1, "{:?}", cluster.log);
    assert_eq!(cluster.count("confirm"), 0, "no status records it: {:?}", cluster.log);
    let mut triggers = cluster.heard.logged.iter().map(|(line, _)| line.trigger());
    assert!(triggers.all(|trigger| trigger != Trigger::OnPodDeletion), "the next owner sees its end");
}

#[test]
fn a_pod_of_a_lost_slot_holds_no_name_of_a_kept_one() {
    let (mut cluster, ownership, first) = awaiting_a_former_pod();
    lose(&mut cluster, &ownership, first);
    creates_its_pod(cluster);
}

#[test]
fn an_event_of_a_lost_slot_brings_no_pod_back() {
    let (mut cluster, ownership, first) = awaiting_a_former_pod();
    lose(&mut cluster, &ownership, first);
    cluster.change_pod("job-w-0", |_| ());
    cluster.deliver();
    creates_its_pod(cluster);
}

/// The watch of the slot goes on until its LIST begins.
#[test]
fn a_list_of_a_slot_ends_its_pods_under_names_of_another_one() {
    let (mut cluster, ownership, first) = awaiting_a_former_pod();
    lose(&mut cluster, &ownership, first);
    let slots = [first].into_iter().collect();
    cluster.step(Event::Granted { slots, grant: 2 });
    cluster.change_pod("job-w-0", |_| ());
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("create job-w-0"), 0, "its name is held: {:?}", cluster.log);
    cluster.pods.remove("job-w-0");
    let selection = cluster.engine.cache.pods.selection;
    list(&mut cluster, SlotSelection { grant: 2, list: slots, ..selection });
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("create job-w-0"), 1, "{:?}", cluster.log);
}

#[test]
fn a_config_map_of_a_lost_slot_holds_no_name_of_a_kept_one() {
    for is_shown_again in [false, true] {
        let (mut cluster, ownership) = selecting();
        cluster.delete_pod_by_others("job-w-0");
        let first = make_again(&mut cluster);
        assert_eq!(cluster.count("create"), 0, "its name is held: {:?}", cluster.log);
        let map = cluster.config_maps.remove("job").expect("it is there");
        lose(&mut cluster, &ownership, first);
        if is_shown_again {
            cluster.step(Event::ConfigMap(Change::Applied(map)));
        }
        cluster.live(SECOND * 5);
        let sent = ["create map job", "confirm"].map(|wanted| cluster.count(wanted));
        assert_eq!(sent, [1, 0], "{:?}", cluster.log);
        assert_eq!(cluster.state("job"), State::AttemptPreparing);
    }
}

/// A slot that is granted, and is not that of the Framework `job`.
fn other_slot(cluster: &Cluster) -> Slot {
    let own = slot(cluster);
    Slots::ALL.iter().filter(|other| *other != own).nth(1).expect("256 slots")
}

#[test]
fn a_recorded_pod_with_the_label_of_a_lost_slot_is_read_and_gets_its_own() {
    for is_lost_first in [false, true] {
        let (mut cluster, ownership) = selecting();
        cluster.run_pod("job-w-0");
        cluster.deliver();
        cluster.live(SECOND * 5);
        assert_eq!(cluster.state("job"), State::AttemptRunning);
        cluster.log.clear();
        let other = other_slot(&cluster);
        if is_lost_first {
            lose(&mut cluster, &ownership, other);
        }
        cluster.pods.get_mut("job-w-0").unwrap().label = Some(other);
        cluster.change_pod("job-w-0", |_| ());
        cluster.deliver();
        if !is_lost_first {
            cluster.live(SECOND * 5);
            assert_eq!(cluster.log, [""; 0], "the watch shows it");
            lose(&mut cluster, &ownership, other);
        }
        cluster.live(SECOND * 5);
        assert_eq!(cluster.log, ["confirm job-w-0", "label job-w-0"]);
        assert_eq!(cluster.pods["job-w-0"].label, cluster.slot("job"));
        cluster.exit("job-w-0", 0);
        cluster.deliver();
        cluster.live(SECOND * 5);
        assert_eq!((cluster.state("job"), cluster.count("create")), (State::Completed, 0));
    }
}

#[test]
fn a_framework_with_the_label_of_a_lost_slot_is_read() {
    for is_lost_first in [false, true] {
        let (mut cluster, ownership) = selecting();
        let other = other_slot(&cluster);
        if is_lost_first {
            lose(&mut cluster, &ownership, other);
        }
        cluster.edit("job", |framework| {
            framework.metadata.labels = Some([(SLOT_LABEL.to_owned(), other.to_string())].into());
        });
        cluster.deliver();
        if !is_lost_first {
            cluster.live(SECOND * 5);
            assert_eq!(cluster.count("get"), 0, "the watch shows it: {:?}", cluster.log);
            lose(&mut cluster, &ownership, other);
        }
        cluster.live(SECOND * 5);
        assert!(cluster.count("get job") > 0, "{:?}", cluster.log);
        assert!(ends(&cluster).is_empty(), "it lives: {:?}", cluster.heard.logged);
        // It is deleted, and no event shows that.
        cluster.frameworks.clear();
        cluster.live(generous().request_lifetime * 2);
        assert_eq!(ends(&cluster).len(), 1, "{:?}", cluster.heard.logged);
    }
}

#[test]
fn creates_of_an_earlier_owner_are_waited_for_before_they_are_sent_again() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    let (ownership, slots) = (Ownership::none(), Slots::ALL);
    cluster.open.clear();
    cluster.log.clear();
    let engine = Engine::new(generous(), std::sync::Arc::new(policy()));
    cluster.engine = engine.with_ownership(ownership.clone()).without_slots();
    let until = cluster.now + SECOND * 30;
    cluster.step(Event::Hold { slots, until });
    grant(&mut cluster, &ownership, slots, 1);
    cluster.create_framework("new", 1);
    cluster.deliver();
    cluster.live(SECOND * 10);
    assert_eq!(cluster.count("create job-w-0"), 0, "{:?}", cluster.log);
    assert_eq!(cluster.state("new"), State::AttemptPreparing, "its creates are permitted by a new status");
    cluster.live(SECOND * 30);
    assert_eq!(cluster.state("job"), State::AttemptPreparing, "{:?}", cluster.log);
    assert_eq!(cluster.count("create job-w-0"), 1, "{:?}", cluster.log);
}

#[test]
fn a_framework_that_is_readable_again_within_the_hold_waits_for_creates() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    let readable = cluster.frameworks["job"].content.clone();
    let (ownership, slots) = (Ownership::none(), Slots::ALL);
    cluster.open.clear();
    let engine = Engine::new(generous(), std::sync::Arc::new(policy()));
    cluster.engine = engine.with_ownership(ownership.clone()).without_slots();
    cluster.spoil("job", "odd");
    cluster.log.clear();
    let until = cluster.now + SECOND * 30;
    cluster.step(Event::Hold { slots, until });
    grant(&mut cluster, &ownership, slots, 1);
    let resource_version = cluster.version();
    let object = cluster.frameworks.get_mut("job").unwrap();
    (object.resource_version, object.content) = (resource_version, readable);
    let repaired = object.clone();
    cluster.watch.push_back(Event::Framework(Change::Applied(repaired)));
    cluster.deliver();
    cluster.live(SECOND * 10);
    assert_eq!(cluster.count("create job-w-0"), 0, "{:?}", cluster.log);
    cluster.live(SECOND * 30);
    assert_eq!(cluster.count("create job-w-0"), 1, "{:?}", cluster.log);
}

/// An owner created the ConfigMap of a Framework that its queue had released, and died before the write that
/// records it was answered. The next one has its slots, and has not seen that write. Returns the request.
fn dies_before_the_record() -> (Cluster, Request) {
    let policy = || Policy { queueing: true, ..policy() };
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 1);
    cluster.edit("job", |framework| {
        framework.metadata.labels = Some([(QUEUE_NAME_LABEL.to_owned(), "gpu".to_owned())].into());
    });
    cluster.deliver();
    cluster.live(SECOND);
    release(&mut cluster);
    cluster.serve_until("put job AttemptPreparing");
    let (_, record) = cluster.open.pop_first().unwrap();
    assert!(cluster.open.is_empty(), "{:?}", cluster.waiting());
    cluster.log.clear();
    let (ownership, slots) = (Ownership::none(), Slots::ALL);
    let engine = Engine::new(generous(), std::sync::Arc::new(policy()));
    cluster.engine = engine.with_ownership(ownership.clone()).without_slots();
    let until = cluster.now + SECOND * 30;
    cluster.step(Event::Hold { slots, until });
    grant(&mut cluster, &ownership, slots, 1);
    release(&mut cluster);
    cluster.live(SECOND * 10);
    assert_eq!(cluster.log, ["time"], "the ConfigMap may be recorded");
    cluster.log.clear();
    (cluster, record)
}

/// The queue releases the Framework.
fn release(cluster: &mut Cluster) {
    let framework = &cluster.frameworks["job"];
    let generation = framework.content.as_ref().unwrap().0.metadata.generation.unwrap();
    let (uid, now) = (framework.uid.clone(), cluster.now());
    cluster.engine.admit(now, &Key::new("ns", "job"), &uid, Admission::Released { generation });
}

#[test]
fn an_object_that_an_earlier_owner_may_have_recorded_is_not_deleted() {
    let (mut cluster, record) = dies_before_the_record();
    cluster.perform(&record);
    // The watch does not show it.
    let unseen = std::mem::take(&mut cluster.watch);
    cluster.live(SECOND * 30);
    assert_eq!(cluster.log[0], "get job", "{:?}", cluster.log);
    assert_eq!(cluster.count("delete"), 0, "{:?}", cluster.log);
    cluster.watch.extend(unseen);
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("create job-w-0"), 1, "{:?}", cluster.log);
}

/// The LIST shows what was stored before that write, and is taken in only after the hold.
#[test]
fn an_object_of_a_list_that_ends_after_the_hold_is_not_deleted_unread() {
    let (mut cluster, record) = dies_before_the_record();
    let (ownership, slots) = (Ownership::none(), Slots::ALL);
    let policy = Policy { queueing: true, ..policy() };
    cluster.engine = Engine::new(generous(), std::sync::Arc::new(policy))
        .with_ownership(ownership.clone())
        .without_slots();
    cluster.step(Event::Hold { slots, until: cluster.now });
    cluster.step(Event::Granted { slots, grant: 1 });
    list(&mut cluster, SlotSelection::whole(1, slots));
    cluster.perform(&record);
    // The watch does not show it.
    let unseen = std::mem::take(&mut cluster.watch);
    begin(&mut cluster, &ownership, slots);
    release(&mut cluster);
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("get job"), 1, "{:?}", cluster.log);
    assert_eq!(cluster.count("delete"), 0, "{:?}", cluster.log);
    drop(unseen);
}

#[test]
fn a_create_that_was_inherited_waits_for_a_read_after_the_hold() {
    let (mut cluster, slots) = creating();
    cluster.open.clear();
    cluster.log.clear();
    let ownership = Ownership::none();
    let engine = Engine::new(generous(), std::sync::Arc::new(policy()));
    cluster.engine = engine.with_ownership(ownership.clone()).without_slots();
    let until = cluster.now + SECOND * 30;
    cluster.step(Event::Hold { slots, until });
    grant(&mut cluster, &ownership, slots, 1);
    cluster.live(SECOND * 40);
    let at = |request: &str| cluster.log.iter().position(|sent| sent.starts_with(request));
    assert!(at("get job").unwrap() < at("create job-w-0").unwrap(), "{:?}", cluster.log);
}

#[test]
fn an_object_that_no_owner_recorded_is_deleted_after_the_hold() {
    let (mut cluster, _) = dies_before_the_record();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.log, [""; 0]);
    cluster.live(SECOND * 25);
    assert_eq!(cluster.log[..3], ["get job", "delete map job", "create map job"]);
    assert_eq!(cluster.state("job"), State::AttemptPreparing);
}

/// A Framework that runs, and a Pod of its attempt that no status records. Its slot was seized, and the hold
/// ends at the returned moment.
fn seized_with_an_orphan() -> (Cluster, Duration) {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    let map = cluster.pods["job-w-0"].facts.config_map_uid.clone();
    cluster.make_pod("job", "job-w-5", &map);
    let (ownership, slots) = (Ownership::none(), Slots::ALL);
    let engine = Engine::new(generous(), std::sync::Arc::new(policy()));
    cluster.engine = engine.with_ownership(ownership.clone()).without_slots();
    let until = cluster.now + SECOND * 30;
    cluster.step(Event::Hold { slots, until });
    grant(&mut cluster, &ownership, slots, 1);
    cluster.log.clear();
    (cluster, until)
}

#[test]
fn a_pod_event_does_not_delay_the_read_after_the_hold() {
    let (mut cluster, until) = seized_with_an_orphan();
    let moment = SECOND / 20;
    cluster.live(until - moment - cluster.now);
    assert_eq!(cluster.log, [""; 0]);
    // It changes nothing of the status, and may gather for longer than the hold lasts.
    cluster.change_pod("job-w-0", |pod| pod.phase = PodPhase::Unknown);
    cluster.deliver();
    cluster.live(moment);
    let counts = ["get job", "delete job-w-5"].map(|request| cluster.count(request));
    assert_eq!(counts, [1, 1], "{:?}", cluster.log);
}

/// A status that is stored would show what the earlier owner has stored.
#[test]
fn acts_go_on_after_the_hold_though_each_status_is_refused() {
    let (mut cluster, until) = seized_with_an_orphan();
    cluster.exit("job-w-0", 1);
    cluster.deliver();
    while cluster.now < until + SECOND * 90 {
        cluster.pass(SECOND / 4);
        for waiting in cluster.waiting() {
            if waiting.starts_with("put") {
                cluster.answer(&waiting, refusal(403, "Forbidden", "a webhook denies it"));
            } else {
                cluster.serve(&waiting);
            }
        }
        cluster.deliver();
    }
    assert_eq!(cluster.count("delete job-w-5"), 1, "{:?}", cluster.log);
}

#[test]
fn a_drain_that_is_called_off_lets_acts_go_on() {
    let (mut cluster, ownership) = member();
    cluster.create_framework("job", 1);
    let slots: Slots = [slot(&cluster)].into_iter().collect();
    cluster.step(Event::Granted { slots: Slots::ALL, grant: 1 });
    list(&mut cluster, SlotSelection::whole(1, Slots::ALL));
    cluster.step(Event::Drain(slots));
    begin(&mut cluster, &ownership, Slots::ALL);
    assert_eq!((cluster.count("create"), cluster.heard.drained_slots), (0, slots), "{:?}", cluster.log);
    cluster.step(Event::Resume(slots));
    cluster.live(SECOND * 5);
    assert_eq!(cluster.state("job"), State::AttemptPreparing);
}

/// A Framework whose Pod is about to be created, by the owner of all slots, and its slot.
fn creating() -> (Cluster, Slots) {
    let (mut cluster, ownership) = member();
    cluster.create_framework("job", 1);
    let slots: Slots = [slot(&cluster)].into_iter().collect();
    cluster.step(Event::Granted { slots: Slots::ALL, grant: 1 });
    list(&mut cluster, SlotSelection::whole(1, Slots::ALL));
    slots.iter().for_each(|slot| ownership.own(slot, Some(SECOND * 3600)));
    cluster.step(Event::Begin(Slots::ALL));
    cluster.serve_until("create job-w-0");
    (cluster, slots)
}

#[test]
fn a_slot_is_not_handed_over_while_a_create_of_unknown_outcome_may_land() {
    let (mut cluster, slots) = creating();
    cluster.answer("create", Reply::Unknown("reset".into()));
    cluster.step(Event::Drain(slots));
    cluster.pass(SECOND * 27);
    assert_eq!(cluster.heard.drained_slots.and(slots), Slots::NONE, "{:?}", cluster.log);
    cluster.pass(SECOND * 2);
    cluster.serve("holder job-w-0");
    cluster.pass(SECOND * 2);
    assert_eq!(cluster.heard.drained_slots.and(slots), slots, "{:?}", cluster.log);
}

#[test]
fn a_slot_is_not_settled_while_a_repeated_status_write_may_land() {
    let (mut cluster, slots) = creating();
    cluster.serve("create job-w-0");
    cluster.step(Event::Drain(slots));
    cluster.pass(SECOND * 12);
    cluster.answer("put job", Reply::Unknown("reset".into()));
    cluster.pass(SECOND * 2);
    cluster.serve("get job");
    cluster.pass(SECOND * 12);
    cluster.answer("put job", Reply::Unknown("reset".into()));
    cluster.pass(SECOND * 3);
    assert_eq!(cluster.heard.drained_slots.and(slots), Slots::NONE, "{:?}", cluster.log);
}

#[test]
fn a_drain_ends_when_its_last_status_write_can_land_no_more() {
    let (mut cluster, ownership) = member();
    cluster.create_framework("job", 1);
    let slots: Slots = [slot(&cluster)].into_iter().collect();
    grant(&mut cluster, &ownership, Slots::ALL, 1);
    slots.iter().for_each(|slot| ownership.own(slot, Some(SECOND * 3600)));
    cluster.run_pod("job-w-0");
    cluster.deliver();
    cluster.serve_until("put job");
    cluster.step(Event::Drain(slots));
    // The write had no effect, and its reply was lost.
    cluster.answer("put job", Reply::Unknown("reset".into()));
    cluster.serve_until("get job");
    cluster.serve("get job");
    cluster.turn();
    assert_eq!(cluster.heard.drained_slots.and(slots), Slots::NONE, "{:?}", cluster.log);
    // No event comes any more.
    let end = cluster.now + generous().request_lifetime;
    while cluster.heard.drained_slots.and(slots) == Slots::NONE && cluster.now < end {
        cluster.now = cluster.engine.next_wake().expect("it wakes by itself");
        cluster.turn();
        cluster.serve_all();
    }
    assert_eq!(cluster.heard.drained_slots.and(slots), slots, "{:?}", cluster.log);
    assert!(cluster.now <= end);
}

#[test]
fn creates_of_an_earlier_owner_do_not_hold_a_hand_over_up() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    let (ownership, slots) = (Ownership::none(), Slots::ALL);
    cluster.open.clear();
    let engine = Engine::new(generous(), std::sync::Arc::new(policy()));
    cluster.engine = engine.with_ownership(ownership.clone()).without_slots();
    let until = cluster.now + SECOND * 30;
    cluster.step(Event::Hold { slots, until });
    cluster.step(Event::Granted { slots, grant: 1 });
    list(&mut cluster, SlotSelection::whole(1, slots));
    slots.iter().for_each(|slot| ownership.own(slot, Some(SECOND * 3600)));
    cluster.step(Event::Begin(slots));
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("create job-w-0"), 1, "the one of the earlier owner: {:?}", cluster.log);
    cluster.step(Event::Drain(slots));
    cluster.live(SECOND);
    assert_eq!(
        cluster.heard.drained_slots, slots,
        "the slot stays unsettled, and the next owner holds again"
    );
}

/// A request of the Framework `job` is in flight when its slot is lost. The slot comes back and is listed.
/// `reply`: the late reply to that request; `None`: that of an API server that has served it.
fn regain(settings: EngineSettings, wanted: &str, reply: Option<Reply>) -> (Cluster, Ticket, Reply) {
    let (mut cluster, ownership) = member_with(settings);
    cluster.create_framework("job", 1);
    cluster.step(Event::Granted { slots: Slots::ALL, grant: 1 });
    list(&mut cluster, SlotSelection::whole(1, Slots::ALL));
    Slots::ALL.iter().for_each(|slot| ownership.own(slot, None));
    cluster.step(Event::Begin(Slots::ALL));
    cluster.serve_until("create job-w-0");
    if !wanted.starts_with("create") {
        cluster.live(SECOND * 5);
        cluster.exit("job-w-0", 0);
        cluster.deliver();
        cluster.serve_until(wanted);
    }
    let ticket = cluster.ticket(wanted);
    let request = cluster.open.remove(&ticket).expect("it is in flight");
    let reply = reply.unwrap_or_else(|| cluster.perform(&request));
    let slot = slot(&cluster);
    let slots: Slots = [slot].into_iter().collect();
    ownership.disown(slot);
    cluster.step(Event::Lost(slots));
    cluster.step(Event::Granted { slots, grant: 2 });
    list(&mut cluster, SlotSelection::whole(2, Slots::ALL));
    ownership.own(slot, None);
    cluster.step(Event::Begin(slots));
    cluster.log.clear();
    (cluster, ticket, reply)
}

#[test]
fn a_late_reply_from_before_a_loss_changes_nothing_of_the_new_state() {
    let refused = || refusal(500, "InternalError", "etcd");
    for (wanted, reply) in [
        ("put job", None),
        ("put job", Some(refusal(409, "Conflict", "the object has been modified"))),
        ("put job", Some(refused())),
        ("put job", Some(Reply::Unknown("reset".into()))),
        ("create job-w-0", None),
        ("delete job-w-0", Some(refused())),
    ] {
        let of = format!("{wanted}: {reply:?}");
        let (mut cluster, ticket, reply) = regain(generous(), wanted, reply);
        cluster.serve_until(wanted);
        cluster.log.clear();
        assert_eq!(cluster.engine.gauges().in_flight, 2, "{of}");
        cluster.step(Event::Reply { ticket, reply, server: None });
        assert_eq!(cluster.engine.gauges().in_flight, 1, "{of}");
        cluster.pass(SECOND * 2);
        assert_eq!(cluster.log, [""; 0], "its own request is in flight: {of}");
        cluster.edit("job", |_| {});
        cluster.deliver();
        cluster.pass(SECOND * 5);
        assert_eq!(cluster.count(wanted), 0, "it is not sent again: {of}");
        cluster.live(SECOND * 10);
        if cluster.pods.contains_key("job-w-0") {
            cluster.exit("job-w-0", 0);
            cluster.deliver();
            cluster.live(SECOND * 10);
        }
        assert_eq!(cluster.state("job"), State::Completed, "{of}: {:?}", cluster.log);
    }
}

#[test]
fn a_late_reply_from_before_a_loss_makes_room_for_another_request() {
    let settings = EngineSettings { min_in_flight: 1, max_in_flight: 1, ..generous() };
    let refused = refusal(409, "Conflict", "the object has been modified");
    let (mut cluster, ticket, reply) = regain(settings, "put job", Some(refused));
    cluster.pass(SECOND);
    assert_eq!(cluster.log, [""; 0], "it may land, and takes the only place");
    cluster.step(Event::Reply { ticket, reply, server: None });
    cluster.turn();
    assert_eq!((cluster.count("put job"), cluster.log.len()), (1, 1), "{:?}", cluster.log);
}
