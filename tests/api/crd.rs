//! The API server's treatment of a Framework by the CRD alone, with no controller and no webhook running. It
//! covers the objects that are refused, the messages, the defaults, the permitted changes and the columns of
//! kubectl.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::{get_all, install, installed, kubectl};
use crate::namespace::{self, TestNamespace, framework, role};

#[derive(Deserialize)]
struct Invalid {
    claim: String,
    says: Vec<String>,
    framework: Value,
}

#[test]
fn an_invalid_framework_is_refused_with_a_message_that_names_the_field() {
    let namespace = TestNamespace::new("invalid");
    namespace
        .create(&framework("healthy", &[role("worker", 1)]))
        .expect("what each case breaks in one place");
    let cases: Vec<Invalid> =
        serde_saphyr::from_str(include_str!("../data/invalid_frameworks.yaml")).unwrap();
    assert!(cases.len() >= 40, "{} cases", cases.len());
    for Invalid { claim, says, framework } in cases {
        let refusal = namespace.create(&framework).expect_err(&claim);
        for words in says {
            assert!(refusal.contains(&words), "{claim}: {words:?} is missing in\n{refusal}");
        }
    }
    assert_eq!(namespace.names(), ["healthy"]);
}

#[test]
fn more_than_100_task_roles_are_refused() {
    let namespace = TestNamespace::new("roles");
    let roles: Vec<Value> = (0..101).map(|index| role(&format!("role{index}"), 1)).collect();
    let refusal = namespace.create(&framework("job", &roles)).unwrap_err();
    assert!(refusal.contains("spec.taskRoles: Too many: 101: must have at most 100 items"), "{refusal}");
    namespace.create(&framework("job", &roles[..100])).unwrap();
}

#[test]
fn fields_left_out_get_their_defaults() {
    let namespace = TestNamespace::new("defaults");
    let retry = json!({"fancyRetryPolicy": false, "maxRetryCount": 0});
    let expected = json!({
        "executionType": "Start",
        "retryPolicy": retry,
        "taskRoles": [{
            "name": "worker",
            "taskNumber": 1,
            "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": -1},
            "task": {"retryPolicy": retry, "pod": {"spec": {"containers": [{"name": "main"}]}}},
        }],
    });
    assert_eq!(namespace.create(&framework("bare", &[role("worker", 1)])).unwrap()["spec"], expected);

    let mut nulls = framework("nulls", &[role("worker", 1)]);
    nulls["spec"]["executionType"] = Value::Null;
    nulls["spec"]["retryPolicy"] = Value::Null;
    nulls["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] = Value::Null;
    nulls["spec"]["taskRoles"][0]["task"]["retryPolicy"] = Value::Null;
    assert_eq!(namespace.create(&nulls).unwrap()["spec"], expected, "null is as good as left out");

    let mut partial = framework("partial", &[role("worker", 1)]);
    partial["spec"]["retryPolicy"] = json!({"maxRetryCount": -2});
    let policy = json!({"minFailedTaskCount": 2});
    partial["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] = policy;
    let stored = &namespace.create(&partial).unwrap()["spec"];
    assert_eq!(stored["retryPolicy"], json!({"fancyRetryPolicy": false, "maxRetryCount": -2}));
    assert_eq!(
        stored["taskRoles"][0]["frameworkAttemptCompletionPolicy"],
        json!({"minFailedTaskCount": 2, "minSucceededTaskCount": -1})
    );
}

#[test]
fn fields_given_are_stored_as_given() {
    let namespace = TestNamespace::new("given");
    for (file, text) in [
        ("full", include_str!("../data/full_framework.yaml")),
        ("reference", include_str!("../data/reference_framework.yaml")),
    ] {
        let given: Value = serde_saphyr::from_str(text).unwrap();
        let stored = namespace.create(&given).unwrap_or_else(|refusal| panic!("{file}: {refusal}"));
        assert_eq!(stored["spec"], given["spec"], "{file}");
        assert_eq!(stored.get("status"), None, "{file}: status is the controller's to write");
        serde_json::from_value::<framework_api::Framework>(stored).expect("our own types read it");
    }
}

#[test]
fn a_generated_name_is_accepted() {
    let namespace = TestNamespace::new("generated");
    let mut generated = framework("", &[role("worker", 1)]);
    generated["metadata"] = json!({"generateName": "job"});
    assert!(namespace.create(&generated).unwrap()["metadata"]["name"].as_str().unwrap().starts_with("job"));
}

#[test]
fn execution_type_goes_forward_only() {
    let namespace = TestNamespace::new("execution");
    let all = ["Create", "Start", "Stop"];
    let forward = [("Create", "Start"), ("Create", "Stop"), ("Start", "Stop")];
    for from in all {
        for to in all {
            let name = format!("{from}{to}").to_lowercase();
            let mut object = framework(&name, &[role("worker", 1)]);
            object["spec"]["executionType"] = from.into();
            namespace.create(&object).unwrap();
            let patch = json!([{"op": "replace", "path": "/spec/executionType", "value": to}]);
            let changed = namespace.patch(&name, &patch);
            if from == to || forward.contains(&(from, to)) {
                assert_eq!(changed.unwrap()["spec"]["executionType"], to, "{from} to {to}");
            } else {
                let refusal = changed.expect_err(&format!("{from} to {to}"));
                let allowed = "spec.executionType: Forbidden: executionType may change from Create to Start \
                               or Stop, and from Start to Stop, never back";
                assert!(refusal.contains(allowed), "{from} to {to}: {refusal}");
            }
        }
    }
}

/// The patches of the manual, as it writes them.
#[test]
fn everything_else_may_be_changed_by_a_json_patch() {
    let namespace = TestNamespace::new("patches");
    namespace.create(&framework("job", &[role("ps", 1), role("worker", 2)])).unwrap();
    let add = json!([{"op": "add", "path": "/spec/taskRoles/-", "value": role("evaluator", 1)}]);
    namespace.patch("job", &add).unwrap();
    let delete = json!([
        {"op": "test", "path": "/spec/taskRoles/0/name", "value": "ps"},
        {"op": "remove", "path": "/spec/taskRoles/0"},
    ]);
    namespace.patch("job", &delete).unwrap();
    let policy = "/spec/taskRoles/0/frameworkAttemptCompletionPolicy";
    let rescale = json!([
        {"op": "test", "path": "/spec/taskRoles/0/name", "value": "worker"},
        {"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 5},
        {"op": "replace", "path": format!("{policy}/minSucceededTaskCount"), "value": 5},
        {"op": "replace", "path": format!("{policy}/minFailedTaskCount"), "value": 2},
        {"op": "replace", "path": "/spec/taskRoles/0/task/pod/spec/containers/0/name", "value": "other"},
        {"op": "replace", "path": "/spec/retryPolicy/maxRetryCount", "value": -2},
    ]);
    let spec = &namespace.patch("job", &rescale).unwrap()["spec"];
    assert_eq!(spec["taskRoles"][0]["taskNumber"], 5);
    assert_eq!(spec["taskRoles"][1]["name"], "evaluator");
    let stale = json!([{"op": "test", "path": "/spec/taskRoles/0/name", "value": "ps"}]);
    assert!(namespace.patch("job", &stale).is_err(), "a stale index is noticed");
}

#[test]
fn two_appliers_own_a_task_role_each() {
    let namespace = TestNamespace::new("appliers");
    let apply = |manager: &str, role: Value| {
        let manager = format!("--field-manager={manager}");
        let arguments = ["apply", "--server-side", &manager, "-o=json", "-f=-"];
        namespace.object(&arguments, &framework("job", &[role])).unwrap()
    };
    apply("one", role("ps", 1));
    apply("two", role("worker", 2));
    let object = apply("one", role("ps", 3));
    let roles: Vec<_> = object["spec"]["taskRoles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|role| (role["name"].as_str().unwrap(), role["taskNumber"].as_i64().unwrap()))
        .collect();
    assert_eq!(roles, [("ps", 3), ("worker", 2)]);
}

#[test]
fn kubectl_shows_state_attempt_tasks_reason_result_and_age() {
    let namespace = TestNamespace::new("columns");
    namespace.create(&framework("job", &[role("worker", 20)])).unwrap();
    let mut status = serde_json::to_value(namespace::status("job")).unwrap();
    status["tasks"] = json!("3/20");
    status["taskCounts"] =
        json!({"total": 20, "pending": 16, "running": 2, "succeeded": 1, "failed": 1, "addressed": 4});
    status["conditions"] = json!([{
        "type": "Running", "status": "False", "reason": "NameConflict", "message": "a Pod has its name",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]);
    namespace.put_status("job", &status).unwrap();
    let cells = |arguments: &[&str]| -> Vec<Vec<String>> {
        let text = namespace.text(arguments);
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let table = cells(&["get", "fw"]);
    assert_eq!(table[0], ["NAME", "STATE", "ATTEMPT", "TASKS", "REASON", "RESULT", "AGE"]);
    assert_eq!(table[1][..5], ["job", "AttemptCreationPending", "0", "3/20", "NameConflict"]);
    assert!(table[1][5].ends_with('s'), "no result yet, and an age: {:?}", table[1]);
    let end = json!({
        "code": 0, "phrase": "Succeeded", "type": {"name": "Succeeded", "attributes": []}, "diagnostics": "",
    });
    status["attemptStatus"]["completionStatus"] = end;
    namespace.put_status("job", &status).unwrap();
    namespace.text(&["label", "fw", "job", "frameworkcontroller.microsoft.com/queue-name=night"]);
    let wide = cells(&["get", "fw", "-o=wide"]);
    assert_eq!(wide[0][5..], ["RESULT", "RUNNING", "SUCCEEDED", "FAILED", "QUEUE", "ADDRESSED", "AGE"]);
    assert_eq!(wide[1][5..11], ["Succeeded", "2", "1", "1", "night", "4"]);
    let all = get_all("columns");
    assert!(all.contains("framework.frameworkcontroller.microsoft.com/job"), "{all}");
}

#[test]
fn a_status_is_stored_as_the_controller_writes_it() {
    let namespace = TestNamespace::new("status");
    namespace.create(&framework("job", &[role("worker", 1)])).unwrap();
    let first = serde_json::to_value(namespace::status("job")).unwrap();
    assert_eq!(first["attemptStatus"]["taskRoleStatuses"], Value::Null, "a null that must survive");
    assert_eq!(namespace.put_status("job", &first).unwrap()["status"], first);

    let mut last: Value = serde_saphyr::from_str(include_str!("../data/completed_status.yaml")).unwrap();
    // As a newer controller may write it.
    last["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]["deep"] = json!({"list": [null, 1]});
    assert_eq!(namespace.put_status("job", &last).unwrap()["status"], last);
    let mut null = last.clone();
    null["attemptStatus"]["completionStatus"]["type"]["attributes"] = Value::Null;
    namespace.put_status("job", &null).expect("null attributes, as Go writes none");

    let mut wrong = last;
    wrong["state"] = "Resting".into();
    let refusal = namespace.put_status("job", &wrong).unwrap_err();
    // Kubernetes 1.30 leaves `status.` out.
    assert!(refusal.contains("state: Unsupported value: \"Resting\""), "{refusal}");
}

#[test]
fn kubectl_explains_each_field_of_the_first_level_of_a_status() {
    installed();
    let definition = serde_json::to_value(framework_api::crd::definition()).unwrap();
    let status = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
    let explained = explained("frameworks.status");
    let fields = status["properties"].as_object().unwrap();
    assert!(fields.contains_key("attemptStatus"), "{status}");
    for (name, field) in fields {
        let description = one_line(field["description"].as_str().unwrap());
        assert!(explained.contains(&format!(" {name} <")), "{name} is missing in\n{explained}");
        assert!(explained.contains(&description), "{description:?} is missing in\n{explained}");
    }
}

/// The output of `kubectl explain` for a field, in one line. The API server publishes a schema a moment after
/// the CRD is established.
fn explained(field: &str) -> String {
    let version = format!("--api-version={}", framework_api::name::API_VERSION);
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        match kubectl(&["explain", field, &version], "") {
            Ok(text) => return one_line(&text),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// A text whose words are separated by single spaces.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn ten_thousand_tasks_in_a_hundred_task_roles_are_accepted() {
    let namespace = TestNamespace::new("large");
    let roles: Vec<Value> = (0..100).map(|index| role(&format!("role{index}"), 100)).collect();
    namespace.create(&framework("job", &roles)).unwrap();
    let tasks: Vec<Value> =
        (0..100).map(|index| json!({"index": index, "state": "AttemptRunning"})).collect();
    let statuses = |name: &Value| json!({"name": name, "taskStatuses": tasks});
    let mut status = serde_json::to_value(namespace::status("job")).unwrap();
    status["attemptStatus"]["taskRoleStatuses"] = roles.iter().map(|role| statuses(&role["name"])).collect();
    namespace.put_status("job", &status).expect("a status of 10,000 Tasks");
    status["attemptStatus"]["taskRoleStatuses"] = Value::Null;
    status["attemptStatus"]["taskRoleStatusesCompressed"] = "A".repeat(1_000_000).into();
    namespace.put_status("job", &status).expect("a compressed status of 1 MB");
    let one = json!([{"op": "replace", "path": "/spec/taskRoles/7/taskNumber", "value": 99}]);
    namespace.patch("job", &one).expect("a scale-down");
    let two = json!([{"op": "replace", "path": "/spec/taskRoles/7/taskNumber", "value": 101}]);
    let refusal = namespace.patch("job", &two).unwrap_err();
    assert!(refusal.contains("at most 10000 Tasks in all"), "{refusal}");
}

/// The schema before its rules, under a group of its own: the objects that an older controller's cluster has
/// stored.
#[test]
fn a_framework_stored_before_the_rules_still_takes_writes() {
    const GROUP: &str = "stored.test.microsoft.com";
    let name = framework_api::crd::NAME.replace(framework_api::name::GROUP, GROUP);
    let today = framework_api::crd::manifest().replace(framework_api::name::GROUP, GROUP);
    let mut before: Value = serde_saphyr::from_str(&today).unwrap();
    drop_rules(&mut before);
    let namespace = TestNamespace::with_group("stored", GROUP);
    install(&name, &before.to_string());
    let mut zero = framework("zero", &[role("worker", 1), role("ps", 1)]);
    zero["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] =
        json!({"minFailedTaskCount": 0, "minSucceededTaskCount": 0});
    namespace.create(&zero).unwrap();
    namespace.create(&framework("huge", &[role("worker", 6_000), role("ps", 6_000)])).unwrap();

    install(&name, &today);
    let fresh = framework("fresh", &[zero["spec"]["taskRoles"][0].clone()]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while namespace.object(&["create", "--dry-run=server", "-o=json", "-f=-"], &fresh).is_ok() {
        assert!(Instant::now() < deadline, "the rules never came into force");
    }
    let status = |name: &str| serde_json::to_value(namespace::status(name)).unwrap();
    let replace = |path: &str, value: Value| json!([{"op": "replace", "path": path, "value": value}]);

    namespace.put_status("zero", &status("zero")).expect("a status write beside a stored 0");
    namespace.patch("zero", &replace("/spec/taskRoles/0/taskNumber", 2.into())).expect("an unrelated edit");
    let policy = "/spec/taskRoles/0/frameworkAttemptCompletionPolicy/minFailedTaskCount";
    namespace.patch("zero", &replace(policy, 1.into())).expect("the way out");
    let refusal = namespace.patch("zero", &replace(policy, 0.into())).expect_err("no way back");
    assert!(refusal.contains("minFailedTaskCount"), "{refusal}");

    namespace.put_status("huge", &status("huge")).expect("a status write beside 12,000 stored Tasks");
    namespace
        .patch("huge", &replace("/spec/retryPolicy/maxRetryCount", 1.into()))
        .expect("an unrelated edit");
    let tasks = "/spec/taskRoles/0/taskNumber";
    namespace.patch("huge", &replace(tasks, 5_999.into())).expect("a step down, still above the limit");
    let refusal = namespace.patch("huge", &replace(tasks, 6_000.into())).expect_err("a step up");
    assert!(refusal.contains("at most 10000 Tasks in all"), "{refusal}");
}

fn drop_rules(tree: &mut Value) {
    match tree {
        Value::Array(items) => items.iter_mut().for_each(drop_rules),
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(drop_rules);
        }
        _ => {}
    }
}
