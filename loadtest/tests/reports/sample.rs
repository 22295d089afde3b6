//! Made-up reports with every field that a report can have.

use std::collections::BTreeMap;

use framework_loadtest::report::{
    Bytes, Latency, Level, Machine, Process, Queue, Replica, Report, RequestRow, Requests, Run, SCHEMA,
    Series, Throughput, Totals, Used,
};
use framework_loadtest::scenario::Scenario;

const MIB: u64 = 1024 * 1024;

const SCENARIO: &str = "
name: burst
description: 200 Frameworks of 20 Tasks, created as fast as the API server takes them. Every Task succeeds at once.
groups:
- name: job
  jobs: 200
  taskRoles:
  - {name: worker, taskNumber: 20}
levels: {writeEfficiency: 0.95, refused: 0, reads: 0}
";

/// A report of units in queues, of which one was released beyond the quota.
pub fn queue_report() -> Report {
    let text = "description: Units.\nqueue: {namespaces: 2, queues: 3, quota: {cpu: 60}}\ngroups:\n\
        - {name: small, jobs: 200, perSecond: 9, unit: {resource: {cpu: 5}, priority: 7, runSeconds: 0.5}}";
    let mut report = report();
    report.scenario = Scenario::parse(text).expect("a scenario");
    let run = &mut report.runs[0];
    run.system = "queues of frameworkcontroller".into();
    run.queue = Some(Queue {
        releases: 200,
        releases_per_second: Some(137.0),
        over_admitted: Some(1),
        turn_p99_seconds: Some(0.0025),
        turn_max_seconds: Some(0.025),
        first_over_admission: Some("small7 in namespace 1 at resourceVersion 99: cpu 65 of 60".into()),
    });
    report
}

/// A report of one run that meets its levels.
pub fn report() -> Report {
    Report {
        schema: SCHEMA.into(),
        scenario: Scenario::parse(SCENARIO).expect("a scenario"),
        machine: Machine {
            processor: "Made-up Processor 9000 @ 2.00GHz".into(),
            processors: 2,
            memory_bytes: 24 * 1024 * MIB,
            kernel: "Linux 6.12.0".into(),
            shared_with_cluster: true,
        },
        versions: BTreeMap::from([
            ("frameworkcontroller".into(), "0.1.0".into()),
            ("kubernetes".into(), "v1.36.3".into()),
        ]),
        write_efficiency: Some(0.969),
        runs: vec![run("frameworkcontroller", "recommended: kubeClientQps 5000, threshold 4 KiB", 1.0)],
    }
}

/// A report with every problem at once, and two other systems.
pub fn odd_report() -> Report {
    let mut report = report();
    report.scenario.name = "burst-<script>alert('never')</script>".into();
    let mut given_up = run("batch/v1 Job", "defaults & \"quotes\"", 3.1);
    given_up.given_up = Some("after 900 s 17 jobs had not ended".into());
    given_up.totals.outcomes = BTreeMap::from([("Succeeded".into(), 183), ("Unfinished".into(), 17)]);
    given_up.requests.source = "none".into();
    given_up.latencies[0].count = 7;
    let first = &mut report.runs[0];
    first.levels[0] = level("writeEfficiency", "≥ 0.95", Some(0.8123), false);
    first.levels.push(level("controllerPeakMebibytes", "≤ 128", None, false));
    first.requests.refused = 3;
    first.requests.unreconciled = Some(-2);
    first.latencies.push(Latency {
        count: 40,
        group: "a-group-with-a-name-of-some-length".into(),
        ..latency(1.0)
    });
    let clients = (0..12).map(|at| format!("client-{at}-that-asks"));
    first.series.extend(clients.map(|name| series("requests", &name, "requests/s", |at| at * 3.0)));
    first.series.push(Series { points: vec![(4.0, 9.0)], ..series("latency", "one point", "s", |_| 0.0) });
    first
        .series
        .push(Series { points: vec![(1.0, f64::NAN)], ..series("latency", "no number", "s", |_| 0.0) });
    first.series.push(series("a plot of tomorrow", "stalls", "stalls", |at| (at * 7.0) % 5.0));
    report.runs.push(run("floor client", "2n + 11 requests with full bodies", 0.8));
    report.runs.push(given_up);
    report
}

/// A run that took `factor` times as long.
pub fn run(system: &str, profile: &str, factor: f64) -> Run {
    Run {
        system: system.into(),
        profile: profile.into(),
        started_at: "2026-11-21T12:00:00Z".parse().expect("a time"),
        elapsed_seconds: 30.0 * factor,
        given_up: None,
        totals: Totals {
            jobs: 200,
            tasks: 4000,
            pods: 4000,
            peak_tasks: Some(1200),
            outcomes: BTreeMap::from([("Succeeded".into(), 200)]),
            states: ["AttemptPreparing", "AttemptRunning"].map(|state| in_state(state, factor)).into(),
            kills: Vec::new(),
            problems: Vec::new(),
        },
        throughput: Throughput {
            jobs_per_second: 200.0 / 30.0 / factor,
            tasks_per_second: 4000.0 / 30.0 / factor,
        },
        latencies: vec![
            Latency { transition: "creation → first Task running".into(), ..latency(factor) },
            Latency { transition: "creation → completed".into(), ..latency(2.0 * factor) },
        ],
        queue_age_seconds: Some(0.12),
        queue: None,
        requests: requests(match system {
            "floor client" => "loadtest-floor",
            "batch/v1 Job" => "kube-controller-manager",
            _ => "frameworkcontroller",
        }),
        bytes: Bytes {
            api_server_allocated_per_task: Some(3_000_000.0 * factor),
            api_server_objects_per_task: Some(40_000.0 * factor),
            status_writes: Some(8_000_000),
            status_writes_per_task: Some(2000.0),
            store_growth: Some(60_000_000),
            watch_events: Some(120_000_000),
        },
        used: Used {
            processes: vec![
                process("frameworkcontroller", 2.0 * factor, 40),
                process("kube-controller-manager", 3.0 * factor, 80),
                process("loadtest", 4.0 * factor, 50),
                process("kube-apiserver", 36.0 * factor, 600),
                process("etcd", 6.0 * factor, 120),
            ],
            replicas: Vec::new(),
        },
        levels: vec![
            level("writeEfficiency", "≥ 0.95", Some(0.969), true),
            level("refused", "≤ 0", Some(0.0), true),
        ],
        series: course(factor),
    }
}

/// The times that Frameworks were seen in a state.
fn in_state(state: &str, factor: f64) -> Latency {
    Latency { transition: state.into(), p99: 1.23 * factor, ..latency(factor) }
}

fn latency(factor: f64) -> Latency {
    let (transition, group) = ("ended → completed".into(), "job".into());
    Latency {
        transition,
        group,
        count: 200,
        p50: 0.8 * factor,
        p90: 1.4 * factor,
        p99: 2.2 * factor,
        max: 2.9 * factor,
    }
}

/// 10,529 own requests: 42 and 10.6 for each job.
fn requests(client: &str) -> Requests {
    let row = |who: &str, verb: &str, resource: &str, code, count| RequestRow {
        client: who.into(),
        verb: verb.into(),
        resource: resource.into(),
        code,
        count,
    };
    Requests {
        source: "audit log".into(),
        rows: vec![
            row(client, "create", "pods", 201, 4000),
            row(client, "delete", "pods", 200, 4000),
            row(client, "create", "configmaps", 201, 200),
            row(client, "delete", "configmaps", 200, 200),
            row(client, "update", "frameworks/status", 200, 2129),
            row(client, "update", "leases", 200, 31),
            row(client, "watch", "pods", 200, 1),
            row("kwok", "patch", "pods/status", 200, 8000),
            row("kwok", "patch", "pods/status", 404, 2),
            row("loadtest", "create", "frameworks", 201, 200),
            row("kube-controller-manager", "list", "a-resource-whose-name-is-long.example.com", 200, 12),
            row("kube-apiserver", "get", "namespaces", 200, 4),
            row("kube-scheduler", "update", "leases", 200, 15),
            row("kubectl", "get", "nodes", 200, 1),
        ],
        own: 10_529,
        floor: Some(10_200),
        write_efficiency: Some(0.969),
        write_efficiency_strict: Some(0.912),
        write_efficiency_least: Some(0.893),
        refused: 0,
        reads: 0,
        per_job: 52.6,
        per_task: 2.63,
        unreconciled: Some(0),
    }
}

fn process(name: &str, seconds: f64, mebibytes: u64) -> Process {
    Process {
        name: name.into(),
        cpu_seconds: seconds,
        cpu_milliseconds_per_task: seconds / 4.0,
        rss_before_bytes: mebibytes * MIB / 2,
        rss_after_bytes: mebibytes * MIB * 3 / 4,
        rss_peak_bytes: mebibytes * MIB,
    }
}

/// A replica with a quarter of the slots.
pub fn replica() -> Replica {
    Replica {
        process: Some(process("frameworkcontroller", 0.5, 20)),
        slots: Some(64),
        received_bytes: Some(12_345_678),
        requests: Some(2600),
    }
}

fn level(name: &str, bound: &str, measured: Option<f64>, met: bool) -> Level {
    Level { name: name.into(), bound: bound.into(), measured, met }
}

fn series(plot: &str, name: &str, unit: &str, number: impl Fn(f64) -> f64) -> Series {
    let points = (0..=150).map(|at| f64::from(at) / 5.0).map(|at| (at, number(at))).collect();
    Series { plot: plot.into(), name: name.into(), unit: unit.into(), points }
}

fn course(factor: f64) -> Vec<Series> {
    let slow = move |at: f64| at / factor;
    let wave = |at: f64| 1.0 + 0.3 * (at * 1.7).sin();
    let mebibyte = MIB as f64;
    vec![
        series("jobs", "created", "jobs", move |at| (slow(at) * 40.0).min(200.0)),
        series("jobs", "running", "jobs", move |at| (60.0 - (slow(at) - 12.0).abs() * 5.0).max(0.0)),
        series("jobs", "completed", "jobs", move |at| ((slow(at) - 2.0) * 9.0).clamp(0.0, 200.0)),
        series("latency", "creation → first Task running, p99", "s", move |at| {
            (0.4 + slow(at) / 15.0) * wave(at)
        }),
        series("latency", "creation → first Task running, p50", "s", move |at| {
            (0.2 + slow(at) / 40.0) * wave(at)
        }),
        series("requests", "frameworkcontroller", "requests/s", move |at| 350.0 * wave(at)),
        series("requests", "kwok", "requests/s", move |at| 270.0 * wave(at + 1.0)),
        series("processors", "kube-apiserver", "processors", move |at| 1.2 * wave(at)),
        series("processors", "frameworkcontroller", "processors", move |at| 0.07 * wave(at)),
        series("processors", "etcd", "processors", move |at| 0.2 * wave(at)),
        series("memory", "kube-apiserver", "bytes", move |at| (300.0 + slow(at) * 9.0) * mebibyte),
        series("memory", "frameworkcontroller", "bytes", move |at| (20.0 + slow(at) * 0.6) * mebibyte),
    ]
}
