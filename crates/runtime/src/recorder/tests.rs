//! Which Events the API server is sent, and when, under a paused clock.

use std::sync::Mutex;

use http::Response;
use http::header::RETRY_AFTER;
use http_body_util::StreamBody;
use tower::BoxError;

use framework_api::{Framework, FrameworkSpec};
use framework_core::EventReason;
use framework_message::Key;

use super::*;

/// The code that answers a method.
type Code = fn(&Method) -> u16;

type Sent = Arc<Mutex<Vec<(Method, String, Value, Duration)>>>;

fn recorder() -> (Recorder, EventWriter, Sent) {
    answering(|_| 200)
}

/// The same, with an API server that answers each request by its method with this code.
fn answering(code: Code) -> (Recorder, EventWriter, Sent) {
    let clock = Clock::simulated("2026-01-01T00:00:00.5Z".parse().unwrap());
    let sent = Sent::default();
    let seen = Arc::clone(&sent);
    let service = tower::service_fn(move |request: Request<Body>| {
        let seen = Arc::clone(&seen);
        async move {
            let (head, body) = request.into_parts();
            let code = code(&head.method);
            let body = serde_json::from_slice(&body.collect_bytes().await?)?;
            seen.lock().unwrap().push((head.method, head.uri.to_string(), body, clock.now().steady));
            Ok::<_, BoxError>(Response::builder().status(code).body(Body::empty())?)
        }
    });
    let client = kube::Client::new(service, "default");
    let (recorder, writer) = Recorder::new(client, clock, "fc-0", Metrics::new());
    (recorder, writer, sent)
}

fn framework(uid: &str) -> Arc<Framework> {
    framework_in("ns", uid)
}

fn framework_in(namespace: &str, uid: &str) -> Arc<Framework> {
    let spec: FrameworkSpec = serde_json::from_value(json!({"taskRoles": []})).unwrap();
    let mut framework = Framework::new("job", spec);
    framework.metadata.namespace = Some(namespace.into());
    framework.metadata.uid = Some(uid.into());
    Arc::new(framework)
}

fn report(reason: &'static str) -> Report {
    let mut report = Report::warning(EventReason::Failed, "it is full".to_owned());
    report.reason = reason;
    report
}

#[tokio::test(start_paused = true)]
async fn a_report_becomes_an_event_about_its_framework() {
    let (recorder, writer, sent) = recorder();
    recorder.record(Subject::framework(&framework("f")), report("QuotaExceeded"));
    drop(recorder);
    writer.run().await;
    let sent = sent.lock().unwrap();
    let [(method, uri, body, _)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(method, Method::POST);
    assert_eq!(uri, "/apis/events.k8s.io/v1/namespaces/ns/events?timeout=10s");
    assert_eq!(body["eventTime"], "2026-01-01T00:00:00.500000Z");
    assert_eq!((&body["reason"], &body["type"]), (&json!("QuotaExceeded"), &json!("Warning")));
    assert_eq!((&body["note"], &body["regarding"]["uid"]), (&json!("it is full"), &json!("f")));
    assert!(body["metadata"]["name"].as_str().unwrap().starts_with("job."), "{body}");
}

/// The head of its response comes, and its body never ends.
#[tokio::test(start_paused = true)]
async fn a_response_that_hangs_holds_up_no_further_event() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sent);
    let service = tower::service_fn(move |_: Request<Body>| {
        seen.lock().unwrap().push(clock.now().steady);
        let frames = futures::stream::pending::<Result<hyper::body::Frame<hyper::body::Bytes>, BoxError>>();
        async { Ok::<_, BoxError>(Response::new(StreamBody::new(frames))) }
    });
    let client = kube::Client::new(service, "default");
    let (recorder, writer) = Recorder::new(client, clock, "fc-0", Metrics::new());
    for uid in ["f", "g"] {
        recorder.record(Subject::framework(&framework(uid)), report("QuotaExceeded"));
    }
    drop(recorder);
    writer.run().await;
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), 2);
    assert!(sent[1] - sent[0] <= REPLY_TIMEOUT + Duration::from_secs(1), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn no_event_is_sent_before_the_end_of_a_pause() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sent);
    let service = tower::service_fn(move |_: Request<Body>| {
        seen.lock().unwrap().push(clock.now().steady.as_secs());
        let response = Response::builder().status(429).header(RETRY_AFTER, "7");
        async move { Ok::<_, BoxError>(response.body(Body::empty())?) }
    });
    let client = kube::Client::new(service, "default");
    let (recorder, writer) = Recorder::new(client, clock, "fc-0", Metrics::new());
    for uid in ["f", "g", "h"] {
        recorder.record(Subject::framework(&framework(uid)), report("QuotaExceeded"));
    }
    drop(recorder);
    writer.run().await;
    assert_eq!(*sent.lock().unwrap(), [0, 7, 14]);
}

#[tokio::test]
async fn a_long_name_of_a_replica_is_cut_to_its_end() {
    let service =
        tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, BoxError>>());
    let client = kube::Client::new(service, "default");
    for (name, bytes) in [("x".repeat(200), INSTANCE_BYTES), ("ä".repeat(100), INSTANCE_BYTES - 1)] {
        let name = format!("{name}-0a1b");
        let writer = Recorder::new(client.clone(), Clock::system(), &name, Metrics::new()).1;
        assert!(writer.instance.len() == bytes && writer.instance.ends_with("-0a1b"), "{}", writer.instance);
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_reports_raise_a_count_at_powers_of_two() {
    let (recorder, writer, sent) = recorder();
    for _ in 0..9 {
        recorder.record(Subject::framework(&framework("f")), report("QuotaExceeded"));
    }
    recorder.record(Subject::framework(&framework("g")), report("QuotaExceeded"));
    drop(recorder);
    writer.run().await;
    let sent = sent.lock().unwrap();
    let counts: Vec<_> =
        sent.iter().map(|(method, _, body, _)| (method.as_str(), body["series"]["count"].as_u64())).collect();
    let expected =
        [("POST", None), ("PATCH", Some(2)), ("PATCH", Some(4)), ("PATCH", Some(8)), ("POST", None)];
    assert_eq!(counts, expected);
    let name = sent[0].2["metadata"]["name"].as_str().unwrap();
    assert!(sent[1].1.contains(&format!("/events/{name}?")), "{}", sent[1].1);
}

#[tokio::test(start_paused = true)]
async fn an_event_about_an_object_with_a_long_name_has_a_name_that_fits() {
    let (recorder, writer, sent) = recorder();
    for name in ["x".repeat(NAME_BYTES), format!("x{}", "-.".repeat(125)), "short".to_owned()] {
        recorder.record(Subject::unit(&Key::new("ns", &name), &name), report("Admitted"));
    }
    drop(recorder);
    writer.run().await;
    let sent = sent.lock().unwrap();
    let names: Vec<&str> = sent.iter().map(|event| event.2["metadata"]["name"].as_str().unwrap()).collect();
    let [long, dashes, short] = names[..] else { panic!("{names:?}") };
    assert!(long.starts_with("xxx") && long.len() == NAME_BYTES, "{long}");
    assert!(dashes.starts_with("x.") && short.starts_with("short."), "{names:?}");
    assert_eq!(sent[0].2["regarding"]["name"].as_str().map(str::len), Some(NAME_BYTES), "the object's own");
}

#[tokio::test(start_paused = true)]
async fn the_gauge_of_waiting_events_falls_when_they_are_written() {
    let (recorder, writer, _) = recorder();
    let metrics = Arc::clone(&recorder.metrics);
    let shows = |waiting: usize| {
        let text = metrics.text(Clock::system().now());
        let line = format!("\nframeworkcontroller_queue_depth{{queue=\"events\"}} {waiting}\n");
        assert!(text.contains(&line), "{text}");
    };
    for uid in ["f", "g"] {
        recorder.record(Subject::framework(&framework(uid)), report("QuotaExceeded"));
    }
    shows(2);
    drop(recorder);
    writer.run().await;
    shows(0);
}

/// A report of moved slots.
fn moved(note: &str) -> (Subject, Report) {
    let lease = Subject::lease("fc", "frameworkcontroller-leader", "lease");
    (lease, Report::normal(EventReason::SlotsMoved, note.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn each_note_about_a_lease_has_an_event_of_its_own() {
    let (recorder, writer, sent) = recorder();
    let (lease, first) = moved("3 slots of a went to b");
    let note = "4 slots of a went to c, which waits for requests of the owner before";
    let second = Report::warning(EventReason::SlotsMoved, note.to_owned());
    for report in [&first, &second, &first] {
        recorder.record(lease.clone(), report.clone());
    }
    drop(recorder);
    writer.run().await;
    let sent = sent.lock().unwrap();
    let notes: Vec<_> = sent.iter().map(|(_, _, body, _)| (body["note"].as_str(), &body["type"])).collect();
    let expected = [
        (Some("3 slots of a went to b"), &json!("Normal")),
        (Some(note), &json!("Warning")),
        (None, &Value::Null),
    ];
    assert_eq!(notes, expected, "the third is the first one again");
    assert_eq!(sent[2].2["series"]["count"], 2);
    let name = sent[0].2["metadata"]["name"].as_str().unwrap();
    assert!(sent[2].1.contains(&format!("/events/{name}?")), "{}", sent[2].1);
}

#[tokio::test(start_paused = true)]
async fn notes_about_a_lease_beyond_a_bound_share_one_event() {
    let (recorder, writer, sent) = recorder();
    let writing = tokio::spawn(writer.run());
    for number in 0..NOTES + 9 {
        let (lease, report) = moved(&format!("{number} slots of a went to b"));
        recorder.record(lease, report);
        tokio::time::sleep(INTERVAL).await;
    }
    drop(recorder);
    writing.await.unwrap();
    let sent = sent.lock().unwrap();
    let with = |method: Method| sent.iter().filter(|(sent, ..)| *sent == method).count();
    assert_eq!((with(Method::POST), with(Method::PATCH)), (NOTES + 1, 3), "9 reports share one");
}

#[tokio::test(start_paused = true)]
async fn after_some_minutes_of_silence_a_new_event_is_made() {
    let (recorder, writer, sent) = recorder();
    let writing = tokio::spawn(writer.run());
    for _ in 0..2 {
        recorder.record(Subject::framework(&framework("f")), report("QuotaExceeded"));
        tokio::time::sleep(AGGREGATION + Duration::from_secs(1)).await;
    }
    drop(recorder);
    writing.await.unwrap();
    let methods: Vec<_> = sent.lock().unwrap().iter().map(|(method, ..)| method.clone()).collect();
    assert_eq!(methods, [Method::POST, Method::POST]);
}

#[tokio::test(start_paused = true)]
async fn events_are_limited_in_rate_and_number() {
    let (recorder, writer, sent) = recorder();
    for number in 0..QUEUE + 10 {
        let namespace = format!("ns{}", number % 8);
        let framework = framework_in(&namespace, &number.to_string());
        recorder.record(Subject::framework(&framework), report("QuotaExceeded"));
    }
    let metrics = Arc::clone(&recorder.metrics);
    assert_eq!(dropped(&metrics), [10, 0, 0], "full, refused, unknown");
    drop(recorder);
    writer.run().await;
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), QUEUE);
    let early = sent.iter().filter(|(.., at)| *at == Duration::ZERO).count();
    assert_eq!(early, BURST as usize);
    let expected = INTERVAL * (QUEUE as u32 - BURST);
    assert_eq!(sent[QUEUE - 1].3, expected, "then one each interval");
}

#[tokio::test(start_paused = true)]
async fn events_of_one_namespace_neither_displace_nor_delay_those_of_another() {
    let (recorder, writer, sent) = recorder();
    for number in 0..2 * QUEUE {
        recorder.record(Subject::framework(&framework(&number.to_string())), report("QuotaExceeded"));
    }
    recorder.record(Subject::framework(&framework_in("other", "f")), report("QuotaExceeded"));
    drop(recorder);
    writer.run().await;
    let sent = sent.lock().unwrap();
    let others = sent.iter().position(|(_, uri, ..)| uri.contains("/namespaces/other/"));
    assert_eq!(others, Some(1), "it waits for one Event");
    assert_eq!(sent.len(), QUEUE_OF_NAMESPACE + 1);
}

/// How many reports made no Event, for each reason.
fn dropped(metrics: &Metrics) -> [u64; 3] {
    let text = metrics.text(Clock::system().now());
    ["full", "refused", "unknown"].map(|reason| {
        let name = format!("frameworkcontroller_events_dropped_total{{reason=\"{reason}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
    })
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_refused_is_told_from_one_without_an_answer() {
    let (recorder, writer, _) = answering(|method| if *method == Method::POST { 403 } else { 200 });
    let metrics = Arc::clone(&recorder.metrics);
    recorder.record(Subject::framework(&framework("f")), report("QuotaExceeded"));
    drop(recorder);
    writer.run().await;
    assert_eq!(dropped(&metrics), [0, 1, 0]);

    let service = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, BoxError>("there is no API server".into())
    });
    let client = kube::Client::new(service, "default");
    let metrics = Metrics::new();
    let (recorder, writer) = Recorder::new(client, Clock::system(), "fc-0", Arc::clone(&metrics));
    recorder.record(Subject::framework(&framework("f")), report("QuotaExceeded"));
    drop(recorder);
    writer.run().await;
    assert_eq!(dropped(&metrics), [0, 0, 1]);
}

/// The methods of the requests for eight reports, if the API server answers with these codes.
async fn methods_of_eight(code: Code) -> Vec<String> {
    let (recorder, writer, sent) = answering(code);
    for _ in 0..8 {
        recorder.record(Subject::framework(&framework("f")), report("QuotaExceeded"));
    }
    drop(recorder);
    writer.run().await;
    let sent = sent.lock().unwrap();
    sent.iter().map(|(method, ..)| method.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_not_created_or_is_gone_is_made_again() {
    let refused = methods_of_eight(|method| if *method == Method::POST { 403 } else { 200 }).await;
    assert_eq!(refused, ["POST"; 4], "at powers of two, as for its count");
    let gone = methods_of_eight(|method| if *method == Method::PATCH { 404 } else { 201 }).await;
    assert_eq!(gone, ["POST", "PATCH", "POST", "PATCH", "POST", "PATCH", "POST", "PATCH"]);
    let failing = methods_of_eight(|method| if *method == Method::PATCH { 500 } else { 201 }).await;
    assert_eq!(failing, ["POST", "PATCH", "PATCH", "PATCH"]);
    let there = methods_of_eight(|method| if *method == Method::POST { 409 } else { 200 }).await;
    assert_eq!(there, ["POST", "PATCH", "PATCH", "PATCH"], "a POST without a reply had its effect");
}

#[tokio::test(start_paused = true)]
async fn a_note_that_waits_is_no_longer_than_that_of_an_event() {
    let (recorder, writer, _) = recorder();
    let long = Report::warning(EventReason::Failed, "x".repeat(1 << 20));
    recorder.record(Subject::framework(&framework("f")), long);
    let entry = writer.entries.lock().pop().expect("it waits");
    assert_eq!((entry.report.note.len(), entry.report.note.capacity()), (NOTE_BYTES, NOTE_BYTES));
}

#[test]
fn a_long_note_is_cut_between_characters() {
    let note = "ä".repeat(NOTE_BYTES);
    assert_eq!(truncate(&note).len(), NOTE_BYTES);
    assert_eq!(truncate(&note[..1023 + 1]).len(), NOTE_BYTES);
    assert_eq!(truncate(&format!("x{note}")).len(), NOTE_BYTES - 1);
    assert_eq!(truncate("short"), "short");
}
