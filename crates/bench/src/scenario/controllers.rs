//! Controllers of Frameworks on a control plane: ours, its replicas, and the original.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use framework_api::pod_failure::DEFAULT_CONFIG;
use framework_testcluster::Cluster;

/// The name of the controller's program.
pub(super) const CONTROLLER: &str = "frameworkcontroller";
/// How long a controller may take until it serves its metrics.
const READY: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(50);

/// The names of the hosts of replicas, for their Leases.
pub(super) const HOSTS: [&str; 8] =
    ["replica-1", "replica-2", "replica-3", "replica-4", "replica-5", "replica-6", "replica-7", "replica-8"];

/// The settings that `recommended` adds to the defaults.
const RECOMMENDED: &str = "largeFrameworkCompression: true\nlargeFrameworkCompressionThresholdBytes: 4096\n";

/// The config of ours, and its name in the report.
pub(super) fn config_of(is_recommended: bool, has_queues: bool) -> (String, &'static str) {
    let compression = if is_recommended { RECOMMENDED } else { "" };
    let queueing = if has_queues { "queueing: true\n" } else { "" };
    let name = match (is_recommended, has_queues) {
        (false, false) => "drop-in defaults",
        (false, true) => "queueing",
        (true, false) => "recommended",
        (true, true) => "recommended, queueing",
    };
    (format!("{compression}{queueing}"), name)
}

/// A link to the program under the name of a controller: its user agent has the name of its file, and its
/// requests are counted by it.
pub(super) fn by_its_name(program: &Path, dir: &Path) -> Result<PathBuf> {
    let found = program.canonicalize().with_context(|| format!("finding {}", program.display()))?;
    let named = dir.join("reference").join(CONTROLLER);
    fs::create_dir_all(dir.join("reference")).context("making a directory for the program")?;
    symlink(found, &named).context("naming the program")?;
    Ok(named)
}

/// Starts a controller of Frameworks in the directory with its config file: the original reads it there.
pub(super) fn start(cluster: &Cluster, program: &Path, config: &str, qps: u32) -> Result<u32> {
    write_config(cluster, CONTROLLER, config, qps)?;
    Ok(cluster.host(CONTROLLER, program, &[], cluster.dir())?)
}

/// Starts a replica on a host of that name, which shares the Frameworks with others.
pub(super) fn start_replica(
    cluster: &Cluster,
    program: &Path,
    host: &'static str,
    config: &str,
    qps: u32,
) -> Result<u32> {
    write_config(cluster, host, &format!("{config}sharding: true\n"), qps)?;
    let program = program.to_str().context("the controller's path is no text")?.to_owned();
    let arguments = [format!("HOSTNAME={host}"), program, "--config".into(), format!("{host}.yaml")];
    Ok(cluster.host(host, Path::new("/usr/bin/env"), &arguments, cluster.dir())?)
}

fn write_config(cluster: &Cluster, name: &str, config: &str, qps: u32) -> Result<()> {
    let text = format!(
        "kubeClientQps: {qps}\nkubeClientBurst: {qps}\n{config}metricsAddress: 127.0.0.1:0\n\
         metricsAuthorization: false\n{}",
        &DEFAULT_CONFIG
            [DEFAULT_CONFIG.find("\npodFailureSpec:").context("the default config has rules")?..]
    );
    fs::write(cluster.dir().join(format!("{name}.yaml")), text).context("writing the config file")
}

/// The address of a controller's metrics, by its log.
pub(super) fn metrics_address(cluster: &Cluster, name: &str) -> Result<String> {
    let path = cluster.dir().join(format!("{name}.log"));
    let deadline = Instant::now() + READY;
    loop {
        let log = fs::read_to_string(&path).unwrap_or_default();
        let line = log.lines().find(|line| line.contains("serving metrics"));
        if let Some(address) = line.and_then(|line| line.split("address=").nth(1)) {
            return Ok(address.split_whitespace().next().unwrap_or_default().to_owned());
        }
        cluster.check()?;
        ensure!(Instant::now() < deadline, "the controller does not serve its metrics:\n{log}");
        std::thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_config_for_a_scenario_with_queues_turns_queueing_on() {
        for is_recommended in [false, true] {
            let (with, name) = config_of(is_recommended, true);
            let (without, other) = config_of(is_recommended, false);
            assert_eq!(with, format!("{without}queueing: true\n"));
            assert_ne!(name, other);
            assert_eq!(with.contains("largeFrameworkCompression: true\n"), is_recommended);
        }
    }

    #[test]
    fn a_reference_controller_is_started_under_the_name_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("the-original");
        fs::write(&program, "x").unwrap();
        let named = by_its_name(&program, dir.path()).unwrap();
        assert_eq!(named.file_name().unwrap(), CONTROLLER);
        assert_eq!(fs::read_to_string(named).unwrap(), "x");
        assert!(by_its_name(Path::new("/nowhere"), dir.path()).is_err());
    }
}
