//! The figures of a plan, each with the run that it is extrapolated from and how far.
//!
//! - Flows are in proportion to the rate: Pods, bytes and processor time to the rate of Tasks, status writes
//!   and ConfigMaps to the rate of Frameworks.
//! - Memory is the memory of the idle process, and a share for each Task that exists at one time. Beyond the
//!   measured Tasks it is in proportion to the peak: a process that has worked before grows less than it
//!   needs.
//! - Nothing is guessed. A figure that no report covers is unknown, and names the scenario that measures it.
//!   A demand beyond [`FARTHEST`] times the measured run is an error.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::number::{count, rate, short, size};
use crate::report::Run;

use super::demand::Demand;
use super::source::{FARTHEST, Source, fastest, fullest, is_near, most_similar};

/// One figure of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The name of the figure.
    pub name: String,
    /// The value with its unit, or that it is not known.
    pub value: String,
    /// The value as a number of processors, bytes, or requests or bytes a second; `None` if it is not known.
    pub number: Option<f64>,
    /// The run that it is extrapolated from, or the one that is missing.
    pub from: String,
    /// The demand in multiples of that run.
    pub distance: String,
}

/// The whole plan. An error names the first figure for which the demand is too far from all runs.
pub fn estimates(demand: &Demand, sources: &[Source]) -> Result<Vec<Estimate>> {
    let mut all = vec![controller(demand, sources)?, memory(demand, sources)?];
    all.extend(own_requests(demand, sources)?);
    all.push(others(demand, sources)?);
    let bytes = |name: &str, known: fn(&Run) -> Option<f64>, lacking: &str| {
        flow(demand, sources, name, lacking, known, |rate| format!("{}/s", size(rate)))
    };
    // A store that was compacted during the run did not grow by the bytes that were written.
    let grown = |run: &Run| run.bytes.store_growth.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64);
    all.push(bytes("bytes to etcd, by its growth", grown, ETCD)?);
    let written = |run: &Run| run.bytes.status_writes.map(|bytes| bytes as f64);
    all.push(bytes("status writes, bytes", written, CONTROLLER)?);
    let watched = |run: &Run| run.bytes.watch_events.map(|bytes| bytes as f64);
    all.push(bytes("watch events, bytes to all watchers", watched, METRICS)?);
    all.push(processor(demand, sources, "kube-apiserver")?);
    all.push(processor(demand, sources, "etcd")?);
    Ok(all)
}

const LOCAL: &str = "run scenario burst with that process on the same machine";
const ETCD: &str = "run scenario burst with readable metrics of the API server, without compaction of etcd";
const AUDIT: &str = "run scenario burst with --audit-log";
const CONTROLLER: &str = "run scenario burst with --controller-metrics";
const METRICS: &str = "run scenario burst with readable metrics of the API server";
const FULL: &str = "run scenario stress-plan with the controller on the same machine";

/// A demand in multiples of a run. An error if it is beyond [`FARTHEST`].
fn distance(figure: &str, run: &str, asked: f64, measured: f64, unit: &str) -> Result<String> {
    let factor = asked / measured;
    ensure!(
        factor <= FARTHEST,
        "{figure}: {} {unit} are more than ×{FARTHEST} the {} of {run}: at most {} can be planned",
        short(asked),
        short(measured),
        short((measured * FARTHEST).floor()),
    );
    Ok(match factor {
        _ if factor <= 1.0 => format!("within ({} of its {unit})", short(factor)),
        _ => format!("×{} its {unit}", short(factor)),
    })
}

/// The size of the planned jobs in multiples of a run's; `None`: they are alike. An error if they are beyond
/// [`FARTHEST`] times larger or smaller.
fn other_size(figure: &str, source: Source, demand: &Demand) -> Result<Option<String>> {
    let (measured, factor) = (source.tasks_each(), source.other_size(demand));
    ensure!(
        is_near(factor),
        "{figure}: {} in a job are not within ×{FARTHEST} of the {} of {}: {} to {} can be planned",
        count(demand.tasks as usize, "Task"),
        short(measured),
        source.name(),
        short((measured / FARTHEST).ceil()),
        short((measured * FARTHEST).floor()),
    );
    Ok((!(0.8..=1.25).contains(&factor)).then(|| format!("×{} its Tasks in a job", short(factor))))
}

fn unknown(name: String, lacking: &str) -> Estimate {
    let (value, from, distance) = ("not known".into(), lacking.into(), "–".into());
    Estimate { name, value, number: None, from, distance }
}

/// A figure in proportion to the Tasks that come and go.
fn flow(
    demand: &Demand,
    sources: &[Source],
    name: &str,
    lacking: &str,
    known: impl Fn(&Run) -> Option<f64>,
    shown: impl Fn(f64) -> String,
) -> Result<Estimate> {
    let Some((source, sum)) = most_similar(sources, demand, known) else {
        return Ok(unknown(name.into(), lacking));
    };
    let each = sum / source.run.totals.tasks as f64;
    passing(demand, source, name.into(), each * demand.tasks_per_second(), shown)
}

/// A figure from one run, in proportion to the rate of Tasks.
fn passing(
    demand: &Demand,
    source: Source,
    name: String,
    number: f64,
    shown: impl Fn(f64) -> String,
) -> Result<Estimate> {
    let (asked, measured) = (demand.tasks_per_second(), source.run.throughput.tasks_per_second);
    let mut distance = distance(&name, &source.name(), asked, measured, "Tasks/s")?;
    if let Some(size) = other_size(&name, source, demand)? {
        distance += &format!(", {size}");
    }
    Ok(Estimate { name, value: shown(number), number: Some(number), from: source.name(), distance })
}

fn processor(demand: &Demand, sources: &[Source], name: &str) -> Result<Estimate> {
    let known = |run: &Run| Some(run.process(name)?.cpu_seconds);
    flow(demand, sources, &format!("{name}: processors"), LOCAL, known, short)
}

/// The name of a figure for each replica, and the number of replicas.
fn shared(demand: &Demand, name: &str) -> (String, f64) {
    let replicas = f64::from(demand.replicas.get());
    let name = if replicas > 1.0 { format!("{name}, each replica") } else { name.to_owned() };
    (name, replicas)
}

fn controller(demand: &Demand, sources: &[Source]) -> Result<Estimate> {
    let (name, replicas) = shared(demand, "controller: processors");
    let known = |run: &Run| Some(run.controller()?.cpu_seconds / replicas);
    flow(demand, sources, &name, LOCAL, known, short)
}

fn memory(demand: &Demand, sources: &[Source]) -> Result<Estimate> {
    let (name, replicas) = shared(demand, "controller: memory");
    let known =
        |run: &Run| run.controller().map(|one| (one.rss_before_bytes as f64, one.rss_peak_bytes as f64));
    let Some((source, tasks, (idle, peak))) = fullest(sources, demand, known) else {
        return Ok(unknown(name, FULL));
    };
    let measured = source.run.replica_count() as f64;
    let wanted = demand.tasks_at_once() / replicas;
    // Beyond the run, memory that a warm process kept counts as that of Tasks.
    let idle = if wanted <= tasks / measured { idle } else { 0.0 };
    let share = (peak - idle).max(0.0) / tasks;
    let number = idle / measured + share * wanted;
    let value = format!("{} ({} for each Task)", size(number), size(share));
    let from = source.name();
    let mut distance = distance(&name, &from, wanted, tasks / measured, "Tasks at one time")?;
    if let Some(size) = other_size(&name, source, demand)? {
        distance += &format!(", {size}");
    }
    Ok(Estimate { name, value, number: Some(number), from, distance })
}

fn own_requests(demand: &Demand, sources: &[Source]) -> Result<Vec<Estimate>> {
    let known = |run: &Run| {
        let mut kinds: BTreeMap<(String, String), usize> = BTreeMap::new();
        for row in run.own_rows() {
            *kinds.entry((row.resource.clone(), row.verb.clone())).or_default() += row.count;
        }
        (!kinds.is_empty()).then_some(kinds)
    };
    let Some((source, kinds)) = most_similar(sources, demand, known) else {
        return Ok(vec![unknown("own requests/s".into(), AUDIT)]);
    };
    let totals = &source.run.totals;
    let each_second = |resource: &str, count: usize| match resource.starts_with("pods") {
        true => count as f64 / totals.tasks as f64 * demand.tasks_per_second(),
        false => count as f64 / totals.jobs as f64 * demand.churn,
    };
    let sum: f64 = kinds.iter().map(|((resource, _), count)| each_second(resource, *count)).sum();
    let mut all = vec![passing(demand, source, "own requests/s".into(), sum, short)?];
    for ((resource, verb), requests) in &kinds {
        let number = each_second(resource, *requests);
        all.push(passing(demand, source, format!("of them {verb} {resource}"), number, short)?);
    }
    Ok(all)
}

fn others(demand: &Demand, sources: &[Source]) -> Result<Estimate> {
    let known = |run: &Run| {
        let all: usize = run.requests.rows.iter().map(|row| row.count).sum();
        let own: usize = run.own_rows().map(|row| row.count).sum();
        (all > own).then_some((all - own) as f64)
    };
    flow(demand, sources, "requests/s of all others (kubelets, clients)", AUDIT, known, short)
}

/// Remarks on the plan as a whole.
pub fn remarks(demand: &Demand, sources: &[Source]) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(fastest) = fastest(sources) {
        let asked = demand.tasks_per_second();
        let beyond =
            if asked > fastest.run.throughput.tasks_per_second { ", which no run has shown" } else { "" };
        all.push(format!(
            "The fastest run, {}, did {} on {}; {} are asked for{beyond}.",
            fastest.name(),
            rate(fastest.run.throughput.tasks_per_second, "Task"),
            fastest.machine(),
            short(asked),
        ));
    }
    let asked = demand.replicas.get() as usize;
    if sources.iter().any(|source| source.run.replica_count() != asked) {
        all.push(format!(
            "The shares of {asked} replicas are an even split of a run with one: no report is of a run with \
             {asked}."
        ));
    }
    all
}
