//! One cluster for all tests of one test program.

use std::sync::OnceLock;

use crate::cluster::Cluster;
use crate::options::Options;

static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();

/// The cluster of this test program, started with the default [`Options`] by the first test that asks.
///
/// It ends with the process. Each test uses a namespace of its own; tests that disturb the control plane need
/// a cluster of their own. If a test panics, the cluster's directory stays.
///
/// # Panics
/// If the cluster cannot be started: in every test that asks, with the reason.
pub fn shared() -> &'static Cluster {
    let started = SHARED.get_or_init(|| {
        let cluster = Cluster::start(Options::default()).map_err(|error| error.to_string())?;
        keep_logs_of_failures(&cluster);
        Ok(cluster)
    });
    match started {
        Ok(cluster) => cluster,
        Err(error) => panic!("the test cluster did not start: {error}"),
    }
}

/// Statics are never dropped, so the panic hook keeps the directory after the panic of a failing test.
fn keep_logs_of_failures(cluster: &Cluster) {
    let (keep, dir) = (cluster.keeper(), cluster.dir().to_owned());
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        keep();
        previous(panic);
        eprintln!("the test cluster's logs are left in {}", dir.display());
    }));
}
