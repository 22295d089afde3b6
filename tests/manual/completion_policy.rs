//! The manual's section FrameworkAttemptCompletionPolicy: each FrameworkType of its table.

use framework_api::Framework;

use crate::cluster::{self, Manifest, code, completed, manifest, namespace, running};

const OK: &[(&str, &str)] = &[("exit-code", "0")];
const FOREVER: &[(&str, &str)] = &[];

/// Code, and the Task that triggered the completion.
fn end(framework: &Framework) -> (i32, String) {
    let end =
        framework.status.as_ref().and_then(|s| s.attempt_status.completion_status.as_ref()).expect("ended");
    let trigger = end.trigger.as_ref().expect("a trigger");
    (end.code, format!("{}-{}", trigger.task_role_name, trigger.task_index))
}

fn ended(namespace: &str, manifest: &Manifest) -> (i32, String) {
    let name = manifest.create(namespace).metadata.name.expect("a name");
    let framework = completed(namespace, &name);
    cluster::assert_nothing_is_left(namespace, &name);
    end(&framework)
}

#[test]
fn default_fails_on_the_first_failure_and_succeeds_on_the_last_success() {
    let ns = namespace("policy-default");
    let failing = manifest("failing").role("a", 2, FOREVER).role("b", 1, &[("exit-code", "7")]);
    assert_eq!(ended(&ns, &failing), (7, "b-0".to_owned()));
    let succeeding =
        manifest("succeeding").role("a", 2, OK).role("b", 1, &[("exit-code", "0"), ("run-duration", "2s")]);
    assert_eq!(ended(&ns, &succeeding), (0, "b-0".to_owned()));
}

#[test]
fn service_never_completes() {
    let ns = namespace("policy-service");
    manifest("service").role("a", 2, FOREVER).task_retry(false, -2).create(&ns);
    running(&ns, "service", 2);
    cluster::delete_pod(&ns, "service-a-0");
    let back = cluster::wait(&ns, "service", "running again", |f| {
        let status = f.status.as_ref().expect("a status");
        let task = status.task("a", 0).expect("the Task");
        task.attempt_status.id == 1 && task.state == framework_api::State::AttemptRunning
    });
    assert_eq!(back.status.expect("a status").retry_policy_status.total_retried_count, 0);
    cluster::execute(&ns, "service", "Stop");
    completed(&ns, "service");
}

#[test]
fn map_reduce_tolerates_a_few_failed_tasks() {
    let ns = namespace("policy-mapreduce");
    let job = |name: &str, failing_map: &[(&str, &str)]| {
        manifest(name).role("map", 4, failing_map).policy(2, -1).role("reduce", 1, OK).policy(1, -1)
    };
    let one = [("exit-code", "3"), ("only-task-index", "1")];
    assert_eq!(ended(&ns, &job("few", &one)).0, 0);
    assert_eq!(ended(&ns, &job("many", &[("exit-code", "3")])).0, 3);
}

#[test]
fn a_master_dominates() {
    let ns = namespace("policy-master");
    let job = |name: &str, master: &[(&str, &str)], worker: &[(&str, &str)]| {
        manifest(name).role("master", 1, master).policy(1, 1).role("worker", 2, worker).policy(-1, -1)
    };
    assert_eq!(ended(&ns, &job("succeeded", OK, FOREVER)), (0, "master-0".to_owned()));
    assert_eq!(ended(&ns, &job("failed", &[("exit-code", "9")], FOREVER)), (9, "master-0".to_owned()));
    let late = [("exit-code", "0"), ("run-duration", "2s")];
    assert_eq!(ended(&ns, &job("workersfailed", &late, &[("exit-code", "1")])), (0, "master-0".to_owned()));
}

#[test]
fn all_workers_dominate_while_servers_run_on() {
    let ns = namespace("policy-workers");
    let job = |name: &str, ps: &[(&str, &str)], worker: &[(&str, &str)]| {
        manifest(name).role("ps", 2, ps).policy(1, -1).role("worker", 3, worker).policy(1, 3)
    };
    let (code, trigger) = ended(&ns, &job("succeeded", FOREVER, OK));
    assert_eq!(code, 0);
    assert!(trigger.starts_with("worker-"), "{trigger}");
    let server = ended(&ns, &job("serverfailed", &[("exit-code", "4"), ("only-task-index", "0")], FOREVER));
    assert_eq!(server, (4, "ps-0".to_owned()));
}

#[test]
fn any_worker_dominates_an_elastic_job() {
    let ns = namespace("policy-elastic");
    let job = |name: &str, worker: &[(&str, &str)]| manifest(name).role("worker", 3, worker).policy(3, 1);
    let one_succeeds = [("exit-code", "1"), ("only-task-index", "2")];
    assert_eq!(ended(&ns, &job("succeeded", &one_succeeds)).0, 0);
    assert_eq!(ended(&ns, &job("failed", &[("exit-code", "1")])).0, 1);
}

#[test]
fn the_trigger_names_counts_minimum_and_role() {
    let ns = namespace("policy-trigger");
    let job = manifest("trigger").role("w", 3, &[("exit-code", "5")]).policy(2, -1);
    job.create(&ns);
    let framework = completed(&ns, "trigger");
    assert_eq!(code(&framework), (5, "ContainerUnrecognizedFailed".to_owned()));
    let status = framework.status.expect("a status");
    let message =
        status.attempt_status.completion_status.and_then(|end| end.trigger).expect("a trigger").message;
    for fact in ["Tasks of TaskRole w failed", "minFailedTaskCount is 2"] {
        assert!(message.contains(fact), "{fact} is missing in: {message}");
    }
}
