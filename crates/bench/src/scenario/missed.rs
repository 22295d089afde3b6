//! The missed service levels of a report. The load test has printed the details before.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The part of a report that is read here.
#[derive(Deserialize)]
struct Report {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    given_up: Option<String>,
    levels: Vec<Level>,
    totals: Totals,
}

#[derive(Deserialize)]
struct Totals {
    #[serde(default)]
    problems: Vec<String>,
}

#[derive(Deserialize)]
struct Level {
    name: String,
    bound: String,
    measured: Option<f64>,
    met: bool,
}

/// The missed service levels of the report in this file, and what it lacks. A run that failed early has none.
pub(super) fn of(report: &Path) -> Result<Vec<String>> {
    if !report.exists() {
        return Ok(vec!["it could not be run".to_owned()]);
    }
    let text = std::fs::read(report).with_context(|| format!("reading {}", report.display()))?;
    let report = serde_json::from_slice(&text).with_context(|| format!("in {}", report.display()))?;
    Ok(missed(&report))
}

fn missed(report: &Report) -> Vec<String> {
    let run = |run: &Run| {
        let given_up = run.given_up.as_ref().map(|why| format!("given up: {why}"));
        let missed = run.levels.iter().filter(|level| !level.met).map(|level| {
            let measured =
                level.measured.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.3}"));
            format!("{} {}, and it was {measured}", level.name, level.bound)
        });
        given_up.into_iter().chain(run.totals.problems.iter().cloned()).chain(missed).collect::<Vec<_>>()
    };
    report.runs.iter().flat_map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_missed_level_is_named_with_its_measured_value() {
        let report = json!({ "schema": "x", "runs": [{ "givenUp": "interrupted", "levels": [
            { "name": "refused", "bound": "≤ 0", "measured": 0.0, "met": true },
            { "name": "reads", "bound": "≤ 0", "measured": 3.0, "met": false },
            { "name": "unreconciled", "bound": "≤ 0", "measured": null, "met": false },
        ], "totals": { "jobs": 1, "problems": ["the audit log is gone"] } }] });
        let report = serde_json::from_value(report).unwrap();
        assert_eq!(
            missed(&report),
            [
                "given up: interrupted",
                "the audit log is gone",
                "reads ≤ 0, and it was 3.000",
                "unreconciled ≤ 0, and it was not measured"
            ]
        );
        assert_eq!(of(Path::new("/there/is/none.json")).unwrap(), ["it could not be run"]);
    }
}
