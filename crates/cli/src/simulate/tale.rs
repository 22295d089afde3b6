//! The events of a life: the changes of one status write, and the rule that decided each.

use std::collections::BTreeMap;

use framework_api::code::Code;
use framework_api::status::{FrameworkAttemptStatus, TaskStatus};
use framework_api::{FrameworkSpec, FrameworkStatus, RetryPolicy, State};
use serde::Serialize;

use crate::rule;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Seconds since the creation of the Framework.
    pub after_sec: i64,
    /// The event.
    pub what: String,
    /// The rule that decided it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// The events of a write.
pub fn events(
    spec: &FrameworkSpec,
    before: Option<&FrameworkStatus>,
    after: &FrameworkStatus,
    after_sec: i64,
) -> Vec<Event> {
    let mut events = of_tasks(spec, before, after);
    events.extend(of_framework(spec, before, after));
    events.into_iter().map(|(what, rule)| Event { after_sec, what, rule }).collect()
}

/// The words of an event, and the rule that decided it.
type Entry = (String, Option<String>);

fn of_tasks(spec: &FrameworkSpec, before: Option<&FrameworkStatus>, after: &FrameworkStatus) -> Vec<Entry> {
    let mut groups: BTreeMap<(u8, String, Option<String>), Vec<String>> = BTreeMap::new();
    for role in after.task_roles() {
        let Some(policy) = spec.task_role(&role.name).map(|role| role.task.retry_policy) else { continue };
        for task in role.tasks() {
            let known = before.and_then(|before| before.task(&role.name, task.index));
            let known = known.filter(|known| known.instance_uid == task.instance_uid);
            for (rank, what, by) in of_task(policy, known, task) {
                let by = by.map(|by| format!("retry policy of TaskRole {}: {by}", role.name));
                groups.entry((rank, what, by)).or_default().push(format!("{}-{}", role.name, task.index));
            }
        }
    }
    let entry = |((_, what, by), names): ((u8, String, _), Vec<String>)| {
        (format!("{} {what}", rule::tasks(&names)), by)
    };
    groups.into_iter().map(entry).collect()
}

/// An event of a Task, in the order of the ranks.
fn of_task(
    policy: RetryPolicy,
    before: Option<&TaskStatus>,
    after: &TaskStatus,
) -> Vec<(u8, String, Option<String>)> {
    let mut entries = Vec::new();
    let attempt = after.attempt_status.id;
    let is_new = before.is_none_or(|before| before.attempt_status.id != attempt);
    if let Some(before) = before.filter(|_| is_new)
        && let Some(end) = &before.attempt_status.completion_status
    {
        let by = rule::words(policy, before.retry_policy_status, end.code, &end.r#type);
        entries.push((3, format!("retried: attempt {attempt}"), Some(by)));
    }
    let known = before.filter(|_| !is_new);
    let ran = known.is_some_and(|known| known.attempt_status.run_time.is_some());
    if after.attempt_status.run_time.is_some() && !ran {
        entries.push((0, "running".to_owned(), None));
    }
    let Some(end) = after.attempt_status.completion_status.as_deref() else { return entries };
    let is_own = end.code != Code::FrameworkAttemptCompletion.number();
    if known.is_none_or(|known| known.attempt_status.completion_status.is_none()) {
        let ended = rule::result(&end.phrase, end.code);
        entries.push((if is_own { 1 } else { 6 }, format!("ended {ended}"), None));
    }
    let delay_before = known.and_then(|known| known.retry_policy_status.retry_delay_sec);
    if let Some(delay) = after.retry_policy_status.retry_delay_sec.filter(|now| delay_before != Some(*now)) {
        entries.push((2, format!("retried in {delay} s, because short runs came in a row"), None));
    }
    let was_over = known.is_some_and(|known| known.state == State::Completed);
    if after.state == State::Completed && !was_over && is_own {
        let by = rule::words(policy, after.retry_policy_status, end.code, &end.r#type);
        entries.push((4, "Completed".to_owned(), Some(by)));
    }
    entries
}

fn of_framework(
    spec: &FrameworkSpec,
    before: Option<&FrameworkStatus>,
    after: &FrameworkStatus,
) -> Vec<Entry> {
    let mut entries = Vec::new();
    let attempt = &after.attempt_status;
    let by_policy = |status: &FrameworkStatus, attempt: &FrameworkAttemptStatus| {
        let end = attempt.completion_status.as_deref()?;
        let by = rule::words(spec.retry_policy, status.retry_policy_status, end.code, &end.r#type);
        Some(format!("retry policy of the Framework: {by}"))
    };
    let known = before.filter(|before| before.attempt_status.id == attempt.id);
    if let Some(before) = before.filter(|_| known.is_none()) {
        let by = by_policy(before, &before.attempt_status);
        entries.push((format!("Framework retried: attempt {}", attempt.id), by));
    }
    let had_ended = known.is_some_and(|known| known.attempt_status.completion_status.is_some());
    if let Some(end) = attempt.completion_status.as_deref().filter(|_| !had_ended) {
        let ended = rule::result(&end.phrase, end.code);
        let by = end.trigger.as_ref().map(|by| format!("completion policy: {}", by.message));
        entries.push((format!("attempt {} of the Framework ended {ended}", attempt.id), by));
    }
    let delay_before = known.and_then(|known| known.retry_policy_status.retry_delay_sec);
    if let Some(delay) = after.retry_policy_status.retry_delay_sec.filter(|now| delay_before != Some(*now)) {
        entries.push((format!("Framework retried in {delay} s"), by_policy(after, attempt)));
    }
    if after.state == State::Completed {
        entries.push(("Framework Completed".to_owned(), by_policy(after, attempt)));
    }
    entries
}
