//! The promises of a rescale, as questions to a [`History`]: each answers with the breaches that it finds.
//!
//! They know the contract alone: the spec beside a status when the status was replaced, and the status of
//! each Task. Statuses must not be compressed.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod policy;

use std::collections::BTreeMap;

use framework_api::code::Code;
use framework_api::status::TaskStatus;
use framework_api::{Framework, FrameworkStatus, State};

use crate::cluster::history::History;

/// Finds breaches of one guarantee.
type Guarantee = fn(&History) -> Vec<String>;

/// All of them. The first two are those that the manual calls strong.
pub const GUARANTEES: [(&str, Guarantee); 8] = [
    ("1: a rescale and what else changes are one", policy::a_rescale_is_stored_before_all_else),
    ("2: removed Tasks are never used again", removed_tasks_are_never_used_again),
    ("no Pod goes before its Task is stored as removed", no_pod_goes_before_its_task_is_stored_as_removed),
    ("a removed Task never counts", policy::a_removed_task_never_counts),
    ("a policy that is met ends the attempt at once", policy::a_policy_that_is_met_ends_the_attempt_at_once),
    ("a Task leaves once it is stored as removed and Completed", a_task_leaves_in_order),
    ("instances are unique", instances_are_unique),
    ("counts leave out removed Tasks", counts_leave_out_removed_tasks),
];

/// The breaches of all guarantees, each with its name.
pub fn breaches(history: &History) -> Vec<String> {
    let named = |(name, guarantee): &(&str, Guarantee)| {
        let found: Vec<String> =
            guarantee(history).into_iter().map(|breach| format!("{name}: {breach}")).collect();
        found
    };
    GUARANTEES.iter().flat_map(named).collect()
}

/// One replacement of a Framework by its next version.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// The version that it led to.
    pub version: u64,
    /// The version before.
    pub old: &'a Framework,
    /// The version since.
    pub new: &'a Framework,
}

impl<'a> Step<'a> {
    /// The two statuses, if this is a write of the controller within one attempt.
    pub fn write(&self) -> Option<(&'a FrameworkStatus, &'a FrameworkStatus)> {
        let (old, new) = (self.old.status.as_ref()?, self.new.status.as_ref()?);
        (old != new && old.attempt_status.id == new.attempt_status.id).then_some((old, new))
    }

    /// The place of a breach, for its message.
    pub fn place(&self) -> String {
        format!("{} at {}", self.new.metadata.name.as_deref().unwrap_or_default(), self.version)
    }
}

/// Every step of every Framework, oldest first.
pub fn steps(history: &History) -> Vec<Step<'_>> {
    let mut last: BTreeMap<&str, &Framework> = BTreeMap::new();
    let mut steps = Vec::new();
    for (version, new) in &history.frameworks {
        let uid = new.metadata.uid.as_deref().unwrap_or_default();
        if let Some(old) = last.insert(uid, new) {
            steps.push(Step { version: *version, old, new });
        }
    }
    steps
}

/// Each Task with the name of its TaskRole.
pub fn tasks(status: &FrameworkStatus) -> impl Iterator<Item = (&str, &TaskStatus)> {
    let roles = status.task_roles().iter();
    roles.flat_map(|role| role.tasks().map(|task| (role.name.as_str(), task)))
}

/// The completion code of a Task's attempt.
pub fn code(task: &TaskStatus) -> Option<i32> {
    task.attempt_status.completion_status.as_ref().map(|end| end.code)
}

/// Once stored as deletionPending, a Task stays so, is not retried, and no Pod is created for it; its place
/// in the spec is taken by another instance.
fn removed_tasks_are_never_used_again(history: &History) -> Vec<String> {
    let mut removed: BTreeMap<&str, (u64, i32)> = BTreeMap::new();
    let mut breaches = Vec::new();
    for (version, _, status) in history.statuses() {
        for (role, task) in tasks(status) {
            let id = task.attempt_status.id;
            match removed.get(task.instance_uid.as_str()) {
                Some((since, at)) if !task.deletion_pending || *at != id => {
                    let index = task.index;
                    breaches.push(format!("Task {role}-{index}, removed at {since}, is used at {version}"));
                }
                None if task.deletion_pending => {
                    removed.insert(&task.instance_uid, (version, id));
                }
                _ => {}
            }
        }
    }
    for life in &history.pods {
        if let Some((since, _)) = removed.get(life.annotation("FC_TASK_UID"))
            && life.created > *since
        {
            breaches
                .push(format!("{} of a Task removed at {since} is created at {}", life.name, life.created));
        }
    }
    breaches
}

/// A Task ends as DeleteTaskRequested only with deletionPending, and its Pod is touched only after that.
fn no_pod_goes_before_its_task_is_stored_as_removed(history: &History) -> Vec<String> {
    let requested = Some(Code::DeleteTaskRequested.number());
    let mut breaches = Vec::new();
    let mut stored: BTreeMap<&str, u64> = BTreeMap::new();
    for (version, _, status) in history.statuses() {
        for (role, task) in tasks(status).filter(|(_, task)| code(task) == requested) {
            if !task.deletion_pending {
                breaches.push(format!("Task {role}-{} is stopped but not removed at {version}", task.index));
            }
            if let Some(pod) = &task.attempt_status.pod_uid {
                stored.entry(pod).or_insert(version);
            }
        }
    }
    for life in &history.pods {
        let (Some(since), Some(deleted)) = (stored.get(life.uid.as_str()), life.deleted) else { continue };
        if deleted <= *since && !history.is_deleted_by_others(life) {
            breaches.push(format!("{} goes at {deleted}, its Task is removed at {since}", life.name));
        }
    }
    breaches
}

/// A Task is taken from the status only after it was stored there as deletionPending and Completed, and a new
/// one begins at the beginning.
fn a_task_leaves_in_order(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    for step in steps(history) {
        let Some((old, new)) = step.write() else { continue };
        let here = |status, uid: &str| tasks(status).any(|(_, task)| task.instance_uid == uid);
        for (role, task) in tasks(old).filter(|(_, task)| !here(new, &task.instance_uid)) {
            if !task.deletion_pending || task.state != State::Completed {
                let (index, state) = (task.index, task.state);
                breaches.push(format!("{}: Task {role}-{index} leaves in {state:?}", step.place()));
            }
        }
        for (role, task) in tasks(new).filter(|(_, task)| !here(old, &task.instance_uid)) {
            let begins = task.state == State::AttemptCreationPending
                && !task.deletion_pending
                && task.attempt_status.id == 0
                && task.attempt_status.pod_uid.is_none();
            if !begins {
                breaches.push(format!("{}: Task {role}-{} begins as {task:?}", step.place(), task.index));
            }
        }
    }
    breaches
}

/// An instance UID stands for one Task, or one TaskRole, of one attempt, and never for another. A TaskRole
/// keeps its own for as long as the status knows it.
fn instances_are_unique(history: &History) -> Vec<String> {
    let mut owners: BTreeMap<&str, String> = BTreeMap::new();
    let mut breaches = Vec::new();
    let mut own = |uid, owner: String, version: u64| {
        let first = owners.entry(uid).or_insert_with(|| owner.clone());
        if *first != owner {
            breaches.push(format!("{uid} is {first} and at {version} {owner}"));
        }
    };
    for (version, framework, status) in history.statuses() {
        for role in status.task_roles() {
            let name = format!("{framework}/{}/{}", status.attempt_status.id, role.name);
            for task in &role.task_statuses {
                own(&task.instance_uid, format!("{name}-{}", task.index), version);
            }
            own(&role.instance_uid, name, version);
        }
    }
    for step in steps(history) {
        let Some((old, new)) = step.write() else { continue };
        for role in old.task_roles() {
            let next = new.task_roles().iter().find(|next| next.name == role.name);
            if next.is_some_and(|next| next.instance_uid != role.instance_uid) {
                breaches.push(format!("{}: TaskRole {} is another at once", step.place(), role.name));
            }
        }
    }
    breaches
}

/// `taskCounts` is about the Tasks that stay.
fn counts_leave_out_removed_tasks(history: &History) -> Vec<String> {
    let mut breaches = Vec::new();
    for (version, _, status) in history.statuses() {
        let stay = tasks(status).filter(|(_, task)| !task.deletion_pending).count();
        let total = status.task_counts.map(|counts| counts.total);
        if total.and_then(|total| usize::try_from(total).ok()) != Some(stay) {
            breaches.push(format!("at {version} {stay} Tasks stay and {total:?} are counted"));
        }
    }
    breaches
}
