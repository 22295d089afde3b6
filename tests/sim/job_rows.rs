//! Jobs of a kind that has a row over many random lives, with an operator that is played here. The operator
//! creates the Pods of a resumed job from the stored templates, ends jobs before their last Pods, and deletes
//! the Pods of suspended ones. Replies are lost, watches lag, jobs are deleted and suspended, and the
//! controller is killed.
//!
//! A unit asks for the Pods of its job, and goes with it. A job is resumed once and after its release, its
//! Pods have the labels of the job, and released jobs never exceed the quota.
//!
//! The kind alternates by seed: one that was invented for these lives, and batch/v1 Job. The controller knows
//! both by their rows only. `FRAMEWORK_SIM_SEEDS=from..to` chooses the seeds.

mod kind;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use fastrand::Rng;
use framework_api::queue::{CONSUMER_LABEL, QUEUE_NAME_LABEL, RESUMED_BY_ANNOTATION};
use framework_core::Defect;
use framework_sim::{Change, History, Meta, Object, Options, Rates, SimCluster, User, WatchRates};
use serde_json::{Value, json};

use crate::simulation::controller::{Controller, Setup};
use crate::simulation::life::calm;
use crate::simulation::seeds;
use crate::simulation::{SECOND, pass, simulate};
use kind::PlayedKind;

/// Seeds of the gate: of each kind, one goes wrong if capacity returns with the end of a job.
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

fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase)
}

fn owner(object: &Value) -> &str {
    object.controller().and_then(|owner| owner["uid"].as_str()).unwrap_or_default()
}

/// The operator looks at each job once. A job ends with its first Pod; the others are deleted then.
fn operate(operator: &User, kind: PlayedKind) {
    let pods = operator.list("pods");
    for job in operator.list(kind.plural()) {
        let own: Vec<_> = pods.iter().filter(|pod| owner(pod) == job.uid()).collect();
        let idle = kind.is_suspended(&job) || kind.is_finished(&job);
        if !idle && own.iter().any(|pod| has_ended(pod)) {
            operator.patch_status(kind.plural(), job.name(), kind.end()).expect("it is there");
        } else if idle {
            let running = own.iter().filter(|pod| !has_ended(pod) && !pod.deleting());
            running.for_each(|pod| drop(operator.delete("pods", pod.name())));
        } else if !job.deleting() {
            create_pods(operator, kind, &job);
        }
    }
}

/// Creates the Pods of a job that are not there.
fn create_pods(operator: &User, kind: PlayedKind, job: &Object) {
    for (set, (pods, template)) in kind.templates(job).into_iter().enumerate() {
        for index in 0..pods {
            let name = format!("{}-{set}-{index}", job.name());
            let metadata = json!({ "name": name, "ownerReferences": [kind.owner(job)],
                "labels": template["metadata"]["labels"] });
            let pod =
                json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] });
            // The quota may be full, or an earlier Pod have the name: the operator looks again.
            let _ = operator.create(pod);
        }
    }
}

/// The state of the namespace at a moment of the history.
#[derive(Default)]
struct Accounts {
    kind: PlayedKind,
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
        let taken = match &*change.plural {
            "pods" => self.take_pod(change),
            "queueunits" => self.take_unit(change),
            plural if plural == self.kind.plural() => self.take_job(change),
            _ => Ok(()),
        };
        taken.map_err(|broken| format!("{} at {:?}: {broken}", change.name, change.at))
    }

    fn take_job(&mut self, change: &Change) -> Result<(), String> {
        self.resumes(change)?;
        match &change.new {
            Some(job) => self.jobs.insert(change.uid.clone(), Arc::clone(job)),
            None => self.jobs.remove(&change.uid),
        };
        Ok(())
    }

    fn take_pod(&mut self, change: &Change) -> Result<(), String> {
        match change.new.as_ref().filter(|pod| !has_ended(pod)) {
            Some(pod) => drop(self.pods.insert(change.name.clone(), owner(pod).to_owned())),
            None => drop(self.pods.remove(&change.name)),
        }
        let (Some(pod), None) = (&change.new, &change.old) else { return Ok(()) };
        let labels = &pod["metadata"]["labels"];
        let has_both = labels[CONSUMER_LABEL] == owner(pod) && labels[QUEUE_NAME_LABEL] == "q";
        if has_both { Ok(()) } else { Err(format!("a Pod without the labels of its job: {labels}")) }
    }

    fn take_unit(&mut self, change: &Change) -> Result<(), String> {
        match &change.new {
            Some(unit) => drop(self.units.insert(change.name.clone(), Arc::clone(unit))),
            None => drop(self.units.remove(&change.name)),
        }
        if let (Some(unit), None) = (&change.new, &change.old)
            && let Some(job) = self.jobs.get(owner(unit))
            && requested(unit) != self.kind.pods(job)
        {
            return Err(format!("the unit of {} Pods requests {}", self.kind.pods(job), requested(unit)));
        }
        let is_released = |unit: &Option<Arc<Object>>| {
            unit.as_ref().is_some_and(|unit| unit["status"]["phase"] == "Dequeued")
        };
        if is_released(&change.new) && !is_released(&change.old) {
            self.releases += 1;
            let held: i64 = self.units.values().map(|unit| self.held(unit)).sum();
            if held > ROOM {
                return Err(format!("{held} are held of {ROOM} after this release"));
            }
        }
        if let (Some(unit), None) = (&change.old, &change.new)
            && self.running(owner(unit)) > 0
        {
            return Err("the unit goes before the last Pod of its job".to_owned());
        }
        Ok(())
    }

    /// A job that the controller resumes names the released unit that lets it begin, which does so once.
    fn resumes(&mut self, change: &Change) -> Result<(), String> {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return Ok(()) };
        let begins = self.kind.is_suspended(old) && !self.kind.is_suspended(new);
        if !(begins && change.cause.actor.starts_with("controller")) {
            return Ok(());
        }
        let by = new["metadata"]["annotations"][RESUMED_BY_ANNOTATION].as_str().unwrap_or_default();
        let unit = self.units.get(&self.kind.unit(&change.name));
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
        let given = requested(unit);
        let job = self.jobs.get(owner(unit)).filter(|job| !self.kind.is_finished(job));
        if job.is_some() { given } else { given.min(self.running(owner(unit))) }
    }

    fn running(&self, job: &str) -> i64 {
        self.pods.values().filter(|owner| *owner == job).count().try_into().expect("few Pods")
    }
}

/// The number of Pods that a unit requests.
fn requested(unit: &Value) -> i64 {
    let pods = unit["spec"]["resource"]["pods"].to_string();
    pods.trim_matches('"').parse().expect("a number of Pods")
}

/// Returns the number of releases of a history, or the promise that is broken.
fn check(history: &History, kind: PlayedKind) -> Result<usize, String> {
    let mut accounts = Accounts { kind, ..Accounts::default() };
    history.changes.iter().try_for_each(|change| accounts.take(change))?;
    Ok(accounts.releases)
}

/// Plays the life of a seed. Returns the number of releases, or the fault.
fn live(seed: u64, off: Option<Defect>) -> Result<usize, String> {
    let kind = PlayedKind::of_seed(seed);
    let mut rng = Rng::with_seed(seed);
    // No promise holds for Pods that the controller is not shown. A watch that hangs shows none, so requests
    // that land late break off instead.
    let all = Rates::rough();
    let watch = WatchRates { freeze: 0.0, behind: 0.0, ..all.watch };
    let shown = Rates { watch, hang: 0.0, ..all };
    let rough = Rates { break_off: 0.005, ..shown };
    let rates = if rng.bool() { rough } else { Rates::calm() };
    let mut options = Options { rates, keep_trace: false, ..calm() };
    options.behaviour.run = SECOND..=SECOND * 10;
    options.behaviour.terminate = SECOND / 2..=SECOND * 5;
    let mut setup = Setup::default();
    setup.policy.queueing = true;
    off.into_iter().for_each(|rule| setup.policy.defects.insert(rule));
    kind.install(&mut options, &mut setup);
    simulate(seed, options, |cluster| async move {
        let user = cluster.user();
        furnish(&user);
        let operator = tokio::spawn(work(user.named("operator"), kind));
        let mut controllers = 1;
        let mut controller = Controller::start(&cluster, controllers, seed, &setup);
        for _ in 0..rng.usize(10..40) {
            let job = *rng.choice(&JOBS).expect("there are some");
            match rng.u8(0..11) {
                // A job of that name may be there.
                0..5 => drop(user.create(kind.job(job, rng.i64(1..=3)))),
                5 | 6 => drop(user.delete(kind.plural(), job)),
                7 => drop(user.patch(kind.plural(), job, kind.suspension(true))),
                8 => {
                    controller.crash().await;
                    controllers += 1;
                    controller = Controller::start(&cluster, controllers, seed, &setup);
                }
                9 => cluster.lag_watches(&controller.name, kind.plural(), SECOND * rng.u32(1..10)),
                // The controller sees the room that the quota had at first.
                _ => cluster.freeze_watches(&controller.name, "resourcequotas", SECOND * 40),
            }
            pass(SECOND * rng.u32(0..8)).await;
        }
        let concluded = conclude(&cluster, &user, kind).await;
        operator.abort();
        check(&cluster.history(), kind).and_then(|releases| concluded.map(|()| releases))
    })
}

async fn work(operator: User, kind: PlayedKind) {
    loop {
        operate(&operator, kind);
        pass(SECOND / 10).await;
    }
}

/// Nothing more happens to the jobs: each that the user did not suspend comes to its end. Then all are
/// deleted, and their units go, too.
async fn conclude(cluster: &SimCluster, user: &User, kind: PlayedKind) -> Result<(), String> {
    cluster.heal();
    let by_user = |job: &Object| {
        let by = job["metadata"]["annotations"][RESUMED_BY_ANNOTATION].as_str();
        kind.is_suspended(job) && by.is_some()
    };
    let delete = |job: &Arc<Object>| user.delete(kind.plural(), job.name()).expect("it is there");
    user.list(kind.plural()).iter().filter(|job| by_user(job)).for_each(delete);
    let all_end =
        |user: &User| user.list(kind.plural()).iter().all(|job| kind.is_finished(job) || by_user(job));
    if !cluster.until(SECOND * 900, all_end).await {
        return Err("a job never has its turn".to_owned());
    }
    user.list(kind.plural()).iter().for_each(delete);
    let all_gone = |user: &User| user.list("queueunits").is_empty();
    let gone = cluster.until(SECOND * 900, all_gone).await;
    if gone { Ok(()) } else { Err("a unit outlives its job".to_owned()) }
}

#[test]
fn jobs_of_a_row_are_resumed_once_and_within_the_quota_in_every_life() {
    let mut releases = BTreeMap::new();
    for seed in seeds::from_environment(LIVES) {
        let released = live(seed, None).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        *releases.entry(PlayedKind::of_seed(seed)).or_default() += released;
    }
    let released_any = |released: &usize| *released > 0;
    assert!(releases.values().all(released_any), "nothing was released: {releases:?}");
}

#[test]
fn lives_find_that_capacity_returns_with_the_end_of_a_job() {
    for kind in PlayedKind::ALL {
        let mut seeds = LIVES.filter(|seed| PlayedKind::of_seed(*seed) == kind);
        let broken = seeds.find_map(|seed| Some((seed, live(seed, Some(Defect::ReturnAtEnd)).err()?)));
        let (seed, broken) = broken.unwrap_or_else(|| panic!("no seed of a {kind:?} goes wrong"));
        eprintln!("{kind:?}: seed {seed}: {broken}");
        assert!(
            broken.contains("the unit goes before the last Pod") || broken.contains("are held of"),
            "{broken}"
        );
    }
}

/// The promise that is broken by changes of a job `a` of one Pod.
fn broken_by(kind: PlayedKind, changes: impl Fn(&User)) -> String {
    let (mut options, mut setup) = (calm(), Setup::default());
    kind.install(&mut options, &mut setup);
    simulate(1, options, |cluster| async move {
        let user = cluster.user();
        user.create(kind.job("a", 1)).expect("it is valid");
        changes(&user);
        check(&cluster.history(), kind).expect_err("a promise is broken")
    })
}

/// The unit of the job `a`.
fn unit(user: &User, kind: PlayedKind, pods: i64) -> Value {
    let job = user.get(kind.plural(), "a").expect("it was created");
    json!({
        "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit",
        "metadata": { "name": kind.unit("a"), "ownerReferences": [kind.owner(&job)] },
        "spec": { "queue": "q", "resource": { "pods": pods } },
    })
}

#[test]
fn a_job_that_is_resumed_without_a_release_or_twice_is_found() {
    for kind in PlayedKind::ALL {
        let broken = |times: usize| {
            broken_by(kind, |user| {
                let uid = user.create(unit(user, kind, 1)).expect("it is valid").uid().to_owned();
                for phase in ["Enqueued", "Dequeued"].iter().take(times) {
                    let status = json!({ "phase": phase });
                    user.patch_status("queueunits", &kind.unit("a"), status).expect("it goes forward");
                }
                for suspended in [false, true, false] {
                    let mut patch = kind.suspension(suspended);
                    patch["metadata"] = json!({ "annotations": { RESUMED_BY_ANNOTATION: uid } });
                    user.named("controller-1").patch(kind.plural(), "a", patch).expect("it is there");
                }
            })
        };
        assert!(broken(1).ends_with("resumed without a release"), "{kind:?}");
        assert!(broken(2).ends_with("resumed twice by one unit"), "{kind:?}");
    }
}

#[test]
fn a_unit_of_another_size_and_a_pod_without_labels_are_found() {
    for kind in PlayedKind::ALL {
        let broken = broken_by(kind, |user| drop(user.create(unit(user, kind, 2)).expect("it is valid")));
        assert!(broken.ends_with("the unit of 1 Pods requests 2"), "{kind:?}: {broken}");
        // No controller has given the templates the labels.
        let broken = broken_by(kind, |user| {
            user.patch(kind.plural(), "a", kind.suspension(false)).expect("it is there");
            operate(user, kind);
        });
        assert!(broken.contains("a Pod without the labels of its job"), "{kind:?}: {broken}");
    }
}
