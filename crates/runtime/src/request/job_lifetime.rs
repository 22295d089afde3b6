//! The requests that end a TrainJob.

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use serde_json::{Value, json};

use framework_api::code::DEADLINE_EXCEEDED;
use framework_api::job_kind::JobKindRow;
use framework_message::Key;
use framework_queueing::{ConditionPlace, DeadlineCondition};

use super::call::{Call, JSON, JSON_PATCH, Target};
use super::resume::{guard, operation};

/// The DELETE of a job, in the foreground.
pub fn delete(row: &JobKindRow, job: &Key, uid: &str, resource_version: u128) -> Call {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground",
        "preconditions": {"uid": uid, "resourceVersion": resource_version.to_string()},
    });
    declared(row, job).call(Method::DELETE, "delete", JSON, options.to_string().into_bytes())
}

/// The GET of the JobSet of a TrainJob.
pub fn get_child(job: &Key) -> Call {
    child(job).get()
}

/// The patch of the status of a TrainJob, or of its JobSet.
pub fn fail(
    row: Option<&JobKindRow>,
    job: &Key,
    guard: (&str, u128),
    place: ConditionPlace,
    condition: &DeadlineCondition,
) -> Call {
    let target = match row {
        Some(row) => declared(row, job).status("declared jobs/status"),
        None => child(job).status("jobsets/status"),
    };
    let mut operations = operations(guard, place, condition);
    if row.is_none() {
        // The column that kubectl shows of JobSets; its controller writes it with the condition.
        operations.push(operation("add", "/status/terminalState", json!("Failed")));
    }
    let body = Value::Array(operations).to_string();
    target.call(Method::PATCH, "patch", JSON_PATCH, body.into_bytes())
}

fn operations(of: (&str, u128), place: ConditionPlace, condition: &DeadlineCondition) -> Vec<Value> {
    let (uid, resource_version) = of;
    let mut operations = guard(uid, resource_version);
    let condition = json!({
        "type": "Failed",
        "status": "True",
        "reason": DEADLINE_EXCEEDED,
        "message": condition.message,
        "lastTransitionTime": MetaTime(condition.at.timestamp()),
    });
    operations.push(match place {
        ConditionPlace::NoStatus => operation("add", "/status", json!({"conditions": [condition]})),
        ConditionPlace::NoConditions => operation("add", "/status/conditions", json!([condition])),
        ConditionPlace::Last => operation("add", "/status/conditions/-", condition),
        ConditionPlace::At(index) => operation("replace", &format!("/status/conditions/{index}"), condition),
    });
    operations
}

/// A job of a kind that has a row.
pub fn declared(row: &JobKindRow, job: &Key) -> Target {
    let JobKindRow { api_version, plural, .. } = row;
    // Requests are counted by resource, and names of the config file bound the number of these.
    let api = Target::at(&format!("/apis/{api_version}"), "declared jobs");
    api.objects(&job.namespace, plural).segment(&job.name)
}

fn child(job: &Key) -> Target {
    let api = Target::at("/apis/jobset.x-k8s.io/v1alpha2", "jobsets");
    api.objects(&job.namespace, "jobsets").segment(&job.name)
}

#[cfg(test)]
mod tests {
    use framework_api::Time;
    use framework_api::job_kind::built_in;

    use super::*;

    fn row() -> JobKindRow {
        built_in().into_iter().find(JobKindRow::is_train_job).unwrap()
    }

    fn body(call: &Call) -> Value {
        serde_json::from_slice(&call.body).unwrap()
    }

    #[test]
    fn a_job_is_deleted_in_the_foreground_in_the_version_that_had_finished() {
        let call = delete(&row(), &Key::new("team", "train"), "u", 7);
        let path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/train?";
        assert!(call.uri.starts_with(path), "{}", call.uri);
        assert_eq!(body(&call)["propagationPolicy"], "Foreground");
        assert_eq!(body(&call)["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
    }

    #[test]
    fn a_deadline_adds_one_condition_in_the_version_that_it_was_decided_from() {
        let (job, at) = (Key::new("team", "train"), Time::floor(jiff::Timestamp::UNIX_EPOCH));
        let condition = DeadlineCondition { at, message: "late".to_owned() };
        let written = json!({
            "type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        });
        for (place, operation) in [
            (ConditionPlace::NoStatus, json!(["add", "/status", {"conditions": [written]}])),
            (ConditionPlace::NoConditions, json!(["add", "/status/conditions", [written]])),
            (ConditionPlace::Last, json!(["add", "/status/conditions/-", written])),
            (ConditionPlace::At(2), json!(["replace", "/status/conditions/2", written])),
        ] {
            for row in [Some(&row()), None] {
                let call = fail(row, &job, ("u", 7), place, &condition);
                let kind = if row.is_some() { "trainjobs" } else { "jobsets" };
                assert!(call.uri.contains(&format!("/namespaces/team/{kind}/train/status?")), "{}", call.uri);
                let operations = body(&call);
                assert_eq!(operations[0]["value"], "u");
                assert_eq!(operations[1]["value"], "7");
                let found = &operations[2];
                assert_eq!(json!([found["op"], found["path"], found["value"]]), operation);
                let terminal = operations.get(3).map(|found| found["path"].clone());
                assert_eq!(terminal, row.is_none().then(|| json!("/status/terminalState")));
            }
        }
    }
}
