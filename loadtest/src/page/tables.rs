//! The tables of one run.

use std::cmp::Reverse;

use crate::number::{count, short, size, time, whole};
use crate::report::{Kill, Latency, Level, Process, Replica, Report, RequestRow, Run};

use super::headline::FEW;
use super::html::{Cell, Html, of_class, plain, table, tag, text};

/// Beyond this number of rows, requests of other clients are folded away.
const ROWS: usize = 12;

/// All tables of a run below its title.
pub fn of_run(report: &Report, run: &Run) -> Html {
    let parts = [
        titled("Levels", levels(run)),
        titled("Latencies", latencies(run)),
        titled("Time in each state", states(run)),
        titled("Processes", processes(run)),
        titled("Replicas", replicas(run)),
        titled("Killed replicas", kills(run)),
        titled("Totals", totals(run)),
        titled("Requests", requests(run)),
    ];
    [plain("h2", report.name_of(run)), plain("p", setup(run)), of_class("div", "parts", parts)]
        .into_iter()
        .collect()
}

fn titled(title: &str, content: Html) -> Html {
    match content.is_empty() {
        true => content,
        false => of_class("section", "part", [plain("h3", title), content]),
    }
}

fn setup(run: &Run) -> String {
    let begun = run.started_at.strftime("%Y-%m-%d %H:%M:%S UTC");
    let profile = if run.profile.is_empty() { String::new() } else { format!("{}. ", run.profile) };
    format!("{profile}Started {begun}, took {}.", time(run.elapsed_seconds))
}

fn levels(run: &Run) -> Html {
    let row = |level: &Level| {
        let (class, verdict) = if level.met { ("good", "met") } else { ("bad", "missed") };
        vec![
            Cell::words(&level.name),
            Cell::number(&level.bound),
            Cell::number(level.measured.map_or("not measured".into(), short)),
            Cell::of_class(class, text(verdict)),
        ]
    };
    table(&["level", "promised", "measured", ""], run.levels.iter().map(row).collect())
}

fn latencies(run: &Run) -> Html {
    let rows: Vec<Vec<Cell>> = run.latencies.iter().map(latency).collect();
    let few = run.latencies.iter().any(|latency| latency.count < FEW);
    let remark = "In parentheses: the percentile of so few jobs that it is only the slowest job.";
    let remark = if few { tag("p", &[("class", "quiet")], [text(remark)]) } else { Html::default() };
    [table(&["from → to", "jobs", "p50", "p90", "p99", "max"], rows), remark].into_iter().collect()
}

/// A row for each state that Frameworks were seen in; empty for other jobs, and for older reports.
fn states(run: &Run) -> Html {
    let mut rows: Vec<Vec<Cell>> = run.totals.states.iter().map(latency).collect();
    // The names are long, and do not break on a narrow screen.
    rows.iter_mut().for_each(|row| drop(row.remove(P90)));
    if rows.is_empty() {
        return Html::default();
    }
    let remark = "From the first watch event with a state to that of the next state. States that are passed \
                  within one status write do not appear.";
    let table = table(&["state", "seen", "p50", "p99", "max"], rows);
    [table, tag("p", &[("class", "quiet")], [text(remark)])].into_iter().collect()
}

/// Its place in a row of a latency.
const P90: usize = 3;

fn latency(latency: &Latency) -> Vec<Cell> {
    let percentile = |seconds: f64, share: f64| {
        let alone = (latency.count as f64 * share).ceil() >= latency.count as f64;
        Cell::number(if alone { format!("({})", time(seconds)) } else { time(seconds) })
    };
    vec![
        Cell::named(&latency.transition, &latency.group),
        Cell::number(whole(latency.count)),
        percentile(latency.p50, 0.5),
        percentile(latency.p90, 0.9),
        percentile(latency.p99, 0.99),
        Cell::number(time(latency.max)),
    ]
}

fn totals(run: &Run) -> Html {
    let totals = &run.totals;
    let mut rows = vec![
        ("jobs".into(), whole(totals.jobs)),
        ("Tasks".into(), whole(totals.tasks)),
        ("Pods, retries included".into(), run.pods().map_or("not known".into(), whole)),
    ];
    rows.extend(totals.peak_tasks.map(|tasks| ("Tasks at one time, at most".into(), whole(tasks))));
    rows.extend(
        totals.outcomes.iter().map(|(outcome, jobs)| (format!("jobs that are {outcome}"), whole(*jobs))),
    );
    rows.push(("jobs/s".into(), short(run.throughput.jobs_per_second)));
    rows.push(("Tasks/s".into(), short(run.throughput.tasks_per_second)));
    if let Some(queue) = &run.queue {
        rows.push(("released units".into(), whole(queue.releases)));
        rows.extend(queue.releases_per_second.map(|rate| ("releases/s".into(), short(rate))));
        let turns = [("99 of 100", queue.turn_p99_seconds), ("all", queue.turn_max_seconds)];
        rows.extend(turns.into_iter().filter_map(|(which, within)| {
            Some((format!("{which} turns of the controller within"), time(within?)))
        }));
        rows.extend(queue.over_admitted.map(|over| ("releases beyond the quota".into(), whole(over))));
    }
    rows.extend(
        run.queue_age_seconds.map(|age| ("longest wait of an event for its evaluation".into(), time(age))),
    );
    let bytes = &run.bytes;
    rows.extend(bytes.status_writes.map(|bytes| ("bytes of status writes".into(), size(bytes as f64))));
    rows.extend(
        bytes
            .status_writes_per_task
            .map(|bytes| ("bytes of status writes for each Task".into(), size(bytes))),
    );
    rows.extend(bytes.store_growth.map(|bytes| ("growth of the store".into(), size(bytes as f64))));
    rows.extend(bytes.watch_events.map(|bytes| ("bytes of watch events".into(), size(bytes as f64))));
    rows.extend(run.received().map(|bytes| ("bytes that the controller received".into(), size(bytes))));
    let allocated =
        [bytes.api_server_allocated_per_task.map(size), bytes.api_server_objects_per_task.map(short)];
    if let [Some(bytes), Some(objects)] = allocated {
        rows.push((
            "allocated by the API server for each Task".into(),
            format!("{bytes}, {objects} objects"),
        ));
    }
    let row = |(name, value): (String, String)| vec![Cell::words(name), Cell::number(value)];
    table(&["", ""], rows.into_iter().map(row).collect())
}

fn requests(run: &Run) -> Html {
    let requests = &run.requests;
    if requests.source == "none" {
        return plain("p", "The requests are not known.");
    }
    let mut known = format!(
        "From the {}: {} on {}, {} of them refused, {} (GET or LIST)",
        requests.source,
        count(requests.own, "own request"),
        if run.queue.is_some() { "QueueUnits" } else { "jobs, ConfigMaps and Pods" },
        whole(requests.refused),
        count(requests.reads, "read")
    );
    if let Some(floor) = requests.floor {
        known += &format!("; the work needs {}", whole(floor));
    }
    known += &match requests.unreconciled {
        None => ". The controller's own count is not known.".to_owned(),
        Some(0) => ". The controller counted the same.".to_owned(),
        Some(difference) => format!(". The controller's own count differs by {difference}."),
    };
    let mut rows: Vec<&RequestRow> = requests.rows.iter().collect();
    rows.sort_by_key(|row| (!run.is_own(row), Reverse(row.count), *row));
    let own = rows.iter().filter(|row| run.is_own(row)).count();
    let behind = if rows.len() > ROWS { rows.split_off(ROWS.max(own).min(rows.len())) } else { Vec::new() };
    [plain("p", known), request_table(&rows), folded(&behind)].into_iter().collect()
}

fn folded(rows: &[&RequestRow]) -> Html {
    if rows.is_empty() {
        return Html::default();
    }
    let sum = rows.iter().map(|row| row.count).sum();
    let summary = plain("summary", format!("{}, {}", count(rows.len(), "more row"), count(sum, "request")));
    tag("details", &[], [summary, request_table(rows)])
}

fn request_table(rows: &[&RequestRow]) -> Html {
    let row = |row: &&RequestRow| {
        vec![
            Cell::words(&row.client),
            Cell::words(format!("{} {}", row.verb, row.resource)),
            if row.code >= 400 { Cell::alarm(row.code) } else { Cell::number(row.code) },
            Cell::number(whole(row.count)),
        ]
    };
    table(&["client", "request", "code", "count"], rows.iter().map(row).collect())
}

fn processes(run: &Run) -> Html {
    let row = |process: &Process| {
        let memory = |bytes: u64| Cell::number(size(bytes as f64));
        vec![
            Cell::words(&process.name),
            Cell::remarked(
                time(process.cpu_seconds),
                format!("{} a Task", time(process.cpu_milliseconds_per_task / 1000.0)),
            ),
            memory(process.rss_before_bytes),
            memory(process.rss_after_bytes),
            memory(process.rss_peak_bytes),
        ]
    };
    let titles = ["process", "processor time", "memory before", "after", "peak"];
    table(&titles, run.used.processes.iter().map(row).collect())
}

/// A row for each replica of the controller; empty if there is one.
fn replicas(run: &Run) -> Html {
    if run.used.replicas.len() < 2 {
        return Html::default();
    }
    let cell = |shown: Option<String>| Cell::number(shown.unwrap_or_else(|| "not known".into()));
    let row = |(at, replica): (usize, &Replica)| {
        let process = replica.process.as_ref();
        vec![
            Cell::words(format!("replica {}", at + 1)),
            cell(replica.slots.map(whole)),
            cell(replica.requests.map(whole)),
            cell(replica.received_bytes.map(|bytes| size(bytes as f64))),
            cell(process.map(|process| time(process.cpu_seconds))),
            cell(process.map(|process| size(process.rss_before_bytes as f64))),
            cell(process.map(|process| size(process.rss_peak_bytes as f64))),
        ]
    };
    let titles = ["", "slots", "own requests", "received", "processor time", "memory before", "peak"];
    table(&titles, run.used.replicas.iter().enumerate().map(row).collect())
}

/// A row for each replica that was killed; empty if none was.
fn kills(run: &Run) -> Html {
    let row = |kill: &Kill| vec![Cell::words(&kill.replica), Cell::number(time(kill.at_seconds))];
    let rows: Vec<Vec<Cell>> = run.totals.kills.iter().map(row).collect();
    if rows.is_empty() { Html::default() } else { table(&["Pod", "killed after"], rows) }
}
