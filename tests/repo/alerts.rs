//! The alerts of `deploy/monitoring`. For each, promtool runs a case where it fires and one where it is
//! silent. They name metrics that exist, and docs/alerts.md has a runbook of each.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use framework_programs::{Binaries, Program};
use serde_json::Value;

use crate::operations;

const RULES: &str = include_str!("../../deploy/monitoring/prometheus_rule.yaml");
const CASES: &str = include_str!("../data/alerts.yaml");
const RUNBOOKS: &str = include_str!("../../docs/alerts.md");

/// The rules as Prometheus reads them, without the object around them.
fn groups() -> Value {
    let object: Value = serde_saphyr::from_str(RULES).expect("YAML");
    object["spec"].clone()
}

fn alerts() -> Vec<Value> {
    let groups = groups();
    let groups = groups["groups"].as_array().expect("a list of groups");
    groups.iter().flat_map(|group| group["rules"].as_array().expect("a list of rules").clone()).collect()
}

fn name(alert: &Value) -> &str {
    alert["alert"].as_str().expect("an alert has a name")
}

fn promtool(dir: &Path, arguments: &[&str]) {
    let promtool =
        Binaries::tool(Program::Promtool, &framework_programs::say).expect("promtool is there, or is built");
    let output = Command::new(promtool).args(arguments).current_dir(dir).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn every_alert_fires_in_its_case_and_none_on_a_healthy_replica() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("rules.json"), groups().to_string()).expect("the rules are written");
    std::fs::write(dir.path().join("alerts.yaml"), CASES).expect("the cases are written");
    promtool(dir.path(), &["check", "rules", "--lint=all", "--lint-fatal", "rules.json"]);
    promtool(dir.path(), &["test", "rules", "alerts.yaml"]);
    for alert in alerts() {
        let quoted = format!("alertname=\"{}\"", name(&alert));
        let fires =
            CASES.contains(&format!("{quoted}}}', value: 1")) || CASES.contains(&format!("{quoted},"));
        assert!(fires, "{} has no case", name(&alert));
    }
}

#[test]
fn every_alert_has_its_runbook_and_every_runbook_its_alert() {
    let runbooks: BTreeSet<&str> = RUNBOOKS.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts = alerts();
    let names: BTreeSet<&str> = alerts.iter().map(name).collect();
    assert_eq!(runbooks, names);
    for alert in &alerts {
        let url = alert["annotations"]["runbook_url"].as_str().expect("a URL");
        let page = "https://docs.example.com/frameworkcontroller/alerts.md";
        assert_eq!(url, format!("{page}#{}", name(alert).to_lowercase()));
        assert!(alert["annotations"]["summary"].is_string(), "{}", name(alert));
        let severity = alert["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("critical" | "warning")), "{}: {severity:?}", name(alert));
    }
    for section in RUNBOOKS.split("\n## ").skip(1) {
        for part in ["**Effect.**", "**Cause.**"] {
            assert!(
                section.contains(part),
                "{part} is missing in {}",
                section.lines().next().unwrap_or(section)
            );
        }
    }
}

#[test]
fn every_alert_and_every_case_names_metrics_that_exist() {
    let known: BTreeSet<String> = operations::metrics().into_iter().map(operations::full_name).collect();
    let mut seen = 0;
    for text in [groups().to_string(), CASES.to_owned()] {
        let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        for word in words.filter(|word| word.starts_with("framework") && word.contains('_')) {
            let word = word.strip_suffix("_bucket").unwrap_or(word);
            assert!(known.contains(word), "{word} is no metric");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} names");
}

#[test]
fn the_bound_of_an_old_lease_follows_from_its_default() {
    let default = framework_api::config::Config::parse("").expect("an empty file is good");
    let bound = default.lease_duration_sec as f64 * 0.8;
    let alerts = alerts();
    let alert = alerts.iter().find(|alert| name(alert) == "FrameworkControllerLeaseOld").expect("it exists");
    assert_eq!(alert["expr"], format!("frameworkcontroller_lease_age_seconds > {bound}"));
}
