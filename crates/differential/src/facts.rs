//! The facts of a status that two runs have in common: of times and UIDs, only whether they are set.

use std::collections::BTreeMap;
use std::fmt::Debug;

use framework_api::code::CompletionType;
use framework_api::status::{
    FrameworkAttemptCompletionStatus, RetryPolicyStatus, TaskAttemptCompletionStatus, TaskRoleStatus,
    TaskStatus,
};
use framework_api::{Framework, FrameworkStatus};

/// The values by their paths.
pub(crate) type Facts = BTreeMap<String, String>;

/// The contract fixes the diagnostics of failed Pods: pipelines read the JSON in them.
const OF_CONTRACT: &str = "Pod failed: ";

/// Reads a status.
pub(crate) fn of(framework: &Framework) -> Facts {
    let mut facts = Facts::new();
    let Some(status) = &framework.status else {
        facts.insert("status".into(), "none".into());
        return facts;
    };
    of_framework(status, &mut facts);
    for role in status.task_roles() {
        of_role(role, &mut facts);
    }
    facts
}

fn of_framework(status: &FrameworkStatus, facts: &mut Facts) {
    let attempt = &status.attempt_status;
    let mut say = |what: &str, value: String| {
        facts.insert(what.to_owned(), value);
    };
    say("state", format!("{:?}", status.state));
    say("retried", retried(status.retry_policy_status));
    say("runTime", there(&status.run_time));
    say("completionTime", there(&status.completion_time));
    say("attempt.id", attempt.id.to_string());
    say("attempt.runTime", there(&attempt.run_time));
    say("attempt.completionTime", there(&attempt.completion_time));
    say("attempt.instanceUID", there(&attempt.instance_uid));
    say("attempt.configMapUID", there(&attempt.config_map_uid));
    say("attempt.configMapName", attempt.config_map_name.clone());
    let Some(end) = attempt.completion_status.as_deref() else {
        return say("attempt.end", "none".into());
    };
    let FrameworkAttemptCompletionStatus { code, phrase, r#type, diagnostics, trigger } = end;
    say("attempt.end", format!("{code} {phrase} {}", kind(r#type)));
    if let Some(text) = contracted(diagnostics) {
        say("attempt.end.diagnostics", text);
    }
    let trigger =
        trigger.as_ref().map(|trigger| format!("{}-{}", trigger.task_role_name, trigger.task_index));
    say("attempt.end.trigger", trigger.unwrap_or_else(|| "none".into()));
}

fn of_role(role: &TaskRoleStatus, facts: &mut Facts) {
    let name = &role.name;
    facts.insert(format!("{name}.timeout"), format!("{:?}", role.pod_graceful_deletion_timeout_sec));
    facts.insert(format!("{name}.tasks"), role.task_statuses.len().to_string());
    for task in &role.task_statuses {
        of_task(name, task, facts);
    }
}

fn of_task(role: &str, task: &TaskStatus, facts: &mut Facts) {
    let attempt = &task.attempt_status;
    let mut say = |what: &str, value: String| {
        facts.insert(format!("{role}-{}.{what}", task.index), value);
    };
    say("state", format!("{:?}", task.state));
    say("deletionPending", task.deletion_pending.to_string());
    say("retried", retried(task.retry_policy_status));
    say("runTime", there(&task.run_time));
    say("completionTime", there(&task.completion_time));
    say("attempt.id", attempt.id.to_string());
    say("attempt.runTime", there(&attempt.run_time));
    say("attempt.completionTime", there(&attempt.completion_time));
    say("attempt.instanceUID", there(&attempt.instance_uid));
    say("attempt.podUID", there(&attempt.pod_uid));
    say("attempt.podName", attempt.pod_name.clone());
    say("attempt.podNodeName", format!("{:?}", attempt.pod_node_name));
    say("attempt.podIP", format!("{:?}", attempt.pod_ip));
    say("attempt.podHostIP", format!("{:?}", attempt.pod_host_ip));
    let Some(end) = attempt.completion_status.as_deref() else {
        return say("attempt.end", "none".into());
    };
    let TaskAttemptCompletionStatus { code, phrase, r#type, diagnostics, pod } = end;
    say("attempt.end", format!("{code} {phrase} {}", kind(r#type)));
    if let Some(text) = contracted(diagnostics) {
        say("attempt.end.diagnostics", text);
    }
    say("attempt.end.pod", serde_json::to_string(pod).unwrap_or_else(|error| error.to_string()));
}

fn retried(counts: RetryPolicyStatus) -> String {
    let RetryPolicyStatus { total_retried_count, accountable_retried_count, retry_delay_sec, .. } = counts;
    format!(
        "{total_retried_count} in all, {accountable_retried_count} accountable, delay {retry_delay_sec:?}"
    )
}

fn kind(kind: &CompletionType) -> String {
    let mut attributes: Vec<String> = kind.attributes.iter().map(|one| format!("{one:?}")).collect();
    attributes.sort();
    format!("{:?} {attributes:?}", kind.name)
}

/// The diagnostics, if the contract fixes their text.
fn contracted(diagnostics: &str) -> Option<String> {
    diagnostics.starts_with(OF_CONTRACT).then(|| diagnostics.to_owned())
}

fn there<T: Debug>(value: &Option<T>) -> String {
    if value.is_some() { "set".into() } else { "unset".into() }
}
