//! The fields that are read of TrainJobs and JobSets.

use framework_api::job_kind::built_in;
use serde_json::{Value, json};

use super::*;

fn row(by: DeadlineBy) -> JobKindRow {
    let built_in = built_in().into_iter().find(JobKindRow::is_train_job).unwrap();
    JobKindRow { deadline: Some(by), ..built_in }
}

fn lifetime(by: DeadlineBy, annotations: Value, spec: Value, status: Value) -> JobLifetime {
    let job = json!({"metadata": {"annotations": annotations}, "spec": spec, "status": status});
    let json = RawValue::from_string(job.to_string()).unwrap();
    read(&json, &row(by), Some(Timestamp::UNIX_EPOCH)).unwrap().unwrap()
}

fn at(second: i64) -> Time {
    Time::floor(Timestamp::from_second(second).unwrap())
}

#[test]
fn a_field_counts_before_the_annotation_unless_it_is_the_operators() {
    let annotations = json!({DEADLINE_ANNOTATION: "10", TTL_ANNOTATION: "20"});
    let spec = json!({"activeDeadlineSeconds": 30, "ttlSecondsAfterFinished": 40});
    let seconds = |by, annotations: &Value, spec: &Value| {
        let found = lifetime(by, annotations.clone(), spec.clone(), Value::Null);
        assert_eq!(found.lifetime.created, Some(at(0)));
        (found.lifetime.deadline, found.lifetime.ttl)
    };
    let (ours, operators) = (DeadlineBy::Ours, DeadlineBy::Operator);
    assert_eq!(seconds(ours, &annotations, &spec), (Some(30), Some(40)));
    assert_eq!(seconds(operators, &annotations, &spec), (Some(10), Some(40)));
    assert_eq!(seconds(operators, &json!({}), &spec), (None, Some(40)));
    assert_eq!(seconds(operators, &annotations, &json!({})), (Some(10), Some(20)));
    assert_eq!(seconds(ours, &Value::Null, &Value::Null), (None, None));
}

#[test]
fn a_wrong_value_has_no_effect_and_is_named() {
    for (annotations, spec, name) in [
        (json!({TTL_ANNOTATION: "soon"}), json!({}), TTL_ANNOTATION),
        (json!({TTL_ANNOTATION: "-1"}), json!({}), TTL_ANNOTATION),
        (json!({TTL_ANNOTATION: ""}), json!({}), TTL_ANNOTATION),
        (json!({DEADLINE_ANNOTATION: "0"}), json!({}), DEADLINE_ANNOTATION),
        (json!({}), json!({"ttlSecondsAfterFinished": "60"}), "spec.ttlSecondsAfterFinished"),
        (json!({}), json!({"activeDeadlineSeconds": 3_153_600_001_i64}), "spec.activeDeadlineSeconds"),
    ] {
        let found = lifetime(DeadlineBy::Ours, annotations, spec, Value::Null);
        assert_eq!((found.lifetime.deadline, found.lifetime.ttl), (None, None), "{name}");
        assert!(found.ignored.len() == 1 && found.ignored[0].starts_with(name), "{:?}", found.ignored);
    }
    let spec = json!({"managedBy": "kueue.x-k8s.io/multikueue"});
    let found = lifetime(DeadlineBy::Ours, json!({DEADLINE_ANNOTATION: "10"}), spec, Value::Null);
    assert_eq!(found.lifetime.deadline, None, "its JobSet is elsewhere");
    assert!(found.ignored[0].contains("kueue.x-k8s.io/multikueue"));
}

#[test]
fn the_first_true_condition_is_the_end() {
    let condition = |type_: &str, status: &str, reason: &str, second: i64| {
        let since = at(second);
        json!({"type": type_, "status": status, "reason": reason, "lastTransitionTime": since})
    };
    let end = |conditions: Value| {
        let status = json!({"conditions": conditions});
        let found = lifetime(DeadlineBy::Ours, Value::Null, Value::Null, status);
        (found.lifetime.finished, found.is_overdue, found.place)
    };
    let suspended = condition("Suspended", "True", "Suspended", 5);
    let complete = condition("Complete", "True", "AllJobsCompleted", 7);
    let failed = condition("Failed", "True", DEADLINE_EXCEEDED, 9);
    let healthy = condition("Failed", "False", "No", 9);
    assert_eq!(end(json!([])), (None, false, ConditionPlace::Last));
    assert_eq!(end(json!([suspended, healthy])), (None, false, ConditionPlace::At(1)));
    assert_eq!(end(json!([suspended, failed])), (Some(at(9)), true, ConditionPlace::At(1)));
    assert_eq!(end(json!([failed, complete])), (Some(at(7)), false, ConditionPlace::At(0)));
    let timeless = json!([{"type": "Complete", "status": "True"}]);
    assert!(end(timeless).0 > Some(at(200_000_000_000)), "it is never deleted");
    let without = |status| lifetime(DeadlineBy::Ours, Value::Null, Value::Null, status).place;
    assert_eq!(without(Value::Null), ConditionPlace::NoStatus);
    assert_eq!(without(json!({})), ConditionPlace::NoConditions);
}

#[test]
fn a_job_set_shows_its_owner_and_its_end() {
    let read = |conditions: Value| {
        let owner = json!({"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": "o", "controller": true});
        let metadata = json!({
            "name": "train", "namespace": "team", "uid": "u", "resourceVersion": "7",
            "ownerReferences": [owner],
        });
        let body = json!({"metadata": metadata, "status": {"conditions": conditions}}).to_string();
        child(body.as_bytes()).unwrap()
    };
    let found = read(json!([]));
    assert_eq!((&*found.uid, found.resource_version, found.controller.as_deref()), ("u", 7, Some("o")));
    assert_eq!((found.end, found.place), (ChildEnd::None, ConditionPlace::Last));
    assert_eq!(read(json!([{"type": "Completed", "status": "True"}])).end, ChildEnd::Other);
    let failed = |reason: &str| {
        let condition = json!({
            "type": "Failed", "status": "True", "reason": reason, "message": "m",
            "lastTransitionTime": at(9),
        });
        read(json!([condition])).end
    };
    assert_eq!(failed("FailedJobs"), ChildEnd::Other);
    let condition = DeadlineCondition { at: at(9), message: "m".to_owned() };
    assert_eq!(failed(DEADLINE_EXCEEDED), ChildEnd::Deadline(condition));
}
