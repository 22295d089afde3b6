//! Each guarantee finds its breach in a history that is built step by step.

use serde_json::json;

use super::*;
use crate::check::history_builder::HistoryBuilder;

fn broken(builder: &HistoryBuilder) -> Vec<&'static str> {
    let history = builder.history();
    let broken = ALL.iter().filter(|(_, check)| check(&history).is_err());
    broken.map(|(name, _)| *name).collect()
}

#[test]
fn a_retried_task_keeps_all_guarantees() {
    let mut builder = HistoryBuilder::running();
    builder.kubelet_ends("f-r-0", 1);
    builder.complete_task(0);
    builder.delete("pods", "f-r-0", None);
    builder.end_task_attempt(0);
    builder.retry_task(0);
    builder.create_pod(0, 1);
    assert_eq!(broken(&builder), [""; 0]);
}

#[test]
fn two_pods_of_a_task_break_the_first() {
    let mut builder = HistoryBuilder::running();
    builder.create_named_pod("another", 0, 0);
    assert_eq!(broken(&builder), [FIRST]);
    let mut builder = HistoryBuilder::running();
    builder.kubelet_ends("f-r-0", 1);
    builder.create_named_pod("another", 0, 0);
    assert_eq!(broken(&builder), [""; 0], "the first one had ended");
}

#[test]
fn a_pod_of_a_completed_or_absent_task_breaks_the_second() {
    let mut completed = HistoryBuilder::running();
    completed.end_task_attempt(0);
    assert_eq!(broken(&completed), [SECOND]);
    let mut absent = HistoryBuilder::running();
    absent.edit(|status| status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"] = json!([]));
    assert_eq!(broken(&absent), [SECOND]);
}

#[test]
fn a_second_config_map_beside_a_running_pod_breaks_the_third() {
    let mut builder = HistoryBuilder::running();
    builder.collect_map();
    builder.create_map();
    assert_eq!(broken(&builder), [THIRD]);
}

#[test]
fn an_instance_of_a_completed_or_deleted_framework_breaks_the_fourth() {
    let mut completed = HistoryBuilder::running();
    completed.edit(|status| status["state"] = json!("AttemptCompleted"));
    assert_eq!(broken(&completed), [FOURTH]);
    let mut deleted = HistoryBuilder::running();
    deleted.user_deletes("frameworks", "f");
    assert_eq!(broken(&deleted), [SECOND, FOURTH]);
}

/// A Framework whose ConfigMap is created once its deletion has begun, or once it is gone.
fn late(after_the_end: bool) -> HistoryBuilder {
    let mut builder = HistoryBuilder::announced();
    let framework = builder.uid("frameworks", "f");
    builder.delete_foreground("f");
    if after_the_end {
        builder.remove_finalizers("frameworks", "f");
    }
    builder.create_map_of(&framework);
    builder
}

#[test]
fn an_empty_config_map_may_arrive_during_a_deletion_if_it_is_collected() {
    for after_the_end in [false, true] {
        for (seconds, breaches) in [(30, &[][..]), (31, &[FOURTH][..])] {
            let mut builder = late(after_the_end);
            if !after_the_end {
                builder.remove_finalizers("frameworks", "f");
            }
            builder.wait(seconds);
            let mut kept = builder.clone();
            builder.collect_map();
            assert_eq!(broken(&builder), breaches, "{after_the_end} {seconds}");
            kept.wait(1);
            assert_eq!(broken(&kept), [FOURTH], "it is never collected");
        }
    }
}

#[test]
fn any_other_config_map_that_outlives_its_framework_breaks_the_fourth() {
    let mut earlier = HistoryBuilder::announced();
    earlier.create_map();
    earlier.delete_foreground("f");
    earlier.remove_finalizers("frameworks", "f");
    earlier.collect_map();
    assert_eq!(broken(&earlier), [FOURTH]);

    let mut used = late(false);
    used.create_pod(0, 0);
    used.kubelet_removes("f-r-0");
    used.remove_finalizers("frameworks", "f");
    used.collect_map();
    assert_eq!(broken(&used), [FOURTH]);
}
