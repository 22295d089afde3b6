//! docs/capacity.md and docs/performance.md are what their generators make of the reports that are kept.
//! `UPDATE=1 cargo test -p framework-loadtest --test reports` rewrites them.

use std::path::{Path, PathBuf};

use framework_loadtest::performance;
use framework_loadtest::plan::capacity::{BEGIN, END, generated};
use framework_loadtest::report::Report;
use framework_loadtest::saved;

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
    let expected = with(&found, generated);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &expected).expect("the document is written");
    } else {
        let command = "UPDATE=1 cargo test -p framework-loadtest --test reports";
        assert!(found == expected, "docs/{name} is not what docs/reports make: run `{command}`");
    }
}

#[test]
fn the_capacity_page_is_made_from_the_reports() {
    assert_is_made("capacity.md", &generated(&kept()));
}

#[test]
fn the_performance_page_is_made_from_the_reports() {
    assert_is_made("performance.md", &performance::generated(&kept()));
}

#[test]
fn the_performance_page_shows_systems_beside_each_other() {
    let mut report = sample::report();
    report.runs.push(sample::run("floor client", "2n + 11", 0.8));
    let text = performance::generated(&[report]);
    assert!(text.contains("| floor client, 2n + 11 |") && text.contains("(×1)"), "{text}");
    let widths = text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches(" | ").count());
    assert!(widths.into_iter().all(|width| [0, 11].contains(&width)), "{text}");
}

#[test]
fn units_have_a_table_of_their_own_and_no_place_among_tasks() {
    let report = sample::queue_report();
    let text = performance::generated(std::slice::from_ref(&report));
    assert!(text.contains("200 QueueUnits") && text.contains("| 137 |"), "{text}");
    assert!(!generated(&[sample::report(), report]).contains("queues of"), "what Tasks take is planned");
}

#[test]
fn kept_reports_are_trimmed() {
    let plots =
        kept().iter().flat_map(|report| report.runs.clone()).map(|run| run.series.len()).sum::<usize>();
    assert_eq!(plots, 0, "`loadtest trim` makes a report small enough to be kept");
}

#[test]
fn the_capacity_page_shows_what_was_measured_and_what_is_planned() {
    let mut report = sample::report();
    report.versions.insert("odd".into(), "a|b\nc".into());
    report.runs.push(sample::run("floor client", "2n + 11", 0.8));
    let text = generated(&[report]);
    assert!(text.contains("\n| burst (200 × 20) | frameworkcontroller, recommended"), "{text}");
    assert!(text.contains("odd a|b c\n") && text.contains("| floor client, 2n + 11 | 0.969 |"), "{text}");
    assert!(text.contains("### 30,000 Frameworks of 20 Tasks, 10 Frameworks/s"), "{text}");
    assert!(text.contains("| controller: memory | 9.79 GiB (17.1 KiB for each Task) | burst"), "{text}");
    let widths = text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches(" | ").count());
    assert!(widths.into_iter().all(|width| [0, 3, 9].contains(&width)), "{text}");
    assert!(generated(&[]).starts_with("No report is kept"));
}
