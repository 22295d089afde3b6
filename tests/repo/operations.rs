//! The tables of docs/operations.md agree with the program: keys with their defaults and ranges, flags, exit
//! codes, metrics.

use std::collections::BTreeSet;

use clap::CommandFactory;
use framework_api::config::Config;
use frameworkcontroller::args::Args;

const DOCUMENT: &str = include_str!("../../docs/operations.md");
const METRICS: &str = concat!(
    include_str!("../../crates/runtime/src/metrics.rs"),
    include_str!("../../crates/runtime/src/metrics/attempts.rs"),
    include_str!("../../crates/runtime/src/metrics/events.rs"),
    include_str!("../../crates/runtime/src/metrics/lifetimes.rs"),
    include_str!("../../crates/runtime/src/metrics/remaining.rs"),
    include_str!("../../crates/runtime/src/metrics/requests.rs"),
    include_str!("../../crates/runtime/src/metrics/membership.rs"),
    include_str!("../../crates/runtime/src/metrics/spans.rs"),
    include_str!("../../crates/runtime/src/metrics/stalls.rs"),
    include_str!("../../crates/runtime/src/metrics/units.rs"),
    include_str!("../../crates/runtime/src/metrics/watches.rs")
);

/// The cells of the table whose first column has that title.
fn table(title: &str) -> Vec<Vec<&'static str>> {
    let head = format!("| {title} |");
    let mut rows = DOCUMENT.lines().skip_while(|line| !line.starts_with(&head)).skip(2);
    let rows = rows.by_ref().take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> = rows
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    assert!(!rows.is_empty(), "there is no table of {title}");
    rows
}

fn first_cells(title: &str) -> BTreeSet<&'static str> {
    table(title).into_iter().map(|row| row[0]).collect()
}

/// A config file that sets one key, with its path written as nested mappings.
fn setting(key: &str, value: &str) -> String {
    let parts: Vec<&str> = key.split('.').collect();
    let (last, outer) = parts.split_last().expect("a key");
    format!(
        "{}{last}: {value}{}",
        outer.iter().map(|part| format!("{part}: {{")).collect::<String>(),
        "}".repeat(outer.len())
    )
}

fn refusal(yaml: &str) -> String {
    Config::parse(yaml).expect_err(yaml).to_string()
}

/// The keys that the config file knows at a path, as its own error message lists them.
fn known_keys(path: &str) -> Vec<String> {
    let key = if path.is_empty() { "q".to_owned() } else { format!("{path}.q") };
    let message = refusal(&setting(&key, "1"));
    let keys = message.split_once("known are ").unwrap_or_else(|| panic!("{message}")).1.split(", ");
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    keys.map(|key| format!("{prefix}{key}")).collect()
}

#[test]
fn the_table_has_every_key_and_no_other() {
    let groups = ["logObjectSnapshot", "tracing"];
    let mut known: BTreeSet<String> =
        known_keys("").into_iter().filter(|key| !groups.contains(&key.as_str())).collect();
    known.extend(known_keys("tracing"));
    for key in known_keys("logObjectSnapshot") {
        let is_value = Config::parse(&setting(&key, "true")).is_ok();
        known.extend(if is_value { vec![key] } else { known_keys(&key) });
    }
    let documented: BTreeSet<String> = first_cells("key").into_iter().map(str::to_owned).collect();
    assert_eq!(documented, known);
}

#[test]
fn every_default_holds_without_the_key() {
    let empty = Config::parse("").expect("an empty file is good");
    let mut checked = 0;
    for row in table("key") {
        let (key, default) = (row[0], row[1]);
        if default == "none" {
            continue;
        }
        assert_eq!(Config::parse(&setting(key, default)).expect(key), empty, "{key}: {default}");
        checked += 1;
        // A value that is not the default changes something, so that the key is the right one.
        let other = match default {
            "true" => "false".to_owned(),
            "false" => "true".to_owned(),
            "zstd" => "gzip".to_owned(),
            "0.0.0.0:8080" => "127.0.0.1:1".to_owned(),
            "2" => "3".to_owned(),
            "1000000" => "999999".to_owned(),
            number => (number.parse::<u32>().expect(key) + 1).to_string(),
        };
        assert_ne!(Config::parse(&setting(key, &other)).expect(key), empty, "{key}: {other}");
    }
    assert!(checked > 15, "{checked} defaults");
}

/// A value that a key must not have, by the table's column of allowed values; `None`: anything goes.
fn outside(key: &str, allowed: &str) -> Option<String> {
    let bad = match allowed {
        "a URL" | "a path" | "a list" => return None,
        "true or false" => "perhaps".to_owned(),
        "zstd, gzip" => "lzma".to_owned(),
        text if text.starts_with("an IP address") => "nowhere".to_owned(),
        text if text.starts_with("a URL with http") => "https://localhost:4318/v1/traces".to_owned(),
        "the name of a namespace" => "Nowhere".to_owned(),
        text if text.starts_with("a number above 0") => "0".to_owned(),
        range => {
            let (least, _) = range.split_once(" to ").unwrap_or_else(|| panic!("{key}: {range}"));
            (least.parse::<i64>().expect(key) - 1).to_string()
        }
    };
    Some(bad)
}

#[test]
fn every_range_is_the_one_that_is_enforced() {
    let mut checked = 0;
    for row in table("key") {
        let (key, allowed) = (row[0], row[2]);
        let Some(bad) = outside(key, allowed) else { continue };
        let message = refusal(&setting(key, &bad));
        assert!(message.contains(allowed), "{key}: {message}");
        checked += 1;
    }
    assert!(checked > 15, "{checked} ranges");
}

#[test]
fn the_table_has_every_flag() {
    let documented: BTreeSet<&str> =
        first_cells("flag").into_iter().filter(|flag| flag.starts_with("--")).collect();
    let command = Args::command();
    let known: BTreeSet<String> = command
        .get_arguments()
        .filter_map(|argument| argument.get_long())
        .map(|long| format!("--{long}"))
        .collect();
    assert_eq!(documented, known.iter().map(String::as_str).collect());
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    let help = Args::command().render_long_help().to_string().replace('\n', " ");
    for row in table("exit code") {
        let code: u8 = row[0].parse().expect("an exit code is a number");
        assert!(help.contains(&format!("{code} ")), "{code}: {help}");
    }
    assert_eq!(table("exit code").len(), 4);
}

/// The metrics that the source makes, without the prefix.
pub fn metrics() -> BTreeSet<&'static str> {
    // Those with labels are not in the text before they are counted, so only the source lists them all.
    let made = METRICS.split("maker.").skip(1).filter(|rest| !rest.starts_with("registry"));
    let made = made.filter(|rest| !rest.starts_with("process()"));
    // One histogram is made for each scrape, without the maker.
    let scraped = METRICS.split("HistogramOpts::new(").skip(1);
    made.chain(scraped).filter_map(|rest| rest.split('"').nth(1)).collect()
}

/// The name of such a metric as it is scraped.
pub fn full_name(metric: &str) -> String {
    let promised = metric.starts_with("framework_") || metric.starts_with("trainjob_");
    if promised { metric.to_owned() } else { format!("frameworkcontroller_{metric}") }
}

#[test]
fn the_table_has_every_metric_and_no_other() {
    let made = metrics();
    assert!(made.contains("build_info") && made.len() > 10, "{made:?}");
    assert_eq!(first_cells("metric"), made);
}
