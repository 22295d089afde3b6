//! Jobs of a kind that has a row over many random lives, with an operator that is played here: it creates the
//! Pods of a resumed job from the stored template, ends jobs before their last Pods, and deletes the Pods of
//! suspended ones. Replies are lost, jobs are deleted and suspended, and the controller is killed. A job is
//! resumed once and after its release, and what is released never exceeds the quota.
//!
//! The kind is batch/v1 Job, which the controller knows by its row only. `FRAMEWORK_SIM_SEEDS=from..to`
//! chooses the seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use fastrand::Rng;
use framework_api::queue::{QUEUE_NAME_LABEL, RESUMED_BY_ANNOTATION};
use framework_core::Defect;
use framework_sim::{Change, History, Meta, Object, Options, Rates, SimCluster, User};
use serde_json::{Value, json};

use crate::simulation::controller::{Controller, Setup};
use crate::simulation::life::calm;
use crate::simulation::seeds;
use crate::simulation::{SECOND, pass, simulate};

/// Seeds of the gate: one of them goes wrong if capacity returns with the end of a job.
const LIVES: Range<u64> = 0..40;
const ROOM: i64 = 4;
const JOBS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn furnish(user: &User) {
    let meta = |name: &str| json!({ "name": name });
    let queue =
        json!({ "apiVersion": "queue.k8s.io/v1alpha1", "kind": "Queue", "metadata": meta("q"), "spec": {} });
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta("room"),
        "spec": { "hard": { "pods": ROOM.to_string() } } });
    for object in [queue, quota] {
        user.create(object).expect("it is valid");
    }
}

/// A user creates a suspended job of so many Pods. Returns whether there was none of that name.
fn create(user: &User, name: &str, pods: i64) -> bool {
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "x" }] } });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "labels": { QUEUE_NAME_LABEL: "q" } },
        "spec": { "suspend": true, "parallelism": pods, "template": template },
    });
    user.create(job).is_ok()
}

fn is_finished(job: &Value) -> bool {
    job["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty())
}

fn is_suspended(job: &Value) -> bool {
    job["spec"]["suspend"] == true
}

fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase)
}

fn owner(object: &Value) -> &str {
    object.controller().and_then(|owner| owner["uid"].as_str()).unwrap_or_default()
}

/// The operator looks at each job once. A job ends with its first Pod; the others are deleted then.
fn operate(operator: &User) {
    let pods = operator.list("pods");
    for job in operator.list("jobs") {
        let own: Vec<_> = pods.iter().filter(|pod| owner(pod) == job.uid()).collect();
        if !is_suspended(&job) && !is_finished(&job) && own.iter().any(|pod| has_ended(pod)) {
            let ends = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
            operator.patch_status("jobs", job.name(), ends).expect("it is there");
        } else if is_suspended(&job) || is_finished(&job) {
            let running = own.iter().filter(|pod| !has_ended(pod) && !pod.deleting());
            running.for_each(|pod| drop(operator.delete("pods", pod.name())));
        } else if !job.deleting() {
            let wanted = job["spec"]["parallelism"].as_i64().unwrap_or(1);
            (0..wanted).for_each(|index| create_pod(operator, &job, index));
        }
    }
}

fn create_pod(operator: &User, job: &Object, index: i64) {
    let template = &job["spec"]["template"];
    let owner = json!({ "apiVersion": "batch/v1", "kind": "Job", "name": job.name(), "uid": job.uid(),
        "controller": true });
    let metadata = json!({ "name": format!("{}-{index}", job.name()), "ownerReferences": [owner],
        "labels": template["metadata"]["labels"] });
    // The quota may be full, or an earlier Pod have the name: the operator looks again.
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] });
    let _ = operator.create(pod);
}

/// The state of the namespace at a moment of the history.
#[derive(Default)]
struct Accounts {
    units: BTreeMap<String, Arc<Object>>,
    /// Jobs by their UID.
    jobs: BTreeMap<String, Arc<Object>>,
    /// The UIDs of the jobs whose Pods have not ended.
    pods: BTreeMap<String, String>,
    /// UIDs of units that have resumed a job.
    resumed: BTreeSet<String>,
    releases: usize,
}

impl Accounts {
    fn take(&mut self, change: &Change) -> Result<(), String> {
        let at = format!("{} at {:?}", change.name, change.at);
        match &*change.plural {
            "jobs" => {
                self.resumes(change).map_err(|broken| format!("{at}: {broken}"))?;
                match &change.new {
                    Some(job) => self.jobs.insert(change.uid.clone(), Arc::clone(job)),
                    None => self.jobs.remove(&change.uid),
                };
            }
            "pods" => match change.new.as_ref().filter(|pod| !has_ended(pod)) {
                Some(pod) => drop(self.pods.insert(change.name.clone(), owner(pod).to_owned())),
                None => drop(self.pods.remove(&change.name)),
            },
            "queueunits" => {
                let is_released = |unit: &Option<Arc<Object>>| {
                    unit.as_ref().is_some_and(|unit| unit["status"]["phase"] == "Dequeued")
                };
                match &change.new {
                    Some(unit) => drop(self.units.insert(change.name.clone(), Arc::clone(unit))),
                    None => drop(self.units.remove(&change.name)),
                }
                if is_released(&change.new) && !is_released(&change.old) {
                    self.releases += 1;
                    let held: i64 = self.units.values().map(|unit| self.held(unit)).sum();
                    if held > ROOM {
                        return Err(format!("{at}: {held} are held of {ROOM} after this release"));
                    }
                }
                if let (Some(unit), None) = (&change.old, &change.new)
                    && self.running(owner(unit)) > 0
                {
                    return Err(format!("{at}: the unit goes before the last Pod of its job"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A job that the controller resumes names the released unit that lets it begin, which does so once.
    fn resumes(&mut self, change: &Change) -> Result<(), String> {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return Ok(()) };
        if !(is_suspended(old) && !is_suspended(new) && change.cause.actor.starts_with("controller")) {
            return Ok(());
        }
        let by = new["metadata"]["annotations"][RESUMED_BY_ANNOTATION].as_str().unwrap_or_default();
        let unit = self.units.get(&format!("job-{}", change.name));
        if !unit.is_some_and(|unit| unit.uid() == by && unit["status"]["phase"] == "Dequeued") {
            return Err("resumed without a release".to_owned());
        }
        if self.resumed.insert(by.to_owned()) { Ok(()) } else { Err("resumed twice by one unit".to_owned()) }
    }

    /// The capacity that a unit holds: that of its job until that has ended, then that of its Pods.
    fn held(&self, unit: &Value) -> i64 {
        if unit["status"]["phase"] != "Dequeued" {
            return 0;
        }
        let pods = unit["spec"]["resource"]["pods"].to_string();
        let given: i64 = pods.trim_matches('"').parse().expect("a number of Pods");
        let job = self.jobs.get(owner(unit)).filter(|job| !is_finished(job));
        if job.is_some() { given } else { given.min(self.running(owner(unit))) }
    }

    fn running(&self, job: &str) -> i64 {
        self.pods.values().filter(|owner| *owner == job).count().try_into().expect("few Pods")
    }
}

/// Returns the number of releases of a history, or the promise that is broken.
fn check(history: &History) -> Result<usize, String> {
    let mut accounts = Accounts::default();
    history.changes.iter().try_for_each(|change| accounts.take(change))?;
    Ok(accounts.releases)
}

/// Plays the life of a seed. Returns the number of releases, or what goes wrong.
fn live(seed: u64, off: Option<Defect>) -> Result<usize, String> {
    let mut rng = Rng::with_seed(seed);
    let rough = Rates { watch_freeze: 0.0, watch_behind: 0.0, ..Rates::rough() };
    let rates = if rng.bool() { rough } else { Rates::calm() };
    let mut options = Options { rates, keep_trace: false, ..calm() };
    options.behaviour.run = SECOND..=SECOND * 10;
    options.behaviour.terminate = SECOND / 2..=SECOND * 5;
    let mut setup = Setup::default();
    setup.policy.queueing = true;
    off.into_iter().for_each(|rule| setup.policy.defects.insert(rule));
    simulate(seed, options, |cluster| async move {
        let user = cluster.user();
        furnish(&user);
        let operator = tokio::spawn(work(user.named("operator")));
        let mut controllers = 1;
        let mut controller = Controller::start(&cluster, controllers, seed, &setup);
        for _ in 0..rng.usize(10..40) {
            let job = *rng.choice(&JOBS).expect("there are some");
            match rng.u8(0..10) {
                0..5 => drop(create(&user, job, rng.i64(1..=3))),
                5 | 6 => drop(user.delete("jobs", job)),
                7 => drop(user.patch("jobs", job, json!({ "spec": { "suspend": true } }))),
                8 => {
                    controller.crash().await;
                    controllers += 1;
                    controller = Controller::start(&cluster, controllers, seed, &setup);
                }
                // It takes the room for what the quota had at first.
                _ => cluster.freeze_watches(&controller.name, "resourcequotas", SECOND * 40),
            }
            pass(SECOND * rng.u32(0..8)).await;
        }
        let concluded = conclude(&cluster, &user).await;
        operator.abort();
        check(&cluster.history()).and_then(|releases| concluded.map(|()| releases))
    })
}

async fn work(operator: User) {
    loop {
        operate(&operator);
        pass(SECOND / 10).await;
    }
}

/// Nothing more happens to the jobs: each that the user did not suspend comes to its end.
async fn conclude(cluster: &SimCluster, user: &User) -> Result<(), String> {
    cluster.heal();
    let by_user = |job: &Object| {
        let by = job["metadata"]["annotations"][RESUMED_BY_ANNOTATION].as_str();
        is_suspended(job) && by.is_some()
    };
    for job in user.list("jobs").iter().filter(|job| by_user(job)) {
        user.delete("jobs", job.name()).expect("it is there");
    }
    let all_end = |user: &User| user.list("jobs").iter().all(|job| is_finished(job) || by_user(job));
    let ended = cluster.until(SECOND * 900, all_end).await;
    if ended { Ok(()) } else { Err("a job never has its turn".to_owned()) }
}

#[test]
fn jobs_of_a_row_are_resumed_once_and_within_the_quota_in_every_life() {
    let releases: usize = seeds::from_environment(LIVES)
        .map(|seed| live(seed, None).unwrap_or_else(|broken| panic!("seed {seed}: {broken}")))
        .sum();
    assert!(releases > 0, "nothing was released");
}

#[test]
fn lives_find_that_capacity_returns_with_the_end_of_a_job() {
    let broken = LIVES.filter_map(|seed| live(seed, Some(Defect::ReturnAtEnd)).err()).next();
    let broken = broken.expect("a seed goes wrong");
    assert!(
        broken.contains("the unit goes before the last Pod") || broken.contains("are held of"),
        "{broken}"
    );
}

#[test]
fn a_job_that_is_resumed_without_a_release_or_twice_is_found() {
    let broken = |times: usize| {
        simulate(1, calm(), |cluster| async move {
            let (user, controller) = (cluster.user(), cluster.user().named("controller-1"));
            assert!(create(&user, "a", 1));
            let unit = json!({
                "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit", "metadata": { "name": "job-a" },
                "spec": { "queue": "q", "resource": { "pods": 1 } },
            });
            let unit = user.create(unit).expect("it is valid").uid().to_owned();
            for phase in ["Enqueued", "Dequeued"].iter().take(times) {
                user.patch_status("queueunits", "job-a", json!({ "phase": phase })).expect("it goes forward");
            }
            for suspend in [false, true, false] {
                let metadata = json!({ "annotations": { RESUMED_BY_ANNOTATION: unit } });
                let patch = json!({ "metadata": metadata, "spec": { "suspend": suspend } });
                controller.patch("jobs", "a", patch).expect("it is there");
            }
            check(&cluster.history()).expect_err("a promise is broken")
        })
    };
    assert!(broken(1).ends_with("resumed without a release"));
    assert!(broken(2).ends_with("resumed twice by one unit"));
}
