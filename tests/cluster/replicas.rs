//! Replicas of the controller that share the Frameworks. A test starts, ends and disturbs each by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use serde_json::Value;

use super::{PATIENCE, block_on, client, installed, log_of, program, start_program_with, until};

/// How long a Lease lasts without a renewal, in seconds: short, so that tests wait little.
pub const LEASE: u64 = 5;
/// How long a controller that is asked to end may take, as the manifest has it.
pub const GRACE: Duration = Duration::from_secs(40);
/// The ConfigMap that holds the map of slots.
pub const MAP: &str = "frameworkcontroller-slots";
/// The Lease of the leader.
const LEADER: &str = "frameworkcontroller-leader";

/// The replicas of a test. With this value they end, and their Leases and map are deleted.
pub struct Replicas {
    /// The pid of each, and the number of its Pod.
    running: BTreeMap<&'static str, (u32, usize)>,
    pods: usize,
}

impl Replicas {
    /// None yet, on a cluster where they have their rights.
    pub fn none() -> Replicas {
        installed();
        Replicas { running: BTreeMap::new(), pods: 0 }
    }

    /// Starts one in a new Pod on a host of that name, with further lines in its config file.
    pub fn start(&mut self, name: &'static str, config: &str) {
        self.start_on(name, name, config);
    }

    /// Starts one in a new Pod on the host of that name, where another one may run already.
    pub fn start_on(&mut self, name: &'static str, host: &str, config: &str) {
        self.pods += 1;
        self.launch(name, host, self.pods, config);
    }

    /// Starts the container of that host's last Pod again.
    pub fn restart(&mut self, name: &'static str, config: &str) {
        let (_, pod) = self.running[name];
        self.launch(name, name, pod, config);
    }

    fn launch(&mut self, name: &'static str, host: &str, pod: usize, config: &str) {
        let first =
            [format!("HOSTNAME={host}"), format!("POD_UID=pod-{pod}"), program().display().to_string()];
        let config = format!("sharding: true\nleaseDurationSec: {LEASE}\nleaseRenewIntervalSec: 1\n{config}");
        let pid = start_program_with(name, Path::new("/usr/bin/env"), &first, &config);
        self.running.insert(name, (pid, pod));
    }

    /// Their names.
    pub fn names(&self) -> Vec<&'static str> {
        self.running.keys().copied().collect()
    }

    /// Kills one with SIGKILL; [`restart`](Self::restart) knows its Pod.
    pub fn kill(&self, name: &str) {
        installed().kill_hosted(self.running[name].0).expect("it was running");
    }

    /// Removes one that was killed from the list, and its Pod with it.
    pub fn forget(&mut self, name: &str) {
        self.running.remove(name);
    }

    /// Asks one to end, and waits for that.
    pub fn stop(&mut self, name: &str) -> ExitStatus {
        let (pid, _) = self.running.remove(name).expect("it runs");
        installed().terminate_hosted(pid, GRACE).expect("it ends")
    }

    /// Asks one to end, and waits until the others have its slots and it has ended. Returns the first time.
    pub fn leave(&mut self, name: &str) -> (Duration, ExitStatus) {
        let (pid, _) = self.running.remove(name).expect("it runs");
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| installed().terminate_hosted(pid, GRACE).expect("it ends"));
            let taken = self.await_shares();
            (taken, ended.join().expect("it is waited for"))
        })
    }

    /// Stops one with SIGSTOP, so that it keeps its connections and its opinions.
    pub fn freeze(&self, name: &str) {
        installed().pause_hosted(self.running[name].0).expect("it runs");
    }

    /// Continues one that was stopped.
    pub fn thaw(&self, name: &str) {
        installed().resume_hosted(self.running[name].0).expect("it is there");
    }

    /// Waits until exactly the running replicas have equal shares, within a tenth.
    pub fn await_shares(&self) -> Duration {
        self.await_shares_of(&self.names())
    }

    /// The same for these replicas.
    pub fn await_shares_of(&self, names: &[&str]) -> Duration {
        let begun = Instant::now();
        let deadline = begun + PATIENCE;
        let wanted: BTreeSet<&str> = names.iter().copied().collect();
        loop {
            let shares = shares();
            let total: usize = shares.values().sum();
            let owners: BTreeSet<&str> = shares.keys().map(String::as_str).collect();
            let even = 256 / names.len();
            let is_even = shares.values().all(|share| share.abs_diff(even) <= even / 10 + 1);
            if total == 256 && owners == wanted && is_even {
                return begun.elapsed();
            }
            let logs: Vec<String> = names.iter().map(|name| log_of(name)).collect();
            assert!(Instant::now() < deadline, "{shares:?} are not of {names:?}\n{}", logs.join("\n---\n"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        for (pid, _) in self.running.values() {
            // A test that failed may have found it dead.
            let _ = installed().kill_hosted(*pid);
        }
        let leases = ["delete", "leases", "--all", "--namespace", "default"];
        let map = ["delete", "configmap", MAP, "--namespace", "default", "--ignore-not-found"];
        for arguments in [&leases[..], &map] {
            if let Err(error) = installed().kubectl(arguments) {
                eprintln!("Leases and map are left over: {error}");
            }
        }
    }
}

/// How many slots each replica owns, by the map; none while the API server does not answer.
pub fn shares() -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for owner in owners().values() {
        *shares.entry(host_of(owner).to_owned()).or_default() += 1;
    }
    shares
}

/// The incarnation that owns each slot, by the map; none while the API server does not answer.
pub fn owners() -> BTreeMap<u8, String> {
    let owner = |(slot, row): (u8, Value)| Some((slot, row["owner"].as_str()?.to_owned()));
    rows().into_iter().filter_map(owner).collect()
}

/// The epoch of each slot that a replica owns, by the map; none while the API server does not answer.
pub fn epochs_of(replica: &str) -> BTreeMap<u8, u64> {
    let epoch = |(slot, row): (u8, Value)| {
        let is_its = host_of(row["owner"].as_str()?) == replica;
        is_its.then(|| (slot, row["epoch"].as_u64().expect("a row has an epoch")))
    };
    rows().into_iter().filter_map(epoch).collect()
}

/// The row of each slot in the map; none while the API server does not answer.
fn rows() -> BTreeMap<u8, Value> {
    let maps: Api<ConfigMap> = Api::namespaced(client(), "default");
    let map = block_on(maps.get_opt(MAP)).unwrap_or_default();
    let rows = map.and_then(|map| map.data).unwrap_or_default();
    let read = |(key, row): (String, String)| {
        // Another key has the duration of a Lease.
        let slot = key.parse().ok()?;
        Some((slot, serde_json::from_str(&row).expect("a row is JSON")))
    };
    rows.into_iter().filter_map(read).collect()
}

/// The name of the replica that is the leader, once there is one.
pub fn leader() -> String {
    let leases: Api<Lease> = Api::namespaced(client(), "default");
    until("a leader", || {
        let lease = block_on(leases.get_opt(LEADER)).unwrap_or_default()?;
        let holder = lease.spec?.holder_identity.filter(|holder| !holder.is_empty())?;
        Some(host_of(&holder).to_owned())
    })
}

/// The name of the replica whose incarnation this is.
pub fn host_of(incarnation: &str) -> &str {
    let lease = incarnation.split('/').next().unwrap_or_default();
    lease.trim_start_matches("frameworkcontroller-member-")
}
