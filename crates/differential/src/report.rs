//! The report of a campaign: figures, and each unexplained difference with the timelines that led to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use crate::compare::{Difference, Record, compare};
use crate::plan::{Plan, Step};
use crate::play::Timeline;

/// The findings so far.
pub(crate) struct Report {
    /// Whether both sides log history snapshots.
    snapshots: bool,
    seeds: usize,
    observations: usize,
    pods: usize,
    logged: usize,
    /// How often each kind of step was played.
    steps: BTreeMap<&'static str, usize>,
    /// By row of `docs/compatibility.md`: how many differences it explained, and in which seeds.
    explained: BTreeMap<&'static str, (usize, BTreeSet<String>)>,
    /// The seeds with unexplained differences, each with its full explanation.
    unexplained: Vec<(String, String)>,
}

impl Report {
    pub(crate) fn new(snapshots: bool) -> Report {
        Report {
            snapshots,
            seeds: 0,
            observations: 0,
            pods: 0,
            logged: 0,
            steps: BTreeMap::new(),
            explained: BTreeMap::new(),
            unexplained: Vec::new(),
        }
    }

    /// Compares the records of a plan.
    pub(crate) fn add(&mut self, plan: &Plan, reference: &Record, ours: &Record) {
        self.seeds += 1;
        self.observations += reference.timeline.observations.len();
        self.pods += reference.timeline.pods.len();
        self.logged += reference.snapshots.as_ref().map_or(0, BTreeSet::len);
        for observation in &reference.timeline.observations {
            let kinds = plan.steps.iter().map(Step::name).find(|name| observation.after.starts_with(name));
            *self.steps.entry(kinds.unwrap_or("creation, last ends and stops")).or_default() += 1;
        }
        let mut unexplained = Vec::new();
        for (difference, rule) in compare(reference, ours) {
            match rule {
                Some(rule) => {
                    let (count, seeds) = self.explained.entry(rule.row).or_default();
                    *count += 1;
                    seeds.insert(plan.label());
                }
                None => unexplained.push(difference),
            }
        }
        if !unexplained.is_empty() {
            self.unexplained
                .push((plan.label(), explain(plan, &unexplained, &reference.timeline, &ours.timeline)));
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.unexplained.is_empty()
    }

    /// The whole report.
    pub(crate) fn text(&self, took: Duration) -> String {
        let mut text = String::new();
        for (_, explanation) in &self.unexplained {
            text.push_str(explanation);
        }
        let snapshots = if self.snapshots {
            format!("{} history snapshots", self.logged)
        } else {
            "no history snapshots: not both log them".to_owned()
        };
        let Report { seeds, observations, pods, .. } = self;
        put(
            &mut text,
            &format!(
                "{seeds} seeds in {:.0} s: {observations} statuses at rest and {pods} Pods compared, \
                 {snapshots}",
                took.as_secs_f64()
            ),
        );
        let steps: Vec<String> = self.steps.iter().map(|(step, count)| format!("{count} {step}")).collect();
        put(&mut text, &format!("played: {}", steps.join(", ")));
        for (row, (count, seeds)) in &self.explained {
            put(&mut text, &format!("explained: {count} differences in {} seeds: {row}", seeds.len()));
        }
        let seeds: Vec<String> = self.unexplained.iter().map(|(seed, _)| seed.clone()).collect();
        let which = if seeds.is_empty() { String::new() } else { format!(": {}", seeds.join(", ")) };
        put(&mut text, &format!("unexplained: {} seeds{which}", seeds.len()));
        text
    }
}

fn put(text: &mut String, line: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

/// A seed's differences, its spec and steps, and both timelines.
fn explain(plan: &Plan, differences: &[Difference], reference: &Timeline, ours: &Timeline) -> String {
    let mut text = format!("\nseed {} differs\n", plan.label());
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
    for difference in differences {
        let Difference { location, fact, reference, ours } = difference;
        put(&mut text, &format!("  {location}: {fact}"));
        put(&mut text, &format!("    reference: {}", value(reference)));
        put(&mut text, &format!("    ours:      {}", value(ours)));
    }
    let json = |value: serde_json::Result<String>| value.unwrap_or_else(|error| error.to_string());
    put(&mut text, &format!("  spec: {}", json(serde_json::to_string(&plan.spec))));
    for step in &plan.steps {
        put(&mut text, &format!("  step: {}", json(serde_json::to_string(step))));
    }
    for (name, timeline) in [("reference", reference), ("ours", ours)] {
        put(&mut text, &format!("  timeline of {name}:"));
        let mut before = BTreeMap::new();
        for (number, observation) in timeline.observations.iter().enumerate() {
            put(&mut text, &format!("    step {number}, {}", observation.after));
            for (fact, value) in &observation.facts {
                if before.get(fact) != Some(value) {
                    put(&mut text, &format!("      {fact}: {value}"));
                }
            }
            before.clone_from(&observation.facts);
        }
        if let Some(stuck) = &timeline.stuck {
            put(&mut text, &format!("    {stuck}"));
        }
    }
    text
}
