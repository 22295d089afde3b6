//! Reports in files.

use framework_loadtest::report::{Report, SCHEMA};
use framework_loadtest::saved;

use crate::sample;

/// The error for a file of this text.
fn complaint(text: &str) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("it is written");
    let error = format!("{:#}", saved::read(file.path()).expect_err("it is refused"));
    let start = format!("{}: ", file.path().display());
    error.strip_prefix(&start).unwrap_or_else(|| panic!("it does not name the file: {error}")).to_owned()
}

fn text() -> String {
    saved::text(&sample::report()).expect("it can be written")
}

#[test]
fn a_report_that_was_written_is_read_again() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text()).expect("it is written");
    let (read, written) = (saved::read(file.path()).expect("it is read"), sample::report());
    // The last digit of a number that was read may be another, which the courses over time show.
    assert_eq!(saved::trimmed(read.clone()), saved::trimmed(written.clone()));
    let points =
        |report: &Report| report.runs[0].series.iter().map(|one| one.points.len()).collect::<Vec<_>>();
    assert_eq!(points(&read), points(&written));
}

#[test]
fn a_torn_report_says_so() {
    let whole = text();
    for length in [0, 1, whole.len() / 2, whole.len() - 3] {
        let complaint = complaint(&whole[..whole.floor_char_boundary(length)]);
        assert!(complaint.starts_with("not a whole report: it ends too early"), "{complaint}");
    }
    assert!(complaint("<!doctype html>").starts_with("not a whole report: it is not JSON"));
}

#[test]
fn a_report_of_another_version_is_refused_by_its_name() {
    let complaint_of_v9 = complaint(&text().replace(SCHEMA, "loadtest/v9"));
    assert!(
        complaint_of_v9.starts_with("its schema is loadtest/v9, and this program reads"),
        "{complaint_of_v9}"
    );
    assert_eq!(complaint("{}"), "not a report of a load test: it has no schema");
}

#[test]
fn a_wrong_field_of_a_report_is_named() {
    let mut report = serde_json::to_value(sample::report()).expect("it is JSON");
    report["runs"][0]["elapsedSeconds"] = "soon".into();
    let complaint = complaint(&report.to_string());
    assert!(complaint.contains("runs[0].elapsedSeconds"), "{complaint}");
}

#[test]
fn a_field_of_a_later_minor_version_is_ignored() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut report = serde_json::to_value(sample::report()).expect("it is JSON");
    report["runs"][0]["weather"] = "fine".into();
    std::fs::write(file.path(), report.to_string()).expect("it is written");
    let read = saved::read(file.path()).expect("it is read");
    assert_eq!(saved::trimmed(read), saved::trimmed(sample::report()));
}

#[test]
fn a_report_from_before_a_figure_was_measured_is_read_without_it() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut report = serde_json::to_value(sample::report()).expect("it is JSON");
    for (part, figure) in [("totals", "states"), ("requests", "writeEfficiencyLeast")] {
        let part = report["runs"][0][part].as_object_mut().expect("an object");
        assert!(part.remove(figure).is_some(), "{figure} is written");
    }
    std::fs::write(file.path(), report.to_string()).expect("it is written");
    let read = saved::read(file.path()).expect("it is read");
    assert!(read.runs[0].totals.states.is_empty());
    assert_eq!(read.runs[0].requests.write_efficiency_least, None);
}

#[test]
fn a_trimmed_report_keeps_all_figures_and_no_series() {
    let report = sample::report();
    let trimmed = saved::trimmed(report.clone());
    assert!(report.runs.iter().all(|run| !run.series.is_empty()));
    assert!(trimmed.runs.iter().all(|run| run.series.is_empty()));
    assert_eq!(trimmed.runs[0].latencies, report.runs[0].latencies);
    assert!(saved::text(&trimmed).expect("it can be written").len() < 8000);
}
