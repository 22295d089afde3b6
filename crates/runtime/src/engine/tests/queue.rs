//! Frameworks that wait in queues: who may say that one goes on, and what that costs.

use std::time::Duration;

use framework_api::State;
use framework_api::queue::QUEUE_NAME_LABEL;
use framework_core::Policy;
use framework_core::observed::Admission;

use super::cluster::{Cluster, policy};
use crate::event::Key;

const SECOND: Duration = Duration::from_secs(1);

/// A cluster with one Framework, `job`, that waits in a queue.
fn waiting() -> Cluster {
    let mut cluster = Cluster::new(Policy { queueing: true, ..policy() });
    queued(&mut cluster);
    cluster.deliver();
    cluster.live(SECOND);
    assert_eq!(cluster.log, ["put job AttemptCreationPending"]);
    cluster
}

fn queued(cluster: &mut Cluster) {
    cluster.create_framework("job", 1);
    cluster.edit("job", |framework| {
        framework.metadata.labels = Some([(QUEUE_NAME_LABEL.to_owned(), "gpu".to_owned())].into());
    });
}

fn answer(cluster: &mut Cluster, uid: &str, admission: Admission) {
    let now = cluster.now();
    cluster.engine.admit(now, &Key::new("ns", "job"), uid, admission);
    cluster.deliver();
    cluster.live(SECOND);
}

fn wait_for(reason: &str, message: &str) -> Admission {
    Admission::Waiting { reason: reason.to_owned(), message: message.to_owned() }
}

#[test]
fn a_framework_goes_on_once_its_queue_releases_it() {
    let mut cluster = waiting();
    let uid = cluster.frameworks["job"].uid.clone();
    answer(&mut cluster, &uid, Admission::Released);
    assert!(cluster.pods.contains_key("job-w-0"), "{:?}", cluster.log);
    assert_eq!(cluster.state("job"), State::AttemptPreparing);
    let reasons: Vec<&str> = cluster.reports.iter().map(|report| report.reason).collect();
    assert_eq!(reasons, ["Admitted"]);
}

#[test]
fn a_release_of_another_framework_of_that_name_means_nothing() {
    let mut cluster = waiting();
    answer(&mut cluster, "another", Admission::Released);
    assert_eq!(cluster.log, ["put job AttemptCreationPending"]);
    // Nor does the release of one that is replaced meanwhile mean anything to the next one.
    let uid = cluster.frameworks["job"].uid.clone();
    queued(&mut cluster);
    answer(&mut cluster, &uid, Admission::Released);
    assert_eq!(cluster.log, ["put job AttemptCreationPending", "put job AttemptCreationPending"]);
    assert!(cluster.pods.is_empty() && cluster.config_maps.is_empty(), "{:?}", cluster.log);
}

#[test]
fn only_another_reason_is_worth_a_look() {
    let mut cluster = waiting();
    let uid = cluster.frameworks["job"].uid.clone();
    let writes = |cluster: &Cluster| cluster.log.iter().filter(|words| words.starts_with("put")).count();
    answer(&mut cluster, &uid, wait_for("InsufficientQuota", "9 are missing"));
    assert_eq!(writes(&cluster), 2);
    for missing in 0..9 {
        let key = Key::new("ns", "job");
        let now = cluster.now();
        let admission = wait_for("InsufficientQuota", &format!("{missing} are missing"));
        cluster.engine.admit(now, &key, &uid, admission);
        assert_eq!(cluster.engine.gauges().oldest_event, None, "nothing waits to be evaluated");
        cluster.live(60 * SECOND);
    }
    answer(&mut cluster, &uid, wait_for("Waiting", "others go first"));
    assert_eq!(writes(&cluster), 3);
}

#[test]
fn what_a_framework_grows_by_begins_once_its_queue_releases_that_and_news_of_pods_is_none_to_the_desk() {
    let mut cluster = waiting();
    let uid = cluster.frameworks["job"].uid.clone();
    answer(&mut cluster, &uid, Admission::Released);
    cluster.scale("job", 2);
    cluster.deliver();
    cluster.live(SECOND);
    let task = cluster.status("job").task("w", 1).cloned().expect("it is stored");
    let generation = task.queue_unit_generation.expect("it waits");
    assert!(!cluster.pods.contains_key("job-w-1"), "{:?}", cluster.log);
    let consumer = cluster.consumers.last().and_then(|(_, consumer)| consumer.clone()).expect("it is told");
    let growth = &consumer.growths[&generation];
    assert_eq!(growth.since, task.start_time.timestamp());
    assert_eq!((&consumer.ask, consumer.growths.len()), (&growth.ask, 1), "one Task each");
    let told = cluster.consumers.len();
    for growths in [vec![generation + 1], vec![generation]] {
        let now = cluster.now();
        assert!(!cluster.pods.contains_key("job-w-1"));
        cluster.engine.admit_growths(now, &Key::new("ns", "job"), "another", vec![generation]);
        cluster.engine.admit_growths(now, &Key::new("ns", "job"), &uid, growths);
        cluster.deliver();
        cluster.live(SECOND);
    }
    assert!(cluster.pods.contains_key("job-w-1"), "{:?}", cluster.log);
    assert_eq!(cluster.consumers.len(), told);
}
