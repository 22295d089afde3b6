//! The runs that a plan can rest on.

use crate::report::{Report, Run};

use super::demand::Demand;

/// A run, and the report that it is in.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The report.
    pub report: &'a Report,
    /// The run in it.
    pub run: &'a Run,
}

/// Runs of one system in the reports that did their work, of one profile if that is asked for.
pub fn sources<'a>(reports: &'a [Report], system: &str, profile: Option<&str>) -> Vec<Source<'a>> {
    let all = reports.iter().flat_map(|report| report.runs.iter().map(move |run| Source { report, run }));
    all.filter(|source| {
        let run = source.run;
        let wanted = run.system == system && profile.is_none_or(|profile| run.profile == profile);
        wanted && run.given_up.is_none() && run.totals.tasks > 0 && run.totals.jobs > 0
    })
    .collect()
}

impl Source<'_> {
    /// As a plan names it.
    pub fn name(&self) -> String {
        let (jobs, tasks) = (self.run.totals.jobs, self.tasks_each());
        let profile = if self.run.profile.is_empty() { "" } else { &format!("; {}", self.run.profile) };
        format!("{} ({jobs} × {tasks}{profile})", self.report.scenario.name)
    }

    /// Tasks of each job.
    pub fn tasks_each(&self) -> f64 {
        self.run.totals.tasks as f64 / self.run.totals.jobs as f64
    }

    /// How often the demanded rate is that of the run.
    pub fn faster(&self, demand: &Demand) -> f64 {
        demand.tasks_per_second() / self.run.tasks_per_second
    }

    /// Whether every job has as many Tasks, each of which runs once and succeeds, so that its costs are those
    /// of a Task.
    fn is_plain(&self) -> bool {
        let groups = &self.report.scenario.groups;
        let alike = groups.iter().all(|group| group.tasks() == groups[0].tasks() && group.rescale.is_empty());
        // Pods are not counted where requests are not.
        let pods = self.run.totals.pods;
        let retried = pods != self.run.totals.tasks && (pods > 0 || self.run.requests.source != "none");
        alike && !retried && groups.iter().all(|group| ["Succeeded", "Deleted"].contains(&&*group.outcome))
    }

    /// How far it is from the demand: first in the size of jobs, then in their rate.
    fn distance(&self, demand: &Demand) -> (f64, f64) {
        let size = (f64::from(demand.tasks) / self.tasks_each()).ln().abs();
        (size, self.faster(demand).ln().abs())
    }
}

/// The plain run of the most similar jobs of which something is known.
pub fn most_similar<'a, T>(
    sources: &[Source<'a>],
    demand: &Demand,
    known: impl Fn(&Run) -> Option<T>,
) -> Option<(Source<'a>, T)> {
    let mut able: Vec<(Source, T)> = sources
        .iter()
        .filter(|source| source.is_plain() && source.run.tasks_per_second > 0.0)
        .filter_map(|source| Some((*source, known(source.run)?)))
        .collect();
    able.sort_by(|(one, _), (two, _)| {
        let (one, two) = (one.distance(demand), two.distance(demand));
        one.0.total_cmp(&two.0).then(one.1.total_cmp(&two.1))
    });
    able.into_iter().next()
}

/// The run that had the most Tasks at one time, and how many those were.
pub fn fullest<'a, T>(
    sources: &[Source<'a>],
    known: impl Fn(&Run) -> Option<T>,
) -> Option<(Source<'a>, f64, T)> {
    let able = sources.iter().filter_map(|source| {
        let tasks = source.run.totals.peak_tasks.filter(|tasks| *tasks > 0)?;
        Some((*source, tasks as f64, known(source.run)?))
    });
    able.max_by(|one, two| one.1.total_cmp(&two.1))
}
