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
        Effect::DeleteLease { name, base } => match store.delete_lease(&name, base).await {
            // The watch may have missed that.
            true => store.read_lease(&name).await.map(|seen| Event::LeaseSeen { name, seen }),
            false => None,
        },
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use framework_message::Slot;
    use framework_shard::{Incarnation, Seen};
    use http::{Request, Response, StatusCode};
    use jiff::Timestamp;
    use kube::client::Body;
    use tower::BoxError;

    use super::*;

    /// The ends of a write that gives a slot to another owner, with this answer of the API server.
    async fn ends(status: StatusCode) -> Vec<Ended> {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let body = serde_json::json!({"metadata": {"resourceVersion": "9"}, "code": status.as_u16()});
            let response = Response::builder().status(status).body(Body::from(body.to_string().into_bytes()));
            Ok::<_, BoxError>(response?)
        });
        let store = Store::new(&kube::Client::new(service, "ns"), Duration::from_secs(3));
        let now = Now { wall: Timestamp::UNIX_EPOCH, steady: Duration::ZERO, boot: Duration::ZERO };
        let before = SlotMap::without_owners([Slot(3)], Duration::from_secs(10), true);
        let mut map = before.clone();
        map.seize(Slot(3), Incarnation::new("a", "x"), 7);
        let put = Effect::PutMap { base: Some(Version(5)), map, ticket: Ticket(1) };
        exchange(store, now, put, "a", Some(before)).await
    }

    #[tokio::test]
    async fn only_a_write_with_a_reply_that_confirms_it_has_moved_slots() {
        let moved = ends(StatusCode::OK).await;
        let [Ended::Moved(change), Ended::Event(event)] = &moved[..] else { panic!("{}", moved.len()) };
        assert_eq!(change.moves.len(), 1, "the moves come before the event that shows the map");
        assert!(matches!(event, Event::MapPut { outcome: Outcome::Done(Version(9)), .. }), "{event:?}");
        for (status, outcome) in
            [(StatusCode::CONFLICT, Outcome::Refused), (StatusCode::GATEWAY_TIMEOUT, Outcome::Unknown)]
        {
            let ended = ends(status).await;
            let [Ended::MayHaveMoved(change), Ended::Event(event)] = &ended[..] else {
                panic!("{status}: {}", ended.len())
            };
            assert_eq!(change.moves.len(), 1);
            assert!(matches!(event, Event::MapPut { outcome: is, .. } if *is == outcome), "{event:?}");
        }
    }

    #[test]
    fn a_read_that_shows_an_older_version_than_is_known_shows_a_restore() {
        let went_back = |known: Option<u64>, found: u64| {
            let (version, name) = (Version(found), "a".to_owned());
            let lease = Event::LeaseSeen { name, seen: Seen { version, value: None } };
            let map = Event::MapRead(Some(Seen { version, value: None }));
            [lease, map].map(|event| {
                let ended = checked(vec![Ended::Event(event)], known.map(Version));
                matches!(ended[..], [Ended::WentBack { .. }])
            })
        };
        assert_eq!(went_back(Some(7), 6), [true, true]);
        for (known, found) in [(Some(7), 7), (Some(7), 8), (None, 6)] {
            assert_eq!(went_back(known, found), [false, false], "{known:?}, {found}");
        }
    }
}
