//! The history: which lines are written when, and before which request.

use std::time::Duration;

use framework_api::State;
use framework_core::Policy;
use framework_core::observed::Deletion;
use framework_core::snapshot::Trigger;
use serde_json::{Value, json, value::to_raw_value};

use super::cluster::{Cluster, generous, not_found, policy, refusal, relist};
use crate::engine::EngineSettings;
use crate::event::Event;
use crate::history::{MARKER, NOT_TAKEN};
use crate::object::{Reply, UnownedPod};
use framework_message::{Change, Key};

const SECOND: Duration = Duration::from_secs(1);

/// The lines since the last call: the trigger, whether the object is incomplete, and the object.
fn logged(cluster: &mut Cluster) -> Vec<(Trigger, bool, Value)> {
    let lines = std::mem::take(&mut cluster.heard.logged);
    let logged = lines.iter().map(|(line, _)| {
        let text = String::from_utf8(line.render(jiff::Timestamp::UNIX_EPOCH)).unwrap();
        let (head, json) = text.split_once(MARKER).unwrap();
        (line.trigger(), head.contains("incomplete"), serde_json::from_str(json).unwrap())
    });
    logged.collect()
}

fn triggers(cluster: &mut Cluster) -> Vec<Trigger> {
    logged(cluster).into_iter().map(|(trigger, ..)| trigger).collect()
}

/// Two Tasks that are retried after any failure; the write that retries the second one is in flight.
fn about_to_retry(policy: Policy) -> Cluster {
    about_to_retry_on(Cluster::new(policy))
}

fn about_to_retry_on(mut cluster: Cluster) -> Cluster {
    cluster.running("job", 2);
    cluster.edit("job", |framework| {
        framework.spec.task_roles[0].task.retry_policy.max_retry_count = 1;
        framework.spec.task_roles[0].framework_attempt_completion_policy.min_failed_task_count = -1;
    });
    cluster.exit("job-w-1", 7);
    cluster.deliver();
    for _ in 0..200 {
        let is_over = !cluster.pods.contains_key("job-w-1");
        if is_over && cluster.waiting().iter().any(|words| words.starts_with("put job")) {
            return cluster;
        }
        cluster.serve_all();
        cluster.deliver();
        cluster.pass(Duration::from_millis(50));
    }
    panic!("{:?}", cluster.status("job"));
}

#[test]
fn a_retry_is_logged_before_the_write_that_replaces_it_leaves() {
    let mut cluster = about_to_retry(policy());
    let ticket = cluster.ticket("put job");
    let retries: Vec<_> =
        cluster.heard.logged.iter().filter(|(line, _)| line.trigger() == Trigger::OnTaskRetry).collect();
    let [(_, before)] = retries[..] else { panic!("{retries:?}") };
    assert_eq!(*before, Some(ticket));
    let persisted = serde_json::to_value(cluster.status("job").task("w", 1)).unwrap();
    let logged = logged(&mut cluster);
    let (_, incomplete, task) = logged.iter().find(|(trigger, ..)| *trigger == Trigger::OnTaskRetry).unwrap();
    assert!(!incomplete);
    let outcome = |status: &Value| status["attemptStatus"]["completionStatus"].clone();
    assert_eq!(outcome(&task["status"]), outcome(&persisted));
    assert!(persisted["state"] != "AttemptCompleted" && task["status"]["state"] == "AttemptCompleted");
    cluster.serve("put job");
    cluster.deliver();
    cluster.live(SECOND);
    assert_eq!(cluster.status("job").task("w", 1).unwrap().attempt_status.id, 1);
    assert!(!triggers(&mut cluster).contains(&Trigger::OnTaskRetry), "once is enough");
}

#[test]
fn a_retry_is_logged_again_if_its_lines_were_not_taken_or_lost_to_another() {
    let again = |reply, newer: bool| {
        let mut cluster = about_to_retry(policy());
        assert!(triggers(&mut cluster).contains(&Trigger::OnTaskRetry));
        if newer {
            cluster.scale("job", 3);
        }
        cluster.answer("put job", reply);
        cluster.deliver();
        cluster.live(SECOND * 30);
        assert_eq!(cluster.status("job").task("w", 1).unwrap().attempt_status.id, 1);
        triggers(&mut cluster)
    };
    assert_eq!(again(Reply::NotSent(NOT_TAKEN.into()), false), [Trigger::OnTaskRetry]);
    assert_eq!(again(Reply::NotSent("the right to send it ended".into()), false), [], "it waited for them");
    assert_eq!(again(refusal(409, "Conflict", "modified"), true), [Trigger::OnTaskRetry]);
    assert_eq!(again(refusal(409, "Conflict", "modified"), false), []);
    assert_eq!(again(refusal(500, "InternalError", "etcdserver: no space"), false), []);
    assert_eq!(again(Reply::Unknown("no reply".into()), false), []);
}

#[test]
fn a_write_that_waits_for_its_history_delays_no_writes_of_others() {
    let mut cluster = about_to_retry(policy());
    let before = cluster.engine.pace.windows();
    cluster.pass(SECOND * 10);
    cluster.serve("put job");
    cluster.turn();
    assert_eq!(cluster.engine.pace.windows(), before);
}

#[test]
fn a_write_that_waits_for_its_history_takes_no_place_of_other_requests() {
    let settings = EngineSettings { min_in_flight: 1, max_in_flight: 1, ..generous() };
    let mut cluster = about_to_retry_on(Cluster::with(policy(), settings));
    for name in ["other", "third"] {
        cluster.create_framework(name, 1);
    }
    cluster.deliver();
    cluster.turn();
    let waiting = cluster.waiting();
    let of = |name: &str| waiting.iter().filter(|words| words.contains(name)).count();
    assert_eq!((of("put job"), of("other") + of("third")), (1, 1), "{waiting:?}");
    cluster.serve("put job");
    cluster.turn();
    assert_eq!(cluster.waiting().len(), 1, "its reply makes no room: {:?}", cluster.waiting());
}

#[test]
fn gathered_changes_are_reported_once_when_they_are_written() {
    let mut cluster = about_to_retry(policy());
    cluster.serve_all();
    cluster.deliver();
    cluster.heard.logged.clear();
    cluster.live(SECOND * 10);
    cluster.scale("job", 1);
    cluster.deliver();
    cluster.live(SECOND * 10);
    let logged = logged(&mut cluster);
    let removed: Vec<_> = logged.iter().filter(|(trigger, ..)| *trigger == Trigger::OnTaskDeletion).collect();
    let [(_, false, task)] = removed[..] else { panic!("{removed:?}") };
    assert_eq!((&task["status"]["index"], &task["status"]["state"]), (&json!(1), &json!("Completed")));
    assert_eq!(task["metadata"]["deletionGracePeriodSeconds"], 0);
}

#[test]
fn an_undisturbed_life_reports_its_pods_alone() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    for pod in ["job-w-0", "job-w-1"] {
        cluster.exit(pod, 0);
    }
    cluster.deliver();
    cluster.live(SECOND * 10);
    assert_eq!(cluster.state("job"), State::Completed);
    assert_eq!(triggers(&mut cluster), [Trigger::OnPodDeletion; 2]);
}

#[test]
fn a_pod_is_logged_whole_when_the_event_says_that_it_is_deleted() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    cluster.delete_pod_by_others("job-w-0");
    cluster.deliver();
    cluster.turn();
    let [(Trigger::OnPodDeletion, false, pod)] = &logged(&mut cluster)[..] else { panic!() };
    assert_eq!(pod["kept"], "as it came");
}

#[test]
fn a_pod_that_lost_its_label_is_not_logged_unless_it_is_gone() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    cluster.strip_label("job-w-0");
    cluster.deliver();
    cluster.turn();
    cluster.serve("confirm job-w-0");
    cluster.live(SECOND * 5);
    assert_eq!(logged(&mut cluster), [], "it lives");

    cluster.strip_label("job-w-0");
    cluster.pods.remove("job-w-0");
    cluster.deliver();
    cluster.turn();
    cluster.answer("confirm job-w-0", not_found());
    cluster.live(SECOND * 5);
    let logged = logged(&mut cluster);
    let [(Trigger::OnPodDeletion, true, pod)] = &logged[..] else { panic!("{logged:?}") };
    assert_eq!(pod["metadata"]["name"], "job-w-0");
}

#[test]
fn a_pod_that_was_taken_from_its_owner_is_logged_when_it_is_deleted() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    let pod = cluster.pods["job-w-0"].clone();
    let key = Key::new("ns", "job");
    let stranger = UnownedPod {
        key,
        name: pod.name,
        uid: pod.facts.uid,
        resource_version: pod.resource_version,
        last: None,
    };
    cluster.step(Event::UnownedPod(stranger.clone()));
    cluster.turn();
    assert_eq!(logged(&mut cluster), [], "it lives");
    // Its Framework is deleted with `--cascade=orphan`.
    for event in relist(true).into_iter().chain(relist(false)) {
        cluster.step(event);
    }
    cluster.turn();
    assert_eq!(triggers(&mut cluster), [Trigger::OnFrameworkDeletion]);
    let last = Some(to_raw_value(&json!({"kind": "Pod", "apiVersion": "v1"})).unwrap());
    for expected in [&[Trigger::OnPodDeletion][..], &[]] {
        cluster.step(Event::UnownedPod(UnownedPod { last: last.clone(), ..stranger.clone() }));
        cluster.turn();
        assert_eq!(triggers(&mut cluster), expected, "once");
    }
}

/// A user creates it with the label and the annotations of a Pod of ours, and deletes it.
#[test]
fn a_pod_that_only_looks_like_ours_is_not_logged_when_it_is_deleted() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    for name in ["job-w-0", "job-w-1", "other-w-0"] {
        let (framework, _) = name.split_once('-').unwrap();
        let annotations = json!({"FC_FRAMEWORK_NAME": framework, "FC_TASK_UID": "t"});
        let last = json!({"kind": "Pod", "metadata": {"name": name, "annotations": annotations}});
        cluster.step(Event::UnownedPod(UnownedPod {
            key: Key::new("ns", framework),
            name: name.to_owned(),
            uid: "forged".to_owned(),
            resource_version: 1,
            last: Some(to_raw_value(&last).unwrap()),
        }));
    }
    cluster.turn();
    assert_eq!(logged(&mut cluster), []);
}

#[test]
fn objects_that_a_list_misses_are_reported_incomplete() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    cluster.heard.logged.clear();
    // The watch broke, and everything was deleted before it started again.
    for event in relist(true).into_iter().chain(relist(false)) {
        cluster.step(event);
    }
    cluster.turn();
    let logged = logged(&mut cluster);
    let of =
        |trigger: Trigger| logged.iter().filter(move |(one, incomplete, _)| *one == trigger && *incomplete);
    assert_eq!((logged.len(), of(Trigger::OnPodDeletion).count()), (3, 2), "{logged:?}");
    let (_, _, framework) = of(Trigger::OnFrameworkDeletion).next().unwrap();
    assert_eq!(framework["status"]["state"], "AttemptRunning");
}

#[test]
fn a_pod_that_a_list_misses_is_asked_for_while_its_task_records_it() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    cluster.heard.logged.clear();
    cluster.pods.remove("job-w-1");
    let pod = cluster.pods["job-w-0"].clone();
    for event in [Change::Restarted, Change::Listed(pod), Change::Synced] {
        cluster.step(Event::Pod(event));
    }
    cluster.turn();
    assert_eq!(logged(&mut cluster), [], "it may have lost its label");
    cluster.answer("confirm job-w-1", not_found());
    cluster.turn();
    let logged = logged(&mut cluster);
    let [(Trigger::OnPodDeletion, true, pod)] = &logged[..] else { panic!("{logged:?}") };
    assert_eq!(pod["metadata"]["name"], "job-w-1");
}

#[test]
fn a_framework_is_in_the_history_before_the_controller_deletes_it() {
    let mut cluster = Cluster::new(Policy { framework_completed_retain_sec: 100, ..policy() });
    cluster.running("job", 1);
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.live(SECOND * 10);
    assert_eq!(cluster.state("job"), State::Completed);
    let persisted = serde_json::to_value(&*cluster.status("job")).unwrap();
    cluster.heard.logged.clear();
    cluster.live(SECOND * 200);
    assert!(!cluster.frameworks.contains_key("job"));
    let before: Vec<bool> = cluster.heard.logged.iter().map(|(_, before)| before.is_some()).collect();
    assert_eq!(before, [true, false], "before it is asked for, and when it is seen");
    for (trigger, incomplete, framework) in logged(&mut cluster) {
        assert_eq!((trigger, incomplete), (Trigger::OnFrameworkDeletion, false));
        assert_eq!(framework["status"], persisted);
    }
}

#[test]
fn a_deletion_takes_a_place_unless_it_waits_for_its_history() {
    for is_logged in [false, true] {
        let mut policy = Policy { framework_completed_retain_sec: 100, ..policy() };
        policy.log_object_snapshot.framework.on_framework_deletion = is_logged;
        let mut cluster = Cluster::new(policy);
        cluster.running("job", 1);
        cluster.exit("job-w-0", 0);
        cluster.deliver();
        cluster.live(SECOND * 80);
        cluster.serve_until("retire job");
        let counted = cluster.engine.sending.in_flight.of_namespace("ns");
        assert_eq!(counted, usize::from(!is_logged), "{is_logged}");
    }
}

#[test]
fn snapshots_that_are_switched_off_are_not_logged() {
    let mut policy = policy();
    policy.log_object_snapshot.task.on_task_retry = false;
    policy.log_object_snapshot.pod.on_pod_deletion = false;
    policy.log_object_snapshot.framework.on_framework_deletion = false;
    let mut cluster = about_to_retry(policy);
    cluster.serve_all();
    cluster.deliver();
    cluster.live(SECOND * 10);
    for event in relist(true).into_iter().chain(relist(false)) {
        cluster.step(event);
    }
    cluster.turn();
    assert_eq!(logged(&mut cluster), []);
}

#[test]
fn history_leaves_out_the_values_of_variables_if_it_shall() {
    for (redact_env, shown) in [(false, "secret"), (true, "(redacted)")] {
        let mut policy = policy();
        policy.log_object_snapshot.redact_env = redact_env;
        let mut cluster = Cluster::new(policy);
        cluster.running("job", 1);
        let template = json!({"spec": {"containers": [{"env": [{"name": "TOKEN", "value": "secret"}]}]}});
        cluster.edit("job", |framework| framework.spec.task_roles[0].task.pod = template.clone().into());
        cluster.deliver();
        let mut pod = cluster.pods.remove("job-w-0").unwrap();
        pod.last = Some(to_raw_value(&template).unwrap());
        pod.facts.deletion = Some(Deletion { at: cluster.server_time(), grace_sec: 0 });
        cluster.heard.logged.clear();
        cluster.step(Event::Pod(Change::Deleted(pod)));
        let framework = cluster.frameworks.remove("job").unwrap();
        cluster.step(Event::Framework(Change::Deleted(framework)));
        cluster.turn();
        let object_of = |logged: &[(Trigger, bool, Value)], wanted| {
            logged.iter().find(|(trigger, ..)| *trigger == wanted).map(|(.., object)| object.clone()).unwrap()
        };
        let logged = logged(&mut cluster);
        let value = "/spec/containers/0/env/0/value";
        let pod = object_of(&logged, Trigger::OnPodDeletion);
        assert_eq!(pod.pointer(value).unwrap(), shown);
        let framework = object_of(&logged, Trigger::OnFrameworkDeletion);
        let value = format!("/spec/taskRoles/0/task/pod{value}");
        assert_eq!(framework.pointer(&value).unwrap(), shown);
    }
}
