//! The scenario of a load test, as users write it: `scenarios/*.yaml`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::number::ratio;
use bounds::check_time;

mod bounds;
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

    /// The scenario in `factor` times the time: `factor` times as many jobs arrive at the same rate. Starts,
    /// runs, rescales, deadlines, TTLs and the time between kills are multiplied. The timeout and the levels
    /// stay.
    pub fn shortened(mut self, factor: f64) -> Scenario {
        for group in self.scalable_groups() {
            group.jobs = ((group.jobs as f64 * factor).round() as usize).max(1);
        }
        self.groups.iter_mut().for_each(|group| group.shorten(factor));
        if let Some(kills) = &mut self.replica_kills {
            kills.every_seconds = ((kills.every_seconds as f64 * factor).round() as u64).max(1);
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

    /// An error that names the first wrong field and the allowed values.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.groups.is_empty(), "groups: at least one is needed");
        if let Some(queues) = &self.queue {
            queues.check()?;
        }
        if let Some(kills) = &self.replica_kills {
            ensure!(kills.every_seconds >= 1, "replicaKills: everySeconds: at least 1");
            check_time("replicaKills: everySeconds", kills.every_seconds as f64)?;
        }
        check_time("timeoutSeconds", self.timeout_seconds as f64)?;
        for (level, bound) in &self.levels {
            // JSON has no other numbers, so the report could not be read again.
            ensure!(bound.is_finite(), "levels: {}: must be a finite number", level.name());
        }
        for group in &self.groups {
            let checked = group.check(self.queue.as_ref()).and_then(|()| self.check_name(group));
            checked.with_context(|| format!("groups: {}", group.name))?;
        }
        Ok(())
    }

    /// The name of a job is that of its group and a number, with nothing between them.
    fn check_name(&self, group: &Group) -> Result<()> {
        let is_alike = |name: &&str| {
            let rest = name.strip_prefix(group.name.as_str());
            rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let alike: Vec<&str> = self.groups.iter().map(|other| other.name.as_str()).filter(is_alike).collect();
        ensure!(
            alike.len() == 1,
            "name: jobs of {} could have the same names: no group may be named like another one with digits \
             after it",
            alike.join(" and ")
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: &str = "18446744073709551615";

    /// The error of a scenario with these fields, in a group with these, of a TaskRole with these.
    fn refusal(fields: &str, group: &str, role: &str) -> String {
        let text = format!(
            "description: d\n{fields}\ngroups: [{{name: a, {group}, taskRoles: [{{name: w, {role}}}]}}]"
        );
        format!("{:#}", Scenario::parse(&text).expect_err(&text))
    }

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
                "jobs: 1 to 10000000",
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

    #[test]
    fn every_time_but_timeout_and_levels_is_shortened() {
        let text = "description: d\ntimeoutSeconds: 900\nreplicaKills: {everySeconds: 30}\n\
            levels: {runningP99Seconds: 14}\n\
            groups: [{name: a, jobs: 10, startSeconds: 5, deadlineAtSeconds: 20, expireAtSeconds: 40, \
            ttlSecondsAfterFinished: 3600, activeDeadlineSeconds: 60, \
            rescale: [{afterSeconds: 12, taskNumber: 3}], \
            taskRoles: [{name: w, taskNumber: 1, runSeconds: 50}]}]";
        let mut expected = Scenario::parse(text).unwrap();
        let tenth = expected.clone().shortened(0.1);
        let group = &mut expected.groups[0];
        (group.jobs, group.start_seconds, group.task_roles[0].run_seconds) = (1, 0.5, 5.0);
        (group.deadline_at_seconds, group.expire_at_seconds) = (Some(2), Some(4));
        (group.ttl_seconds_after_finished, group.active_deadline_seconds) = (Some(360), Some(6));
        assert!((tenth.groups[0].rescale[0].after_seconds - 1.2).abs() < 1e-9, "{tenth:?}");
        group.rescale.clone_from(&tenth.groups[0].rescale);
        expected.replica_kills = Some(ReplicaKills { every_seconds: 3 });
        expected.description.clone_from(&tenth.description);
        assert_eq!(tenth, expected);
        let least = tenth.shortened(0.01);
        assert_eq!(least.groups[0].active_deadline_seconds, Some(1), "it stays a deadline");
        assert_eq!(least.replica_kills, Some(ReplicaKills { every_seconds: 1 }));
    }

    #[test]
    fn groups_whose_jobs_could_have_the_same_name_are_refused() {
        let of = |names: [&str; 2]| {
            let group = |name| format!("{{name: {name}, jobs: 30, taskRoles: [{{name: w, taskNumber: 1}}]}}");
            Scenario::parse(&format!("description: d\ngroups: [{}]", names.map(group).join(", ")))
        };
        for names in [["small", "small2"], ["small2", "small"], ["small", "small"]] {
            let error = format!("{:#}", of(names).unwrap_err());
            let expected = format!("name: jobs of {} could have the same names", names.join(" and "));
            assert!(error.starts_with("groups: small: ") && error.contains(&expected), "{error}");
        }
        for names in [["small1", "small2"], ["small", "small2x"], ["small", "smaller"]] {
            of(names).unwrap();
        }
    }

    #[test]
    fn a_time_that_a_run_could_not_wait_for_is_refused() {
        let is_refused = |error: String, wrong: &str| {
            assert_eq!(error, format!("{wrong}: 0 to 31536000 seconds (a year) are allowed"));
        };
        for (field, value) in [
            ("startSeconds", "startSeconds: 1e300"),
            ("startSeconds", "startSeconds: -1"),
            ("startSeconds", "startSeconds: .nan"),
            ("perSecond: the arrival of the last job", "perSecond: 1e-300"),
            ("rescale: afterSeconds", "rescale: [{afterSeconds: .inf, taskNumber: 1}]"),
            ("rescale: afterSeconds", "rescale: [{afterSeconds: -1, taskNumber: 1}]"),
            ("ttlSecondsAfterFinished", "ttlSecondsAfterFinished: 4000000000"),
            ("activeDeadlineSeconds", "activeDeadlineSeconds: 4000000000"),
            ("deadlineAtSeconds", "deadlineAtSeconds: 4000000000"),
            ("expireAtSeconds", "expireAtSeconds: 4000000000"),
        ] {
            let error = refusal("", &format!("jobs: 2, {value}"), "taskNumber: 1");
            is_refused(error, &format!("groups: a: {field}"));
        }
        for seconds in ["-1", "1e300", ".nan"] {
            let error = refusal("", "jobs: 1", &format!("taskNumber: 1, runSeconds: {seconds}"));
            is_refused(error, "groups: a: taskRoles: w: runSeconds");
        }
        let kills = format!("replicaKills: {{everySeconds: {HUGE}}}");
        is_refused(refusal(&kills, "jobs: 1", "taskNumber: 1"), "replicaKills: everySeconds");
        let timeout = format!("timeoutSeconds: {HUGE}");
        is_refused(refusal(&timeout, "jobs: 1", "taskNumber: 1"), "timeoutSeconds");
        let unit = "description: d\nqueue: {namespaces: 1, queues: 1, quota: {cpu: 1}}\n\
            groups: [{name: a, jobs: 1, unit: {resource: {cpu: 1}, runSeconds: .inf}}]";
        is_refused(format!("{:#}", Scenario::parse(unit).unwrap_err()), "groups: a: unit: runSeconds");
    }

    #[test]
    fn a_number_that_a_run_could_not_hold_is_refused() {
        let (jobs, pods) = (format!("jobs: {HUGE}"), format!("jobs: 1, pods: {HUGE}"));
        let rescale = "jobs: 1, rescale: [{afterSeconds: 1, taskNumber: 10001}]";
        // The sum of both would overflow.
        let tasks = format!("taskNumber: {HUGE}}}, {{name: v, taskNumber: 1");
        let one = "taskNumber: 1";
        for (fields, group, role, wrong) in [
            ("", jobs.as_str(), one, "groups: a: jobs: 1 to 10000000 are allowed"),
            ("", pods.as_str(), one, "groups: a: pods: at most 1000000 are allowed"),
            ("", "jobs: 1", tasks.as_str(), "groups: a: taskRoles: w: taskNumber: at most 10000 are allowed"),
            ("", rescale, one, "groups: a: rescale: taskNumber: at most 10000 are allowed"),
            ("levels: {reads: .nan}", "jobs: 1", one, "levels: reads: must be a finite number"),
        ] {
            assert_eq!(refusal(fields, group, role), wrong);
        }
        for rate in ["0", "-1", ".nan", ".inf"] {
            let error = refusal("", &format!("jobs: 2, perSecond: {rate}"), one);
            assert_eq!(error, "groups: a: perSecond: must be a number above 0");
        }
    }

    #[test]
    fn a_factor_that_exceeds_the_bounds_is_found_by_the_check() {
        let text = "description: d\ngroups: [{name: a, jobs: 10000000, pods: 1000000, perSecond: 10, \
            taskRoles: [{name: w, taskNumber: 10000, runSeconds: 1}]}]";
        let largest = Scenario::parse(text).unwrap();
        assert_eq!((largest.tasks(), largest.pods()), (100_000_000_000, 10_000_000_000_000));
        for factor in [1.1, 1e300, f64::INFINITY] {
            largest.clone().scaled(factor).check().unwrap_err();
            largest.clone().shortened(factor).check().unwrap_err();
        }
        largest.scaled(1.0).shortened(1.0).check().unwrap();
    }
}
