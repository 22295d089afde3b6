//! The generated part of docs/performance.md: the machines of the reports in docs/reports, and each scenario
//! with all systems that ran it and their ratios to the first.

use crate::number::{count, ratio, short, size, time};
use crate::phase_names::{COMPLETED, DEQUEUED, ENQUEUED, RUNNING, STORED};
use crate::report::{Report, Run};

mod charts;

pub use charts::{Chart, charts};

/// One column: its title, the figure of a run, and how that is shown.
type Column = (&'static str, fn(&Run) -> Option<f64>, fn(f64) -> String);

/// The title of the one figure that a scenario without running Tasks does not have.
const SPEED: &str = "Tasks/s";

/// Times and rates depend on the machine: they are shown with their ratio to the first system.
const COMPARED: [Column; 4] = [
    (SPEED, |run| Some(run.tasks_per_second), short),
    ("API server: processor time/Task", |run| each(run, "kube-apiserver"), time),
    ("first Task running, p99", |run| p99(run, RUNNING), time),
    ("completed, p99", |run| p99(run, COMPLETED), time),
];

/// The other figures are shown without a ratio.
const COUNTED: [Column; 7] = [
    ("requests/Task", |run| counted(run, run.requests.per_task), short),
    ("write efficiency", |run| run.requests.write_efficiency, short),
    ("refused", |run| counted(run, run.requests.refused as f64), short),
    ("API server: allocated/Task", |run| run.bytes.api_server_allocated_per_task, size),
    ("status bytes/Task", |run| run.bytes.status_writes_per_task, size),
    (
        "controller: processor time/Task",
        |run| run.controller().map(|process| process.cpu_milliseconds_per_task / 1000.0),
        time,
    ),
    ("peak memory", |run| run.controller().map(|process| process.rss_peak_bytes as f64), size),
];

/// The figures of QueueUnits, which have no Pods.
const QUEUED: [Column; 10] = [
    ("releases/s", |run| Some(run.queue.as_ref()?.releases_per_second), short),
    ("Enqueued, p99", |run| p99(run, ENQUEUED), time),
    ("Dequeued, p99", |run| p99(run, DEQUEUED), time),
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
    let mut out = machines(reports) + &across(reports);
    for report in reports {
        out += &chapter(report);
    }
    out
}

/// Each machine with its versions, once.
fn machines(reports: &[Report]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for report in reports {
        let machine = &report.machine;
        let versions: Vec<String> =
            report.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let line = format!(
            "- {}, {} for {}; {}; {}\n",
            processors(report),
            size(machine.memory_bytes as f64),
            if machine.shared_with_cluster { "cluster and load test" } else { "the load test alone" },
            machine.kernel,
            versions.join(", "),
        );
        let line = line.trim_end().replace(['\n', '\r'], " ") + "\n";
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    format!("## Machines and versions\n{}", lines.concat())
}

fn processors(report: &Report) -> String {
    format!("{} × {}", report.machine.processors, report.machine.processor)
}

/// Scenarios of one Framework each whose statuses are not compressed, by their Tasks.
const GROWTH: [&str; 2] = ["single-100", "single-1000"];
/// The exponent with which bytes may grow with Tasks.
const LARGEST_SLOPE: f64 = 1.10;
/// Small Frameworks beside a large one, and alone.
const FAIRNESS: [&str; 2] = ["mixed-sizes", "small-alone"];
/// The share by which a large Framework may lengthen the p99 of small ones.
const LARGEST_RISE: f64 = 0.20;

/// The figures that need several scenarios.
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
    if out.is_empty() { out } else { format!("\n## Several scenarios together\n{out}") }
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

fn chapter(report: &Report) -> String {
    let scenario = &report.scenario;
    let has_queues = scenario.queue.is_some();
    let (compared, counted): (&[Column], &[Column]) =
        if has_queues { (&[], &QUEUED) } else { (&COMPARED, &COUNTED) };
    let work = match has_queues {
        true => count(scenario.jobs(), "QueueUnit"),
        false => format!("{}, {}", count(scenario.jobs(), "job"), count(scenario.tasks(), "Task")),
    };
    let mut out = format!("\n## {}: {work}\n{} {}\n\n", scenario.name, scenario.description, setting(report));
    let titles = compared.iter().chain(counted).map(|(title, ..)| *title);
    out += &format!("| system, settings | {} | levels |\n", titles.collect::<Vec<_>>().join(" | "));
    out += &format!("|{}\n", "---|".repeat(compared.len() + counted.len() + 2));
    for run in &report.runs {
        let mut cells = vec![run.title()];
        cells.extend(compared.iter().map(|(title, figure, shown)| {
            let known = |run: &Run| figure(run).filter(|_| *title != SPEED || scenario.runs_tasks());
            let (own, first) = (known(run), report.runs.first().and_then(known));
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

/// The machine, the day, and the most Tasks at one time.
fn setting(report: &Report) -> String {
    let first = report.runs.first();
    let day = first.map(|run| format!(", {}", run.started_at.strftime("%Y-%m-%d"))).unwrap_or_default();
    let peak = first.and_then(|run| run.totals.peak_tasks).filter(|_| report.scenario.runs_tasks());
    let peak = peak.map(|peak| format!("; at most {} at one time", count(peak, "Task"))).unwrap_or_default();
    format!("({}{day}{peak})", processors(report))
}

/// `met`, or the names of the missed levels.
fn levels(run: &Run) -> String {
    if let Some(why) = &run.given_up {
        return format!("given up: {why}");
    }
    let missed = run.levels.iter().filter(|level| !level.met);
    let missed: Vec<String> = missed.map(|level| format!("missed: {} {}", level.name, level.bound)).collect();
    if missed.is_empty() { "met".into() } else { missed.join(", ") }
}

fn counted(run: &Run, count: f64) -> Option<f64> {
    (run.requests.source != "none").then_some(count)
}

fn each(run: &Run, process: &str) -> Option<f64> {
    Some(run.process(process)?.cpu_milliseconds_per_task / 1000.0)
}

/// The p99 of the slowest group.
fn p99(run: &Run, transition: &str) -> Option<f64> {
    run.slowest(transition, |latency| latency.p99)
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
