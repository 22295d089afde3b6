//! Compiled pod and container patterns, and their matches.
//!
//! A pattern matches if every field that it gives does. Its match has just those fields, each with the
//! matched part of the text. It becomes the diagnostics, where empty texts are left out.

use std::borrow::Cow;

use framework_api::pod_failure::{ContainerPattern, Int32Range, PodPattern};
use regex::Regex;
use serde::Serialize;

use super::error::Problem;
use super::regexes::Regexes;
use super::terminated::{ContainerEnd, TerminatedPod};
use crate::truncate::truncate;

/// Path of a field in a pod pattern, and its problem.
type Wrong = (String, Problem);

/// A pod pattern, ready to match.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    texts: Texts,
    containers: Vec<OfContainer>,
}

/// The texts that Pods and containers have in common; `None`: not given.
#[derive(Clone, Debug)]
struct Texts {
    name: Option<Regex>,
    reason: Option<Regex>,
    message: Option<Regex>,
}

#[derive(Clone, Debug)]
struct OfContainer {
    texts: Texts,
    signals: Option<Int32Range>,
    codes: Option<Int32Range>,
}

/// The match of a pod pattern.
#[derive(Debug, Serialize)]
pub(super) struct PodFound<'p> {
    #[serde(flatten)]
    texts: TextsFound<'p>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<ContainerFound<'p>>,
}

#[derive(Debug, Serialize)]
struct TextsFound<'p> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'p str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: Cow<'p, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: Cow<'p, str>,
}

#[derive(Debug, Serialize)]
struct ContainerFound<'p> {
    #[serde(flatten)]
    texts: TextsFound<'p>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
}

impl PodFound<'_> {
    /// The same match with no text heavier than `weight`.
    pub(super) fn truncate(&self, weight: usize) -> PodFound<'_> {
        let containers = self.containers.iter().map(|container| ContainerFound {
            texts: container.texts.truncate(weight),
            signal: container.signal,
            code: container.code,
        });
        PodFound { texts: self.texts.truncate(weight), containers: containers.collect() }
    }
}

impl ContainerFound<'_> {
    fn is_empty(&self) -> bool {
        let TextsFound { name, reason, message } = &self.texts;
        let numbers = self.signal.or(self.code);
        name.is_empty() && reason.is_empty() && message.is_empty() && numbers.is_none()
    }
}

impl TextsFound<'_> {
    fn truncate(&self, weight: usize) -> TextsFound<'_> {
        TextsFound {
            name: self.name,
            reason: truncate(&self.reason, weight),
            message: truncate(&self.message, weight),
        }
    }
}

impl Pattern {
    pub(super) fn compile(pattern: &PodPattern, regexes: &mut Regexes) -> Result<Self, Wrong> {
        let PodPattern { name_regex, reason_regex, message_regex, containers } = pattern;
        let texts = Texts::compile(name_regex, reason_regex, message_regex, regexes)?;
        let containers = containers
            .iter()
            .enumerate()
            .map(|(index, container)| {
                OfContainer::compile(container, regexes)
                    .map_err(|(field, problem)| (format!("containers[{index}].{field}"), problem))
            })
            .collect::<Result<_, _>>()?;
        Ok(Pattern { texts, containers })
    }

    /// The match in the Pod; `None`: the Pod does not match.
    pub(super) fn find<'p>(&self, pod: &'p TerminatedPod) -> Option<PodFound<'p>> {
        let texts = self.texts.find(&pod.pod_name, &pod.reason, &pod.message)?;
        let met_by =
            |wanted: &OfContainer| pod.containers.iter().find_map(|container| wanted.find(container));
        let mut containers = self.containers.iter().map(met_by).collect::<Option<Vec<_>>>()?;
        containers.retain(|found| !found.is_empty());
        Some(PodFound { texts, containers })
    }
}

impl OfContainer {
    fn compile(pattern: &ContainerPattern, regexes: &mut Regexes) -> Result<Self, Wrong> {
        let ContainerPattern { name_regex, reason_regex, message_regex, signal_range, code_range } = pattern;
        let texts = Texts::compile(name_regex, reason_regex, message_regex, regexes)?;
        // A range without an end is not given: it also matches a container that never ran.
        let given = |range: &Option<Int32Range>| range.filter(|range| *range != Int32Range::default());
        Ok(OfContainer { texts, signals: given(signal_range), codes: given(code_range) })
    }

    fn find<'p>(&self, container: &'p ContainerEnd) -> Option<ContainerFound<'p>> {
        let Some(end) = &container.terminated else {
            // Only the name of a container that did not end is known.
            let asks_for_more = self.texts.reason.is_some()
                || self.texts.message.is_some()
                || self.signals.is_some()
                || self.codes.is_some();
            let texts = if asks_for_more { None } else { self.texts.find(&container.name, "", "") }?;
            return Some(ContainerFound { texts, signal: None, code: None });
        };
        // Ranges first: most patterns end there, before a long message is searched.
        let holds = |range: Option<Int32Range>, number| range.is_none_or(|range| range.contains(number));
        if !holds(self.signals, end.signal) || !holds(self.codes, end.exit_code) {
            return None;
        }
        Some(ContainerFound {
            texts: self.texts.find(&container.name, &end.reason, &end.message)?,
            // Signal 0 means that no signal was reported; an exit code of 0 has a meaning.
            signal: self.signals.map(|_| end.signal).filter(|signal| *signal != 0),
            code: self.codes.map(|_| end.exit_code),
        })
    }
}

impl Texts {
    fn compile(
        name: &Option<String>,
        reason: &Option<String>,
        message: &Option<String>,
        regexes: &mut Regexes,
    ) -> Result<Self, Wrong> {
        let mut compile = |pattern: &Option<String>, field: &str| {
            let regex = pattern.as_ref().map(|pattern| regexes.compile(pattern)).transpose();
            regex.map_err(|problem| (field.to_owned(), problem))
        };
        Ok(Texts {
            name: compile(name, "nameRegex")?,
            reason: compile(reason, "reasonRegex")?,
            message: compile(message, "messageRegex")?,
        })
    }

    fn find<'p>(&self, name: &'p str, reason: &'p str, message: &'p str) -> Option<TextsFound<'p>> {
        Some(TextsFound {
            name: found(&self.name, name)?,
            reason: found(&self.reason, reason)?.into(),
            message: found(&self.message, message)?.into(),
        })
    }
}

/// The part of the text that matches: empty without a regex, `None` if it does not match.
fn found<'t>(regex: &Option<Regex>, text: &'t str) -> Option<&'t str> {
    match regex {
        None => Some(""),
        Some(regex) => regex.find(text).map(|found| found.as_str()),
    }
}
