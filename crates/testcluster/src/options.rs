//! The options of a cluster.

/// The options of a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of Nodes, each with room for everything.
    pub nodes: usize,
    /// Users without rights, until RBAC grants them some by name.
    pub users: Vec<String>,
    /// Whether the audit log carries the bodies of writes to Frameworks, TrainJobs, ConfigMaps and Pods.
    pub audit_bodies: bool,
    /// How many Pods kwok patches at the same time; `None`: as many as it does by default, 4.
    pub kwok_workers: Option<u32>,
    /// Feature gates of the API server that are on, beside those that are on by default.
    pub feature_gates: Vec<String>,
    /// Whether kubectl is there, for [`Cluster::kubectl`](crate::Cluster::kubectl) and in
    /// [`Cluster::programs`](crate::Cluster::programs): its build takes time.
    pub kubectl: bool,
    /// Whether the directory with logs and data stays. By default if `FRAMEWORK_KEEP` is `1`.
    pub keep: bool,
}

impl Default for Options {
    fn default() -> Self {
        let keep = std::env::var_os("FRAMEWORK_KEEP").is_some_and(|value| value == "1");
        Options {
            nodes: 3,
            users: vec!["controller".into()],
            audit_bodies: true,
            kwok_workers: None,
            feature_gates: Vec::new(),
            kubectl: true,
            keep,
        }
    }
}
