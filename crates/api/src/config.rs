//! The controller's config file, `frameworkcontroller.yaml`: its keys, their defaults and allowed values.
//!
//! A [`Config`] made by [`Config::parse`] holds allowed values only. Every key is optional, and `null` counts
//! as left out; an unknown key is an error, never ignored. Finding the file, the environment and the
//! kubeconfig is the program's work: this module does no I/O.

mod file;

use std::net::{Ipv4Addr, SocketAddr};

use serde::Deserialize;

use crate::job_kind::JobKindRow;
use crate::pod_failure::{self, PodFailureRule};

/// The settings of the config file. Fields are named for its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Address of the API server. It overrides the address of a kubeconfig; without a kubeconfig it means
    /// no authentication. An empty address, or an empty path of a kubeconfig, means none even if the
    /// environment has one.
    pub kube_api_server_address: Option<String>,
    /// Path of the kubeconfig.
    pub kube_config_file_path: Option<String>,
    /// Requests a second to the API server, on average.
    pub kube_client_qps: f64,
    /// Requests to the API server that may go out in a burst, above the average.
    pub kube_client_burst: u32,
    /// Requests to the API server that may be in flight at the same time, watches not counted.
    pub worker_number: usize,
    /// Whether a large status is stored compressed.
    pub large_framework_compression: bool,
    /// The codec of a compressed status.
    pub large_framework_compression_codec: CompressionCodec,
    /// The size of `taskRoleStatuses`, as JSON, from which it is compressed.
    pub large_framework_compression_threshold_bytes: usize,
    /// Seconds between looks at the CustomResourceDefinition while it is not established.
    pub crd_established_check_interval_sec: u64,
    /// Seconds after which the controller no longer waits for the CustomResourceDefinition.
    pub crd_established_check_timeout_sec: u64,
    /// Seconds after which a created object that never appeared in the cache counts as deleted.
    pub object_local_cache_creation_timeout_sec: u64,
    /// Seconds that a completed Framework is kept.
    pub framework_completed_retain_sec: u64,
    /// Least delay of a Framework's retry after a transient failure caused by competition.
    pub framework_min_retry_delay_sec_for_transient_conflict_failed: u64,
    /// Greatest delay of a Framework's retry after a transient failure caused by competition.
    pub framework_max_retry_delay_sec_for_transient_conflict_failed: u64,
    /// An attempt that ran for less than this counts as a short run: many in a row delay the next retry. 0:
    /// nothing is delayed.
    pub retry_backoff_short_run_sec: u64,
    /// Greatest delay of a retry after short runs; 0: nothing is delayed.
    pub retry_backoff_max_delay_sec: u64,
    /// Which objects are logged as snapshots, and when.
    pub log_object_snapshot: LogObjectSnapshot,
    /// Where traces are sent, and of how many Frameworks.
    pub tracing: Tracing,
    /// How failed Pods are classified, tried in this order after the predefined codes.
    pub pod_failure_spec: Vec<PodFailureRule>,
    /// The only namespace whose Frameworks are run; `None`: those of all namespaces.
    pub namespace: Option<String>,
    /// Whether a Framework that names a queue waits to be released from it.
    pub queueing: bool,
    /// Kinds of jobs that wait in queues, beside the built-in ones.
    pub queue_job_kinds: Vec<JobKindRow>,
    /// Whether several replicas may share the Frameworks.
    pub sharding: bool,
    /// Seconds for which a replica keeps its Lease after the last renewal.
    pub lease_duration_sec: u64,
    /// Seconds between renewals.
    pub lease_renew_interval_sec: u64,
    /// Whether the limits of requests are those of each replica, not of all together.
    pub kube_client_limits_per_replica: bool,
    /// Where metrics and the positions of units are served.
    pub metrics_address: SocketAddr,
    /// Whether the API server decides who may read them.
    pub metrics_authorization: bool,
    /// Where probes are served; `None`: beside the metrics, on the next port.
    pub probe_address: Option<SocketAddr>,
}

/// A compression codec. The first bytes of the data name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompressionCodec {
    /// Zstandard.
    #[default]
    Zstd,
    /// gzip, for clients of the reference.
    Gzip,
}

/// Where traces are sent, and of how many Frameworks. Its keys are those of the `TracingConfiguration` of
/// Kubernetes' own programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// The URL of an OTLP receiver, over HTTP; `None`: no traces.
    pub endpoint: Option<String>,
    /// How many of a million Frameworks are traced.
    pub sampling_rate_per_million: u32,
}

impl Default for Tracing {
    fn default() -> Self {
        Tracing { endpoint: None, sampling_rate_per_million: 1_000_000 }
    }
}

/// Which objects are logged as snapshots, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogObjectSnapshot {
    /// Of Frameworks.
    pub framework: FrameworkSnapshot,
    /// Of Tasks.
    pub task: TaskSnapshot,
    /// Of Pods.
    pub pod: PodSnapshot,
    /// Whether snapshots leave out the values of environment variables.
    pub redact_env: bool,
}

/// When a Framework is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameworkSnapshot {
    /// Before a retry replaces its attempt.
    pub on_framework_retry: bool,
    /// When it was deleted.
    pub on_framework_deletion: bool,
}

/// When a Task is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSnapshot {
    /// Before a retry replaces its attempt.
    pub on_task_retry: bool,
    /// When a scale-down removes it; not when its whole Framework goes.
    pub on_task_deletion: bool,
}

/// When a Pod is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodSnapshot {
    /// When it was deleted.
    pub on_pod_deletion: bool,
}

impl Default for FrameworkSnapshot {
    fn default() -> Self {
        FrameworkSnapshot { on_framework_retry: true, on_framework_deletion: true }
    }
}

impl Default for TaskSnapshot {
    fn default() -> Self {
        TaskSnapshot { on_task_retry: true, on_task_deletion: true }
    }
}

impl Default for PodSnapshot {
    fn default() -> Self {
        PodSnapshot { on_pod_deletion: true }
    }
}

/// The settings without a config file: only then are the default `podFailureSpec` patterns used.
impl Default for Config {
    fn default() -> Self {
        Config {
            kube_api_server_address: None,
            kube_config_file_path: None,
            kube_client_qps: 80.0,
            kube_client_burst: 120,
            worker_number: 200,
            large_framework_compression: false,
            large_framework_compression_codec: CompressionCodec::Zstd,
            large_framework_compression_threshold_bytes: 700 * 1024,
            crd_established_check_interval_sec: 1,
            crd_established_check_timeout_sec: 60,
            object_local_cache_creation_timeout_sec: 300,
            framework_completed_retain_sec: 30 * 24 * 3600,
            framework_min_retry_delay_sec_for_transient_conflict_failed: 60,
            framework_max_retry_delay_sec_for_transient_conflict_failed: 900,
            retry_backoff_short_run_sec: 10,
            retry_backoff_max_delay_sec: 300,
            log_object_snapshot: LogObjectSnapshot::default(),
            tracing: Tracing::default(),
            pod_failure_spec: pod_failure::default_rules(),
            namespace: None,
            queueing: false,
            queue_job_kinds: Vec::new(),
            sharding: false,
            lease_duration_sec: 10,
            lease_renew_interval_sec: 2,
            kube_client_limits_per_replica: false,
            metrics_address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8080)),
            metrics_authorization: true,
            probe_address: None,
        }
    }
}

/// Why a config file is refused: one line with the place, the problem and the allowed values.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key that the controller does not know.
    #[error("line {line}: unknown key `{key}`{hint}")]
    UnknownKey {
        /// Its path from the root.
        key: String,
        /// Its line.
        line: u64,
        /// The nearest known key, or all of them.
        hint: String,
    },
    /// A value of the wrong type or out of its key's range, or text that is not YAML.
    #[error("line {line}: {key}: {reason}")]
    BadValue {
        /// Its line.
        line: u64,
        /// Path of the key from the root; `the file` if no key is to blame.
        key: String,
        /// The problem, and the allowed values.
        reason: String,
    },
    /// A value that another value rules out.
    #[error("{key}: {value} is not allowed, give {allowed}")]
    Contradiction {
        /// The key.
        key: &'static str,
        /// Its value, written or by default.
        value: u64,
        /// The values that are allowed beside the other one.
        allowed: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(yaml: &str) -> String {
        Config::parse(yaml).expect_err(yaml).to_string()
    }

    #[test]
    fn an_empty_file_sets_nothing_and_means_no_patterns() {
        let expected = Config { pod_failure_spec: Vec::new(), ..Config::default() };
        for yaml in ["", "# nothing\n", "{}", "kubeClientQps: null\nlogObjectSnapshot:\n", "---\n"] {
            assert_eq!(Config::parse(yaml).unwrap(), expected, "{yaml:?}");
        }
        assert!(!Config::default().pod_failure_spec.is_empty(), "no file at all: the default patterns");
    }

    #[test]
    fn every_key_is_read() {
        let config = Config::parse(include_str!("config/every_key.yaml")).unwrap();
        let expected = Config {
            kube_api_server_address: Some("http://10.10.10.10:8080".into()),
            kube_config_file_path: Some("/root/.kube/config".into()),
            kube_client_qps: 80.5,
            kube_client_burst: 0,
            worker_number: 1,
            large_framework_compression: true,
            large_framework_compression_codec: CompressionCodec::Gzip,
            large_framework_compression_threshold_bytes: 4096,
            crd_established_check_interval_sec: 2,
            crd_established_check_timeout_sec: 10,
            object_local_cache_creation_timeout_sec: 60,
            framework_completed_retain_sec: 0,
            framework_min_retry_delay_sec_for_transient_conflict_failed: 0,
            framework_max_retry_delay_sec_for_transient_conflict_failed: 0,
            retry_backoff_short_run_sec: 0,
            retry_backoff_max_delay_sec: 0,
            log_object_snapshot: LogObjectSnapshot {
                framework: FrameworkSnapshot { on_framework_retry: false, on_framework_deletion: false },
                task: TaskSnapshot { on_task_retry: false, on_task_deletion: false },
                pod: PodSnapshot { on_pod_deletion: false },
                redact_env: true,
            },
            tracing: Tracing {
                endpoint: Some("http://collector.observability:4318/v1/traces".into()),
                sampling_rate_per_million: 10_000,
            },
            pod_failure_spec: config.pod_failure_spec.clone(),
            namespace: Some("team-a".into()),
            queueing: true,
            queue_job_kinds: config.queue_job_kinds.clone(),
            sharding: true,
            lease_duration_sec: 20,
            lease_renew_interval_sec: 10,
            kube_client_limits_per_replica: true,
            metrics_address: "127.0.0.1:0".parse().unwrap(),
            metrics_authorization: false,
            probe_address: Some("127.0.0.1:0".parse().unwrap()),
        };
        assert_eq!(config, expected);
        assert_eq!((config.pod_failure_spec.len(), config.queue_job_kinds.len()), (1, 1));
    }

    #[test]
    fn the_shipped_file_equals_the_defaults_without_a_file() {
        assert_eq!(Config::parse(pod_failure::DEFAULT_CONFIG).unwrap(), Config::default());
    }

    #[test]
    fn the_shipped_file_shows_the_defaults_of_its_unset_keys() {
        let shown = |line: &str| match line.strip_prefix("# ") {
            Some(text) if text.starts_with("  ") => text.to_owned(),
            Some(text) if text.split_once(':').is_some_and(|(key, _)| !key.contains(' ')) => text.to_owned(),
            _ => line.to_owned(),
        };
        let lines: Vec<String> = pod_failure::DEFAULT_CONFIG.lines().map(shown).collect();
        let config = Config::parse(&lines.join("\n")).unwrap();
        assert!(config.kube_api_server_address.is_some(), "the comments were read");
        let without = Config { kube_api_server_address: None, kube_config_file_path: None, ..config };
        assert_eq!(without, Config::default());
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_the_range() {
        let (whole, seconds) = (i32::MAX, 9_223_372_036_i64);
        for (yaml, value, allowed) in [
            ("kubeClientQps: 0", "0", "a number above 0 and at most 10000"),
            ("kubeClientQps: 10000.5", "10000.5", "a number above 0 and at most 10000"),
            ("kubeClientQps: 1e9", "1000000000", "a number above 0 and at most 10000"),
            ("kubeClientBurst: -1", "-1", "0 to 10000"),
            ("kubeClientBurst: 10001", "10001", "0 to 10000"),
            ("workerNumber: 0", "0", &format!("1 to {whole}")),
            ("largeFrameworkCompressionThresholdBytes: -1", "-1", "0 to 1048576"),
            ("crdEstablishedCheckIntervalSec: 0", "0", &format!("1 to {seconds}")),
            ("crdEstablishedCheckTimeoutSec: 9", "9", &format!("10 to {seconds}")),
            ("objectLocalCacheCreationTimeoutSec: 59", "59", &format!("60 to {seconds}")),
            ("frameworkCompletedRetainSec: -1", "-1", &format!("0 to {seconds}")),
            ("frameworkCompletedRetainSec: 9223372037", "9223372037", &format!("0 to {seconds}")),
            ("frameworkMinRetryDelaySecForTransientConflictFailed: -1", "-1", &format!("0 to {seconds}")),
            ("retryBackoffShortRunSec: -1", "-1", &format!("0 to {seconds}")),
            ("retryBackoffMaxDelaySec: -1", "-1", &format!("0 to {seconds}")),
            ("leaseDurationSec: 3", "3", "4 to 3600"),
            ("leaseRenewIntervalSec: 0", "0", "1 to 1800"),
            ("namespace: Team_A", "Team_A", "the name of a namespace"),
            ("metricsAddress: nowhere", "nowhere", "an IP address and a port, such as 0.0.0.0:8080"),
        ] {
            let key = yaml.split(':').next().unwrap();
            let expected = format!("line 2: {key}: {value} is not allowed, give {allowed}");
            assert_eq!(refusal(&format!("# a comment\n{yaml}\n")), expected);
        }
    }

    #[test]
    fn the_wait_for_a_request_is_never_too_long_to_be_counted() {
        for number in ["1e-7", "1e-300", "0.0000000000000000000001"] {
            let qps = Config::parse(&format!("kubeClientQps: {number}")).unwrap().kube_client_qps;
            assert_eq!(qps, 1e-6, "{number}");
        }
    }

    #[test]
    fn a_value_that_contradicts_another_is_refused_with_the_range() {
        assert_eq!(
            refusal("frameworkMinRetryDelaySecForTransientConflictFailed: 901"),
            "frameworkMaxRetryDelaySecForTransientConflictFailed: 900 is not allowed, give at least \
             frameworkMinRetryDelaySecForTransientConflictFailed, which is 901"
        );
        assert_eq!(
            refusal("leaseRenewIntervalSec: 6"),
            "leaseRenewIntervalSec: 6 is not allowed, give at most half of leaseDurationSec, which is 5"
        );
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        assert_eq!(
            refusal("workerNumber: 1\nkubeclientqps: 5"),
            "line 2: unknown key `kubeclientqps`: did you mean `kubeClientQps`?"
        );
        assert_eq!(
            refusal("logObjectSnapshot:\n  pod:\n    onPodDelete: true"),
            "line 3: unknown key `logObjectSnapshot.pod.onPodDelete`: did you mean `onPodDeletion`?"
        );
        assert_eq!(
            refusal("logObjectSnapshot: {colour: blue}"),
            "line 1: unknown key `logObjectSnapshot.colour`: known are framework, task, pod, redactEnv"
        );
        for (rule, key, nearest) in [
            ("{codes: 5}", "codes", "code"),
            ("{code: 5, podPattern: []}", "podPattern", "podPatterns"),
            ("{code: 5, type: {attribute: []}}", "type.attribute", "attributes"),
            ("{code: 5, podPatterns: [{nameRegexp: a}]}", "podPatterns[0].nameRegexp", "nameRegex"),
            (
                "{code: 5, podPatterns: [{containers: [{}, {codeRanges: {}}]}]}",
                "podPatterns[0].containers[1].codeRanges",
                "codeRange",
            ),
            (
                "{code: 5, podPatterns: [{containers: [{codeRange: {mini: 1}}]}]}",
                "podPatterns[0].containers[0].codeRange.mini",
                "min",
            ),
        ] {
            assert_eq!(
                refusal(&format!("podFailureSpec:\n- {rule}")),
                format!("line 2: unknown key `podFailureSpec[0].{key}`: did you mean `{nearest}`?")
            );
        }
    }

    #[test]
    fn yaml_that_the_original_reads_means_the_same_here() {
        let read = |yaml: &str| Config::parse(yaml).expect(yaml);
        for (word, meaning) in [
            ("yes", true),
            ("Yes", true),
            ("ON", true),
            ("y", true),
            ("TRUE", true),
            ("no", false),
            ("off", false),
            ("N", false),
            ("False", false),
        ] {
            let config = read(&format!("largeFrameworkCompression: {word}"));
            assert_eq!(config.large_framework_compression, meaning, "{word}");
        }
        for (number, meaning) in [("1_000", 1000), ("0x10", 16), ("0o10", 8), ("0b11", 3), ("+5", 5)] {
            assert_eq!(read(&format!("workerNumber: {number}")).worker_number, meaning, "{number}");
        }
        for (number, meaning) in [("1_000", 1000.0), ("1e3", 1000.0), (".5", 0.5), ("5.", 5.0), ("+1.5", 1.5)]
        {
            assert_eq!(read(&format!("kubeClientQps: {number}")).kube_client_qps, meaning, "{number}");
        }
        let century = read("frameworkCompletedRetainSec: 3153600000");
        assert_eq!(century.framework_completed_retain_sec, 3_153_600_000);
        let scalars = read("kubeConfigFilePath: 7\npodFailureSpec: [{code: 5, phrase: yes}]");
        assert_eq!(scalars.kube_config_file_path.as_deref(), Some("7"));
        assert_eq!(scalars.pod_failure_spec[0].phrase, "yes");
        let aliases = read(
            "podFailureSpec:\n- &a {code: 5, phrase: A, podPatterns: &p [{nameRegex: a}]}\n\
             - {<<: *a, code: 6}\n- {code: 7, podPatterns: *p}\n",
        );
        let [first, merged, alias] = &aliases.pod_failure_spec[..] else { panic!("three rules") };
        assert_eq!((merged.code, &*merged.phrase, &merged.pod_patterns), (6, "A", &first.pod_patterns));
        assert_eq!(alias.pod_patterns, first.pod_patterns);
        for yaml in
            ["\u{feff}workerNumber: 9", "workerNumber: 9\r\n", "%YAML 1.1\n---\nworkerNumber: 9\n...\n"]
        {
            assert_eq!(read(yaml).worker_number, 9, "{yaml:?}");
        }
        assert_eq!(read("kubeApiServerAddress: ''").kube_api_server_address.as_deref(), Some(""));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused_with_its_key_and_line() {
        for (yaml, expected) in [
            ("\nkubeClientQps: fast", "line 2: kubeClientQps: fast is not a number"),
            ("workerNumber: [1]", "line 1: workerNumber: give one value"),
            ("workerNumber: 1.5 # x", "line 1: workerNumber: 1.5 is not a whole number"),
            (
                "largeFrameworkCompression: maybe",
                "line 1: largeFrameworkCompression: maybe is not true or false",
            ),
            (
                "largeFrameworkCompressionCodec: lzma",
                "line 1: largeFrameworkCompressionCodec: unknown variant `lzma`, expected one of zstd, gzip",
            ),
            ("workerNumber: 1\nworkerNumber: 2", "line 2: the file: `workerNumber` is given twice"),
            ("- a list", "line 1: the file: give keys with values"),
            ("workerNumber: 1\n---\nworkerNumber: 1", "line 3: the file: give one YAML document"),
            // YAML 1.1 numbers mean something else to other readers, or are not numbers there.
            ("workerNumber: 010", "line 1: workerNumber: 010 is not a whole number"),
            ("workerNumber: 1,000", "line 1: workerNumber: 1,000 is not a whole number"),
            ("workerNumber: 1e3", "line 1: workerNumber: 1e3 is not a whole number"),
            ("kubeClientQps: 010", "line 1: kubeClientQps: 010 is not a number"),
            ("kubeClientQps: 0x10", "line 1: kubeClientQps: 0x10 is not a number"),
            ("kubeClientQps: .nan", "line 1: kubeClientQps: .nan is not a number"),
            ("logObjectSnapshot: true", "line 1: logObjectSnapshot: give keys with values"),
            ("podFailureSpec: {}", "line 1: podFailureSpec: give a list"),
            ("podFailureSpec: [~]", "line 1: podFailureSpec[0]: missing field `code`"),
            ("podFailureSpec:\n- phrase: Odd", "line 2: podFailureSpec[0]: missing field `code`"),
            ("podFailureSpec: [{code: 5, code: 6}]", "line 1: podFailureSpec[0]: `code` is given twice"),
            (
                "podFailureSpec: [{code: five}] # x",
                "line 1: podFailureSpec[0].code: five is not a whole number of 32 bits",
            ),
            (
                "podFailureSpec: [{code: 5, podPatterns: [{}, ~]}]",
                "line 1: podFailureSpec[0].podPatterns[1]: give a pattern, `{}` if any Pod or container is \
                 meant",
            ),
            (
                "podFailureSpec: [{code: 5, podPatterns: [{containers: [~]}]}]",
                "line 1: podFailureSpec[0].podPatterns[0].containers[0]: give a pattern, `{}` if any Pod or \
                 container is meant",
            ),
            (
                "podFailureSpec: [{code: 5, type: {attributes: [transient]}}]",
                "line 1: podFailureSpec[0].type.attributes[0]: unknown variant `transient`, expected one of \
                 Transient, Conflict, Permanent",
            ),
        ] {
            assert_eq!(refusal(yaml), expected, "{yaml:?}");
        }
        let message = refusal("workerNumber: 1\n]");
        assert!(message.starts_with("line 2: ") && !message.contains('\n'), "{message}");
    }
}
