//! The comparison of two reports.

use framework_loadtest::compare::noise::Significance;
use framework_loadtest::compare::{Comparison, compare};
use framework_loadtest::report::Report;
use framework_loadtest::scenario::{ReplicaKills, Scenario};

use crate::sample;

/// The comparison of the sample report with a changed copy.
fn after(change: impl Fn(&mut Report)) -> Comparison {
    let mut report = sample::report();
    change(&mut report);
    compare(&sample::report(), &report).expect("they are of the same work")
}

/// The names of the figures that became worse or better.
fn changed(comparison: &Comparison, significance: Significance) -> Vec<&str> {
    let changes = comparison.changes.iter().filter(|change| change.significance == significance);
    changes.map(|change| change.name.as_str()).collect()
}

#[test]
fn a_report_is_the_same_as_itself() {
    let same = after(|_| ());
    assert!(!same.is_worse() && same.changes.len() > 20, "{same:?}");
    assert!(same.changes.iter().all(|change| change.significance == Significance::Noise));
    assert!(same.shown(false).contains("figures are the same within noise.\n\nHow noise is judged"));
}

#[test]
fn a_request_too_many_is_a_regression_and_a_slower_second_is_noise() {
    let slower = after(|report| report.runs[0].latencies[0].p50 *= 1.2);
    assert!(!slower.is_worse());
    let asking = after(|report| report.runs[0].requests.reads = 1);
    assert_eq!(changed(&asking, Significance::Worse), ["own GETs and LISTs"]);
    assert!(asking.shown(false).contains("Worse beyond noise:\n  frameworkcontroller, recommended"));
}

#[test]
fn a_kind_of_request_that_is_new_counts_from_zero() {
    let patching = after(|report| {
        let rows = &mut report.runs[0].requests.rows;
        let row = rows.iter().find(|row| row.resource == "pods").expect("a row").clone();
        rows.push(framework_loadtest::report::RequestRow { verb: "patch".into(), count: 40, ..row });
    });
    assert_eq!(changed(&patching, Significance::Worse), ["own requests: patch pods"]);
    assert!(patching.changes.iter().any(|change| change.values.starts_with("0 → 40")));
}

/// The reports differ in what was counted: the first counted this figure, and the second did not.
fn assert_is_known_only_of_the_first(first: &Report, second: &Report, figure: &str) {
    let comparison = compare(first, second).expect("they are of the same work");
    let note = format!(": {figure} is known only of the first.");
    assert!(comparison.notes.iter().any(|one| one.ends_with(&note)), "{comparison:?}");
    assert!(comparison.changes.iter().all(|change| change.name != figure), "{comparison:?}");
}

#[test]
fn a_figure_that_was_not_counted_is_not_0() {
    let mut uncounted = sample::report();
    uncounted.runs[0].requests.source = "none".into();
    uncounted.runs[0].totals.pods = 0;
    assert_is_known_only_of_the_first(&sample::report(), &uncounted, "Pods");
    let mut missed = sample::queue_report();
    missed.runs[0].queue.as_mut().expect("it has Queues").over_admitted = None;
    assert_is_known_only_of_the_first(&sample::queue_report(), &missed, "units beyond the quota");
}

#[test]
fn memory_that_the_api_server_allocates_is_judged_on_any_machine() {
    let costly = after(|report| {
        report.machine.processors = 64;
        let bytes = &mut report.runs[0].bytes;
        bytes.api_server_allocated_per_task = bytes.api_server_allocated_per_task.map(|each| each * 1.11);
        bytes.api_server_objects_per_task = bytes.api_server_objects_per_task.map(|each| each * 1.11);
    });
    let names = ["bytes", "objects"].map(|of| format!("{of} that the API server allocated for each Task"));
    assert_eq!(changed(&costly, Significance::Worse), names);
    let unknown = after(|report| report.runs[0].bytes.api_server_objects_per_task = None);
    assert_eq!(changed(&unknown, Significance::Better), Vec::<&str>::new(), "it is not 0");
    assert!(unknown.notes.iter().any(|note| note.ends_with("is known only of the first.")), "{unknown:?}");
}

#[test]
fn other_processes_are_not_judged() {
    let busy = after(|report| {
        let run = &mut report.runs[0];
        run.used
            .processes
            .iter_mut()
            .find(|one| one.name == "loadtest")
            .expect("it is watched")
            .cpu_seconds *= 9.0;
    });
    assert!(!busy.is_worse(), "{busy:?}");
}

#[test]
fn an_improvement_is_no_regression() {
    let better = after(|report| report.runs[0].used.processes[0].cpu_seconds /= 2.0);
    assert!(!better.is_worse());
    assert_eq!(changed(&better, Significance::Better), ["the controller: processor time"]);
}

#[test]
fn a_level_that_is_missed_and_a_run_that_is_given_up_are_regressions() {
    let missed = after(|report| report.runs[0].levels[0].met = false);
    assert_eq!(changed(&missed, Significance::Worse), ["level writeEfficiency"]);
    let given_up = after(|report| {
        report.runs[0].given_up = Some("nothing moved".into());
        report.runs[0].throughput.tasks_per_second = 1.0;
    });
    assert_eq!(changed(&given_up, Significance::Worse), ["the run"]);
    assert!(given_up.notes.iter().any(|note| note.contains("are not compared")));
}

#[test]
fn between_different_machines_times_are_not_judged() {
    let elsewhere = |report: &mut Report| {
        report.machine.processors = 64;
        report.runs[0].throughput.tasks_per_second /= 9.0;
        report.runs[0].latencies[0].p50 *= 9.0;
    };
    let slower = after(elsewhere);
    assert!(!slower.is_worse() && slower.notes.iter().any(|note| note.contains("machines differ")));
    let asking = after(|report| {
        elsewhere(report);
        report.runs[0].requests.own += 1000;
    });
    assert_eq!(changed(&asking, Significance::Worse), ["own requests"]);
}

#[test]
fn reports_of_different_work_or_systems_are_not_compared() {
    let refused = |change: fn(&mut Scenario)| {
        let mut other = sample::report();
        change(&mut other.scenario);
        compare(&sample::report(), &other).expect_err("it is other work").to_string()
    };
    let size = "burst (200 jobs, 4,000 Tasks)";
    let begin = format!("the reports are of different work: {size} and");
    assert_eq!(
        refused(|scenario| scenario.groups[0].jobs = 100),
        format!("{begin} burst (100 jobs, 2,000 Tasks) differ in groups")
    );
    assert_eq!(
        refused(|scenario| scenario.queue = sample::queue_report().scenario.queue),
        format!("{begin} {size} differ in queue")
    );
    assert_eq!(
        refused(|scenario| scenario.replica_kills = Some(ReplicaKills { every_seconds: 30 })),
        format!("{begin} {size} differ in replicaKills")
    );
    assert_eq!(refused(|scenario| scenario.pinned = false), format!("{begin} {size} differ in pinned"));
    let mut other = sample::report();
    other.runs[0].system = "another".into();
    assert!(compare(&sample::report(), &other).is_err());
}

/// The sample report with a run for each number of own requests.
fn runs(own_requests: [usize; 3]) -> Report {
    let mut report = sample::report();
    let run = report.runs.remove(0);
    report.runs = vec![run; own_requests.len()];
    for (run, own) in report.runs.iter_mut().zip(own_requests) {
        run.requests.own = own;
    }
    report
}

#[test]
fn equal_runs_are_compared_by_their_medians_in_any_order() {
    let compared = |before, after| compare(&runs(before), &runs(after)).expect("they are of the same work");
    let same = compared([9000, 10_000, 50_000], [50_000, 9000, 10_000]);
    assert!(!same.is_worse(), "{same:?}");
    let title = "frameworkcontroller, recommended: kubeClientQps 5000, threshold 4 KiB";
    assert_eq!(same.notes, [format!("{title}: medians of 3 runs in the first, 3 runs in the second.")]);
    let more = compared([10_000, 10_000, 10_000], [10_000, 11_000, 12_000]);
    assert_eq!(changed(&more, Significance::Worse), ["own requests"]);
    assert!(more.changes.iter().any(|change| change.values.starts_with("10,000 → 11,000 ")), "{more:?}");
}

#[test]
fn a_level_that_one_of_equal_runs_misses_is_missed() {
    let (before, mut after) = (runs([10_000; 3]), runs([10_000; 3]));
    after.runs[1].levels[0].met = false;
    let missed = compare(&before, &after).expect("they are of the same work");
    assert_eq!(changed(&missed, Significance::Worse), ["level writeEfficiency"]);
    after.runs[1].given_up = Some("nothing moved".into());
    let given_up = compare(&before, &after).expect("they are of the same work");
    assert_eq!(changed(&given_up, Significance::Worse), ["the run", "level writeEfficiency"]);
}

#[test]
fn the_median_of_two_runs_is_their_mean() {
    let mut after = runs([10_000, 12_000, 0]);
    after.runs.pop();
    let more = compare(&runs([10_000; 3]), &after).expect("they are of the same work");
    assert!(more.changes.iter().any(|change| change.values.starts_with("10,000 → 11,000 ")), "{more:?}");
}

#[test]
fn systems_of_one_report_only_and_other_versions_are_noted() {
    let other = after(|report| {
        report.runs.push(sample::run("floor client", "", 1.0));
        report.versions.insert("kubernetes".into(), "v1.37.0".into());
    });
    assert_eq!(other.notes, ["kubernetes: v1.36.3 → v1.37.0.", "floor client is only in the second."]);
}
