//! The check of a program without `sharding`: no replica shares the Frameworks beside it. It writes no Lease,
//! so nothing would keep it from acting for the same Framework as a replica.
//!
//! As among replicas, no clock of another machine counts. A holder is gone once its Lease was seen unchanged
//! for 1.2 times its duration, and its last requests may land for a hold after that. This program does not
//! know which slots they are of, so it does nothing until then. The same holds of a Lease that lost its
//! holder meanwhile: perhaps the holder was evicted. A Lease that is empty at first counts as released.
//! Replicas that start later are not noticed, nor are those of other namespaces.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_membership::is_member;
use framework_runtime::health::Health;
use framework_shard::lease::{LeaseRecord, LeaseState, UNKNOWN, WatchedLease};
use framework_shard::{Incarnation, LONGEST_LEASE, Seen, Version, expiry, hold};
use http::Request;
use kube::Client;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{Error, Line, PAUSE, causes, request};

/// LISTs that are refused before the account counts as one that may not list Leases. A role that was made
/// just now may not be in force yet.
const REFUSALS: u32 = 3;

/// Waits until no replica in the namespace of this program holds its Lease and no request of one may land; an
/// error if one renews it. `duration` is the shortest that a Lease counts for.
pub async fn apart(client: &Client, duration: Duration, health: &Health) -> Result<(), Error> {
    let namespace = client.default_namespace();
    let mut members = Members { begun: Instant::now(), duration, known: BTreeMap::new(), lost: None };
    let mut line = Line { health, last: None };
    let mut refusals = 0;
    loop {
        let sent = Instant::now();
        match leases(client).await {
            Ok(Listed::Leases(leases)) => match members.take_in(sent, leases) {
                Beside::Nobody => break,
                Beside::Perhaps(lease) => line.say(&format!(
                    "`sharding` is false, and the Lease {lease} in the namespace {namespace} had a holder: \
                     it must not be renewed for 1.2 times the longer of its duration and leaseDurationSec, and then \
                     for {:.0} s",
                    hold().as_secs_f64()
                )),
                Beside::Replica(lease) => {
                    return Err(Error::BesideReplica { lease, namespace: namespace.to_owned() });
                }
            },
            Ok(Listed::Forbidden(reason)) => {
                refusals += 1;
                if refusals >= REFUSALS {
                    // Installations without replicas need no such permission, and some lack it.
                    warn!(reason, "`sharding` is false and Leases cannot be listed: no replica may run");
                    break;
                }
                line.say(&reason);
            }
            Err(problem) => line.say(&problem),
        }
        sleep(PAUSE).await;
    }
    line.done();
    Ok(())
}

/// The replicas beside this program.
enum Beside {
    /// There is none.
    Nobody,
    /// The holder of this Lease may be alive, or its requests may still land.
    Perhaps(String),
    /// The holder of this Lease is alive.
    Replica(String),
}

/// The Leases of members, as this program has seen them.
struct Members {
    begun: Instant,
    /// The shortest that a Lease counts for.
    duration: Duration,
    known: BTreeMap<String, WatchedLease>,
    /// The Lease that lost its holder, and until when requests of that holder may land. Of several the last.
    lost: Option<(String, Duration)>,
}

/// How long a holder whose Lease is not renewed may act, and its requests may land.
fn may_land(duration: Duration) -> Duration {
    expiry(duration).saturating_add(hold())
}

impl Members {
    /// Takes in a LIST that was sent then and is complete now.
    fn take_in(&mut self, sent: Instant, leases: Vec<(String, Seen<LeaseRecord>)>) -> Beside {
        // The clock stands still while the machine is suspended, so that this time does not count as silence.
        let [sent, now] = [sent.duration_since(self.begun), self.begun.elapsed()];
        let mut before = std::mem::take(&mut self.known);
        let mut beside = Beside::Nobody;
        for (name, seen) in leases {
            let lease = match before.remove(&name) {
                Some(mut lease) => {
                    let (is_written, was) = (lease.version() < seen.version, lease.clone());
                    lease.see(seen, now);
                    if is_written && lease.holder().is_some() {
                        return Beside::Replica(name);
                    }
                    if lease.holder().is_none() {
                        self.lose(&name, &was, now);
                    }
                    lease
                }
                None => WatchedLease::new(seen, now),
            };
            // The LIST shows the Lease as it was when it was sent, or later.
            if lease.state(sent, self.duration, may_land) > LeaseState::Uncertain {
                beside = Beside::Perhaps(name.clone());
            }
            self.known.insert(name, lease);
        }
        before.iter().for_each(|(name, was)| self.lose(name, was, now));
        match (&self.lost, &beside) {
            (Some((name, until)), Beside::Nobody) if sent < *until => Beside::Perhaps(name.clone()),
            _ => beside,
        }
    }

    /// A Lease has no holder any more. If it had one, requests of that holder may land for some time.
    fn lose(&mut self, name: &str, was: &WatchedLease, now: Duration) {
        let Some(record) = was.record().filter(|record| record.holder.is_some()) else { return };
        let until = now.saturating_add(may_land(record.duration.max(self.duration)));
        self.lost = Some((name.to_owned(), until));
    }
}

/// The answer to a LIST.
enum Listed {
    /// The Leases of members, by name.
    Leases(Vec<(String, Seen<LeaseRecord>)>),
    /// The account may not list Leases.
    Forbidden(String),
}

async fn leases(client: &Client) -> Result<Listed, String> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", client.default_namespace());
    match request(client, Request::get(path), None).await {
        Ok(list) => {
            let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
            Ok(Listed::Leases(items.iter().filter_map(member).collect()))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Listed::Forbidden(status.message.clone())),
        // An API server without this group has no replicas.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Listed::Leases(Vec::new())),
        Err(error) => Err(format!("cannot list Leases: {}", causes(&error))),
    }
}

/// A Lease, if it is a member's. Only the fields that count are read: others may hold anything.
fn member(lease: &Value) -> Option<(String, Seen<LeaseRecord>)> {
    let name = lease["metadata"]["name"].as_str().filter(|name| is_member(name))?;
    let version = lease["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
    let holder = lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
    let unknown = || Incarnation::new(name, UNKNOWN);
    let seconds = lease["spec"]["leaseDurationSeconds"].as_u64().unwrap_or_default();
    let record = LeaseRecord {
        holder: holder.map(|holder| Incarnation::parse(holder).unwrap_or_else(unknown)),
        duration: Duration::from_secs(seconds).min(LONGEST_LEASE),
        ..LeaseRecord::default()
    };
    Some((name.to_owned(), Seen { version: Version(version), value: Some(record) }))
}
