//! The writes of a status within one attempt, each with the spec that stood beside the status before.

use serde_json::Value;

use crate::check::state_at::Status;
use crate::history::{Change, History};

/// A write of a status within one attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write<'a> {
    pub change: &'a Change,
    /// The spec of the version that was replaced.
    pub spec: Spec<'a>,
    pub old: Status<'a>,
    pub new: Status<'a>,
}

/// Every such write, oldest first. A change of the status is one, whichever request made it: the request may
/// be unknown.
pub(super) fn writes(history: &History) -> impl Iterator<Item = Write<'_>> {
    history.of("frameworks").filter_map(|change| {
        let (before, after) = (change.old.as_ref()?, change.new.as_ref()?);
        let (old, new) = (Status::of(before)?, Status::of(after)?);
        let is_write = old.0 != new.0 && old.attempt_id() == new.attempt_id();
        is_write.then(|| Write { change, spec: Spec(&before["spec"]), old, new })
    })
}

/// The spec of a Framework.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec<'a>(&'a Value);

impl<'a> Spec<'a> {
    /// The TaskRoles.
    pub fn roles(self) -> impl Iterator<Item = Role<'a>> {
        self.0["taskRoles"].as_array().into_iter().flatten().map(Role)
    }

    /// How many Tasks a TaskRole wants.
    pub fn tasks_of(self, role: &str) -> usize {
        self.roles().find(|wanted| wanted.name() == role).map_or(0, Role::tasks)
    }
}

/// A TaskRole of a spec.
#[derive(Debug, Clone, Copy)]
pub(super) struct Role<'a>(&'a Value);

impl<'a> Role<'a> {
    pub fn name(self) -> &'a str {
        self.0["name"].as_str().unwrap_or("")
    }

    /// How many Tasks it wants.
    pub fn tasks(self) -> usize {
        self.0["taskNumber"].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
    }

    /// So many failed Tasks, and so many succeeded ones, complete the attempt, unless the number is negative.
    pub fn minima(self) -> (i64, i64) {
        let policy = &self.0["frameworkAttemptCompletionPolicy"];
        let minimum = |field: &str, default| policy[field].as_i64().unwrap_or(default);
        (minimum("minFailedTaskCount", 1), minimum("minSucceededTaskCount", -1))
    }
}
