//! The jobs of a scenario: groups of jobs that are alike.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::queues::{Queues, Unit};

/// Jobs that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {
    /// Their name, to which a number is added.
    pub name: String,
    /// How many.
    pub jobs: usize,
    /// When the first is created, after the start of the run.
    #[serde(default)]
    pub start_seconds: f64,
    /// How many are created a second, at even distances whatever becomes of them; left out: all at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// What each consists of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_roles: Vec<TaskRole>,
    /// Each is a QueueUnit without Pods, in one of the scenario's queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// `spec.ttlSecondsAfterFinished`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<u32>,
    /// `spec.activeDeadlineSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<u32>,
    /// `activeDeadlineSeconds` is set for each so that all deadlines pass so many seconds after the start of
    /// the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at_seconds: Option<u32>,
    /// The Frameworks are completed by the load test itself, so that they expire so many seconds after the
    /// start of the run. Needs the right to write their status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_at_seconds: Option<u32>,
    /// The sizes that the first TaskRole is given, one after another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rescale: Vec<Rescale>,
    /// What has to become of each: `Succeeded`, `Failed`, `DeadlineExceeded`, `Deleted`.
    #[serde(default = "succeeded")]
    pub outcome: String,
    /// How many Pods each makes, retries included, where that is certain; left out: as many as there are
    /// Tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<usize>,
}

/// Tasks that are alike, and what becomes of their Pods.
///
/// The container says it as a command; on fake nodes, which run none, annotations say the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskRole {
    /// Its name.
    pub name: String,
    /// How many Tasks there are.
    pub task_number: usize,
    /// How long each Pod runs.
    #[serde(default)]
    pub run_seconds: f64,
    /// What each Pod's container ends with.
    #[serde(default)]
    pub exit_code: u8,
    /// How often each Task is retried after that.
    #[serde(default)]
    pub retries: i32,
    /// How many failed Tasks fail the Framework; -1: none does.
    #[serde(default = "one")]
    pub min_failed_task_count: i32,
}

/// A new size, some time after a job's creation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rescale {
    /// After so many seconds.
    pub after_seconds: f64,
    /// So many Tasks.
    pub task_number: usize,
}

fn succeeded() -> String {
    "Succeeded".into()
}

fn one() -> i32 {
    1
}

impl Group {
    /// The Tasks of one job; a QueueUnit counts as one.
    pub fn tasks(&self) -> usize {
        let units = usize::from(self.unit.is_some());
        self.task_roles.iter().map(|role| role.task_number).sum::<usize>() + units
    }

    /// The name of the n-th job.
    pub fn job_name(&self, nth: usize) -> String {
        format!("{}{nth}", self.name)
    }

    /// Whether its jobs run until all jobs of other groups wait.
    pub fn runs_until_all_wait(&self) -> bool {
        self.unit.as_ref().is_some_and(|unit| unit.until_all_wait)
    }

    /// An error that names the first wrong field, and what is allowed there.
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
