//! The consequences of refused, lost and late creates.

use std::sync::Arc;
use std::time::Duration;

use framework_api::State;
use framework_core::observed::{ConfigMapFacts, Create, Outcome, PodPhase};
use serde_json::{json, value::to_raw_value};

use super::cluster::{Cluster, generous, not_found, policy, refusal};
use crate::engine::EngineSettings;
use crate::event::Event;
use crate::object::{ConfigMapObject, Reply, UnownedPod};
use framework_message::{Key, Rejection, Slots};

const SECOND: Duration = Duration::from_secs(1);

fn end_code(cluster: &Cluster) -> Option<i32> {
    Some(cluster.status("job").attempt_status.completion_status.as_ref()?.code)
}

fn condition(cluster: &Cluster) -> String {
    let status = cluster.status("job");
    let running = status.conditions.iter().find(|condition| condition.type_ == "Running").unwrap();
    format!("{}: {}", running.reason, running.message)
}

#[test]
fn a_lost_create_that_landed_is_deleted_never_adopted() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    let lost = Duration::from_secs(28);
    cluster.serve_silently("create job-w-0");
    cluster.deliver();
    let uid = cluster.pods["job-w-0"].facts.uid.clone();
    cluster.live(lost - SECOND);
    assert_eq!(cluster.count("delete job-w-0"), 0, "it may be judged only when the POST has settled");
    cluster.live(SECOND * 3);
    assert_eq!(cluster.count("delete job-w-0"), 1);
    assert_eq!(cluster.count("create job-w-0"), 2);
    assert_ne!(cluster.pods["job-w-0"].facts.uid, uid);
}

/// A user removes the label of the Pod before the watch shows the Pod.
#[test]
fn a_lost_create_is_found_by_its_name_though_it_has_no_label() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    cluster.serve_silently("create job-w-0");
    cluster.watch.clear();
    let pod = cluster.pods.get_mut("job-w-0").unwrap();
    pod.label = None;
    let uid = pod.facts.uid.clone();
    cluster.live(SECOND * 27);
    assert_eq!(cluster.count("create job-w-0"), 1, "it may yet land: {:?}", cluster.log);
    cluster.live(SECOND * 3);
    let requests = ["holder job-w-0", "label job-w-0", "delete job-w-0", "create job-w-0"];
    assert_eq!(requests.map(|request| cluster.count(request)), [1, 1, 1, 2], "{:?}", cluster.log);
    assert_ne!(cluster.pods["job-w-0"].facts.uid, uid);
}

#[test]
fn a_create_without_effect_is_repeated_when_it_can_no_longer_land() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    cluster.answer("create", Reply::Unknown("reset".into()));
    cluster.pass(SECOND * 27);
    assert_eq!(cluster.waiting(), [""; 0]);
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting(), ["holder job-w-0"], "it may have landed unseen");
    cluster.serve_all();
    cluster.turn();
    assert_eq!(cluster.count("create job-w-0"), 2);
}

#[test]
fn a_lost_create_is_found_by_a_get_before_its_task_ends() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    cluster.serve_silently("create job-w-0");
    // The watch of Pods stands still; the user stops the Framework.
    let unseen = std::mem::take(&mut cluster.watch);
    cluster.stop("job");
    cluster.deliver();
    cluster.pass(SECOND * 29);
    cluster.serve("holder job-w-0");
    cluster.live(SECOND);
    assert!(cluster.pods.is_empty(), "it was found and deleted");
    cluster.watch.extend(unseen);
    cluster.live(SECOND * 5);
    assert_eq!(cluster.state("job"), State::Completed);
}

#[test]
fn a_stop_keeps_creates_that_wait_for_the_budget_from_leaving() {
    let mut cluster = Cluster::with(policy(), EngineSettings { max_in_flight: 1, ..generous() });
    // So many Tasks are evaluated at most five times a second.
    cluster.creating("job", 2000);
    cluster.stop("job");
    cluster.deliver();
    cluster.serve("create job-w");
    cluster.turn();
    assert_eq!(cluster.waiting(), [""; 0], "those of the plan before are dropped");
    cluster.live(SECOND * 10);
    assert_eq!(cluster.count("create job-w"), 1, "{:?}", cluster.log);
    assert_eq!(cluster.state("job"), State::Completed);
}

#[test]
fn a_create_that_was_sent_late_is_waited_for_from_then_on() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    // The process stands still for a minute between its decision and the request.
    cluster.pass(SECOND * 60);
    cluster.answer("create", Reply::Unknown("no response".into()));
    cluster.pass(SECOND * 15);
    assert_eq!(cluster.waiting(), [""; 0], "it may land for as long as the API server works on it");
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting(), ["holder job-w-0"]);
}

#[test]
fn a_create_that_did_not_leave_is_repeated_soon() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    cluster.answer("create", Reply::NotSent("connection refused".into()));
    cluster.pass(Duration::from_millis(100));
    assert_eq!(cluster.waiting(), ["create job-w-0"]);
}

#[test]
fn a_transient_refusal_is_retried_with_back_off_and_shown() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    let mut waits = Vec::new();
    for _ in 0..9 {
        cluster.answer("create", refusal(403, "Forbidden", "exceeded quota: small"));
        let begun = cluster.now;
        while !cluster.waiting().contains(&"create job-w-0".to_owned()) {
            cluster.pass(Duration::from_millis(50));
            if cluster.waiting().iter().any(|line| line.starts_with("put")) {
                cluster.serve("put");
                cluster.deliver();
            }
        }
        waits.push((cluster.now - begun).as_secs_f64());
    }
    assert!(waits[0] <= 1.1 && waits[1] > 1.4 && waits[3] > 5.0, "{waits:?}");
    assert!(waits[7] > 40.0 && waits[8] < 61.0, "{waits:?}");
    assert!(condition(&cluster).ends_with("exceeded quota: small"), "{}", condition(&cluster));
    cluster.serve("create");
    cluster.deliver();
    cluster.live(SECOND);
    assert_eq!(end_code(&cluster), None);
}

/// Lets two seconds pass. This quota refuses every Pod of `job`, and other requests are served.
fn refuse_pods(cluster: &mut Cluster, quota: &str) {
    for _ in 0..8 {
        for waiting in cluster.waiting() {
            match waiting.strip_prefix("create job-w") {
                Some(index) => {
                    let text = format!("pods \"job-w{index}\" is forbidden: exceeded quota: {quota}");
                    cluster.answer(&waiting, refusal(403, "Forbidden", &text));
                }
                None => cluster.serve(&waiting),
            }
        }
        cluster.deliver();
        cluster.pass(SECOND / 4);
    }
}

/// The same, until such a request was sent and refused.
fn refuse_until(cluster: &mut Cluster, wanted: &str, quota: &str) {
    cluster.log.clear();
    let end = cluster.now + SECOND * 600;
    while cluster.count(wanted) == 0 && cluster.now < end {
        refuse_pods(cluster, quota);
    }
    refuse_pods(cluster, quota);
}

#[test]
fn the_condition_says_the_newest_refusal_whichever_pod_is_tried() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 5);
    // The pauses between two tries grow to a minute.
    (0..90).for_each(|_| refuse_pods(&mut cluster, "small"));
    refuse_until(&mut cluster, "create job-w-0", "small");
    assert_eq!((cluster.count("create job-w-0"), cluster.count("put")), (1, 0), "it says so already");
    refuse_until(&mut cluster, "create job-w", "large");
    assert_eq!((cluster.count("create job-w"), cluster.count("create job-w-0")), (1, 0), "the next one");
    assert_eq!(cluster.count("put"), 1, "{:?}", cluster.log);
    assert!(condition(&cluster).ends_with("exceeded quota: large"), "{}", condition(&cluster));
    let text = |create: &Create| match &create.outcome {
        Outcome::Refused { message, .. } => Some(Arc::clone(message)),
        _ => None,
    };
    let known = &cluster.engine.cache.get(&Key::new("ns", "job")).expect("it is cached").known;
    let texts: Vec<_> = known.objects.pod_creates.values().filter_map(text).collect();
    assert_eq!(texts.len(), 5);
    assert!(texts.iter().all(|text| Arc::ptr_eq(text, &texts[0])), "they share one text: {texts:?}");
}

fn slow_down() -> Reply {
    let (reason, message) = ("TooManyRequests".into(), "slow down".into());
    Reply::Refused(Rejection { code: 429, reason, message, retry_after: Some(SECOND * 7) })
}

impl Cluster {
    /// Two POSTs are refused, and the GET that has to follow the second one waits for some seconds.
    pub fn owe_a_lookup(&mut self, [paused, invalid]: [&str; 2]) {
        self.answer(paused, slow_down());
        self.answer(invalid, refusal(422, "Invalid", "no"));
        self.turn();
        assert_eq!(self.waiting(), [""; 0], "the Framework pauses");
    }
}

#[test]
fn a_get_that_is_owed_is_sent_after_a_drain_that_was_called_off() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 2);
    cluster.owe_a_lookup(["create job-w-0", "create job-w-1"]);
    cluster.step(Event::Drain(Slots::ALL));
    cluster.turn();
    cluster.step(Event::Resume(Slots::ALL));
    cluster.live(SECOND * 20);
    assert_eq!(cluster.count("holder job-w-1"), 1, "{:?}", cluster.log);
    assert_eq!((end_code(&cluster), cluster.state("job")), (Some(-200), State::Completed));
}

#[test]
fn retry_after_is_obeyed() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 2);
    cluster.answer("create job-w-0", slow_down());
    cluster.serve("create job-w-1");
    cluster.deliver();
    cluster.pass(Duration::from_millis(6900));
    assert!(cluster.open.is_empty(), "the Framework pauses: {:?}", cluster.waiting());
    cluster.live(SECOND * 2);
    assert_eq!(cluster.pods.len(), 2);
}

#[test]
fn a_final_refusal_counts_only_when_no_pod_of_ours_exists() {
    for (code, reason, end) in [
        (422, "Invalid", -200),
        (413, "RequestEntityTooLarge", -200),
        (403, "Forbidden", -310),
        (400, "BadRequest", -310),
    ] {
        let mut cluster = Cluster::new(policy());
        cluster.creating("job", 1);
        cluster.answer("create", refusal(code, reason, "no"));
        cluster.pass(SECOND);
        assert_eq!(cluster.waiting(), ["holder job-w-0"]);
        assert_eq!(end_code(&cluster), None);
        cluster.answer("holder", not_found());
        cluster.live(SECOND * 3);
        assert_eq!(end_code(&cluster), Some(end), "{code}");
        assert_eq!(cluster.state("job"), State::Completed);
    }
}

#[test]
fn a_pod_found_behind_a_final_refusal_is_an_orphan() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    let map = cluster.config_maps["job"].facts.uid.clone();
    // An earlier POST, whose reply is long forgotten, lands now; the watch lags.
    cluster.make_pod("job", "job-w-0", &map);
    cluster.answer("create", refusal(403, "Forbidden", "no"));
    cluster.turn();
    cluster.serve("holder");
    cluster.turn();
    assert_eq!(cluster.waiting(), ["delete job-w-0"]);
    cluster.serve("delete");
    cluster.deliver();
    cluster.live(SECOND);
    assert_eq!((cluster.count("create job-w-0"), end_code(&cluster)), (2, None));
}

#[test]
fn a_name_held_by_an_orphan_is_retried_when_the_orphan_is_gone() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    let map = cluster.config_maps["job"].facts.uid.clone();
    cluster.make_pod("job", "job-w-0", &map);
    cluster.watch.clear();
    cluster.serve("create");
    cluster.turn();
    cluster.serve("holder");
    cluster.turn();
    assert_eq!(cluster.waiting(), ["delete job-w-0"]);
    cluster.pass(SECOND * 100);
    assert_eq!(cluster.count("create job-w-0"), 1, "no POST while the name is held");
    cluster.serve("delete");
    cluster.deliver();
    cluster.turn();
    assert_eq!(cluster.waiting(), ["create job-w-0"]);
}

#[test]
fn a_name_held_by_somebody_else_is_never_deleted_and_says_whose_it_is() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    for _ in 0..12 {
        cluster.answer("create", refusal(409, "AlreadyExists", "exists"));
        cluster.turn();
        cluster.answer(
            "holder",
            Reply::Foreign("the name is taken by Pod job-w-0, which nothing controls".into()),
        );
        cluster.pass(SECOND);
        while cluster.waiting() != ["create job-w-0"] {
            cluster.serve_all();
            cluster.deliver();
            cluster.pass(SECOND);
        }
    }
    assert_eq!(cluster.count("delete"), 0);
    assert!(
        condition(&cluster).starts_with("NameConflict: the name is taken by Pod"),
        "{}",
        condition(&cluster)
    );
    assert!(cluster.now > SECOND * (60 * 5), "up to once a minute");
    cluster.serve("create");
    cluster.deliver();
    cluster.live(SECOND);
    assert!(cluster.pods.contains_key("job-w-0"));
}

/// `kubectl delete configmap --cascade=orphan` leaves Pods that have the label of the slot and no owner.
#[test]
fn a_name_is_tried_at_once_when_the_watch_shows_that_its_holder_is_gone() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    for _ in 0..3 {
        cluster.serve_until("create job-w-0");
        cluster.answer("create job-w-0", refusal(409, "AlreadyExists", "exists"));
        cluster.turn();
        let holder = "the name is taken by Pod job-w-0, which nothing controls";
        cluster.answer("holder job-w-0", Reply::Foreign(holder.into()));
    }
    cluster.live(SECOND);
    assert!(condition(&cluster).starts_with("NameConflict"), "{}", condition(&cluster));
    let (key, name, uid) = (Key::new("ns", "job"), "job-w-0".to_owned(), "orphan".to_owned());
    let holder = UnownedPod { key, name, uid, resource_version: 1, last: None };
    cluster.step(Event::UnownedPod(holder.clone()));
    cluster.turn();
    assert_eq!(cluster.count("create job-w-0"), 3, "the name is held, and the back-off goes on");
    let last = Some(to_raw_value(&json!({})).unwrap());
    cluster.step(Event::UnownedPod(UnownedPod { last, ..holder }));
    cluster.turn();
    assert_eq!(cluster.count("create job-w-0"), 4);
}

#[test]
fn a_name_that_an_earlier_framework_has_left_is_taken_within_seconds() {
    let mut cluster = Cluster::new(policy());
    let facts = ConfigMapFacts {
        uid: "old-map".into(),
        framework_uid: Some("of-the-predecessor".into()),
        deleting: false,
    };
    // The watch of another replica shows it.
    let map = ConfigMapObject { key: Key::new("ns", "job"), resource_version: 1, facts, label: None };
    cluster.config_maps.insert("job".into(), map);
    cluster.create_framework("job", 1);
    cluster.live(SECOND * 60);
    assert!(condition(&cluster).contains("of-the-predecessor"), "{}", condition(&cluster));
    let tried = cluster.count("create map");
    assert!((10..=14).contains(&tried), "each five seconds: {tried}");
    cluster.config_maps.clear();
    cluster.live(SECOND * 6);
    assert_eq!(cluster.count("create job-w-0"), 1);
}

#[test]
fn a_config_map_that_is_refused_is_retried_for_ever() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.turn();
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid"), (400, "BadRequest"), (500, "InternalError")]
    {
        cluster.answer("create map", refusal(code, reason, "no"));
        while !cluster.waiting().contains(&"create map job".to_owned()) {
            cluster.pass(SECOND);
            if cluster.waiting().iter().any(|line| line.starts_with("put")) {
                cluster.serve("put");
            }
        }
    }
    assert_eq!(end_code(&cluster), None);
    cluster.serve("create map");
    cluster.deliver();
    cluster.live(SECOND * 2);
    assert_eq!(cluster.state("job"), State::AttemptPreparing);
}

#[test]
fn a_pod_that_ended_and_went_before_the_reply_is_not_waited_for() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    let request = cluster.open[&cluster.ticket("create job-w-0")].clone();
    let reply = cluster.perform(&request);
    cluster.change_pod("job-w-0", |pod| pod.phase = PodPhase::Succeeded);
    cluster.remove_pod("job-w-0");
    cluster.deliver();
    cluster.pass(SECOND);
    cluster.answer("create job-w-0", reply);
    cluster.live(SECOND * 3);
    assert_eq!(end_code(&cluster), Some(-101));
}
