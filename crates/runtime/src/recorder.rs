//! Kubernetes Events: best effort, few, and never in the way of anything else.
//!
//! Reports wait in a bounded queue, in which each namespace has its own bound and its turn. A report that
//! finds no room is dropped and counted. Reports of one object with the same reason share an Event for some
//! minutes. Its count is written at each power of two, so that a condition that repeats costs next to
//! nothing. About a Lease each note has an Event of its own, up to a bound, because each is about another
//! change. The log has every report; the caller writes it.

mod fair_queue;
mod subject;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, Request};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::debug;

use framework_core::plan::Report;

use self::fair_queue::FairQueue;
pub use self::subject::Subject;
use crate::client::{REPLY_TIMEOUT, SERVER_TIMEOUT};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::pace::retry_after;
use crate::reply::most_bytes;
use crate::send::read;

/// Reports that may wait.
const QUEUE: usize = 1024;
/// Reports of one namespace that may wait.
const QUEUE_OF_NAMESPACE: usize = 256;
/// How long reports are aggregated into an Event before another one is created.
const AGGREGATION: Duration = Duration::from_secs(6 * 60);
/// One Event each, on average.
const INTERVAL: Duration = Duration::from_millis(200);
/// Events that may follow each other at once after a pause.
const BURST: u32 = 25;
/// Events that are remembered to be added to.
const REMEMBERED: usize = 4096;
/// Events of one Lease and reason that differ in their notes only: as many as one change of 256 slots can
/// need. Further notes share one more, so that slots which move all the time cost no more than these.
const NOTES: usize = 256;
/// The API server refuses longer notes.
const NOTE_BYTES: usize = 1024;
/// The same of names. Users name QueueUnits, and the name of an Event is longer than that of its object.
const NAME_BYTES: usize = 253;
/// The same of `reportingInstance`.
const INSTANCE_BYTES: usize = 128;
const CONTROLLER: &str = "frameworkcontroller.microsoft.com/frameworkcontroller";

/// The end of the recorder that takes reports.
#[derive(Clone, Debug)]
pub struct Recorder {
    entries: Entries,
    /// Wakes the writer, once for each entry.
    wake: mpsc::Sender<()>,
    metrics: Arc<Metrics>,
}

/// The reports that wait.
#[derive(Clone, Debug)]
struct Entries(Arc<Mutex<FairQueue<Entry>>>);

impl Entries {
    fn lock(&self) -> MutexGuard<'_, FairQueue<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Entry {
    subject: Subject,
    report: Report,
}

impl Recorder {
    /// A recorder, and the writer that must run for it. `instance` names this replica.
    pub fn new(
        client: kube::Client,
        clock: Clock,
        instance: &str,
        metrics: Arc<Metrics>,
    ) -> (Self, EventWriter) {
        let (wake, woken) = mpsc::channel(QUEUE);
        let entries = Entries(Arc::new(Mutex::new(FairQueue::new(QUEUE, QUEUE_OF_NAMESPACE))));
        let writer = EventWriter {
            entries: entries.clone(),
            woken,
            client,
            clock,
            instance: end_of(instance).to_owned(),
            metrics: Arc::clone(&metrics),
            known: BTreeMap::new(),
            made: 0,
            ready: Duration::ZERO,
            resumes: Duration::ZERO,
        };
        (Recorder { entries, wake, metrics }, writer)
    }

    /// Queues a report, or drops it. An Event has the beginning of a note that is too long.
    pub fn record(&self, subject: Subject, mut report: Report) {
        report.note.truncate(truncate(&report.note).len());
        report.note.shrink_to_fit();
        let mut entries = self.entries.lock();
        let namespace = subject.namespace.clone();
        if !entries.push(&namespace, Entry { subject, report }) {
            self.metrics.event_dropped("full");
        }
        self.metrics.queue("events", entries.len());
        // If there is no room, the writer is awake for at least as many entries as there are.
        let _ = self.wake.try_send(());
    }
}

/// The key of an Event: the UID of the object, the reason and the note. The note is empty if notes share an
/// Event.
type EventKey = (String, &'static str, String);

/// Writes Events.
pub struct EventWriter {
    entries: Entries,
    woken: mpsc::Receiver<()>,
    client: kube::Client,
    clock: Clock,
    instance: String,
    metrics: Arc<Metrics>,
    /// Events of the last minutes.
    known: BTreeMap<EventKey, OpenEvent>,
    /// How many Events this writer has named.
    made: u64,
    /// When, on the monotonic clock, the next Event would be due if they came evenly.
    ready: Duration,
    /// When, on the monotonic clock, the pause ends that the API server asked for.
    resumes: Duration,
}

/// An Event that may be added to.
#[derive(Debug)]
struct OpenEvent {
    name: String,
    namespace: String,
    count: u32,
    last: Duration,
    /// Whether the API server has it.
    created: bool,
}

impl EventWriter {
    /// Writes until the last [`Recorder`] is gone and the queue is empty.
    pub async fn run(mut self) {
        while self.woken.recv().await.is_some() {
            let (entry, waiting) = {
                let mut entries = self.entries.lock();
                (entries.pop(), entries.len())
            };
            self.metrics.queue("events", waiting);
            if let Some(entry) = entry {
                self.write(&entry).await;
            }
        }
    }

    async fn write(&mut self, Entry { subject, report }: &Entry) {
        let now = self.clock.now();
        self.known.retain(|_, event| now.steady.saturating_sub(event.last) < AGGREGATION);
        let known_by = self.key(subject, report);
        let mut open = match self.known.remove(&known_by) {
            Some(mut event) => {
                event.count = event.count.saturating_add(1);
                event.last = now.steady;
                self.metrics.event_aggregated();
                event
            }
            None => {
                self.made += 1;
                OpenEvent::new(subject, now.wall, self.made, now.steady)
            }
        };
        if open.count.is_power_of_two() {
            let request = if open.created {
                let series = json!({"series": {"count": open.count, "lastObservedTime": micro(now.wall)}});
                let path = format!("{}/{}", path(&open.namespace), open.name);
                request(Method::PATCH, path, "application/merge-patch+json", &series)
            } else {
                let body = event(subject, report, &open, &self.instance, now.wall);
                request(Method::POST, path(&open.namespace), "application/json", &body)
            };
            self.wait_for_turn().await;
            match self.send(request).await {
                Ok(()) => {
                    open.created = true;
                    self.metrics.event_published();
                }
                Err(EventFailure { code, text, pause }) => {
                    self.metrics.event_dropped(if code.is_some() { "refused" } else { "unknown" });
                    self.resumes = self.clock.now().steady + pause;
                    debug!(error = text, reason = report.reason, "an Event was not written");
                    match (open.created, code) {
                        // Its POST got no reply, and had its effect.
                        (false, Some(409)) => open.created = true,
                        // It is gone: API servers keep Events for an hour by default.
                        (true, Some(404)) => return,
                        _ => {}
                    }
                }
            }
        }
        if self.known.len() < REMEMBERED {
            self.known.insert(known_by, open);
        }
    }

    /// The Event that a report belongs to. One with a note that is new has its own, while there is room.
    fn key(&self, subject: &Subject, report: &Report) -> EventKey {
        let of = |note: &str| (subject.uid.clone(), report.reason, note.to_owned());
        if !subject.event_per_note {
            return of("");
        }
        let own = of(&report.note);
        let is_alike = |known: &&EventKey| known.0 == subject.uid && known.1 == report.reason;
        let has_room = || self.known.keys().filter(is_alike).count() < NOTES;
        if self.known.contains_key(&own) || has_room() { own } else { of("") }
    }

    async fn wait_for_turn(&mut self) {
        let now = self.clock.now().steady;
        self.ready = self.ready.max(now) + INTERVAL;
        let turn = self.ready.saturating_sub(INTERVAL * BURST).max(self.resumes);
        if turn > now {
            tokio::time::sleep_until(self.clock.instant(turn)).await;
        }
    }

    async fn send(&self, request: Result<Request<Body>, http::Error>) -> Result<(), EventFailure> {
        let without_reply = |text: String| EventFailure { code: None, text, pause: Duration::ZERO };
        let request = request.map_err(|error| without_reply(error.to_string()))?;
        let exchange = async {
            let (head, body) = self.client.send(request).await?.into_parts();
            // Read to the end, so that the connection can be used again.
            let body = read(body, most_bytes("create", head.status)).await?;
            Ok::<_, kube::Error>((head, body))
        };
        let (head, body) = timeout(REPLY_TIMEOUT, exchange)
            .await
            .map_err(|_| without_reply("no response in time".to_owned()))?
            .map_err(|error| without_reply(error.to_string()))?;
        let status = head.status;
        if status.is_success() {
            return Ok(());
        }
        let text = format!("{status}: {}", String::from_utf8_lossy(&body));
        let pause = retry_after(&head.headers).unwrap_or_default();
        Err(EventFailure { code: Some(status.as_u16()), text, pause })
    }
}

/// Why an Event was not written.
struct EventFailure {
    /// The HTTP status, if there was a response.
    code: Option<u16>,
    text: String,
    /// How long the API server asks to send nothing.
    pause: Duration,
}

impl OpenEvent {
    fn new(subject: &Subject, wall: Timestamp, made: u64, steady: Duration) -> Self {
        // Unique: a replica makes one with this number once, and no two start in the same microsecond.
        let unique = format!(".{:x}.{made:x}", wall.as_microsecond());
        let most = subject.name.floor_char_boundary(NAME_BYTES - unique.len());
        // A part of a name does not end with a dash, nor with a dot.
        let own = subject.name.get(..most).unwrap_or_default().trim_end_matches(['-', '.']);
        OpenEvent {
            name: format!("{own}{unique}"),
            namespace: subject.namespace.clone(),
            count: 1,
            last: steady,
            created: false,
        }
    }
}

fn event(subject: &Subject, report: &Report, known: &OpenEvent, instance: &str, wall: Timestamp) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": known.name, "namespace": known.namespace},
        "eventTime": micro(wall),
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
        "action": report.reason,
        "reason": report.reason,
        "type": if report.warning { "Warning" } else { "Normal" },
        "note": truncate(&report.note),
        "regarding": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
            "resourceVersion": subject.resource_version,
        },
    })
}

/// A `metav1.MicroTime`: always six digits of a second.
fn micro(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// The end of a replica's name, short enough for the API server. It tells the runs of the program apart.
fn end_of(instance: &str) -> &str {
    let begin = instance.len().saturating_sub(INSTANCE_BYTES);
    &instance[instance.ceil_char_boundary(begin)..]
}

/// The note, short enough for the API server.
fn truncate(note: &str) -> &str {
    let mut end = note.len().min(NOTE_BYTES);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    &note[..end]
}

fn path(namespace: &str) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events")
}

fn request(
    method: Method,
    path: String,
    content_type: &str,
    body: &Value,
) -> Result<Request<Body>, http::Error> {
    Request::builder()
        .method(method)
        .uri(format!("{path}?timeout={}s", SERVER_TIMEOUT.as_secs()))
        .header(http::header::CONTENT_TYPE, content_type)
        .body(Body::from(body.to_string().into_bytes()))
}

#[cfg(test)]
mod tests;
