//! Exports ended parts of the lives of Frameworks as spans, by OTLP over HTTP. Best effort: nothing waits.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use framework_api::Time;
use framework_engine::traces::{Span, Value};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tracing::warn;

use crate::metrics::Metrics;

const PROGRAM: &str = "frameworkcontroller";
/// Spans that may wait.
const QUEUE: usize = 8_192;
/// Spans in one request, and how long a span waits for others: the defaults of the OpenTelemetry SDKs.
const BATCH: usize = 512;
const DELAY: Duration = Duration::from_secs(5);
/// The longest export, unless `OTEL_EXPORTER_OTLP_TIMEOUT` says otherwise to the library.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a reply that are read.
const LARGEST_REPLY: usize = 64 << 10;
/// How long the next message of the receiver is not logged after one: each batch may bring the same one.
const QUIET: Duration = Duration::from_secs(60);
/// Characters of such a message that are logged.
const REASON_CHARS: usize = 512;

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("cannot export traces: {0}")]
pub struct ExporterError(#[from] opentelemetry_otlp::ExporterBuildError);

/// The part of the last reply that says which spans of its request were not taken. The library reads it, too,
/// and does not return it.
type PartialSuccess = Arc<Mutex<Option<ExportTracePartialSuccess>>>;

/// Exports spans.
#[derive(Debug)]
pub struct Exporter {
    spans: SpanExporter,
    partial_success: PartialSuccess,
}

/// An exporter of spans to the receiver at this URL, if there is one. `instance` names this replica.
pub fn exporter(endpoint: Option<&str>, instance: &str) -> Result<Option<Exporter>, ExporterError> {
    let Some(endpoint) = endpoint else { return Ok(None) };
    let partial_success = PartialSuccess::default();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let client = Arc::new(Transport { client, partial_success: Arc::clone(&partial_success) });
    let mut spans = SpanExporter::builder()
        .with_http()
        .with_shared_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .build()?;
    // Users add attributes, such as the cluster's name, by `OTEL_RESOURCE_ATTRIBUTES`.
    let resource = Resource::builder()
        .with_service_name(PROGRAM)
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance.to_owned()),
        ])
        .build();
    spans.set_resource(&resource);
    Ok(Some(Exporter { spans, partial_success }))
}

/// Takes spans for their export, or drops them if there is no exporter or too many wait.
#[derive(Debug)]
pub struct Traces {
    queue: Option<mpsc::Sender<Span>>,
    metrics: Arc<Metrics>,
}

/// Sends the spans that [`Traces`] takes.
#[derive(Debug)]
pub struct SpanSender {
    queue: mpsc::Receiver<Span>,
    exporter: Exporter,
    metrics: Arc<Metrics>,
    /// When a message of the receiver was logged last.
    logged: Option<Instant>,
}

impl Traces {
    /// The two ends of a queue to that exporter, if there is one.
    pub fn new(exporter: Option<Exporter>, metrics: Arc<Metrics>) -> (Self, Option<SpanSender>) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let sender_of =
            |exporter| SpanSender { queue, exporter, metrics: Arc::clone(&metrics), logged: None };
        let writer = exporter.map(sender_of);
        (Traces { queue: writer.is_some().then_some(sender), metrics }, writer)
    }

    /// Takes spans. Those that find no room are counted.
    pub fn export(&self, spans: Vec<Span>) {
        let Some(queue) = &self.queue else { return };
        let dropped = spans.into_iter().filter_map(|span| queue.try_send(span).err()).count();
        self.metrics.spans_dropped(dropped);
    }
}

impl SpanSender {
    /// Sends spans in batches until no more can come.
    pub async fn run(mut self) -> &'static str {
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(span) = self.queue.recv().await {
            batch.push(span);
            let others = async {
                while batch.len() < BATCH
                    && let Some(span) = self.queue.recv().await
                {
                    batch.push(span);
                }
            };
            // At the time-out it goes as it is.
            let _ = timeout(DELAY, others).await;
            let spans = batch.len();
            let exported = self.exporter.spans.export(batch.drain(..).map(data).collect()).await;
            match exported {
                Ok(()) => self.taken(spans),
                Err(error) => {
                    warn!(spans, %error, "spans were dropped: their export to the OTLP receiver failed");
                    self.metrics.spans_dropped(spans);
                }
            }
        }
        "the exporter of traces"
    }

    /// The receiver has taken a request with so many spans, perhaps without some of them.
    fn taken(&mut self, spans: usize) {
        let reply = self.exporter.partial_success.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ExportTracePartialSuccess { rejected_spans, error_message } = reply.unwrap_or_default();
        let rejected = usize::try_from(rejected_spans).unwrap_or(0).min(spans);
        self.metrics.spans_exported(spans - rejected);
        self.metrics.spans_dropped(rejected);
        let is_quiet = self.logged.is_some_and(|logged| logged.elapsed() < QUIET);
        if (rejected > 0 || !error_message.is_empty()) && !is_quiet {
            self.logged = Some(Instant::now());
            let reason: String = error_message.chars().take(REASON_CHARS).collect();
            warn!(spans, rejected, reason, "the OTLP receiver did not take all spans, or warns");
        }
    }
}

/// The span as the library takes it.
fn data(span: Span) -> SpanData {
    let ran = span.ran.map(|ran| Event::new("running", at(ran), Vec::new(), 0));
    let mut events = SpanEvents::default();
    events.events.extend(ran);
    let attribute = |(key, value)| match value {
        Value::Text(text) => KeyValue::new(key, text),
        Value::Number(number) => KeyValue::new(key, number),
    };
    let trace = TraceId::from_bytes(span.trace.to_be_bytes());
    let id = |id: u64| SpanId::from_bytes(id.to_be_bytes());
    SpanData {
        span_context: SpanContext::new(trace, id(span.id), TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: span.parent.map_or(SpanId::INVALID, id),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: span.name.into(),
        start_time: at(span.start),
        end_time: at(span.end),
        attributes: span.attributes.into_iter().map(attribute).collect(),
        dropped_attributes_count: 0,
        events,
        links: SpanLinks::default(),
        status: span.failure.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder(PROGRAM)
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

fn at(time: Time) -> SystemTime {
    time.timestamp().into()
}

/// Sends requests over plain HTTP: the receiver is in the cluster, often in the same Pod.
#[derive(Debug)]
struct Transport {
    client: Client<HttpConnector, Full<Bytes>>,
    partial_success: PartialSuccess,
}

impl HttpClient for Transport {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: http::Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<http::Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let answered = async {
            let reply = self.client.request(request.map(Full::new)).await?;
            let (parts, body) = reply.into_parts();
            let body = Limited::new(body, LARGEST_REPLY).collect().await?.to_bytes();
            // A refusal has another body.
            let reply = ExportTraceServiceResponse::decode(body.clone()).ok();
            let reply = reply.filter(|_| parts.status.is_success()).and_then(|reply| reply.partial_success);
            *self.partial_success.lock().unwrap_or_else(PoisonError::into_inner) = reply;
            Ok(http::Response::from_parts(parts, body))
        };
        Box::pin(async { timeout(TIMEOUT, answered).await? })
    }
}

#[cfg(test)]
mod tests;
