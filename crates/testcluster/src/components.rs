//! The components of the control plane: which program each is, and with which arguments it starts.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use framework_programs::Program;

use crate::certificates::Certificates;
use crate::error::Error;
use crate::kubeconfig::{CONTROLLER_MANAGER, KWOK, SCHEDULER, Users};

const POD_STAGES: &str = include_str!("stages/pod.yaml");
const NODE_STAGES: &str = include_str!("stages/node.yaml");
/// The options of kwok, to which its number of workers for Pods is added. With a document of options, kwok
/// 0.8 has no defaults for the others. Without workers it does not read the Pods of a Node again after the
/// API server was away.
const KWOK_OPTIONS: &str = "\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  nodePlayStageParallelism: 4
  nodeLeaseParallelism: 4
  podsOnNodeSyncParallelism: 1
  enablePodsOnNodeSyncListPager: true
  ";

/// The audit policy of the API server, with the bodies of writes that tests read.
const AUDIT_POLICY: &str = include_str!("audit-policy.yaml");

/// A component of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    Apiserver,
    /// Garbage collection, namespaces, quotas and the other controllers.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// Simulates nodes and kubelets.
    Kwok,
}

impl Component {
    /// All components in the order in which they start.
    pub const ALL: [Component; 5] = [
        Component::Etcd,
        Component::Apiserver,
        Component::ControllerManager,
        Component::Scheduler,
        Component::Kwok,
    ];

    pub(crate) fn program(self) -> Program {
        match self {
            Component::Etcd => Program::Etcd,
            Component::Apiserver => Program::KubeApiserver,
            Component::ControllerManager => Program::KubeControllerManager,
            Component::Scheduler => Program::KubeScheduler,
            Component::Kwok => Program::Kwok,
        }
    }
}

/// The ports that the components listen on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) apiserver: u16,
}

impl Ports {
    /// Three ports that are free now, below the range of outgoing connections: a port of that range could be
    /// taken by a client between this check and the component's start.
    pub(crate) fn free() -> Result<Ports, Error> {
        let mut found = Vec::with_capacity(3);
        for _ in 0..1000 {
            let port = fastrand::u16(20_000..32_000);
            if !found.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                found.push(port);
            }
            if let [etcd, etcd_peer, apiserver] = found[..] {
                return Ok(Ports { etcd, etcd_peer, apiserver });
            }
        }
        Err(Error::io("finding free ports")(std::io::ErrorKind::AddrInUse.into()))
    }
}

/// Writes the files that components read. `bodies` says whether the audit log carries the bodies of writes,
/// and `workers` how many Pods kwok patches at the same time, if not its default.
pub(crate) fn write_settings(dir: &Path, bodies: bool, workers: Option<u32>) -> Result<(), Error> {
    let policy =
        if bodies { AUDIT_POLICY.into() } else { AUDIT_POLICY.replace("RequestResponse", "Metadata") };
    for (name, text) in [("audit-policy.yaml", policy), ("kwok.yaml", kwok_settings(workers))] {
        std::fs::write(dir.join(name), text).map_err(Error::io(format!("writing {name}")))?;
    }
    Ok(())
}

/// The configuration of kwok: how it plays nodes and Pods, and how many Pods it patches at a time.
fn kwok_settings(workers: Option<u32>) -> String {
    let options = workers.map(|workers| format!("{KWOK_OPTIONS}podPlayStageParallelism: {workers}\n---\n"));
    [&options.unwrap_or_default(), NODE_STAGES, "---\n", POD_STAGES].concat()
}

/// The command line of a component.
pub(crate) fn arguments(
    component: Component,
    dir: &Path,
    ports: Ports,
    certificates: &Certificates,
    users: &Users,
) -> Result<Vec<String>, Error> {
    Ok(match component {
        Component::Etcd => etcd(dir, ports),
        Component::Apiserver => apiserver(dir, ports, certificates, users),
        Component::ControllerManager => controller_manager(users.kubeconfig(CONTROLLER_MANAGER)?),
        Component::Scheduler => scheduler(users.kubeconfig(SCHEDULER)?),
        Component::Kwok => kwok(dir, users.kubeconfig(KWOK)?),
    })
}

fn etcd(dir: &Path, ports: Ports) -> Vec<String> {
    let (client, peer) =
        (format!("http://127.0.0.1:{}", ports.etcd), format!("http://127.0.0.1:{}", ports.etcd_peer));
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // The data lives as long as the test.
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ]
}

fn apiserver(dir: &Path, ports: Ports, certificates: &Certificates, users: &Users) -> Vec<String> {
    let file = |flag: &str, file: &Path| format!("--{flag}={}", file.display());
    vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={}", ports.apiserver),
        file("cert-dir", dir),
        file("tls-cert-file", &certificates.server_certificate),
        file("tls-private-key-file", &certificates.server_key),
        file("token-auth-file", users.token_file()),
        "--authorization-mode=RBAC".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        file("service-account-key-file", &certificates.account_public_key),
        file("service-account-signing-key-file", &certificates.account_private_key),
        "--service-cluster-ip-range=10.0.0.0/24".into(),
        // A loopback address cannot be an endpoint of the `kubernetes` Service, and no test needs one.
        "--endpoint-reconciler-type=none".into(),
        file("audit-policy-file", &dir.join("audit-policy.yaml")),
        file("audit-log-path", &audit_log(dir)),
        // One file of any size, because positions in it are remembered. In megabytes; the default is 100.
        "--audit-log-maxsize=100000".into(),
    ]
}

/// The command line of a second API server on the same store, with an audit log of its own.
pub(crate) fn witness(dir: &Path, ports: Ports, certificates: &Certificates, users: &Users) -> Vec<String> {
    let mut arguments = apiserver(dir, ports, certificates, users);
    // The last one of a flag holds.
    arguments.push(format!("--audit-log-path={}", dir.join("witness-audit.log").display()));
    arguments
}

/// The arguments of an API server that turn these feature gates on.
pub(crate) fn feature_gates(names: &[String]) -> Option<String> {
    let on = || names.iter().map(|name| format!("{name}=true")).collect::<Vec<_>>().join(",");
    (!names.is_empty()).then(|| format!("--feature-gates={}", on()))
}

/// The audit log of the API server of a cluster in this directory.
pub fn audit_log(dir: &Path) -> std::path::PathBuf {
    dir.join("audit.log")
}

fn controller_manager(kubeconfig: &Path) -> Vec<String> {
    let controllers = [
        "garbage-collector-controller",
        "job-controller",
        "namespace-controller",
        // Takes the not-ready taint off new nodes.
        "node-lifecycle-controller",
        "resourcequota-controller",
        "serviceaccount-controller",
        // Evicts the Pods of a Node with a taint of the effect NoExecute.
        "taint-eviction-controller",
        "ttl-after-finished-controller",
        // Checks the expressions of a policy against the schema of their objects.
        "validatingadmissionpolicy-status-controller",
    ];
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={}", controllers.join(",")),
        "--leader-elect=false".into(),
        // kwok reports a Node once, and renews no Lease: ten years.
        "--node-monitor-grace-period=87600h".into(),
        // Nothing needs to ask it anything.
        "--secure-port=0".into(),
        // The defaults would make cascading deletions crawl.
        "--kube-api-qps=2000".into(),
        "--kube-api-burst=4000".into(),
    ]
}

fn scheduler(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        "--kube-api-qps=2000".into(),
        "--kube-api-burst=4000".into(),
    ]
}

fn kwok(dir: &Path, kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--config={}", dir.join("kwok.yaml").display()),
        "--manage-all-nodes=true".into(),
        // With Leases, it takes over no Node while the Lease of the kwok before it lasts. It also leaves Pods
        // alone if it lists them before its watch shows its own new Lease. After a restart, some would never
        // start.
        "--node-lease-duration-seconds=0".into(),
        // Wide enough for every Pod of a load test to have an address of its own.
        "--cidr=10.64.0.0/10".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kwok_patches_as_many_pods_at_a_time_as_the_options_say() {
        let settings = kwok_settings(Some(16));
        let (options, stages) = settings.split_once("---\n").unwrap();
        assert!(options.contains("\nkind: KwokConfiguration\noptions:\n"), "{options}");
        assert!(options.ends_with("\n  podPlayStageParallelism: 16\n"), "{options}");
        assert_eq!(stages, kwok_settings(None));
    }
}
