//! The work of a load test, as a user writes it down: `scenarios/*.yaml`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

mod queues;

pub use queues::{Queues, Seat, Unit};

/// What a load test does, and what it promises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// What it is called; the file's name if it says none.
    #[serde(default)]
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// The jobs that it creates, group by group; all groups run at the same time.
    pub groups: Vec<Group>,
    /// Queues in which QueueUnits wait, without Pods; every group is of units then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queues>,
    /// After so many seconds the run is given up.
    #[serde(default = "patience")]
    pub timeout_seconds: u64,
    /// Whether Pods are bound to nodes from the start, so that no scheduler takes part.
    #[serde(default = "pinned")]
    pub pinned: bool,
    /// What every run promises.
    #[serde(default)]
    pub levels: BTreeMap<Level, f64>,
}

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

/// What a scenario can promise. The number beside it is the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// At least this write efficiency: (2n + 11) / requests.
    WriteEfficiency,
    /// At most so many requests that are refused.
    Refused,
    /// At most so many GETs and LISTs of the system.
    Reads,
    /// At most so many seconds from creation to the first running Task, for 99 of 100 jobs.
    RunningP99Seconds,
    /// At most so many seconds from creation to the end, for 99 of 100 jobs.
    CompletedP99Seconds,
    /// At most so many seconds from the deadline to the status that says so, for all jobs.
    DeadlineMaxSeconds,
    /// At most so many seconds from the expiry to the deletion, for 99 of 100 jobs.
    ExpiryP99Seconds,
    /// At least so many jobs a second.
    JobsPerSecond,
    /// At least so many Tasks a second.
    TasksPerSecond,
    /// At most so much memory of the controller at its peak, in MiB.
    ControllerPeakMebibytes,
    /// At most so many bytes of status writes for each Task.
    StatusBytesPerTask,
    /// At most such a difference between the controller's count of its requests and the API server's.
    Unreconciled,
    /// At least so many QueueUnits released a second, from the first release to the last.
    ReleasesPerSecond,
    /// At most so many QueueUnits released into more than the quota had left.
    OverAdmitted,
    /// At most so many requests of the controller for each QueueUnit.
    RequestsPerUnit,
}

fn patience() -> u64 {
    900
}

fn pinned() -> bool {
    true
}

fn succeeded() -> String {
    "Succeeded".into()
}

fn one() -> i32 {
    1
}

impl Level {
    /// Whether more is better.
    pub fn is_least(self) -> bool {
        matches!(
            self,
            Level::WriteEfficiency | Level::JobsPerSecond | Level::TasksPerSecond | Level::ReleasesPerSecond
        )
    }

    /// As the file names it.
    pub fn name(self) -> String {
        // A variant without fields is a string.
        serde_json::to_value(self).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
    }
}

impl Group {
    /// The Tasks of one job; a QueueUnit counts as one.
    pub fn tasks(&self) -> usize {
        let units = usize::from(self.unit.is_some());
        self.task_roles.iter().map(|role| role.task_number).sum::<usize>() + units
    }
}

impl Scenario {
    /// Reads a file. The error says where in it what is wrong, and what is allowed.
    pub fn read(path: &Path) -> Result<Scenario> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let mut scenario = Scenario::parse(&text).with_context(|| format!("in {}", path.display()))?;
        if scenario.name.is_empty() {
            scenario.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        }
        Ok(scenario)
    }

    /// Understands a file's text.
    pub fn parse(text: &str) -> Result<Scenario> {
        let scenario: Scenario = serde_saphyr::from_str(text)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The jobs of all groups.
    pub fn jobs(&self) -> usize {
        self.groups.iter().map(|group| group.jobs).sum()
    }

    /// The Tasks of all jobs.
    pub fn tasks(&self) -> usize {
        self.groups.iter().map(|group| group.jobs * group.tasks()).sum()
    }

    /// The same work with `factor` times as many jobs, arriving `factor` times as fast. No group is left
    /// without a job.
    pub fn scaled(mut self, factor: f64) -> Scenario {
        for group in self.sizable() {
            // Casts saturate, and a negative factor was refused.
            group.jobs = ((group.jobs as f64 * factor).round() as usize).max(1);
            group.per_second = group.per_second.map(|rate| rate * factor);
        }
        self
    }

    /// The same work in `factor` times the time: as many jobs a second for so long, which run for so long.
    pub fn shortened(mut self, factor: f64) -> Scenario {
        for group in self.sizable() {
            group.jobs = ((group.jobs as f64 * factor).round() as usize).max(1);
            group.task_roles.iter_mut().for_each(|role| role.run_seconds *= factor);
            group.unit.iter_mut().for_each(|unit| unit.run_seconds *= factor);
        }
        self
    }

    /// All groups but those that hold others up, which they do however many those are.
    fn sizable(&mut self) -> impl Iterator<Item = &mut Group> {
        let holds = |group: &&mut Group| group.unit.as_ref().is_some_and(|unit| unit.until_all_wait);
        self.groups.iter_mut().filter(move |group| !holds(group))
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.groups.is_empty(), "groups: at least one is needed");
        self.check_units()?;
        for group in &self.groups {
            let at = format!("groups: {}", group.name);
            ensure!(framework_api::name::is_dns_word(&group.name), "{at}: name: use a to z and 0 to 9 only");
            ensure!(group.jobs >= 1, "{at}: jobs: at least 1 is needed");
            ensure!((1..=10_000).contains(&group.tasks()), "{at}: taskRoles: 1 to 10000 Tasks are allowed");
            ensure!(group.per_second.is_none_or(|rate| rate > 0.0), "{at}: perSecond: must be above 0");
            ensure!(group.start_seconds >= 0.0, "{at}: startSeconds: must be 0 or above");
            let outcomes = ["Succeeded", "Failed", "DeadlineExceeded", "Deleted"];
            let outcome = &group.outcome;
            ensure!(
                outcomes.contains(&outcome.as_str()),
                "{at}: outcome: {outcome} is none of {}",
                outcomes.join(", ")
            );
            let names: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
            ensure!(
                names.iter().filter(|name| **name == group.name).count() == 1,
                "{at}: name: there are two groups of this name"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_that_is_shipped_is_good() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).unwrap() {
            let scenario = Scenario::read(&entry.unwrap().path()).unwrap();
            assert!(!scenario.levels.is_empty(), "{} promises nothing", scenario.name);
            names.push(scenario.name);
        }
        assert!(names.len() >= 9, "{names:?}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, wrong) in [
            ("description: d\ngroups: []", "groups: at least one is needed"),
            (
                "description: d\ngroups: [{name: a, jobs: 0, taskRoles: [{name: w, taskNumber: 1}]}]",
                "jobs: at least 1",
            ),
            ("description: d\ngroups: [{name: a, jobs: 1, taskRoles: []}]", "1 to 10000 Tasks"),
            ("description: d\ngroups: [{name: a, jobs: 1, taskroles: []}]", "unknown field `taskroles`"),
            (
                "description: d\ngroups: [{name: a, jobs: 1, outcome: Won, taskRoles: \
                    [{name: w, taskNumber: 1}]}]",
                "outcome: Won is none of Succeeded",
            ),
            ("description: d\ngroups: [{name: A, jobs: 1, taskRoles: [{name: w, taskNumber: 1}]}]", "name: "),
            ("description: d\ngroups: [{name: a, jobs: 1, unit: {resource: {cpu: 1}}}]", "need a `queue`"),
            (
                "description: d\nqueue: {namespaces: 1, queues: 1, quota: {cpu: 1}}\n\
                    groups: [{name: a, jobs: 1, taskRoles: [{name: w, taskNumber: 1}]}]",
                "every group needs a `unit`",
            ),
            (
                "description: d\nqueue: {namespaces: 1, queues: 1, quota: {cpu: 1}}\n\
                    groups: [{name: a, jobs: 1, unit: {resource: {cpu: 2}}}]",
                "cpu: 2 is more than the quota of 1",
            ),
            (
                "description: d\nqueue: {namespaces: 0, queues: 1, quota: {cpu: 1}}\n\
                    groups: [{name: a, jobs: 1, unit: {resource: {cpu: 1}}}]",
                "namespaces: 1 to 1000",
            ),
        ] {
            let error = format!("{:#}", Scenario::parse(text).unwrap_err());
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_factor_scales_the_rate_or_the_time() {
        let text = "description: d\ngroups: [{name: a, jobs: 100, perSecond: 10, taskRoles: \
            [{name: w, taskNumber: 1, runSeconds: 50}]}]";
        let whole = Scenario::parse(text).unwrap();
        let scaled = whole.clone().scaled(0.1);
        assert_eq!((scaled.jobs(), scaled.groups[0].per_second), (10, Some(1.0)));
        let shortened = whole.shortened(0.1);
        assert_eq!((shortened.jobs(), shortened.groups[0].per_second), (10, Some(10.0)));
        assert_eq!(shortened.groups[0].task_roles[0].run_seconds, 5.0);
    }
}
