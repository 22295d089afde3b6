//! The scenario of a load test, as users write it: `scenarios/*.yaml`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::number::ratio;

mod group;
mod level;
mod queues;

pub use group::{Group, Rescale, TaskRole};
pub use level::Level;
pub use queues::{QueueIndex, Queues, Unit};

/// A scenario: the jobs of a load test, and the levels that it has to reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Its name; by default that of the file.
    #[serde(default)]
    pub name: String,
    /// Its purpose in a sentence.
    pub description: String,
    /// The groups of jobs, which run at the same time.
    pub groups: Vec<Group>,
    /// The Queues in which QueueUnits without Pods wait; then every group has a `unit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queues>,
    /// Replicas of the controller are killed during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_kills: Option<ReplicaKills>,
    /// The run is given up after this time.
    #[serde(default = "patience")]
    pub timeout_seconds: u64,
    /// Whether Pods are created bound to nodes, without the scheduler.
    #[serde(default = "pinned")]
    pub pinned: bool,
    /// The levels of each run.
    #[serde(default)]
    pub levels: BTreeMap<Level, f64>,
}

/// Replicas of the controller that are killed, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplicaKills {
    /// The seconds between two kills, and before the first one.
    pub every_seconds: u64,
}

fn patience() -> u64 {
    900
}

fn pinned() -> bool {
    true
}

impl Scenario {
    /// Reads a file. The error names the wrong field and the allowed values.
    pub fn read(path: &Path) -> Result<Scenario> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let mut scenario = Scenario::parse(&text).with_context(|| format!("in {}", path.display()))?;
        if scenario.name.is_empty() {
            scenario.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        }
        Ok(scenario)
    }

    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<Scenario> {
        let scenario: Scenario = serde_saphyr::from_str(text)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The number of jobs of all groups.
    pub fn jobs(&self) -> usize {
        self.groups.iter().map(|group| group.jobs).sum()
    }

    /// The number of Tasks of all jobs.
    pub fn tasks(&self) -> usize {
        self.groups.iter().map(|group| group.jobs * group.tasks()).sum()
    }

    /// The number of Pods of all jobs, retries included.
    pub fn pods(&self) -> usize {
        self.groups.iter().map(|group| group.jobs * group.pods.unwrap_or_else(|| group.tasks())).sum()
    }

    /// The scenario with `factor` times as many jobs, at `factor` times the rate. Every group keeps at least
    /// one job.
    pub fn scaled(mut self, factor: f64) -> Scenario {
        for group in self.scalable_groups() {
            // Casts saturate, and negative factors are refused.
            group.jobs = ((group.jobs as f64 * factor).round() as usize).max(1);
            group.per_second = group.per_second.map(|rate| rate * factor);
        }
        self.described(factor, "its jobs and of their rate")
    }

    /// The scenario in `factor` times the time: jobs arrive at the same rate, and run for `factor` times as
    /// long.
    pub fn shortened(mut self, factor: f64) -> Scenario {
        for group in self.scalable_groups() {
            group.jobs = ((group.jobs as f64 * factor).round() as usize).max(1);
            group.task_roles.iter_mut().for_each(|role| role.run_seconds *= factor);
            group.unit.iter_mut().for_each(|unit| unit.run_seconds *= factor);
        }
        self.described(factor, "its time")
    }

    /// Adds to the description that this is not the whole scenario of the file.
    fn described(mut self, factor: f64, of: &str) -> Scenario {
        if factor != 1.0 {
            self.description += &format!(" Here {} of {of}.", ratio(1.0, factor));
        }
        self
    }

    /// All groups but those that block the others: these keep their jobs.
    fn scalable_groups(&mut self) -> impl Iterator<Item = &mut Group> {
        self.groups.iter_mut().filter(|group| !group.runs_until_all_wait())
    }

    /// Whether any Task runs. QueueUnits have no Pods, and jobs with `expireAtSeconds` are completed by the
    /// load test itself.
    pub fn runs_tasks(&self) -> bool {
        self.groups.iter().any(|group| group.unit.is_none() && group.expire_at_seconds.is_none())
    }

    /// All units: the name, the index in the group, and the unit.
    pub fn units(&self) -> impl Iterator<Item = (String, usize, &Unit)> {
        self.groups.iter().flat_map(|group| {
            let numbers = 0..group.unit.as_ref().map_or(0, |_| group.jobs);
            numbers.filter_map(move |index| Some((group.job_name(index), index, group.unit.as_ref()?)))
        })
    }

    /// Whether the jobs of this group run until all other units are Enqueued.
    pub fn runs_until_all_wait(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one.name == group && one.runs_until_all_wait())
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.groups.is_empty(), "groups: at least one is needed");
        if let Some(queues) = &self.queue {
            queues.check()?;
        }
        let kills = self.replica_kills.is_none_or(|kills| kills.every_seconds >= 1);
        ensure!(kills, "replicaKills: everySeconds: at least 1");
        for group in &self.groups {
            let at = format!("groups: {}", group.name);
            group.check(self.queue.as_ref()).with_context(|| at.clone())?;
            let same_name = self.groups.iter().filter(|other| other.name == group.name).count();
            ensure!(same_name == 1, "{at}: name: another group has the same name");
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
    fn a_wrong_scenario_is_refused_by_the_name_of_its_field() {
        for (text, wrong) in [
            ("description: d\ngroups: []", "groups: at least one is needed"),
            (
                "description: d\ngroups: [{name: a, jobs: 0, taskRoles: [{name: w, taskNumber: 1}]}]",
                "jobs: at least 1",
            ),
            (
                "description: d\nreplicaKills: {everySeconds: 0}\n\
                    groups: [{name: a, jobs: 1, taskRoles: [{name: w, taskNumber: 1}]}]",
                "everySeconds: at least 1",
            ),
            ("description: d\ngroups: [{name: a, jobs: 1, taskRoles: []}]", "1 to 10000 Tasks"),
            ("description: d\ngroups: [{name: a, jobs: 1, taskroles: []}]", "unknown field `taskroles`"),
            (
                "description: d\ngroups: [{name: a, jobs: 1, outcome: Won, taskRoles: \
                    [{name: w, taskNumber: 1}]}]",
                "outcome: Won is none of Succeeded",
            ),
            ("description: d\ngroups: [{name: A, jobs: 1, taskRoles: [{name: w, taskNumber: 1}]}]", "name: "),
            (
                "description: d\ngroups: [{name: a, jobs: 1, unit: {resource: {cpu: 1}}}]",
                "unit: needs a `queue`",
            ),
            (
                "description: d\nqueue: {namespaces: 1, queues: 1, quota: {cpu: 1}}\n\
                    groups: [{name: a, jobs: 1, taskRoles: [{name: w, taskNumber: 1}]}]",
                "a group has a `unit`",
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
        assert_eq!(shortened.description, "d Here ×0.1 of its time.");
        assert_eq!(shortened.scaled(1.0).description, "d Here ×0.1 of its time.");
    }
}
