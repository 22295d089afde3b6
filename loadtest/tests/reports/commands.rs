//! The commands of the manual, as users run them.

use std::path::Path;
use std::process::{Command, Output};

use framework_loadtest::report::Report;
use framework_loadtest::saved;

use crate::sample;

const PAGE: &str = include_str!("../../../docs/manual/load-test-reports.md");

fn write(dir: &Path, name: &str, report: &Report) {
    std::fs::write(dir.join(name), saved::text(report).expect("it can be written")).expect("it is written");
}

/// Calls `loadtest` with the arguments of a command line.
fn loadtest(dir: &Path, arguments: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    program.args(arguments.split_whitespace()).current_dir(dir).output().expect("loadtest runs")
}

/// Calls it with a reader of its output that is gone, as `head` may be.
fn unread(dir: &Path, arguments: &str) -> Output {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    program.args(arguments.split_whitespace()).current_dir(dir);
    program.stdout(writer).output().expect("loadtest runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A directory with the reports that the manual names.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("out")).expect("a directory");
    let report = sample::report();
    let mut slower = report.clone();
    slower.runs[0].requests.own += 2000;
    for (name, report) in [("out/report.json", &report), ("before.json", &report), ("after.json", &slower)] {
        write(dir.path(), name, report);
    }
    dir
}

#[test]
fn the_commands_of_the_manual_do_what_it_says() {
    let directory = directory();
    let commands: Vec<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("loadtest ")).collect();
    let expected = [
        ("render out/report.json --out page.html", 0, ""),
        ("compare before.json after.json", 1, "Worse beyond noise:"),
        (
            "plan out/report.json --frameworks 500 --tasks 20 --churn 5/s",
            0,
            "\n[1] burst (200 × 20; recommended",
        ),
        (
            "plan out/report.json --tasks 20 --replicas 1,2,3 --memory-limit 512Mi --qps 250",
            0,
            "| 3, an even split of one | ",
        ),
        ("trim out/report.json --out burst.json", 0, ""),
        ("plan --markdown burst.json", 0, "## Planned"),
    ];
    assert_eq!(commands, expected.map(|(command, ..)| command));
    for (command, code, words) in expected {
        let output = loadtest(directory.path(), command);
        assert_eq!(output.status.code(), Some(code), "{command}: {}", said(&output));
        assert!(said(&output).contains(words), "{command}: {}", said(&output));
    }
    let page = std::fs::read_to_string(directory.path().join("page.html")).expect("a page");
    assert!(page.starts_with("<!doctype html>"));
    let kept = saved::read(&directory.path().join("burst.json")).expect("a report");
    assert_eq!(kept, saved::trimmed(sample::report()));
}

#[test]
fn a_directory_that_takes_no_report_is_refused_before_the_run() {
    let directory = directory();
    let scenario = "description: d\ngroups: [{name: a, jobs: 1, taskRoles: [{name: w, taskNumber: 1}]}]";
    std::fs::write(directory.path().join("one.yaml"), scenario).expect("it is written");
    // Without a cluster: the directory is checked first.
    let output = loadtest(directory.path(), "run one.yaml --kubeconfig none --out before.json");
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("error: --out: creating before.json: "), "{}", said(&output));
}

#[test]
fn the_exit_code_of_a_comparison_tells_regression_from_bad_input() {
    let directory = directory();
    std::fs::write(directory.path().join("torn.json"), "{\"schema\": ").expect("it is written");
    for (command, code, words) in [
        ("compare before.json before.json", 0, "are the same within noise"),
        ("compare after.json before.json", 0, "Better beyond noise:"),
        ("compare before.json after.json --all", 1, "Within noise:"),
        ("compare before.json torn.json", 2, "error: torn.json: not a whole report: it ends too early"),
        ("compare before.json none.json", 2, "error: reading none.json: "),
        ("compare before.json", 2, "<AFTER>"),
    ] {
        let output = loadtest(directory.path(), command);
        assert_eq!(output.status.code(), Some(code), "{command}: {}", said(&output));
        assert!(said(&output).contains(words), "{command}: {}", said(&output));
    }
}

#[test]
fn an_output_that_nobody_reads_changes_no_exit_code() {
    let directory = directory();
    for (command, code) in [
        ("compare before.json before.json --all", 0),
        ("compare before.json after.json", 1),
        ("plan before.json --frameworks 500 --tasks 20 --churn 5/s", 0),
        ("plan before.json --tasks 20 --memory-limit 512Mi", 0),
        ("plan --markdown before.json", 0),
        ("render before.json", 0),
        ("trim before.json", 0),
    ] {
        let output = unread(directory.path(), command);
        assert_eq!((output.status.code(), &*said(&output)), (Some(code), ""), "{command}");
    }
}

#[test]
fn a_plan_without_its_demand_or_a_report_is_refused() {
    let directory = directory();
    for (command, words) in [
        ("plan before.json --frameworks 10 --tasks 1", "--churn <CHURN>"),
        ("plan before.json --frameworks 10 --tasks 1 --churn 1/w", "is none of s, min, h, d"),
        ("plan --frameworks 10 --tasks 1 --churn 1/s", "<REPORTS>"),
        (
            "plan before.json --frameworks 30000 --tasks 20 --churn 10/s",
            "error: controller: memory: 600,000 Tasks at one time are more than ×10 the 1,200 of burst",
        ),
        ("plan before.json --system x --frameworks 10 --tasks 1 --churn 1/s", "no report has a run of x"),
        ("plan before.json --frameworks 10 --tasks 9 --churn 1/s --replicas 1,2", "one number is allowed"),
        ("plan before.json --tasks 20 --memory-limit 0", "is not an amount above 0"),
        ("plan before.json --tasks 20 --system x --memory-limit 1Gi", "no report has a run of x to plan"),
        ("plan before.json --frameworks 10 --tasks 9 --churn 1/s --qps 9", "cannot be used with"),
    ] {
        let output = loadtest(directory.path(), command);
        assert!(!output.status.success() && said(&output).contains(words), "{command}: {}", said(&output));
    }
}
