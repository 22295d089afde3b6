//! A crash loses little: of one Framework only so many Pods live, at any moment, that the status does not
//! record and whose creation was answered.
//!
//! The check does not count the Pods that the controller cannot know to exist: Pods whose creation ended
//! without an answer, and those of an earlier client. A replica that had the slot before is another client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::check::state_at::{PodIdentity, Status, by_controller};
use crate::check::violation::Violation;
use crate::history::{Exchange, History};
use crate::object::Object;

const PROMISE: &str = "a crash loses only so many creates";

/// Checks it for a limit.
///
/// # Errors
/// When more Pods were created than that without a record.
pub fn check(history: &History, limit: usize) -> Result<(), Violation> {
    let mut unrecorded: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // The client that created the last Pod of each Framework.
    let mut creators: BTreeMap<String, Arc<str>> = BTreeMap::new();
    for change in &history.changes {
        match &*change.plural {
            "pods" => {
                let Some(Ok(identity)) = PodIdentity::of(change.object()) else { continue };
                let framework = identity.framework_uid;
                let lost = unrecorded.entry(framework.to_owned()).or_default();
                let create =
                    history.exchange_of(change).filter(|_| change.creates() && by_controller(change));
                if let Some(create) = create {
                    let before = creators.insert(framework.to_owned(), Arc::clone(&create.who));
                    if before.is_some_and(|before| before != create.who) {
                        lost.clear();
                    }
                }
                if create.is_some_and(is_known) {
                    lost.insert(change.uid.clone());
                } else if change.removes() {
                    lost.remove(&change.uid);
                }
                if lost.len() > limit {
                    let what = format!("{} Pods live that no status records, {limit} may", lost.len());
                    return Err(Violation::new(PROMISE, change, what));
                }
            }
            "frameworks" => {
                if let Some(lost) = unrecorded.get_mut(&change.uid) {
                    let recorded = change.new.as_ref().map_or_else(BTreeSet::new, recorded);
                    lost.retain(|uid| !recorded.contains(uid.as_str()));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the controller learns of the creation.
fn is_known(create: &Exchange) -> bool {
    create.answered.is_some() && create.code.is_some_and(|code| (200..300).contains(&code))
}

fn recorded(framework: &Arc<Object>) -> BTreeSet<&str> {
    let status = Status::of(framework);
    status.into_iter().flat_map(|status| status.tasks().map(|(_, task)| task.object_uid())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::history_builder::HistoryBuilder;

    #[test]
    fn a_recorded_pod_or_an_unanswered_create_is_not_lost() {
        assert_eq!(check(&HistoryBuilder::running().history(), 1), Ok(()));
        assert_eq!(check(&HistoryBuilder::running().history(), 0).unwrap_err().object, "pods/default/f-r-0");
        let mut builder = HistoryBuilder::started();
        builder.create_pod(0, 0);
        builder.last_reply_is_lost();
        assert_eq!(check(&builder.history(), 0), Ok(()));
    }

    #[test]
    fn more_than_the_limit_is_wrong() {
        let mut builder = HistoryBuilder::started();
        builder.create_pod(0, 0);
        builder.create_pod(1, 0);
        assert!(check(&builder.history(), 1).unwrap_err().what.contains("2 Pods live"));
        assert_eq!(check(&builder.history(), 2), Ok(()));
    }

    #[test]
    fn the_next_incarnation_begins_again() {
        let mut builder = HistoryBuilder::started();
        builder.create_pod(0, 0);
        builder.controller("controller-2");
        builder.create_pod(1, 0);
        assert_eq!(check(&builder.history(), 1), Ok(()));
    }

    #[test]
    fn a_write_of_another_replica_changes_nothing() {
        let mut builder = HistoryBuilder::started();
        builder.create_pod(0, 0);
        builder.controller("controller-2");
        builder.edit(|_| ());
        builder.controller("controller-1");
        builder.create_pod(1, 0);
        assert!(check(&builder.history(), 1).unwrap_err().what.contains("2 Pods live"));
    }
}
