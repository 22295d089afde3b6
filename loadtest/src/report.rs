//! The results of a load test, as in `report.json`.
//!
//! The names of fields are those of the file. A reader of version 1 ignores unknown fields; a change that
//! would mislead it needs a new version. Times are in seconds, sizes in bytes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::number::{count, whole};
use crate::scenario::Scenario;

/// The version of the file, in `schema`.
pub const SCHEMA: &str = "loadtest.frameworkcontroller.microsoft.com/v1";

/// The same work by one system, or by several systems one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The scenario.
    pub scenario: Scenario,
    /// The machine.
    pub machine: Machine,
    /// Versions by component: `kubernetes`, `frameworkcontroller`, `loadtest`, ...
    pub versions: BTreeMap<String, String>,
    /// `writeEfficiency` of the first run, where it is easy to find.
    pub write_efficiency: Option<f64>,
    /// One run for each system, in their order. The report is about the first.
    pub runs: Vec<Run>,
}

/// The machine that the load test ran on; the cluster may run elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// The number of processors.
    pub processors: usize,
    /// The memory in bytes.
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
    /// The system, such as `frameworkcontroller`, `floor client`, `batch/v1 Job`.
    pub system: String,
    /// Its settings, such as `drop-in defaults` or `recommended`.
    pub profile: String,
    /// When the first job was created.
    pub started_at: Timestamp,
    /// The seconds until all jobs had ended, or the run was given up.
    pub elapsed_seconds: f64,
    /// Why the run was given up, if it was.
    pub given_up: Option<String>,
    /// The numbers of jobs, Tasks and Pods, and the outcomes.
    pub totals: Totals,
    /// How fast jobs and Tasks ended.
    #[serde(flatten)]
    pub throughput: Throughput,
    /// How long each transition took, by the arrival of watch events.
    pub latencies: Vec<Latency>,
    /// The longest time that an event waited in the controller for the evaluation of its Framework.
    pub queue_age_seconds: Option<f64>,
    /// The releases of QueueUnits, if the scenario has Queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// The requests that the API server received.
    pub requests: Requests,
    /// The bytes that were written.
    pub bytes: Bytes,
    /// The resource use of processes and replicas.
    #[serde(flatten)]
    pub used: Used,
    /// The service levels, and whether they are met.
    pub levels: Vec<Level>,
    /// The course of the run.
    pub series: Vec<Series>,
}

/// The numbers of jobs, Tasks and Pods, and the outcomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Created jobs: Frameworks, Jobs or QueueUnits.
    pub jobs: usize,
    /// Their Tasks.
    pub tasks: usize,
    /// Created Pods, retries included; 0 if the requests were not counted.
    pub pods: usize,
    /// The most Tasks at one time: created and not yet ended.
    #[serde(default)]
    pub peak_tasks: Option<usize>,
    /// Jobs by outcome: `Succeeded`, `Failed`, `DeadlineExceeded`, `Deleted`, `Unfinished`.
    pub outcomes: BTreeMap<String, usize>,
    /// The times that Frameworks were seen in each state that they left, by the arrival of watch events.
    /// `transition` is the state. One that is passed within one status write is not seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<Latency>,
    /// The replicas of the controller that were killed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kills: Vec<Kill>,
    /// The failures to read or remove something at the end of the run. The figures from it are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// How fast jobs and Tasks ended, from the first creation to the last end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Throughput {
    /// Jobs that ended each second.
    pub jobs_per_second: f64,
    /// Tasks that ended each second.
    pub tasks_per_second: f64,
}

/// A replica of the controller that the load test killed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kill {
    /// The name of its Pod.
    pub replica: String,
    /// The seconds after the start of the run.
    pub at_seconds: f64,
}

/// The releases of QueueUnits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// The number of releases, without the units that run until all others are Enqueued.
    pub releases: usize,
    /// Releases a second, from the first release to the last; `None` if no time passed between them.
    pub releases_per_second: Option<f64>,
    /// Releases of all units beyond the quota; `None` if changes were missed.
    pub over_admitted: Option<usize>,
    /// The first of them, in words.
    pub first_over_admission: Option<String>,
    /// The p99 of the controller's turns in seconds, with their rounds of scheduling: a bound of its
    /// histogram.
    pub turn_p99_seconds: Option<f64>,
    /// The bound of the longest turn.
    pub turn_max_seconds: Option<f64>,
}

/// The latency of one transition, over the jobs of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// The transition, such as `creation → completed`.
    pub transition: String,
    /// The group of jobs, as the scenario names it.
    pub group: String,
    /// The number of jobs that made the transition.
    pub count: usize,
    /// The 50th percentile.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// The requests that the API server received during the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// The source of the counts: `audit log` or `none`.
    pub source: String,
    /// One for each kind of request.
    pub rows: Vec<RequestRow>,
    /// The system's own requests on jobs, ConfigMaps and Pods.
    pub own: usize,
    /// The requests that the work takes if every state is stored: 2n + 11 for an attempt of n Tasks that
    /// succeed, and more for retries. A controller that skips states sends fewer.
    pub floor: Option<usize>,
    /// `floor / own`; above 1 if the controller skipped states.
    pub write_efficiency: Option<f64>,
    /// The same against 2n + 8, the floor without writes that record created objects or show Tasks running.
    pub write_efficiency_strict: Option<f64>,
    /// The same against 2n + 7: besides, no write announces the creation of the ConfigMap.
    #[serde(default)]
    pub write_efficiency_least: Option<f64>,
    /// Own requests that were answered with a code of 400 or above.
    pub refused: usize,
    /// Own GETs and LISTs.
    pub reads: usize,
    /// Own requests for each job.
    pub per_job: f64,
    /// Own requests for each Task.
    pub per_task: f64,
    /// The controller's own count minus the API server's; `None` if one of them is not known.
    pub unreconciled: Option<i64>,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRow {
    /// The client: its user agent up to the first `/`.
    pub client: String,
    /// The verb.
    pub verb: String,
    /// The resource with its subresource, such as `frameworks/status`.
    pub resource: String,
    /// The HTTP status.
    pub code: u16,
    /// The number of requests.
    pub count: usize,
}

/// The bytes that were written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bytes {
    /// The bodies of status writes.
    pub status_writes: Option<u64>,
    /// Bytes of status writes for each Task.
    pub status_writes_per_task: Option<f64>,
    /// The growth of the store of etcd, old versions included.
    pub store_growth: Option<i64>,
    /// The watch events of Frameworks, ConfigMaps and Pods that the API server sent to all watchers.
    #[serde(default)]
    pub watch_events: Option<u64>,
    /// The memory that the API server allocated for each Task, freed memory included. It repeats within a few
    /// per cent where processor time does not.
    #[serde(default)]
    pub api_server_allocated_per_task: Option<f64>,
    /// The objects that it allocated for each Task.
    #[serde(default)]
    pub api_server_objects_per_task: Option<f64>,
}

/// The resource use of processes and replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// The resource use of processes; those of one name are added.
    pub processes: Vec<Process>,
    /// Each replica of the controller, as far as its process or its metrics are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<Replica>,
}

/// The resource use of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Such as `frameworkcontroller`, `kube-apiserver`, `etcd`.
    pub name: String,
    /// Processor time during the run.
    pub cpu_seconds: f64,
    /// Processor time for each Task.
    pub cpu_milliseconds_per_task: f64,
    /// Memory in RAM at the start of the run.
    pub rss_before_bytes: u64,
    /// Memory in RAM at the end of the run.
    pub rss_after_bytes: u64,
    /// The most memory in RAM during the run, or since the start of the process if the kernel refused a
    /// reset.
    pub rss_peak_bytes: u64,
}

impl Process {
    /// Adds another process of the same name. The peaks are added as if they had been at one time.
    pub fn add(&mut self, other: &Process) {
        self.cpu_seconds += other.cpu_seconds;
        self.cpu_milliseconds_per_task += other.cpu_milliseconds_per_task;
        self.rss_before_bytes += other.rss_before_bytes;
        self.rss_after_bytes += other.rss_after_bytes;
        self.rss_peak_bytes += other.rss_peak_bytes;
    }
}

/// One replica of the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replica {
    /// Its process.
    pub process: Option<Process>,
    /// The slots that it had at the end, of 256; 0 without sharding.
    pub slots: Option<usize>,
    /// The bytes of responses and watch events that it received.
    pub received_bytes: Option<u64>,
    /// Its own requests on jobs, ConfigMaps and Pods, as it counted them.
    pub requests: Option<usize>,
}

/// A service level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Level {
    /// Its name in the scenario.
    pub name: String,
    /// The bound, such as `≥ 0.95`.
    pub bound: String,
    /// The measured value; `None` if it could not be measured, which misses the level.
    pub measured: Option<f64>,
    /// Whether the level is met.
    pub met: bool,
}

/// A number over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// The plot that it belongs to: `jobs`, `latency`, `requests`, `processors`, `memory`.
    pub plot: String,
    /// Its name in the legend.
    pub name: String,
    /// The unit: `jobs`, `s`, `requests/s`, `processors`, `bytes`.
    pub unit: String,
    /// Pairs of seconds since the start of the run and the number.
    pub points: Vec<(f64, f64)>,
}

impl Totals {
    /// Jobs and Tasks: `100 × 20` where the Tasks divide evenly, else `1,001 jobs, 11,000 Tasks`.
    pub fn size(&self) -> String {
        match self.tasks.checked_div(self.jobs) {
            Some(each) if each * self.jobs == self.tasks => {
                format!("{} × {}", whole(self.jobs), whole(each))
            }
            _ => format!("{}, {}", count(self.jobs, "job"), count(self.tasks, "Task")),
        }
    }
}

impl Series {
    /// A series of points.
    pub fn new(plot: &str, name: &str, unit: &str, points: impl Iterator<Item = (f64, f64)>) -> Series {
        Series { plot: plot.into(), name: name.into(), unit: unit.into(), points: points.collect() }
    }
}

impl Run {
    /// The created Pods; `None` if the requests were not counted, and so the Pods were not.
    pub fn pods(&self) -> Option<usize> {
        (self.requests.source != "none").then_some(self.totals.pods)
    }

    /// A percentile of a transition, of the slowest group.
    pub fn slowest(&self, transition: &str, percentile: fn(&Latency) -> f64) -> Option<f64> {
        let of = self.latencies.iter().filter(|latency| latency.transition == transition);
        of.map(percentile).max_by(f64::total_cmp)
    }
}

impl Report {
    /// Whether every run completed its work without a problem, and met its levels.
    pub fn is_met(&self) -> bool {
        self.runs.iter().all(|run| {
            let is_whole = run.given_up.is_none() && run.totals.problems.is_empty();
            is_whole && run.levels.iter().all(|level| level.met)
        })
    }
}
