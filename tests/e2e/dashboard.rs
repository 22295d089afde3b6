//! The dashboard of `deploy/monitoring`: after a real run, Prometheus finds series for each of its queries.
//!
//! promtool is Prometheus' own engine of queries, which the gate has built for the alerts. It gets the
//! series of a controller before and after the run, with the labels that the PodMonitor adds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use framework_programs::{Binaries, Program};
use serde_json::{Value, json};

use crate::cluster::lease::Alone;
use crate::cluster::queues::QUEUEING;
use crate::cluster::replicas::Replicas;
use crate::cluster::until;
use crate::dashboard_life::{life, queries};
use crate::lifetime::metrics;

/// The labels of the target, which Prometheus prefers to those of the same name in the scraped series.
const TARGET: [(&str, &str); 2] = [("namespace", "frameworkcontroller"), ("pod", "frameworkcontroller-a")];

/// A series as Prometheus stores it.
fn stored(series: &str) -> String {
    let (name, labels) = series.strip_suffix('}').and_then(|it| it.split_once('{')).unwrap_or((series, ""));
    let mut text = format!("{name}{{");
    for (label, value) in TARGET {
        write!(text, "{label}=\"{value}\",").expect("a string takes it");
    }
    let exported = TARGET.map(|(label, _)| (format!("{label}=\""), format!("exported_{label}=\"")));
    let labels = exported.iter().fold(labels.to_owned(), |labels, (from, to)| labels.replace(from, to));
    text + &labels + "}"
}

/// The series of two scrapes, a minute apart, the second of which is repeated: as promtool reads them.
fn input(before: &str, after: &str) -> Vec<Value> {
    let samples = |text: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.filter_map(|line| line.rsplit_once(' '));
        samples.map(|(series, value)| (stored(series), value.to_owned())).collect()
    };
    let (before, after) = (samples(before), samples(after));
    let number = |value: Option<&String>| {
        value.filter(|value| value.parse().is_ok_and(f64::is_finite)).map_or("_", String::as_str).to_owned()
    };
    let values = |(series, value): (&String, &String)| {
        let (first, value) = (number(before.get(series)), number(Some(value)));
        json!({"series": series, "values": format!("{first} {value} {value} {value}")})
    };
    after.iter().map(values).collect()
}

/// The metrics that a controller serves, without the head of the response.
fn scrape() -> String {
    metrics::scrape("dashboard").split_once("\r\n\r\n").expect("a body").1.to_owned()
}

#[test]
fn every_query_of_the_dashboard_finds_series_after_a_real_run() {
    let _alone = Alone::wait();
    let mut replicas = Replicas::none();
    replicas.start("dashboard", QUEUEING);
    replicas.await_shares();
    let before = scrape();
    life();
    // The gauges of units are taken every few seconds.
    let after = until("a unit waits", || Some(scrape()).filter(|text| text.contains("queue_units_waiting{")));
    let series = input(&before, &after);
    let queries = queries();
    assert!(queries.len() >= 12, "{queries:?}");
    let tests = queries.iter().map(|(title, query)| {
        let found = json!({"labels": "{}", "value": 1});
        let finds =
            json!({"expr": format!("count({query}) > bool 0"), "eval_time": "3m", "exp_samples": [found]});
        json!({"name": title, "interval": "1m", "input_series": series, "promql_expr_test": [finds]})
    });
    let directory = tempfile::tempdir().expect("a directory");
    let file = json!({"evaluation_interval": "1m", "tests": tests.collect::<Vec<_>>()});
    std::fs::write(directory.path().join("dashboard.json"), file.to_string()).expect("it is written");
    let promtool =
        Binaries::tool(Program::Promtool, &framework_programs::say).expect("promtool is there, or is built");
    let mut promtool = Command::new(promtool);
    let output = promtool.args(["test", "rules", "dashboard.json"]).current_dir(directory.path()).output();
    let output = output.expect("promtool runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}
