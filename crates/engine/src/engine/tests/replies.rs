//! Bad replies: none of them makes a Framework, or all of them, spend the budget on repetitions.

use std::time::Duration;

use framework_core::observed::PodPhase;
use framework_message::{Change, Key, Rejection};

use super::cluster::{Cluster, generous, not_found, policy, refusal};
use crate::engine::EngineSettings;
use crate::event::Event;
use crate::object::{Reply, UnownedPod};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Lets time pass. Answers every write of a status in the same way, and serves the other requests.
fn refuse_statuses(cluster: &mut Cluster, time: Duration, reply: impl Fn() -> Reply) {
    let end = cluster.now + time;
    while cluster.now < end {
        cluster.pass(SECOND / 4);
        for waiting in cluster.waiting() {
            if waiting.starts_with("put") {
                cluster.answer(&waiting, reply());
            } else {
                cluster.serve(&waiting);
            }
        }
        cluster.deliver();
    }
}

#[test]
fn an_hour_without_an_outcome_costs_few_requests() {
    let table: [(fn() -> Reply, usize); 3] = [
        (|| Reply::Unknown("etcdserver: mvcc: database space exceeded".into()), 150),
        (|| refusal(409, "Conflict", "the object has been modified"), 150),
        (|| refusal(503, "ServiceUnavailable", "starting"), 80),
    ];
    for (reply, most) in table {
        let mut cluster = Cluster::new(policy());
        cluster.running("job", 3);
        cluster.exit("job-w-0", 1);
        cluster.deliver();
        refuse_statuses(&mut cluster, HOUR, reply);
        let sent = cluster.log.len();
        assert!((50..most).contains(&sent), "{sent}: {:?}", &cluster.log[..10]);
        // It goes on within a minute once writes are served again.
        cluster.live(SECOND * 61);
        assert!(cluster.status("job").attempt_status.completion_status.is_some());
    }
}

#[test]
fn many_frameworks_in_trouble_take_a_tenth_of_the_budget_and_all_recover() {
    const FRAMEWORKS: usize = 400;
    let table: [fn() -> Reply; 2] = [
        || Reply::Unknown("etcdserver: mvcc: database space exceeded".into()),
        || refusal(500, "InternalError", "etcdserver: mvcc: database space exceeded"),
    ];
    let names: Vec<String> = (0..FRAMEWORKS).map(|index| format!("job{index:03}")).collect();
    for reply in table {
        let mut cluster = Cluster::with(policy(), EngineSettings::default());
        names.iter().for_each(|name| cluster.running(name, 1));
        names.iter().for_each(|name| cluster.exit(&format!("{name}-w-0"), 1));
        cluster.deliver();
        let before = cluster.log.len();
        refuse_statuses(&mut cluster, HOUR, reply);
        let sent = cluster.log.len() - before;
        let tenth = EngineSettings::default().qps * HOUR.as_secs_f64() / 10.0;
        assert!((10_000..tenth as usize).contains(&sent), "{sent} requests, a tenth is {tenth}");
        cluster.live(SECOND * 120);
        for name in &names {
            let ended = cluster.status(name).attempt_status.completion_status.is_some();
            assert!(ended, "{name} waits although writes are served");
        }
    }
}

#[test]
fn writes_of_others_do_not_shorten_the_back_off_of_one_that_fails() {
    const FAILING: usize = 300;
    let mut cluster = Cluster::with(policy(), EngineSettings::default());
    let names: Vec<String> = (0..FAILING).map(|index| format!("bad{index:03}")).collect();
    names.iter().for_each(|name| cluster.running(name, 1));
    names.iter().for_each(|name| cluster.exit(&format!("{name}-w-0"), 1));
    cluster.deliver();
    let mut sent: std::collections::BTreeMap<String, Vec<Duration>> = Default::default();
    for round in 0..200 {
        // Another tenant's Framework is created and stored, every three seconds.
        cluster.create_framework(&format!("tenant2-{round}"), 1);
        let end = cluster.now + SECOND * 3;
        while cluster.now < end {
            cluster.pass(SECOND / 4);
            for waiting in cluster.waiting() {
                if waiting.starts_with("put bad") {
                    sent.entry(waiting.clone()).or_default().push(cluster.now);
                    cluster.answer(&waiting, refusal(500, "InternalError", "failed calling webhook"));
                } else {
                    cluster.serve(&waiting);
                }
            }
            cluster.deliver();
        }
    }
    // Seconds between the writes of one Framework: a back-off that doubles, less up to a quarter.
    let least = [0.75, 1.5, 3.0, 6.0, 12.0, 24.0].into_iter().chain(std::iter::repeat(45.0));
    for (write, times) in &sent {
        assert!(times.len() > 5, "{write} is repeated");
        for (pair, least) in times.windows(2).zip(least.clone()) {
            assert!((pair[1] - pair[0]).as_secs_f64() >= least, "{write} at {times:?}");
        }
    }
}

/// The first half of the statuses is stored, and the replies are lost.
#[test]
fn a_framework_that_waits_no_more_takes_no_turn_of_another() {
    let mut cluster = Cluster::with(policy(), EngineSettings { qps: 80.0, ..generous() });
    let names: Vec<String> = (0..40).map(|index| format!("job{index:02}")).collect();
    names.iter().for_each(|name| cluster.create_held(name, 1));
    cluster.deliver();
    cluster.turn();
    let (stored, refused) = names.split_at(20);
    stored.iter().for_each(|name| cluster.serve_silently(&format!("put {name}")));
    for name in refused {
        cluster.answer(&format!("put {name}"), refusal(500, "InternalError", "etcdserver: no space"));
    }
    // From now on writes are served. The one of another tenant is the first.
    cluster.create_held("tenant2", 1);
    cluster.deliver();
    cluster.live(SECOND * 3);
    let is_stored = |name: &&String| cluster.frameworks[*name].content.as_ref().unwrap().1.is_some();
    assert_eq!(refused.iter().filter(is_stored).count(), refused.len());
}

#[test]
fn a_write_that_landed_without_a_reply_delays_nothing() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.serve_silently("put");
    cluster.deliver();
    cluster.start("job");
    assert_eq!(cluster.waiting(), ["create map job"], "the watch has shown it: there is no GET");
}

/// Lets time pass. A quota refuses every Pod of `job`, and other requests are served.
fn refuse_creates(cluster: &mut Cluster, time: Duration) {
    let end = cluster.now + time;
    while cluster.now < end {
        for waiting in cluster.waiting() {
            if waiting.starts_with("create job-w") {
                cluster.answer(&waiting, refusal(403, "Forbidden", "exceeded quota: small"));
            } else {
                cluster.serve(&waiting);
            }
        }
        cluster.deliver();
        cluster.pass(SECOND / 4);
    }
}

/// Lets time pass. Answers each delete of a Pod of `job` in the same way, and serves the other requests.
fn refuse_deletes(cluster: &mut Cluster, time: Duration, reply: impl Fn() -> Reply) {
    let end = cluster.now + time;
    while cluster.now < end {
        for waiting in cluster.waiting() {
            if waiting.starts_with("delete job-w") {
                cluster.answer(&waiting, reply());
            } else {
                cluster.serve(&waiting);
            }
        }
        cluster.deliver();
        cluster.pass(SECOND / 4);
    }
}

#[test]
fn a_pod_that_cannot_be_deleted_is_reported_but_not_each_time() {
    type Refuse = fn() -> Reply;
    let replies: [(Refuse, &str); 2] = [
        (|| refusal(403, "Forbidden", "denied the request: keep it"), "denied the request: keep it (403)"),
        // A proxy gets no answer in time, whether the Pod is deleted or not.
        (|| Reply::Unknown("Bad Gateway (502)".into()), "Bad Gateway (502)"),
    ];
    for (reply, words) in replies {
        let mut cluster = Cluster::new(policy());
        cluster.running("job", 1);
        cluster.stop("job");
        cluster.deliver();
        let notes = |cluster: &Cluster| -> Vec<String> {
            let reports = cluster.heard.reports.iter().filter(|report| report.reason == "DeletionFailed");
            reports.map(|report| report.note.clone()).collect()
        };
        refuse_deletes(&mut cluster, SECOND * 4, reply);
        assert!(cluster.count("delete job-w") > 1 && notes(&cluster).is_empty(), "it may pass");
        refuse_deletes(&mut cluster, SECOND * 600, reply);
        let notes = notes(&cluster);
        assert!(cluster.count("delete job-w") > 10 && (3..=5).contains(&notes.len()), "{notes:?}");
        assert!(notes[0].contains("the Pod job-w-0") && notes[0].ends_with(words), "{notes:?}");
        cluster.live(SECOND * 61);
        assert!(cluster.pods.is_empty(), "it is tried again for ever");
    }
}

#[test]
fn a_refusal_is_probed_by_one_create_of_all() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 500);
    refuse_creates(&mut cluster, SECOND * 300);
    let asked = cluster.count("create job-w");
    // Those that were in flight at the first refusal, and one each time the back-off ends.
    assert!(asked <= 64 + 12, "{asked}");
    cluster.live(SECOND * 180);
    assert_eq!(cluster.pods.len(), 500, "one that is accepted lets the others follow");
}

#[test]
fn a_hundred_task_roles_are_probed_by_one_create_of_all() {
    let mut cluster = Cluster::new(policy());
    cluster.create_framework("job", 1);
    cluster.edit("job", |framework| {
        let role = framework.spec.task_roles[0].clone();
        let named = |index| framework_api::TaskRole { name: format!("w{index}"), ..role.clone() };
        framework.spec.task_roles = (0..100).map(named).collect();
    });
    cluster.deliver();
    refuse_creates(&mut cluster, SECOND * 300);
    let asked = cluster.count("create job-w");
    assert!((4..=64 + 12).contains(&asked), "{asked}");
    cluster.live(SECOND * 180);
    assert_eq!(cluster.pods.len(), 100, "one that is accepted lets the others follow");
}

#[test]
fn a_429_of_a_webhook_pauses_its_own_framework_and_no_other() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("a", 4);
    for index in 0..3 {
        let rejection = Rejection {
            code: 429,
            reason: "TooManyRequests".into(),
            message: "admission webhook \"x\" denied the request".into(),
            retry_after: Some(Duration::from_secs(u64::MAX)),
        };
        cluster.answer(&format!("create a-w-{index}"), Reply::Refused(rejection));
    }
    cluster.serve_all();
    cluster.create_framework("b", 1);
    cluster.deliver();
    cluster.pass(SECOND);
    assert_eq!(cluster.count("create map b"), 1, "{:?}", cluster.log);
    assert!(!cluster.waiting().iter().any(|words| words.starts_with("create a")));
    cluster.live(SECOND * 125);
    assert_eq!(cluster.pods.len(), 5, "no pause is longer than a minute");
}

#[test]
fn a_pod_that_is_taken_from_its_owner_and_given_back_goes_on() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    let pod = cluster.pods["job-w-0"].clone();
    let resource_version = cluster.version();
    cluster.step(Event::UnownedPod(UnownedPod {
        key: pod.key.clone(),
        name: pod.name.clone(),
        uid: pod.facts.uid.clone(),
        resource_version,
        last: None,
    }));
    assert_eq!(cluster.engine.gauges().pods, 1);
    // A client puts the ownerReference back before anything was decided.
    cluster.run_pod("job-w-0");
    cluster.deliver();
    assert_eq!(cluster.engine.gauges().pods, 2, "it is ours again");
    cluster.exit("job-w-0", 0);
    cluster.exit("job-w-1", 0);
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("create"), 0, "{:?}", cluster.log);
    let status = cluster.status("job").attempt_status.completion_status.clone().unwrap();
    assert_eq!(status.code, 0);
}

#[test]
fn a_pod_that_is_given_to_another_framework_ends_its_task() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    cluster.running("other", 1);
    let map = cluster.config_maps["other"].facts.uid.clone();
    let mut pod = cluster.pods["job-w-0"].clone();
    (pod.key, pod.facts.config_map_uid, pod.resource_version) =
        (Key::new("ns", "other"), map, cluster.version());
    cluster.pods.insert("job-w-0".to_owned(), pod.clone());
    cluster.step(Event::Pod(Change::Applied(pod)));
    cluster.live(SECOND * 5);
    let status = cluster.status("job").attempt_status.completion_status.clone().expect("its Task has ended");
    assert_eq!(status.code, -101, "its Pod is not its own any more");
    assert!(cluster.status("other").attempt_status.completion_status.is_none());
}

#[test]
fn a_pod_that_was_wrongly_reported_gone_is_never_posted_in_a_loop() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    cluster.edit("job", |framework| {
        let policy = &mut framework.spec.task_roles[0].task.retry_policy;
        (policy.max_retry_count, policy.fancy_retry_policy) = (-2, false);
    });
    cluster.exit("job-w-0", 1);
    cluster.deliver();
    let end = cluster.now + SECOND * 120;
    let mut turns = 0;
    // Each DELETE gets a 404, and the Pod lives on.
    while cluster.now < end && turns < 5000 {
        turns += 1;
        cluster.turn();
        if cluster.open.is_empty() {
            cluster.pass(SECOND / 10);
        }
        for waiting in cluster.waiting() {
            if waiting.starts_with("delete job-w") || waiting.starts_with("force job-w") {
                cluster.answer(&waiting, not_found());
            } else {
                cluster.serve(&waiting);
            }
        }
        cluster.deliver();
    }
    let asked = ["create job-w", "holder", "delete job-w"].map(|wanted| cluster.count(wanted));
    assert!(asked[0] > 0 && asked.iter().all(|count| *count < 40), "{asked:?}");
    cluster.live(SECOND * 120);
    assert!(cluster.pods.values().all(|pod| pod.facts.phase != PodPhase::Failed), "the dead one made room");
    assert_eq!(cluster.pods.len(), 1);
}

#[test]
fn a_pod_called_gone_by_a_stale_reply_is_taken_back_from_the_watch() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    cluster.strip_label("job-w-0");
    cluster.deliver();
    cluster.turn();
    // A stale reply.
    cluster.answer("confirm job-w-0", not_found());
    cluster.pods.get_mut("job-w-0").unwrap().label = cluster.slot("job");
    cluster.run_pod("job-w-0");
    cluster.deliver();
    cluster.exit("job-w-0", 0);
    cluster.deliver();
    cluster.live(SECOND * 5);
    assert_eq!(cluster.count("create"), 0, "{:?}", cluster.log);
    assert_eq!(cluster.status("job").attempt_status.completion_status.as_ref().unwrap().code, 0);
}

#[test]
fn a_store_that_was_restored_is_noticed_by_the_first_read() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 1);
    // The same object as it was long ago, which no watch shows.
    cluster.frameworks.get_mut("job").unwrap().resource_version = 3;
    cluster.exit("job-w-0", 1);
    cluster.deliver();
    cluster.pass(SECOND);
    cluster.answer("put", refusal(409, "Conflict", "the object has been modified"));
    cluster.pass(SECOND);
    assert_eq!(cluster.waiting(), ["get job"]);
    cluster.serve("get");
    cluster.turn();
    assert_eq!(cluster.heard.went_back.len(), 1);
    let (seen, found) = cluster.heard.went_back[0];
    assert!(seen > 100 && found == 3);
}

#[test]
fn a_read_that_the_watch_overtakes_is_no_sign_of_a_restored_store() {
    let mut cluster = Cluster::new(policy());
    cluster.create_held("job", 1);
    cluster.deliver();
    cluster.turn();
    cluster.answer("put", refusal(409, "Conflict", "the object has been modified"));
    cluster.pass(SECOND);
    let read = cluster.frameworks["job"].clone();
    cluster.scale("job", 3);
    cluster.deliver();
    cluster.answer("get", Reply::Object(crate::object::Object::Framework(read)));
    cluster.turn();
    assert!(cluster.heard.went_back.is_empty());
    cluster.step(Event::Framework(Change::Applied(cluster.frameworks["job"].clone())));
    cluster.start("job");
    cluster.live(SECOND * 3);
    assert_eq!(cluster.pods.len(), 3);
}

#[test]
fn the_event_about_a_held_pod_names_eight_finalizers_at_most() {
    let note = |number: usize| {
        let finalizers: Vec<String> = (0..number).map(|number| format!("example.com/{number}")).collect();
        crate::engine::replies::held_note("job-w-0", &finalizers)
    };
    assert!(note(8).ends_with(
        "its finalizers: example.com/0, example.com/1, example.com/2, example.com/3, \
        example.com/4, example.com/5, example.com/6, example.com/7"
    ));
    assert!(note(25_000).ends_with("example.com/7 and 24992 more"), "{}", note(25_000));
}
