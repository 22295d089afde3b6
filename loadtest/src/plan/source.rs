//! The runs that a plan can be based on.

use crate::levels::ended_as_wanted;
use crate::report::{Report, Run};

use super::demand::Demand;

/// The system that docs/capacity.md plans for.
pub const SYSTEM: &str = "frameworkcontroller";
/// The settings of that page. Runs with other settings have other costs.
pub const PROFILE: &str = "drop-in defaults";

/// A figure is extrapolated to at most this many times the measured one.
pub const FARTHEST: f64 = 10.0;

/// Whether jobs that are larger by this factor can be planned.
pub fn is_near(other_size: f64) -> bool {
    (1.0 / FARTHEST..=FARTHEST).contains(&other_size)
}

/// A run and its report.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The report.
    pub report: &'a Report,
    /// The run in it.
    pub run: &'a Run,
}

/// The runs of one system, of one profile if that is asked for. Runs that were given up or whose jobs ended
/// otherwise than their groups say, and scenarios that run no Task, show nothing to plan with.
pub fn sources<'a>(reports: &'a [Report], system: &str, profile: Option<&str>) -> Vec<Source<'a>> {
    let all = reports.iter().flat_map(|report| report.runs.iter().map(move |run| Source { report, run }));
    all.filter(|source| {
        let run = source.run;
        let wanted = run.system == system && profile.is_none_or(|profile| run.profile == profile);
        let ran = source.report.scenario.runs_tasks() && run.totals.tasks > 0 && run.totals.jobs > 0;
        wanted && run.given_up.is_none() && ended_as_wanted(run) && ran
    })
    .collect()
}

/// The runs of that many replicas of the controller; if there is none, all runs of one replica.
pub fn of_replicas<'a>(sources: &[Source<'a>], replicas: u32) -> Vec<Source<'a>> {
    let of = |number: usize| -> Vec<Source> {
        sources.iter().copied().filter(|source| source.run.replica_count() == number).collect()
    };
    let found = of(replicas as usize);
    if found.is_empty() { of(1) } else { found }
}

impl Source<'_> {
    /// The scenario with its size, and the profile.
    pub fn name(&self) -> String {
        let profile = if self.run.profile.is_empty() { "" } else { &format!("; {}", self.run.profile) };
        format!("{} ({}{profile})", self.report.scenario.name, self.run.totals.size())
    }

    /// The processors that it ran on.
    pub fn machine(&self) -> String {
        let machine = &self.report.machine;
        format!("{} × {}", machine.processors, machine.processor)
    }

    /// Tasks of each job.
    pub fn tasks_each(&self) -> f64 {
        self.run.totals.tasks as f64 / self.run.totals.jobs as f64
    }

    /// The size of the planned jobs in multiples of its own.
    pub fn other_size(&self, demand: &Demand) -> f64 {
        f64::from(demand.tasks) / self.tasks_each()
    }

    /// Whether all jobs have the same number of Tasks, and each Task runs once and succeeds. Only then the
    /// costs of a Task are those of the run divided by its Tasks.
    pub(super) fn is_plain(&self) -> bool {
        let groups = &self.report.scenario.groups;
        let alike = groups.iter().all(|group| group.tasks() == groups[0].tasks() && group.rescale.is_empty());
        // Without counted requests, Pods are not counted either.
        let pods = self.run.totals.pods;
        let retried = pods != self.run.totals.tasks && (pods > 0 || self.run.requests.source != "none");
        alike && !retried && groups.iter().all(|group| ["Succeeded", "Deleted"].contains(&&*group.outcome))
    }

    /// The distance from the demand: first in the size of jobs, then in their rate.
    fn distance(&self, demand: &Demand) -> (f64, f64) {
        (
            self.other_size(demand).ln().abs(),
            (demand.tasks_per_second() / self.run.throughput.tasks_per_second).ln().abs(),
        )
    }
}

/// The run of the fastest Tasks.
pub fn fastest<'a>(sources: &[Source<'a>]) -> Option<Source<'a>> {
    let speed = |source: &Source| source.run.throughput.tasks_per_second;
    sources.iter().copied().max_by(|one, two| speed(one).total_cmp(&speed(two)))
}

/// The plain run with the most similar jobs for which `known` has a value.
pub fn most_similar<'a, T>(
    sources: &[Source<'a>],
    demand: &Demand,
    known: impl Fn(&Run) -> Option<T>,
) -> Option<(Source<'a>, T)> {
    let mut able: Vec<(Source, T)> = sources
        .iter()
        .filter(|source| source.is_plain() && source.run.throughput.tasks_per_second > 0.0)
        .filter_map(|source| Some((*source, known(source.run)?)))
        .collect();
    able.sort_by(|(one, _), (two, _)| {
        let (one, two) = (one.distance(demand), two.distance(demand));
        one.0.total_cmp(&two.0).then(one.1.total_cmp(&two.1))
    });
    able.into_iter().next()
}

/// The run with the most Tasks at one time, and their number. Runs whose jobs are of a size that can be
/// planned from come first.
pub fn fullest<'a, T>(
    sources: &[Source<'a>],
    demand: &Demand,
    known: impl Fn(&Run) -> Option<T>,
) -> Option<(Source<'a>, f64, T)> {
    let able = sources.iter().filter_map(|source| {
        let tasks = source.run.totals.peak_tasks.filter(|tasks| *tasks > 0)?;
        Some((*source, tasks as f64, known(source.run)?))
    });
    able.max_by(|one, two| {
        let near = |source: &Source| is_near(source.other_size(demand));
        near(&one.0).cmp(&near(&two.0)).then(one.1.total_cmp(&two.1))
    })
}
