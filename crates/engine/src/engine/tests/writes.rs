//! The status write: one at a time, never over a foreign one, and few for many events.

use std::time::Duration;

use framework_api::State;

use super::cluster::{Cluster, generous, not_found, policy, refusal};
use crate::engine::EngineSettings;
use crate::object::{Object, Reply};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn one_write_is_in_flight_at_a_time_despite_edits() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 2);
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.waiting(), ["put job AttemptCreationPending"]);
    for tasks in [3, 4, 5] {
        cluster.scale("job", tasks);
        cluster.deliver();
        cluster.pass(SECOND);
    }
    assert_eq!(cluster.waiting(), ["put job AttemptCreationPending"]);
    // It conflicts with the edits, which the watch has shown: no GET is needed.
    cluster.serve("put");
    cluster.turn();
    assert_eq!(cluster.waiting(), ["put job AttemptCreationPending"]);
    cluster.serve("put");
    assert_eq!(cluster.status("job").task_roles()[0].task_statuses.len(), 5);
}

/// A large Framework is not evaluated event by event. Without this rule, a write that waits for the budget
/// would be sent for a version that it was not computed from. The API server would not refuse it.
#[test]
fn a_write_that_waits_for_the_budget_is_recomputed_for_a_new_version() {
    let mut cluster = Cluster::with(policy(), EngineSettings { max_in_flight: 1, ..generous() });
    cluster.create_held("other", 1);
    cluster.deliver();
    cluster.turn();
    cluster.create_held("job", 500);
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.waiting(), ["put other AttemptCreationPending"]);
    cluster.scale("job", 400);
    cluster.deliver();
    cluster.serve("put other");
    cluster.turn();
    while cluster.count("put job") == 0 {
        cluster.serve_all();
        cluster.pass(Duration::from_millis(10));
    }
    cluster.serve("put job");
    assert_eq!(cluster.status("job").task_roles()[0].task_statuses.len(), 400);
}

#[test]
fn a_burst_of_pod_events_costs_few_writes() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 50);
    cluster.deliver();
    cluster.live(SECOND * 2);
    cluster.log.clear();
    for index in 0..50 {
        cluster.run_pod(&format!("job-w-{index}"));
        cluster.deliver();
        cluster.live(Duration::from_millis(2));
    }
    cluster.live(SECOND * 2);
    let tasks = &cluster.status("job").task_roles()[0].task_statuses.clone();
    assert!(tasks.iter().all(|task| task.state == State::AttemptRunning));
    // One when the Framework starts to run, one for the rest.
    assert!(cluster.count("put") <= 2, "{:?}", cluster.log);
}

/// Whether a Framework waits to be evaluated as soon as possible.
fn is_stirred(cluster: &Cluster) -> bool {
    cluster.engine.gauges().oldest_event.is_some()
}

#[test]
fn news_that_can_wait_is_evaluated_with_the_write_that_records_it() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 3);
    cluster.deliver();
    cluster.live(SECOND * 2);
    cluster.log.clear();
    cluster.run_pod("job-w-0");
    cluster.deliver();
    assert!(!is_stirred(&cluster), "a Pod that starts to run is only recorded");
    cluster.turn();
    assert_eq!(cluster.count("put"), 0, "more may follow");
    cluster.live(SECOND);
    assert_eq!(cluster.status("job").task_roles()[0].task_statuses[0].state, State::AttemptRunning);
    assert_eq!(cluster.count("put"), 1, "{:?}", cluster.log);
    cluster.exit("job-w-0", 1);
    cluster.deliver();
    assert!(is_stirred(&cluster), "for one that ends something is to be done");
}

/// A user edits the spec while a write is in flight, and the watch lags: the write conflicts.
fn conflict(policy: framework_core::Policy) -> Cluster {
    let mut cluster = Cluster::new(policy);
    cluster.create_held("job", 2);
    cluster.deliver();
    cluster.turn();
    cluster.scale("job", 5);
    cluster.serve("put");
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting(), ["get job"]);
    cluster.serve("get");
    cluster.turn();
    cluster
}

#[test]
fn a_conflict_that_the_watch_explains_is_not_read() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 2);
    cluster.deliver();
    cluster.turn();
    for tasks in [5, 7] {
        cluster.scale("job", tasks);
        cluster.serve("put");
        cluster.pass(Duration::from_millis(100));
        assert!(cluster.waiting().is_empty(), "the watch is waited for: {:?}", cluster.waiting());
        cluster.deliver();
        cluster.turn();
        assert_eq!(cluster.waiting(), ["put job AttemptCreationPending"], "at once");
    }
    cluster.serve("put");
    assert_eq!(cluster.status("job").task_roles()[0].task_statuses.len(), 7);
    assert_eq!(cluster.count("get"), 0, "{:?}", cluster.log);
}

#[test]
fn a_conflict_is_read_and_decided_again() {
    let mut cluster = conflict(policy());
    cluster.serve("put");
    assert_eq!(cluster.status("job").task_roles()[0].task_statuses.len(), 5);
    cluster.start("job");
    cluster.live(SECOND);
    assert_eq!(cluster.pods.len(), 5);
}

#[test]
fn without_the_rule_a_conflict_is_overwritten() {
    let mut cluster = conflict(super::cluster::lacking(framework_core::Defect::OverwriteOnConflict));
    cluster.serve("put");
    let tasks = cluster.status("job").task_roles()[0].task_statuses.len();
    assert_eq!(tasks, 2);
}

#[test]
fn a_write_without_a_reply_is_read_before_anything_is_decided() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.serve_silently("put");
    cluster.turn();
    assert!(cluster.open.is_empty(), "the watch may show it soon");
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting(), ["get job"]);
    cluster.serve("get");
    cluster.start("job");
    assert_eq!(cluster.waiting(), ["create map job"], "what was written is what is persisted");
}

#[test]
fn a_write_that_never_arrived_is_written_again() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.answer("put", Reply::Unknown("reset".into()));
    cluster.pass(SECOND);
    cluster.serve("get");
    cluster.turn();
    assert_eq!(cluster.waiting(), ["put job AttemptCreationPending"]);
    cluster.serve("put");
    cluster.start("job");
    assert_eq!(cluster.waiting(), ["create map job"]);
}

#[test]
fn reports_wait_until_their_status_is_persisted() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    let done = "put job Completed";
    while !cluster.waiting().iter().any(|line| line == done) {
        cluster.pass(Duration::from_millis(100));
        if !cluster.waiting().iter().any(|line| line == done) {
            cluster.serve_all();
            cluster.deliver();
        }
    }
    let is_reported =
        |cluster: &Cluster| cluster.heard.reports.iter().any(|report| report.reason == "Succeeded");
    assert!(!is_reported(&cluster));
    // Even if the reply is lost: the read shows that it came through.
    cluster.serve_silently("put");
    cluster.pass(SECOND);
    assert!(!is_reported(&cluster));
    cluster.serve("get");
    cluster.turn();
    assert!(is_reported(&cluster));
}

#[test]
fn a_status_that_is_refused_is_tried_again_later_and_said_so() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.answer("put", refusal(422, "Invalid", "status.state: unsupported"));
    cluster.turn();
    assert!(cluster.open.is_empty());
    assert_eq!(cluster.heard.reports.iter().filter(|report| report.reason == "StatusRefused").count(), 1);
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting().len(), 1);
    cluster.answer("put", refusal(413, "RequestEntityTooLarge", "too large"));
    cluster.pass(SECOND);
    assert!(cluster.open.is_empty(), "the second wait is longer");
}

#[test]
fn a_status_that_is_forbidden_for_long_is_reported() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    for refusals in 1..=5_usize {
        cluster.answer("put", refusal(403, "Forbidden", "denied the request"));
        cluster.pass(SECOND * 60);
        let reports = cluster.heard.reports.iter().filter(|report| report.reason == "StatusRefused");
        assert_eq!(reports.count(), refusals.saturating_sub(3), "the first ones may pass");
    }
}

#[test]
fn a_status_whose_outcome_stays_unknown_is_reported() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    for failures in 1..=5_usize {
        // A proxy gets no answer in time, and nothing is stored.
        cluster.answer("put", Reply::Unknown("Bad Gateway (502)".into()));
        cluster.pass(SECOND * 60);
        cluster.serve("get");
        cluster.turn();
        let reports = cluster.heard.reports.iter().filter(|report| report.reason == "StatusRefused");
        assert_eq!(reports.clone().count(), failures.saturating_sub(3), "the first ones may pass");
        assert!(reports.clone().all(|report| report.note.ends_with("again: Bad Gateway (502)")));
    }
    cluster.serve("put");
    cluster.start("job");
    assert_eq!(cluster.waiting(), ["create map job"], "once it is stored, the Framework goes on");
}

#[test]
fn a_status_that_is_accepted_and_not_stored_is_tried_rarely() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    for undone in 1..=5_usize {
        // A webhook has undone the change: the version is the one of before.
        let before = cluster.frameworks["job"].clone();
        cluster.answer("put", Reply::Object(Object::Framework(before)));
        cluster.pass(SECOND * 7 / 10);
        assert!(cluster.open.is_empty(), "{:?}", cluster.waiting());
        cluster.pass(SECOND * 60);
        assert_eq!(cluster.waiting(), ["put job AttemptCreationPending"]);
        let reports = cluster.heard.reports.iter().filter(|report| report.reason == "StatusRefused");
        assert_eq!(reports.count(), undone.saturating_sub(3), "the first ones may pass");
    }
    cluster.serve("put");
    cluster.start("job");
    assert_eq!(cluster.waiting(), ["create map job"], "once it is stored, the Framework goes on");
}

#[test]
fn a_framework_gone_by_a_reply_is_left_alone_until_the_watch_shows_it() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    cluster.exit("job-w-0", 1);
    cluster.deliver();
    cluster.pass(SECOND);
    cluster.answer("put", not_found());
    cluster.exit("job-w-1", 1);
    cluster.deliver();
    cluster.pass(SECOND * 100);
    assert!(cluster.open.is_empty(), "{:?}", cluster.waiting());
    // The watch shows that it is there after all.
    cluster.scale("job", 3);
    cluster.deliver();
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting().len(), 1);
}

#[test]
fn a_write_that_did_not_leave_is_sent_again_soon() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.answer("put", Reply::NotSent("connection refused".into()));
    cluster.pass(Duration::from_millis(60));
    assert_eq!(cluster.waiting(), ["put job AttemptCreationPending"]);
}

#[test]
fn a_refusal_after_an_outage_is_tried_again_soon() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    for _ in 0..8 {
        cluster.answer("put", Reply::NotSent("connection refused".into()));
        cluster.pass(Duration::from_secs(11));
    }
    cluster.answer("put", refusal(403, "Forbidden", "the API server has just started"));
    cluster.pass(Duration::from_millis(1100));
    assert_eq!(cluster.waiting(), ["put job AttemptCreationPending"]);
}
