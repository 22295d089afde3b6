//! Requests as they go over the wire, with their guards.

use std::sync::Arc;

use serde_json::Value;

use framework_api::FrameworkSpec;
use framework_core::size::SizeLimits;
use framework_message::Key;

use super::*;

pub(crate) fn framework() -> Arc<Framework> {
    let spec: FrameworkSpec = serde_json::from_value(json!({
        "taskRoles": [{"name": "worker", "taskNumber": 1, "task": {"pod": {"spec": {"containers": []}}}}],
    }))
    .unwrap();
    let mut framework = Framework::new("job", spec);
    framework.metadata.namespace = Some("ns".into());
    framework.metadata.uid = Some("f".into());
    Arc::new(framework)
}

pub(crate) fn status() -> Arc<FrameworkStatus> {
    let at = "2026-01-01T00:00:00Z";
    serde_json::from_value(json!({
        "startTime": at, "state": "AttemptCreationPending", "transitionTime": at,
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0},
        "attemptStatus": {"id": 0, "startTime": at, "configMapName": "job-attempt"},
    }))
    .map(Arc::new)
    .unwrap()
}

fn act(action: Action) -> Result<Call, CallError> {
    render(&Request::Act { framework: framework(), status: status(), action })
}

fn body(call: &Call) -> Value {
    serde_json::from_slice(&call.body).unwrap()
}

#[test]
fn a_status_write_carries_its_guard_and_nothing_of_the_spec() {
    let request = Request::PutStatus {
        framework: framework(),
        resource_version: 77,
        status: status(),
        compressed: false,
        room: SizeLimits::default(),
    };
    let call = render(&request).unwrap();
    assert_eq!(call.method, Method::PUT);
    let path = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/ns/frameworks/job/status?timeout=10s";
    assert_eq!(call.uri, path);
    assert_eq!((call.verb, call.resource), ("update", "frameworks/status"));
    let body = body(&call);
    let metadata = json!({"name": "job", "namespace": "ns", "uid": "f", "resourceVersion": "77"});
    assert_eq!(body["metadata"], metadata);
    assert_eq!(body["status"]["state"], "AttemptCreationPending");
    assert_eq!((&body["kind"], &body["apiVersion"]), (&json!("Framework"), &json!(name::API_VERSION)));
    assert_eq!(body.as_object().unwrap().len(), 4, "{body}");
}

#[test]
fn every_delete_carries_the_uid_that_it_means() {
    let pod = |force| Action::DeletePod { name: "job-worker-0".into(), uid: "p".into(), force };
    let graceful = act(pod(false)).unwrap();
    assert_eq!((graceful.method.as_str(), graceful.verb), ("DELETE", "delete"));
    assert_eq!(graceful.uri, "/api/v1/namespaces/ns/pods/job-worker-0?timeout=10s");
    assert_eq!(body(&graceful)["preconditions"], json!({"uid": "p"}));
    assert_eq!(body(&graceful)["gracePeriodSeconds"], Value::Null);
    assert_eq!(body(&act(pod(true)).unwrap())["gracePeriodSeconds"], 0);

    let map = act(Action::DeleteConfigMap { uid: "c".into() }).unwrap();
    assert_eq!(map.uri, "/api/v1/namespaces/ns/configmaps/job-attempt?timeout=10s");
    assert_eq!(
        (&body(&map)["preconditions"]["uid"], &body(&map)["propagationPolicy"]),
        (&json!("c"), &json!("Background"))
    );

    let own = act(Action::DeleteFramework).unwrap();
    assert_eq!(
        (&body(&own)["preconditions"]["uid"], &body(&own)["propagationPolicy"]),
        (&json!("f"), &json!("Foreground"))
    );
    assert!(own.uri.ends_with("/frameworks/job?timeout=10s"), "{}", own.uri);
}

#[test]
fn a_create_is_posted_as_the_core_renders_it() {
    let instance = framework_core::observed::Instance::FrameworkAttempt { attempt_id: 0 };
    let call = act(Action::CreateConfigMap { instance }).unwrap();
    assert_eq!((call.method.as_str(), call.verb, call.resource), ("POST", "create", "configmaps"));
    assert_eq!(call.uri, "/api/v1/namespaces/ns/configmaps?timeout=10s");
    assert_eq!(body(&call)["metadata"]["name"], "job-attempt");
}

#[test]
fn a_create_that_the_status_no_longer_knows_is_not_sent() {
    let instance = framework_core::observed::Instance::TaskAttempt {
        config_map_uid: "c".into(),
        task_uid: "t".into(),
        attempt_id: 0,
    };
    let action =
        Action::CreatePod { name: "job-gone-0".into(), task_role: "gone".into(), task_index: 0, instance };
    assert_eq!(act(action).unwrap_err(), CallError::UnknownInstance);
}

#[test]
fn confirmations_and_holders_are_read_by_name_without_a_cache() {
    let uris = [
        (act(Action::ConfirmConfigMap { uid: "c".into() }), "/api/v1/namespaces/ns/configmaps/job-attempt"),
        (
            act(Action::ConfirmPod { name: "job-worker-0".into(), uid: "p".into() }),
            "/api/v1/namespaces/ns/pods/job-worker-0",
        ),
        (render(&Request::AskTime), "/version"),
        (
            render(&Request::GetHolder {
                key: Key::new("ns", "job"),
                action: Action::DeleteConfigMap { uid: String::new() },
            }),
            "/api/v1/namespaces/ns/configmaps/job-attempt",
        ),
        (
            render(&Request::GetFramework { key: Key::new("ns", "job") }),
            "/apis/frameworkcontroller.microsoft.com/v1/namespaces/ns/frameworks/job",
        ),
    ];
    for (call, path) in uris {
        let call = call.unwrap();
        assert_eq!((call.method.as_str(), call.verb), ("GET", "get"));
        // No resourceVersion: the API server asks etcd.
        assert_eq!(call.uri, format!("{path}?timeout=10s"));
        assert!(call.body.is_empty());
    }
}

#[test]
fn a_label_is_restored_on_the_very_version_that_was_seen() {
    let request = Request::RestoreLabel {
        framework: framework(),
        pod: Some("job-worker-0".into()),
        uid: "p".into(),
        resource_version: 5,
    };
    let call = render(&request).unwrap();
    assert_eq!((call.method.as_str(), call.content_type), ("PATCH", MERGE_PATCH));
    let slot = name::slot("f").to_string();
    let expected =
        json!({"metadata": {"uid": "p", "resourceVersion": "5", "labels": {name::SLOT_LABEL: slot}}});
    assert_eq!(body(&call), expected);
}
