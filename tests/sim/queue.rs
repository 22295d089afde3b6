//! Queues over many random lives: Frameworks and units of users wait for room, and priorities change while
//! units are released. Replies are lost, watches are slow, and the controller is killed again and again. The
//! released units never exceed a quota, nothing is released twice, and no unit that fits waits without end.
//!
//! `FRAMEWORK_SIM_SEEDS=from..to` chooses the seeds; `cargo xtask soak sim --seeds 100000` runs many.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_sim::User;
use framework_sim::check::queue::Blind;
use serde_json::{Value, json};

use crate::simulation::controller::{Controller, Setup};
use crate::simulation::life::calm;
use crate::simulation::manifest::{Deeds, framework};
use crate::simulation::seeds;
use crate::simulation::walk::queues::{Queued, SIEGES, broken_promise, race, siege, walk};
use crate::simulation::walk::{Broken, Manner};
use crate::simulation::{SECOND, pass, simulate};

/// Seeds of the gate.
const WALKS: std::ops::Range<u64> = 0..200;
const RACES: std::ops::Range<u64> = 0..60;
/// Changes of priorities that a race tries.
const PATCHES: usize = 2_200;
/// So many changes and releases the races are to see.
const RACED: usize = 100_000;
/// Seeds are walked on as many threads, each walk in a runtime of its own.
const THREADS: usize = 2;

/// The counts of all seeds together.
#[derive(Debug, Default)]
struct Seen {
    requests: AtomicUsize,
    releases: AtomicUsize,
    priorities: AtomicUsize,
    races: AtomicUsize,
}

/// Runs each seed, and prints the story of the first that went wrong.
fn each(name: &str, seeds: std::ops::Range<u64>, run: impl Fn(u64, Manner<'_>) -> Queued + Sync) -> Seen {
    let (began, next, seen) = (Instant::now(), AtomicU64::new(seeds.start), Seen::default());
    let broken: Mutex<Vec<(u64, String)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) || broken.lock().unwrap().len() >= 5 {
                        return;
                    }
                    let Queued { walked, counts } = run(seed, Manner::default());
                    seen.requests.fetch_add(walked.requests, Ordering::Relaxed);
                    seen.releases.fetch_add(counts.releases, Ordering::Relaxed);
                    seen.priorities.fetch_add(counts.priorities, Ordering::Relaxed);
                    seen.races.fetch_add(counts.races, Ordering::Relaxed);
                    if let Some(Broken { what, .. }) = walked.broken {
                        broken.lock().unwrap().push((seed, what));
                    }
                }
            });
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{name}: {} seeds, {seen:?}, {seconds:.1} s", seeds.end - seeds.start);
    let mut broken = broken.into_inner().unwrap();
    broken.sort_unstable();
    if let Some((seed, _)) = broken.first() {
        let again = run(*seed, Manner { talks: true, ..Manner::default() }).walked.broken;
        let tail = again.map_or_else(|| vec!["it does not replay".to_owned()], |again| again.tail);
        let failures: Vec<String> =
            broken.iter().map(|(seed, what)| format!("{name} {seed}: {what}")).collect();
        panic!("{}\n\n{}", tail.join("\n"), failures.join("\n"));
    }
    seen
}

#[test]
fn every_queue_promise_holds_in_every_walk_and_every_unit_has_its_turn() {
    let seen = each("walk", seeds::from_environment(WALKS), walk);
    assert!(seen.releases.into_inner() > 0, "nothing was released");
}

#[test]
fn every_queue_promise_holds_while_releases_are_held_up() {
    let seen = each("siege", seeds::from_environment(SIEGES), siege);
    assert!(seen.releases.into_inner() > 0, "nothing was released");
}

#[test]
fn priorities_that_change_while_units_are_released_release_nothing_twice() {
    let seeds = seeds::from_environment(RACES);
    let few = seeds.end - seeds.start < RACES.end;
    let seen = each("race", seeds, |seed, manner| race(seed, PATCHES, manner));
    let (releases, priorities) = (seen.releases.into_inner(), seen.priorities.into_inner());
    assert!(releases > 0, "nothing was released");
    assert!(
        few || releases + priorities >= RACED,
        "{priorities} changes of priorities and {releases} releases"
    );
    assert!(seen.races.into_inner() > 0, "no change came between a decision and its write");
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
