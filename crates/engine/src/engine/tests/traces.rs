//! The trace of a Framework's life.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_api::{Framework, FrameworkStatus};

use super::cluster::{Cluster, generous, policy};
use crate::engine::EngineSettings;
use crate::event::Event;
use crate::traces::{Sampling, Span, Value, ended};
use framework_message::Change;

const SECOND: Duration = Duration::from_secs(1);
const UID: &str = "1f0c77e2-0000-4000-8000-0000000000ff";

fn traced(per_million: u32) -> Cluster {
    Cluster::with(policy(), EngineSettings { traces: Some(Sampling(per_million)), ..generous() })
}

/// A Framework with a UID as the API server makes it, some retries of it and one of each Task. Its Pods run.
fn running(cluster: &mut Cluster, tasks: i32, retries: i32) {
    cluster.create_framework("job", tasks);
    let object = cluster.frameworks.get_mut("job").unwrap();
    object.uid = UID.into();
    let framework = std::sync::Arc::make_mut(&mut object.content.as_mut().unwrap().0);
    framework.metadata.uid = Some(UID.to_owned());
    framework.spec.retry_policy.max_retry_count = retries;
    framework.spec.task_roles[0].task.retry_policy.max_retry_count = 1;
    let object = object.clone();
    cluster.watch.clear();
    cluster.watch.push_back(Event::Framework(Change::Applied(object)));
    cluster.deliver();
    cluster.live(SECOND * 2);
    run(cluster, &(0..tasks).collect::<Vec<_>>());
}

fn run(cluster: &mut Cluster, tasks: &[i32]) {
    tasks.iter().for_each(|index| cluster.run_pod(&format!("job-w-{index}")));
    cluster.deliver();
    cluster.live(SECOND * 2);
}

fn exit(cluster: &mut Cluster, task: i32, code: i32) {
    cluster.exit(&format!("job-w-{task}"), code);
    cluster.deliver();
    cluster.live(SECOND * 3);
}

/// The spans, each as name, name of its parent, and failure. Asserts that each was made once and is well
/// formed.
fn rendered(cluster: &Cluster) -> Vec<(&str, &str, Option<&str>)> {
    let spans = &cluster.heard.spans;
    let by_id: BTreeMap<u64, &Span> = spans.iter().map(|span| (span.id, span)).collect();
    assert_eq!(by_id.len(), spans.len(), "a span was reported twice: {spans:#?}");
    let trace = u128::from_str_radix(&UID.replace('-', ""), 16).unwrap();
    assert!(spans.iter().all(|span| span.trace == trace && span.start <= span.end), "{spans:#?}");
    let parent = |span: &Span| span.parent.map_or("", |parent| by_id.get(&parent).map_or("?", |of| &of.name));
    spans.iter().map(|span| (span.name.as_str(), parent(span), span.failure.as_deref())).collect()
}

const TASK: &str = "TaskAttempt w";
const ATTEMPT: &str = "FrameworkAttempt";
const LIFE: &str = "Framework";
const FAILED: Option<&str> = Some("ContainerUnrecognizedFailed");

#[test]
fn the_spans_of_a_life_are_its_attempts_and_those_of_its_tasks() {
    let mut cluster = traced(1_000_000);
    running(&mut cluster, 2, 0);
    exit(&mut cluster, 1, 1);
    run(&mut cluster, &[1]);
    assert_eq!(rendered(&cluster), [(TASK, "?", FAILED)], "its attempt is yet to end");
    exit(&mut cluster, 0, 0);
    exit(&mut cluster, 1, 0);
    let expected = [(TASK, ATTEMPT, FAILED), (TASK, ATTEMPT, None), (TASK, ATTEMPT, None)];
    assert_eq!(rendered(&cluster), [&expected[..], &[(ATTEMPT, LIFE, None), (LIFE, "", None)]].concat());
    assert!(cluster.heard.spans.iter().all(|span| span.ran.is_some_and(|ran| ran >= span.start)));
    let first = &cluster.heard.spans[0].attributes;
    for attribute in [
        ("k8s.namespace.name", Value::Text("ns".into())),
        ("framework.name", Value::Text("job".into())),
        ("framework.task.index", Value::Number(1)),
        ("framework.task.attempt.id", Value::Number(0)),
        ("framework.completion.code", Value::Number(1)),
        ("k8s.pod.name", Value::Text("job-w-1".into())),
    ] {
        assert!(first.contains(&attribute), "{attribute:?} in {first:?}");
    }
}

#[test]
fn a_retried_framework_has_a_span_for_each_attempt() {
    let mut cluster = traced(1_000_000);
    running(&mut cluster, 1, 1);
    for _ in 0..2 {
        exit(&mut cluster, 0, 1);
        run(&mut cluster, &[0]);
    }
    exit(&mut cluster, 0, 0);
    let (of_first, second) = ([(TASK, ATTEMPT, FAILED); 2], (TASK, ATTEMPT, None));
    let ends = [(ATTEMPT, LIFE, FAILED), second, (ATTEMPT, LIFE, None), (LIFE, "", None)];
    assert_eq!(rendered(&cluster), [&of_first[..], &ends].concat());
}

/// The Framework, and its status now.
fn stored(cluster: &Cluster) -> (Arc<Framework>, Arc<FrameworkStatus>) {
    let (framework, status) = cluster.frameworks["job"].content.as_ref().unwrap();
    (Arc::clone(framework), Arc::clone(status.as_ref().unwrap()))
}

#[test]
fn versions_no_watch_showed_change_no_span_and_an_end_is_reported_once() {
    let mut cluster = traced(1_000_000);
    running(&mut cluster, 1, 1);
    let (framework, first) = stored(&cluster);
    exit(&mut cluster, 0, 1);
    run(&mut cluster, &[0]);
    exit(&mut cluster, 0, 1);
    run(&mut cluster, &[0]);
    let (_, retried) = stored(&cluster);
    assert_eq!((first.attempt_status.id, retried.attempt_status.id), (0, 1));
    let end = retried.attempt_status.start_time;
    let names = |spans: &[Span]| spans.iter().map(|span| span.name.clone()).collect::<Vec<_>>();
    let between = |before, after| ended(Sampling(1_000_000), &framework, before, after, end);
    let spans = between(&first, &retried);
    assert_eq!(names(&spans), [TASK, ATTEMPT]);
    // The attempt that ended is the first one: the cluster reported its span, too.
    let reported = cluster.heard.spans.iter().find(|span| span.name == ATTEMPT).unwrap();
    assert_eq!((spans[1].id, spans[1].start), (reported.id, reported.start));
    exit(&mut cluster, 0, 0);
    let (_, completed) = stored(&cluster);
    assert_eq!(names(&between(&retried, &completed)), [TASK, ATTEMPT, LIFE]);
    assert_eq!(names(&between(&completed, &completed)), Vec::<String>::new());
    let spans = cluster.heard.spans.len();
    cluster.delete_framework("job");
    cluster.deliver();
    cluster.live(SECOND * 3);
    assert_eq!(cluster.heard.spans.len(), spans, "its end was reported before it was deleted");
}

#[test]
fn a_task_that_is_removed_or_whose_framework_is_deleted_is_cut_off() {
    let mut cluster = traced(1_000_000);
    running(&mut cluster, 2, 0);
    cluster.scale("job", 1);
    cluster.deliver();
    cluster.live(SECOND * 3);
    assert_eq!(rendered(&cluster).len(), 1);
    assert!(rendered(&cluster)[0].2.is_some(), "{:?}", rendered(&cluster));
    cluster.delete_framework("job");
    cluster.deliver();
    cluster.live(SECOND * 3);
    let deleted = Some("the Framework was deleted");
    assert_eq!(
        rendered(&cluster)[1..],
        [
            (TASK, ATTEMPT, Some("the attempt of the Framework ended")),
            (ATTEMPT, LIFE, deleted),
            (LIFE, "", deleted)
        ]
    );
}

#[test]
fn a_framework_that_is_not_sampled_and_a_status_read_first_have_no_spans() {
    let mut cluster = traced(0);
    running(&mut cluster, 1, 0);
    exit(&mut cluster, 0, 0);
    assert_eq!(rendered(&cluster), []);
    let mut cluster = traced(1_000_000);
    running(&mut cluster, 1, 0);
    exit(&mut cluster, 0, 0);
    let spans = cluster.heard.spans.len();
    // A replica that begins reads the end of the life, and its predecessor reported it.
    cluster.engine = crate::engine::Engine::new(generous(), std::sync::Arc::new(policy()));
    cluster.list_objects();
    cluster.live(SECOND);
    assert_eq!(cluster.heard.spans.len(), spans);
}
