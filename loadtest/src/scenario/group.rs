//! The groups of a scenario: jobs that are alike.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::bounds::{JOBS, PODS, TASKS, check_time};
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

    /// Makes all its times `factor` times as long. Whole seconds stay at least one.
    pub(super) fn shorten(&mut self, factor: f64) {
        self.start_seconds *= factor;
        self.task_roles.iter_mut().for_each(|role| role.run_seconds *= factor);
        self.unit.iter_mut().for_each(|unit| unit.run_seconds *= factor);
        self.rescale.iter_mut().for_each(|rescale| rescale.after_seconds *= factor);
        let whole = [
            &mut self.ttl_seconds_after_finished,
            &mut self.active_deadline_seconds,
            &mut self.deadline_at_seconds,
            &mut self.expire_at_seconds,
        ];
        for seconds in whole.into_iter().flatten() {
            *seconds = ((f64::from(*seconds) * factor).round() as u32).max((*seconds).min(1));
        }
    }

    /// An error that names the first wrong field and the allowed values.
    pub(super) fn check(&self, queues: Option<&Queues>) -> Result<()> {
        const OUTCOMES: [&str; 4] = ["Succeeded", "Failed", "DeadlineExceeded", "Deleted"];
        ensure!(framework_api::name::is_dns_word(&self.name), "name: use a to z and 0 to 9 only");
        ensure!((1..=JOBS).contains(&self.jobs), "jobs: 1 to {JOBS} are allowed");
        self.check_unit(queues)?;
        for role in &self.task_roles {
            role.check().with_context(|| format!("taskRoles: {}", role.name))?;
        }
        ensure!((1..=TASKS).contains(&self.tasks()), "taskRoles: 1 to {TASKS} Tasks are allowed");
        ensure!(self.pods.is_none_or(|pods| pods <= PODS), "pods: at most {PODS} are allowed");
        self.check_times()?;
        ensure!(
            OUTCOMES.contains(&self.outcome.as_str()),
            "outcome: {} is none of {}",
            self.outcome,
            OUTCOMES.join(", ")
        );
        Ok(())
    }

    fn check_times(&self) -> Result<()> {
        let is_rate = |rate: f64| rate > 0.0 && rate.is_finite();
        ensure!(self.per_second.is_none_or(is_rate), "perSecond: must be a number above 0");
        check_time("startSeconds", self.start_seconds)?;
        let arrival = |rate: f64| self.start_seconds + (self.jobs - 1) as f64 / rate;
        check_time("perSecond: the arrival of the last job", self.per_second.map_or(0.0, arrival))?;
        for rescale in &self.rescale {
            check_time("rescale: afterSeconds", rescale.after_seconds)?;
            ensure!(rescale.task_number <= TASKS, "rescale: taskNumber: at most {TASKS} are allowed");
        }
        for (field, seconds) in [
            ("ttlSecondsAfterFinished", self.ttl_seconds_after_finished),
            ("activeDeadlineSeconds", self.active_deadline_seconds),
            ("deadlineAtSeconds", self.deadline_at_seconds),
            ("expireAtSeconds", self.expire_at_seconds),
        ] {
            check_time(field, seconds.unwrap_or(0).into())?;
        }
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

impl TaskRole {
    fn check(&self) -> Result<()> {
        ensure!(self.task_number <= TASKS, "taskNumber: at most {TASKS} are allowed");
        check_time("runSeconds", self.run_seconds)
    }
}
