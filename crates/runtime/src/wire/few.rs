//! Lists and maps of metadata, of which a bounded number of entries is kept.
//!
//! An entry costs as little as 6 bytes in the object and about 60 in memory, and the API server stores
//! 200,000 of them in one object. Few matter to the controller; only the history shows the others.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use framework_api::name::{FOREGROUND_DELETION, SLOT_LABEL};
use framework_api::queue::QUEUE_NAME_LABEL;

/// The entries that are kept of each list and map.
pub const MOST: usize = 1_000;

/// The names that decide something. They are kept wherever they stand.
const ALWAYS: [&str; 3] = [FOREGROUND_DELETION, QUEUE_NAME_LABEL, SLOT_LABEL];

/// An element of a list.
pub trait BoundedEntry: PartialEq {
    /// Whether it decides something.
    fn is_kept_always(&self) -> bool;
}

impl BoundedEntry for String {
    fn is_kept_always(&self) -> bool {
        ALWAYS.contains(&self.as_str())
    }
}

impl BoundedEntry for OwnerReference {
    fn is_kept_always(&self) -> bool {
        false
    }
}

struct BoundedList<T>(Vec<T>);

struct Map(BTreeMap<String, String>);

/// The first [`MOST`] elements of a list, and those that decide something.
pub fn list<'de, D: Deserializer<'de>, T: BoundedEntry + Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    Ok(Option::<BoundedList<T>>::deserialize(deserializer)?.map(|list| list.0))
}

/// The first [`MOST`] entries of a map, and those that decide something.
pub fn map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    Ok(Option::<Map>::deserialize(deserializer)?.map(|map| map.0))
}

impl<'de, T: BoundedEntry + Deserialize<'de>> Deserialize<'de> for BoundedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);
        impl<'de, T: BoundedEntry + Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = BoundedList<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<BoundedList<T>, A::Error> {
                let mut kept: Vec<T> = Vec::new();
                while let Some(element) = elements.next_element::<T>()? {
                    // A list may repeat a name.
                    let beyond = kept.get(MOST..);
                    if beyond.is_none_or(|beyond| element.is_kept_always() && !beyond.contains(&element)) {
                        kept.push(element);
                    }
                }
                Ok(BoundedList(kept))
            }
        }
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;
        impl<'de> Visitor<'de> for MapVisitor {
            type Value = Map;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Map, A::Error> {
                let mut kept = BTreeMap::new();
                while let Some(key) = entries.next_key::<String>()? {
                    if kept.len() < MOST || key.is_kept_always() {
                        kept.insert(key, entries.next_value()?);
                    } else {
                        entries.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Map(kept))
            }
        }
        deserializer.deserialize_map(MapVisitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    #[derive(Deserialize)]
    struct Both {
        #[serde(default, deserialize_with = "list")]
        list: Option<Vec<String>>,
        #[serde(default, deserialize_with = "map")]
        map: Option<BTreeMap<String, String>>,
    }

    #[test]
    fn entries_beyond_the_bound_are_left_out_unless_they_decide_something() {
        assert_eq!(MOST, 1_000, "as docs/manual/large.md says");
        let deciding = [QUEUE_NAME_LABEL, SLOT_LABEL, FOREGROUND_DELETION];
        let mut names: Vec<String> = (0..2 * MOST).map(|number| format!("a/{number:05}")).collect();
        names.extend([deciding, deciding].concat().into_iter().map(str::to_owned));
        let entries: Map<String, Value> = names.iter().map(|name| (name.clone(), json!("x"))).collect();
        let text = json!({"list": names, "map": entries}).to_string();
        let both: Both = serde_json::from_str(&text).unwrap();
        let list = both.list.unwrap();
        assert_eq!(list[..MOST], names[..MOST]);
        assert_eq!(list[MOST..], deciding);
        let map = both.map.unwrap();
        assert_eq!(map.len(), MOST + deciding.len());
        assert!(deciding.iter().all(|name| map.contains_key(*name)) && map.contains_key("a/00000"));
    }

    #[test]
    fn nothing_and_null_are_no_entries() {
        for text in ["{}", r#"{"list": null, "map": null}"#] {
            let both: Both = serde_json::from_str(text).unwrap();
            assert_eq!((both.list, both.map), (None, None), "{text}");
        }
    }
}
