//! Disappearances are confirmed; deletes end.

use std::time::Duration;

use framework_api::State;
use framework_core::observed::Deletion;
use framework_message::Change;

use super::cluster::{Cluster, not_found, policy, refusal};
use crate::event::Event;
use crate::object::{Object, Reply};

const SECOND: Duration = Duration::from_secs(1);

fn task_state(cluster: &Cluster) -> State {
    cluster.status("job").task_roles()[0].task_statuses[0].state
}

#[test]
fn a_pod_that_vanished_is_gone_once_a_get_says_so() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    cluster.remove_pod("job-w-0");
    cluster.deliver();
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting(), ["confirm job-w-0"]);
    assert_eq!(task_state(&cluster), State::AttemptRunning);
    cluster.answer("confirm", refusal(500, "InternalError", "etcd"));
    cluster.pass(Duration::from_millis(500));
    assert!(cluster.open.is_empty(), "a GET that failed is repeated, later");
    cluster.pass(SECOND);
    cluster.serve("confirm");
    cluster.live(SECOND * 3);
    let end = cluster.status("job").attempt_status.completion_status.clone().unwrap();
    assert_eq!(end.code, -101);
}

/// The garbage collector deletes the Pods of a ConfigMap that others deleted.
#[test]
fn tasks_wait_for_the_get_of_a_config_map_that_is_gone() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    let map = cluster.config_maps.remove("job").unwrap();
    cluster.watch.push_back(Event::ConfigMap(Change::Deleted(map)));
    cluster.delete_pod_by_others("job-w-0");
    let at = cluster.server_time();
    cluster.change_pod("job-w-1", |pod| pod.deletion = Some(Deletion { at, grace_sec: 30 }));
    cluster.deliver();
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting(), ["confirm map job"]);
    assert_eq!(task_state(&cluster), State::AttemptRunning);
    cluster.serve("confirm");
    cluster.remove_pod("job-w-1");
    cluster.deliver();
    cluster.live(SECOND * 3);
    let status = cluster.status("job");
    assert_eq!(status.attempt_status.completion_status.as_ref().unwrap().code, -100);
    let ends = status.all_tasks().map(|task| task.attempt_status.completion_status.as_ref().unwrap().code);
    assert_eq!(ends.collect::<Vec<_>>(), [-220, -220]);
}

/// The end of one Task among others gathers with theirs before it is written.
#[test]
fn an_exit_that_was_seen_counts_though_others_delete_the_pod() {
    let deletions: [fn(&mut Cluster); 2] =
        [|cluster| cluster.remove_pod("job-w-0"), |cluster| cluster.delete_pod_by_others("job-w-0")];
    for delete in deletions {
        let mut cluster = Cluster::new(policy());
        cluster.running("job", 3);
        cluster.exit("job-w-0", 7);
        cluster.deliver();
        cluster.turn();
        assert_eq!(cluster.log, [""; 0], "more may follow");
        delete(&mut cluster);
        cluster.deliver();
        cluster.live(SECOND * 3);
        assert_eq!(cluster.status("job").attempt_status.completion_status.as_ref().unwrap().code, 7);
    }
}

#[test]
fn an_exit_that_a_deletion_by_others_caused_does_not_count() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 3);
    let at = cluster.server_time();
    cluster.change_pod("job-w-0", |pod| pod.deletion = Some(Deletion { at, grace_sec: 30 }));
    cluster.exit("job-w-0", 143);
    cluster.remove_pod("job-w-0");
    cluster.deliver();
    cluster.live(SECOND * 3);
    assert_eq!(cluster.status("job").attempt_status.completion_status.as_ref().unwrap().code, -101);
}

#[test]
fn another_pod_under_the_name_proves_the_recorded_one_gone() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    cluster.remove_pod("job-w-0");
    cluster.deliver();
    cluster.pass(SECOND);
    cluster
        .answer("confirm", Reply::Foreign("the name is taken by Pod job-w-0, which nothing controls".into()));
    cluster.live(SECOND * 3);
    assert_eq!(cluster.status("job").attempt_status.completion_status.as_ref().unwrap().code, -101);
}

#[test]
fn the_label_is_put_back_though_the_first_tries_fail() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    cluster.strip_label("job-w-0");
    cluster.deliver();
    cluster.turn();
    cluster.serve("confirm");
    cluster.turn();
    cluster.answer("label", refusal(500, "InternalError", "etcd"));
    cluster.pass(SECOND * 2);
    // The object has changed since: it is read again first.
    cluster.answer("label", refusal(409, "Conflict", "modified"));
    cluster.live(SECOND * 5);
    assert_eq!(cluster.pods["job-w-0"].label, cluster.slot("job"));
    assert_eq!(task_state(&cluster), State::AttemptRunning);
    // It is watched again: its end counts.
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.live(SECOND * 3);
    assert_eq!(cluster.state("job"), State::Completed);
}

#[test]
fn a_label_that_is_removed_each_time_is_put_back_ever_more_rarely() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    cluster.strip_label("job-w-0");
    cluster.deliver();
    cluster.turn();
    cluster.serve("confirm");
    let end = cluster.now + SECOND * 120;
    while cluster.now < end {
        cluster.pass(SECOND / 4);
        for waiting in cluster.waiting() {
            // A webhook takes the label out of the patch, so that the Pod stays as it is.
            let pod = cluster.pods["job-w-0"].clone();
            cluster.answer(&waiting, Reply::Object(Object::Pod(pod)));
        }
    }
    let tried = cluster.count("label");
    assert!((4..=10).contains(&tried), "{tried}: {:?}", cluster.log);
    cluster.live(SECOND * 61);
    assert_eq!(cluster.pods["job-w-0"].label, cluster.slot("job"));
    assert_eq!(task_state(&cluster), State::AttemptRunning);
}

#[test]
fn a_delete_answered_not_found_ends_the_pod() {
    for reply in [not_found(), refusal(409, "Conflict", "the UID in the precondition (a) does not match")] {
        let mut cluster = Cluster::new(policy());
        cluster.running("job", 1);
        cluster.exit("job-w-0", 0);
        cluster.deliver();
        while !cluster.waiting().contains(&"delete job-w-0".to_owned()) {
            cluster.serve_all();
            cluster.deliver();
            cluster.pass(Duration::from_millis(10));
        }
        cluster.pods.remove("job-w-0");
        cluster.answer("delete", reply);
        cluster.live(SECOND * 3);
        assert_eq!(cluster.state("job"), State::Completed);
        assert_eq!(cluster.count("delete job-w-0"), 1);
    }
}

#[test]
fn a_delete_that_failed_or_got_no_reply_is_repeated() {
    for reply in [
        refusal(500, "InternalError", "etcd"),
        refusal(409, "Conflict", "the object has been modified"),
        Reply::Unknown("reset".into()),
        Reply::NotSent("refused".into()),
    ] {
        let mut cluster = Cluster::new(policy());
        cluster.running("job", 1);
        cluster.stop("job");
        cluster.deliver();
        cluster.turn();
        cluster.serve("put");
        cluster.turn();
        cluster.answer("delete job-w-0", reply);
        cluster.pass(Duration::from_millis(40));
        assert_eq!(cluster.count("delete job-w-0"), 1);
        cluster.live(SECOND * 3);
        assert_eq!(cluster.count("delete job-w-0"), 2);
        assert_eq!(cluster.state("job"), State::Completed);
    }
}

#[test]
fn a_stop_needs_no_get() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 3);
    cluster.stop("job");
    cluster.deliver();
    cluster.live(SECOND * 3);
    assert_eq!(cluster.state("job"), State::Completed);
    assert!(
        cluster.log.iter().all(|line| line.starts_with("put") || line.starts_with("delete")),
        "{:?}",
        cluster.log
    );
}

#[test]
fn a_pod_created_but_never_shown_is_deleted_and_confirmed() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    cluster.serve("create");
    // The watch never shows it.
    cluster.watch.clear();
    for _ in 0..40 {
        cluster.pass(SECOND * 10);
        cluster.serve_all();
        cluster.watch.retain(|event| !matches!(event, crate::event::Event::Pod(_)));
        cluster.deliver();
    }
    let end = cluster.status("job").attempt_status.completion_status.clone().unwrap();
    assert_eq!(end.code, -111, "{:?}", cluster.log);
    assert_eq!(cluster.state("job"), State::Completed, "{:?}", cluster.log);
    assert!(cluster.pods.is_empty());
    assert!(cluster.log.len() < 30, "{:?}", cluster.log);
}
