//! The largest load that replicas hold within limits.

use std::num::NonZeroU32;

use framework_loadtest::plan::demand::Demand;
use framework_loadtest::plan::estimate::estimates;
use framework_loadtest::plan::limits::{Limits, held, table_of};
use framework_loadtest::plan::source::{SYSTEM, sources};
use framework_loadtest::report::Report;

use crate::sample;

const MIB: f64 = 1024.0 * 1024.0;

/// Half of the memory is 200.75 MiB: 6,022 Tasks of the sample. Four fifths of the requests are 80.
const LIMITS: Limits = Limits { memory: 401.5 * MIB, processors: 1.0, qps: 100.0, api_server: 2.0 };

fn replicas(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("it is not 0")
}

/// The sample as a run with four replicas.
fn of_four() -> Report {
    let mut report = sample::report();
    report.runs[0].used.replicas = vec![sample::replica(); 4];
    report
}

/// The rows of the table.
fn rows(reports: &[Report], limits: Limits, numbers: &[u32]) -> Vec<String> {
    let numbers: Vec<NonZeroU32> = numbers.iter().copied().map(replicas).collect();
    let table = table_of(20, &numbers, &limits, &sources(reports, SYSTEM, None));
    table.lines().skip(2).map(str::to_owned).collect()
}

#[test]
fn a_held_load_is_the_largest_whose_plan_keeps_the_limits() {
    let reports = [sample::report()];
    let found = sources(&reports, SYSTEM, None);
    let one = replicas(1);
    let load = held(20, one, &LIMITS, &found).expect("it can be planned");
    let needed = |frameworks: u32, churn: f64, name: &str| {
        let demand = Demand { frameworks, tasks: 20, churn, replicas: one };
        let plan = estimates(&demand, &found).expect("it is near enough");
        plan.iter().find(|one| one.name == name).and_then(|one| one.number).expect("it is known")
    };
    let memory = |frameworks| needed(frameworks, load.churn, "controller: memory") * 2.0;
    assert!(memory(load.frameworks) <= LIMITS.memory && memory(load.frameworks + 1) > LIMITS.memory);
    let requests = |churn| needed(load.frameworks, churn, "own requests/s");
    assert!(requests(load.churn) <= 80.0 && requests(load.churn * 1.001) > 80.0);
}

#[test]
fn a_held_load_names_the_limit_that_ends_it() {
    let reports = [sample::report()];
    let held_within = |limits| rows(&reports, limits, &[1]).concat();
    // 52.645 requests for each Framework.
    assert_eq!(held_within(LIMITS), "| 1 | 301 × 20 | 6,020 | memory | 30.4 | kubeClientQps |");
    let faster = Limits { qps: 5000.0, ..LIMITS };
    // 9 ms of the API server for each Task, and 0.5 ms of the controller.
    assert_eq!(held_within(faster), "| 1 | 301 × 20 | 6,020 | memory | 222 | API server |");
    let slower = Limits { processors: 0.05, ..faster };
    assert_eq!(held_within(slower), "| 1 | 301 × 20 | 6,020 | memory | 100 | processors |");
    let wide = Limits { memory: 1e12, processors: 100.0, qps: 1e6, api_server: 100.0 };
    let end = "reach of the plan";
    assert_eq!(held_within(wide), format!("| 1 | ≥ 600 × 20 | ≥ 12,000 | {end} | ≥ 1,333 | {end} |"));
}

#[test]
fn replicas_hold_more_tasks_but_share_the_requests() {
    let shared = rows(&[sample::report()], LIMITS, &[1, 4]);
    let four = "| 4, an even split of one | 1,204 × 20 | 24,080 | memory | 30.4 | kubeClientQps |";
    assert_eq!(shared[1], four);
    // A run with four is taken if there is one: each of them had a quarter of its Tasks.
    let measured = rows(&[sample::report(), of_four()], LIMITS, &[1, 4]);
    assert_eq!(measured[0], shared[0]);
    assert_eq!(measured[1], "| 4 | ≥ 600 × 20 | ≥ 12,000 | reach of the plan | 30.4 | kubeClientQps |");
}

#[test]
fn a_load_of_which_a_limited_figure_is_unknown_is_not_guessed() {
    let mut report = sample::report();
    report.runs[0].used.processes.retain(|process| process.name != "kube-apiserver");
    let row = rows(&[report], LIMITS, &[1]).concat();
    assert!(row.starts_with("| 1 | kube-apiserver: processors is not known: run scenario"), "{row}");
    let mut report = sample::report();
    report.runs[0].used.processes.retain(|process| process.name != "etcd");
    let row = rows(&[report], LIMITS, &[1]).concat();
    assert!(row.starts_with("| 1 | 301 × 20 |"), "etcd has no limit: {row}");
}

#[test]
fn a_replica_without_room_for_itself_holds_nothing() {
    let row = rows(&[sample::report()], Limits { memory: 30.0 * MIB, ..LIMITS }, &[1]).concat();
    assert_eq!(row, "| 1 | 0 × 20 | 0 | memory | 0 | memory |");
}
