//! The parts of a Framework's life that ended between two persisted statuses: for OpenTelemetry traces.
//!
//! The life of a Framework is one trace. Below the span of the life is one for each of its attempts, and
//! below those is one for each attempt of a Task. A span is made when it has ended, from the times that are
//! persisted, so nothing is held while it is open. Its ids follow from UIDs and indices in the status. So
//! every replica makes the same ones, and the trace of a Framework is found by its UID.
//!
//! As with [`outcomes`](crate::outcomes), a status that is read for the first time ends nothing.

use framework_api::code::CompletionType;
use framework_api::name::fnv_1a;
use framework_api::status::{FrameworkAttemptStatus, TaskAttemptStatus, TaskRoleStatus, TaskStatus};
use framework_api::{Framework, FrameworkStatus, Time};

/// The share of Frameworks whose lives are traced, in millionths.
///
/// The UID decides, so a life is traced as a whole or not at all, also if its owner changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling(pub u32);

impl Sampling {
    /// Bits of a UID that are random: the last 56 (RFC 9562, section 5.4).
    const RANDOM: u128 = (1 << 56) - 1;
    const MILLION: u128 = 1_000_000;

    fn takes(self, trace: u128) -> bool {
        (trace & Self::RANDOM) * Self::MILLION < u128::from(self.0) * (Self::RANDOM + 1)
    }
}

/// A part of a life that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace: `metadata.uid` of the Framework as a number.
    pub trace: u128,
    /// The id within the trace; not 0.
    pub id: u64,
    /// The span that it is a part of; `None`: it is the life.
    pub parent: Option<u64>,
    /// The object whose life or attempt it is; of a Task with its TaskRole.
    pub name: String,
    /// Its begin.
    pub start: Time,
    /// When its Pod, or the first of its Pods, ran.
    pub ran: Option<Time>,
    /// Its end; not before its begin.
    pub end: Time,
    /// Facts about it.
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it failed, or was cut short.
    pub failure: Option<String>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

/// The spans that ended between `before` and `after`. `seen` is the end of a Task that a scale-down removed.
pub fn ended(
    sampling: Sampling,
    framework: &Framework,
    before: &FrameworkStatus,
    after: &FrameworkStatus,
    seen: Time,
) -> Vec<Span> {
    let Some(mut life) = Life::of(sampling, framework) else { return Vec::new() };
    let (old, new) = (&before.attempt_status, &after.attempt_status);
    if old.completion_time.is_none() {
        let is_retried = old.id != new.id;
        let last = if is_retried { old } else { new };
        let end = if is_retried { Some(new.start_time) } else { new.completion_time };
        life.tasks(old, last, end, seen);
        if let Some(end) = end {
            life.attempt(last, end, None);
        }
    }
    if let Some(end) = after.completion_time.filter(|_| before.completion_time.is_none()) {
        life.whole(framework, after, end, None);
    }
    life.spans
}

/// The spans that end because the Framework was deleted, which a replica saw at `seen`.
pub fn cut_off(sampling: Sampling, framework: &Framework, status: &FrameworkStatus, seen: Time) -> Vec<Span> {
    let Some(mut life) = Life::of(sampling, framework) else { return Vec::new() };
    if status.completion_time.is_none() {
        let attempt = &status.attempt_status;
        if attempt.completion_time.is_none() {
            life.tasks(attempt, attempt, Some(seen), seen);
            life.attempt(attempt, seen, Some(DELETED));
        }
        life.whole(framework, status, seen, Some(DELETED));
    }
    life.spans
}

const DELETED: &str = "the Framework was deleted";
const REMOVED: &str = "a scale-down removed the Task";
const ATTEMPT_ENDED: &str = "the attempt of the Framework ended";

/// A life, and the spans of it that were made.
struct Life<'a> {
    trace: u128,
    root: u64,
    uid: &'a str,
    /// The namespace and the name of the Framework.
    names: [(&'static str, Value); 2],
    spans: Vec<Span>,
}

impl<'a> Life<'a> {
    /// The life of that Framework; `None`: it is not traced.
    fn of(sampling: Sampling, framework: &'a Framework) -> Option<Self> {
        let metadata = &framework.metadata;
        let uid = metadata.uid.as_deref()?;
        let hex = uid.bytes().filter(|byte| *byte != b'-').take(32);
        let digit = |byte: u8| char::from(byte).to_digit(16).map(u128::from);
        // The API server makes UUIDs. Zero is no trace.
        let trace = hex.map(digit).try_fold(0_u128, |number, digit| Some(number << 4 | digit?))?;
        let text = |name: &Option<String>| Value::Text(name.clone().unwrap_or_default());
        (trace != 0 && sampling.takes(trace)).then(|| Life {
            trace,
            root: id(&[uid]),
            uid,
            names: [
                ("k8s.namespace.name", text(&metadata.namespace)),
                ("framework.name", text(&metadata.name)),
            ],
            spans: Vec::new(),
        })
    }

    fn add(&mut self, span: Span) {
        // Clocks of nodes differ: a Pod may run before its Task began.
        let end = span.end.max(span.start);
        let mut attributes = self.names.to_vec();
        attributes.extend(span.attributes);
        self.spans.push(Span { trace: self.trace, end, attributes, ..span });
    }

    /// The whole life.
    fn whole(&mut self, framework: &Framework, status: &FrameworkStatus, end: Time, cut: Option<&str>) {
        let created = framework.metadata.creation_timestamp.as_ref().map(|created| Time::floor(created.0));
        let completion = status.attempt_status.completion_status.as_ref();
        let mut attributes = vec![
            ("framework.uid", Value::Text(self.uid.to_owned())),
            ("framework.retries", number(status.retry_policy_status.total_retried_count)),
        ];
        let failure = completion.filter(|_| cut.is_none()).and_then(|completion| {
            outcome(&mut attributes, completion.code, &completion.phrase, &completion.r#type)
        });
        self.add(Span {
            trace: 0,
            id: self.root,
            parent: None,
            name: "Framework".to_owned(),
            start: created.unwrap_or(status.start_time).min(status.start_time),
            ran: status.run_time,
            end,
            attributes,
            failure: cut.map(str::to_owned).or(failure),
        });
    }

    /// The id of the span of an attempt of the Framework.
    fn attempt_id(&self, attempt: &FrameworkAttemptStatus) -> u64 {
        id(&[self.uid, &attempt.id.to_string()])
    }

    /// An attempt of the Framework.
    fn attempt(&mut self, attempt: &FrameworkAttemptStatus, end: Time, cut: Option<&str>) {
        let mut attributes = vec![("framework.attempt.id", number(attempt.id))];
        text(&mut attributes, "k8s.configmap.name", Some(&attempt.config_map_name));
        text(&mut attributes, "k8s.configmap.uid", attempt.config_map_uid.as_deref());
        let failure = attempt.completion_status.as_ref().and_then(|completion| {
            let trigger = completion.trigger.as_ref();
            text(&mut attributes, "framework.completion.trigger", trigger.map(|trigger| &*trigger.message));
            outcome(&mut attributes, completion.code, &completion.phrase, &completion.r#type)
        });
        self.add(Span {
            trace: 0,
            id: self.attempt_id(attempt),
            parent: Some(self.root),
            name: "FrameworkAttempt".to_owned(),
            start: attempt.start_time,
            ran: attempt.run_time,
            end,
            attributes,
            failure: failure.or(cut.map(str::to_owned)),
        });
    }

    /// The attempts of Tasks that ended from `before` to `last`, two statuses of one attempt of the
    /// Framework. At its `end` all of them have.
    fn tasks(
        &mut self,
        before: &FrameworkAttemptStatus,
        last: &FrameworkAttemptStatus,
        end: Option<Time>,
        seen: Time,
    ) {
        let parent = self.attempt_id(last);
        for role in roles(last) {
            let old = roles(before).iter().find(|old| old.instance_uid == role.instance_uid);
            for (index, task) in role.task_statuses.iter().enumerate() {
                let old = old.and_then(|old| old.task_statuses.get(index));
                if end.is_none() && old.is_some_and(|old| old.is_same(task)) {
                    continue;
                }
                let old = old.filter(|old| old.instance_uid == task.instance_uid);
                self.task(parent, &role.name, old.map(|old| &**old), task, end);
            }
        }
        for old in roles(before) {
            let role = roles(last).iter().find(|role| role.instance_uid == old.instance_uid);
            for (index, task) in old.task_statuses.iter().enumerate() {
                let now = role.and_then(|role| role.task_statuses.get(index));
                let is_kept = now.is_some_and(|now| now.instance_uid == task.instance_uid);
                if !is_kept && task.attempt_status.completion_time.is_none() {
                    self.task_attempt(parent, &old.name, task, &task.attempt_status, (seen, Some(REMOVED)));
                }
            }
        }
    }

    /// The attempts of a Task that ended since it was `old`.
    fn task(
        &mut self,
        parent: u64,
        role: &str,
        old: Option<&TaskStatus>,
        task: &TaskStatus,
        end: Option<Time>,
    ) {
        let attempt = &task.attempt_status;
        let before = old.map(|old| &old.attempt_status);
        // One write may store the end of an attempt and the next attempt.
        let is_open = |before: &&TaskAttemptStatus| before.completion_time.is_none();
        if let Some(before) = before.filter(is_open).filter(|before| before.id != attempt.id) {
            self.task_attempt(parent, role, task, before, (attempt.start_time, None));
        }
        let was_reported = before.is_some_and(|before| before.id == attempt.id && !is_open(&before));
        match (attempt.completion_time, end) {
            _ if was_reported => {}
            (Some(completed), _) => self.task_attempt(parent, role, task, attempt, (completed, None)),
            (None, Some(end)) => {
                let cut = attempt.completion_status.is_none().then_some(ATTEMPT_ENDED);
                self.task_attempt(parent, role, task, attempt, (end, cut));
            }
            (None, None) => {}
        }
    }

    /// An attempt of a Task, with its end and the reason if it was cut short.
    fn task_attempt(
        &mut self,
        parent: u64,
        role: &str,
        task: &TaskStatus,
        attempt: &TaskAttemptStatus,
        (end, cut): (Time, Option<&str>),
    ) {
        let mut attributes = vec![
            ("framework.task_role.name", Value::Text(role.to_owned())),
            ("framework.task.index", number(task.index)),
            ("framework.task.attempt.id", number(attempt.id)),
        ];
        text(&mut attributes, "k8s.pod.name", Some(&attempt.pod_name));
        text(&mut attributes, "k8s.pod.uid", attempt.pod_uid.as_deref());
        text(&mut attributes, "k8s.pod.ip", attempt.pod_ip.as_deref());
        text(&mut attributes, "k8s.node.name", attempt.pod_node_name.as_deref());
        let failure = attempt.completion_status.as_ref().and_then(|completion| {
            outcome(&mut attributes, completion.code, &completion.phrase, &completion.r#type)
        });
        self.add(Span {
            trace: 0,
            id: id(&[self.uid, &task.instance_uid, &attempt.id.to_string()]),
            parent: Some(parent),
            name: format!("TaskAttempt {role}"),
            start: attempt.start_time,
            ran: attempt.run_time,
            end,
            attributes,
            failure: failure.or(cut.map(str::to_owned)),
        });
    }
}

fn roles(attempt: &FrameworkAttemptStatus) -> &[TaskRoleStatus] {
    attempt.task_role_statuses.as_deref().unwrap_or_default()
}

/// The id of the span that these names denote.
fn id(names: &[&str]) -> u64 {
    fnv_1a(names.join("/").as_bytes()).max(1)
}

fn number(number: impl Into<i64>) -> Value {
    Value::Number(number.into())
}

/// Adds an attribute that is known and not empty.
fn text(attributes: &mut Vec<(&'static str, Value)>, name: &'static str, value: Option<&str>) {
    attributes
        .extend(value.filter(|value| !value.is_empty()).map(|value| (name, Value::Text(value.to_owned()))));
}

/// Adds the outcome of an attempt. Returns why it failed, if it did.
fn outcome(
    attributes: &mut Vec<(&'static str, Value)>,
    code: i32,
    phrase: &str,
    r#type: &CompletionType,
) -> Option<String> {
    attributes.push(("framework.completion.code", number(code)));
    attributes.push(("framework.completion.phrase", Value::Text(phrase.to_owned())));
    r#type.is_failed().then(|| phrase.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many UIDs are taken. Only their last 56 bits are random.
    fn taken(per_million: u32) -> usize {
        let uid = |number: u128| (0x4abc_8000 << 96) | (number * (Sampling::RANDOM / 1_000) + number);
        (0..1_000).filter(|number| Sampling(per_million).takes(uid(*number))).count()
    }

    #[test]
    fn the_share_of_uids_that_are_taken_is_the_rate() {
        assert_eq!([0, 1_000, 250_000, 999_000, 1_000_000].map(taken), [0, 1, 250, 999, 1_000]);
    }

    #[test]
    fn an_id_is_the_same_in_every_version_and_never_zero() {
        assert_eq!(id(&["a"]), 0xaf63_dc4c_8601_ec8c, "FNV-1a of a, by its authors");
        assert_ne!(id(&["a", "b"]), id(&["ab"]));
    }
}
