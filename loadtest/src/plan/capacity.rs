//! The part of docs/capacity.md that comes from the reports in docs/reports.

use std::num::NonZeroU32;

use crate::number::{short, size, time, whole};
use crate::report::{Process, Report, Run};

use super::demand::Demand;
use super::estimate::{estimates, remarks};
use super::source::sources;

/// The line before the generated part of the document.
pub const BEGIN: &str = "<!-- Generated from docs/reports by \
    `UPDATE=1 cargo test -p framework-loadtest --test reports`. -->";
/// The line behind it.
pub const END: &str = "<!-- Generated until here. -->";

/// The system that the document plans for.
const SYSTEM: &str = "frameworkcontroller";

/// What the document plans for: Frameworks at one time, Tasks of each, Frameworks/s.
const DEMANDS: [(u32, u32, f64); 3] = [(1000, 20, 1.0), (10_000, 20, 3.0), (30_000, 20, 10.0)];

/// The generated part.
pub fn generated(reports: &[Report]) -> String {
    let found = sources(reports, SYSTEM, None);
    if found.is_empty() {
        return "No report is kept in `docs/reports` yet, so nothing is known beyond the floor.\n".into();
    }
    let mut out = measured(reports);
    for (frameworks, tasks, churn) in DEMANDS {
        let demand = Demand { frameworks, tasks, churn, replicas: NonZeroU32::MIN };
        out += &format!(
            "\n### {} Frameworks of {tasks} Tasks, {} Frameworks/s\n",
            whole(frameworks as usize),
            short(churn)
        );
        out += &format!("{}\n", demand.sentence());
        for remark in remarks(&demand, &found) {
            out += &format!("{remark}\n");
        }
        out += "\n| figure | needed | extrapolated from | how far |\n|---|---|---|---|\n";
        for one in estimates(&demand, &found) {
            out += &row(&[one.name, one.value, one.from, one.far]);
        }
    }
    out
}

/// One row for each run, whoever made it.
fn measured(reports: &[Report]) -> String {
    let titles = [
        "scenario",
        "system, profile",
        "write efficiency",
        "own requests/Task",
        "Tasks/s",
        "creation → first Task running, p99",
        "controller: processor time/Task",
        "peak memory",
        "API server: processor time/Task",
        "levels",
    ];
    let mut out = String::from("## Measured\n");
    for line in machines(reports) {
        out += &format!("- {line}\n");
    }
    out += &format!("\n{}|{}\n", row(&titles.map(str::to_owned)), "---|".repeat(titles.len()));
    // Units have no Pods: what they take is in docs/performance.md.
    for report in reports.iter().filter(|report| report.scenario.queue.is_none()) {
        out.extend(report.runs.iter().map(|run| row(&figures(report, run))));
    }
    out
}

fn machines(reports: &[Report]) -> Vec<String> {
    let said = |report: &Report| {
        let machine = &report.machine;
        let versions: Vec<String> =
            report.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let shared = if machine.shared_with_cluster { "everything" } else { "the load test alone" };
        format!(
            "{} × {}, {} for {shared}; {}; {}",
            machine.processors,
            machine.processor,
            size(machine.memory_bytes as f64),
            machine.kernel,
            versions.join(", "),
        )
        .replace(['\n', '\r'], " ")
    };
    let mut all: Vec<String> = Vec::new();
    for line in reports.iter().map(said) {
        if !all.contains(&line) {
            all.push(line);
        }
    }
    all
}

fn figures(report: &Report, run: &Run) -> [String; 10] {
    let dash = || "–".to_owned();
    let each =
        |one: Option<&Process>| one.map_or_else(dash, |one| time(one.cpu_milliseconds_per_task / 1000.0));
    let running = run.latencies.iter().find(|one| one.transition.ends_with("first Task running"));
    let met = run.levels.iter().filter(|level| level.met).count();
    let scenario = format!(
        "{} ({} × {})",
        report.scenario.name,
        whole(run.totals.jobs),
        short(run.totals.tasks as f64 / run.totals.jobs.max(1) as f64)
    );
    [
        scenario,
        run.title(),
        run.requests.write_efficiency.map_or_else(dash, short),
        if run.requests.source == "none" { dash() } else { short(run.requests.per_task) },
        if run.given_up.is_some() { "given up".into() } else { short(run.tasks_per_second) },
        running.map_or_else(dash, |latency| format!("{} of {}", time(latency.p99), whole(latency.count))),
        each(run.controller()),
        run.controller().map_or_else(dash, |one| size(one.rss_peak_bytes as f64)),
        each(run.process("kube-apiserver")),
        if met == run.levels.len() {
            format!("{met} met")
        } else {
            format!("{met} of {} met", run.levels.len())
        },
    ]
}

/// A row; what would end a cell is escaped.
fn row(cells: &[String]) -> String {
    let cells: Vec<String> =
        cells.iter().map(|cell| cell.replace('|', "\\|").replace(['\n', '\r'], " ")).collect();
    format!("| {} |\n", cells.join(" | "))
}
