//! Each rule of the queues switched off: an interleaving that is clean with the rule breaks a promise without
//! it. So the checks of `tests/sim/queue.rs` check something.

use framework_core::Defect;
use framework_sim::check::queue::{self, Blind};
use framework_sim::{DeleteOptions, Fault, Rule, SimCluster, User, Verb};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;

use crate::simulation::controller::{Controller, Setup};
use crate::simulation::life::calm;
use crate::simulation::manifest::framework;
use crate::simulation::walk::Manner;
use crate::simulation::walk::queues::{SIEGES, siege};
use crate::simulation::{SECOND, pass, simulate};

type Interleaving = fn(SimCluster, Setup) -> BoxFuture<'static, Result<(), String>>;

/// Asserts that an interleaving is clean with a rule, and without it breaks a promise whose message has
/// `broken`.
fn needs(rule: Defect, interleaving: Interleaving, broken: &str) {
    let play = |setup: Setup| simulate(1, calm(), |cluster| interleaving(cluster, setup));
    let mut setup = Setup::default();
    setup.policy.queueing = true;
    assert_eq!(play(setup.clone()), Ok(()), "with the rule");
    setup.policy.defects.insert(rule);
    let said = play(setup).expect_err("without the rule nothing goes wrong");
    assert!(said.contains(broken), "without the rule something else goes wrong: {said}");
}

/// A queue, and a quota with room for so many Pods.
fn furnish(user: &User, room: u32) {
    let queue = json!({ "apiVersion": "queue.k8s.io/v1alpha1", "kind": "Queue", "metadata": { "name": "q" },
        "spec": {} });
    user.create(queue).expect("it is accepted");
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "room" },
        "spec": { "hard": { "pods": room.to_string() } } });
    user.create(quota).expect("it is accepted");
}

/// A unit that a user makes.
fn train(user: &User, name: &str, priority: i32, pods: u32) {
    let unit = json!({ "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit",
        "metadata": { "name": name },
        "spec": {
            "consumerRef": { "apiVersion": "example.com/v1", "kind": "Train", "name": name },
            "queue": "q", "priority": priority, "resource": { "pods": pods },
        } });
    user.create(unit).expect("it is accepted");
}

fn prioritise(user: &User, name: &str, priority: i32) {
    user.patch("queueunits", name, json!({ "spec": { "priority": priority } })).expect("it waits");
}

async fn until_enqueued(cluster: &SimCluster, name: &str) {
    let enqueued =
        |user: &User| user.get("queueunits", name).is_some_and(|unit| unit["status"]["phase"].is_string());
    assert!(cluster.until(SECOND * 60, enqueued).await, "it is never put in its queue");
}

fn check(cluster: &SimCluster) -> Result<(), String> {
    queue::check(&cluster.history(), Blind::default()).map_err(|violation| violation.to_string())
}

/// The write of a release does not arrive before its sender has given it up.
fn hold_up_a_release(cluster: &SimCluster, fault: Fault) {
    // The first write puts the unit into its queue.
    on_status_writes(cluster, |rule| rule.nth(2), fault);
}

/// A PUT, or the patch that a defect makes of it.
fn on_status_writes(cluster: &SimCluster, which: impl Fn(Rule) -> Rule, fault: Fault) {
    for verb in [Verb::UpdateStatus, Verb::PatchStatus] {
        let rule = which(Rule::new(fault.clone()).verb(verb).plural("queueunits").name("a"));
        cluster.faults(|faults| faults.script(rule));
    }
}

/// No other write of the unit overtakes it: the version that it was decided from stays.
fn delay_others(cluster: &SimCluster) {
    on_status_writes(cluster, |rule| rule.times(u32::MAX), Fault::Delay(SECOND * 20));
}

/// A controller, and a unit `a` for which there is room, and whose release is held up.
async fn releasing(cluster: &SimCluster, setup: &Setup, fault: Fault) -> Controller {
    furnish(&cluster.user(), 1);
    hold_up_a_release(cluster, fault);
    let controller = Controller::start(cluster, 1, 1, setup);
    pass(SECOND * 5).await;
    train(&cluster.user(), "a", 0, 1);
    controller
}

/// A release hangs, is repeated, and lands a second time.
#[test]
fn a_release_lands_twice() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Result<(), String>> {
        async move {
            let _controller = releasing(&cluster, &setup, Fault::Hang(Some(SECOND * 25))).await;
            pass(SECOND * 60).await;
            check(&cluster)
        }
        .boxed()
    }
    needs(Defect::ReleaseUnguarded, interleaving, "released again");
}

/// A release hangs; meanwhile a user lets another unit go first; then the release lands.
#[test]
fn a_release_that_hangs_is_forgotten() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Result<(), String>> {
        async move {
            let _controller = releasing(&cluster, &setup, Fault::Hang(Some(SECOND * 25))).await;
            until_enqueued(&cluster, "a").await;
            pass(SECOND).await;
            delay_others(&cluster);
            train(&cluster.user(), "b", 9, 1);
            pass(SECOND * 60).await;
            check(&cluster)
        }
        .boxed()
    }
    needs(Defect::ForgetRelease, interleaving, "2 are held and 0 used by others, of 1");
}

/// The controller is killed while a release is on its way, and a user lets another unit go first.
#[test]
fn a_release_of_a_predecessor_lands_after_the_start() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Result<(), String>> {
        async move {
            let first = releasing(&cluster, &setup, Fault::Delay(SECOND * 5)).await;
            until_enqueued(&cluster, "a").await;
            pass(SECOND).await;
            first.crash().await;
            delay_others(&cluster);
            train(&cluster.user(), "b", 0, 1);
            prioritise(&cluster.user(), "b", 9);
            let _second = Controller::start(&cluster, 2, 2, &setup);
            pass(SECOND * 60).await;
            check(&cluster)
        }
        .boxed()
    }
    needs(Defect::ReleaseAtOnce, interleaving, "2 are held and 0 used by others, of 1");
}

/// A Framework is deleted in the background, one of its Pods hangs, and the quota is seen as it was before.
#[test]
fn a_job_is_gone_before_its_pods() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Result<(), String>> {
        async move {
            let user = cluster.user();
            furnish(&user, 2);
            let controller = Controller::start(&cluster, 1, 1, &setup);
            pass(SECOND * 2).await;
            cluster.freeze_watches(&controller.name, "resourcequotas", SECOND * 40);
            let hanging = framework("job").role("w", 2).fate("run-ms", "forever");
            hanging.fate("hang-terminating", "true").queue("q").create(&user);
            let running = |user: &User| {
                user.get("frameworks", "job").is_some_and(|job| job["status"]["state"] == "AttemptRunning")
            };
            assert!(cluster.until(SECOND * 20, running).await, "it never runs");
            train(&user, "b", 0, 1);
            let background =
                DeleteOptions { propagation: Some("Background".to_owned()), ..DeleteOptions::default() };
            user.delete_with("frameworks", "job", &background).expect("it is there");
            pass(SECOND * 15).await;
            check(&cluster)
        }
        .boxed()
    }
    needs(Defect::ReturnAtEnd, interleaving, "of 2");
}

/// The first siege that goes wrong without a rule, and how.
fn found(rule: Defect) -> Option<(u64, String)> {
    let off = move |policy: &mut framework_core::Policy| policy.defects.insert(rule);
    let manner = Manner { policy: Some(&off), ..Manner::default() };
    let mut seeds = SIEGES;
    seeds.find_map(|seed| Some((seed, siege(seed, manner).walked.broken?.what)))
}

/// The gate walks the same seeds with every rule: the loss of any shows there.
#[test]
fn sieges_find_each_rule_that_is_switched_off() {
    let rules = [Defect::ReleaseUnguarded, Defect::ForgetRelease, Defect::ReleaseAtOnce, Defect::ReturnAtEnd];
    let found: Vec<_> = std::thread::scope(|scope| {
        let searches = rules.map(|rule| (rule, scope.spawn(move || found(rule))));
        searches.map(|(rule, search)| (rule, search.join().expect("a siege ends"))).into()
    });
    for (rule, found) in found {
        let (seed, what) = found.unwrap_or_else(|| panic!("{rule:?} is not found within {SIEGES:?}"));
        eprintln!("{rule:?}: seed {seed}: {what}");
        let of_queues = ["fits into every quota", "released once"].iter().any(|part| what.contains(part));
        assert!(of_queues, "{rule:?}: seed {seed}: {what}");
    }
}
