//! The differences between the two sides, and the rules that explain the intended ones.

use std::collections::BTreeSet;

use serde_json::Value;

use framework_api::name::SLOT_LABEL;

use crate::facts::Facts;
use crate::form::Forms;
use crate::play::{Observation, Timeline};

/// The record of one seed on one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) timeline: Timeline,
    /// The history snapshots; `None` if that side logs none at all.
    pub(crate) snapshots: Option<BTreeSet<String>>,
}

/// A fact that differs between the sides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// The step after which it was observed, or the Pod, or the kind of the comparison.
    pub(crate) location: String,
    pub(crate) fact: String,
    pub(crate) reference: Option<String>,
    pub(crate) ours: Option<String>,
}

/// A rule that explains intended differences.
pub(crate) struct Rule {
    /// The row of `docs/compatibility.md` that gives the reason: the text of its first cell.
    pub(crate) row: &'static str,
    covers: fn(&Context<'_>, &Difference) -> bool,
}

/// The context that a rule may use.
struct Context<'a> {
    reference: &'a Timeline,
    /// Both sides when the difference was observed.
    observations: Option<(&'a Observation, &'a Observation)>,
}

/// All rules.
pub(crate) const RULES: &[Rule] = &[
    Rule { row: "Tasks of an attempt whose ConfigMap others delete", covers: is_of_lost_attempt },
    Rule { row: "JSON in diagnostics", covers: is_same_json },
    Rule { row: "containers that never ran, in a Pod's completion status", covers: is_of_idle_containers },
    Rule { row: "labels of ConfigMaps and Pods", covers: is_slot_label },
    Rule { row: "history snapshots of deleted Pods", covers: is_missed_pod },
    Rule { row: "Tasks removed before the Framework starts", covers: is_removed_early },
];

/// The differences between the sides, each with the rule that explains it, if one does.
///
/// Stops after the first observation with an unexplained difference: later differences may only follow from
/// it.
pub(crate) fn compare(reference: &Record, ours: &Record) -> Vec<(Difference, Option<&'static Rule>)> {
    let mut all = Vec::new();
    let (theirs, own) = (&reference.timeline, &ours.timeline);
    for number in 0..theirs.observations.len().max(own.observations.len()) {
        let pair = (theirs.observations.get(number), own.observations.get(number));
        let found = of_observation(number, pair);
        let observations = pair.0.zip(pair.1);
        all.extend(explained(found, &Context { reference: theirs, observations }));
        if all.iter().any(|(_, rule)| rule.is_none()) {
            return all;
        }
    }
    let context = Context { reference: theirs, observations: None };
    all.extend(explained(of_end(theirs, own), &context));
    all.extend(explained(of_pods(&theirs.pods, &own.pods), &context));
    if let (Some(theirs), Some(own)) = (&reference.snapshots, &ours.snapshots) {
        all.extend(explained(of_snapshots(theirs, own), &context));
    }
    all
}

fn explained(
    found: Vec<Difference>,
    context: &Context<'_>,
) -> impl Iterator<Item = (Difference, Option<&'static Rule>)> {
    found.into_iter().map(|difference| {
        let rule = RULES.iter().find(|rule| (rule.covers)(context, &difference));
        (difference, rule)
    })
}

fn of_observation(
    number: usize,
    (theirs, own): (Option<&Observation>, Option<&Observation>),
) -> Vec<Difference> {
    let after = theirs.or(own).map_or("", |observation| observation.after.as_str());
    let location = format!("step {number}, {after}");
    let difference = |fact: &str, reference: Option<&String>, ours: Option<&String>| Difference {
        location: location.clone(),
        fact: fact.to_owned(),
        reference: reference.cloned(),
        ours: ours.cloned(),
    };
    let (theirs, own) = match (theirs, own) {
        (Some(theirs), Some(own)) if theirs.after == own.after => (theirs, own),
        (theirs, own) => {
            let (theirs, own) =
                (theirs.map(|observation| &observation.after), own.map(|observation| &observation.after));
            return vec![difference("what was done", theirs, own)];
        }
    };
    differing(&theirs.facts, &own.facts).map(|(fact, theirs, own)| difference(fact, theirs, own)).collect()
}

/// The facts that are not the same on both sides.
fn differing<'a>(
    theirs: &'a Facts,
    own: &'a Facts,
) -> impl Iterator<Item = (&'a String, Option<&'a String>, Option<&'a String>)> {
    let facts: BTreeSet<&String> = theirs.keys().chain(own.keys()).collect();
    let pairs = facts.into_iter().map(|fact| (fact, theirs.get(fact), own.get(fact)));
    pairs.filter(|(_, theirs, own)| theirs != own)
}

fn of_pods(theirs: &Forms, own: &Forms) -> Vec<Difference> {
    let pods: BTreeSet<&String> = theirs.keys().chain(own.keys()).collect();
    let none = Facts::new();
    let mut all = Vec::new();
    for pod in pods {
        let (theirs, own) = (theirs.get(pod).unwrap_or(&none), own.get(pod).unwrap_or(&none));
        all.extend(differing(theirs, own).map(|(fact, theirs, own)| Difference {
            location: pod.clone(),
            fact: fact.clone(),
            reference: theirs.cloned(),
            ours: own.cloned(),
        }));
    }
    all
}

/// A run that did not come to its end is a difference, even if both sides did not.
fn of_end(theirs: &Timeline, own: &Timeline) -> Vec<Difference> {
    if theirs.stuck.is_none() && own.stuck.is_none() {
        return Vec::new();
    }
    let (reference, ours) = (theirs.stuck.clone(), own.stuck.clone());
    vec![Difference { location: "the end".into(), fact: "stuck".into(), reference, ours }]
}

fn of_snapshots(theirs: &BTreeSet<String>, own: &BTreeSet<String>) -> Vec<Difference> {
    let logged = |set: &BTreeSet<String>, name: &String| set.contains(name).then(|| "logged".to_owned());
    let differing = theirs.symmetric_difference(own).map(|name| Difference {
        location: "history snapshots".into(),
        fact: name.clone(),
        reference: logged(theirs, name),
        ours: logged(own, name),
    });
    differing.collect()
}

/// The original lets a Task end as -101 or as -220, or retries it once more, as its Pod or the ConfigMap goes
/// first; here it is always -220.
fn is_of_lost_attempt(context: &Context<'_>, difference: &Difference) -> bool {
    match context.observations {
        Some((theirs, own)) => {
            let Some(task) = task_of(&difference.fact) else { return false };
            let has_code = |observation: &Observation, fact: &str, codes: &[&str]| {
                let value = observation.facts.get(fact);
                value.is_some_and(|value| codes.iter().any(|code| value.starts_with(&format!("{code} "))))
            };
            let end = format!("{task}.attempt.end");
            has_code(theirs, "attempt.end", &["-100"])
                && has_code(own, "attempt.end", &["-100"])
                && has_code(theirs, &end, &["-101", "-220"])
                && has_code(own, &end, &["-220"])
        }
        None => {
            let id = difference.fact.rsplit_once(" attempt ").and_then(|(_, id)| id.split('.').next());
            let lost =
                id.and_then(|id| id.parse().ok()).is_some_and(|id| context.reference.lost.contains(&id));
            lost && difference.fact.starts_with("OnTaskRetry ")
        }
    }
}

/// The original escapes some characters in JSON that need no escape.
fn is_same_json(_: &Context<'_>, difference: &Difference) -> bool {
    let Some((reference, ours)) = json_of(difference) else { return false };
    reference == ours
}

/// The original lists a container that never ran as one that ended with 0.
fn is_of_idle_containers(_: &Context<'_>, difference: &Difference) -> bool {
    let Some((mut reference, ours)) = json_of(difference) else { return false };
    if let Some(containers) = reference["containers"].as_array_mut() {
        let ran =
            |container: &Value| container["code"] != 0 || container.as_object().is_some_and(|o| o.len() > 2);
        containers.retain(ran);
        if containers.is_empty() {
            reference.as_object_mut().map(|pod| pod.remove("containers"));
        }
    }
    reference == ours
}

/// The original has no replicas that select their share by a label.
fn is_slot_label(_: &Context<'_>, difference: &Difference) -> bool {
    difference.reference.is_none() && difference.fact == format!("metadata.labels.{SLOT_LABEL}")
}

/// The original logs nothing of a Pod whose ConfigMap was deleted before it.
fn is_missed_pod(context: &Context<'_>, difference: &Difference) -> bool {
    context.observations.is_none()
        && difference.reference.is_none()
        && difference.ours.is_some()
        && difference.fact.starts_with("OnPodDeletion ")
}

/// The original leaves Tasks, and their TaskRole, in the status until the Framework starts.
fn is_removed_early(context: &Context<'_>, difference: &Difference) -> bool {
    let Some((theirs, own)) = context.observations else { return false };
    let waits = |observation: &Observation| {
        observation.facts.get("state").is_some_and(|said| said == "AttemptCreationPending")
    };
    let (fact, is_gone) = (&difference.fact, difference.ours.is_none());
    let removed = |fact: &str| fact.ends_with(".deletionPending") && theirs.facts[fact] == "true";
    let explained = if let Some(task) = task_of(fact) {
        is_gone && theirs.facts.get(&format!("{task}.deletionPending")).is_some_and(|said| said == "true")
    } else if let Some(role) = fact.strip_suffix(".timeout") {
        is_gone && !own.facts.contains_key(&format!("{role}.tasks"))
    } else if let Some(role) = fact.strip_suffix(".tasks") {
        let of_role = |fact: &&String| fact.starts_with(&format!("{role}-"));
        let less = theirs.facts.keys().filter(of_role).filter(|fact| removed(fact)).count();
        let number = |said: &Option<String>| said.as_ref().map_or(Some(0), |said| said.parse::<usize>().ok());
        number(&difference.reference).zip(number(&difference.ours)).is_some_and(|(a, b)| a == b + less)
    } else {
        false
    };
    waits(theirs) && waits(own) && explained
}

/// The Task that a fact is about.
fn task_of(fact: &str) -> Option<&str> {
    let (task, _) = fact.split_once('.')?;
    task.contains('-').then_some(task)
}

/// The JSON at the end of both sides, if the texts before it are the same.
fn json_of(difference: &Difference) -> Option<(Value, Value)> {
    let split = |text: &Option<String>| {
        let text = text.as_deref()?;
        let (before, json) = text.split_at(text.find('{')?);
        Some((before.to_owned(), serde_json::from_str::<Value>(json).ok()?))
    };
    let ((theirs, reference), (own, ours)) = (split(&difference.reference)?, split(&difference.ours)?);
    (theirs == own).then_some((reference, ours))
}
