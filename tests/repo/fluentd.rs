//! The configuration for Fluentd in docs/manual/history.md, against Fluentd's documented grammar.
//!
//! Fluentd itself is not started. Each directive, plugin and parameter of the page must be one that the
//! documentation of Fluentd 1.x lists. The filters are applied to a line of the log.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Value, json};

const HISTORY: &str = include_str!("../../docs/manual/history.md");

/// The documented parameters of `filter_parser`.
const FILTER: [&str; 8] = [
    "key_name",
    "reserve_time",
    "reserve_data",
    "remove_key_name_field",
    "replace_invalid_sequence",
    "inject_key_prefix",
    "hash_value_field",
    "emit_invalid_record_to_error",
];
/// The documented parameters of every parser.
const PARSE: [&str; 6] = [
    "types",
    "time_key",
    "null_value_pattern",
    "null_empty_string",
    "estimate_current_event",
    "keep_time_key",
];
/// The documented types of the parameter `types`.
const TYPES: [&str; 6] = ["string", "bool", "integer", "float", "time", "array"];

/// A section: its parameters and its subsections.
#[derive(Debug, Default)]
struct Section {
    name: String,
    parameters: BTreeMap<String, String>,
    sections: Vec<Section>,
}

impl Section {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }
}

/// Reads a configuration; panics where it is not well formed.
fn read(text: &str) -> Vec<Section> {
    let mut open = vec![Section::default()];
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("</").and_then(|line| line.strip_suffix('>')) {
            let section = open.pop().expect("a section is open");
            assert_eq!(section.name.split(' ').next(), Some(name), "</{name}> closes another section");
            open.last_mut().expect("a section around it").sections.push(section);
        } else if let Some(name) = line.strip_prefix('<').and_then(|line| line.strip_suffix('>')) {
            open.push(Section { name: name.to_owned(), ..Section::default() });
        } else {
            let (name, value) = line.split_once(' ').unwrap_or_else(|| panic!("{line} has no value"));
            let parameters = &mut open.last_mut().expect("a section").parameters;
            assert_eq!(parameters.insert(name.to_owned(), value.trim().to_owned()), None, "{name} twice");
        }
    }
    assert_eq!(open.len(), 1, "{} is not closed", open[open.len() - 1].name);
    open.remove(0).sections
}

/// The mistakes in a filter, by the documentation.
fn mistakes(filter: &Section) -> Vec<String> {
    let mut mistakes = Vec::new();
    if !filter.name.starts_with("filter ") || filter.parameter("@type") != Some("parser") {
        mistakes.push(format!("<{}> is no filter_parser", filter.name));
    }
    let unknown =
        filter.parameters.keys().filter(|name| *name != "@type" && !FILTER.contains(&name.as_str()));
    mistakes.extend(unknown.map(|name| format!("filter_parser has no {name}")));
    if filter.parameter("key_name").is_none() {
        mistakes.push("key_name is required".to_owned());
    }
    let [parse] = &filter.sections[..] else {
        mistakes.push("one <parse> is required".to_owned());
        return mistakes;
    };
    let own: &[&str] = match parse.parameter("@type") {
        Some("regexp") => &["expression", "ignorecase", "multiline"],
        Some("json") => &["json_parser", "stream_buffer_size"],
        other => {
            mistakes.push(format!("this test knows no parser {other:?}"));
            &[]
        }
    };
    let known = |name: &str| name == "@type" || PARSE.contains(&name) || own.contains(&name);
    mistakes.extend(parse.parameters.keys().filter(|name| !known(name)).map(|name| format!("no {name}")));
    for pair in parse.parameter("types").into_iter().flat_map(|types| types.split(',')) {
        let kind = pair.split(':').nth(1).unwrap_or_default();
        if !TYPES.contains(&kind) {
            mistakes.push(format!("{kind} is not a type"));
        }
    }
    mistakes
}

/// The output of the filter for a record; `None`: it drops it.
fn apply(filter: &Section, record: &Value) -> Option<Value> {
    let parse = &filter.sections[0];
    let text = record[filter.parameter("key_name")?].as_str()?;
    let parsed = match parse.parameter("@type")? {
        "json" => serde_json::from_str::<Value>(text).ok()?,
        _ => {
            let expression = parse.parameter("expression")?.strip_prefix('/')?.strip_suffix('/')?;
            let expression = Regex::new(expression).expect("a regular expression");
            let captures = expression.captures(text)?;
            let named = expression.capture_names().flatten();
            named.map(|name| (name.to_owned(), json!(captures[name]))).collect()
        }
    };
    let parsed = match filter.parameter("hash_value_field") {
        Some(field) => json!({ field: parsed }),
        None => parsed,
    };
    if filter.parameter("reserve_data") != Some("true") {
        return Some(parsed);
    }
    let mut merged = record.clone();
    merged.as_object_mut()?.extend(parsed.as_object()?.clone());
    Some(merged)
}

fn shown() -> Vec<Section> {
    let shown = HISTORY.split("```text\n").find(|block| block.starts_with("<filter"));
    read(shown.and_then(|block| block.split("```").next()).expect("the page shows one"))
}

#[test]
fn the_fluentd_configuration_has_documented_parameters_only() {
    let filters = shown();
    assert_eq!(filters.len(), 2);
    for filter in &filters {
        assert_eq!(mistakes(filter), Vec::<String>::new());
    }
    let parse = "<parse>\n@type regexp\nexpression /a/\ntypes a:json\n</parse>";
    let wrong = format!("<filter a.**>\n@type parser\n{parse}\n</filter>");
    assert_eq!(mistakes(&read(&wrong)[0]), ["key_name is required", "json is not a type"]);
}

#[test]
fn the_fluentd_configuration_keeps_objects_and_drops_other_lines() {
    let through =
        |line: &str| shown().iter().try_fold(json!({ "log": line }), |record, filter| apply(filter, &record));
    let object =
        json!({"kind": "Task", "metadata": {"name": "job-worker-0"}, "status": {"text": "a: b {\"c\"}"}});
    let line =
        format!("2026-01-02T03:04:05Z  INFO [ns/job] it is retried: OnTaskRetry: ObjectSnapshot: {object}");
    assert_eq!(through(&line), Some(json!({ "trigger": "OnTaskRetry", "object": object })));
    assert_eq!(through("2026-01-02T03:04:05Z  INFO the controller is ready"), None);
}
