//! The figures of a run that can be compared with those of another run.

use crate::number::{short, size, time, whole};
use crate::report::{Latency, Run};

/// The name of the bytes that the API server allocated.
const ALLOCATED: &str = "bytes that the API server allocated for each Task";

/// The kind of a figure: it decides the unit and the share that is noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A count.
    Count,
    /// A count that is smaller when changes coincide, such as that of status writes.
    Coalesced,
    /// A number of allocated objects.
    Objects,
    /// A quotient of counts.
    Share,
    /// Bytes written.
    Written,
    /// A latency in seconds, and the number of samples beyond the percentile.
    Time {
        /// At least 1.
        beyond: f64,
    },
    /// A rate.
    Rate,
    /// Processor time in seconds.
    Processor,
    /// Bytes of memory.
    Memory,
}

/// The direction in which a figure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The smaller.
    Less,
    /// The larger.
    More,
    /// Neither: a change in any direction is worse.
    Same,
}

/// One figure of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its kind.
    pub kind: Kind,
    /// Its direction.
    pub better: Better,
    /// Whether it belongs in a short comparison.
    pub short: bool,
}

impl Figure {
    fn new(name: impl Into<String>, value: f64, kind: Kind, better: Better) -> Figure {
        Figure { name: name.into(), value, kind, better, short: false }
    }

    fn short(mut self) -> Figure {
        self.short = true;
        self
    }

    /// The value as people read it.
    pub fn shown(&self) -> String {
        match self.kind {
            // Counts are far below the numbers that a cast would change.
            Kind::Count | Kind::Coalesced | Kind::Objects => whole(self.value as usize),
            Kind::Share | Kind::Rate => short(self.value),
            Kind::Written | Kind::Memory => size(self.value),
            Kind::Time { .. } | Kind::Processor => time(self.value),
        }
    }
}

/// All figures of a run, the most important first. Two runs of the same work have figures of the same names.
pub fn figures(run: &Run) -> Vec<Figure> {
    let mut all = Vec::new();
    if let Some(efficiency) = run.requests.write_efficiency {
        all.push(Figure::new("write efficiency", efficiency, Kind::Share, Better::More).short());
    }
    all.push(Figure::new("jobs/s", run.throughput.jobs_per_second, Kind::Rate, Better::More).short());
    all.push(Figure::new("Tasks/s", run.throughput.tasks_per_second, Kind::Rate, Better::More).short());
    if let Some(queue) = &run.queue {
        all.extend(
            queue
                .releases_per_second
                .map(|rate| Figure::new("releases/s", rate, Kind::Rate, Better::More).short()),
        );
        all.extend(queue.over_admitted.map(|over| {
            Figure::new("units beyond the quota", over as f64, Kind::Count, Better::Less).short()
        }));
    }
    // The lag of fake nodes is not a figure of the system.
    let own = run.latencies.iter().filter(|latency| latency.group != "fake nodes");
    all.extend(own.flat_map(percentiles));
    if let Some(age) = run.queue_age_seconds {
        all.push(Figure::new("longest wait of an event", age, Kind::Time { beyond: 1.0 }, Better::Less));
    }
    all.extend(requests(run));
    let written = [
        ("bytes of status writes", run.bytes.status_writes.map(|bytes| bytes as f64)),
        ("growth of the store", run.bytes.store_growth.map(|bytes| bytes as f64)),
        ("bytes of watch events", run.bytes.watch_events.map(|bytes| bytes as f64)),
        ("bytes that the controller received", run.received()),
        (ALLOCATED, run.bytes.api_server_allocated_per_task),
    ];
    all.extend(
        written
            .into_iter()
            .filter_map(|(name, bytes)| Some(Figure::new(name, bytes?, Kind::Written, Better::Less).short())),
    );
    all.extend(run.bytes.api_server_objects_per_task.map(|objects| {
        let name = "objects that the API server allocated for each Task";
        Figure::new(name, objects, Kind::Objects, Better::Less).short()
    }));
    // Other watched processes are not compared.
    let processes = [
        ("the controller", run.controller()),
        ("kube-apiserver", run.process("kube-apiserver")),
        ("etcd", run.process("etcd")),
    ];
    for (name, process) in processes {
        let Some(process) = process else { continue };
        let peak = process.rss_peak_bytes as f64;
        let time = format!("{name}: processor time");
        all.push(Figure::new(time, process.cpu_seconds, Kind::Processor, Better::Less).short());
        all.push(Figure::new(format!("{name}: peak memory"), peak, Kind::Memory, Better::Less).short());
    }
    all.extend(run.pods().map(|pods| Figure::new("Pods", pods as f64, Kind::Count, Better::Less)));
    all.extend(run.totals.outcomes.iter().map(|(outcome, jobs)| {
        Figure::new(format!("jobs that are {outcome}"), *jobs as f64, Kind::Count, Better::Same)
    }));
    all
}

/// The number of samples at or beyond a percentile, at least 1.
fn beyond(count: usize, share: f64) -> f64 {
    (count as f64 * (1.0 - share)).max(1.0)
}

fn percentiles(latency: &Latency) -> Vec<Figure> {
    let figure = |name: &str, value, share| {
        let kind = Kind::Time { beyond: beyond(latency.count, share) };
        Figure::new(format!("{} ({}), {name}", latency.transition, latency.group), value, kind, Better::Less)
    };
    vec![
        figure("p50", latency.p50, 0.5).short(),
        figure("p90", latency.p90, 0.9),
        figure("p99", latency.p99, 0.99).short(),
        figure("max", latency.max, 1.0),
    ]
}

fn requests(run: &Run) -> Vec<Figure> {
    let requests = &run.requests;
    if requests.source == "none" {
        return Vec::new();
    }
    let count = |name: String, count: usize| Figure::new(name, count as f64, Kind::Count, Better::Less);
    let mut all = vec![
        count("own requests".into(), requests.own).short(),
        count("own requests that were refused".into(), requests.refused).short(),
        count("own GETs and LISTs".into(), requests.reads).short(),
    ];
    let mut kinds: Vec<(&str, &str)> = run.own_rows().map(|row| (&*row.verb, &*row.resource)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for (verb, resource) in kinds {
        let rows = run.own_rows().filter(|row| (&*row.verb, &*row.resource) == (verb, resource));
        let name = format!("own requests: {verb} {resource}");
        let sum: usize = rows.map(|row| row.count).sum();
        all.push(Figure::new(name, sum as f64, Kind::Coalesced, Better::Less));
    }
    all
}
