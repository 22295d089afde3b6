//! The controller as a process: it is started, stopped, killed and paused.

use std::sync::Arc;
use std::time::Duration;

use framework_api::job_kind::{JobKindRow, built_in};
use framework_api::pod_failure::default_rules;
use framework_core::Policy;
use framework_core::classify::Classifier;
use framework_engine::engine::EngineSettings;
use framework_runtime::clock::Clock;
use framework_runtime::health::Health;
use framework_runtime::metrics::Metrics;
use framework_runtime::run::{Error, MemberParts, Parts, Queries, run};
use framework_runtime::seeds::Seeds;
use framework_sim::SimCluster;
use futures::FutureExt;
use jiff::SignedDuration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::history::LogLines;
use super::wire::{Fuse, Gate, wire};

/// The kinds of jobs whose rows each simulated controller has.
fn of_kubernetes() -> Vec<JobKindRow> {
    built_in().into_iter().filter(|row| ["Job", "JobSet"].contains(&row.kind.as_str())).collect()
}

/// How a controller is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The policy of its core.
    pub policy: Policy,
    /// The settings of its engine.
    pub settings: EngineSettings,
    /// By how much its wall clock is wrong.
    pub wrong_by: SignedDuration,
    /// The rows of kinds of jobs.
    pub job_kinds: Vec<JobKindRow>,
    /// The journal of its history.
    pub log: LogLines,
    /// The setup of its member; `None`: it is alone.
    pub member: Option<MemberSetup>,
}

/// The setup of the member of a controller, which shares the slots with other replicas.
#[derive(Clone, Debug)]
pub struct MemberSetup {
    /// The times of the protocol.
    pub policy: framework_shard::Policy,
    /// The name of its host, which names its Lease.
    pub host: String,
    /// The UID of its Pod.
    pub pod: String,
    /// How many thousandths of a second its clock shows in a second.
    pub rate: u32,
}

/// The name of the client by which the member of a controller renews its Lease.
pub fn member_of(controller: &str) -> String {
    format!("{controller}-member")
}

impl Default for Setup {
    /// The contract's defaults, but for times that a test would wait long for, and a generous budget.
    fn default() -> Self {
        static CLASSIFIER: std::sync::OnceLock<Classifier> = std::sync::OnceLock::new();
        let classifier = CLASSIFIER.get_or_init(|| Classifier::new(&default_rules()).expect("valid rules"));
        let mut policy = Policy::new(classifier.clone());
        policy.object_local_cache_creation_timeout_sec = 60;
        // Few, so that walks come to the limit.
        policy.expectations_limit = 64;
        policy.min_conflict_retry_delay_sec = 1;
        policy.max_conflict_retry_delay_sec = 5;
        policy.retry_backoff.max_delay_sec = 5;
        let settings = EngineSettings { qps: 1000.0, burst: 1000, ..EngineSettings::default() };
        Setup {
            policy,
            settings,
            wrong_by: SignedDuration::ZERO,
            job_kinds: of_kubernetes(),
            log: LogLines::default(),
            member: None,
        }
    }
}

/// A running controller.
#[derive(Debug)]
pub struct Controller {
    /// The name of its client: no two in a cluster have the same.
    pub name: String,
    process: JoinHandle<Result<(), Error>>,
    stop: Option<oneshot::Sender<()>>,
    gate: Gate,
}

impl Controller {
    /// Starts the `incarnation`-th controller of a cluster. Its chances follow from `seed`.
    pub fn start(cluster: &SimCluster, incarnation: usize, seed: u64, setup: &Setup) -> Self {
        Self::start_fused(cluster, incarnation, seed, setup, None)
    }

    /// The same, with a fuse in its wire.
    pub fn start_fused(
        cluster: &SimCluster,
        incarnation: usize,
        seed: u64,
        setup: &Setup,
        fuse: Option<Fuse>,
    ) -> Self {
        let name = format!("controller-{incarnation}");
        let (stop, stopped) = oneshot::channel();
        let gate = Gate::default();
        let rate = setup.member.as_ref().map_or(1000, |member| member.rate);
        let clock = Clock::simulated(cluster.clock().now() + setup.wrong_by).at_rate(rate);
        let member = setup.member.clone().map(|member| MemberParts {
            has_whole_budget: false,
            client: wire(cluster.client(&member_of(&name)), gate.clone(), None),
            policy: member.policy,
            host: member.host,
            pod: member.pod,
            run: name.clone(),
        });
        let parts = Parts {
            client: wire(cluster.client(&name), gate.clone(), fuse),
            settings: setup.settings.clone(),
            policy: Arc::new(setup.policy.clone()),
            clock,
            seeds: Seeds::fixed(seed.wrapping_add(incarnation as u64)),
            metrics: Metrics::new(),
            health: Arc::new(Health::new(clock)),
            journal: setup.log.journal(cluster),
            span_exporter: None,
            instance: name.clone(),
            namespace: None,
            job_kinds: setup.job_kinds.clone(),
            queries: Queries {
                positions: framework_runtime::position_query::PositionClient::new().1,
                shards: framework_runtime::shards_query::ShardsClient::new().1,
            },
            member,
            // A controller whose handle is dropped runs on.
            stop: async move {
                if stopped.await.is_err() {
                    std::future::pending().await
                }
            }
            .boxed(),
        };
        let process = tokio::spawn(with_pauses(parts, gate.clone()));
        Controller { name, process, stop: Some(stop), gate }
    }

    /// Kills it: it ends at any point where it waits, and its requests in flight go on without it.
    pub async fn crash(self) {
        self.process.abort();
        let _ = self.process.await;
        // The tasks that it had started end with the next turn of the runtime.
        tokio::task::yield_now().await;
    }

    /// Asks it to stop, and waits for its end.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.resume();
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        self.process.await.expect("it does not panic")
    }

    /// Lets it stand still, as a process without CPU does.
    pub fn pause(&self) {
        self.gate.set(true);
    }

    /// Lets it stand still between the check of its next create and the request, if it creates anything
    /// within this time; otherwise at the end of it.
    pub async fn pause_at_create(&self, within: Duration) {
        self.gate.shut_at_create(true);
        let _ = tokio::time::timeout(within, self.gate.wait_for(true)).await;
        self.gate.shut_at_create(false);
        self.pause();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.gate.set(false);
    }

    /// Whether it has ended by itself, which it never should.
    pub fn has_ended(&self) -> bool {
        self.process.is_finished()
    }
}

async fn with_pauses(parts: Parts, gate: Gate) -> Result<(), Error> {
    let mut running = std::pin::pin!(run(parts));
    loop {
        tokio::select! {
            biased;
            () = gate.wait_for(true) => {}
            ended = &mut running => return ended,
        }
        gate.wait_for(false).await;
    }
}

/// The longest time for which a request of a dead controller can still land.
pub const AFTERMATH: Duration = Duration::from_secs(30);

/// The same if requests do not hang. A controller of these walks has no Leases, and so no hold: the next one
/// starts when the requests of the one before have arrived.
pub const TRANSIT: Duration = Duration::from_millis(100);
