//! What a demand needs, each figure with the run that it is extrapolated from and how far.
//!
//! - What passes through is in proportion to the rate: Pods, bytes and processor time to that of Tasks,
//!   status writes and ConfigMaps to that of Frameworks.
//! - Memory is what the idle process has, and a share for each Task that is there at one time.
//! - Nothing is guessed: what no report covers is said to be unknown, with the scenario that would tell.

use std::collections::BTreeMap;

use crate::number::{short, size};
use crate::report::Run;

use super::demand::Demand;
use super::source::{Source, fullest, most_similar};

/// Beyond this factor a figure is a guess.
const GUESS: f64 = 10.0;

/// One figure of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Of what.
    pub name: String,
    /// How much, or that it is not known.
    pub value: String,
    /// The run that it is from, or the one that is needed.
    pub from: String,
    /// How far it is from that run.
    pub far: String,
}

/// The whole plan.
pub fn estimates(demand: &Demand, sources: &[Source]) -> Vec<Estimate> {
    let mut all = vec![controller(demand, sources), memory(demand, sources)];
    all.extend(own_requests(demand, sources));
    all.push(others(demand, sources));
    let bytes = |name: &str, known: fn(&Run) -> Option<f64>, lacking: &str| {
        flow(demand, sources, name, lacking, known, |rate| format!("{}/s", size(rate)))
    };
    // A store that was compacted meanwhile did not grow by what was written.
    let grown = |run: &Run| run.bytes.store_growth.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64);
    all.push(bytes("bytes to etcd, by its growth", grown, ETCD));
    all.push(bytes(
        "status writes, bytes",
        |run| run.bytes.status_writes.map(|bytes| bytes as f64),
        CONTROLLER,
    ));
    let watched = |run: &Run| run.bytes.watch_events.map(|bytes| bytes as f64);
    all.push(bytes("watch events, bytes to all who watch", watched, METRICS));
    all.push(processor(demand, sources, "kube-apiserver"));
    all.push(processor(demand, sources, "etcd"));
    all
}

const LOCAL: &str = "run scenario burst where that process is on the same machine";
const ETCD: &str = "run scenario burst where etcd can be asked for its size";
const AUDIT: &str = "run scenario burst where the audit log can be read";
const CONTROLLER: &str = "run scenario burst where the metrics of the controller can be read";
const METRICS: &str = "run scenario burst where the metrics of the API server can be read";
const FULL: &str = "run scenario stress-plan, which says how many Tasks there were at one time";

/// How far a figure is from what was measured.
fn far(factor: f64, of: &str) -> String {
    match factor {
        _ if factor <= 1.0 => format!("within ({} of its {of})", short(factor)),
        _ if factor <= GUESS => format!("×{} its {of}", short(factor)),
        _ => format!("×{} its {of}: a guess", short(factor)),
    }
}

fn unknown(name: String, lacking: &str) -> Estimate {
    Estimate { name, value: "not known".into(), from: lacking.into(), far: "–".into() }
}

/// What is in proportion to the Tasks that pass through.
fn flow(
    demand: &Demand,
    sources: &[Source],
    name: &str,
    lacking: &str,
    known: impl Fn(&Run) -> Option<f64>,
    shown: impl Fn(f64) -> String,
) -> Estimate {
    let Some((source, sum)) = most_similar(sources, demand, known) else {
        return unknown(name.into(), lacking);
    };
    let each = sum / source.run.totals.tasks as f64;
    passing(demand, source, name.into(), shown(each * demand.tasks_per_second()))
}

/// A figure that goes with the rate of Tasks.
fn passing(demand: &Demand, source: Source, name: String, value: String) -> Estimate {
    let mut far = far(source.faster(demand), "Tasks/s");
    let other_size = f64::from(demand.tasks) / source.tasks_each();
    if !(0.8..=1.25).contains(&other_size) {
        far += &format!(", ×{} its Tasks in a job", short(other_size));
    }
    Estimate { name, value, from: source.name(), far }
}

fn processor(demand: &Demand, sources: &[Source], name: &str) -> Estimate {
    let known = |run: &Run| Some(run.process(name)?.cpu_seconds);
    flow(demand, sources, &format!("{name}: processors"), LOCAL, known, short)
}

/// Names what each replica needs, and how many share it.
fn shared(demand: &Demand, name: &str) -> (String, f64) {
    let replicas = f64::from(demand.replicas.get());
    let name = if replicas > 1.0 { format!("{name}, each replica") } else { name.to_owned() };
    (name, replicas)
}

fn controller(demand: &Demand, sources: &[Source]) -> Estimate {
    let (name, replicas) = shared(demand, "controller: processors");
    let known = |run: &Run| Some(run.controller()?.cpu_seconds);
    flow(demand, sources, &name, LOCAL, known, |used| short(used / replicas))
}

fn memory(demand: &Demand, sources: &[Source]) -> Estimate {
    let (name, replicas) = shared(demand, "controller: memory");
    let known =
        |run: &Run| run.controller().map(|one| (one.rss_before_bytes as f64, one.rss_peak_bytes as f64));
    let Some((source, tasks, (idle, peak))) = fullest(sources, known) else {
        return unknown(name, FULL);
    };
    let (wanted, share) = (demand.tasks_at_once() / replicas, (peak - idle).max(0.0) / tasks);
    let value = format!("{} ({} for each Task)", size(idle + share * wanted), size(share));
    Estimate { name, value, from: source.name(), far: far(wanted / tasks, "Tasks at one time") }
}

fn own_requests(demand: &Demand, sources: &[Source]) -> Vec<Estimate> {
    let known = |run: &Run| {
        let mut kinds: BTreeMap<(String, String), usize> = BTreeMap::new();
        for row in run.own_rows() {
            *kinds.entry((row.resource.clone(), row.verb.clone())).or_default() += row.count;
        }
        (!kinds.is_empty()).then_some(kinds)
    };
    let Some((source, kinds)) = most_similar(sources, demand, known) else {
        return vec![unknown("own requests/s".into(), AUDIT)];
    };
    let totals = &source.run.totals;
    let rate = |resource: &str, count: usize| match resource.starts_with("pods") {
        true => count as f64 / totals.tasks as f64 * demand.tasks_per_second(),
        false => count as f64 / totals.jobs as f64 * demand.churn,
    };
    let sum: f64 = kinds.iter().map(|((resource, _), count)| rate(resource, *count)).sum();
    let mut all = vec![passing(demand, source, "own requests/s".into(), short(sum))];
    all.extend(kinds.iter().map(|((resource, verb), count)| {
        passing(demand, source, format!("of them {verb} {resource}"), short(rate(resource, *count)))
    }));
    all
}

fn others(demand: &Demand, sources: &[Source]) -> Estimate {
    let known = |run: &Run| {
        let all: usize = run.requests.rows.iter().map(|row| row.count).sum();
        let own: usize = run.own_rows().map(|row| row.count).sum();
        (all > own).then_some((all - own) as f64)
    };
    flow(demand, sources, "requests/s of all others (kubelets, who creates)", AUDIT, known, short)
}

/// What is true of the plan as a whole.
pub fn remarks(demand: &Demand, sources: &[Source]) -> Vec<String> {
    let mut all = Vec::new();
    let fastest =
        sources.iter().max_by(|one, two| one.run.tasks_per_second.total_cmp(&two.run.tasks_per_second));
    if let Some(fastest) = fastest {
        let machine = &fastest.report.machine;
        let (most, asked) = (fastest.run.tasks_per_second, demand.tasks_per_second());
        all.push(format!(
            "The fastest run, {}, did {} Tasks/s on {} × {}; {} are asked for{}.",
            fastest.name(),
            short(most),
            machine.processors,
            machine.processor,
            short(asked),
            if asked > most { ", which no run has shown" } else { "" },
        ));
    }
    if demand.replicas.get() > 1 {
        all.push(format!(
            "One replica does all the work today. The shares of {} replicas are an even split that no run has \
             shown.",
            demand.replicas
        ));
    }
    all
}
