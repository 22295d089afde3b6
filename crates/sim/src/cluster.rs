//! The handle by which a test holds the cluster: clients, users, faults, time, trace and history.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::{Notify, watch};

use crate::agenda::Agenda;
use crate::clock::{Clock, Dates};
use crate::collector::graph::Collector;
use crate::driver::drive;
use crate::fate::Behaviour;
use crate::faults::Faults;
use crate::history::History;
use crate::http::Connection;
use crate::kind::{Kind, Registry};
use crate::kubelet;
use crate::kubelet::nodes::Kubelet;
use crate::quota::controller::Quotas;
use crate::rates::Rates;
use crate::store::Store;
use crate::trace::{Entry, Trace};
use crate::user::{NAMESPACE, User};
use crate::watch::Ending;
use crate::watches::Watches;
use crate::world::World;

/// The configuration of a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// How often faults happen on the network, from the beginning.
    pub rates: Rates,
    /// How Pods behave.
    pub behaviour: Behaviour,
    /// How many nodes there are: `node-0`, `node-1`, ….
    pub nodes: usize,
    /// How long the garbage collector takes for each thing that it does.
    pub collector_delay: RangeInclusive<Duration>,
    /// How long the quota controller takes from a change until it counts.
    pub quota_delay: RangeInclusive<Duration>,
    /// The kinds that the server knows.
    pub registry: Registry,
    /// Whether the policy of `deploy/epoch` is installed.
    pub epoch_policy: bool,
    /// Whether to keep the lines of the trace, or only their digest.
    pub keep_trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rates: Rates::calm(),
            behaviour: Behaviour::default(),
            nodes: 3,
            collector_delay: Duration::from_millis(5)..=Duration::from_millis(100),
            quota_delay: Duration::from_millis(20)..=Duration::from_millis(500),
            registry: Registry::new(),
            epoch_policy: false,
            keep_trace: true,
        }
    }
}

/// A simulated cluster. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct SimCluster {
    world: Arc<Mutex<World>>,
    clock: Clock,
}

impl SimCluster {
    /// Starts a cluster whose every random choice follows from the seed.
    ///
    /// # Panics
    /// Outside of a tokio runtime. The runtime should be current-thread with its clock paused, as the one of
    /// [`crate::run`] is: otherwise nothing is repeatable.
    #[must_use]
    pub fn new(seed: u64, options: Options) -> Self {
        // Each part has a stream of its own, so that one more choice in one part does not shift the others.
        let stream = |part: u64| Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part));
        let clock = Clock::start();
        let wake = Arc::new(Notify::new());
        let store = Store::new(options.registry, stream(1));
        let world = World {
            clock: clock.clone(),
            dates: Dates::default(),
            revision: watch::Sender::new(store.version()),
            store,
            agenda: Agenda::new(Arc::clone(&wake)),
            watches: Watches::default(),
            kubelet: Kubelet::new(options.behaviour, options.nodes, stream(2)),
            collector: Collector::new(options.collector_delay, stream(3)),
            faults: Faults::new(options.rates, stream(4)),
            has_epoch_policy: options.epoch_policy,
            quotas: Quotas::new(options.quota_delay, stream(5)),
            trace: Trace::new(options.keep_trace),
            silence: Vec::new(),
        };
        let world = Arc::new(Mutex::new(world));
        // It ends with the last handle: the task holds the world only weakly.
        tokio::spawn(drive(Arc::downgrade(&world), wake));
        Self { world, clock }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A real client of this cluster. The name identifies it in the trace, in the history and in faults.
    #[must_use]
    pub fn client(&self, who: &str) -> kube::Client {
        let connection = Connection { world: Arc::clone(&self.world), who: who.into() };
        kube::Client::new(connection, NAMESPACE)
    }

    /// A user with all rights, no latency and no faults.
    #[must_use]
    pub fn user(&self) -> User {
        User { world: Arc::clone(&self.world), actor: "user".into(), namespace: NAMESPACE.to_owned() }
    }

    /// The cluster's clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Reads or changes the faults.
    pub fn faults<T>(&self, change: impl FnOnce(&mut Faults) -> T) -> T {
        change(&mut self.world().faults)
    }

    /// Changes how Pods behave that are created from now on.
    pub fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.world().kubelet.behaviour);
    }

    /// Makes the server know another kind, or know one differently.
    pub fn register(&self, kind: Kind) {
        self.world().store.add_kind(kind);
    }

    /// Ends all faults but quotas: calm rates, no rules, no client cut off, no watch behind, all nodes up.
    pub fn heal(&self) {
        let mut world = self.world();
        world.faults.heal();
        world.with_watches(|watches, around| watches.heal(around));
        for name in world.kubelet.dead_nodes() {
            kubelet::revive_node(&mut world, &name);
        }
    }

    /// Lets the open watches of one client on one kind stand still for that long.
    pub fn freeze_watches(&self, who: &str, plural: &str, time: Duration) {
        let mut world = self.world();
        world.with_watches(|watches, around| {
            for id in watches.of(who, plural, &around.store.registry) {
                watches.freeze(id, time, around);
            }
        });
    }

    /// Lets the open watches of one client on one kind lag that far behind from now on.
    pub fn lag_watches(&self, who: &str, plural: &str, lag: Duration) {
        let mut world = self.world();
        world.with_watches(|watches, around| {
            for id in watches.of(who, plural, &around.store.registry) {
                watches.lag(id, lag);
            }
        });
    }

    /// Lets the open watches of one client on one kind show their last changes once more.
    pub fn repeat_watches(&self, who: &str, plural: &str, count: usize) {
        let mut world = self.world();
        world.with_watches(|watches, around| {
            for id in watches.of(who, plural, &around.store.registry) {
                watches.repeat(id, count, around);
            }
        });
    }

    /// Ends the open watches of one client on one kind.
    pub fn close_watches(&self, who: &str, plural: &str, ending: Ending) {
        let mut world = self.world();
        world.with_watches(|watches, around| {
            for id in watches.of(who, plural, &around.store.registry) {
                watches.close(id, ending, around);
            }
        });
    }

    /// Forgets the history up to now, as etcd's compaction does: a watch that resumes from before gets 410.
    pub fn compact(&self) {
        let mut world = self.world();
        let version = world.store.version();
        world.store.compact(version);
    }

    /// Makes a node fall silent; its Pods are deleted after that long by the node controller, and hang.
    pub fn kill_node(&self, name: &str, evict_after: Duration) {
        kubelet::kill_node(&mut self.world(), name, evict_after);
    }

    /// Brings a node back.
    pub fn revive_node(&self, name: &str) {
        kubelet::revive_node(&mut self.world(), name);
    }

    /// The newest resourceVersion.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.world().store.version()
    }

    /// All that has happened. Objects are shared, not copied.
    #[must_use]
    pub fn history(&self) -> History {
        self.world().store.history.clone()
    }

    /// The lines of the trace so far, none if they are not kept.
    #[must_use]
    pub fn trace(&self) -> Vec<Entry> {
        self.world().trace.entries().to_vec()
    }

    /// A hash of all that has happened, bodies included: equal for equal runs.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.world().trace.digest()
    }

    /// Waits until a condition holds, asking after every change. `false` when the time is over first.
    pub async fn until(&self, limit: Duration, mut holds: impl FnMut(&User) -> bool) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        let mut revision = self.world().revision.subscribe();
        let user = self.user();
        loop {
            if holds(&user) {
                return true;
            }
            if !matches!(tokio::time::timeout_at(deadline, revision.changed()).await, Ok(Ok(()))) {
                return holds(&user);
            }
        }
    }

    /// Waits until nothing has changed for that long. `false` when the time is over first.
    pub async fn settle(&self, quiescence: Duration, limit: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        let mut revision = self.world().revision.subscribe();
        loop {
            let wait = (tokio::time::Instant::now() + quiescence).min(deadline);
            match tokio::time::timeout_at(wait, revision.changed()).await {
                Ok(_) => {}
                Err(_) if tokio::time::Instant::now() >= deadline && wait == deadline => return false,
                Err(_) => return true,
            }
        }
    }
}
