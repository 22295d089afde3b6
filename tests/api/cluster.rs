//! The cluster of these tests.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use framework_api::crd;
use framework_testcluster::{Cluster, shared};

/// The cluster with everything of `deploy/` installed, and the CRDs established.
pub fn installed() -> &'static Cluster {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
        kubectl(&["apply", "--server-side", "-k", path], "").expect("the API server accepts deploy/");
        for name in [crd::NAME, crd::queue::UNITS, crd::queue::QUEUES] {
            await_established(name);
        }
    });
    shared()
}

/// Installs a CRD, or a new version of it, and waits until it is established.
pub fn install(name: &str, manifest: &str) {
    kubectl(&["apply", "--server-side", "-f=-"], manifest).expect("the API server accepts the CRD");
    await_established(name);
}

fn await_established(crd: &str) {
    let wait = ["wait", "--for=condition=Established", "--timeout=120s", "crd", crd];
    kubectl(&wait, "").expect("the CRD is established");
    // kubectl remembers which resources there are; this makes it look again.
    kubectl(&["api-resources"], "").expect("the API server lists its resources");
}

/// The names of all that `kubectl get all` shows of a namespace. The command fails while a kind that another
/// test installs is not served yet.
pub fn get_all(namespace: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        match kubectl(&["get", "all", "--namespace", namespace, "-o=name"], "") {
            Ok(all) => return all,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// The output of kubectl, or its error message.
pub fn kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
    let output = shared().kubectl_as("admin", arguments, input).expect("kubectl runs");
    if output.status.success() { Ok(output.stdout) } else { Err(output.stderr) }
}
