//! The promises of a rescale: it is stored before all else, and a removed Task never runs or counts again.
//!
//! They hold for every history in which only the controller writes statuses. A status that another status
//! replaced, together with the spec beside it, says what the controller had to do.

mod policy;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::write::{Write, writes};
use crate::check::state_at::{Status, by_controller};
use crate::check::violation::{Checker, Violation};
use crate::history::{Change, History, Verb};
use crate::object::Meta;

const UNUSED: &str = "a removed Task is never used again";
const STORED: &str = "no Pod goes before its Task is stored as removed";
const ORDER: &str = "a Task leaves once it is stored as removed and Completed";
const UNIQUE: &str = "instances are unique";
const COUNTS: &str = "counts leave out removed Tasks";

/// The code of a Task that a rescale removed: `DeleteTaskRequested`.
const REMOVED: i64 = -230;

/// All promises by name. The manual calls the first two strong.
pub const ALL: [(&str, Checker); 8] = [
    (policy::FIRST, policy::rescale_is_stored_first),
    (UNUSED, removed_tasks_are_never_used_again),
    (STORED, no_pod_goes_before_its_task_is_stored_as_removed),
    (policy::NEVER_COUNTS, policy::removed_tasks_never_count),
    (policy::MET, policy::policy_that_is_met_ends_the_attempt),
    (ORDER, tasks_leave_and_begin_in_order),
    (UNIQUE, instances_are_unique),
    (COUNTS, counts_leave_out_removed_tasks),
];

/// Those of them that hold for every behaviour of users and of the network. The others do not hold where a
/// deadline ends the attempt, time-outs change together with a policy, or a reply is lost.
pub const ALWAYS: [(&str, Checker); 5] = [
    (UNUSED, removed_tasks_are_never_used_again),
    (policy::NEVER_COUNTS, policy::removed_tasks_never_count),
    (ORDER, tasks_leave_and_begin_in_order),
    (UNIQUE, instances_are_unique),
    (COUNTS, counts_leave_out_removed_tasks),
];

/// The status that a change of a Framework left.
fn status_of(change: &Change) -> Option<Status<'_>> {
    change.new.as_ref().filter(|_| change.is("frameworks")).and_then(|framework| Status::of(framework))
}

/// A Task's name in messages.
fn name(role: &str, task: Status<'_>) -> String {
    format!("Task {role}-{}", task.0["index"])
}

/// A Task that was once stored as deletionPending stays so and is not retried, and no Pod is created for it.
/// Its place in the spec is taken by another instance.
///
/// # Errors
/// When such a Task was used again.
pub fn removed_tasks_are_never_used_again(history: &History) -> Result<(), Violation> {
    let mut removed: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for change in &history.changes {
        let wrong = |what: String| Err(Violation::new(UNUSED, change, what));
        if let Some(pod) = change.new.as_ref().filter(|_| change.is("pods") && change.creates())
            && let Some((since, _)) = pod.annotation("FC_TASK_UID").and_then(|task| removed.get(task))
        {
            return wrong(format!("it is created for a Task removed at {since}"));
        }
        let Some(status) = status_of(change) else { continue };
        for (role, task) in status.tasks() {
            let id = task.attempt_id();
            match removed.get(task.uid()) {
                Some((since, at)) if !task.deletion_pending() || *at != id => {
                    return wrong(format!("{}, removed at {since}, is used again", name(role, task)));
                }
                None if task.deletion_pending() => {
                    removed.insert(task.uid(), (change.rv, id));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// A Task ends as DeleteTaskRequested only with deletionPending, and its Pod is touched only after that.
///
/// # Errors
/// When a Task ended so otherwise, or its Pod was deleted before, unless others than the controller did it.
pub fn no_pod_goes_before_its_task_is_stored_as_removed(history: &History) -> Result<(), Violation> {
    let mut deleted: BTreeMap<&str, u64> = BTreeMap::new();
    let mut stored: BTreeSet<&str> = BTreeSet::new();
    for change in &history.changes {
        if is_deleted_by_controller(change) {
            deleted.entry(&change.uid).or_insert(change.rv);
        }
        let wrong = |what: String| Err(Violation::new(STORED, change, what));
        let Some(status) = status_of(change) else { continue };
        for (role, task) in status.tasks().filter(|(_, task)| task.completion()["code"] == REMOVED) {
            if !task.deletion_pending() {
                return wrong(format!("{} is stopped but not removed", name(role, task)));
            }
            let pod = task.object_uid();
            if stored.insert(pod)
                && let Some(at) = deleted.get(pod)
            {
                return wrong(format!("{} is removed, and its Pod goes at {at}", name(role, task)));
            }
        }
    }
    Ok(())
}

/// Whether a change deletes a Pod, or starts to, and no request of others did it. A deletion without a known
/// request is taken for the controller's.
fn is_deleted_by_controller(change: &Change) -> bool {
    let is_deleting = change.new.as_ref().is_none_or(|pod| pod.deleting());
    let was_deleting = change.old.as_ref().is_some_and(|pod| pod.deleting());
    let is_requested = change.cause.verb == Verb::Delete;
    let by_others = is_requested && !by_controller(change);
    change.is("pods") && is_deleting && !by_others && (is_requested || !was_deleting)
}

/// A Task is taken from the status only after it was stored there as deletionPending and Completed, and a new
/// one begins at the beginning.
///
/// # Errors
/// When a Task left or began otherwise.
pub fn tasks_leave_and_begin_in_order(history: &History) -> Result<(), Violation> {
    let uids = |status: Status<'_>| -> BTreeSet<String> {
        status.tasks().map(|(_, task)| task.uid().to_owned()).collect()
    };
    for Write { change, old, new, .. } in writes(history) {
        let wrong = |what: String| Err(Violation::new(ORDER, change, what));
        let (before, after) = (uids(old), uids(new));
        for (role, task) in old.tasks().filter(|(_, task)| !after.contains(task.uid())) {
            if !task.deletion_pending() || !task.is("Completed") {
                return wrong(format!("{} leaves in {}", name(role, task), task.state()));
            }
        }
        for (role, task) in new.tasks().filter(|(_, task)| !before.contains(task.uid())) {
            let begins = task.is("AttemptCreationPending")
                && !task.deletion_pending()
                && task.attempt_id() == 0
                && task.object_uid().is_empty();
            if !begins {
                return wrong(format!("{} begins as {}", name(role, task), task.0));
            }
        }
    }
    Ok(())
}

/// A Task, or a TaskRole, of one attempt of a Framework: UID, attempt, TaskRole and index.
type Owner<'a> = (&'a str, i64, &'a str, Option<i64>);

/// An instance UID stands for one Task, or one TaskRole, of one attempt, and never for another. A TaskRole
/// keeps its own for as long as the status knows it.
///
/// # Errors
/// When an instance UID stood for two, or a TaskRole got another one.
pub fn instances_are_unique(history: &History) -> Result<(), Violation> {
    let mut owners: BTreeMap<&str, Owner<'_>> = BTreeMap::new();
    for change in history.of("frameworks") {
        let Some(status) = status_of(change) else { continue };
        for (uid, role, index) in instances(status) {
            let owner = (change.uid.as_str(), status.attempt_id(), role, index);
            let first = *owners.entry(uid).or_insert(owner);
            if first != owner {
                let what = format!("{uid} is {}, and now {}", owner_name(first), owner_name(owner));
                return Err(Violation::new(UNIQUE, change, what));
            }
        }
    }
    for Write { change, old, new, .. } in writes(history) {
        for role in old.roles() {
            let name = role_name(role);
            if new.role(name).is_some_and(|next| next["instanceUID"] != role["instanceUID"]) {
                return Err(Violation::new(UNIQUE, change, format!("TaskRole {name} is another at once")));
            }
        }
    }
    Ok(())
}

/// The instances of a status, each with its UID, TaskRole and, for a Task, index.
fn instances(status: Status<'_>) -> impl Iterator<Item = (&str, &str, Option<i64>)> {
    let tasks = status.tasks().map(|(role, task)| (task.uid(), role, task.0["index"].as_i64()));
    tasks.chain(status.roles().iter().map(|role| (Status(role).uid(), role_name(role), None)))
}

fn role_name(role: &Value) -> &str {
    role["name"].as_str().unwrap_or("")
}

fn owner_name((framework, attempt, role, index): Owner<'_>) -> String {
    let index = index.map_or_else(String::new, |index| format!("-{index}"));
    format!("{framework}/{attempt}/{role}{index}")
}

/// `taskCounts` is about the Tasks that stay.
///
/// # Errors
/// When another number of Tasks was counted.
pub fn counts_leave_out_removed_tasks(history: &History) -> Result<(), Violation> {
    for change in history.of("frameworks") {
        let Some(status) = status_of(change) else { continue };
        let stay = status.tasks().filter(|(_, task)| !task.deletion_pending()).count();
        let total = &status.0["taskCounts"]["total"];
        if total.as_u64().and_then(|total| usize::try_from(total).ok()) != Some(stay) {
            let what = format!("{stay} Tasks stay and {total} are counted");
            return Err(Violation::new(COUNTS, change, what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
