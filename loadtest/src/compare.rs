//! `loadtest compare`: the changes beyond noise between two reports of the same work.

pub mod noise;

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

use crate::figure::{Figure, figures};
use crate::number::{count, ratio, short};
use crate::report::{Level, Report, Run};
use crate::saved;
use crate::scenario::Scenario;
use crate::terminal::{note, print};
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
            print(comparison.shown(arguments.all))?;
            Ok(if comparison.is_worse() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Err(error) => {
            note(format_args!("error: {error:#}"));
            Ok(ExitCode::from(2))
        }
    }
}

/// Compares the runs of each system and profile: of several, their medians. The error names why the reports
/// cannot be compared.
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
    let (ours, theirs) = (variants(before), variants(after));
    let mut pairs = 0;
    for runs in &ours {
        match counterpart(runs, &theirs) {
            Some(others) => {
                pairs += 1;
                comparison.runs(runs, others, same_machine);
            }
            None => comparison.notes.push(format!("{} is only in the first.", runs[0].title())),
        }
    }
    ensure!(pairs > 0, "the reports have no system in common");
    for runs in theirs.iter().filter(|runs| counterpart(runs, &ours).is_none()) {
        comparison.notes.push(format!("{} is only in the second.", runs[0].title()));
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

/// The runs of one system and profile: at least one.
type Variant<'a> = Vec<&'a Run>;

fn variants(report: &Report) -> Vec<Variant<'_>> {
    let mut variants: Vec<Variant<'_>> = Vec::new();
    for run in &report.runs {
        match variants.iter_mut().find(|runs| is_same_variant(runs[0], run)) {
            Some(runs) => runs.push(run),
            None => variants.push(vec![run]),
        }
    }
    variants
}

fn is_same_variant(one: &Run, other: &Run) -> bool {
    (&one.system, &one.profile) == (&other.system, &other.profile)
}

/// The runs of the same system and profile.
fn counterpart<'a>(runs: &[&Run], all: &'a [Variant<'a>]) -> Option<&'a Variant<'a>> {
    all.iter().find(|others| is_same_variant(others[0], runs[0]))
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

    fn runs(&mut self, before: &[&Run], after: &[&Run], same_machine: bool) {
        let title = before[0].title();
        if before.len() + after.len() > 2 {
            let (first, second) = (count(before.len(), "run"), count(after.len(), "run"));
            self.notes.push(format!("{title}: medians of {first} in the first, {second} in the second."));
        }
        let is_given_up = self.ends(before, after, &title);
        self.levels(before, after, &title);
        if is_given_up {
            return self
                .notes
                .push(format!("{title}: the figures of a run that was given up are not compared."));
        }
        let (before, after) = (all_figures(before), all_figures(after));
        let mut names: Vec<&Figure> = Vec::new();
        for figure in before.iter().chain(&after).flat_map(|(_, figures)| figures) {
            if names.iter().all(|known| known.name != figure.name) {
                names.push(figure);
            }
        }
        for figure in names {
            let name = &figure.name;
            match (median(figure, &before), median(figure, &after)) {
                (Some(one), Some(other)) => self.judge(&title, &one, &other, same_machine),
                (one, _) => {
                    let of = if one.is_some() { "first" } else { "second" };
                    self.notes.push(format!("{title}: {name} is known only of the {of}."));
                }
            }
        }
    }

    /// Judges whether a run was given up. Returns whether any was.
    fn ends(&mut self, before: &[&Run], after: &[&Run], title: &str) -> bool {
        let given_up = |runs: &[&Run]| runs.iter().find_map(|run| run.given_up.clone());
        let (first, second) = (given_up(before), given_up(after));
        let significance = match (&first, &second) {
            (None, None) => return false,
            (Some(_), Some(_)) => return true,
            (None, Some(_)) => Significance::Worse,
            (Some(_), None) => Significance::Better,
        };
        let said = |why: Option<String>| why.map_or("done".into(), |why| format!("given up: {why}"));
        let values = format!("{} → {}", said(first), said(second));
        self.changes.push(Change { run: title.into(), name: "the run".into(), values, significance });
        true
    }

    fn levels(&mut self, before: &[&Run], after: &[&Run], title: &str) {
        for Level { name, .. } in &after[0].levels {
            let (Some(old), Some(level)) = (worst(before, name), worst(after, name)) else { continue };
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

/// A level of several runs: that of the first one that misses it, or of the first one that has it.
fn worst<'a>(runs: &[&'a Run], name: &str) -> Option<&'a Level> {
    let found = runs.iter().filter_map(|run| run.levels.iter().find(|level| level.name == name));
    let levels: Vec<&Level> = found.collect();
    levels.iter().find(|level| !level.met).or(levels.first()).copied()
}

/// Each run with its figures.
fn all_figures<'a>(runs: &[&'a Run]) -> Vec<(&'a Run, Vec<Figure>)> {
    runs.iter().map(|run| (*run, figures(run))).collect()
}

/// The median of a figure over the runs that know it.
fn median(like: &Figure, runs: &[(&Run, Vec<Figure>)]) -> Option<Figure> {
    let of = |(run, figures): &(&Run, Vec<Figure>)| {
        let found = figures.iter().find(|figure| figure.name == like.name).cloned();
        found.or_else(|| absent(like, run))
    };
    let mut all: Vec<Figure> = runs.iter().filter_map(of).collect();
    all.sort_by(|one, other| one.value.total_cmp(&other.value));
    let (lower, upper) = (all.get(all.len().checked_sub(1)? / 2)?, all.get(all.len() / 2)?);
    Some(Figure { value: (lower.value + upper.value) / 2.0, ..lower.clone() })
}

/// The value of a figure for a run that lacks it. It is 0 if a kind of request or an outcome did not occur;
/// `None`: it was not counted.
fn absent(figure: &Figure, run: &Run) -> Option<Figure> {
    let is_zero = figure.name.starts_with("jobs that are ")
        || figure.name.starts_with("own requests: ") && run.requests.source != "none";
    is_zero.then(|| Figure { value: 0.0, ..figure.clone() })
}
