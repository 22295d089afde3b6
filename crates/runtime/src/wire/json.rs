//! Finds values in JSON text by their place, without decoding the rest.
//!
//! The work is bounded by the length of the text: each step passes over it once and keeps references only. A
//! list or an object of which each value is read has at most [`MAX_VALUES`].

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use framework_api::job_kind::{Part, Pointer, escaped};

/// The values of which each is read: more are an error.
pub const MAX_VALUES: usize = 1_000;

/// A value that was found, and the JSON pointer of it.
pub type Found<'a> = (String, &'a RawValue);

/// The value at a place that stands for one; `None`: there is none, or it is `null`.
pub fn value<'a>(json: &'a RawValue, pointer: &Pointer) -> Result<Option<&'a RawValue>, String> {
    Ok(values(json, pointer)?.pop().map(|(_, value)| value))
}

/// The values at a place, in the order of the text. A field that is missing or `null` has none.
pub fn values<'a>(json: &'a RawValue, pointer: &Pointer) -> Result<Vec<Found<'a>>, String> {
    let mut found = vec![(String::new(), json)];
    for part in pointer.parts() {
        let mut next = Vec::new();
        for (path, value) in found {
            let at = |error: serde_json::Error| format!("{path}: {error}");
            match part {
                Part::Field(name) => {
                    let value = Field(name).deserialize(value).map_err(at)?;
                    next.extend(value.map(|value| (format!("{path}/{}", escaped(name)), value)));
                }
                Part::Each => {
                    let each = Each.deserialize(value).map_err(at)?;
                    next.extend(each.into_iter().map(|(part, value)| (format!("{path}/{part}"), value)));
                }
            }
            if next.len() > MAX_VALUES {
                return Err(format!("{pointer}: more than {MAX_VALUES} values"));
            }
        }
        found = next;
    }
    found.retain(|(_, value)| value.get() != "null");
    Ok(found)
}

/// The value of one field of an object.
struct Field<'n>(&'n str);

/// All values of an object or a list, with their keys.
struct Each;

/// Whether a key is the one that is looked for.
struct IsKey<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_key) = map.next_key_seed(IsKey(self.0))? {
            if !is_key {
                map.next_value::<IgnoredAny>()?;
            } else if found.replace(map.next_value::<&RawValue>()?).is_some() {
                return Err(de::Error::custom(format_args!("the field {} is there twice", self.0)));
            }
        }
        Ok(found)
    }
}

impl<'de> DeserializeSeed<'de> for Each {
    type Value = Vec<(String, &'de RawValue)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Each {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a list or an object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element::<&RawValue>()? {
            values.push((values.len().to_string(), value));
            bounded(values.len())?;
        }
        Ok(values)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            values.push((escaped(&key), value));
            bounded(values.len())?;
        }
        Ok(values)
    }
}

fn bounded<E: de::Error>(values: usize) -> Result<(), E> {
    if values <= MAX_VALUES { Ok(()) } else { Err(E::custom(format_args!("more than {MAX_VALUES} values"))) }
}

impl<'de> DeserializeSeed<'de> for IsKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsKey<'_> {
    type Value = bool;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    use super::*;

    fn found(json: &Value, pointer: &str) -> Result<Vec<(String, String)>, String> {
        let raw = to_raw_value(json).unwrap();
        let found = values(&raw, &Pointer::parse(pointer).unwrap())?;
        Ok(found.into_iter().map(|(path, value)| (path, value.get().to_owned())).collect())
    }

    #[test]
    fn values_are_found_with_their_own_pointers() {
        let json =
            json!({"a": [{"b": 1}, {"b": null}, {}, {"b": 2}], "c/d": {"x": {"b": 3}, "y~": {"b": 4}}});
        let paths = |pointer| -> Vec<String> {
            found(&json, pointer)
                .unwrap()
                .into_iter()
                .map(|(path, value)| format!("{path}={value}"))
                .collect()
        };
        assert_eq!(paths("/a/*/b"), ["/a/0/b=1", "/a/3/b=2"]);
        assert_eq!(paths("/c~1d/*/b"), ["/c~1d/x/b=3", "/c~1d/y~0/b=4"]);
        assert_eq!(paths("/none/*/b"), [""; 0]);
    }

    #[test]
    fn a_value_of_another_type_is_an_error_with_its_place() {
        for (pointer, place) in [("/a/b", "/a: "), ("/a/*", "/a: "), ("/l/0/x", "/l: ")] {
            let error = found(&json!({"a": "text", "l": [1]}), pointer).unwrap_err();
            assert!(error.starts_with(place), "{pointer}: {error}");
        }
    }

    #[test]
    fn a_huge_list_is_one_error() {
        let list: Vec<u32> = vec![0; MAX_VALUES + 1];
        assert!(found(&json!({"l": list}), "/l/*").unwrap_err().contains("more than 1000 values"));
        // Lists in lists are bounded by their product.
        let lists = vec![vec![0; 100]; 11];
        assert!(found(&json!({"l": lists}), "/l/*/*").unwrap_err().contains("more than 1000 values"));
    }
}
