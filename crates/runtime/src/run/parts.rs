//! The parts of a controller, which the caller makes.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use framework_api::job_kind::JobKindRow;
use framework_core::Policy;
use framework_engine::engine::EngineSettings;
use framework_membership::ViewQuery;

use crate::clock::Clock;
use crate::health::Health;
use crate::journal::Journal;
use crate::metrics::Metrics;
use crate::position_query::PositionQuery;
use crate::seeds::Seeds;
use crate::traces::Exporter;

/// The parts that a controller is made of.
pub struct Parts {
    /// Leads to the API server.
    pub client: kube::Client,
    /// The settings of the engine.
    pub settings: EngineSettings,
    /// The policy of the core.
    pub policy: Arc<Policy>,
    /// Shows the time.
    pub clock: Clock,
    /// The source of all randomness.
    pub seeds: Seeds,
    /// The metrics that are kept.
    pub metrics: Arc<Metrics>,
    /// Flags for probes.
    pub health: Arc<Health>,
    /// Takes the history.
    pub journal: Arc<dyn Journal>,
    /// Exports traces; `None`: there are none.
    pub span_exporter: Option<Exporter>,
    /// Names this replica in Kubernetes Events.
    pub instance: String,
    /// The only namespace whose objects are watched; `None`: those of all namespaces are.
    pub namespace: Option<String>,
    /// Kinds of jobs in queues that have no code of their own.
    pub job_kinds: Vec<JobKindRow>,
    /// The queries that it answers.
    pub queries: Queries,
    /// Its membership of the replicas that share the slots; `None`: it owns every slot for ever.
    pub member: Option<MemberParts>,
    /// When this is done, the controller stops gracefully.
    pub stop: BoxFuture<'static, ()>,
}

/// Queries of the admin endpoints.
pub struct Queries {
    /// For the position of a unit.
    pub positions: mpsc::Receiver<PositionQuery>,
    /// For the division of the slots.
    pub shards: mpsc::Receiver<ViewQuery>,
}

/// The parts of a membership.
pub struct MemberParts {
    /// Leads to the API server, by a connection that nothing else uses.
    pub client: kube::Client,
    /// The times of the protocol.
    pub policy: framework_shard::Policy,
    /// The name of this replica's host: it names the Lease.
    pub host: String,
    /// The UID of the Pod, or anything that no other program uses.
    pub pod: String,
    /// The name of this run of the program, which no other run has.
    pub run: String,
    /// Whether this replica may use the whole request budget, not only the part that goes with its slots.
    pub has_whole_budget: bool,
}
