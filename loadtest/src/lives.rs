//! `loadtest lives`: where the time of small Frameworks goes, from the audit log. A life is the time from the
//! creation of a Framework to the last reply to a write to it, its ConfigMap or its Pods. Reads do not count:
//! those of the garbage collector come seconds late.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use framework_audit::{Log, Record};
use jiff::Timestamp;

use crate::number::{count, time, whole};
use crate::terminal::print;
use crate::tracker::percentile;

/// The parts that are shown first.
const WHOLE: &str = "the whole life";
const ASKED: &str = "a request about it is in the API server";
const NONE: &str = "none is";

/// The arguments of `loadtest lives`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The audit log of the API server.
    log: PathBuf,
    /// The group of the Frameworks: the part of their names before the number.
    #[arg(long, default_value = "small")]
    group: String,
}

/// A request about an object of a Framework.
struct Step {
    name: String,
    received: Timestamp,
    completed: Timestamp,
}

/// The seconds that each life spent in each of its parts and in each kind of request.
#[derive(Debug, Default)]
pub struct Lives {
    parts: BTreeMap<String, Vec<f64>>,
    count: usize,
}

impl Lives {
    /// The lives of the Frameworks of a group whose creation is in the log.
    pub fn read(log: &Log, group: &str) -> Result<Lives> {
        let mut steps: BTreeMap<String, Vec<Step>> = BTreeMap::new();
        log.each_since(Default::default(), |record| {
            if let Some((framework, step)) = step(&record, group) {
                steps.entry(framework).or_default().push(step);
            }
        })?;
        let mut lives = Lives::default();
        for steps in steps.into_values() {
            lives.add(steps);
        }
        Ok(lives)
    }

    fn add(&mut self, mut steps: Vec<Step>) {
        steps.sort_by_key(|step| step.received);
        let first = steps.first().filter(|step| step.name.starts_with("create frameworks"));
        let Some(first) = first else { return };
        let mut life: BTreeMap<String, f64> = BTreeMap::new();
        let mut spend = |part: String, from: Timestamp, to: Timestamp| {
            *life.entry(part).or_default() += to.duration_since(from).as_secs_f64();
        };
        let (begin, mut until, mut last) = (first.received, first.received, first);
        for step in &steps {
            spend(step.name.clone(), step.received, step.completed);
            if step.received > until {
                spend(NONE.to_owned(), until, step.received);
                spend(format!("none, after {}, before {}", last.name, step.name), until, step.received);
            }
            // The time that it has in common with an earlier request counts once.
            let from = step.received.max(until);
            if step.completed > from {
                spend(ASKED.to_owned(), from, step.completed);
                (until, last) = (step.completed, step);
            }
        }
        spend(WHOLE.to_owned(), begin, until);
        self.count += 1;
        for (part, seconds) in life {
            self.parts.entry(part).or_default().push(seconds);
        }
    }

    /// A table of the parts: those of every life first, and then by their time in all lives.
    pub fn table(mut self) -> String {
        let mut rows = Vec::new();
        for (part, seconds) in &mut self.parts {
            seconds.sort_by(f64::total_cmp);
            rows.push((part.as_str(), seconds.len(), seconds.iter().sum::<f64>(), &*seconds));
        }
        let order = [WHOLE, ASKED, NONE];
        let place = |part: &str| order.iter().position(|one| *one == part).unwrap_or(order.len());
        rows.sort_by(|one, other| place(one.0).cmp(&place(other.0)).then(other.2.total_cmp(&one.2)));
        let mut out = "| part of a life | lives | median | p99 | mean of all lives |\n".to_owned();
        out += "|---|---|---|---|---|\n";
        for (part, lives, sum, seconds) in rows {
            let [median, p99] = [50, 99].map(|percent| time(percentile(seconds, percent)));
            let mean = time(sum / self.count.max(1) as f64);
            out += &format!("| {part} | {} | {median} | {p99} | {mean} |\n", whole(lives));
        }
        out
    }
}

/// The Framework of an accepted request, and its step in the life.
fn step(record: &Record, group: &str) -> Option<(String, Step)> {
    let is_counted = ["frameworks", "configmaps", "pods"].contains(&record.resource.as_str());
    // The names of the load test's Frameworks have no dash; those of their objects continue with one.
    let framework = record.name.split('-').next()?;
    let number = framework.strip_prefix(group)?;
    let is_of_group = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_read = ["get", "list", "watch"].contains(&record.verb.as_str());
    if !is_counted || !is_of_group || is_read || record.code >= 300 {
        return None;
    }
    let client = record.user_agent.split(['/', ' ']).next().unwrap_or_default();
    let resource = match record.subresource.as_str() {
        "" => record.resource.clone(),
        subresource => format!("{}/{subresource}", record.resource),
    };
    let by = if client == "frameworkcontroller" { String::new() } else { format!(" ({client})") };
    let name = format!("{} {resource}{by}", record.verb);
    let key = format!("{}/{framework}", record.namespace);
    Some((key, Step { name, received: record.received, completed: record.completed }))
}

/// Prints the table.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let lives = Lives::read(&Log::new(arguments.log.clone()), &arguments.group)?;
    ensure!(lives.count > 0, "{}: no Framework of group {}", arguments.log.display(), arguments.group);
    let heading = format!("{} of group {}", count(lives.count, "Framework"), arguments.group);
    print(format_args!("{heading}:\n\n{}", lives.table()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn steps(all: &[(&str, i64, i64)]) -> Vec<Step> {
        let step = |(name, received, completed): &(&str, i64, i64)| Step {
            name: (*name).to_owned(),
            received: at(*received),
            completed: at(*completed),
        };
        all.iter().map(step).collect()
    }

    #[test]
    fn each_moment_of_a_life_is_in_a_request_or_between_two() {
        let mut lives = Lives::default();
        // The log has them in the order of their replies.
        lives.add(steps(&[
            ("create frameworks (loadtest)", 0, 10),
            ("patch pods/status (kwok)", 26, 28),
            ("update frameworks/status", 15, 30),
            ("delete pods", 25, 40),
            ("delete configmaps", 100, 101),
        ]));
        let table = lives.table();
        for row in [
            "| the whole life | 1 | 101 ms | 101 ms | 101 ms |",
            "| a request about it is in the API server | 1 | 36 ms |",
            "| none is | 1 | 65 ms |",
            "| none, after delete pods, before delete configmaps | 1 | 60 ms |",
            "| none, after create frameworks (loadtest), before update frameworks/status | 1 | 5 ms |",
            "| update frameworks/status | 1 | 15 ms |",
        ] {
            assert!(table.contains(row), "{row}\n{table}");
        }
    }

    #[test]
    fn accepted_writes_of_a_group_are_steps_of_its_frameworks() {
        let record = |verb: &str, name: &str, code| Record {
            verb: verb.into(),
            resource: "pods".into(),
            subresource: "status".into(),
            namespace: "loadtest".into(),
            name: name.into(),
            code,
            user: String::new(),
            user_agent: "kwok/v1".into(),
            request_uri: String::new(),
            received: at(0),
            completed: at(1),
            request_object: None,
            response_object: None,
        };
        let of = |verb: &str, name: &str, code| {
            step(&record(verb, name, code), "small").map(|(framework, step)| (framework, step.name))
        };
        let patch = "patch pods/status (kwok)".to_owned();
        assert_eq!(of("patch", "small12-w-0", 200), Some(("loadtest/small12".to_owned(), patch)));
        let others = [
            of("get", "small12-w-0", 200),
            of("patch", "small12-w-0", 404),
            of("patch", "large0-w-0", 200),
            of("patch", "smaller1-w-0", 200),
        ];
        assert_eq!(others, [const { None }; 4]);
    }

    #[test]
    fn a_life_without_its_creation_does_not_count() {
        let mut lives = Lives::default();
        lives.add(steps(&[("delete pods", 0, 10)]));
        assert_eq!((lives.count, lives.parts.len()), (0, 0));
    }
}
