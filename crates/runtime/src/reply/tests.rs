//! Each answer, and the lack of one, with its meaning.

use std::time::Duration;

use http::header::RETRY_AFTER;
use serde_json::{Value, json};

use framework_core::Action;
use framework_core::size::SizeLimits;
use framework_engine::object::Object;
use framework_engine::request::Request;
use framework_message::Key;

use super::engine::LONGEST_FIELD;
use super::*;
use crate::request::engine::tests::{framework, status};

fn act(action: Action) -> Request {
    Request::Act { framework: framework(), status: status(), action }
}

fn create_pod() -> Action {
    let instance = framework_core::observed::Instance::FrameworkAttempt { attempt_id: 0 };
    Action::CreatePod { name: "job-worker-0".into(), task_role: "worker".into(), task_index: 0, instance }
}

fn delete_pod() -> Action {
    Action::DeletePod { name: "job-worker-0".into(), uid: "p".into(), force: false }
}

fn holder() -> Request {
    Request::GetHolder { key: Key::new("ns", "job"), action: create_pod() }
}

fn pod(owner_kind: &str, owner: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": "job-worker-0", "namespace": "ns", "uid": "p", "resourceVersion": "8",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": owner_kind, "name": owner, "uid": "o", "controller": true},
            ],
        },
    })
}

fn answer<R: Exchange>(request: &R, code: u16, body: &Value) -> Reply<R::Object> {
    let status = StatusCode::from_u16(code).unwrap();
    of_response(request, status, &HeaderMap::new(), body.to_string().as_bytes())
}

fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}

#[test]
fn an_error_of_the_api_server_is_a_refusal_with_its_words() {
    let body = failure(403, "Forbidden", "exceeded quota: pods");
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, "7".parse().unwrap());
    let reply = of_response(&act(create_pod()), StatusCode::FORBIDDEN, &headers, body.to_string().as_bytes());
    let Reply::Refused(rejection) = reply else { panic!("{reply:?}") };
    let expected = Rejection {
        code: 403,
        reason: "Forbidden".into(),
        message: "exceeded quota: pods".into(),
        retry_after: Some(Duration::from_secs(7)),
    };
    assert_eq!(rejection, expected);
}

#[test]
fn only_an_answer_given_before_anything_is_stored_is_a_refusal_of_a_write() {
    let webhook = "Internal error occurred: failed calling webhook \"x\": timeout";
    let denial = "admission webhook \"x\" denied the request: the quota cannot be read";
    let quota = "Internal error occurred: resource quota evaluation timed out";
    let table = [
        (400, failure(400, "BadRequest", "no"), true),
        (404, failure(404, "NotFound", "no"), true),
        (409, failure(409, "AlreadyExists", "no"), true),
        (413, json!("Request entity too large"), true),
        (422, failure(422, "Invalid", "no"), true),
        (429, failure(429, "TooManyRequests", "slow down"), true),
        (500, failure(500, "InternalError", webhook), true),
        (500, failure(500, "InternalError", quota), true),
        (500, failure(500, "", denial), true),
        (504, failure(504, "Timeout", denial), true),
        (500, json!(denial), false),
        (500, failure(500, "InternalError", "etcdserver: no admission webhook "), false),
        (500, failure(500, "InternalError", "etcdserver: request timed out"), false),
        (502, json!("bad gateway"), false),
        (503, failure(503, "ServiceUnavailable", "starting"), true),
        (503, json!("<html>no upstream</html>"), false),
        (504, failure(504, "Timeout", "gave up"), false),
        (408, json!("slow"), false),
    ];
    let put = Request::PutStatus {
        framework: framework(),
        resource_version: 1,
        status: status(),
        compressed: false,
        room: SizeLimits::default(),
    };
    for (code, body, refused) in table {
        for request in [&put, &act(create_pod()), &act(delete_pod())] {
            let reply = answer(request, code, &body);
            assert_eq!(matches!(reply, Reply::Refused(_)), refused, "{code} {body}: {reply:?}");
            assert_eq!(matches!(reply, Reply::Unknown(_)), !refused, "{code} {body}: {reply:?}");
        }
        let read = answer(&holder(), code, &body);
        assert!(matches!(read, Reply::Refused(_)), "a GET has no effect: {read:?}");
    }
}

#[test]
fn an_answer_that_is_no_status_is_quoted() {
    let code = StatusCode::TOO_MANY_REQUESTS;
    let reply = of_response(&holder(), code, &HeaderMap::new(), b"Too many requests\n");
    let Reply::Refused(rejection) = reply else { panic!("{reply:?}") };
    assert_eq!((rejection.reason.as_str(), rejection.message.as_str()), ("", "Too many requests"));
    assert!(rejection.is_overload());
}

#[test]
fn only_a_status_of_the_api_server_proves_absence() {
    let confirm = act(Action::ConfirmPod { name: "job-worker-0".into(), uid: "p".into() });
    let list = json!({"kind": "PodList", "apiVersion": "v1"});
    let of_another = json!({"kind": "Status", "apiVersion": "example.com/v1", "reason": "NotFound"});
    for code in [404, 409, 410] {
        for body in [json!("<html>no such backend</html>"), Value::Null, list.clone(), of_another.clone()] {
            for request in [&act(create_pod()), &act(delete_pod()), &confirm, &holder()] {
                let reply = answer(request, code, &body);
                assert!(matches!(reply, Reply::Unknown(_)), "{code} {body}: {reply:?}");
            }
        }
        let reply = answer(&holder(), code, &failure(code, "Gone", "it is not there"));
        assert!(matches!(reply, Reply::Refused(_)), "{code}: {reply:?}");
    }
}

#[test]
fn a_denial_by_a_webhook_tells_neither_of_the_object_nor_of_the_server() {
    let code_of = |code: u16, body: &[u8]| {
        let status = StatusCode::from_u16(code).unwrap();
        match of_response(&act(delete_pod()), status, &HeaderMap::new(), body) {
            Reply::Refused(rejection) => rejection.code,
            reply => panic!("{reply:?}"),
        }
    };
    let denial = "admission webhook \"x\" denied the request: node n not found, nor its UID";
    for (code, reason) in [(404, "NotFound"), (409, "Conflict"), (410, "Gone")] {
        let read = |message: &str| code_of(code, failure(code, reason, message).to_string().as_bytes());
        assert_eq!(read(denial), 403);
        assert_eq!(read("pods \"job-worker-0\" not found"), code);
    }
    for (code, expected) in [(400, 400), (422, 422), (429, 429), (500, 403), (503, 403)] {
        assert_eq!(code_of(code, failure(code, "", denial).to_string().as_bytes()), expected);
    }
    let head = r#"{"kind":"Status","apiVersion":"v1","message":"admission webhook \"x\" denied: "#;
    let long = format!("{head}{}", "x".repeat(MOST_BYTES_OF_FAILURE));
    assert_eq!(code_of(404, &long.as_bytes()[..MOST_BYTES_OF_FAILURE]), 403, "it is not read to its end");
}

#[test]
fn the_holder_of_a_name_is_ours_or_named() {
    let ours = answer(&holder(), 200, &pod("ConfigMap", "job-attempt"));
    assert!(matches!(&ours, Reply::Object(Object::Pod(pod)) if pod.facts.config_map_uid == "o"), "{ours:?}");
    for (kind, owner) in [("Job", "nightly"), ("ConfigMap", "other-attempt")] {
        let reply = answer(&holder(), 200, &pod(kind, owner));
        let Reply::Foreign(words) = reply else { panic!("{reply:?}") };
        assert_eq!(words, format!("the name is taken by Pod job-worker-0, controlled by {kind} {owner}"));
    }
    let mut loose = pod("Job", "nightly");
    loose["metadata"]["ownerReferences"] = Value::Null;
    let reply = answer(&holder(), 200, &loose);
    let Reply::Foreign(words) = reply else { panic!("{reply:?}") };
    assert_eq!(words, "the name is taken by Pod job-worker-0, which nothing controls");
}

#[test]
fn a_config_map_of_our_name_is_foreign_unless_a_framework_controls_it() {
    let request = Request::GetHolder {
        key: Key::new("ns", "job"),
        action: Action::CreateConfigMap {
            instance: framework_core::observed::Instance::FrameworkAttempt { attempt_id: 0 },
        },
    };
    let map = |kind: &str| {
        json!({"kind": "ConfigMap", "metadata": {
            "name": "job-attempt", "namespace": "ns", "uid": "c", "resourceVersion": "4",
            "ownerReferences": [{"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": kind,
                                 "name": "job", "uid": "f", "controller": true}],
        }})
    };
    let ours = answer(&request, 200, &map("Framework"));
    assert!(
        matches!(
            &ours,
            Reply::Object(Object::ConfigMap(map)) if map.facts.framework_uid.as_deref() == Some("f")
        ),
        "{ours:?}"
    );
    let other = answer(&request, 200, &map("Deployment"));
    assert!(matches!(&other, Reply::Foreign(words) if words.contains("Deployment job")), "{other:?}");
    // A confirmation asks whether it exists, under any controller.
    let confirm = answer(&act(Action::ConfirmConfigMap { uid: "c".into() }), 200, &map("Deployment"));
    assert!(matches!(&confirm, Reply::Object(Object::ConfigMap(_))), "{confirm:?}");
}

#[test]
fn a_field_that_the_api_server_leaves_out_comes_with_the_new_pod() {
    let warned = |request: &Request, warnings: &[&str]| {
        let mut headers = HeaderMap::new();
        warnings.iter().for_each(|warning| _ = headers.append(WARNING, warning.parse().unwrap()));
        let body = pod("ConfigMap", "job-attempt").to_string();
        match of_response(request, StatusCode::CREATED, &headers, body.as_bytes()) {
            Reply::Object(Object::Pod(_)) => None,
            Reply::Object(Object::PodWithout(pod, field)) => Some((pod.name, field)),
            reply => panic!("{reply:?}"),
        }
    };
    let create = act(create_pod());
    let unknown = r#"299 - "unknown field \"spec.containers[0].imagee\"""#;
    let other = r#"299 - "would violate PodSecurity \"restricted:latest\"""#;
    let expected = Some(("job-worker-0".into(), "spec.containers[0].imagee".to_owned()));
    assert_eq!(warned(&create, &[other, unknown, r#"299 - "unknown field \"spec.next\"""#]), expected);
    assert_eq!([warned(&create, &[]), warned(&create, &[other])], [None, None]);
    let endless = format!(r#"299 - "unknown field \"{}\"""#, "x".repeat(LONGEST_FIELD + 1));
    let cut = r#"299 - "unknown field \"spec"#;
    assert_eq!([warned(&create, &[&endless]), warned(&create, &[cut])], [None, None]);
    assert_eq!(warned(&holder(), &[unknown]), None, "only a create leaves a field out");
}

#[test]
fn a_deleted_pod_is_shown_only_while_it_terminates() {
    let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
    assert!(matches!(answer(&act(delete_pod()), 200, &gone), Reply::Done));
    let removed = pod("ConfigMap", "job-attempt");
    assert!(matches!(answer(&act(delete_pod()), 200, &removed), Reply::Done));
    let mut terminating = removed;
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
    terminating["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    let reply = answer(&act(delete_pod()), 200, &terminating);
    assert!(matches!(&reply, Reply::Object(Object::Pod(pod)) if pod.facts.deletion.is_some()), "{reply:?}");
}

#[test]
fn a_deleted_config_map_is_shown_if_a_finalizer_keeps_it() {
    let delete = || act(Action::DeleteConfigMap { uid: "c".into() });
    let gone = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    assert!(matches!(answer(&delete(), 200, &gone), Reply::Done));
    let kept = json!({"kind": "ConfigMap", "metadata": {
        "name": "job-attempt", "namespace": "ns", "uid": "c", "resourceVersion": "4",
        "deletionTimestamp": "2026-01-01T00:00:30Z", "finalizers": ["example.com/audit"],
    }});
    let reply = answer(&delete(), 200, &kept);
    assert!(matches!(&reply, Reply::Object(Object::ConfigMap(map)) if map.facts.deleting), "{reply:?}");
}

#[test]
fn a_unit_that_was_let_go_is_not_shown_as_it_was() {
    let (unit, uid) = (Key::new("ns", "framework-job"), "u".into());
    let finalizers = framework_queueing::Finalizers::default();
    let let_go =
        framework_queueing::QueueRequest::RemoveFinalizer { unit, uid, resource_version: 7, finalizers };
    // The API server answers with the object that it was sent, at the version from which the finalizer was
    // removed.
    let body = json!({"kind": "QueueUnit", "spec": {}, "metadata": {
        "name": "framework-job", "namespace": "ns", "uid": "u", "resourceVersion": "7",
        "deletionTimestamp": "2026-01-01T00:00:30Z",
    }});
    assert!(matches!(answer(&let_go, 200, &body), Reply::Done), "or it would be let go once more");
}

#[test]
fn an_unreadable_success_is_no_refusal() {
    let reply = of_response(&act(create_pod()), StatusCode::CREATED, &HeaderMap::new(), b"{\"metadata\":");
    assert!(matches!(reply, Reply::Unknown(_)), "{reply:?}");
}

#[test]
fn the_servers_time_is_read_from_the_date() {
    let mut headers = HeaderMap::new();
    assert_eq!(server_time(&headers), None);
    headers.insert(DATE, "Thu, 01 Jan 2026 00:00:07 GMT".parse().unwrap());
    assert_eq!(server_time(&headers).unwrap().to_string(), "2026-01-01T00:00:07Z");
    headers.insert(DATE, "yesterday".parse().unwrap());
    assert_eq!(server_time(&headers), None);
}

#[tokio::test]
async fn a_refused_connection_means_not_sent_and_a_broken_one_unknown() {
    use tokio::io::AsyncReadExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: http::Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let client =
        crate::client::connect(kube::Config::new(url), "test", &crate::metrics::Metrics::new()).unwrap();
    let get = || http::Request::get("/version").body(kube::client::Body::empty()).unwrap();
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        // Dropped: the request was read, no reply comes.
    };
    let (broken, ()) = tokio::join!(client.send(get()), server);
    let reply = of_failure::<()>(&broken.unwrap_err());
    assert!(matches!(reply, Reply::Unknown(_)), "{reply:?}");
    drop(listener);
    let refused = of_failure::<()>(&client.send(get()).await.unwrap_err());
    assert!(
        matches!(&refused, Reply::NotSent(words) if words.to_lowercase().contains("refused")),
        "{refused:?}"
    );
}

#[test]
fn a_reset_after_the_request_left_is_unknown() {
    for (kind, sent) in [(io::ErrorKind::ConnectionRefused, false), (io::ErrorKind::ConnectionReset, true)] {
        let error = kube::Error::Service(io::Error::new(kind, "broken").into());
        assert_eq!(matches!(of_failure::<()>(&error), Reply::Unknown(_)), sent, "{kind:?}");
    }
}

#[test]
fn a_page_of_units_says_where_the_next_one_begins() {
    let list = framework_queueing::QueueRequest::ListUnits { namespace: "ns".into(), after: None, limit: 9 };
    let unit = |name: &str| {
        json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "8"}, "spec": {},
        })
    };
    let page = |after: &str, items: Value| {
        let body = json!({
            "kind": "QueueUnitList", "apiVersion": "queue.k8s.io/v1alpha1", "items": items,
            "metadata": {"resourceVersion": "9", "continue": after},
        });
        let Reply::Object(framework_queueing::Object::Page(page)) = answer(&list, 200, &body) else {
            panic!()
        };
        (page.units.iter().map(|unit| unit.key.name.to_string()).collect::<Vec<_>>(), page.after)
    };
    let broken = json!({"metadata": {"name": "c"}, "spec": {"priority": "high"}});
    let found = page("abc", json!([unit("a"), broken, unit("b")]));
    assert_eq!(found, (vec!["a".to_owned(), "b".to_owned()], Some("abc".to_owned())));
    assert_eq!(page("", json!([])), (vec![], None));
    let expired = failure(410, "Expired", "the continue token is too old");
    assert!(matches!(answer(&list, 410, &expired), Reply::Refused(Rejection { code: 410, .. })));
    assert!(matches!(answer(&list, 500, &json!({})), Reply::Refused(_)), "a read had no effect");
}

#[test]
fn a_refusal_is_as_long_as_the_message_of_a_container_may_be() {
    let message = |length: usize| {
        let body = failure(403, "Forbidden", &"x".repeat(length)).to_string();
        let headers = HeaderMap::new();
        match of_response(&act(create_pod()), StatusCode::FORBIDDEN, &headers, body.as_bytes()) {
            Reply::Refused(rejection) => rejection.message,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(message(4096), "x".repeat(4096));
    assert_eq!(message(4097), "x".repeat(4096) + " [cut]");
}

#[test]
fn a_refusal_with_100_000_causes_is_cut_before_it_is_decoded() {
    let cause = r#"{"reason":"FieldValueRequired","message":"Required value","field":"spec.volumes[0]"}"#;
    let message = "spec.volumes[0].name: Required value, ".repeat(100_000);
    let head = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure""#;
    let body = format!(
        r#"{head},"message":"It is invalid: {message}","reason":"Invalid","details":{{"all":[{cause}]}}}}"#
    );
    for body in [&body.as_bytes()[..MOST_BYTES_OF_FAILURE], body.as_bytes()] {
        let answer =
            of_response(&act(create_pod()), StatusCode::UNPROCESSABLE_ENTITY, &HeaderMap::new(), body);
        let Reply::Refused(rejection) = answer else { panic!("{answer:?}") };
        assert_eq!((rejection.code, &*rejection.reason), (422, "Invalid"));
        assert!(
            rejection.message.contains("is invalid: spec.volumes[0].name: Required"),
            "{}",
            rejection.message
        );
        assert!(rejection.message.len() <= MOST_OF_MESSAGE + 10 && rejection.message.ends_with("[cut]"));
    }
}

#[test]
fn a_template_beyond_a_limit_is_refused_as_an_invalid_pod_is() {
    let template = framework_api::PodTemplate::from(json!({"spec": {"volumes": vec![json!({}); 100_000]}}));
    let error = CallError::Invalid(template.excess().unwrap());
    let Reply::<Object>::Refused(rejection) = of_unrendered(&error) else { panic!() };
    assert_eq!((rejection.code, &*rejection.reason), (422, "Invalid"));
    assert!(rejection.message.contains("more than 5000 objects"), "{}", rejection.message);
    assert!(matches!(of_unrendered::<Object>(&CallError::NoUid), Reply::NotSent(_)));
}

#[test]
fn a_create_of_an_epoch_that_is_over_was_not_sent_and_no_pod_is_to_blame() {
    let message = "pods \"job-worker-0\" is forbidden: ValidatingAdmissionPolicy 'frameworkcontroller-epoch' with \
                   binding 'frameworkcontroller-epoch' denied request: slot 7 was granted again";
    let read = |message: &str| {
        let body = json!({"kind": "Status", "apiVersion": "v1", "reason": "Forbidden", "message": message});
        let body = body.to_string().into_bytes();
        of_response(&act(create_pod()), StatusCode::FORBIDDEN, &HeaderMap::new(), &body)
    };
    assert!(matches!(read(message), Reply::NotSent(why) if why == fencing_token::OVER));
    assert!(matches!(read(&message.replace("-epoch'", "-reach'")), Reply::Refused(_)), "another policy");
}

#[test]
fn a_429_with_a_status_is_no_overload_even_without_a_reason() {
    let refused = |body: &str| match of_response(
        &holder(),
        StatusCode::TOO_MANY_REQUESTS,
        &HeaderMap::new(),
        body.as_bytes(),
    ) {
        Reply::Refused(rejection) => rejection.is_overload(),
        reply => panic!("{reply:?}"),
    };
    assert!(refused("too many requests"));
    assert!(!refused(r#"{"kind":"Status","apiVersion":"v1","code":429,"message":"not now"}"#));
    let long =
        format!(r#"{{"kind":"Status","apiVersion":"v1","message":"{}"#, "x".repeat(MOST_BYTES_OF_FAILURE));
    assert!(!refused(&long[..MOST_BYTES_OF_FAILURE]));
}
