//! Lines as pipelines read them.

use super::*;
use framework_api::Time;
use framework_core::classify::{ContainerEnd, ContainerTerminated, TerminalPhase, TerminatedPod};
use framework_core::observed::{Deletion, PodFacts, PodPhase};
use serde_json::Value;

fn at() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().unwrap()
}

/// Sentence, trigger and object of a line, parsed as a pipeline parses it.
fn parts(line: &Line) -> (String, String, Value) {
    let text = String::from_utf8(line.render(at())).unwrap();
    let line = text.strip_suffix('\n').expect("it ends");
    assert!(!line.contains('\n'), "one line: {line}");
    let (head, json) = line.split_once(MARKER).expect("the marker");
    let (sentence, trigger) = head.rsplit_once(": ").expect("a trigger");
    (sentence.to_owned(), trigger.to_owned(), serde_json::from_str(json).expect("JSON"))
}

fn framework() -> Arc<Framework> {
    let object = json!({
        "apiVersion": name::API_VERSION, "kind": name::KIND,
        "metadata": {
            "name": "job", "namespace": "ns", "uid": "f", "resourceVersion": "7",
            "annotations": {"note": "two\nlines: ObjectSnapshot: {}"},
        },
        "spec": {"taskRoles": [{"name": "w", "taskNumber": 1, "task": {"pod": {}}}]},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn status() -> Arc<FrameworkStatus> {
    let at = "2026-01-01T00:00:00Z";
    let counts = json!({"totalRetriedCount": 0, "accountableRetriedCount": 0});
    let task = json!({
        "index": 0, "instanceUID": "t", "startTime": at, "state": "AttemptCompleted",
        "transitionTime": at, "retryPolicyStatus": counts,
        "attemptStatus": {"id": 0, "startTime": at, "podName": "job-w-0"},
    });
    let status = json!({
        "startTime": at, "state": "AttemptRunning", "transitionTime": at, "retryPolicyStatus": counts,
        "attemptStatus": {
            "id": 3, "startTime": at, "configMapName": "job-attempt",
            "taskRoleStatuses": [{"name": "w", "instanceUID": "r", "taskStatuses": [task]}],
        },
    });
    Arc::new(serde_json::from_value(status).unwrap())
}

fn of_framework(trigger: Trigger, gap: Option<Gap>) -> Line {
    Line::Framework { trigger, framework: framework(), status: Some(status()), gap }
}

#[test]
fn a_line_has_a_time_a_sentence_a_trigger_and_the_object() {
    let line = of_framework(Trigger::OnFrameworkRetry, None);
    let text = String::from_utf8(line.render(at())).unwrap();
    let start = "2026-01-02T03:04:05.678000Z  INFO [ns/job] attempt 3 is followed by another: \
                 OnFrameworkRetry: ObjectSnapshot: {\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\",\
                 \"kind\":\"Framework\",";
    assert!(text.starts_with(start), "{text}");
    let (_, _, object) = parts(&line);
    assert_eq!(object["metadata"]["annotations"]["note"], "two\nlines: ObjectSnapshot: {}");
    assert_eq!(object["status"]["attemptStatus"]["id"], 3);
}

#[test]
fn a_framework_known_from_the_cache_says_that_it_is_incomplete() {
    let (sentence, trigger, object) = parts(&of_framework(Trigger::OnFrameworkDeletion, None));
    assert_eq!((trigger.as_str(), sentence.contains("incomplete")), ("OnFrameworkDeletion", false));
    let (sentence, _, same) =
        parts(&of_framework(Trigger::OnFrameworkDeletion, Some(Gap::FinalStateUnknown)));
    assert!(sentence.contains("incomplete"), "{sentence}");
    assert_eq!(object, same);
    let (key, uid) = (Key::new("ns", "job"), "f".into());
    let (sentence, trigger, object) = parts(&Line::Unreadable { key, uid, resource_version: 7 });
    assert!(sentence.contains("incomplete") && trigger == "OnFrameworkDeletion", "{sentence} {trigger}");
    assert_eq!((&object["kind"], &object["metadata"]["uid"]), (&json!("Framework"), &json!("f")));
    assert_eq!(object["metadata"]["resourceVersion"], "7");
}

#[test]
fn a_task_says_where_it_is_from() {
    let (task_role, task_index) = ("w".to_owned(), 0);
    let line = |snapshot| Line::Task { snapshot, framework: framework(), status: status() };
    let at_time = Time::floor(at());
    let retry = line(Snapshot::TaskRetry { task_role: task_role.clone(), task_index, at: at_time });
    let (sentence, trigger, object) = parts(&retry);
    assert!(sentence.ends_with("[ns/job][w][0] the Task is retried"), "{sentence}");
    assert_eq!((trigger.as_str(), &object["kind"]), ("OnTaskRetry", &json!("Task")));
    assert_eq!(object["metadata"]["resourceVersion"], "7", "that of its Framework");
    let deletion = line(Snapshot::TaskDeletion { task_role, task_index, at: at_time });
    let (sentence, trigger, object) = parts(&deletion);
    assert!(sentence.ends_with("the Task is removed") && trigger == "OnTaskDeletion", "{sentence}");
    assert_eq!(object["metadata"]["deletionTimestamp"], "2026-01-02T03:04:05Z");
}

fn pod(state: LastState) -> Line {
    let pod = LastSeen { name: "job-w-0".into(), uid: "p".into(), state };
    Line::Pod { key: Key::new("ns", "job"), pod }
}

#[test]
fn a_pod_is_logged_as_it_came_with_its_kind() {
    for (sent, logged) in [
        (r#"{"kind":"Pod","apiVersion":"v1","x":{"y":[1.10,"ü"]}}"#, None),
        (r#"{"metadata":{"uid":"p"}}"#, Some(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"p"}}"#)),
        (r#"{"kind":"Pod","x":1}"#, Some(r#"{"apiVersion":"v1","kind":"Pod","x":1}"#)),
        ("{\"kind\":\"Pod\",\r\n \"apiVersion\":\"v1\"}", Some(r#"{"kind":"Pod",   "apiVersion":"v1"}"#)),
    ] {
        let line = pod(LastState::Whole(serde_json::from_str(sent).unwrap()));
        let text = String::from_utf8(line.render(at())).unwrap();
        let (head, json) = text.split_once(MARKER).unwrap();
        assert!(head.ends_with("[ns/job] the Pod job-w-0 is deleted: OnPodDeletion"), "{head}");
        assert_eq!(json, format!("{}\n", logged.unwrap_or(sent)));
    }
}

#[test]
fn no_character_of_an_object_ends_the_line_for_any_reader() {
    const ENDS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];
    let note = "a\u{85}b\u{2028}c\u{2029}d\\u0085\u{86}";
    let mut object = Framework::clone(&framework());
    object.metadata.annotations = Some([("note".to_owned(), note.to_owned())].into());
    let (trigger, status, gap) = (Trigger::OnFrameworkDeletion, None, None);
    let whole = serde_json::value::to_raw_value(&json!({"kind": "Pod", "note": note})).unwrap();
    for (line, place) in [
        (Line::Framework { trigger, framework: Arc::new(object), status, gap }, "/metadata/annotations/note"),
        (pod(LastState::Whole(whole)), "/note"),
    ] {
        for line in [line.clone(), line.redacted()] {
            let text = String::from_utf8(line.render(at())).unwrap();
            assert!(!text.contains(ENDS), "{text}");
            assert_eq!(parts(&line).2.pointer(place), Some(&json!(note)));
        }
    }
}

#[test]
fn a_pod_that_no_event_showed_says_so_and_gives_the_known_facts() {
    let terminated = ContainerTerminated { exit_code: 7, ..ContainerTerminated::default() };
    let facts = PodFacts {
        deletion: Some(Deletion { at: Time::floor(at()), grace_sec: 30 }),
        node_name: "node-1".into(),
        pod_ip: "10.0.0.7".into(),
        end: Some(Box::new(TerminatedPod {
            phase: TerminalPhase::Failed,
            pod_name: "job-w-0".into(),
            reason: "Evicted".into(),
            message: String::new(),
            containers: vec![
                ContainerEnd { name: "main".into(), terminated: Some(terminated) },
                ContainerEnd { name: "side".into(), terminated: None },
            ],
        })),
        ..PodFacts::new("p", "c", PodPhase::Failed)
    };
    let (sentence, _, object) =
        parts(&pod(LastState::Facts { facts: Box::new(facts), resource_version: 42 }));
    assert!(sentence.contains("incomplete"), "{sentence}");
    assert_eq!((&object["apiVersion"], &object["kind"]), (&json!("v1"), &json!("Pod")));
    let metadata = &object["metadata"];
    assert_eq!((&metadata["name"], &metadata["uid"]), (&json!("job-w-0"), &json!("p")));
    assert_eq!(metadata["resourceVersion"], "42");
    assert_eq!(metadata["ownerReferences"][0]["name"], "job-attempt");
    assert_eq!(metadata["labels"]["FC_TASKROLE_NAME"], "w");
    assert_eq!(metadata["labels"]["FC_TASK_INDEX"], "0");
    assert_eq!(metadata["deletionGracePeriodSeconds"], 30);
    assert_eq!(object["spec"]["nodeName"], "node-1");
    let status = &object["status"];
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Evicted")));
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 7);
    assert_eq!(status["containerStatuses"][1]["state"], Value::Null);
}

#[test]
fn a_line_weighs_the_bytes_that_it_renders() {
    let whole = |size: usize| {
        let json = format!("\"{}\"", "x".repeat(size));
        pod(LastState::Whole(serde_json::from_str(&json).unwrap()))
    };
    assert!(whole(100_000).weight() > 100_000 && whole(10).weight() < 1000);
    let mut large = Framework::clone(&framework());
    large.spec.task_roles[0].task.pod = json!({"spec": {"x": "y".repeat(100_000)}}).into();
    let (framework, status) = (Arc::new(large), status());
    let snapshot = Snapshot::TaskRetry { task_role: "w".to_owned(), task_index: 0, at: Time::floor(at()) };
    let lines = [
        of_framework(Trigger::OnFrameworkRetry, None),
        Line::Framework {
            trigger: Trigger::OnFrameworkRetry,
            framework: Arc::clone(&framework),
            status: Some(Arc::clone(&status)),
            gap: None,
        },
        Line::Task { snapshot, framework, status },
    ];
    for line in lines {
        let (weight, bytes) = (line.weight(), line.render(at()).len());
        assert!(weight.abs_diff(bytes) < 256, "{weight} for {bytes} bytes");
    }
}
