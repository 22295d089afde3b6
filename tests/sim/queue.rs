//! Queues over many random lives: Frameworks and units of users wait for room, and priorities change while
//! units are released. Replies are lost, watches are slow, and the controller is killed again and again. The
//! released units never exceed a quota, nothing is released twice, and no unit that fits waits without end.
//!
//! `FRAMEWORK_SIM_SEEDS=from..to` chooses the seeds; `cargo xtask soak sim --seeds 100000` runs many.

use std::ops::Range;

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_sim::User;
use framework_sim::check::queue::{Blind, QueueCounts};
use serde_json::{Value, json};

use crate::simulation::controller::{Controller, Setup};
use crate::simulation::life::calm;
use crate::simulation::manifest::{Deeds, framework};
use crate::simulation::seeds;
use crate::simulation::walk::Manner;
use crate::simulation::walk::queues::{Queued, SIEGES, broken_promise, race, siege, walk};
use crate::simulation::{SECOND, pass, simulate};

/// Seeds of the gate.
const WALKS: Range<u64> = 0..200;
const RACES: Range<u64> = 0..60;
/// Changes of priorities that a race tries.
const PATCHES: usize = 2_200;
/// So many changes and releases the races are to see.
const RACED: usize = 100_000;

/// Runs each seed, and returns the counts of all together.
fn each(test: &str, seeds: Range<u64>, run: impl Fn(u64, Manner<'_>) -> Queued + Sync) -> QueueCounts {
    let mut sum = QueueCounts::default();
    for Queued { counts, .. } in seeds::each(test, seeds, run) {
        sum.releases += counts.releases;
        sum.priorities += counts.priorities;
        sum.races += counts.races;
    }
    eprintln!("{sum:?}");
    sum
}

#[test]
fn every_queue_promise_holds_in_every_walk_and_every_unit_has_its_turn() {
    let seen = each("every_queue_promise_holds_in_every_walk", seeds::from_environment(WALKS), walk);
    assert!(seen.releases > 0, "nothing was released");
}

#[test]
fn every_queue_promise_holds_while_releases_are_held_up() {
    let seen = each("every_queue_promise_holds_while_releases", seeds::from_environment(SIEGES), siege);
    assert!(seen.releases > 0, "nothing was released");
}

#[test]
fn priorities_that_change_while_units_are_released_release_nothing_twice() {
    let seeds = seeds::from_environment(RACES);
    let few = seeds.end - seeds.start < RACES.end;
    let seen = each("priorities_that_change", seeds, |seed, manner| race(seed, PATCHES, manner));
    let (releases, priorities) = (seen.releases, seen.priorities);
    assert!(releases > 0, "nothing was released");
    assert!(
        few || releases + priorities >= RACED,
        "{priorities} changes of priorities and {releases} releases"
    );
    assert!(seen.races > 0, "no change came between a decision and its write");
}

/// A queue, and a quota of so many Pods.
pub fn furnish(user: &User, pods: u32) {
    let meta = |name: &str| json!({ "name": name });
    let queue = json!({
        "apiVersion": "queue.k8s.io/v1alpha1", "kind": "Queue", "metadata": meta("q"), "spec": {},
    });
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta("room"),
        "spec": { "hard": { "pods": pods.to_string() } },
    });
    for object in [queue, quota] {
        user.create(object).expect("it is valid");
    }
}

/// A user creates a Pod with all labels and annotations of another, and without its owner.
fn forge(user: &User, pod: &str) {
    let metadata = &user.get("pods", pod).expect("it runs")["metadata"];
    assert_eq!(metadata["labels"][QUEUE_NAME_LABEL], "q");
    let forged = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "forged", "labels": metadata["labels"], "annotations": metadata["annotations"],
        },
        "spec": { "containers": [{ "name": "main", "image": "x" }] },
    });
    user.create(forged).expect("it is valid");
}

fn is_running(user: &User, job: &str) -> bool {
    user.get("frameworks", job).is_some_and(|job| job["status"]["state"] == "AttemptRunning")
}

fn used(user: &User) -> Value {
    user.get("resourcequotas", "room").map_or(Value::Null, |quota| quota["status"]["used"]["pods"].clone())
}

#[test]
fn a_pod_with_forged_labels_neither_hides_its_use_nor_holds_a_share() {
    simulate(1, calm(), |cluster| async move {
        let user = cluster.user();
        furnish(&user, 4);
        let job = |name: &str| framework(name).role("w", 2).fate("run-ms", "forever").queue("q");
        let mut setup = Setup::default();
        setup.policy.queueing = true;
        let _controller = Controller::start(&cluster, 1, 1, &setup);
        job("first").create(&user);
        assert!(cluster.until(SECOND * 120, |user| is_running(user, "first")).await);
        forge(&user, "first-w-0");
        assert!(cluster.until(SECOND * 60, |user| used(user) == "3").await);
        pass(SECOND * 10).await;
        job("second").create(&user);
        pass(SECOND * 60).await;
        let unit = user.get("queueunits", "framework-second").expect("it has a unit");
        assert_eq!(unit["status"]["phase"], "Enqueued", "of four, two are released and one is used");
        assert!(user.stop("first"));
        assert!(cluster.until(SECOND * 60, |user| is_running(user, "second")).await);
        assert!(user.get("pods", "forged").is_some(), "it holds nothing of the first");
        assert_eq!(used(&user), "3");
    });
}

#[test]
fn a_replaced_task_role_returns_its_room_before_the_new_one_has_any() {
    simulate(1, calm(), |cluster| async move {
        let user = cluster.user();
        furnish(&user, 4);
        let mut setup = Setup::default();
        setup.policy.queueing = true;
        let _controller = Controller::start(&cluster, 1, 1, &setup);
        framework("grown").role("old", 2).fate("run-ms", "forever").queue("q").create(&user);
        assert!(cluster.until(SECOND * 120, |user| is_running(user, "grown")).await);
        unit(&user, "first", 2);
        assert!(cluster.until(SECOND * 60, |user| phase(user, "first") == "Dequeued").await);
        // The new Tasks ask for three. Once the removed ones are gone, there is room for two.
        let roles = framework("grown").role("new", 3).value()["spec"]["taskRoles"].take();
        let replace = json!([{ "op": "replace", "path": "/spec/taskRoles", "value": roles }]);
        user.json_patch("frameworks", "grown", replace).expect("it is valid");
        assert!(cluster.until(SECOND * 60, |user| phase(user, "framework-grown-2") == "Enqueued").await);
        unit(&user, "second", 2);
        assert!(cluster.until(SECOND * 60, |user| phase(user, "second") == "Dequeued").await);
        assert_eq!(phase(&user, "framework-grown-2"), "Enqueued", "there is no room for it");
        assert!(user.list("pods").is_empty(), "the removed Tasks are gone, and no other has begun");
        assert_eq!(broken_promise(&cluster.history(), Blind::default()), None);
    });
}

/// A user makes a unit for a job of a kind that the controller does not know.
fn unit(user: &User, name: &str, pods: u32) {
    let unit = json!({
        "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": { "name": name },
        "spec": {
            "consumerRef": { "apiVersion": "example.com/v1", "kind": "Train", "name": name },
            "queue": "q", "resource": { "pods": pods },
        },
    });
    user.create(unit).expect("it is valid");
}

fn phase(user: &User, unit: &str) -> Value {
    user.get("queueunits", unit).map_or(Value::Null, |unit| unit["status"]["phase"].clone())
}
