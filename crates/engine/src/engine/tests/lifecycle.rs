//! Whole lifecycles, and their costs.

use std::time::Duration;

use framework_api::State;
use framework_core::plan::Report;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::cluster::{Cluster, policy, refusal};
use crate::event::Measure;
use crate::outcomes::{Attempt, AttemptEnd, Outcomes};

const SECOND: Duration = Duration::from_secs(1);

/// Runs a Framework with this many Tasks, all of which succeed, to its end.
fn succeed(cluster: &mut Cluster, name: &str, tasks: i32) {
    cluster.create_framework(name, tasks);
    end(cluster, name, tasks);
}

/// The same for a Framework that is there.
fn end(cluster: &mut Cluster, name: &str, tasks: i32) {
    cluster.deliver();
    cluster.live(SECOND);
    for index in 0..tasks {
        cluster.run_pod(&format!("{name}-w-{index}"));
    }
    cluster.deliver();
    cluster.live(SECOND);
    for index in 0..tasks {
        cluster.exit(&format!("{name}-w-{index}"), 0);
    }
    cluster.deliver();
    cluster.live(SECOND * 3);
}

#[test]
fn a_framework_runs_to_its_end_within_the_write_floor() {
    for tasks in [1, 2, 20] {
        let mut cluster = Cluster::new(policy());
        succeed(&mut cluster, "job", tasks);
        assert_eq!(cluster.state("job"), State::Completed, "{:?}", cluster.log);
        assert_eq!(cluster.status("job").attempt_status.completion_status.as_ref().unwrap().code, 0);
        assert!(cluster.pods.is_empty() && cluster.config_maps.is_empty());
        let floor = 2 * tasks as usize + 11;
        assert!(
            cluster.log.len() <= floor,
            "{} requests, {floor} allowed: {:#?}",
            cluster.log.len(),
            cluster.log
        );
        for unwanted in ["get", "confirm", "holder", "label", "time"] {
            assert_eq!(cluster.count(unwanted), 0, "{:#?}", cluster.log);
        }
        assert!(
            cluster.heard.reports.iter().any(|report| report.reason == "Succeeded"),
            "{:?}",
            cluster.heard.reports
        );
    }
}

/// The attempts that ended and the retries, as metrics count them.
fn outcomes(cluster: &Cluster) -> Vec<Outcomes> {
    let measured = cluster.heard.measured.iter().filter_map(|measure| match measure {
        Measure::Attempts(outcomes) => Some(outcomes.clone()),
        _ => None,
    });
    measured.collect()
}

fn ended(cluster: &Cluster) -> Vec<(Attempt, AttemptEnd, String, u64)> {
    let owned = |(attempt, end, phrase, count): (_, _, &str, _)| (attempt, end, phrase.to_owned(), count);
    outcomes(cluster).iter().flat_map(|outcomes| outcomes.ended().map(owned).collect::<Vec<_>>()).collect()
}

fn retried(cluster: &Cluster) -> Vec<(Attempt, u64)> {
    outcomes(cluster).iter().flat_map(Outcomes::retried).collect()
}

#[test]
fn each_attempt_that_ends_is_counted_once() {
    let mut cluster = Cluster::new(policy());
    succeed(&mut cluster, "job", 2);
    let (mut ended, retried) = (ended(&cluster), retried(&cluster));
    ended.sort_by_key(|(attempt, ..)| *attempt as usize);
    let tasks: u64 = ended.iter().filter(|(attempt, ..)| *attempt == Attempt::Task).map(|end| end.3).sum();
    let succeeded = |attempt, count| (attempt, AttemptEnd::Succeeded, "Succeeded".to_owned(), count);
    assert_eq!(ended[0], succeeded(Attempt::Framework, 1));
    assert!(ended[1..].iter().all(|end| *end == succeeded(Attempt::Task, end.3)), "{ended:?}");
    assert_eq!((tasks, retried), (2, vec![]));
}

#[test]
fn the_first_run_of_a_framework_is_measured_once_from_its_creation() {
    let mut cluster = Cluster::new(policy());
    succeed(&mut cluster, "job", 2);
    let running = |measure: &&Measure| matches!(measure, Measure::Running { .. });
    assert_eq!(
        cluster.heard.measured.iter().filter(running).count(),
        0,
        "this world has no time of creation"
    );
    cluster.create_framework("late", 2);
    let created = cluster.status("job").start_time.plus_seconds(-90);
    let stamp = meta::Time(created.timestamp());
    cluster.edit("late", |framework| framework.metadata.creation_timestamp = Some(stamp));
    end(&mut cluster, "late", 2);
    let measured: Vec<_> = cluster.heard.measured.iter().filter(running).collect();
    let ran = cluster.status("late").run_time.expect("it ran");
    let after = ran.since(created).try_into().expect("it was created before");
    assert_eq!(measured, [&Measure::Running { after }]);
}

/// A Pod starts and ends while the changes before still gather.
#[test]
fn the_run_of_a_pod_that_ends_at_once_is_recorded_with_its_end() {
    let puts = [false, true].map(|runs| {
        let mut cluster = Cluster::new(policy());
        cluster.create_framework("job", 2);
        cluster.deliver();
        cluster.live(SECOND * 2);
        cluster.log.clear();
        if runs {
            cluster.run_pod("job-w-0");
            cluster.deliver();
            cluster.turn();
        }
        cluster.exit("job-w-0", 0);
        cluster.deliver();
        cluster.live(SECOND * 2);
        let status = cluster.status("job");
        let task = status.task("w", 0).unwrap();
        assert_eq!(task.state, State::Completed);
        let times = [status.run_time, status.attempt_status.run_time, task.run_time];
        assert_eq!(times.map(|time| time.is_some()), [runs; 3]);
        assert_eq!(task.attempt_status.run_time, task.run_time);
        cluster.count("put")
    });
    assert_eq!(puts[0], puts[1], "it costs no write");
}

#[test]
fn a_quiet_engine_wants_no_turn_soon() {
    let mut cluster = Cluster::new(policy());
    succeed(&mut cluster, "job", 2);
    let wake = cluster.engine.next_wake().expect("retention");
    assert!(wake > cluster.now + SECOND * 3000, "{wake:?}");
    assert_eq!(cluster.engine.gauges().frameworks.get(&State::Completed), Some(&1));
}

#[test]
fn our_own_echo_costs_nothing() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.serve("put job");
    cluster.turn();
    let wake = cluster.engine.next_wake();
    // The watch now shows our own write.
    cluster.deliver();
    assert_eq!(cluster.engine.next_wake(), wake, "nothing is to be evaluated");
}

#[test]
fn a_failed_task_is_retried_with_a_new_pod() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    cluster.edit("job", |framework| {
        framework.spec.task_roles[0].task.retry_policy.max_retry_count = 1;
    });
    cluster.deliver();
    cluster.settle();
    let first = cluster.pods["job-w-1"].facts.uid.clone();
    cluster.exit("job-w-1", 1);
    cluster.deliver();
    cluster.live(SECOND * 3);
    assert_ne!(cluster.pods["job-w-1"].facts.uid, first);
    assert_eq!(cluster.count("create job-w-1"), 1);
    assert_eq!(cluster.state("job"), State::AttemptRunning);
    let phrase = "ContainerUnrecognizedFailed".to_owned();
    assert_eq!(ended(&cluster), [(Attempt::Task, AttemptEnd::Failed, phrase, 1)]);
    assert_eq!(retried(&cluster), [(Attempt::Task, 1)]);
}

#[test]
fn a_framework_that_cannot_be_read_is_left_alone_and_others_go_on() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("bad", 1);
    cluster.frameworks.get_mut("bad").unwrap().content = Err("spec: missing".into());
    let object = cluster.frameworks["bad"].clone();
    cluster.watch.clear();
    cluster.watch.push_back(crate::event::Event::Framework(framework_message::Change::Applied(object)));
    succeed(&mut cluster, "good", 1);
    assert_eq!(cluster.state("good"), State::Completed);
    assert!(cluster.log.iter().all(|line| !line.contains("bad")), "{:?}", cluster.log);
    assert_eq!(cluster.engine.gauges().unreadable_frameworks, 1);
    assert_eq!(cluster.engine.gauges().oldest_event, None, "it waits for no evaluation");
}

#[test]
fn a_field_that_counts_as_not_set_is_reported_once() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 1);
    let note = "spec.ttlSecondsAfterFinished counts as not set: -1 is not …".to_owned();
    let reported = |cluster: &Cluster| {
        let same = |report: &&Report| report.reason == "InvalidFieldIgnored" && report.note == note;
        cluster.heard.reports.iter().filter(same).count()
    };
    for _ in 0..3 {
        let version = cluster.version();
        let object = cluster.frameworks.get_mut("job").unwrap();
        object.ignored = Some(note.clone());
        object.resource_version = version;
        let object = object.clone();
        cluster.watch.push_back(crate::event::Event::Framework(framework_message::Change::Applied(object)));
        cluster.deliver();
        cluster.settle();
        assert_eq!(reported(&cluster), 1);
    }
}

#[test]
fn a_framework_created_again_under_its_name_starts_again() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 2);
    let old_map = cluster.config_maps["job"].facts.uid.clone();
    // It is deleted while its POSTs are in flight, and created again immediately; then the POSTs land.
    let old = cluster.frameworks.remove("job").unwrap();
    cluster.watch.push_back(crate::event::Event::Framework(framework_message::Change::Deleted(old)));
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.serve("create job-w-0");
    cluster.serve("create job-w-1");
    cluster.deliver();
    // The garbage collector takes the old ConfigMap, which makes orphans of its Pods.
    let mut map = cluster.config_maps.remove("job").unwrap();
    map.resource_version = cluster.version();
    map.facts.deleting = true;
    cluster.watch.push_back(crate::event::Event::ConfigMap(framework_message::Change::Deleted(map)));
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.pods.keys().collect::<Vec<_>>(), ["job-w-0"]);
    assert_ne!(cluster.pods["job-w-0"].facts.config_map_uid, old_map);
    assert_eq!(cluster.state("job"), State::AttemptPreparing);
}

#[test]
fn a_failed_delete_of_an_earlier_framework_is_repeated_for_the_next() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    let old = cluster.pods["job-w-0"].facts.uid.clone();
    cluster.stop("job");
    cluster.deliver();
    cluster.turn();
    cluster.serve("put");
    cluster.turn();
    cluster.answer("delete job-w-0", crate::object::Reply::Unknown("reset".into()));
    cluster.delete_framework("job");
    cluster.create_framework("job", 1);
    // The garbage collector takes the old ConfigMap, and misses the Pod.
    let mut map = cluster.config_maps.remove("job").unwrap();
    map.resource_version = cluster.version();
    map.facts.deleting = true;
    cluster.watch.push_back(crate::event::Event::ConfigMap(framework_message::Change::Deleted(map)));
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("delete job-w-0"), 2, "{:?}", cluster.log);
    assert_ne!(cluster.pods["job-w-0"].facts.uid, old);
}

#[test]
fn a_deletion_that_a_webhook_refuses_as_a_conflict_is_tried_again() {
    let retention = framework_core::Policy { framework_completed_retain_sec: 100, ..policy() };
    let mut cluster = Cluster::new(retention);
    succeed(&mut cluster, "job", 1);
    while !cluster.waiting().iter().any(|request| request.starts_with("retire")) {
        cluster.serve_all();
        cluster.deliver();
        cluster.pass(SECOND);
    }
    cluster.answer("retire", refusal(409, "Conflict", "admission webhook \"w\" denied the request: busy"));
    cluster.live(SECOND * 60);
    assert_eq!(cluster.count("retire"), 2);
    assert!(!cluster.frameworks.contains_key("job"));
}

#[test]
fn an_expired_framework_whose_deletion_has_no_outcome_is_reported() {
    let retention = framework_core::Policy { framework_completed_retain_sec: 100, ..policy() };
    let mut cluster = Cluster::new(retention);
    succeed(&mut cluster, "job", 1);
    cluster.live(SECOND * 80);
    for failures in 1..=5_usize {
        cluster.serve_until("retire");
        cluster.answer("retire", crate::object::Reply::Unknown("Bad Gateway (502)".into()));
        cluster.turn();
        let reports = cluster.heard.reports.iter().filter(|report| report.reason == "DeletionFailed");
        assert_eq!(reports.clone().count(), failures.saturating_sub(3), "the first ones may pass");
        assert!(reports.clone().all(|report| report.note.ends_with("Bad Gateway (502)")));
    }
    cluster.live(SECOND * 61);
    assert!(!cluster.frameworks.contains_key("job"), "it is tried again for ever");
}

#[test]
fn a_completed_framework_is_deleted_by_the_api_servers_clock() {
    let retention = framework_core::Policy { framework_completed_retain_sec: 100, ..policy() };
    let mut cluster = Cluster::new(retention);
    succeed(&mut cluster, "job", 1);
    cluster.log.clear();
    cluster.live(SECOND * 90);
    assert_eq!(cluster.log, [""; 0]);
    cluster.live(SECOND * 15);
    // Its clock is known to within a second, so it is asked a few times.
    cluster.log.dedup();
    assert_eq!(cluster.log, ["time", "retire job"]);
    assert_eq!(cluster.engine.gauges().timers, 0);
}
