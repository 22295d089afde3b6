//! Whole lives of one Framework in simulated time. An undisturbed life takes a known number of requests. A
//! life comes to the same end when the controller dies, or a reply is lost, at any of its requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_sim::{Change, DeleteOptions, Fault, History, Meta, Rule, SimCluster, User, Verb};
use serde_json::json;

use crate::simulation::controller::{Controller, Setup};
use crate::simulation::life::{calm, killed_at, lived_well, lives, outcome, requests, until_running};
use crate::simulation::manifest::{Deeds, Manifest, framework};
use crate::simulation::wire::Moment;
use crate::simulation::{SECOND, pass, simulate};

/// A job of three Tasks that all succeed.
fn job() -> Manifest {
    framework("job").role("w", 3).force_after(20)
}

#[test]
fn an_undisturbed_life_takes_exactly_five_status_writes() {
    for tasks in [1, 3, 20] {
        simulate(1, calm(), |cluster| async move {
            framework("job").role("w", tasks).create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &Setup::default());
            lived_well(&cluster, "job").await.unwrap();
            let writes = status_writes(&cluster.history());
            assert_eq!(writes.len(), 5, "{tasks} Tasks: {writes:#?}");
            let requests = requests(&cluster.history());
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            requests.iter().for_each(|request| *counts.entry(request).or_default() += 1);
            let n = usize::try_from(tasks).unwrap();
            let expected = BTreeMap::from([
                ("Create configmaps", 1),
                ("Create pods", n),
                ("Delete configmaps", 1),
                ("Delete pods", n),
                ("UpdateStatus frameworks", 5),
            ]);
            assert_eq!(counts, expected, "{tasks} Tasks");
            let refused = cluster.history().exchanges.into_iter().find(|one| one.code >= Some(400));
            assert!(refused.is_none(), "{refused:?}");
        });
    }
}

/// The status writes of a life: when each was applied, the state of the Framework, and its Tasks by state.
fn status_writes(history: &History) -> Vec<String> {
    let writes = history.of("frameworks").filter(|change| change.cause.verb == Verb::UpdateStatus);
    let line = |change: &Arc<Change>| {
        let status = &change.object()["status"];
        format!("{} ms: {} {}", change.at.as_millis(), status["state"], status["taskCounts"])
    };
    writes.map(line).collect()
}

#[test]
fn a_failed_task_is_retried_and_its_framework_succeeds() {
    let flaky = framework("job").role("w", 2).retry_tasks(true, 0);
    let flaky = flaky.fate("exit-code", "200").fate("only-task-index", "1").fate("only-task-attempt", "0");
    let came_to = lives(flaky, |_| async {});
    assert_eq!(
        came_to,
        "the Framework: Completed with 0 after 0 retries\n\
         w-0: Completed with 0 after 0 retries\n\
         w-1: Completed with 0 after 1 retries"
    );
}

#[test]
fn a_life_with_a_retry_of_a_task_takes_eight_status_writes() {
    for tasks in [1, 20] {
        simulate(1, calm(), |cluster| async move {
            let flaky = framework("job").role("w", tasks).retry_tasks(false, 1).fate("exit-code", "1");
            let flaky = flaky.fate("only-task-index", "0").fate("only-task-attempt", "0");
            flaky.create(&cluster.user());
            let _controller = Controller::start(&cluster, 1, 1, &Setup::default());
            lived_well(&cluster, "job").await.unwrap();
            let writes = status_writes(&cluster.history());
            assert_eq!(writes.len(), 8, "three more than undisturbed; {tasks} Tasks: {writes:#?}");
            let came_to = outcome(&cluster.user(), "job");
            assert!(came_to.contains("w-0: Completed with 0 after 1 retries"), "{came_to}");
        });
    }
}

#[test]
fn a_failed_attempt_is_retried_after_its_delay() {
    let conflicting = framework("job").retry(true, 0).role("w", 1).fate("exit-code", "201");
    let came_to = lives(conflicting, |cluster| async move {
        let delayed = |user: &framework_sim::User| {
            let retried = &user.get("frameworks", "job").unwrap()["status"]["retryPolicyStatus"];
            retried["totalRetriedCount"] == 2
        };
        assert!(cluster.until(SECOND * 60, delayed).await);
        cluster.user().stop("job");
    });
    assert!(came_to.starts_with("the Framework: Completed with -210 after 2 retries"), "{came_to}");
}

#[test]
fn a_stop_ends_all_running_tasks_and_leaves_nothing() {
    let came_to = lives(job().fate("run-ms", "forever"), |cluster| async move {
        until_running(&cluster).await;
        assert!(cluster.user().stop("job"));
    });
    assert_eq!(
        came_to,
        "the Framework: Completed with -210 after 0 retries\n\
         w-0: Completed with -220 after 0 retries\n\
         w-1: Completed with -220 after 0 retries\n\
         w-2: Completed with -220 after 0 retries"
    );
}

#[test]
fn a_deletion_by_others_is_recorded_as_such() {
    let endless = || job().fate("run-ms", "forever");
    let pod = lives(endless(), |cluster| async move {
        until_running(&cluster).await;
        cluster.user().delete("pods", "job-w-1").unwrap();
    });
    assert!(pod.starts_with("the Framework: Completed with -101"), "{pod}");
    assert!(pod.contains("w-1: Completed with -101") && pod.contains("w-2: Completed with -220"), "{pod}");
    let map = lives(endless(), |cluster| async move {
        until_running(&cluster).await;
        cluster.user().delete("configmaps", "job-attempt").unwrap();
    });
    assert!(map.starts_with("the Framework: Completed with -100"), "{map}");
    let whole = lives(endless(), |cluster| async move {
        until_running(&cluster).await;
        cluster.user().delete("frameworks", "job").unwrap();
    });
    assert_eq!(whole, "gone");
}

#[test]
fn pods_that_were_taken_from_their_config_map_are_let_go() {
    simulate(1, calm(), |cluster| async move {
        let user = cluster.user();
        job().fate("run-ms", "forever").create(&user);
        let _controller = Controller::start(&cluster, 1, 1, &Setup::default());
        until_running(&cluster).await;
        let orphan = DeleteOptions { propagation: Some("Orphan".to_owned()), ..DeleteOptions::default() };
        user.delete_with("configmaps", "job-attempt", &orphan).unwrap();
        lived_well(&cluster, "job").await.unwrap();
        let came_to = outcome(&user, "job");
        assert!(came_to.starts_with("the Framework: Completed with -100"), "{came_to}");
    });
}

#[test]
fn a_framework_that_waits_is_started_by_its_user() {
    let came_to = lives(job().execution("Create"), |cluster| async move {
        pass(SECOND * 30).await;
        assert!(cluster.user().list("configmaps").is_empty(), "nothing is made before it is started");
        assert!(cluster.user().start("job"));
    });
    assert!(came_to.starts_with("the Framework: Completed with 0"), "{came_to}");
}

#[test]
fn a_controller_killed_at_any_request_changes_nothing_in_the_end() {
    kill_at_every_request(job(), 2 * 3 + 7);
}

#[test]
fn a_controller_killed_at_any_request_of_retries_changes_nothing() {
    let twice = framework("job").role("w", 2).retry_tasks(false, 1).retry(false, 1);
    let twice = twice.fate("exit-code", "1").fate("only-task-index", "1");
    assert!(lives(twice.clone(), |_| async {}).contains("w-1: Completed with 1 after 1 retries"));
    kill_at_every_request(twice, 2 * (2 * 3 + 2 + 6));
}

/// Asserts that a job, which makes at least so many requests, comes to the same end if the controller dies at
/// any of them.
fn kill_at_every_request(job: Manifest, requests: usize) {
    let undisturbed = lives(job.clone(), |_| async {});
    for moment in [Moment::Before, Moment::After] {
        let mut killed = 0;
        while let Some(came_to) = killed_at(&job, killed + 1, moment, &Setup::default()) {
            killed += 1;
            assert_eq!(came_to, undisturbed, "{moment:?} request {killed}");
        }
        assert!(killed >= requests, "only {killed} requests were reached");
    }
}

#[test]
fn a_reply_lost_at_any_write_changes_nothing_in_the_end() {
    let undisturbed = lives(job(), |_| async {});
    let writes = [
        (Verb::UpdateStatus, "frameworks"),
        (Verb::Create, "configmaps"),
        (Verb::Create, "pods"),
        (Verb::Delete, "pods"),
        (Verb::Delete, "configmaps"),
    ];
    for (verb, plural) in writes {
        let mut lost = 0;
        loop {
            lost += 1;
            let rule = Rule::new(Fault::LoseReply).who("controller-1").verb(verb).plural(plural).nth(lost);
            let (came_to, hit) = with_fault(rule);
            if !hit {
                break;
            }
            assert_eq!(came_to, undisturbed, "the reply to {verb:?} {plural} number {lost} was lost");
        }
        assert!(lost > 1, "no {verb:?} {plural} was hit");
    }
}

/// The outcome of a life with a fault, and whether the fault came.
fn with_fault(rule: Rule) -> (String, bool) {
    simulate(7, calm(), |cluster| async move {
        job().create(&cluster.user());
        cluster.faults(|faults| faults.script(rule));
        let _controller = Controller::start(&cluster, 1, 1, &Setup::default());
        lived_well(&cluster, "job").await.unwrap();
        let hit = cluster.trace().iter().any(|entry| entry.note.contains(" fault "));
        (outcome(&cluster.user(), "job"), hit)
    })
}

#[test]
fn a_graceful_stop_loses_nothing_that_was_created() {
    simulate(3, calm(), |cluster| async move {
        job().fate("run-ms", "20000").create(&cluster.user());
        let first = Controller::start(&cluster, 1, 1, &Setup::default());
        assert!(cluster.until(SECOND * 60, |user| user.list("pods").len() == 3).await);
        let uids = |cluster: &SimCluster| -> Vec<String> {
            cluster.user().list("pods").iter().map(|pod| pod.uid().to_owned()).collect()
        };
        let before = uids(&cluster);
        first.stop().await.unwrap();
        let status = cluster.user().get("frameworks", "job").unwrap()["status"].to_string();
        assert!(before.iter().all(|uid| status.contains(uid)), "all are recorded: {status}");
        let _second = Controller::start(&cluster, 2, 2, &Setup::default());
        pass(SECOND * 5).await;
        assert_eq!(uids(&cluster), before, "the next controller goes on with them");
        lived_well(&cluster, "job").await.unwrap();
        assert!(outcome(&cluster.user(), "job").starts_with("the Framework: Completed with 0 after 0"));
    });
}

#[test]
fn a_config_map_that_arrives_during_a_deletion_stays_empty() {
    let mut arrived_at_last = [0; 3];
    for millis in (0..400).step_by(5) {
        let when = simulate(millis, calm(), |cluster| async move {
            let user = cluster.user();
            job().create(&user);
            let late = Fault::Delay(Duration::from_millis(millis));
            cluster.faults(|faults| faults.script(Rule::new(late).verb(Verb::Create).plural("configmaps")));
            let _controller = Controller::start(&cluster, 1, 1, &Setup::default());
            while cluster.history().count("controller-1", Verb::Create, "configmaps") == 0 {
                pass(Duration::from_millis(1)).await;
            }
            let foreground =
                DeleteOptions { propagation: Some("Foreground".to_owned()), ..DeleteOptions::default() };
            user.delete_with("frameworks", "job", &foreground).unwrap();
            let removed = |user: &User| user.get("frameworks", "job").is_none();
            assert!(cluster.until(SECOND * 60, removed).await);
            lived_well(&cluster, "job").await.unwrap();
            let history = cluster.history();
            assert_eq!(history.of("pods").count(), 0, "no Pod followed");
            let of_map =
                |is: fn(&Change) -> bool| history.of("configmaps").find(|change| is(change)).unwrap();
            let (created, gone) = (of_map(Change::creates), of_map(Change::removes));
            assert_eq!(&*gone.cause.actor, "collector");
            let removed = history.of("frameworks").find(|change| change.removes()).unwrap().rv;
            usize::from(gone.rv > removed) + usize::from(created.rv > removed)
        });
        arrived_at_last[when] += 1;
    }
    let [waited_for, not_heard_of, after_the_framework] = arrived_at_last;
    assert!(waited_for > 0, "{arrived_at_last:?}");
    assert!(not_heard_of > 0, "the collector let the Framework go too early: {arrived_at_last:?}");
    assert!(after_the_framework > 0, "{arrived_at_last:?}");
}

#[test]
fn a_name_that_others_hold_is_waited_for() {
    simulate(5, calm(), |cluster| async move {
        let user = cluster.user();
        let spec = json!({ "containers": [{ "name": "main", "image": "x" }] });
        let theirs = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "job-w-0", "annotations": { "sim/run-ms": "forever" } }, "spec": spec });
        user.create(theirs).unwrap();
        framework("job").role("w", 1).create(&user);
        let _controller = Controller::start(&cluster, 1, 1, &Setup::default());
        pass(SECOND * 40).await;
        assert!(user.get("pods", "job-w-0").is_some(), "what is not ours is never deleted");
        let why = user.get("frameworks", "job").unwrap()["status"]["conditions"].to_string();
        assert!(why.contains("NameConflict"), "{why}");
        user.delete("pods", "job-w-0").unwrap();
        lived_well(&cluster, "job").await.unwrap();
        assert!(outcome(&user, "job").starts_with("the Framework: Completed with 0 after 0"));
    });
}
