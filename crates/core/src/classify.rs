//! Classification: which completion code a Pod that ended by itself gets.
//!
//! A [`Classifier`] is made once, from the `podFailureSpec`; everything that can be wrong with its rules is
//! found there and named. Classifying then always gives an answer, and the same one for the same Pod: the
//! predefined codes of containers first, then the rules in their order, then the exit code of the container
//! that failed last. The code is 0 if and only if the Pod succeeded.

mod judged;
mod pattern;
mod re2;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use framework_api::Time;
use framework_api::code::{self, Code, CompletionType};
use framework_api::pod_failure::{ContainerPattern, Int32Range, PodFailureRule, PodPattern};
use framework_api::status::TaskAttemptCompletionStatus;
use regex::{Regex, RegexBuilder};
use serde::Serialize;

use judged::Shown;
use pattern::{Pattern, PodFound};

use crate::size::Allowance;

pub use judged::Judged;

/// The most memory that one compiled regex may take.
const REGEX_SIZE_LIMIT: usize = 4 << 20;
/// How deep groups may nest in a regex.
const REGEX_NEST_LIMIT: u32 = 100;

/// Matches everything, and so shows the text in the diagnostics.
const ANYTHING: &str = "(?ms).*";

/// A Pod that ended by itself, as far as its end is concerned. Kept only for Pods that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminatedPod {
    /// How it ended.
    pub phase: TerminalPhase,
    /// `metadata.name`.
    pub pod_name: String,
    /// `status.reason`; empty if unset.
    pub reason: String,
    /// `status.message`; empty if unset.
    pub message: String,
    /// Its containers, init containers first, each kind as the Pod's status lists it.
    pub containers: Vec<ContainerEnd>,
}

/// A phase that a Pod never leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalPhase {
    /// Every container ended with code 0.
    Succeeded,
    /// Every container ended, or the Pod was given up.
    Failed,
}

/// A container of a Pod that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEnd {
    /// Its name.
    pub name: String,
    /// Its `state.terminated`; none if the Pod ended without it.
    pub terminated: Option<ContainerTerminated>,
}

/// `state.terminated` of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerTerminated {
    /// Empty if unset.
    pub reason: String,
    /// Empty if unset.
    pub message: String,
    /// 0: none reported.
    pub signal: i32,
    /// 0: it succeeded.
    pub exit_code: i32,
    /// When it ended.
    pub finished_at: Option<Time>,
}

/// The rules, ready to be applied to Pods.
#[derive(Clone, Debug)]
pub struct Classifier {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    code: i32,
    phrase: String,
    r#type: CompletionType,
    patterns: Vec<Pattern>,
}

/// What is wrong with an entry of the `podFailureSpec`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("podFailureSpec[{entry}].{field} (code {code}): {problem}")]
pub struct Error {
    /// Position of the entry, from 0.
    pub entry: usize,
    /// Its code.
    pub code: i32,
    /// Path of the field in the entry.
    pub field: String,
    /// What is wrong with the field.
    pub problem: Problem,
}

/// What is wrong with a field of the `podFailureSpec`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The contract keeps the code for itself.
    #[error("codes from 200 to 219 and from -999 to 0 are reserved")]
    ReservedCode,
    /// An entry before it has the same code.
    #[error("the code is that of entry {first} too")]
    DuplicateCode {
        /// Position of that entry.
        first: usize,
    },
    /// No Pod could ever match.
    #[error("at least one pattern is needed")]
    NoPatterns,
    /// Only failed Pods are classified.
    #[error("the type of a failure cannot be Succeeded")]
    NotAFailure,
    /// The regex cannot be read.
    #[error("cannot use the regex `{pattern}`: {reason}")]
    Regex {
        /// As the config has it.
        pattern: String,
        /// Why not.
        reason: String,
    },
}

impl Classifier {
    /// Checks and compiles the rules of a `podFailureSpec`.
    pub fn new(rules: &[PodFailureRule]) -> Result<Self, Error> {
        let mut regexes = Regexes::default();
        let mut entry_of_code = BTreeMap::new();
        let mut compiled: Vec<Rule> = Vec::with_capacity(rules.len() + 3);
        for rule in &predefined() {
            compiled.push(Rule::compile(rule, 0, &mut regexes)?);
        }
        for (entry, rule) in rules.iter().enumerate() {
            let wrong =
                |field: &str, problem| Error { entry, code: rule.code, field: field.to_owned(), problem };
            if Code::is_reserved(rule.code) {
                return Err(wrong("code", Problem::ReservedCode));
            }
            if let Some(first) = entry_of_code.insert(rule.code, entry) {
                return Err(wrong("code", Problem::DuplicateCode { first }));
            }
            if rule.pod_patterns.is_empty() {
                return Err(wrong("podPatterns", Problem::NoPatterns));
            }
            if rule.r#type.as_ref().is_some_and(|of| !of.is_failed()) {
                return Err(wrong("type.name", Problem::NotAFailure));
            }
            compiled.push(Rule::compile(rule, entry, &mut regexes)?);
        }
        Ok(Classifier { rules: compiled })
    }

    /// How a TaskAttempt ended whose Pod ended by itself, with all that the Pod said.
    pub fn classify(&self, pod: &TerminatedPod) -> TaskAttemptCompletionStatus {
        self.judge(pod).status(Allowance::ALL)
    }

    /// How a TaskAttempt ended whose Pod ended by itself.
    pub fn judge<'p>(&'p self, pod: &'p TerminatedPod) -> Judged<'p> {
        let judged = |code, phrase, r#type, shown| Judged { code, phrase, r#type, shown, pod };
        let predefined =
            |code: Code, shown| judged(code.number(), code.phrase(), code.completion_type(), shown);
        if pod.phase == TerminalPhase::Succeeded {
            return predefined(Code::Succeeded, Shown::Success);
        }
        let matched = self.rules.iter().find_map(|rule| Some((rule, rule.find(pod)?)));
        if let Some((rule, found)) = matched {
            return judged(rule.code, &rule.phrase, rule.r#type.clone(), Shown::Matched(found));
        }
        match last_failed_exit_code(pod) {
            None => predefined(Code::PodFailedWithoutFailedContainer, Shown::Unmatched),
            Some(exit_code) => {
                let (phrase, r#type) = (code::UNRECOGNIZED_PHRASE, CompletionType::failed(&[]));
                judged(exit_code, phrase, r#type, Shown::Unmatched)
            }
        }
    }
}

impl Rule {
    fn compile(rule: &PodFailureRule, entry: usize, regexes: &mut Regexes) -> Result<Self, Error> {
        let patterns = rule
            .pod_patterns
            .iter()
            .enumerate()
            .map(|(index, pattern)| {
                Pattern::compile(pattern, regexes).map_err(|(field, problem)| {
                    let field = format!("podPatterns[{index}].{field}");
                    Error { entry, code: rule.code, field, problem }
                })
            })
            .collect::<Result<_, _>>()?;
        let r#type = rule.r#type.clone().unwrap_or_else(|| CompletionType::failed(&[]));
        Ok(Rule { code: rule.code, phrase: rule.phrase.clone(), r#type, patterns })
    }

    /// What its first matching pattern found.
    fn find<'p>(&self, pod: &'p TerminatedPod) -> Option<PodFound<'p>> {
        self.patterns.iter().find_map(|pattern| pattern.find(pod))
    }
}

/// Compiled regexes by their text: the rules repeat a few of them all over.
#[derive(Default)]
struct Regexes {
    by_pattern: BTreeMap<String, Regex>,
}

impl Regexes {
    fn compile(&mut self, pattern: &str) -> Result<Regex, Problem> {
        if let Some(regex) = self.by_pattern.get(pattern) {
            return Ok(regex.clone());
        }
        let refuse = |reason: String| Problem::Regex { pattern: pattern.to_owned(), reason };
        let translated = re2::translate(pattern).map_err(refuse)?;
        let regex = RegexBuilder::new(&translated)
            .size_limit(REGEX_SIZE_LIMIT)
            .nest_limit(REGEX_NEST_LIMIT)
            .build()
            .map_err(|error| refuse(plain_reason(&error)))?;
        self.by_pattern.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }
}

/// The engine's reason in one line, without the translated pattern that the user never wrote.
fn plain_reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => format!("it takes more than {limit} bytes"),
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    }
}

/// The rules of the codes with which a container itself says how it failed.
fn predefined() -> [PodFailureRule; 3] {
    let codes = [
        Code::ContainerTransientFailed,
        Code::ContainerTransientConflictFailed,
        Code::ContainerPermanentFailed,
    ];
    codes.map(|code| {
        let container = ContainerPattern {
            name_regex: Some(ANYTHING.to_owned()),
            message_regex: Some(ANYTHING.to_owned()),
            code_range: Some(Int32Range::only(code.number())),
            ..ContainerPattern::default()
        };
        PodFailureRule {
            code: code.number(),
            phrase: code.phrase().to_owned(),
            r#type: Some(code.completion_type()),
            pod_patterns: vec![PodPattern { containers: vec![container], ..PodPattern::default() }],
        }
    })
}

/// Exit code of the failed container that finished last: the first listed, if several did.
fn last_failed_exit_code(pod: &TerminatedPod) -> Option<i32> {
    let failed = pod.containers.iter().filter_map(|c| c.terminated.as_ref()).filter(|end| end.exit_code != 0);
    // `max_by_key` would take the last of equals.
    let last = failed.reduce(|last, end| if end.finished_at > last.finished_at { end } else { last });
    last.map(|end| end.exit_code)
}

/// Plain data made of strings, numbers and lists: writing it cannot fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
