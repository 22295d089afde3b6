//! The manual's section RetryPolicy: each FrameworkType of its table, on the real API server.

use framework_api::Framework;

use crate::cluster::{self, Manifest, code, completed, manifest, namespace, wait};

/// Fails with this code in attempt 0 of Task 0 and succeeds otherwise.
fn once(code: &str) -> [(&str, &str); 3] {
    [("exit-code", code), ("only-task-index", "0"), ("only-task-attempt", "0")]
}

/// Total and accountable retries of a Task.
fn retries(framework: &Framework, role: &str, index: i32) -> (i32, i32) {
    let task = framework.status.as_ref().and_then(|status| status.task(role, index)).expect("the Task");
    let retried = task.retry_policy_status;
    (retried.total_retried_count, retried.accountable_retried_count)
}

/// Total and accountable retries of the Framework.
fn framework_retries(framework: &Framework) -> (i32, i32) {
    let retried = framework.status.as_ref().expect("a status").retry_policy_status;
    (retried.total_retried_count, retried.accountable_retried_count)
}

fn batch(name: &str, framework: (bool, i32), task: (bool, i32), pods: &[(&str, &str)]) -> Manifest {
    manifest(name).retry(framework.0, framework.1).role("a", 2, pods).task_retry(task.0, task.1)
}

#[test]
fn default_never_retries() {
    let ns = namespace("retry-default");
    manifest("failed").role("a", 1, &[("exit-code", "200")]).role("b", 1, &[]).create(&ns);
    manifest("succeeded").role("a", 1, &[("exit-code", "0")]).role("b", 1, &[("exit-code", "0")]).create(&ns);
    let failed = completed(&ns, "failed");
    assert_eq!(
        (code(&failed).0, framework_retries(&failed), retries(&failed, "a", 0)),
        (200, (0, 0), (0, 0))
    );
    assert_eq!(code(&completed(&ns, "succeeded")).0, 0);
}

#[test]
fn service_always_retries() {
    let ns = namespace("retry-service");
    for (name, exit) in [("failing", "210"), ("succeeding", "0")] {
        let pods = [("exit-code", exit)];
        manifest(name).retry(false, -2).role("a", 1, &pods).task_retry(false, -2).create(&ns);
        let again = wait(&ns, name, "retried 3 times", |f| f.status.is_some() && retries(f, "a", 0).1 >= 3);
        assert_eq!(framework_retries(&again), (0, 0), "its Task never completes");
        cluster::execute(&ns, name, "Stop");
        assert_eq!(code(&completed(&ns, name)).0, -210);
    }
}

#[test]
fn blind_batch_retries_every_failure_and_no_success() {
    let ns = namespace("retry-blind");
    batch("blind", (false, -1), (false, -1), &once("210")).create(&ns);
    let blind = completed(&ns, "blind");
    assert_eq!((code(&blind).0, retries(&blind, "a", 0), retries(&blind, "a", 1)), (0, (1, 1), (0, 0)));
}

#[test]
fn batch_with_task_fault_tolerance_retries_by_kind_of_failure() {
    let ns = namespace("retry-tolerant");
    let job = |name: &str, pods: &[(&str, &str)]| batch(name, (true, 3), (true, 3), pods);
    job("transient", &once("200")).create(&ns);
    job("unknown", &once("1")).create(&ns);
    job("permanent", &once("210")).create(&ns);
    job("hopeless", &[("exit-code", "1"), ("only-task-index", "0")]).create(&ns);
    let end = |name: &str| {
        let framework = completed(&ns, name);
        (code(&framework).0, retries(&framework, "a", 0), framework_retries(&framework))
    };
    assert_eq!(end("transient"), (0, (1, 0), (0, 0)), "a transient failure is free");
    assert_eq!(end("unknown"), (0, (1, 1), (0, 0)), "an unknown failure counts");
    assert_eq!(
        end("permanent"),
        (210, (0, 0), (0, 0)),
        "a permanent failure is final, for the Framework too"
    );
    assert_eq!(end("hopeless"), (1, (3, 3), (3, 3)), "up to 3 times, on either level");
}

#[test]
fn batch_without_task_fault_tolerance_retries_the_whole() {
    let ns = namespace("retry-intolerant");
    let pods = [("exit-code", "1"), ("only-task-index", "0")];
    batch("whole", (true, 3), (false, 0), &pods).create(&ns);
    let whole = completed(&ns, "whole");
    assert_eq!((code(&whole).0, framework_retries(&whole), retries(&whole, "a", 0)), (1, (3, 3), (0, 0)));
}

#[test]
fn debug_mode_retries_only_transient_failures() {
    let ns = namespace("retry-debug");
    batch("transient", (true, 0), (true, 0), &once("200")).create(&ns);
    batch("unknown", (true, 0), (true, 0), &once("1")).create(&ns);
    let transient = completed(&ns, "transient");
    assert_eq!((code(&transient).0, retries(&transient, "a", 0)), (0, (1, 0)));
    let unknown = completed(&ns, "unknown");
    assert_eq!(
        (code(&unknown).0, retries(&unknown, "a", 0), framework_retries(&unknown)),
        (1, (0, 0), (0, 0))
    );
}

#[test]
fn a_transient_conflict_delays_the_next_attempt_of_the_framework() {
    let ns = namespace("retry-conflict");
    manifest("conflict").retry(true, 0).role("a", 1, &[("exit-code", "201")]).create(&ns);
    let delayed = wait(&ns, "conflict", "waiting to be retried", |f| {
        f.status.as_ref().is_some_and(|status| status.retry_policy_status.retry_delay_sec.is_some())
    });
    let status = delayed.status.expect("a status");
    let delay = status.retry_policy_status.retry_delay_sec.expect("a delay");
    assert!((60..=900).contains(&delay), "{delay}");
    assert_eq!(status.state, framework_api::State::AttemptCompleted);
    cluster::execute(&ns, "conflict", "Stop");
    assert_eq!(code(&completed(&ns, "conflict")).0, -210, "a Stop cuts the delay short");
}
