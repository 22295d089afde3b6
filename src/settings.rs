//! Validates arguments, environment and config file into settings.
//!
//! A bad value is refused with one line that names the file, the key, the value and the allowed values.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use framework_access::proxy::Variables;
use framework_api::config::{self, Config};
use framework_core::Policy;
use framework_core::classify::{self, Classifier};
use framework_engine::compression::Compression;
use framework_engine::engine::EngineSettings;
use framework_engine::traces::Sampling;
use framework_runtime::client::REQUEST_LIFETIME;
use framework_shard::PolicyError;

use crate::args::Args;

/// The config file that is read if none is named.
pub const FILE: &str = "frameworkcontroller.yaml";

/// The environment variables of the program.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `KUBE_APISERVER_ADDRESS`.
    pub api_server_address: Option<String>,
    /// `KUBECONFIG`.
    pub kubeconfig: Option<OsString>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
    pub proxies: Variables,
    /// `HOSTNAME`: in a cluster, the name of the Pod.
    pub host: Option<String>,
    /// `POD_UID`: the UID of the Pod, by the downward API.
    pub pod_uid: Option<String>,
    /// `RUST_LOG`: the filter of the log.
    pub log: Option<String>,
}

impl Environment {
    /// Reads the environment of this process. An empty variable counts as not set.
    pub fn read() -> Self {
        let read = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name: &str| read(name).and_then(|value| value.into_string().ok());
        Environment {
            api_server_address: text("KUBE_APISERVER_ADDRESS"),
            kubeconfig: read("KUBECONFIG"),
            home: read("HOME").map(PathBuf::from),
            proxies: Variables::read(text),
            host: text("HOSTNAME"),
            pod_uid: text("POD_UID"),
            log: text("RUST_LOG"),
        }
    }
}

/// Validated settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The config file, or the defaults without one.
    pub config: Config,
    /// The address of metrics and positions of units.
    pub metrics_address: SocketAddr,
    /// The address of probes.
    pub probe_address: SocketAddr,
    /// The settings of the core.
    pub policy: Policy,
    /// The settings of the engine.
    pub engine: EngineSettings,
    /// The times of sharding; `None`: this replica owns every slot.
    pub member: Option<framework_shard::Policy>,
}

/// Why the settings are not valid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The config file cannot be read.
    #[error("cannot read the config file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The config file is not valid.
    #[error("config file {}: {source}", path.display())]
    BadConfig {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: config::Error,
    },
    /// The times of sharding contradict each other.
    #[error(transparent)]
    BadTimes(#[from] PolicyError),
    /// A rule of the podFailureSpec is wrong.
    #[error("config file {}: {source}", path.display())]
    BadRule {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: classify::Error,
    },
}

impl Settings {
    /// Reads the config file that `args` names, or [`FILE`] in the working directory, if there is one.
    pub fn load(args: &Args) -> Result<Self, Error> {
        let (path, text) = match &args.config {
            Some(path) => (path.as_path(), Some(read(path)?)),
            None => (Path::new(FILE), read_if_there(Path::new(FILE))?),
        };
        let mut config = match text {
            Some(text) => {
                Config::parse(&text).map_err(|source| Error::BadConfig { path: path.to_owned(), source })?
            }
            None => Config::default(),
        };
        if args.namespace.is_some() {
            config.namespace.clone_from(&args.namespace);
        }
        config.queueing = args.queueing.unwrap_or(config.queueing);
        Settings::new(config, args, path)
    }

    /// The receiver of traces.
    pub fn endpoint(&self) -> Option<&str> {
        self.config.tracing.endpoint.as_deref()
    }

    fn new(config: Config, args: &Args, path: &Path) -> Result<Self, Error> {
        let classifier = Classifier::new(&config.pod_failure_spec)
            .map_err(|source| Error::BadRule { path: path.to_owned(), source })?;
        let metrics_address = args.metrics_address.unwrap_or(config.metrics_address);
        Ok(Settings {
            metrics_address,
            probe_address: config.probe_address.unwrap_or_else(|| beside(metrics_address)),
            policy: Policy::of(&config, classifier),
            engine: engine(&config),
            member: member(&config)?,
            config,
        })
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Unreadable { path: path.to_owned(), source })
}

/// The text of a file; `None`: there is none. A link that leads nowhere is an error, because its user wants
/// something else than the defaults.
fn read_if_there(path: &Path) -> Result<Option<String>, Error> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => read(path).map(Some),
    }
}

/// The address with the next port; any free port beside any free port.
fn beside(address: SocketAddr) -> SocketAddr {
    let port = match address.port() {
        0 => 0,
        u16::MAX => u16::MAX - 1,
        port => port + 1,
    };
    SocketAddr::new(address.ip(), port)
}

/// The longest wait for the reply to a renewal.
pub const RENEWAL_TIMEOUT: Duration = Duration::from_secs(3);

/// The times of sharding. One lost renewal must not stop a replica: two time-outs fit beside an interval.
fn member(config: &Config) -> Result<Option<framework_shard::Policy>, PolicyError> {
    let duration = Duration::from_secs(config.lease_duration_sec);
    let interval = Duration::from_secs(config.lease_renew_interval_sec);
    let timeout = (duration.saturating_mul(4) / 5).saturating_sub(interval) / 2;
    let policy =
        framework_shard::Policy::new(duration, interval, timeout.min(RENEWAL_TIMEOUT), REQUEST_LIFETIME);
    config.sharding.then_some(policy).transpose()
}

fn engine(config: &Config) -> EngineSettings {
    EngineSettings {
        qps: config.kube_client_qps,
        burst: config.kube_client_burst,
        max_in_flight: config.worker_number,
        request_lifetime: REQUEST_LIFETIME,
        compression: Compression {
            threshold: config
                .large_framework_compression
                .then_some(config.large_framework_compression_threshold_bytes),
            codec: config.large_framework_compression_codec,
        },
        traces: config
            .tracing
            .endpoint
            .is_some()
            .then_some(Sampling(config.tracing.sampling_rate_per_million)),
        ..EngineSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn load(yaml: &str) -> Result<Settings, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), yaml).unwrap();
        let args = Args { config: Some(file.path().to_owned()), ..Args::default() };
        let name = file.path().display().to_string();
        Settings::load(&args).map_err(|error| error.to_string().replace(&name, "FILE"))
    }

    #[test]
    fn a_flag_overrides_its_key() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "namespace: team-a\nqueueing: true\n").unwrap();
        let of = |namespace: Option<&str>, queueing| {
            let namespace = namespace.map(str::to_owned);
            let args = Args { config: Some(file.path().to_owned()), namespace, queueing, ..Args::default() };
            let settings = Settings::load(&args).unwrap();
            assert_eq!(settings.policy.queueing, settings.config.queueing);
            (settings.config.namespace.unwrap(), settings.config.queueing)
        };
        assert_eq!(of(None, None), ("team-a".to_owned(), true));
        assert_eq!(of(Some("team-b"), Some(false)), ("team-b".to_owned(), false));
    }

    #[test]
    fn keys_reach_the_policy_and_the_engine() {
        let settings = load(
            "kubeClientQps: 100\nkubeClientBurst: 7\nworkerNumber: 9\nobjectLocalCacheCreationTimeoutSec: 61\n\
             frameworkCompletedRetainSec: 62\nframeworkMinRetryDelaySecForTransientConflictFailed: 1\n\
             frameworkMaxRetryDelaySecForTransientConflictFailed: 2\nmetricsAddress: 127.0.0.1:99\n\
             queueing: true\nretryBackoffShortRunSec: 5\nretryBackoffMaxDelaySec: 6",
        )
        .unwrap();
        let (policy, engine) = (&settings.policy, &settings.engine);
        assert_eq!((engine.qps, engine.burst, engine.max_in_flight), (100.0, 7, 9));
        assert_eq!(policy.object_local_cache_creation_timeout_sec, 61);
        assert_eq!(policy.framework_completed_retain_sec, 62);
        assert_eq!((policy.min_conflict_retry_delay_sec, policy.max_conflict_retry_delay_sec), (1, 2));
        let backoff = policy.retry_backoff;
        assert_eq!((backoff.short_run_sec, backoff.max_delay_sec), (5, 6));
        assert_eq!(policy.expectations_limit, 200);
        assert!(policy.queueing);
        assert_eq!(settings.metrics_address.to_string(), "127.0.0.1:99");
        assert!(settings.config.metrics_authorization);
    }

    #[test]
    fn a_bad_config_is_one_line_with_key_value_and_allowed_values() {
        let error = load("workerNumber: 0\n").unwrap_err();
        assert!(
            error.starts_with("config file FILE: line 1: workerNumber: 0 is not allowed, give 1 to "),
            "{error}"
        );
        let error = load("podFailureSpec:\n- {code: 205, podPatterns: [{reasonRegex: x}]}\n").unwrap_err();
        assert!(error.starts_with("config file FILE: podFailureSpec[0].code (code 205): "), "{error}");
        let error = load("podFailureSpec:\n- {code: 5, podPatterns: [{reasonRegex: '('}]}\n").unwrap_err();
        assert!(error.contains("`(`"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn probes_have_the_next_port_unless_the_config_file_names_one() {
        for (config, probes) in [
            ("", "0.0.0.0:8081"),
            ("metricsAddress: 127.0.0.1:0", "127.0.0.1:0"),
            ("metricsAddress: '[::1]:65535'", "[::1]:65534"),
            ("probeAddress: 127.0.0.1:9", "127.0.0.1:9"),
        ] {
            assert_eq!(load(config).unwrap().probe_address.to_string(), probes, "{config}");
        }
    }

    #[test]
    fn a_named_file_must_exist() {
        let args = Args { config: Some("/nowhere/at/all.yaml".into()), ..Args::default() };
        let error = Settings::load(&args).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the config file /nowhere/at/all.yaml: "), "{error}");
    }

    #[test]
    fn a_file_that_is_there_and_cannot_be_read_does_not_count_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(read_if_there(&path).unwrap(), None);
        std::os::unix::fs::symlink("..data/nowhere", &path).unwrap();
        let error = read_if_there(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read the config file {}: ", path.display())), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "queueing: true\n").unwrap();
        assert_eq!(read_if_there(&path).unwrap().as_deref(), Some("queueing: true\n"));
    }

    #[test]
    fn without_a_file_the_defaults_hold_and_an_argument_overrides_them() {
        let args = Args { metrics_address: Some("127.0.0.1:1".parse().unwrap()), ..Args::default() };
        // The root of the repository has no such file.
        let settings = Settings::load(&args).unwrap();
        assert_eq!(settings.config, Config::default());
        assert_eq!(settings.metrics_address.port(), 1);
        assert_eq!(settings.engine.request_lifetime, Duration::from_secs(28));
    }
}
