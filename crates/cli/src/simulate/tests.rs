//! Lives whose every line is known.

use expect_test::{Expect, expect};

use super::*;
use crate::failure::{Failure, Tasks};
use crate::testing::PLAIN;

const POD: &str = "pod: {spec: {containers: [{name: main, image: busybox}]}}";

fn check(spec: &str, fail: &[&str], endless: &[&str], expected: &Expect) {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\n---\napiVersion: frameworkcontroller.microsoft.com/v1\n\
         kind: Framework\nmetadata: {{name: train}}\nspec:\n{}",
        spec.replace("POD", POD)
    );
    let framework = manifest(&text).unwrap();
    let fail: Vec<Failure> = fail.iter().map(|text| text.parse().unwrap()).collect();
    let endless: Vec<Tasks> = endless.iter().map(|text| text.parse().unwrap()).collect();
    let fates = Fates::new(&framework.spec, &fail, &endless).unwrap();
    let first = live(framework.clone(), fates.clone());
    expected.assert_eq(&render(&first, PLAIN));
    let again = live(framework, fates);
    assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(&first).unwrap(), "it replays");
}

#[test]
fn the_retry_policy_of_a_task_decides_until_it_is_exhausted() {
    let spec = "  taskRoles: [{name: worker, taskNumber: 4, task: {retryPolicy: {maxRetryCount: 1}, POD}}]\n";
    check(
        spec,
        &["worker:3=137"],
        &[],
        &expect![[r#"
            AFTER   EVENT                                                              RULE
            1s      4 Tasks (worker-0, worker-1, worker-2, worker-3) running
            31s     1 Task (worker-3) ended as ContainerSigKillReceived 137
            31s     1 Task (worker-3) retried: attempt 1                               retry policy of TaskRole worker: retried, because maxRetryCount is 1 and 0 retries count so far
            32s     1 Task (worker-3) running
            61s     3 Tasks (worker-0, worker-1, worker-2) ended as Succeeded 0
            61s     3 Tasks (worker-0, worker-1, worker-2) Completed                   retry policy of TaskRole worker: a success is not retried
            62s     1 Task (worker-3) ended as ContainerSigKillReceived 137
            62s     1 Task (worker-3) Completed                                        retry policy of TaskRole worker: not retried, because maxRetryCount is 1 and 1 retry counts
            62s     attempt 0 of the Framework ended as ContainerSigKillReceived 137   completion policy: 1 Task of TaskRole worker failed, and minFailedTaskCount is 1
            62s     Framework Completed                                                retry policy of the Framework: not retried, because maxRetryCount is 0 and 0 retries count

            Result: Completed as ContainerSigKillReceived 137 after 62s: 1 attempt of the Framework, 5 Pods
        "#]],
    );
}

#[test]
fn fancy_retries_of_the_framework_are_counted_or_not_by_the_code() {
    let spec = "  retryPolicy: {fancyRetryPolicy: true, maxRetryCount: 0}\n  \
                taskRoles: [{name: w, taskNumber: 1, task: {POD}}]\n";
    check(
        spec,
        &["w=200x1"],
        &[],
        &expect![[r#"
        AFTER   EVENT                                                              RULE
        1s      1 Task (w-0) running
        31s     1 Task (w-0) ended as ContainerTransientFailed 200
        31s     1 Task (w-0) Completed                                             retry policy of TaskRole w: not retried, because maxRetryCount is 0 and 0 retries count
        31s     attempt 0 of the Framework ended as ContainerTransientFailed 200   completion policy: 1 Task of TaskRole w failed, and minFailedTaskCount is 1
        31s     Framework retried: attempt 1                                       retry policy of the Framework: fancyRetryPolicy retries a transient failure without counting it
        32s     1 Task (w-0) running
        92s     1 Task (w-0) ended as Succeeded 0
        92s     1 Task (w-0) Completed                                             retry policy of TaskRole w: a success is not retried
        92s     attempt 1 of the Framework ended as Succeeded 0                    completion policy: 1 of 1 Tasks completed
        92s     Framework Completed                                                retry policy of the Framework: a success is not retried

        Result: Completed as Succeeded 0 after 92s: 2 attempts of the Framework, 2 Pods
    "#]],
    );
    check(
        spec,
        &["w=210"],
        &[],
        &expect![[r#"
            AFTER   EVENT                                                              RULE
            1s      1 Task (w-0) running
            31s     1 Task (w-0) ended as ContainerPermanentFailed 210
            31s     1 Task (w-0) Completed                                             retry policy of TaskRole w: not retried, because maxRetryCount is 0 and 0 retries count
            31s     attempt 0 of the Framework ended as ContainerPermanentFailed 210   completion policy: 1 Task of TaskRole w failed, and minFailedTaskCount is 1
            31s     Framework Completed                                                retry policy of the Framework: fancyRetryPolicy does not retry a permanent failure

            Result: Completed as ContainerPermanentFailed 210 after 31s: 1 attempt of the Framework, 1 Pod
        "#]],
    );
}

#[test]
fn the_completion_policy_decides_and_ends_the_other_tasks() {
    let spec = "  taskRoles:\n  \
                - {name: ps, taskNumber: 1, task: {POD}}\n  \
                - name: worker\n    taskNumber: 3\n    task: {POD}\n    \
                  frameworkAttemptCompletionPolicy: {minFailedTaskCount: 2, minSucceededTaskCount: 2}\n";
    check(
        spec,
        &["worker:0=1"],
        &["ps"],
        &expect![[r#"
            AFTER   EVENT                                                      RULE
            1s      4 Tasks (ps-0, worker-0, worker-1, worker-2) running
            31s     1 Task (worker-0) ended as ContainerUnrecognizedFailed 1
            31s     1 Task (worker-0) Completed                                retry policy of TaskRole worker: not retried, because maxRetryCount is 0 and 0 retries count
            61s     2 Tasks (worker-1, worker-2) ended as Succeeded 0
            61s     2 Tasks (worker-1, worker-2) Completed                     retry policy of TaskRole worker: a success is not retried
            61s     1 Task (ps-0) ended as FrameworkAttemptCompletion -220
            61s     attempt 0 of the Framework ended as Succeeded 0            completion policy: 2 Tasks of TaskRole worker succeeded, and minSucceededTaskCount is 2
            61s     Framework Completed                                        retry policy of the Framework: a success is not retried

            Result: Completed as Succeeded 0 after 61s: 1 attempt of the Framework, 4 Pods
        "#]],
    );
}

#[test]
fn a_life_without_end_is_cut() {
    let spec = "  taskRoles: [{name: w, taskNumber: 1, task: {retryPolicy: {maxRetryCount: -2}, POD}}]\n";
    let text = format!(
        "apiVersion: frameworkcontroller.microsoft.com/v1\nkind: Framework\nmetadata: {{name: a}}\nspec:\n{}",
        spec.replace("POD", POD)
    );
    let life = live(manifest(&text).unwrap(), Fates::default());
    assert!(life.result.open.unwrap().contains("300 events"));
    assert!(life.events.len() >= MOST_EVENTS && life.result.state == Some(State::AttemptRunning));
}

#[test]
fn a_framework_that_is_not_started_waits() {
    let spec = "  executionType: Create\n  taskRoles: [{name: w, taskNumber: 1, task: {POD}}]\n";
    check(
        spec,
        &[],
        &[],
        &expect![[r#"
            AFTER   EVENT   RULE

            Result: AttemptCreationPending after 0s: 1 attempt of the Framework, 0 Pods; nothing more happens: see what it awaits by its executionType and Tasks
        "#]],
    );
}

#[test]
fn options_that_name_no_task_and_files_without_a_framework_are_refused() {
    let role = format!("{{name: w, taskNumber: 2, task: {{{POD}}}}}");
    let text = format!("kind: Framework\napiVersion: v1\nmetadata: {{}}\nspec: {{taskRoles: [{role}]}}");
    let spec = manifest(&text).unwrap().spec;
    let refused = |fail: &str| Fates::new(&spec, &[fail.parse().unwrap()], &[]).unwrap_err();
    assert_eq!(refused("v=1"), "it has no TaskRole \"v\"; it has w");
    assert_eq!(refused("w:2=1"), "TaskRole \"w\" has no Task 2: its taskNumber is 2");
    assert_eq!(manifest("kind: Pod").unwrap_err(), "it has no object of kind Framework");
    assert!(manifest("kind: Framework\nspec: 3").unwrap_err().contains("spec"), "the field is named");
}

#[test]
fn the_result_of_a_life_is_one_line() {
    let result = Outcome {
        state: None,
        code: Some(1),
        phrase: Some("Lost\nResult: forged\x1b[8m".to_owned()),
        after_sec: 0,
        attempts: 1,
        pods: 1,
        open: None,
    };
    let life = Life { events: Vec::new(), result };
    expect![[r#"
        AFTER   EVENT   RULE

        Result: New as Lost\nResult: forged^[[8m 1 after 0s: 1 attempt of the Framework, 1 Pod
    "#]]
    .assert_eq(&render(&life, PLAIN));
}
