//! Frameworks that wait in queues: the release that lets one start, and its costs.

use std::time::Duration;

use framework_api::queue::QUEUE_NAME_LABEL;
use framework_api::{ExecutionType, State};
use framework_core::Policy;
use framework_core::observed::Admission;
use framework_core::queue::Stage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::cluster::{Cluster, generous, policy, refusal, relist};
use crate::engine::EngineSettings;
use crate::event::{Event, Kind, QueuedFramework};
use framework_message::{Key, SlotSelection, Slots};

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

/// The answer of its queue that releases the Framework with its current demand.
fn released(cluster: &Cluster) -> Admission {
    let (framework, _) = cluster.frameworks["job"].content.as_ref().unwrap();
    Admission::Released { generation: framework.metadata.generation.unwrap() }
}

fn wait_for(reason: &str, message: &str) -> Admission {
    Admission::Waiting { reason: reason.to_owned(), message: message.to_owned() }
}

#[test]
fn a_framework_goes_on_once_its_queue_releases_it() {
    let mut cluster = waiting();
    let uid = cluster.frameworks["job"].uid.clone();
    let admission = released(&cluster);
    answer(&mut cluster, &uid, admission);
    assert!(cluster.pods.contains_key("job-w-0"), "{:?}", cluster.log);
    assert_eq!(cluster.state("job"), State::AttemptPreparing);
    let reasons: Vec<&str> = cluster.heard.reports.iter().map(|report| report.reason).collect();
    assert_eq!(reasons, ["Admitted"]);
}

#[test]
fn a_release_of_another_framework_of_that_name_means_nothing() {
    let mut cluster = waiting();
    let admission = released(&cluster);
    answer(&mut cluster, "another", admission);
    assert_eq!(cluster.log, ["put job AttemptCreationPending"]);
    // A release of a Framework that has been replaced does not count for its successor, either.
    let uid = cluster.frameworks["job"].uid.clone();
    queued(&mut cluster);
    let admission = released(&cluster);
    answer(&mut cluster, &uid, admission);
    assert_eq!(cluster.log, ["put job AttemptCreationPending", "put job AttemptCreationPending"]);
    assert!(cluster.pods.is_empty() && cluster.config_maps.is_empty(), "{:?}", cluster.log);
}

/// A predecessor may have made a unit for it before it was stopped, and stored nothing.
#[test]
fn a_framework_that_was_stopped_before_its_first_status_is_reported() {
    let mut cluster = Cluster::new(Policy { queueing: true, ..policy() });
    queued(&mut cluster);
    cluster.edit("job", |framework| framework.spec.execution_type = ExecutionType::Stop);
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.last_queued().queue, None, "its unit has to go");
}

/// A user made a unit for it, which returns its share at the end of the Framework.
#[test]
fn a_framework_without_a_queue_is_reported_while_a_unit_names_it() {
    let mut cluster = Cluster::new(Policy { queueing: true, ..policy() });
    let name = |cluster: &mut Cluster, is_named| {
        cluster.engine.set_named(&Key::new("ns", "job"), is_named);
        cluster.turn();
    };
    cluster.running("job", 1);
    assert!(cluster.heard.queued.is_empty(), "no unit names it");
    name(&mut cluster, true);
    let reported = cluster.last_queued();
    assert_eq!((reported.stage, reported.queue), (Stage::Started, None));
    name(&mut cluster, true);
    assert_eq!(cluster.heard.queued.len(), 1, "nothing has changed");
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.live(3 * SECOND);
    assert_eq!((cluster.state("job"), cluster.last_queued().stage), (State::Completed, Stage::Finished));
    cluster.delete_framework("job");
    cluster.deliver();
    cluster.turn();
    assert!(cluster.heard.queued.last().is_some_and(|(_, framework)| framework.is_none()), "it is gone");
    let reports = cluster.heard.queued.len();
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.last_queued().stage, Stage::Waiting, "another one of the name");
    cluster.delete_framework("job");
    cluster.deliver();
    cluster.turn();
    name(&mut cluster, false);
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.heard.queued.len(), reports + 2, "no unit names the third");
}

/// The slot moves, or the program starts: the names come before the Framework or after it.
#[test]
fn a_named_framework_is_reported_again_after_its_slot_was_lost() {
    let mut cluster = Cluster::new(Policy { queueing: true, ..policy() });
    cluster.engine.set_named(&Key::new("ns", "job"), true);
    cluster.running("job", 1);
    let reports = cluster.heard.queued.len();
    assert!(reports > 0);
    let slots: Slots = cluster.slot("job").into_iter().collect();
    cluster.step(Event::Lost(slots));
    cluster.step(Event::Granted { slots, grant: 1 });
    for kind in [Kind::Frameworks, Kind::ConfigMaps, Kind::Pods] {
        cluster.step(Event::Selected(kind, SlotSelection::whole(1, Slots::ALL)));
    }
    for event in relist(true) {
        cluster.step(event);
    }
    cluster.list_objects();
    for event in relist(false) {
        cluster.step(event);
    }
    cluster.turn();
    assert_eq!(cluster.heard.queued.len(), reports + 1);
    assert_eq!(cluster.last_queued().stage, Stage::Started);
}

/// Each report costs a sum of the requests of all templates.
#[test]
fn many_changes_before_a_turn_are_reported_once() {
    let mut cluster = waiting();
    let reports = |cluster: &mut Cluster| -> Vec<bool> {
        cluster.heard.queued.drain(..).map(|(_, framework)| framework.is_some()).collect()
    };
    reports(&mut cluster);
    for tasks in 2..9 {
        cluster.scale("job", tasks);
        cluster.deliver();
    }
    cluster.turn();
    assert_eq!(cluster.last_queued().demands[0].tasks, [8]);
    assert_eq!(reports(&mut cluster), [true]);
    cluster.scale("job", 9);
    cluster.delete_framework("job");
    cluster.deliver();
    cluster.turn();
    assert_eq!(reports(&mut cluster), [true, false], "it was there, and is gone");
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
fn growth_begins_once_it_is_released_and_news_of_pods_is_not_reported() {
    let mut cluster = waiting();
    let uid = cluster.frameworks["job"].uid.clone();
    let admission = released(&cluster);
    answer(&mut cluster, &uid, admission);
    cluster.scale("job", 2);
    cluster.deliver();
    cluster.live(SECOND);
    let task = cluster.status("job").task("w", 1).cloned().expect("it is stored");
    let generation = task.queue_unit_generation.expect("it waits");
    assert!(!cluster.pods.contains_key("job-w-1"), "{:?}", cluster.log);
    let demands = cluster.last_queued().demands;
    let [first, growth] = &demands[..] else { panic!("{demands:?}") };
    assert_eq!((first.generation, growth.generation), (None, Some(generation)));
    assert_eq!(growth.since, Some(task.start_time));
    assert_eq!((&first.tasks, &growth.tasks), (&vec![1], &vec![1]), "one Task each");
    let reported = cluster.heard.queued.len();
    for growths in [vec![generation + 1], vec![generation]] {
        let now = cluster.now();
        assert!(!cluster.pods.contains_key("job-w-1"));
        cluster.engine.admit_growths(now, &Key::new("ns", "job"), "another", vec![generation]);
        cluster.engine.admit_growths(now, &Key::new("ns", "job"), &uid, growths);
        cluster.deliver();
        cluster.live(SECOND);
    }
    assert!(cluster.pods.contains_key("job-w-1"), "{:?}", cluster.log);
    assert_eq!(cluster.heard.queued.len(), reported);
}

/// The Framework asks for more than was released while its ConfigMap waits for the budget.
#[test]
fn a_waiting_request_does_not_begin_a_job_that_outgrew_its_release() {
    let settings = EngineSettings { max_in_flight: 1, ..generous() };
    let mut cluster = Cluster::with(Policy { queueing: true, ..policy() }, settings);
    queued(&mut cluster);
    cluster.scale("job", 500);
    cluster.deliver();
    cluster.live(SECOND);
    cluster.create_held("other", 1);
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.waiting(), ["put other AttemptCreationPending"]);
    let admits = |cluster: &mut Cluster| {
        let (uid, admission) = (cluster.frameworks["job"].uid.clone(), released(cluster));
        let now = cluster.now();
        cluster.engine.admit(now, &Key::new("ns", "job"), &uid, admission);
        cluster.turn();
    };
    admits(&mut cluster);
    // A Framework of this size is not evaluated immediately.
    cluster.scale("job", 600);
    cluster.deliver();
    cluster.serve("put other");
    cluster.turn();
    cluster.live(SECOND);
    assert_eq!(cluster.count("create map job"), 0, "{:?}", cluster.log);
    admits(&mut cluster);
    cluster.live(SECOND);
    assert_eq!(cluster.count("create map job"), 1, "{:?}", cluster.log);
}

#[test]
fn a_framework_is_reported_begun_once_its_config_map_is_on_its_way() {
    let mut cluster = waiting();
    let (uid, admission) = (cluster.frameworks["job"].uid.clone(), released(&cluster));
    let now = cluster.now();
    cluster.engine.admit(now, &Key::new("ns", "job"), &uid, admission);
    cluster.turn();
    let before = cluster.last_queued();
    assert_eq!(before.stage, Stage::Waiting);
    cluster.scale("job", 2);
    cluster.deliver();
    cluster.turn();
    let now = cluster.last_queued();
    let generation = |queued: &QueuedFramework| queued.framework.metadata.generation.unwrap();
    assert_eq!((now.stage, generation(&now)), (Stage::Started, generation(&before) + 1));
    assert_eq!(
        now.demands[0].tasks, before.demands[0].tasks,
        "the first unit asks for what it was released for"
    );
}

/// Another client's finalizer keeps the Framework.
#[test]
fn a_deleted_framework_is_reported_begun_while_its_config_map_may_come() {
    let mut cluster = waiting();
    let (uid, admission) = (cluster.frameworks["job"].uid.clone(), released(&cluster));
    let now = cluster.now();
    cluster.engine.admit(now, &Key::new("ns", "job"), &uid, admission);
    cluster.turn();
    cluster.edit("job", |framework| framework.metadata.deletion_timestamp = Some(Time(Default::default())));
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.last_queued().stage, Stage::Started, "it may yet be recorded, and Pods created");
    cluster.answer("create map job", refusal(403, "Forbidden", "exceeded quota"));
    cluster.turn();
    assert_eq!(cluster.last_queued().stage, Stage::Waiting, "no other one is created");
}
