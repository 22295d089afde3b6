//! The numbers of a factor: a pointer to each, perhaps with a default and a bound.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use super::check::{MAX_ENTRIES, entries};
use super::pointer::Pointer;
use super::refusal::refused;

/// A number of a factor. One that a job does not have does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// Its place.
    pub pointer: Pointer,
    /// The number if there is none at that place.
    pub default: Option<u32>,
    /// The place of a number that it is not below.
    pub at_least: Option<Pointer>,
}

/// Factors, each of which has a number.
pub fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<Operand>>, D::Error> {
    let factors: Vec<Vec<Operand>> = entries(deserializer)?;
    let are_bounded = factors.iter().all(|factor| (1..=MAX_ENTRIES).contains(&factor.len()));
    if are_bounded { Ok(factors) } else { Err(refused("a factor without numbers", "1 to 16 pointers")) }
}

/// A pointer, or a pointer with a default and a bound.
impl<'de> Deserialize<'de> for Operand {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl<'de> Visitor<'de> for Written {
            type Value = Operand;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a pointer, or {pointer, default, atLeast}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Operand, E> {
                let pointer = Pointer::deserialize(StrDeserializer::new(text))?;
                single(Operand { pointer, default: None, at_least: None })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Operand, A::Error> {
                let Bounded { pointer, default, at_least } =
                    Bounded::deserialize(MapAccessDeserializer::new(map))?;
                single(Operand { pointer, default, at_least })
            }
        }
        deserializer.deserialize_any(Written)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Bounded {
    pointer: Pointer,
    #[serde(default)]
    default: Option<u32>,
    #[serde(default)]
    at_least: Option<Pointer>,
}

fn single<E: de::Error>(operand: Operand) -> Result<Operand, E> {
    let is_single = operand.at_least.iter().chain([&operand.pointer]).all(Pointer::is_single);
    if is_single { Ok(operand) } else { Err(refused("*", "a pointer to one number")) }
}
