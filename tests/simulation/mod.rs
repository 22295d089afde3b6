//! The simulated cluster with the production controller in it: its watches, cache, ready set, write queue and
//! core, under a real `kube::Client`. The simulation begins at the HTTP seam.
//!
//! Everything follows from one seed, and time is virtual: a whole life takes milliseconds, and the same seed
//! gives the same trace.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod controller;
pub mod draw;
pub mod endgame;
pub mod history;
pub mod life;
pub mod manifest;
pub mod mischief;
pub mod seeds;
pub mod slots;
pub mod walk;
pub mod wire;

use std::sync::OnceLock;
use std::time::Duration;

use framework_api::crd;
use framework_sim::{Kind, Options, SimCluster};

/// A second of virtual time.
pub const SECOND: Duration = Duration::from_secs(1);

/// Runs a simulation in a cluster that knows Frameworks, QueueUnits and Queues by the CRDs that are installed
/// in a real one.
pub fn simulate<F, T>(seed: u64, options: Options, simulation: impl FnOnce(SimCluster) -> F) -> T
where
    F: Future<Output = T>,
{
    framework_sim::run(seed, options, |cluster| {
        kinds().iter().for_each(|kind| cluster.register(kind.clone()));
        simulation(cluster)
    })
}

fn kinds() -> &'static [Kind; 3] {
    static KINDS: OnceLock<[Kind; 3]> = OnceLock::new();
    KINDS.get_or_init(|| {
        let definitions = [crd::definition(), crd::queue::unit_definition(), crd::queue::queue_definition()];
        definitions.map(|definition| {
            let definition = serde_json::to_value(definition).expect("a definition is plain data");
            Kind::of_definition(&definition).expect("the definition names a kind and a version")
        })
    })
}

/// Lets so much virtual time pass.
pub async fn pass(time: Duration) {
    // Nothing ever comes of this future: only the time-out ends it.
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}
