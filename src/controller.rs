//! The controller as a whole: start-up checks, probes, and the loop, wired together around one client.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use framework_api::config::Config;
use framework_api::job_kind;
use framework_runtime::access_review::Gate;
use framework_runtime::admin;
use framework_runtime::clock::Clock;
use framework_runtime::health::Health;
use framework_runtime::journal::Journal;
use framework_runtime::listener;
use framework_runtime::metrics::Metrics;
use framework_runtime::position_query::PositionClient;
use framework_runtime::run::{self, MemberParts, Parts, Queries, run};
use framework_runtime::seeds::Seeds;
use framework_runtime::shards_query::ShardsClient;
use framework_runtime::stall::{self, Threads};
use framework_runtime::traces;
use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::settings::Settings;
use crate::startup::{self, Patience, Served};

/// Why the controller ended without a signal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A start-up check failed.
    #[error(transparent)]
    NotReady(#[from] startup::Error),
    /// An address cannot be listened on.
    #[error("cannot listen on {key} {address}: {source}")]
    NoListener {
        /// The key of the config file that sets it.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The heartbeat that shows stalls ended.
    #[error("the heartbeat ended unexpectedly")]
    HeartEnded,
    /// A port is served no more.
    #[error("a port is served no more: {0}")]
    PortEnded(#[source] JoinError),
    /// Traces cannot be exported.
    #[error(transparent)]
    NoTraces(#[from] traces::ExporterError),
    /// The loop ended.
    #[error(transparent)]
    LoopEnded(#[from] run::Error),
}

/// A controller that is about to run.
pub struct Controller {
    /// Its settings.
    pub settings: Settings,
    /// The client of the API server.
    pub client: kube::Client,
    /// Its metrics, to which the client adds the bytes it receives.
    pub metrics: Arc<Metrics>,
    /// Receives the history.
    pub journal: Arc<dyn Journal>,
    /// The name of this replica.
    pub instance: String,
    /// Its membership of the replicas that share the slots; `None`: it owns every slot for ever.
    pub member: Option<MemberParts>,
}

impl Controller {
    /// Runs until `stop` resolves, and then stops gracefully.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        let (probe_port, metrics_port) = ports(&self.settings).await?;
        let clock = Clock::system();
        let (health, metrics) = (Arc::new(Health::new(clock)), Arc::clone(&self.metrics));
        let (positions, position_queries) = PositionClient::new();
        let (shards, shards_queries) = ShardsClient::new();
        let gate = if self.settings.config.metrics_authorization {
            Gate::new(self.client.clone(), clock)
        } else {
            warn!("metricsAuthorization is off: any client of the port can read metrics and queue positions");
            Gate::open(clock)
        };
        let (gate, seen) = (Arc::new(gate), Arc::clone(&metrics));
        let endpoints = admin::metrics(gate, Arc::clone(&health), seen, positions, shards);
        let probes = admin::probes(Arc::clone(&health));
        let mut serving =
            on_workers([listener::serve(probe_port, probes), listener::serve(metrics_port, endpoints)]);
        let stop = stop.boxed().shared();
        let working = async {
            tokio::select! {
                biased;
                () = stop.clone() => return Ok(()),
                checked = self.checked(&health) => checked?,
            }
            let namespace = self.settings.config.namespace.as_deref();
            info!(instance = self.instance, namespace, "started");
            if !self.settings.policy.queueing {
                info!("queueing is off: a Framework that names a queue starts at once");
            }
            let parts = Parts {
                client: self.client.clone(),
                settings: self.settings.engine.clone(),
                policy: Arc::new(self.settings.policy.clone()),
                clock,
                seeds: Seeds::system(),
                metrics: Arc::clone(&metrics),
                health: Arc::clone(&health),
                journal: Arc::clone(&self.journal),
                span_exporter: traces::exporter(self.settings.endpoint(), &self.instance)?,
                instance: self.instance.clone(),
                namespace: self.settings.config.namespace.clone(),
                job_kinds: job_kind::in_force(&self.settings.config.queue_job_kinds),
                queries: Queries { positions: position_queries, shards: shards_queries },
                member: self.member,
                stop: stop.clone().boxed(),
            };
            run(parts).await?;
            info!("stopped");
            Ok(())
        };
        // One heartbeat runs here, on the thread of the loop, and one on a worker of the runtime.
        let (begin, mut hearts) = (Instant::now(), JoinSet::new());
        hearts.spawn(stall::beat(Arc::clone(&metrics), Threads::Workers, begin));
        let heart = stall::beat(Arc::clone(&metrics), Threads::Loop, begin);
        tokio::select! {
            biased;
            worked = working => worked,
            Some(ended) = serving.join_next() => match ended {
                Ok(never) => match never {},
                Err(error) => Err(Error::PortEnded(error)),
            },
            () = heart => Err(Error::HeartEnded),
            Some(_) = hearts.join_next() => Err(Error::HeartEnded),
        }
    }

    /// The checks before it may act.
    async fn checked(&self, health: &Health) -> Result<(), startup::Error> {
        let config = &self.settings.config;
        let queueing = self.settings.policy.queueing;
        let served = Served { namespace: config.namespace.as_deref(), queueing };
        startup::ready(&self.client, served, patience(config), health).await?;
        match &self.member {
            Some(member) => {
                startup::alone(&self.client, &member.host, health).await;
                Ok(())
            }
            None => {
                let duration = Duration::from_secs(config.lease_duration_sec);
                startup::members::apart(&self.client, duration, health).await
            }
        }
    }
}

fn patience(config: &Config) -> Patience {
    Patience {
        interval: Duration::from_secs(config.crd_established_check_interval_sec),
        timeout: Duration::from_secs(config.crd_established_check_timeout_sec),
    }
}

/// Serves on the workers of the runtime. On the thread of the loop no connection would be accepted during a
/// long turn, and no probe could tell of that turn.
fn on_workers(servers: [impl Future<Output = Infallible> + Send + 'static; 2]) -> JoinSet<Infallible> {
    servers.into_iter().collect()
}

/// The listeners of the probes and of the metrics.
async fn ports(settings: &Settings) -> Result<(TcpListener, TcpListener), Error> {
    let (probes, address) = listen("probeAddress", settings.probe_address).await?;
    info!(%address, "serving probes");
    let (metrics, address) = listen("metricsAddress", settings.metrics_address).await?;
    info!(%address, "serving metrics");
    Ok((probes, metrics))
}

/// A listener, and the address that it got: the setting may leave its port open.
async fn listen(key: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let refused = |source| Error::NoListener { key, address, source };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_probe_is_answered_while_a_turn_holds_the_thread_of_the_loop() {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let health = Arc::new(Health::new(Clock::system()));
            let any = "127.0.0.1:0".parse().unwrap();
            let (probes, address) = listen("probeAddress", any).await.unwrap();
            let (metrics, _) = listen("metricsAddress", any).await.unwrap();
            let serve = |port| listener::serve(port, admin::probes(Arc::clone(&health)));
            let _serving = on_workers([probes, metrics].map(serve));
            // Until the answer comes, this thread polls nothing.
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        });
    }
}
