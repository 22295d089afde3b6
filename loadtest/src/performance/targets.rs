//! The targets of the project: stricter than the levels of a scenario, or about several runs.

use crate::number::{short, size, time};
use crate::phase_names::{COMPLETED, STORED};
use crate::report::{Report, Run};

/// The two profiles of this controller, and what it is compared with.
const DROP_IN: (&str, &str) = ("frameworkcontroller", "drop-in defaults");
const RECOMMENDED: (&str, &str) = ("frameworkcontroller", "recommended");
const JOB: (&str, &str) = ("batch/v1 Job", "");
const ORIGINAL: (&str, &str) = ("the original", "");

/// The most bytes that the API server may allocate for a Task.
const ALLOCATED: [(&str, (&str, &str), f64); 4] = [
    ("burst-small", DROP_IN, 6.5e6),
    ("burst", DROP_IN, 2.6e6),
    ("burst", RECOMMENDED, 2.3e6),
    ("burst-large", DROP_IN, 2.2e6),
];
/// The least ratio of the bytes that it allocates for the original to those for *drop-in defaults*.
const FEWER: [(&str, f64); 2] = [("burst", 5.0), ("burst-small", 3.5)];
/// Scenarios that the `batch/v1` Job runs, too, and the least part of the rate that the bytes allow.
const COMPARED: [&str; 3] = ["burst-small", "burst", "burst-large"];
const LEAST_RATE: f64 = 0.95;
/// The largest processor time of the controller for a Task, in seconds.
const PROCESSOR: (&str, f64) = ("burst-large", 0.0008);
/// Two sizes of one Framework, and how much more a Task of the larger one may cost the controller.
const SIZES: ([&str; 2], f64) = (["large-single", "burst-large"], 1.1);

/// A row of the table.
struct Row {
    figure: &'static str,
    runs: String,
    bound: String,
    measured: String,
    is_met: bool,
}

/// The targets that the reports have figures for.
pub fn generated(reports: &[Report]) -> String {
    let (rows, across) = (rows(reports), across(reports));
    if rows.is_empty() && across.is_empty() {
        return String::new();
    }
    let mut out = "\n## Targets\n".to_owned();
    if !rows.is_empty() {
        out += "| figure | runs | target | measured | |\n|---|---|---|---|---|\n";
        for Row { figure, runs, bound, measured, is_met } in rows {
            out += &format!("| {figure} | {runs} | {bound} | {measured} | {} |\n", outcome(is_met));
        }
        out += "\n";
    }
    out + &across
}

fn rows(reports: &[Report]) -> Vec<Row> {
    let run = |name: &str, (system, profile): (&str, &str)| {
        let report = reports.iter().find(|report| report.scenario.name == name)?;
        report.runs.iter().find(|run| run.system == system && run.profile.starts_with(profile))
    };
    let bytes = |name, system| run(name, system)?.bytes.api_server_allocated_per_task;
    let processor = |name| Some(run(name, DROP_IN)?.controller()?.cpu_milliseconds_per_task / 1000.0);
    let most = |figure, runs, bound: f64, measured: f64, shown: fn(f64) -> String| Row {
        figure,
        runs,
        bound: format!("≤ {}", shown(bound)),
        measured: shown(measured),
        is_met: measured <= bound,
    };
    let least = |figure, runs: &str, bound: f64, measured: f64| Row {
        figure,
        runs: runs.to_owned(),
        bound: format!("≥ {}", short(bound)),
        measured: short(measured),
        is_met: measured >= bound,
    };
    let mut rows = Vec::new();
    for (name, system, bound) in ALLOCATED {
        let runs = format!("`{name}`, {}", system.1);
        rows.extend(
            bytes(name, system).map(|bytes| most("API server: allocated/Task", runs, bound, bytes, size)),
        );
    }
    for (name, bound) in FEWER {
        let fewer = bytes(name, ORIGINAL).zip(bytes(name, DROP_IN)).map(|(theirs, ours)| theirs / ours);
        let runs = format!("`{name}`");
        rows.extend(fewer.map(|fewer| least("allocated, the original's over ours", &runs, bound, fewer)));
    }
    for name in COMPARED {
        let rate = |system| Some(run(name, system)?.throughput.tasks_per_second * bytes(name, system)?);
        let over = rate(DROP_IN).zip(rate(JOB)).map(|(ours, jobs)| ours / jobs);
        let runs = format!("`{name}`");
        rows.extend(over.map(|over| least("rate over bytes", &runs, LEAST_RATE, over)));
    }
    let (name, bound) = PROCESSOR;
    rows.extend(
        processor(name).map(|seconds| {
            most("controller: processor time/Task", format!("`{name}`"), bound, seconds, time)
        }),
    );
    let ([larger, smaller], bound) = SIZES;
    rows.extend(processor(larger).zip(processor(smaller)).map(|(larger_time, smaller_time)| {
        let figure = "the same, 10,000 Tasks over 4,000";
        most(figure, format!("`{larger}`, `{smaller}`"), bound, larger_time / smaller_time, short)
    }));
    rows
}

/// Scenarios of one Framework each whose statuses are not compressed, by their Tasks.
const GROWTH: [&str; 2] = ["single-100", "single-1000"];
/// The exponent with which bytes may grow with Tasks.
const LARGEST_SLOPE: f64 = 1.10;
/// Small Frameworks beside a large one, and alone.
const FAIRNESS: [&str; 2] = ["mixed-sizes", "small-alone"];
/// The share by which a large Framework may lengthen the p99 of small ones.
const LARGEST_RISE: f64 = 0.20;

/// Growth with Tasks, and fairness.
fn across(reports: &[Report]) -> String {
    let report = |name: &str| reports.iter().find(|report| report.scenario.name == name);
    let run = |name: &str| report(name)?.runs.first();
    let mut out = String::new();
    let points: Option<Vec<(f64, f64)>> = GROWTH
        .iter()
        .map(|name| {
            let run = run(name)?;
            let tasks = run.totals.tasks as f64;
            Some((tasks.ln(), (run.bytes.status_writes_per_task? * tasks).ln()))
        })
        .collect();
    if let Some(slope) = points.as_deref().and_then(slope) {
        out += &format!(
            "- Bytes of uncompressed status writes over Tasks, both as logarithms ({}): slope {slope:.2}; \
             target at most {LARGEST_SLOPE:.2}: {}.\n",
            GROWTH.join(", "),
            outcome(slope <= LARGEST_SLOPE)
        );
    }
    let rise = |transition: &str| {
        let small = |name| p99_of_group(run(name)?, "small", transition);
        let [beside, alone] = FAIRNESS.map(small);
        let (beside, alone) = (beside?, alone?);
        let rise = beside / alone - 1.0;
        let shown = format!(
            "{} alone, {} beside one of 10,000 Tasks: {:+.0} %",
            time(alone),
            time(beside),
            rise * 100.0
        );
        Some((rise, shown))
    };
    let arrival = report(FAIRNESS[0]).and_then(|report| Some(arrival(report, report.runs.first()?)));
    if let (Some((rise, shown)), Some(arrival)) = (rise(COMPLETED), arrival) {
        out += &format!(
            "- p99 of small Frameworks from creation to completion: {shown}; target at most {:+.0} %: {}. \
             They arrive at {arrival} ({}).\n",
            LARGEST_RISE * 100.0,
            outcome(rise <= LARGEST_RISE),
            FAIRNESS.join(", "),
        );
    }
    if let Some((_, shown)) = rise(STORED) {
        // These requests of the load test share the API server with the large Framework, but no budget.
        out += &format!("- p99 of the load test's own requests to create them: {shown}.\n");
    }
    out
}

fn outcome(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

/// The rate of the small Frameworks, and the settings of the controller.
fn arrival(report: &Report, run: &Run) -> String {
    let group = report.scenario.groups.iter().find(|group| group.name == "small");
    let rate = group
        .and_then(|group| group.per_second)
        .map_or("all at once".into(), |per_second| format!("{} a second", short(per_second)));
    format!("{rate}, {}", run.profile)
}

/// The slope of the line of least squares; `None`: it has none.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let over: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (over > 0.0).then_some(both / over)
}

fn p99_of_group(run: &Run, group: &str, transition: &str) -> Option<f64> {
    let of = run.latencies.iter().find(|latency| latency.group == group && latency.transition == transition);
    Some(of?.p99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_the_line_of_least_squares() {
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), Some(2.0));
        assert_eq!(slope(&[(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)]), Some(0.0));
        assert_eq!(slope(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }
}
