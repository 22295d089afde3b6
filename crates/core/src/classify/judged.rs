//! The judgement of a Pod that ended by itself, before its texts are fitted into a status.

use framework_api::code::CompletionType;
use framework_api::status::{ContainerCompletionStatus, PodCompletionStatus, TaskAttemptCompletionStatus};
use serde::Serialize;

use super::pattern::PodFound;
use super::terminated::TerminatedPod;
use crate::allowance::Allowance;
use crate::truncate::truncate;

/// The judgement of a Pod.
#[derive(Debug)]
pub struct Judged<'p> {
    pub(super) code: i32,
    pub(super) phrase: &'p str,
    pub(super) r#type: CompletionType,
    pub(super) shown: Shown<'p>,
    pub(super) pod: &'p TerminatedPod,
}

/// The content of the diagnostics.
#[derive(Debug)]
pub(super) enum Shown<'p> {
    Success,
    Matched(PodFound<'p>),
    Unmatched,
}

impl Judged<'_> {
    /// The texts of others that the completion status quotes.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let pod = [self.pod.reason.as_str(), self.pod.message.as_str()];
        let containers = self.pod.containers.iter().filter_map(|container| container.terminated.as_ref());
        pod.into_iter().chain(containers.flat_map(|end| [end.reason.as_str(), end.message.as_str()]))
    }

    /// How many containers the completion status lists.
    pub fn containers(&self) -> usize {
        self.pod.containers.iter().filter(|container| container.terminated.is_some()).count()
    }

    /// The completion status, with as much of the texts as is allowed. Only here do texts of a Pod enter a
    /// status.
    pub fn status(&self, allowance: Allowance) -> TaskAttemptCompletionStatus {
        let facts = self.facts(allowance);
        let left_out = self.containers() - facts.containers.len();
        let mut diagnostics = match &self.shown {
            Shown::Success => "Pod succeeded".to_owned(),
            Shown::Matched(found) => {
                format!("Pod failed: PodPattern matched: {}", json(&found.truncate(allowance.text)))
            }
            Shown::Unmatched => format!("Pod failed: PodPattern unmatched: {}", json(&facts)),
        };
        if left_out > 0 {
            diagnostics.push_str(&format!("; {left_out} more containers are left out"));
        }
        let (code, phrase, r#type) = (self.code, self.phrase.to_owned(), self.r#type.clone());
        TaskAttemptCompletionStatus { code, phrase, r#type, diagnostics, pod: Some(facts) }
    }

    /// The reason and message of the Pod, and of its terminated containers.
    fn facts(&self, allowance: Allowance) -> PodCompletionStatus {
        let short = |text| truncate(text, allowance.text).into_owned();
        let containers = self.pod.containers.iter().filter_map(|container| {
            let terminated = container.terminated.as_ref()?;
            Some(ContainerCompletionStatus {
                name: container.name.clone(),
                reason: short(&terminated.reason),
                message: short(&terminated.message),
                signal: terminated.signal,
                code: terminated.exit_code,
            })
        });
        PodCompletionStatus {
            reason: short(&self.pod.reason),
            message: short(&self.pod.message),
            containers: containers.take(allowance.containers).collect(),
        }
    }
}

/// Plain data made of strings, numbers and lists: writing it cannot fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
