//! A slot is seized only after the Lease of its owner was taken from that life: in the order of versions, and
//! by no clock.
//!
//! A write of the map by the run of the owner counts as the owner's own, also one by a later life of that
//! run. Any other write that replaces the owner of a slot is a seizure. Before a seizure there is a version
//! of the owner's Lease without that life: the Lease was emptied or deleted, or a later life holds it. The
//! life renews by resourceVersion, so no later version shows it again. A map that is made again has no
//! owners: it is written after the right of all of them has ended.

use std::collections::BTreeMap;

use crate::check::owners::{MAP, Tenure, tenures};
use crate::check::violation::Violation;
use crate::history::{Change, History};

const TAKEN: &str = "a slot is seized only after the Lease of its owner was taken from that life";
const MARKED: &str = "a slot that was seized is unsettled";

/// Counts of a history, so that a test can require enough of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeizureCounts {
    /// Slots that their owner gave away itself.
    pub given: usize,
    /// Slots that were seized.
    pub seized: usize,
    /// Slots that changed hands by a write of which no replica is known as the author.
    pub unknown: usize,
}

/// Checks those promises. The history has all versions of the map and of the Leases from the first one on. A
/// version that was there before the history counts as its first. Writes of an unknown author are not judged.
///
/// # Errors
/// When a slot was seized from a life that held its Lease, or as settled.
pub fn check(history: &History) -> Result<SeizureCounts, Violation> {
    let holders = holders(history);
    let maps = history.of("configmaps").filter(|change| change.name == MAP);
    let maps: BTreeMap<u64, &Change> = maps.map(|change| (change.rv, &**change)).collect();
    let mut counts = SeizureCounts::default();
    for (slot, of_slot) in tenures(history)? {
        for pair in of_slot.windows(2) {
            let [before, next] = pair else { continue };
            let map = maps.get(&next.since).copied();
            let Some(change) = map.filter(|map| replaces(map, before, next)) else { continue };
            let Some(writer) = run(change) else {
                counts.unknown += 1;
                continue;
            };
            if before.is_of(writer) {
                counts.given += 1;
                continue;
            }
            counts.seized += 1;
            let seizes = || format!("{writer} seizes slot {slot} from {}", before.owner);
            if !next.unsettled {
                return Err(Violation::new(MARKED, change, format!("{} as settled", seizes())));
            }
            let lease = before.owner.split_once('/').map_or("", |(lease, _)| lease);
            let of_lease = holders.get(lease).map_or(&[][..], Vec::as_slice);
            if let Some(why) = still_holds(of_lease, &before.owner, change.rv) {
                return Err(Violation::new(TAKEN, change, format!("{}: {why}", seizes())));
            }
        }
    }
    Ok(counts)
}

/// Whether a version of the map took a slot from an owner. One that is made again takes none from anybody.
fn replaces(map: &Change, before: &Tenure, next: &Tenure) -> bool {
    !map.creates() && !before.owner.is_empty() && before.owner != next.owner
}

/// The run of the replica that wrote the map, as in [`Tenure::owner`]; `None`: the author is not known, or a
/// user.
fn run(change: &Change) -> Option<&str> {
    let actor = &*change.cause.actor;
    let is_replica = change.cause.call > 0 && !actor.starts_with("user");
    is_replica.then(|| actor.strip_suffix("-member").unwrap_or(actor))
}

/// The holder of each Lease by its versions, oldest first; empty: nobody holds it, or it is gone.
fn holders(history: &History) -> BTreeMap<&str, Vec<(u64, &str)>> {
    let mut holders: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for change in history.of("leases") {
        let holder = change.new.as_ref().and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        holders.entry(&change.name).or_default().push((change.rv, holder.unwrap_or_default()));
    }
    holders
}

/// Why a life may hold its Lease at a version of the map, or after it.
fn still_holds(of_lease: &[(u64, &str)], life: &str, at: u64) -> Option<String> {
    let (before, after) = of_lease.split_at(of_lease.partition_point(|(rv, _)| *rv < at));
    match before.last() {
        None => Some("its Lease was never seen".to_owned()),
        Some((rv, holder)) if *holder == life => Some(format!("it holds its Lease by version {rv}")),
        Some(_) => {
            let (rv, _) = after.iter().find(|(_, holder)| *holder == life)?;
            Some(format!("it renews its Lease in version {rv}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework_audit::Record;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::history::{Cause, Verb};
    use crate::object::Object;
    use crate::recorded::{self, Event};

    fn change(rv: u64, actor: &str, plural: &str, old: Option<Value>, new: Option<Value>) -> Arc<Change> {
        let call = if actor == "cluster" { 0 } else { rv };
        let cause = Cause {
            actor: actor.into(),
            call,
            verb: Verb::Update,
            uid: None,
            version: None,
            grace: None,
            propagation: None,
        };
        let object = |value: Option<Value>| value.map(|value| Arc::new(Object::new(value)));
        Arc::new(Change::seen(rv, plural, Timestamp::UNIX_EPOCH, cause, object(old), object(new)))
    }

    fn rows(owner: &str, epoch: u64, unsettled: bool) -> Value {
        let row = json!({ "owner": owner, "epoch": epoch, "unsettled": unsettled }).to_string();
        json!({ "metadata": { "name": MAP }, "data": { "7": row } })
    }

    /// The slot has the owner `l/a` first.
    fn owned(rv: u64) -> Arc<Change> {
        change(rv, "a-member", "configmaps", None, Some(rows("l/a", 1, false)))
    }

    /// Then a replica writes that `m/b` has it.
    fn moved(rv: u64, actor: &str, unsettled: bool) -> Arc<Change> {
        let (old, new) = (rows("l/a", 1, false), rows("m/b", 2, unsettled));
        change(rv, actor, "configmaps", Some(old), Some(new))
    }

    /// A version of the Lease of `l/a`; without a holder it is emptied.
    fn lease(rv: u64, holder: Option<&str>) -> Arc<Change> {
        let value = json!({ "metadata": { "name": "l" }, "spec": { "holderIdentity": holder } });
        change(rv, "a-member", "leases", Some(value.clone()), Some(value))
    }

    fn lease_is_gone(rv: u64) -> Arc<Change> {
        change(rv, "b-member", "leases", Some(json!({ "metadata": { "name": "l" } })), None)
    }

    fn checked(changes: Vec<Arc<Change>>) -> Result<SeizureCounts, &'static str> {
        check(&History { changes, exchanges: Vec::new() }).map_err(|violation| violation.promise)
    }

    const SEIZED: SeizureCounts = SeizureCounts { given: 0, seized: 1, unknown: 0 };

    #[test]
    fn a_slot_is_seized_once_its_owners_lease_shows_another_holder_or_none() {
        for taken in [lease(3, None), lease(3, Some("l/a-1")), lease(3, Some("l/c")), lease_is_gone(3)] {
            let history = vec![lease(1, Some("l/a")), owned(2), taken, moved(4, "b-member", true)];
            assert_eq!(checked(history), Ok(SEIZED));
        }
        let emptied_before_the_history = vec![lease(1, None), owned(2), moved(4, "b", true)];
        assert_eq!(checked(emptied_before_the_history), Ok(SEIZED));
    }

    #[test]
    fn a_seizure_before_the_lease_is_emptied_is_found() {
        let (held, emptied) = (lease(1, Some("l/a")), lease(5, None));
        let early = vec![held.clone(), owned(2), moved(4, "b-member", true), emptied];
        assert_eq!(checked(early), Err(TAKEN));
        let renewed = vec![held, owned(2), lease(3, Some("l/a")), moved(4, "b-member", true)];
        assert_eq!(checked(renewed), Err(TAKEN));
        assert_eq!(checked(vec![owned(2), moved(4, "b-member", true)]), Err(TAKEN), "no Lease was seen");
    }

    #[test]
    fn a_renewal_after_the_seizure_is_found() {
        let emptied = vec![lease(1, Some("l/a")), owned(2), lease(3, None), moved(4, "b-member", true)];
        assert_eq!(checked(emptied.clone()), Ok(SEIZED));
        let another = [emptied.clone(), vec![lease(5, Some("l/a-1"))]].concat();
        assert_eq!(checked(another), Ok(SEIZED), "a later life of the same run");
        let renewed = [emptied, vec![lease(5, Some("l/a"))]].concat();
        assert_eq!(checked(renewed), Err(TAKEN));
    }

    #[test]
    fn a_slot_that_is_seized_as_settled_is_found() {
        let history = vec![lease(1, Some("l/a")), owned(2), lease(3, None), moved(4, "b-member", false)];
        assert_eq!(checked(history), Err(MARKED));
    }

    #[test]
    fn an_owner_gives_its_slot_away_while_it_holds_its_lease() {
        let history = vec![lease(1, Some("l/a")), owned(2), moved(4, "a-member", false)];
        assert_eq!(checked(history), Ok(SeizureCounts { given: 1, ..SeizureCounts::default() }));
    }

    #[test]
    fn a_write_of_unknown_author_and_a_map_that_is_made_again_seize_nothing() {
        let held = || vec![lease(1, Some("l/a")), owned(2)];
        for author in ["cluster", "user"] {
            let history = [held(), vec![moved(4, author, true)]].concat();
            assert_eq!(checked(history), Ok(SeizureCounts { unknown: 1, ..SeizureCounts::default() }));
        }
        let gone = change(3, "user", "configmaps", Some(rows("l/a", 1, false)), None);
        let again = change(4, "b-member", "configmaps", None, Some(rows("m/b", 2, true)));
        assert_eq!(checked([held(), vec![gone, again]].concat()), Ok(SeizureCounts::default()));
    }

    /// A write of the map, as the audit log of a real cluster has it.
    fn logged(run: &str, version: u64) -> Record {
        Record {
            verb: "update".into(),
            resource: "configmaps".into(),
            subresource: String::new(),
            namespace: "default".into(),
            name: MAP.into(),
            code: 200,
            user: String::new(),
            user_agent: format!("frameworkcontroller/1 (incarnation {run})"),
            request_uri: String::new(),
            received: Timestamp::UNIX_EPOCH,
            completed: Timestamp::UNIX_EPOCH,
            request_object: None,
            response_object: Some(json!({ "metadata": { "resourceVersion": version.to_string() } })),
        }
    }

    #[test]
    fn the_audit_log_of_a_real_cluster_names_the_author_of_a_seizure() {
        let event = |plural: &'static str, version: u64, mut object: Value| {
            object["metadata"]["uid"] = plural.into();
            object["metadata"]["resourceVersion"] = version.to_string().into();
            Event { plural, object, gone: false }
        };
        let held = json!({ "metadata": { "name": "l" }, "spec": { "holderIdentity": "l/a" } });
        let events = vec![
            event("leases", 1, held),
            event("configmaps", 2, rows("l/a", 1, false)),
            event("configmaps", 4, rows("m/b", 2, true)),
        ];
        let judged = |requests: &[Record]| {
            check(&recorded::history(events.clone(), requests)).map_err(|violation| violation.promise)
        };
        assert_eq!(judged(&[logged("a", 4)]), Ok(SeizureCounts { given: 1, ..SeizureCounts::default() }));
        assert_eq!(judged(&[logged("b", 4)]), Err(TAKEN));
        assert_eq!(judged(&[]), Ok(SeizureCounts { unknown: 1, ..SeizureCounts::default() }));
    }
}
