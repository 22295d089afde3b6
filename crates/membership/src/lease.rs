//! A Lease as the API server stores it.
//!
//! Holder, duration and transitions stand in the fields that `kubectl get leases` shows. The rest of a
//! [`LeaseRecord`] stands in annotations. The times are for readers: no member decides by them.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_shard::lease::{LeaseRecord, UNKNOWN};
use framework_shard::member::LEADER_LEASE;
use framework_shard::{Incarnation, LONGEST_LEASE, Seen, Version};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

/// The label of all Leases of members and leader, for `kubectl get leases --selector`.
const LABEL: &str = "frameworkcontroller.microsoft.com/lease";
const POD: &str = "frameworkcontroller.microsoft.com/pod-uid";
const RENEWALS: &str = "frameworkcontroller.microsoft.com/renewals";
const LEAVING: &str = "frameworkcontroller.microsoft.com/leaving";
const KNOWS_MAP: &str = "frameworkcontroller.microsoft.com/knows-map";

const PREFIX: &str = "frameworkcontroller-member-";
/// The longest name of an object.
pub const LONGEST: usize = 253;
/// The longest holder that is read: the name of a Lease, and far more than the name of a life. The leader may
/// write a holder into each row of the map. One of a megabyte would make a map that cannot be written.
pub const LONGEST_HOLDER: usize = LONGEST + 64;

/// The name of the Lease of the replica on this host. It collides with no other name of ours.
pub fn lease_name(host: &str) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let host: String = host.chars().map(valid).take(LONGEST - PREFIX.len()).collect();
    format!("{PREFIX}{}", host.trim_end_matches('-'))
}

/// Whether a Lease of this name is a member's.
pub fn is_member(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|host| !host.is_empty() && lease_name(host) == name)
}

/// Whether a Lease of this name is a member's or the leader's.
pub fn is_ours(name: &str) -> bool {
    name == LEADER_LEASE || is_member(name)
}

/// The Lease that holds `record`.
pub fn render(name: &str, base: Option<Version>, record: &LeaseRecord, now: Timestamp) -> Lease {
    let annotations = [
        (POD, record.pod.clone()),
        (RENEWALS, record.renewals.to_string()),
        (LEAVING, record.leaving.to_string()),
        (KNOWS_MAP, record.knows_map.to_string()),
    ];
    let seconds = i32::try_from(record.duration.as_secs()).unwrap_or(i32::MAX);
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            resource_version: base.map(|Version(version)| version.to_string()),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), "true".to_owned())])),
            annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value)).into()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: record.holder.as_ref().map(ToString::to_string),
            // The API server refuses 0.
            lease_duration_seconds: (seconds > 0).then_some(seconds),
            lease_transitions: Some(i32::try_from(record.transitions).unwrap_or(i32::MAX)),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

/// Reads a Lease. A holder that cannot be read counts as an unknown one, which never renews.
pub fn read(lease: &Lease) -> Option<Seen<LeaseRecord>> {
    let version = version(&lease.metadata)?;
    let spec = lease.spec.clone().unwrap_or_default();
    let unknown = || Incarnation::new(lease.metadata.name.as_deref().unwrap_or("unnamed"), UNKNOWN);
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let noted = |key: &str| lease.metadata.annotations.as_ref().and_then(|notes| notes.get(key)).cloned();
    let is_noted = |key: &str, otherwise: bool| noted(key).map_or(otherwise, |value| value == "true");
    let life = |holder: &String| Incarnation::parse(holder).filter(|_| holder.len() <= LONGEST_HOLDER);
    let value = LeaseRecord {
        holder: holder.map(|holder| life(&holder).unwrap_or_else(unknown)),
        pod: noted(POD).unwrap_or_default(),
        renewals: noted(RENEWALS).and_then(|count| count.parse().ok()).unwrap_or_default(),
        transitions: spec.lease_transitions.and_then(|count| u64::try_from(count).ok()).unwrap_or_default(),
        duration: Duration::from_secs(
            spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default(),
        )
        .min(LONGEST_LEASE),
        leaving: is_noted(LEAVING, false),
        knows_map: is_noted(KNOWS_MAP, true),
    };
    Some(Seen { version, value: Some(value) })
}

/// The resourceVersion of an object.
pub fn version(metadata: &ObjectMeta) -> Option<Version> {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).map(Version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> LeaseRecord {
        LeaseRecord {
            holder: Some(Incarnation::new("frameworkcontroller-member-a", "x7")),
            pod: "pod".into(),
            renewals: 12,
            transitions: 3,
            duration: Duration::from_secs(10),
            leaving: true,
            knows_map: false,
        }
    }

    #[test]
    fn a_lease_is_read_as_it_was_written() {
        for record in [record(), record().emptied(), LeaseRecord::default().emptied()] {
            let lease = render("a", Some(Version(7)), &record, Timestamp::UNIX_EPOCH);
            assert_eq!(read(&lease), Some(Seen { version: Version(7), value: Some(record) }));
        }
    }

    #[test]
    fn a_holder_of_another_form_is_unknown() {
        let mut lease = render("a", Some(Version(7)), &record(), Timestamp::UNIX_EPOCH);
        for text in ["somebody".to_owned(), format!("a/{}", "x".repeat(LONGEST_HOLDER))] {
            lease.spec.as_mut().unwrap().holder_identity = Some(text);
            let holder = read(&lease).and_then(|seen| seen.value).and_then(|record| record.holder);
            assert_eq!(holder, Some(Incarnation::new("a", "unknown")));
        }
        let longest = Incarnation::new(&lease_name(&"x".repeat(300)), &format!("1f0c77e2-{}", u64::MAX));
        assert!(longest.to_string().len() <= LONGEST_HOLDER, "a replica is read");
    }

    #[test]
    fn a_lease_that_was_edited_holds_no_slots_for_years() {
        let mut lease = render("a", Some(Version(7)), &record(), Timestamp::UNIX_EPOCH);
        lease.spec.as_mut().unwrap().lease_duration_seconds = Some(i32::MAX);
        let duration = read(&lease).and_then(|seen| seen.value).map(|record| record.duration);
        assert_eq!(duration, Some(LONGEST_LEASE));
    }

    #[test]
    fn every_host_gives_a_valid_name() {
        assert_eq!(lease_name("Node_7.example."), "frameworkcontroller-member-node-7-example");
        assert_eq!(lease_name(&"x".repeat(300)).len(), LONGEST);
    }
}
