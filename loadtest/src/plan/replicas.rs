//! The part of docs/capacity.md about several replicas: what one of them uses, and needs for a plan, and what
//! they hold within limits. It is made of the report whose runs have different numbers of replicas.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use crate::number::{short, size, time, whole};
use crate::report::{Replica, Report, Run};

use super::demand::Demand;
use super::estimate::{Estimate, estimates};
use super::limits::{Limits, table_of};
use super::source::{PROFILE, SYSTEM, Source, of_replicas, sources};
use super::table::row;

/// The plan that several replicas share: Frameworks at one time, Tasks of each, Frameworks/s.
const DEMAND: (u32, u32, f64) = (5000, 20, 3.0);
/// The limits that the held loads are shown for: those of deploy/base, and less memory with more requests.
const LIMITS: [Limits; 2] = [
    Limits { memory: 2.0 * GIB, processors: 1.0, qps: 80.0, api_server: 2.0 },
    Limits { memory: 0.5 * GIB, processors: 1.0, qps: 1000.0, api_server: 4.0 },
];
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
/// The rows of a plan that the replicas divide, without the addition for several of them.
const DIVIDED: [&str; 2] = ["controller: processors", "controller: memory"];

/// The figures of the replica that has used most in a run.
struct Most {
    received: Option<f64>,
    processor_seconds: Option<f64>,
    memory: Option<f64>,
}

impl Most {
    fn of(run: &Run) -> Most {
        let most = |used: fn(&Replica) -> Option<f64>| {
            run.used.replicas.iter().filter_map(used).max_by(f64::total_cmp)
        };
        Most {
            received: most(|replica| Some(replica.received_bytes? as f64)),
            processor_seconds: most(|replica| Some(replica.process.as_ref()?.cpu_seconds)),
            memory: most(|replica| Some(replica.process.as_ref()?.rss_peak_bytes as f64)),
        }
    }
}

/// The section; empty if no report has runs of several numbers of replicas.
pub fn generated(reports: &[Report]) -> String {
    let has_several = |report: &&Report| {
        let numbers = report.runs.iter().filter(|run| is_ours(run)).map(Run::replica_count);
        numbers.collect::<BTreeSet<_>>().len() > 1
    };
    let section = |report: &Report| measured(report) + &planned(report) + &held(report);
    reports.iter().find(has_several).map(section).unwrap_or_default()
}

fn is_ours(run: &Run) -> bool {
    run.system == SYSTEM && run.profile.starts_with(PROFILE)
}

/// One row for each number of replicas, with ratios to the first.
fn measured(report: &Report) -> String {
    let runs: Vec<&Run> = report.runs.iter().filter(|run| is_ours(run)).collect();
    let mut out = format!(
        "\n## Replicas\n`{}`, {}, one run after another on {} × {}. *Most* is the figure of the replica that \
         has most. The ratios are to the first run:\n\n\
         | replicas | Tasks/s | received, most | processor time, most | memory, most | processor time, all | \
         requests/Task | API server: allocated/Task |\n|---|---|---|---|---|---|---|---|\n",
        report.scenario.name,
        runs[0].totals.size(),
        report.machine.processors,
        report.machine.processor,
    );
    let first = Most::of(runs[0]);
    let all = |run: &Run| run.controller().map(|process| process.cpu_seconds);
    for run in &runs {
        let most = Most::of(run);
        out += &row(&[
            whole(run.replica_count()),
            short(run.throughput.tasks_per_second),
            part(most.received, first.received, size),
            part(most.processor_seconds, first.processor_seconds, time),
            part(most.memory, first.memory, size),
            part(all(run), all(runs[0]), time),
            short(run.requests.per_task),
            run.bytes.api_server_allocated_per_task.map_or("–".into(), size),
        ]);
    }
    out
}

/// A figure, and which part of the first run's it is.
fn part(value: Option<f64>, first: Option<f64>, shown: fn(f64) -> String) -> String {
    match (value, first) {
        (Some(value), Some(first)) if first > 0.0 => format!("{} (×{:.2})", shown(value), value / first),
        _ => "–".into(),
    }
}

/// The needs of each replica for the plan, by their number.
fn planned(report: &Report) -> String {
    let (frameworks, tasks, churn) = DEMAND;
    let all = sources(std::slice::from_ref(report), SYSTEM, None);
    let mut out = format!(
        "\nEach of them needs for the plan {} × {}, {}/s, extrapolated from its run above:\n\n\
         | replicas | processors | memory |\n|---|---|---|\n",
        whole(frameworks as usize),
        whole(tasks as usize),
        short(churn)
    );
    for replicas in numbers(&all) {
        let demand = Demand { frameworks, tasks, churn, replicas };
        let cells = match estimates(&demand, &of_replicas(&all, replicas.get())) {
            Ok(estimates) => DIVIDED.map(|name| value(&estimates, name)),
            Err(error) => [format!("not planned: {error:#}"), "–".to_owned()],
        };
        let cells: Vec<String> = [whole(replicas.get() as usize)].into_iter().chain(cells).collect();
        out += &row(&cells);
    }
    out
}

/// The numbers of replicas that the runs have.
fn numbers(all: &[Source]) -> Vec<NonZeroU32> {
    let number = |source: &Source| NonZeroU32::new(u32::try_from(source.run.replica_count()).ok()?);
    let mut numbers: Vec<NonZeroU32> = all.iter().filter_map(number).collect();
    numbers.dedup();
    numbers
}

/// The largest load that each number of replicas holds within limits.
fn held(report: &Report) -> String {
    let all = sources(std::slice::from_ref(report), SYSTEM, None);
    let tasks = DEMAND.1;
    let mut out = format!(
        "\n## What N replicas hold\nThe largest load in Frameworks of {} Tasks, extrapolated from the runs \
         above ([how to read it](#how-many-replicas)).\n",
        whole(tasks as usize)
    );
    for limits in &LIMITS {
        out += &format!("\n{}\n\n{}", limits.sentence(), table_of(tasks, &numbers(&all), limits, &all));
    }
    out
}

fn value(estimates: &[Estimate], name: &str) -> String {
    let found = estimates.iter().find(|estimate| estimate.name.starts_with(name));
    found.map_or_else(|| "–".to_owned(), |estimate| estimate.value.clone())
}
