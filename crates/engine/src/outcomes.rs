//! The attempts that ended, the retries, and the first run, between two persisted statuses: for metrics.
//!
//! Only persisted facts are counted. Each is counted by the replica that sees the change; a status that is
//! read for the first time counts nothing, because an earlier replica may have counted it.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_api::code::{Attribute, CompletionType};
use framework_api::status::{TaskRoleStatus, TaskStatus};
use framework_api::{Framework, FrameworkStatus, Time};

/// The object whose attempts are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attempt {
    /// A Framework's.
    Framework,
    /// A Task's.
    Task,
}

/// The end of an attempt. There are few, so that each can be a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttemptEnd {
    /// It succeeded.
    Succeeded,
    /// It failed, and it is not known whether another attempt may succeed.
    Failed,
    /// It failed, and another attempt may succeed.
    FailedTransient,
    /// It failed because others competed for the same resources.
    FailedTransientConflict,
    /// It failed, and each other attempt would fail too.
    FailedPermanent,
}

impl Attempt {
    /// Both.
    pub const ALL: [Attempt; 2] = [Attempt::Framework, Attempt::Task];
}

impl AttemptEnd {
    /// All of them.
    pub const ALL: [AttemptEnd; 5] = [
        AttemptEnd::Succeeded,
        AttemptEnd::Failed,
        AttemptEnd::FailedTransient,
        AttemptEnd::FailedTransientConflict,
        AttemptEnd::FailedPermanent,
    ];

    fn of(r#type: &CompletionType) -> AttemptEnd {
        if !r#type.is_failed() {
            AttemptEnd::Succeeded
        } else if r#type.has(Attribute::Permanent) {
            AttemptEnd::FailedPermanent
        } else if r#type.has(Attribute::Conflict) {
            AttemptEnd::FailedTransientConflict
        } else if r#type.has(Attribute::Transient) {
            AttemptEnd::FailedTransient
        } else {
            AttemptEnd::Failed
        }
    }
}

/// The time from the creation of a Framework to the moment when a Task of it first ran, in whole seconds, as
/// both are stored. `None` if `before` has that moment, too, or `after` lacks it.
pub fn creation_to_running(
    framework: &Framework,
    before: &FrameworkStatus,
    after: &FrameworkStatus,
) -> Option<Duration> {
    let ran = after.run_time.filter(|_| before.run_time.is_none())?;
    let created = Time::floor(framework.metadata.creation_timestamp.as_ref()?.0);
    // A Task on a node whose clock is behind runs before it was created.
    Some(ran.since(created).try_into().unwrap_or_default())
}

/// The id of an attempt, and its end with the phrase of its completion.
type Ended<'a> = (i32, Option<(AttemptEnd, &'a str)>);

fn task_end(task: &TaskStatus) -> Ended<'_> {
    let completion = task.attempt_status.completion_status.as_ref();
    let end = completion.map(|completion| (AttemptEnd::of(&completion.r#type), completion.phrase.as_str()));
    (task.attempt_status.id, end)
}

/// Attempts that ended, and retries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// By the phrase of the completion status.
    ended: BTreeMap<(Attempt, AttemptEnd), BTreeMap<String, u64>>,
    retried: [u64; Attempt::ALL.len()],
}

impl Outcomes {
    /// The outcomes that `after` has and `before` lacks; `None` if there are none.
    pub fn between<'a>(before: &'a FrameworkStatus, after: &'a FrameworkStatus) -> Option<Outcomes> {
        let mut outcomes = Outcomes::default();
        let (old, new) = (&before.attempt_status, &after.attempt_status);
        let end = |status: &'a FrameworkStatus| {
            let completion = status.attempt_status.completion_status.as_ref()?;
            Some((AttemptEnd::of(&completion.r#type), completion.phrase.as_str()))
        };
        outcomes.compare(Attempt::Framework, (old.id, end(before)), (new.id, end(after)));
        // Another attempt of the Framework has other Tasks.
        if old.id == new.id {
            for role in after.task_roles() {
                let same = |old: &&TaskRoleStatus| old.instance_uid == role.instance_uid;
                if let Some(old) = before.task_roles().iter().find(same) {
                    outcomes.compare_tasks(old, role);
                }
            }
        }
        (outcomes != Outcomes::default()).then_some(outcomes)
    }

    fn compare_tasks(&mut self, before: &TaskRoleStatus, after: &TaskRoleStatus) {
        // Tasks stand by index, without gaps.
        for (old, new) in before.task_statuses.iter().zip(&after.task_statuses) {
            if !old.is_same(new) && old.instance_uid == new.instance_uid {
                self.compare(Attempt::Task, task_end(old), task_end(new));
            }
        }
    }

    /// Compares the attempts of one object: their ids, and their ends with their phrases.
    fn compare(&mut self, attempt: Attempt, before: Ended<'_>, after: Ended<'_>) {
        let retries = u64::try_from(after.0.saturating_sub(before.0)).unwrap_or_default();
        if let Some(retried) = self.retried.get_mut(attempt as usize) {
            *retried += retries;
        }
        let is_new = before.1.is_none() || retries > 0;
        if let Some((end, phrase)) = after.1.filter(|_| is_new) {
            let phrases = self.ended.entry((attempt, end)).or_default();
            // Many Tasks end alike: one name serves them all.
            match phrases.get_mut(phrase) {
                Some(count) => *count += 1,
                None => _ = phrases.insert(phrase.to_owned(), 1),
            }
        }
    }

    /// Attempts that ended, each kind with its end and its phrase.
    pub fn ended(&self) -> impl Iterator<Item = (Attempt, AttemptEnd, &str, u64)> {
        self.ended.iter().flat_map(|(&(attempt, end), phrases)| {
            phrases.iter().map(move |(phrase, count)| (attempt, end, phrase.as_str(), *count))
        })
    }

    /// Retries, by the object that was retried.
    pub fn retried(&self) -> impl Iterator<Item = (Attempt, u64)> {
        Attempt::ALL.into_iter().zip(self.retried).filter(|(_, count)| *count > 0)
    }
}
