//! A cluster in one thread: API server, kubelet, collector, quotas, users, clock and faults. Never shipped.
//!
//! The controller under test keeps its real `kube::Client`; the simulation begins at the HTTP seam. Time is
//! tokio's paused clock, and every random choice follows from one seed, so that the same seed gives the same
//! trace. [`run`] sets all of that up.
//!
//! ```
//! use framework_sim::{Options, run};
//! use serde_json::json;
//! use std::time::Duration;
//!
//! let ended = run(7, Options::default(), |cluster| async move {
//!     let user = cluster.user();
//!     let pod = json!({
//!         "apiVersion": "v1", "kind": "Pod",
//!         "metadata": { "name": "hello", "annotations": { "sim/exit-code": "3" } },
//!         "spec": { "containers": [{ "name": "main", "image": "busybox" }] },
//!     });
//!     user.create(pod).unwrap();
//!     cluster
//!         .until(Duration::from_secs(60), |user| {
//!             user.get("pods", "hello").is_some_and(|pod| pod["status"]["phase"] == "Failed")
//!         })
//!         .await
//! });
//! assert!(ended);
//! ```
//!
//! It never reads the wall clock, iterates a hash map or uses a random source that is not seeded. Code that
//! runs in it must not either, or the trace is not repeatable; `tokio::select!` needs `biased`.

mod admission;
mod agenda;
mod body;
mod call;
pub mod check;
mod clock;
mod cluster;
mod collector;
mod creation;
mod deed;
mod deletion;
mod discovery;
mod driver;
mod duration;
mod event;
mod fate;
mod fault;
mod faults;
mod history;
mod http;
mod kind;
mod kubelet;
mod listing;
mod network;
mod object;
mod patch;
mod quota;
mod rates;
pub mod recorded;
mod refusal;
mod reply;
mod route;
mod schema;
mod selector;
mod server;
mod store;
mod trace;
mod unit;
mod update;
mod user;
mod watch;
mod watches;
mod world;

use std::future::Future;

pub use admission::CREATE_ERROR;
pub use clock::Clock;
pub use cluster::{Options, SimCluster};
pub use deletion::{DeleteOptions, Deletion};
pub use fate::{Behaviour, End, Fate, Script};
pub use fault::{Fault, Rule};
pub use faults::{Cut, Faults};
pub use history::{Cause, Change, Exchange, History, Verb};
pub use kind::{FRAMEWORK_GROUP, Kind, KindId, Registry};
pub use object::{FOREGROUND, Meta, ORPHAN, Object};
pub use rates::{Rates, WatchRates};
pub use refusal::Refusal;
pub use trace::Entry;
pub use user::{NAMESPACE, User};
pub use watch::Ending;

/// Runs one simulation from its seed, in a runtime of its own, and returns its result.
///
/// The seed also governs `fastrand`'s generator of this thread, from which the back-off of kube's watcher
/// draws its jitter.
///
/// # Panics
/// When the simulation does, or when the runtime cannot be built.
pub fn run<F, T>(seed: u64, options: Options, simulation: impl FnOnce(SimCluster) -> F) -> T
where
    F: Future<Output = T>,
{
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => panic!("cannot build a current-thread runtime: {error}"),
    };
    runtime.block_on(async {
        let cluster = SimCluster::new(seed, options);
        simulation(cluster).await
    })
}
