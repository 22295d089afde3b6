//! The rules that decided about attempts: of completion, and of retries.

use std::collections::BTreeMap;

use framework_api::code::Code;
use framework_api::{FrameworkStatus, State};

use crate::find::Found;
use crate::rule::{result, tasks, words};

/// The rules, that of the Framework's attempt first.
pub fn of(found: &Found, status: &FrameworkStatus) -> Vec<String> {
    let spec = &found.framework.spec;
    let mut lines = Vec::new();
    if let Some(end) = &status.attempt_status.completion_status {
        let ended = result(&end.phrase, end.code);
        lines.push(match &end.trigger {
            Some(by) => {
                let (role, index, message) = (&by.task_role_name, by.task_index, &by.message);
                format!(
                    "completion policy: {message}; the last of them is {role}-{index}, which ended {ended}"
                )
            }
            None => format!("the attempt ended {ended}: {}", end.diagnostics),
        });
        let last = words(spec.retry_policy, status.retry_policy_status, end.code, &end.r#type);
        lines.push(format!("retry policy of the Framework: {last}"));
    }
    lines.extend(of_tasks(found, status));
    lines
}

/// The rules by which Tasks are retried or not, and the Tasks of each.
fn of_tasks(found: &Found, status: &FrameworkStatus) -> Vec<String> {
    let mut by_rule: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for role in status.task_roles() {
        let Some(spec) = found.framework.spec.task_role(&role.name) else { continue };
        for task in role.tasks() {
            // It is over in this attempt of the Framework, or waits for its retry.
            let has_ended = matches!(task.state, State::Completed | State::AttemptCompleted);
            let Some(end) = task.attempt_status.completion_status.as_deref() else { continue };
            // A Task that ended with its Framework's attempt was not judged.
            let is_judged = end.code != Code::FrameworkAttemptCompletion.number();
            if !is_judged || !end.r#type.is_failed() || !has_ended {
                continue;
            }
            let rule = words(spec.task.retry_policy, task.retry_policy_status, end.code, &end.r#type);
            let name = format!("{}-{} {}", role.name, task.index, result(&end.phrase, end.code));
            by_rule.entry((&role.name, rule)).or_default().push(name);
        }
    }
    let line = |((role, rule), names): ((&str, String), Vec<String>)| {
        format!("retry policy of TaskRole {role}: {}: {rule}", tasks(&names))
    };
    by_rule.into_iter().map(line).collect()
}
