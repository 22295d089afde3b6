//! A slot has one owner at a time: in the order of versions, and by no clock.
//!
//! The map of slots and the objects of Frameworks share one counter of versions. So a write says by its
//! version which row of the map was in force when it was applied. A replica writes for a slot only while the
//! map names it. Three kinds of request may land later, because they were on their way. One is any request of
//! a sender that was proved gone: then the row after the sender's is unsettled. Another is a delete whose
//! reply was lost: it names the UID of an object that a persisted status gave up, so it does no harm at any
//! time. The last is a create for a Framework that is gone: the garbage collector removes the object, and
//! nobody creates for that Framework again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::check::slot::slot;
use crate::check::state_at::by_controller;
use crate::check::violation::Violation;
use crate::history::{Change, History, Verb};
use crate::object::Meta;

/// The ConfigMap that holds the map.
pub(crate) const MAP: &str = "frameworkcontroller-slots";

const EPOCH: &str = "each owner of a slot has an epoch of its own, higher than all before";
const EARLY: &str = "a replica writes for a slot only after the map named it";
const LATE: &str = "a replica creates and updates nothing once another one was granted the slot as settled";

/// A tenure of a slot: an entry of the map, and the facts about its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenure {
    /// The version of the map that began it.
    pub since: u64,
    /// The incarnation that owns the slot: `LEASE/RUN`, or `LEASE/RUN-NUMBER`.
    pub owner: String,
    /// The number that rises with each owner.
    pub epoch: u64,
    /// Whether requests of an earlier owner may have been on their way.
    pub unsettled: bool,
}

impl Tenure {
    /// Whether the owner is a life of that run of the program.
    #[must_use]
    pub fn is_of(&self, run: &str) -> bool {
        let life = self.owner.split_once('/').and_then(|(_, random)| random.strip_prefix(run));
        life.is_some_and(|life| life.is_empty() || life.starts_with('-'))
    }
}

/// A write of a replica for a Framework.
#[derive(Debug, Clone, Copy)]
pub struct Write<'h> {
    /// The slot of the Framework.
    pub slot: u8,
    /// The applied change.
    pub change: &'h Change,
}

/// Counts of a history, so that a test can require enough of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnerCounts {
    /// Writes of replicas for Frameworks whose owner was looked up.
    pub writes: usize,
    /// Of these, those that landed after their sender had lost the slot.
    pub late: usize,
    /// Changes of the owner of a slot.
    pub moves: usize,
}

/// Checks that promise. The history has all versions of the map from the first one on. The actor of each
/// write is the name of its run of the program, as in [`Tenure::owner`].
///
/// # Errors
/// When a replica wrote for a slot that was not its own.
pub fn check(history: &History) -> Result<OwnerCounts, Violation> {
    let tenures = tenures(history)?;
    let moves = tenures.values().map(|of_slot| of_slot.len() - 1).sum();
    let mut counts = OwnerCounts { moves, ..OwnerCounts::default() };
    for write in writes(history) {
        let of_slot = tenures.get(&write.slot).map_or(&[][..], Vec::as_slice);
        counts.writes += 1;
        counts.late += usize::from(!is_owned(write.change, of_slot)?);
    }
    Ok(counts)
}

/// The tenures of each slot by the versions of the map, oldest first.
///
/// # Errors
/// When an epoch does not rise.
pub fn tenures(history: &History) -> Result<BTreeMap<u8, Vec<Tenure>>, Violation> {
    let mut tenures: BTreeMap<u8, Vec<Tenure>> = BTreeMap::new();
    let mut rows: BTreeMap<&str, &Value> = BTreeMap::new();
    for change in history.of("configmaps").filter(|change| change.name == MAP) {
        let data = change.new.as_ref().and_then(|map| map["data"].as_object());
        for (slot, row) in data.into_iter().flatten() {
            // Most rows are as they were in the version before.
            if rows.insert(slot, row) == Some(row) {
                continue;
            }
            let row: Option<Value> = row.as_str().and_then(|row| serde_json::from_str(row).ok());
            let (Ok(slot), Some(row)) = (slot.parse(), row) else { continue };
            let known = tenures.entry(slot).or_default();
            let owner = row["owner"].as_str().unwrap_or_default().to_owned();
            let (epoch, unsettled) = (row["epoch"].as_u64().unwrap_or(0), row["unsettled"] == true);
            match known.last_mut() {
                // The mark goes when the hold has ended: its statement about the beginning stays true.
                Some(last) if last.owner == owner && last.epoch == epoch => last.unsettled |= unsettled,
                Some(last) if epoch <= last.epoch => {
                    let what = format!("slot {slot} goes to {owner} under {epoch}, after {}", last.epoch);
                    return Err(Violation::new(EPOCH, change, what));
                }
                _ => known.push(Tenure { since: change.rv, owner, epoch, unsettled }),
            }
        }
    }
    Ok(tenures)
}

/// The writes of replicas for Frameworks that exist and for queues. Writes of labels are left out: any
/// replica that sees a wrong label may put it right, guarded by the version that it saw.
pub fn writes(history: &History) -> impl Iterator<Item = Write<'_>> {
    // The UID of the Framework of each ConfigMap, by that of the ConfigMap.
    let mut frameworks: BTreeMap<&str, &str> = BTreeMap::new();
    let mut gone: BTreeSet<&str> = BTreeSet::new();
    history.changes.iter().filter_map(move |change| {
        let owner = || change.object().controller().and_then(|owner| owner["uid"].as_str());
        let uid = match &*change.plural {
            "frameworks" => Some(change.uid.as_str()),
            "configmaps" => owner().inspect(|framework| {
                frameworks.insert(&change.uid, framework);
            }),
            "pods" => owner().and_then(|config_map| frameworks.get(config_map).copied()),
            _ => None,
        };
        if &*change.plural == "frameworks" && change.removes() {
            gone.insert(&change.uid);
        }
        if &*change.plural == "queueunits" && change.cause.verb == Verb::UpdateStatus {
            // The owner of the namespace's slot decides about its units, and only it writes their status.
            return by_controller(change).then(|| Write { slot: slot(&change.namespace), change });
        }
        let uid = uid
            .filter(|uid| !gone.contains(uid))
            .filter(|_| by_controller(change) && change.cause.verb != Verb::Patch)?;
        Some(Write { slot: slot(uid), change })
    })
}

/// Whether the writer had the slot then. It may have lost it only in a way that leaves the slot unsettled.
fn is_owned(change: &Change, tenures: &[Tenure]) -> Result<bool, Violation> {
    let tenures = &tenures[..tenures.partition_point(|tenure| tenure.since < change.rv)];
    let Some(at) = tenures.iter().rposition(|tenure| tenure.is_of(&change.cause.actor)) else {
        let what = format!("{} writes before it has the slot", change.cause.actor);
        return Err(Violation::new(EARLY, change, what));
    };
    match tenures.get(at + 1) {
        None => Ok(true),
        Some(next) if next.unsettled || change.cause.verb == Verb::Delete => Ok(false),
        Some(next) => {
            let what = format!("{} writes, and {} has the slot", change.cause.actor, next.owner);
            Err(Violation::new(LATE, change, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::history::Cause;
    use crate::object::Object;

    /// A change by an actor; the Framework `u` is in slot 159.
    fn change(rv: u64, actor: &str, verb: Verb, plural: &str, object: Value) -> Arc<Change> {
        let cause = Cause {
            actor: actor.into(),
            call: rv,
            verb,
            uid: None,
            version: None,
            grace: None,
            propagation: None,
        };
        let new = Some(Arc::new(Object::new(object)));
        Arc::new(Change::seen(rv, plural, Timestamp::UNIX_EPOCH, cause, None, new))
    }

    fn map(rv: u64, owner: &str, epoch: u64, unsettled: bool) -> Arc<Change> {
        let row = json!({ "owner": owner, "epoch": epoch, "unsettled": unsettled }).to_string();
        let data = json!({ slot("u").to_string(): row });
        change(
            rv,
            "b-member",
            Verb::Update,
            "configmaps",
            json!({ "metadata": { "name": MAP }, "data": data }),
        )
    }

    fn write(rv: u64, actor: &str) -> Arc<Change> {
        change(
            rv,
            actor,
            Verb::UpdateStatus,
            "frameworks",
            json!({ "metadata": { "name": "f", "uid": "u" } }),
        )
    }

    fn checked(changes: Vec<Arc<Change>>) -> Result<OwnerCounts, &'static str> {
        check(&History { changes, exchanges: Vec::new() }).map_err(|violation| violation.promise)
    }

    #[test]
    fn a_write_belongs_to_the_owner_of_its_version() {
        let handed_over =
            vec![map(1, "l/a", 1, false), write(2, "a"), map(3, "m/b-1", 2, false), write(4, "b")];
        assert_eq!(checked(handed_over.clone()), Ok(OwnerCounts { writes: 2, late: 0, moves: 1 }));
        let mut late = handed_over;
        late.push(write(5, "a"));
        assert_eq!(checked(late), Err(LATE));
        assert_eq!(
            checked(vec![map(1, "l/a", 1, false), write(2, "b"), map(3, "m/b", 2, false)]),
            Err(EARLY)
        );
        assert_eq!(checked(vec![write(1, "a"), map(2, "l/a", 1, false)]), Err(EARLY));
        assert_eq!(checked(vec![map(1, "l/ab", 1, false), write(2, "a")]), Err(EARLY), "another run");
    }

    #[test]
    fn requests_on_their_way_at_a_seizure_may_land() {
        let seized = vec![map(1, "l/a", 1, false), map(2, "m/b", 2, true), write(3, "a"), write(4, "b")];
        assert_eq!(checked(seized.clone()), Ok(OwnerCounts { writes: 2, late: 1, moves: 1 }));
        let mut settled = seized;
        settled.insert(2, map(2, "m/b", 2, false));
        assert_eq!(checked(settled), Ok(OwnerCounts { writes: 2, late: 1, moves: 1 }), "the mark was there");
    }

    #[test]
    fn a_delete_may_land_after_a_hand_over_and_not_before_a_grant() {
        let delete = |rv| {
            let owner = json!([{ "kind": "ConfigMap", "name": "f-attempt", "uid": "m", "controller": true }]);
            let pod = json!({ "metadata": { "name": "f-r-0", "uid": "p", "ownerReferences": owner } });
            change(rv, "a", Verb::Delete, "pods", pod)
        };
        let owner = json!([{ "kind": "Framework", "name": "f", "uid": "u", "controller": true }]);
        let config_map = json!({ "metadata": { "name": "f-attempt", "uid": "m", "ownerReferences": owner } });
        let config_map = change(2, "a", Verb::Create, "configmaps", config_map);
        let row = map(1, "l/a", 1, false);
        let late = vec![row, config_map.clone(), map(3, "m/b", 2, false), delete(4)];
        assert_eq!(checked(late), Ok(OwnerCounts { writes: 2, late: 1, moves: 1 }));
        let create = change(2, "b", Verb::Create, "configmaps", config_map.object().clone());
        let early = vec![map(1, "m/b", 1, false), create, delete(3), map(4, "l/a", 2, false)];
        assert_eq!(checked(early), Err(EARLY));
    }

    #[test]
    fn a_create_may_land_once_its_framework_is_gone() {
        let owner = json!([{ "kind": "Framework", "name": "f", "uid": "u", "controller": true }]);
        let config_map = json!({ "metadata": { "name": "f-attempt", "uid": "m", "ownerReferences": owner } });
        let create = change(5, "a", Verb::Create, "configmaps", config_map);
        let row = |rv, owner: &str, epoch| map(rv, owner, epoch, false);
        let exists = change(2, "user", Verb::Create, "frameworks", json!({ "metadata": { "uid": "u" } }));
        let gone = Change::seen(3, "frameworks", exists.time, exists.cause.clone(), exists.new.clone(), None);
        let mut history = vec![row(1, "l/a", 1), exists, Arc::new(gone), row(4, "m/b", 2), create];
        assert_eq!(checked(history.clone()).map(|found| found.writes), Ok(0));
        history.remove(2);
        assert_eq!(checked(history), Err(LATE));
    }

    #[test]
    fn epochs_rise_with_each_owner() {
        assert_eq!(checked(vec![map(1, "l/a", 2, false), map(2, "m/b", 2, false)]), Err(EPOCH));
        assert_eq!(
            checked(vec![map(1, "l/a", 2, false), map(2, "l/a", 2, true)]).map(|found| found.moves),
            Ok(0)
        );
    }

    #[test]
    fn the_objects_of_a_framework_are_in_its_slot() {
        let owned = |kind: &str, uid: &str, owner: &str| {
            let owner = json!([{ "kind": kind, "name": "f", "uid": owner, "controller": true }]);
            json!({ "metadata": { "name": "f-x", "uid": uid, "ownerReferences": owner } })
        };
        let config_map = |actor| change(2, actor, Verb::Create, "configmaps", owned("Framework", "m", "u"));
        let pod = |actor| change(3, actor, Verb::Create, "pods", owned("ConfigMap", "p", "m"));
        let row = || map(1, "l/a", 1, false);
        assert_eq!(checked(vec![row(), config_map("a"), pod("a")]).map(|found| found.writes), Ok(2));
        assert_eq!(checked(vec![row(), config_map("b")]), Err(EARLY));
        assert_eq!(checked(vec![row(), config_map("a"), pod("b")]), Err(EARLY));
    }
}
