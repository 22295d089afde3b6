//! The figures of a plan, and the runs behind them.

use std::num::NonZeroU32;

use framework_loadtest::plan::demand::Demand;
use framework_loadtest::plan::estimate::{Estimate, estimates, remarks};
use framework_loadtest::plan::source::{of_replicas, sources};
use framework_loadtest::report::{Level, Report};

use crate::sample;

const SYSTEM: &str = "frameworkcontroller";

/// 600 Frameworks of 20 Tasks, 10 a second: 200 Tasks/s, 1.5 times the rate of the sample, and ten times its
/// Tasks at one time.
fn demand() -> Demand {
    Demand { frameworks: 600, tasks: 20, churn: 10.0, replicas: NonZeroU32::MIN }
}

fn planned(reports: &[Report], demand: Demand) -> Vec<Estimate> {
    estimates(&demand, &sources(reports, SYSTEM, None)).expect("it is near enough")
}

fn refused(demand: Demand) -> String {
    let reports = [sample::report()];
    estimates(&demand, &sources(&reports, SYSTEM, None)).expect_err("it is too far").to_string()
}

fn of<'a>(estimates: &'a [Estimate], name: &str) -> &'a Estimate {
    estimates.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no {name} in {estimates:#?}"))
}

#[test]
fn flows_go_with_the_rate_and_memory_with_the_number_of_tasks() {
    let plan = planned(&[sample::report()], demand());
    let value = |name: &str| of(&plan, name).value.clone();
    // 0.5 ms a Task.
    assert_eq!(value("controller: processors"), "0.1");
    assert_eq!(value("kube-apiserver: processors"), "1.8");
    // At most 40 MiB with 1,200 Tasks: ten times as many.
    assert_eq!(value("controller: memory"), "400 MiB (34.1 KiB for each Task)");
    assert_eq!(value("of them create pods"), "200");
    assert_eq!(value("of them create configmaps"), "10");
    assert_eq!(value("own requests/s"), "526");
    assert_eq!(value("bytes to etcd, by its growth"), "2.86 MiB/s");
    assert_eq!(value("watch events, bytes to all watchers"), "5.72 MiB/s");
}

#[test]
fn a_plan_from_a_warm_controller_covers_its_peak_not_its_growth() {
    let half = Demand { frameworks: 30, churn: 1.0, ..demand() };
    let memory = |report: &Report, demand: Demand| {
        of(&planned(std::slice::from_ref(report), demand), "controller: memory").value.clone()
    };
    let fresh = sample::report();
    // 20 MiB idle, and half of the 20 MiB more with 1,200 Tasks.
    assert_eq!(memory(&fresh, half), "30 MiB (17.1 KiB for each Task)");
    let mut warm = fresh.clone();
    let process = &mut warm.runs[0].used.processes[0];
    process.rss_before_bytes = process.rss_peak_bytes;
    assert_eq!(memory(&warm, half), "40 MiB (0 B for each Task)");
    assert_eq!(memory(&warm, demand()), memory(&fresh, demand()));
    assert_eq!(memory(&warm, demand()), "400 MiB (34.1 KiB for each Task)");
}

#[test]
fn every_figure_says_from_which_run_it_is_and_how_far() {
    let plan = planned(&[sample::report()], demand());
    assert!(plan.iter().all(|one| one.from.starts_with("burst (200 × 20; recommended")), "{plan:#?}");
    assert_eq!(of(&plan, "own requests/s").distance, "×1.5 its Tasks/s");
    assert_eq!(of(&plan, "controller: memory").distance, "×10 its Tasks at one time");
    let less = planned(&[sample::report()], Demand { churn: 1.0, frameworks: 40, ..demand() });
    assert!(less.iter().all(|one| one.distance.starts_with("within (")), "{less:#?}");
}

#[test]
fn the_run_of_the_most_similar_jobs_is_taken() {
    let mut single = sample::report();
    single.scenario.name = "single".into();
    let sized = |tasks: usize| {
        let mut report = single.clone();
        report.scenario.groups[0].task_roles[0].task_number = tasks;
        (report.runs[0].totals.tasks, report.runs[0].totals.pods) = (200 * tasks, 200 * tasks);
        report.runs[0].totals.peak_tasks = Some(9000);
        report
    };
    let plan = planned(&[sized(2), sample::report()], demand());
    assert!(of(&plan, "own requests/s").from.starts_with("burst"));
    assert!(of(&plan, "controller: memory").from.starts_with("single"), "it held the most Tasks");
    let plan = planned(&[sized(1), sample::report()], demand());
    assert!(of(&plan, "controller: memory").from.starts_with("burst"), "the other jobs are too small");
}

#[test]
fn the_distance_names_another_job_size() {
    let plan = planned(&[sample::report()], Demand { frameworks: 60, tasks: 200, churn: 1.0, ..demand() });
    assert_eq!(of(&plan, "own requests/s").distance, "×1.5 its Tasks/s, ×10 its Tasks in a job");
}

#[test]
fn a_demand_beyond_ten_times_the_measured_one_is_refused() {
    let run = "burst (200 × 20; recommended: kubeClientQps 5000, threshold 4 KiB)";
    let more = refused(Demand { frameworks: 601, ..demand() });
    let expected = "controller: memory: 12,020 Tasks at one time are more than ×10 the 1,200 of";
    assert_eq!(more, format!("{expected} {run}: at most 12,000 can be planned"));
    let faster = refused(Demand { churn: 100.0, ..demand() });
    let expected = "controller: processors: 2,000 Tasks/s are more than ×10 the 133 of";
    assert_eq!(faster, format!("{expected} {run}: at most 1,333 can be planned"));
    for (tasks, named) in [(201, "201 Tasks"), (1, "1 Task")] {
        let other = refused(Demand { frameworks: 1, tasks, churn: 1.0, ..demand() });
        let expected = format!("controller: processors: {named} in a job are not within ×10 of the 20 of");
        assert_eq!(other, format!("{expected} {run}: 2 to 200 can be planned"));
    }
}

#[test]
fn a_scenario_that_runs_no_task_is_neither_fastest_nor_planned_with() {
    let mut expiring = sample::report();
    expiring.scenario.name = "ttl-wave".into();
    expiring.scenario.groups[0].expire_at_seconds = Some(20);
    expiring.runs[0].throughput.tasks_per_second *= 100.0;
    expiring.runs[0].totals.pods = 0;
    // Without an audit log no Pods are counted of any run.
    expiring.runs[0].requests.source = "none".into();
    let reports = [expiring.clone(), sample::report()];
    let said = remarks(&demand(), &sources(&reports, SYSTEM, None)).join("\n");
    assert!(said.starts_with("The fastest run, burst (200 × 20;"), "{said}");
    assert!(sources(&[expiring], SYSTEM, None).is_empty());
}

#[test]
fn jobs_of_several_sizes_are_named_by_their_totals() {
    let mut mixed = sample::report();
    mixed.runs[0].totals.jobs = 1001;
    mixed.runs[0].totals.tasks = 11_000;
    let reports = [mixed];
    assert!(sources(&reports, SYSTEM, None)[0].name().starts_with("burst (1,001 jobs, 11,000 Tasks; "));
    let one = Demand { frameworks: 1, tasks: 1, churn: 1.0, replicas: NonZeroU32::MIN };
    let expected =
        "1 Framework of 1 Task at one time; 1 Framework/s (1 Task/s) come and go, so that each lives 1 s.";
    assert_eq!(one.sentence(), expected);
}

#[test]
fn a_figure_that_no_report_has_is_not_known() {
    let mut report = sample::report();
    let run = &mut report.runs[0];
    run.used.processes.clear();
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
fn a_compacted_store_says_nothing_about_the_bytes_written() {
    let mut report = sample::report();
    report.runs[0].bytes.store_growth = Some(-4096);
    assert_eq!(of(&planned(&[report], demand()), "bytes to etcd, by its growth").value, "not known");
}

#[test]
fn a_run_that_was_given_up_or_retried_is_not_planned_with() {
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
fn a_run_whose_jobs_failed_is_not_planned_with_and_one_that_is_slow_is() {
    let missed = |name: &str| {
        let mut report = sample::report();
        let level = Level { name: name.into(), bound: "= 200".into(), measured: Some(0.0), met: false };
        report.runs[0].levels.push(level);
        sources(&[report], SYSTEM, None).len()
    };
    assert_eq!((missed("jobs Succeeded"), missed("jobsPerSecond")), (0, 1));
}

#[test]
fn replicas_share_the_work_which_the_plan_says_no_run_has_shown() {
    let shared = Demand { replicas: NonZeroU32::new(4).expect("it is 4"), ..demand() };
    let reports = [sample::report()];
    let plan = planned(&reports, shared);
    assert_eq!(of(&plan, "controller: processors, each replica").value, "0.025");
    assert_eq!(of(&plan, "own requests/s").value, "526");
    let said = remarks(&shared, &sources(&reports, SYSTEM, None)).join("\n");
    assert!(said.contains("no report is of a run with 4."), "{said}");
    assert!(said.contains("200 are asked for, which no run has shown"), "{said}");
}

#[test]
fn a_plan_for_replicas_is_made_from_a_run_of_as_many_if_there_is_one() {
    let (one, mut four) = (sample::report(), sample::report());
    four.runs[0].used.replicas = vec![sample::replica(); 4];
    four.runs[0].used.processes[0].cpu_seconds *= 2.0;
    let reports = [one, four];
    let all = sources(&reports, SYSTEM, None);
    let shared = Demand { replicas: NonZeroU32::new(4).expect("it is 4"), ..demand() };
    let with_four = of_replicas(&all, 4);
    let plan = estimates(&shared, &with_four).expect("a plan");
    // Twice the processor time in all, for four.
    assert_eq!(of(&plan, "controller: processors, each replica").value, "0.05");
    let said = remarks(&shared, &with_four).join("\n");
    assert!(!said.contains("even split"), "{said}");
    assert_eq!(of_replicas(&all, 1).len(), 1);
    assert_eq!(of_replicas(&all, 3)[0].run.replica_count(), 1);
}
