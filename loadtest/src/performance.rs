//! The part of docs/performance.md that comes from the reports in docs/reports: each scenario with all
//! systems that did its work, and the ratios to the first.

use crate::number::{ratio, short, size, time, whole};
use crate::report::{Report, Run};

/// One column: its title, and the figure of a run with how it is shown.
type Column = (&'static str, fn(&Run) -> Option<f64>, fn(f64) -> String);

const COMPLETED: &str = "creation → completed";
const STORED: &str = "creation → stored";

/// Times and rates depend on the machine: they are shown with their ratio to the first system.
const COMPARED: [Column; 4] = [
    ("Tasks/s", |run| Some(run.tasks_per_second), short),
    ("API server: processor time/Task", |run| each(run, "kube-apiserver"), time),
    ("first Task running, p99", |run| worst(run, "creation → first Task running"), time),
    ("completed, p99", |run| worst(run, COMPLETED), time),
];

/// Counts and sizes speak for themselves.
const COUNTED: [Column; 6] = [
    ("requests/Task", |run| counted(run, run.requests.per_task), short),
    ("write efficiency", |run| run.requests.write_efficiency, short),
    ("against 2n + 8", |run| run.requests.write_efficiency_strict, short),
    ("refused", |run| counted(run, run.requests.refused as f64), short),
    ("status bytes/Task", |run| run.bytes.status_writes_per_task, size),
    ("peak memory", |run| run.controller().map(|process| process.rss_peak_bytes as f64), size),
];

/// Of units that have no Pods, other things are of interest.
const QUEUED: [Column; 10] = [
    ("releases/s", |run| Some(run.queue.as_ref()?.releases_per_second), short),
    ("Enqueued, p99", |run| worst(run, "creation → Enqueued"), time),
    ("Dequeued, p99", |run| worst(run, "creation → Dequeued"), time),
    ("requests/unit", |run| counted(run, run.requests.per_job), short),
    ("refused", |run| counted(run, run.requests.refused as f64), short),
    ("beyond the quota", |run| run.queue.as_ref()?.over_admitted.map(|over| over as f64), short),
    ("turns within, p99", |run| run.queue.as_ref()?.turn_p99_seconds, time),
    ("API server: processor time/unit", |run| each(run, "kube-apiserver"), time),
    ("controller: processor time/unit", |run| each(run, "frameworkcontroller"), time),
    ("peak memory", |run| run.controller().map(|process| process.rss_peak_bytes as f64), size),
];

/// The generated part.
pub fn generated(reports: &[Report]) -> String {
    if reports.is_empty() {
        return "No report is kept in `docs/reports` yet.\n".into();
    }
    let mut out = across(reports);
    for report in reports {
        out += &chapter(report);
    }
    out
}

/// Scenarios of one Framework each: how the bytes of its statuses grow with its Tasks.
const GROWTH: [&str; 3] = ["single-100", "single-1000", "large-single"];
/// Small Frameworks beside a large one, and alone.
const FAIRNESS: [&str; 2] = ["mixed-sizes", "small-alone"];

/// What only several scenarios together can tell.
fn across(reports: &[Report]) -> String {
    let run = |name: &str| reports.iter().find(|report| report.scenario.name == name)?.runs.first();
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
            "- Bytes of status writes over Tasks, both as logarithms ({}): slope {slope:.2}; bound 1.10.\n",
            GROWTH.join(", ")
        );
    }
    let rise = |transition: &str| {
        let small = |name| p99(run(name)?, "small", transition);
        let [beside, alone] = FAIRNESS.map(small);
        let (beside, alone) = (beside?, alone?);
        let rise = (beside / alone - 1.0) * 100.0;
        Some(format!("{} alone, {} beside one of 10,000 Tasks, {rise:+.0} %", time(alone), time(beside)))
    };
    if let Some(rise) = rise(COMPLETED) {
        out += &format!("- p99 of small Frameworks from creation to completion: {rise}; bound +20 %.\n");
    }
    if let Some(rise) = rise(STORED) {
        // Who sends one request at a time shares no budget with the large one, but the API server.
        out += &format!(
            "- p99 of the API server's answer to the load test, which creates them and shares no budget with the \
             controller: {rise}.\n"
        );
    }
    if out.is_empty() { out } else { format!("\n## Several scenarios together\n{out}") }
}

/// Of the line of least squares; `None`: it has none.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let over: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (over > 0.0).then_some(both / over)
}

fn p99(run: &Run, group: &str, transition: &str) -> Option<f64> {
    let of = run.latencies.iter().find(|latency| latency.group == group && latency.transition == transition);
    Some(of?.p99)
}

fn chapter(report: &Report) -> String {
    let scenario = &report.scenario;
    let has_queues = scenario.queue.is_some();
    let (compared, counted): (&[Column], &[Column]) =
        if has_queues { (&[], &QUEUED) } else { (&COMPARED, &COUNTED) };
    let work = match has_queues {
        true => format!("{} QueueUnits", whole(scenario.jobs())),
        false => format!("{} jobs, {} Tasks", whole(scenario.jobs()), whole(scenario.tasks())),
    };
    let mut out = format!("\n## {}: {work}\n{}\n\n", scenario.name, scenario.description);
    let titles = compared.iter().chain(counted).map(|(title, ..)| *title);
    out += &format!("| system, settings | {} | levels |\n", titles.collect::<Vec<_>>().join(" | "));
    out += &format!("|{}\n", "---|".repeat(compared.len() + counted.len() + 2));
    for run in &report.runs {
        let mut cells = vec![run.title()];
        cells.extend(compared.iter().map(|(_, figure, shown)| {
            let (own, first) = (figure(run), report.runs.first().and_then(figure));
            match (own, first) {
                (Some(own), Some(first)) if report.runs.len() > 1 => {
                    format!("{} ({})", shown(own), ratio(first, own))
                }
                (Some(own), _) => shown(own),
                (None, _) => "–".into(),
            }
        }));
        let plain = counted.iter().map(|(_, figure, shown)| figure(run).map_or("–".into(), shown));
        cells.extend(plain);
        cells.push(levels(run));
        out += &format!("| {} |\n", cells.join(" | ").replace(['\n', '\r'], " "));
    }
    out
}

/// All kept, or those that were missed by name.
fn levels(run: &Run) -> String {
    if let Some(why) = &run.given_up {
        return format!("given up: {why}");
    }
    let missed = run.levels.iter().filter(|level| !level.met);
    let missed: Vec<String> = missed.map(|level| format!("missed: {} {}", level.name, level.bound)).collect();
    if missed.is_empty() { "kept".into() } else { missed.join(", ") }
}

fn counted(run: &Run, count: f64) -> Option<f64> {
    (run.requests.source != "none").then_some(count)
}

fn each(run: &Run, process: &str) -> Option<f64> {
    Some(run.process(process)?.cpu_milliseconds_per_task / 1000.0)
}

/// Of the group that took longest.
fn worst(run: &Run, transition: &str) -> Option<f64> {
    let of = run.latencies.iter().filter(|latency| latency.transition == transition);
    of.map(|latency| latency.p99).max_by(f64::total_cmp)
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
