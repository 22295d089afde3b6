//! The map of slots as the API server stores it: a ConfigMap with one key for each slot.

use std::collections::BTreeMap;
use std::time::Duration;

use framework_message::Slot;
use framework_shard::map::{Entry, SlotMap};
use framework_shard::{Incarnation, LONGEST_LEASE, Version};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::lease;

/// The ConfigMap that holds the map of slots.
pub const MAP: &str = "frameworkcontroller-slots";
const DURATION: &str = "leaseDurationSeconds";

/// No epoch that follows a clock comes near it.
const LARGEST_EPOCH: u64 = u64::MAX / 4;

/// The value of a slot's key.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    epoch: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unsettled: bool,
}

/// The map cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key {0:?} of the ConfigMap {MAP} is missing or cannot be read")]
pub struct Unreadable(String);

/// The ConfigMap that holds `map`.
pub fn render(map: &SlotMap, base: Option<Version>) -> ConfigMap {
    let row = |entry: &Entry| Row {
        owner: entry.owner.as_ref().map(ToString::to_string),
        epoch: entry.epoch,
        next: entry.next.as_ref().map(ToString::to_string),
        unsettled: entry.unsettled,
    };
    let text = |entry: &Entry| serde_json::to_string(&row(entry)).unwrap_or_default();
    let mut data: BTreeMap<String, String> =
        map.slots.iter().map(|(slot, entry)| (slot.to_string(), text(entry))).collect();
    data.insert(DURATION.to_owned(), map.duration.as_secs().to_string());
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(MAP.to_owned()),
            resource_version: base.map(|Version(version)| version.to_string()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}

/// Reads a map. One that lacks a slot is no map at all: the owner of that slot is not known.
pub fn read(object: &ConfigMap) -> Result<SlotMap, Unreadable> {
    let data = object.data.clone().unwrap_or_default();
    let unreadable = |key: &str| Unreadable(key.to_owned());
    // The leader writes the Lease that a row names: it must be a member's.
    let member = |text: &str| Incarnation::parse(text).filter(|life| lease::is_member(life.lease()));
    let life = |text: Option<String>| text.map(|text| member(&text).ok_or(())).transpose();
    let entry = |slot: Slot| {
        let row: Row = serde_json::from_str(data.get(&slot.to_string())?).ok()?;
        // Epochs rise, and the policy of deploy/epoch compares them as int64.
        if row.epoch > LARGEST_EPOCH {
            return None;
        }
        let (owner, next) = (life(row.owner).ok()?, life(row.next).ok()?);
        Some((slot, Entry { owner, epoch: row.epoch, next, unsettled: row.unsettled }))
    };
    let slots: Result<_, _> =
        Slot::all().map(|slot| entry(slot).ok_or_else(|| unreadable(&slot.to_string()))).collect();
    let seconds = data.get(DURATION).and_then(|seconds| seconds.parse().ok());
    let duration = Duration::from_secs(seconds.ok_or_else(|| unreadable(DURATION))?);
    Ok(SlotMap { duration: duration.min(LONGEST_LEASE), slots: slots? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> SlotMap {
        let mut map = SlotMap::without_owners(Slot::all(), Duration::from_secs(10), false);
        map.seize(Slot(3), Incarnation::new("frameworkcontroller-member-a", "x"), 100);
        map.propose(Slot(3), Some(Incarnation::new("frameworkcontroller-member-b", "y")));
        map
    }

    #[test]
    fn a_map_is_read_as_it_was_written() {
        let object = render(&map(), Some(Version(7)));
        assert_eq!(read(&object), Ok(map()));
        assert_eq!(
            object.data.as_ref().unwrap()["3"],
            concat!(
                r#"{"owner":"frameworkcontroller-member-a/x","epoch":100,"#,
                r#""next":"frameworkcontroller-member-b/y","unsettled":true}"#
            )
        );
    }

    #[test]
    fn a_map_that_was_edited_badly_is_refused_with_the_key() {
        let edits: [(&str, Option<&str>); 9] = [
            ("7", None),
            ("7", Some("{}")),
            ("3", Some(r#"{"owner":"nobody","epoch":1}"#)),
            ("3", Some(r#"{"owner":"another-lease/x","epoch":1}"#)),
            ("3", Some(r#"{"owner":"frameworkcontroller-member-B_/x","epoch":1}"#)),
            ("3", Some(r#"{"epoch":1,"next":"frameworkcontroller-member-/x"}"#)),
            ("3", Some(r#"{"epoch":18446744073709551615}"#)),
            // A quarter of all numbers stays free above those that are read: a seizure adds a hundred.
            ("3", Some(r#"{"epoch":4611686018427387904}"#)),
            (DURATION, Some("soon")),
        ];
        for (key, value) in edits {
            let mut object = render(&map(), None);
            let data = object.data.as_mut().unwrap();
            match value {
                Some(value) => _ = data.insert(key.to_owned(), value.to_owned()),
                None => _ = data.remove(key),
            }
            assert_eq!(read(&object), Err(Unreadable(key.to_owned())));
        }
    }

    /// A holder of a Lease that is longer is not read.
    #[test]
    fn the_largest_map_is_far_below_the_limit_of_an_object() {
        let life = "0".repeat(lease::LONGEST_HOLDER - lease::LONGEST - 1);
        let long = |name: &str| Some(Incarnation::new(&name.repeat(lease::LONGEST), &life));
        let mut map = map();
        for entry in map.slots.values_mut() {
            *entry = Entry { owner: long("a"), epoch: u64::MAX, next: long("b"), unsettled: true };
        }
        let object = render(&map, None);
        let bytes: usize = object.data.unwrap().iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(bytes < 200_000, "{bytes}");
    }
}
