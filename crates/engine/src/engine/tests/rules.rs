//! The rules that close known interleavings: each holds, and without it the same interleaving goes wrong.

use std::time::Duration;

use framework_api::State;
use framework_core::{Defect, Policy};

use super::cluster::{Cluster, generous, lacking, policy};
use crate::engine::EngineSettings;

const SECOND: Duration = Duration::from_secs(1);

/// Rule A1: a scale-down while the POST of the removed Task is in flight. Returns whether a status that ends
/// the Task was written before that POST settled.
fn scale_down_overtakes_a_create(policy: Policy) -> bool {
    let mut cluster = Cluster::new(policy);
    cluster.creating("job", 2);
    assert_eq!(cluster.waiting(), ["create job-w-0", "create job-w-1"]);
    cluster.scale("job", 1);
    cluster.deliver();
    cluster.pass(SECOND);
    let overtaken = cluster.waiting().iter().any(|line| line.starts_with("put"));
    if !overtaken {
        // Once it has settled, the Pod is recorded and deleted, and the Task is removed.
        cluster.serve("create job-w-1");
        cluster.serve("create job-w-0");
        cluster.deliver();
        cluster.live(SECOND * 3);
        assert_eq!(cluster.pods.keys().collect::<Vec<_>>(), ["job-w-0"]);
        assert_eq!(cluster.status("job").task_roles()[0].task_statuses.len(), 1);
    }
    overtaken
}

#[test]
fn a_status_waits_for_the_creates_whose_permission_it_withdraws() {
    assert!(!scale_down_overtakes_a_create(policy()));
    assert!(scale_down_overtakes_a_create(lacking(Defect::SendUnpermitted)));
}

/// Rule A1: a create waits in the queue while a status that withdraws its permission is in flight. Returns
/// whether the create is sent then.
fn queued_create_leaves_without_permission(policy: Policy) -> bool {
    let settings = EngineSettings { qps: 1.0, burst: 1, ..generous() };
    let mut cluster = Cluster::with(policy, settings);
    cluster.creating("job", 20);
    cluster.serve("create job-w-0");
    cluster.exit("job-w-0", 1);
    cluster.deliver();
    // One Task failed: as soon as that is persisted, the attempt ends.
    let ending = "put job AttemptDeletionPending";
    while !cluster.waiting().iter().any(|line| line == ending) {
        cluster.serve_all();
        cluster.deliver();
        cluster.pass(SECOND);
    }
    cluster.log.clear();
    cluster.pass(SECOND * 5);
    cluster.count("create") > 0
}

#[test]
fn no_create_is_sent_during_a_write_that_withdraws_its_permission() {
    assert!(!queued_create_leaves_without_permission(policy()));
    assert!(queued_create_leaves_without_permission(lacking(Defect::SendUnpermitted)));
}

#[test]
fn a_create_needs_the_permission_of_a_status_of_unknown_outcome_too() {
    let mut cluster = Cluster::with(policy(), EngineSettings { max_in_flight: 2, ..generous() });
    cluster.creating("job", 3);
    cluster.scale("job", 2);
    cluster.deliver();
    cluster.pass(SECOND);
    cluster.serve("create job-w-0");
    cluster.turn();
    // The status without Task 2 is lost, or late; and the user wants the Task again.
    cluster.answer("put", crate::object::Reply::Unknown("reset".into()));
    cluster.scale("job", 3);
    cluster.turn();
    cluster.serve("create job-w-1");
    cluster.turn();
    assert_eq!(cluster.count("create job-w-2"), 0, "{:?}", cluster.log);
    // The watch shows a newer version: the old write has no effect any more.
    cluster.deliver();
    cluster.serve_all();
    cluster.live(SECOND * 2);
    assert_eq!(cluster.count("create job-w-2"), 1, "{:?}", cluster.log);
}

/// Rule A2: the watch shows our Pod before the reply to its POST. Returns whether the Pod is deleted as an
/// orphan.
fn pod_shown_before_its_reply_is_deleted(policy: Policy) -> bool {
    let mut cluster = Cluster::new(policy);
    cluster.creating("job", 1);
    let request = cluster.open[&cluster.ticket("create job-w-0")].clone();
    let reply = cluster.perform(&request);
    cluster.deliver();
    cluster.pass(SECOND);
    if cluster.count("delete job-w-0") > 0 {
        return true;
    }
    cluster.answer("create job-w-0", reply);
    cluster.live(SECOND);
    assert_eq!(cluster.count("create job-w-0"), 1);
    let recorded = cluster.status("job").task_roles()[0].task_statuses[0].attempt_status.pod_uid.clone();
    assert_eq!(recorded.as_ref(), Some(&cluster.pods["job-w-0"].facts.uid));
    false
}

#[test]
fn a_pod_that_the_watch_shows_before_its_reply_is_no_orphan() {
    assert!(!pod_shown_before_its_reply_is_deleted(policy()));
    assert!(pod_shown_before_its_reply_is_deleted(lacking(Defect::ForgetInFlight)));
}

/// Rule A3: a scale-up that the watch has not shown is read after a conflict. Returns the number of Tasks
/// that run in the end.
fn tasks_after_a_scale_up_that_was_read(policy: Policy) -> usize {
    let mut cluster = Cluster::new(policy);
    cluster.running("job", 1);
    cluster.change_pod("job-w-0", |pod| pod.pod_ip = "10.0.0.1".into());
    cluster.deliver();
    cluster.scale("job", 3);
    cluster.pass(SECOND);
    cluster.serve("put");
    cluster.pass(SECOND);
    cluster.serve("get");
    cluster.deliver();
    cluster.live(SECOND * 2);
    cluster.pods.len()
}

#[test]
fn spec_and_status_come_from_one_version() {
    assert_eq!(tasks_after_a_scale_up_that_was_read(policy()), 3);
    let mixed = tasks_after_a_scale_up_that_was_read(lacking(Defect::MixVersions));
    assert_eq!(mixed, 1);
}

/// Rule A6: a user removes the slot label from a running Pod. Returns whether its Task counts as ended.
fn task_of_a_pod_without_label_ends(policy: Policy) -> bool {
    let mut cluster = Cluster::new(policy);
    cluster.running("job", 2);
    cluster.strip_label("job-w-0");
    cluster.deliver();
    cluster.pass(SECOND);
    cluster.live(SECOND * 2);
    let task = cluster.status("job").task_roles()[0].task_statuses[0].clone();
    let ended = task.state != State::AttemptRunning;
    if !ended {
        assert_eq!(cluster.log, ["confirm job-w-0", "label job-w-0"]);
        assert_eq!(cluster.pods["job-w-0"].label, cluster.slot("job"));
    }
    ended
}

#[test]
fn a_pod_that_lost_its_label_is_found_alive_and_gets_it_back() {
    assert!(!task_of_a_pod_without_label_ends(policy()));
    assert!(task_of_a_pod_without_label_ends(lacking(Defect::TrustDisappearance)));
}

/// Rule A7: many Tasks, and no status write succeeds. Returns the number of POSTs in flight.
fn creates_without_a_record(policy: Policy) -> usize {
    let mut cluster = Cluster::new(Policy { expectations_limit: 4, ..policy });
    cluster.creating("job", 10);
    // Replies do not help: acknowledged creates are not recorded yet.
    for wanted in cluster.waiting() {
        cluster.serve(&wanted);
    }
    cluster.turn();
    let sent = cluster.count("create job-w");
    cluster.serve_all();
    cluster.deliver();
    cluster.live(SECOND * 3);
    assert_eq!(cluster.pods.len(), 10, "in the end all are created");
    sent
}

#[test]
fn creates_pause_until_created_pods_are_recorded() {
    assert_eq!(creates_without_a_record(policy()), 4);
    let unbounded = creates_without_a_record(lacking(Defect::UnboundedLoss));
    assert_eq!(unbounded, 10);
}

/// Rule A8: a completed Framework has expired by the local clock, but not by the API server's. Returns
/// whether it is deleted.
fn framework_is_deleted_by_the_local_clock(policy: Policy) -> bool {
    let mut cluster = Cluster::new(Policy { framework_completed_retain_sec: 100, ..policy });
    cluster.running("job", 1);
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.live(SECOND * 3);
    assert_eq!(cluster.state("job"), State::Completed);
    // From now on our wall clock runs fast, and no response has said so yet.
    cluster.ahead_sec = -60;
    cluster.pass(SECOND * 105);
    assert_eq!(cluster.open.len(), 1);
    cluster.serve_all();
    cluster.live(SECOND * 10);
    cluster.frameworks.is_empty()
}

#[test]
fn retention_ends_by_the_api_servers_clock() {
    assert!(!framework_is_deleted_by_the_local_clock(policy()));
    assert!(framework_is_deleted_by_the_local_clock(lacking(Defect::TrustLocalClock)));
}
