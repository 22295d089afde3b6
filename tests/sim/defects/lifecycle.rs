//! Each rule of the controller switched off: an interleaving that is clean with the rule breaks a promise
//! without it, and the random walk finds that, too. So the checks check something.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use framework_core::Defect;
use framework_sim::{DeleteOptions, Fault, Options, Rule, SimCluster, User, Verb, check};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::SignedDuration;

use crate::simulation::controller::{Controller, Setup};
use crate::simulation::life::{calm, lived_well};
use crate::simulation::manifest::{Deeds, framework};
use crate::simulation::walk::{Manner, walk};
use crate::simulation::{SECOND, pass, simulate};

/// The message of a walk or an interleaving that broke a promise.
type Said = Result<(), String>;
type Interleaving = fn(SimCluster, Setup) -> BoxFuture<'static, Said>;

/// Asserts that an interleaving is clean with a rule, and without it breaks a promise whose message has
/// `broken`.
fn needs(rule: Defect, options: Options, interleaving: Interleaving, broken: &str) {
    let play = |setup: Setup| simulate(1, options.clone(), |cluster| interleaving(cluster, setup));
    assert_eq!(play(Setup::default()), Ok(()), "with the rule");
    let mut lacking = Setup::default();
    lacking.policy.defects.insert(rule);
    let said = play(lacking).expect_err("without the rule nothing goes wrong");
    assert!(said.contains(broken), "without the rule something else goes wrong: {said}");
}

async fn until(cluster: &SimCluster, what: &str, holds: impl FnMut(&User) -> bool) {
    assert!(cluster.until(SECOND * 60, holds).await, "never: {what}");
}

fn is_running(user: &User) -> bool {
    user.get("frameworks", "job").is_some_and(|job| job["status"]["state"] == "AttemptRunning")
}

/// Stops the job, waits for its end, and checks everything.
async fn concluded(cluster: &SimCluster) -> Said {
    assert!(cluster.user().stop("job"));
    lived_well(cluster, "job").await
}

/// Rule A1: the POST of a Pod is on its way, slow. The user scales its Task away; a status that calls the
/// Task over is persisted, and then the POST lands.
#[test]
fn a1_a_status_overtakes_the_create_whose_permit_it_withdraws() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Said> {
        async move {
            let slow = Rule::new(Fault::Delay(SECOND * 5)).verb(Verb::Create).name("job-w-1");
            cluster.faults(|faults| faults.script(slow));
            framework("job").role("w", 2).fate("run-ms", "forever").create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &setup);
            until(&cluster, "the first Pod", |user| user.get("pods", "job-w-0").is_some()).await;
            assert!(cluster.user().scale("job", 0, 1));
            pass(SECOND * 20).await;
            concluded(&cluster).await
        }
        .boxed()
    }
    needs(
        Defect::SendUnpermitted,
        calm(),
        interleaving,
        "created only when the persisted status announces it",
    );
}

/// Rule A2: the watch shows the Pod before the reply to its POST does. Its UID is not recorded, and so it
/// looks like a Pod of a lost write.
#[test]
fn a2_the_watch_is_faster_than_the_reply() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Said> {
        async move {
            let slow = Rule::new(Fault::DelayReply(SECOND * 3)).verb(Verb::Create).plural("pods");
            cluster.faults(|faults| faults.script(slow));
            framework("job").role("w", 1).create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &setup);
            lived_well(&cluster, "job").await
        }
        .boxed()
    }
    needs(Defect::ForgetInFlight, calm(), interleaving, "deleted only after its completion was recorded");
}

/// Rule A3: the user scales down and, before the controller has written that, up again, which the watch does
/// not show. The write conflicts; the version that is then read has the new spec, and the cache has the old
/// one.
#[test]
fn a3_a_version_that_is_read_is_newer_than_the_watched_one() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Said> {
        async move {
            framework("job").role("w", 3).fate("run-ms", "forever").create(&cluster.user());
            let controller = Controller::start(&cluster, 1, 1, &setup);
            until(&cluster, "it runs", is_running).await;
            pass(SECOND * 5).await;
            let slow = Rule::new(Fault::Delay(SECOND * 2)).verb(Verb::UpdateStatus);
            cluster.faults(|faults| faults.script(slow));
            assert!(cluster.user().scale("job", 0, 1));
            pass(SECOND).await;
            cluster.freeze_watches(&controller.name, "frameworks", SECOND * 30);
            assert!(cluster.user().scale("job", 0, 3));
            pass(SECOND * 40).await;
            concluded(&cluster).await
        }
        .boxed()
    }
    needs(Defect::MixVersions, calm(), interleaving, "the spec wants 3");
}

/// Rule A4: the reply to the POST of a Pod is lost. The Pod holds the Task's name until it is deleted.
#[test]
fn a4_the_pod_of_a_lost_write_holds_the_name() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Said> {
        async move {
            let lost = Rule::new(Fault::LoseReply).verb(Verb::Create).plural("pods");
            cluster.faults(|faults| faults.script(lost));
            framework("job").role("w", 1).create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &setup);
            lived_well(&cluster, "job").await
        }
        .boxed()
    }
    needs(Defect::KeepOrphans, calm(), interleaving, "has not ended");
}

/// Rule A5: a user deletes the ConfigMap in the background, which strips its finalizer. It is gone at once;
/// its Pods run on until a slow garbage collector comes by.
#[test]
fn a5_the_config_map_is_gone_before_its_pods() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Said> {
        async move {
            framework("job").role("w", 2).fate("run-ms", "forever").create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &setup);
            until(&cluster, "it runs", is_running).await;
            let background =
                DeleteOptions { propagation: Some("Background".to_owned()), ..DeleteOptions::default() };
            cluster.user().delete_with("configmaps", "job-attempt", &background).unwrap();
            lived_well(&cluster, "job").await
        }
        .boxed()
    }
    let slow = Duration::from_secs(5)..=Duration::from_secs(6);
    let options = Options { collector_delay: slow, ..calm() };
    needs(
        Defect::TrustConfigMap,
        options,
        interleaving,
        "no Pod is alive whose attempt the status calls over",
    );
}

/// Rule A6: a user takes the slot label from a running Pod. To the watch that looks like its deletion, and
/// the GET that could show the Pod is delayed.
#[test]
fn a6_a_pod_that_lost_its_label_is_not_gone() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Said> {
        async move {
            framework("job").role("w", 2).fate("run-ms", "forever").create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &setup);
            until(&cluster, "it runs", is_running).await;
            pass(SECOND * 2).await;
            let slow = Rule::new(Fault::Delay(SECOND * 3)).verb(Verb::Get).plural("pods");
            cluster.faults(|faults| faults.script(slow));
            assert!(cluster.user().strip("pods", "job-w-0"));
            pass(SECOND * 10).await;
            concluded(&cluster).await
        }
        .boxed()
    }
    let broken = "no Pod is alive whose attempt the status calls over";
    needs(Defect::TrustDisappearance, calm(), interleaving, broken);
}

/// Rule A7: ten Tasks, and four creates may be lost. A crash would lose all ten.
#[test]
fn a7_creates_go_on_without_a_record() {
    fn interleaving(cluster: SimCluster, mut setup: Setup) -> BoxFuture<'static, Said> {
        setup.policy.expectations_limit = 4;
        async move {
            framework("job").role("w", 10).create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &setup);
            lived_well(&cluster, "job").await?;
            check::loss::check(&cluster.history(), 4).map_err(|violation| violation.to_string())
        }
        .boxed()
    }
    needs(Defect::UnboundedLoss, calm(), interleaving, "a crash loses only so many creates");
}

/// Rule A8: a Pod hangs while it terminates, and the API server's clock is set back by a minute. By the local
/// clock its time-out is over, by the API server's it is not.
#[test]
fn a8_the_local_clock_is_ahead_of_the_api_servers() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Said> {
        async move {
            let hanging = framework("job").role("w", 1).force_after(5).fate("run-ms", "forever");
            hanging.fate("hang-terminating", "true").create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &setup);
            until(&cluster, "it runs", is_running).await;
            assert!(cluster.user().stop("job"));
            pass(SECOND * 2).await;
            cluster.clock().skew_server(SignedDuration::from_secs(-60));
            lived_well(&cluster, "job").await
        }
        .boxed()
    }
    needs(Defect::TrustLocalClock, calm(), interleaving, "force-deleted only after its persisted time-out");
}

/// A Pod has ended; it is deleted while its Task's completion status is still to be written.
#[test]
fn a_pod_is_deleted_before_its_end_is_recorded() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Said> {
        async move {
            framework("job").role("w", 2).create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &setup);
            lived_well(&cluster, "job").await
        }
        .boxed()
    }
    needs(
        Defect::DeleteBeforePersist,
        calm(),
        interleaving,
        "deleted only after its completion was recorded",
    );
}

/// A Pod is deleted by force, and its Task is retried. That its attempt ended was never to be seen.
#[test]
fn a_retry_is_decided_before_the_end_of_its_attempt_is_recorded() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Said> {
        async move {
            framework("job").role("w", 1).retry_tasks(false, 1).create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &setup);
            until(&cluster, "it runs", is_running).await;
            let forced = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
            cluster.user().delete_with("pods", "job-w-0", &forced).unwrap();
            lived_well(&cluster, "job").await
        }
        .boxed()
    }
    needs(Defect::RetryBeforePersist, calm(), interleaving, "retried from");
}

/// A first status hangs until its sender has given it up, and lands while another one, with other Tasks, is
/// on its way. That one conflicts, and is repeated over the first.
#[test]
fn a_status_is_written_over_another_one() {
    fn interleaving(cluster: SimCluster, setup: Setup) -> BoxFuture<'static, Said> {
        async move {
            let given_up = Fault::Hang(Some(Duration::from_millis(13_500)));
            let status = |fault| Rule::new(fault).verb(Verb::UpdateStatus);
            cluster.faults(|faults| faults.script(status(given_up)));
            cluster.faults(|faults| faults.script(status(Fault::Delay(SECOND))));
            framework("job").role("w", 2).create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &setup);
            lived_well(&cluster, "job").await
        }
        .boxed()
    }
    needs(Defect::OverwriteOnConflict, calm(), interleaving, "a status only moves forward");
}

/// A defect has to be found within so many seeds.
const SEEDS: u64 = 600;

const DEFECTS: [Defect; 11] = [
    Defect::SendUnpermitted,
    Defect::ForgetInFlight,
    Defect::MixVersions,
    Defect::KeepOrphans,
    Defect::TrustConfigMap,
    Defect::TrustDisappearance,
    Defect::UnboundedLoss,
    Defect::TrustLocalClock,
    Defect::DeleteBeforePersist,
    Defect::RetryBeforePersist,
    Defect::OverwriteOnConflict,
];

/// The first seed whose walk goes wrong without a rule, and the fault.
fn found(rule: Defect) -> Option<(u64, String)> {
    let lacking = move |policy: &mut framework_core::Policy| policy.defects.insert(rule);
    let manner = Manner { policy: Some(&lacking), ..Manner::default() };
    (0..SEEDS).find_map(|seed| Some((seed, walk(seed, manner).broken?.what)))
}

#[test]
fn the_random_walk_finds_every_defect() {
    let left = Mutex::new(DEFECTS.to_vec());
    let seen = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(rule) = left.lock().unwrap().pop() else { return };
                    let found = found(rule);
                    seen.lock().unwrap().insert(rule, found);
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    for (rule, found) in &seen {
        match found {
            Some((seed, what)) => eprintln!("{:22} after {:3} seeds: {what}", format!("{rule:?}"), seed + 1),
            None => eprintln!("{:22} not within {SEEDS} seeds", format!("{rule:?}")),
        }
    }
    let unseen: Vec<_> = seen.iter().filter(|(_, found)| found.is_none()).map(|(rule, _)| rule).collect();
    assert!(unseen.is_empty(), "not found: {unseen:?}");
}
