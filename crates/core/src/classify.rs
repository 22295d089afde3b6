//! Classification: which completion code a Pod that ended by itself gets.
//!
//! A [`Classifier`] is made once, from the `podFailureSpec`; that finds and names every error in its rules.
//! Classifying then always gives an answer, and the same one for the same Pod. The predefined codes of
//! containers come first, then the rules in their order, then the exit code of the container that failed
//! last. The code is 0 if and only if the Pod succeeded.

mod error;
mod judged;
mod pattern;
mod regexes;
mod syntax;
mod terminated;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use framework_api::code::{self, Code, CompletionType};
use framework_api::pod_failure::{ContainerPattern, Int32Range, PodFailureRule, PodPattern};
use framework_api::status::TaskAttemptCompletionStatus;

use self::judged::Shown;
use self::pattern::{Pattern, PodFound};
use self::regexes::Regexes;
use crate::allowance::Allowance;

pub use self::error::{Error, Problem};
pub use self::judged::Judged;
pub use self::terminated::{ContainerEnd, ContainerTerminated, TerminalPhase, TerminatedPod};

/// Matches any text, and so shows the text in the diagnostics.
const ANYTHING: &str = "(?ms).*";

/// The rules, ready to be applied to Pods.
#[derive(Clone, Debug)]
pub struct Classifier {
    rules: Vec<CompiledRule>,
}

#[derive(Clone, Debug)]
struct CompiledRule {
    code: i32,
    phrase: String,
    r#type: CompletionType,
    patterns: Vec<Pattern>,
}

impl Classifier {
    /// Checks and compiles the rules of a `podFailureSpec`.
    pub fn new(rules: &[PodFailureRule]) -> Result<Self, Error> {
        let mut regexes = Regexes::default();
        let mut entry_of_code = BTreeMap::new();
        let mut compiled: Vec<CompiledRule> = Vec::with_capacity(rules.len() + 3);
        for rule in &predefined() {
            compiled.push(CompiledRule::compile(rule, 0, &mut regexes)?);
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
            compiled.push(CompiledRule::compile(rule, entry, &mut regexes)?);
        }
        Ok(Classifier { rules: compiled })
    }

    /// The completion status of a Pod that ended by itself, with all its texts.
    pub fn classify(&self, pod: &TerminatedPod) -> TaskAttemptCompletionStatus {
        self.judge(pod).status(Allowance::ALL)
    }

    /// Judges a Pod that ended by itself.
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

impl CompiledRule {
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
        Ok(CompiledRule { code: rule.code, phrase: rule.phrase.clone(), r#type, patterns })
    }

    /// The matches of its first matching pattern.
    fn find<'p>(&self, pod: &'p TerminatedPod) -> Option<PodFound<'p>> {
        self.patterns.iter().find_map(|pattern| pattern.find(pod))
    }
}

/// The rules of the codes with which a container itself reports its failure.
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
