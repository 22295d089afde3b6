//! How attempts ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::code::{Code, CompletionType};
use crate::null::null_as_default;

/// How a FrameworkAttempt ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrameworkAttemptCompletionStatus {
    /// Completion code: predefined, from the podFailureSpec, or a container's exit code.
    pub code: i32,
    /// The code in one word.
    pub phrase: String,
    /// Succeeded or failed, and how.
    pub r#type: CompletionType,
    /// Details for people.
    pub diagnostics: String,
    /// The Task that completed the attempt, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<CompletionTrigger>,
}

/// The Task whose completion completed the FrameworkAttempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletionTrigger {
    /// The completion rule that was met, with its counts.
    pub message: String,
    /// TaskRole of the Task.
    pub task_role_name: String,
    /// Index of the Task.
    pub task_index: i32,
}

/// How a TaskAttempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAttemptCompletionStatus {
    /// Completion code: predefined, from the podFailureSpec, or a container's exit code.
    pub code: i32,
    /// The code in one word.
    pub phrase: String,
    /// Succeeded or failed, and how.
    pub r#type: CompletionType,
    /// Details for people.
    pub diagnostics: String,
    /// The end of the Pod, if it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodCompletionStatus>,
}

/// The reason and message of a Pod that ended by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodCompletionStatus {
    /// `status.reason` of the Pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// `status.message` of the Pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its terminated containers: init containers first, then app containers, as the Pod lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub containers: Vec<ContainerCompletionStatus>,
}

/// The `state.terminated` of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerCompletionStatus {
    /// Name of the container.
    pub name: String,
    /// The reason that the container runtime gives, such as `OOMKilled`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The termination message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The signal that ended it; 0: none reported.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub signal: i32,
    /// Exit code.
    #[serde(default)]
    pub code: i32,
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl FrameworkAttemptCompletionStatus {
    /// With a predefined code, and no trigger.
    pub fn predefined(code: Code, diagnostics: &str) -> Self {
        FrameworkAttemptCompletionStatus {
            code: code.number(),
            phrase: code.phrase().to_owned(),
            r#type: code.completion_type(),
            diagnostics: diagnostics.to_owned(),
            trigger: None,
        }
    }
}

impl TaskAttemptCompletionStatus {
    /// With a predefined code, of a Pod that did not end by itself.
    pub fn predefined(code: Code, diagnostics: String) -> Self {
        TaskAttemptCompletionStatus {
            code: code.number(),
            phrase: code.phrase().to_owned(),
            r#type: code.completion_type(),
            diagnostics,
            pod: None,
        }
    }
}
