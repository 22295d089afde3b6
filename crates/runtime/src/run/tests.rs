//! The loop as a whole, against a small fake API server, under a paused clock.

use std::sync::Mutex;

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use framework_core::Policy;
use framework_core::classify::Classifier;
use framework_engine::engine::EngineSettings;
use framework_engine::history::Line;

use super::*;
use crate::client::REQUEST_LIFETIME;
use crate::clock::Clock;
use crate::health::Health;
use crate::journal::{Full, Journal, Receipt};

type Asked = Arc<Mutex<Vec<String>>>;

/// The answer of the server to a write.
#[derive(Clone, Copy, PartialEq)]
enum Writes {
    Accepted,
    Unanswered,
}

/// An API server that holds one Framework and maybe a QueueUnit, sends no watch event, and records the
/// requests. The LIST of an unreadable kind has no form that anybody knows.
fn server(
    asked: &Asked,
    clock: Clock,
    writes: Writes,
    [status, unit]: [Value; 2],
    unreadable: &'static str,
) -> kube::Client {
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (asked, status, unit) = (Arc::clone(&asked), status.clone(), unit.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let at = clock.now().steady.as_millis();
            let (uri, text) = (head.uri.to_string(), String::from_utf8_lossy(&body).into_owned());
            let version = {
                let mut asked = asked.lock().unwrap();
                asked.push(format!("{at} {} {uri} {text}", head.method));
                10 + asked.len()
            };
            let is_watch = uri.contains("watch=true");
            if is_watch || head.method != Method::GET && writes == Writes::Unanswered {
                return std::future::pending().await;
            }
            let answer = match head.method {
                Method::GET if uri.contains(&format!("/{unreadable}?")) => json!({"items": "none"}),
                Method::GET if uri.contains("/queueunits?") && !unit.is_null() => list_of(&[unit]),
                Method::GET => list(&uri, &status),
                _ => accepted(&body, version)?,
            };
            Ok::<_, BoxError>(Response::new(Body::from(answer.to_string().into_bytes())))
        }
    });
    kube::Client::new(service, "default")
}

fn list(uri: &str, status: &Value) -> Value {
    let framework = json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
        "metadata": {"name": "job", "namespace": "ns", "uid": "f", "resourceVersion": "5", "generation": 1},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": 1, "task": {"pod": {"spec": {
            "containers": [{"name": "main", "image": "x"}],
        }}}}], "retryPolicy": {"maxRetryCount": -2}},
        "status": status,
    });
    let is_frameworks = uri.contains("/frameworks?");
    list_of(if is_frameworks { std::slice::from_ref(&framework) } else { &[] })
}

fn list_of(items: &[Value]) -> Value {
    json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": items})
}

/// The written object in a version of its own, with a UID if it is new.
fn accepted(body: &[u8], version: usize) -> Result<Value, BoxError> {
    let mut object: Value = serde_json::from_slice(body)?;
    let metadata = &mut object["metadata"];
    metadata["resourceVersion"] = version.to_string().into();
    if metadata["uid"].is_null() {
        metadata["uid"] = format!("u{version}").into();
    }
    Ok(object)
}

/// A journal that takes lines, or does not.
#[derive(Debug, Default)]
struct Kept {
    manner: Mutex<Manner>,
    lines: Mutex<Vec<Line>>,
    /// Receipts that are never confirmed.
    silent: Mutex<Vec<tokio::sync::oneshot::Sender<()>>>,
    oldest: Mutex<Option<Duration>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Manner {
    #[default]
    Writes,
    IsBlocked,
    IsFull,
}

impl Journal for Kept {
    fn append(&self, lines: Vec<Line>, _: jiff::Timestamp) -> Result<Receipt, Full> {
        let manner = *self.manner.lock().unwrap();
        if manner == Manner::IsFull {
            return Err(Full);
        }
        self.lines.lock().unwrap().extend(lines);
        if manner == Manner::Writes {
            return Ok(Receipt::Written);
        }
        let (sender, receipt) = tokio::sync::oneshot::channel();
        self.silent.lock().unwrap().push(sender);
        Ok(Receipt::Pending(receipt))
    }

    fn oldest(&self) -> Option<Duration> {
        *self.oldest.lock().unwrap()
    }
}

/// The status of a Framework whose attempt is completed, so that it is to be retried.
fn completed() -> Value {
    let at = "2025-12-31T00:00:00Z";
    let end =
        json!({"code": 7, "phrase": "p", "type": {"name": "Failed", "attributes": []}, "diagnostics": ""});
    json!({
        "startTime": at, "state": "AttemptCompleted", "transitionTime": at,
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0},
        "attemptStatus": {
            "id": 0, "startTime": at, "completionTime": at, "configMapName": "job-attempt",
            "completionStatus": end, "taskRoleStatuses": [],
        },
    })
}

struct Stage {
    journal: Arc<Kept>,
    status: Value,
    /// The QueueUnit that is listed, if it is not null.
    unit: Value,
    asked: Asked,
    clock: Clock,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    writes: Writes,
    /// The plural of the kind of which no LIST can be read.
    unreadable: &'static str,
}

impl Stage {
    fn new(writes: Writes) -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let health = Arc::new(Health::new(clock));
        let (journal, asked) = (Arc::default(), Asked::default());
        let (status, unit, metrics) = (Value::Null, Value::Null, Metrics::new());
        Stage { journal, status, unit, asked, clock, health, metrics, writes, unreadable: "none" }
    }

    /// Runs a controller that is stopped after a while.
    async fn run(&self, stop_after: Duration) -> Result<(), Error> {
        run(self.parts(stop_after)).await
    }

    fn parts(&self, stop_after: Duration) -> Parts {
        let stored = [self.status.clone(), self.unit.clone()];
        Parts {
            client: server(&self.asked, self.clock, self.writes, stored, self.unreadable),
            settings: EngineSettings::default(),
            policy: Arc::new(Policy::new(Classifier::new(&[]).unwrap())),
            clock: self.clock,
            seeds: Seeds::fixed(7),
            metrics: Arc::clone(&self.metrics),
            health: Arc::clone(&self.health),
            journal: Arc::clone(&self.journal) as Arc<dyn Journal>,
            span_exporter: None,
            instance: "fc-0".to_owned(),
            namespace: None,
            job_kinds: Vec::new(),
            queries: Queries {
                positions: crate::position_query::PositionClient::new().1,
                shards: crate::shards_query::ShardsClient::new().1,
            },
            member: None,
            stop: tokio::time::sleep(stop_after).boxed(),
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_framework_that_is_listed_gets_its_status_and_its_config_map() {
    let stage = Stage::new(Writes::Accepted);
    stage.run(Duration::from_secs(10)).await.unwrap();
    let asked = stage.asked();
    let place = |words: &str| asked.iter().position(|line| line.contains(words)).expect(words);
    let status = place("PUT /apis/frameworkcontroller.microsoft.com/v1/namespaces/ns/frameworks/job/status");
    let map = place("POST /api/v1/namespaces/ns/configmaps");
    assert!(place("GET /api/v1/pods?") < map, "nothing is done before all is listed\n{asked:#?}");
    assert!(map < status, "the first status records the ConfigMap\n{asked:#?}");
    assert!(
        stage.metrics.text(Clock::system().now()).contains("frameworkcontroller_frameworks{state="),
        "the gauges are taken"
    );
}

/// The reason why a controller with queues is not ready after some time.
async fn not_ready_with_queues(unreadable: &'static str) -> Option<String> {
    let stage = Stage { unreadable, ..Stage::new(Writes::Accepted) };
    let mut parts = stage.parts(Duration::ZERO);
    Arc::make_mut(&mut parts.policy).queueing = true;
    parts.job_kinds = framework_api::job_kind::built_in();
    let (health, seen) = (Arc::clone(&stage.health), Arc::new(Mutex::new(None)));
    let kept = Arc::clone(&seen);
    parts.stop = async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        *kept.lock().unwrap() = health.not_ready();
    }
    .boxed();
    run(parts).await.unwrap();
    seen.lock().unwrap().take()
}

#[tokio::test(start_paused = true)]
async fn it_is_ready_once_each_kind_of_queueing_is_listed_that_is_served() {
    assert_eq!(not_ready_with_queues("none").await, None, "JobSets are not served");
    for (plural, missing) in [
        ("priorityclasses", "priorityclasses"),
        ("queues", "queues, resourcequotas, priorityclasses"),
        ("queueunits", "queueunits, queues, resourcequotas, priorityclasses"),
    ] {
        assert_eq!(not_ready_with_queues(plural).await.unwrap(), format!("not listed yet: {missing}"));
    }
}

/// The engine reports the Framework because the unit names it: it is in no queue, and is not read.
#[tokio::test(start_paused = true)]
async fn a_unit_by_hand_is_returned_when_its_framework_has_ended() {
    let (group, at) = ("frameworkcontroller.microsoft.com", "2025-12-31T00:00:00Z");
    let consumer =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Framework", "name": "job", "uid": "f"});
    let unit = json!({
        "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit",
        "metadata": {"name": "mine", "namespace": "ns", "uid": "u", "resourceVersion": "6"},
        "spec": {"consumerRef": consumer, "queue": "q", "resource": {"pods": 1}},
        "status": {"phase": "Dequeued"},
    });
    let mut status = completed();
    status["state"] = "Completed".into();
    status["completionTime"] = at.into();
    let stage = Stage { status, unit, ..Stage::new(Writes::Accepted) };
    let mut parts = stage.parts(Duration::from_secs(10));
    Arc::make_mut(&mut parts.policy).queueing = true;
    parts.job_kinds = framework_api::job_kind::built_in();
    run(parts).await.unwrap();
    let asked = stage.asked();
    let patch = "PATCH /apis/queue.k8s.io/v1alpha1/namespaces/ns/queueunits/mine";
    let held = format!(r#""{group}/held":"{{}}""#);
    let returns = asked.iter().filter(|line| line.contains(patch) && line.contains(&held));
    assert_eq!(returns.count(), 1, "{asked:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_controller_does_nothing_and_stops_at_once() {
    let stage = Stage::new(Writes::Accepted);
    let begun = stage.clock.now().steady;
    stage.run(Duration::from_secs(100)).await.unwrap();
    let after = stage.clock.now().steady - begun - Duration::from_secs(100);
    assert!(after <= FLUSH, "{after:?}");
    assert_eq!(stage.health.not_ready().unwrap(), "stopping");
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_unanswered_requests_no_longer_than_they_live() {
    let stage = Stage::new(Writes::Unanswered);
    // The create of the ConfigMap has just left.
    stage.run(Duration::from_millis(500)).await.unwrap();
    let asked = stage.asked();
    assert!(asked.iter().any(|line| line.contains("POST")), "{asked:#?}");
    let stopped = stage.clock.now().steady;
    let limit = Duration::from_millis(500) + REQUEST_LIFETIME + FLUSH;
    assert!(stopped <= limit, "{stopped:?}");
}

#[test]
fn a_run_replays_from_its_seed() {
    let trace = || {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let stage = Stage::new(Writes::Accepted);
            stage.run(Duration::from_secs(400)).await.unwrap();
            stage.asked()
        })
    };
    let first = trace();
    assert!(first.len() > 6, "{first:#?}");
    assert_eq!(first, trace());
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_written_only_after_its_history_is() {
    for manner in [Manner::Writes, Manner::IsBlocked, Manner::IsFull] {
        let stage = Stage { status: completed(), ..Stage::new(Writes::Accepted) };
        *stage.journal.manner.lock().unwrap() = manner;
        stage.run(Duration::from_secs(100)).await.unwrap();
        let asked = stage.asked();
        let written = asked.iter().any(|line| line.contains("PUT "));
        assert_eq!(written, manner == Manner::Writes, "{manner:?}: {asked:#?}");
        let lines = stage.journal.lines.lock().unwrap();
        match manner {
            Manner::Writes => assert_eq!(lines.len(), 1),
            Manner::IsBlocked => assert_eq!(lines.len(), 1, "it is not queued again"),
            Manner::IsFull => assert!(lines.is_empty()),
        }
        let metrics = stage.metrics.text(Clock::system().now());
        let mut dropped = metrics.lines().filter(|line| line.contains("_snapshots_dropped_total{"));
        assert!(dropped.all(|line| line.ends_with(" 0")), "history that waits with its request is not lost");
    }
}

#[tokio::test(start_paused = true)]
async fn gauges_and_queries_have_their_turn_between_two_batches_of_events() {
    let stage = Stage::new(Writes::Accepted);
    let (client, positions) = crate::position_query::PositionClient::new();
    let mut parts = stage.parts(Duration::from_secs(1));
    parts.queries.positions = positions;
    Arc::make_mut(&mut parts.policy).queueing = true;
    parts.job_kinds = framework_api::job_kind::built_in();
    let mut position_queries = queueing::position_queries(&mut parts);
    let (recorder, _writer) =
        Recorder::new(parts.client.clone(), parts.clock, "fc-0", Arc::clone(&parts.metrics));
    let mut controller = Controller::new(parts, recorder, Arc::default(), None, Ownership::default());
    let query = tokio::spawn(async move { client.ask(Key::new("ns", "unit")).await });
    tokio::task::yield_now().await;
    controller.turn(Vec::new().drain(..));
    tokio::time::advance(MEASURE).await;
    controller.attend(&mut position_queries);
    assert!(controller.measure_at.is_none(), "the gauges were taken");
    assert!(query.await.unwrap().is_ok(), "the query was answered");
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_line_of_the_log_is_measured_until_none_waits() {
    let stage = Stage::new(Writes::Accepted);
    let parts = stage.parts(Duration::from_secs(1));
    let (recorder, _writer) =
        Recorder::new(parts.client.clone(), parts.clock, "fc-0", Arc::clone(&parts.metrics));
    let mut controller = Controller::new(parts, recorder, Arc::default(), None, Ownership::default());
    for (oldest, text) in [(Some(7), "7"), (Some(12), "12"), (None, "0")] {
        *stage.journal.oldest.lock().unwrap() = oldest.map(Duration::from_secs);
        controller.measure();
        assert_eq!(controller.measure_at.is_some(), oldest.is_some(), "no event is awaited");
        let (metrics, line) = (stage.metrics.text(stage.clock.now()), "oldest_log_line_age_seconds");
        assert!(metrics.contains(&format!("frameworkcontroller_{line} {text}\n")), "{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn history_that_nothing_waits_for_is_counted_when_it_is_dropped() {
    let stage = Stage::new(Writes::Accepted);
    *stage.journal.manner.lock().unwrap() = Manner::IsFull;
    let parts = stage.parts(Duration::from_secs(1));
    let (recorder, _writer) =
        Recorder::new(parts.client.clone(), parts.clock, "fc-0", Arc::clone(&parts.metrics));
    let mut controller = Controller::new(parts, recorder, Arc::default(), None, Ownership::default());
    let (key, uid) = (Key::new("ns", "job"), "f".into());
    let lines = vec![Line::Unreadable { key, uid, resource_version: 7 }];
    controller.perform(Effect::WriteHistory { lines: lines.clone(), before: None });
    let count = |metric: &str| {
        let line = format!("frameworkcontroller_{metric}{{trigger=\"OnFrameworkDeletion\"}} 1");
        stage.metrics.text(Clock::system().now()).contains(&line)
    };
    assert!(count("snapshots_dropped_total") && !count("snapshots_total"));
    *stage.journal.manner.lock().unwrap() = Manner::Writes;
    controller.perform(Effect::WriteHistory { lines, before: None });
    assert!(count("snapshots_total"));
}
