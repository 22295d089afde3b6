//! `loadtest compare`: the changes beyond noise between two reports of the same work.

pub mod noise;

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

use crate::figure::{Figure, figures};
use crate::number::{count, ratio, short};
use crate::report::{Report, Run};
use crate::saved;
use crate::scenario::Scenario;
use noise::{Significance, bound, holds_elsewhere, judge};

/// The arguments of `loadtest compare`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The report to compare with.
    before: PathBuf,
    /// The report to judge.
    after: PathBuf,
    /// Also show the changes within noise.
    #[arg(long)]
    all: bool,
}

/// The differences between two reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Remarks for the reader.
    pub notes: Vec<String>,
    /// Every figure of both.
    pub changes: Vec<Change>,
}

/// One figure in both reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The system and how it was set.
    pub run: String,
    /// The name of the figure.
    pub name: String,
    /// Both values, their ratio, and the share that is noise.
    pub values: String,
    /// Whether the change is noise, better or worse.
    pub significance: Significance,
}

/// Compares and prints. The exit code is 0 if no figure is worse, 1 if one is, 2 if the reports cannot be
/// compared.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let compared = saved::read(&arguments.before)
        .and_then(|before| Ok((before, saved::read(&arguments.after)?)))
        .and_then(|(before, after)| compare(&before, &after));
    match compared {
        Ok(comparison) => {
            print!("{}", comparison.shown(arguments.all));
            Ok(if comparison.is_worse() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            Ok(ExitCode::from(2))
        }
    }
}

/// Compares run by run. The error names why the reports cannot be compared.
pub fn compare(before: &Report, after: &Report) -> Result<Comparison> {
    let work = |report: &Report| {
        let scenario = &report.scenario;
        format!("{} ({}, {})", scenario.name, count(scenario.jobs(), "job"), count(scenario.tasks(), "Task"))
    };
    if let Some(field) = other_work(&before.scenario, &after.scenario) {
        bail!("the reports are of different work: {} and {} differ in {field}", work(before), work(after));
    }
    let mut comparison = Comparison { notes: versions(before, after), changes: Vec::new() };
    let same_machine = is_same_machine(before, after);
    if !same_machine {
        comparison.notes.push("The machines differ: only counts and bytes are judged.".into());
    }
    let mut pairs = 0;
    for run in &before.runs {
        match counterpart(run, after) {
            Some(other) => {
                pairs += 1;
                comparison.runs(run, other, same_machine);
            }
            None => comparison.notes.push(format!("{} is only in the first.", run.title())),
        }
    }
    ensure!(pairs > 0, "the reports have no system in common");
    for run in after.runs.iter().filter(|run| counterpart(run, before).is_none()) {
        comparison.notes.push(format!("{} is only in the second.", run.title()));
    }
    Ok(comparison)
}

/// The first field in which the work of two scenarios differs.
fn other_work(one: &Scenario, other: &Scenario) -> Option<&'static str> {
    let fields = [
        ("groups", one.groups == other.groups),
        ("queue", one.queue == other.queue),
        ("replicaKills", one.replica_kills == other.replica_kills),
        ("pinned", one.pinned == other.pinned),
    ];
    fields.into_iter().find_map(|(field, is_same)| (!is_same).then_some(field))
}

/// The run of the same system and profile.
fn counterpart<'a>(run: &Run, report: &'a Report) -> Option<&'a Run> {
    report.runs.iter().find(|other| (&other.system, &other.profile) == (&run.system, &run.profile))
}

fn is_same_machine(before: &Report, after: &Report) -> bool {
    let what = |report: &Report| {
        let machine = &report.machine;
        (machine.processor.clone(), machine.processors, machine.shared_with_cluster)
    };
    what(before) == what(after)
}

fn versions(before: &Report, after: &Report) -> Vec<String> {
    let mut names: Vec<&String> = before.versions.keys().chain(after.versions.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let of =
        |report: &Report, name: &String| report.versions.get(name).map_or("none", String::as_str).to_owned();
    let both = names.into_iter().map(|name| (name, of(before, name), of(after, name)));
    both.filter(|(_, one, two)| one != two)
        .map(|(name, one, two)| format!("{name}: {one} → {two}."))
        .collect()
}

impl Comparison {
    /// Whether anything became worse beyond noise.
    pub fn is_worse(&self) -> bool {
        self.changes.iter().any(|change| change.significance == Significance::Worse)
    }

    fn runs(&mut self, before: &Run, after: &Run, same_machine: bool) {
        let title = before.title();
        self.ends(before, after, &title);
        self.levels(before, after, &title);
        if before.given_up.is_some() || after.given_up.is_some() {
            return self
                .notes
                .push(format!("{title}: the figures of a run that was given up are not compared."));
        }
        let (first, second) = (figures(before), figures(after));
        for figure in &first {
            match named(&second, figure).or_else(|| absent(figure, after)) {
                Some(other) => self.judge(&title, figure, &other, same_machine),
                None => self.notes.push(format!("{title}: {} is known only of the first.", figure.name)),
            }
        }
        for figure in second.iter().filter(|figure| named(&first, figure).is_none()) {
            match absent(figure, before) {
                Some(none) => self.judge(&title, &none, figure, same_machine),
                None => self.notes.push(format!("{title}: {} is known only of the second.", figure.name)),
            }
        }
    }

    fn ends(&mut self, before: &Run, after: &Run, title: &str) {
        let significance = match (&before.given_up, &after.given_up) {
            (None, Some(_)) => Significance::Worse,
            (Some(_), None) => Significance::Better,
            _ => return,
        };
        let said = |run: &Run| run.given_up.as_ref().map_or("done".into(), |why| format!("given up: {why}"));
        let values = format!("{} → {}", said(before), said(after));
        self.changes.push(Change { run: title.into(), name: "the run".into(), values, significance });
    }

    fn levels(&mut self, before: &Run, after: &Run, title: &str) {
        for level in &after.levels {
            let Some(old) = before.levels.iter().find(|old| old.name == level.name) else { continue };
            let significance = match (old.met, level.met) {
                (true, false) => Significance::Worse,
                (false, true) => Significance::Better,
                _ => continue,
            };
            let said = |measured: Option<f64>| measured.map_or("not measured".into(), short);
            let values =
                format!("{} → {} (promised {})", said(old.measured), said(level.measured), level.bound);
            self.changes.push(Change {
                run: title.into(),
                name: format!("level {}", level.name),
                values,
                significance,
            });
        }
    }

    fn judge(&mut self, title: &str, before: &Figure, after: &Figure, same_machine: bool) {
        if !same_machine && !holds_elsewhere(before.kind) {
            return;
        }
        let allowed = short(bound(before, after).share * 100.0);
        let ratio = ratio(before.value, after.value);
        let (old, new) = (before.shown(), after.shown());
        let values = format!("{old} → {new} ({ratio}; {allowed} % would be noise)");
        let significance = judge(before, after);
        self.changes.push(Change { run: title.into(), name: before.name.clone(), values, significance });
    }

    /// The text for the terminal.
    pub fn shown(&self, all: bool) -> String {
        let mut out = String::new();
        for note in &self.notes {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{note}");
        }
        self.part(&mut out, "Worse beyond noise:", Significance::Worse);
        self.part(&mut out, "Better beyond noise:", Significance::Better);
        if all {
            self.part(&mut out, "Within noise:", Significance::Noise);
        }
        let within = self.changes.iter().filter(|change| change.significance == Significance::Noise).count();
        let _ = writeln!(
            out,
            "{within} of {} figures are the same within noise.\n\n{}",
            self.changes.len(),
            noise::RULES
        );
        out.truncate(out.trim_end().len());
        out + "\n"
    }

    fn part(&self, out: &mut String, heading: &str, significance: Significance) {
        let changes: Vec<&Change> =
            self.changes.iter().filter(|change| change.significance == significance).collect();
        if changes.is_empty() {
            return;
        }
        let _ = writeln!(out, "{heading}");
        let mut last = "";
        for Change { run, name, values, .. } in changes {
            if run != last {
                let _ = writeln!(out, "  {run}:");
                last = run;
            }
            let _ = writeln!(out, "    {name}: {values}");
        }
    }
}

fn named(figures: &[Figure], like: &Figure) -> Option<Figure> {
    figures.iter().find(|figure| figure.name == like.name).cloned()
}

/// The value of a figure for a run that lacks it. It is 0 if a kind of request or an outcome did not occur;
/// `None`: it was not counted.
fn absent(figure: &Figure, run: &Run) -> Option<Figure> {
    let is_zero = figure.name.starts_with("jobs that are ")
        || figure.name.starts_with("own requests: ") && run.requests.source != "none";
    is_zero.then(|| Figure { value: 0.0, ..figure.clone() })
}
