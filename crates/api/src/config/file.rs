//! The config file as it is written: every key may be missing or `null`.
//!
//! Decodes the file, refuses values out of bounds with their line, and fills in defaults.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, de};
use serde_saphyr as yaml;

use super::{CompressionCodec, Config, Error};
use crate::job_kind::{self, JobKindRow};
use crate::name;
use crate::pod_failure::PodFailureRule;

/// The keys of the config file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct FileConfig {
    kube_api_server_address: Option<String>,
    kube_config_file_path: Option<String>,
    kube_client_qps: Option<Rate>,
    kube_client_burst: Option<Whole<0, 10_000>>,
    worker_number: Option<Whole<1>>,
    large_framework_compression: Option<bool>,
    large_framework_compression_codec: Option<CompressionCodec>,
    large_framework_compression_threshold_bytes: Option<Whole<0, 1_048_576>>,
    crd_established_check_interval_sec: Option<Seconds<1>>,
    crd_established_check_timeout_sec: Option<Seconds<10>>,
    object_local_cache_creation_timeout_sec: Option<Seconds<60>>,
    framework_completed_retain_sec: Option<Seconds<0>>,
    framework_min_retry_delay_sec_for_transient_conflict_failed: Option<Seconds<0>>,
    framework_max_retry_delay_sec_for_transient_conflict_failed: Option<Seconds<0>>,
    retry_backoff_short_run_sec: Option<Seconds<0>>,
    retry_backoff_max_delay_sec: Option<Seconds<0>>,
    log_object_snapshot: Option<Snapshots>,
    tracing: Option<TracingKeys>,
    pod_failure_spec: Option<Vec<PodFailureRule>>,
    namespace: Option<Namespace>,
    queueing: Option<bool>,
    #[serde(deserialize_with = "job_kind::own")]
    queue_job_kinds: Option<Vec<JobKindRow>>,
    sharding: Option<bool>,
    lease_duration_sec: Option<Whole<4, 3_600>>,
    lease_renew_interval_sec: Option<Whole<1, 1_800>>,
    kube_client_limits_per_replica: Option<bool>,
    metrics_address: Option<Address>,
    metrics_authorization: Option<bool>,
    probe_address: Option<Address>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Snapshots {
    framework: Option<FrameworkKeys>,
    task: Option<TaskKeys>,
    pod: Option<PodKeys>,
    redact_env: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TracingKeys {
    endpoint: Option<Endpoint>,
    sampling_rate_per_million: Option<Whole<0, 1_000_000>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct FrameworkKeys {
    on_framework_retry: Option<bool>,
    on_framework_deletion: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TaskKeys {
    on_task_retry: Option<bool>,
    on_task_deletion: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PodKeys {
    on_pod_deletion: Option<bool>,
}

/// A whole number from `MIN` to `MAX`; the default `MAX` is the largest signed 32-bit number.
#[derive(Clone, Copy)]
struct Whole<const MIN: u64, const MAX: u64 = { i32::MAX as u64 }>(u64);

/// At most the seconds that the original can wait for: it counts nanoseconds in 64 bits.
type Seconds<const MIN: u64> = Whole<MIN, 9_223_372_036>;

/// A number of requests a second.
#[derive(Clone, Copy)]
struct Rate(f64);

/// A lower rate is taken as this one, a request in eleven days: no wait is longer than a clock can count.
const LEAST_RATE: f64 = 1e-6;

/// An IP address and a port.
#[derive(Clone, Copy)]
struct Address(SocketAddr);

/// The URL of a receiver of traces.
struct Endpoint(String);

/// The name of a namespace.
struct Namespace(String);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let whole = u64::try_from(number).ok().filter(|number| (MIN..=MAX).contains(number));
        whole.map(Whole).ok_or_else(|| refused(number, format_args!("{MIN} to {MAX}")))
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = String::deserialize(deserializer)?;
        let text = written.replace('_', "");
        let octal = text.strip_prefix('0').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && !octal);
        let number = number.ok_or_else(|| de::Error::custom(format_args!("{written} is not a number")))?;
        let allowed = number > 0.0 && number <= 10_000.0;
        let rate = Rate(number.max(LEAST_RATE));
        if allowed { Ok(rate) } else { Err(refused(number, "a number above 0 and at most 10000")) }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Address).map_err(|_| refused(text, "an IP address and a port, such as 0.0.0.0:8080"))
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let url = text.parse::<http::Uri>();
        let is_good = url.is_ok_and(|url| url.scheme_str() == Some("http") && url.path().len() > 1);
        let example = "a URL with http and a path, such as http://localhost:4318/v1/traces";
        if is_good { Ok(Endpoint(text)) } else { Err(refused(text, example)) }
    }
}

impl<'de> Deserialize<'de> for Namespace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_good = name::is_namespace(&text);
        if is_good { Ok(Namespace(text)) } else { Err(refused(text, "the name of a namespace")) }
    }
}

fn refused<E: de::Error>(value: impl std::fmt::Display, allowed: impl std::fmt::Display) -> E {
    E::custom(format_args!("{value} is not allowed, give {allowed}"))
}

impl<const MIN: u64, const MAX: u64> From<Whole<MIN, MAX>> for u32 {
    fn from(number: Whole<MIN, MAX>) -> Self {
        u32::try_from(number.0).unwrap_or(u32::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> From<Whole<MIN, MAX>> for u64 {
    fn from(number: Whole<MIN, MAX>) -> Self {
        number.0
    }
}

impl<const MIN: u64, const MAX: u64> From<Whole<MIN, MAX>> for usize {
    fn from(number: Whole<MIN, MAX>) -> Self {
        usize::try_from(number.0).unwrap_or(usize::MAX)
    }
}

impl From<Rate> for f64 {
    fn from(rate: Rate) -> Self {
        rate.0
    }
}

impl From<Address> for SocketAddr {
    fn from(address: Address) -> Self {
        address.0
    }
}

impl Config {
    /// Reads a config file. A file without `podFailureSpec` means no patterns.
    pub fn parse(yaml: &str) -> Result<Config, Error> {
        let config = read(yaml)?.fill();
        let min_delay = config.framework_min_retry_delay_sec_for_transient_conflict_failed;
        let max_delay = config.framework_max_retry_delay_sec_for_transient_conflict_failed;
        if max_delay < min_delay {
            return Err(Error::Contradiction {
                key: "frameworkMaxRetryDelaySecForTransientConflictFailed",
                value: max_delay,
                allowed: format!(
                    "at least frameworkMinRetryDelaySecForTransientConflictFailed, which is {min_delay}"
                ),
            });
        }
        let half = config.lease_duration_sec / 2;
        if config.lease_renew_interval_sec > half {
            return Err(Error::Contradiction {
                key: "leaseRenewIntervalSec",
                value: config.lease_renew_interval_sec,
                allowed: format!("at most half of leaseDurationSec, which is {half}"),
            });
        }
        Ok(config)
    }
}

impl FileConfig {
    /// The settings of the file: its values, and the default of each key that it does not set.
    fn fill(self) -> Config {
        let mut config = Config {
            kube_api_server_address: self.kube_api_server_address,
            kube_config_file_path: self.kube_config_file_path,
            pod_failure_spec: self.pod_failure_spec.unwrap_or_default(),
            queue_job_kinds: self.queue_job_kinds.unwrap_or_default(),
            namespace: self.namespace.map(|Namespace(name)| name),
            probe_address: self.probe_address.map(SocketAddr::from),
            ..Config::default()
        };
        set(&mut config.kube_client_qps, self.kube_client_qps);
        set(&mut config.kube_client_burst, self.kube_client_burst);
        set(&mut config.worker_number, self.worker_number);
        set(&mut config.large_framework_compression, self.large_framework_compression);
        set(&mut config.large_framework_compression_codec, self.large_framework_compression_codec);
        set(
            &mut config.large_framework_compression_threshold_bytes,
            self.large_framework_compression_threshold_bytes,
        );
        set(&mut config.crd_established_check_interval_sec, self.crd_established_check_interval_sec);
        set(&mut config.crd_established_check_timeout_sec, self.crd_established_check_timeout_sec);
        set(
            &mut config.object_local_cache_creation_timeout_sec,
            self.object_local_cache_creation_timeout_sec,
        );
        set(&mut config.framework_completed_retain_sec, self.framework_completed_retain_sec);
        set(
            &mut config.framework_min_retry_delay_sec_for_transient_conflict_failed,
            self.framework_min_retry_delay_sec_for_transient_conflict_failed,
        );
        set(
            &mut config.framework_max_retry_delay_sec_for_transient_conflict_failed,
            self.framework_max_retry_delay_sec_for_transient_conflict_failed,
        );
        set(&mut config.retry_backoff_short_run_sec, self.retry_backoff_short_run_sec);
        set(&mut config.retry_backoff_max_delay_sec, self.retry_backoff_max_delay_sec);
        self.log_object_snapshot.unwrap_or_default().fill(&mut config);
        let tracing = self.tracing.unwrap_or_default();
        config.tracing.endpoint = tracing.endpoint.map(|Endpoint(url)| url);
        set(&mut config.tracing.sampling_rate_per_million, tracing.sampling_rate_per_million);
        set(&mut config.queueing, self.queueing);
        set(&mut config.sharding, self.sharding);
        set(&mut config.lease_duration_sec, self.lease_duration_sec);
        set(&mut config.lease_renew_interval_sec, self.lease_renew_interval_sec);
        set(&mut config.kube_client_limits_per_replica, self.kube_client_limits_per_replica);
        set(&mut config.metrics_address, self.metrics_address);
        set(&mut config.metrics_authorization, self.metrics_authorization);
        config
    }
}

impl Snapshots {
    fn fill(self, config: &mut Config) {
        let (framework, task) = (self.framework.unwrap_or_default(), self.task.unwrap_or_default());
        let snapshot = &mut config.log_object_snapshot;
        set(&mut snapshot.framework.on_framework_retry, framework.on_framework_retry);
        set(&mut snapshot.framework.on_framework_deletion, framework.on_framework_deletion);
        set(&mut snapshot.task.on_task_retry, task.on_task_retry);
        set(&mut snapshot.task.on_task_deletion, task.on_task_deletion);
        set(&mut snapshot.pod.on_pod_deletion, self.pod.unwrap_or_default().on_pod_deletion);
        set(&mut snapshot.redact_env, self.redact_env);
    }
}

fn set<T>(setting: &mut T, written: Option<impl Into<T>>) {
    if let Some(value) = written {
        *setting = value.into();
    }
}

/// Decodes a config file. An error names the place of the problem.
fn read(text: &str) -> Result<FileConfig, Error> {
    let mut key = String::new();
    let decoded: Result<Option<FileConfig>, yaml::Error> =
        yaml::with_deserializer_from_str(text, |decoder| {
            serde_path_to_error::deserialize(decoder).map_err(|error| {
                let path = error.path().to_string();
                key = path.trim_end_matches(['.', '?']).to_owned();
                error.into_inner()
            })
        });
    decoded.map(Option::unwrap_or_default).map_err(|error| place(text, key, error.without_snippet()))
}

fn place(text: &str, key: String, error: &yaml::Error) -> Error {
    let line = error.location().map_or(1, |location| location.line());
    let key = if key.is_empty() { "the file".to_owned() } else { key };
    match error {
        yaml::Error::SerdeUnknownField { field, expected, .. } => {
            let named = key.rsplit('.').next() == Some(field.as_str());
            let key = if named { key } else { format!("{key}.{field}") };
            Error::UnknownKey { key, line, hint: hint(field, expected) }
        }
        error => Error::BadValue { line, key, reason: reason(text, error) },
    }
}

/// The problem in words of the config file instead of those of the library.
fn reason(text: &str, error: &yaml::Error) -> String {
    let not = |wanted: &str| format!("{} is not {wanted}", scalar(text, error).unwrap_or("the value"));
    match error {
        yaml::Error::Message { msg, .. } => msg.clone(),
        yaml::Error::InvalidScalar { ty: "i64", .. } => not("a whole number"),
        yaml::Error::InvalidScalar { ty: "floating point", .. } => not("a number"),
        yaml::Error::InvalidScalar { ty: "bool" | "boolean", .. } => not("true or false"),
        yaml::Error::InvalidScalar { ty: "i32", .. } => not("a whole number of 32 bits"),
        yaml::Error::Unexpected { expected: "string scalar", .. } => "give one value".to_owned(),
        yaml::Error::Unexpected { expected: "mapping start", .. } => "give keys with values".to_owned(),
        yaml::Error::Unexpected { expected: "sequence start", .. } => "give a list".to_owned(),
        yaml::Error::MultipleDocuments { .. } => "give one YAML document".to_owned(),
        yaml::Error::DuplicateMappingKey { key, .. } => {
            format!("`{}` is given twice", key.as_deref().unwrap_or("a key"))
        }
        other => {
            let text = other.to_string();
            text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _place)| reason).to_owned()
        }
    }
}

/// The text of a plain scalar at the place of an error, up to the end of its line or flow collection.
fn scalar<'t>(text: &'t str, error: &yaml::Error) -> Option<&'t str> {
    let location = error.location()?;
    let line = text.lines().nth(usize::try_from(location.line()).ok()?.checked_sub(1)?)?;
    let column = usize::try_from(location.column()).ok()?.checked_sub(1)?;
    let (before, rest) = line.split_at_checked(line.char_indices().nth(column)?.0)?;
    let comment = rest.find(" #");
    let flow = rest.find([',', ']', '}']).filter(|_| before.contains(['[', '{']));
    let end = comment.into_iter().chain(flow).min().unwrap_or(rest.len());
    rest.get(..end).map(str::trim_end).filter(|scalar| !scalar.is_empty())
}

fn hint(key: &str, known: &[&str]) -> String {
    let nearest = known.iter().min_by_key(|candidate| distance(key, candidate));
    match nearest.filter(|candidate| 2 * distance(key, candidate) <= candidate.len()) {
        Some(nearest) => format!(": did you mean `{nearest}`?"),
        None => format!(": known are {}", known.join(", ")),
    }
}

/// How many letters must be put in, left out or replaced to make `b` of `a`; case does not count.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
