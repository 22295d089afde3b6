//! The traces that a controller sends, on the real API server: a receiver of OTLP takes them apart.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::recording::Recording;
use crate::cluster::{block_on, completed};
use crate::history::{fail_flaky, flaky};

/// How long a span may take: the controller sends them in batches.
const PATIENCE: Duration = Duration::from_secs(60);

/// A receiver on a free port. Returns its URL, and the spans that it takes.
fn receiver() -> (String, Receiver<Span>) {
    let (sender, spans) = channel();
    let take = async |State(sender): State<Sender<Span>>, body: Bytes| {
        let request = ExportTraceServiceRequest::decode(body).expect("OTLP");
        let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        for span in scopes.flat_map(|scope| scope.spans) {
            // A test that has seen enough has gone.
            let _ = sender.send(span);
        }
    };
    let router = Router::new().route("/v1/traces", post(take)).with_state(sender);
    let port = block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    let url = format!("http://{}/v1/traces", port.local_addr().expect("its address"));
    std::thread::spawn(|| block_on(async { axum::serve(port, router).await }));
    (url, spans)
}

fn text<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn a_life_with_retries_is_one_trace_with_a_span_for_each_pod() {
    let ns = namespace("traces");
    let (url, received) = receiver();
    let alone = Alone::wait();
    let _controller = alone.start("traces", &format!("tracing: {{endpoint: {url}}}"));
    let recording = Recording::start(&ns);
    flaky().create(&ns);
    fail_flaky(&ns);
    let framework = completed(&ns, "flaky");
    let mut spans: Vec<Span> = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while !spans.iter().any(|span| span.parent_span_id.is_empty()) {
        let left = deadline.saturating_duration_since(Instant::now());
        spans.push(received.recv_timeout(left).unwrap_or_else(|_| panic!("no life among {spans:?}")));
    }
    let uid = framework.metadata.uid.expect("a UID").replace('-', "");
    let trace = |span: &Span| span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(spans.iter().all(|span| trace(span) == uid), "{spans:?}");
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let (life, attempts) = (named("Framework"), named("FrameworkAttempt"));
    assert_eq!((life.len(), attempts.len()), (1, 2));
    assert!(attempts.iter().all(|attempt| attempt.parent_span_id == life[0].span_id));
    let tasks: Vec<&Span> = spans.iter().filter(|span| span.name.starts_with("TaskAttempt ")).collect();
    let parents: BTreeSet<_> = tasks.iter().map(|task| &task.parent_span_id).collect();
    assert_eq!(parents, attempts.iter().map(|attempt| &attempt.span_id).collect());
    let history = recording.end();
    let pods: BTreeSet<&str> = history.pods.iter().map(|pod| pod.uid.as_str()).collect();
    assert_eq!((pods.len(), tasks.len()), (6, 6), "each with one span");
    assert_eq!(tasks.iter().filter_map(|task| text(task, "k8s.pod.uid")).collect::<BTreeSet<_>>(), pods);
    let failed = life[0].status.as_ref().expect("a status");
    assert_eq!(failed.message, "ContainerUnrecognizedFailed");
}
