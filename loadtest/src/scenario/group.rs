//! The groups of a scenario: jobs that are alike.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::queues::{Queues, Unit};

/// A number of equal jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {
    /// The prefix of the names of the jobs, to which an index is added.
    pub name: String,
    /// The number of jobs.
    pub jobs: usize,
    /// When the first job is created, in seconds after the start of the run.
    #[serde(default)]
    pub start_seconds: f64,
    /// How many jobs are created each second, at even intervals; by default all at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// The TaskRoles of each job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_roles: Vec<TaskRole>,
    /// Each job is a QueueUnit without Pods in one of the scenario's Queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// `spec.ttlSecondsAfterFinished`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<u32>,
    /// `spec.activeDeadlineSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<u32>,
    /// Sets `activeDeadlineSeconds` of each job so that all deadlines pass this many seconds after the start
    /// of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at_seconds: Option<u32>,
    /// The load test completes the Frameworks itself, so that all expire this many seconds after the start of
    /// the run. Needs permission to write their status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_at_seconds: Option<u32>,
    /// New sizes of the first TaskRole, one after another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rescale: Vec<Rescale>,
    /// The outcome that each job must have: `Succeeded`, `Failed`, `DeadlineExceeded`, `Deleted`.
    #[serde(default = "succeeded")]
    pub outcome: String,
    /// The number of Pods of each job with its retries, where it is certain; by default the number of Tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<usize>,
}

/// A number of equal Tasks, and how their Pods end.
///
/// The container runs `sleep` and `exit`. Fake nodes, which run no containers, read the same from
/// annotations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskRole {
    /// Its name.
    pub name: String,
    /// The number of Tasks.
    pub task_number: usize,
    /// The seconds that each Pod runs.
    #[serde(default)]
    pub run_seconds: f64,
    /// The exit code of each Pod's container.
    #[serde(default)]
    pub exit_code: u8,
    /// How often each Task is retried.
    #[serde(default)]
    pub retries: i32,
    /// The number of failed Tasks that fails the Framework; -1 for none.
    #[serde(default = "one")]
    pub min_failed_task_count: i32,
}

/// A new size of a job some time after its creation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rescale {
    /// The seconds after the creation of the job.
    pub after_seconds: f64,
    /// The new number of Tasks.
    pub task_number: usize,
}

fn succeeded() -> String {
    "Succeeded".into()
}

fn one() -> i32 {
    1
}

impl Group {
    /// The number of Tasks of one job; a QueueUnit counts as one.
    pub fn tasks(&self) -> usize {
        let units = usize::from(self.unit.is_some());
        self.task_roles.iter().map(|role| role.task_number).sum::<usize>() + units
    }

    /// The name of the n-th job.
    pub fn job_name(&self, nth: usize) -> String {
        format!("{}{nth}", self.name)
    }

    /// Whether its jobs run until the units of all other groups are Enqueued.
    pub fn runs_until_all_wait(&self) -> bool {
        self.unit.as_ref().is_some_and(|unit| unit.until_all_wait)
    }

    /// An error that names the first wrong field and the allowed values.
    pub(super) fn check(&self, queues: Option<&Queues>) -> Result<()> {
        const OUTCOMES: [&str; 4] = ["Succeeded", "Failed", "DeadlineExceeded", "Deleted"];
        ensure!(framework_api::name::is_dns_word(&self.name), "name: use a to z and 0 to 9 only");
        ensure!(self.jobs >= 1, "jobs: at least 1 is needed");
        self.check_unit(queues)?;
        ensure!((1..=10_000).contains(&self.tasks()), "taskRoles: 1 to 10000 Tasks are allowed");
        ensure!(self.per_second.is_none_or(|rate| rate > 0.0), "perSecond: must be above 0");
        ensure!(self.start_seconds >= 0.0, "startSeconds: must be 0 or above");
        ensure!(
            OUTCOMES.contains(&self.outcome.as_str()),
            "outcome: {} is none of {}",
            self.outcome,
            OUTCOMES.join(", ")
        );
        Ok(())
    }

    fn check_unit(&self, queues: Option<&Queues>) -> Result<()> {
        let Some(queues) = queues else {
            ensure!(self.unit.is_none(), "unit: needs a `queue` in the scenario");
            return Ok(());
        };
        let unit = self.unit.as_ref().filter(|_| self.task_roles.is_empty() && self.rescale.is_empty());
        let unit = unit.context("with a `queue`, a group has a `unit` and neither taskRoles nor rescale")?;
        unit.check(queues).context("unit")
    }
}
