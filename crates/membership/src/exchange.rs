//! The requests of a member, and their ends.

use framework_message::{Now, Ticket};
use framework_shard::Version;
use framework_shard::event::{Effect, Event, Outcome};
use framework_shard::map::SlotMap;
use framework_shard::member::LEADER_LEASE;

use crate::message::LeaseRole;
use crate::store::Store;
use crate::unconfirmed::Change;

/// The end of a request, for the member and for the controller.
pub enum Ended {
    /// An event for the member.
    Event(Event),
    /// The end of a write of a Lease.
    LeaseWritten(LeaseRole, Ticket, Outcome),
    /// The owners of slots were changed.
    Moved(Change),
    /// The owners of slots may have been changed: there was no reply, or one to a second copy.
    MayHaveMoved(Change),
    /// A read showed a version that is older than the one that was known when it was sent.
    WentBack { known: Version, found: Version },
}

/// The ends of a request that was sent when this version was known. Reads are consistent, so one that shows
/// an older version shows that the store was restored.
pub fn checked(ended: Vec<Ended>, known: Option<Version>) -> Vec<Ended> {
    let found = ended.iter().find_map(|ended| match ended {
        Ended::Event(Event::LeaseSeen { seen, .. }) => Some(seen.version),
        Ended::Event(Event::MapRead(seen)) => seen.as_ref().map(|seen| seen.version),
        _ => None,
    });
    match known.zip(found).filter(|(known, found)| found < known) {
        Some((known, found)) => vec![Ended::WentBack { known, found }],
        None => ended,
    }
}

/// Does a read or a write. `own` is the name of this replica's Lease, `before` the map that a write replaces.
pub async fn exchange(
    store: Store,
    now: Now,
    effect: Effect,
    own: &str,
    before: Option<SlotMap>,
) -> Vec<Ended> {
    let event = match effect {
        Effect::WriteLease { name, base, record, ticket } => {
            let outcome = store.write_lease(&name, base, &record, now.wall).await;
            let role = match name.as_str() {
                LEADER_LEASE => LeaseRole::Leader,
                name if name == own => LeaseRole::Own,
                _ => LeaseRole::Other,
            };
            return vec![Ended::LeaseWritten(role, ticket, outcome)];
        }
        Effect::ReadLease(name) => store.read_lease(&name).await.map(|seen| Event::LeaseSeen { name, seen }),
        Effect::DeleteLease { name, base } => {
            store.delete_lease(&name, base).await;
            None
        }
        Effect::PutMap { base, map, ticket } => {
            let outcome = store.put_map(base, &map).await;
            let change = Change::new(base, before.as_ref(), &map);
            let moved = match outcome {
                _ if change.moves.is_empty() => None,
                Outcome::Done(_) => Some(Ended::Moved(change)),
                Outcome::Unknown | Outcome::Refused => Some(Ended::MayHaveMoved(change)),
            };
            // First the moves: with the event the member sees the map that shows them.
            let event = Ended::Event(Event::MapPut { ticket, outcome });
            return moved.into_iter().chain([event]).collect();
        }
        Effect::ReadMap => Some(Event::MapRead(store.read_map().await)),
        _ => None,
    };
    event.map(Ended::Event).into_iter().collect()
}
