//! The generated part of docs/performance.md: the machines of the reports in docs/reports, and each scenario
//! with all systems that ran it and their ratios to the first.

use std::collections::BTreeMap;

use crate::number::{count, ratio, short, size, time, whole};
use crate::phase_names::{COMPLETED, DEQUEUED, ENQUEUED, RUNNING};
use crate::report::{Report, RequestRow, Run};

mod charts;
mod targets;

pub use charts::{Chart, charts};

/// One column: its title, the figure of a run, and how that is shown.
type Column = (&'static str, fn(&Run) -> Option<f64>, fn(f64) -> String);

/// The title of the one figure that a scenario without running Tasks does not have.
const SPEED: &str = "Tasks/s";

/// Times and rates depend on the machine: they are shown with their ratio to the first system.
const COMPARED: [Column; 4] = [
    (SPEED, |run| Some(run.throughput.tasks_per_second), short),
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
    ("releases/s", |run| run.queue.as_ref()?.releases_per_second, short),
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
    let mut out =
        machines(reports) + &targets::generated(reports) + &requests(reports) + &processors_of(reports);
    for report in reports {
        out += &chapter(report);
    }
    out
}

/// The scenario whose requests are listed.
const LISTED: &str = "burst";
/// The resources of its work.
const WORK: [&str; 6] = ["frameworks", "frameworks/status", "configmaps", "pods", "pods/status", "events"];

/// The requests of all clients on the objects of one scenario, in its first run.
fn requests(reports: &[Report]) -> String {
    let Some(report) = reports.iter().find(|report| report.scenario.name == LISTED) else {
        return String::new();
    };
    let Some(run) = report.runs.first() else { return String::new() };
    let mut clients: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let is_of_work = |row: &&RequestRow| WORK.contains(&&*row.resource) && row.verb != "watch";
    for row in run.requests.rows.iter().filter(is_of_work) {
        let refused = if row.code < 400 { String::new() } else { format!(" refused with {}", row.code) };
        let request = format!("{} {} {}{refused}", whole(row.count), row.verb, row.resource);
        clients.entry(&row.client).or_default().push(request);
    }
    let jobs = count(report.scenario.jobs(), "Framework");
    let tasks = count(report.scenario.tasks(), "Task");
    let mut out = format!("\n## Requests of {jobs} with {tasks}\n{LISTED}, {}:\n\n", run.title());
    out += "| client | requests |\n|---|---|\n";
    for (client, requests) in clients {
        out += &format!("| {client} | {} |\n", requests.join(", "));
    }
    out
}

/// The processes whose processor time is listed.
const PROCESSES: [&str; 5] =
    ["kube-apiserver", "etcd", "kwok", "kube-controller-manager", "frameworkcontroller"];

/// The processor time of each process for a Task, for the scenarios that several systems run.
fn processors_of(reports: &[Report]) -> String {
    let mut rows = String::new();
    for report in reports.iter().filter(|report| report.runs.len() > 2) {
        for run in &report.runs {
            let used: f64 = run.used.processes.iter().map(|process| process.cpu_seconds).sum();
            let busy = 100.0 * used / (run.elapsed_seconds * report.machine.processors as f64);
            let each = PROCESSES.map(|name| each(run, name).map_or("–".into(), time));
            let (name, title) = (&report.scenario.name, run.title());
            rows += &format!("| {name}: {title} | {} | {busy:.0} % |\n", each.join(" | "));
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let head = format!("| system, settings | {} | processors busy |\n", PROCESSES.join(" | "));
    format!("\n## Processor time of a Task\n{head}|{}\n{rows}", "---|".repeat(PROCESSES.len() + 2))
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
