//! A replica whose proof of ownership runs out, is renewed, or is taken away.

use std::time::Duration;

use framework_api::State;
use framework_message::{Key, Ownership, Slot};

use super::cluster::{Cluster, policy};

const SECOND: Duration = Duration::from_secs(1);

/// A cluster with the Framework `job`, whose Pod runs, and the slots that its engine owns.
fn owned() -> (Cluster, Ownership) {
    let mut cluster = Cluster::new(policy());
    let ownership = Ownership::default();
    cluster.engine = cluster.engine.with_ownership(ownership.clone());
    cluster.running("job", 1);
    (cluster, ownership)
}

fn slot(cluster: &Cluster) -> Slot {
    Slot::of(&cluster.frameworks["job"].uid)
}

/// The Pod ends while the slot is paused. Nothing is sent, and the engine sleeps.
fn pod_ends_while_paused(cluster: &mut Cluster, ownership: &Ownership) {
    ownership.own(slot(cluster), Some(cluster.now));
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.pass(SECOND);
    assert_eq!(cluster.log, [""; 0]);
    assert!(cluster.engine.next_wake().is_none_or(|wake| wake > cluster.now), "it does not spin");
}

#[test]
fn news_of_a_paused_slot_is_acted_on_once_it_is_regained() {
    let (mut cluster, ownership) = owned();
    pod_ends_while_paused(&mut cluster, &ownership);
    ownership.own(slot(&cluster), None);
    cluster.live(SECOND * 5);
    assert_eq!(cluster.state("job"), State::Completed);
}

/// The membership runs in another task: it may pause the slot between two looks at it.
#[test]
fn work_that_is_paused_between_two_looks_is_set_aside() {
    let (mut cluster, ownership) = owned();
    cluster.exit("job-w-0", 0);
    ownership.own(slot(&cluster), Some(cluster.now));
    let (now, key) = (cluster.now(), Key::new("ns", "job"));
    assert!(!cluster.engine.wants_evaluation(now, &key));
    assert_eq!(cluster.engine.paused.take(|_| false), [key]);
}

#[test]
fn a_timer_that_passes_while_its_slot_is_paused_is_kept() {
    let (mut cluster, ownership) = owned();
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.live(SECOND * 5);
    cluster.log.clear();
    ownership.own(slot(&cluster), Some(cluster.now));
    let retained = Duration::from_secs(u64::try_from(policy().framework_completed_retain_sec).unwrap());
    cluster.pass(retained + SECOND * 5);
    assert_eq!(cluster.log, [""; 0]);
    ownership.own(slot(&cluster), None);
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("retire job"), 1, "{:?}", cluster.log);
}

#[test]
fn a_staged_write_leaves_once_its_slot_is_regained() {
    let settings = crate::engine::EngineSettings { max_in_flight: 1, ..super::cluster::generous() };
    let mut cluster = Cluster::with(policy(), settings);
    let ownership = Ownership::default();
    cluster.engine = cluster.engine.with_ownership(ownership.clone());
    cluster.create_held("other", 1);
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.waiting().len(), 1, "the second write waits for the first");
    let first = cluster.waiting().remove(0);
    let waits = if first.starts_with("put other") { "job" } else { "other" };
    let slot = Slot::of(&cluster.frameworks[waits].uid);
    ownership.own(slot, Some(cluster.now));
    cluster.answer(&first, super::cluster::not_found());
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting(), [""; 0]);
    ownership.own(slot, None);
    cluster.turn();
    assert_eq!(cluster.waiting(), [format!("put {waits} AttemptCreationPending")]);
}

#[test]
fn a_slot_that_is_lost_is_forgotten_until_news_come() {
    let (mut cluster, ownership) = owned();
    pod_ends_while_paused(&mut cluster, &ownership);
    ownership.disown(slot(&cluster));
    cluster.pass(SECOND * 5);
    ownership.own(slot(&cluster), None);
    cluster.pass(SECOND * 5);
    assert_eq!(cluster.log, [""; 0], "another replica may have acted meanwhile");
    cluster.edit("job", |_| {});
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.state("job"), State::Completed);
}

#[test]
fn one_slot_is_drained_while_the_others_go_on() {
    let (mut cluster, _) = owned();
    let drained = slot(&cluster);
    let now = cluster.now();
    cluster.exit("job-w-0", 0);
    cluster.engine.drain(now, [drained].into_iter().collect());
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert!(cluster.engine.drained().contains(drained) && !cluster.heard.drained);
    assert_eq!(cluster.state("job"), State::AttemptRunning, "nothing new is begun");
    let mut name = "a".to_owned();
    cluster.create_framework(&name, 1);
    while Slot::of(&cluster.frameworks[&name].uid) == drained {
        name.push('a');
        cluster.create_framework(&name, 1);
    }
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert!(cluster.pods.contains_key(&format!("{name}-w-0")));
}
