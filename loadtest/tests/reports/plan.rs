//! What a plan says, and from what.

use std::num::NonZeroU32;

use framework_loadtest::plan::demand::Demand;
use framework_loadtest::plan::estimate::{Estimate, estimates, remarks};
use framework_loadtest::plan::source::sources;
use framework_loadtest::report::Report;

use crate::sample;

const SYSTEM: &str = "frameworkcontroller";

/// 30,000 Frameworks of 20 Tasks, 10 a second: 200 Tasks/s, 1.5 times the rate of the sample.
fn demand() -> Demand {
    Demand { frameworks: 30_000, tasks: 20, churn: 10.0, replicas: NonZeroU32::MIN }
}

fn planned(reports: &[Report], demand: Demand) -> Vec<Estimate> {
    estimates(&demand, &sources(reports, SYSTEM, None))
}

fn of<'a>(estimates: &'a [Estimate], name: &str) -> &'a Estimate {
    estimates.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no {name} in {estimates:#?}"))
}

#[test]
fn what_passes_through_goes_with_the_rate_and_memory_with_the_number() {
    let plan = planned(&[sample::report()], demand());
    let value = |name: &str| of(&plan, name).value.clone();
    // 0.5 ms a Task.
    assert_eq!(value("controller: processors"), "0.1");
    assert_eq!(value("kube-apiserver: processors"), "1.8");
    // 20 MiB idle, and 20 MiB more with 1,200 Tasks: 500 times as many.
    assert_eq!(value("controller: memory"), "9.79 GiB (17.1 KiB for each Task)");
    assert_eq!(value("of them create pods"), "200");
    assert_eq!(value("of them create configmaps"), "10");
    assert_eq!(value("own requests/s"), "526");
    assert_eq!(value("bytes to etcd, by its growth"), "2.86 MiB/s");
    assert_eq!(value("watch events, bytes to all who watch"), "5.72 MiB/s");
}

#[test]
fn every_figure_says_from_which_run_it_is_and_how_far() {
    let plan = planned(&[sample::report()], demand());
    assert!(plan.iter().all(|one| one.from.starts_with("burst (200 × 20; recommended")), "{plan:#?}");
    assert_eq!(of(&plan, "own requests/s").far, "×1.5 its Tasks/s");
    assert_eq!(of(&plan, "controller: memory").far, "×500 its Tasks at one time: a guess");
    let less = planned(&[sample::report()], Demand { churn: 1.0, frameworks: 40, ..demand() });
    assert!(less.iter().all(|one| one.far.starts_with("within (")), "{less:#?}");
}

#[test]
fn the_run_of_the_most_similar_jobs_is_taken() {
    let mut single = sample::report();
    single.scenario.name = "single".into();
    single.scenario.groups[0].task_roles[0].task_number = 1;
    single.runs[0].totals.tasks = 200;
    single.runs[0].totals.pods = 200;
    single.runs[0].totals.peak_tasks = Some(9000);
    let plan = planned(&[single, sample::report()], demand());
    assert!(of(&plan, "own requests/s").from.starts_with("burst"));
    assert!(of(&plan, "controller: memory").from.starts_with("single"), "it held the most Tasks");
}

#[test]
fn jobs_of_another_size_are_told() {
    let plan = planned(&[sample::report()], Demand { tasks: 200, churn: 1.0, ..demand() });
    assert_eq!(of(&plan, "own requests/s").far, "×1.5 its Tasks/s, ×10 its Tasks in a job");
}

#[test]
fn what_no_report_covers_is_not_known() {
    let mut report = sample::report();
    let run = &mut report.runs[0];
    run.processes.clear();
    run.totals.peak_tasks = None;
    run.bytes = Default::default();
    run.requests.rows.clear();
    let plan = planned(&[report], demand());
    assert!(plan.len() >= 8);
    assert!(
        plan.iter().all(|one| one.value == "not known" && one.from.starts_with("run scenario ")),
        "{plan:#?}"
    );
}

#[test]
fn a_store_that_was_compacted_says_nothing_about_what_was_written() {
    let mut report = sample::report();
    report.runs[0].bytes.store_growth = Some(-4096);
    assert_eq!(of(&planned(&[report], demand()), "bytes to etcd, by its growth").value, "not known");
}

#[test]
fn a_run_that_was_given_up_or_retried_is_no_measure() {
    let mut report = sample::report();
    report.runs[0].given_up = Some("nothing moved".into());
    assert!(sources(&[report], SYSTEM, None).is_empty());
    let mut report = sample::report();
    report.runs[0].totals.pods += 1;
    let plan = planned(&[report], demand());
    assert_eq!(of(&plan, "own requests/s").value, "not known");
    assert_ne!(of(&plan, "controller: memory").value, "not known");
}

#[test]
fn replicas_share_the_work_and_the_plan_says_that_nobody_has_seen_it() {
    let shared = Demand { replicas: NonZeroU32::new(4).expect("it is 4"), ..demand() };
    let reports = [sample::report()];
    let plan = planned(&reports, shared);
    assert_eq!(of(&plan, "controller: processors, each replica").value, "0.025");
    assert_eq!(of(&plan, "own requests/s").value, "526");
    let said = remarks(&shared, &sources(&reports, SYSTEM, None)).join("\n");
    assert!(said.contains("an even split that no run has shown"), "{said}");
    assert!(said.contains("200 are asked for, which no run has shown"), "{said}");
}
