//! What a report says was missed. The load test has told more of it on the terminal by then.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// A report, as far as it matters here.
#[derive(Deserialize)]
struct Report {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    given_up: Option<String>,
    levels: Vec<Level>,
}

#[derive(Deserialize)]
struct Level {
    name: String,
    bound: String,
    measured: Option<f64>,
    met: bool,
}

/// What was missed by the report in this file. A run that did not come so far has none.
pub(super) fn of(report: &Path) -> Result<Vec<String>> {
    if !report.exists() {
        return Ok(vec!["it could not be run".to_owned()]);
    }
    let text = std::fs::read(report).with_context(|| format!("reading {}", report.display()))?;
    let report = serde_json::from_slice(&text).with_context(|| format!("in {}", report.display()))?;
    Ok(told(&report))
}

fn told(report: &Report) -> Vec<String> {
    let run = |run: &Run| {
        let given_up = run.given_up.as_ref().map(|why| format!("given up: {why}"));
        let missed = run.levels.iter().filter(|level| !level.met).map(|level| {
            let measured =
                level.measured.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.3}"));
            format!("{} {}, and it was {measured}", level.name, level.bound)
        });
        given_up.into_iter().chain(missed).collect::<Vec<_>>()
    };
    report.runs.iter().flat_map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_missed_is_named_with_what_was_measured() {
        let report = json!({ "schema": "x", "runs": [{ "givenUp": "interrupted", "levels": [
            { "name": "refused", "bound": "≤ 0", "measured": 0.0, "met": true },
            { "name": "reads", "bound": "≤ 0", "measured": 3.0, "met": false },
            { "name": "unreconciled", "bound": "≤ 0", "measured": null, "met": false },
        ] }] });
        let report = serde_json::from_value(report).unwrap();
        assert_eq!(
            told(&report),
            [
                "given up: interrupted",
                "reads ≤ 0, and it was 3.000",
                "unreconciled ≤ 0, and it was not measured"
            ]
        );
        assert_eq!(of(Path::new("/there/is/none.json")).unwrap(), ["it could not be run"]);
    }
}
