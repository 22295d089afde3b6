//! The attempts that ended, the retries, and the first run, between two persisted statuses: for metrics.
//!
//! Only persisted facts are counted. Each is counted by the replica that sees the change; a status that is
//! read for the first time counts nothing, because an earlier replica may have counted it.

use std::time::Duration;

use framework_api::code::{Attribute, CompletionType};
use framework_api::status::{TaskRoleStatus, TaskStatus};
use framework_api::{Framework, FrameworkStatus, Time};

/// The object whose attempts are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// A Framework's.
    Framework,
    /// A Task's.
    Task,
}

/// The end of an attempt. There are few, so that each can be a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
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

impl End {
    /// All of them.
    pub const ALL: [End; 5] = [
        End::Succeeded,
        End::Failed,
        End::FailedTransient,
        End::FailedTransientConflict,
        End::FailedPermanent,
    ];

    fn of(r#type: &CompletionType) -> End {
        if !r#type.is_failed() {
            End::Succeeded
        } else if r#type.has(Attribute::Permanent) {
            End::FailedPermanent
        } else if r#type.has(Attribute::Conflict) {
            End::FailedTransientConflict
        } else if r#type.has(Attribute::Transient) {
            End::FailedTransient
        } else {
            End::Failed
        }
    }
}

/// The time from the creation of a Framework to the moment when a Task of it first ran, in whole seconds, as
/// both are stored; `None` if `before` has that moment, too, or `after` lacks it.
pub fn creation_to_running(
    framework: &Framework,
    before: Option<&FrameworkStatus>,
    after: Option<&FrameworkStatus>,
) -> Option<Duration> {
    let (before, after) = (before?, after?);
    let ran = after.run_time.filter(|_| before.run_time.is_none())?;
    let created = Time::floor(framework.metadata.creation_timestamp.as_ref()?.0);
    // A Task on a node whose clock is behind runs before it was created.
    Some(ran.since(created).try_into().unwrap_or_default())
}

/// Attempts that ended, and retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    ended: [[u64; End::ALL.len()]; Attempt::ALL.len()],
    retried: [u64; Attempt::ALL.len()],
}

impl Outcomes {
    /// The outcomes that `after` has and `before` lacks; `None` if there are none.
    pub fn between(before: Option<&FrameworkStatus>, after: Option<&FrameworkStatus>) -> Option<Outcomes> {
        let (before, after) = (before?, after?);
        let mut outcomes = Outcomes::default();
        let (old, new) = (&before.attempt_status, &after.attempt_status);
        let r#type = |status: &FrameworkStatus| {
            status.attempt_status.completion_status.as_ref().map(|completion| End::of(&completion.r#type))
        };
        outcomes.compare(Attempt::Framework, (old.id, r#type(before)), (new.id, r#type(after)));
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
                let attempt = |task: &TaskStatus| {
                    let completion = task.attempt_status.completion_status.as_ref();
                    (task.attempt_status.id, completion.map(|completion| End::of(&completion.r#type)))
                };
                self.compare(Attempt::Task, attempt(old), attempt(new));
            }
        }
    }

    /// Compares the attempts of one object: their ids, and their ends.
    fn compare(&mut self, attempt: Attempt, before: (i32, Option<End>), after: (i32, Option<End>)) {
        let retries = u64::try_from(after.0.saturating_sub(before.0)).unwrap_or_default();
        if let Some(retried) = self.retried.get_mut(attempt as usize) {
            *retried += retries;
        }
        let is_new = before.1.is_none() || retries > 0;
        if let Some(end) = after.1.filter(|_| is_new)
            && let Some(ended) =
                self.ended.get_mut(attempt as usize).and_then(|ends| ends.get_mut(end as usize))
        {
            *ended += 1;
        }
    }

    /// Attempts that ended, each kind with its end.
    pub fn ended(&self) -> impl Iterator<Item = (Attempt, End, u64)> {
        let of = |(attempt, ends): (Attempt, &[u64; End::ALL.len()])| {
            let ends = *ends;
            End::ALL.into_iter().zip(ends).map(move |(end, count)| (attempt, end, count))
        };
        Attempt::ALL.into_iter().zip(&self.ended).flat_map(of).filter(|(.., count)| *count > 0)
    }

    /// Retries, by the object that was retried.
    pub fn retried(&self) -> impl Iterator<Item = (Attempt, u64)> {
        Attempt::ALL.into_iter().zip(self.retried).filter(|(_, count)| *count > 0)
    }
}
