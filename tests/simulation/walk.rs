//! The random walk: Frameworks, users, Pods, faults, and a controller that is killed, stopped and paused, all
//! drawn from one seed. In the end the faults stop, and then everything must end, and all promises must have
//! been kept at every moment of the way.

use fastrand::Rng;
use framework_api::config::CompressionCodec;
use framework_core::Policy;
use framework_sim::{History, SimCluster, User, check};

use super::controller::{AFTERMATH, Controller, Setup, TRANSIT};
use super::draw::{Conditions, limited, random_framework};
use super::manifest::Deeds;
use super::{SECOND, endgame, mischief, pass, simulate};

pub mod queues;
pub mod replicas;

/// The outcome of a walk.
#[derive(Debug)]
pub struct Walked {
    /// The broken promise, if any.
    pub broken: Option<Broken>,
    /// A hash of all that happened.
    pub digest: u64,
    /// Requests of all controllers together.
    pub requests: usize,
}

impl AsRef<Walked> for Walked {
    fn as_ref(&self) -> &Walked {
        self
    }
}

/// A promise that was broken in a walk.
#[derive(Debug)]
pub struct Broken {
    /// The promise, the object, and the fault.
    pub what: String,
    /// The changes, and if they were kept the messages, up to that moment.
    pub tail: Vec<String>,
}

/// How a walk is done.
#[derive(Clone, Copy, Default)]
pub struct Manner<'a> {
    /// Changes the policy that the seed drew: how a rule is switched off.
    pub policy: Option<&'a (dyn Fn(&mut Policy) + Sync)>,
    /// Whether replicas stand still though the API server lets creates of slots pass that were granted again.
    pub lacks_epoch_policy: bool,
    /// Whether every message is kept for the tail of a failure.
    pub talks: bool,
}

/// The participants of a walk.
pub struct Stage {
    /// The cluster.
    pub cluster: SimCluster,
    /// The user.
    pub user: User,
    /// Chance.
    pub rng: Rng,
    /// The conditions.
    pub conditions: Conditions,
    /// The running controller; `None`: it is dead.
    pub controller: Option<Controller>,
    incarnation: usize,
    seed: u64,
    /// How long Frameworks may be active and are kept: drawn aside, so that the rest of a walk does not
    /// depend on it.
    aside: Rng,
}

/// Does the walk of a seed.
pub fn walk(seed: u64, manner: Manner<'_>) -> Walked {
    let mut rng = Rng::with_seed(seed);
    let mut conditions = Conditions::draw(&mut rng);
    conditions.options.keep_trace = manner.talks;
    if let Some(change) = manner.policy {
        change(&mut conditions.setup.policy);
    }
    simulate(seed, conditions.options.clone(), |cluster| async move {
        Stage::new(cluster, seed, rng, conditions).go().await
    })
}

impl Stage {
    fn new(cluster: SimCluster, seed: u64, rng: Rng, conditions: Conditions) -> Self {
        let (user, aside) = (cluster.user(), Rng::with_seed(!seed));
        Stage { cluster, user, rng, conditions, controller: None, incarnation: 0, seed, aside }
    }

    async fn go(&mut self) -> Walked {
        self.restart();
        for index in 0..self.conditions.frameworks {
            let free = self.create(&format!("f{index}"));
            assert!(free, "nobody else creates Frameworks");
            if self.rng.bool() {
                self.wait(1_000).await;
            }
        }
        for _ in 0..self.conditions.steps {
            let longest = if self.rng.u8(..5) == 0 { 15_000 } else { 2_000 };
            self.wait(longest).await;
            mischief::step(self).await;
        }
        let ended = endgame::play(self).await;
        let history = self.cluster.history();
        let found = endgame::judge(&history, &history, ended, &self.conditions);
        let logged = self.conditions.setup.log.lines();
        let found = found.or_else(|| Some((check::snapshots::check(&history, &logged).err()?, None)));
        Walked {
            broken: found.map(|(what, rv)| Broken { what, tail: self.tail(&history, rv) }),
            digest: self.cluster.digest(),
            requests: history.exchanges.len(),
        }
    }

    /// Creates a random Framework. Says whether the name was free.
    pub fn create(&mut self, name: &str) -> bool {
        let mut manifest = random_framework(&mut self.rng, name);
        if self.conditions.queues {
            manifest = queues::queued(&mut self.aside, manifest);
        }
        if self.conditions.lifetimes {
            manifest = limited(&mut self.aside, manifest);
        }
        self.user.create(manifest.value()).is_ok()
    }

    /// Lets up to so many milliseconds pass.
    pub async fn wait(&mut self, longest: u64) {
        let time = self.rng.u64(0..=longest);
        pass(SECOND * u32::try_from(time).unwrap_or(u32::MAX) / 1000).await;
    }

    /// Starts a controller if there is none.
    pub fn restart(&mut self) {
        if self.controller.is_none() {
            self.incarnation += 1;
            let mut setup: Setup = self.conditions.setup.clone();
            // Each controller goes on with the statuses that the one before has compressed, and uses another
            // codec.
            setup.settings.compression.codec = match self.incarnation % 2 {
                0 => CompressionCodec::Gzip,
                _ => CompressionCodec::Zstd,
            };
            let seed = self.seed.rotate_left(17);
            self.controller = Some(Controller::start(&self.cluster, self.incarnation, seed, &setup));
        }
    }

    /// Waits between the death of a controller and the start of the next: the time that must pass, and a
    /// random time.
    pub async fn mourn(&mut self) {
        if self.conditions.hangs {
            pass(AFTERMATH).await;
        } else {
            pass(TRANSIT).await;
        }
        self.wait(1_000).await;
    }

    /// A random Framework's name.
    pub fn any_framework(&mut self) -> String {
        format!("f{}", self.rng.usize(..self.conditions.frameworks))
    }

    /// A random object's name.
    pub fn any(&mut self, plural: &str) -> Option<String> {
        use framework_sim::Meta;
        let names: Vec<String> = self.user.list(plural).iter().map(|one| one.name().to_owned()).collect();
        self.rng.choice(names)
    }

    /// Stops a Framework.
    pub fn stop(&self, name: &str) {
        // It may be gone.
        let _ = self.user.stop(name);
    }

    /// The last changes and messages up to a resourceVersion.
    fn tail(&self, history: &History, rv: Option<u64>) -> Vec<String> {
        const LINES: usize = 3000;
        let end = history.changes.iter().position(|change| Some(change.rv) == rv);
        let end = end.map_or(history.changes.len(), |index| index + 1);
        let broken = history.changes.get(end.saturating_sub(1)).filter(|_| rv.is_some());
        let at = broken.map_or(u128::MAX, |change| change.at.as_micros());
        let lines = history.lines();
        let messages = self.cluster.trace();
        let said = messages.iter().filter(|entry| u128::from(entry.micros) <= at);
        let said: Vec<String> = said.map(ToString::to_string).collect();
        let last = |lines: &[String]| lines[lines.len().saturating_sub(LINES)..].to_vec();
        [last(&said), last(&lines[..end])].concat()
    }
}
