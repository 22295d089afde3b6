//! `examples/elastic.yaml` grows and shrinks while its coordinator runs, by the patches that it shows.

use serde_json::Value;

use super::{instances, job, runs};
use crate::cluster::TEST;

const EXAMPLE: &str = include_str!("../../../examples/elastic.yaml");

/// The JSON patches in the comments of the example.
fn patches() -> Vec<Value> {
    let comments: String =
        EXAMPLE.lines().filter_map(|line| line.strip_prefix('#')).map(|line| format!("{line}\n")).collect();
    let shown = comments.split("-p '").skip(1).filter_map(|rest| rest.split('\'').next());
    shown.map(|patch| serde_json::from_str(patch).expect("a JSON patch")).collect()
}

#[test]
fn elastic_training_grows_and_shrinks_until_its_coordinator_ends() {
    let job = job("rescale-elastic", "elastic");
    // Here the test says when the coordinator ends.
    let example = EXAMPLE.replace("run-duration: 7s", "run-duration: forever");
    assert_ne!(example, EXAMPLE);
    job.done(&["create", "-f", "-"], &example);
    let three = job.running(4);
    let [grow, shrink] = &patches()[..] else { panic!("the example shows two patches") };

    job.patch(grow.clone());
    let six = job.running(7);
    assert_eq!(instances(&six, "worker")[..3], instances(&three, "worker"));
    crate::cluster::delete_pod(&job.namespace, "elastic-worker-4");
    job.wait("running again with the lost worker", |status| {
        status.task("worker", 4).is_some_and(|task| runs(task) && task.attempt_status.id == 1)
    });
    job.patch(shrink.clone());
    let two = job.running(3);
    assert_eq!(instances(&two, "worker"), instances(&three, "worker")[..2]);
    assert_eq!(instances(&two, "coordinator"), instances(&three, "coordinator"));

    let ends = format!("{TEST}/run-duration=100ms");
    job.done(&["annotate", "--overwrite", "pod", "elastic-coordinator-0", &ends], "");
    assert_eq!(job.completed(), 0);
    let status = job.get().status.expect("a status");
    let trigger = status.attempt_status.completion_status.and_then(|end| end.trigger).expect("a trigger");
    assert_eq!(trigger.task_role_name, "coordinator");
    job.judge();
}
