//! Reads and writes report files. A torn file or one of another version is an error that says so.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;

use crate::report::{Report, SCHEMA};

/// The field that every version has.
#[derive(Deserialize)]
struct Versioned {
    schema: Option<String>,
}

/// Reads `report.json`. The error names the file and the problem.
pub fn read(path: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<Report> {
    let versioned: Versioned = serde_json::from_str(text).map_err(|error| {
        let why =
            if error.is_eof() { "it ends too early: was its writing interrupted?" } else { "it is not JSON" };
        anyhow!("not a whole report: {why} ({error})")
    })?;
    let schema = versioned.schema.ok_or_else(|| anyhow!("not a report of a load test: it has no schema"))?;
    ensure!(
        schema == SCHEMA,
        "its schema is {schema}, and this program reads {SCHEMA}: use the loadtest that wrote it"
    );
    let report: Report = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))
        .map_err(|error| anyhow!("not a report of {SCHEMA}: {error}"))?;
    ensure!(!report.runs.is_empty(), "the report has no run");
    Ok(report)
}

/// The report as JSON, one field a line.
pub fn text(report: &Report) -> Result<String> {
    Ok(serde_json::to_string_pretty(report).context("writing a report as JSON")? + "\n")
}

/// The report without its course over time: small enough to be kept beside the code.
pub fn trimmed(mut report: Report) -> Report {
    for run in &mut report.runs {
        run.series.clear();
    }
    report
}
