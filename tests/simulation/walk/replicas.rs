//! The random walk of replicas. Several controllers share the Frameworks by slots; they are killed, stopped,
//! started and cut off, and their requests may be applied after their end. Their clocks are wrong, and run up
//! to a tenth fast or slow.
//!
//! In half of the walks controllers also stand still, and go on after up to 80 s with the requests that they
//! had checked before. Nothing local can keep these back, so in these walks the API server has the policy of
//! `deploy/epoch`.

use std::time::Duration;

use framework_runtime::run::Error;
use framework_sim::check::queue::Blind;
use framework_sim::{Cut, Ending};
use jiff::SignedDuration;
use tokio::task::JoinHandle;

use super::super::controller::{MemberSetup, member_of};
use super::super::draw::one;
use super::super::endgame::{self, Ended};
use super::super::slots::{self, Counts, Pause};
use super::*;

/// How many replicas run at once, at most.
const MOST: usize = 4;
/// How long a replica that was stopped may take to end: it drains for the life of a request, and exits at the
/// latest after two.
const FAREWELL: Duration = SECOND.saturating_mul(90);
/// So long nothing may change before the cluster counts as quiescent.
const QUIESCENCE: Duration = SECOND.saturating_mul(100);
/// How long after the last fault everything may take to come to rest.
const BOUND: Duration = SECOND.saturating_mul(900);

/// The outcome of a walk, and its counts.
#[derive(Debug)]
pub struct Shared {
    /// The outcome.
    pub walked: Walked,
    /// How much happened.
    pub counts: Counts,
}

impl AsRef<Walked> for Shared {
    fn as_ref(&self) -> &Walked {
        &self.walked
    }
}

/// The rule of sharding that a walk lacks.
pub type Lack = Option<framework_shard::defect::Defect>;

/// A replica that runs.
struct Replica {
    controller: Controller,
    host: String,
    pod: String,
}

/// The replicas, and the stage that they play on.
struct Troupe {
    stage: Stage,
    policy: framework_shard::Policy,
    replicas: Vec<Replica>,
    /// Hosts and Pods of replicas that were killed: another one may start there.
    vacant: Vec<(String, String)>,
    leaving: Vec<JoinHandle<Result<(), Error>>>,
    started: usize,
    /// Draws when a controller stands still, apart from all else; `None`: none does.
    stillness: Option<Rng>,
    pauses: Vec<Pause>,
}

/// Does the walk of a seed.
pub fn walk(seed: u64, manner: Manner<'_>, lack: Lack) -> Shared {
    walk_with(seed, manner, lack, false)
}

/// The same, where all Frameworks wait in queues, and users make units of their own.
pub fn walk_queued(seed: u64, manner: Manner<'_>, lack: Lack) -> Shared {
    walk_with(seed, manner, lack, true)
}

fn walk_with(seed: u64, manner: Manner<'_>, lack: Lack, queued: bool) -> Shared {
    let mut rng = Rng::with_seed(seed);
    let mut conditions = Conditions::draw(&mut rng);
    conditions.options.keep_trace = manner.talks;
    conditions.frameworks = rng.usize(2..=6);
    conditions.options.rates.break_off = one(&mut rng, &[0.0, 0.01, 0.05]);
    conditions.options.rates.hang_for = Duration::ZERO..=SECOND * 30;
    // The clocks of replicas differ: no promise says whether a delay has passed.
    let setup = &mut conditions.setup;
    (setup.policy.min_conflict_retry_delay_sec, setup.policy.max_conflict_retry_delay_sec) = (0, 0);
    setup.policy.retry_backoff.max_delay_sec = 0;
    if queued {
        setup.policy.queueing = true;
        setup.settings.reserve_after = SECOND * one(&mut rng, &[2, 20, 300]);
        (conditions.queues, conditions.lifetimes) = (true, false);
    }
    let setup = &mut conditions.setup;
    if let Some(change) = manner.policy {
        change(&mut setup.policy);
    }
    let policy = policy(&mut rng, lack);
    let stillness = Some(Rng::with_seed(seed.rotate_left(32))).filter(|_| seed % 2 == 1);
    conditions.options.epoch_policy = stillness.is_some() && !manner.lacks_epoch_policy;
    simulate(seed, conditions.options.clone(), |cluster| async move {
        let stage = Stage::new(cluster, seed, rng, conditions);
        let (replicas, vacant, leaving, pauses) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Troupe { stage, policy, replicas, vacant, leaving, started: 0, stillness, pauses }.walk().await
    })
}

fn policy(rng: &mut Rng, lack: Lack) -> framework_shard::Policy {
    let (duration, interval, timeout) = one(rng, &[(5, 1, 1_500), (10, 2, 3_000)]);
    let (duration, interval) = (SECOND * duration, SECOND * interval);
    let timeout = Duration::from_millis(timeout);
    let lifetime = Setup::default().settings.request_lifetime;
    let mut policy = framework_shard::Policy::new(duration, interval, timeout, lifetime).expect("they fit");
    policy.defects = lack.map(framework_shard::defect::Defects::from).unwrap_or_default();
    policy
}

impl Troupe {
    async fn walk(&mut self) -> Shared {
        if self.is_queued() {
            self.stage.furnish_queues();
        }
        for _ in 0..self.stage.rng.usize(1..=3) {
            self.start();
        }
        for index in 0..self.stage.conditions.frameworks {
            self.stage.create(&format!("f{index}"));
            self.stage.wait(1_000).await;
        }
        for _ in 0..self.stage.conditions.steps {
            let longest = if self.stage.rng.u8(..5) == 0 { 15_000 } else { 3_000 };
            self.stage.wait(longest).await;
            if self.is_queued() {
                self.stage.step_of_users().await;
            }
            match self.stage.rng.u8(..10) {
                0..2 => _ = mischief::users(&mut self.stage),
                2..4 => _ = mischief::neighbours(&mut self.stage),
                4..6 => self.network().await,
                _ => self.processes().await,
            }
            self.stand_still().await;
        }
        let ended = self.end().await;
        let history = self.stage.cluster.history();
        let logged = self.stage.conditions.setup.log.lines();
        let judged = slots::judge(&history, &self.pauses);
        let counts = judged.clone().unwrap_or_default();
        let named = slots::with_name_per_tenure(history.clone());
        let found = endgame::judge(&history, &named, ended, &self.stage.conditions)
            .or_else(|| self.is_queued().then(|| queues::broken_promise(&history, Blind::default()))?)
            .or_else(|| judged.err().map(|(what, rv)| (what, Some(rv))))
            .or_else(|| Some((check::snapshots::of_replaced(&history, &logged).err()?, None)))
            .or_else(|| Some((self.unshared(&history)?, None)));
        let walked = Walked {
            broken: found.map(|(what, rv)| Broken { what, tail: self.stage.tail(&history, rv) }),
            digest: self.stage.cluster.digest(),
            requests: history.exchanges.len(),
        };
        Shared { walked, counts }
    }

    fn is_queued(&self) -> bool {
        self.stage.conditions.queues
    }

    /// Starts a replica: on a new host, or where another one was killed, in a new Pod or in the same one.
    fn start(&mut self) {
        if self.replicas.len() >= MOST {
            return;
        }
        self.started += 1;
        let rng = &mut self.stage.rng;
        let (host, pod) = match self.vacant.pop() {
            Some((host, pod)) if rng.bool() => (host, pod),
            Some((host, _)) => (host, format!("pod-{}", self.started)),
            None => (format!("host-{}", self.started), format!("pod-{}", self.started)),
        };
        let rate = one(rng, &[900, 950, 1000, 1000, 1050, 1100]);
        let mut setup = self.stage.conditions.setup.clone();
        let wrong_by = one(rng, &[0, 0, 900, -900, 120_000, -120_000, 3_600_000, -3_600_000]);
        setup.wrong_by = SignedDuration::from_millis(wrong_by);
        setup.member = Some(MemberSetup { policy: self.policy, host: host.clone(), pod: pod.clone(), rate });
        let seed = self.stage.seed.rotate_left(17);
        let controller = Controller::start(&self.stage.cluster, self.started, seed, &setup);
        self.replicas.push(Replica { controller, host, pod });
    }

    /// A random replica is taken from those that run.
    fn take(&mut self) -> Option<Replica> {
        let index = self.stage.rng.usize(..self.replicas.len().max(1));
        (index < self.replicas.len()).then(|| self.replicas.remove(index))
    }

    /// The faults of the replicas themselves.
    async fn processes(&mut self) {
        match self.stage.rng.u8(..8) {
            0..3 => {
                if let Some(killed) = self.take() {
                    killed.controller.crash().await;
                    self.vacant.push((killed.host, killed.pod));
                }
            }
            3..5 => {
                if let Some(stopped) = self.take() {
                    self.leaving.push(tokio::spawn(stopped.controller.stop()));
                }
            }
            _ => self.start(),
        }
        if self.replicas.is_empty() && self.stage.rng.bool() {
            self.start();
        }
    }

    /// Perhaps a controller stands still, for less or for longer than its slots need to have another owner
    /// that creates.
    async fn stand_still(&mut self) {
        let Some(rng) = &mut self.stillness else { return };
        let (time, at_create) = (SECOND * rng.u32(1..80), rng.u8(..4) > 0);
        let replica = rng.choice(&self.replicas).filter(|_| rng.u8(..4) == 0);
        let Some(Replica { controller, .. }) = replica else { return };
        let clock = self.stage.cluster.clock();
        controller.pause_at_create(if at_create { SECOND * 30 } else { Duration::ZERO }).await;
        let from = clock.elapsed();
        pass(time).await;
        controller.resume();
        self.pauses.push(Pause { who: controller.name.clone(), from, until: clock.elapsed() });
    }

    /// The faults of the network: of a controller, of its member, or of both.
    async fn network(&mut self) {
        let rng = &mut self.stage.rng;
        let Some(replica) = rng.choice(&self.replicas) else { return };
        let who = replica.controller.name.clone();
        let member = member_of(&who);
        let mut watches = vec![
            (&who, "frameworks"),
            (&who, "configmaps"),
            (&who, "pods"),
            (&member, "leases"),
            (&member, "configmaps"),
        ];
        if self.stage.conditions.queues {
            watches.extend([(&who, "queueunits"), (&who, "queueunits"), (&who, "resourcequotas")]);
        }
        let (watcher, plural) = one(rng, &watches);
        let time = SECOND * rng.u32(1..30);
        let cluster = self.stage.cluster.clone();
        match rng.u8(..10) {
            // A watch may be behind by minutes.
            0 => cluster.freeze_watches(watcher, plural, time * one(rng, &[1, 1, 10])),
            1 => cluster.lag_watches(watcher, plural, time / 4),
            8 => cluster.repeat_watches(watcher, plural, rng.usize(1..20)),
            2 => {
                let ending = one(rng, &[Ending::Clean, Ending::Broken, Ending::Gone]);
                cluster.close_watches(watcher, plural, ending);
            }
            3 => {
                cluster.compact();
                cluster.close_watches(watcher, plural, Ending::Broken);
            }
            _ => {
                let how = one(rng, &[Cut::Refused, Cut::Silent, Cut::Deaf]);
                let cut = match rng.u8(..4) {
                    0 => vec![who],
                    1 => vec![member],
                    _ => vec![who, member],
                };
                for who in &cut {
                    cluster.faults(|faults| faults.cut(who, how));
                }
                pass(time).await;
                for who in &cut {
                    cluster.faults(|faults| faults.mend(who));
                }
            }
        }
    }

    /// Ends the faults, and waits until everything has ended and is quiet.
    async fn end(&mut self) -> Ended {
        if self.replicas.is_empty() {
            self.start();
        }
        if self.is_queued() {
            self.stage.open_queues();
        }
        endgame::heal(&mut self.stage);
        if let Some(never) = endgame::unended(&mut self.stage).await {
            return Ended::Never(never);
        }
        if self.is_queued()
            && let Some(never) = self.stage.last_trains().await
        {
            return Ended::Never(never);
        }
        for leaving in self.leaving.drain(..) {
            match tokio::time::timeout(FAREWELL, leaving).await {
                Ok(Ok(Ok(()))) => {}
                Ok(ended) => return Ended::Never(format!("a replica that was stopped ends with {ended:?}")),
                Err(_) => return Ended::Never("a replica that was stopped runs on".to_owned()),
            }
        }
        // A replica that has just begun needs the time that all of them need to share the slots.
        let begun = self.stage.cluster.clock().elapsed();
        loop {
            pass(SECOND * 10).await;
            let now = self.stage.cluster.clock().elapsed();
            let history = self.stage.cluster.history();
            let last = slots::changes(&history).last().map(|change| change.at).unwrap_or_default();
            if now.saturating_sub(last.max(begun)) > QUIESCENCE {
                break;
            }
            if now > begun + BOUND {
                return Ended::Restless;
            }
        }
        let fell = self.replicas.iter().any(|replica| replica.controller.has_ended());
        if fell { Ended::Fell } else { Ended::AtRest }
    }

    /// Whether the slots are not shared by the replicas that run.
    fn unshared(&self, history: &History) -> Option<String> {
        let shares = match slots::shares(history) {
            Ok(shares) => shares,
            Err(what) => return Some(what),
        };
        let even = 256 / self.replicas.len();
        let unfair = self.replicas.iter().find(|replica| {
            let share = shares.get(&replica.controller.name).copied().unwrap_or_default();
            share.abs_diff(even) > even / 10 + 1
        });
        unfair.map(|replica| format!("{} has no equal share: {shares:?}", replica.controller.name))
    }
}
