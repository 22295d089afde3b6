//! docs/capacity.md and docs/performance.md are up to date with the kept reports.
//! `UPDATE=1 cargo test -p framework-loadtest --test reports` rewrites them.

use std::path::{Path, PathBuf};

use framework_loadtest::performance;
use framework_loadtest::plan::capacity::{BEGIN, END, generated};
use framework_loadtest::report::Report;
use framework_loadtest::saved;
use framework_loadtest::scenario::{Level, Scenario};

use crate::sample;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The reports that are kept, by their names.
fn kept() -> Vec<Report> {
    let Ok(entries) = std::fs::read_dir(docs().join("reports")) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths.iter().map(|path| saved::read(path).unwrap_or_else(|error| panic!("{error:#}"))).collect()
}

/// The scenario file of a name.
fn scenario(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name).with_extension("yaml");
    Scenario::read(&path).unwrap_or_else(|error| panic!("{error:#}"))
}

/// The document with another generated part.
fn with(document: &str, generated: &str) -> String {
    let (before, rest) = document.split_once(BEGIN).expect("the document has a generated part");
    let (_, after) = rest.split_once(END).expect("the generated part ends");
    format!("{before}{BEGIN}\n\n{generated}\n{END}{after}")
}

/// Asserts that a document has this generated part, or writes it.
fn assert_is_made(name: &str, generated: &str) {
    let path = docs().join(name);
    let found = std::fs::read_to_string(&path).expect("the document is there");
    assert_is(&path, &with(&found, generated));
}

/// Asserts that a file of docs has this text, or writes it.
fn assert_is(path: &Path, expected: &str) {
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("the directory is there");
        std::fs::write(path, expected).expect("the document is written");
    } else {
        let found = std::fs::read_to_string(path).unwrap_or_default();
        let command = "UPDATE=1 cargo test -p framework-loadtest --test reports";
        assert!(found == expected, "{} differs from docs/reports: run `{command}`", path.display());
    }
}

#[test]
fn the_capacity_page_is_made_from_the_reports() {
    assert_is_made("capacity.md", &generated(&kept()));
}

#[test]
fn the_performance_page_is_made_from_the_reports() {
    let reports = kept();
    assert_is_made("performance.md", &performance::generated(&reports));
    for chart in performance::charts(&reports) {
        assert_is(&docs().join("charts").join(chart.name).with_extension("svg"), &chart.svg);
    }
}

/// A time with two digits, as the manual has it.
fn two_digits(seconds: f64) -> String {
    if seconds < 1.0 { format!("{seconds:.2} s") } else { format!("{seconds:.0} s") }
}

#[test]
fn the_waves_of_the_manual_are_those_of_the_reports() {
    let page = include_str!("../../../docs/manual/ttl-and-deadline.md");
    let mut seen = 0;
    for report in kept() {
        let name = format!("`{}.json`", report.scenario.name);
        let Some(row) = page.lines().find(|line| line.starts_with('|') && line.contains(&name)) else {
            continue;
        };
        let waves = ["expiry → deletion", "deadline → exceeded"];
        let mut latencies = report.runs[0].latencies.iter();
        let latency = latencies.find(|one| waves.contains(&one.transition.as_str())).expect("a wave");
        let percentiles = format!("p50 {}, p99 {}", two_digits(latency.p50), two_digits(latency.p99));
        let last = format!("last {}", two_digits(latency.max));
        assert!(row.contains(&percentiles) || row.contains(&last), "{row}: {percentiles}, {last}");
        let levels = scenario(&report.scenario.name).levels;
        let limit = match levels.get(&Level::ExpiryP99Seconds) {
            Some(p99) => format!("| p99 {p99} s |"),
            None => format!("| {} s |", levels[&Level::DeadlineMaxSeconds]),
        };
        assert!(row.ends_with(&limit), "{row}: {limit}");
        seen += 1;
    }
    assert_eq!(seen, 3, "the rows were not found");
}

/// The part of `--shorten` with which a report was made, if it was.
const SHORTENED: [(&str, f64); 1] = [("stress-plan", 0.05)];

#[test]
fn a_kept_report_is_one_of_its_scenario_as_it_is_now() {
    for report in kept() {
        let name = report.scenario.name.as_str();
        let factor = SHORTENED.iter().find(|(shortened, _)| *shortened == name).map_or(1.0, |(_, by)| *by);
        let expected = scenario(name).shortened(factor);
        assert_eq!(report.scenario, expected, "run {name} again and keep its report");
    }
}

/// A report of runs with these numbers of replicas.
fn of_replicas(numbers: &[usize]) -> Report {
    let mut report = sample::report();
    let one = report.runs.swap_remove(0);
    report.runs = numbers
        .iter()
        .map(|number| {
            let mut run = one.clone();
            run.profile = "drop-in defaults".into();
            run.used.replicas = vec![sample::replica(); *number];
            run
        })
        .collect();
    report
}

#[test]
fn the_capacity_page_shows_what_several_replicas_divide() {
    assert!(!generated(&[of_replicas(&[1])]).contains("## Replicas"), "there is nothing to compare");
    let mut report = of_replicas(&[1, 4]);
    report.runs[1].used.replicas[2].received_bytes = Some(24_691_356);
    let page = generated(&[report]);
    assert!(
        page.contains("| 1 | 133 | 11.8 MiB (×1.00) | 500 ms (×1.00) | 20 MiB (×1.00) | 2 s (×1.00) |"),
        "{page}"
    );
    assert!(page.contains("| 4 | 133 | 23.5 MiB (×2.00) |"), "{page}");
    assert!(page.contains("| replicas | processors | memory |"), "{page}");
    // A fifth of 80 requests a second stays free, and 52.645 are for 20 Tasks.
    let tail = "≥ 600 × 20 | ≥ 12,000 | reach of the plan | 24.3 | kubeClientQps |";
    assert!(page.contains(&format!("| 1 | {tail}\n| 4 | {tail}\n")), "{page}");
}

#[test]
fn the_first_limits_of_the_capacity_page_are_those_of_the_base() {
    let page = generated(&[of_replicas(&[1, 4])]);
    let limits = page.split("## What N replicas hold").nth(1).and_then(|rest| rest.split("Limits: ").nth(1));
    let limits = limits.expect("the section has limits");
    assert!(
        limits.starts_with("memory 2 GiB and ") && limits.contains("; `kubeClientQps` 80 of"),
        "{limits}"
    );
    let deployment = include_str!("../../../deploy/base/deployment.yaml");
    let config = include_str!("../../../deploy/base/frameworkcontroller.yaml");
    assert!(deployment.contains("limits: {memory: 2Gi}") && config.contains("kubeClientQps: 80\n"));
}

#[test]
fn the_charts_show_each_system_and_size_that_has_figures() {
    let of = |name: &str, tasks: usize| {
        let mut report = sample::report();
        report.scenario.name = name.into();
        report.runs[0].totals.tasks = tasks;
        report.runs[0].bytes.api_server_allocated_per_task = Some(3.4e6);
        report
    };
    let mut burst = of("burst", 4000);
    burst.runs.push(sample::run("batch/v1 Job", "", 0.5));
    burst.runs[1].bytes.api_server_allocated_per_task = None;
    let drawn = performance::charts(&[burst, of("single-100", 100), of("single-1000", 1000)]);
    let names: Vec<&str> = drawn.iter().map(|chart| chart.name).collect();
    assert_eq!(names, ["rates-and-costs", "cost-against-size"]);
    let (bars, sizes) = (&drawn[0].svg, &drawn[1].svg);
    assert!(bars.contains("<title>batch/v1 Job: 267</title>") && bars.contains("200 × 20 Tasks"), "{bars}");
    assert_eq!(bars.matches(": 3.4</title>").count(), 1, "only one has this figure: {bars}");
    assert!(sizes.contains(">1,000</text>") && sizes.matches("<title>3.4</title>").count() == 2, "{sizes}");
    assert_eq!(performance::charts(&[sample::queue_report()]), []);
}

#[test]
fn the_performance_page_shows_the_processor_time_of_each_process() {
    let mut report = sample::report();
    assert!(!performance::generated(std::slice::from_ref(&report)).contains("Processor time of a Task"));
    report.runs.push(sample::run("batch/v1 Job", "", 0.5));
    report.runs.push(sample::run("floor client", "2n + 11", 0.8));
    let text = performance::generated(&[report]);
    assert!(text.contains("| burst: batch/v1 Job | "), "{text}");
    let busy: Vec<&str> = text.lines().filter(|line| line.ends_with(" % |")).collect();
    assert_eq!(busy.len(), 3, "{text}");
    assert!(busy[0].ends_with(" | 85 % |"), "51 s of two processors for 30 s: {}", busy[0]);
}

#[test]
fn the_performance_page_shows_systems_beside_each_other() {
    let mut report = sample::report();
    report.versions.insert("odd".into(), "a|b\nc".into());
    report.runs.push(sample::run("floor client", "2n + 11", 0.8));
    let text = performance::generated(&[report]);
    assert!(text.contains("odd a|b c\n") && text.contains("## burst: 200 jobs, 4,000 Tasks\n"), "{text}");
    assert!(text.contains("| floor client, 2n + 11 |") && text.contains("(×1)"), "{text}");
    let widths = text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches(" | ").count());
    assert!(widths.into_iter().all(|width| [0, 1, 4, 12].contains(&width)), "{text}");
    assert!(text.contains("\n## Requests of 200 Frameworks with 4,000 Tasks\n"), "{text}");
    assert!(
        text.contains("| kwok | 8,000 patch pods/status, 2 patch pods/status refused with 404 |"),
        "{text}"
    );
}

#[test]
fn units_have_their_own_table_and_are_not_planned_with() {
    let report = sample::queue_report();
    let text = performance::generated(std::slice::from_ref(&report));
    assert!(text.contains("200 QueueUnits") && text.contains("| 137 |"), "{text}");
    assert!(!generated(&[sample::report(), report]).contains("queues of"), "only Tasks are planned");
}

#[test]
fn kept_reports_are_trimmed() {
    let plots =
        kept().iter().flat_map(|report| report.runs.clone()).map(|run| run.series.len()).sum::<usize>();
    assert_eq!(plots, 0, "`loadtest trim` makes a report small enough to be kept");
}

#[test]
fn a_scenario_that_runs_no_task_has_no_speed_and_one_job_is_singular() {
    let mut report = sample::report();
    report.scenario.groups[0].jobs = 1;
    report.scenario.groups[0].expire_at_seconds = Some(20);
    let text = performance::generated(&[report]);
    assert!(text.contains("## burst: 1 job, 20 Tasks\n"), "{text}");
    assert!(text.contains("threshold 4 KiB | – | "), "{text}");
}

#[test]
fn a_target_that_several_scenarios_miss_is_called_missed() {
    let of = |name: &str, group: &str, tasks: usize, bytes: f64, p99: f64| {
        let mut report = sample::report();
        report.scenario.name = name.into();
        report.scenario.groups[0].name = group.into();
        report.scenario.groups[0].per_second = Some(2.0);
        report.runs[0].totals.tasks = tasks;
        report.runs[0].bytes.status_writes_per_task = Some(bytes);
        for latency in &mut report.runs[0].latencies {
            (latency.group, latency.p99) = (group.into(), p99);
        }
        report
    };
    let all = |bytes, p99| {
        let growth = [of("single-100", "job", 100, 1000.0, 1.0), of("single-1000", "job", 1000, bytes, 1.0)];
        let small = [of("mixed-sizes", "small", 20, 0.0, p99), of("small-alone", "small", 20, 0.0, 1.0)];
        performance::generated(&[growth, small].concat())
    };
    let missed = all(1500.0, 1.29);
    assert!(
        missed.contains("(single-100, single-1000): slope 1.18; target at most 1.10: missed."),
        "{missed}"
    );
    let rise = "1 s alone, 1.29 s beside one of 10,000 Tasks: +29 %; target at most +20 %: missed.";
    assert!(
        missed.contains("They arrive at 2 a second, recommended: kubeClientQps 5000, threshold 4 KiB ("),
        "{missed}"
    );
    assert!(missed.contains(rise), "{missed}");
    let met = all(1000.0, 1.1);
    assert!(met.contains("slope 1.00; target at most 1.10: met."), "{met}");
    assert!(met.contains("+10 %; target at most +20 %: met."), "{met}");
}

#[test]
fn a_target_that_one_scenario_misses_is_called_missed() {
    let mut report = sample::report();
    report.runs = vec![
        sample::run("frameworkcontroller", "drop-in defaults", 1.0),
        sample::run("batch/v1 Job", "", 0.5),
        sample::run("the original", "defaults", 4.0),
    ];
    let measured = |allocated: [f64; 3]| {
        let mut report = report.clone();
        for (run, allocated) in report.runs.iter_mut().zip(allocated) {
            run.bytes.api_server_allocated_per_task = Some(allocated);
        }
        performance::generated(&[report])
    };
    let missed = measured([2_700_000.0, 1_250_000.0, 13_000_000.0]);
    for row in [
        "| API server: allocated/Task | `burst`, drop-in defaults | ≤ 2.48 MiB | 2.57 MiB | missed |",
        "| allocated, the original's over ours | `burst` | ≥ 5 | 4.81 | missed |",
        "| rate over bytes | `burst` | ≥ 0.95 | 1.08 | met |",
    ] {
        assert!(missed.contains(row), "{row}\n{missed}");
    }
    let met = measured([2_500_000.0, 1_500_000.0, 13_000_000.0]);
    for row in [
        "| API server: allocated/Task | `burst`, drop-in defaults | ≤ 2.48 MiB | 2.38 MiB | met |",
        "| allocated, the original's over ours | `burst` | ≥ 5 | 5.2 | met |",
        "| rate over bytes | `burst` | ≥ 0.95 | 0.833 | missed |",
    ] {
        assert!(met.contains(row), "{row}\n{met}");
    }
    assert!(!met.contains("`burst-small`"), "it has no report: {met}");
}

#[test]
fn the_capacity_page_plans_side_by_side_and_says_what_is_too_far() {
    let mut report = sample::report();
    report.runs[0].totals.peak_tasks = Some(12_000);
    let mut faster = report.clone();
    faster.runs[0].throughput.tasks_per_second *= 2.0;
    report.runs[0].profile = "drop-in defaults, kubeClientQps 5000".into();
    let text = generated(&[report, faster]);
    assert!(text.starts_with("## Status writes\n| scenario | status writes/job |\n"), "{text}");
    assert!(text.contains("|\n| burst (200 × 20) | 10.6 |\n\n## Planned\n"), "{text}");
    assert!(
        text.contains("\n- **1,000 × 20, 1/s**: 1,000 Frameworks of 20 Tasks at one time; 1 Framework/s")
    );
    assert!(text.contains("\n| figure | 1,000 × 20, 1/s | 5,000 × 20, 3/s |\n"), "{text}");
    assert!(text.contains("\n| controller: memory | 66.7 MiB (3.41 KiB for each Task) [2] | "), "{text}");
    assert!(text.contains("\n- [2] burst (200 × 20; drop-in defaults"), "{text}");
    assert!(text.contains("\n- **30,000 × 20, 10/s** is not planned: controller: memory: 600,000 Tasks"));
    let widths = text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches(" | ").count());
    assert!(widths.into_iter().all(|width| [0, 1, 2].contains(&width)), "{text}");
    assert!(generated(&[]).starts_with("No report is kept"));
}
