//! The generated part of docs/capacity.md: plans that are extrapolated from the reports in docs/reports.

use std::num::NonZeroU32;

use crate::number::{rate, short, whole};
use crate::report::Report;

use super::demand::Demand;
use super::estimate::{Estimate, estimates};
use super::replicas;
use super::source::{PROFILE, SYSTEM, Source, fastest, of_replicas, sources};
use super::table::row;

/// The line before the generated part of the document.
pub const BEGIN: &str = "<!-- Generated from docs/reports by \
    `UPDATE=1 cargo test -p framework-loadtest --test reports`. -->";
/// The line after it.
pub const END: &str = "<!-- Generated until here. -->";

/// The plans of the document: Frameworks at one time, Tasks of each, Frameworks/s.
const DEMANDS: [(u32, u32, f64); 4] =
    [(1000, 20, 1.0), (5000, 20, 3.0), (15_000, 1, 5.0), (30_000, 20, 10.0)];

/// The generated part.
pub fn generated(reports: &[Report]) -> String {
    let mut found = of_replicas(&sources(reports, SYSTEM, None), 1);
    let is_default = |source: &Source| source.run.profile.starts_with(PROFILE);
    if found.iter().any(is_default) {
        found.retain(is_default);
    }
    if found.is_empty() {
        return "No report is kept in `docs/reports` yet, so nothing is known beyond the floor.\n".into();
    }
    status_writes(&found) + &planned(&found) + &replicas::generated(reports)
}

/// The status writes for each job, of the runs whose jobs are alike and succeed without a retry.
fn status_writes(sources: &[Source]) -> String {
    let mut out = String::from("## Status writes\n| scenario | status writes/job |\n|---|---|\n");
    for source in sources.iter().filter(|source| source.is_plain()) {
        let written = source.run.own_rows().filter(|row| row.resource == "frameworks/status");
        let sum: usize = written.map(|row| row.count).sum();
        if sum > 0 {
            let each = short(sum as f64 / source.run.totals.jobs as f64);
            out += &row(&[format!("{} ({})", source.report.scenario.name, source.run.totals.size()), each]);
        }
    }
    out + "\n"
}

/// All plans side by side, and the demands that are too far from the measured runs.
fn planned(sources: &[Source]) -> String {
    let (mut plans, mut refused) = (Vec::new(), Vec::new());
    let mut out = String::from("## Planned\n");
    for (frameworks, tasks, churn) in DEMANDS {
        let demand = Demand { frameworks, tasks, churn, replicas: NonZeroU32::MIN };
        let (jobs, size) = (whole(frameworks as usize), whole(tasks as usize));
        let title = format!("{jobs} × {size}, {}/s", short(churn));
        match estimates(&demand, sources) {
            Ok(estimates) => {
                out += &format!("- **{title}**: {}{}\n", demand.sentence(), unshown(&demand, sources));
                plans.push((title, estimates));
            }
            Err(error) => refused.push(format!("- **{title}** is not planned: {error:#}.\n")),
        }
    }
    out + &refused.concat() + &side_by_side(&plans)
}

/// A remark if no run was as fast as the demand.
fn unshown(demand: &Demand, sources: &[Source]) -> String {
    match fastest(sources) {
        Some(fastest) if demand.tasks_per_second() > fastest.run.throughput.tasks_per_second => format!(
            " No run was as fast: {} did {} on {}.",
            fastest.name(),
            rate(fastest.run.throughput.tasks_per_second, "Task"),
            fastest.machine()
        ),
        _ => String::new(),
    }
}

/// One column for each plan, one row for each figure. Numbers refer to the runs below the table.
fn side_by_side(plans: &[(String, Vec<Estimate>)]) -> String {
    if plans.is_empty() {
        return String::new();
    }
    let reference = |one: &Estimate| format!("{}: {}", one.from, one.distance).replace(['\n', '\r'], " ");
    let (mut names, mut runs): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    for one in plans.iter().flat_map(|(_, estimates)| estimates) {
        if !names.contains(&&*one.name) {
            names.push(&one.name);
        }
        let run = reference(one);
        if !runs.contains(&run) {
            runs.push(run);
        }
    }
    let titles: Vec<String> =
        ["figure"].into_iter().chain(plans.iter().map(|(title, _)| &**title)).map(str::to_owned).collect();
    let mut out = format!("\n{}|{}\n", row(&titles), "---|".repeat(titles.len()));
    for name in names {
        let cell = |(_, estimates): &(String, Vec<Estimate>)| {
            let Some(one) = estimates.iter().find(|one| one.name == name) else { return "–".to_owned() };
            let run = reference(one);
            let at = runs.iter().position(|known| *known == run).unwrap_or_default();
            format!("{} [{}]", one.value, at + 1)
        };
        let cells: Vec<String> = [name.to_owned()].into_iter().chain(plans.iter().map(cell)).collect();
        out += &row(&cells);
    }
    out += "\nExtrapolated from:\n";
    for (at, run) in runs.iter().enumerate() {
        out += &format!("- [{}] {run}\n", at + 1);
    }
    out
}
