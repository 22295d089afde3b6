//! What a load test found, as it is written to `report.json`.
//!
//! The names of fields are those of the file. A reader of version 1 ignores fields that it does not know;
//! whatever would mislead it makes a new version. Times are in seconds, sizes in bytes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// The version of the file: what `schema` says.
pub const SCHEMA: &str = "loadtest.frameworkcontroller.microsoft.com/v1";

/// All that one call of the load test found: the same work on one system or on several, one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The work.
    pub scenario: Scenario,
    /// What it ran on.
    pub machine: Machine,
    /// Versions by the name of what has them: `kubernetes`, `frameworkcontroller`, `loadtest`, ...
    pub versions: BTreeMap<String, String>,
    /// `writeEfficiency` of the first run, where everybody finds it.
    pub write_efficiency: Option<f64>,
    /// One for each system, in the order in which they ran. The first is what the report is about.
    pub runs: Vec<Run>,
}

/// What the load test ran on. Elsewhere than the cluster if that is remote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many processors there are.
    pub processors: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// The kernel's name and version.
    pub kernel: String,
    /// Whether API server, controller and load test share it.
    pub shared_with_cluster: bool,
}

/// The work done by one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Who did the work, such as `frameworkcontroller`, `floor client`, `batch/v1 Job`.
    pub system: String,
    /// How it was set, such as `drop-in defaults` or `recommended`, with the settings.
    pub profile: String,
    /// When the first job was created.
    pub started_at: Timestamp,
    /// From then until all had ended, or the run was given up.
    pub elapsed_seconds: f64,
    /// Why the run ended before its work, if it did.
    pub given_up: Option<String>,
    /// What there was to do, and what came of it.
    pub totals: Totals,
    /// Jobs that ended each second, from the first creation to the last end.
    pub jobs_per_second: f64,
    /// Tasks that ended each second, likewise.
    pub tasks_per_second: f64,
    /// How long each transition took, by the arrival of watch events.
    pub latencies: Vec<Latency>,
    /// The longest that an event waited in the controller for the evaluation of its Framework.
    pub queue_age_seconds: Option<f64>,
    /// How QueueUnits were released, if the work was that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// What the API server was asked.
    pub requests: Requests,
    /// What was written.
    pub bytes: Bytes,
    /// What processes used.
    pub processes: Vec<Process>,
    /// What was promised, and whether it was kept.
    pub levels: Vec<Level>,
    /// What went on meanwhile.
    pub series: Vec<Series>,
}

/// What there was to do, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Jobs (Frameworks, or what stands for them) that were created.
    pub jobs: usize,
    /// Their Tasks.
    pub tasks: usize,
    /// Pods that were created for them, retries included.
    pub pods: usize,
    /// The most Tasks that were there at one time: created and not yet ended.
    #[serde(default)]
    pub peak_tasks: Option<usize>,
    /// Jobs by what became of them: `Succeeded`, `Failed`, `DeadlineExceeded`, `Deleted`, `Unfinished`.
    pub outcomes: BTreeMap<String, usize>,
}

/// How QueueUnits were released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// How many were released, but for those that run until all wait.
    pub releases: usize,
    /// The same for each second, from the first release to the last.
    pub releases_per_second: f64,
    /// How many were released into more than the quota had left, of all; `None`: changes were missed.
    pub over_admitted: Option<usize>,
    /// The first of them, in words.
    pub first_over_admission: Option<String>,
    /// Within how many seconds 99 of 100 turns of the controller were over, each with its rounds of
    /// scheduling: a bound of its histogram.
    pub turn_p99_seconds: Option<f64>,
    /// The same for all turns.
    pub turn_max_seconds: Option<f64>,
}

/// How long something took, over many jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// From where to where, such as `created → AttemptRunning`.
    pub transition: String,
    /// The group of jobs, as the scenario names it.
    pub group: String,
    /// How many jobs made it.
    pub count: usize,
    /// Half of them took at most so long.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// All.
    pub max: f64,
}

/// What the API server was asked during the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// Where the numbers are from: `audit log`, `API server metrics`, or `none`.
    pub source: String,
    /// One for each kind of request.
    pub rows: Vec<RequestRow>,
    /// The system's own requests on jobs, ConfigMaps and Pods: what the floor is compared with.
    pub own: usize,
    /// What the work takes if each state is stored by itself: 2n + 11 for an attempt of n Tasks that succeed,
    /// retries added. Fewer are sent where states are passed.
    pub floor: Option<usize>,
    /// `floor / own`; above 1 if steps were merged that the floor counts apart.
    pub write_efficiency: Option<f64>,
    /// The same against 2n + 8, which leaves out what is only worth writing.
    pub write_efficiency_strict: Option<f64>,
    /// Own requests that were answered with 404, 409 or another refusal.
    pub refused: usize,
    /// Own GETs and LISTs.
    pub reads: usize,
    /// Own requests for each job.
    pub per_job: f64,
    /// Own requests for each Task.
    pub per_task: f64,
    /// What the controller counted itself, minus what the API server's log has; `None`: not both are known.
    pub unreconciled: Option<i64>,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRow {
    /// The program that asked: its user agent up to the first `/`.
    pub client: String,
    /// The verb.
    pub verb: String,
    /// The resource with its subresource, such as `frameworks/status`.
    pub resource: String,
    /// The HTTP status.
    pub code: u16,
    /// How many.
    pub count: usize,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bytes {
    /// The bodies of status writes.
    pub status_writes: Option<u64>,
    /// The same for each Task.
    pub status_writes_per_task: Option<f64>,
    /// How much the store grew: what etcd wrote, old versions included.
    pub store_growth: Option<i64>,
    /// The watch events of Frameworks, ConfigMaps and Pods that the API server sent, to all who watch.
    #[serde(default)]
    pub watch_events: Option<u64>,
}

/// What a process used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Such as `frameworkcontroller`, `kube-apiserver`, `etcd`.
    pub name: String,
    /// Processor time during the run.
    pub cpu_seconds: f64,
    /// The same for each Task.
    pub cpu_milliseconds_per_task: f64,
    /// Memory in RAM when the run began.
    pub rss_before_bytes: u64,
    /// And when it ended.
    pub rss_after_bytes: u64,
    /// The most of all that time, as often as it was looked at; exact where the kernel tells.
    pub rss_peak_bytes: u64,
}

/// What was promised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Level {
    /// What about, as the scenario names it.
    pub name: String,
    /// The promise, such as `≥ 0.95`.
    pub bound: String,
    /// What was measured; `None`: it could not be, which misses the level.
    pub measured: Option<f64>,
    /// Whether it was kept.
    pub met: bool,
}

/// How a number went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// The plot that it belongs to: `jobs`, `latency`, `requests`, `processors`, `memory`.
    pub plot: String,
    /// What it is, as the legend names it.
    pub name: String,
    /// Such as `jobs`, `s`, `requests/s`, `processors`, `bytes`.
    pub unit: String,
    /// Seconds since the start of the run, and the number then.
    pub points: Vec<(f64, f64)>,
}

impl Report {
    /// Whether every run did its work and kept what was promised.
    pub fn is_met(&self) -> bool {
        self.runs.iter().all(|run| run.given_up.is_none() && run.levels.iter().all(|level| level.met))
    }
}
