//! What two sides do not have in common, and which of that is meant to be so.

use std::collections::BTreeSet;

use serde_json::Value;

use framework_api::name::SLOT_LABEL;

use super::facts::Facts;
use super::form::Forms;
use super::play::{Moment, Story};

/// What was seen of one seed on one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) story: Story,
    /// The history snapshots; `None` if that side logs none at all.
    pub(crate) snapshots: Option<BTreeSet<String>>,
}

/// Something that the sides do not have in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// After which step, or what else was compared.
    pub(crate) place: String,
    pub(crate) fact: String,
    pub(crate) reference: Option<String>,
    pub(crate) ours: Option<String>,
}

/// A difference that is meant.
pub(crate) struct Rule {
    /// The row of `docs/compatibility.md` that gives the reason: what its first cell says.
    pub(crate) row: &'static str,
    covers: fn(&Context<'_>, &Difference) -> bool,
}

/// What a rule may look at.
struct Context<'a> {
    reference: &'a Story,
    /// Both sides at the moment of the difference.
    moments: Option<(&'a Moment, &'a Moment)>,
}

/// Every difference that is meant.
pub(crate) const RULES: &[Rule] = &[
    Rule { row: "Tasks of an attempt whose ConfigMap others delete", covers: is_of_lost_attempt },
    Rule { row: "JSON in diagnostics", covers: is_same_json },
    Rule { row: "containers that never ran, in a Pod's completion status", covers: is_of_idle_containers },
    Rule { row: "labels of ConfigMaps and Pods", covers: is_own_label },
    Rule { row: "history snapshots of deleted Pods", covers: is_missed_pod },
    Rule { row: "Tasks removed before the Framework starts", covers: is_removed_early },
];

/// Where the sides differ, and the rule that says so for each difference that is meant.
///
/// Of several moments only the first with a difference that is not meant is told: what follows from a
/// difference says nothing more.
pub(crate) fn compare(reference: &Seen, ours: &Seen) -> Vec<(Difference, Option<&'static Rule>)> {
    let mut all = Vec::new();
    let (theirs, own) = (&reference.story, &ours.story);
    for number in 0..theirs.moments.len().max(own.moments.len()) {
        let pair = (theirs.moments.get(number), own.moments.get(number));
        let found = of_moment(number, pair);
        let moments = pair.0.zip(pair.1);
        all.extend(judged(found, &Context { reference: theirs, moments }));
        if all.iter().any(|(_, rule)| rule.is_none()) {
            return all;
        }
    }
    let context = Context { reference: theirs, moments: None };
    all.extend(judged(of_end(theirs, own), &context));
    all.extend(judged(of_pods(&theirs.pods, &own.pods), &context));
    if let (Some(theirs), Some(own)) = (&reference.snapshots, &ours.snapshots) {
        all.extend(judged(of_snapshots(theirs, own), &context));
    }
    all
}

fn judged(
    found: Vec<Difference>,
    context: &Context<'_>,
) -> impl Iterator<Item = (Difference, Option<&'static Rule>)> {
    found.into_iter().map(|difference| {
        let rule = RULES.iter().find(|rule| (rule.covers)(context, &difference));
        (difference, rule)
    })
}

fn of_moment(number: usize, (theirs, own): (Option<&Moment>, Option<&Moment>)) -> Vec<Difference> {
    let after = theirs.or(own).map_or("", |moment| moment.after.as_str());
    let place = format!("step {number}, {after}");
    let difference = |fact: &str, reference: Option<&String>, ours: Option<&String>| Difference {
        place: place.clone(),
        fact: fact.to_owned(),
        reference: reference.cloned(),
        ours: ours.cloned(),
    };
    let (theirs, own) = match (theirs, own) {
        (Some(theirs), Some(own)) if theirs.after == own.after => (theirs, own),
        (theirs, own) => {
            let (theirs, own) = (theirs.map(|moment| &moment.after), own.map(|moment| &moment.after));
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
            place: pod.clone(),
            fact: fact.clone(),
            reference: theirs.cloned(),
            ours: own.cloned(),
        }));
    }
    all
}

/// A run that did not come to its end is a difference even if the other did not either.
fn of_end(theirs: &Story, own: &Story) -> Vec<Difference> {
    if theirs.stuck.is_none() && own.stuck.is_none() {
        return Vec::new();
    }
    let (reference, ours) = (theirs.stuck.clone(), own.stuck.clone());
    vec![Difference { place: "the end".into(), fact: "stuck".into(), reference, ours }]
}

fn of_snapshots(theirs: &BTreeSet<String>, own: &BTreeSet<String>) -> Vec<Difference> {
    let logged = |set: &BTreeSet<String>, name: &String| set.contains(name).then(|| "logged".to_owned());
    let differing = theirs.symmetric_difference(own).map(|name| Difference {
        place: "history snapshots".into(),
        fact: name.clone(),
        reference: logged(theirs, name),
        ours: logged(own, name),
    });
    differing.collect()
}

/// The original lets a Task end as -101 or as -220, or retries it once more, as its Pod or the ConfigMap goes
/// first; here it is always -220.
fn is_of_lost_attempt(context: &Context<'_>, difference: &Difference) -> bool {
    match context.moments {
        Some((theirs, own)) => {
            let Some(task) = task_of(&difference.fact) else { return false };
            let said = |moment: &Moment, fact: &str, codes: &[&str]| {
                let said = moment.facts.get(fact);
                said.is_some_and(|said| codes.iter().any(|code| said.starts_with(&format!("{code} "))))
            };
            let end = format!("{task}.attempt.end");
            said(theirs, "attempt.end", &["-100"])
                && said(own, "attempt.end", &["-100"])
                && said(theirs, &end, &["-101", "-220"])
                && said(own, &end, &["-220"])
        }
        None => {
            let id = difference.fact.rsplit_once(" attempt ").and_then(|(_, id)| id.split('.').next());
            let lost =
                id.and_then(|id| id.parse().ok()).is_some_and(|id| context.reference.lost.contains(&id));
            lost && difference.fact.starts_with("OnTaskRetry ")
        }
    }
}

/// The original writes some signs in JSON as escapes that mean the same.
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
fn is_own_label(_: &Context<'_>, difference: &Difference) -> bool {
    difference.reference.is_none() && difference.fact == format!("metadata.labels.{SLOT_LABEL}")
}

/// The original logs nothing of a Pod whose ConfigMap it has seen go before.
fn is_missed_pod(context: &Context<'_>, difference: &Difference) -> bool {
    context.moments.is_none()
        && difference.reference.is_none()
        && difference.ours.is_some()
        && difference.fact.starts_with("OnPodDeletion ")
}

/// The original leaves Tasks, and their TaskRole, in the status until the Framework starts.
fn is_removed_early(context: &Context<'_>, difference: &Difference) -> bool {
    let Some((theirs, own)) = context.moments else { return false };
    let waits =
        |moment: &Moment| moment.facts.get("state").is_some_and(|said| said == "AttemptCreationPending");
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
    let (place, _) = fact.split_once('.')?;
    place.contains('-').then_some(place)
}

/// The JSON that both sides end with, if what is before it is the same.
fn json_of(difference: &Difference) -> Option<(Value, Value)> {
    let split = |text: &Option<String>| {
        let text = text.as_deref()?;
        let (before, json) = text.split_at(text.find('{')?);
        Some((before.to_owned(), serde_json::from_str::<Value>(json).ok()?))
    };
    let ((theirs, reference), (own, ours)) = (split(&difference.reference)?, split(&difference.ours)?);
    (theirs == own).then_some((reference, ours))
}
