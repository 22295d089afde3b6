//! The random walk of queues: Frameworks wait for room, users make units, and priorities change while units
//! are released. Quotas and Queues change, replies are lost, watches are slow, and the controller is killed.

use std::ops::Range;
use std::time::Duration;

use framework_sim::check::queue::{self, Blind, QueueCounts};
use framework_sim::{Fault, Meta, Object, Rule, Verb};
use serde_json::{Value, json};

use super::super::draw::one;
use super::super::manifest::Manifest;
use super::*;

/// The units that users make for jobs of their own.
const TRAIN: &str = "train-";
const QUEUES: [&str; 2] = ["q0", "q1"];
const CLASSES: [(&str, i32); 2] = [("high", 100), ("low", -5)];
/// The kinds that queue controllers watch.
const WATCHED: [&str; 6] =
    ["queueunits", "queues", "resourcequotas", "priorityclasses", "pods", "frameworks"];
/// Where others come and go, for so long a release may not know of them.
const BLIND: Duration = Duration::from_secs(75);

/// Seeds of sieges: for each rule of the queues, one of them goes wrong without it.
pub const SIEGES: Range<u64> = 0..200;

/// The outcome of a walk, and its counts.
#[derive(Debug)]
pub struct Queued {
    /// The outcome.
    pub walked: Walked,
    /// How much happened.
    pub counts: QueueCounts,
}

impl AsRef<Walked> for Queued {
    fn as_ref(&self) -> &Walked {
        &self.walked
    }
}

/// Draws the conditions that are the same for every walk of queues.
fn conditions(rng: &mut Rng, manner: Manner<'_>) -> Conditions {
    let mut conditions = Conditions::draw(rng);
    conditions.options.keep_trace = manner.talks;
    let (from, to) = one(rng, &[(20, 500), (20, 500), (1_000, 5_000)]);
    conditions.options.quota_delay = Duration::from_millis(from)..=Duration::from_millis(to);
    conditions.setup.policy.queueing = true;
    conditions.setup.settings.reserve_after = SECOND * one(rng, &[2, 20, 300]);
    (conditions.queues, conditions.lifetimes) = (true, false);
    conditions.frameworks = rng.usize(2..=6);
    if let Some(change) = manner.policy {
        change(&mut conditions.setup.policy);
    }
    conditions
}

/// Does the walk of a seed: in every third others use the quota, too.
pub fn walk(seed: u64, manner: Manner<'_>) -> Queued {
    let mut rng = Rng::with_seed(seed);
    let conditions = conditions(&mut rng, manner);
    simulate(seed, conditions.options.clone(), |cluster| async move {
        Stage::new(cluster, seed, rng, conditions).walk_queues(seed.is_multiple_of(3)).await
    })
}

/// Users change the priorities of units that wait, so many times, while these are released.
pub fn race(seed: u64, patches: usize, manner: Manner<'_>) -> Queued {
    let mut rng = Rng::with_seed(seed);
    let conditions = conditions(&mut rng, manner);
    simulate(seed, conditions.options.clone(), |cluster| async move {
        Stage::new(cluster, seed, rng, conditions).race(patches).await
    })
}

/// Releases are held up again and again, the controller is killed while they are, and jobs go whose Pods
/// stay. The rules of the queues exist for these events, and a siege has little else.
pub fn siege(seed: u64, manner: Manner<'_>) -> Queued {
    let mut rng = Rng::with_seed(seed);
    let mut conditions = conditions(&mut rng, manner);
    conditions.options.behaviour.hang_terminating = 0.5;
    conditions.options.behaviour.run = SECOND * 5..=SECOND * 60;
    simulate(seed, conditions.options.clone(), |cluster| async move {
        Stage::new(cluster, seed, rng, conditions).be_besieged().await
    })
}

/// In one of the queues, with Pods that ask for CPU.
pub fn queued(rng: &mut Rng, manifest: Manifest) -> Manifest {
    manifest.queue(one(rng, &["q0", "q0", "q1"])).cpu(one(rng, &["500m", "1"]))
}

impl Stage {
    async fn walk_queues(&mut self, crowded: bool) -> Queued {
        self.furnish();
        for index in 0..self.conditions.frameworks {
            self.create(&format!("f{index}"));
            self.wait(500).await;
        }
        for _ in 0..self.conditions.steps * 2 {
            let longest = if self.rng.u8(..5) == 0 { 15_000 } else { 1_000 };
            self.wait(longest).await;
            self.step(crowded).await;
        }
        self.conclude(if crowded { Blind(BLIND) } else { Blind::default() }).await
    }

    async fn race(&mut self, patches: usize) -> Queued {
        self.furnish();
        for _ in 0..60 {
            self.make_train();
        }
        let killed_at = self.rng.usize(..patches * 2);
        for patch in 0..patches {
            self.prioritise();
            match self.rng.u8(..25) {
                0 => self.end_train(),
                1..5 => self.wait(30).await,
                _ => {}
            }
            if patch == killed_at {
                self.kill().await;
                pass(SECOND * 30).await;
            }
        }
        self.conclude(Blind::default()).await
    }

    async fn be_besieged(&mut self) -> Queued {
        self.furnish();
        for index in 0..self.conditions.frameworks {
            self.create(&format!("f{index}"));
        }
        for _ in 0..12 {
            self.wait(3_000).await;
            match self.rng.u8(..10) {
                0..5 => self.hold_up().await,
                5 => self.end_train(),
                6 => _ = self.make_train(),
                7 => self.remove_beside_a_stale_quota(),
                _ => self.overtake().await,
            }
            for _ in 0..self.rng.u8(..6) {
                self.prioritise();
                self.wait(100).await;
            }
        }
        self.conclude(Blind::default()).await
    }

    /// The release of one unit is late. Meanwhile a unit comes that goes first, and no other write reaches
    /// the late one: its guard stays valid. Either the controller gives the request up, or it dies meanwhile.
    async fn overtake(&mut self) {
        let number = self.rng.u16(..);
        let (late, first) = (format!("{TRAIN}late-{number}"), format!("{TRAIN}first-{number}"));
        let dies = self.rng.bool() && !self.conditions.hangs;
        let fault = match dies {
            true => Fault::Delay(SECOND * self.rng.u32(3..6)),
            false => Fault::Hang(Some(SECOND * self.rng.u32(15..26))),
        };
        let on_status = Rule::new(fault).verb(Verb::UpdateStatus).plural("queueunits").name(&late);
        // The first write puts the unit into its queue.
        self.cluster.faults(|faults| faults.script(on_status.nth(2)));
        let unit = |priority: u32| json!({ "queue": "q0", "priority": priority, "resource": { "pods": 3 } });
        self.make_unit(&late, unit(1_000_000));
        self.end_train();
        pass(SECOND * 2).await;
        let others = Rule::new(Fault::Delay(SECOND * 20)).verb(Verb::UpdateStatus).plural("queueunits");
        self.cluster.faults(|faults| faults.script(others.name(&late).times(u32::MAX)));
        if dies && let Some(controller) = self.controller.take() {
            controller.crash().await;
            pass(TRANSIT).await;
        }
        self.make_unit(&first, unit(2_000_000));
        self.restart();
        pass(SECOND * 30).await;
    }

    /// A Framework is deleted, and its Pods are left to the garbage collector, while the controller's watch
    /// of quotas is frozen.
    fn remove_beside_a_stale_quota(&mut self) {
        if let Some(controller) = &self.controller {
            self.cluster.freeze_watches(&controller.name, "resourcequotas", SECOND * 40);
        }
        let options =
            framework_sim::DeleteOptions { propagation: Some("Background".to_owned()), ..Default::default() };
        let name = self.any_framework();
        // It may be gone.
        let _ = self.user.delete_with("frameworks", &name, &options);
        self.create(&name);
    }

    /// Queues, classes, a quota, and a controller.
    fn furnish(&mut self) {
        self.furnish_queues();
        self.restart();
    }

    /// Queues, classes and a quota.
    pub fn furnish_queues(&mut self) {
        for (name, value) in CLASSES {
            let kind = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass" });
            self.make(kind, name, json!({}), json!({ "value": value }));
        }
        for name in QUEUES {
            self.make_queue(name);
        }
        let mut hard = json!({ "pods": self.rng.u32(3..8).to_string() });
        if self.rng.bool() {
            hard["requests.cpu"] = json!(self.rng.u32(3..6).to_string());
        }
        let kind = json!({ "apiVersion": "v1", "kind": "ResourceQuota" });
        self.make(kind, "room", json!({ "hard": hard }), json!({}));
    }

    fn make(&self, mut object: Value, name: &str, spec: Value, more: Value) -> bool {
        object["metadata"] = json!({ "name": name });
        if spec != json!({}) {
            object["spec"] = spec;
        }
        for (field, value) in more.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        self.user.create(object).is_ok()
    }

    fn make_queue(&mut self, name: &str) -> bool {
        let policy = one(&mut self.rng, &["Priority", "Priority", "FIFO"]);
        let spec = json!({ "queuePolicy": policy, "priority": self.rng.i32(0..3) });
        self.make(json!({ "apiVersion": "queue.k8s.io/v1alpha1", "kind": "Queue" }), name, spec, json!({}))
    }

    /// A user makes a unit for a job of a kind that the controller does not know.
    fn make_train(&mut self) -> bool {
        let name = format!("{TRAIN}{}", self.rng.u16(..));
        let mut spec = json!({
            "queue": one(&mut self.rng, &QUEUES),
            "resource": { "pods": self.rng.u32(1..=3), "cpu": one(&mut self.rng, &["500m", "1"]) },
        });
        match self.rng.u8(..3) {
            0 => spec["priority"] = json!(self.rng.i32(-10..10)),
            1 => spec["priorityClassName"] = json!(one(&mut self.rng, &CLASSES).0),
            _ => {}
        }
        self.make_unit(&name, spec)
    }

    /// A user makes a unit for the job of its name.
    fn make_unit(&self, name: &str, mut spec: Value) -> bool {
        spec["consumerRef"] = json!({ "apiVersion": "example.com/v1", "kind": "Train", "name": name });
        let kind = json!({ "apiVersion": "queue.k8s.io/v1alpha1", "kind": "QueueUnit" });
        self.make(kind, name, spec, json!({}))
    }

    /// The job of one of these has ended: its unit goes.
    fn end_train(&mut self) {
        let mut units = self.user.list("queueunits");
        units.retain(|unit| unit.name().starts_with(TRAIN) && unit["status"]["phase"] == "Dequeued");
        if let Some(unit) = self.rng.choice(units) {
            // It is there.
            let _ = self.user.delete("queueunits", unit.name());
        }
    }

    /// The jobs of all units that users made and that are released have ended. Says whether any is left.
    pub fn end_trains(&self) -> bool {
        let mut units = self.user.list("queueunits");
        units.retain(|unit| unit.name().starts_with(TRAIN));
        for unit in units.iter().filter(|unit| unit["status"]["phase"] == "Dequeued") {
            // It is there.
            let _ = self.user.delete("queueunits", unit.name());
        }
        !units.is_empty()
    }

    /// A user gives a unit another priority, if it still waits.
    fn prioritise(&mut self) -> bool {
        let Some(name) = self.any("queueunits") else { return false };
        let patch = json!({ "spec": { "priority": self.rng.i32(-1_000_000..1_000_000) } });
        self.user.patch("queueunits", &name, patch).is_ok()
    }

    /// The controller is killed, and another one starts at once unless its requests may hang.
    async fn kill(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.crash().await;
            self.mourn().await;
        }
        self.restart();
    }

    async fn step(&mut self, crowded: bool) {
        match self.rng.u8(..17) {
            0..5 => {
                for _ in 0..self.rng.u8(1..30) {
                    self.prioritise();
                    self.wait(20).await;
                }
            }
            5..7 => _ = self.make_train(),
            7 => self.end_train(),
            8 => _ = self.change_room(crowded),
            9 => _ = self.change_queue(),
            10..12 => self.hold_up().await,
            12 => {
                let time = SECOND * self.rng.u32(1..30);
                let plural = one(&mut self.rng, &WATCHED);
                if let Some(controller) = &self.controller {
                    self.cluster.freeze_watches(&controller.name, plural, time);
                }
            }
            13 => _ = self.do_to_framework(crowded),
            14 => mischief::network(self).await,
            15 if crowded => _ = mischief::neighbours(self) | self.make_foreigner(),
            _ => mischief::processes(self).await,
        }
    }

    /// A user's action on a Framework.
    fn do_to_framework(&mut self, crowded: bool) -> bool {
        let (name, user) = (self.any_framework(), self.user.clone());
        match self.rng.u8(..8) {
            0 => user.stop(&name),
            1 => {
                let policy = one(&mut self.rng, &["Foreground", "Background"]);
                let options = framework_sim::DeleteOptions {
                    propagation: Some(policy.to_owned()),
                    ..Default::default()
                };
                user.delete_with("frameworks", &name, &options).is_ok()
            }
            2 | 3 => self.create(&name),
            4 if crowded => {
                let label = one(&mut self.rng, &[None, Some("q0"), Some("q1")]);
                let labels = json!({ framework_api::queue::QUEUE_NAME_LABEL: label });
                user.patch("frameworks", &name, json!({ "metadata": { "labels": labels } })).is_ok()
            }
            5 if crowded => mischief::users(self),
            6 => {
                let pod = self.any("pods");
                pod.is_some_and(|pod| user.delete("pods", &pod).is_ok())
            }
            _ => {
                let Some(framework) = user.get("frameworks", &name) else { return false };
                let tasks = framework["spec"]["taskRoles"][0]["taskNumber"].as_u64().unwrap_or(0);
                let other = self.rng.u64(..=tasks + 2);
                user.scale(&name, 0, u32::try_from(other).unwrap_or(0))
            }
        }
    }

    fn change_room(&mut self, crowded: bool) -> bool {
        let Some(quota) = self.user.get("resourcequotas", "room") else { return false };
        let known = room(&quota);
        let pods = if crowded { self.rng.u64(1..10) } else { known + 1 };
        let hard = json!({ "spec": { "hard": { "pods": pods.to_string() } } });
        self.user.patch("resourcequotas", "room", hard).is_ok()
    }

    fn change_queue(&mut self) -> bool {
        let name = one(&mut self.rng, &QUEUES);
        match self.rng.u8(..4) {
            0 => self.user.delete("queues", name).is_ok(),
            1 => self.make_queue(name),
            _ => {
                let policy = one(&mut self.rng, &["Priority", "FIFO"]);
                let spec = json!({ "queuePolicy": policy, "priority": self.rng.i32(0..3) });
                self.user.patch("queues", name, json!({ "spec": spec })).is_ok()
            }
        }
    }

    /// Another user's Pod.
    fn make_foreigner(&mut self) -> bool {
        let name = format!("foreign-{}", self.rng.u16(..));
        let container =
            json!({ "name": "main", "image": "x", "resources": { "requests": { "cpu": "500m" } } });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod" });
        self.make(pod, &name, json!({ "containers": [container] }), json!({}))
    }

    /// A step of users, with queues that several replicas share.
    pub async fn step_of_users(&mut self) {
        match self.rng.u8(..8) {
            0 | 1 => {
                for _ in 0..self.rng.u8(1..10) {
                    self.prioritise();
                    self.wait(50).await;
                }
            }
            2 => _ = self.make_train(),
            3 => self.end_train(),
            4 => _ = self.change_room(false),
            5 => _ = self.change_queue(),
            6 => self.hold_up_writes().await,
            _ => _ = self.do_to_framework(false),
        }
    }

    /// Something happens to the next writes of a unit's status; the controller may not live to see it.
    async fn hold_up(&mut self) {
        self.hold_up_writes().await;
        if self.rng.bool() {
            self.kill().await;
            self.prioritise();
        }
    }

    /// Something happens to the next writes of a unit's status.
    async fn hold_up_writes(&mut self) {
        let late = Duration::from_millis(self.rng.u64(..15_000));
        let fault = match self.rng.u8(..6) {
            0 | 1 => Fault::Hang(Some(late)),
            2 => Fault::LoseReply,
            3 => Fault::DelayReply(late / 4),
            4 => Fault::Delay(late / 4),
            _ => Fault::Timeout { applied: self.rng.bool() },
        };
        let times = self.rng.u32(1..3);
        // Without its guard it is a patch.
        for verb in [Verb::UpdateStatus, Verb::PatchStatus] {
            let rule = Rule::new(fault.clone()).verb(verb).plural("queueunits").times(times);
            self.cluster.faults(|faults| faults.script(rule));
        }
        self.make_train();
        self.wait(200).await;
    }

    /// The faults stop, there is room for the largest one, and everything has its turn.
    async fn conclude(&mut self, blind: Blind) -> Queued {
        self.open_queues();
        let mut ended = endgame::play(self).await;
        if let Some(never) = self.last_trains().await {
            ended = endgame::Ended::Never(never);
        } else if !self.cluster.settle(SECOND * 150, SECOND * 900).await {
            ended = endgame::Ended::Restless;
        }
        let history = self.cluster.history();
        let found = broken_promise(&history, blind);
        let found = found.or_else(|| endgame::judge(&history, &history, ended, &self.conditions));
        let logged = self.conditions.setup.log.lines();
        let found = found.or_else(|| Some((check::snapshots::check(&history, &logged).err()?, None)));
        let walked = Walked {
            broken: found.map(|(what, rv)| Broken { what, tail: self.tail(&history, rv) }),
            digest: self.cluster.digest(),
            requests: history.exchanges.len(),
        };
        Queued { walked, counts: queue::count(&history) }
    }

    /// There is room for the largest one, and every Queue is there.
    pub fn open_queues(&mut self) {
        for name in QUEUES {
            self.make_queue(name);
        }
        self.make_room();
    }

    /// The jobs of users have their turn and end. Names those that have not.
    pub async fn last_trains(&mut self) -> Option<String> {
        for _ in 0..60 {
            if !self.end_trains() {
                break;
            }
            let user = &self.user;
            let is_train = |unit: &Value| unit.name().starts_with(TRAIN);
            let waits = |unit: &Value| is_train(unit) && unit["status"]["phase"] != "Dequeued";
            // Some are released, or all are gone.
            let before = user.list("queueunits").iter().filter(|unit| waits(unit)).count();
            let fewer = |user: &User| {
                before == 0 || user.list("queueunits").iter().filter(|unit| waits(unit)).count() < before
            };
            self.cluster.until(SECOND * 40, fewer).await;
        }
        self.end_trains().then(|| "units of users".to_owned())
    }

    /// Makes room for the largest of all units and Frameworks, and never less than there is. All Frameworks
    /// that wait for their growth get room together: they hold their quota meanwhile, and two of them would
    /// wait for each other.
    fn make_room(&self) {
        let of_unit = |unit: &Value| unit["spec"]["resource"]["pods"].as_u64().unwrap_or(0);
        let tasks = |framework: &Value| {
            let roles = framework["spec"]["taskRoles"].as_array().into_iter().flatten();
            roles.map(|role| role["taskNumber"].as_u64().unwrap_or(0)).sum::<u64>()
        };
        let units = self.user.list("queueunits");
        let frameworks = self.user.list("frameworks");
        let asks = units.iter().map(|unit| of_unit(unit)).chain(frameworks.iter().map(|one| tasks(one)));
        let has_grown = |framework: &Object| {
            let growth = format!("framework-{}-", framework.name());
            units.iter().any(|unit| unit.name().starts_with(&growth))
        };
        let grown: u64 = frameworks.iter().filter(|one| has_grown(one)).map(|one| tasks(one)).sum();
        let known = self.user.get("resourcequotas", "room").map_or(1, |quota| room(&quota));
        let hard = json!({ "pods": asks.max().unwrap_or(0).max(grown).max(known).to_string() });
        let patch = json!([{ "op": "replace", "path": "/spec/hard", "value": hard }]);
        assert!(self.user.json_patch("resourcequotas", "room", patch).is_ok(), "it is there");
    }
}

/// The promise of the queues that a run broke, and its resourceVersion.
pub fn broken_promise(history: &History, blind: Blind) -> Option<(String, Option<u64>)> {
    let found = queue::check(history, blind).and_then(|()| queue::at_quiescence(history));
    found.err().map(|violation| (violation.to_string(), Some(violation.rv)))
}

/// How many Pods a quota allows.
fn room(quota: &Value) -> u64 {
    let pods = quota["spec"]["hard"]["pods"].as_str().and_then(|text| text.parse().ok());
    pods.expect("it limits Pods")
}
