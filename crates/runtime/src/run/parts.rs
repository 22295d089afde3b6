//! The parts of a controller, which the caller makes.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use framework_core::Policy;
use framework_engine::engine::EngineSettings;

use crate::clock::Clock;
use crate::health::Health;
use crate::journal::Journal;
use crate::metrics::Metrics;
use crate::position_query::PositionQuery;
use crate::seeds::Seeds;

/// What a controller is made of.
pub struct Parts {
    /// The way to the API server.
    pub client: kube::Client,
    /// Of the engine.
    pub settings: EngineSettings,
    /// Of the core.
    pub policy: Arc<Policy>,
    /// Tells the time.
    pub clock: Clock,
    /// All randomness.
    pub seeds: Seeds,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Flags for probes.
    pub health: Arc<Health>,
    /// Takes the history.
    pub journal: Arc<dyn Journal>,
    /// Names this replica in Kubernetes Events.
    pub instance: String,
    /// Where questions come in for where a unit stands.
    pub position_queries: mpsc::Receiver<PositionQuery>,
    /// When this is done, the controller stops gracefully.
    pub stop: BoxFuture<'static, ()>,
}
