//! Spans at a receiver, and without one.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use tokio::net::TcpListener;

use super::*;
use crate::clock::Clock;

/// A receiver that answers with this code and body. Returns its URL, and the requests it receives.
async fn receiver(
    code: StatusCode,
    reply: ExportTraceServiceResponse,
) -> (String, mpsc::UnboundedReceiver<ExportTraceServiceRequest>) {
    let (sender, received) = mpsc::unbounded_channel();
    let reply = Bytes::from(reply.encode_to_vec());
    let take = async move |State((sender, reply)): State<(mpsc::UnboundedSender<_>, Bytes)>, body: Bytes| {
        sender.send(ExportTraceServiceRequest::decode(body).expect("OTLP")).expect("the test listens");
        (code, reply)
    };
    let router = Router::new().route("/v1/traces", post(take)).with_state((sender, reply));
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", port.local_addr().unwrap());
    tokio::spawn(async { axum::serve(port, router).await });
    (url, received)
}

fn span(id: u64) -> Span {
    let at = |second| Time::floor(jiff::Timestamp::from_second(second).unwrap());
    Span {
        trace: 0xabc,
        id,
        parent: Some(7),
        name: "TaskAttempt w".to_owned(),
        start: at(100),
        ran: Some(at(101)),
        end: at(102),
        attributes: vec![("framework.name", Value::Text("job".into())), ("count", Value::Number(3))],
        failure: Some("ContainerFailed".to_owned()),
    }
}

fn counted(metrics: &Metrics, result: &str) -> u64 {
    let line = format!("frameworkcontroller_trace_spans_total{{result=\"{result}\"}} ");
    let text = metrics.text(Clock::system().now());
    text.lines().find_map(|metric| metric.strip_prefix(&line)).unwrap().parse().unwrap()
}

#[tokio::test]
async fn spans_reach_a_receiver_with_their_times_ids_and_attributes() {
    let (url, mut received) = receiver(StatusCode::OK, ExportTraceServiceResponse::default()).await;
    let metrics = Metrics::new();
    let exporter = exporter(Some(&url), "fc-0").unwrap();
    let (traces, writer) = Traces::new(exporter, Arc::clone(&metrics));
    traces.export(vec![span(8), span(9)]);
    drop(traces);
    writer.unwrap().run().await;
    assert_eq!((counted(&metrics, "exported"), counted(&metrics, "dropped")), (2, 0));
    let request = received.recv().await.expect("one request for both");
    let of_program = &request.resource_spans[0];
    let text = |attributes: &[opentelemetry_proto::tonic::common::v1::KeyValue], key: &str| {
        let found = attributes.iter().find(|attribute| attribute.key == key);
        match found.and_then(|attribute| attribute.value.clone()?.value) {
            Some(any_value::Value::StringValue(text)) => text,
            other => panic!("{key}: {other:?}"),
        }
    };
    let resource = &of_program.resource.as_ref().unwrap().attributes;
    assert_eq!(text(resource, "service.name"), "frameworkcontroller");
    assert_eq!(text(resource, "service.instance.id"), "fc-0");
    let spans: &[otlp::Span] = &of_program.scope_spans[0].spans;
    let [first, second] = spans else { panic!("{spans:?}") };
    assert_eq!(
        (first.span_id.as_slice(), second.span_id.as_slice()),
        (&[0, 0, 0, 0, 0, 0, 0, 8][..], &[0, 0, 0, 0, 0, 0, 0, 9][..])
    );
    assert_eq!((first.trace_id.len(), &first.trace_id[14..]), (16, &[0x0a, 0xbc][..]));
    assert_eq!((first.parent_span_id[7], first.name.as_str()), (7, "TaskAttempt w"));
    let times = [first.start_time_unix_nano, first.events[0].time_unix_nano, first.end_time_unix_nano];
    assert_eq!(times, [100, 101, 102].map(|second| second * 1_000_000_000));
    assert_eq!(text(&first.attributes, "framework.name"), "job");
    let status = first.status.as_ref().unwrap();
    assert_eq!(
        (status.code(), status.message.as_str()),
        (otlp::status::StatusCode::Error, "ContainerFailed")
    );
}

/// The reply of a receiver that takes all but so many spans.
fn partial_success(rejected_spans: i64) -> ExportTraceServiceResponse {
    let partial_success = ExportTracePartialSuccess { rejected_spans, error_message: "too old".to_owned() };
    ExportTraceServiceResponse { partial_success: Some(partial_success) }
}

#[tokio::test]
async fn spans_that_a_receiver_rejects_count_as_dropped() {
    for (rejected, expected) in [(0, (3, 0)), (2, (1, 2)), (9, (0, 3)), (-1, (3, 0))] {
        let (url, _received) = receiver(StatusCode::OK, partial_success(rejected)).await;
        let metrics = Metrics::new();
        let (traces, writer) = Traces::new(exporter(Some(&url), "fc-0").unwrap(), Arc::clone(&metrics));
        traces.export(vec![span(8), span(9), span(10)]);
        drop(traces);
        writer.unwrap().run().await;
        let counts = (counted(&metrics, "exported"), counted(&metrics, "dropped"));
        assert_eq!(counts, expected, "{rejected} of three are rejected");
    }
}

#[tokio::test]
async fn spans_that_are_refused_or_find_no_room_are_counted() {
    let (url, mut received) = receiver(StatusCode::BAD_REQUEST, partial_success(2)).await;
    let metrics = Metrics::new();
    let (traces, writer) = Traces::new(exporter(Some(&url), "fc-0").unwrap(), Arc::clone(&metrics));
    traces.export((0..QUEUE as u64 + 3).map(|id| span(id + 1)).collect());
    assert_eq!(counted(&metrics, "dropped"), 3);
    drop(traces);
    writer.unwrap().run().await;
    assert_eq!((counted(&metrics, "exported"), counted(&metrics, "dropped")), (0, QUEUE as u64 + 3));
    let mut requests = 0;
    while received.try_recv().is_ok() {
        requests += 1;
    }
    assert_eq!(requests, QUEUE / BATCH, "none is sent again after such an answer");
}

#[tokio::test]
async fn without_a_receiver_nothing_waits_and_nothing_is_counted() {
    let metrics = Metrics::new();
    let (traces, writer) = Traces::new(exporter(None, "fc-0").unwrap(), Arc::clone(&metrics));
    traces.export(vec![span(8)]);
    assert!(writer.is_none());
    assert_eq!((counted(&metrics, "exported"), counted(&metrics, "dropped")), (0, 0));
}
