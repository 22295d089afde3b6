//! A controller that is killed, or asked to stop, and started again: the Framework ends as if nothing had
//! happened, and nothing runs twice.

use std::time::Instant;

use framework_api::{Framework, State};

use crate::cluster::history::{History, Object, What};
use crate::cluster::lease::{Alone, namespace};
use crate::cluster::recording::Recording;
use crate::cluster::replicas::GRACE;
use crate::cluster::snapshots::{assert_replaced_are_logged, logged};
use crate::cluster::{self, Manifest, code, completed, installed, manifest, state};

/// How often the controller is killed.
const KILLS: usize = 10;
/// Slow enough that the creates and deletes of a Framework take a while.
const SLOW: &str = "kubeClientQps: 60\nkubeClientBurst: 10";

/// 50 Tasks. All 20 workers fail once transiently, server 7 fails once for an unknown reason.
fn job() -> Manifest {
    let workers =
        [("run-duration", "2.{{FC_TASK_INDEX}}s"), ("exit-code", "200"), ("only-task-attempt", "0")];
    let servers = [("run-duration", "4.{{FC_TASK_INDEX}}s"), ("exit-code", "1"), ("only-task-attempt", "0")];
    let servers = [&servers[..], &[("only-task-index", "7")]].concat();
    let job = manifest("job").retry(true, 1).role("worker", 20, &workers).task_retry(true, 0);
    job.role("server", 30, &servers).task_retry(true, 3)
}

/// How a Framework ended, and each of its Tasks: code, retries, retries that count.
fn end(framework: &Framework) -> Vec<(String, i32, i32, i32)> {
    let status = framework.status.as_ref().expect("a status");
    let retried = status.retry_policy_status;
    let whole =
        ("job".into(), code(framework).0, retried.total_retried_count, retried.accountable_retried_count);
    let tasks = status.task_roles().iter().flat_map(|role| {
        role.tasks().map(|task| {
            assert_eq!(task.state, State::Completed);
            let end = task.attempt_status.completion_status.as_ref().expect("the Task has ended");
            let retried = task.retry_policy_status;
            let name = format!("{}-{}", role.name, task.index);
            (name, end.code, retried.total_retried_count, retried.accountable_retried_count)
        })
    });
    std::iter::once(whole).chain(tasks).collect()
}

/// Asserts that of all that the controller made, nothing is left.
fn assert_all_is_gone(history: &History) {
    let mut lives = history.config_maps.iter().chain(&history.pods);
    let left = lives.find(|life| life.gone.is_none());
    assert_eq!(left, None, "it is left over");
}

/// Runs the job to its end, while `disturb` watches.
fn run(namespace: &str, disturb: impl FnOnce(&Recording)) -> (Framework, History) {
    let recording = Recording::start(namespace);
    job().create(namespace);
    disturb(&recording);
    let framework = completed(namespace, "job");
    cluster::assert_nothing_is_left(namespace, "job");
    let history = recording.end();
    history.assert_promises_are_kept();
    assert_all_is_gone(&history);
    (framework, history)
}

/// The seed of this run: another one each time, or the one that `SEED` names.
fn seed() -> u64 {
    let named = std::env::var("SEED").ok().map(|text| text.parse().expect("SEED is a number"));
    let seed = named.unwrap_or_else(|| fastrand::u64(..));
    println!("repeat it with SEED={seed}");
    seed
}

/// So many different numbers of steps, in order, after each of which the controller is killed.
fn moments(steps: usize) -> Vec<usize> {
    // The end is left out: the status writes that a disturbed run saves must not make it too short.
    let mut all: Vec<usize> = (1..steps * 3 / 4).collect();
    let mut random = fastrand::Rng::with_seed(seed());
    random.shuffle(&mut all);
    all.truncate(KILLS);
    all.sort_unstable();
    all
}

fn is_completed(object: &Object) -> bool {
    matches!(object, Object::Framework(framework) if state(framework) == Some(State::Completed))
}

#[test]
fn ten_kills_change_neither_the_end_nor_the_running_pods() {
    let alone = Alone::wait();
    let (quiet, disturbed) = (namespace("restart-quiet"), namespace("restart-disturbed"));
    let mut controller = alone.start("restart", SLOW);
    let (expected, undisturbed) = run(&quiet, |_| {});
    let steps = undisturbed.steps;
    let moments = moments(steps);
    println!("the undisturbed run took {steps} steps; kills after {moments:?}");

    let (framework, history) = run(&disturbed, |recording| {
        for (kills, moment) in moments.into_iter().enumerate() {
            // Each controller gets one step further at least.
            let moment = moment.max(recording.steps() + 1);
            recording.wait("the moment of a kill", |changes| {
                let over = changes.last().is_some_and(|change| is_completed(&change.object));
                over || changes.iter().filter(|change| change.is_step()).count() >= moment
            });
            controller.replace("restart", SLOW);
            println!("kill {} at step {}", kills + 1, recording.steps());
        }
        let changes = recording.changes();
        assert!(!changes.iter().any(|change| is_completed(&change.object)), "it ended before the last kill");
    });
    // Each retry was logged before the write that replaced it, by the controller that lived then.
    assert_replaced_are_logged(&history, &logged(&cluster::log_of("restart"), &disturbed));
    println!(
        "{} Pods, {} of them for nothing",
        history.pods.len(),
        history.pods.len() - undisturbed.pods.len()
    );
    assert_eq!(end(&framework), end(&expected));
    assert_eq!(undisturbed.pods.len(), 50 + 20 + 1);
}

#[test]
fn a_stopped_controller_leaves_its_work_to_the_next_one() {
    let alone = Alone::wait();
    let ns = namespace("restart-graceful");
    let controller = alone.start("stopped", "kubeClientQps: 10\nkubeClientBurst: 5");
    let recording = Recording::start(&ns);
    manifest("job").role("a", 20, &[("exit-code", "0"), ("run-duration", "3s")]).create(&ns);
    recording.wait("the first Pods", |changes| {
        let pods = changes.iter().filter(|change| matches!(change.object, Object::Pod(_)));
        pods.filter(|change| change.what == What::Created).count() >= 3
    });
    let begun = Instant::now();
    let status = installed().terminate_hosted(controller.pid, GRACE).expect("it ends");
    assert_eq!(status.code(), Some(0), "{}", cluster::log_of("stopped"));
    let created = recording.changes().iter().filter(|change| change.what == What::Created).count();
    println!("it ended after {:?} with {} of 22 objects created", begun.elapsed(), created);
    assert!(created < 22, "the stop came too late to mean anything");

    let _next = alone.start("successor", "");
    assert_eq!(code(&completed(&ns, "job")).0, 0);
    cluster::assert_nothing_is_left(&ns, "job");
    let history = recording.end();
    history.assert_promises_are_kept();
    assert_all_is_gone(&history);
    assert_eq!(history.pods.len(), 20, "each Task had one Pod, none was an orphan");
    assert_eq!(history.config_maps.len(), 1);
}
