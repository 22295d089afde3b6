//! Which job a Pod belongs to, in any order in which its owners are seen.

mod property;

use super::*;

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

fn by(controller: Key) -> Option<Named> {
    Some(Named { controller, consumer: None })
}

fn part(uid: &str, controller: &str) -> Option<(Arc<str>, Arc<str>)> {
    Some((uid.into(), controller.into()))
}

fn link(name: &str, version: u128, uid: &str, controller: &str) -> OwnerLink {
    let controller = Some(controller.into()).filter(|uid: &Arc<str>| !uid.is_empty());
    OwnerLink { key: key(name), resource_version: version, uid: uid.into(), controller, slot: None }
}

#[test]
fn a_pod_belongs_to_the_framework_that_controls_its_config_map() {
    let mut owners = Owners::default();
    owners.set_pod(&key("pod"), by(key("map")));
    assert_eq!(owners.job_of(&key("pod")), None, "the ConfigMap is not seen yet");
    let shown = Change::Applied(link("a-attempt", 1, "map", "framework"));
    assert_eq!(owners.apply(shown), [key("pod")].into());
    assert_eq!(owners.job_of(&key("pod")), Some(key("framework")));
    let another = Change::Applied(link("a-attempt", 2, "other", "framework"));
    assert_eq!(owners.apply(another), [key("pod")].into());
    assert_eq!(owners.job_of(&key("pod")), None, "the next attempt has the name");
}

#[test]
fn a_pod_of_a_job_set_belongs_to_it_and_one_of_a_known_job_to_the_job() {
    let mut owners = Owners::default();
    for pod in ["set-pod", "job-pod", "stranger"] {
        owners.set_pod(&key(pod), by(key(&format!("{pod}-job"))));
    }
    owners.set_job(&key("set-pod-job"), true);
    owners.link(Between::Job, key("child"), part("set-pod-job", "set"));
    assert_eq!(owners.set_job(&key("job-pod-job"), true), [key("job-pod")].into());
    let jobs = ["set-pod", "job-pod", "stranger"].map(|pod| owners.job_of(&key(pod)));
    assert_eq!(jobs, [Some(key("set")), Some(key("job-pod-job")), None]);
    owners.set_job(&key("job-pod-job"), false);
    assert_eq!(owners.job_of(&key("job-pod")), None);
}

#[test]
fn a_pod_of_a_launcher_belongs_to_the_job_that_controls_its_job() {
    let mut owners = Owners::default();
    owners.set_pod(&key("launcher-0"), by(key("job")));
    owners.set_job(&key("job"), true);
    assert_eq!(owners.link(Between::Job, key("launcher"), part("job", "mpi")), [key("launcher-0")].into());
    assert_eq!(owners.job_of(&key("launcher-0")), Some(key("mpi")));
    // Once it waits in a queue itself, it is a job of its own.
    assert_eq!(owners.link(Between::Job, key("launcher"), None), [key("launcher-0")].into());
    assert_eq!(owners.job_of(&key("launcher-0")), Some(key("job")));
    assert_eq!(owners.set_job(&key("job"), false), [key("launcher-0")].into());
    assert_eq!(owners.job_of(&key("launcher-0")), None, "its owners are not all known");
}

/// All orders of so many things.
fn orders(number: usize) -> Vec<Vec<usize>> {
    let Some(last) = number.checked_sub(1) else { return vec![Vec::new()] };
    let with = |order: &Vec<usize>, place: usize| {
        let mut order = order.clone();
        order.insert(place, last);
        order
    };
    orders(last).iter().flat_map(|order| (0..number).map(move |place| with(order, place))).collect()
}

#[test]
fn a_pod_of_a_train_job_belongs_to_it_in_any_order_of_arrival() {
    // The objects of a TrainJob whose JobSet is watched, and whose Pod has the label of another job.
    let step = |owners: &mut Owners, step: usize, is_there: bool| match step {
        0 => owners.set_job(&key("train"), is_there),
        1 => owners.set_job(&key("set"), is_there),
        2 => owners.link(Between::JobSet, key("train"), part("set", "train").filter(|_| is_there)),
        3 => owners.link(Between::Job, key("train"), part("job", "set").filter(|_| is_there)),
        _ => {
            let named = Named { controller: key("job"), consumer: Some(key("another")) };
            owners.set_pod(&key("pod"), Some(named).filter(|_| is_there));
            [key("pod")].into()
        }
    };
    for order in orders(5) {
        let mut owners = Owners::default();
        owners.set_job(&key("another"), true);
        let mut known = None;
        for next in &order {
            if step(&mut owners, *next, true).contains(&key("pod")) {
                known = owners.job_of(&key("pod"));
            }
        }
        assert_eq!(known, Some(key("train")), "{order:?}");
        for next in &order {
            if step(&mut owners, *next, false).contains(&key("pod")) {
                known = owners.job_of(&key("pod"));
            }
            assert_eq!(known, owners.job_of(&key("pod")), "{order:?} to {next}");
        }
        owners.set_job(&key("another"), false);
        assert!(owners.is_empty(), "{owners:?}");
    }
}

#[test]
fn a_pod_belongs_to_its_job_set_if_that_is_part_of_no_known_job() {
    let mut owners = Owners::default();
    let pod = Named { controller: key("job"), consumer: Some(key("train")) };
    owners.set_pod(&key("pod"), Some(pod));
    owners.set_job(&key("train"), true);
    owners.set_job(&key("set"), true);
    owners.link(Between::Job, key("a"), part("job", "set"));
    assert_eq!(owners.job_of(&key("pod")), Some(key("set")), "its own consumer, also with another label");
    assert_eq!(owners.link(Between::JobSet, key("a"), part("set", "foreign")), [key("pod")].into());
    assert_eq!(owners.job_of(&key("pod")), Some(key("set")), "the TrainJob of its name is not its owner");
    assert_eq!(owners.link(Between::JobSet, key("a"), part("set", "train")), [key("pod")].into());
    assert_eq!(owners.job_of(&key("pod")), Some(key("train")));
    assert_eq!(owners.link(Between::JobSet, key("a"), part("set", "train")), [].into(), "nothing new");
    // Another JobSet takes its name: the Pods of the first are no part of it.
    assert_eq!(owners.link(Between::JobSet, key("a"), part("set-2", "train")), [key("pod")].into());
    assert_eq!(owners.job_of(&key("pod")), Some(key("set")));
}

#[test]
fn a_label_counts_where_the_owners_lead_to_no_known_job() {
    let mut owners = Owners::default();
    let pod = Named { controller: key("cluster"), consumer: Some(key("ray")) };
    owners.set_pod(&key("head"), Some(pod.clone()));
    assert_eq!(owners.job_of(&key("head")), None, "nor is the job known");
    assert_eq!(owners.set_job(&key("ray"), true), [key("head")].into());
    assert_eq!(owners.job_of(&key("head")), Some(key("ray")));
    // Its controller turns out to be another job.
    owners.set_job(&key("cluster"), true);
    assert_eq!(owners.job_of(&key("head")), Some(key("cluster")));
    owners.set_job(&key("cluster"), false);
    owners.set_pod(&key("head"), None);
    assert_eq!(owners.job_of(&key("head")), None);
    assert!(owners.pods.is_empty());
}

#[test]
fn a_pod_of_a_framework_belongs_to_it_whatever_job_its_label_names() {
    let mut owners = Owners::default();
    owners.set_job(&key("job"), true);
    let copied = Named { controller: key("map"), consumer: Some(key("job")) };
    owners.set_pod(&key("pod"), Some(copied));
    let shown = Change::Applied(link("a-attempt", 1, "map", "framework"));
    assert_eq!(owners.apply(shown), [key("pod")].into());
    assert_eq!(owners.job_of(&key("pod")), Some(key("framework")));
}

#[test]
fn a_uid_counts_in_its_own_namespace_only() {
    let mut owners = Owners::default();
    owners.apply(Change::Applied(link("a-attempt", 1, "map", "framework")));
    let elsewhere = Key::new("elsewhere", "pod");
    owners.set_pod(&elsewhere, by(Key::new("elsewhere", "map")));
    assert_eq!(owners.job_of(&elsewhere), None);
}
